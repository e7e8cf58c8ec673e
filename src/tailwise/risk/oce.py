"""The utility ``u_beta`` of one number, and where one form of the ERM gives way to another.

The cut-offs are the same for scalars, arrays and kernels, and free of units: beta times a cost. On either side of
one, both forms agree to the last digits.
"""

from __future__ import annotations

import math

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
