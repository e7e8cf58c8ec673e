"""The table as compiled kernels read it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise.models.table import Table


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
