"""The table as compiled kernels read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tailwise.models.tabular import TabularMDP


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

    @classmethod
    def build(cls, mdp: TabularMDP) -> TableData:
        """Copy the arrays of ``mdp`` into the kernels' layout."""
        offsets = mdp.outcome_offsets
        running = np.cumsum(mdp.probabilities)
        before = np.concatenate(([0.0], running))[offsets[:-1]]
        cumulative = running - np.repeat(before, np.diff(offsets))
        np.minimum(cumulative, 1.0, out=cumulative)
        if mdp.num_outcomes > 100_000:  # long running sums drift: redo them row by row
            _row_sums(offsets, mdp.probabilities, cumulative)
        cumulative[offsets[1:] - 1] = 1.0
        targets = mdp.next_states.astype(np.int64)
        targets[mdp.done] = -1 - targets[mdp.done]
        return cls(
            mdp.action_offsets.copy(),
            offsets.copy(),
            cumulative,
            mdp.losses.copy(),
            targets,
            np.ascontiguousarray(mdp.step_losses).copy(),
            mdp.terminal_losses.copy(),
        )


def _row_sums(offsets: NDArray[np.int64], probabilities: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    lengths = np.diff(offsets)
    total = np.zeros(lengths.size)
    for column in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > column)
        index = offsets[rows] + column
        total[rows] += probabilities[index]
        out[index] = np.minimum(total[rows], 1.0)
