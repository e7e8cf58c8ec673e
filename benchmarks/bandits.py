"""How fast the bandit loop is: ``python benchmarks/bandits.py [--quick]``. Prints one JSON object.

Nanoseconds per pull on one thread, per rule, on the three-armed stationary example; the median and the
extremes over the repeats, after a warm-up that compiles. Then the time of a thousand replications.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

from tailwise.bandits import ALGORITHMS, ErmUcb, make_algorithm, make_bandit, simulate


def nanoseconds(rule: str, pulls: int, replications: int) -> float:
    bandit, algorithm = make_bandit("stationary"), make_algorithm(rule, 1.0)
    begun = time.perf_counter()
    simulate(bandit, algorithm, pulls=pulls, replications=replications, seed=0)
    return (time.perf_counter() - begun) / (pulls * replications) * 1e9


def measure(*, quick: bool) -> dict[str, Any]:
    pulls, replications, repeats = (2000, 20, 3) if quick else (20_000, 100, 7)
    rows = {}
    for rule in ALGORITHMS:
        nanoseconds(rule, 100, 2)
        times = [nanoseconds(rule, pulls, replications) for _ in range(repeats)]
        rows[rule] = {"median": statistics.median(times), "low": min(times), "high": max(times)}
    thousand = 1000 if not quick else 100
    begun = time.perf_counter()
    simulate(
        make_bandit("non-deterministic"),
        ErmUcb(1.0),
        pulls=10_000 if not quick else 1000,
        replications=thousand,
        seed=0,
    )
    return {
        "nanoseconds_per_pull": rows,
        "replications": {"number": thousand, "seconds": time.perf_counter() - begun},
        "pulls": pulls,
        "repeats": repeats,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    print(json.dumps(measure(quick=parser.parse_args().quick), indent=2))


if __name__ == "__main__":
    main()
