"""Ways to save and restore a Gymnasium environment, and the test that a way must pass.

Gymnasium has no save and restore. What works differs: plain environments keep everything in attributes; MuJoCo's
state lives in C memory, and copies of it silently differ; Box2D's copies are fresh worlds whose
``step`` raises. So every way is tried out on the environment at hand before it is
trusted (:func:`find_fault`): save, step on, disturb, restore, step on with the same draws, compare.

The environment's random generator is never part of what is saved: the planner lends its own for each
simulated step, and seeds anew what other generators the environment holds. A copy that kept the generator would show
the planner the future.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

import numpy as np

from tailwise.models.gymnasium_randomness import global_states, own_generators, reseed
from tailwise.models.simulator import short

_SKIPPED = {
    "_np_random",
    "_np_random_seed",
    "np_random",
    "action_space",
    "observation_space",
    "spec",
    "metadata",
}
_SCALARS = (type(None), bool, int, float, complex, str, bytes, np.generic)
_PROBE_EPISODES, _PROBE_STEPS = 6, 60
_TRIALS, _TRIAL_STEPS = 5, 15
_LARGE = 500  # items
_MISSING = object()


class Saved(NamedTuple):
    """A saved environment: ``key`` tells it from others, ``payload`` brings it back."""

    key: Hashable
    payload: Any


class Machine:
    """The planner's private environment; a way may replace ``env`` as a whole, or ask for a ``record``."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.record: Record | None = None
        self.is_recording = False
        self.has_own_generators = False

    @property
    def core(self) -> Any:
        """The environment below all wrappers."""
        return self.env.unwrapped

    def lend(self, rng: np.random.Generator) -> None:
        """Let the environment draw from ``rng``; what other generators it holds are seeded from it."""
        self.core._np_random = rng
        if self.has_own_generators:
            reseed(own_generators(self.env), rng)

    def reset(self, seed: int) -> Any:
        """Reset the environment; return the observation."""
        observation, _ = self.env.reset(seed=seed)
        self.record = Record(None, seed, 0, hash(("reset", seed))) if self.is_recording else None
        return observation

    def step(self, action: Any, rng: np.random.Generator) -> tuple[Any, float, bool]:
        """Step the environment with draws from ``rng``; return observation, reward and whether it has terminated."""
        if self.is_recording:
            seed = int(rng.integers(2**63))
            self.lend(seeded(seed))
            before = self.record
            self.record = None if before is None else before.then(action, seed)
        else:
            self.lend(rng)
        observation, reward, terminated, _, _ = self.env.step(action)
        return observation, float(reward), bool(terminated)


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


class Way(Protocol):
    """One way to save and restore."""

    name: str

    def save(self, machine: Machine) -> Saved:
        """Return the environment's present state."""
        ...

    def restore(self, machine: Machine, payload: Any) -> None:
        """Bring back a saved state."""
        ...


def freeze(value: Any, depth: int = 0) -> Hashable:
    """Return a hashable stand-in for ``value``, equal where the plain data in it is equal."""
    if isinstance(value, _SCALARS):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.ndarray):
        return (
            value.shape,
            value.dtype.str,
            value.tobytes() if value.dtype != object else freeze(value.tolist()),
        )
    if isinstance(value, dict):
        return ("dict", frozenset((freeze(key, depth), freeze(item, depth)) for key, item in value.items()))
    if isinstance(value, (set, frozenset)):
        return ("set", frozenset(freeze(item, depth) for item in value))
    if isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
        return (type(value).__name__, tuple(freeze(item, depth) for item in value))
    if depth < 4 and hasattr(value, "__dict__") and not callable(value) and not isinstance(value, random.Random):
        kept = {key: item for key, item in vars(value).items() if key not in _SKIPPED}
        return (type(value).__name__, freeze(kept, depth + 1))
    return type(value).__name__


def _is_plain(value: Any) -> bool:
    if isinstance(value, _SCALARS):
        return True
    if isinstance(value, np.ndarray):
        return bool(value.dtype != object)
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(item) for key, item in value.items())
    return isinstance(value, (list, tuple, set, frozenset)) and all(map(_is_plain, value))


def _volume(value: Any, most: int) -> int:
    """Number of items in a nested container, counted up to ``most``."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if not isinstance(value, (list, tuple, set, frozenset)):
        return 1
    count = 0
    for item in value:
        count += _volume(item, most - count)
        if count >= most:
            break
    return count


def _duplicate(value: Any) -> Any:
    """A copy of a plain container; quick for the usual ones."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (list, tuple)) and all(isinstance(item, _SCALARS) for item in value):
        return value if isinstance(value, tuple) else list(value)
    return copy.deepcopy(value)


class Attributes:
    """The plain attributes of the environment: every scalar, and every container that was seen to change."""

    name = "attributes"

    def __init__(self, machine: Machine, choose: Callable[[np.random.Generator], Any]) -> None:
        rng = np.random.default_rng(0)
        first: dict[str, Hashable] = {}
        changing: set[str] = set()
        for episode in range(_PROBE_EPISODES):
            machine.env.reset(seed=episode)
            for h in range(_PROBE_STEPS):
                ends = machine.env.step(choose(rng))[2] or h + 1 == _PROBE_STEPS
                for name, value in self._containers(machine.core, large=ends and episode < 2).items():
                    frozen = freeze(value)
                    if first.setdefault(name, frozen) != frozen:
                        changing.add(name)
                if ends:
                    break
        self._changing = tuple(sorted(changing))
        plain = {name: value for name, value in vars(machine.core).items() if name not in _SKIPPED}
        self._reference = {name: value for name, value in plain.items() if name not in changing}

    @staticmethod
    def _containers(core: Any, *, large: bool) -> dict[str, Any]:
        """The plain containers; the large ones (tables, as a rule) only if asked for: they take long to compare."""
        return {
            name: value
            for name, value in vars(core).items()
            if name not in _SKIPPED
            and not isinstance(value, _SCALARS)
            and (large or _volume(value, _LARGE) < _LARGE)
            and _is_plain(value)
        }

    def save(self, machine: Machine) -> Saved:
        """Return the scalars that differ from the reference, and the containers that change."""
        held, reference = vars(machine.core), self._reference
        scalars = tuple(
            (name, value)
            for name, value in held.items()
            if value is not reference.get(name, _MISSING)
            and isinstance(value, _SCALARS)
            and name not in _SKIPPED
            and not _same(value, reference.get(name, _MISSING))
        )
        containers = tuple((name, _duplicate(held[name])) for name in self._changing if name in held)
        absent = frozenset(reference.keys() - held.keys())
        key = (frozenset(scalars), tuple(freeze(value) for _, value in containers), absent)
        return Saved(key, (scalars, containers, absent))

    def restore(self, machine: Machine, payload: Any) -> None:
        """Set the attributes; the other scalars go back to the reference, and new ones are removed."""
        scalars, containers, absent = payload
        held, reference = vars(machine.core), self._reference
        for name in [name for name, value in held.items() if value is not reference.get(name, _MISSING)]:
            if name in _SKIPPED:
                continue
            if isinstance(reference.get(name), _SCALARS) and name in reference:
                held[name] = reference[name]
            elif isinstance(held[name], _SCALARS) or name in self._changing:
                del held[name]
        for name, value in reference.items():
            if name in absent:
                held.pop(name, None)
            elif name not in held:
                held[name] = value
        held.update(scalars)
        held.update((name, _duplicate(value)) for name, value in containers)


def _same(value: Any, reference: Any) -> bool:
    return type(value) is type(reference) and bool(value == reference)


class DeepCopy:
    """``copy.deepcopy`` of the whole environment."""

    name = "deep copy"

    def save(self, machine: Machine) -> Saved:
        """Return a copy of the environment, without its generator."""
        machine.core._np_random = None
        payload = copy.deepcopy(machine.env)
        return Saved(freeze(vars(payload.unwrapped)), payload)

    def restore(self, machine: Machine, payload: Any) -> None:
        """Put a copy of the saved environment in place."""
        machine.env = copy.deepcopy(payload)


class Replay:
    """Reset with the same seed and repeat every action with the same draws: slow, and right where nothing else is."""

    name = "replay"

    def __init__(self, machine: Machine) -> None:
        machine.is_recording = True

    def save(self, machine: Machine) -> Saved:
        """Return the record of how the present state came about."""
        if machine.record is None:
            raise ValueError("only states that the planner itself has reached can be replayed")
        return Saved(machine.record.key, machine.record)

    def restore(self, machine: Machine, payload: Any) -> None:
        """Reset and repeat."""
        steps = []
        record = payload
        while record.before is not None:
            steps.append(record)
            record = record.before
        machine.reset(record.seed)
        for each in reversed(steps):
            machine.lend(seeded(each.seed))
            machine.env.step(each.action)
        machine.record = payload


class OwnFunctions:
    """The user's ``save(env) -> payload`` and ``restore(env, payload)``."""

    name = "own save and restore"

    def __init__(self, save: Callable[[Any], Any], restore: Callable[[Any, Any], None]) -> None:
        self._save, self._restore = save, restore

    def save(self, machine: Machine) -> Saved:
        """Call the user's ``save``."""
        payload = self._save(machine.env)
        return Saved(freeze(payload), payload)

    def restore(self, machine: Machine, payload: Any) -> None:
        """Call the user's ``restore``."""
        self._restore(machine.env, payload)


def find_fault(machine: Machine, way: Way, choose: Callable[[np.random.Generator], Any]) -> str:
    """Try a way out; return what is wrong with it, or "" if it can be trusted."""
    picks = np.random.default_rng(1)
    machine.reset(0)
    machine.step(choose(picks), seeded(0))
    machine.has_own_generators = bool(own_generators(machine.env))
    for trial in range(_TRIALS):
        machine.reset(trial)
        for _ in range(int(picks.integers(0, 3 * (trial + 1)))):
            if machine.step(choose(picks), seeded(int(picks.integers(2**31))))[2]:
                machine.reset(trial)
        saved = way.save(machine)
        actions = [choose(picks) for _ in range(_TRIAL_STEPS)]
        outside = global_states()
        once = _run(machine, actions, trial)
        if global_states() != outside:
            return "its step draws from NumPy's or Python's global generator; it must draw from self.np_random"
        machine.reset(1000 + trial)
        _run(machine, actions[:3], trial + 7)
        way.restore(machine, saved.payload)
        again = _run(machine, actions, trial)
        fault = _difference(once, again)
        if fault:
            return fault
        way.restore(machine, saved.payload)
        if way.save(machine).key != saved.key:
            return "what is saved after restoring differs from what was restored"
    return ""


def _run(machine: Machine, actions: list[Any], seed: int) -> list[tuple[Hashable, float, bool]]:
    rng = seeded(seed)
    seen = []
    for action in actions:
        observation, reward, terminated = machine.step(action, rng)
        seen.append((freeze(observation), reward, terminated))
        if terminated:
            break
    return seen


def _difference(once: list[Any], again: list[Any]) -> str:
    if len(once) != len(again):
        return f"after restoring the episode ended after {len(again)} steps instead of {len(once)}"
    for h, (a, b) in enumerate(zip(once, again, strict=True)):
        for what, x, y in zip(("observation", "reward", "terminated"), a, b, strict=True):
            if x != y and not (what == "reward" and x != x and y != y):
                values = f" ({short(x, 40)}, then {short(y, 40)})" if what != "observation" else ""
                return f"after restoring, the same draws gave another {what} at step {h + 1}{values}"
    return ""
