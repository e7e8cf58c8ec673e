"""What a simulator costs beside its own step: ``python benchmarks/simulators.py [--quick]``. Prints one JSON object.

- ``python``: search time over the time of the user's own steps, for a step that takes about 5 microseconds
  (``own``: the same number of calls of the same step in a bare loop);
- ``compiled``: nanoseconds per step of a compiled simulator and of the table of the same problem;
- ``bind``: seconds to compile a step that was never seen before;
- ``gymnasium``: microseconds per step of a search on CartPole and of CartPole itself, where Gymnasium is installed.

Medians and extremes over the repeats; the compared runs alternate, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
from typing import Any

import numpy as np

from tailwise import CompiledSimulator, ErmMcts, GymnasiumSimulator, Simulator, domains

COSTS = np.array([0.0, 0.25, 0.05, 1.0])


class Slow(Simulator):
    """mdp-4 with a loop that makes a step take about 5 microseconds."""

    start, horizon, discount, work = 0, 20, 0.9, 100

    def actions(self, state: int) -> int:
        return 2

    def step(self, state: int, action: int, rng: np.random.Generator) -> tuple[int, float, bool]:
        waste = 0
        for k in range(self.work):
            waste += k
        if state == 0:
            following = 1 if action else (2 if rng.random() < 0.85 else 3)
        else:
            following = 0 if rng.random() < 0.1 else state
        return following, (0.0, 0.25, 0.05, 1.0)[state], False


def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, bool]:
    cost = COSTS[state]
    if state == 0:
        if action == 1:
            return 1, cost, False
        return (2 if rng.random() < 0.85 else 3), cost, False
    return (0 if rng.random() < 0.1 else state), cost, False


def per_step(model: Any, iterations: int) -> float:
    search = ErmMcts(model, 0.5, seed=0)
    search.plan(iterations=2)
    begun = time.perf_counter()
    plan = search.plan(iterations=iterations)
    return (time.perf_counter() - begun) / plan.simulator_steps


def own_step(model: Simulator, calls: int) -> float:
    rng, state, act = np.random.default_rng(0), model.start, model.step
    begun = time.perf_counter()
    for _ in range(calls):
        state, _, _ = act(state, 0, rng)
    return (time.perf_counter() - begun) / calls


def spread(values: list[float], digits: int = 3) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), digits),
        "low": round(min(values), digits),
        "high": round(max(values), digits),
    }


def measure_python(repeats: int, iterations: int) -> dict[str, Any]:
    slow = Slow()
    while min(own_step(slow, 2000) for _ in range(5)) < 5e-6:
        slow.work += 10
    pairs = [(per_step(slow, iterations), own_step(slow, 10 * iterations)) for _ in range(repeats)]
    return {
        "search_us": spread([search * 1e6 for search, _ in pairs]),
        "own_us": spread([own * 1e6 for _, own in pairs]),
        "ratio": spread([search / own for search, own in pairs]),
    }


def measure_compiled(repeats: int, iterations: int) -> dict[str, Any]:
    table = domains.make("mdp-4")
    compiled = CompiledSimulator(step, start=0, horizon=20, discount=0.9, actions=2)
    pairs = [(per_step(compiled, iterations), per_step(table, iterations)) for _ in range(repeats)]
    return {
        "compiled_ns": spread([one * 1e9 for one, _ in pairs]),
        "table_ns": spread([two * 1e9 for _, two in pairs]),
        "ratio": spread([one / two for one, two in pairs]),
    }


def measure_bind(repeats: int) -> dict[str, float]:
    seconds = []
    for _ in range(repeats):
        model = domains.make("inventory")  # new functions every time
        begun = time.perf_counter()
        ErmMcts(model, 0.1)
        seconds.append(time.perf_counter() - begun)
    return spread(seconds)


def measure_gymnasium(repeats: int, iterations: int) -> dict[str, Any] | None:
    if importlib.util.find_spec("gymnasium") is None:
        return None
    import gymnasium

    model = GymnasiumSimulator("CartPole-v1")
    env = gymnasium.make("CartPole-v1").unwrapped

    def own(calls: int) -> float:
        env.reset(seed=0)
        begun = time.perf_counter()
        for k in range(calls):
            if env.step(k % 2)[2]:
                env.reset()
        return (time.perf_counter() - begun) / calls

    pairs = [(per_step(model, iterations), own(20 * iterations)) for _ in range(repeats)]
    return {
        "search_us": spread([one * 1e6 for one, _ in pairs]),
        "own_us": spread([two * 1e6 for _, two in pairs]),
        "ratio": spread([one / two for one, two in pairs]),
    }


def measure(*, quick: bool) -> dict[str, Any]:
    repeats = 3 if quick else 9
    return {
        "python": measure_python(repeats, 200 if quick else 1000),
        "compiled": measure_compiled(repeats, 2000 if quick else 20_000),
        "bind_seconds": measure_bind(2 if quick else 5),
        "gymnasium": measure_gymnasium(repeats, 50 if quick else 300),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    print(json.dumps(measure(quick=parser.parse_args().quick), indent=2))


if __name__ == "__main__":
    main()
