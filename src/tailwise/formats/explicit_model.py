"""Explicit models of the tools for probabilistic model checking, and the table of one: costs, goals, names, the start.

A step in state s with choice c costs the state reward of s, plus the reward of the choice, plus that
of the transition, as in Storm's cumulative rewards ``R [C<=H]``, plus what the user's rules add. Storm
merges updates that lead to one state; no two of those differ in reward, so no risk is lost. The exception
is JANI's rewards of single destinations, which Storm averages: they are refused, unless asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Bools, Floats, Ints, ranges, runs
from tailwise.errors import FormatError, ModelError, OptionError
from tailwise.formats.options import StormOptions, observed, settled
from tailwise.models import PomdpTable, TabularMDP

MOST_NAMES = 200_000  # beyond, names cost more memory than the table


@dataclass(frozen=True, eq=False, kw_only=True)
class ExplicitModel:
    """S states with C choices, from ``choice_offsets[s]`` on, which have n branches, from ``branch_offsets[c]`` on."""

    choice_offsets: Ints  # (S + 1,)
    branch_offsets: Ints  # (C + 1,)
    targets: NDArray[Any]  # (n,) whole numbers
    chances: Floats  # (n,)
    initial: Ints  # states
    labels: Mapping[str, Bools] = field(default_factory=dict)  # (S,) each
    rewards: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)  # of "states", "choices" and "branches"
    actions: Ints | None = None  # (C,) index of each choice's name
    action_names: tuple[str, ...] = ()
    variables: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # (S,) values of each
    goal: Bools | None = None  # (S,) where an expression holds that was asked for
    is_partial: bool = False  # whether the state is not seen
    observations: Ints | None = None  # (S,) what each state shows, where that is known
    notes: tuple[str, ...] = ()

    @property
    def num_states(self) -> int:
        """Number of states S."""
        return int(self.choice_offsets.size - 1)

    @property
    def choice_states(self) -> Ints:
        """State of each choice: int64, shape (C,)."""
        return np.repeat(np.arange(self.num_states), np.diff(self.choice_offsets))

    def branch_rewards(self, name: str, parts: Collection[str] = ()) -> Floats:
        """Return what each branch earns in a reward structure: float64, shape (n,); ``parts`` as in ``accumulate``."""
        rewards, per_choice = self.rewards[name], np.zeros(self.branch_offsets.size - 1)
        if "states" in rewards and (not parts or "exit" in parts):
            per_choice += rewards["states"][self.choice_states]
        if "choices" in rewards and (not parts or "steps" in parts):
            per_choice += rewards["choices"]
        values = np.repeat(per_choice, np.diff(self.branch_offsets))
        return values + rewards["branches"] if "branches" in rewards and (not parts or "steps" in parts) else values


def state_names(model: ExplicitModel) -> tuple[tuple[str, ...], str]:
    """Return the names of the states, ``x=1,!b {goal}``, of which no two are the same; and a note where none are."""
    count = model.num_states
    if count > MOST_NAMES:
        return (), f"{count} states: their names are left out (more than {MOST_NAMES})"
    parts = [_texts(name, values) for name, values in model.variables.items()]
    names = [",".join(fields) for fields in zip(*parts, strict=True)] if parts else list(map(str, range(count)))
    labels: dict[int, list[str]] = {}
    for label in sorted(model.labels):
        for state in np.flatnonzero(model.labels[label]).tolist():
            labels.setdefault(state, []).append(label)
    for state, found in labels.items():
        names[state] = f"{names[state]} {{{','.join(found)}}}"
    seen: set[str] = set()
    for state, name in enumerate(names):
        if name in seen:
            names[state] = f"{name} #{state}"
        seen.add(name)
    return tuple(names), ""


def _texts(name: str, values: NDArray[Any]) -> list[str]:
    """``x=3`` for numbers, ``b`` and ``!b`` for truth values."""
    if values.dtype.kind == "b":
        return [name if value else f"!{name}" for value in values.tolist()]
    distinct, index = np.unique(values, return_inverse=True)
    texts = [f"{name}={int(v) if isinstance(v, float) and v.is_integer() else v}" for v in distinct.tolist()]
    return [texts[k] for k in index.tolist()]


def action_ids(model: ExplicitModel) -> tuple[Ints, tuple[str, ...]]:
    """Return an action id for each choice, and their names, in order of appearance; one's second in a state has #2."""
    count = model.branch_offsets.size - 1
    names = [name or "choice" for name in model.action_names] or ["choice"]
    actions = np.zeros(count, dtype=np.int64) if model.actions is None else model.actions
    keys = model.choice_states * len(names) + actions
    order = np.argsort(keys, kind="stable")
    first = runs(keys[order])
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count) - np.repeat(first, np.diff(np.append(first, count)))
    _, entries, codes = np.unique(actions + rank * len(names), return_index=True, return_inverse=True)
    shown = [names[actions[k]] + (f" #{rank[k] + 1}" if rank[k] else "") for k in np.sort(entries).tolist()]
    return np.argsort(np.argsort(entries))[codes], tuple(shown)


def table_of_model(
    model: ExplicitModel,
    path: Path,
    options: StormOptions,
    averaged: frozenset[str] = frozenset(),
    counted_twice: frozenset[str] = frozenset(),
) -> TabularMDP | PomdpTable:
    """Build the table of a model."""
    is_hidden = model.observations is not None and options.observe is None
    as_seen = model.is_partial and not is_hidden
    notes = [*model.notes, *((observed(options.observe, f"{path}"),) if as_seen else ())]
    used = _structure(model, path, options)
    values = np.zeros(model.targets.size) if used is None else model.branch_rewards(used, options.accumulate)
    values += options.step_cost
    for label, cost in options.label_costs.items():
        values[_carries(model, path, label)[model.targets]] += cost
    done = np.zeros(model.targets.size, dtype=np.bool_)
    for label in options.until:
        done |= _carries(model, path, label)[model.targets]
    ends = np.diff(model.choice_offsets) == 0
    if ends.any():
        notes.append(f"{int(ends.sum())} states have no choices: entering one ends the episode")
        done |= ends[model.targets]
    names, names_note = state_names(model)
    start = _start(model, names, options.start, path)
    terminal = None
    if options.goal is not None:
        goal = _goal(model, path, options, start)
        goal_cost, miss_cost = _goal_costs(options, used, notes)
        if not goal.any():
            notes.append(f"the goal {options.goal!r} holds in none of the {model.num_states} states")
        reached = goal[model.targets]
        done |= reached
        values[reached] += goal_cost or 0.0
        terminal = np.where(goal, 0.0, miss_cost) if miss_cost else None
    elif used is None and not options.has_costs:
        notes.append("no reward structure: every cost is 0; say goal=, label_costs= or step_cost=")
    if used is not None and used in averaged:
        if not options.average_rewards:
            raise OptionError(
                f"{path}: the reward {used!r} differs between destinations of an edge, and Storm would average it, "
                "which hides risk; put it on edges or locations, or accept means with average_rewards=true"
            )
        notes.append(f"the reward {used!r} is averaged over the destinations of an edge: exact at beta = 0 only")
    if used in counted_twice and not options.accumulate:
        raise OptionError(
            f"{path}: the reward {used!r} has an initial value that is not 0, which states have, and steps that assign "
            "no other; JANI leaves it to a property which of them count: say accumulate=steps, exit or steps,exit"
        )
    if used is not None:
        word = "costs, to be minimised" if options.sense == "cost" else "rewards, to be maximised"
        notes.append(f"reward structure {used!r} read as {word}; say sense= for the other")
    stuck = int(model.labels["deadlock"].sum()) if "deadlock" in model.labels else 0
    if stuck:
        notes.append(f"{stuck} deadlock states loop on themselves, as Storm builds them")
    horizon, discount = settled(options.horizon, 1.0 if options.discount is None else options.discount, notes)
    notes += [names_note] if names_note else []
    actions, action_names = action_ids(model)
    is_cost = options.sense == "cost"
    per_choice = np.diff(model.branch_offsets)
    columns = [
        np.repeat(model.choice_states.astype(np.int32), per_choice), np.repeat(actions.astype(np.int32), per_choice),
        model.targets, model.chances, values, done,
    ]  # fmt: skip
    if is_hidden:
        columns = _everywhere(model, actions, columns, path)
    states, ids, targets, chances, paid, ends = columns
    described: dict[str, Any] = {
        "costs" if is_cost else "rewards": paid, "terminal_costs" if is_cost else "terminal_rewards": terminal,
        "done": ends, "num_states": model.num_states, "horizon": horizon,
        "discount": discount, "start": start, "state_labels": names,
        "action_labels": action_names, "name": path.name, "notes": notes,
    }  # fmt: skip
    try:
        if is_hidden:
            assert model.observations is not None
            return PomdpTable.from_outcomes(states, ids, targets, model.observations[targets], chances, **described)
        return TabularMDP.from_outcomes(states, ids, targets, chances, **described)
    except ModelError as error:
        raise FormatError(f"{path}: {error}") from None


def _everywhere(model: ExplicitModel, actions: Ints, columns: list[NDArray[Any]], path: Path) -> list[NDArray[Any]]:
    """Return outcomes with each action allowed in each unseen state: one that is not does what its first one does."""
    assert model.observations is not None
    size, count, choices = model.num_states, int(actions.max()) + 1, np.arange(actions.size)
    allowed = np.full((size, count), -1)
    allowed[model.choice_states[::-1], actions[::-1]] = choices[::-1]
    acts = np.diff(model.choice_offsets) > 0
    has = np.unique(np.column_stack([model.observations, allowed >= 0])[acts], axis=0)
    if np.unique(has[:, 0]).size != len(has):
        shown = has[np.flatnonzero(has[1:, 0] == has[:-1, 0])[0], 0]
        raise FormatError(f"{path}: states that show the same, observation {shown}, allow different actions")
    stuck = np.flatnonzero(~acts)
    first = np.minimum(model.choice_offsets[:-1], max(0, actions.size - 1))
    states, ids = np.nonzero((allowed < 0) & acts[:, None])
    _, owners, branches = ranges(model.branch_offsets[first[states]], model.branch_offsets[first[states] + 1])
    more = [states[owners], ids[owners], *(column[branches] for column in columns[2:])]
    ending = np.repeat(stuck, count)
    ends = [
        ending, np.tile(np.arange(count), stuck.size), ending, np.ones(ending.size), np.zeros(ending.size),
        np.ones(ending.size, np.bool_),
    ]  # fmt: skip
    return [np.concatenate(parts) for parts in zip(columns, more, ends, strict=True)]


def _structure(model: ExplicitModel, path: Path, options: StormOptions) -> str | None:
    """Name of the reward structure to use, or None."""
    name, structures = options.reward, model.rewards
    if name is None and not options.has_costs:
        if len(structures) > 1:
            raise OptionError(f"{path}: it has several reward structures; say reward= one of {_list(structures)}")
        name = next(iter(structures), None)
    if name is not None and name not in structures:
        raise OptionError(f"{path}: it has no reward structure {name!r}; it has {_list(structures)}")
    return name


def _goal(model: ExplicitModel, path: Path, options: StormOptions, start: int) -> Bools:
    """Which states are the goal; the start is none of them."""
    label = str(options.goal).strip().strip('"')
    goal = _carries(model, path, label, "goal= takes one here") if model.goal is None else model.goal
    if goal[start]:
        raise OptionError(
            f"{path}: the start state is a goal state already (goal={options.goal!r}); say another start="
        )
    return goal


def _goal_costs(options: StormOptions, used: str | None, notes: list[str]) -> tuple[float | None, float | None]:
    """What reaching the goal costs, and what missing it does."""
    if used is not None or options.has_costs:
        return options.goal_cost, options.miss_cost
    is_cost = options.sense == "cost"
    what = "missing the goal within the horizon costs 1" if is_cost else "reaching the goal earns 1"
    notes.append(f"{what}: at beta = 0 the value is a probability; say goal_cost=, miss_cost= or reward=")
    return (None, 1.0) if is_cost else (1.0, None)


def _start(model: ExplicitModel, names: tuple[str, ...], given: int | str | None, path: Path) -> int:
    """Return the start state: the model's own, or the one that the user names."""
    if given is None:
        if model.initial.size != 1:
            shown = "; ".join(f"{k}: {names[k]}" if names else str(k) for k in model.initial[:5].tolist()) or "none"
            shown += "; ..." if model.initial.size > 5 else ""
            raise FormatError(f"{path}: it has {model.initial.size} initial states ({shown}); say start= one of them")
        return int(model.initial[0])
    text = str(given)
    is_index = text.isascii() and text.isdigit() and len(text) < 18 and int(text) < model.num_states
    if text in names:
        return names.index(text)
    bare = [state for state, name in enumerate(names) if name.partition(" {")[0] == text] if not is_index else []
    if len(bare) == 1:
        return bare[0]
    if text in model.labels:
        carriers = np.flatnonzero(model.labels[text])
        if carriers.size == 1:
            return int(carriers[0])
        if carriers.size or not is_index:  # a label that no state carries hides no state's number
            raise OptionError(f"{path}: start={text!r} is a label of {carriers.size} states; expected one")
    if is_index:
        return int(text)
    raise OptionError(f"{path}: start={text!r} is neither a state (0..{model.num_states - 1}, or its name) nor a label")


def _carries(model: ExplicitModel, path: Path, label: str, hint: str = "") -> Bools:
    """Which states carry a label."""
    if label not in model.labels:
        tail = f" ({hint})" if hint else ""
        raise OptionError(f"{path}: no state label {label!r}; labels are {_list(model.labels)}{tail}")
    return model.labels[label]


def _list(names: Any) -> str:
    return ", ".join(map(repr, sorted(names))) or "none"
