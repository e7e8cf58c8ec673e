"""The arrays of a table, and what can be read straight off them.

State ``s`` owns the rows ``action_offsets[s]`` to ``action_offsets[s + 1]``, one per allowed action; row ``r`` owns the
outcomes ``outcome_offsets[r]`` to ``outcome_offsets[r + 1]``. Two outcomes with the same next state and different
costs stay two: merging them keeps the mean and falsifies every other risk.

Inside, everything is a *loss*, which is minimised: a cost, or minus a reward. Whatever a user passes or is
shown is in the model's own sense; the arrays of losses are for those who compute with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints
from tailwise.errors import ModelError
from tailwise.models.contract import Sense

ARRAYS = {
    "action_offsets": np.int64, "action_ids": np.int64, "outcome_offsets": np.int64, "probabilities": np.float64,
    "next_states": np.int32, "losses": np.float64, "done": np.bool_, "step_losses": np.float64,
    "terminal_losses": np.float64,
}  # fmt: skip

Loss = TypeVar("Loss", float, Floats)


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """The data of a :class:`tailwise.TabularMDP`, which says what each field is.

    The arrays are read-only and the table's own: one that can be written to, here or elsewhere, is copied.
    """

    is_shareable = True  # threads may use it at a time: it keeps nothing of a step

    action_offsets: Ints
    action_ids: Ints
    outcome_offsets: Ints
    probabilities: Floats
    next_states: NDArray[np.int32]
    losses: Floats
    done: NDArray[np.bool_]
    step_losses: Floats
    terminal_losses: Floats
    horizon: Any  # int, or None: no horizon
    discount: float
    start: int
    sense: Sense = "cost"
    state_labels: tuple[str, ...] = ()
    action_labels: tuple[str, ...] = ()
    name: str = "table"
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for name, kind in ARRAYS.items():
            try:
                array: NDArray[Any] = np.asarray(getattr(self, name), dtype=kind, order="C")
            except (TypeError, ValueError) as error:
                raise ModelError(f"{name} of {self.name} must be an array of {kind.__name__}: {error}") from None
            if array.flags.writeable or not array.flags.owndata:
                array = array.copy()
                array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def num_states(self) -> int:
        """Number of states S."""
        return int(self.action_offsets.size - 1)

    @cached_property
    def num_actions(self) -> int:
        """Number of action ids A (the largest id plus 1)."""
        return max(int(self.action_ids.max(initial=-1)) + 1, len(self.action_labels))

    @property
    def num_rows(self) -> int:
        """Number of (state, action) pairs."""
        return int(self.action_ids.size)

    @property
    def num_outcomes(self) -> int:
        """Number of outcomes."""
        return int(self.probabilities.size)

    @cached_property
    def row_states(self) -> Ints:
        """State of each row: int64, shape (rows,)."""
        return np.repeat(np.arange(self.num_states), np.diff(self.action_offsets))

    def rows_of(self, actions: NDArray[np.integer], states: Any = None) -> Ints:
        """Return the rows of action ids in states, by default (..., S) in all: int64; -1 where they are not allowed."""
        states = np.arange(self.num_states) if states is None else states
        index = np.full((self.num_states, self.num_actions + 1), -1, dtype=np.int64)
        index[self.row_states, self.action_ids] = np.arange(self.num_rows)
        known = (actions >= 0) & (actions < self.num_actions)
        return np.asarray(index[states, np.where(known, actions, -1)])

    @property
    def outcome_rows(self) -> Ints:
        """Row of each outcome: int64, shape (outcomes,)."""
        return np.repeat(np.arange(self.num_rows), np.diff(self.outcome_offsets))

    def losses_at(self, h: int, outcomes: Any = slice(None), rows: Any = None) -> Floats:
        """Return the losses at step ``h`` of outcomes and their ``rows``: of all where none are given."""
        losses: Floats = self.losses[outcomes]
        if self.step_losses.size:
            losses = losses + self.step_losses[h, self.outcome_rows if rows is None else rows]
        return losses

    @cached_property
    def shared_losses(self) -> Floats:
        """Loss of each row whose outcomes all go on at one loss, NaN of the others: float64, shape (rows,)."""
        first = self.outcome_offsets[:-1]
        differs = np.append(self.losses[1:] != self.losses[:-1], False)
        differs[first[1:] - 1] = False  # the last outcome of a row beside the first of the next
        if self.done.any():
            differs |= self.done
        shared = self.losses[first]
        shared[np.logical_or.reduceat(differs, first)] = np.nan
        return shared

    def signed(self, loss: Loss) -> Loss:
        """Turn losses into the model's own sense, or back: costs stay, rewards are negated."""
        return loss if self.sense == "cost" else 0.0 - loss

    def state_name(self, state: int) -> str:
        """Return the label of ``state``, or its index as text."""
        return self.state_labels[state] if self.state_labels else str(state)

    def action_name(self, action: int) -> str:
        """Return the label of ``action``, or its id as text."""
        return self.action_labels[action] if self.action_labels else str(action)


class TableData(NamedTuple):
    """Flat arrays of a table; S states, R rows (state-action pairs), O outcomes.

    Invariant: within a row ``cumulative`` increases and ends in exactly 1.0, so that the first
    outcome whose entry exceeds a draw from [0, 1) always exists.
    """

    action_offsets: NDArray[np.int64]  # (S + 1,)
    outcome_offsets: NDArray[np.int64]  # (R + 1,)
    cumulative: NDArray[np.float64]  # (O,)
    losses: NDArray[np.float64]  # (O,)
    targets: NDArray[np.int64]  # (O,) next state, or -1 - next state where the episode ends
    step_losses: NDArray[np.float64]  # (H, R), or (0, 0) where losses do not depend on the step
    terminal_losses: NDArray[np.float64]  # (S,)

    def drawn(self, row: int, draw: Callable[[], float]) -> int:
        """Return an outcome of a row by a draw from [0, 1); a certain one draws nothing, as in the kernels."""
        first, last = int(self.outcome_offsets[row]), int(self.outcome_offsets[row + 1])
        several = last - first > 1
        return first + int(np.searchsorted(self.cumulative[first:last], draw(), side="right")) if several else first

    @classmethod
    def build(cls, mdp: Table) -> TableData:
        """Copy the arrays of ``mdp`` into the kernels' layout (numba would compile anew for read-only ones)."""
        cumulative = _running_sums(mdp.outcome_offsets, mdp.probabilities)
        np.minimum(cumulative, 1.0, out=cumulative)
        cumulative[mdp.outcome_offsets[1:] - 1] = 1.0
        targets = mdp.next_states.astype(np.int64)
        targets[mdp.done] = -1 - targets[mdp.done]
        return cls(
            mdp.action_offsets.copy(), mdp.outcome_offsets.copy(), cumulative, mdp.losses.copy(), targets,
            mdp.step_losses.copy(), mdp.terminal_losses.copy(),
        )  # fmt: skip


def _running_sums(offsets: NDArray[np.int64], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Running sums within each row; one sum over all rows would drift."""
    lengths = np.diff(offsets)
    longest_first = np.argsort(-lengths, kind="stable")
    firsts, result = offsets[:-1][longest_first], probabilities.copy()
    reach = np.searchsorted(-lengths[longest_first], -np.arange(1, lengths.max(initial=1)), side="left")
    for column, count in enumerate(reach.tolist(), start=1):  # the rows that have this column come first
        index = firsts[:count] + column
        result[index] += result[index - 1]
    return result
