"""Models without a horizon at each entry door: answered, or refused with the way out."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

import tailwise
from tailwise import ERM, CVaR, Simulator, TabularMDP, WorstCase, evaluate, frontier, make_planner, solve
from tailwise.errors import ModelError, OptionError, TailwiseError
from tailwise.exact import action_frequencies, policy_risk
from tailwise.explore.session import Session
from tailwise.planners import list_planners

CHANCE = 0.3


def repair(discount=1.0, price=6.0):
    """Patch, which works three times in ten, or call the maker."""
    return TabularMDP.from_outcomes(
        [0, 0, 0], [0, 0, 1], [0, 0, 0], [1.0 - CHANCE, CHANCE, 1.0], [1.0, 1.0, price], done=[False, True, True],
        horizon=None, discount=discount, action_labels=("patch", "call"),
    )  # fmt: skip


class Repair(Simulator):
    """The same, sampled."""

    horizon, discount, sense, start = None, 1.0, "cost", 0

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        return (0, 1.0, bool(rng.random() < CHANCE)) if action == 0 else (0, 6.0, True)


class ListedRepair(Repair):
    """The same, with all that may happen."""

    def outcomes(self, state, action):
        return [(0.7, 0, 1.0, False), (0.3, 0, 1.0, True)] if action == 0 else [(1.0, 0, 6.0, True)]


def geometric(beta):
    return math.log(CHANCE * math.exp(beta) / (1.0 - (1.0 - CHANCE) * math.exp(beta))) / beta


class TestEvaluate:
    def test_until_done(self):
        mdp = repair()
        returns = evaluate(mdp, solve(mdp, ERM(0.1)), episodes=20_000, seed=0)
        assert abs(returns.mean - 1.0 / CHANCE) < 5.0 * 2.79 / math.sqrt(20_000)
        assert not returns.notes
        by_steps = evaluate(mdp, lambda state, step: 0, episodes=100, seed=0)
        np.testing.assert_array_equal(by_steps.costs, returns.costs[:100])  # the same streams, the same episodes
        planner = make_planner(mdp, 0.1)
        np.testing.assert_array_equal(evaluate(mdp, planner, episodes=100, seed=0).costs, by_steps.costs)

    @pytest.mark.parametrize("policy", [np.zeros(1, np.int64), lambda state, step: 0])
    def test_the_cap_is_reported(self, policy):
        returns = evaluate(repair(), policy, episodes=4000, seed=1, max_steps=2)
        assert set(returns.costs.tolist()) == {1.0, 2.0}
        (note,) = returns.notes
        left = int(note.split()[0])
        assert "had not ended after 2 steps" in note
        assert abs(left / 4000 - 0.49) < 0.04

    def test_long_episodes_draw_on_one_stream(self):
        """Beyond the first draws of an episode: waiting for one chance in five hundred."""
        rare = TabularMDP.from_outcomes(
            [0, 0], [0, 0], [0, 0], [0.998, 0.002], [1.0, 1.0], done=[False, True], horizon=None
        )
        asked = evaluate(rare, lambda state, step: 0, episodes=30, seed=0)
        np.testing.assert_array_equal(asked.costs, evaluate(rare, np.zeros(1, np.int64), episodes=30, seed=0).costs)
        assert asked.costs.max() > 1000.0

    def test_absorbing_states_and_discounts(self):
        absorbing = TabularMDP.from_outcomes(
            [0, 0, 1], [0, 0, 0], [0, 1, 1], [0.7, 0.3, 1.0], [1.0, 1.0, 0.0], horizon=None
        )
        assert not evaluate(absorbing, np.zeros(2, np.int64), episodes=50, seed=0).notes
        for_ever = TabularMDP.from_outcomes([0], [0], [0], [1.0], [1.0], horizon=None, discount=0.9)
        returns = evaluate(for_ever, np.zeros(1, np.int64), episodes=2, seed=0)
        np.testing.assert_allclose(returns.costs, 10.0, rtol=1e-12)
        assert "costs count" in returns.notes[0]

    def test_simulators(self):
        for simulator in (Repair(), ListedRepair()):
            returns = evaluate(simulator, lambda state, step: 0, episodes=2000, seed=0)
            assert abs(returns.mean - 1.0 / CHANCE) < 5.0 * 2.79 / math.sqrt(2000)

    def test_max_steps_is_for_them_alone(self):
        with pytest.raises(OptionError, match="max_steps is for models without a horizon"):
            evaluate(repair().with_options(horizon=3), np.zeros(1, np.int64), episodes=2, max_steps=5)


class TestPlanners:
    @pytest.mark.parametrize("model", [repair(), ListedRepair()])
    def test_solved_where_outcomes_are_listed(self, model):
        planner = make_planner(model, 0.1, seed=0)
        plan = planner.plan()
        assert plan.value == pytest.approx(geometric(0.1))
        assert "no horizon" in plan.reason
        planner.advance(plan.action, 0)
        assert planner.plan().action == plan.action

    @pytest.mark.parametrize("model", [repair(), Repair(), ListedRepair()])
    def test_searches_say_that_they_need_one(self, model):
        kinds = [kind for kind in list_planners() if not kind.endless and not kind.hidden]
        assert len(kinds) > 5
        for kind in kinds:
            wanted = next(one for one in (ERM(0.1), CVaR(0.9)) if kind.pursues(one) or one == CVaR(0.9))
            with pytest.raises(TailwiseError, match=r"horizon|does not pursue"):
                make_planner(model, wanted, kind=kind.name)
        for made in (tailwise.ErmMcts, tailwise.AccMcts, tailwise.LearnedModelSearch):
            with pytest.raises(ModelError, match="no horizon"):
                made(model, 0.1)
        if isinstance(model, Repair) and not isinstance(model, ListedRepair):
            with pytest.raises(ModelError, match="say how many decisions to look ahead"):
                make_planner(model, 0.1)

    def test_other_doors(self):
        mdp = repair()
        for call in (
            lambda: tailwise.backward_induction(mdp, 0.1),
            lambda: policy_risk(mdp, np.zeros(1, np.int64), 0.1),
            lambda: action_frequencies(mdp, np.zeros((1, 1, 2), np.int32)),
            lambda: tailwise.choose_beta(repair(0.9), level=0.9),
        ):
            with pytest.raises(TailwiseError, match="horizon"):
                call()
        assert tailwise.check_model(mdp).ok
        assert tailwise.check_model(Repair()).ok

    def test_choose_beta(self):
        choice = tailwise.choose_beta(repair(), budget=40.0, probability=0.05)
        want = brentq(lambda beta: geometric(beta) + math.log(20.0) / beta - 40.0, 0.01, 0.2, xtol=1e-14)
        assert choice.beta == pytest.approx(want, rel=1e-6)
        assert "Take patch" in choice.effect
        worst = tailwise.choose_beta(repair(), level=0.9)  # the maker, whose price is sure
        assert 6.0 <= worst.bound <= 6.0 + 0.01 * (6.0 - 1.0 / CHANCE) * (1.0 + 1e-9)
        assert solve(repair(), ERM(worst.beta)).action == 1

    def test_explore_looks_ahead(self):
        session = Session(repair(0.5), beta=0.1, iterations=5)
        assert session.wait(60.0)
        assert session.view().moment.plan.label == "patch"
        assert any("cut to" in note for note in session.view().moment.plan.notes)
        with pytest.raises(ModelError, match="how far to look"):
            Session(repair())

    def test_hidden_states_need_one(self):
        hidden = tailwise.domains.make("light-dark")
        hidden.horizon = None
        for call in (
            lambda: make_planner(hidden, 0.1).plan(iterations=10),
            lambda: evaluate(hidden, lambda belief, step: 0, episodes=1),
        ):
            with pytest.raises(ModelError, match="horizon"):
                call()
        assert not tailwise.check_model(hidden).ok

    def test_pages_and_files(self, tmp_path):
        mdp = repair()
        plan = solve(mdp, ERM(0.1)).plan()
        plan.report(tmp_path / "plan.html")
        plan.save(tmp_path / "plan.tailwise")
        assert (tmp_path / "plan.html").stat().st_size > 1000
        assert tailwise.load_plan(tmp_path / "plan.tailwise").value == plan.value
        for name in ("model.npz", "model.csv"):
            tailwise.save(mdp, tmp_path / name)
            again = tailwise.load(tmp_path / name)
            assert again.horizon is None
            assert solve(again, ERM(0.1)).value == plan.value
            assert tailwise.load(tmp_path / name, horizon=4).horizon == 4
            assert tailwise.load(f"{tmp_path / name}", horizon=None).horizon is None

    def test_the_table_of_a_policy_has_states_that_are_met_later(self):
        class Chain(Simulator):
            horizon, discount, sense, start = None, 1.0, "cost", 0

            def actions(self, state):
                return 1

            def step(self, state, action, rng):
                return state + 1, 1.0, state == 2

            def outcomes(self, state, action):
                return [(1.0, state + 1, 1.0, state == 2)]

        policy = solve(Chain(), ERM(0.1))
        assert policy.to_columns()["value"].tolist() == pytest.approx([3.0, 2.0, 1.0])


class TestFrontier:
    def test_where_the_plan_changes(self):
        """Patching is worth calling for where its geometric ERM is the price."""
        found = frontier(repair(), [0.0, 0.3])
        assert [point.label for point in found.points] == ["patch", "call"]
        assert geometric(found.switches[0]) == pytest.approx(6.0, rel=1e-6)
        assert found.points[0].mean == pytest.approx(1.0 / CHANCE)
        assert not found.certified

    def test_auto(self):
        assert [point.label for point in frontier(repair()).points] == ["patch", "call"]
        patch_only = TabularMDP.from_outcomes(
            [0, 0], [0, 0], [0, 0], [0.7, 0.3], [1.0, 1.0], done=[False, True], horizon=None
        )
        (point,) = frontier(patch_only).points
        assert point.high == pytest.approx(-0.95 * math.log(0.7), rel=1e-6)
        assert frontier(repair(0.9)).points[0].label == "patch"
        assert solve(repair(0.9), WorstCase()).value == 6.0
