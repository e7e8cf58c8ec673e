"""Searches on models without a horizon: they look as far as the discount allows or as they are told, and say so."""

import dataclasses

import numpy as np
import pytest

from tailwise import ERM, CVaR, Simulator, TabularMDP, evaluate, make_planner, solve, truncate
from tailwise.errors import ModelError, OptionError

pytestmark = pytest.mark.compiled
BETA = 0.5


def plant(discount=0.8):
    rng = np.random.default_rng(0)
    return TabularMDP.from_arrays(
        rng.dirichlet(np.ones(4), (4, 2)), rng.random((4, 2)), order="SAS", horizon=None, discount=discount
    )


class Walk(Simulator):
    start, horizon = 0, None

    def __init__(self, discount):
        self.discount = discount

    def actions(self, state):
        return ("slow", "fast")

    def step(self, state, action, rng):
        return (state + 1) % 3, 2.0 if action == "slow" else 10.0 * (rng.random() < 0.5), False


@dataclasses.dataclass(frozen=True)
class Frozen:
    start: int = 0
    horizon: int | None = None
    discount: float = 0.5
    sense: str = "cost"

    def actions(self, state):
        return 1

    def step(self, state, action, rng):
        return state, 1.0, False


def stated(plan):
    (note,) = (note for note in plan.notes if note.startswith("an infinite horizon was cut to"))
    return int(note.split(" cut to ")[1].split()[0]), note


@pytest.mark.parametrize("kind", ["erm-mcts", "learned", "bounded", "tree", "distributional"])
def test_a_table_is_cut_where_the_bound_allows(kind):
    model = plant()
    planner = make_planner(model, ERM(BETA), kind=kind, seed=0)
    steps, note = stated(planner.plan(iterations=5))
    error = float(note.split("at most ")[1].split()[0])
    exact = solve(model, ERM(BETA)).value
    assert planner.model.horizon == steps
    assert error <= 1e-3 * np.ptp(np.append(model.losses, 0.0)) / (1.0 - model.discount)
    assert abs(exact - solve(truncate(model, beta=BETA), ERM(BETA)).value) <= error
    assert stated(planner.fresh(1).plan(iterations=1))[0] == steps
    assert model.horizon is None


def test_the_proven_action_is_that_of_the_endless_problem():
    model = plant()
    plan = make_planner(model, ERM(BETA), kind="bounded", seed=0).plan(iterations=400)
    assert plan.proven
    assert plan.action == solve(model, ERM(BETA)).act(model.start, 0)


def test_other_risks_take_the_bound_of_every_risk():
    assert (
        "every monotone risk measure" in stated(make_planner(plant(), CVaR(0.9), kind="cvar-mcts", seed=0).plan(5))[1]
    )


@pytest.mark.parametrize("discount", [0.8, 1.0])
def test_the_look_ahead_may_be_given(discount):
    for kind in ("auto", "erm-mcts"):
        steps, note = stated(make_planner(plant(discount), ERM(BETA), kind=kind, horizon=4, seed=0).plan(10))
        assert steps == 4
        assert ("no bound is known" in note) == (discount == 1.0)


def test_the_bound_of_a_given_look_ahead_holds():
    model = plant()
    exact = solve(model, ERM(BETA)).value
    for steps in (1, 3, 8):
        cut = truncate(model, horizon=steps, beta=BETA)
        error = float(cut.notes[-1].split("at most ")[1].split()[0])
        assert cut.horizon == steps
        assert abs(exact - solve(cut, ERM(BETA)).value) <= error * 1.01
        assert float(truncate(model, horizon=steps).notes[-1].split("at most ")[1].split()[0]) >= error / 1.01


def test_simulators_are_cut_where_little_is_left():
    steps, note = stated(make_planner(Walk(0.5), ERM(BETA), kind="erm-mcts", seed=0).plan(5))
    assert steps == 10  # 0.5 ** 10 < 1e-3
    assert "at most 0.00098 of the largest total" in note
    assert stated(make_planner(Walk(0.5), ERM(BETA), seed=0).plan(5))[0] == 10
    assert stated(make_planner(Walk(1.0), ERM(BETA), kind="erm-mcts", horizon=3, seed=0).plan(5))[0] == 3
    assert truncate(Frozen()).horizon == 10
    assert Frozen().horizon is None


def test_without_discounting_it_is_asked_for():
    for model in (Walk(1.0), plant(1.0)):
        with pytest.raises(ModelError, match=r"has none and does not discount: say how many decisions .* horizon=50"):
            make_planner(model, ERM(BETA), kind="erm-mcts")
    with pytest.raises(OptionError, match="has a horizon, 3"):
        make_planner(plant().with_options(horizon=3), ERM(BETA), horizon=2)
    with pytest.raises(OptionError, match="not both"):
        truncate(plant(), 0.1, horizon=3)
    with pytest.raises(OptionError, match="whose costs are known"):
        truncate(Walk(0.5), 0.1)
    with pytest.raises(OptionError, match="horizon"):
        make_planner(plant(), ERM(BETA), horizon=0)


def test_episodes_of_a_search_are_as_long_as_it_looks():
    model = plant()
    returns = evaluate(model, make_planner(model, ERM(BETA), kind="uct", seed=0), episodes=3, iterations=5, seed=0)
    assert any("cut to" in note for note in returns.notes)
    assert returns.costs.shape == (3,)
    assert np.ptp(np.append(returns.costs, solve(model, ERM(BETA)).value)) < 2.0
