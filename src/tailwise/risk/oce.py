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
