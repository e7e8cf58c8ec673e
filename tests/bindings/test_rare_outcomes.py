"""Rare outcomes that are known, and likelihood ratios: the same risk from other draws."""

import math

import numpy as np
import pytest

from tailwise import (
    DistributionalMcts,
    ErmMcts,
    LearnedModelSearch,
    Simulator,
    Uct,
    backward_induction,
    make_planner,
)
from tailwise.bindings.options import weighed_step
from tailwise.errors import OptionError, SimulatorError
from tailwise.models import tabulate

BETA = 0.25


class Furnace(Simulator):
    """Heat that wears; it breaks down once in some thousand times, which at this beta decides."""

    horizon, sense, start, ruin = 6, "cost", 1, 30.0

    def __init__(self, discount=1.0, breaks=True):
        self.discount, self.breaks = discount, breaks

    def actions(self, state):
        return 3

    def outcomes(self, state, action):
        if action == 0:
            return [(1.0, max(0, state - 1), 1.5, False)]
        p, hotter = 1e-4 * action * (1 + state), 0.3 * action
        rest = [((1 - p) * hotter, min(4, state + 1), -0.6 * action, False)]
        return [(p, 0, self.ruin, False), *rest, ((1 - p) * (1 - hotter), state, -0.6 * action, False)]

    def step(self, state, action, rng):
        listed = self.outcomes(state, action)
        listed = listed if self.breaks else listed[-2:]
        left = rng.random() * math.fsum(p for p, *_ in listed)
        for p, *outcome in listed:
            left -= p
            if left < 0.0:
                return tuple(outcome)
        return listed[-1][1:]


def breakdown(state, action):
    return Furnace().outcomes(state, action)[:1] if action else []


class FromGrid:
    """Stands for a generator: its first number is given, the others are all one half."""

    def __init__(self, first):
        self.numbers = [first]

    def random(self):
        return self.numbers.pop() if self.numbers else 0.5


@pytest.mark.parametrize("beta", [0.25, -0.4, 2.0])
@pytest.mark.parametrize("sense", ["cost", "reward"])
@pytest.mark.parametrize("h", [0, 3])
def test_the_risk_of_a_step_is_that_of_the_listed_law(beta, sense, h):
    """By a grid over the number that decides: rare outcomes with their probability, the rest as drawn."""

    class Rest(Simulator):
        horizon, discount, start = 4, 0.9, 0

        def step(self, state, action, rng):
            return 1, 2.0, False

    model = Rest()
    model.sense = sense
    rare = [(1e-3, 2, 30.0, False), (0.2, 3, -4.0, True)]
    step = weighed_step(model, lambda s, a, rng, h: model.step(s, a, rng), lambda s, a: rare, beta)
    sign, level = (1.0 if sense == "cost" else -1.0), beta * 0.9**h
    grid = (np.arange(4000) + 0.5) / 4000
    costs = np.array([sign * step(0, 0, FromGrid(u), h)[1] for u in grid])
    law = np.array([sign * 30.0, sign * -4.0, sign * 2.0]), np.array([1e-3, 0.2, 1.0 - 0.201])
    wanted = math.log(np.sum(law[1] * np.exp(level * law[0]))) / level
    assert math.log(np.mean(np.exp(level * costs))) / level == pytest.approx(wanted, rel=1e-3)


@pytest.mark.compiled
@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("breaks", [True, False])
def test_searches_find_what_a_disaster_that_they_hardly_draw_is_worth(discount, breaks):
    model = Furnace(discount, breaks)
    table = tabulate(Furnace(discount))
    exact = backward_induction(table, BETA).action_values(0)[table.start]
    for seed in range(3):
        plan = LearnedModelSearch(model, BETA, seed=seed, rare_outcomes=breakdown).plan(iterations=4000)
        np.testing.assert_allclose([row.erm for row in plan.rows], exact, atol=0.6)  # of 6 to 11; errors are below .3
        assert exact[plan.action] <= exact.min() + 0.2  # discounted, two are that close
        assert any("likelihood ratios" in note for note in plan.notes)
        assert np.isnan([row.mean for row in plan.rows]).all()
        tree = ErmMcts(model, BETA, seed=seed, preset="auto", rare_outcomes=breakdown).plan(iterations=4000)
        assert exact[tree.action] <= exact.min() + 0.2
        assert tree.totals == ()
        if not breaks:
            unaware = LearnedModelSearch(model, BETA, seed=seed).plan(iterations=4000)
            assert unaware.row(2).erm < exact.min() - 3.0  # it sees no reason not to heat


@pytest.mark.compiled
def test_a_simulator_may_say_the_ratio_itself():
    class Biased(Furnace):
        likelihood_ratios = True

        def step(self, state, action, rng):
            listed = self.outcomes(state, action)
            if action == 0:
                return (*listed[0][1:], 1.0)
            p = listed[0][0]
            if rng.random() < 0.2:
                return (*listed[0][1:], p / 0.2)
            k = 1 if rng.random() < listed[1][0] / (1 - p) else 2
            return (*listed[k][1:], (1 - p) / 0.8)

    table = tabulate(Furnace())
    exact = backward_induction(table, BETA).action_values(0)[table.start]
    plan = LearnedModelSearch(Biased(), BETA, seed=0).plan(iterations=4000)
    np.testing.assert_allclose([row.erm for row in plan.rows], exact, atol=0.8)
    wrong = Furnace()
    wrong.likelihood_ratios = True
    with pytest.raises(SimulatorError, match="expected \\(next_state, cost, done, likelihood ratio\\)"):
        LearnedModelSearch(wrong, BETA, seed=0).plan(iterations=1)


def test_what_is_listed_is_checked():
    def refused(match, rare, iterations=300):
        with pytest.raises(SimulatorError, match=match):
            LearnedModelSearch(Furnace(), BETA, seed=0, rare_outcomes=rare).plan(iterations=iterations)

    refused("expected \\(probability, next_state, cost, done\\)", lambda s, a: [(0.1, 0, 1.0)])
    refused("above 0 and below 1", lambda s, a: [(1.5, 0, 1.0, False)])
    refused("add up to 0.8", lambda s, a: [(0.4, 0, 1.0, False), (0.4, 1, 1.0, False)])
    refused("10000 draws were all|contradict", lambda s, a: [(0.1, max(0, s - 1), 1.5, False)] if a == 0 else [])
    often = lambda s, a: [(1e-6, s, -0.6 * a, False)] if a else []  # noqa: E731  (it happens every other time)
    refused("draws contradict rare_outcomes", often)


def test_who_cannot_use_it_says_so():
    for make in (Uct, lambda m, **k: DistributionalMcts(m, 0.1, **k), lambda m, **k: ErmMcts(m, 0.0, **k)):
        with pytest.raises(OptionError, match="beta other than 0"):
            make(Furnace(), rare_outcomes=breakdown)
    with pytest.raises(OptionError, match="does not take the option rare_outcomes"):
        make_planner(Furnace(), 0.1, kind="bounded", rare_outcomes=breakdown)
    with pytest.raises(OptionError, match="rare_outcomes must be a function"):
        LearnedModelSearch(Furnace(), 0.1, rare_outcomes=[(0.1, 0, 1.0, False)])


def test_ratios_and_rare_outcomes_together_are_refused():
    class Weighed(Simulator):
        start, horizon, discount, sense, likelihood_ratios = 0, 4, 1.0, "cost", True

        def actions(self, state):
            return 2

        def step(self, state, action, rng):
            return 0, 1.0, False, 1.0

    with pytest.raises(OptionError, match="not both"):
        LearnedModelSearch(Weighed(), 0.5, rare_outcomes=lambda state, action: [(1e-3, 0, 20.0, False)])
