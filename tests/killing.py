"""Kills work with SIGKILL at random moments, again and again, and compares what it leaves in the end.

    python tests/killing.py WORK KILLS FOLDER

A process is forked for each attempt, after everything was compiled and imported: a start costs milliseconds, and all
that an attempt knows of the ones before it lies in files. Prints how many attempts were killed, and how many works
were finished with the very bytes of one that was never disturbed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from tailwise import ErmMcts, Simulator, domains
from tailwise.reproduction import Settings, reproduce, summarise, write_reproduction

TINY = Settings(problems=("mdp-4",), seeds=2, variants=("authors",), most_iterations=20)


class Walk(Simulator):
    horizon, start = 8, (3, "a")

    def actions(self, state):
        return 3

    def step(self, state, action, rng):
        place = max(0, min(state[0] + action - int(rng.integers(3)), 6))
        return (place, "ab"[place % 2]), abs(place - 2.5), False


def run(folder: Path) -> None:
    """A short reproduction."""
    reproduce(folder, TINY, resume=True)


def report(folder: Path) -> None:
    """The same with its report."""
    write_reproduction(summarise(reproduce(folder, TINY, resume=True)), folder)


def search(folder: Path) -> None:
    """A checkpointed search of a table, in two trees."""
    folder.mkdir(exist_ok=True)
    planner = ErmMcts(domains.make("grid-mdp"), 0.1, preset="auto", seed=1)
    planner.plan(iterations=40_000, threads=2, checkpoint=folder / "tree", every=0.0)


def simulator(folder: Path) -> None:
    """A checkpointed search of a simulator in Python."""
    folder.mkdir(exist_ok=True)
    ErmMcts(Walk(), 0.1, seed=1).plan(iterations=6_000, checkpoint=folder / "tree", every=0.0)


WORKS = {"run": run, "report": report, "search": search, "simulator": simulator}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "timing.log"
    }


def attempt(work, folder: Path, patience: float) -> bool:
    """Work in a process of its own for so many seconds at most; return whether it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            work(folder)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + patience
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if status:
                raise SystemExit(f"an attempt failed with status {status}")
            return True
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return status == 0


def main(name: str, kills: int, base: Path) -> None:
    work, rng = WORKS[name], random.Random(1)
    work(base / "warm")  # compiles
    begun = time.monotonic()
    attempt(work, base / "whole", 600.0)
    lasts = time.monotonic() - begun
    expected, killed, finished = contents(base / "whole"), 0, 0
    folder = base / "killed"
    while killed < kills or folder.exists():
        patience = rng.uniform(0.0, lasts * rng.choice((0.1, 0.5, 1.0))) if killed < kills else 60.0
        if attempt(work, folder, patience):
            assert contents(folder) == expected, f"after {killed} kills: other files than without"
            shutil.rmtree(folder)
            finished += 1
        else:
            killed += 1
    print(f"{killed} killed, {finished} finished, {lasts:.2f} s undisturbed")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
