"""The paper's properties of the ERM (appendix ERM-estimator-properties), and the edges."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from tailwise import erm
from tailwise.errors import OptionError
from tailwise.risk import erm_interval, oce_objective, oce_utility
from tailwise.risk.entropic import inverse_utility, mixture_erms, row_erms, utility

costs_lists = st.lists(st.floats(-50, 50), min_size=1, max_size=15)
betas = st.floats(-3, 3)


@given(costs_lists, st.floats(0.01, 3))
def test_lemma_estimator_properties(costs, beta):
    """The OCE objective is convex, minimal at the ERM, where it equals it; the ERM is within the range."""
    value = erm(costs, beta)
    assert min(costs) - 1e-9 <= value <= max(costs) + 1e-9
    assert oce_objective(value, costs, beta) == pytest.approx(value, abs=1e-9)
    for other in (value - 1.0, value - 0.1, value + 0.1, value + 1.0):
        assert oce_objective(other, costs, beta) >= value - 1e-9
    left, middle, right = (oce_objective(value + d, costs, beta) for d in (-0.5, 0.0, 0.5))
    assert 2 * middle <= left + right + 1e-9


def test_oce_form_by_an_optimiser():
    costs = [0.0, 1.0, 4.0]
    found = minimize_scalar(lambda m: oce_objective(m, costs, 0.7), bracket=(0, 4))
    assert found.fun == pytest.approx(erm(costs, 0.7), abs=1e-10)


@given(costs_lists, betas, st.floats(-20, 20))
def test_translation_and_scaling(costs, beta, shift):
    value = erm(costs, beta)
    assert erm([c + shift for c in costs], beta) == pytest.approx(value + shift, abs=1e-9)
    assert erm([2 * c for c in costs], beta / 2) == pytest.approx(2 * value, abs=1e-9)


@given(costs_lists, betas, st.floats(0, 5))
def test_monotone_in_costs_and_beta(costs, beta, more):
    assert erm([c + more * (k % 2) for k, c in enumerate(costs)], beta) >= erm(costs, beta) - 1e-9
    assert erm(costs, beta + more) >= erm(costs, beta) - 1e-9
    assert erm(costs, -beta) == pytest.approx(-erm([-c for c in costs], beta), abs=1e-9)


@given(costs_lists, costs_lists, st.floats(0, 3), st.floats(0, 1))
def test_convex_over_random_variables(first, second, beta, weight):
    size = min(len(first), len(second))
    x, y = np.array(first[:size]), np.array(second[:size])
    mixed = erm(weight * x + (1 - weight) * y, beta)
    assert mixed <= weight * erm(x, beta) + (1 - weight) * erm(y, beta) + 1e-9


@given(costs_lists, costs_lists, betas)
def test_stream_of_two_arms(first, second, beta):
    """eq. entropic_risk_estimator_stream_estimator: ERM of all costs from the arms' ERMs and counts."""
    n = len(first) + len(second)
    parts = [erm(first, beta), erm(second, beta)]
    assert erm(parts, beta, weights=[len(first) / n, len(second) / n]) == pytest.approx(
        erm(first + second, beta), abs=1e-9
    )


def test_limits():
    costs, weights = [1.0, 5.0, 2.0], [0.5, 0.0, 0.5]
    assert erm(costs, math.inf) == 5.0
    assert erm(costs, math.inf, weights) == 2.0
    assert erm(costs, -math.inf) == 1.0
    assert erm(costs, 0.0, weights) == 1.5
    assert erm(costs, 1e6) == pytest.approx(5.0, abs=1e-5)
    assert erm([7.0], 3.0) == 7.0
    assert erm([1e300, 1e300, 0.0], 1.0) == 1e300
    assert erm([1e308, 1e308], 0.0) == 1e308


def test_infinite_costs():
    assert erm([0.0, math.inf], 1.0) == math.inf
    assert erm([0.0, math.inf], -1.0) == pytest.approx(math.log(2))
    assert erm([0.0, -math.inf], 1.0) == pytest.approx(-math.log(2))
    assert erm([0.0, -math.inf], -1.0) == -math.inf
    assert erm([0.0, math.inf], 0.0) == math.inf
    with pytest.raises(OptionError, match="undefined"):
        erm([-math.inf, math.inf], 0.0)


def test_where_the_usual_forms_fail():
    deep = 0.5 * 0.9**700  # a deep node's level: plain log-sum-exp has no correct digit here
    costs = np.array([1.0, 2.0, 6.0])
    assert erm(costs, deep) == pytest.approx(3.0, rel=1e-15)
    assert erm([0.0, 1e6], 1.0) == pytest.approx(1e6 - math.log(2))
    assert erm([0.0, 1e-6], 1e-300) == 5e-7


def test_weights_are_normalised_and_checked():
    assert erm([1.0, 3.0], 0.0, [2.0, 2.0]) == 2.0
    for weights, message in (
        ([1.0], "entries"),
        ([-1.0, 2.0], r"weights\[0\]"),
        ([0.0, 0.0], "all 0"),
        ([math.nan, 1.0], "finite"),
    ):
        with pytest.raises(OptionError, match=message):
            erm([1.0, 3.0], 1.0, weights)


@pytest.mark.parametrize(
    ("samples", "beta", "message"),
    [
        ([], 1.0, "empty"),
        ([1.0, math.nan], 1.0, r"samples\[1\]"),
        ([1.0], math.nan, "beta"),
        ([1.0], "1", "beta"),
        (["a"], 1.0, "numbers"),
    ],
)
def test_bad_input(samples, beta, message):
    with pytest.raises(OptionError, match=message):
        erm(samples, beta)


def test_utility_is_the_identity_at_zero():
    assert oce_utility([1.0, -2.0], 0.0).tolist() == [1.0, -2.0]
    assert oce_utility(3.0, 1e-300) == 3.0
    assert oce_utility(1.0, 2.0) == pytest.approx((math.exp(2) - 1) / 2)


def test_interval_covers_at_its_nominal_rate():
    """2,000 intervals of nominal 90 %: the observed rate strays below 0.87 or above 0.93 with p < 1e-4."""
    rng = np.random.default_rng(5)
    truth = math.log(math.expm1(1.0)) / 1.0  # uniform on [0, 1], beta = 1
    inside = 0
    for _ in range(2000):
        low, high = erm_interval(rng.random(100), 1.0, confidence=0.9)
        inside += low <= truth <= high
    assert 0.87 <= inside / 2000 <= 0.93
    assert erm_interval([1.0], 1.0) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("costs", "beta", "weights", "expected"),
    [
        ([1e308, -1e308], 1.0, None, 1e308),
        ([1e308, -1e308], -1.0, None, -1e308),
        ([1.0, 2.0, 3.0], 1e308, None, 3.0),
        ([1.0, 2.0, 3.0], -1e308, None, 1.0),
        ([1.0, 3.0], 10**400, None, 3.0),
        ([1.0, 3.0], -(10**400), None, 1.0),
        ([1.0, 3.0], 0.0, [1.5e308, 1.5e308], 2.0),
    ],
)
def test_numbers_at_the_end_of_the_range(costs, beta, weights, expected):
    """No overflow, no warning (warnings are errors here)."""
    assert erm(costs, beta, weights) == pytest.approx(expected, rel=1e-15)


# ----------------------------------------------------------------- vector form

LEVELS = [-500.0, -1.0, -1e-9, -1e-200, 0.0, 1e-15, 1e-3, 0.3, 2.0, 500.0]


@pytest.mark.parametrize("beta", LEVELS)
def test_rows_and_mixtures_are_the_erm_of_each_row(beta):
    rng = np.random.default_rng(5)
    costs, counts = rng.normal(3.0, 2.0, size=(40, 25)), rng.integers(0, 3, size=(40, 25)).astype(float)
    counts[:, 0] += 1.0
    counts[0] = np.eye(25)[3]  # a row that holds one atom only
    expected = [erm(row, beta, weights) for row, weights in zip(costs, counts, strict=True)]
    assert row_erms(costs, beta) == pytest.approx([erm(row, beta) for row in costs], rel=1e-12)
    assert row_erms(costs, beta, counts) == pytest.approx(expected, rel=1e-12)
    shared = [erm(costs[0], beta, weights) for weights in counts]
    assert row_erms(costs[0], beta, counts) == pytest.approx(shared, rel=1e-12)
    assert mixture_erms(counts, costs[0], beta) == pytest.approx(shared, rel=1e-12)


@given(st.floats(-200, 200), betas, st.sampled_from([1.0, 1e-6, 1e-16, 1e-18, 1e-300, 5e-324]))
def test_the_inverse_utility_undoes_the_utility(gap, beta, scale):
    level = beta * scale
    if level * gap > -10.0:  # below, the utility itself has rounded to -1 / beta
        assert inverse_utility(utility(gap, level), level) == pytest.approx(gap, rel=1e-10)


def test_long_samples_keep_to_one_thread(monkeypatch):
    """A product that BLAS splits may wait 50 ms for a core, in the midst of a plan that has as long for all."""
    costs = np.random.default_rng(0).normal(size=20_000) * 30.0
    whole = 2.0 * np.log(np.mean(np.exp((costs - costs.max()) / 2.0))) + costs.max()
    monkeypatch.setattr(np, "dot", lambda *_: pytest.fail("shared among threads"))
    assert erm(costs, 0.5) == pytest.approx(whole, rel=1e-13)
