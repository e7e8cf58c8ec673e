"""The one door: what is chosen, and that the plan says so; and the conditions that end a plan."""

import inspect
import math

import numpy as np
import pytest

from tailwise import (
    ERM,
    CVaR,
    ErmMcts,
    EVaR,
    Expectation,
    ExpectedUtility,
    NestedCVaR,
    Planner,
    PolynomialBonus,
    Simulator,
    TreeSearch,
    backward_induction,
    domains,
    evaluate,
    make_planner,
)
from tailwise._results import plain
from tailwise.errors import ModelError, OptionError
from tailwise.planners import find_planner, list_planners, make, until
from tailwise.planners.make import choose_kind
from tailwise.search import AnytimeSearch, SearchKeywords, StopReason
from tailwise.search.learned import LearnedKeywords

_OBJECTIVES = {"cvar-mcts": CVaR(0.95), "nlu-mcts": ExpectedUtility(lambda total: total * total)}

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted


def test_a_small_table_is_solved_exactly_and_the_plan_says_so():
    planner = make_planner(domains.make("mdp-4"), 0.5, seed=0)
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


def test_what_is_chosen_follows_what_the_model_offers_and_what_is_wanted(monkeypatch):
    def chosen(model, objective=0.5):
        return choose_kind(model, objective)[0].name

    mdp, battery = domains.make("mdp-4"), domains.make("battery")
    assert [chosen(model) for model in (mdp, battery, BlackBox())] == ["exact", "exact", "learned"]
    assert [chosen(mdp, objective) for objective in (CVaR(0.9), NestedCVaR(0.9), EVaR(0.9))] == ["exact"] * 3
    assert chosen(BlackBox(), Expectation()) == "learned"
    assert chosen(BlackBox(), CVaR(0.9)) == "cvar-mcts"
    assert chosen(BlackBox(), ExpectedUtility(abs)) == "nlu-mcts"
    assert chosen(BlackBox(), EVaR(0.9)) == "distributional"
    with pytest.raises(OptionError, match=r"no planner pursues the nested CVaR at level 0\.9 on box"):
        chosen(BlackBox(), NestedCVaR(0.9))
    monkeypatch.setattr(make, "_QUICK_SWEEP", 10)
    assert chosen(mdp) == "bounded"
    assert (chosen(mdp, CVaR(0.9)), chosen(mdp, NestedCVaR(0.9))) == ("cvar-mcts", "exact")


def test_a_kind_says_which_objectives_it_pursues():
    mdp = domains.make("mdp-4")
    with pytest.raises(OptionError, match=r"erm-mcts does not pursue the CVaR at level 0.9; .*: exact .*, cvar-mcts"):
        make_planner(mdp, CVaR(0.9), kind="erm-mcts")
    with pytest.raises(OptionError, match=r"cvar-mcts does not pursue the ERM at beta 0\.5; those that do: exact"):
        make_planner(mdp, 0.5, kind="cvar-mcts")
    assert make_planner(mdp, CVaR(0.9), kind="cvar-mcts").level == 0.9
    assert make_planner(mdp, Expectation(), kind="erm-mcts").options.beta == 0.0
    assert make_planner(mdp, ERM(0.5), kind="erm-mcts").options.beta == 0.5


def _model_of(kind):
    return domains.make("tiger" if find_planner(kind).hidden else "mdp-4")


@pytest.mark.parametrize("kind", [kind.name for kind in list_planners()])
def test_kinds_declare_the_options_that_they_take(kind):
    """What the table of kinds says of a class, which is imported late, is what its constructor takes."""
    declared = find_planner(kind)
    built = make_planner(_model_of(kind), _OBJECTIVES.get(kind, 0.5), kind=kind)
    signature = inspect.signature(type(built)).parameters
    taken = {name for name, one in signature.items() if one.kind is not inspect.Parameter.VAR_KEYWORD}
    if "keywords" in signature:
        tree = isinstance(built, TreeSearch)
        taken |= set((SearchKeywords if tree else LearnedKeywords).__annotations__)
    of_the_objective = {"model", "objective", "beta", "level", "utility", "measure", "seed"}
    fixed = {"acc-mcts-raw": {"form", "reference"}}.get(kind, set())
    if "keywords" in signature:  # classes share these keywords; those that do not declare them raise, and say why
        fixed |= {"bounds", "rare_outcomes"} - set(declared.options)
    assert set(declared.options) == taken - of_the_objective - fixed
    assert declared.saves == isinstance(built, AnytimeSearch)


def test_a_simulator_of_few_states_is_solved_exactly():
    machine = domains.make("machine-maintenance")
    planner = make_planner(machine, 0.1, seed=0)
    plan = planner.plan(iterations=10)
    exact = make_planner(machine, 0.1, kind="exact").decision()
    assert (plan.planner, plan.action, plan.value, plan.proven) == ("exact", exact.action, exact.value, True)
    assert "reaches few states" in plan.reason
    assert planner.plan(seconds=1e-6).iterations < 5_000  # the clock is looked at soon
    with pytest.raises(OptionError, match=r"exact \(chosen, since .*not take the option tolerance=0.0: .*bounded"):
        make_planner(machine, 0.1, seed=0, tolerance=0.0)


@pytest.mark.compiled
def test_a_model_that_lists_its_outcomes_has_its_best_action_proven(monkeypatch):
    battery = domains.make("battery")
    exact = make_planner(battery, 0.02, kind="exact").decision()
    monkeypatch.setattr(make, "_FEW_STATES", 10)
    assert make_planner(battery, 0.02, tolerance=0.1, max_memory=10**8).kind == "bounded"
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
    assert plan.reason.endswith("the cost-to-go is fitted to features of the states")


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


def test_a_root_from_which_too_much_is_reached_is_named():
    """The planner that was chosen stays: at the start few states are reached."""
    planner = make_planner(Crowd(), 0.5, seed=0, max_states=100)
    assert planner.kind == "exact"
    for move in (lambda: planner.reset(1), lambda: planner.advance(0, 1)):
        with pytest.raises(ModelError, match="crowd reaches over 100 states; raise max_states, or search"):
            move()
    begun = Crowd()
    begun.start = 1
    assert make_planner(begun, 0.5, seed=0).kind == "learned"
    with pytest.raises(OptionError, match="step must be"):
        planner.reset(0, 3)


def test_an_option_never_turns_a_proof_into_a_sample():
    mdp = domains.make("mdp-4")
    with pytest.raises(OptionError, match=r"exact \(chosen, .*the option bonus=1.0: name a planner .*kind='erm-mcts'"):
        make_planner(mdp, 0.5, bonus=1.0)
    with pytest.raises(OptionError, match=r"the option bonus=PolynomialBonus.*kind='tree' or .*, erm-mcts"):
        make_planner(mdp, 0.5, bonus=PolynomialBonus())
    with pytest.raises(OptionError, match="expansion='path'"):
        make_planner(mdp, 0.5, seed=0, expansion="path")
    with pytest.raises(OptionError, match=r"learned \(chosen, since box is sampled.*the option bonus=1.0"):
        make_planner(Sampled(mdp), 0.5, bonus=1.0)
    planner = make_planner(mdp, 0.5, seed=0, kind="erm-mcts", bonus=3.0, expansion="path")
    assert planner.options.bonus.constant == 3.0
    assert make_planner(mdp, 0.5, max_nodes=10, max_memory=10**6).kind == "exact"  # which needs no such room
    assert make_planner(Sampled(mdp), 0.5, max_nodes=10).options.max_nodes == 10
    with pytest.raises(OptionError, match="does not take the option nonsense=3: leave it out"):
        make_planner(mdp, 0.5, nonsense=3)
    with pytest.raises(OptionError, match="beta"):
        make_planner(mdp, "much")


def test_auto_is_played_as_what_it_chose():
    mdp = domains.make("mdp-4")
    auto, exact = make_planner(mdp, 0.5), backward_induction(mdp, 0.5)
    played = [evaluate(mdp, player, episodes=20, seed=5).costs for player in (auto, exact)]
    assert np.array_equal(*played)
    assert hasattr(auto, "fixed_policy")  # followed as it is, with no plan at each step
    assert np.array_equal(evaluate(mdp, auto, episodes=20, seed=5, iterations=7).costs, played[0])
    assert not hasattr(make_planner(mdp, 0.5, kind="tree"), "fixed_policy")


_SLOW_UNCOMPILED = ("cvar-mcts", "distributional")  # they solve a table of totals over and over
_KINDS = [
    pytest.param(kind.name, marks=[pytest.mark.compiled] * (kind.name in _SLOW_UNCOMPILED))
    for kind in list_planners()
    if not kind.hidden
]


@pytest.mark.parametrize("kind", _KINDS)
def test_every_named_planner_takes_a_seed_and_ends_at_its_limits(kind):
    mdp = domains.make("mdp-4")
    planners = [make_planner(mdp, _OBJECTIVES.get(kind, 0.5), kind=kind, seed=7) for _ in range(2)]
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
    minds_the_past = kind.startswith("acc") or kind in ("nlu-mcts", "cvar-mcts", "distributional")
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


@pytest.mark.parametrize("kind", [kind.name for kind in list_planners() if kind.hidden])
def test_planners_of_hidden_states_take_a_seed_and_end_at_their_limits(kind):
    tiger = domains.make("tiger")
    planners = [make_planner(tiger, 0.05, kind=kind, seed=7) for _ in range(2)]
    first, second = (planner.plan(iterations=50) for planner in planners)
    assert (first.action, first.value, first.iterations <= 50) == (second.action, second.value, True)
    planners[0].advance("listen", "hear-left")
    other = planners[0].fresh(seed=7)
    assert (planners[0].step, other.step) == (1, 0)
    assert other.plan(iterations=50).value == first.value


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
    doubtful = Fake("c", 300)
    doubtful.probability_best = 0.7
    assert not holds(doubtful)
    early = Fake("c", 400)
    early.too_early = True
    assert not holds(early)


def test_gap_asks_for_draws_of_every_action():
    """Three cost draws that are alike say little; certain bounds say all."""
    plan = ErmMcts(domains.make("mdp-4"), 0.5, seed=0).plan(iterations=8)
    assert plan.possible_loss < math.inf
    assert not until.gap(100.0)(plan)
    assert until.gap(100.0)(ErmMcts(domains.make("mdp-4"), 0.5, seed=0).plan(iterations=100))


@pytest.mark.parametrize("text", ["proven", "gap:0.5", "gap:1e-3", "stable:5000", "stable:1e4"])
def test_conditions_by_name(text):
    assert callable(until.from_text(text))


@pytest.mark.parametrize(
    "text", ["", "proof", "gap", "gap:x", "gap:-1", "stable:0", "stable:", "proven:3", "gap:nan", "stable:inf"]
)
def test_conditions_that_are_none(text):
    with pytest.raises(OptionError, match="until must be proven, gap:WIDTH or stable:ITERATIONS"):
        until.from_text(text)


def test_beta_stands_for_an_erm():
    mdp = domains.make("mdp-4")
    assert make_planner(mdp, beta=0.5).plan().action == make_planner(mdp, 0.5).plan().action
    for given in ({}, {"objective": 0.5, "beta": 0.5}):
        with pytest.raises(OptionError, match="once"):
            make_planner(mdp, **given)
