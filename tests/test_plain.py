"""Results as plain values."""

import json
from dataclasses import dataclass

import numpy as np

from tailwise import ErmMcts, domains
from tailwise._results import Result, plain
from tailwise.risk.measures import Interval
from tailwise.search import StopReason


@dataclass(frozen=True)
class Inner(Result):
    interval: Interval
    _hidden: int = 0


@dataclass(frozen=True)
class Outer(Result):
    inner: tuple[Inner, ...]
    stopped: StopReason
    array: np.ndarray


def test_a_result_becomes_what_json_can_say():
    result = Outer(
        (Inner(Interval(-np.inf, np.float64(2.0))),), StopReason.PROVEN, np.array([[1.0, np.nan], [np.inf, 4.0]])
    )
    assert result.to_dict() == {
        "inner": [{"interval": [None, 2.0]}], "stopped": "proven", "array": [[1.0, None], [None, 4.0]],
    }  # fmt: skip
    assert plain({1: np.int32(3), "b": np.bool_(True), "c": (0.5, complex(1, 2))}) == {
        "1": 3, "b": True, "c": [0.5, "(1+2j)"],
    }  # fmt: skip


def test_a_plan_survives_json():
    plan = ErmMcts(domains.make("mdp-4"), 0.5, seed=0).plan(iterations=200)
    content = json.loads(json.dumps(plan.to_dict()))
    assert content == plan.to_dict()
    assert content["label"] == plan.label
    assert content["stopped"] == "iterations"
    assert [row["visits"] for row in content["rows"]] == [row.visits for row in plan.rows]
    assert content["rows"][0]["interval"] == list(plan.rows[0].interval)
    assert "_samples" not in content
