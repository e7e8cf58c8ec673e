r"""How fast the ERM estimator concentrates: of independent costs (paper, appendix B), and of random next states.

For n independent costs in [-R, R] (eqs. ``entropic_risk_concentration_bound_two_sided``, ``_1``, ``_2``)::

    P[|rho_n - rho| >= z] <= 2 exp(-C n z^2),         C = omega^2 / (8 L_u^2 sigma^2)
    omega = beta exp(-2 beta R),  L_u = beta exp(2 beta R)
    P[n rho_n - n rho >= n^eta z] <= theta / z^xi     (lemma polynomial-concentration-erm-estimator)
    theta = max(1, 2 (xi / (2 C))^(xi/2) exp(-xi/2))

``printed`` takes sigma = R^2. A cost in [-R, R] is sub-Gaussian with parameter sigma = R (Hoeffding's
lemma): ``corrected`` takes that. For R > 1 the print is merely loose; for R < 1 it does not follow from the
cited theorem. It is nevertheless true where ``tight`` implies it, for ``R >= (exp(-2 b) - exp(-4 b)) / (4 b)`` with
b = beta R, hence for every beta where R >= 1/2. For R < 1/2 it is *false* once beta is small enough.

``tight`` is Hoeffding's inequality for ``Y = exp(beta X)`` itself. With ``E Y >= exp(-beta R)`` and
``exp(beta z) - 1 >= beta z``, and in the lower tail ``rho - z >= -R`` (else the event is empty), *each*
tail is at most ``exp(-C n z^2)``, without the factor 2, for

    C = beta^2 exp(-2 beta R) / (2 sinh(beta R)^2),

which tends to the sub-Gaussian ``1 / (2 R^2)`` as beta -> 0, decays like exp(-4 beta R) instead of
exp(-8 beta R), and implies the corrected statement. It is what ``corrected`` rests on: the cited theorem asks for a
utility that is strongly convex and smooth on all of R, which exp is not.

From next states to an arm (lemma ``non-deterministic-bandit-convergence-and-concentration``): an arm of a
non-deterministic bandit has an immediate cost and a random next state s' in S, whose own cost stream concentrates with
(theta, xi, eta). Then the arm's estimator concentrates with (theta^L, xi, eta)::

    theta^L = 2^(xi+1) |S|^(xi+1) theta (R^xi + exp(4 beta R)^xi + exp(2 beta R)^xi / beta^xi)

for the ERM at level beta of the next states' costs (in a tree: beta_(h+1)), costs in [-R, R], and theta at
least the theta^T of the counts of next states (:func:`log_theta_transitions`). As printed this is valid.
It is also loose in ways that matter, which ``tight`` mends:

- the term R^xi bounds an event that the rest of the proof does not use: it can go;
- ``exp(2 beta R) / beta`` diverges as beta -> 0, that is, at every deep node of a discounted tree. The
  differences T(s')/n - P(s') sum to 0, so a constant may be subtracted from exp(beta mu): what is left is
  ``(exp(2 beta R) - 1) / beta``, which tends to 2R;
- ``exp(beta |d|) - 1 <= |d| (exp(2 beta R) - 1) / (2 R)`` for |d| <= 2R (convexity) turns exp(4 beta R)
  into ``exp(2 beta R) (exp(2 beta R) - 1) / (2 beta R)``.

The proof applies the assumption, which is about fixed n, at the random count T(s'). That is right
because next states are drawn independently of the cost streams; the paper does not say it.
"""

from __future__ import annotations

import math
from decimal import Decimal

from tailwise._validate import integer, real
from tailwise.theory._decimals import ln, log_expm1, log_sum, precise
from tailwise.theory.rates import check_beta, check_form, check_radius, check_xi


@precise
def log_concentration_constant(beta: float, radius: float, *, form: str = "corrected") -> float:
    """Natural logarithm of the concentration constant C of the ERM estimator.

    Parameters
    ----------
    beta : float
        Risk level, > 0, in 1/cost.
    radius : float
        R, > 0: costs lie in [-R, R].
    form : {"printed", "corrected", "tight"}, default "corrected"
        See :mod:`tailwise.theory.concentration`.

    Returns
    -------
    float
        ln C, with C in 1/cost^2. Larger is better.

    Raises
    ------
    ConditionError
        If beta <= 0.

    Examples
    --------
    >>> from tailwise.theory import log_concentration_constant
    >>> round(log_concentration_constant(1.0, 0.5), 6)  # -8 beta R - ln 8 - 2 ln R
    -4.693147
    >>> round(log_concentration_constant(1.0, 0.5, form="printed"), 6)
    -3.306853
    >>> round(log_concentration_constant(1.0, 0.5, form="tight"), 6)
    -0.389503
    """
    level, bound = Decimal(check_beta(beta)), Decimal(check_radius(radius))
    return float(log_constant(level, bound, check_form(form)))


def log_constant(beta: Decimal, radius: Decimal, form: str) -> Decimal:
    """:func:`log_concentration_constant` on decimals."""
    scaled = beta * radius
    if form == "tight":  # 2 sinh(b) exp(b) = exp(2 b) - 1
        return ln(2) + 2 * (ln(beta) - log_expm1(2 * scaled))
    power = 4 if form == "printed" else 2
    return -8 * scaled - ln(8) - power * ln(radius)


@precise
def log_exponential_tail(count: int, deviation: float, beta: float, radius: float, *, form: str = "corrected") -> float:
    """Logarithm of the exponential bound on one tail of the ERM estimator.

    Parameters
    ----------
    count : int
        n >= 1, number of independent costs.
    deviation : float
        z > 0, in the unit of the costs.
    beta, radius, form
        As in :func:`log_concentration_constant`.

    Returns
    -------
    float
        ``ln(2 exp(-C n z^2))``; without the 2 for ``form="tight"``. Positive values say nothing.

    Examples
    --------
    >>> from tailwise.theory import log_exponential_tail
    >>> round(log_exponential_tail(1000, 0.2, beta=0.5, radius=1.0, form="tight"), 4)
    -6.7739
    """
    number = integer(count, "count", low=1)
    distance = Decimal(real(deviation, "deviation", low=0.0, ends="(]"))
    level, bound, kind = Decimal(check_beta(beta)), Decimal(check_radius(radius)), check_form(form)
    exponent = log_constant(level, bound, kind).exp() * number * distance**2
    return float((Decimal(0) if kind == "tight" else ln(2)) - exponent)


@precise
def log_theta(xi: float, beta: float, radius: float, *, form: str = "corrected") -> float:
    """Logarithm of theta in the polynomial concentration of the ERM estimator.

    Parameters
    ----------
    xi : float
        Exponent of the polynomial tail, > 1; free to choose for independent costs.
    beta, radius, form
        As in :func:`log_concentration_constant`.

    Returns
    -------
    float
        ln theta >= 0, for every eta in [1/2, 1). theta has the unit cost^xi.

    Notes
    -----
    Source: lemma ``polynomial-concentration-erm-estimator``. The lemma asks for theta > 1 and prints a
    maximum with 1; every later step needs theta >= 1 only.

    Examples
    --------
    >>> from tailwise.theory import log_theta
    >>> round(log_theta(16.0, beta=1.0, radius=1.0), 4)
    89.9642
    """
    exponent, level = Decimal(check_xi(xi)), Decimal(check_beta(beta))
    return float(log_theta_of_costs(exponent, level, Decimal(check_radius(radius)), check_form(form)))


def log_theta_of_costs(xi: Decimal, beta: Decimal, radius: Decimal, form: str) -> Decimal:
    """:func:`log_theta` on decimals."""
    log_c = log_constant(beta, radius, form)
    factor = Decimal(0) if form == "tight" else ln(2)
    return max(Decimal(0), factor + xi / 2 * (ln(xi) - ln(2) - log_c - 1))


@precise
def log_theta_transitions(xi: float) -> float:
    """Logarithm of theta for the counts of next states (lemma ``comer_2025_lemma``).

    Parameters
    ----------
    xi : float
        Exponent of the polynomial tail, > 1.

    Returns
    -------
    float
        ln theta^T >= 0 with ``P[|T(n) - n p| >= n^eta z] <= 2 theta^T / z^xi`` for a binomial T(n) and
        every z >= 1, eta in [1/2, 1).

    Notes
    -----
    The paper states that such a constant exists. Hoeffding gives ``exp(-2 n^(2 eta - 1) z^2)`` for each
    tail, hence ``theta^T = max(1, (xi / 4)^(xi/2) exp(-xi/2))``.

    Examples
    --------
    >>> from tailwise.theory import log_theta_transitions
    >>> round(log_theta_transitions(16.0), 4)
    3.0904
    """
    return float(log_theta_of_counts(Decimal(check_xi(xi))))


def log_theta_of_counts(xi: Decimal) -> Decimal:
    """:func:`log_theta_transitions` on decimals."""
    return max(Decimal(0), xi / 2 * (ln(xi) - ln(4) - 1))


def polynomial_tail(deviation: float, log_constant: float, exponent: float) -> float:
    """Evaluate the polynomial bound ``theta / z^xi``, cut at 1.

    Parameters
    ----------
    deviation : float
        z >= 1.
    log_constant : float
        ln theta.
    exponent : float
        xi, > 0.

    Returns
    -------
    float
        A bound on a probability, in [0, 1].

    Examples
    --------
    >>> from tailwise.theory import polynomial_tail
    >>> round(polynomial_tail(2.0, log_constant=0.0, exponent=3.0), 12)
    0.125
    """
    distance = real(deviation, "deviation", low=1.0)
    return math.exp(min(0.0, log_constant - exponent * math.log(distance)))


@precise
def log_theta_nondeterministic(
    *, log_theta: float, xi: float, beta: float, radius: float, states: int, form: str = "corrected"
) -> float:
    """Logarithm of theta^L, the constant of an arm with random next states.

    Parameters
    ----------
    log_theta : float
        ln theta >= 0 of the next states' estimators; raised to ln theta^T if smaller.
    xi : float
        Exponent of the polynomial tail, > 1; xi^L = xi and eta^L = eta.
    beta : float
        Risk level of the next states' costs, > 0 (beta times the discount).
    radius : float
        R > 0: the costs from the next states on lie in [-R, R].
    states : int
        |S| >= 1. The number of next states that the arm can reach is enough.
    form : {"printed", "corrected", "tight"}, default "corrected"
        "corrected" equals "printed" here; see :mod:`tailwise.theory.concentration` for "tight".

    Returns
    -------
    float
        ln theta^L, with theta^L in cost^xi.

    Raises
    ------
    ConditionError
        If beta <= 0 or xi <= 1.

    Examples
    --------
    >>> from tailwise.theory import log_theta_nondeterministic
    >>> options = {"log_theta": 4.0, "xi": 16.0, "radius": 1.0, "states": 3}
    >>> [round(log_theta_nondeterministic(beta=beta, **options), 2) for beta in (1.0, 1e-3)]
    [98.46, 145.02]
    >>> [round(log_theta_nondeterministic(beta=beta, form="tight", **options), 2) for beta in (1.0, 1e-3)]
    [85.04, 45.57]
    """
    exponent, kind = Decimal(check_xi(xi)), check_form(form)
    theta = Decimal(real(log_theta, "log_theta", low=0.0))
    level, bound = Decimal(check_beta(beta)), Decimal(check_radius(radius))
    return float(exact_theta_arm(theta, exponent, level, bound, integer(states, "states", low=1), kind))


def exact_theta_arm(log_theta: Decimal, xi: Decimal, beta: Decimal, radius: Decimal, states: int, form: str) -> Decimal:
    """:func:`log_theta_nondeterministic` on decimals, without checks."""
    theta = max(log_theta, log_theta_of_counts(xi))
    scaled = 2 * beta * radius
    if form == "tight":
        growth = log_expm1(scaled)
        bracket = log_sum(xi * (scaled + growth - ln(scaled)), xi * (growth - ln(beta)))
    else:
        bracket = log_sum(log_sum(xi * ln(radius), 2 * xi * scaled), xi * (scaled - ln(beta)))
    return (xi + 1) * (ln(2) + ln(states)) + theta + bracket
