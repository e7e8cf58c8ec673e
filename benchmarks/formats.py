"""How fast files load, beside the readers underneath: ``python benchmarks/formats.py [--transitions N]``.

Prints one JSON object. The underlying reader turns the same bytes into columns of numbers and does nothing
else; ``ratio`` is our time over its time. Times are the best of ``--repeat`` runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np

from tailwise import TabularMDP
from tailwise.formats import load, save


def make(transitions: int, seed: int = 0) -> TabularMDP:
    """A table with four actions a state and five outcomes an action."""
    rng = np.random.default_rng(seed)
    states, actions, outcomes = max(1, transitions // 20), 4, 5
    origins = np.repeat(np.arange(states), actions * outcomes)
    ids = np.tile(np.repeat(np.arange(actions), outcomes), states)
    chances = rng.dirichlet(np.ones(outcomes), size=states * actions).reshape(-1)
    targets = rng.integers(states, size=origins.size)
    return TabularMDP.from_outcomes(
        origins, ids, targets, chances, rewards=rng.normal(size=origins.size), horizon=50, num_states=states
    )


def best(work: Callable[[], Any], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def measure(transitions: int, repeat: int) -> dict[str, Any]:
    mdp = make(transitions)
    results: dict[str, Any] = {"transitions": mdp.num_outcomes, "states": mdp.num_states, "repeat": repeat}
    with TemporaryDirectory() as name:
        folder = Path(name)
        csv, npz = folder / "model.csv", folder / "model.npz"
        results["csv_save_seconds"] = best(lambda: save(mdp, csv), 1)
        results["npz_save_seconds"] = best(lambda: save(mdp, npz), 1)
        results["csv_bytes"], results["npz_bytes"] = csv.stat().st_size, npz.stat().st_size
        results["csv_numpy"] = compare(
            lambda: without_pyarrow(csv), lambda: np.loadtxt(csv, delimiter=",", skiprows=1), mdp, repeat
        )
        results["npz"] = compare(
            lambda: load(npz), lambda: [v.sum() for v in np.load(npz, allow_pickle=False).values()], mdp, repeat
        )
        try:
            import pyarrow.csv
            import pyarrow.ipc
        except ImportError:
            return results
        results["csv_pyarrow"] = compare(lambda: load(csv), lambda: pyarrow.csv.read_csv(csv), mdp, repeat)
        arrow = save(mdp, folder / "model.arrow")

        def read_arrow() -> Any:
            with pyarrow.OSFile(str(arrow)) as source:
                return pyarrow.ipc.open_file(source).read_all()

        results["arrow"] = compare(lambda: load(arrow), read_arrow, mdp, repeat)
    return results


def without_pyarrow(path: Path) -> TabularMDP:
    with mock.patch.dict(sys.modules, {"pyarrow.csv": None}):
        mdp: TabularMDP = load(path)
    return mdp


def compare(ours: Callable[[], Any], underneath: Callable[[], Any], mdp: TabularMDP, repeat: int) -> dict[str, float]:
    assert ours().equals(mdp)
    turns = [(best(ours, 1), best(underneath, 1)) for _ in range(repeat)]  # in turn: a busy machine slows both
    mine, theirs = min(turn[0] for turn in turns), min(turn[1] for turn in turns)
    return {
        "seconds": mine,
        "reader_seconds": theirs,
        "ratio": mine / theirs,
        "transitions_per_second": mdp.num_outcomes / mine,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transitions", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    given = parser.parse_args()
    text = json.dumps(measure(given.transitions, given.repeat), indent=2)
    if given.out is not None:
        given.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
