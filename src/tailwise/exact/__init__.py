"""Exact solvers for tables, and the exact distribution of the total of a policy."""

from typing import TYPE_CHECKING

from tailwise._lazy import lazy

if TYPE_CHECKING:
    from tailwise.exact.adversary import FearedModel, FearedOutcome, feared_model
    from tailwise.exact.alpha_vectors import Belief
    from tailwise.exact.alternatives import FixedPlan
    from tailwise.exact.belief_policy import BeliefPolicy
    from tailwise.exact.distributions import return_distribution
    from tailwise.exact.endless import BetaLimit, limit_beta
    from tailwise.exact.fixed_policies import action_frequencies, policy_risk
    from tailwise.exact.induction import backward_induction
    from tailwise.exact.intervals import PolicyInterval, policy_intervals
    from tailwise.exact.policy import Policy
    from tailwise.exact.solving import load_policy, register_solver, solve
    from tailwise.exact.tails import Limits
    from tailwise.exact.truncation import truncate

__all__ = [
    "Belief",
    "BeliefPolicy",
    "BetaLimit",
    "FearedModel",
    "FearedOutcome",
    "FixedPlan",
    "Limits",
    "Policy",
    "PolicyInterval",
    "action_frequencies",
    "backward_induction",
    "feared_model",
    "limit_beta",
    "load_policy",
    "policy_intervals",
    "policy_risk",
    "register_solver",
    "return_distribution",
    "solve",
    "truncate",
]

__getattr__ = lazy(__name__)
