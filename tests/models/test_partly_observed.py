"""The contract of partly observed models, and tables of them."""

import numpy as np
import pytest

from tailwise import PartlyObserved, PomdpTable, check_model, solve
from tailwise.errors import ModelError
from tailwise.models import tabulate_hidden

STAY, ANEW = [[1, 0], [0, 1]], [[0.5, 0.5], [0.5, 0.5]]
HEARS, NOTHING = [[0.85, 0.15], [0.15, 0.85]], [[0.5, 0.5], [0.5, 0.5]]
COSTS = [[1, 100, -10], [1, -10, 100]]


class Tiger(PartlyObserved):
    horizon, discount = 4, 0.95

    def starts(self):
        return [(0.5, "left"), (0.5, "right")]

    def sample_start(self, rng):
        return "left" if rng.random() < 0.5 else "right"

    def actions(self):
        return ("listen", "left", "right")

    def outcomes(self, state, action):
        if action == "listen":
            return [(1.0, state, 1.0, False)]
        return [(0.5, side, 100.0 if action == state else -10.0, False) for side in ("left", "right")]

    def step(self, state, action, rng):
        listed = self.outcomes(state, action)
        return listed[int(rng.random() * len(listed))][1:]

    def observations(self, state, action, next_state):
        other = "left" if next_state == "right" else "right"
        chance = 0.85 if action == "listen" else 0.5
        return [(chance, f"hear {next_state}"), (1 - chance, f"hear {other}")]

    def observe(self, state, action, next_state, rng):
        shown = self.observations(state, action, next_state)
        return shown[0][1] if rng.random() < shown[0][0] else shown[1][1]


def table(**options):
    given = {"transitions": [STAY, ANEW, ANEW], "observations": [HEARS, NOTHING, NOTHING], "costs": COSTS, "horizon": 4}
    return PomdpTable.from_arrays(**given | options)


def test_a_simulator_that_lists_is_solved_as_its_table():
    policy = solve(Tiger(), 0.1)
    assert policy.value == pytest.approx(solve(table(discount=0.95), 0.1).value, abs=1e-12)
    assert policy.action == "listen"
    assert solve(Tiger(), 0.01).act([("listen", "hear left")] * 3) == "right"
    assert tabulate_hidden(Tiger()).num_states == 2
    assert check_model(Tiger()).ok


def test_draws_follow_the_table():
    model, rng = table(), np.random.Generator(np.random.SFC64(1))
    seen = [model.draw(0, 0, rng).observation for _ in range(4000)]
    assert np.mean(seen) == pytest.approx(0.15, abs=0.02)
    assert np.mean([model.observe(0, 0, 0, rng) for _ in range(4000)]) == pytest.approx(0.15, abs=0.02)
    assert model.step(1, 1, rng)[1] == -10.0
    assert {model.sample_start(rng) for _ in range(50)} == {0, 1}


def test_costs_by_observation():
    costs = np.zeros((2, 3, 2, 2))
    costs[..., 1] = 5.0
    model = table(transitions=np.array([STAY, ANEW, ANEW]).transpose(1, 0, 2), costs=costs, horizon=1, order="SAS")
    assert solve(model, 0.0).value == pytest.approx(2.5)
    with pytest.raises(ModelError, match="draw"):
        model.observe(0, 0, 0, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"observations": [HEARS, NOTHING, [[0.5, 0.4], [0.5, 0.5]]]}, "state 0: probabilities sum to 0.9"),
        ({"observations": [HEARS, NOTHING, [[1.5, -0.5], [0.5, 0.5]]]}, "must lie in"),
        ({"observations": np.ones((5, 2, 1))}, "observations has shape"),
        ({"start": [0.5, 0.6]}, "start belief: probabilities sum to 1.1"),
        ({"start": [0.5, 0.2, 0.3]}, "3 probabilities, expected one per state: 2"),
        ({"start": "here"}, "'here' is not in the table"),
        ({"costs": [[1, 100, np.inf], [1, -10, 100]]}, "each action must be allowed"),
        ({"costs": [[1, 100, np.nan], [1, -10, 100]]}, "nan"),
        ({"transitions": [STAY, ANEW, [[0.5, 0.4], [0.5, 0.5]]]}, "probabilities sum to 0.9"),
        ({"costs": np.zeros((4, 2, 3))}, "may not depend on the step"),
        ({"costs": None}, "give either costs or rewards"),
        ({"horizon": 0}, "horizon must be"),
        ({"discount": 1.5}, "discount must be"),
    ],
)  # fmt: skip
def test_wrong_tables_say_what_is_wrong(options, said):
    with pytest.raises(ModelError, match=said):
        table(**options)


def test_wrong_simulators_say_what_is_wrong():
    class Random(Tiger):
        def observe(self, state, action, next_state, rng):
            return np.random.default_rng().random()

    assert "one seed gave two different steps" in str(check_model(Random()))

    class Unhashable(Tiger):
        def observe(self, state, action, next_state, rng):
            return [1]

    assert "not hashable" in str(check_model(Unhashable()))

    class NoHorizon(Tiger):
        horizon = -3

    assert "horizon must be" in str(check_model(NoHorizon()))
