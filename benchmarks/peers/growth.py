"""Growth: seconds and memory of tailwise along one axis, everything else at its base size."""

from __future__ import annotations

import resource
from typing import Any

import common

BASE = {"states": 1000, "actions": 4, "outcomes": 4, "horizon": 10, "iterations": 10_000}
LIMIT = 8_000_000_000  # bytes of address space: what breaks first shall break, and not the machine


def measure(axis: str, value: int, planner: str) -> dict[str, Any]:
    """Build a random table and plan on it once, after a warm-up on a small one."""
    import numpy  # noqa: F401  (its threads' stacks are mapped before the limit)

    from tailwise import ErmMcts, LearnedModelSearch, backward_induction

    kinds: dict[str, Any] = {"paper's rule": ErmMcts, "learned model": LearnedModelSearch}

    def decide(mdp: Any, iterations: int) -> Any:
        if planner == "exact":
            return backward_induction(mdp, 0.5)
        return kinds[planner](mdp, 0.5, seed=0).plan(iterations=iterations)

    decide(common.random_mdp(3, 50), 100)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT + common_mapped(), resource.RLIM_INFINITY))
    size = {**BASE, axis: value}
    before = common.resident()
    times: dict[str, float] = {}
    try:
        built: list[Any] = []
        times["build"] = common.seconds(
            lambda: built.append(common.random_mdp(size["horizon"], size["states"], size["actions"], size["outcomes"]))
        )
        plans: list[Any] = []
        times["seconds"] = common.seconds(lambda: plans.append(decide(built[0], size["iterations"])))
    except MemoryError as error:
        return {"broke": f"memory (limit {LIMIT // 10**9} GB): {error}"[:200], **times}
    except Exception as error:
        return {"broke": f"{type(error).__name__}: {error}"[:200], **times}
    plan = plans[0]
    return {
        **times, "megabytes": max(0.0, common.peak() - before), "bytes": getattr(plan, "bytes", None),
        "stopped": str(getattr(plan, "stopped", "")), "iterations": getattr(plan, "iterations", None),
    }  # fmt: skip


def common_mapped() -> int:
    """Address space that is in use before the work begins."""
    import psutil

    return int(psutil.Process().memory_info().vms)


if __name__ == "__main__":
    common.main(measure)
