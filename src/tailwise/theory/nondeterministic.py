r"""From next states to an arm (paper, lemma ``non-deterministic-bandit-convergence-and-concentration``).

An arm of a non-deterministic bandit has an immediate cost and a random next state s' in S, whose own cost
stream concentrates with (theta, xi, eta). Then the arm's estimator concentrates with (theta^L, xi, eta)::

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

from decimal import Decimal

from tailwise._validate import integer, real
from tailwise.theory._logs import as_float, ln, log_expm1, log_sum, precise
from tailwise.theory.concentration import log_theta_of_counts
from tailwise.theory.conditions import check_beta, check_form, check_radius, check_xi


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
        "corrected" equals "printed" here; see :mod:`tailwise.theory.nondeterministic` for "tight".

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
    return as_float(exact_theta_arm(theta, exponent, level, bound, integer(states, "states", low=1), kind))


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
