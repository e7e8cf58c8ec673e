"""Solving without a horizon: seconds beside QuantEcon's policy iteration, on tables whose states lead to near ones.

Each kind of problem is solved at beta 0, where QuantEcon (if it is there) solves the same discounted one, and at a
beta > 0, which it cannot. ``width`` is the certified bracket's, relative to the value.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tailwise import ERM, Policy, TabularMDP, solve

STATES, ACTIONS, OUTCOMES, NEAR, DISCOUNT, RUNS = 100_000, 4, 4, 5, 0.98, 3


def table(states: int, discount: float) -> TabularMDP:
    """A random table in which a step leads at most ``NEAR`` states away; without discounting, one in 50 ends it."""
    rng = np.random.default_rng(0)
    rows = states * ACTIONS
    state, action = np.repeat(np.arange(rows) // ACTIONS, OUTCOMES), np.repeat(np.arange(rows) % ACTIONS, OUTCOMES)
    target = (state + rng.integers(-NEAR, NEAR + 1, state.size)) % states
    chance = rng.dirichlet(np.ones(OUTCOMES), rows).reshape(-1)
    cost, done = np.repeat(rng.random(rows), OUTCOMES), np.zeros(state.size, np.bool_)
    if discount == 1.0:
        state, action, target, cost = (np.concatenate((each, each)) for each in (state, action, target, cost))
        chance, done = np.concatenate((0.98 * chance, 0.02 * chance)), np.concatenate((done, ~done))
        order = np.lexsort((done, action, state))
        state, action, target, cost, chance, done = (
            each[order] for each in (state, action, target, cost, chance, done)
        )
    return TabularMDP.from_outcomes(
        state, action, target, chance, cost, done=done, num_states=states, horizon=None, discount=discount
    )


def best_of(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least time of some runs, and what the last returned."""
    times, found = [], None
    for _ in range(RUNS):
        begun = time.perf_counter()
        found = call()
        times.append(time.perf_counter() - begun)
    return min(times), found


def quantecon(mdp: TabularMDP) -> Callable[[], float] | None:
    """Return QuantEcon's policy iteration on a discounted table, None where it is not installed."""
    try:
        from quantecon.markov import DiscreteDP
    except ImportError:
        return None
    from scipy import sparse

    matrix = sparse.csr_matrix(
        (mdp.probabilities, mdp.next_states, mdp.outcome_offsets), (mdp.num_rows, mdp.num_states)
    )
    costs = np.add.reduceat(mdp.probabilities * mdp.losses, mdp.outcome_offsets[:-1])
    problem = DiscreteDP(-costs, matrix, mdp.discount, mdp.row_states, mdp.action_ids)
    return lambda: -float(problem.solve(method="policy_iteration").v[mdp.start])


def measured(mdp: TabularMDP, beta: float, criterion: str) -> dict[str, float]:
    """Return seconds, value and relative width of one problem."""
    seconds, policy = best_of(lambda: solve(mdp, ERM(beta), criterion=criterion))
    found: Policy = policy
    return {"seconds": seconds, "value": found.value, "width": found.gap / abs(found.value)}


def main() -> None:
    result: dict[str, Any] = {"states": STATES, "actions": ACTIONS, "outcomes": OUTCOMES, "discount": DISCOUNT}
    for name, discount, criterion in (("discounted", DISCOUNT, "recursive"), ("until it ends", 1.0, "total")):
        mdp = table(STATES, discount)
        rows: dict[str, Any] = {"beta 0": measured(mdp, 0.0, criterion), "beta 0.01": measured(mdp, 0.01, criterion)}
        rows["beta 0.01 over beta 0"] = rows["beta 0.01"]["seconds"] / rows["beta 0"]["seconds"]
        peer = quantecon(mdp) if discount < 1.0 else None
        if peer is not None:
            seconds, value = best_of(peer)
            rows["QuantEcon, beta 0"] = {"seconds": seconds, "value": value}
            rows["beta 0 over QuantEcon"] = rows["beta 0"]["seconds"] / seconds
        result[name] = rows
    print(json.dumps(result))


if __name__ == "__main__":
    main()
