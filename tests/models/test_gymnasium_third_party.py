"""Environments from PyPI; each is skipped where it is not installed.

``pip install --no-deps minigrid gym-simplegrid gymnasium-2048 glucosim gym-anytrading mo-gymnasium popgym``
"""

import importlib

import numpy as np
import pytest

from tailwise import Discretized, ErmMcts, GymnasiumSimulator, check_simulator
from tailwise.errors import ModelError

gymnasium = pytest.importorskip("gymnasium")
pytestmark = pytest.mark.filterwarnings("ignore")


def make(module, name, **options):
    try:
        package = importlib.import_module(module)
    except ImportError as error:
        pytest.skip(f"{module}: {error}")
    gymnasium.register_envs(package)
    return gymnasium.make(name, **options)


def continuous(env):
    return Discretized(levels=2) if isinstance(env.action_space, gymnasium.spaces.Box) else None


@pytest.mark.parametrize(
    ("module", "name", "way", "note"),
    [
        ("minigrid", "MiniGrid-Empty-5x5-v0", "attributes", "no step was random"),
        ("minigrid", "MiniGrid-LavaGapS5-v0", "copy", "no step was random"),
        ("minigrid", "MiniGrid-Dynamic-Obstacles-5x5-v0", "copy", "follow the law"),
        ("gymnasium_2048", "gymnasium_2048/TwentyFortyEight-v0", "attributes", "follow the law"),
        ("glucosim", "glucosim/BasalControl-v0", "copy", "no two seeds start alike"),
        ("gym_anytrading", "stocks-v0", "copy", "knows all that the environment holds"),  # the prices to come, too
        ("popgym", "popgym-NoisyPositionOnlyCartPoleEasy-v0", "attributes", "follow the law"),
        ("popgym", "popgym-MultiarmedBanditEasy-v0", "attributes", "may know more than a player sees"),  # the best arm
    ],
)
def test_environments_that_can_be_planned_on(module, name, way, note):
    env = make(module, name)
    model = GymnasiumSimulator(env, horizon=8, actions=continuous(env))
    assert model.way == way
    assert any(note in each for each in model.notes)
    first, second = (ErmMcts(model, 0.01, seed=2).plan(iterations=30) for _ in range(2))
    assert [(row.visits, row.erm) for row in first.rows] == [(row.visits, row.erm) for row in second.rows]
    assert check_simulator(model, 3, episodes=2, steps=8).ok


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("minigrid", "MiniGrid-DoorKey-5x5-v0"),  # where the key and the door are
        ("gym_simplegrid", "SimpleGrid-4x4-v0"),  # where the goal is
        ("popgym", "popgym-BattleshipEasy-v0"),  # where the ships are
        ("popgym", "popgym-AutoencodeEasy-v0"),  # the deck
    ],
)
def test_what_a_player_does_not_see_is_known_on_request_only(module, name):
    env = make(module, name)
    with pytest.raises(ModelError, match="would foresee what chance decides: its future is fixed beforehand"):
        GymnasiumSimulator(env, horizon=8)
    model = GymnasiumSimulator(env, horizon=8, foresight=True)
    assert any("the plan knows the future" in note for note in model.notes)
    assert ErmMcts(model, 0.01, seed=0).plan(iterations=20).iterations == 20


def test_rewards_of_several_objectives_must_be_weighed():
    env = make("mo_gymnasium", "deep-sea-treasure-v0")
    with pytest.raises(
        ModelError, match=r"deep-sea-treasure-v0 cannot be planned on: its reward is a vector of 2 numbers"
    ):
        GymnasiumSimulator(env, horizon=8)
    weighed = importlib.import_module("mo_gymnasium").wrappers.LinearReward(env, weight=np.array([0.5, 0.5]))
    assert GymnasiumSimulator(weighed, horizon=8).way == "attributes"
