"""Which action of a plan is best, which comes next, and by how much."""

from __future__ import annotations

import math

from tailwise.search.plan import Plan

MOST_ACTIONS = 6  # with charts; tables have all


def worse_by(plan: Plan, value: float, other: float) -> float:
    """Return by how much ``value`` is worse than ``other``."""
    return value - other if plan.sense == "cost" else other - value


def value_of(plan: Plan, k: int) -> float:
    """Return what a row is judged by, in the unit of the totals where there is such a number."""
    return plan.certainty_equivalents[k] if has_equivalents(plan) else plan.rows[k].erm  # type: ignore[attr-defined]


def has_equivalents(plan: Plan) -> bool:
    """Return whether a plan of a utility gives totals that are as good as its values."""
    return bool(getattr(plan, "certainty_equivalents", ()))


def ranked(plan: Plan) -> list[int]:
    """Return the positions of the rows: the recommended one first, then by value, unknown ones last."""

    def key(k: int) -> tuple[bool, float]:
        value = value_of(plan, k)
        bad = math.isnan(value)
        return bad, 0.0 if bad else value if plan.sense == "cost" else -value

    best = best_place(plan)
    return [best, *sorted((k for k in range(len(plan.rows)) if k != best), key=key)]


def best_place(plan: Plan) -> int:
    """Return the position of the recommended action's row."""
    return next(k for k, row in enumerate(plan.rows) if row.action == plan.action)
