"""An environment that was changed after it was made is planned on as it is, or refused."""

import copy

import numpy as np
import pytest

from tailwise import ErmMcts, GymnasiumSimulator
from tailwise.errors import ModelError, StateError

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.utils import EzPickle  # noqa: E402


class Toll(gymnasium.Env):
    """Three times: pay the toll (1 at first) or go round (2)."""

    observation_space = gymnasium.spaces.Discrete(9)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.prices = [1.0, 1.0, 1.0]
        self.detour = 2.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return 0, {}

    def step(self, action):
        self.t += 1
        return self.t, -self.prices[self.t - 1] if action else -self.detour, self.t == 3, False, {}


class EzToll(Toll, EzPickle):
    """Pickled as it was made."""

    def __init__(self):
        EzPickle.__init__(self)
        super().__init__()


class WithWindow(EzToll):
    """Holds what cannot be pickled, so that only ``EzPickle`` and ``deepcopy`` copy it: as it was made."""

    def __init__(self):
        super().__init__()
        self.window = (each for each in ())


class Remade(Toll):
    """Its own ``__deepcopy__`` and ``__reduce__`` make it anew."""

    def __reduce__(self):
        return type(self), ()

    def __deepcopy__(self, memo):
        return type(self)()


class Priced(gymnasium.Wrapper, EzPickle):
    """The prices stand in a wrapper that is pickled as it was made."""

    def __init__(self, env):
        EzPickle.__init__(self, env)
        super().__init__(env)
        self.factor = [1.0]

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        return observation, reward * self.factor[0] if action else reward, *rest


def value(env):
    return ErmMcts(GymnasiumSimulator(env, horizon=3, actions=None), 0.0, seed=0).plan(iterations=300)


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("make", [Toll, EzToll])
def test_changes_are_kept(make, is_reset):
    env = make()
    env.prices = [100.0] * 3
    if is_reset:
        env.reset(seed=0)
    plan = value(env)
    assert plan.action == 0
    assert (
        GymnasiumSimulator(env, horizon=3, actions=[1]).rollout(
            GymnasiumSimulator(env, horizon=3, actions=[1]).start, 0, np.random.default_rng(0)
        )[0]
        == -300.0
    )


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_change_in_place_is_kept(is_reset):
    env = EzToll()
    env.prices[1] = 50.0
    if is_reset:
        env.reset(seed=0)
    model = GymnasiumSimulator(env, horizon=3, actions=[1])
    assert model.rollout(model.start, 0, np.random.default_rng(0)) == (-52.0, 3)


def test_a_change_of_a_wrapper_is_kept():
    env = Priced(EzToll())
    env.factor[0] = 7.0
    model = GymnasiumSimulator(env, horizon=3, actions=[1])
    assert model.rollout(model.start, 0, np.random.default_rng(0)) == (-21.0, 3)


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("make", [WithWindow, Remade])
@pytest.mark.parametrize(
    ("name", "change"), [("prices", [100.0] * 3), ("detour", 0.5), ("novel", 3.0)], ids=["list", "number", "new"]
)
def test_changes_that_cannot_be_copied_are_refused(make, name, change, is_reset):
    env = make()
    setattr(env, name, change)
    if is_reset:
        env.reset(seed=0)
    with pytest.raises(ModelError, match=f"what was changed after it was made is lost: {name}"):
        GymnasiumSimulator(env, horizon=3)


@pytest.mark.parametrize("make", [WithWindow, Remade])
def test_what_is_copied_as_it_was_made_is_fine_where_nothing_was_changed(make):
    env = make()
    assert value(env).value == pytest.approx(-3.0, abs=0.3)
    env.reset(seed=0)
    env.step(1)
    assert GymnasiumSimulator(env, horizon=3).start.observation in (1, "a live state")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("outer", [Priced, lambda env: gymnasium.wrappers.TransformReward(env, float)])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_what_checks_of_the_caller_remember_is_no_change(outer, steps):
    env = outer(gymnasium.wrappers.OrderEnforcing(gymnasium.wrappers.PassiveEnvChecker(Remade())))
    env.reset(seed=0)
    for _ in range(steps):
        env.step(1)
    model = GymnasiumSimulator(env, horizon=3 - steps, actions=[1])
    assert model.rollout(model.start, 0, np.random.default_rng(0)) == (steps - 3.0, 3 - steps)
    env.unwrapped.prices = [9.0] * 3
    with pytest.raises(StateError, match="prices"):
        model.state_of(env)


def test_a_live_environment_that_differs_from_the_model_is_no_state_of_it():
    model, env = GymnasiumSimulator(Toll(), horizon=3), Toll()
    env.prices = [100.0] * 3
    env.reset(seed=0)
    with pytest.raises(StateError, match=r"prices.*is it the same environment"):
        model.state_of(env)
    assert model.state_of(copy.deepcopy(model._private.env)) is not None


@pytest.mark.filterwarnings("ignore")
def test_mujoco_with_other_gravity_and_masses():
    pytest.importorskip("mujoco")
    env = gymnasium.make("Hopper-v5")
    env.unwrapped.model.opt.gravity[2] = -30.0
    env.unwrapped.model.body_mass[1] *= 5.0
    env.reset(seed=3)
    actions = [(0.5, -0.5, 0.5), (-0.5, 0.5, 0.0)]
    model = GymnasiumSimulator(env, horizon=4, actions=actions)
    again = copy.deepcopy(model.start)
    rng, state = np.random.default_rng(0), again
    for action in (actions[0], actions[1], actions[0]):
        state, reward, done = model.step(state, action, rng)
        observation, expected, terminated, _, _ = env.step(np.array(action, dtype=np.float32))
        assert reward == expected
        assert np.array_equal(state.observation, observation)
        assert done == terminated
        if done:
            break
