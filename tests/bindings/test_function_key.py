"""Functions that compute the same share one key, and those that do not have different ones."""

import types

import numpy as np
import pytest

from tailwise import CompiledSimulator, ErmMcts, NluMcts, domains
from tailwise._values import NoKeyError, function_key
from tailwise.bindings import callback_model
from tailwise.bindings import compiled as compiled_models

RATE = 2.0
SETTINGS = types.ModuleType("settings_of_a_user")
SETTINGS.rate = 2.0


def scaled(factor, *, power=1.0):
    def function(total, offset=0.5):
        return factor * total**power + offset * RATE

    return function


def from_module(total):
    return SETTINGS.rate * np.exp(total)


def even(number):
    return number == 0 or odd(number - 1)


def odd(number):
    return number != 0 and even(number - 1)


def test_one_code_with_the_same_constants_has_one_key():
    assert function_key(scaled(3.0)) == function_key(scaled(3.0))
    assert len({function_key(lambda total: total * 2) for _ in range(3)}) == 1
    assert function_key(even) == function_key(even)
    hash(function_key(from_module))


@pytest.mark.parametrize("other", [scaled(4.0), scaled(3), scaled(3.0, power=2.0), lambda total: total])
def test_other_constants_have_other_keys(other):
    assert function_key(scaled(3.0)) != function_key(other)


def test_what_changed_since_has_another_key(monkeypatch):
    table = np.array([1.0, 2.0])

    def looked_up(total):
        return table[int(total)] + RATE

    def of(function):
        return function_key(function)

    before = [of(looked_up), of(from_module), of(scaled(3.0))]
    table[0] = 7.0
    monkeypatch.setattr(SETTINGS, "rate", 5.0)
    monkeypatch.setitem(globals(), "RATE", 9.0)
    assert all(old != of(f) for old, f in zip(before, (looked_up, from_module, scaled(3.0)), strict=True))
    with pytest.raises(NoKeyError):
        function_key(looked_up, arrays=False)
    held = [1.0]
    with pytest.raises(NoKeyError):
        function_key(lambda total: held[0])


@pytest.mark.compiled
def test_a_domain_made_twice_is_compiled_once_and_other_options_give_other_numbers(monkeypatch):
    compiled = []
    compile_one = compiled_models._user_functions
    monkeypatch.setattr(compiled_models, "_user_functions", lambda *given: compiled.append(1) or compile_one(*given))
    monkeypatch.setattr(compiled_models, "_COMPILED", {})

    def plan(**options):
        return ErmMcts(domains.make("machine-maintenance", **options), 0.1, seed=0).plan(iterations=200).value

    values = [plan(), plan(), plan(horizon=12), plan(breakdown=400.0), plan()]
    assert values[0] == values[1] == values[4]
    assert len({values[0], values[2], values[3]}) == 3
    assert len(compiled) == 2  # the horizon is no part of the machine code, the cost of a breakdown is


@pytest.mark.compiled
def test_a_step_that_names_a_changed_global_is_compiled_anew(monkeypatch):
    def make():
        return CompiledSimulator(lambda state, action, rng: (state, RATE, False), start=0, horizon=2, actions=1)

    assert ErmMcts(make(), 0.5, seed=0).plan(iterations=5).value == 4.0
    monkeypatch.setitem(globals(), "RATE", 3.0)
    assert ErmMcts(make(), 0.5, seed=0).plan(iterations=5).value == 6.0


@pytest.mark.compiled
def test_utilities_written_in_a_loop_are_compiled_once(monkeypatch):
    monkeypatch.setattr(callback_model, "_COMPILED", {})
    for _ in range(3):
        NluMcts(domains.make("mdp-4"), lambda total: total * total, seed=0)
    assert len(callback_model._COMPILED) == 1


CALLS = 0


def counting(total):
    global CALLS  # numba cannot write to one
    CALLS += 1
    return total


@pytest.mark.parametrize("utility", [counting, lambda total: float(f"{total:.3f}"), lambda total: {1: total}.get(1)])
def test_a_utility_that_numba_cannot_compile_is_called_back(utility):
    plan = NluMcts(domains.make("mdp-4"), utility, seed=0).plan(iterations=50)
    assert plan.value == pytest.approx(
        NluMcts(domains.make("mdp-4"), lambda t: t, seed=0).plan(iterations=50).value, abs=1e-3
    )


def huge_step(state, action, rng):
    return state + 1, 1e308, False


class Huge:
    start, horizon, discount, sense = 0, 10, 1.0, "cost"

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        return huge_step(state, action, rng)


@pytest.mark.parametrize("model", [Huge(), CompiledSimulator(huge_step, start=0, horizon=10, actions=2)])
def test_costs_whose_total_would_overflow_are_refused(model):
    from tailwise.errors import SimulatorError

    with pytest.raises(SimulatorError, match=r"the cost is 1e\+308; it must be a finite number of at most 1e\+140"):
        ErmMcts(model, 0.5, seed=0).plan(iterations=10)


@pytest.mark.compiled
def test_more_actions_than_samples_kept():
    class Wide(Huge):
        def actions(self, state):
            return 70_000

        def step(self, state, action, rng):
            return state, float(action), True

    plan = ErmMcts(Wide(), 0.5, seed=0).plan(iterations=70_010)
    assert plan.rows[0].visits >= 1
    assert len(plan.rows) == 70_000
