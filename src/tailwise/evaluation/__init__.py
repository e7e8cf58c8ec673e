"""Closed-loop episodes, return samples, exact laws, intervals and comparisons."""

from tailwise.evaluation.beta_choice import BetaChoice, choose_beta
from tailwise.evaluation.bootstrap import bootstrap_interval
from tailwise.evaluation.comparison import Comparison, compare
from tailwise.evaluation.distribution import CostDistribution, cost_distribution
from tailwise.evaluation.episodes import evaluate
from tailwise.evaluation.policy_risk import action_frequencies, policy_risk
from tailwise.evaluation.returns import Returns, SampleInterval, Summary
from tailwise.evaluation.risk_frontier import Frontier, FrontierPoint, frontier
from tailwise.evaluation.sampled_planning import SampledPlan, sampled_planning
from tailwise.evaluation.sampling import sampling_interval

__all__ = [
    "BetaChoice",
    "Comparison",
    "CostDistribution",
    "Frontier",
    "FrontierPoint",
    "Returns",
    "SampleInterval",
    "SampledPlan",
    "Summary",
    "action_frequencies",
    "bootstrap_interval",
    "choose_beta",
    "compare",
    "cost_distribution",
    "evaluate",
    "frontier",
    "policy_risk",
    "sampled_planning",
    "sampling_interval",
]
