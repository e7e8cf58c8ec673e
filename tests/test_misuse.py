"""Wrong calls of the Python API: one error of this library each, before the work, that says what was expected."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from tailwise import (
    CompiledSimulator,
    CVaR,
    DistributionalMcts,
    ErmMcts,
    ExpectedUtility,
    GymnasiumSimulator,
    LearnedModelSearch,
    NluMcts,
    Returns,
    Simulator,
    TabularMDP,
    domains,
    erm,
    evaluate,
    frontier,
    load,
    load_episodes,
    load_search,
    make_planner,
    plan_many,
    register_planner,
    sampled_planning,
    save,
    sensitivity,
    solve,
    what_if,
)
from tailwise.bandits import Bandit, Ucb1, make_bandit, simulate
from tailwise.bindings import compiled as compiled_binding
from tailwise.errors import (
    ModelError,
    OptionError,
    RunError,
    SimulatorError,
    StateError,
    TailwiseError,
    UnknownNameError,
)
from tailwise.evaluation import compare, load_study, sampling_interval
from tailwise.exact import return_distribution
from tailwise.logs import PooledPrior
from tailwise.models import tabulate
from tailwise.models.contract import holds_nan
from tailwise.models.tabulate import tabulate_hidden
from tailwise.planners import BoundedRtdp, HistoryMcts, bounded_rtdp, history_mcts
from tailwise.report import plots
from tailwise.reproduction import reproduce
from tailwise.risk import ReturnDistribution
from tailwise.search import Recommendation, anytime_search
from tailwise.search import driver as tree_driver
from tailwise.search.learned import driver as learned_driver
from tailwise.theory import fit_exponent

GRID = domains.make("grid-mdp")


class Coin(Simulator):
    horizon, discount, start = 3, 1.0, 0

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        return state, float(rng.random()), False


class Spoilt(Coin):
    """Answers that are nearly right: what of them is replaced."""

    def __init__(self, done=False, actions=2):
        self.done, self.listed = done, actions

    def actions(self, state):
        return self.listed

    def step(self, state, action, rng):
        return state, float(rng.random()), self.done


class HiddenSpoilt:
    horizon, discount, sense = 3, 1.0, "cost"

    def __init__(self, cost=1.0, done=None, seen=0):
        self.cost, self.done, self.seen = cost, done, seen

    def actions(self):
        return 2

    def sample_start(self, rng):
        return 0

    def step(self, state, action, rng):
        return state, self.cost, self.done

    def observe(self, state, action, next_state, rng):
        return self.seen


@pytest.fixture(scope="module")
def plan():
    return solve(GRID, 0.1).plan()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: make_planner(GRID, 0.1, kind=None), UnknownNameError, "named by a text"),
        (lambda: make_planner(GRID, 0.1, kind=3), UnknownNameError, "named by a text"),
        (lambda: domains.make(["mdp-4"]), UnknownNameError, "no domain is called"),
        (lambda: solve(GRID, ExpectedUtility(lambda total: 1 / 0)), OptionError, "raised ZeroDivisionError"),
        (lambda: solve(GRID, ExpectedUtility(lambda a, b: a)), OptionError, "raised TypeError"),
        (lambda: make_planner(Coin(), 0.1).plan(until=3), OptionError, "until must be a function of"),
        (lambda: make_planner(Coin(), 0.1).plan(until=lambda: True), OptionError, "until must be a function of"),
        (lambda: make_planner(domains.make("tiger"), 0.1).plan(until=3), OptionError, "until must be a function of"),
        (lambda: make_planner(Coin(), 0.1).plan(iterations=9, checkpoint=3), OptionError, "a text or a Path"),
        (lambda: plan_many(GRID, 0.1, 3), OptionError, "states must be a list"),
        (lambda: plan_many(GRID, 0.1, None), OptionError, "states must be a list"),
        (lambda: evaluate(GRID, lambda state: 0, episodes=3), OptionError, r"a function of \(state, step\)"),
        (lambda: evaluate(GRID, solve(GRID, 0.1), episodes=10**30), OptionError, "episodes must be from 1 to"),
        (lambda: Returns("many"), OptionError, "must be numbers"),
        (lambda: what_if(GRID, 0.1, None), OptionError, "scenarios must be a list"),
        (lambda: what_if(GRID, 0.1, "cost[0]*=2"), OptionError, "scenarios must be a list"),
        (lambda: what_if(GRID, 0.1, {"dear": 3}), OptionError, "scenario dear must be a list"),
        (lambda: what_if(GRID, 0.1, [3]), OptionError, "scenario 3 must be a list"),
        (lambda: sensitivity(GRID, 0.1, None), OptionError, "numbers must be a list"),
        (lambda: sensitivity(GRID, 0.1, "cost[0]"), OptionError, "numbers must be a list"),
        (lambda: save(GRID, 3), TailwiseError, "a text or a Path"),
        (lambda: load_search(None, GRID), OptionError, "a text or a Path"),
        (lambda: solve(GRID, CVaR(0.9)).act(GRID.start, 0, accrued=math.nan), OptionError, "accrued must be"),
        (lambda: solve(GRID, CVaR(0.9)).act(GRID.start, 0, accrued="x"), OptionError, "accrued must be"),
        (lambda: solve(GRID, 0.1).act(GRID.start, 0, accrued="x"), OptionError, "accrued must be"),
        (lambda: solve(domains.make("tiger"), 0.1).act(accrued=math.inf), OptionError, "accrued must be"),
        (lambda: solve(GRID, CVaR(0.9)).plan().act(GRID.start, 2, accrued=-math.inf), OptionError, "accrued must be"),
        (lambda: make_planner(GRID, 0.1, kind=np.ones(2)), UnknownNameError, "named by a text"),
        (lambda: solve(GRID, 0.1).act(GRID.start, True), StateError, "step True is outside"),
        (lambda: solve(GRID, 0.1).optimal_actions(0, 0, tolerance="x"), OptionError, "tolerance must be"),
        (lambda: sampled_planning(None, 0.1), ModelError, "cannot be planned on"),
        (lambda: load("mdp-4", kind=3), UnknownNameError, "kind=3"),
        (lambda: load("mdp-4", discount=np.ones(2)), OptionError, "discount must be"),
        (lambda: frontier(GRID, kind=np.ones(2)), UnknownNameError, "named by a text"),
        (
            lambda: load_episodes({"state": ["a"], "action": ["b"], "cost": [1]}, state=3),
            OptionError,
            "list of columns",
        ),
        (lambda: Returns([1.0, 2.0]).summary(0.1, measures=None), OptionError, "measures must be a list"),
        (lambda: compare(Returns([1.0]), [1.0], 0.1), OptionError, "second must be Returns"),
        (lambda: sampling_interval([1.0], 0.1, episodes=3), OptionError, "must be of totals"),
        (lambda: ReturnDistribution([1.0], [1.0]), OptionError, "costs must be an array"),
        (lambda: GRID.step(None, 0, None), StateError, "state None is not in the table"),
        (lambda: GRID.outcomes(0, []), StateError, r"action \[\] is not allowed"),
        (lambda: ErmMcts(GRID, []), OptionError, "beta must be"),
        (lambda: ErmMcts(GRID, 0.1).act(np.ones(2), 0), StateError, "not hashable"),
        (lambda: ErmMcts(GRID, 0.1).advance(np.ones(2), 0), StateError, "not allowed"),
        (lambda: return_distribution(None, None), ModelError, "needs a TabularMDP"),
        (lambda: register_planner(ErmMcts), OptionError, "a kind of planner is a PlannerKind"),
        (lambda: domains.register(None, "table"), OptionError, "two texts"),
        (lambda: Bandit(None), OptionError, "arms must be a list"),
        (
            lambda: simulate(make_bandit("gamble"), Ucb1(1.0), pulls=9, checkpoints=3),
            OptionError,
            "checkpoints must be",
        ),
        (lambda: load_study(None), OptionError, "a text or a Path"),
        (lambda: load_study("nowhere.toml"), OptionError, "there is no file"),
        (lambda: solve(GRID, 0.1).distribution("jump"), StateError, "no action's id or label"),
    ],
)
def test_a_wrong_call_is_one_error(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda plan, folder: plan.row(np.ones(2)), StateError, "there are up, down, left, right"),
        (lambda plan, folder: plan.row("jump"), StateError, "there are up, down, left, right"),
        (lambda plan, folder: plan.to_csv(3), OptionError, "a text or a Path"),
        (lambda plan, folder: plan.to_excel(folder / "plan.csv"), OptionError, r"use to_csv\(\)"),
        (lambda plan, folder: plan.to_excel(folder / "weeks"), OptionError, "would hold .xlsx: name it so$"),
        (lambda plan, folder: plan.save(None), OptionError, "a text or a Path"),
        (lambda plan, folder: plan.report(None), OptionError, "a text or a Path"),
        (lambda plan, folder: plan.report(folder), RunError, "a folder that exists"),
        (lambda plan, folder: plan.report(folder / "none" / "plan.html"), RunError, "a folder that exists"),
    ],
)
def test_a_wrong_call_of_a_plan_is_one_error(plan, tmp_path, monkeypatch, call, error, message):
    monkeypatch.setattr("tailwise.search.plan.report_layer", lambda name: pytest.fail("the work has begun"))
    with pytest.raises(error, match=message):
        call(plan, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["learned", "tree", "erm-mcts", "uct", "acc-mcts", "distributional"])
@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (Spoilt(done=None), "done is None; expected a bool"),
        (Spoilt(done=""), "done is ''; expected a bool"),
        (Spoilt(done=0.5), "done is 0.5; expected a bool"),
        (Spoilt(actions=("a", "b", "a")), "action 'a' is listed twice"),
        (Spoilt(actions=np.array([2, 2])), "action 2 is listed twice"),
    ],
    ids=str,
)
def test_an_answer_of_a_simulator_that_is_nearly_right_is_refused(spoilt, message, kind):
    with pytest.raises(TailwiseError, match=message):
        make_planner(spoilt, 0.1, kind=kind, seed=0).plan(iterations=50)


@pytest.mark.parametrize("kind", ["histories", "learned-beliefs"])
def test_where_the_state_is_hidden_too(kind):
    with pytest.raises(TailwiseError, match="done is None; expected a bool"):
        make_planner(HiddenSpoilt(), 0.1, kind=kind, seed=0).plan(iterations=50)


def test_an_environment_that_is_nearly_one_is_refused():
    gymnasium = pytest.importorskip("gymnasium")

    class Endless(gymnasium.Env):
        action_space = observation_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return 0, 1.0, None, False, {}

    with pytest.raises(ModelError, match=r"make it: Endless\(\)"):
        GymnasiumSimulator(Endless, horizon=5)
    with pytest.raises(ModelError, match="size: options of"):
        GymnasiumSimulator(Endless(), horizon=5, size=3)
    with pytest.raises(ModelError, match="terminated=None"):
        GymnasiumSimulator(Endless(), horizon=5)


@pytest.mark.parametrize("done", [False, np.False_, 0, np.int64(0), np.array(False)], ids=repr)
def test_what_stands_for_a_bool_is_one(done):
    assert ErmMcts(Spoilt(done=done), 0.1, seed=0).plan(iterations=50).iterations == 50


@pytest.mark.parametrize(
    "spoilt", [np.ma.masked_array([1.0, 2.0], mask=[0, 1]), np.array([1j, 2.0]), np.array([1, 2], dtype="M8[s]")]
)
def test_numbers_that_are_hidden_or_none_are_refused(spoilt):
    """A mask hides what is wrong or missing: what lies under it is not to be counted."""
    stay = np.eye(2)[:, None, :]
    for use in (
        lambda: erm(spoilt, 0.1),
        lambda: erm([1.0, 2.0], 0.1, weights=spoilt),
        lambda: Returns(spoilt),
        lambda: TabularMDP.from_arrays(stay, spoilt, order="SAS", horizon=2),
        lambda: TabularMDP.from_outcomes([0, 1], [0, 0], [0, 1], spoilt, [1.0, 1.0], num_states=2, horizon=2),
        lambda: fit_exponent([1.0, 2.0], np.ma.masked_array([spoilt, spoilt]) if np.ma.isMA(spoilt) else [spoilt] * 2),
    ):
        with pytest.raises(TailwiseError, match=r"masked array that hides|of type|real number"):
            use()
    with pytest.raises(OptionError, match="sizes must be numbers"):
        fit_exponent(["a", "b"], [[1.0, 2.0]] * 2)
    assert erm(np.ma.masked_array([1.0, 2.0]), 0.0) == 1.5


@dataclass(frozen=True)
class Place:
    where: float
    note: float = field(default=math.nan, compare=False)


class Spot:
    def __init__(self, where):
        self.where = where

    def __eq__(self, other):
        return self.where == other.where

    def __hash__(self):
        return 1


@pytest.mark.parametrize(
    "state",
    [math.nan, np.float32("nan"), (0, math.nan), frozenset([math.nan]), Place(math.nan), Spot(math.nan)],
    ids=lambda state: type(state).__name__,
)
def test_a_state_that_does_not_equal_itself_is_named(state):
    class Lost(Coin):
        def step(self, _, action, rng):
            return state, 1.0, False

    for kind in ("erm-mcts", "learned"):
        with pytest.raises(TailwiseError, match="NaN, which equals not even itself"):
            make_planner(Lost(), 0.1, kind=kind, seed=0).plan(iterations=50)
    with pytest.raises(TailwiseError, match="NaN, which equals not even itself"):
        evaluate(Lost(), lambda state, step: 0, episodes=1)


@dataclass(frozen=True, eq=False)
class Numbered:
    """Compares its number alone."""

    number: int
    note: float = math.nan

    def __eq__(self, other):
        return self.number == other.number

    def __hash__(self):
        return self.number


def test_nan_that_does_not_count_where_states_are_compared_is_none_of_their_business():
    assert not holds_nan(Numbered(1))
    assert not holds_nan(Place(1.0)) and not holds_nan((Place(2.0), Spot(3.0), "nan", 1))  # noqa: PT018


def test_a_state_may_be_an_array_of_no_dimensions_as_gymnasium_gives_them():
    place, search = np.array(1), ErmMcts(GRID, 0.1, seed=0)
    assert solve(GRID, 0.1).act(place, 1) == solve(GRID, 0.1).act(1, 1)
    assert np.array_equal(GRID.actions(place), GRID.actions(1))
    search.reset(place, 1)
    assert search.state == 1
    with pytest.raises(StateError, match="not in the table"):
        GRID.actions(np.array([1]))


def test_more_nodes_than_any_memory_holds_are_no_bound():
    assert ErmMcts(Coin(), 0.1, seed=0, max_nodes=10**30).plan(iterations=10).iterations == 10


def test_decisions_that_would_fill_the_memory_are_not_kept(monkeypatch):
    monkeypatch.setattr("tailwise.evaluation.episodes._MOST_DECISIONS", 10)
    player = make_planner(GRID, 0.1, kind="uct", seed=0)
    kept = evaluate(GRID, player, episodes=2, iterations=2, seed=0)
    assert kept.decisions is None
    monkeypatch.undo()
    other = evaluate(GRID, player, episodes=2, iterations=2, seed=0)
    assert other.decisions is not None
    np.testing.assert_array_equal(kept.costs, other.costs)


def test_what_is_quoted_is_told_without_where_it_lies_in_memory():
    for wrong in (lambda state, step: 0, Coin().step, object()):
        with pytest.raises(OptionError, match=r"option prior_policy=<.*>: name") as raised:
            make_planner(GRID, 0.1, kind="exact", prior_policy=wrong)
        assert " at 0x" not in str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda: solve(GRID, ExpectedUtility(lambda total: "a")),
            "the utility of a total of .* must return a number, not 'a'",
        ),
        (lambda: solve(GRID, ExpectedUtility(lambda total: None)), "the utility of a total of .* a number, not None"),
        (lambda: solve(GRID, ExpectedUtility(lambda total: 1 / 0)), "the utility of a total of .* raised ZeroDivision"),
        (lambda: GRID.step(0, 0, None), "rng must be a NumPy Generator"),
        (lambda: Returns([1.0, 2.0], "costs"), "sense must be one of 'cost', 'reward'"),
        (
            lambda: plots.policy(make_planner(GRID, 0.1).plan()),
            "draws a Policy, as .* returns it, not a Plan",
        ),
        (lambda: plots.frontier(solve(GRID, 0.1)), "draws a Frontier, as tailwise.frontier returns it"),
        (lambda: plots.tornado([]), "draws a Sensitivity, as tailwise.sensitivity returns it, not a list"),
        (
            lambda: LearnedModelSearch(Coin(), 0.1, features=lambda state: "x", seed=0).plan(iterations=20),
            r"features\(0\) must return numbers",
        ),
    ],
)
def test_the_wrong_thing_in_the_right_place_is_told_as_what_it_is(wrong, message):
    with pytest.raises(OptionError, match=message):
        wrong()


def test_a_utility_may_return_an_array_of_one_number():
    plain, array = (ExpectedUtility(one) for one in (lambda total: total, lambda total: np.array([total])))
    assert solve(GRID, array).value == solve(GRID, plain).value


def test_what_features_raise_themselves_is_not_taken_for_what_they_return():
    with pytest.raises(OptionError, match=r"features\(0\) raised TypeError: object of type 'int' has no len") as raised:
        LearnedModelSearch(Coin(), 0.1, features=lambda state: len(state), seed=0).plan(iterations=20)
    assert isinstance(raised.value.__cause__, TypeError)


class Lazy(Coin):
    """Answers of the wrong kind after the first step."""

    def step(self, state, action, rng):
        return (state + 1, float(rng.random()), False) if state == 0 else (state, "much", False)


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("search", "message"),
    [
        (lambda: ErmMcts(GRID, 0.1, prior_policy=lambda state, h: [1.0]), r"prior_policy\(12\).* returned \[1.0\]"),
        (lambda: LearnedModelSearch(Coin(), 0.1, prior_policy=lambda state, h: [-1.0, 2.0]), "none negative"),
        (lambda: LearnedModelSearch(Coin(), 0.1, leaf_value=lambda state, h: math.nan), "its value is nan"),
        (lambda: ErmMcts(Coin(), 0.1, rollout_policy=lambda state, h, rng: 7), "it chose 7, which is not allowed"),
        (lambda: LearnedModelSearch(Coin(), 0.1, bounds=lambda state, h: 3), r"bounds\(0\).* expected \(low, high\)"),
        (lambda: LearnedModelSearch(Coin(), 0.1, rare_outcomes=lambda state, action: 3), "rare_outcomes returned 3"),
        (lambda: LearnedModelSearch(Lazy(), 0.1), r"step\(1, .\) of Lazy at step 1"),
        (lambda: NluMcts(GRID, lambda total: "x"), "the utility of the total .* raised ValueError"),
        (lambda: NluMcts(GRID, lambda total: math.nan), "the utility of the total .* is nan; it must be finite"),
        (lambda: DistributionalMcts(GRID, lambda total: "x"), "the utility of the total .* failed with ValueError"),
        (
            lambda: DistributionalMcts(Coin(), lambda total: math.nan),
            "the utility of the total .* is nan",
        ),
        (lambda: BoundedRtdp(GRID, 0.1, bounds=lambda state, h: 3), "is 3; expected a pair"),
        (lambda: HistoryMcts(HiddenSpoilt("much", False), 0.1), r"step\(0, 0\) of HiddenSpoilt.*: the cost is 'much'"),
        (lambda: HistoryMcts(HiddenSpoilt(1.0, False, []), 0.1), "the observation .* is not hashable"),
        (lambda: NluMcts(Coin(), lambda total: None), "the utility of the total .* raised TypeError"),
        (
            lambda: ErmMcts(Coin(), 0.1, recommend=Last()),
            r"chose -1; expected the position of a tried action: \[0, 1\]",
        ),
    ],
)
def test_wrong_answers_of_functions_are_told_before_kernels_are_compiled(monkeypatch, search, message):
    forget_compiled(monkeypatch)
    for module in (anytime_search, bounded_rtdp):
        monkeypatch.setattr(module, "compile_notice", lambda: pytest.fail("kernels are compiled first"))
    monkeypatch.setattr(history_mcts, "kernel_for", lambda *kinds: pytest.fail("kernels are compiled first"))
    with pytest.raises(TailwiseError, match=message):
        search().plan(iterations=10)


class Last(Recommendation):
    def choose(self, visits, values):
        return -1


def forget_compiled(monkeypatch):
    monkeypatch.setattr(tree_driver, "_compiled_kinds", set())
    monkeypatch.setattr(learned_driver, "_compiled_kinds", set())
    monkeypatch.setattr(bounded_rtdp, "_is_compiled", False)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "search",
    [
        lambda: ErmMcts(Coin(), 0.5, rollout_policy=lambda state, h, rng: int(rng.integers(2)), seed=3),
        lambda: LearnedModelSearch(Lines(), 0.5, leaf_value=lambda state, h: 0.5 * (3 - h), seed=3),
        lambda: ErmMcts(CompiledSimulator(compiled_line, start=0, horizon=4, actions=2), 0.5, seed=3),
        lambda: NluMcts(GRID, lambda total: total * abs(total), seed=3),
    ],
)
def test_what_is_tried_before_kernels_are_compiled_leaves_the_search_as_it_was(monkeypatch, search):
    search().plan(iterations=1)
    plans = [search().plan(iterations=60)]  # nothing is tried where kernels are there
    forget_compiled(monkeypatch)
    plans.append(search().plan(iterations=60))
    one, two = ((plan.value, [(row.visits, row.erm) for row in plan.rows], plan.simulator_steps) for plan in plans)
    assert one == two


class Door(HiddenSpoilt):
    """The first action ends the episode, with no state that follows; other costs are listed by time."""

    costs = 1.0, 2.0, 3.0

    def sample_start(self, rng):
        return int(rng.integers(2)), 0

    def step(self, state, action, rng):
        k, h = state
        return (None, 5.0 * k, True) if action == 0 else ((k, h + 1), self.costs[h], False)

    def observe(self, state, action, next_state, rng):
        return int(rng.random() < 0.8) ^ next_state[0]


@pytest.mark.compiled
def test_functions_are_tried_only_where_searches_ask_them(monkeypatch):
    options = (
        {"leaf_value": lambda state, h: 8.0 / h},  # not at the root
        {"bounds": lambda state, h: (-9.0 / h, 9.0 / h)},
        {"rollout_policy": lambda state, h, rng: 6 // h % 2},
    )
    for kind in (ErmMcts, LearnedModelSearch):
        for given in options:
            forget_compiled(monkeypatch)
            assert kind(Lines(), 0.1, **given, seed=0).plan(iterations=20).rows
    for steps in range(3):  # from the last one, too
        search = HistoryMcts(Door(), 0.1, seed=0)
        for _ in range(steps):
            search.advance(1, 1)
        assert search.plan(iterations=50).rows


@pytest.mark.compiled
def test_a_utility_is_tried_outside_of_the_count_only_before_kernels_are_compiled():
    class Counted(Lines):
        steps = 0

        def step(self, state, action, rng):
            self.steps += 1
            return super().step(state, action, rng)

    model = Counted()
    search = DistributionalMcts(model, lambda total: total, seed=0)
    search.plan(iterations=8)
    search.reset()
    before = model.steps
    plan = search.plan(iterations=8)
    assert model.steps - before == plan.simulator_steps


class Lines(Coin):
    def step(self, state, action, rng):
        return state + int(rng.integers(3)), float(rng.random() + action), False


def compiled_line(state, action, rng):
    return state + rng.integers(0, 3), rng.random() + action, False


@pytest.mark.parametrize("wrong", ["x", -1, math.nan, True, 1e30, [1]])
def test_options_that_a_table_has_no_use_for_are_looked_at_all_the_same(wrong):
    tiger = tabulate_hidden(domains.make("tiger"))
    for name, asked in (
        ("max_states", lambda: tabulate(GRID, max_states=wrong)),
        ("max_states", lambda: tabulate_hidden(tiger, max_states=wrong)),
        ("tolerance", lambda: frontier(GRID, [0.1], tolerance=wrong if wrong != 1e30 else -wrong)),
        ("seed", lambda: frontier(GRID, [0.1], seed=wrong if wrong not in (True, [1]) else "x")),
        ("threads", lambda: frontier(GRID, [0.1], threads=wrong)),
    ):
        with pytest.raises(OptionError, match=name):
            asked()
    with pytest.raises(OptionError, match="progress must be"):
        tabulate(GRID, progress="x")


def test_a_module_that_ends_the_program_is_told_as_one_that_fails(tmp_path, monkeypatch):
    (tmp_path / "leaving.py").write_text("raise SystemExit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ModelError, match="python:leaving:Shop cannot be made: ImportError: module leaving ends the program"
    ):
        load("python:leaving:Shop")
    with pytest.raises(
        UnknownNameError, match="planner 'leaving:Planner' cannot be loaded: ImportError: module leaving ends"
    ):
        make_planner(GRID, 0.1, kind="leaving:Planner")


@pytest.mark.parametrize("wrong", ["no", "x", 1, 0, None, [True]])
def test_what_is_neither_true_nor_false_is_not_taken_for_one_of_them(wrong):
    columns = [0, 0], [0, 0], [0, 0], [0.5, 0.5], [1.0, 2.0]
    policy = solve(GRID, 0.1)
    for name, asked in (
        ("reuse", lambda: evaluate(GRID, policy, episodes=2, reuse=wrong)),
        ("partial", lambda: evaluate(GRID, policy, episodes=2, partial=wrong)),
        ("distributions", lambda: policy.plan(distributions=wrong)),
        ("validate", lambda: TabularMDP.from_outcomes(*columns, horizon=2, validate=wrong)),
        ("fallback", lambda: CompiledSimulator(compiled_line, start=0, horizon=2, actions=2, fallback=wrong)),
        ("option cost_seen of domain 'tiger'", lambda: domains.make("tiger", cost_seen=wrong)),
        ("untried", lambda: PooledPrior(untried=wrong)),
        ("resume", lambda: reproduce("nowhere", resume=wrong)),
    ):
        with pytest.raises(OptionError, match=f"{name} must be True or False"):
            asked()
    assert evaluate(GRID, policy, episodes=2, seed=0, reuse=np.True_).episodes == 2


def failing(*given):
    return 1 / (given[0] - given[0])


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["learned", "erm-mcts"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"leaf_value": failing}, r"leaf_value\(\d\) of line at step 1 raised ZeroDivisionError"),
        ({"leaf_value": lambda state, h: math.nan}, "its value is nan; it must be a finite number"),
        ({"leaf_value": lambda state, h: "x"}, "its value is 'x' of type str; it must be a number"),
        ({"rollout_policy": failing}, "rollout_policy.*raised ZeroDivisionError"),
        ({"rollout_policy": lambda state, h, rng: 9}, "it chose 9, which is not allowed; allowed: 2 actions"),
        ({"prior_policy": failing}, r"prior_policy\(0\) of line at step 0 raised ZeroDivisionError"),
        ({}, r"step\(0, 0\) of line at step 0 raised ZeroDivisionError"),
    ],
)
def test_functions_that_are_to_be_compiled_are_tried_before(monkeypatch, kind, options, said):
    monkeypatch.setattr(compiled_binding, "compile_adapters", None)  # so that compiling is another error
    model = CompiledSimulator(compiled_line if options else failing, start=0, horizon=3, actions=2, name="line")
    with pytest.raises(SimulatorError, match=said):
        make_planner(model, 0.1, kind=kind, seed=0, **options)
    if options:
        with pytest.raises(TypeError, match="NoneType"):
            make_planner(model, 0.1, kind=kind, seed=0)


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (lambda state: [state] * (1 + state % 2), "must return 1 finite numbers, as for the first state, not"),
        (lambda state: [math.inf if state else 0.0], "must return 1 finite numbers"),
        (failing, r"features\(0\) raised ZeroDivisionError"),
    ],
)
def test_features_that_differ_in_number_are_no_features(features, said):
    class Far(Lines):
        def step(self, state, action, rng):
            return state + int(rng.integers(10**12)), float(rng.random() + action), False

    with pytest.raises(OptionError, match=said):
        make_planner(Far(), 0.1, kind="learned", seed=0, features=features).plan(iterations=400)


@pytest.mark.parametrize("kind", [ErmMcts, LearnedModelSearch, type(solve(GRID, 0.1))])
def test_a_class_is_no_planner_no_policy_and_no_model(kind):
    with pytest.raises(ModelError, match=f"{kind.__name__} is a class, and no planner or policy yet"):
        evaluate(GRID, kind, episodes=2)
    for asked in (solve, make_planner):
        with pytest.raises(ModelError, match="it is a class, not an object; pass an instance"):
            asked(TabularMDP, 0.1)
