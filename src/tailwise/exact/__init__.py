"""Exact solvers for tables, and the exact law of the total of a fixed policy."""

from typing import TYPE_CHECKING

from tailwise._lazy import lazy

if TYPE_CHECKING:
    from tailwise.exact.backward_induction import Solution, backward_induction
    from tailwise.exact.constrained import ConstrainedPlan, constrained_planning
    from tailwise.exact.cvar import TotalPlan, cvar_planning, exceedance_planning
    from tailwise.exact.evar import EvarSolution, evar_planning
    from tailwise.exact.nested_cvar import NestedCvarSolution, nested_cvar_planning
    from tailwise.exact.policy_intervals import PolicyInterval, policy_intervals
    from tailwise.exact.policy_risk import action_frequencies, policy_risk
    from tailwise.exact.return_distribution import cost_distribution
    from tailwise.exact.truncation import truncate
    from tailwise.risk.distribution import ReturnDistribution

__all__ = [
    "ConstrainedPlan",
    "EvarSolution",
    "NestedCvarSolution",
    "PolicyInterval",
    "ReturnDistribution",
    "Solution",
    "TotalPlan",
    "action_frequencies",
    "backward_induction",
    "constrained_planning",
    "cost_distribution",
    "cvar_planning",
    "evar_planning",
    "exceedance_planning",
    "nested_cvar_planning",
    "policy_intervals",
    "policy_risk",
    "truncate",
]

__getattr__ = lazy(__name__)
