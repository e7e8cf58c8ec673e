"""Compiled simulators: equal to the table and to their own source interpreted; failures in the user's terms."""

import copy
import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from numba import config

from tailwise import CompiledSimulator, ErmMcts, Simulator, TabularMDP, Widening, domains
from tailwise.errors import ModelError, SimulatorError, StateError

needs_compiler = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
COSTS = np.array([0.0, 0.25, 0.05, 1.0])


def mdp_4_step(state, action, rng):
    cost = COSTS[state]
    if state == 0:
        if action == 1:
            return 1, cost, False
        return (2 if rng.random() < 0.85 else 3), cost, False
    return (0 if rng.random() < 0.1 else state), cost, False


def mdp_4():
    return CompiledSimulator(mdp_4_step, start=0, horizon=20, discount=0.9, actions=2, name="mdp-4")


class Interpreted(Simulator):
    """The functions of a compiled simulator, run as a Python one."""

    def __init__(self, model):
        self.start, self.horizon, self.discount = model.start, model.horizon, model.discount
        self.sense, self.step, self.actions = model.sense, model.step, model.actions
        for name in ("terminal_cost", "rollout"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))


def numbers(plan):
    return [(row.visits, row.erm, row.mean, row.minimum, row.maximum) for row in plan.rows]


def clip(value, low, high):
    return min(max(value, low), high)


def shop_step(state, action, rng):
    stock, price = state
    demand = rng.poisson(2.0) + rng.integers(0, 3)
    left = clip(stock + action - demand, 0, 12)
    price = 0.5 * price + rng.normal()
    return (left, price), 2.0 * action + 0.5 * left + price * (left == 0), bool(rng.random() < 0.02)


def shop_actions(state):
    return 1 + min(4, 12 - state[0])


def shop(**options):
    options = {"terminal_cost": lambda state: 3.0 * state[0], **options}
    return CompiledSimulator(
        shop_step, start=(3, 1.0), horizon=7, discount=0.95, actions=shop_actions, name="shop", **options
    )


@pytest.mark.compiled
@pytest.mark.parametrize("expansion", ["leaf", "path"])
def test_equal_to_the_table_draw_for_draw(expansion):
    plans = [
        ErmMcts(model, 0.5, seed=3, expansion=expansion).plan(iterations=3000)
        for model in (domains.make("mdp-4"), mdp_4(), Interpreted(mdp_4()))
    ]
    assert numbers(plans[0]) == numbers(plans[1]) == numbers(plans[2])
    assert plans[0].nodes == plans[1].nodes == plans[2].nodes


OPTIONS = {
    "leaf": ("cost", {}),
    "reward": ("reward", {}),
    "path": ("reward", {"expansion": "path"}),
    "widening": ("cost", {"widening": Widening(k=2.0, alpha=0.4)}),
    "leaf-value": ("reward", {"leaf_value": lambda state, h: 2.0 * state[0] - h}),
    "policy": ("cost", {"rollout_policy": lambda state, h, rng: min(1, 12 - state[0])}),
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_equal_to_its_source_interpreted(kind):
    sense, options = OPTIONS[kind]
    searches = [ErmMcts(model, 0.2, seed=8, **options) for model in (shop(sense=sense), Interpreted(shop(sense=sense)))]
    for _ in range(3):
        plans = [search.plan(iterations=700) for search in searches]
    assert numbers(plans[0]) == numbers(plans[1])
    assert plans[0].nodes == plans[1].nodes
    assert plans[0].simulator_steps == plans[1].simulator_steps
    for search in searches:
        search.advance(1, (2, 0.25))  # never sampled
        search.plan(iterations=50)
        assert search.state == (2, 0.25)
    assert numbers(searches[0].plan(iterations=300)) == numbers(searches[1].plan(iterations=300))


def test_advance_keeps_the_subtree():
    search, other = ErmMcts(mdp_4(), 0.5, seed=1), ErmMcts(domains.make("mdp-4"), 0.5, seed=1)
    for each in (search, other):
        each.plan(iterations=2000)
        each.advance(1, 1)
        each.advance(0, 0)
    assert numbers(search.plan(iterations=500)) == numbers(other.plan(iterations=500))


def test_its_own_rollout_is_used():
    def rollout(state, h, rng):
        return 100.0 * (7 - h)

    plans = [
        ErmMcts(model, 0.0, seed=8).plan(iterations=2)
        for model in (shop(rollout=rollout), Interpreted(shop(rollout=rollout)))
    ]
    assert numbers(plans[0]) == numbers(plans[1])
    assert plans[0].rows[0].minimum > 500


def fragile_step(state, action, rng):
    cost = rng.random()
    if state == 2 and action == 1 and cost > 0.5:
        if rng.random() < 0.5:
            raise ValueError("out of stock")
        return state, 1 / (state - 2), False
    return state + 1, cost, False


def test_an_exception_is_found_again_with_state_action_and_step():
    search = ErmMcts(CompiledSimulator(fragile_step, start=0, horizon=5, actions=2, name="fragile"), 0.5, seed=0)
    with pytest.raises(
        SimulatorError, match=r"step\(2, 1\) of fragile at step 2 raised (ValueError|ZeroDivisionError)"
    ) as caught:
        search.plan(iterations=1000)
    assert isinstance(caught.value.__cause__, (ValueError, ZeroDivisionError))
    search.reset(3, step=3)  # beyond the fragile state
    assert search.plan(iterations=100).iterations == 100


def nan_step(state, action, rng):
    return state + 1, (float("nan") if state == 2 else 1.0), False


@pytest.mark.parametrize("expansion", ["leaf", "path"])
def test_a_cost_that_is_no_number_is_named(expansion):
    model = CompiledSimulator(nan_step, start=0, horizon=5, actions=2)
    with pytest.raises(SimulatorError, match=r"step\(2, \d\) of simulator at step 2: the cost is nan"):
        ErmMcts(model, 0.5, seed=0, expansion=expansion).plan(iterations=100)


def line_step(state, action, rng):
    return state + 1, 1.0, False


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"actions": lambda state: 2 - state}, r"actions\(2\) of simulator.*at least one|no action"),
        (
            {"terminal_cost": lambda state: 1.0 / (state - 5)},
            r"terminal_cost\(5\) of simulator at step 5 raised ZeroDiv",
        ),
        (
            {"rollout": lambda state, h, rng: float("inf")},
            r"rollout\(\d\) of simulator at step \d: its value is inf",
        ),
    ],
)
def test_other_methods_fail_by_name(options, pattern):
    options = {"actions": 2, **options}
    for model in (CompiledSimulator(line_step, start=0, horizon=5, **options),):
        with pytest.raises(SimulatorError, match=pattern):
            ErmMcts(model, 0.5, seed=0).plan(iterations=100)


def test_a_rollout_policy_must_choose_an_allowed_action():
    model = CompiledSimulator(line_step, start=0, horizon=5, actions=2)
    with pytest.raises(SimulatorError, match="it chose 2, which is not allowed"):
        ErmMcts(model, 0.5, seed=0, rollout_policy=lambda state, h, rng: 2).plan(iterations=1)


def unsupported_step(state, action, rng):
    label = {"a": 1}.popitem()
    return state + len(str(label).encode("utf-7")), 1.0, False


@needs_compiler
def test_a_function_that_cannot_be_compiled_is_shown_and_runs_only_if_asked():
    with pytest.raises(ModelError) as caught:
        ErmMcts(CompiledSimulator(unsupported_step, start=0, horizon=5, actions=2, name="odd"), 0.5)
    text = str(caught.value)
    assert "step of odd cannot be compiled at" in text
    assert "test_compiled_simulator.py, line" in text
    assert "fallback=True" in text
    assert 'label = {"a": 1}.popitem()' in text or "encode" in text  # the user's own line
    assert "\x1b" not in text
    assert "Failed in" not in text
    asked = CompiledSimulator(unsupported_step, start=0, horizon=5, actions=2, fallback=True)
    assert ErmMcts(asked, 0.5, seed=0).plan(iterations=10).iterations == 10


def is_even(number):
    return number == 0 or is_odd(number - 1)


def is_odd(number):
    return number != 0 and is_even(number - 1)


def factorial(number):
    return 1 if number <= 1 else number * factorial(number - 1)


def roundabout_step(state, action, rng):
    costs = [float(factorial(k)) for k in range(state + 1)]
    return state + 1, rng.random() + sum(costs) * is_even(action), False


def test_helpers_may_call_each_other_in_circles_and_from_comprehensions():
    model = CompiledSimulator(roundabout_step, start=0, horizon=5, actions=3)
    plans = [ErmMcts(each, 0.1, seed=4).plan(iterations=300) for each in (model, Interpreted(model))]
    assert numbers(plans[0]) == numbers(plans[1])


TWO_COSTS = np.array([1.0, 2.0])


def beyond_step(state, action, rng):
    return state + 1, TWO_COSTS[state], False


def test_an_index_beyond_an_array_is_an_error_and_not_a_number():
    model = CompiledSimulator(beyond_step, start=0, horizon=5, actions=2)
    with pytest.raises(SimulatorError, match=r"step\(2, \d\) of simulator at step 2 raised IndexError"):
        ErmMcts(model, 0.5, seed=0).plan(iterations=100)


def importing_step(state, action, rng):
    import math

    return state + 1, math.sqrt(state), False


@needs_compiler
def test_what_numba_refuses_in_its_own_ways_is_a_model_error_too():
    with pytest.raises(ModelError, match=r"step of simulator cannot be compiled.*IMPORT_NAME.*fallback=True"):
        ErmMcts(CompiledSimulator(importing_step, start=0, horizon=5, actions=2), 0.5)
    asked = CompiledSimulator(importing_step, start=0, horizon=5, actions=2, fallback=True)
    assert ErmMcts(asked, 0.5, seed=0).plan(iterations=10).iterations == 10
    with pytest.raises(ModelError, match=r"write rng.integers\(0, n\)"):
        ErmMcts(CompiledSimulator(lambda s, a, rng: (rng.integers(3), 1.0, False), start=0, horizon=5, actions=2), 0.5)


def test_numbers_of_actions_and_states_have_bounds():
    with pytest.raises(ModelError, match="the search takes at most 1000000 actions"):
        CompiledSimulator(line_step, start=0, horizon=5, actions=10**12)
    model = CompiledSimulator(line_step, start=0, horizon=5, actions=lambda state: 2 if state < 2 else 10**12)
    with pytest.raises(SimulatorError, match=r"actions\(2\) of simulator.*at most 1000000"):
        ErmMcts(model, 0.5, seed=0).plan(iterations=100)
    with pytest.raises(SimulatorError, match=r"actions\(2\) of simulator.*at most 1000000"):
        ErmMcts(model, 0.5, seed=0).reset(2, step=2)
    with pytest.raises(StateError, match="beyond the range of 64-bit integers"):
        CompiledSimulator(line_step, start=2**63, horizon=5, actions=2)


@needs_compiler
@pytest.mark.parametrize(
    ("step", "start", "pattern"),
    [
        (
            lambda s, a, rng: (s + 0.5, 1.0, False),
            0,
            "next state of type float64, but start 0 is of type int64",
        ),
        (lambda s, a, rng: ((s[0], s[1], 1), 1.0, False), (0, 1.0), "make both alike"),
        (lambda s, a, rng: (s, 1.0), 0, r"expected \(next_state, cost, done\)"),
        (lambda s, a, rng: (s, "1", False), 0, "a cost of type .*expected a number"),
        (lambda s, a, rng: (s, 1.0, 0.5), 0, "done of type float64; expected a bool"),
    ],
)
def test_what_step_returns_is_checked_when_compiled(step, start, pattern):
    with pytest.raises(ModelError, match=pattern):
        ErmMcts(CompiledSimulator(step, start=start, horizon=5, actions=2), 0.5)


def test_arguments_are_checked():
    with pytest.raises(ModelError, match="cannot be a compiled state: 'a'"):
        CompiledSimulator(line_step, start=("a",), horizon=5, actions=2)
    with pytest.raises(ModelError, match="actions must be a number of at least 1"):
        CompiledSimulator(line_step, start=0, horizon=5, actions=0)
    with pytest.raises(ModelError, match=r"step\(state, action\) does not fit"):
        CompiledSimulator(lambda state, action: 0, start=0, horizon=5, actions=2)
    with pytest.raises(ModelError, match="horizon must be at least 1, not 0"):
        CompiledSimulator(line_step, start=0, horizon=0, actions=2)
    search = ErmMcts(shop(), 0.5, seed=0)
    with pytest.raises(StateError, match=r"\(1, 2, 3\) is not like the start, which is a tuple of 2 \(int, float\)"):
        search.advance(0, (1, 2, 3))
    with pytest.raises(StateError, match="field 0 of state"):
        search.advance(0, (1.5, 2.0))
    search.advance(0, (np.int32(1), 2))
    assert search.state == (1, 2.0)


@needs_compiler
def test_the_kernel_is_compiled_once_and_cached_across_processes(tmp_path):
    program = textwrap.dedent(
        """
        from tailwise import CompiledSimulator, ErmMcts, Simulator
        def one(s, a, rng): return s + 1, rng.random(), False
        def two(s, a, rng): return (s[0] + a, rng.normal()), s[1], False
        class Three(Simulator):
            start, horizon = "a", 3
            def actions(self, state): return 2
            def step(self, state, action, rng): return state, 1.0, False
        for model in (CompiledSimulator(one, start=0, horizon=4, actions=2),
                      CompiledSimulator(two, start=(0, 1.0), horizon=4, actions=3, sense="reward"), Three()):
            search = ErmMcts(model, 0.5, seed=0)
            search.plan(iterations=50)
        kernel = search._compiled()
        print(len(kernel.signatures), sum(kernel.stats.cache_hits.values()), sum(kernel.stats.cache_misses.values()))
        """
    )
    script = tmp_path / "program.py"
    script.write_text(program)
    first = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout.split()
    second = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout.split()
    assert first[0] == second[0] == "1"  # one kernel for three models of two kinds
    assert second[1:] == ["1", "0"]  # loaded, not compiled


def test_a_terminal_cost_meets_the_table():
    chances = np.array([[[0.3, 0.7], [0.6, 0.4]], [[0.5, 0.5], [0.9, 0.1]]])
    costs, terminal = np.array([[1.0, 2.0], [0.5, 0.1]]), np.array([3.0, -1.0])
    table = TabularMDP.from_arrays(chances, costs, order="SAS", horizon=4, discount=0.8, terminal_costs=terminal)

    def step(state, action, rng):
        return (0 if rng.random() < chances[state, action, 0] else 1), costs[state, action], False

    model = CompiledSimulator(
        step, start=0, horizon=4, actions=2, discount=0.8, terminal_cost=lambda state: terminal[state]
    )
    plans = [ErmMcts(each, 0.7, seed=2).plan(iterations=2000) for each in (table, model)]
    assert numbers(plans[0]) == numbers(plans[1])


def test_labels_may_depend_on_the_state():
    def labels(state):
        return ["go", "stop"] if state == 0 else [f"at {state}: {k}" for k in range(2)]

    model = CompiledSimulator(line_step, start=0, horizon=3, actions=2, action_labels=labels, name="line")
    search = ErmMcts(model, 0.5, seed=0)
    plan = search.plan(iterations=50)
    assert [row.label for row in plan.rows] == ["go", "stop"]
    assert [a.label for a in search.root.action("go").children[0].actions] == ["at 1: 0", "at 1: 1"]
    search.advance("stop", 1)
    assert search.plan(iterations=5).rows[1].label == "at 1: 1"
    with pytest.raises(StateError, match="allowed: at 1: 0, at 1: 1"):
        search.advance("go", 2)


@pytest.mark.parametrize(
    ("labels", "pattern"),
    [
        ("ab", "action_labels of line must be a sequence of names"),
        (3, "action_labels of line must be a sequence of names"),
        (["a"], "action_labels of line has 1 names for 2 actions"),
        (["a", "a"], "action_labels of line holds a name more than once"),
        (lambda state: ["a"], r"action_labels\(0\) of line has 1 names"),
        (lambda state: 1 / state, r"action_labels\(0\) of line raised ZeroDivisionError"),
    ],
)
def test_wrong_labels_are_named(labels, pattern):
    with pytest.raises(ModelError, match=pattern):
        CompiledSimulator(line_step, start=0, horizon=3, actions=2, action_labels=labels, name="line").action_name(0, 0)


def test_sailing_names_the_directions_of_each_place():
    model = domains.make("sailing")
    search = ErmMcts(model, 0.1, seed=0)
    labels = [row.label for row in search.plan(iterations=20).rows]
    assert set(labels) <= {"north", "north-east", "east"}
    assert len(labels) == model.actions(model.start)


@pytest.mark.compiled
def test_infinities_of_compiled_arithmetic_are_no_errors():
    def step(state, action, rng):
        return state + 1, 1.0 / (1.0 + math.exp(1000.0 - action)) + max(-5.0, math.log(0.0)), False

    model = CompiledSimulator(step, start=0, horizon=2, actions=2)  # interpreted, exp and log raise here
    assert ErmMcts(model, 0.1, seed=0).plan(iterations=10).value == pytest.approx(-10.0)


@needs_compiler
def test_what_is_compiled_is_not_tried_again():
    calls = []
    model = mdp_4()
    search = ErmMcts(model, 0.1, seed=0)
    object.__setattr__(model, "step", lambda *given: calls.append(given))
    copy.deepcopy(search)
    search.fresh()
    assert not calls
