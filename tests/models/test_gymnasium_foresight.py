"""No plan foresees what chance decides, wherever an environment keeps its generator."""

import numpy as np
import pytest

from tailwise import ErmMcts, GymnasiumSimulator, check_simulator
from tailwise.errors import ModelError
from tailwise.models.gymnasium import leak_check
from tailwise.models.gymnasium.actions import FiniteActions
from tailwise.models.gymnasium.leak_check import find_leak
from tailwise.models.gymnasium.private_env import PrivateEnv
from tailwise.models.gymnasium.snapshots import Copies

gymnasium = pytest.importorskip("gymnasium")

from models.hiding_places import FORESEEN, FOUND, UNREPEATABLE, Coins, Own  # noqa: E402

NAMED = {"ids": lambda make: make.__name__}


@pytest.mark.compiled
@pytest.mark.parametrize("make", FOUND, **NAMED)
def test_generators_that_are_reached_are_drawn_anew(make):
    model = GymnasiumSimulator(Coins(make))
    assert "law of" in " ".join(model.notes)
    # The mean of 1500 honest episodes is 5 with a standard error of 0.04; a search that chooses among averages of a
    # few promises up to 0.2 more. Foresight promises 9 and more.
    assert ErmMcts(model, 0.0, seed=0).plan(iterations=1500).value < 5.5
    assert check_simulator(model, 1, episodes=2).ok


@pytest.mark.parametrize("make", FORESEEN, **NAMED)
def test_futures_that_a_saved_state_tells_are_refused(make):
    with pytest.raises(ModelError, match="would foresee what chance decides"):
        GymnasiumSimulator(Coins(make))


@pytest.mark.parametrize("make", UNREPEATABLE, **NAMED)
def test_randomness_that_no_seed_repeats_is_refused(make):
    with pytest.raises(
        ModelError, match=r"same draws gave another reward|draws from NumPy's or Python's global generator"
    ):
        GymnasiumSimulator(Coins(make))


@pytest.mark.compiled
def test_the_future_may_be_known_on_request():
    make = next(each for each in FORESEEN if each.__name__ == "shuffled_deck")
    model = GymnasiumSimulator(Coins(make), foresight=True)
    assert any("the plan knows the future" in note and "reward" in note for note in model.notes)
    assert ErmMcts(model, 0.0, seed=0).plan(iterations=3000).value > 7


class Noisy(gymnasium.Env):
    """Pays 1 with probability ``chance``, by a generator in its state or by Gymnasium's, and noise by Gymnasium's."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(100)

    def __init__(self, chance, *, is_hidden, noise=0.0):
        self.chance, self.is_hidden, self.noise = chance, is_hidden, noise

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.key = 0, int(np.random.default_rng(seed).integers(2**62))
        return 0, {}

    def step(self, action):
        self.t += 1
        self.key = (self.key * 6364136223846793005 + 1442695040888963407) % 2**64
        drawn = (self.key >> 11) / 2**53 if self.is_hidden else self.np_random.random()
        reward = float(drawn < self.chance) + (self.noise * self.np_random.normal() if self.noise else 0.0)
        return self.t, reward, self.t == 50, False, {}


def refused(env, trials):
    """In how many of so many trials the check finds foresight."""
    private = PrivateEnv(env, FiniteActions(env.action_space, None, "noisy"))
    private.reset(0)
    private.method = Copies(private)
    return sum(bool(find_leak(private, 1000 * trial).fault) for trial in range(trials))


@pytest.mark.parametrize(
    ("chance", "noise", "least"), [(0.5, 0.0, 10), (0.05, 0.0, 10), (0.02, 0.0, 8), (0.5, 0.5, 10), (0.5, 1.0, 8)]
)
def test_power(chance, noise, least):
    assert refused(Noisy(chance, is_hidden=True, noise=noise), 10) >= least


@pytest.mark.compiled
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_honest_environments_are_refused_no_more_often_than_stated(noise, monkeypatch):
    env = Noisy(0.3, is_hidden=False, noise=noise)
    assert refused(env, 10) == 0  # at a rate of 1e-4, chance breaks this once in 1000
    # At a rate of 0.2, 25 trials: more than 13 with a probability below 1e-4.
    monkeypatch.setattr(leak_check, "ALPHA", 0.2)
    assert refused(env, 25) <= 13


def test_deterministic_environments_are_accepted_with_a_note():
    model = GymnasiumSimulator("MountainCar-v0", horizon=5)
    assert any("no step was random" in note and "knows all that the environment holds" in note for note in model.notes)


def test_a_generator_of_fixed_seed_is_no_foresight():
    # In reality each episode draws the same; to the planner its draws are unknown.
    model = GymnasiumSimulator(Coins(lambda seed, env: Own(3, env)))
    assert ErmMcts(model, 0.0, seed=0).plan(iterations=500).value < 6


class Ahead(gymnasium.Env):
    """Draws each coin one step before it counts, and shows only where it started."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(1000)

    def __init__(self, starts):
        self.starts = starts

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.coin = (int(self.np_random.integers(size)) for size in (self.starts, 2))
        return self.place, {}

    def step(self, action):
        win = float(self.coin == action)
        self.coin = int(self.np_random.integers(2))
        return self.place, win, False, False, {}


@pytest.mark.parametrize("starts", [1, 3, 60, 300])
def test_what_is_drawn_ahead_is_foreseen(starts):
    with pytest.raises(ModelError, match="its future is fixed beforehand"):
        GymnasiumSimulator(Ahead(starts), horizon=5)


def test_a_start_that_no_seed_repeats_leaves_nothing_to_compare():
    class Anywhere(Coins):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.place = np.random.default_rng().normal()
            return np.array([self.place]), {}

    make = next(each for each in FORESEEN if each.__name__ == "Key")
    with pytest.raises(ModelError, match="reset starts differently each time, even with one seed"):
        GymnasiumSimulator(Anywhere(make))


def test_blackjacks_hidden_card_is_no_reason_to_refuse_it():
    assert GymnasiumSimulator("Blackjack-v1", horizon=5).way == "attributes"
