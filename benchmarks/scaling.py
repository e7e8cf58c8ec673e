"""How far it scales: ``python benchmarks/scaling.py [--quick] [PART ...]``. Prints one JSON object.

Parts: ``threads`` (one against two), ``workers`` (1, 2 and 4 on a local Ray cluster), ``reports`` (bytes and cost of a
report), ``quality`` (many small trees against one of the same work, from 10^3 to 10^6 iterations; minutes),
``thousand`` (1000 simulated machines) and ``tables`` (bytes; float32). ``make bench`` runs all but ``quality`` and
``workers``, which are named.

``wall`` means something on free cores only; ``cpu`` compares the processor time of the same iterations in one tree and
in two: what two threads lose to each other's memory traffic, and to the hand-over, whether they had the cores or not.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import pickle
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tailwise import ErmMcts, backward_induction, domains, scale
from tailwise._jit import kernel
from tailwise.scale.cluster import Report
from tailwise.scale.scheduler import Scheduler
from tailwise.search.action_rows import merged

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from simulated_pool import SimulatedPool

PROBLEMS = (("mdp-4", 0.5), ("grid-mdp", 0.1))
TREES = (1, 4, 16, 64)


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def measured(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall and processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def threads(quick: bool) -> list[dict[str, Any]]:
    """Steps a second of two threads over those of one, alternating; every pair does the same work."""
    sizes = ((20_000, 3),) if quick else ((100_000, 15), (1_000_000, 7))
    found = []
    for (iterations, repeats), (name, beta) in itertools.product(sizes, PROBLEMS):
        mdp = domains.make(name)
        ErmMcts(mdp, beta, seed=0).plan(iterations=10, threads=2)
        walls, cpus = [], []
        for seed in range(repeats):
            one, two = (
                measured(functools.partial(ErmMcts(mdp, beta, seed=seed).plan, count * iterations, threads=count))
                for count in (1, 2)
            )
            walls.append(2.0 * one[0] / two[0])
            cpus.append(2.0 * one[1] / two[1])
        found.append({"problem": name, "iterations": iterations, "wall": spread(walls), "cpu": spread(cpus)})
    return found


def workers(quick: bool) -> list[dict[str, Any]]:
    """Iterations a second on 1, 2 and 4 workers, four trees each time, from when the workers are ready."""
    iterations = 400_000 if quick else 4_000_000
    found = []
    for count in (1, 2, 4):
        begun = time.perf_counter()
        search = ErmMcts(domains.make("grid-mdp"), 0.1, seed=0)
        plan = scale.plan(search, iterations, trees=4, workers=count)
        found.append({
            "workers": count, "iterations_a_second": plan.iterations / plan.seconds,
            "start_and_end": time.perf_counter() - begun - plan.seconds,
        })  # fmt: skip
    for row in found:
        row["ratio"] = row["iterations_a_second"] / found[0]["iterations_a_second"]
    return found


def reports(quick: bool) -> dict[str, Any]:
    """Bytes of a report, and what receiving and merging costs."""
    search = ErmMcts(domains.make("grid-mdp"), 0.1, seed=0)
    search.plan(iterations=10_000)
    part = search.statistics(np.zeros(4, np.int64))
    sizes, merges = {}, {}
    for trees in (1, 100, 1000):
        most = max(1, 4096 // trees)
        small = part._replace(samples=tuple(row[-most:].copy() for row in part.samples))
        sizes[trees] = len(pickle.dumps(Report(0, (small, "seconds"), 1.0, False), protocol=5))
        begun = time.process_time()
        repeats = 3 if quick else 20
        for _ in range(repeats):
            merged([small] * trees, 0.1)
        merges[trees] = (time.process_time() - begun) / repeats
    return {"actions": 4, "bytes": sizes, "merge_seconds": merges, "receive_seconds": receive_seconds(quick)}


def receive_seconds(quick: bool) -> float | None:
    """Processor time of this process for one report through Ray, the next order included; None without Ray."""
    try:
        import ray
    except ImportError:
        return None
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        seen, marks = 0, []

        def note(iterations: int, seconds: float) -> None:
            nonlocal seen
            seen += 1
            marks.append((seen, time.process_time()))

        scale.plan(search, seconds=1.0 if quick else 5.0, workers=2, report_every=0.005, progress=note)
    finally:
        ray.shutdown()
    (first, begun), (last, ended) = marks[len(marks) // 4], marks[-1]
    return (ended - begun) / max(1, last - first)


def quality(quick: bool, most: int, more: int) -> list[dict[str, Any]]:
    """Error of the recommended action's value, and simple regret: many trees against one of the same work."""
    sizes = [n for n in (1_000, 10_000, 100_000, 1_000_000, 10_000_000) if n <= most]
    found = []
    for name, beta in PROBLEMS:
        mdp = domains.make(name)
        solution = backward_induction(mdp, beta)
        exact = solution.action_values(0)[mdp.start]
        for preset in ("paper", "auto"):
            for iterations in sizes:
                seeds = 4 if quick else more * min(100, max(8, 2_000_000 // iterations))
                for trees in TREES:
                    if iterations // trees < 50:
                        continue
                    errors, regrets = [], []
                    for seed in range(seeds):
                        search = ErmMcts(mdp, beta, preset=preset, seed=seed)
                        plan = search.plan(iterations=iterations, threads=trees)
                        errors.append(plan.row(plan.action).erm - solution.value)
                        regrets.append(float(exact[plan.action]) - solution.value)
                    found.append({
                        "problem": name, "preset": preset, "iterations": iterations, "trees": trees, "seeds": seeds,
                        "error": math.sqrt(statistics.fmean(e * e for e in errors)),
                        "bias": statistics.fmean(errors),
                        "regret": statistics.fmean(regrets), "wrong": sum(r > 1e-9 for r in regrets) / seeds,
                    })  # fmt: skip
    return found


def thousand(quick: bool, handling: float = 0.002) -> list[dict[str, Any]]:
    """Pools of simulated machines for ten minutes: how much of their time counts, and how busy the receiver is.

    Speeds are lognormal (15 %), a worker needs 5 to 60 s to be ready, and dies after 100 hours (or one) on average;
    ``handling`` is the time that the receiver spends on a report, three times what was measured.
    """
    seconds = 60.0 if quick else 600.0
    found = []
    for size, every in ((100, 1.0), (1000, 1.0), (1000, 5.0), (1000, 30.0), (10_000, 50.0)):
        for hours in (100.0, 1.0):
            rng = np.random.default_rng(size)
            speeds = rng.lognormal(0.0, 0.15, 20 * size).tolist()
            lives = rng.exponential(3600.0 * hours, 20 * size).tolist()
            ready = (5.0 + rng.exponential(5.0, 20 * size)).clip(max=60.0).tolist()
            pool = SimulatedPool(
                size, work=math.inf, speed=speeds.__getitem__, lives=lives.__getitem__, ready_after=ready.__getitem__,
                handling=handling,
            )  # fmt: skip
            result = Scheduler(pool, size, seconds=seconds, report_every=every, restarts=10 * size).run()
            done = sum(report.work for report in result.reports.values())
            found.append({
                "machines": size, "report_every": every, "mean_life_hours": hours, "seconds": result.seconds,
                "work_that_counts": done / (sum(speeds[:size]) * seconds), "lost": len(result.lost),
                "without_report": size - len(result.reports), "receiver_busy": pool.received * handling / pool.now(),
            })  # fmt: skip
    return found


@kernel
def sweep(probabilities, costs, targets, values, beta, out):  # type: ignore[no-untyped-def]
    """One step of backward induction in its plainest form, eight outcomes a row."""
    k = 0
    for row in range(out.size):
        total = 0.0
        for _ in range(8):
            cost = costs[k] + values[targets[k]]
            total += probabilities[k] * (cost if beta == 0.0 else math.exp(beta * cost))
            k += 1
        out[row] = total


def tables(quick: bool) -> dict[str, Any]:
    """Bytes an outcome, a row and a state of a table take, and what float32 would change: float64 over it, in time."""
    mdp = domains.make("grid-mdp")
    kept = {"outcome": ("probabilities", "losses", "next_states", "done"), "row": ("action_ids", "outcome_offsets"),
            "state": ("action_offsets", "terminal_losses")}  # fmt: skip
    sizes = {name: sum(getattr(mdp, field).itemsize for field in fields) for name, fields in kept.items()}
    searched = sum(getattr(mdp.data, field).itemsize for field in ("cumulative", "losses", "targets"))
    rng, states, rows = np.random.default_rng(0), 50_000 if quick else 500_000, 200_000 if quick else 2_000_000
    targets = rng.integers(states, size=8 * rows).astype(np.int32)
    wide = rng.random(8 * rows), rng.random(8 * rows)
    narrow = tuple(array.astype(np.float32) for array in wide)
    values, out, ratios = rng.random(states), np.empty(rows), {}
    for beta in (0.0, 0.5):
        pairs = []
        for repeat in range(8):
            seconds = [
                measured(functools.partial(sweep, *data, targets, values, beta, out))[1] for data in (wide, narrow)
            ]
            if repeat:
                pairs.append(seconds[0] / seconds[1])
        ratios[beta] = spread(pairs)
    return {"bytes": sizes, "bytes_of_an_outcome_in_a_search": searched, "float64_over_float32": ratios}


def main() -> None:
    parts: dict[str, Callable[[bool], Any]] = {
        "threads": threads, "reports": reports, "thousand": thousand, "workers": workers, "tables": tables,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and few repeats, to try the script")
    parser.add_argument("--most", type=int, default=1_000_000, help="most iterations of the part quality")
    parser.add_argument("--seeds", type=int, default=1, help="how many times as many seeds in the part quality")
    parser.add_argument("parts", nargs="*", help="threads, workers, reports, quality, thousand, tables")
    given = parser.parse_args()
    chosen = given.parts or ["threads", "reports", "thousand", "tables"]
    unknown = sorted(set(chosen) - {*parts, "quality"})
    if unknown:
        parser.error(f"no part is called {unknown[0]!r}")
    parts["quality"] = lambda quick: quality(quick, given.most, given.seeds)
    result = {name: parts[name](given.quick) for name in chosen}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
