"""From a simulator to a table: what is wrong with the list of outcomes is said, with its place."""

import pytest

from tailwise import Simulator
from tailwise.errors import ModelError
from tailwise.models import tabulate


class Step(Simulator):
    """Two steps of cost 1, to the right."""

    start, horizon = 0, 2

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        return state + 1, 1.0, False

    def outcomes(self, state, action):
        return [(1.0, state + 1, 1.0, False)]


def divide(self, *arguments):
    return 1 / 0


@pytest.mark.parametrize(
    ("methods", "pattern"),
    [
        ({"outcomes": divide}, r"outcomes\(0, 0\) of Wrong: ZeroDivisionError"),
        ({"outcomes": lambda self, s, a: None}, r"outcomes\(0, 0\) of Wrong: TypeError"),
        ({"outcomes": lambda self, s, a: []}, "it returned nothing; expected a list"),
        ({"outcomes": lambda self, s, a: [(1.0, s, 1.0)]}, "expected a list of"),
        ({"outcomes": lambda self, s, a: [("1", s, 1.0, False)]}, "the probability '1' is no number"),
        ({"outcomes": lambda self, s, a: [(1.0, [s], 1.0, False)]}, "not hashable"),
        ({"outcomes": lambda self, s, a: [(0.5, s, 1.0, False)]}, "must sum to 1"),
        ({"actions": divide}, r"actions\(0\) of Wrong: ZeroDivisionError"),
        ({"actions": lambda self, s: None}, r"actions\(0\) of Wrong: it returned None"),
        ({"actions": lambda self, s: 10**12}, "the search takes at most 1000000: choose some"),
        ({"actions": lambda self, s: 0}, "no action is allowed; give the state one"),
        ({"terminal_cost": divide}, r"terminal_cost\(0\) of Wrong raised ZeroDivisionError"),
        ({"terminal_cost": lambda self, s: "x"}, r"terminal_cost\(0\) of Wrong: its value"),
    ],
)
def test_what_is_wrong_is_named(methods, pattern):
    with pytest.raises(ModelError, match=pattern):
        tabulate(type("Wrong", (Step,), methods)())


def test_outcomes_may_be_any_iterable():
    lazy = type("Lazy", (Step,), {"outcomes": lambda self, s, a: iter([(1.0, s + 1, 1.0, False)])})()
    assert tabulate(lazy).num_states == tabulate(Step()).num_states == 3


def test_actions_that_are_no_numbers_have_the_name_that_all_states_call_them():
    class Named(Step):
        def actions(self, state):
            return ["stay", "go"] if state else ["stay", "wait"]

        def outcomes(self, state, action):
            return [(1.0, 1 - state, 1.0, False)]

    assert tabulate(Named()).action_labels == ("stay", "action 1")
