"""The first decision of the exact policy for an objective about the whole total, with its distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tailwise._progress import activity

if TYPE_CHECKING:
    from tailwise.models import TabularMDP
    from tailwise.risk.distribution import ReturnDistribution
    from tailwise.risk.objectives import Objective
    from tailwise.search import Plan


def first_plan(
    mdp: TabularMDP, objective: Objective, threads: int
) -> tuple[Plan, float, dict[str, ReturnDistribution]]:
    """Return the plan, by how much another could be better, and the totals of it and of the risk-neutral one."""
    from tailwise.evaluation.risk_frontier import policy_law
    from tailwise.exact import TotalPlan, backward_induction
    from tailwise.risk.distribution import ReturnDistribution
    from tailwise.risk.intervals import Interval
    from tailwise.search import ActionRow, Plan, StopReason
    from tailwise.search.plan import Origin

    found = _solved(mdp, objective, threads)
    with activity("laying out the totals"):
        if isinstance(found, TotalPlan):
            law = ReturnDistribution(found.totals, found.probabilities, mdp.sense, found.tolerance)
        else:
            law = policy_law(mdp, found)
        neutral = policy_law(mdp, backward_induction(mdp, 0.0))
    unknown, own = Interval(-math.inf, math.inf), (law.mean, law.std, law.minimum, law.maximum)
    rows = tuple(
        ActionRow(action, mdp.action_name(action), 0, 0.0, found.value, *own, unknown, distribution=law)
        if action == found.action
        else ActionRow(action, mdp.action_name(action), 0, 0.0, *(math.nan,) * 5, unknown)
        for action in mdp.actions(mdp.start).tolist()
    )
    gap, beta = float(getattr(found, "gap", 0.0)), float(getattr(found, "beta", math.nan))
    plan = Plan(
        found.action, mdp.action_name(found.action), found.value, rows, mdp.start, 0, beta, beta, mdp.sense, 0, 0, 0, 0,
        0.0, StopReason.PROVEN, method="solved exactly", objective=objective, proven=gap == 0.0,
        optimal_actions=(found.action,), origin=Origin(mdp, {"objective": objective.words}, "none is needed"),
    )  # fmt: skip
    return plan, gap, {"this policy": law, "risk-neutral": neutral}


def _solved(mdp: TabularMDP, objective: Any, threads: int) -> Any:
    from tailwise.exact import (
        constrained_planning,
        cvar_planning,
        evar_planning,
        exceedance_planning,
        nested_cvar_planning,
    )

    if objective.name == "budget":
        return constrained_planning(mdp, objective.bound, **vars(objective.risk), progress=True)
    if objective.name == "EVaR":
        return evar_planning(mdp, objective.level, threads=threads, progress=True)
    if objective.name == "nested CVaR":
        return nested_cvar_planning(mdp, objective.level, progress=True)
    if objective.name == "CVaR":
        return cvar_planning(mdp, objective.level, progress=True)
    return exceedance_planning(mdp, objective.threshold, progress=True)
