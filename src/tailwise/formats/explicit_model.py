"""A model as states, choices and branches: what Storm builds and explicit files hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MOST_NAMES = 200_000  # beyond, names cost more memory than the table


@dataclass(frozen=True, eq=False, kw_only=True)
class Rewards:
    """One reward structure; a step earns the sum of what stands at its state, choice and branch."""

    states: Floats | None = None  # (S,)
    choices: Floats | None = None  # (C,)
    branches: Floats | None = None  # (n,)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExplicitModel:
    """S states with C choices, which have n branches.

    State ``s`` owns the choices ``choice_offsets[s]`` to ``choice_offsets[s + 1]``, choice ``c`` the branches
    ``branch_offsets[c]`` to ``branch_offsets[c + 1]``.
    """

    choice_offsets: Ints  # (S + 1,)
    branch_offsets: Ints  # (C + 1,)
    targets: NDArray[Any]  # (n,) whole numbers
    chances: Floats  # (n,)
    initial: Ints  # states
    labels: Mapping[str, Bools] = field(default_factory=dict)  # (S,) each
    rewards: Mapping[str, Rewards] = field(default_factory=dict)
    actions: Ints | None = None  # (C,) index of each choice's name
    action_names: tuple[str, ...] = ()
    variables: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # (S,) values of each
    goal: Bools | None = None  # (S,) where an expression holds that was asked for
    is_partial: bool = False  # whether observations are left out
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
        if rewards.states is not None and (not parts or "exit" in parts):
            per_choice += rewards.states[self.choice_states]
        if rewards.choices is not None and (not parts or "steps" in parts):
            per_choice += rewards.choices
        values = np.repeat(per_choice, np.diff(self.branch_offsets))
        return values if rewards.branches is None or (parts and "steps" not in parts) else values + rewards.branches


def state_names(model: ExplicitModel) -> tuple[tuple[str, ...], str]:
    """Return the names of the states, and a note where there are none.

    A name is the values of the state's variables (or its index), and its labels in braces:
    ``x=1,!b {goal}``. Names differ.
    """
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
    """Return an action id for each choice, and the actions' names.

    Choices with the same name share an id; a name that a state has twice is told apart by ``#2``,
    and choices without a name are called ``choice``.
    """
    count = model.branch_offsets.size - 1
    names = [name or "choice" for name in model.action_names] or ["choice"]
    actions = np.zeros(count, dtype=np.int64) if model.actions is None else model.actions
    keys = model.choice_states * len(names) + actions
    order = np.argsort(keys, kind="stable")
    starts = np.concatenate(([True], np.diff(keys[order]) != 0))
    first = np.flatnonzero(starts)
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count) - first[np.cumsum(starts) - 1]
    codes = actions + rank * len(names)
    appears = np.full(int(codes.max()) + 1, count)
    appears[codes[::-1]] = np.arange(count - 1, -1, -1)  # the last one written is the first one to appear
    entries = np.sort(appears[appears < count])
    position = np.empty(appears.size, dtype=np.int64)
    position[codes[entries]] = np.arange(entries.size)
    shown = [names[actions[k]] + (f" #{rank[k] + 1}" if rank[k] else "") for k in entries.tolist()]
    return position[codes], tuple(shown)
