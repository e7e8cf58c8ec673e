"""The accumulator against 700-digit arithmetic, and its algebra."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailwise import EntropicAccumulator, erm
from tailwise.errors import OptionError
from tailwise.risk.accumulator import merge_values, push_value

MAGNITUDES = (1e-300, 1e-40, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 30.0, 1e3)
BETAS = (0.0, *MAGNITUDES, *(-m for m in MAGNITUDES))
SCALES = (1e-6, 1e-3, 1.0, 1e3, 1e6)


def exact_erm(costs, beta):
    with mpmath.workdps(700):
        numbers = [mpmath.mpf(float(c)) for c in costs]
        if beta == 0:
            return mpmath.fsum(numbers) / len(numbers)
        level = mpmath.mpf(beta)
        return mpmath.log(mpmath.fsum([mpmath.exp(level * c) for c in numbers]) / len(numbers)) / level


def sample(kind, scale):
    rng = np.random.default_rng(3)
    if kind == "uniform":
        return scale * rng.random(60)
    if kind == "far":
        return scale * (5 + rng.exponential(size=60))
    if kind == "rare":
        costs = np.zeros(60)
        costs[37] = scale
        return costs
    return scale * rng.normal(size=60)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("kind", ["uniform", "far", "rare", "normal"])
def test_matches_high_precision(beta, kind):
    for scale in SCALES:
        costs = sample(kind, scale)
        exact = exact_erm(costs, beta)
        # Costs of both signs may cancel: the error is then relative to the costs, not to their ERM.
        size = max(abs(exact), mpmath.mpf(np.abs(costs).mean()) if kind == "normal" else 0)
        pushed = EntropicAccumulator(beta).extend(costs).value
        parts = [EntropicAccumulator(beta).extend(part) for part in np.array_split(costs, 7)]
        merged = parts[0]
        for part in parts[1:]:
            merged = merged.merge(part)
        for value in (pushed, merged.value, erm(costs, beta)):
            assert abs(mpmath.mpf(value) - exact) <= 1e-14 * size


def test_a_million_pushes_lose_nothing():
    costs = np.random.default_rng(0).exponential(size=1_000_000)
    value = EntropicAccumulator(0.3).extend(costs).value
    assert value == pytest.approx(erm(costs, 0.3), rel=1e-14)


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=12),
    st.sampled_from([-5.0, -0.1, 0.0, 1e-9, 0.1, 1.0, 20.0]),
)
def test_merge_is_a_commutative_monoid(costs, beta):
    parts = [EntropicAccumulator(beta).extend(part) for part in np.array_split(np.array(costs), 3)]
    scale = max(1e-300, max(map(abs, costs)))
    values = []
    for a, b, c in itertools.permutations(parts):
        values += [a.merge(b).merge(c).value, a.merge(b.merge(c)).value]
    assert np.ptp(values) <= 4e-15 * scale
    assert values[0] == pytest.approx(erm(costs, beta), abs=4e-15 * scale)
    empty = EntropicAccumulator(beta)
    assert parts[0].merge(empty).value == parts[0].value == empty.merge(parts[0]).value
    assert parts[0].merge(parts[1]).count == parts[0].count + parts[1].count


@pytest.mark.parametrize("beta", [0.0, 1e-300, 1e-12, 0.1, 1.0, -2.0, 50.0])
def test_the_searchs_form_agrees(beta):
    costs = np.random.default_rng(1).normal(size=400) * 3
    value = 0.0
    for count, cost in enumerate(costs, start=1):
        value = push_value(value, count, cost, beta)
    assert value == pytest.approx(erm(costs, beta), abs=1e-13)
    assert merge_values(erm(costs[:100], beta), erm(costs[100:], beta), 0.75, beta) == pytest.approx(value, abs=1e-13)


def test_pushing_returns_itself_and_counts():
    accumulator = EntropicAccumulator(1.0)
    assert np.isnan(accumulator.value)
    assert accumulator.push(2.0) is accumulator
    assert (accumulator.count, accumulator.value) == (1, 2.0)
    assert "count=1" in repr(accumulator)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "x", None])
def test_bad_costs_are_refused_and_change_nothing(bad):
    accumulator = EntropicAccumulator(1.0).push(1.0)
    with pytest.raises(OptionError, match="cost"):
        accumulator.push(bad)
    with pytest.raises((OptionError, ValueError, TypeError)):
        accumulator.extend([2.0, bad])
    assert accumulator.count == 1


def test_bad_levels_are_refused():
    for beta in (float("nan"), float("inf"), "1", None):
        with pytest.raises(OptionError, match="beta"):
            EntropicAccumulator(beta)
    with pytest.raises(OptionError, match="merge"):
        EntropicAccumulator(1.0).merge(EntropicAccumulator(2.0))


def test_what_is_no_cost_or_no_accumulator_is_refused():
    with pytest.raises(OptionError, match="costs must be numbers"):
        EntropicAccumulator(beta=1.0).extend(["much"])
    with pytest.raises(OptionError, match="cannot merge a int"):
        EntropicAccumulator(beta=1.0).merge(3)
