"""Ways to save and restore a Gymnasium environment.

Gymnasium has no save and restore. What works differs: plain environments keep everything in attributes; MuJoCo's
state lives in C memory, and copies of it silently differ; Box2D's copies are fresh worlds whose
``step`` raises. So every way is tried out on the environment at hand before it is
trusted, and now and then afterwards; see :mod:`tailwise.models.gymnasium_trial`.

The environment's random generator is never part of what is saved: the planner lends its own for each
simulated step, and seeds anew what other generators the environment holds. A copy that kept the generator would show
the planner the future.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

import numpy as np

from tailwise.models.copying import Copier
from tailwise.models.gymnasium_machine import SCALARS, Machine, freeze, lift_limits, seeded

_SKIPPED = {
    "_np_random",
    "_np_random_seed",
    "np_random",
    "action_space",
    "observation_space",
    "spec",
    "metadata",
}
_PROBE_EPISODES, _PROBE_STEPS = 6, 60
_LARGE = 500  # items
_MISSING = object()


class Saved(NamedTuple):
    """A saved environment: ``key`` tells it from others, ``payload`` brings it back."""

    key: Hashable
    payload: Any
    allowed: tuple[int, ...] | None = None


def save(machine: Machine, way: Way) -> Saved:
    """Save the environment with the actions that are legal now."""
    saved = way.save(machine)
    return saved if machine.allowed is None else saved._replace(allowed=machine.allowed)


def restore(machine: Machine, way: Way, saved: Saved) -> None:
    """Bring back a saved state with its legal actions."""
    way.restore(machine, saved.payload)
    machine.allowed = saved.allowed


class Way(Protocol):
    """One way to save and restore."""

    name: str
    is_plain: bool  # whether all that it saves is data, so that it can hold no generator
    keeps_keys: bool  # whether the key of a state is the same if its last step began at a restored state

    def save(self, machine: Machine) -> Saved:
        """Return the environment's present state."""
        ...

    def restore(self, machine: Machine, payload: Any) -> None:
        """Bring back a saved state."""
        ...


def _is_plain(value: Any) -> bool:
    if isinstance(value, SCALARS):
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


def duplicate(value: Any) -> Any:
    """Return a copy of data; quick for the usual ones."""
    if isinstance(value, SCALARS):
        return value
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (list, tuple)) and all(isinstance(item, SCALARS) for item in value):
        return value if isinstance(value, tuple) else list(value)
    return copy.deepcopy(value)


class Attributes:
    """The plain attributes of the environment: every scalar, and every container that was seen to change."""

    name, is_plain, keeps_keys = "attributes", True, True

    def __init__(self, machine: Machine) -> None:
        picks, draws = np.random.default_rng(0), seeded(0)
        first: dict[str, Hashable] = {}
        changing: set[str] = set()
        for episode in range(_PROBE_EPISODES):
            machine.reset(episode)
            for h in range(_PROBE_STEPS):
                ends = machine.try_step(picks, draws)[1].is_end or h + 1 == _PROBE_STEPS
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
            and not isinstance(value, SCALARS)
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
            and isinstance(value, SCALARS)
            and name not in _SKIPPED
            and not _same(value, reference.get(name, _MISSING))
        )
        containers = tuple((name, duplicate(held[name])) for name in self._changing if name in held)
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
            if isinstance(reference.get(name), SCALARS) and name in reference:
                held[name] = reference[name]
            elif isinstance(held[name], SCALARS) or name in self._changing:
                del held[name]
        for name, value in reference.items():
            if name in absent:
                held.pop(name, None)
            elif name not in held:
                held[name] = value
        held.update(scalars)
        held.update((name, duplicate(value)) for name, value in containers)


def _same(value: Any, reference: Any) -> bool:
    return type(value) is type(reference) and bool(value == reference)


class Copies:
    """A copy of the whole environment with its wrappers, in bytes."""

    name, is_plain, keeps_keys = "copy", False, False

    def __init__(self) -> None:
        self._copier = Copier()

    def save(self, machine: Machine) -> Saved:
        """Return the environment as bytes, which leave the states of generators out."""
        frozen = self._copier.freeze(machine.env)
        return Saved(frozen, frozen)

    def restore(self, machine: Machine, payload: Any) -> None:
        """Put a copy of the saved environment in place."""
        env, generators = self._copier.thaw(payload)
        given = getattr(env.unwrapped, "_np_random", None)
        machine.adopt(lift_limits(env), [each for each in generators if each is not given])


class Replay:
    """Reset with the same seed and repeat every action with the same draws: slow, and right where nothing else is."""

    name, is_plain, keeps_keys = "replay", False, True

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
            machine.go_on(each.action)
        machine.record = payload


class OwnFunctions:
    """The user's ``save(env) -> payload`` and ``restore(env, payload)``."""

    name, is_plain, keeps_keys = "own save and restore", False, False

    def __init__(self, save: Callable[[Any], Any], restore: Callable[[Any, Any], None]) -> None:
        self._save, self._restore = save, restore
        self._copier = Copier()

    def save(self, machine: Machine) -> Saved:
        """Call the user's ``save``."""
        payload = self._save(machine.env)
        try:
            return Saved(self._copier.freeze(payload), payload)
        except Exception:  # a handle of a library that cannot be pickled: no two such states are equal
            return Saved(object(), payload)

    def restore(self, machine: Machine, payload: Any) -> None:
        """Call the user's ``restore``."""
        self._restore(machine.env, payload)
