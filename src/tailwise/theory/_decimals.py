"""Logarithms of numbers too large for doubles, to 60 decimal digits.

Every constant of the paper is carried as its natural logarithm in :class:`decimal.Decimal`. That is
slow next to floats (about 20 microseconds an operation) and costs nothing here: a schedule takes a
few hundred operations. It buys that no cancellation has to be argued away, and that a ceiling which
falls on an exact integer is that integer.

The average theorem on 60-digit decimals, without checks (see :mod:`tailwise.theory.estimators`).

N_p', from which the proof starts, is exact, also when it is astronomical. Wanted is the first whole t >= N_p with ``s
A(t) >= t^eta + s m``, where ``A(t) = ceil(c t^eta')`` and s = 2R'. Since ``c t^eta' <= A(t) <= c t^eta' + 1``, it
lies between the roots of the smooth condition ``s c t^eta' >= t^eta + s m`` for m - 1 and for m, and within that
interval A takes few values: the condition is tried at the first t of each. (The smooth condition, once true, stays
true, and the proof needs it for m - 1 only; hence the first t is enough although A jumps.) Both conditions are tried
as ``s (A(t) - m) >= t^eta``: s may be so large that t^eta is beyond the last digit of the sum.
"""

from __future__ import annotations

import contextlib
import decimal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

_CONTEXT = decimal.Context(
    prec=60,
    Emax=decimal.MAX_EMAX,
    Emin=decimal.MIN_EMIN,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)
_NEGLIGIBLE = Decimal(150)  # exp(-150) is below the last of 60 digits
_WHOLE = Decimal(100)  # beyond exp(100) a ceiling changes the logarithm by less than 1e-43
_NEAR_INTEGER = Decimal("1e-40")


@contextlib.contextmanager
def _precisely() -> Iterator[None]:
    with decimal.localcontext(_CONTEXT):
        yield


precise = _precisely()  # the decorator that runs a function in this context


def ln(number: float | Decimal) -> Decimal:
    """Natural logarithm of a non-negative number; minus infinity at 0."""
    return Decimal(number).ln()


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


def log_mean_deviation(log_theta: Decimal, xi: Decimal, form: str) -> Decimal:
    """``ln E|Z|`` at most, where each tail is at most ``theta / z^xi``; :meth:`AverageConstants.log_bias_bound`."""
    if form == "tight":
        return (ln(2) + log_theta) / xi + ln(xi) - ln(xi - 1)
    return log_sum(Decimal(0), ln(2) + log_theta - ln(xi - 1))


_HALVINGS = 220


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the theorem is about."""

    form: str
    log_theta: Decimal
    alpha: Decimal
    xi: Decimal
    eta: Decimal
    arms: int
    gap: Decimal
    beta: Decimal
    radius: Decimal


@dataclass(frozen=True, kw_only=True)
class ExactAverage(Setting):
    """The theorem's constants, too; ``log_theta`` is raised to (gap/2)^xi where it was smaller."""

    eta_prime: Decimal
    log_coefficient: Decimal
    log_radius_prime: Decimal
    log_n_p: Decimal
    log_n_p_prime: Decimal
    log_c1: Decimal
    log_c2: Decimal
    log_theta_prime: Decimal


def exact_average(setting: Setting) -> ExactAverage:
    """Evaluate the theorem in a form; "tight" is the better of the tight and the corrected formulas."""
    found = _evaluate(setting)
    if setting.form == "tight":
        other = _evaluate(replace(setting, form="corrected"))
        if other.log_theta_prime < found.log_theta_prime:
            return replace(other, form="tight")
    return found


def _evaluate(setting: Setting) -> ExactAverage:
    """Evaluate the theorem's formulas as they stand in one form."""
    form, log_theta, alpha, xi, eta, arms, gap, beta, radius = vars(setting).values()
    eta_prime = alpha / (xi * (1 - eta))
    theta = max(log_theta, xi * (ln(gap) - ln(2)))
    coefficient = (ln(2) - ln(gap) + theta / xi) / (1 - eta)
    log_growth = log_expm1(2 * beta * radius) - ln(2 * beta)
    radius_prime = log_growth if form == "tight" else log_sum(ln(radius), log_growth)
    n_p = log_ceiling(coefficient / (1 - eta_prime))
    n_p_prime = _log_first_time(setting, n_p, coefficient, ln(2) + radius_prime, eta_prime)
    c1 = ln(2) + radius_prime + ln(arms) + coefficient
    c2 = ln(2 * radius) + (1 - eta_prime) * log_minus_one(n_p_prime)
    pulls = log_ceiling(coefficient + eta_prime * n_p_prime)
    base = log_sum(Decimal(0), pulls) if form == "printed" else pulls
    rest = ln(2 * (arms - 1)) - ln(alpha - 1) - (alpha - 1) * base
    both = log_sum(theta, rest) if form == "tight" else ln(2) + max(theta, rest)
    small = c2 if form == "printed" else (alpha - 1) * c2
    return ExactAverage(
        **{**vars(setting), "log_theta": theta},
        eta_prime=eta_prime,
        log_coefficient=coefficient,
        log_radius_prime=radius_prime,
        log_n_p=n_p,
        log_n_p_prime=n_p_prime,
        log_c1=c1,
        log_c2=c2,
        log_theta_prime=max(small, (alpha - 1) * c1 + both),
    )


def _log_first_time(
    setting: Setting, log_n_p: Decimal, log_coefficient: Decimal, log_slope: Decimal, eta_prime: Decimal
) -> Decimal:
    """``ln N_p'``; ``log_slope`` is ln s, ``offset`` m. "tight" uses c t^eta' in place of A(t)."""
    eta, smooth = setting.eta, setting.form == "tight"
    offset = 4 * setting.arms - (4 if smooth else 3)

    def smooth_holds(log_t: Decimal, margin: int) -> bool:
        excess = log_coefficient + eta_prime * log_t - ln(margin)  # of c t^eta' over m, relative
        return excess > 0 and log_slope + ln(margin) + log_expm1(excess) >= eta * log_t

    def holds(whole: Decimal) -> bool:
        log_t = ln(whole)
        if smooth:
            return smooth_holds(log_t, offset)
        pulls = whole_from_log(log_coefficient + eta_prime * log_t)
        if pulls is None:
            return smooth_holds(log_t, offset)
        return pulls > offset and log_slope + ln(pulls - offset) >= eta * log_t

    first = whole_from_log(log_n_p)
    if smooth_holds(log_n_p, offset) or (first is not None and holds(first)):
        return log_n_p
    root = _smooth_root(smooth_holds, log_n_p, offset if smooth else offset - 1)
    start = whole_from_log(root)
    if start is None:
        return log_ceiling(root)
    if smooth:
        return ln(start if holds(start) else start + 1)  # the root may lie above a whole t by less than its digits
    if first is not None:
        start = max(start, first)
    while not holds(start):
        pulls = whole_from_log(log_coefficient + eta_prime * ln(start))
        if pulls is None:
            return _smooth_root(smooth_holds, ln(start), offset)
        start = _next_step(pulls, log_coefficient, eta_prime)
    return ln(start)


def log_minus_one(log_whole: Decimal) -> Decimal:
    """``ln(t - 1)`` from ``ln t`` of a whole t; minus infinity at t = 1."""
    whole = whole_from_log(log_whole)
    return log_whole if whole is None else ln(whole - 1)


def _next_step(pulls: Decimal, log_coefficient: Decimal, eta_prime: Decimal) -> Decimal:
    """First whole t with ``c t^eta' > pulls``, where A(t) jumps."""
    edge = ((ln(pulls) - log_coefficient) / eta_prime).exp()
    nearest = edge.to_integral_value(decimal.ROUND_HALF_EVEN)
    if abs(edge - nearest) <= nearest * _NEAR_INTEGER:
        return nearest + 1
    return edge.to_integral_value(decimal.ROUND_CEILING)


def _smooth_root(smooth_holds: Callable[[Decimal, int], bool], low: Decimal, margin: int) -> Decimal:
    """Smallest ``ln t >= low`` at which the smooth condition holds, by bisection."""
    if smooth_holds(low, margin):
        return low
    width = Decimal(1)
    while not smooth_holds(low + width, margin):
        width *= 2
    high = low + width
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if smooth_holds(middle, margin):
            high = middle
        else:
            low = middle
    return high
