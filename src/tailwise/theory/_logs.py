"""Logarithms of numbers too large for doubles, to 60 decimal digits.

Every constant of the paper is carried as its natural logarithm in :class:`decimal.Decimal`. That is
slow next to floats (about 20 microseconds an operation) and costs nothing here: a schedule takes a
few hundred operations. It buys that no cancellation has to be argued away, and that a ceiling which
falls on an exact integer is that integer.
"""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable
from decimal import Decimal
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

_CONTEXT = decimal.Context(
    prec=60,
    Emax=decimal.MAX_EMAX,
    Emin=decimal.MIN_EMIN,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)
_NEGLIGIBLE = Decimal(150)  # exp(-150) is below the last of 60 digits
_WHOLE = Decimal(100)  # beyond exp(100) a ceiling changes the logarithm by less than 1e-43
_NEAR_INTEGER = Decimal("1e-40")

MINUS_INFINITY = Decimal("-Infinity")


def precise(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Run ``function`` in the 60-digit decimal context."""

    @functools.wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with decimal.localcontext(_CONTEXT):
            return function(*args, **kwargs)

    return wrapper


def ln(number: float | Decimal) -> Decimal:
    """Natural logarithm of a non-negative number; minus infinity at 0."""
    exact = Decimal(number)
    return exact.ln() if exact else MINUS_INFINITY


def log_sum(first: Decimal, second: Decimal) -> Decimal:
    """``ln(exp(first) + exp(second))``."""
    high, low = max(first, second), min(first, second)
    if low.is_infinite() or high - low > _NEGLIGIBLE:
        return high
    return high + (1 + (low - high).exp()).ln()


def log_expm1(number: Decimal) -> Decimal:
    """``ln(exp(number) - 1)`` for a positive number."""
    if number > _NEGLIGIBLE:
        return number
    if number < Decimal("1e-20"):
        return number.ln() + number / 2
    return (number.exp() - 1).ln()


def log_second_remainder(number: Decimal) -> Decimal:
    """``ln(exp(number) - number - 1)`` for a positive number."""
    if number > _NEGLIGIBLE:
        return number
    if number < Decimal("1e-10"):
        series = 1 + number / 3 + number**2 / 12 + number**3 / 60
        return 2 * number.ln() - Decimal(2).ln() + series.ln()
    return (number.exp() - number - 1).ln()


def whole_from_log(log_value: Decimal) -> Decimal | None:
    """Ceiling of ``exp(log_value)``, or None where it is too large for the ceiling to matter."""
    if log_value > _WHOLE:
        return None
    value = log_value.exp()
    nearest = value.to_integral_value(decimal.ROUND_HALF_EVEN)
    if abs(value - nearest) <= nearest * _NEAR_INTEGER:
        return nearest
    return value.to_integral_value(decimal.ROUND_CEILING)


def log_ceiling(log_value: Decimal) -> Decimal:
    """``ln(ceil(exp(log_value)))``."""
    whole = whole_from_log(log_value)
    return log_value if whole is None else ln(whole)


def as_float(number: Decimal) -> float:
    """Nearest double; infinite where the number has none."""
    if number.is_infinite():
        return math.inf if number > 0 else -math.inf
    return float(number)
