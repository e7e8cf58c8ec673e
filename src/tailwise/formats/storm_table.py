"""From Storm's sparse model to a table.

A step in state s with choice c costs the state reward of s, plus the reward of the choice, plus that
of the transition, as in Storm's cumulative rewards ``R [C<=H]``, plus what the user's rules add. Storm
merges updates that lead to one state; no two of those differ in reward, so no risk is lost. The exception
is JANI's rewards of single destinations, which Storm averages: they are refused, unless asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import FormatError, ModelError, OptionError
from tailwise.formats.jani_rewards import averaged_rewards
from tailwise.formats.list_options import DEFAULT_HORIZON
from tailwise.formats.progress import ProgressLine
from tailwise.formats.storm_build import build
from tailwise.formats.storm_names import choice_names, find_start, state_names
from tailwise.formats.storm_options import StormOptions
from tailwise.models import TabularMDP

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_KINDS = ("DTMC", "MDP", "POMDP")


class Matrix(NamedTuple):
    """Storm's transition matrix as arrays."""

    rows_of_state: Ints  # (S + 1,) first row of each state
    entries_of_row: Ints  # (R + 1,) first entry of each row
    targets: Ints  # (n,)
    chances: Floats  # (n,)


def read_storm(kind: str, path: Path, options: StormOptions) -> TabularMDP:
    """Read a PRISM, JANI, DRN or explicit model through Storm (extra ``prism``).

    Parameters
    ----------
    kind : "prism", "jani", "drn" or "tra"
        The language.
    path : Path
        The file.
    options : StormOptions
        The user's options.

    Returns
    -------
    TabularMDP
        States are named by their variables and labels, actions by their names in the file.

    Raises
    ------
    FormatError
        If Storm cannot read the file, or it is no discrete-time model.
    OptionError
        If constants, labels, reward structure or start do not fit the model.
    MissingExtraError
        If stormpy is not installed.
    """
    with ProgressLine(f"building {path.name} with Storm", show=options.progress) as line:
        model, notes = build(kind, path, options)
        model_kind = model.model_type.name
        if model_kind not in _KINDS:
            raise FormatError(f"{path}: it is a {model_kind}; expected one of {', '.join(_KINDS)} (discrete time)")
        if not model.supports_parameters and model.has_parameters:
            raise FormatError(f"{path}: it has parameters; give them values")
        line.say(f"reading {model.nr_states} states and {model.nr_transitions} transitions of {path.name}")
        averaged = averaged_rewards(path) if kind == "jani" else frozenset()
        return _table(model, path, options, [*notes], averaged, is_partial=model_kind == "POMDP")


def _table(
    model: Any,
    path: Path,
    options: StormOptions,
    notes: list[str],
    averaged: frozenset[str],
    *,
    is_partial: bool,
) -> TabularMDP:
    matrix = _matrix(model)
    per_row = np.diff(matrix.entries_of_row)
    states_of_row = np.repeat(np.arange(model.nr_states), np.diff(matrix.rows_of_state))
    values, used = _structure(model, path, options, matrix, states_of_row)
    values += options.step_cost
    for label, cost in options.costs_by_label.items():
        values[_carries(model, path, label)[matrix.targets]] += cost
    done = np.zeros(matrix.targets.size, dtype=np.bool_)
    for label in options.until:
        done |= _carries(model, path, label)[matrix.targets]
    if used is None and not options.costs_by_label and not options.step_cost:
        notes.append("no reward structure: every cost is 0; say label_costs= or step_cost=")
    if used is not None and used in averaged:
        if not options.average_rewards:
            raise OptionError(
                f"{path}: the reward {used!r} differs between destinations of an edge, and Storm would average it, "
                "which hides risk; put it on edges or locations, or accept means with average_rewards=true"
            )
        notes.append(f"the reward {used!r} is averaged over the destinations of an edge: exact at beta = 0 only")
    if used is not None:
        word = "costs, to be minimised" if options.sense == "cost" else "rewards, to be maximised"
        notes.append(f"reward structure {used!r} read as {word}; say sense= for the other")
    if is_partial:
        notes.append("a POMDP, read as the MDP behind it: plans assume that the state is seen")
    stuck = model.labeling.get_states("deadlock").get_number_of_set_bits() if _has(model, "deadlock") else 0
    if stuck:
        notes.append(f"{stuck} deadlock states loop on themselves, as Storm builds them")
    horizon = options.horizon
    if horizon is None:
        horizon = DEFAULT_HORIZON
        notes.append(f"the file gives no horizon; {DEFAULT_HORIZON} is assumed; say horizon=")
    names, names_note = state_names(model)
    notes += [names_note] if names_note else []
    actions, action_names = choice_names(model, matrix.rows_of_state)
    is_cost = options.sense == "cost"
    try:
        return TabularMDP.from_outcomes(
            np.repeat(states_of_row, per_row), np.repeat(actions, per_row), matrix.targets, matrix.chances,
            costs=values if is_cost else None, rewards=None if is_cost else values, done=done,
            num_states=model.nr_states, horizon=horizon,
            discount=1.0 if options.discount is None else options.discount,
            start=find_start(model, names, options.start, path), state_labels=names,
            action_labels=action_names, name=path.name, notes=notes,
        )  # fmt: skip
    except ModelError as error:
        raise FormatError(f"{path}: {error}") from None


def _matrix(model: Any) -> Matrix:
    source = model.transition_matrix
    rows = source.nr_rows
    lengths = np.fromiter((len(source.get_row(row)) for row in range(rows)), dtype=np.int64, count=rows)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    targets = np.empty(int(offsets[-1]), dtype=np.int64)
    chances = np.empty(targets.size, dtype=np.float64)
    for index, entry in enumerate(source.row_iter(0, rows - 1)):
        targets[index], chances[index] = entry.column, entry.value
    if model.is_nondeterministic_model:
        groups = np.array(model.nondeterministic_choice_indices, dtype=np.int64)
    else:
        groups = np.arange(model.nr_states + 1, dtype=np.int64)
    return Matrix(groups, offsets, targets, chances)


def _structure(
    model: Any, path: Path, options: StormOptions, matrix: Matrix, states_of_row: Ints
) -> tuple[Floats, str | None]:
    """Values of the chosen reward structure for every entry, and its name."""
    structures = dict(model.reward_models)
    name = options.reward
    has_rule = bool(options.costs_by_label) or options.step_cost != 0.0
    if name is None and not has_rule and len(structures) == 1:
        name = next(iter(structures))
    if name is None:
        if len(structures) > 1 and not has_rule:
            raise OptionError(f"{path}: it has several reward structures; say reward= one of {_list(structures)}")
        return np.zeros(matrix.targets.size), None
    if name not in structures:
        raise OptionError(f"{path}: it has no reward structure {name!r}; it has {_list(structures)}")
    structure = structures[name]
    per_row = np.zeros(states_of_row.size)
    if structure.has_state_rewards:
        per_row += np.array(structure.state_rewards, dtype=np.float64)[states_of_row]
    if structure.has_state_action_rewards:
        per_row += np.array(structure.state_action_rewards, dtype=np.float64)
    values = np.repeat(per_row, np.diff(matrix.entries_of_row))
    if structure.has_transition_rewards:
        rewards = structure.transition_rewards  # rows refer to it: it must stay alive
        for row in range(rewards.nr_rows):
            first, last = matrix.entries_of_row[row : row + 2]
            for entry in rewards.get_row(row):
                values[first:last][matrix.targets[first:last] == entry.column] += entry.value
    return values, name


def _has(model: Any, label: str) -> bool:
    return bool(model.labeling.contains_label(label))


def _carries(model: Any, path: Path, label: str) -> Bools:
    """Which states carry a label."""
    if not _has(model, label):
        raise OptionError(f"{path}: no state label {label!r}; labels are {_list(model.labeling.get_labels())}")
    marked = np.zeros(model.nr_states, dtype=np.bool_)
    marked[list(model.labeling.get_states(label))] = True
    return marked


def _list(names: Any) -> str:
    return ", ".join(map(repr, sorted(names))) or "none"
