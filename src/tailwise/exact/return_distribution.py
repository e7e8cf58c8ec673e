"""The exact law of the total of a fixed policy on a table.

A forward pass over pairs (state, accrued discounted cost): from ``{(start, 0): 1}``, each step sends every
pair to its outcomes and adds up the probability of equal ones. Pairs are merged only where their
accrued costs agree to the last bit, or within a tolerance that the caller states. The number of
pairs can grow exponentially with the horizon (it does when costs are in general position), hence the limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._csr import ranges
from tailwise._validate import integer, real
from tailwise.errors import OptionError, StateError
from tailwise.exact.grid_totals import GridTotals
from tailwise.exact.policies import policy_chances, policy_rows
from tailwise.models import TabularMDP
from tailwise.risk.distribution import Floats, ReturnDistribution

MAX_ATOMS = 5_000_000


def cost_distribution(
    mdp: TabularMDP,
    policy: Any,
    *,
    tolerance: float = 0.0,
    max_atoms: int = MAX_ATOMS,
) -> ReturnDistribution:
    """Return the exact law of the discounted total of a fixed policy.

    Parameters
    ----------
    mdp : TabularMDP
        The table.
    policy : Solution, object with ``act(state, h)``, or array_like
        Action ids of shape (S,) or (H, S), or probabilities of shape (H, S, A).
    tolerance : float, default 0.0
        Merge totals that are close; none moves by more than this in all. 0 merges equal ones only.
    max_atoms : int, default 5,000,000
        Give up beyond so many pairs (state, accrued cost).

    Returns
    -------
    ReturnDistribution

    Raises
    ------
    OptionError
        If there are more than ``max_atoms`` pairs.
    StateError
        If the policy has no action in a state that it reaches.

    Examples
    --------
    >>> from tailwise import backward_induction, domains
    >>> from tailwise.exact import cost_distribution
    >>> mdp = domains.make("grid-mdp")
    >>> law = cost_distribution(mdp, backward_induction(mdp, beta=0.1))
    >>> law.atoms, round(law.mean, 6), round(law.erm(0.1), 6)
    (2, 8.038962, 9.711821)
    """
    chances = policy_chances(mdp, policy)
    slack = real(tolerance, "tolerance", low=0.0) / (mdp.horizon + 1)
    limit = integer(max_atoms, "max_atoms", low=1)
    states, accrued, weights = np.array([mdp.start]), np.zeros(1), np.ones(1)
    ended: list[tuple[Floats, Floats]] = []
    factor = 1.0
    for h in range(mdp.horizon):
        states, accrued, weights, over = _advance(mdp, chances[h], h, factor, states, accrued, weights)
        ended.append((accrued[over], weights[over]))
        states, accrued, weights = states[~over], accrued[~over], weights[~over]
        states, accrued, weights = _merge(states, accrued, weights, slack)
        if states.size > limit:
            raise OptionError(
                f"more than {limit} pairs of state and accrued cost at step {h + 1} of {mdp.horizon}; give a "
                "tolerance= (totals that close are merged), or sample with tailwise.evaluate"
            )
        factor *= mdp.discount
    ended.append((accrued + factor * mdp.terminal_losses[states], weights))
    totals = np.concatenate([costs for costs, _ in ended])
    masses = np.concatenate([mass for _, mass in ended])
    _, totals, masses = _merge(np.zeros(totals.size, np.int64), totals, masses, slack)
    masses = masses / masses.sum()
    if mdp.sense == "reward":
        totals, masses = 0.0 - totals[::-1], masses[::-1]
    return ReturnDistribution(np.ascontiguousarray(totals), np.ascontiguousarray(masses), mdp.sense, float(tolerance))


def grid_distribution(mdp: TabularMDP, policy: Any) -> ReturnDistribution:
    """Return the law of a policy's total on a fine grid, where there are too many totals to list.

    Its mean is exact, its CVaR and ERM are never understated (:mod:`tailwise.exact.grid_totals`); no total was moved
    by more than its ``tolerance``, and nearly all by far less.

    Parameters
    ----------
    mdp : TabularMDP
        The table.
    policy : Solution, object with ``act(state, h)``, or array_like
        Action ids of shape (S,) or (H, S).
    """
    grid, rows = GridTotals.over(mdp, every_action=True), policy_rows(mdp, policy).astype(np.int32)
    chosen = [np.repeat(rows[h][layer.states], np.diff(layer.first)) for h, layer in enumerate(grid.layers[:-1])]
    totals, masses = grid.law(chosen)
    if mdp.sense == "reward":
        totals, masses = 0.0 - totals[::-1], masses[::-1]
    return ReturnDistribution(np.ascontiguousarray(totals), np.ascontiguousarray(masses), mdp.sense, grid.tolerance)


def _advance(
    mdp: TabularMDP,
    chances: Floats,
    h: int,
    factor: float,
    states: NDArray[np.int64],
    accrued: Floats,
    weights: Floats,
) -> tuple[NDArray[np.int64], Floats, Floats, NDArray[np.bool_]]:
    """Send every pair to its outcomes at step ``h``."""
    _, pairs, rows = ranges(mdp.action_offsets[states], mdp.action_offsets[states + 1])
    taken = chances[rows] > 0.0
    reached = np.zeros(states.size, dtype=np.bool_)
    reached[pairs[taken]] = True
    if not reached.all():
        state = int(states[np.flatnonzero(~reached)[0]])
        raise StateError(f"the policy has no action in state {mdp.state_name(state)}, reached at step {h}")
    pairs, rows = pairs[taken], rows[taken]
    _, chosen, outcomes = ranges(mdp.outcome_offsets[rows], mdp.outcome_offsets[rows + 1])
    pairs, rows = pairs[chosen], rows[chosen]
    costs = mdp.losses[outcomes]
    if mdp.step_losses.size:
        costs = costs + mdp.step_losses[h, rows]
    mass = weights[pairs] * (chances[rows] * mdp.probabilities[outcomes])
    targets = mdp.next_states[outcomes].astype(np.int64)
    return targets, accrued[pairs] + factor * costs, mass, mdp.done[outcomes]


def _merge(
    states: NDArray[np.int64], accrued: Floats, weights: Floats, slack: float
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Add up the weights of pairs that are equal, or in one cell of width ``slack`` (then at their mean)."""
    if not states.size:
        return states, accrued, weights
    cells = accrued if slack == 0.0 else np.floor(accrued / slack)
    order = np.lexsort((cells, states))
    states, accrued, weights, cells = states[order], accrued[order], weights[order], cells[order]
    first = np.append(True, (np.diff(states) != 0) | (np.diff(cells) != 0))
    starts = np.flatnonzero(first)
    masses = np.add.reduceat(weights, starts)
    if slack == 0.0:
        return states[starts], accrued[starts], masses
    return states[starts], np.add.reduceat(weights * accrued, starts) / masses, masses
