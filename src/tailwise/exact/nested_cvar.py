r"""Nested (iterated) CVaR: a CVaR of what follows, taken again at every step, exact on tables.

    V_H(s) = c_H(s)
    V_h(s) = min over a of CVaR_level(c_h(s, a, s') + discount V_{h+1}(s'))

This is another objective than the CVaR of the total (:mod:`tailwise.exact.cvar`). It is consistent over time: the
plan depends on state and step alone, and planning again later finds the same. The price is that a tail of tails is hard
to read, and grows pessimistic with the horizon: it is at least the static CVaR and at most the worst case. What other
risk-averse planners offer as "risk-averse dynamic programming" is often this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    with followed(progress, "solving", horizon) as tick:
        for h in range(horizon - 1, -1, -1):
            later = np.where(mdp.done, 0.0, mdp.discount * values[h + 1, mdp.next_states])
            totals = mdp.losses + later
            if mdp.step_losses.size:
                totals = totals + mdp.step_losses[h, owners]
            risks = _tail_means(totals, mdp.probabilities, owners, mdp.outcome_offsets[:-1], tail)
            best = np.minimum.reduceat(risks, starts)
            values[h, deciding] = best
            finite = np.where(np.isfinite(best), best, 0.0)
            close = risks <= np.repeat(
                best + TIE_TOLERANCE * np.maximum(1.0, np.abs(finite)), np.diff(np.append(starts, risks.size))
            )
            first = np.flatnonzero(close)
            policy[h, deciding] = mdp.action_ids[first[np.searchsorted(first, starts)]]
            if tick is not None:
                tick(horizon - h)
    return NestedCvarSolution(mdp, level, np.asarray(mdp.signed(values)), policy)


def _tail_means(
    totals: Floats, probabilities: Floats, owners: NDArray[np.int64], starts: NDArray[np.int64], tail: float
) -> Floats:
    """Return the mean of the worst ``tail`` of each row's outcomes."""
    order = np.lexsort((-totals, owners))  # rows stay together, the worst outcome of each first
    weights = probabilities[order]
    running = np.cumsum(weights)
    before = running - weights
    before = before - np.repeat(before[starts], np.diff(np.append(starts, totals.size)))
    taken = np.clip(tail - before, 0.0, weights)
    worst = totals[order]
    parts = np.where(taken > 0.0, taken * np.where(taken > 0.0, worst, 0.0), 0.0)
    return np.asarray(np.add.reduceat(parts, starts) / np.add.reduceat(taken, starts))
