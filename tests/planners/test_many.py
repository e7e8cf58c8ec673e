"""Plans for many roots at once, and threads where a planner has no use for them."""

import pytest

from tailwise import CVaR, LearnedModelSearch, Simulator, domains, make_planner, plan_many
from tailwise._random import seed_sequence
from tailwise.errors import OptionError, StateError
from tailwise.planners.protocol import plan_in_threads


def numbers(plan):
    return plan.state, plan.step, plan.label, plan.value, plan.nodes, [(row.visits, row.erm) for row in plan.rows]


def test_each_root_is_planned_as_alone_whatever_the_threads():
    mdp = domains.make("grid-mdp")
    states = [0, 7, 3]
    plans = plan_many(mdp, 0.1, states, step=2, kind="tree", iterations=300, seed=5)
    alone = []
    for state, seed in zip(states, seed_sequence(5).spawn(3), strict=True):
        search = make_planner(mdp, 0.1, kind="tree", seed=seed)
        search.reset(state, 2)
        alone.append(search.plan(iterations=300))
    together = plan_many(mdp, 0.1, iter(states), step=2, kind="tree", iterations=300, seed=5, threads=2)
    assert [numbers(p) for p in plans] == [numbers(p) for p in alone] == [numbers(p) for p in together]
    with pytest.raises(OptionError, match="no tree"):
        plans[0].root  # noqa: B018


def test_an_exact_planner_is_solved_once_for_all_roots():
    mdp = domains.make("grid-mdp")
    plans = plan_many(mdp, 0.1, range(3), iterations=8)
    assert [plan.planner for plan in plans] == ["exact"] * 3
    seen = []
    assert plan_many(mdp, 0.1, [], progress=lambda *now: seen.append(now)) == ()
    plan_many(mdp, 0.1, [0, 1], kind="tree", threads=2, progress=lambda *now: seen.append(now), iterations=5)
    assert seen == [(1, 2), (2, 2)]


def test_faults_are_named():
    mdp = domains.make("mdp-4")
    with pytest.raises(StateError, match="99"):
        plan_many(mdp, 0.1, [0, 99], threads=2, kind="tree")
    with pytest.raises(OptionError, match="threads"):
        plan_many(mdp, 0.1, [0], threads=0)


class Coin(Simulator):
    horizon, start = 3, 0

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        return state + 1, action + rng.random(), False


def test_python_keeps_to_one_thread_and_says_so():
    (plan,) = plan_many(Coin(), 0.5, [0], kind="tree", iterations=20, threads=3, seed=1)
    assert plan.notes == ("searched in one thread, not 3: a model in plain Python keeps to one",)


def test_planners_without_threads_say_so():
    mdp = domains.make("mdp-4")
    planners = {
        "learned": LearnedModelSearch(mdp, 0.5, seed=0),
        "bounded": make_planner(mdp, 0.5, kind="bounded", seed=0),
        "distributional": make_planner(mdp, 0.5, kind="distributional", seed=0),
        "cvar-mcts": make_planner(mdp, CVaR(0.95), kind="cvar-mcts", seed=0),
    }
    for planner in planners.values():
        (note,) = plan_in_threads(planner, 2, iterations=20).notes
        assert note.startswith("searched in one thread, not 2")
        assert plan_in_threads(planner, 1, iterations=20).notes == ()
