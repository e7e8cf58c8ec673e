"""The one door: what is chosen, and that the plan says so; and the conditions that end a plan."""

import numpy as np
import pytest

from tailwise import ErmMcts, Planner, Simulator, domains, evaluate, make_planner
from tailwise._plain import plain
from tailwise.errors import OptionError
from tailwise.planners import AutoPlanner, list_planners, make, until
from tailwise.search import StopReason

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted


def test_a_small_table_is_solved_exactly_and_the_plan_says_so():
    planner = make_planner(domains.make("mdp-4"), 0.5, seed=0)
    assert isinstance(planner, AutoPlanner)
    assert isinstance(planner, Planner)
    plan = planner.plan(iterations=10)
    assert (plan.planner, plan.label) == ("exact", "safe")
    assert "outcomes and 20 steps is solved at once" in plan.reason
    planner.advance(plan.action, 1)
    assert (planner.step, planner.state) == (1, 1)
    assert planner.fresh(seed=3).step == 0
    assert planner.step == 1


class BlackBox:
    name = "box"


def test_what_is_chosen_follows_what_the_model_offers(monkeypatch):
    def names(model):
        return [kind for kind, _ in make._candidates(model)]

    assert names(domains.make("mdp-4")) == ["exact", "bounded", "learned", "tree", "erm-mcts"]
    assert names(domains.make("battery")) == ["exact", "bounded", "learned", "tree", "erm-mcts"]
    assert names(BlackBox()) == ["learned", "tree", "erm-mcts"]
    monkeypatch.setattr(make, "_QUICK_SWEEP", 10)
    assert names(domains.make("mdp-4")) == ["bounded", "learned", "tree", "erm-mcts"]


def test_a_simulator_of_few_states_is_solved_exactly():
    machine = domains.make("machine-maintenance")
    planner = make_planner(machine, 0.1, seed=0)
    plan = planner.plan(iterations=10)
    exact = make_planner(machine, 0.1, kind="exact").decision()
    assert (plan.planner, plan.action, plan.value, plan.proven) == ("exact", exact.action, exact.value, True)
    assert "reaches few states" in plan.reason
    assert planner.plan(seconds=1e-6).iterations < 5_000  # the clock is looked at soon
    assert make_planner(machine, 0.1, seed=0, tolerance=0.0).kind == "bounded"  # which alone takes this option


@pytest.mark.compiled
def test_a_model_that_lists_its_outcomes_has_its_best_action_proven(monkeypatch):
    battery = domains.make("battery")
    exact = make_planner(battery, 0.02, kind="exact").decision()
    monkeypatch.setattr(make, "_FEW_STATES", 10)
    plan = make_planner(battery, 0.02, seed=0).plan(iterations=1000, until=until.gap(0.0))
    assert (plan.planner, plan.proven, plan.action) == ("bounded", True, exact.action)
    assert "lists its outcomes" in plan.reason
    assert until.proven()(plan)
    monkeypatch.setattr(make, "_QUICK_SWEEP", 10)  # as if the table were large
    plan = make_planner(domains.make("mdp-4"), 0.5, seed=0).plan(iterations=1000)
    assert (plan.planner, plan.label) == ("bounded", "safe")
    assert plan.possible_loss < 1e-6
    monkeypatch.setattr(make, "_FEW_STATES", 1000)
    assert make_planner(battery, 0.02, seed=0).kind == "bounded"  # few states, but as if of many outcomes


class Sampled(Simulator):
    """A table that can only be sampled; with ``noisy`` no state ever comes back."""

    def __init__(self, mdp, *, noisy=False):
        self.mdp, self.noisy, self.name = mdp, noisy, "box"
        self.horizon, self.discount, self.sense = mdp.horizon, mdp.discount, mdp.sense
        self.start = (mdp.start, 0.0)

    def actions(self, state):
        return self.mdp.actions(state[0])

    def step(self, state, action, rng):
        target, cost, done = self.mdp.step(state[0], action, rng)
        return (target, rng.random() if self.noisy else 0.0), cost, done


@pytest.mark.compiled
def test_a_black_box_is_learned_and_where_states_never_recur_the_plan_says_so():
    mdp = domains.make("mdp-4")
    best = make_planner(mdp, 0.5, kind="exact").decision().action
    plan = make_planner(Sampled(mdp), 0.5, seed=0).plan(iterations=1000)
    assert (plan.planner, plan.action, plan.states_recur) == ("learned", best, True)
    assert plan.reason == "box is sampled, and what was drawn is kept as a learned model"
    plan = make_planner(Sampled(mdp, noisy=True), 0.5, seed=0).plan(iterations=3000)
    assert (plan.planner, plan.action, plan.states_recur) == ("learned", best, False)
    assert plan.reason.endswith("as in a tree")


@pytest.mark.compiled
def test_auto_plays_a_black_box_in_closed_loop():
    mdp = domains.make("mdp-4").with_options(horizon=6)
    box = Sampled(mdp)
    planner = make_planner(box, 0.5)
    returns = evaluate(box, planner, episodes=4, iterations=100, seed=1)
    assert returns.label == "learned"
    assert np.array_equal(returns.costs, evaluate(box, planner, episodes=4, iterations=100, seed=1).costs)


class Crowd(Simulator):
    """From 0 nothing happens; from 1 on, more happens than can be listed ahead."""

    start, horizon, name = 0, 3, "crowd"

    def actions(self, state):
        return 2

    def outcomes(self, state, action):
        if state == 0:
            return [(1.0, 0, 1.0 + action, False)]
        return [(1 / 200, 1 + 200 * state + k, 1.0 + action, False) for k in range(200)]

    def step(self, state, action, rng):
        outcomes = self.outcomes(state, action)
        return outcomes[int(rng.random() * len(outcomes))][1:]


def test_what_turns_out_too_large_is_handed_on_to_the_next_planner():
    planner = make_planner(Crowd(), 0.5, seed=0)
    assert planner.kind == "exact"
    planner.reset(1)
    assert planner.kind in ("learned", "tree")
    plan = planner.plan(iterations=200)
    assert (plan.action, plan.state, plan.planner) == (0, 1, planner.kind)
    moved = make_planner(Crowd(), 0.5, seed=0)
    moved.advance(0, 1)
    assert (moved.kind, moved.step, moved.state) == (planner.kind, 1, 1)
    refused = make_planner(Crowd(), 0.5, seed=0)
    with pytest.raises(OptionError, match="step must be"):
        refused.reset(0, 3)
    assert (refused.kind, refused.step) == ("exact", 0)


def test_options_decide_too():
    mdp = domains.make("mdp-4")
    planner = make_planner(mdp, 0.5, seed=0, bonus=3.0, expansion="path")
    assert planner.kind == "erm-mcts"
    assert planner.options.bonus.constant == 3.0
    assert make_planner(mdp, 0.5, seed=0, expansion="path").kind == "tree"
    with pytest.raises(OptionError, match="does not take these options"):
        make_planner(mdp, 0.5, nonsense=3)
    with pytest.raises(OptionError, match="beta"):
        make_planner(mdp, "much")
    with pytest.raises(AttributeError):
        planner.nonsense  # noqa: B018


def test_auto_is_played_as_what_it_chose():
    mdp = domains.make("mdp-4")
    auto, exact = make_planner(mdp, 0.5), make_planner(mdp, 0.5, kind="erm-bi")
    played = [evaluate(mdp, player, episodes=20, seed=5).costs for player in (auto, exact)]
    assert np.array_equal(*played)
    assert hasattr(auto, "fixed_policy")  # followed as it is, with no plan at each step
    assert np.array_equal(evaluate(mdp, auto, episodes=20, seed=5, iterations=7).costs, played[0])
    assert not hasattr(make_planner(mdp, 0.5, bonus=3.0), "fixed_policy")


_SLOW_UNCOMPILED = ("cvar-mcts", "distributional")  # they solve a table of totals over and over
_KINDS = [
    pytest.param(kind.name, marks=[pytest.mark.compiled] * (kind.name in _SLOW_UNCOMPILED)) for kind in list_planners()
]


@pytest.mark.parametrize("kind", _KINDS)
def test_every_named_planner_takes_a_seed_and_ends_at_its_limits(kind):
    mdp = domains.make("mdp-4")
    planners = [make_planner(mdp, 0.5, kind=kind, seed=7) for _ in range(2)]
    if not isinstance(planners[0], Planner):
        assert planners[0].act(mdp.start, 0) in mdp.actions(mdp.start)
        return
    first, second = (planner.plan(iterations=300) for planner in planners)
    assert planners[0].state == getattr(first, "state", mdp.start) == mdp.start
    assert first.action in mdp.actions(mdp.start)
    assert (first.action, first.value) == (second.action, second.value)
    assert plain(first)["label"] == first.label
    planners[0].advance(first.action, 1)
    assert (planners[0].step, first.iterations <= 300) == (1, True)
    other = planners[0].fresh(seed=7)
    assert other.step == 0
    assert other.plan(iterations=300).value == first.value
    if not hasattr(other, "act"):  # it is no part of the protocol
        return
    minds_the_past = kind.startswith("acc") or kind in ("cvar-mcts", "distributional")
    past = {"accrued": 0.5} if minds_the_past else {}
    assert other.act(2, 3, iterations=50, **past) in mdp.actions(2)
    assert (other.state, other.step) == (2, 3)
    assert other.act(2, 3, iterations=50) in mdp.actions(2)  # where it stands already
    if minds_the_past:
        with pytest.raises(OptionError, match="minds what was paid before step 5"):
            other.act(2, 5)
    else:
        with pytest.raises(OptionError, match="leave accrued out"):
            other.act(2, 3, accrued=1.0)


def test_gap_stops_once_no_action_could_be_better_by_more():
    mdp = domains.make("mdp-4")
    plan = ErmMcts(mdp, 0.5, seed=0).plan(iterations=200_000, until=until.gap(0.6))
    assert plan.stopped is StopReason.UNTIL
    assert plan.possible_loss <= 0.6
    exact = make_planner(mdp, 0.5, kind="exact", seed=0).plan(iterations=10)
    assert exact.possible_loss == 0.0
    assert until.proven()(exact)
    assert not until.proven()(plan)
    rewards = make_planner(domains.make("mdp-4"), 0.5, kind="exact").plan(iterations=2)
    assert until.gap(0.0)(rewards)


def test_an_action_never_tried_could_be_better_by_anything():
    plan = ErmMcts(domains.make("grid-mdp"), 0.5, seed=0).plan(iterations=1)
    assert plan.possible_loss == float("inf")


def test_stable_counts_iterations_since_the_last_change():
    class Fake:
        def __init__(self, action, iterations):
            self.action, self.iterations = action, iterations

    holds = until.stable(100)
    story = [("a", 10), ("a", 60), ("b", 90), ("b", 189), ("b", 190), ("c", 400), ("c", 450)]
    assert [holds(Fake(*chapter)) for chapter in story] == [False, False, False, False, True, False, False]
    assert not holds(Fake("c", 20))  # a new call of plan counts from its own start
    assert holds(Fake("c", 120))


@pytest.mark.parametrize("text", ["proven", "gap:0.5", "gap:1e-3", "stable:5000", "stable:1e4"])
def test_conditions_by_name(text):
    assert callable(until.from_text(text))


@pytest.mark.parametrize(
    "text", ["", "proof", "gap", "gap:x", "gap:-1", "stable:0", "stable:", "proven:3", "gap:nan", "stable:inf"]
)
def test_conditions_that_are_none(text):
    with pytest.raises(OptionError, match="must be"):
        until.from_text(text)
