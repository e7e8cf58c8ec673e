"""The planner's private environment, stepped with draws from the planner; and what wraps an environment."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from tailwise._lazy import own_module
from tailwise.errors import ModelError, UnknownNameError, require
from tailwise.models.gymnasium.actions import FiniteActions
from tailwise.models.gymnasium.copying import find_generators, freeze, reseed

if TYPE_CHECKING:
    import gymnasium

Env: TypeAlias = "gymnasium.Env[Any, Any]"
Saved: TypeAlias = tuple[Hashable, Any]  # key and payload of a snapshot
_BUGS = (TypeError, AttributeError, NameError, NotImplementedError, MemoryError)  # not what refuses an action
CALLER_CHECKS = ("OrderEnforcing", "PassiveEnvChecker")  # all that they hold is what the caller has done
_HARMLESS = (
    *("TimeLimit", *CALLER_CHECKS),
    *("RecordEpisodeStatistics", "RecordVideo", "HumanRendering", "RenderCollection"),
)
_NEVER = 2**62


class UnsuitableError(ModelError):
    """Raised when an environment is not one that can be planned on, however it is saved."""


class StepResult(NamedTuple):
    """What one step shows; ``allowed`` are the positions of the actions that a mask allows next."""

    observation: Any
    reward: float
    is_end: bool
    allowed: tuple[int, ...] | None


class Snapshot(NamedTuple):
    """A saved environment: ``key`` tells it from others, ``payload`` brings it back; the actions legal there."""

    key: Hashable
    payload: Any
    allowed: tuple[int, ...] | None = None


class SnapshotMethod(Protocol):
    """One way to save and restore: ``is_plain`` if all that it saves is data, which can hold no generator."""

    name: str
    is_plain: bool
    keeps_keys: bool  # whether the key of a state is the same if its last step began at a restored state

    def save(self, private: PrivateEnv) -> Saved:
        """Return key and payload of the environment's present state."""

    def restore(self, private: PrivateEnv, payload: Any) -> None:
        """Bring back a saved state."""


class PrivateEnv:
    """An environment of the planner's own; its snapshot method may replace ``env``, or ask for a ``history``."""

    def __init__(self, env: Any, actions: FiniteActions) -> None:
        self.env = env
        self.actions = actions
        self.method: SnapshotMethod
        self.history: History | None = None
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

    def save(self) -> Snapshot:
        """Save the environment with the actions that are legal now."""
        return Snapshot(*self.method.save(self), self.allowed)

    def restore(self, snapshot: Snapshot) -> None:
        """Bring back a saved state with its legal actions."""
        self.method.restore(self, snapshot.payload)
        self.allowed = snapshot.allowed

    def adopt(self, env: Any, generators: list[Any]) -> None:
        """Take over another environment, with the generators inside it."""
        self.env = env
        given = getattr(env.unwrapped, "_np_random", None)
        self.generators = [each for each in generators if each is not given]

    def lend(self, rng: np.random.Generator) -> None:
        """Let the environment draw from ``rng``; what other generators it holds are seeded from it."""
        self.core._np_random = rng
        if self.generators:
            reseed(self.generators, rng)

    def reset(self, seed: int) -> object:
        """Reset the environment; return the observation."""
        answer = self.env.reset(seed=seed)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise UnsuitableError(
                "its reset does not return (observation, info): it has the interface of the old gym library"
            )
        observation, info = answer
        self.history = History(None, seed, 0, hash(("reset", seed))) if self.is_recording else None
        if self.has_generators:
            self.adopt(self.env, find_generators(self.env))
        if self.is_masked:
            self.allowed = self.actions.allowed(self.env, observation, info)
        return observation

    def step(self, action: Any, rng: np.random.Generator) -> StepResult:
        """Step the environment with draws from ``rng``."""
        if not self.is_recording:
            self.lend(rng)
            return self.go_on(action)
        seed = int(rng.integers(2**63))
        before, self.history = self.history, None
        lent = seeded(seed)
        self.lend(lent)
        result = self.go_on(action)
        if lent.integers(2**63) == seeded(seed).integers(2**63):
            seed = 0  # it drew nothing: whoever comes here by this action comes to the same state
        if before is not None:
            self.history = History(before, seed, action, hash((before.key, freeze(action), seed)))
        return result

    def go_on(self, action: Any) -> StepResult:
        """Step the environment with whatever it draws from now."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated is None or truncated is None:
            raise TypeError(f"step gave terminated={terminated!r} and truncated={truncated!r}; expected bools")
        if truncated and not terminated:
            self.truncates = True
        if self.is_masked:
            self.allowed = self.actions.allowed(self.env, observation, info)
        reward = reward if type(reward) is float else number(reward)
        return StepResult(observation, reward, bool(terminated or truncated), self.allowed)

    def try_step(self, picks: np.random.Generator, rng: np.random.Generator | None) -> tuple[object, StepResult]:
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

    def legal(self) -> list[object]:
        """Return the actions that the mask allows now, as the environment takes them."""
        if self.allowed is None:
            return self.actions.natives
        if not self.allowed:
            raise UnsuitableError("its mask allows no action, and the episode has not ended")
        return [self.actions.natives[i] for i in self.allowed]


class History:
    """How a state came about: the reset's seed, or an action with the seed of its draws after another history."""

    __slots__ = ("action", "before", "key", "seed")

    def __init__(self, before: History | None, seed: int, action: Any, key: int) -> None:
        self.before, self.seed, self.action, self.key = before, seed, action, key


def seeded(*seed: int) -> np.random.Generator:
    """Return the generator that a recorded step drew from."""
    return np.random.Generator(np.random.SFC64(seed if len(seed) > 1 else seed[0]))


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


def make_environment(env_or_id: Any, **options: Any) -> Env:
    """Return the environment itself, or make it from its id or spec.

    Raises
    ------
    UnknownNameError
        If Gymnasium knows no such id.
    ModelError
        If Gymnasium cannot make it, or ``env_or_id`` is neither an id nor one environment.
    """
    gymnasium = require("gymnasium", "gym", "a Gymnasium environment")
    if not isinstance(env_or_id, (str, gymnasium.envs.registration.EnvSpec)):
        kind = type(env_or_id).__name__
        if isinstance(env_or_id, gymnasium.vector.VectorEnv):
            raise ModelError(
                f"{kind} is a vector environment, which steps many copies at once; plan on a single one of them"
            )
        if hasattr(env_or_id, "possible_agents"):
            raise ModelError(
                f"{kind} has several agents (PettingZoo); plan on an environment of one, with the others in its step"
            )
        if isinstance(env_or_id, type):
            raise ModelError(
                f"expected a Gymnasium environment or its id, not a class; make it: {env_or_id.__name__}()"
            )
        if options:
            raise ModelError(f"{', '.join(options)}: options of gymnasium.make, and this {kind} is made already")
        if not hasattr(env_or_id, "unwrapped") or not hasattr(env_or_id, "step"):
            raise ModelError(f"expected a Gymnasium environment or its id, not {kind}")
        given: Env = env_or_id
        return given
    unknown = gymnasium.error.NameNotFound, gymnasium.error.NamespaceNotFound, gymnasium.error.VersionNotFound
    try:
        if isinstance(env_or_id, str) and ":" in env_or_id:
            own_module(env_or_id.partition(":")[0])  # it registers the environment
        with warnings.catch_warnings(record=True) as said:
            made: Env = gymnasium.make(env_or_id, **options)
    except unknown as error:
        own = "" if ":" in str(env_or_id) else " (One that your own module registers: MODULE:ID.)"
        raise UnknownNameError(f"Gymnasium has no environment {env_or_id!r}: {error}{own}") from None
    except Exception as error:  # Gymnasium raises many types here: missing extras, bad options
        raise ModelError(f"Gymnasium cannot make {env_or_id!r}: {type(error).__name__}: {error}") from None
    for each in said:  # where there is an error, it says the same
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return made


def wrappers(env: Any) -> Iterator[Any]:
    """Yield an environment and everything that it wraps, from the outside in."""
    while env is not env.unwrapped:
        yield env
        env = env.env
    yield env


def require_fixed_scales(env: Any) -> None:
    """Raise where a wrapper scales what a step shows by what all steps before showed, other episodes' too."""
    for each in wrappers(env):
        if getattr(each, "update_running_mean", False):
            name, what = type(each).__name__, "observation" if "Obs" in type(each).__name__ else "reward"
            raise ModelError(
                f"{name} scales each {what} by a running history of all steps before it, those of other episodes too: "
                f"a step's {what} would depend on what was simulated earlier. Plan on the environment without it, "
                f"or, if it has seen enough, let its scale stand: set update_running_mean = False on the {name}"
            )


def strip(env: Any) -> Env:
    """Remove the outer wrappers that only count steps, check the caller, or look on."""
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


def made_private(env: Env) -> Env:
    """Let no time limit end an environment's episodes, as the planner counts steps itself, and no screen show them."""
    if getattr(env.unwrapped, "render_mode", None) == "human":
        with suppress(AttributeError):  # it cannot be set everywhere
            env.unwrapped.render_mode = None
    for each, limit in zip(wrappers(env), reversed(time_limits(env)), strict=True):
        if limit is not None:
            each._max_episode_steps = _NEVER
    return env


def steps_of_a_decision(private: PrivateEnv) -> list[int]:
    """Return how many steps of the environment and each of its wrappers one decision takes (frames are skipped)."""
    private.reset(0)
    before = time_limits(private.env)
    private.try_step(np.random.default_rng(0), seeded(0))
    return [
        max(1, later.taken - earlier.taken) if earlier and later else 1
        for earlier, later in zip(before, time_limits(private.env), strict=True)
    ]


DEFAULT_HORIZON = 100


def decisions_left(env: Any, private: PrivateEnv, horizon: int | None) -> tuple[int, tuple[str, ...]]:
    """Return the number of decisions, and what to say of it: the least that any time limit leaves."""
    limits = time_limits(env)
    paces = steps_of_a_decision(private) if any(limits) else []
    paces += [1] * (len(limits) - len(paces))  # the wrappers outside of the private environment count decisions
    nearest = min(
        ((-(-each.left // pace), each) for each, pace in zip(limits, paces, strict=True) if each), default=None
    )
    if nearest is None:
        own = next((limit for each in wrappers(env) if (limit := getattr(each, "_max_episode_steps", None))), None)
        steps = own or DEFAULT_HORIZON
        assumed = (
            f"the environment ends its episodes by itself, at step {own}"
            if own
            else f"the environment has no time limit; planning {DEFAULT_HORIZON} decisions: give horizon= for another "
            "number"
        )
        return (steps, (assumed,)) if horizon is None else (horizon, ())
    left, (limit, taken) = nearest
    if horizon is not None:
        beyond = f"planning {horizon} decisions, beyond the environment's time limit, which leaves {left}"
        return horizon, (beyond,) if horizon > left else ()
    is_under_way = 0 < taken < limit
    return left, (
        f"{taken} of the {limit} steps of the time limit are taken; planning the rest",
    ) if is_under_way else ()
