"""VaR, CVaR and EVaR against closed forms and each other."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailwise.errors import OptionError
from tailwise.risk import conditional_value_at_risk, entropic_value_at_risk, erm, value_at_risk
from tailwise.risk.distribution import ReturnDistribution


def test_atoms_at_the_quantile_count_in_part():
    costs, weights = [0.0, 1.0, 10.0], [0.5, 0.4, 0.1]
    assert value_at_risk(costs, 0.9, weights) == 1.0
    assert value_at_risk(costs, 0.91, weights) == 10.0
    assert conditional_value_at_risk(costs, 0.8, weights) == pytest.approx((0.1 * 10 + 0.1 * 1) / 0.2)
    assert conditional_value_at_risk(costs, 0.0, weights) == pytest.approx(1.4)
    assert conditional_value_at_risk(costs, 1.0, weights) == 10.0


def test_evar_against_a_fine_grid_of_levels():
    costs = np.random.default_rng(2).gamma(2.0, size=50)
    for level in (0.3, 0.9, 0.97):
        grid = min(erm(costs, b) - math.log1p(-level) / b for b in np.geomspace(1e-3, 1e3, 4001))
        assert entropic_value_at_risk(costs, level) == pytest.approx(grid, rel=1e-6)


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=12), st.floats(0.05, 0.95))
def test_order_of_the_measures(costs, level):
    var, cvar, evar = (f(costs, level) for f in (value_at_risk, conditional_value_at_risk, entropic_value_at_risk))
    slack = 1e-6 * (1 + max(map(abs, costs)))
    assert erm(costs, 0.0) <= cvar + slack
    assert var <= cvar + slack
    assert cvar <= evar + slack
    assert evar <= max(costs) + slack


def test_quantile_of_equal_weights_is_an_order_statistic():
    costs = np.arange(100.0)
    assert [value_at_risk(costs, level) for level in (0.0, 0.01, 0.07, 0.5, 0.99, 1.0)] == [
        0.0,
        0.0,
        6.0,
        49.0,
        98.0,
        99.0,
    ]


def test_bad_levels():
    for measure in (value_at_risk, conditional_value_at_risk, entropic_value_at_risk):
        with pytest.raises(OptionError, match="level"):
            measure([1.0, 2.0], 1.5)


def test_dominance_is_what_every_disutility_says():
    """First order: every increasing function; second: every increasing convex one, of which hinges are enough."""
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(400):
        laws = []
        for _ in range(2):
            size = int(rng.integers(1, 4))
            costs = np.sort(rng.choice(6, size=size, replace=False)).astype(float)
            laws.append(ReturnDistribution(costs, rng.multinomial(8, [1 / size] * size) / 8))
        one, two = laws

        def of(law, function):
            return float(np.dot(law.probabilities, function(law.costs)))

        steps = [of(one, lambda x, t=t: 1.0 * (x > t)) - of(two, lambda x, t=t: 1.0 * (x > t)) for t in range(-1, 6)]
        hinges = [
            of(one, lambda x, t=t: np.maximum(x - t, 0)) - of(two, lambda x, t=t: np.maximum(x - t, 0))
            for t in range(-1, 6)
        ]
        equal = max(map(abs, steps)) < 1e-12
        expected = 0 if equal or max(hinges) > 1e-12 else 1 if max(steps) <= 1e-12 else 2
        assert one.dominates(two) == expected
        rewards = [ReturnDistribution(-law.costs[::-1], law.probabilities[::-1], "reward") for law in laws]
        assert rewards[0].dominates(rewards[1]) == expected
        seen.add(expected)
    assert seen == {0, 1, 2}
