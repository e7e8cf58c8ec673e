r"""The bandit theorems for both estimators.

*The average* (paper, theorem ``non-stationary-bandit-results``). Each arm's estimator concentrates with (theta, xi,
eta) (assumption ``non-stationary-bandit-assumption``), arms are chosen by eq. ``ucb_erm_algorithm`` with alpha. Then
``rho_bar_n``, the average of the arms' estimates weighted by their pulls, concentrates with (theta', xi', eta'): with
gap D = Delta_min,

    eta'  = alpha / (xi (1 - eta)),     xi' = alpha - 1
    c     = (2 theta^(1/xi) / D)^(1/(1-eta)),     A(t) = ceil(c t^eta')            eq. A(t)_def
    N_p   = min {t : t >= A(t)}                                                    eq. Np_definition
    R'    = R + (exp(2 beta R) - 1) / (2 beta)
    N_p'  = min {t : t >= A(t), 2 R' A(t) >= t^eta + 2 R' (4K - 3)}
    c_1   = 2 R' K c,     c_2 = 2 R (N_p' - 1)^(1 - eta')
    theta' = max {c_2, 2 c_1^(alpha-1) max(theta, 2 (K-1) / ((alpha-1) (1 + A(N_p'))^(alpha-1)))}

``corrected`` repairs two steps. For n < N_p' the bound must be at least 1 for every z up to c_2, so theta'
needs ``c_2^(alpha-1)``, not c_2. And with ``y = (1 + A) x`` the proof bounds the sum of t^-alpha from
floor(y) + 1 on by ``y^(1-alpha) / (alpha-1)``, which fails just below an integer y; ``floor(y) >= A x``
gives the same with A in place of 1 + A. ``tight`` also uses ``lambda + u(x - lambda)
<= -R + (exp(2 beta R) - 1) / beta`` for x, lambda in [-R, R] (the proof adds |lambda| <= R instead), hence
``R' = (exp(2 beta R) - 1) / (2 beta)``; the sum of the two terms instead of twice their maximum; and
4K - 4 in N_p' with c t^eta' for A(t), which is what the proof uses. (Where the corrected constants happen
to be smaller, because a smaller R' makes N_p' later, ``tight`` returns those: they are just as valid.)

As the proof says, theta may be raised: it is raised to (D/2)^xi where it is smaller, so that c >= 1.

*The stream* (paper, ``non-stationary-bandit-results-stream-estimator``). ``rho_stream_n`` is the ERM of *all* costs
that the bandit produced; at beta > 0 it is never below ``rho_bar_n`` (Jensen). With the constants above and ``g = exp(2
beta R) - 2 beta R - 1``, eta'' = eta', xi'' = alpha - 1 and

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
from dataclasses import dataclass, fields
from decimal import Decimal

from tailwise._validate import integer, real
from tailwise.theory._decimals import (
    ExactAverage,
    Setting,
    exact_average,
    ln,
    log_ceiling,
    log_mean_deviation,
    log_minus_one,
    log_second_remainder,
    log_sum,
    precise,
)
from tailwise.theory.rates import (
    check_alpha,
    check_arms,
    check_beta,
    check_eta,
    check_form,
    check_gap,
    check_radius,
    check_xi,
)


@dataclass(frozen=True, kw_only=True)
class AverageConstants:
    """Constants of theorem ``non-stationary-bandit-results``; every ``log_`` field is a natural logarithm.

    Attributes
    ----------
    form : str
        "printed", "corrected" or "tight".
    alpha, xi, eta : float
        The parameters that went in.
    eta_prime, xi_prime : float
        Exponents of the conclusion: eta' = alpha / (xi (1 - eta)) in [1/2, 1), xi' = alpha - 1 > 1.
    log_theta : float
        theta as used, raised to (gap/2)^xi if it was smaller.
    log_bonus_constant : float
        ln theta^(1/xi), the constant of the exploration bonus.
    log_coefficient : float
        ln c, where A(t) = ceil(c t^eta').
    log_n_p, log_n_p_prime : float
        N_p and N_p', numbers of pulls.
    log_c1, log_c2 : float
        c_1 and c_2 as in the module's docstring; c_2 is 0 (minus infinity) where N_p' = 1.
    log_theta_prime : float
        theta', in cost^xi'.
    """

    form: str
    alpha: float
    xi: float
    eta: float
    eta_prime: float
    xi_prime: float
    log_theta: float
    log_bonus_constant: float
    log_coefficient: float
    log_n_p: float
    log_n_p_prime: float
    log_c1: float
    log_c2: float
    log_theta_prime: float
    exact: ExactAverage

    @precise
    def log_a(self, time: int) -> float:
        """``ln A(time)`` (eq. ``A(t)_def``): pulls after which a bad arm's bonus is at most half its gap."""
        steps = Decimal(integer(time, "time", low=1))
        return float(log_ceiling(self.exact.log_coefficient + self.exact.eta_prime * ln(steps)))

    @precise
    def log_bias_bound(self, count: int) -> float:
        """``ln`` of the bound on ``|mu* - E[rho_bar_n]|`` at n = ``count`` (part 1 of the theorem).

        The estimator's own error, ``(1 + 2 theta / (xi - 1)) n^(eta - 1)``, plus 2 R' times the bad pulls over n. For
        ``form="tight"`` the own error is ``(2 theta)^(1/xi) xi / (xi - 1) n^(eta - 1)``: the integral of
        ``min(1, 2 theta z^-xi)``, where the paper integrates 1 up to z = 1 only. See :mod:`tailwise.theory.rates` for
        what that does to beta.
        """
        exact, log_n = self.exact, ln(integer(count, "count", low=1))
        own = (exact.eta - 1) * log_n + log_mean_deviation(exact.log_theta, exact.xi, exact.form)
        pulls = log_sum(exact.log_coefficient + exact.eta_prime * log_n, ln(2 / (exact.alpha - 2) + 1))
        bad = ln(2) + exact.log_radius_prime + ln(exact.arms - 1) + pulls - log_n
        return float(log_sum(own, bad))

    def log_tail(self, deviation: float) -> float:
        """``ln(theta' / z^xi')`` at z = ``deviation`` >= 1 (part 2); positive values say nothing."""
        return self.log_theta_prime - self.xi_prime * math.log(real(deviation, "deviation", low=1.0))


@precise
def average_constants(
    *,
    log_theta: float,
    alpha: float,
    xi: float,
    eta: float,
    arms: int,
    gap: float,
    beta: float,
    radius: float,
    form: str = "corrected",
) -> AverageConstants:
    """Constants of the concentration of the average estimator.

    Parameters
    ----------
    log_theta : float
        Natural logarithm of theta >= 1, the constant of each arm's concentration.
    alpha, xi, eta : float
        ``alpha > 2``, ``xi > 1``, ``1/2 <= eta < 1``, ``xi eta (1 - eta) <= alpha < xi (1 - eta)``.
    arms : int
        K >= 2.
    gap : float
        Delta_min in (0, 2 radius].
    beta : float
        Risk level, > 0.
    radius : float
        R > 0: costs lie in [-R, R].
    form : {"printed", "corrected", "tight"}, default "corrected"
        See :mod:`tailwise.theory.estimators`.

    Returns
    -------
    AverageConstants
        All constants of the theorem, as logarithms.

    Raises
    ------
    ConditionError
        If a condition of the theorem fails; the message names it.

    Examples
    --------
    >>> from tailwise.theory import average_constants
    >>> constants = average_constants(
    ...     log_theta=0.0, alpha=3.0, xi=12.0, eta=0.5, arms=2, gap=0.2, beta=1.0, radius=0.5)
    >>> round(constants.log_n_p, 6)  # N_p = 10^4
    9.21034
    >>> round(constants.log_a(10_000), 6)  # A(10^4) = 100 * 10^2
    9.21034
    >>> round(constants.log_theta_prime, 4)
    13.2898
    """
    check_alpha(alpha, xi, eta)
    bound = check_radius(radius)
    exact = exact_average(
        Setting(
            form=check_form(form),
            log_theta=Decimal(real(log_theta, "log_theta", low=0.0)),
            alpha=Decimal(float(alpha)),
            xi=Decimal(check_xi(xi)),
            eta=Decimal(check_eta(eta)),
            arms=check_arms(arms),
            gap=Decimal(check_gap(gap, bound)),
            beta=Decimal(check_beta(beta)),
            radius=Decimal(bound),
        ),
    )
    shared = {field.name for field in fields(AverageConstants)} & vars(exact).keys() - {"form"}
    return AverageConstants(
        form=exact.form,
        xi_prime=float(exact.alpha - 1),
        log_bonus_constant=float(exact.log_theta / exact.xi),
        exact=exact,
        **{name: float(getattr(exact, name)) for name in shared},
    )


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
        return float(log_mean_deviation(log_theta, xi, self.form) + Decimal(self.eta_second - 1.0) * steps)


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
        **{name: float(value) for name, value in exact_stream(average.exact).items()},
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
