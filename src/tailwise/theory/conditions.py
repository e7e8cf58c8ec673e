"""The conditions of the paper's theorems, each with an error that names it.

``form`` selects how a constant is computed, everywhere in this layer:

``"printed"``
    the formula as the paper prints it, slips included;
``"corrected"``
    the smallest repair of the formula with which the result holds: by the paper's own proof, but for the
    constant C, which holds because the tight one implies it (:mod:`tailwise.theory.concentration`);
``"tight"``
    the same theorem with sharper steps where they cost nothing (docs, page "Theory").
"""

from __future__ import annotations

from typing import Any

from tailwise._validate import choice, integer, real
from tailwise.errors import ConditionError

FORMS = ("printed", "corrected", "tight")


def check_form(form: str) -> str:
    """Return ``form`` if it is one of :data:`FORMS`, or raise ``OptionError``."""
    return choice(form, "form", FORMS)


def check_beta(beta: Any) -> float:
    """Return a risk level that the theorems cover, or raise.

    Raises
    ------
    ConditionError
        If ``beta`` is not positive.
    """
    level = real(beta, "beta")
    if level <= 0.0:
        way_out = (
            "for beta < 0 reflect the costs: the concentration of the estimators is that of -x at |beta|"
            if level < 0.0
            else "at beta = 0 the measure is the mean and the risk-neutral results apply"
        )
        raise ConditionError(f"the paper's constants need beta > 0, not beta = {level:g}; {way_out}")
    return level


def check_eta(eta: Any) -> float:
    """Return ``eta`` if it lies in [1/2, 1), or raise ``ConditionError``."""
    value = real(eta, "eta")
    if not 0.5 <= value < 1.0:
        raise ConditionError(f"the theorems need 1/2 <= eta < 1, not eta = {value:g}")
    return value


def check_xi(xi: Any) -> float:
    """Return ``xi`` if it is above 1, or raise ``ConditionError``."""
    value = real(xi, "xi")
    if value <= 1.0:
        raise ConditionError(f"the theorems need xi > 1, not xi = {value:g}")
    return value


def check_alpha(alpha: Any, xi: Any, eta: Any) -> float:
    """Return ``alpha`` if ``alpha > 2`` and ``xi eta (1 - eta) <= alpha < xi (1 - eta)``, or raise.

    Parameters
    ----------
    alpha, xi, eta : float
        Parameters of theorem ``non-stationary-bandit-results``.

    Returns
    -------
    float
        ``alpha``.

    Raises
    ------
    ConditionError
        If a condition fails; the message says which, and what would satisfy it.

    Examples
    --------
    >>> from tailwise.theory import check_alpha
    >>> check_alpha(3.0, xi=12.0, eta=0.5)
    3.0
    """
    exponent, share = check_xi(xi), check_eta(eta)
    value = real(alpha, "alpha")
    low, high = exponent * share * (1.0 - share), exponent * (1.0 - share)
    if value <= 2.0:
        raise ConditionError(
            f"the theorems need alpha > 2, not alpha = {value:g}; with alpha = xi eta (1 - eta) "
            f"and eta = {share:g} that asks for xi > {2.0 / (share * (1.0 - share)):g}"
        )
    if not low * (1.0 - 4e-16) <= value < high:
        raise ConditionError(
            f"the theorems need xi eta (1 - eta) <= alpha < xi (1 - eta), here {low:g} <= alpha < {high:g} "
            f"(xi = {exponent:g}, eta = {share:g}), not alpha = {value:g}"
        )
    return value


def check_radius(radius: Any, name: str = "radius") -> float:
    """Return the half-width R of the costs' range [-R, R]; positive and finite."""
    return real(radius, name, low=0.0, ends="(]")


def check_gap(gap: Any, radius: float, name: str = "gap") -> float:
    """Return the gap between the best and the second-best arm, in (0, 2R], or raise ``ConditionError``."""
    value = real(gap, name)
    if not 0.0 < value <= 2.0 * radius:
        raise ConditionError(
            f"{name} must lie in (0, 2 R] = (0, {2.0 * radius:g}], not {value:g}; the theorems need one "
            "optimal arm, better than all others by the gap, and costs in [-R, R] cannot differ by more"
        )
    return value


def check_arms(arms: Any, name: str = "arms") -> int:
    """Return the number of arms K, at least 2."""
    return integer(arms, name, low=2)
