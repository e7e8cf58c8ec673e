r"""The bandit theorem for the stream estimator (paper, ``non-stationary-bandit-results-stream-estimator``).

``rho_stream_n`` is the ERM of *all* costs that the bandit produced; at beta > 0 it is never below
``rho_bar_n`` (Jensen). With the constants of :mod:`tailwise.theory.average` and
``g = exp(2 beta R) - 2 beta R - 1``, eta'' = eta', xi'' = alpha - 1 and

    c_1     = 2^xi' theta'
    c_2     = (K-1) max{c + 4, 2^alpha / (alpha-1)} (2 (K-1) g / beta)^(alpha-1)
    c_3     = 4 R (N_p - 1)^(1 - eta'')
    theta'' = max{c_1 + max(c_2, c_3), theta'}

``corrected``: case (ii) of lemma ``non-optimal-arm-concentration-bound`` shows ``(c + 4)^(alpha-1)`` and
prints ``c + 4``. The printed lemma is false, not only its proof: two arms of constant cost 0 and 0.2, with
theta = 1, xi = 12, alpha = 3, eta = 1/2, pull the bad arm more often than it allows with probability 1. And
as in the average theorem, z ranges up to c_3 for n < N_p, so theta'' needs ``c_3^(alpha-1)``. ``tight`` keeps
``4 / n^eta' <= 4 / N_p^eta'`` instead of 4, and starts from the tight theta'.

Part 2 of the theorem as printed bounds ``|mu* - rho_stream_n|``, a random variable; the proof bounds its
expectation, and that is what :meth:`StreamConstants.log_error_bound` gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from tailwise._validate import integer, real
from tailwise.theory._exact_average import ExactAverage, log_minus_one
from tailwise.theory._logs import as_float, ln, log_second_remainder, log_sum, precise
from tailwise.theory.average import AverageConstants
from tailwise.theory.concentration import log_mean_deviation


@dataclass(frozen=True, kw_only=True)
class StreamConstants:
    """Constants of the stream theorem; every ``log_`` field is a natural logarithm.

    Attributes
    ----------
    form : str
        "printed", "corrected" or "tight".
    eta_second, xi_second : float
        Exponents of the conclusion: eta'' = alpha / (xi (1 - eta)), xi'' = alpha - 1.
    log_arm_bracket : float
        The maximum in lemma ``non-optimal-arm-concentration-bound``:
        ``P[T_i(n) >= n^eta'' x] <= bracket x^(1 - alpha)`` for every bad arm i and n >= N_p.
    log_c1, log_c2, log_c3 : float
        As in the module's docstring; c_3 is 0 (minus infinity) where N_p = 1.
    log_theta_second : float
        theta'', in cost^xi''.
    """

    form: str
    eta_second: float
    xi_second: float
    log_arm_bracket: float
    log_c1: float
    log_c2: float
    log_c3: float
    log_theta_second: float

    def log_tail(self, deviation: float) -> float:
        """``ln(theta'' / z^xi'')`` at z = ``deviation`` >= 1; positive values say nothing."""
        return self.log_theta_second - self.xi_second * math.log(real(deviation, "deviation", low=1.0))

    def log_arm_tail(self, share: float) -> float:
        """``ln`` of the bound on ``P[T_i(n) >= n^eta'' x]`` at x = ``share`` > 0, for n >= N_p."""
        return self.log_arm_bracket - self.xi_second * math.log(real(share, "share", low=0.0, ends="(]"))

    @precise
    def log_error_bound(self, count: int) -> float:
        """``ln`` of the bound on ``E|rho_stream_n - mu*|`` at n = ``count``.

        It is ``(1 + 2 theta'' / (xi'' - 1)) n^(eta'' - 1)``, and for ``form="tight"``
        ``(2 theta'')^(1/xi'') xi'' / (xi'' - 1) n^(eta'' - 1)``, as in :meth:`AverageConstants.log_bias_bound`.
        """
        log_theta, xi = Decimal(self.log_theta_second), Decimal(self.xi_second)
        steps = ln(integer(count, "count", low=1))
        return as_float(log_mean_deviation(log_theta, xi, self.form) + Decimal(self.eta_second - 1.0) * steps)


def stream_constants(average: AverageConstants) -> StreamConstants:
    """Constants of the concentration of the stream estimator.

    Parameters
    ----------
    average : AverageConstants
        The constants of the average estimator, of the same bandit and in the same form.

    Returns
    -------
    StreamConstants
        All constants of the theorem, as logarithms.

    Examples
    --------
    >>> from tailwise.theory import average_constants, stream_constants
    >>> average = average_constants(
    ...     log_theta=0.0, alpha=3.0, xi=12.0, eta=0.5, arms=2, gap=0.2, beta=1.0, radius=0.5)
    >>> stream = stream_constants(average)
    >>> round(stream.log_theta_second, 4)
    14.6929
    >>> stream.log_theta_second > average.log_theta_prime
    True
    """
    return StreamConstants(
        form=average.form,
        eta_second=average.eta_prime,
        xi_second=average.xi_prime,
        **{name: as_float(value) for name, value in exact_stream(average.exact).items()},
    )


@precise
def exact_stream(average: ExactAverage) -> dict[str, Decimal]:
    """The logarithms of :class:`StreamConstants`, as decimals."""
    power, others = average.alpha - 1, average.arms - 1
    four = ln(4) - (average.eta_prime * average.log_n_p if average.form == "tight" else 0)
    sums = log_sum(average.log_coefficient, four)
    repaired = average.form != "printed"
    bracket = max(power * sums if repaired else sums, average.alpha * ln(2) - ln(power))
    growth = log_second_remainder(2 * average.beta * average.radius) - ln(average.beta)
    c1 = average.log_theta_prime + power * ln(2)
    c2 = ln(others) + bracket + power * (ln(2 * others) + growth)
    c3 = ln(4 * average.radius) + (1 - average.eta_prime) * log_minus_one(average.log_n_p)
    small = power * c3 if repaired else c3
    theta = max(log_sum(c1, max(c2, small)), average.log_theta_prime)
    return {"log_arm_bracket": bracket, "log_c1": c1, "log_c2": c2, "log_c3": c3, "log_theta_second": theta}
