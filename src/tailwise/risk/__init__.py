"""What risk is: the entropic risk measure, its accumulator, and other measures of samples."""

from tailwise.risk.accumulator import EntropicAccumulator
from tailwise.risk.entropic import erm, oce_objective, oce_utility
from tailwise.risk.intervals import Interval, erm_interval
from tailwise.risk.measures import (
    conditional_value_at_risk,
    entropic_value_at_risk,
    value_at_risk,
)

__all__ = [
    "EntropicAccumulator",
    "Interval",
    "conditional_value_at_risk",
    "entropic_value_at_risk",
    "erm",
    "erm_interval",
    "oce_objective",
    "oce_utility",
    "value_at_risk",
]
