"""Numbers and names as people read them: one way for the command line, reports, the explorer and notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterable

MISSING = "-"


def number(value: float | None, digits: int = 6) -> str:
    """Return a number, or a dash where there is none."""
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.{digits}g}" if value else "0"


def span(low: float | None, high: float | None, digits: int = 5, *, point: bool = True) -> str:
    """Return an interval, or a dash where an end is missing.

    Of samples that do not differ it is a single point, which says nothing: ``point`` is whether it may be one.
    """
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return MISSING
    if low == high and not point:
        return "no spread"
    ends = number(low, digits), number(high, digits)
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def share(value: float | None) -> str:
    """Return a probability in percent."""
    return MISSING if value is None or not math.isfinite(value) else f"{100 * value:.3g} %"


def listed(names: Iterable[str]) -> str:
    """Return names with commas and an "and"."""
    every = list(names)
    return " and ".join([", ".join(every[:-1]), every[-1]] if len(every) > 1 else every)
