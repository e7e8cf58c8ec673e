"""The average theorem on 60-digit decimals, without checks (see :mod:`tailwise.theory.average`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from tailwise._validate import integer
from tailwise.theory._first_time import log_first_time, log_minus_one
from tailwise.theory._logs import as_float, ln, log_ceiling, log_expm1, log_sum, precise
from tailwise.theory.concentration import log_mean_deviation


@dataclass(frozen=True, kw_only=True)
class ExactAverage:
    """The theorem's parameters and constants; ``log_theta`` is raised to (gap/2)^xi where it was smaller."""

    form: str
    alpha: Decimal
    xi: Decimal
    eta: Decimal
    arms: int
    gap: Decimal
    beta: Decimal
    radius: Decimal
    eta_prime: Decimal
    log_theta: Decimal
    log_coefficient: Decimal
    log_radius_prime: Decimal
    log_n_p: Decimal
    log_n_p_prime: Decimal
    log_c1: Decimal
    log_c2: Decimal
    log_theta_prime: Decimal


def exact_average(form: str, **parameters: Any) -> ExactAverage:
    """Evaluate the theorem in one form; "tight" is the better of the tight and the corrected formulas."""
    found = _evaluate(form, **parameters)
    if form == "tight":
        other = _evaluate("corrected", **parameters)
        if other.log_theta_prime < found.log_theta_prime:
            return replace(other, form=form)
    return found


def _evaluate(
    form: str,
    *,
    log_theta: Decimal,
    alpha: Decimal,
    xi: Decimal,
    eta: Decimal,
    arms: int,
    gap: Decimal,
    beta: Decimal,
    radius: Decimal,
) -> ExactAverage:
    """Evaluate the theorem's formulas as they stand in one form."""
    eta_prime = alpha / (xi * (1 - eta))
    theta = max(log_theta, xi * (ln(gap) - ln(2)))
    coefficient = (ln(2) - ln(gap) + theta / xi) / (1 - eta)
    log_growth = log_expm1(2 * beta * radius) - ln(2 * beta)
    radius_prime = log_growth if form == "tight" else log_sum(ln(radius), log_growth)
    n_p = log_ceiling(coefficient / (1 - eta_prime))
    n_p_prime = log_first_time(
        log_n_p=n_p,
        log_coefficient=coefficient,
        log_slope=ln(2) + radius_prime,
        eta=eta,
        eta_prime=eta_prime,
        offset=4 * arms - 4 if form == "tight" else 4 * arms - 3,
        smooth=form == "tight",
    )
    c1 = ln(2) + radius_prime + ln(arms) + coefficient
    c2 = ln(2 * radius) + (1 - eta_prime) * log_minus_one(n_p_prime)
    pulls = log_ceiling(coefficient + eta_prime * n_p_prime)
    base = log_sum(Decimal(0), pulls) if form == "printed" else pulls
    rest = ln(2 * (arms - 1)) - ln(alpha - 1) - (alpha - 1) * base
    both = log_sum(theta, rest) if form == "tight" else ln(2) + max(theta, rest)
    small = c2 if form == "printed" else (alpha - 1) * c2
    return ExactAverage(
        form=form,
        alpha=alpha,
        xi=xi,
        eta=eta,
        arms=arms,
        gap=gap,
        beta=beta,
        radius=radius,
        eta_prime=eta_prime,
        log_theta=theta,
        log_coefficient=coefficient,
        log_radius_prime=radius_prime,
        log_n_p=n_p,
        log_n_p_prime=n_p_prime,
        log_c1=c1,
        log_c2=c2,
        log_theta_prime=max(small, (alpha - 1) * c1 + both),
    )


@precise
def log_average_bias(exact: ExactAverage, count: int) -> float:
    """``ln`` of part 1 of the theorem: estimator's own error plus 2 R' times the bad pulls, over n."""
    log_n = ln(integer(count, "count", low=1))
    own = (exact.eta - 1) * log_n + log_mean_deviation(exact.log_theta, exact.xi, exact.form)
    pulls = log_sum(exact.log_coefficient + exact.eta_prime * log_n, ln(2 / (exact.alpha - 2) + 1))
    bad = ln(2) + exact.log_radius_prime + ln(exact.arms - 1) + pulls - log_n
    return as_float(log_sum(own, bad))
