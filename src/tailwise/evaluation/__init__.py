"""Closed-loop episodes, return samples, exact laws, intervals and comparisons."""

from tailwise.evaluation.bootstrap import bootstrap_interval
from tailwise.evaluation.comparison import Comparison, compare
from tailwise.evaluation.distribution import CostDistribution, cost_distribution
from tailwise.evaluation.episodes import evaluate
from tailwise.evaluation.returns import Returns
from tailwise.evaluation.settled import (
    SettledRisk,
    action_frequencies,
    policy_risk,
    settled_risk,
    settled_states,
)

__all__ = [
    "Comparison",
    "CostDistribution",
    "Returns",
    "SettledRisk",
    "action_frequencies",
    "bootstrap_interval",
    "compare",
    "cost_distribution",
    "evaluate",
    "policy_risk",
    "settled_risk",
    "settled_states",
]
