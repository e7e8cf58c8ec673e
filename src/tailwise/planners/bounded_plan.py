"""Rows of what bounded RTDP found: their intervals are certain."""

from __future__ import annotations

import math
from typing import Any

from tailwise.models.contract import Sense
from tailwise.risk.intervals import Interval
from tailwise.search import ActionRow


def make_bounded_row(action: Any, label: str, visits: int, total: int, erm: float, bounds: Interval) -> ActionRow:
    """Assemble a row; ``erm``, an estimate of unknown error (the middle once proven), is in the model's sense."""
    share = visits / total if total else 0.0
    unknown = (math.nan,) * 4  # no totals are sampled
    return ActionRow(action, label, visits, share, erm, *unknown, bounds, lower=bounds.low, upper=bounds.high)


def in_sense(low: float, high: float, sense: Sense) -> Interval:
    """Return bounds of a cost as bounds in the model's sense."""
    return Interval(float(low), float(high)) if sense == "cost" else Interval(0.0 - float(high), 0.0 - float(low))
