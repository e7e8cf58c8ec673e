"""Measures of risk: closed forms of whole families, coherence, and their order."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from tailwise import erm
from tailwise.risk import conditional_value_at_risk as cvar
from tailwise.risk import entropic_value_at_risk as evar
from tailwise.risk import value_at_risk as var

LEVELS = (0.5, 0.9, 0.95, 0.99)
COSTS = st.floats(-20, 20)
PAIRS = st.lists(st.tuples(COSTS, COSTS, st.floats(0.01, 1.0)), min_size=1, max_size=10)
LEVEL = st.floats(0.05, 0.95)
BETA = st.floats(0.01, 3.0)


def atoms(law, count=200_000):
    """A continuous law as (costs, weights) on a fine grid, between its quantiles at 1e-17 and 1 - 1e-40."""
    edges = np.linspace(law.ppf(1e-17), law.isf(1e-40), count + 1)
    centre = law.median()
    weights = np.where(edges[1:] < centre, np.diff(law.cdf(edges)), -np.diff(law.sf(edges)))
    return (edges[1:] + edges[:-1]) / 2, np.maximum(weights, 0.0)


def test_normal():
    """VaR = m + s z, CVaR = m + s phi(z) / tail, EVaR = m + s sqrt(2 ln(1/tail)), ERM = m + beta s^2 / 2."""
    mean, std = 3.0, 2.0
    costs, weights = atoms(stats.norm(mean, std))
    for level in LEVELS:
        z, tail = special.ndtri(level), 1 - level
        assert var(costs, level, weights) == pytest.approx(mean + std * z, abs=1e-3)
        assert cvar(costs, level, weights) == pytest.approx(mean + std * stats.norm.pdf(z) / tail, rel=1e-4)
        assert evar(costs, level, weights) == pytest.approx(mean + std * math.sqrt(-2 * math.log(tail)), rel=1e-4)
    for beta in (0.1, 0.5, 1.0):
        assert erm(costs, beta, weights) == pytest.approx(mean + beta * std**2 / 2, rel=1e-4)


def test_exponential():
    """Mean 1: VaR = -ln tail, CVaR = 1 - ln tail, ERM = -ln(1 - beta) / beta, and EVaR = -W_{-1}(-tail / e)."""
    costs, weights = atoms(stats.expon())
    for level in LEVELS[:3]:
        tail = 1 - level
        assert var(costs, level, weights) == pytest.approx(-math.log(tail), abs=1e-3)
        assert cvar(costs, level, weights) == pytest.approx(1 - math.log(tail), rel=1e-4)
        assert evar(costs, level, weights) == pytest.approx(-special.lambertw(-tail / math.e, -1).real, rel=1e-4)
    for beta in (0.1, 0.5):
        assert erm(costs, beta, weights) == pytest.approx(-math.log1p(-beta) / beta, rel=1e-4)


def test_gamma():
    """Shape k, scale 1: ERM = -k ln(1 - beta) / beta, CVaR = k P(Gamma(k + 1) > VaR) / tail."""
    shape = 3.0
    costs, weights = atoms(stats.gamma(shape))
    for beta in (0.1, 0.5):
        assert erm(costs, beta, weights) == pytest.approx(-shape * math.log1p(-beta) / beta, rel=1e-4)
    for level in LEVELS[:3]:
        quantile = stats.gamma(shape).ppf(level)
        assert var(costs, level, weights) == pytest.approx(quantile, abs=1e-3)
        exact = shape * stats.gamma(shape + 1).sf(quantile) / (1 - level)
        assert cvar(costs, level, weights) == pytest.approx(exact, rel=1e-4)


def test_bernoulli():
    """CVaR = min(1, p / tail); EVaR = 1 if p >= tail, else the q with relative entropy KL(q, p) = ln(1/tail)."""
    for chance in (0.01, 0.04, 0.3, 0.9):
        weights = [1 - chance, chance]
        for level in LEVELS:
            tail = 1 - level
            assert cvar([0.0, 1.0], level, weights) == pytest.approx(min(1.0, chance / tail))
            found = evar([0.0, 1.0], level, weights)
            if chance >= tail:
                assert found == pytest.approx(1.0, abs=1e-6)
            else:
                entropy = special.rel_entr(found, chance) + special.rel_entr(1 - found, 1 - chance)
                assert entropy == pytest.approx(-math.log(tail), rel=1e-5)
        assert erm([0.0, 1.0], 0.7, weights) == pytest.approx(math.log1p(chance * math.expm1(0.7)) / 0.7)


def measures(level, beta):
    return {
        "VaR": lambda x, w: var(x, level, w),
        "CVaR": lambda x, w: cvar(x, level, w),
        "EVaR": lambda x, w: evar(x, level, w),
        "ERM": lambda x, w: erm(x, beta, w),
    }


@given(PAIRS, LEVEL, BETA, COSTS, st.floats(0.0, 5.0))
@settings(max_examples=60, deadline=None)
def test_monotone_translation_invariant_and_homogeneous(pairs, level, beta, shift, scale):
    x, y, weights = (np.array(column) for column in zip(*pairs, strict=True))
    more = x + np.abs(y)
    for name, measure in measures(level, beta).items():
        value = measure(x, weights)
        assert measure(more, weights) >= value - 1e-7, name
        assert measure(x + shift, weights) == pytest.approx(value + shift, abs=1e-6), name
        if name != "ERM":
            assert measure(scale * x, weights) == pytest.approx(scale * value, abs=1e-5), name
    if scale > 0:  # ERM scales with its beta
        assert erm(scale * x, beta / scale, weights) == pytest.approx(scale * erm(x, beta, weights), abs=1e-6)


@given(PAIRS, LEVEL, BETA, st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_cvar_evar_and_erm_are_convex_and_the_coherent_ones_subadditive(pairs, level, beta, share):
    x, y, weights = (np.array(column) for column in zip(*pairs, strict=True))
    for name, measure in measures(level, beta).items():
        if name == "VaR":
            continue
        mixed = share * measure(x, weights) + (1 - share) * measure(y, weights)
        assert measure(share * x + (1 - share) * y, weights) <= mixed + 1e-6, name
        if name != "ERM":
            assert measure(x + y, weights) <= measure(x, weights) + measure(y, weights) + 1e-6, name


@given(PAIRS, LEVEL, BETA)
@settings(max_examples=80, deadline=None)
def test_their_order(pairs, level, beta):
    """VaR <= CVaR <= EVaR <= max, EVaR <= ERM_beta - ln(1 - level) / beta for every beta, and mean <= ERM <= max."""
    x, _, weights = (np.array(column) for column in zip(*pairs, strict=True))
    mean, worst = float(np.average(x, weights=weights)), float(x.max())
    tail_mean, entropic = cvar(x, level, weights), evar(x, level, weights)
    assert var(x, level, weights) <= tail_mean + 1e-9
    assert mean - 1e-9 <= tail_mean <= entropic + 1e-7 <= worst + 2e-7
    assert entropic <= erm(x, beta, weights) - math.log1p(-level) / beta + 1e-7
    assert mean - 1e-9 <= erm(x, beta, weights) <= worst + 1e-9


def test_evar_is_at_least_erm_at_its_own_beta_only():
    """ERM <= EVaR does not hold at every beta: a large one goes beyond. It does for beta up to the minimiser."""
    x = np.array([0.0, 1.0, 4.0])
    for level in (0.3, 0.6):
        grid = np.geomspace(1e-3, 1e3, 4001)
        bounds = [erm(x, beta) - math.log1p(-level) / beta for beta in grid]
        best = grid[int(np.argmin(bounds))]
        assert min(bounds) == pytest.approx(evar(x, level), rel=1e-5)
        assert erm(x, best) <= evar(x, level)
    assert erm(x, 100.0) > evar(x, 0.3)
