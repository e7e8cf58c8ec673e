"""How long the paper's experiments take, and how often bootstrap intervals are right.

python benchmarks/reproduce.py time [--seeds 100] [--threads 2]     all of ``tailwise reproduce all``
python benchmarks/reproduce.py decisions                            one decision, by planner and n
python benchmarks/reproduce.py coverage                             coverage of 90 % intervals
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from tailwise import backward_induction, domains, evaluate
from tailwise.evaluation import Returns
from tailwise.reproduction import Settings, reproduce, summarise, write_reproduction
from tailwise.reproduction.experiments import BETAS
from tailwise.reproduction.variants import variant_planner

TIE = 1e-9  # one fall in 100 episodes of grid-mdp at beta 0.1 is the exact risk but for rounding


def whole(seeds: int, threads: int) -> None:
    """Time the whole reproduction into a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        begun, used = time.perf_counter(), time.process_time()
        run = reproduce(Path(folder) / "run", Settings(seeds=seeds), threads=threads)
        sampled = time.perf_counter()
        summary = summarise(run)
        write_reproduction(summary, run.path)
        ended = time.perf_counter()
    print(f"{len(summary.rows)} cells, {seeds} seeds, {threads} threads")
    print(f"episodes {sampled - begun:.0f} s, numbers and report {ended - sampled:.0f} s, in all {ended - begun:.0f} s")
    print(f"CPU time {time.process_time() - used:.0f} s")
    print(f"authors' code agrees in {sum(c.agrees for c in summary.checks)} of {len(summary.checks)} numbers")


def decisions() -> None:
    """Time one decision from scratch, plan included."""
    for problem, beta in (("mdp-4", 1.0), ("grid-mdp", 0.1)):
        mdp = domains.make(problem)
        for algorithm, variant in (("ERM-MCTS", "repaired"), ("Acc-MCTS", "repaired"), ("ERM-MCTS", "text")):
            planner = variant_planner(mdp, beta, algorithm, variant)
            planner.plan(iterations=100)
            for iterations in (1000, 10_000):
                times = []
                for _ in range(15):
                    planner.reset()
                    begun = time.perf_counter()
                    planner.plan(iterations=iterations)
                    times.append(1e3 * (time.perf_counter() - begun))
                median, least = statistics.median(times), min(times)
                name = f"{problem:9} {algorithm} {variant:9} n = {iterations:6}"
                print(f"{name}: median {median:7.2f} ms, least {least:7.2f} ms")


def coverage(repetitions: int = 2000) -> None:
    """Share of 90 % intervals, of 100 optimal episodes each, that hold the exact risk."""
    print("| problem | beta | percentile | BCa |\n| --- | ---: | ---: | ---: |")
    for problem, betas in BETAS.items():
        for beta in betas:
            mdp = domains.make(problem)
            solution = backward_induction(mdp, beta)
            samples = evaluate(mdp, solution, episodes=100 * repetitions, seed=1).costs.reshape(repetitions, 100)
            shares = []
            for method in ("percentile", "bca"):
                inside = 0
                for sample in samples:
                    low, high = Returns(sample).interval("erm", beta=beta, resamples=1000, method=method, seed=1)
                    inside += low - TIE <= solution.value <= high + TIE
                shares.append(100.0 * inside / repetitions)
            print(f"| {problem} | {beta:g} | {shares[0]:.1f} % | {shares[1]:.1f} % |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("time", "decisions", "coverage"))
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.what == "time":
        whole(options.seeds, options.threads)
    elif options.what == "decisions":
        decisions()
    else:
        coverage()


if __name__ == "__main__":
    main()
