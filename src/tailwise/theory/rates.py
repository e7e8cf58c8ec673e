"""What the theorems ask for and promise: their conditions, each with an error that names it, and the rate.

``form`` selects how a constant is computed, everywhere in this layer:

``"printed"``
    the formula as the paper prints it, slips included;
``"corrected"``
    the smallest repair of the formula with which the result holds: by the paper's own proof, but for the
    constant C, which holds because the tight one implies it (:mod:`tailwise.theory.concentration`);
``"tight"``
    the same theorem with sharper steps where they cost nothing (docs, page "Theory").

Both estimators approach mu* like ``n^(alpha / (xi (1 - eta)) - 1)``: ``n^(eta - 1)`` for the schedule's
``alpha = xi eta (1 - eta)``, that is ``n^(-1/2)`` at eta = 1/2. The paper writes the factor in front as
exp(2 beta R); that leaves theta out, which for independent costs holds exp(4 beta R xi). It enters twice, at
the same power of n:

- the pulls of bad arms are of order ``theta^(1/(xi (1-eta)))`` and cost 2R' each: together
  ``exp(2 beta R (1 + 2/(1-eta)))``, which is exp(10 beta R) at eta = 1/2;
- the optimal arm's own error is bounded by ``1 + 2 theta / (xi - 1)``: exp(4 beta R xi), which is larger wherever
  the theorem applies. At xi = 12 ``log_bias_bound`` grows by 48 R per unit of beta.

Integrating ``min(1, 2 theta z^-xi)`` (``form="tight"``) leaves ``theta^(1/xi)`` of theta in the second, that is
exp(4 beta R), and the first decides. With the tight C, whose logarithm falls by 4 R per unit of beta instead of
8 R, the first is ``exp(2 beta R (1 + 1/(1-eta)))``, which is exp(6 beta R) at eta = 1/2, and the second exp(2 beta R).

:func:`fit_exponent` measures an exponent from independent batches: a line through (ln n, ln error) in
each batch, and Student's t interval over the batches' slopes. Checkpoints of one run depend on each
other, so the scatter around one line would say nothing honest about the slope.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tailwise._validate import choice, integer, numeric, real
from tailwise.errors import ConditionError, OptionError


def convergence_exponent(alpha: float, xi: float, eta: float) -> float:
    """Exponent of n in the bounds on the bias: ``alpha / (xi (1 - eta)) - 1``.

    Parameters
    ----------
    alpha, xi, eta : float
        Parameters that satisfy the conditions of theorem ``non-stationary-bandit-results``.

    Returns
    -------
    float
        In [-1/2, 0): the error at n is O(n^exponent).

    Examples
    --------
    >>> from tailwise.theory import convergence_exponent
    >>> convergence_exponent(alpha=3.0, xi=12.0, eta=0.5)
    -0.5
    """
    check_alpha(alpha, xi, eta)
    return float(alpha) / (float(xi) * (1.0 - float(eta))) - 1.0


@dataclass(frozen=True)
class ExponentFit:
    """A measured exponent.

    Attributes
    ----------
    slope : float
        Mean over batches of the slope of ln error against ln n.
    low, high : float
        Confidence interval of the slope.
    confidence : float
        Its nominal coverage.
    batches : int
        Number of independent batches.
    """

    slope: float
    low: float
    high: float
    confidence: float
    batches: int


def fit_exponent(sizes: ArrayLike, errors: ArrayLike, *, confidence: float = 0.95) -> ExponentFit:
    """Measure with which power of n an error decays.

    Parameters
    ----------
    sizes : array_like of float, shape (m,)
        The values of n, at least two different ones, positive.
    errors : array_like of float, shape (batches, m)
        Positive errors at these n in independent batches, at least two.
    confidence : float in (0, 1), default 0.95
        Coverage of the interval.

    Returns
    -------
    ExponentFit
        Slope and interval. -1/2 means that the error decays like n^(-1/2).

    Raises
    ------
    OptionError
        If shapes do not match, or an error is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from tailwise.theory import fit_exponent
    >>> n = np.array([100.0, 1000.0, 10000.0])
    >>> fit = fit_exponent(n, np.outer([1.0, 2.0, 3.0], n**-0.5))
    >>> round(fit.slope, 12), round(fit.high - fit.low, 12)
    (-0.5, 0.0)
    """
    counts, values = numeric(sizes, "sizes"), numeric(errors, "errors")
    level = real(confidence, "confidence", low=0.0, high=1.0, ends="()")
    if counts.ndim != 1 or values.ndim != 2 or values.shape[1] != counts.size:
        raise OptionError(
            f"errors must have shape (batches, {counts.size}) for {counts.size} sizes, not {values.shape}"
        )
    if values.shape[0] < 2 or np.unique(counts).size < 2:
        raise OptionError("an exponent with an interval needs at least two batches and two different sizes")
    if not (np.isfinite(counts).all() and (counts > 0).all()):
        raise OptionError("sizes must be positive and finite")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise OptionError("errors must be positive and finite; pool more replications into a batch")
    from scipy.special import stdtrit  # keeps the import of this layer light

    centred = np.log(counts) - np.log(counts).mean()
    slopes = np.log(values) @ centred / float(centred @ centred)
    slope, batches = float(slopes.mean()), int(slopes.size)
    error = float(slopes.std(ddof=1)) / math.sqrt(batches)
    width = float(stdtrit(batches - 1, 0.5 + level / 2)) * error
    return ExponentFit(slope, slope - width, slope + width, level, batches)


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
