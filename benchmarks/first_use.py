"""What the first use compiles: ``python benchmarks/first_use.py [--repeats N] [NAME ...]``. Prints one JSON object.

Processor seconds (user and system, of all threads) of a fresh process with an empty ``NUMBA_CACHE_DIR``, less those of
the same command with what that left in it; of each command the median and the extremes over the repeats.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

PYTHON = """
from tailwise import LearnedModelSearch, Simulator

class Walk(Simulator):
    start, horizon = 0, 20

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        after = state + (1 if rng.random() < 0.4 + 0.2 * action else -1)
        return after, abs(after) + 0.1 * action, False

LearnedModelSearch(Walk(), 0.1, seed=0).plan(iterations=200)
"""
PLAN = "-m tailwise plan"
COMMANDS = {
    "learned, table": f"{PLAN} grid-mdp --planner learned",
    "learned, compiled simulator": f"{PLAN} sailing --planner learned",
    "learned, Python simulator": PYTHON,
    "learned, Gymnasium environment": f"{PLAN} gym:CartPole-v1 --horizon 20 --planner learned",
    "erm-mcts, table": f"{PLAN} grid-mdp --planner erm-mcts",
    "erm-mcts, compiled simulator": f"{PLAN} sailing --planner erm-mcts",
    "learned-beliefs": f"{PLAN} tiger --planner learned-beliefs",  # Python and NumPy: next to nothing is compiled
    "histories": f"{PLAN} tiger --planner histories",
    "cvar-mcts": f"{PLAN} sailing --planner cvar-mcts --cvar 0.9",
    "distributional": f"{PLAN} sailing --planner distributional --cvar 0.9",
    "report": f"{PLAN} sailing --planner learned --report report.html",
    "serve": "-m tailwise serve sailing --planner learned",
}
REQUEST = '{"op": "plan"}\n'


def seconds(name: str, cache: str) -> float:
    words = COMMANDS[name].split()
    if words[0] != "-m":
        words = ["-c", COMMANDS[name]]
    else:
        words += ["--iterations", "200", "--seed", "0"] + ([] if "--cvar" in words else ["--beta", "0.1"])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *words], check=True, cwd=cache, env={**os.environ, "NUMBA_CACHE_DIR": cache},
        input=REQUEST, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def compile_seconds(name: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        first = seconds(name, cache)
        return first - seconds(name, cache)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("names", nargs="*", choices=[*COMMANDS, []], help="all if none is named")
    arguments = parser.parse_args()
    found = {}
    for name in arguments.names or COMMANDS:
        took = sorted(compile_seconds(name) for _ in range(arguments.repeats))
        found[name] = [round(value, 1) for value in (statistics.median(took), took[0], took[-1])]
        print(name, found[name], file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
