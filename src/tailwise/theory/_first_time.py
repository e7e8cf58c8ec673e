"""N_p', the first time from which the bandit theorem's proof starts (exactly, also when it is astronomical).

Wanted is the first whole t >= N_p with ``s A(t) >= t^eta + s m``, where ``A(t) = ceil(c t^eta')`` and
s = 2R'. Since ``c t^eta' <= A(t) <= c t^eta' + 1``, it lies between the roots of
the smooth condition ``s c t^eta' >= t^eta + s m`` for m - 1 and for m, and within that interval A takes few
values: the condition is tried at the first t of each. (The smooth condition, once true, stays true,
and the proof needs it for m - 1 only; hence the first t is enough although A jumps.) Both conditions
are tried as ``s (A(t) - m) >= t^eta``: s may be so large that t^eta is beyond the last digit of the sum.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal

from tailwise.theory._logs import MINUS_INFINITY, ln, log_ceiling, log_expm1, whole_from_log

_HALVINGS = 220


def log_first_time(
    *,
    log_n_p: Decimal,
    log_coefficient: Decimal,
    log_slope: Decimal,
    eta: Decimal,
    eta_prime: Decimal,
    offset: int,
    smooth: bool,
) -> Decimal:
    """``ln N_p'``; ``offset`` is m and ``log_slope`` ln s. ``smooth`` uses c t^eta' in place of A(t)."""

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
    return log_whole if whole is None else (ln(whole - 1) if whole > 1 else MINUS_INFINITY)


def _next_step(pulls: Decimal, log_coefficient: Decimal, eta_prime: Decimal) -> Decimal:
    """First whole t with ``c t^eta' > pulls``, where A(t) jumps."""
    edge = ((ln(pulls) - log_coefficient) / eta_prime).exp()
    nearest = edge.to_integral_value(decimal.ROUND_HALF_EVEN)
    if abs(edge - nearest) <= nearest * Decimal("1e-40"):
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
