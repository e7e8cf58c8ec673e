"""How sure is an ERM estimate: an asymptotic confidence interval.

With ``w_t = exp(beta (x_t - ERM))``, whose mean is 1, the delta method gives the standard error
``std(w) / (|beta| sqrt(n))``; at beta = 0 it is that of the mean. The interval
knows only what the sample saw: a rare disaster that never occurred in it cannot widen it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

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
    wanted = real(confidence, "confidence", low=0.0, high=1.0, low_open=True, high_open=True)
    if costs.size < 2:
        return Interval(-math.inf, math.inf)
    centre = weighted_erm(costs, level, shares)
    deviations = oce_utility(costs - centre, level)
    error = float(np.std(deviations, ddof=1)) / math.sqrt(costs.size)
    width = NormalDist().inv_cdf(0.5 + wanted / 2) * error
    return Interval(centre - width, centre + width)
