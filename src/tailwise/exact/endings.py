"""Episodes without a horizon, up to where they end: the distribution of their total, with what is left of the tail.

An episode is over where an outcome is ``done``, or leads to a state that absorbs at no cost. Up to a step T that is far
enough, a stationary policy's total is that of a table with horizon T; what has not ended by then is told: its
probability without discounting, and how much it can still pay with.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import OptionError
from tailwise.models import TabularMDP

Actions = NDArray[np.int32]

MOST_STEPS = 100_000
_LEFT = 1e-12  # probability, or share of the range of totals
_MOST_ENTRIES = 30_000_000


def closed(mdp: TabularMDP, horizon: int) -> TabularMDP:
    """Return a table with a horizon in which whatever leads to a state that absorbs at no cost is ``done``."""
    firsts = mdp.outcome_offsets[:-1]
    owners = np.repeat(mdp.row_states, np.diff(mdp.outcome_offsets))
    stays = (mdp.next_states == owners) & (mdp.losses == 0.0) & ~mdp.done
    rows = np.logical_and.reduceat(stays, firsts)
    absorbs = np.zeros(mdp.num_states, np.bool_)
    absorbs[mdp.row_states] = True
    absorbs[mdp.row_states[~rows]] = False
    return replace(mdp, horizon=horizon, done=mdp.done | absorbs[mdp.next_states])


def steps_to_the_end(mdp: TabularMDP, actions: Actions) -> tuple[int, float]:
    """Return how many steps of a policy, whose last row is followed for ever, are enough, and what is left then.

    ``actions`` has shape (n, S). What is left is the probability of not having ended; where costs are discounted it is
    the most that can still be paid.
    """
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

    taken = (actions[mdp.row_states] == mdp.action_ids)[
        np.repeat(np.arange(mdp.num_rows), np.diff(mdp.outcome_offsets))
    ]
    kept = taken & ~mdp.done
    origins = np.repeat(mdp.row_states, np.diff(mdp.outcome_offsets))[kept]
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
