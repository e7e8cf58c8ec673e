"""Closed-loop episodes, return samples, exact laws, intervals and comparisons."""

from typing import TYPE_CHECKING

from tailwise._lazy import lazy

if TYPE_CHECKING:
    from tailwise.evaluation.beta_choice import BetaChoice, choose_beta
    from tailwise.evaluation.comparison import Comparison, compare
    from tailwise.evaluation.episodes import evaluate
    from tailwise.evaluation.frontier_points import Frontier, FrontierPoint
    from tailwise.evaluation.intervals import sampling_interval
    from tailwise.evaluation.returns import Returns, SampleInterval, Summary
    from tailwise.evaluation.risk_frontier import frontier
    from tailwise.evaluation.sampled_planning import SampledPlan, sampled_planning
    from tailwise.evaluation.study import Study, StudyResults, load_study
    from tailwise.evaluation.what_if import Influence, Scenario, Sensitivity, Turn, WhatIf, sensitivity, what_if

__all__ = [
    "BetaChoice",
    "Comparison",
    "Frontier",
    "FrontierPoint",
    "Influence",
    "Returns",
    "SampleInterval",
    "SampledPlan",
    "Scenario",
    "Sensitivity",
    "Study",
    "StudyResults",
    "Summary",
    "Turn",
    "WhatIf",
    "choose_beta",
    "compare",
    "evaluate",
    "frontier",
    "load_study",
    "sampled_planning",
    "sampling_interval",
    "sensitivity",
    "what_if",
]

__getattr__ = lazy(__name__)
