"""Gamma draws: the Dirichlet distribution that counts leave possible (the Bayesian bootstrap; Rubin, 1981)."""

from __future__ import annotations

import math

from tailwise._jit import inlined
from tailwise._random import next_double


@inlined
def draw_normal(stream):  # type: ignore[no-untyped-def]
    """A standard normal draw (Box and Muller)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - next_double(stream)))
    return radius * math.cos(2.0 * math.pi * next_double(stream))


@inlined
def draw_gamma(shape, stream):  # type: ignore[no-untyped-def]
    """A Gamma draw of ``shape`` >= 1 (Marsaglia and Tsang, 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = draw_normal(stream)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        if math.log(1.0 - next_double(stream)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v
