"""Solving without a horizon, beside QuantEcon's policy iteration, on a table whose states lead to near ones.

A discounted problem and the same one undiscounted, ending with what the discount leaves out, have the same values.
Each is solved at beta 0, as QuantEcon (if it is there) solves it, and at a beta > 0, which QuantEcon cannot. All take
turns in one process; numbers are processor seconds: median, least and most; ratios are of the same round. ``width``
is the certified bracket's, relative to the value; ``megabytes`` is what arrays take at most during a solution, beside
that of ten steps of the exact solver with a horizon.
"""

from __future__ import annotations

import json
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from tailwise import ERM, Policy, TabularMDP, backward_induction, solve

STATES, ACTIONS, OUTCOMES, NEAR, DISCOUNT, BETA, RUNS = 100_000, 4, 4, 5, 0.98, 0.01, 5


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
        chance, done = np.concatenate((DISCOUNT * chance, (1.0 - DISCOUNT) * chance)), np.concatenate((done, ~done))
        order = np.lexsort((done, action, state))
        state, action, target, cost, chance, done = (
            each[order] for each in (state, action, target, cost, chance, done)
        )
    return TabularMDP.from_outcomes(
        state, action, target, chance, cost, done=done, num_states=states, horizon=None, discount=discount
    )


def quantecon(states: int) -> Callable[[], float] | None:
    """Return QuantEcon's policy iteration on the discounted table, None where it is not installed."""
    try:
        from quantecon.markov import DiscreteDP
    except ImportError:
        return None
    from scipy import sparse

    mdp = table(states, DISCOUNT)
    matrix = sparse.csr_matrix(
        (mdp.probabilities, mdp.next_states, mdp.outcome_offsets), (mdp.num_rows, mdp.num_states)
    )
    costs = np.add.reduceat(mdp.probabilities * mdp.losses, mdp.outcome_offsets[:-1])
    problem = DiscreteDP(-costs, matrix, mdp.discount, mdp.row_states, mdp.action_ids)
    return lambda: -float(problem.solve(method="policy_iteration").v[mdp.start])


def tailwise(states: int, discount: float, beta: float) -> Callable[[], Policy]:
    """Return our solution of one of the tables."""
    mdp, criterion = table(states, discount), "recursive" if discount < 1.0 else "total"
    return lambda: solve(mdp, ERM(beta), criterion=criterion)


def in_turns(calls: dict[str, Callable[[], Any]], runs: int) -> dict[str, list[float]]:
    """Return the processor seconds of each call, of several rounds; what was compiled, or loaded, does not count."""
    for call in calls.values():
        call()
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(runs):
        for name, call in calls.items():
            begun = time.process_time()
            call()
            found[name].append(time.process_time() - begun)
    return found


def spread(values: list[float]) -> dict[str, float]:
    """Return median, least and most."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def megabytes(call: Callable[[], Any]) -> float:
    """Return what the arrays of a call take at most."""
    tracemalloc.start()
    call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / 1e6


def measured(states: int, runs: int) -> dict[str, Any]:
    """Return all that is measured on tables of so many states."""
    kinds = {"discounted": DISCOUNT, "until it ends": 1.0}
    ours = {
        f"{kind}, beta {beta:g}": tailwise(states, discount, beta)
        for kind, discount in kinds.items()
        for beta in (0.0, BETA)
    }
    peer = quantecon(states)
    calls: dict[str, Callable[[], Any]] = ours if peer is None else {**ours, "QuantEcon": peer}
    seconds = in_turns(calls, runs)

    def over(first: str, second: str) -> dict[str, float]:
        return spread([a / b for a, b in zip(seconds[first], seconds[second], strict=True)])

    ratios = {f"{kind}, beta {BETA:g} over beta 0": over(f"{kind}, beta {BETA:g}", f"{kind}, beta 0") for kind in kinds}
    if peer is not None:
        ratios |= {f"{kind}, beta 0 over QuantEcon": over(f"{kind}, beta 0", "QuantEcon") for kind in kinds}
    policies = {name: call() for name, call in ours.items()}
    values = {name: policy.value for name, policy in policies.items()}
    if peer is not None:
        values["QuantEcon"] = peer()
    finite = table(states, 1.0).with_options(horizon=10)
    memory = {name: megabytes(call) for name, call in calls.items()}
    return {
        "states": states, "actions": ACTIONS, "outcomes": OUTCOMES, "discount": DISCOUNT,
        "seconds": {name: spread(each) for name, each in seconds.items()}, "ratios": ratios,
        "megabytes": {**memory, "exact solver, 10 steps": megabytes(lambda: backward_induction(finite, BETA))},
        "width": {name: policy.gap / abs(policy.value) for name, policy in policies.items()},
        "value": values,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(measured(STATES, RUNS)))
