"""An infinite horizon cut short: the error bounds, against closed forms and far longer horizons."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailwise import TabularMDP, backward_induction, domains, truncate
from tailwise.errors import ModelError, OptionError


def random_table(seed, *, states=4, actions=3, discount=0.8, sense="costs", ends=False):
    rng = np.random.default_rng(seed)
    origin, action, target = (a.ravel() for a in np.indices((states, actions, 3)))
    target = rng.integers(states, size=target.size)
    chance = rng.dirichlet(np.ones(3), size=states * actions).ravel()
    cost = rng.normal(size=target.size) * 3
    done = rng.random(target.size) < 0.2 if ends else None
    return TabularMDP.from_outcomes(
        origin, action, target, chance, done=done, horizon=1, discount=discount, num_states=states, **{sense: cost}
    )


def long(model, beta):
    """The value at a horizon where what is left out is below 1e-12."""
    return backward_induction(model.with_options(horizon=math.ceil(math.log(1e-15) / math.log(model.discount))), beta)


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["costs", "rewards"])
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("beta", [-2.0, 0.0, 0.3, 5.0])
def test_the_optimum_is_within_the_tolerance(beta, ends, sense):
    for seed in range(6):
        model = random_table(seed, ends=ends, sense=sense)
        exact = long(model, beta).value
        for tolerance in (1.0, 1e-2, 1e-6):
            for given_beta in (beta, None):
                finite = truncate(model, tolerance, beta=given_beta)
                error = exact - backward_induction(finite, beta).value
                assert abs(error) <= tolerance + 1e-10
                if given_beta is not None and beta != 0 and tolerance == 1e-2:
                    side = math.copysign(1.0, beta) * (1.0 if sense == "costs" else -1.0)
                    assert side * error >= -tolerance / 2  # the means err on one side, but for their own half


@pytest.mark.compiled
def test_knowing_beta_saves_about_half_of_the_horizon():
    model = random_table(0, discount=0.95)
    any_risk, known = truncate(model, 1e-6).horizon, truncate(model, 1e-6, beta=0.1).horizon
    assert 0.35 < known / any_risk < 0.6
    assert truncate(model, 1e-6, beta=0.0).horizon == 1  # the optimal mean is all that is asked for


@given(st.floats(0.1, 0.97), st.floats(0.01, 3.0), st.floats(-6.0, 1.0))
@settings(max_examples=40, deadline=None)
def test_the_horizon_is_the_least_that_the_bound_allows_on_a_coin(discount, beta, exponent):
    """A coin per step: width 1/(1 - discount), and the exact risk is a sum of ERMs at fading levels."""
    tolerance = 10.0**exponent
    coin = TabularMDP.from_outcomes([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 1.0], horizon=1, discount=discount)
    width = 1.0 / (1.0 - discount)
    finite = truncate(coin, tolerance)
    assert discount**finite.horizon * width / 2 <= tolerance
    assert finite.horizon == 1 or discount ** (finite.horizon - 1) * width * 1.002 / 2 > tolerance
    short = truncate(coin, tolerance, beta=beta)
    assert short.horizon <= finite.horizon
    exact = math.fsum(math.log1p(math.expm1(beta * discount**h) / 2) / beta for h in range(1500))
    assert -tolerance / 2 - 1e-9 <= exact - backward_induction(short, beta).value <= tolerance + 1e-9


@pytest.mark.compiled
def test_the_note_says_horizon_and_error():
    finite = truncate(random_table(1), 1e-3, beta=0.5)
    assert f"cut to {finite.horizon} decisions" in finite.notes[-1]
    assert "|beta| <= 0.5" in finite.notes[-1]
    stated = float(finite.notes[-1].split("at most ")[1].split()[0])
    assert 0 < stated <= 1e-3 * 1.01


@pytest.mark.compiled
def test_nonsense_is_explained():
    model = random_table(0)
    with pytest.raises(OptionError, match="tolerance"):
        truncate(model, 0.0)
    with pytest.raises(ModelError, match="say how far to look"):
        truncate(model.with_options(discount=1.0), 0.1)
    with pytest.raises(OptionError, match="over 1000000"):
        truncate(model.with_options(discount=1 - 1e-9), 1e-3)
    with pytest.raises(ModelError, match="depend on the step"):
        truncate(replace(model, step_losses=np.zeros((1, model.num_rows))), 0.1)
    with pytest.raises(OptionError, match="TabularMDP"):
        truncate(domains.make("sailing"), 0.1)


def test_a_dead_end_that_is_far_away_is_still_one():
    mdp = TabularMDP.from_outcomes([0, 1], [0, 0], [1, 2], [1, 1], [1, 1], num_states=3, horizon=2, discount=0.5)
    with pytest.raises(ModelError, match="state 2: no action is allowed here"):
        truncate(mdp, 0.1)
