"""The horizon is what ends an episode: the least that any wrapper leaves, not what ``env.spec`` says."""

import numpy as np
import pytest

from tailwise import ErmMcts, GymnasiumSimulator, TabularMDP, backward_induction
from tailwise.errors import ModelError

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.wrappers import (  # noqa: E402
    MaxAndSkipObservation,
    NormalizeObservation,
    NormalizeReward,
    TimeAwareObservation,
    TimeLimit,
    TransformReward,
)


class Walk(gymnasium.Env):
    """Pays 1 a step, for ever."""

    observation_space = gymnasium.spaces.Box(0, 1e6, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return self.seen(), {}

    def seen(self):
        return np.array([self.x], dtype="float32")

    def step(self, action):
        self.x += 1 + int(action)
        return self.seen(), 1.0, False, False, {}


class SelfLimited(Walk):
    """Ends its episodes itself, and says when."""

    _max_episode_steps = 130

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.t += 1
        observation, reward, *_ = super().step(action)
        return observation, reward, False, self.t >= self._max_episode_steps, {}


def steps_of(env):
    """Length of an episode, by playing it."""
    env.reset(seed=0)
    steps, is_end = 0, False
    while not is_end:
        _, _, terminated, truncated, _ = env.step(0)
        steps, is_end = steps + 1, terminated or truncated
    return steps


LIMITED = {
    "one's own environment": lambda: TimeLimit(Walk(), 8),
    "the inner limit is less": lambda: TimeLimit(TimeLimit(Walk(), 7), 20),
    "the outer limit is less": lambda: TimeLimit(TimeLimit(Walk(), 20), 7),
    "under a wrapper": lambda: TransformReward(TimeLimit(Walk(), 8), lambda reward: 2 * reward),
    "over and under a wrapper": lambda: TimeLimit(TransformReward(TimeLimit(Walk(), 6), lambda reward: reward), 9),
    "of frames": lambda: MaxAndSkipObservation(TimeLimit(Walk(), 10), skip=4),
    "of frames, and of decisions": lambda: TimeLimit(MaxAndSkipObservation(TimeLimit(Walk(), 40), skip=4), 6),
    "seen in the observation": lambda: TimeAwareObservation(TimeLimit(Walk(), 8)),
    "of the environment itself": SelfLimited,
    "beyond the environment's own": lambda: TimeLimit(SelfLimited(), 1000),
}
if gymnasium.__version__.startswith("1.0."):  # its wrapper asks the specification alone
    del LIMITED["seen in the observation"]


@pytest.mark.parametrize("make", LIMITED.values(), ids=LIMITED)
def test_an_episode_of_the_model_is_as_long_as_one_of_the_environment(make):
    expected = steps_of(make())
    model = GymnasiumSimulator(make(), **({"horizon": 1000} if make is LIMITED["beyond the environment's own"] else {}))
    assert model.horizon in (expected, 1000)
    assert not any("no time limit" in note for note in model.notes)
    state, taken, done = model.start, 0, False
    rng = np.random.default_rng(0)
    while taken < model.horizon and not done:
        state, _, done = model.step(state, 0, rng)
        taken += 1
    assert taken == expected


def test_the_value_is_that_of_the_limited_episode():
    plan = ErmMcts(GymnasiumSimulator(TimeLimit(Walk(), 8)), 0.0, seed=0).plan(iterations=50)
    assert plan.value == 8.0


def test_a_wrapper_over_a_registered_environment_does_not_lift_its_limit():
    assert GymnasiumSimulator(TimeLimit(gymnasium.make("CartPole-v1"), 10_000)).horizon == 500
    assert GymnasiumSimulator(gymnasium.make("CartPole-v1", max_episode_steps=40)).horizon == 40
    endless = GymnasiumSimulator(gymnasium.make("CartPole-v1", max_episode_steps=-1))
    assert endless.horizon == 100
    assert any("no time limit" in note for note in endless.notes)


def test_the_rest_of_the_nearest_limit_is_planned():
    env = TimeLimit(TimeLimit(Walk(), 10), 12)
    env.reset(seed=0)
    for _ in range(3):
        env.step(0)
    model = GymnasiumSimulator(env)
    assert model.horizon == 7
    assert any("3 of the 10 steps of the time limit" in note for note in model.notes)
    skipping = MaxAndSkipObservation(TimeLimit(Walk(), 10), skip=2)
    skipping.reset(seed=0)
    skipping.step(0)
    assert GymnasiumSimulator(skipping).horizon == 4


def test_a_table_has_the_nearest_limit_too():
    inner = gymnasium.make("FrozenLake-v1")  # 100 steps
    table = TabularMDP.from_gymnasium(TimeLimit(inner, 200))
    assert table.horizon == 100
    # by plain backward induction in test_gymnasium_table: 0.7442 in 100 steps, 0.8235 in 200
    assert backward_induction(table, 0.0).value == pytest.approx(0.7442, abs=5e-5)
    assert TabularMDP.from_gymnasium(TimeLimit(gymnasium.make("FrozenLake-v1").unwrapped, 60)).horizon == 60


@pytest.mark.parametrize("wrapper", [NormalizeReward, NormalizeObservation])
def test_scales_that_run_with_the_history_are_refused_until_they_stand(wrapper):
    """What a step shows would depend on what was simulated before it."""
    env = wrapper(TimeLimit(Walk(), 5))
    for read in (GymnasiumSimulator, TabularMDP.from_gymnasium):
        with pytest.raises(ModelError, match=rf"{wrapper.__name__} scales .* running history .*= False on the"):
            read(env)
    env.reset(seed=0)
    for _ in range(3):
        env.step(1)
    env.update_running_mean = False
    assert ErmMcts(GymnasiumSimulator(env), 0.1, seed=0).plan(iterations=50).iterations == 50
