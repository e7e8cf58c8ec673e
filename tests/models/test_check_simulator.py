"""``check_simulator`` finds every kind of fault, and nothing in a sound simulator."""

import numpy as np
import pytest

from tailwise import ErmMcts, Simulator, check_model, check_simulator, domains
from tailwise.errors import ModelError
from tailwise.models.simulator import state_label


class Sound(Simulator):
    start, horizon = (0,), 6

    def actions(self, state):
        return ("a", "b")

    def step(self, state, action, rng):
        return (state[0] + 1,), rng.random() + (action == "b"), rng.random() < 0.1

    def terminal_cost(self, state):
        return 2.0


def faulty(**methods):
    return type("Faulty", (Sound,), methods)()


COUNTER = iter(range(10**9))


class Cell:
    def __init__(self, value):
        self.value = [value]

    def __eq__(self, other):
        return isinstance(other, Cell) and self.value == other.value

    def __hash__(self):
        return 0


def grow(self, state, action, rng):
    state.value.append(1)
    return state, 1.0, False


FAULTS = {
    "raises": ({"step": lambda self, s, a, rng: 1 // 0}, "raised ZeroDivisionError"),
    "nan": ({"step": lambda self, s, a, rng: (s, float("nan"), False)}, "the cost is nan"),
    "form": ({"step": lambda self, s, a, rng: (s, 1.0)}, r"expected (next_state, cost, done)"),
    "unhashable": ({"step": lambda self, s, a, rng: ([1], 1.0, False)}, "not hashable"),
    "done": ({"step": lambda self, s, a, rng: (s, 1.0, "no")}, "done is 'no'"),
    "no done": ({"step": lambda self, s, a, rng: (s, 1.0, None)}, "done is None"),
    "global random": (
        {"step": lambda self, s, a, rng: ((next(COUNTER),), 1.0, False)},
        "the same draws gave another outcome",
    ),
    "mutation": ({"start": Cell(0), "step": grow}, "changed the state in place"),
    "no actions": ({"actions": lambda self, s: 0}, "no action is allowed"),
    "bad actions": ({"actions": lambda self, s: None}, "returned None"),
    "twice": ({"actions": lambda self, s: ("a", "a")}, "listed twice"),
    "moody actions": (
        {"actions": lambda self, s: range(1 + next(COUNTER) % 2)},
        "two calls gave different actions",
    ),
    "terminal": (
        {"terminal_cost": lambda self, s: float("inf"), "step": lambda self, s, a, rng: (s, 0.0, False)},
        "terminal_cost at step 6: its value is inf",
    ),
    "rollout": ({"rollout": lambda self, s, h, rng: "x"}, "it must be a number"),
    "sum": (
        {
            "step": lambda self, s, a, rng: (s, 1.0, False),
            "outcomes": lambda self, s, a: [(0.9, s, 1.0, False)],
        },
        "probabilities sum to 0.9",
    ),
    "unlisted": ({"outcomes": lambda self, s, a: [(1.0, s, 1.0, False)]}, "which is not listed"),
    "no listing": ({"outcomes": lambda self, s, a: None}, "using what it returned raised TypeError"),
    "chance": ({"outcomes": lambda self, s, a: [("1", s, 1.0, False)]}, "using what it returned raised TypeError"),
    "endless": ({"actions": lambda self, s: 10**12}, "return a number from 1 to 1000000"),
    "listing": ({"outcomes": lambda self, s, a: [(1.0, s)]}, "list (probability, next_state, cost, done)"),
    "signature": ({"step": lambda self, s: 0}, "does not fit; expected step(self, state, action, rng)"),
    "horizon": ({"horizon": 0}, "horizon must be at least 1, not 0"),
    "identity": ({"start": object()}, "compared by identity"),
    "typo": ({"roll_out": lambda self, s, h, rng: 1.0}, "did you mean rollout(self, state, h, rng) -> float?"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_each_fault_is_found_and_placed(kind):
    methods, text = FAULTS[kind]
    report = check_simulator(faulty(**methods), 0)
    assert not report.ok
    assert text in str(report)
    with pytest.raises(ModelError, match="breaks its contract"):
        report.raise_for_errors()


def test_several_faults_are_reported_together():
    report = check_simulator(
        faulty(
            rollout=lambda self, s, h, rng: None,
            outcomes=lambda self, s, a: [(1.0, s, 1.0, False)],
        ),
        0,
        episodes=1,
    )
    assert len(report.violations) == 2


def test_a_sound_simulator_passes_and_can_be_planned_on():
    report = check_simulator(Sound(), 0)
    assert report.ok
    assert not report.warnings
    assert ErmMcts(Sound(), 0.1, seed=0).plan(iterations=50).iterations == 50


def test_states_that_never_repeat_are_pointed_out():
    model = faulty(step=lambda self, s, a, rng: ((s[0] + rng.normal(),), 1.0, False))
    report = check_simulator(model, 0)
    assert report.ok
    assert "no state came twice" in str(report)
    large = faulty(step=lambda self, s, a, rng: (s, 1e13, False))
    assert "rescale" in str(check_simulator(large, 0))


def test_check_model_takes_every_kind_of_model():
    assert check_model(Sound()).ok
    assert check_model(domains.make("mdp-4")).ok
    assert check_model(domains.make("battery")).ok
    with pytest.raises(ModelError, match="int is not a model; expected a TabularMDP or a simulator"):
        check_model(3)
    assert "step is missing" in str(check_simulator(3))


def test_gymnasium_simulators_pass():
    pytest.importorskip("gymnasium")
    from tailwise import GymnasiumSimulator

    for name in ("FrozenLake-v1", "CartPole-v1", "Blackjack-v1"):
        report = check_simulator(GymnasiumSimulator(name, horizon=10), np.random.default_rng(0), episodes=3)
        assert report.ok, str(report)


def test_a_method_under_a_wrong_name_is_not_ignored_in_silence():
    class Walk(Simulator):
        start, horizon, sense = 0, 3, "reward"

        def actions(self, state):
            return 2

        def step(self, state, action, rng):
            return state + action, 0.0, False

        def terminal_reward(self, state):
            return 10.0 * state

    with pytest.raises(ModelError, match=r"terminal_reward is no method .* did you mean terminal_cost\(self, state\)"):
        ErmMcts(Walk(), 0.5)
    Walk.terminal_cost = Walk.terminal_reward  # now it is a name for the right one
    assert ErmMcts(Walk(), 0.5, seed=0).plan(iterations=200).action == 1


def test_numbers_of_numpy_in_a_state_are_named_as_one_types_them():
    assert state_label(object(), (np.int64(2), np.float64(0.5), "np", (np.str_("a"), 1))) == "(2, 0.5, 'np', ('a', 1))"
