"""How fast the search is: ``python benchmarks/search.py [--quick]``. Prints one JSON object.

``ratio`` is the speed of simulated steps inside a search over that of as many bare simulated steps: the
same compiled sampling code under a uniform random policy, without a tree. The two alternate in one
process, after a warm-up; the medians and the extremes over the repeats are given.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tailwise import ErmMcts, LearnedModelSearch, TabularMDP, backward_induction, domains
from tailwise._jit import borrowed, kernel
from tailwise._random import generator, stream_words
from tailwise.bindings import kernel_model
from tailwise.search.backups import LANES, log_means

PROBLEMS = (("mdp-4", 1.0), ("grid-mdp", 0.1))


@kernel
def bare_episodes(model, start, horizon, discount, stream, episodes):
    """Total cost of random episodes: what a search would cost without its tree."""
    model, stream = borrowed(model), borrowed(stream)
    total = 0.0
    for _ in range(episodes):
        cost, _, _ = kernel_model.roll_out(model, start, 0, horizon, discount, stream)
        total += cost
    return total


@kernel
def bare_numpy_episodes(model, start, horizon, discount, rng, episodes):
    """The same with draws through NumPy's Generator, as one would write it with numba alone."""
    model = borrowed(model)
    total = 0.0
    for _ in range(episodes):
        state, factor = start, 1.0
        for _ in range(horizon):
            first = model.action_offsets[state]
            row = first + int(rng.random() * (model.action_offsets[state + 1] - first))
            k, draw = model.outcome_offsets[row], rng.random()
            while model.cumulative[k] <= draw:
                k += 1
            total += factor * model.losses[k]
            state, factor = model.targets[k], factor * discount
    return total


@kernel
def log_means_of(scaled, shares, out):
    for k in range(0, scaled.size, LANES):
        log_means(scaled, shares, out, k)


@kernel
def log_means_by_library(scaled, shares, out):
    for k in range(scaled.size):
        out[k] = math.log1p(shares[k] * math.expm1(scaled[k]))


def seconds(work: Callable[..., Any], *arguments: Any) -> float:
    begun = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - begun


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def against_bare(name: str, beta: float, iterations: int, repeats: int) -> dict[str, Any]:
    mdp, rng = domains.make(name), generator(0)
    stream, problem = stream_words(rng), (mdp.data, mdp.start, mdp.horizon, mdp.discount)
    bare_episodes(*problem, stream, 1), bare_numpy_episodes(*problem, rng, 1)
    ErmMcts(mdp, beta, seed=0).plan(iterations=10)
    ours, bare, numpy = [], [], []
    for seed in range(repeats):
        plan = ErmMcts(mdp, beta, seed=seed).plan(iterations=iterations)
        steps = plan.simulator_steps
        episodes = steps // mdp.horizon
        ours.append(1e9 * plan.seconds / steps)
        bare.append(1e9 * seconds(bare_episodes, *problem, stream, episodes) / steps)
        numpy.append(1e9 * seconds(bare_numpy_episodes, *problem, rng, episodes) / steps)
    return {
        "problem": name, "iterations": iterations, "repeats": repeats,
        "ratio": spread([b / s for b, s in zip(bare, ours, strict=True)]),
        "ratio_to_numpy_draws": spread([b / s for b, s in zip(numpy, ours, strict=True)]),
        "search_ns_per_step": spread(ours), "bare_ns_per_step": spread(bare), "bare_numpy_ns_per_step": spread(numpy),
        "steps_per_second": 1e9 / statistics.median(ours),
        "nodes": plan.nodes, "bytes_per_node": plan.bytes / plan.nodes,
    }  # fmt: skip


def fresh_decision(name: str, beta: float, repeats: int) -> dict[str, Any]:
    """Microseconds to make a search and run one iteration, or a thousand: what a decision costs beside its work."""
    mdp = domains.make(name)
    ErmMcts(mdp, beta, seed=0).plan(iterations=1)

    def decide(seed: int, iterations: int) -> None:
        ErmMcts(mdp, beta, seed=seed).plan(iterations=iterations)

    def least(iterations: int) -> float:
        return 1e6 * min(seconds(decide, seed, iterations) for seed in range(50))

    return {
        "problem": name, "repeats": repeats,
        "us_with_one_iteration": spread([least(1) for _ in range(repeats)]),
        "us_with_1000_iterations": spread([least(1000) for _ in range(repeats)]),
    }  # fmt: skip


def learned_against_tree(name: str, beta: float, iterations: int, repeats: int) -> dict[str, Any]:
    """Seconds of a learned iteration, sweeps and report included, over those of the paper's, run in turn."""
    mdp = domains.make(name)
    times: dict[Any, list[float]] = {LearnedModelSearch: [], ErmMcts: []}
    for kind in times:
        kind(mdp, beta, seed=0).plan(iterations=10)
    for seed in range(repeats):
        for kind, found in times.items():
            found.append(seconds(kind(mdp, beta, seed=seed).plan, iterations))
    learned, tree = times.values()
    return {
        "problem": name, "iterations": iterations, "repeats": repeats,
        "ratio": spread([a / b for a, b in zip(learned, tree, strict=True)]),
        "learned_us_per_iteration": spread([1e6 * second / iterations for second in learned]),
    }  # fmt: skip


def log_mean_speed(repeats: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    scaled, shares, out = rng.normal(size=80_000), 1.0 / rng.integers(2, 1000, size=80_000), np.empty(80_000)
    log_means_of(scaled, shares, out), log_means_by_library(scaled, shares, out)
    ours = [1e9 * seconds(log_means_of, scaled, shares, out) / out.size for _ in range(repeats)]
    library = [1e9 * seconds(log_means_by_library, scaled, shares, out) / out.size for _ in range(repeats)]
    return {"ours_ns": spread(ours), "library_ns": spread(library)}


def sweep_speed(states: int, repeats: int) -> dict[str, Any]:
    """Backward induction, 4 actions x 8 outcomes: risk-averse against risk-neutral, per sweep."""
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(states * 4), 8)
    chances = rng.random((states * 4, 8))
    chances /= chances.sum(axis=1, keepdims=True)
    targets, costs = rng.integers(states, size=rows.size), np.repeat(rng.random(states * 4), 8)
    mdp = TabularMDP.from_outcomes(rows // 4, rows % 4, targets, chances.reshape(-1), costs, horizon=3)
    backward_induction(mdp.with_options(horizon=1), 0.5)
    result: dict[str, Any] = {"states": states, "outcomes": mdp.num_outcomes}
    for beta in (0.0, 0.1, 5.0):
        times = [seconds(backward_induction, mdp, beta) / 3 for _ in range(repeats)]
        result[f"seconds_per_sweep_beta_{beta:g}"] = spread(times)
    return result


def startup(repeats: int) -> dict[str, Any]:
    """Whole processes, with the kernel cache warm."""
    commands = {
        "import_tailwise": [sys.executable, "-c", "import tailwise"],
        "plan_grid_mdp": [sys.executable, "-m", "tailwise", "plan", "grid-mdp", "--beta", "0.1", "--seed", "0"],
    }
    result = {}
    for name, command in commands.items():
        subprocess.run(command, check=True, capture_output=True)
        times = [seconds(subprocess.check_output, command) for _ in range(repeats)]
        result[f"{name}_seconds"] = spread(times)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and few repeats, to try the script")
    quick = parser.parse_args().quick
    sizes = ((10_000, 5),) if quick else ((10_000, 31), (1_000_000, 5))
    result = {
        "search": [against_bare(name, beta, n, repeats) for n, repeats in sizes for name, beta in PROBLEMS],
        "fresh_decision": [fresh_decision(name, beta, 3 if quick else 15) for name, beta in PROBLEMS],
        "learned": [learned_against_tree(name, beta, 10_000, 5 if quick else 31) for name, beta in PROBLEMS],
        "log_mean": log_mean_speed(5 if quick else 51),
        "backward_induction": sweep_speed(10_000 if quick else 1_000_000, 2 if quick else 5),
        "startup": startup(1 if quick else 5),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
