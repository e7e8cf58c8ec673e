"""Laws of costs: exact ERM, sampling, limits, and errors."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from tailwise.bandits import (
    Arm,
    Bandit,
    Drift,
    Outcome,
    bernoulli,
    beta_distribution,
    discrete,
    from_quantile,
    truncated_normal,
    uniform,
)
from tailwise.errors import OptionError

BETAS = [-30.0, -1.0, -1e-9, 0.0, 1e-9, 0.1, 1.0, 3.0, 50.0]
LAWS = [
    bernoulli(0.3, -1.0, 2.0),
    uniform(-0.5, 1.5),
    discrete([0, 1, 5], [3, 2, 1]),
    beta_distribution(2, 6),
    truncated_normal(0.2, 0.5, -1, 1),
]


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("beta", BETAS)
def test_erm_equals_the_integral_over_the_quantile_function(law, beta):
    cuts = np.concatenate([[0.0], np.cumsum(law.probability)])
    cuts[-1] = 1.0
    total = 0.0
    nodes, weights = np.polynomial.legendre.leggauss(60)
    for low, high in itertools.pairwise(cuts):
        values = law.quantile(np.clip(0.5 * (high - low) * nodes + 0.5 * (high + low), 0, 1 - 1e-16))
        integrand = values if beta == 0 else np.expm1(beta * (values - law.mean)) / beta
        total += 0.5 * (high - low) * float(weights @ integrand)
    expected = total if beta == 0 else law.mean + math.log1p(beta * total) / beta
    assert law.erm(beta) == pytest.approx(expected, abs=2e-9)


@pytest.mark.parametrize("beta", [-3.0, 0.1, 1.0, 3.0])
def test_cut_laws_are_close_to_the_laws_they_stand_for(beta):
    exact = math.log(special.hyp1f1(2.0, 8.0, beta)) / beta
    assert beta_distribution(2, 6).erm(beta) == pytest.approx(exact, abs=2e-5)
    normal = stats.truncnorm(-2.4, 1.6, loc=0.2, scale=0.5)
    moment, _ = integrate.quad(lambda x: math.exp(beta * x) * normal.pdf(x), -1, 1)
    assert truncated_normal(0.2, 0.5, -1, 1).erm(beta) == pytest.approx(math.log(moment) / beta, abs=2e-5)


def test_closed_forms():
    assert uniform(0, 2).erm(1.5) == pytest.approx(math.log(math.expm1(3.0) / 3.0) / 1.5, rel=1e-14)
    assert uniform(0, 2).erm(-1.5) == pytest.approx(-math.log(-math.expm1(-3.0) / 3.0) / 1.5, rel=1e-14)
    assert bernoulli(0.2).erm(3.0) == pytest.approx(math.log(0.8 + 0.2 * math.exp(3.0)) / 3.0, rel=1e-14)
    assert uniform(1, 1).erm(2.0) == 1.0


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_samples_follow_the_law(law):
    """Kolmogorov-Smirnov distance of 20,000 draws; the 1e-6 critical value of its bound is 2.7/sqrt(n)."""
    draws = np.sort(law.sample(20_000, seed=3))
    assert law.low <= draws[0]
    assert draws[-1] <= law.high
    grid = law.quantile((np.arange(20_000) + 0.5) / 20_000)
    below = np.searchsorted(draws, grid, side="right") / 20_000
    expected = np.searchsorted(grid, grid, side="right") / 20_000
    assert np.abs(below - expected).max() < 2.7 / math.sqrt(20_000)


def test_arm_erm_is_the_erm_of_the_mixture():
    arm = Arm((Outcome(0.25, bernoulli(0.5)), Outcome(0.75, bernoulli(0.2))), cost=1.0)
    joint = [1.0, 1.0 + 0.8]
    shares = [0.25 * 0.5 + 0.75 * 0.8, 0.25 * 0.5 + 0.75 * 0.2]
    expected = math.log(sum(p * math.exp(2.0 * x) for p, x in zip(shares, joint, strict=True))) / 2.0
    assert arm.erm(2.0, discount=0.8) == pytest.approx(expected, rel=1e-13)


def test_bandit_range_covers_drift_and_immediate_cost():
    arm = Arm((Outcome(1.0, uniform(0, 1), Drift(uniform(-4, 6))),), cost=0.5)
    bandit = Bandit((arm, Arm.of(uniform(0, 1))), discount=0.5)
    assert (bandit.low, bandit.high, bandit.radius) == (-1.5, 3.5, 2.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: bernoulli(1.5),
        lambda: uniform(1, 0),
        lambda: discrete([0.0, math.inf]),
        lambda: discrete([]),
        lambda: from_quantile(special.ndtri),
        lambda: from_quantile(lambda p: -p),
        lambda: truncated_normal(0, 1, 50, 60),
        lambda: beta_distribution(0, 1),
        lambda: Drift(uniform(0, 1), decay=0.0),
        lambda: Outcome(0.5, "uniform"),
        lambda: Arm(()),
        lambda: Arm((Outcome(0.5, uniform(0, 1)),)),
        lambda: Bandit((Arm.of(uniform(0, 1)),)),
        lambda: Bandit((uniform(0, 1), uniform(0, 1))),
        lambda: Bandit((Arm.of(uniform(0, 1)), Arm.of(uniform(0, 1))), discount=1.1),
    ],
)
def test_bad_laws_and_arms_are_refused(make):
    with pytest.raises(OptionError):
        make()
