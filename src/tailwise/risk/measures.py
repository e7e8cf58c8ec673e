"""Other measures of a cost distribution: VaR, CVaR and EVaR, for samples or weighted atoms.

All are measures of *costs*: the upper tail is the bad one. ``level`` is the confidence: at
``level=0.95`` VaR is the 95 % quantile, CVaR the mean of the worst 5 %, and EVaR the tightest
bound on both that ERM gives (Ahmadi-Javid, 2012)::

    VaR  = inf {x : P(X <= x) >= level}
    CVaR = min_m { m + E[(X - m)+] / (1 - level) }            (Rockafellar & Uryasev, 2000)
    EVaR = inf_{beta > 0} { ERM_beta(X) - ln(1 - level) / beta }

How sure an ERM estimate is: with ``w_t = exp(beta (x_t - ERM))``, whose mean is 1, the delta method gives the standard
error ``std(w) / (|beta| sqrt(n))``; at beta = 0 it is that of the mean. The interval knows only what the sample saw: a
rare disaster that never occurred in it cannot widen it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailwise._arrays import Floats, inner
from tailwise._validate import real
from tailwise.risk.entropic import clean, oce_utility, weighted_erm


class Interval(NamedTuple):
    """A closed interval ``[low, high]``."""

    low: float
    high: float


def erm_interval(samples: ArrayLike, beta: float, confidence: float = 0.9) -> Interval:
    """Asymptotic two-sided confidence interval of the ERM of independent samples.

    Parameters
    ----------
    samples : array_like of float, shape (n,)
        Independent, equally distributed finite costs.
    beta : float
        Finite risk level.
    confidence : float in (0, 1), default 0.9
        Nominal coverage.

    Returns
    -------
    Interval
        ``(low, high)``; both infinite for a single sample.

    Examples
    --------
    >>> from tailwise.risk import erm_interval
    >>> low, high = erm_interval([0.0, 1.0] * 50, beta=1.0)
    >>> low < 0.6201 < high
    True
    """
    from statistics import NormalDist

    costs, shares = clean(samples, None)
    level = real(beta, "beta")
    wanted = real(confidence, "confidence", low=0.0, high=1.0, ends="()")
    if costs.size < 2:
        return Interval(-math.inf, math.inf)
    centre = weighted_erm(costs, level, shares)
    deviations = oce_utility(costs - centre, level)
    error = float(np.std(deviations, ddof=1)) / math.sqrt(costs.size)
    width = NormalDist().inv_cdf(0.5 + wanted / 2) * error
    return Interval(centre - width, centre + width)


def value_at_risk(samples: ArrayLike, level: float, weights: ArrayLike | None = None) -> float:
    """Smallest cost x with ``P(X <= x) >= level``.

    Parameters
    ----------
    samples, weights : array_like of float, shape (n,)
        Costs and optional non-negative weights, as in :func:`tailwise.erm`.
    level : float in [0, 1]
        Confidence; 0 gives the minimum and 1 the maximum.

    Returns
    -------
    float
        The quantile, one of the samples.

    Examples
    --------
    >>> from tailwise.risk import value_at_risk
    >>> value_at_risk([3.0, 1.0, 2.0, 4.0], level=0.5)
    2.0
    """
    costs, shares = clean(samples, weights)
    confidence = real(level, "level", low=0.0, high=1.0)
    wanted = confidence * (1.0 - 4.0 * float(np.finfo(np.float64).eps))  # a level as 0.95 is rounded itself
    order = np.argsort(costs, kind="stable")
    if weights is None:
        index = math.ceil(wanted * costs.size) - 1
    else:
        index = int(np.searchsorted(_running_sum(shares[order]), wanted))
    return float(costs[order[min(max(index, 0), costs.size - 1)]])


def _running_sum(shares: Floats) -> NDArray[np.longdouble]:
    """Return the running sum, to the last digits of a double: in parts, so that rounding does not build up."""
    size = 1024
    parts = np.zeros((-(-shares.size // size), size), np.longdouble)
    parts.ravel()[: shares.size] = shares
    within = np.cumsum(parts, axis=1)
    before = np.append(0.0, np.cumsum(within[:-1, -1]))
    return np.asarray((within + before[:, np.newaxis]).ravel()[: shares.size])


def conditional_value_at_risk(samples: ArrayLike, level: float, weights: ArrayLike | None = None) -> float:
    """Mean of the worst ``1 - level`` of the distribution (expected shortfall).

    Parameters
    ----------
    samples, weights : array_like of float, shape (n,)
        Costs and optional non-negative weights, as in :func:`tailwise.erm`.
    level : float in [0, 1]
        Confidence; 0 gives the mean and 1 the maximum.

    Returns
    -------
    float
        The tail mean; an atom at the quantile counts in part.

    Examples
    --------
    >>> from tailwise.risk import conditional_value_at_risk
    >>> conditional_value_at_risk([3.0, 1.0, 2.0, 4.0], level=0.5)
    3.5
    """
    costs, shares = clean(samples, weights)
    confidence = real(level, "level", low=0.0, high=1.0)
    order = np.argsort(-costs, kind="stable")
    tail = 1.0 - confidence
    if tail <= 0.0:
        return float(costs[order[0]])
    before = np.cumsum(shares[order]) - shares[order]
    part = np.clip(tail - before, 0.0, shares[order])
    used = part > 0
    return float(inner(part[used], costs[order][used]) / part.sum())


def entropic_value_at_risk(samples: ArrayLike, level: float, weights: ArrayLike | None = None) -> float:
    """Entropic value at risk: ``inf over beta > 0 of ERM_beta(X) - ln(1 - level) / beta``.

    Parameters
    ----------
    samples, weights : array_like of float, shape (n,)
        Finite costs and optional non-negative weights, as in :func:`tailwise.erm`.
    level : float in [0, 1]
        Confidence; 0 gives the mean and 1 the maximum.

    Returns
    -------
    float
        At least CVaR at the same level, at most the maximum.

    Examples
    --------
    >>> from tailwise.risk import entropic_value_at_risk
    >>> round(entropic_value_at_risk([0.0, 1.0], level=0.5), 4)
    1.0
    """
    from scipy.optimize import minimize_scalar  # scipy.optimize takes 0.1 s to import

    costs, shares = clean(samples, weights)
    confidence = real(level, "level", low=0.0, high=1.0)
    spread = float(costs.max() - costs.min())
    if confidence == 0.0 or spread == 0.0:
        return weighted_erm(costs, 0.0, shares)
    top = float(costs.max())
    if confidence == 1.0:
        return top
    penalty = -math.log1p(-confidence)

    def bound(log_beta: float) -> float:
        beta = math.exp(log_beta) / spread
        return weighted_erm(costs, beta, shares) + penalty / beta

    found = minimize_scalar(bound, bounds=(-30.0, 30.0), method="bounded", options={"xatol": 1e-10})
    return min(top, float(found.fun))


def exceedance(samples: ArrayLike, threshold: float, weights: ArrayLike | None = None) -> float:
    """Probability of a cost above a threshold.

    Parameters
    ----------
    samples, weights : array_like of float, shape (n,)
        Costs and optional non-negative weights, as in :func:`tailwise.erm`.
    threshold : float
        Finite cost.

    Returns
    -------
    float
        In [0, 1]. A cost that differs from the threshold in its last digits alone (by 1e-11, relative) is not above it.

    Examples
    --------
    >>> from tailwise.risk import exceedance
    >>> exceedance([0.1 + 0.2, 0.4], 0.3)
    0.5
    """
    costs, shares = clean(samples, weights)
    limit = real(threshold, "threshold")
    finite = np.where(np.isinf(costs), limit, costs)
    above = costs > limit + 1e-11 * np.maximum(abs(limit), np.abs(finite))
    return min(1.0, math.fsum(shares[above]))
