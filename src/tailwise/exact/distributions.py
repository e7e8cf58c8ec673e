"""The exact distribution of the total of a policy on a table: the one pass forward over (state, accrued cost).

From ``{(start, 0): 1}`` each step sends every pair of state and accrued discounted cost through the policy's actions to
their outcomes, and adds up the probability of equal ones. Pairs are merged only where their accrued costs agree to the
last bit, or within a tolerance that is stated. Their number can grow exponentially with the horizon (it does when costs
are in general position), hence the limit; beyond it totals are merged, or put on a grid.

Without a horizon an episode is over where an outcome is ``done``, or leads to a state that absorbs at no cost. Up to a
step T that is far enough, a stationary policy's total is that of a table with horizon T; what has not ended by then is
told: its probability without discounting, and how much it can still pay with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints, marked, ranges, runs
from tailwise._validate import integer, real
from tailwise.errors import OptionError, StateError
from tailwise.exact.fixed_policies import policy_chances, policy_rows
from tailwise.exact.grid_totals import Choices, GridTotals
from tailwise.exact.reachability import relevant_bounds
from tailwise.models import Alternatives, TabularMDP
from tailwise.models.tabular import require_table
from tailwise.risk.distribution import ReturnDistribution

Choose = Callable[[int, Ints, Floats], tuple[Ints, Ints, Floats]]
"""From step, states and accrued costs of pairs: pair, row of the table and chance of each row that is taken."""

MAX_ATOMS = 5_000_000
_EQUAL = 1e-9  # of a grid's spacing: rounding


def return_distribution(
    mdp: TabularMDP | Alternatives, policy: Any, *, tolerance: float | None = 0.0, max_atoms: int = MAX_ATOMS
) -> ReturnDistribution:
    """Return the exact distribution of the discounted total of a fixed policy.

    Parameters
    ----------
    mdp : TabularMDP or Alternatives
        The table, or several of which one is true.
    policy : Policy, object with ``act(state, h)``, or array_like
        Action ids of shape (S,) or (H, S), or probabilities of shape (H, S, A).
    tolerance : float or None, default 0.0
        Merge totals that are close; none moves by more than this in all. 0 merges equal ones only. None is as exact as
        can be had at once: equal ones, then close ones, then a fine grid, whose mean is exact and whose CVaR and ERM
        are never understated.
    max_atoms : int, default 5,000,000
        Give up beyond so many pairs (state, accrued cost); without a tolerance, go on to the next coarser way.

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
    >>> from tailwise.exact import return_distribution
    >>> mdp = domains.make("grid-mdp")
    >>> law = return_distribution(mdp, backward_induction(mdp, beta=0.1))
    >>> law.atoms, round(law.mean, 6), round(law.erm(0.1), 6)
    (2, 8.038962, 9.711821)
    """
    if isinstance(mdp, Alternatives):
        laws = [return_distribution(t, policy, tolerance=tolerance, max_atoms=max_atoms) for t in mdp.tables]
        return _together(laws, mdp.weights)
    require_table(mdp, "return_distribution", "make one with tabulate()")
    limit = integer(max_atoms, "max_atoms", low=1)
    if mdp.horizon is None:
        mdp.require_sound(endless=True)
        table, actions, left = followed_to_the_end(mdp, stationary_actions(mdp, policy))
        law = return_distribution(table, actions, tolerance=tolerance, max_atoms=max_atoms)
        unfinished, tail = (left, 0.0) if mdp.discount == 1.0 else (0.0, left)
        return replace(law, tolerance=law.tolerance + tail, unfinished=unfinished)
    chances = policy_chances(mdp, policy)

    def choose(h: int, states: Ints, accrued: Floats) -> tuple[Ints, Ints, Floats]:
        _, pairs, rows = ranges(mdp.action_offsets[states], mdp.action_offsets[states + 1])
        taken = chances[h][rows] > 0.0
        pairs, rows = pairs[taken], rows[taken]
        if np.unique(pairs).size < states.size:
            state = int(states[np.setdiff1d(np.arange(states.size), pairs)[0]])
            raise StateError(f"the policy has no action in state {mdp.state_name(state)}, reached at step {h}")
        return pairs, rows, chances[h][rows]

    if tolerance is not None:
        slack = real(tolerance, "tolerance", low=0.0) / (mdp.horizon + 1)
        return distribution_of(mdp, *_forward(mdp, choose, slack, limit), float(tolerance))
    low, high = relevant_bounds(mdp)
    for share, most in ((0.0, 1_000_000), (1e-6, 200_000), (1e-4, 100_000)):
        moved = share * (high - low)
        try:
            found = _forward(mdp, choose, moved / (mdp.horizon + 1), min(most, limit))
        except OptionError:
            continue
        return distribution_of(mdp, *found, moved)
    return grid_distribution(mdp, policy)


def grid_distribution(mdp: TabularMDP, policy: Any) -> ReturnDistribution:
    """Return the distribution of a policy's total on a fine grid (:mod:`tailwise.exact.grid_totals`)."""
    grid, rows = GridTotals.over(mdp, every_action=True), policy_rows(mdp, policy).astype(np.int32)
    chosen = [np.repeat(rows[h][layer.states], np.diff(layer.first)) for h, layer in enumerate(grid.layers[:-1])]
    return distribution_of(mdp, *grid.law(chosen), grid.tolerance)


def followed(graph: GridTotals, chosen: Choices, *, max_pairs: int = 200_000) -> tuple[Floats, Floats] | None:
    """Return the exact totals of a plan on a grid as it is followed; None where that takes too many pairs."""

    def choose(h: int, states: Ints, accrued: Floats) -> tuple[Ints, Ints, Floats]:
        rows = graph.rows_at(chosen, states, h, accrued).astype(np.int64)
        return np.arange(states.size), rows, np.ones(states.size)

    try:
        return _forward(graph.mdp, choose, _EQUAL * graph.spacing, max_pairs)
    except OptionError:
        return None


def distribution_of(mdp: TabularMDP, totals: Floats, masses: Floats, tolerance: float = 0.0) -> ReturnDistribution:
    """Return total losses and their probabilities as a distribution in the model's own sense."""
    if mdp.sense == "reward":
        totals, masses = 0.0 - totals[::-1], masses[::-1]
    return ReturnDistribution(np.ascontiguousarray(totals), np.ascontiguousarray(masses), mdp.sense, tolerance)


def _forward(mdp: TabularMDP, choose: Choose, slack: float, limit: int) -> tuple[Floats, Floats]:
    """Return total losses, increasing, and probabilities; ``OptionError`` beyond ``limit`` pairs at a step."""
    states, accrued, weights, factor = np.array([mdp.start]), np.zeros(1), np.ones(1), 1.0
    ended: list[tuple[Floats, Floats]] = []
    for h in range(mdp.horizon):
        pairs, rows, chances = choose(h, states, accrued)
        _, owners, outcomes = ranges(mdp.outcome_offsets[rows], mdp.outcome_offsets[rows + 1])
        pairs = pairs[owners]
        paid = accrued[pairs] + factor * mdp.losses_at(h, outcomes, rows[owners])
        mass = weights[pairs] * (chances[owners] * mdp.probabilities[outcomes])
        over = mdp.done[outcomes]
        ended.append((paid[over], mass[over]))
        states = mdp.next_states[outcomes].astype(np.int64)[~over]
        states, accrued, weights = merged(states, paid[~over], mass[~over], slack)
        if states.size > limit:
            raise OptionError(
                f"more than {limit} pairs of state and accrued cost at step {h + 1} of {mdp.horizon}; give a "
                "tolerance= (totals that close are merged), or sample with tailwise.evaluate"
            )
        factor *= mdp.discount
    ended.append((accrued + factor * mdp.terminal_losses[states], weights))
    return collected(ended, slack)


def collected(ended: list[tuple[Floats, Floats]], slack: float = 0.0) -> tuple[Floats, Floats]:
    """Return total losses, increasing, and their probabilities, from parts of both."""
    totals, masses = (np.concatenate(parts) for parts in zip(*ended, strict=True))
    _, totals, masses = merged(np.zeros(totals.size, np.int64), totals, masses, slack)
    return totals, masses / masses.sum()


def merged(
    states: NDArray[np.int64], accrued: Floats, weights: Floats, slack: float = 0.0
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Add up the weights of pairs that are equal, or in one cell of width ``slack`` (then at their mean)."""
    if not states.size:
        return states, accrued, weights
    cells = accrued if slack == 0.0 else np.floor(accrued / slack)
    order = np.lexsort((cells, states))
    states, accrued, weights, cells = states[order], accrued[order], weights[order], cells[order]
    starts = runs(states, cells)
    masses = np.add.reduceat(weights, starts)
    if slack == 0.0:
        return states[starts], accrued[starts], masses
    return states[starts], np.add.reduceat(weights * accrued, starts) / masses, masses


def _together(laws: list[ReturnDistribution], weights: Floats) -> ReturnDistribution:
    """Return the mixture of distributions."""
    totals = np.concatenate([law.costs for law in laws])
    masses = np.concatenate([w * law.probabilities for w, law in zip(weights, laws, strict=True)])
    distinct, place = np.unique(totals[masses > 0.0], return_inverse=True)
    chance = np.bincount(place.reshape(-1), weights=masses[masses > 0.0])
    return ReturnDistribution(distinct, chance / chance.sum(), laws[0].sense, max(law.tolerance for law in laws))


Actions = NDArray[np.int32]

MOST_STEPS = 100_000
_LEFT = 1e-12  # probability, or share of the range of totals
_MOST_ENTRIES = 30_000_000


def closed(mdp: TabularMDP, horizon: int) -> TabularMDP:
    """Return a table with a horizon in which whatever leads to a state that absorbs at no cost is ``done``."""
    firsts = mdp.outcome_offsets[:-1]
    owners = mdp.row_states[mdp.outcome_rows]
    stays = (mdp.next_states == owners) & (mdp.losses == 0.0) & ~mdp.done
    rows = np.logical_and.reduceat(stays, firsts)
    absorbs = marked(mdp.num_states, mdp.row_states)
    absorbs[mdp.row_states[~rows]] = False
    return replace(mdp, horizon=horizon, done=mdp.done | absorbs[mdp.next_states])


def steps_to_the_end(mdp: TabularMDP, actions: Actions) -> tuple[int, float]:
    """Return how many steps of a policy (n, S) are enough, and what is left: a probability, or what may yet be paid."""
    if mdp.discount < 1.0:
        most = float(np.abs(mdp.losses).max(initial=0.0)) / (1.0 - mdp.discount)
        steps = max(len(actions), math.ceil(math.log(_LEFT) / math.log(mdp.discount)))
        return steps, most * mdp.discount**steps
    table, going = closed(mdp, 1), np.zeros(mdp.num_states)
    going[mdp.start] = 1.0
    for step in range(MOST_STEPS):
        if step < len(actions):
            chain = _chain(table, actions[step])
        going = going @ chain
        left = float(going.sum())
        if left <= _LEFT and step + 1 >= len(actions):
            return step + 1, left
    return MOST_STEPS, left


def _chain(mdp: TabularMDP, actions: Actions) -> NDArray[np.float64]:
    """Return where a policy goes on to, as a sparse matrix."""
    from scipy.sparse import csr_array

    rows = mdp.outcome_rows
    kept = (actions[mdp.row_states] == mdp.action_ids)[rows] & ~mdp.done
    origins = mdp.row_states[rows[kept]]
    chain: NDArray[np.float64] = csr_array(
        (mdp.probabilities[kept], (origins, mdp.next_states[kept])), shape=(mdp.num_states,) * 2
    )
    return chain


def followed_to_the_end(mdp: TabularMDP, actions: Actions) -> tuple[TabularMDP, Actions, float]:
    """Return table and policy up to the step that is far enough, and what is left then."""
    steps, left = steps_to_the_end(mdp, actions)
    if steps * mdp.num_states > _MOST_ENTRIES:
        raise OptionError(
            f"the total of {mdp.name} takes {steps} steps over {mdp.num_states} states to lay out; sample it with "
            "tailwise.evaluate"
        )
    places = np.minimum(np.arange(steps), len(actions) - 1)
    return closed(mdp, steps), actions[places], left


def stationary_actions(mdp: TabularMDP, policy: object) -> Actions:
    """Return the action ids of a policy without a horizon: (n, S), of which the last row is followed for ever."""
    given = np.asarray(getattr(policy, "policy", policy))
    if given.dtype.kind not in "iu" or given.ndim not in (1, 2) or given.shape[-1] != mdp.num_states:
        raise OptionError(
            f"{mdp.name} has no horizon: its policy must be one of solve(), or action ids of shape (S,) or (n, S) with "
            f"S = {mdp.num_states}, of which the last row is followed for ever; or give the model a horizon"
        )
    return np.atleast_2d(given).astype(np.int32)
