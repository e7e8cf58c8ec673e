"""The vector form of ln(1 - p + p exp(y)) against 50-digit arithmetic."""

import mpmath
import numpy as np

from tailwise._jit import kernel
from tailwise.search.backups import LANES, log_means


@kernel
def fill(scaled, shares, out):
    for k in range(0, scaled.size, LANES):
        log_means(scaled, shares, out, k)


def exact(y, p):
    with mpmath.workdps(50):
        return float(mpmath.log1p(mpmath.mpf(p) * mpmath.expm1(mpmath.mpf(y))))


def test_relative_error_everywhere():
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-12, np.log10(700), size=1600)
    scaled = sizes * rng.choice([-1.0, 1.0], size=sizes.size)
    shares = 1.0 / np.floor(2 + 10 ** rng.uniform(0, 7, size=sizes.size))
    out = np.empty_like(scaled)
    fill(scaled, shares, out)
    expected = np.array([exact(y, p) for y, p in zip(scaled, shares, strict=True)])
    assert (np.abs(out - expected) <= 1e-15 * np.abs(expected)).all()


def test_the_edges():
    scaled = np.array([0.0, -0.0, 700.0, -700.0, 0.34657359, -0.34657359, 1e-300, 30.0])
    shares = np.array([0.5, 0.5, 1e-9, 0.5, 0.5, 0.5, 0.5, 1 / 3])
    out = np.full(8, np.nan)
    fill(scaled, shares, out)
    assert out.tolist()[:2] == [0.0, 0.0]
    assert np.isfinite(out).all()
    assert out[2] == np.float64(exact(700.0, 1e-9))
    assert abs(out[3] - np.log(0.5)) < 1e-15
