r"""Nested (iterated) CVaR: a CVaR of what follows, taken again at every step, exact on tables.

    V_H(s) = c_H(s)
    V_h(s) = min over a of CVaR_level(c_h(s, a, s') + discount V_{h+1}(s'))

This is another objective than the CVaR of the total (:mod:`tailwise.exact.cvar`). It is consistent over time: the
plan depends on state and step alone, and planning again later finds the same. The price is that a tail of tails is hard
to read. Of one plan it is at least the mean and at most the worst case, and grows with the horizon. It is often above
the static CVaR, but not always: if .1 of the outcomes cost 5, and .01 of the others 100, it is 10 at level .9 (of the
others alone), and the CVaR of the total 13.55 (of both together). What other risk-averse planners offer as "risk-averse
dynamic programming" is often this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import kernel
from tailwise._progress import Progress, followed
from tailwise.errors import StateError
from tailwise.exact.backward_induction import TIE_TOLERANCE
from tailwise.exact.evar import check_level, check_table
from tailwise.models import TabularMDP

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NestedCvarSolution:
    """The optimum of nested CVaR. All numbers are in the model's own sense.

    Attributes
    ----------
    mdp : TabularMDP
        The problem.
    level : float
        Share of outcomes that are not the tail, at each step.
    values : ndarray of float64, shape (H + 1, S)
        Optimal nested risk-to-go; +inf (costs) or -inf (rewards) where no action is allowed.
    policy : ndarray of int32, shape (H, S)
        Optimal action id, the lowest of those that tie; -1 where no action is allowed.
    """

    mdp: TabularMDP
    level: float
    values: Floats
    policy: NDArray[np.int32]

    @property
    def value(self) -> float:
        """Nested risk of the whole episode, from the start."""
        return float(self.values[0, self.mdp.start])

    @property
    def action(self) -> int:
        """First action, from the start state."""
        return int(self.policy[0, self.mdp.start])

    def act(self, state: int, h: int) -> int:
        """Return the optimal action id in ``state`` at step ``h``."""
        if not (0 <= h < self.mdp.horizon and 0 <= state < self.mdp.num_states):
            raise StateError(f"step {h!r} or state {state!r} is outside the table")
        return int(self.policy[h, state])


def nested_cvar_planning(mdp: TabularMDP, level: float, *, progress: Progress = None) -> NestedCvarSolution:
    """Solve a table exactly for nested CVaR.

    Parameters
    ----------
    mdp : TabularMDP
        The problem.
    level : float in (0, 1)
        Share of outcomes that are not the tail, at each step.
    progress : bool or callable, optional
        True shows a bar; a function is called with (steps done, of how many).

    Returns
    -------
    NestedCvarSolution
        Values and policy for every step and state.

    Raises
    ------
    OptionError
        If ``level`` is not inside (0, 1).
    ModelError
        If ``mdp`` is no table.

    Notes
    -----
    O(H * outcomes * log outcomes).

    Examples
    --------
    >>> from tailwise import domains, nested_cvar_planning
    >>> mdp = domains.make("grid-mdp")
    >>> [mdp.action_name(nested_cvar_planning(mdp, level).action) for level in (0.5, 0.8)]
    ['up', 'right']
    """
    check_table(mdp, "nested_cvar_planning")
    tail = 1.0 - check_level(level)
    mdp.require_sound()
    horizon, size = mdp.horizon, mdp.num_states
    values = np.full((horizon + 1, size), np.inf)
    values[horizon] = mdp.terminal_losses
    policy = np.full((horizon, size), -1, dtype=np.int32)
    deciding = np.flatnonzero(np.diff(mdp.action_offsets))
    starts = mdp.action_offsets[deciding]
    owners = np.repeat(np.arange(mdp.num_rows), np.diff(mdp.outcome_offsets))
    risks, parts = np.empty(mdp.num_rows), np.empty(mdp.num_rows)
    sizes = np.abs(mdp.terminal_losses)
    with followed(progress, "solving", horizon) as tick:
        for h in range(horizon - 1, -1, -1):
            later = np.where(mdp.done, 0.0, mdp.discount * values[h + 1, mdp.next_states])
            totals = mdp.losses + later
            if mdp.step_losses.size:
                totals = totals + mdp.step_losses[h, owners]
            added = np.abs(totals - later) + np.where(mdp.done, 0.0, mdp.discount * sizes[mdp.next_states])
            order = np.lexsort((-totals, owners))  # rows stay together, the worst outcome of each first
            _tail_means(totals[order], mdp.probabilities[order], added[order], mdp.outcome_offsets, tail, risks, parts)
            best = np.minimum.reduceat(risks, starts)
            values[h, deciding] = best
            widths = np.diff(np.append(starts, risks.size))
            at = np.flatnonzero(risks == np.repeat(best, widths))
            most = parts[at[np.searchsorted(at, starts)]]
            sizes = np.zeros(mdp.num_states)
            sizes[deciding] = np.where(np.isfinite(best), np.maximum(most, np.abs(best)), 0.0)
            first = np.flatnonzero(risks <= np.repeat(best + TIE_TOLERANCE * sizes[deciding], widths))
            policy[h, deciding] = mdp.action_ids[first[np.searchsorted(first, starts)]]
            if tick is not None:
                tick(horizon - h)
    return NestedCvarSolution(mdp, level, np.asarray(mdp.signed(values)), policy)


@kernel
def _tail_means(totals, probabilities, sizes, offsets, tail, risks, parts):  # type: ignore[no-untyped-def]
    """Write the mean of the worst ``tail`` of each row's outcomes, worst first, and the size of what it adds up."""
    for row in range(risks.size):
        left, taken, total, size = tail, 0.0, 0.0, 0.0
        for k in range(offsets[row], offsets[row + 1]):
            part = min(left, probabilities[k])
            if part <= 0.0:
                break
            total += part * totals[k]
            size += part * sizes[k]
            taken += part
            left -= part
        risks[row], parts[row] = total / taken, size / taken
