"""No horizon: seconds and memory of one solver on the table of ``benchmarks/no_horizon.py``, discounted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import common

sys.path.append(str(Path(__file__).parent.parent))
import no_horizon


def made(solver: str, states: int) -> Any:
    if solver == "QuantEcon":
        return no_horizon.quantecon(states)
    return no_horizon.tailwise(states, no_horizon.DISCOUNT, no_horizon.BETA if "beta" in solver else 0.0)


def measure(solver: str, states: int) -> dict[str, Any]:
    """Best of three runs after the set-up; memory above the process that has built a small one."""
    made(solver, 5000)()  # compiles, or loads what was
    before, calls, values = common.resident(), [], []
    begun = common.seconds(lambda: calls.append(made(solver, states)))
    times = [common.seconds(lambda: values.append(calls[0]())) for _ in range(3)]
    return {
        "seconds": min(times), "setup_seconds": begun, "value": float(getattr(values[-1], "value", values[-1])),
        "megabytes": max(0.0, common.peak() - before), "states": states,
    }  # fmt: skip


if __name__ == "__main__":
    common.main(measure)
