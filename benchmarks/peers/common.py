"""What the measurements share: the protocol of a measuring process, clocks, memory, random tables.

Every measurement is a process of its own: ``python MODULE.py '{"option": ...}'`` calls the module's ``measure`` and
prints one JSON object as its last line. Whatever a library prints meanwhile goes to the standard error.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def main(measure: Callable[..., dict[str, Any]]) -> None:
    """Run one measurement with the options that the command line holds."""
    answer = os.dup(1)
    os.dup2(2, 1)
    result = measure(**json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}"))
    os.write(answer, (json.dumps(result) + "\n").encode())


def seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def spread(values: list[float]) -> list[float]:
    """Median, least and most."""
    return [statistics.median(values), min(values), max(values)]


def resident() -> float:
    """Memory of this process now, MB."""
    import psutil

    return float(psutil.Process().memory_info().rss) / 1e6


def peak() -> float:
    """Most memory that this process ever held, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def random_table(states: int, actions: int = 4, outcomes: int = 4, seed: int = 0) -> tuple[Any, Any, Any]:
    """Targets and probabilities (states * actions, outcomes), costs (states * actions,); no target twice in a row."""
    rng = np.random.default_rng(seed)
    rows = states * actions
    first = rng.integers(states, size=rows, dtype=np.int64)
    apart = np.arange(outcomes) * max(1, states // (outcomes + 1))
    targets = (first[:, None] + apart[None, :]) % states
    targets.sort(axis=1)
    chances = rng.random((rows, outcomes))
    chances += 0.01
    chances /= chances.sum(axis=1, keepdims=True)
    return targets, chances, rng.random(rows)


def random_mdp(horizon: int, states: int, actions: int = 4, outcomes: int = 4) -> Any:
    """The same table as tailwise's."""
    from tailwise import TabularMDP

    targets, chances, costs = random_table(states, actions, outcomes)
    rows = np.repeat(np.arange(states * actions), outcomes)
    return TabularMDP.from_outcomes(
        rows // actions, rows % actions, targets.reshape(-1), chances.reshape(-1), np.repeat(costs, outcomes),
        horizon=horizon, num_states=states,
    )  # fmt: skip
