"""Bounded RTDP: ``python benchmarks/bounded_rtdp.py [--quick]``. Prints one JSON object.

How many trials prove the first action, what the recommendation loses before that, and how long a decision takes on a
large table against a full backward induction of the same table in the same process; the two alternate after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np

from tailwise import BoundedRtdp, TabularMDP, backward_induction, domains
from tailwise.models import tabulate

PROBLEMS = (
    *(("mdp-4", beta) for beta in (0.1, 0.5, 1.0)),
    *(("grid-mdp", beta) for beta in (0.01, 0.1)),
    *(("sailing", beta) for beta in (0.02, 0.1)),
    ("inventory", 0.1), ("battery", 0.02), ("american-put", 0.1), ("machine-maintenance", 0.1),
)  # fmt: skip

FEW = (1, 2, 5, 10, 20, 50, 100)  # trials
CHOICES = ("plan", "best bound on the risk", "best that the bounds allow")


def field(size: int, horizon: int) -> TabularMDP:
    """A walk over ``size`` by ``size`` cells of random cost with pits among them; every step slips with one in five."""
    rng = np.random.default_rng(0)
    cells = np.arange(size * size)
    cost = rng.uniform(0.5, 1.5, cells.size)
    cost[rng.random(cells.size) < 0.02] = 6.0
    rows, columns = np.divmod(cells, size)
    moves = ((-1, 0), (1, 0), (0, -1), (0, 1))
    goals = [np.clip(rows + down, 0, size - 1) * size + np.clip(columns + right, 0, size - 1) for down, right in moves]
    parts = []
    for action in range(4):
        sides = (2, 3) if action < 2 else (0, 1)
        for way, chance in ((action, 0.8), (sides[0], 0.1), (sides[1], 0.1)):
            goal = goals[way]
            parts.append((cells, np.full(cells.size, action), goal, np.full(cells.size, chance), cost[goal]))
    columns_of_outcomes = [np.concatenate(column) for column in zip(*parts, strict=True)]
    start = size * size // 2 + size // 2
    return TabularMDP.from_outcomes(*columns_of_outcomes, horizon=horizon, start=start, name="field")


def proofs(name: str, beta: float, seeds: int) -> dict[str, Any]:
    """Trials and seconds until the first action is proven."""
    model = domains.make(name)
    table = model if isinstance(model, TabularMDP) else tabulate(model)
    optimal = set(backward_induction(table, beta).optimal_actions(0, table.start).tolist())
    plans = [BoundedRtdp(table, beta, seed=seed).plan(iterations=10_000) for seed in range(seeds)]
    trials = [plan.iterations for plan in plans]
    return {
        "problem": name, "beta": beta, "states": table.num_states, "horizon": table.horizon, "seeds": seeds,
        "proven": sum(plan.proven for plan in plans), "optimal": sum(plan.action in optimal for plan in plans),
        "trials": {"median": statistics.median(trials), "min": min(trials), "max": max(trials)},
        "microseconds_per_state": statistics.median(1e6 * plan.seconds / plan.simulator_steps for plan in plans),
        "bytes_per_node": statistics.median(plan.bytes / plan.nodes for plan in plans),
    }  # fmt: skip


def cut_short(name: str, beta: float, seeds: int) -> dict[str, Any]:
    """Mean regret after a few trials, in units of a random action's: of the plan's action, and of other choices."""
    model = domains.make(name)
    table = model if isinstance(model, TabularMDP) else tabulate(model)
    values = backward_induction(table, beta).q_values[0, table.start, table.actions(table.start)]
    regret = values - values.min() if table.sense == "cost" else values.max() - values
    found = np.zeros((3, len(FEW)))
    for seed in range(seeds):
        planner, done = BoundedRtdp(table, beta, seed=seed), 0
        for k, trials in enumerate(FEW):
            plan = planner.plan(iterations=trials - done)
            done = trials
            rows = range(len(plan.rows))
            ends = [min(rows, key=lambda a: plan.rows[a].upper), min(rows, key=lambda a: plan.rows[a].lower)]
            if table.sense == "reward":
                ends = [max(rows, key=lambda a: plan.rows[a].lower), max(rows, key=lambda a: plan.rows[a].upper)]
            chosen = [row.action for row in plan.rows].index(plan.action)
            found[:, k] += regret[[chosen, *ends]] / regret.mean() / seeds
    return {"problem": name, "beta": beta, "trials": FEW, **dict(zip(CHOICES, found.tolist(), strict=True))}


def against_sweeps(size: int, horizon: int, beta: float, repeats: int) -> dict[str, Any]:
    """A decision at the start of a large table, whole: the planner's set-up counts."""
    table = field(size, horizon)
    small = field(8, horizon)
    BoundedRtdp(small, beta, seed=0).plan(iterations=10), backward_induction(small, beta)
    ours, full = [], []
    for seed in range(repeats):
        begun = time.perf_counter()
        plan = BoundedRtdp(table, beta, seed=seed).plan(seconds=600)
        ours.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        solution = backward_induction(table, beta)
        full.append(time.perf_counter() - begun)
        assert plan.proven
        assert plan.action in solution.optimal_actions(0, table.start)
        assert plan.lower <= solution.value <= plan.upper
    return {
        "states": table.num_states, "outcomes": table.num_outcomes, "horizon": horizon, "beta": beta,
        "trials": plan.iterations, "nodes": plan.nodes, "bytes": plan.bytes,
        "share_of_pairs": plan.nodes / (table.num_states * horizon),
        "bounded_seconds": statistics.median(ours), "backward_induction_seconds": statistics.median(full),
        "ratio": statistics.median(f / o for f, o in zip(full, ours, strict=True)),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and few repeats, to try the script")
    quick = parser.parse_args().quick
    size, repeats = (100, 1) if quick else (1_000, 5)
    short = [cut_short(name, beta, 3 if quick else 20) for name, beta in PROBLEMS]
    result = {
        "cut_short": short,
        "cut_short_mean": {
            choice: np.mean([row[choice] for row in short], axis=0).round(3).tolist() for choice in CHOICES
        },
        "proofs": [proofs(name, beta, 3 if quick else 20) for name, beta in PROBLEMS],
        "large_table": [against_sweeps(size, horizon, 0.5, repeats) for horizon in (20, 40)],
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
