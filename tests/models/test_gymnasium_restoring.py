"""Restored states behave as the first time, wherever an environment keeps its state; own ends, masks, refusals."""

import copy
import pickle
import warnings

import numpy as np
import pytest

from tailwise import Discretized, ErmMcts, GymnasiumSimulator, check_simulator
from tailwise.errors import ModelError, OptionError, SimulatorError, StateError
from tailwise.models.gymnasium.copying import Copier, find_generators

gymnasium = pytest.importorskip("gymnasium")

from models.hiding_places import STATES, SlottedSum, Sums  # noqa: E402


@pytest.mark.compiled
@pytest.mark.parametrize("make", STATES, ids=lambda make: make.__name__)
def test_state_is_restored_wherever_it_is_hidden(make):
    if make.__name__ == "Frame":
        pytest.importorskip("pandas")
    model = GymnasiumSimulator(Sums(make), horizon=6)
    rng = np.random.default_rng(0)
    four = [model.step(model.start, 1, rng) for _ in range(4)]
    assert [(state.observation, reward) for state, reward, _ in four] == [(1, 1.0)] * 4
    state = four[0][0]
    for action, total in ((1, 2), (0, 2), (1, 3)):
        state, reward, _ = model.step(state, action, rng)
        assert (state.observation, reward) == (total, total)
    assert model.step(four[2][0], 0, rng)[1] == 1.0
    # 1 + 2 + ... + 6, less what trying the other action once costs on average
    assert ErmMcts(model, 0.0, seed=0).plan(iterations=600).value == pytest.approx(21, abs=1.0)
    assert check_simulator(model, 2, episodes=3).ok


class Wrapped(gymnasium.Wrapper):
    """Adds up in the wrapper."""

    def reset(self, **options):
        self.totals = {"all": [0]}
        return self.env.reset(**options)

    def step(self, action):
        self.totals["all"][0] += action
        _, _, *rest = self.env.step(action)
        return self.totals["all"][0], float(self.totals["all"][0]), *rest


def test_state_in_a_wrapper_is_restored():
    model = GymnasiumSimulator(Wrapped(Sums(lambda: lambda action: 0)), horizon=6)
    rng = np.random.default_rng(0)
    assert [model.step(model.start, 1, rng)[1] for _ in range(3)] == [1.0, 1.0, 1.0]


class Moods(Sums):
    """Its state holds texts, which copies share or do not."""

    def __init__(self):
        super().__init__(SlottedSum)

    def step(self, action):
        self.before, self.mood = self.__dict__.get("mood", "calm"), ("calm", "cross")[action]
        return super().step(action)


def test_searches_on_one_model_are_alike():
    model = GymnasiumSimulator(Moods(), horizon=12)
    assert model.way == "copy"
    plans = [ErmMcts(model, 0.1, seed=0).plan(iterations=300) for _ in range(3)]
    assert len({(plan.nodes, plan.value) for plan in plans}) == 1


def test_a_state_keeps_what_was_seen_and_ends():
    class Buffer(OwnEnd):
        shown = np.zeros(2)

        def step(self, action):
            _, *rest = super().step(action)
            self.shown[:] = self.t
            return {"shown": self.shown}, *rest

    model = GymnasiumSimulator(Buffer(), horizon=10)
    rng = np.random.default_rng(0)
    path = [model.start]
    for _ in range(5):
        state, _, done = model.step(path[-1], 0, rng)
        path.append(state)
    assert [state.observation["shown"][0] for state in path[1:]] == [1, 2, 3, 4, 5]
    assert done
    with pytest.raises(StateError, match="the episode has ended"):
        model.step(path[-1], 0, rng)


def test_a_horizon_beyond_the_time_limit_is_noted():
    assert any("beyond the environment's time limit" in note for note in GymnasiumSimulator("CartPole-v1", 600).notes)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("make", [lambda: Sums(SlottedSum), lambda: Gates("info")])
def test_a_copied_model_plans_alike(make, again):
    model = GymnasiumSimulator(make(), horizon=6)
    first, second = (ErmMcts(each, 0.1, seed=0).plan(iterations=100) for each in (model, again(model)))
    assert (first.value, first.nodes) == (second.value, second.nodes)


class Late(gymnasium.Env):
    """Lets the outside in from its 40th step on: too late for the check at the start."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(100)
    outside = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return 0, {}

    def step(self, action):
        self.t += 1
        Late.outside += 1
        return self.t, float(Late.outside if self.t > 40 else 0), False, False, {}


def test_the_search_itself_finds_what_the_first_check_could_not_see():
    model = GymnasiumSimulator(Late(), horizon=60)
    with pytest.raises(
        SimulatorError, match=r"did not repeat itself: from the state 4\d .*the action .*another reward"
    ):
        ErmMcts(model, 0.0, seed=0).plan(iterations=3000)


def test_a_way_that_takes_two_states_for_one_is_refused():
    def restore(env, payload):
        env.unwrapped.add = Total(payload.value)

    with pytest.raises(ModelError, match="takes two states for one"):
        GymnasiumSimulator(Sums(Total), horizon=6, save=lambda env: Blind(env.unwrapped.add.total), restore=restore)


class Total:
    def __init__(self, total=0):
        self.total = total

    def __call__(self, action):
        self.total += action
        return self.total


class Blind:
    """A saved state whose content does not show."""

    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return Blind, (0,)


class OwnEnd(gymnasium.Env):
    """Truncates itself at its fifth step; costs 1 + action."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(10)

    def __init__(self, *, raises=False):
        self.raises = raises

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return 0, {}

    def step(self, action):
        if self.raises and self.t >= 5:
            raise RuntimeError("the episode is over")
        self.t += 1
        return self.t, -1.0 - action, False, self.t >= 5, {}


@pytest.mark.parametrize("raises", [False, True])
def test_an_environments_own_truncation_ends_the_episode(raises):
    model = GymnasiumSimulator(OwnEnd(raises=raises), horizon=10)
    assert any("truncates episodes by itself" in note for note in model.notes)
    plan = ErmMcts(model, 0.0, seed=0).plan(iterations=1000)
    assert plan.action == 0
    assert plan.value == pytest.approx(-5.0, abs=0.3)
    always = ErmMcts(GymnasiumSimulator(OwnEnd(raises=raises), horizon=10, actions=[0]), 0.0, seed=0)
    assert always.plan(iterations=20).value == pytest.approx(-5.0)


def test_a_time_limit_under_a_wrapper_does_not_end_the_planners_episodes():
    env = gymnasium.wrappers.TransformReward(
        gymnasium.make("CartPole-v1", max_episode_steps=8), lambda reward: 2 * reward
    )
    model = GymnasiumSimulator(env)
    assert model.horizon == 8
    assert ErmMcts(model, 0.0, seed=0).plan(iterations=60).value == pytest.approx(16.0)
    assert not any("truncates" in note for note in model.notes)


def test_an_environment_under_way_has_the_rest_of_its_time():
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    for _ in range(3):
        env.step(0)
    model = GymnasiumSimulator(env)
    assert model.horizon == 497
    assert any("3 of the 500 steps" in note for note in model.notes)


class Shut(gymnasium.spaces.Discrete):
    """A subclass of Discrete."""


class Gates(gymnasium.Env):
    """Action 1 is legal at odd steps, action 2 after the third; it says so, or raises."""

    action_space = Shut(3)
    observation_space = gymnasium.spaces.Discrete(10)

    def __init__(self, how):
        self.how = how
        if how == "method":
            self.action_masks = self.mask

    def mask(self):
        return np.array([1, self.t % 2, self.t > 2], dtype=np.int8)

    def answer(self):
        told = {"action_mask": self.mask()} if self.how == "info" else {}
        return ({"action_mask": self.mask(), "t": self.t} if self.how == "observation" else self.t), told

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.answer()

    def step(self, action):
        if not self.mask()[action]:
            raise ValueError(f"{action} is illegal")
        self.t += 1
        observation, info = self.answer()
        return observation, float(action), False, False, info


@pytest.mark.parametrize("how", ["info", "method", "observation", "exception"])
def test_only_legal_actions_are_considered(how):
    model = GymnasiumSimulator(Gates(how), horizon=5)
    rng = np.random.default_rng(0)
    state, legal = model.start, []
    for _ in range(5):
        legal.append(model.actions(state))
        state, _, _ = model.step(state, 0, rng)
    assert legal == [(0,), (0, 1), (0,), (0, 1, 2), (0, 2)]
    # The best is 0 + 1 + 0 + 2 + 2, less what trying the others costs on average.
    assert ErmMcts(model, 0.0, seed=0).plan(iterations=2000).value == pytest.approx(5.0, abs=0.2)
    assert any(("mask" if how != "exception" else "taken for illegal (ValueError") in note for note in model.notes)


def test_the_mask_of_a_live_environment_is_in_its_info():
    model, env = GymnasiumSimulator(Gates("info"), horizon=5), Gates("info")
    _, info = env.reset(seed=0)
    assert model.actions(model.state_of(env, info)) == (0,)
    assert model.actions(model.state_of(env)) == (0, 1, 2)


def test_masks_of_several_components():
    class Pair(gymnasium.Env):
        action_space = gymnasium.spaces.MultiDiscrete([2, 3])
        observation_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {"action_mask": np.array([1, 0, 0, 1, 1])}

        def step(self, action):
            return 0, float(action[1]), False, False, {"action_mask": np.array([1, 0, 0, 1, 1])}

    model = GymnasiumSimulator(Pair(), horizon=3)
    assert model.actions(model.start) == ((0, 1), (0, 2))


def test_what_is_not_one_environment_with_one_reward_is_refused_by_name():
    class Two(OwnEnd):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, np.array([reward, 1.0]), *rest

    class Old(OwnEnd):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0]

    class Many(OwnEnd):
        possible_agents = ("a", "b")

    with pytest.raises(ModelError, match="reward is a vector of 2 numbers"):
        GymnasiumSimulator(Two(), horizon=5)
    with pytest.raises(ModelError, match="interface of the old gym library"):
        GymnasiumSimulator(Old(), horizon=5)
    with pytest.raises(ModelError, match=r"Many has several agents"):
        GymnasiumSimulator(Many(), horizon=5)
    vector = gymnasium.make_vec("CartPole-v1", num_envs=2)
    with pytest.raises(ModelError, match="is a vector environment"):
        GymnasiumSimulator(vector)


def test_a_box_of_integers_is_never_rounded():
    class Steps(OwnEnd):
        action_space = gymnasium.spaces.Box(0, 3, (1,), dtype=np.int8)

        def step(self, action):
            return super().step(int(action[0]))

    model = GymnasiumSimulator(Steps(), horizon=5, actions=Discretized(levels=3))
    rng = np.random.default_rng(0)
    assert [(action, model.step(model.start, action, rng)[1]) for action in model.actions(model.start)] == [
        ((0.0,), -1.0),
        ((2.0,), -3.0),
        ((3.0,), -4.0),
    ]
    with pytest.raises(OptionError, match=r"\(0\.5,\) must hold integers"):
        GymnasiumSimulator(Steps(), horizon=5, actions=[0.5])


def test_a_copy_shares_no_closure_and_no_generator():
    def counting():
        count, source = 0, np.random.default_rng(0)

        def more():
            nonlocal count
            count += 1
            return count, source

        return more

    first, copier = counting(), Copier()
    data = copier.freeze(first)
    second, generators = copier.thaw(data)
    assert [first()[0], first()[0], second()[0]] == [1, 2, 1]
    assert second()[1] is generators[0] is not first()[1]
    assert find_generators([first, first]) == [first()[1]]
    assert copier.freeze(counting())[-40:] == data[-40:]  # the state of a generator is not in it


def test_users_functions_are_left_alone():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = Sums(STATES[5])  # its sum is in a closure
        env.reset(seed=0)
        env.step(1)
        GymnasiumSimulator(env, horizon=5)
        assert env.step(1)[0] == 2
