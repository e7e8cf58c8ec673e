"""What risk is: the entropic risk measure, its accumulator, and other measures of samples."""

from tailwise.risk.accumulator import EntropicAccumulator
from tailwise.risk.criteria import Average, Recursive
from tailwise.risk.distribution import ReturnDistribution
from tailwise.risk.entropic import erm, oce_objective, oce_utility
from tailwise.risk.measures import (
    Interval,
    conditional_value_at_risk,
    entropic_value_at_risk,
    erm_interval,
    exceedance,
    value_at_risk,
)
from tailwise.risk.objectives import (
    ERM,
    Budgeted,
    CVaR,
    EVaR,
    Exceedance,
    Expectation,
    ExpectedUtility,
    NestedCVaR,
    Objective,
    RobustKL,
    RobustL1,
    WorstCase,
    as_objective,
)

__all__ = [
    "ERM",
    "Average",
    "Budgeted",
    "CVaR",
    "EVaR",
    "EntropicAccumulator",
    "Exceedance",
    "Expectation",
    "ExpectedUtility",
    "Interval",
    "NestedCVaR",
    "Objective",
    "Recursive",
    "ReturnDistribution",
    "RobustKL",
    "RobustL1",
    "WorstCase",
    "as_objective",
    "conditional_value_at_risk",
    "entropic_value_at_risk",
    "erm",
    "erm_interval",
    "exceedance",
    "oce_objective",
    "oce_utility",
    "value_at_risk",
]
