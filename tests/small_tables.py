"""Random tables small enough to try every policy on, and the slow, obvious oracle that does."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tailwise import TabularMDP


def random_table(
    seed, *, states=3, actions=2, outcomes=2, horizon=3, discount=0.9, sense="cost", ends=False, whole=False
):
    """Return a table with random transitions; costs are whole numbers from -2 to 5 if ``whole``."""
    rng = np.random.default_rng(seed)
    origin, action, _ = (a.ravel() for a in np.indices((states, actions, outcomes)))
    cost = rng.integers(-2, 6, size=origin.size).astype(float) if whole else rng.normal(size=origin.size) * 3
    return TabularMDP.from_outcomes(
        origin,
        action,
        rng.integers(states, size=origin.size),
        rng.dirichlet(np.ones(outcomes), size=states * actions).ravel(),
        **{f"{sense}s": cost, f"terminal_{sense}s": rng.integers(0, 4, size=states).astype(float)},
        done=rng.random(origin.size) < 0.2 if ends else None,
        num_states=states,
        horizon=horizon,
        discount=discount,
    )


def all_laws(mdp, state=None, h=0):
    """Return the laws of the total (in the model's own sense) of all history-dependent deterministic policies.

    A law is a tuple of (total, probability); histories are told apart by their outcomes, so that nothing that a
    policy could remember is left out. Totals count from step ``h`` on, in units of that step.
    """
    state = mdp.start if state is None else state
    if h == mdp.horizon:
        return [((mdp.terminal_cost(state), 1.0),)]
    found = []
    for action in mdp.actions(state).tolist():
        branches = []
        for probability, target, cost, done in mdp.outcomes(state, action, h):
            later = [((0.0, 1.0),)] if done else all_laws(mdp, target, h + 1)
            branches.append([[(cost + mdp.discount * x, probability * p) for x, p in law] for law in later])
        found += [tuple(itertools.chain(*parts)) for parts in itertools.product(*branches)]
    return found


def best(mdp, measure):
    """Return the least (for rewards: the largest) ``measure(totals, weights)`` of costs over all policies."""
    sign = 1.0 if mdp.sense == "cost" else -1.0
    least = math.inf
    for law in all_laws(mdp):
        totals, weights = np.array(law).T
        least = min(least, measure(sign * totals, weights))
    return sign * least
