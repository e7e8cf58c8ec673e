"""Python simulators on the search kernel: equal trees, and every way a simulator can fail."""

import contextlib
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from numba import config

from tailwise import (
    CompiledSimulator,
    ErmMcts,
    LearnedModelSearch,
    Simulator,
    TabularMDP,
    Widening,
    backward_induction,
    check_simulator,
    domains,
    evaluate,
)
from tailwise.errors import ModelError, OptionError, SimulatorError, StateError
from tailwise.search import StopReason


class AsSimulator(Simulator):
    """A table seen through the simulator contract: nothing but ``actions`` and ``step``."""

    def __init__(self, table):
        self.table, self.horizon, self.discount = table, table.horizon, table.discount
        self.sense, self.start = table.sense, table.start

    def actions(self, state):
        return self.table.actions(state)

    def step(self, state, action, rng):
        return self.table.step(state, action, rng)

    def terminal_cost(self, state):
        return self.table.terminal_cost(state)


class Line(Simulator):
    """Steps of random cost; ``bad`` replaces the outcome of action 1 at (3,)."""

    start, horizon, bad = (0,), 6, None

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        cost = rng.random()
        if self.bad is not None and state[0] == 3 and action == 1:
            return self.bad(state)
        return (state[0] + 1,), cost, False


def numbers(plan):
    return [(row.visits, row.erm, row.mean, row.minimum, row.maximum) for row in plan.rows]


def terminal_table(sense):
    values = {f"{sense}s": np.array([[1.0, 2.0], [0.5, 0.1]]), f"terminal_{sense}s": np.array([3.0, -1.0])}
    chances = np.array([[[0.3, 0.7], [0.6, 0.4]], [[0.5, 0.5], [0.9, 0.1]]])
    return TabularMDP.from_arrays(chances, order="SAS", horizon=4, discount=0.8, **values)


@pytest.mark.parametrize("expansion", ["leaf", "path"])
@pytest.mark.parametrize("name", ["mdp-4", "grid-mdp", "cost", "reward"])
def test_a_table_and_its_simulator_grow_the_same_tree(name, expansion):
    table = terminal_table(name) if name in ("cost", "reward") else domains.make(name)
    plans = [
        ErmMcts(model, 0.3, seed=5, expansion=expansion).plan(iterations=1500) for model in (table, AsSimulator(table))
    ]
    assert numbers(plans[0]) == numbers(plans[1])
    assert plans[0].nodes == plans[1].nodes
    assert plans[0].simulator_steps == plans[1].simulator_steps
    assert plans[0].value == plans[1].value


def test_advance_keeps_the_subtree_and_takes_states_never_sampled():
    table = domains.make("mdp-4")
    searches = [ErmMcts(model, 0.3, seed=5) for model in (table, AsSimulator(table))]
    for search in searches:
        search.plan(iterations=800)
        search.advance(1, 1)
        search.plan(iterations=100)
        search.advance(0, 3)  # s3 cannot be reached from s1: a fresh tree at step 2
    plans = [search.plan(iterations=500) for search in searches]
    assert numbers(plans[0]) == numbers(plans[1])
    assert plans[0].nodes == plans[1].nodes
    assert [plan.step for plan in plans] == [2, 2]
    assert plans[1].root_beta == pytest.approx(0.3 * 0.9**2)


def test_more_iterations_continue_the_same_stream():
    one, two = ErmMcts(Line(), 1.0, seed=3), ErmMcts(Line(), 1.0, seed=3)
    whole = one.plan(iterations=700)
    for _ in range(7):
        parts = two.plan(iterations=100)
    assert numbers(whole) == numbers(parts)


BAD = {
    "exception": (lambda state: 1 // 0, r"step\(\(3,\), 1\) of Line at step 3 raised ZeroDivisionError"),
    "nan": (lambda state: (state, float("nan"), False), r"at step 3: the cost is nan; it must be a finite"),
    "inf": (lambda state: (state, float("inf"), False), r"at step 3: the cost is inf"),
    "huge": (lambda state: (state, 10**400, False), r"the cost is 10+\.\.\.; it must be a finite"),
    "text": (lambda state: (state, "1", False), r"the cost is '1' of type str; it must be a number"),
    "none": (lambda state: None, r"it returned None; expected \(next_state, cost, done\)"),
    "pair": (lambda state: (state, 1.0), r"it returned \(\(3,\), 1.0\); expected"),
    "done": (lambda state: (state, 1.0, "False"), r"done is 'False'; expected a bool"),
    "no done": (lambda state: (state, 1.0, None), r"at step 3: done is None; expected a bool"),
    "done float": (lambda state: (state, 1.0, 0.0), r"done is 0.0; expected a bool"),
    "done two": (lambda state: (state, 1.0, 2), r"done is 2; expected a bool"),
}
BAD_IN_TREE = {
    "list": (
        lambda state: ([4], 1.0, False),
        r"the next state \[4\] of type list is not hashable; use a tuple",
    ),
    "array": (lambda state: (np.ones(1), 1.0, False), r"is an array, which is not hashable"),
    "identity": (lambda state: (object(), 1.0, False), r"compared by identity"),
}


@pytest.mark.parametrize("expansion", ["leaf", "path"])
@pytest.mark.parametrize("kind", [*BAD, *BAD_IN_TREE])
def test_a_failing_step_is_named_and_the_search_goes_on(kind, expansion):
    if expansion == "leaf" and kind in BAD_IN_TREE:
        pytest.skip("seen only when the state enters the tree")
    model = Line()
    model.bad, pattern = {**BAD, **BAD_IN_TREE}[kind]
    search = ErmMcts(model, 0.5, seed=0, expansion=expansion)
    with pytest.raises(SimulatorError, match=pattern):
        search.plan(iterations=3000)
    model.bad = None
    before = sum(row.visits for row in search.plan(iterations=1).rows)
    plan = search.plan(iterations=200)
    assert sum(row.visits for row in plan.rows) == before + 200
    assert np.isfinite([row.erm for row in plan.rows]).all()


def test_the_users_exception_is_the_cause():
    model = Line()
    model.bad = BAD["exception"][0]
    with pytest.raises(SimulatorError) as caught:
        ErmMcts(model, 0.5, seed=0).plan(iterations=3000)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


class Box:
    """Hashable by content, and mutable: the trap."""

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return self.value == other.value


def test_a_state_changed_in_place_is_noticed():
    class Mutating(Line):
        start = Box(0)

        def step(self, state, action, rng):
            state.value += 1
            return state, 1.0, False

    with pytest.raises(SimulatorError, match="changed the state in place"):
        ErmMcts(Mutating(), 0.5, seed=0).plan(iterations=10)


@pytest.mark.parametrize(
    ("answer", "pattern"),
    [
        (0, "no action is allowed"),
        ([], "no action is allowed"),
        ("ab", "expected a number of actions or a sequence"),
        (None, "expected a number of actions or a sequence"),
        (10**12, "the search takes at most 1000000: choose some"),
    ],
)
def test_bad_action_sets_are_named(answer, pattern):
    class Stuck(Line):
        def actions(self, state):
            return 2 if state[0] < 2 else answer

    with pytest.raises(SimulatorError, match=r"actions\(\(2,\)\) of Stuck.*" + pattern):
        ErmMcts(Stuck(), 0.5, seed=0).plan(iterations=100)
    with pytest.raises(SimulatorError, match=pattern):
        ErmMcts(Stuck(), 0.5, seed=0).reset((2,), step=2)


def test_actions_may_be_arrays():
    class Pairs(Line):
        def actions(self, state):
            return [np.array([0, 1]), np.array([1, 0])]

        def step(self, state, action, rng):
            return (state[0] + 1,), float(action[0]), False

    search = ErmMcts(Pairs(), 0.5, seed=0)
    plan = search.plan(iterations=50)
    assert plan.action.tolist() == [0, 1]
    search.advance(plan.action, (1,))
    assert search.plan(iterations=1).rows[0].visits > 1


def test_none_is_a_state_like_any_other():
    class Vanishing(Line):
        def step(self, state, action, rng):
            return (None, 1.0, False) if state is None or action else (state, 2.0, False)

        def actions(self, state):
            return 2

    assert ErmMcts(Vanishing(), 0.5, seed=0).plan(iterations=50).action == 1
    assert check_simulator(Vanishing()).ok


def test_names_and_hashes_that_fail_are_errors_of_ours():
    class Nameless(Line):
        def action_name(self, action):
            raise KeyError(action)

    with pytest.raises(SimulatorError, match=r"action_name\(0\) of Nameless raised KeyError"):
        ErmMcts(Nameless(), 0.5, seed=0).plan(iterations=10)

    class Hashless:
        def __hash__(self):
            raise RuntimeError

    model = Line()
    model.bad = lambda state: (Hashless(), 1.0, False)
    with pytest.raises(SimulatorError, match="has a __hash__ that raises RuntimeError"):
        ErmMcts(model, 0.5, seed=0, expansion="path").plan(iterations=3000)


class EndlessStep(Line):
    patience, stuck = 0.2, True

    def step(self, state, action, rng):
        while self.stuck and state == (2,):
            with contextlib.suppress(Exception):  # what users write; it must not swallow the watch
                rng.random()
        return super().step(state, action, rng)


class EndlessRollout(EndlessStep):
    def rollout(self, state, h, rng):
        while self.stuck:
            rng.random()
        return 1.0


class LongRollout(Line):
    patience, stuck, horizon = 0.2, True, 10_000_000


@pytest.mark.parametrize(
    ("model", "pattern"),
    [
        (EndlessStep(), r"step\(\(2,\), [01]\) of EndlessStep at step 2 has not returned after 0.2 s"),
        (EndlessRollout(), r"rollout\(\(1,\)\) of EndlessRollout at step 1 has not returned after 0.2 s"),
        (LongRollout(), r"of LongRollout at step \d+ has not returned after 0.2 s.*shorten the horizon"),
    ],
    ids=["step", "rollout", "horizon"],
)
def test_calls_without_end_become_errors(model, pattern):
    if sys.gettrace() is not None:
        pytest.skip("traced code counts as debugged, and is let alone")
    search = ErmMcts(model, 0.5, seed=0)
    with pytest.raises(SimulatorError, match=pattern):
        search.plan(iterations=5)
    model.stuck = False
    if model.horizon == 6:
        assert search.plan(iterations=20).iterations == 20


def test_a_step_that_is_being_debugged_is_let_alone():
    class Debugged(Line):
        patience = 0.1

        def step(self, state, action, rng):
            if not self.seen:
                self.seen.append(state)
                sys._getframe().f_trace = lambda *arguments: None  # what a debugger leaves in the frames it stops in
                time.sleep(0.4)
                time.sleep(0.0)
            return super().step(state, action, rng)

    model = Debugged()
    model.seen = []
    assert ErmMcts(model, 0.5, seed=0).plan(iterations=5).iterations == 5


def test_patience_is_for_one_call_not_for_the_search():
    class Patient(Line):
        patience = 0.3

        def step(self, state, action, rng):
            time.sleep(0.002)
            return super().step(state, action, rng)

    assert ErmMcts(Patient(), 0.5, seed=0).plan(iterations=60).iterations == 60


def test_everything_wrong_with_the_contract_is_said_at_once():
    class Wrong:
        horizon, sense = 0, "profit"

        def step(self, state):
            return state, 0.0, True

    with pytest.raises(ModelError) as caught:
        ErmMcts(Wrong(), 0.5)
    text = str(caught.value)
    for part in (
        "actions is missing; expected actions(self, state)",
        "step(state) does not fit; expected step(self, state, action, rng) -> (next_state, cost, done)",
        "horizon must be at least 1, not 0",
        "discount is missing",
        "sense must be 'cost' or 'reward', not 'profit'",
        "start is missing",
    ):
        assert part in text


def test_a_class_instead_of_an_object_and_other_things_are_refused():
    with pytest.raises(ModelError, match=r"pass an instance, as Line\(\)"):
        ErmMcts(Line, 0.5)
    with pytest.raises(ModelError, match="step is missing"):
        ErmMcts(3, 0.5)


def test_states_of_users_are_checked():
    search = ErmMcts(Line(), 0.5, seed=0)
    with pytest.raises(StateError, match="not hashable"):
        search.advance(0, [1])
    with pytest.raises(StateError, match="action 7 is not allowed"):
        search.advance(7, (1,))


def test_ctrl_c_inside_a_step_returns_what_is_known():
    class Slow(Line):
        def step(self, state, action, rng):
            time.sleep(0.002)
            return super().step(state, action, rng)

    search = ErmMcts(Slow(), 0.5, seed=0)
    search.plan(iterations=2)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    plan = search.plan(iterations=100_000)
    timer.join()
    assert plan.stopped == "interrupted"
    assert 0 < plan.iterations < 100_000
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert search.plan(iterations=3).iterations == 3


def test_rewards_are_negated_once():
    class Reward(Line):
        sense = "reward"

        def step(self, state, action, rng):
            return (state[0] + 1,), 1.0 + action, False

    plan = ErmMcts(Reward(), 0.5, seed=0).plan(iterations=2000)
    assert plan.action == 1
    assert plan.row(1).maximum == 12.0
    assert 6.0 <= plan.row(0).minimum <= plan.row(0).maximum <= 11.0


def test_a_rollout_of_the_model_replaces_the_uniform_one():
    class Known(Line):
        calls = 0

        def rollout(self, state, h, rng):
            Known.calls += 1
            return 100.0 * (6 - h), 6 - h

    plan = ErmMcts(Known(), 0.0, seed=0).plan(iterations=2)
    assert Known.calls == 2
    assert plan.rows[0].minimum > 500
    assert plan.simulator_steps == 2 * 6


def test_leaf_values_and_rollout_policies():
    table = domains.make("grid-mdp")
    solution = backward_induction(table, 0.1)
    exact = ErmMcts(table, 0.1, seed=0, leaf_value=lambda state, h: solution.values[h, state])
    plan = exact.plan(iterations=3000)
    assert plan.label == "right"
    once = ErmMcts(table, 0.1, seed=0, leaf_value=lambda state, h: solution.values[h, state])
    assert once.plan(iterations=1).value == pytest.approx(solution.q_values[0, table.start, 0])  # no luck in step 0
    guided = ErmMcts(table, 0.1, seed=0, rollout_policy=lambda state, h, rng: solution.act(state, h))
    uniform = ErmMcts(table, 0.1, seed=0).plan(iterations=2000)
    assert abs(guided.plan(iterations=2000).value - solution.value) < abs(uniform.value - solution.value)
    with pytest.raises(SimulatorError, match="it chose 9, which is not allowed"):
        ErmMcts(table, 0.1, seed=0, rollout_policy=lambda state, h, rng: 9).plan(iterations=1)
    with pytest.raises(SimulatorError, match=r"leaf_value\(.*\) of Line at step 1: its value is nan"):
        ErmMcts(Line(), 0.1, leaf_value=lambda state, h: float("nan")).plan(iterations=1)
    with pytest.raises(OptionError, match="not both"):
        ErmMcts(table, 0.1, leaf_value=lambda s, h: 0.0, rollout_policy=lambda s, h, rng: 0)


class Normal(Simulator):
    """Three steps; action a adds a normal draw of scale 1 + a: no state comes twice."""

    start, horizon = 0.0, 3

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        draw = rng.normal()
        return state + draw, 1.0 + (1 + action) * draw, False


def test_widening_makes_continuous_outcomes_a_tree():
    flat = ErmMcts(Normal(), 0.0, seed=0)
    deep = ErmMcts(Normal(), 0.0, seed=0, widening=Widening(k=1.0, alpha=0.4))
    plans = [search.plan(iterations=3000) for search in (flat, deep)]
    children = len(deep.root.actions[0].children)
    n = plans[1].rows[0].visits
    assert children <= np.ceil(n**0.4)
    assert children >= 0.8 * n**0.4
    assert len(flat.root.actions[0].children) == plans[0].rows[0].visits


class OneAction(Normal):
    def actions(self, state):
        return 1


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
def test_widened_trees_do_not_depend_on_when_memory_grows():
    # The compiled form runs out of room for states, the other one never does; the iteration is done again.
    def step(state, action, rng):
        return state + rng.normal() + 0.3 * action, abs(state), False

    compiled = CompiledSimulator(step, start=0.0, horizon=5, actions=2)
    plain = Normal()
    plain.start, plain.horizon, plain.discount = 0.0, 5, 1.0
    plain.actions, plain.step = (lambda state: 2), step
    options = {"seed": 0, "expansion": "path", "widening": Widening()}
    plans = [ErmMcts(model, 0.5, **options).plan(iterations=1500) for model in (compiled, plain)]
    assert numbers(plans[0]) == numbers(plans[1])
    assert plans[0].nodes == plans[1].nodes


def test_widening_approaches_the_truth():
    # The total is 3 + N(0, 3): its ERM at beta 0.5 is 3.75. The root keeps 4 n^0.6 = 1521 draws, so the relative
    # error of the mean of exp(total / 2) is about sqrt((e^0.75 - 1) / 1521) = 0.027: 0.054 in the ERM, and
    # little more from the levels below. 0.2 is over three standard errors (error rate below 0.1 %).
    search = ErmMcts(OneAction(), 0.5, seed=1, widening=Widening(k=4.0, alpha=0.6))
    assert search.plan(iterations=20_000).value == pytest.approx(3.75, abs=0.2)


@pytest.mark.compiled
def test_a_widened_tree_survives_advance():
    search = ErmMcts(Normal(), 0.5, seed=1, widening=Widening(k=4.0, alpha=0.6))
    assert search.plan(iterations=20_000).action == 0
    seen = search._binding._known.states[1]
    search.advance(0, seen)
    again = search.plan(iterations=2000)
    assert (again.step, again.action, again.state) == (1, 0, seen)
    search.advance(0, 123.456)  # never sampled
    assert search.plan(iterations=200).step == 2


@pytest.mark.compiled
def test_widening_keeps_terminal_costs_at_the_horizon():
    table = terminal_table("cost")
    widened = ErmMcts(table, 0.3, seed=5, widening=Widening(k=1000.0, alpha=0.5)).plan(iterations=1000)
    plain = ErmMcts(table, 0.3, seed=5).plan(iterations=1000)
    assert numbers(widened) == numbers(plain)  # k is so large that every outcome is a fresh draw
    few = ErmMcts(table, 0.3, seed=5, widening=Widening(k=3.0, alpha=0.6)).plan(iterations=20_000)
    assert few.value == pytest.approx(backward_induction(table, 0.3).value, abs=0.4)


class Heavy(Normal):
    """Every state is new and holds 80 kB."""

    horizon = 20

    def step(self, state, action, rng):
        return rng.bytes(80_000), rng.random(), False


def test_max_memory_counts_the_states():
    search = ErmMcts(Heavy(), 0.1, seed=0, max_memory=1_000_000)
    plan = search.plan(iterations=10_000)
    assert plan.stopped is StopReason.MAX_MEMORY
    assert 0.8e6 < plan.bytes <= 1_000_000
    assert plan.iterations == len(search._binding._known.states) - 1 <= 12
    again = search.plan(iterations=10_000)
    assert (again.stopped, again.iterations) == (StopReason.MAX_MEMORY, 0)
    free = ErmMcts(Heavy(), 0.1, seed=0).plan(iterations=20)
    assert free.bytes > 20 * 80_000
    with pytest.raises(OptionError, match="max_memory=50000 leaves no room"):
        ErmMcts(Heavy(), 0.1, seed=0, max_memory=50_000).plan(iterations=10)


def test_after_max_memory_the_episode_goes_on_in_states_never_met():
    search = ErmMcts(Heavy(), 0.1, seed=0, max_memory=1_000_000)
    plan = search.plan(iterations=10_000)
    search.advance(plan.action, bytes(80_000))
    plan = search.plan(iterations=5)
    assert (plan.step, plan.stopped, plan.state) == (1, StopReason.ITERATIONS, bytes(80_000))
    assert search.plan(iterations=10_000).stopped is StopReason.MAX_MEMORY
    search.reset(bytes(range(100)))
    assert search.plan(iterations=10_000).stopped is StopReason.MAX_MEMORY
    search.reset(bytes(2_000_000))
    with pytest.raises(OptionError, match="max_memory=1000000 leaves no room"):
        search.plan(iterations=5)
    played = evaluate(Heavy(), ErmMcts(Heavy(), 0.1, max_memory=1_000_000), episodes=2, iterations=30, seed=0)
    assert played.episodes == 2


def test_max_memory_of_a_learned_model_counts_the_states():
    search = LearnedModelSearch(Heavy(), 0.1, seed=0, max_memory=4_000_000)
    plan = search.plan(iterations=10_000)
    assert plan.stopped is StopReason.MAX_MEMORY
    assert 3.8e6 < plan.bytes <= 4_000_000
    again = search.plan(iterations=10_000)
    assert (again.stopped, again.iterations) == (StopReason.MAX_MEMORY, 0)
    search.advance(plan.action, bytes(5_000_000))  # observed, whatever it takes; what else was learned is given up
    with pytest.raises(OptionError, match="max_memory=4000000 leaves no room"):
        search.plan(iterations=10)


def test_sizes_are_those_of_what_is_held():
    from tailwise.bindings.intern import RunningSize, size_of

    assert size_of(5) < 100
    assert 80_000 <= size_of((np.zeros(10_000), 1)) < 81_000
    assert 80_000 <= size_of({"a": [np.zeros(10_000)[::1]]}) < 82_000
    shared = b"x" * 1000
    assert size_of((shared, shared)) < 1200
    sizes = RunningSize()
    for k in range(200):
        sizes.add((k, b"y" * 1000))
    assert sizes.total == pytest.approx(200 * size_of((7, b"y" * 1000)), rel=0.02)
