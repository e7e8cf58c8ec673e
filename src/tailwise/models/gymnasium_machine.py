"""The planner's private environment, stepped with draws from the planner."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tailwise.errors import ModelError
from tailwise.models.copying import Copier, find_generators, reseed
from tailwise.models.gymnasium_actions import FiniteActions

SCALARS = (type(None), bool, int, float, complex, str, bytes, np.generic)
_BUGS = (TypeError, AttributeError, NameError, NotImplementedError, MemoryError)  # not what refuses an action
_HARMLESS = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker")
_NEVER = 2**62


class UnsuitableError(ModelError):
    """Raised when an environment is not one that can be planned on, however it is saved."""


class Outcome(NamedTuple):
    """What one step shows."""

    observation: Any
    reward: float
    is_end: bool
    allowed: tuple[int, ...] | None


class Machine:
    """An environment; a way to save it may replace ``env`` as a whole, or ask for a ``record``."""

    def __init__(self, env: Any, actions: FiniteActions) -> None:
        self.env = env
        self.actions = actions
        self.record: Record | None = None
        self.is_recording = False
        self.generators: list[Any] = []
        self.has_generators = True
        self.allowed: tuple[int, ...] | None = None
        self.is_masked = True
        self.truncates = False
        self.refusal = ""
        self.varying: set[tuple[int, str]] = set()  # attributes that are known to change, by their layer

    @property
    def core(self) -> Any:
        """The environment below all wrappers."""
        return self.env.unwrapped

    def adopt(self, env: Any, generators: list[Any]) -> None:
        """Take over another environment, with the generators inside it."""
        self.env, self.generators = env, generators

    def lend(self, rng: np.random.Generator) -> None:
        """Let the environment draw from ``rng``; what other generators it holds are seeded from it."""
        self.core._np_random = rng
        if self.generators:
            reseed(self.generators, rng)

    def reset(self, seed: int) -> Any:
        """Reset the environment; return the observation."""
        answer = self.env.reset(seed=seed)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise UnsuitableError(
                "its reset does not return (observation, info): it has the interface of the old gym library"
            )
        observation, info = answer
        self.record = Record(None, seed, 0, hash(("reset", seed))) if self.is_recording else None
        if self.has_generators:
            given = getattr(self.core, "_np_random", None)
            self.generators = [each for each in find_generators(self.env) if each is not given]
        if self.is_masked:
            self.allowed = self.actions.allowed(self.env, observation, info)
        return observation

    def step(self, action: Any, rng: np.random.Generator) -> Outcome:
        """Step the environment with draws from ``rng``."""
        if not self.is_recording:
            self.lend(rng)
            return self.go_on(action)
        seed = int(rng.integers(2**63))
        before, self.record = self.record, None
        lent = seeded(seed)
        self.lend(lent)
        outcome = self.go_on(action)
        if lent.integers(2**63) == seeded(seed).integers(2**63):
            seed = 0  # it drew nothing: whoever comes here by this action comes to the same state
        self.record = None if before is None else before.then(action, seed)
        return outcome

    def go_on(self, action: Any) -> Outcome:
        """Step the environment with whatever it draws from now."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if truncated and not terminated:
            self.truncates = True
        if self.is_masked:
            self.allowed = self.actions.allowed(self.env, observation, info)
        reward = reward if type(reward) is float else number(reward)
        return Outcome(observation, reward, bool(terminated or truncated), self.allowed)

    def try_step(self, picks: np.random.Generator, rng: np.random.Generator | None) -> tuple[Any, Outcome]:
        """Step with a random action and draws from ``rng``, or what was lent; if one raises, try another."""
        left = self.legal()
        while True:
            action = left[int(picks.random() * len(left))] if len(left) > 1 else left[0]
            try:
                return action, self.go_on(action) if rng is None else self.step(action, rng)
            except Exception as error:
                self.refused(error)
                left = [each for each in left if each is not action]
                if not left:
                    raise

    def refused(self, error: Exception) -> None:
        """Take what an action raised for a refusal; raise it where it tells of a bug."""
        if isinstance(error, (*_BUGS, UnsuitableError)):
            raise error
        self.refusal = self.refusal or f"{type(error).__name__}: {error}"

    def legal(self) -> list[Any]:
        """Return the actions that the mask allows now, as the environment takes them."""
        if self.allowed is None:
            return self.actions.natives
        if not self.allowed:
            raise UnsuitableError("its mask allows no action, and the episode has not ended")
        return [self.actions.natives[i] for i in self.allowed]


class Record:
    """How a state came about: the reset's seed, or an action with the seed of its draws after another record."""

    __slots__ = ("action", "before", "key", "seed")

    def __init__(self, before: Record | None, seed: int, action: Any, key: int) -> None:
        self.before, self.seed, self.action, self.key = before, seed, action, key

    def then(self, action: Any, seed: int) -> Record:
        """Return the record of one step more."""
        return Record(self, seed, action, hash((self.key, freeze(action), seed)))


def seeded(seed: int) -> np.random.Generator:
    """Return the generator of a recorded step."""
    return np.random.Generator(np.random.SFC64(seed))


def number(reward: Any) -> float:
    """Return a reward as a float; rewards of several objectives are refused by name."""
    if isinstance(reward, (float, int)):
        return float(reward)
    if np.size(reward) != 1:
        raise UnsuitableError(
            f"its reward is a vector of {np.size(reward)} numbers, {reward}; planning needs one: weigh them "
            "in a wrapper (gymnasium.Wrapper, mo_gymnasium's LinearReward)"
        )
    return float(np.asarray(reward).item())


def wrappers(env: Any) -> Iterator[Any]:
    """Yield an environment and everything that it wraps, from the outside in."""
    while env is not env.unwrapped:
        yield env
        env = env.env
    yield env


def strip(env: Any) -> Any:
    """Remove the outer wrappers that only count steps or check the caller."""
    return next(each for each in wrappers(env) if each is env.unwrapped or type(each).__name__ not in _HARMLESS)


class TimeLimit(NamedTuple):
    """A limit that some wrapper sets: on steps of its own, of which a decision may take several."""

    limit: int
    taken: int

    @property
    def left(self) -> int:
        """How many more it allows."""
        return self.limit - self.taken if self.taken < self.limit else self.limit


def time_limits(env: Any) -> list[TimeLimit | None]:
    """Return for the environment and each wrapper, from the inside out, the time limit that it sets."""
    limits = []
    for each in wrappers(env):
        held = vars(each)
        is_limit = "_max_episode_steps" in held and "_elapsed_steps" in held
        limits.append(TimeLimit(held["_max_episode_steps"], held["_elapsed_steps"] or 0) if is_limit else None)
    return limits[::-1]


def lift_limits(env: Any) -> Any:
    """Let no time limit inside a private environment end its episodes; the planner counts steps itself."""
    for each, limit in zip(wrappers(env), reversed(time_limits(env)), strict=True):
        if limit is not None:
            each._max_episode_steps = _NEVER
    return env


def freeze(value: Any) -> Hashable:
    """Return a hashable stand-in for data, equal where the data are equal."""
    if isinstance(value, SCALARS):
        value = value.item() if isinstance(value, np.generic) else value
        return value if value == value else "nan"
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes() if value.dtype != object else freeze(value.tolist()))
    if isinstance(value, dict):
        return ("dict", frozenset((freeze(key), freeze(item)) for key, item in value.items()))
    if isinstance(value, (set, frozenset)):
        return ("set", frozenset(map(freeze, value)))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, tuple(map(freeze, value)))
    try:
        return Copier().freeze(value)
    except Exception:  # it cannot be looked into
        return type(value).__name__
