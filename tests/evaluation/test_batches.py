"""Episodes played side by side by ``step_many``: the same law, reproducible, luck that nobody shares."""

import numpy as np
import pytest

from tailwise import CVaR, Simulator, Uct, check_simulator, domains, evaluate, solve
from tailwise.errors import ModelError, OptionError, SimulatorError, StateError
from tailwise.evaluation import compare


class Shop(Simulator):
    """Order up to nine; a burglar ends the game one week in twenty."""

    start, horizon, discount, sense = 5, 6, 0.9, "cost"

    def actions(self, state):
        return 10 - min(state, 9)

    def step(self, state, action, rng):
        demand, over = int(rng.integers(0, 4)), bool(rng.random() < 0.05)
        return max(state + action - demand, 0), 2.0 * action + 8.0 * max(demand - state - action, 0), over

    def step_many(self, states, actions, rng):
        demand, over = rng.integers(0, 4, len(states)), rng.random(len(states)) < 0.05
        return (
            np.maximum(states + actions - demand, 0),
            2.0 * actions + 8.0 * np.maximum(demand - states - actions, 0),
            over,
        )

    def outcomes(self, state, action):
        drawn = [self.step(state, action, Fixed(demand, u)) for u in (0.0, 1.0) for demand in range(4)]
        return [(0.0125 if over else 0.2375, *outcome, over) for *outcome, over in drawn]

    def terminal_cost(self, state):
        return 0.5 * state


class Fixed:
    def __init__(self, demand, uniform):
        self.demand, self.uniform = demand, uniform

    def integers(self, low, high):
        return self.demand

    def random(self):
        return self.uniform


class Walk(Simulator):
    """Nothing random: played side by side it is what it is one by one."""

    start, horizon, discount, sense = (0, 1.5), 7, 0.8, "reward"

    def actions(self, state):
        return ("slow", "fast")

    def step(self, state, action, rng):
        fast = action == "fast"
        return (state[0] + 1 + fast, state[1] * 2), 1.0 + fast + state[1], state[0] > 5

    def step_many(self, states, actions, rng):
        fast = actions == "fast"
        following = np.stack((states[:, 0] + 1 + fast, states[:, 1] * 2), axis=1)
        return following, 1.0 + fast + states[:, 1], states[:, 0] > 5

    def terminal_cost(self, state):
        return state[0]


def order(state, h):
    return max(4 - state, 0)


class Orders:
    def act(self, state, h):
        raise AssertionError("all are asked at once")

    def act_many(self, states, h):
        return np.maximum(4 - states, 0)


def changed(kind, **methods):
    return type("Changed", (kind,), methods)()


def test_a_batch_has_the_law_of_the_policy():
    solution = solve(Shop(), 0.05)  # errs once in a million: Dvoretzky, Kiefer and Wolfowitz
    returns = evaluate(Shop(), solution, episodes=20_000, seed=1, batch_size=3000)
    assert solution.distribution().kolmogorov_smirnov(returns.costs)[0] < np.sqrt(np.log(2e6) / 40_000)


@pytest.mark.compiled
def test_policies_that_mind_what_was_paid_are_told():
    solution = solve(Shop(), CVaR(0.9))
    assert solution.minds_the_past
    returns = evaluate(Shop(), solution, episodes=4000, seed=1, batch_size=4000)
    assert solution.distribution().kolmogorov_smirnov(returns.costs)[0] < np.sqrt(np.log(2e6) / 8000)


@pytest.mark.parametrize("model", [Walk(), changed(Walk, horizon=3), changed(Walk, horizon=None)])
@pytest.mark.parametrize("policy", [lambda s, h: "fast", lambda s, h: "fast" if s[0] % 2 else "slow"])
def test_without_chance_it_is_what_is_played_one_by_one(model, policy):
    one, many = (evaluate(model, policy, episodes=5, seed=0, batch_size=size) for size in (None, 2))
    assert many.costs == pytest.approx(one.costs, rel=1e-12)


def test_seed_and_batch_size_fix_the_result():
    def play(seed, size, policy=order):
        return evaluate(Shop(), policy, episodes=500, seed=seed, batch_size=size)

    first = play(0, 100)
    assert np.array_equal(first.costs, play(0, 100).costs)
    assert np.array_equal(first.costs, play(0, 100, Orders()).costs)
    assert np.array_equal(first.costs[:300], evaluate(Shop(), order, episodes=300, seed=0, batch_size=100).costs)
    assert not np.array_equal(first.costs, play(1, 100).costs)
    assert not np.array_equal(first.costs, play(0, 250).costs)
    assert np.unique(first.costs.reshape(5, 100), axis=0).shape[0] == 5  # no batch repeats another


def test_they_are_nobodys_pairs():
    one = evaluate(Shop(), order, episodes=50, seed=0)
    many = evaluate(Shop(), order, episodes=50, seed=0, batch_size=50)
    other = evaluate(Shop(), lambda s, h: 0, episodes=50, seed=0, batch_size=50)
    for pair in ((one, many), (many, other)):
        with pytest.raises(OptionError, match="batch_size gave luck that no other sample shares"):
            compare(*pair, 0.1)


def test_episodes_without_an_end_are_left_and_counted():
    model = changed(Shop, horizon=None)
    returns = evaluate(model, order, episodes=400, seed=0, batch_size=100, max_steps=20)
    assert "of 400 episodes had not ended after 20 steps" in returns.notes[0]


@pytest.mark.parametrize(
    ("model", "policy", "options", "error", "text"),
    [
        (domains.make("mdp-4"), np.zeros(4, int), {}, OptionError, "has no step_many"),
        (domains.make("tiger"), lambda s, h: 0, {}, OptionError, "whose state is not seen has none"),
        (domains.make("battery"), lambda s, h: 0, {}, OptionError, "has no step_many"),
        (Shop(), Uct(Shop()), {}, OptionError, "a planner decides episode by episode"),
        (Shop(), order, {"batch_size": 0}, OptionError, "batch_size must be from 1 to 1000000, not 0"),
        (Shop(), order, {"iterations": 5}, OptionError, "a fixed policy takes none"),
        (Shop(), lambda s, h: 9, {}, StateError, "takes action 9 in state 5 at step 0, where it is not allowed"),
        (Shop(), lambda s, h: None, {}, StateError, "takes action None in state 5"),
        (changed(Shop, start="full"), order, {}, ModelError, "must be numbers or flat tuples of numbers"),
        (changed(Shop, start=((1, 2), 3)), order, {}, ModelError, "flat tuples of numbers"),
        (changed(Shop, step_many=lambda self, s, a, rng: 1 // 0), order, {}, SimulatorError, "raised ZeroDivision"),
        (changed(Shop, step_many=lambda self, s, a, rng: (s, a * np.nan, s > 9)), order, {}, SimulatorError,
         "step_many of 3 states of Changed at step 0: cost 0 is nan"),
        (changed(Shop, step_many=lambda self, s: s), order, {}, ModelError, "does not fit; expected step_many"),
        (Shop(), changed(Orders, act_many=lambda self, s, h: [1]), {}, OptionError, "1 actions for 3 states"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(model, policy, options, error, text):
    with pytest.raises(error, match=text):
        evaluate(model, policy, **({"episodes": 3, "seed": 0, "batch_size": 3} | options))


def together(**changes):
    """One draw for all rows; what ``changes`` say is done otherwise."""

    def step_many(self, states, actions, rng):
        draw = changes.get("draw", lambda n: rng.integers(0, 4, n))(len(states))
        left = np.maximum(states + changes.get("actions", actions) - draw, 0)
        short = 8.0 * np.maximum(draw - states - actions, 0)
        over = rng.random(len(states)) < changes.get("over", 0.05)
        return left, 2.0 * actions + short, over

    return step_many


FAULTS = {
    "one draw for all": (together(draw=lambda n: np.full(n, 2)), "distributed differently than by step"),
    "actions forgotten": (together(actions=0), "next state is distributed differently"),
    "ends too often": (together(over=0.2), "done is distributed differently than by step (by 0.1"),
    "its own chance": (together(draw=lambda n: np.random.randint(0, 4, n)), "same draws gave another outcome"),  # noqa: NPY002
    "a list of rows": (lambda self, s, a, rng: [(1, 2.0, True)] * len(s), "expected arrays (next_states, costs, done)"),
    "done of numbers": (lambda self, s, a, rng: (s, a * 1.0, s), "done is int64 of shape (1,); expected bool"),
    "a squeezed row": (lambda self, s, a, rng: (np.squeeze(s), a, s > 99), "next_states is int64 of shape ()"),
    "costs of objects": (lambda self, s, a, rng: (s, [None] * len(s), s > 99), "costs is object of shape (1,)"),
    "raises": (lambda self, s, a, rng: s[10**9], "raised IndexError"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_each_fault_of_step_many_is_found(kind):
    method, text = FAULTS[kind]
    assert text in str(check_simulator(changed(Shop, step_many=method), 0))


def test_sound_ones_pass():
    for model in (Shop(), Walk()):  # errs once in a million
        assert check_simulator(model, 0).ok
