"""Plans for aims about the total, made on a learned model and judged on fresh episodes."""

import json

import numpy as np
import pytest

from tailwise import (
    ERM,
    CVaR,
    EVaR,
    Exceedance,
    Expectation,
    NestedCVaR,
    TabularMDP,
    domains,
    evaluate,
    sampled_planning,
    solve,
)
from tailwise.errors import OptionError
from tailwise.models import Simulator, tabulate


class Slope(Simulator):
    """Three steps: 0 costs 2; 1 costs 1, but 10 once in twenty times. No outcomes are listed."""

    horizon, start, discount, sense = 3, 0, 1.0, "cost"

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        cost = 2.0 if action == 0 else 10.0 if rng.random() < 0.05 else 1.0
        return state + 1, cost, False


def listed():
    return TabularMDP.from_outcomes(
        [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 1] * 3, [1, 1, 1, 2, 2, 2, 2, 2, 2], [1.0, 0.95, 0.05] * 3,
        [2.0, 1.0, 10.0] * 3, horizon=3,
    )  # fmt: skip


def test_a_policy_that_minds_what_was_paid_is_played_as_its_law_says():
    """4000 episodes on the table: every probability within 5 standard errors."""
    plan = solve(listed(), Exceedance(4.0))
    returns = evaluate(listed(), plan, episodes=4000, seed=0)
    for total, chance in zip(plan.distribution().costs, plan.distribution().probabilities, strict=True):
        share = np.mean(np.abs(returns.costs - total) < 1e-9)
        assert abs(share - chance) <= 5 * np.sqrt(chance * (1 - chance) / 4000)
    assert len(plan.distribution().costs) > 1
    one = evaluate(Slope(), lambda state, h: 0, episodes=3, seed=0)
    assert one.costs.tolist() == [6.0] * 3


@pytest.mark.compiled
def test_the_least_probability_of_exceeding():
    """Playing safe never exceeds 6; for 4 the cheap step must go well twice."""
    found = sampled_planning(Slope(), Exceedance(6.0), iterations=600, episodes=300)
    assert (found.value, found.is_kept) == (0.0, None)
    assert found.interval.low == 0.0 < found.interval.high < 0.02
    assert "probability of a total worse than 6" in str(found)
    tight = sampled_planning(Slope(), Exceedance(4.0), iterations=2000, episodes=1000)
    assert tight.interval.low - 0.02 <= 1 - 0.95**2 <= tight.interval.high + 0.02
    assert json.loads(json.dumps(tight.to_dict()))["label"] == tight.label


@pytest.mark.compiled
@pytest.mark.parametrize("objective", [CVaR(0.8), EVaR(0.8), NestedCVaR(0.8)])
def test_the_tail_of_a_black_box(objective):
    found = sampled_planning(Slope(), objective, iterations=1500, episodes=400)
    assert found.value == pytest.approx(6.0, abs=0.3)  # to play safe is best, or nearly
    assert found.notes == ()
    assert found.act(0, 0) == found.action


@pytest.mark.compiled
def test_a_constraint_is_met_in_evaluation():
    """Rewards, American put: exact mean 4.32 within a CVaR of 3.9; and a budget that nothing keeps to."""
    model = domains.make("american-put")
    found = sampled_planning(model, Expectation().within(CVaR(0.3), 3.9), iterations=4000, episodes=1000)
    assert found.is_kept
    assert found.value >= 3.9
    assert found.mean > 4.1
    best = solve(tabulate(model), CVaR(0.3)).value
    with pytest.raises(OptionError, match="no plan was found that keeps"):
        sampled_planning(model, Expectation().within(CVaR(0.3), best + 1.0), iterations=2000, episodes=100)
    risk = sampled_planning(Slope(), Expectation().within(ERM(0.3), 6.2), iterations=1500, episodes=1000)
    assert risk.is_kept
    assert risk.aim == "ERM at beta 0.3"


@pytest.mark.compiled
def test_what_fresh_episodes_contradict_is_said():
    """Thirty episodes to learn from: what looks best there is not."""
    found = [
        sampled_planning(domains.make("grid-mdp"), CVaR(0.9), iterations=30, episodes=300, seed=k) for k in range(4)
    ]
    assert any("fresh episodes contradict" in note for plan in found for note in plan.notes)


def test_nonsense_is_explained():
    for objective in (Expectation().within(EVaR(0.9), 3.0), CVaR(0.5).within(CVaR(0.9), 3.0)):
        with pytest.raises(OptionError, match="a budget is for the mean"):
            sampled_planning(Slope(), objective)
    with pytest.raises(OptionError, match="the objective must be one of"):
        sampled_planning(Slope(), "cvar")
