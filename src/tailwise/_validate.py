"""Checks of plain arguments, so that each message is written once."""

from __future__ import annotations

import math
import numbers
from typing import Any, Literal

import numpy as np

from tailwise.errors import OptionError

Ends = Literal["[]", "(]", "[)", "()"]  # of a range: which of its ends belong to it


def real(
    value: Any,
    name: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    ends: Ends = "[]",
    finite: bool = True,
    hint: str = "",
) -> float:
    """Return ``value`` as a float inside the given range, with or without its ``ends``, or raise ``OptionError``."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, np.number)):
        raise OptionError(f"{name} must be a number, not {value!r} of type {type(value).__name__}{_tail(hint)}")
    try:
        number = float(value)
    except OverflowError:  # an int beyond the range of a double
        number = math.inf if value == abs(value) else -math.inf
    above = number > low if ends[0] == "(" else number >= low
    inside = above and (number < high if ends[1] == ")" else number <= high)
    if math.isnan(number) or (finite and math.isinf(number)) or not inside:
        left = "(" if math.isinf(low) else ends[0]
        right = ")" if math.isinf(high) else ends[1]
        kind = "a finite number" if finite else "a number"
        raise OptionError(f"{name} must be {kind} in {left}{low:g}, {high:g}{right}, not {value!r}{_tail(hint)}")
    return number


def integer(value: Any, name: str, *, low: int, high: int | None = None, hint: str = "") -> int:
    """Return ``value`` as an int inside the given range, or raise ``OptionError``."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Integral, np.integer)):
        raise OptionError(f"{name} must be a whole number, not {value!r} of type {type(value).__name__}{_tail(hint)}")
    number = int(value)
    if number < low or (high is not None and number > high):
        bounds = f"at least {low}" if high is None else f"from {low} to {high}"
        raise OptionError(f"{name} must be {bounds}, not {number}{_tail(hint)}")
    return number


def thread_count(threads: Any) -> int:
    """Return a number of threads, 1 to 1024, or raise ``OptionError``."""
    return integer(threads, "threads", low=1, high=1024, hint="more than there are cores gain nothing")


def choice(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``allowed``, or raise ``OptionError``."""
    if not isinstance(value, str) or value not in allowed:
        raise OptionError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


def _tail(hint: str) -> str:
    return f"; {hint}" if hint else ""
