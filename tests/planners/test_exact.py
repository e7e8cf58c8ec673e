"""The exact optimum as a planner: against backward induction, and its episodes against the exact law."""

from types import SimpleNamespace

import numpy as np
import pytest

from tailwise import ExactPlanner, Simulator, TabularMDP, backward_induction, domains, evaluate, solve
from tailwise.errors import ModelError, OptionError, StateError, TailwiseError
from tailwise.exact import return_distribution
from tailwise.models import tabulate
from tailwise.planners import make_planner
from tailwise.search import StopReason

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted


class Corridor(Simulator):
    """Walk right, fast or slow; actions have names, and states are tuples of which the start reaches each late."""

    start, horizon, discount, name = ("at", 0), 5, 0.9, "corridor"

    def actions(self, state):
        return ("slow", "fast") if state[1] < 3 else ("slow",)

    def outcomes(self, state, action):
        if action == "slow":
            return [(1.0, ("at", state[1] + 1), 1.0 + state[1], False)]
        return [(0.8, ("at", state[1] + 2), 0.5, False), (0.2, ("at", state[1]), 6.0, True)]

    def step(self, state, action, rng):
        draw = rng.random()
        for probability, target, cost, done in self.outcomes(state, action):
            draw -= probability
            if draw < 0:
                return target, cost, done
        return target, cost, done

    def terminal_cost(self, state):
        return 0.1 * state[1]


@pytest.mark.parametrize("name", ["mdp-4", "grid-mdp", "machine-maintenance"])
@pytest.mark.parametrize("beta", [-0.3, 0.0, 0.2])
def test_values_and_action_are_those_of_backward_induction(name, beta):
    mdp = domains.make(name)
    mdp = mdp if isinstance(mdp, TabularMDP) else tabulate(mdp)
    solution, planner = backward_induction(mdp, beta), ExactPlanner(mdp, beta, seed=0)
    for h in (0, mdp.horizon - 1):
        planner.reset(mdp.start, h)
        plan = planner.plan(iterations=10)
        assert plan.value == solution.values[h, mdp.start]
        assert plan.action == solution.act(mdp.start, h)
        assert [row.erm for row in plan.rows] == solution.action_values(h)[mdp.start, mdp.actions(mdp.start)].tolist()
        assert plan.root_beta == pytest.approx(beta * mdp.discount**h)
        assert plan.stopped is StopReason.PROVEN


def test_its_rows_have_the_exact_distribution_of_the_total():
    mdp = TabularMDP.from_outcomes(
        [0, 0, 0, 1, 1], [0, 0, 1, 0, 0], [0, 1, 1, 1, 0], [0.6, 0.4, 1.0, 0.7, 0.3], [1.0, 2.0, 1.8, 0.5, 4.0],
        done=[False, False, False, False, True], horizon=4, discount=0.5, terminal_costs=[8.0, 16.0],
    )  # fmt: skip
    for model in (mdp, domains.make("mdp-4")):
        plan, solution = ExactPlanner(model, 0.3).plan(), backward_induction(model, 0.3)
        for row in plan.rows:
            policy = solution.policy.copy()
            policy[0, model.start] = row.action
            law = return_distribution(model, policy)
            found, moved = (row.mean, row.std, row.minimum, row.maximum), row.distribution.tolerance
            assert found == pytest.approx((law.mean, law.std, law.minimum, law.maximum), abs=moved + 1e-12)
            assert row.mean == row.distribution.mean
            assert law.erm(0.3) == pytest.approx(row.erm, abs=1e-12)
            sample = plan.samples(row.action)
            assert sample.mean() == pytest.approx(law.mean, abs=0.02 * max(1.0, law.std))
    with pytest.raises(OptionError, match="iterations"):
        ExactPlanner(mdp, 0.3).plan(iterations=0)


def test_rewards_stay_rewards():
    mdp = TabularMDP.from_outcomes([0, 0], [0, 1], [0, 0], [1, 1], rewards=[1.0, 3.0], horizon=2)
    plan = ExactPlanner(mdp, 0.5, seed=0).plan(iterations=10)
    assert (plan.action, plan.value, plan.row(0).mean, plan.row(1).maximum) == (1, 6.0, 4.0, 6.0)
    assert set(plan.samples(1).tolist()) == {6.0}


@pytest.mark.parametrize("beta", [0.0, 0.4])
def test_simulators_that_list_their_outcomes_are_solved_in_their_own_states_and_actions(beta):
    model = Corridor()
    exact = backward_induction(tabulate(model), beta)
    planner, policy = ExactPlanner(model, beta, seed=0), solve(model, beta)
    plan = planner.plan(iterations=50)
    assert plan.value == exact.value
    assert plan.action in model.actions(model.start)
    assert plan.label == plan.action == policy.act(model.start, 0)
    played = [evaluate(model, player, episodes=40, seed=3).costs for player in (planner, policy)]
    assert np.array_equal(*played)


def test_a_state_that_the_start_reaches_only_later_has_its_whole_future():
    model, elsewhere = Corridor(), Corridor()
    elsewhere.start = ("at", 4)
    planner = ExactPlanner(model, 0.4, seed=0)
    planner.reset(("at", 4), 0)
    assert planner.plan(iterations=10).value == ExactPlanner(elsewhere, 0.4).plan(iterations=10).value
    with pytest.raises(StateError, match="cannot be reached from the start by step 0"):
        solve(model, 0.4).act(("at", 4), 0)
    planner.reset()
    assert planner.plan(iterations=10).value == backward_induction(tabulate(model), 0.4).value


def test_limits_and_bad_input():
    mdp = domains.make("mdp-4")
    planner = ExactPlanner(mdp, 0.5, seed=0)
    for limits in ({"iterations": 10**9, "seconds": 1e-9}, {"until": lambda plan: True}):
        assert planner.plan(**limits).stopped is StopReason.PROVEN  # limits are of no use: it is exact
    seen = []
    planner.plan(progress=lambda done, seconds: seen.append(done))
    assert seen == [1]
    with pytest.raises(OptionError, match="iterations must be at least 1"):
        planner.plan(iterations=0)
    with pytest.raises(ModelError, match="step is missing; expected step"):
        ExactPlanner(SimpleNamespace(actions=None, step=None), 0.5)
    for _ in range(mdp.horizon):
        planner.advance(0, 0)
    assert planner.step == mdp.horizon
    with pytest.raises(OptionError, match="no decision is left"):
        planner.plan(iterations=1)
    with pytest.raises(OptionError, match="is reached"):
        planner.advance(0, 0)
    assert make_planner(mdp, 0.5, kind="exact", seed=0).plan().iterations == 0


@pytest.mark.parametrize("model", [domains.make("mdp-4", horizon=4), Corridor()], ids=["table", "simulator"])
def test_a_move_that_cannot_be_is_refused_and_leaves_all_as_it_was(model):
    planner = ExactPlanner(model, 0.02)
    before = planner.state, planner.step
    action = planner.plan().action
    for wrong in ("fly", {"a": 1}, None):
        with pytest.raises(StateError, match="is not allowed in state"):
            planner.advance(wrong, planner.state)
    for wrong in ("nowhere", 1.5):
        with pytest.raises(TailwiseError):
            planner.advance(action, wrong)
    assert (planner.state, planner.step) == before
