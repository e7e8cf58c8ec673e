"""Exact policies by name: backward induction at the risk level, and at beta = 0."""

from __future__ import annotations

from typing import Any

from tailwise._random import Seed
from tailwise.planners.backward_induction import Solution, backward_induction
from tailwise.planners.registry import register_planner


def _optimal(model: Any, beta: float, *, seed: Seed = None) -> Solution:
    return backward_induction(model, beta)


def _neutral(model: Any, beta: float, *, seed: Seed = None) -> Solution:
    return backward_induction(model, 0.0)


register_planner("erm-bi", _optimal, summary="the exact optimal policy, by backward induction", needs_outcomes=True)
register_planner("neutral-bi", _neutral, summary="the exact risk-neutral policy", needs_outcomes=True)
