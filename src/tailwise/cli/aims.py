"""The first decision of the exact policy for an objective about the whole total, with its distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from tailwise.exact import solve
    from tailwise.risk.objectives import Expectation

    policy = solve(mdp, objective, threads=threads, progress=True)
    with activity("laying out the totals"):
        neutral = solve(mdp, Expectation()).distribution()
        return policy.plan(), policy.gap, {"this policy": policy.distribution(), "risk-neutral": neutral}
