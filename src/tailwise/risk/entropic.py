"""The entropic risk measure of samples and of discrete distributions.

For a cost X and a risk level beta (paper, Sec. "Risk-aware Markov decision processes")::

    ERM_beta(X) = ln E[exp(beta X)] / beta                       beta > 0 averse, beta < 0 seeking
                = min_m { m + E[u_beta(X - m)] }                 its OCE form, for beta > 0
    u_beta(y)   = (exp(beta y) - 1) / beta,   u_0(y) = y

with the limits mean (beta -> 0), maximum (beta -> inf) and minimum (beta -> -inf).

Evaluated as written, the first line overflows once ``beta * x > 709`` and loses every digit
once beta is tiny. The OCE form repairs both: for *any* reference m,

    ERM = m + ln(1 + beta E[u_beta(X - m)]) / beta,

and when m is itself a good guess of the ERM, the second term is a small correction that
``expm1`` and ``log1p`` compute to full precision. :func:`erm` takes the mean (small beta) or the
shifted log-sum-exp (large beta) as the guess and corrects it once.

The cut-offs, where one form gives way to another, are the same for scalars, arrays and kernels, and free of units: beta
times a cost. On either side of one, both forms agree to the last digits. The ERM of many rows at once (samples of equal
size, or mixtures of the same atoms) is good to some 1e-15.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from tailwise._arrays import Floats, inner
from tailwise._validate import numeric, real
from tailwise.errors import OptionError

NEGLIGIBLE = 1e-17
"""Of ``|beta u|``: below, ``expm1(z) / z`` and ``log1p(z) / z`` are 1 to the last digit; so for denormal betas too."""

SERIES = 1e-9
"""Of ``|beta (x - ERM)|``: below, two terms of the Taylor series are exact."""

FLAT = 1e-13
"""Of ``|beta|`` times the range of the costs: below, the ERM is the mean to the last digits."""

NEAR = 1.0
"""Of ``|beta|`` times the range: below, ``expm1`` and ``log1p``; above, exponentials shifted by the worst cost."""

FAR = 40.0
"""Of ``beta (x - reference)``: above, x alone decides, and only the log domain holds it."""

LOST = -0.999
"""Of ``beta E[u]``: below, ``1 + beta E[u]`` has lost digits to cancellation."""


def utility(gap: float, beta: float) -> float:
    """Return ``u_beta(gap) = (exp(beta gap) - 1) / beta``, ``u_0(gap) = gap``; beta gap must not exceed 709."""
    return gap if abs(beta * gap) < NEGLIGIBLE else math.expm1(beta * gap) / beta


def inverse_utility(mean: float, beta: float) -> float:
    """Return ``ln(1 + beta mean) / beta``, the sure cost whose utility is ``mean``; ``beta mean`` must exceed -1."""
    return mean if abs(beta * mean) < NEGLIGIBLE else math.log1p(beta * mean) / beta


def shifted_term(gap: float, beta: float, spread: float) -> float:
    """Return what a cost ``shift + gap`` adds to the mean from which :func:`shifted_risk` finds the ERM.

    ``shift`` is the worst cost, so that ``beta gap <= 0``, and ``spread`` is ``|beta|`` times the range of the costs.
    """
    if spread < FLAT:
        return gap
    return math.expm1(beta * gap) if spread < NEAR else math.exp(beta * gap)


def shifted_risk(shift: float, mean: float, beta: float, spread: float) -> float:
    """Return the ERM of costs from the weighted mean of their :func:`shifted_term`."""
    if spread < FLAT:
        return shift + mean
    return shift + (math.log1p(mean) if spread < NEAR else math.log(mean)) / beta


_EXACT_SUM = 100_000  # up to here sums are correctly rounded (5 ms at most); beyond, pairwise


def erm(samples: ArrayLike, beta: float, weights: ArrayLike | None = None) -> float:
    """Entropic risk measure ``ln E[exp(beta X)] / beta`` of samples or of a discrete distribution.

    Parameters
    ----------
    samples : array_like of float, shape (n,)
        Costs, in any unit. +-inf are allowed; NaN is not.
    beta : float in [-inf, inf]
        Risk level, in units of 1/cost. Positive is risk-averse, 0 the mean, negative
        risk-seeking; inf gives the maximum and -inf the minimum.
    weights : array_like of float, shape (n,), optional
        Non-negative weights, normalised to sum to 1; equal weights if not given. Entries of
        weight 0 do not count, whatever their cost.

    Returns
    -------
    float
        The risk, in the unit of the costs.

    Raises
    ------
    OptionError
        If there is no sample, a NaN, a negative weight, or weights of another length.

    Notes
    -----
    O(n). The error is a few units in the last place of the largest ``|x|`` for every beta;
    nothing over- or underflows. Source: paper, eq. ``entropic_risk_estimator``.

    Examples
    --------
    >>> from tailwise import erm
    >>> round(erm([1.0, 2.0, 10.0], beta=0.5), 6)
    7.860776
    >>> erm([1.0, 2.0, 10.0], beta=0.0) == 13 / 3
    True
    >>> erm([0.0, 1e6], beta=1e-300, weights=[0.9, 0.1])
    100000.0
    """
    costs, shares = clean(samples, weights)
    level = real(beta, "beta", finite=False)
    with np.errstate(over="ignore", invalid="ignore"):  # costs or beta near the largest double: exp(-inf) is meant
        return weighted_erm(costs, level, shares)


def weighted_erm(costs: Floats, beta: float, shares: Floats) -> float:
    """:func:`erm` without validation; ``shares`` are positive and sum to 1."""
    low, high = float(costs.min()), float(costs.max())
    if low == high or beta == math.inf:
        return high
    if beta == -math.inf:
        return low
    if math.isinf(low) or math.isinf(high):
        return _infinite_erm(costs, beta, shares, low, high)
    terms = shares * costs
    mean = math.fsum(terms) if costs.size <= _EXACT_SUM else float(np.sum(terms))
    if beta == 0.0:
        return mean
    if abs(beta) * max(abs(low), abs(high)) < 0.5:
        guess = 0.0  # keeps the relative precision of a result near 0
    elif abs(beta) * (high - low) < NEAR:
        guess = mean
    else:
        top = high if beta > 0 else low
        guess = top + math.log(inner(shares, np.exp(beta * (costs - top)))) / beta
    terms = shares * oce_utility(costs - guess, beta)
    correction = math.fsum(terms) if costs.size <= _EXACT_SUM else float(np.sum(terms))
    return guess + inverse_utility(correction, beta)


def _infinite_erm(costs: Floats, beta: float, shares: Floats, low: float, high: float) -> float:
    """ERM when some costs are infinite: they either decide the result or drop out of it."""
    if (beta >= 0 and high == math.inf) or (beta <= 0 and low == -math.inf):
        if beta == 0 and low == -math.inf and high == math.inf:
            raise OptionError("the mean of costs that hold both -inf and +inf is undefined")
        return high if high == math.inf and beta >= 0 else low
    finite = np.isfinite(costs)
    if not finite.any():
        return low if beta > 0 else high
    kept = float(shares[finite].sum())
    return weighted_erm(costs[finite], beta, shares[finite] / kept) + math.log(kept) / beta


@overload
def oce_utility(cost: float, beta: float) -> float: ...
@overload
def oce_utility(cost: Sequence[float] | Floats, beta: float) -> Floats: ...
def oce_utility(cost: float | Sequence[float] | Floats, beta: float) -> float | Floats:
    """The OCE utility ``u_beta(y) = (exp(beta y) - 1) / beta`` of the paper; ``u_0(y) = y``.

    Parameters
    ----------
    cost : float or array_like of float
        The argument y (a cost, relative to a reference).
    beta : float
        Finite risk level.

    Returns
    -------
    float or ndarray of float64
        Same shape as ``cost``; in the unit of the costs.

    Examples
    --------
    >>> from tailwise.risk import oce_utility
    >>> float(oce_utility(2.0, beta=0.0))
    2.0
    """
    values = np.asarray(cost, dtype=np.float64)
    scaled = beta * values
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        exact = np.expm1(scaled) / beta if beta != 0 else values
    return np.where(np.abs(scaled) < NEGLIGIBLE, values, exact)[()]


def oce_objective(reference: float, samples: ArrayLike, beta: float, weights: ArrayLike | None = None) -> float:
    """The function ``h(m) = m + E[u_beta(X - m)]`` whose minimum over m is the ERM (beta >= 0).

    Parameters
    ----------
    reference : float
        The point m.
    samples, weights : array_like of float, shape (n,)
        As in :func:`erm`.
    beta : float
        Finite risk level. For beta < 0 the ERM is the *maximum* of h.

    Returns
    -------
    float
        h(m). Convex in m for beta > 0, with its minimum at ``m = erm(samples, beta, weights)``,
        where it equals that value (paper, lemma ``estimator_properties``).

    Examples
    --------
    >>> from tailwise import erm
    >>> from tailwise.risk import oce_objective
    >>> x = [0.0, 1.0, 4.0]
    >>> best = erm(x, beta=1.0)
    >>> abs(oce_objective(best, x, beta=1.0) - best) < 1e-12
    True
    """
    costs, shares = clean(samples, weights)
    level = real(beta, "beta")
    point = real(reference, "reference")
    return point + inner(shares, oce_utility(costs - point, level))


def clean(samples: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    """Validate samples and weights; drop entries of weight 0; normalise the rest."""
    costs = numeric(samples, "samples")
    if costs.ndim != 1:
        costs = costs.reshape(-1)
    if costs.size == 0:
        raise OptionError("samples is empty; a risk needs at least one cost")
    if np.isnan(costs).any():
        raise OptionError(f"samples[{int(np.flatnonzero(np.isnan(costs))[0])}] is NaN; every cost must be a number")
    if weights is None:
        return costs, np.full(costs.size, 1.0 / costs.size)
    shares = numeric(weights, "weights").reshape(-1)
    if shares.size != costs.size:
        raise OptionError(f"weights has {shares.size} entries for {costs.size} samples; the two must match")
    if not np.isfinite(shares).all() or (shares < 0).any():
        where = int(np.flatnonzero(~(np.isfinite(shares) & (shares >= 0)))[0])
        raise OptionError(f"weights[{where}] is {shares[where]}; weights must be finite and not negative")
    kept = shares > 0
    if not kept.any():
        raise OptionError("weights are all 0; at least one must be positive")
    if not kept.all():
        costs, shares = costs[kept], shares[kept]
    with np.errstate(over="ignore"):
        total = shares.sum()
    if np.isinf(total):  # weights near the largest double
        shares = shares / shares.max()
        total = shares.sum()
    return costs, shares / total


def row_erms(costs: Floats, beta: float, weights: Floats | None = None) -> Floats:
    """Return the ERM of each row of ``costs`` (k, n), or (n,) shared by all rows; with ``weights`` (k, n) if not equal.

    Each row is shifted by its own worst cost or, for a small beta, its mean: nothing overflows.
    """

    def mean(terms: Floats) -> Floats:
        if weights is None:
            return np.asarray(terms.mean(axis=1))
        return np.asarray((weights * terms).sum(axis=1) / weights.sum(axis=1))

    spread = abs(beta) * float(np.ptp(costs))
    if spread < FLAT:
        return mean(costs)
    if spread < NEAR:
        centre = mean(costs)
        return np.asarray(centre + np.log1p(mean(np.expm1(beta * (costs - centre[:, None])))) / beta)
    counted = costs if weights is None else np.where(weights > 0.0, costs, -math.copysign(math.inf, beta))
    top = (counted.max if beta > 0 else counted.min)(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(mean(np.exp(beta * (counted - top)))) / beta)


def mixture_erms(weights: Floats, atoms: Floats, beta: float) -> Floats:
    """Return the ERM of distributions ``weights`` (k, n), up to a factor each, on the same ``atoms`` (n,): one product.

    A row that lacks the atoms that decide the others is done on its own (:func:`row_erms`).
    """
    centre = weighted_erm(atoms, beta, np.full(atoms.size, 1.0 / atoms.size))
    means = (weights @ oce_utility(atoms - centre, beta)) / weights.sum(axis=1)
    scaled = beta * means
    lost, small = scaled < LOST, np.abs(scaled) < NEGLIGIBLE
    values = np.asarray(centre + np.where(small, means, np.log1p(np.where(lost, 0.0, scaled)) / (beta or 1.0)))
    if lost.any():
        values[lost] = row_erms(atoms, beta, weights[lost])
    return values
