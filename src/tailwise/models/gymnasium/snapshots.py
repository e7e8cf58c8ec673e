"""Methods to save and restore a Gymnasium environment, and the check that every one must pass.

Gymnasium has no save and restore. What works differs: plain environments keep everything in attributes; MuJoCo's
state lives in C memory, and copies of it silently differ; Box2D cannot be copied at all. So every method is verified
on the environment at hand before it is trusted, and now and then afterwards.

The environment's random generator is never part of a snapshot: the planner lends its own for each simulated step,
and seeds anew what other generators the environment holds. A snapshot that kept the generator would show the planner
the future.

The check (:func:`verify_snapshot`) is that a restored state behaves as it did the first time. Nothing is looked for
inside the environment. Episodes are played, saved before every step, and repeated from their snapshots: in one go, step
by step with detours between, and in any order, each time with the same draws. Whatever the environment shows must come
out the same, bit for bit; and two states that the method takes for the same one must go on alike.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from tailwise.models.contract import short
from tailwise.models.gymnasium.copying import SCALARS, Copier, duplicate, freeze, global_states, is_data
from tailwise.models.gymnasium.private_env import PrivateEnv, Saved, Snapshot, StepResult, made_private, seeded

_SKIPPED = {
    *("_np_random", "_np_random_seed", "np_random"),
    *("action_space", "observation_space", "spec", "metadata", "render_mode"),
}
_PROBE_EPISODES, _PROBE_STEPS = 6, 60
_LARGE = 500  # items
_MISSING = object()


class Attributes:
    """The plain attributes of the environment: every scalar, and every container that was seen to change."""

    name, is_plain, keeps_keys = "attributes", True, True

    def __init__(self, private: PrivateEnv) -> None:
        picks, draws = np.random.default_rng(0), seeded(0)
        first: dict[str, Hashable] = {}
        changing: set[str] = set()
        for episode in range(_PROBE_EPISODES):
            private.reset(episode)
            for h in range(_PROBE_STEPS):
                ends = private.try_step(picks, draws)[1].is_end or h + 1 == _PROBE_STEPS
                for name, value in _containers(private.core, large=ends and episode < 2).items():
                    frozen = freeze(value)
                    if first.setdefault(name, frozen) != frozen:
                        changing.add(name)
                if ends:
                    break
        self._changing = tuple(sorted(changing))
        held = vars(private.core)
        self._reference = {name: held[name] for name in held if name not in _SKIPPED and name not in changing}

    def save(self, private: PrivateEnv) -> Saved:
        """Return the scalars that differ from the reference, and the containers that change."""
        held, reference = vars(private.core), self._reference
        scalars = tuple(
            (name, value)
            for name, value in held.items()
            if value is not reference.get(name, _MISSING)
            and isinstance(value, SCALARS)
            and name not in _SKIPPED
            and not _is_same(value, reference.get(name, _MISSING))
        )
        containers = tuple((name, duplicate(held[name])) for name in self._changing if name in held)
        absent = frozenset(reference.keys() - held.keys())
        key = (frozenset(scalars), tuple(freeze(value) for _, value in containers), absent)
        return key, (scalars, containers, absent)

    def restore(self, private: PrivateEnv, payload: Any) -> None:
        """Set the attributes; the other scalars go back to the reference, and new ones are removed."""
        scalars, containers, absent = payload
        held, reference = vars(private.core), self._reference
        for name in [name for name, value in held.items() if value is not reference.get(name, _MISSING)]:
            if name in _SKIPPED:
                continue
            if name in reference and isinstance(reference[name], SCALARS):
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


def _containers(core: Any, *, large: bool) -> dict[str, Any]:
    """The plain containers; the large ones (tables, as a rule) only if asked for: they take long to compare."""
    return {
        name: value
        for name, value in vars(core).items()
        if name not in _SKIPPED
        and not isinstance(value, SCALARS)
        and (large or _volume(value, _LARGE) < _LARGE)
        and is_data(value)
    }


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


def _is_same(value: Any, reference: Any) -> bool:
    return type(value) is type(reference) and bool(value == reference)


class Copies:
    """A copy of the whole environment with its wrappers, in bytes, which leave the states of generators out."""

    name, is_plain, keeps_keys = "copy", False, False

    def __init__(self, private: PrivateEnv) -> None:
        self._copier = Copier()

    def save(self, private: PrivateEnv) -> Saved:
        """Return the environment as bytes."""
        frozen = self._copier.freeze(private.env)
        return frozen, frozen

    def restore(self, private: PrivateEnv, payload: Any) -> None:
        """Put a copy of the saved environment in place."""
        env, generators = self._copier.thaw(payload)
        private.adopt(made_private(env), generators)


class Replay:
    """Reset with the same seed and repeat every action with the same draws: slow, and right where nothing else is."""

    name, is_plain, keeps_keys = "replay", False, True

    def __init__(self, private: PrivateEnv) -> None:
        private.is_recording = True

    def save(self, private: PrivateEnv) -> Saved:
        """Return the history of the present state."""
        if private.history is None:
            raise ValueError("only states that the planner itself has reached can be replayed")
        return private.history.key, private.history

    def restore(self, private: PrivateEnv, payload: Any) -> None:
        """Reset and repeat."""
        steps, begun = [], payload
        while begun.before is not None:
            steps.append(begun)
            begun = begun.before
        private.reset(begun.seed)
        for each in reversed(steps):
            private.lend(seeded(each.seed))
            private.go_on(each.action)
        private.history = payload


class OwnFunctions:
    """The user's ``save(env) -> payload`` and ``restore(env, payload)``."""

    name, is_plain, keeps_keys = "own save and restore", False, False

    def __init__(self, save: Callable[[Any], Any], restore: Callable[[Any, Any], None]) -> None:
        self._save, self._restore = save, restore
        self._copier = Copier()

    def save(self, private: PrivateEnv) -> Saved:
        """Call the user's ``save``."""
        payload = self._save(private.env)
        try:
            return self._copier.freeze(payload), payload
        except Exception:  # a handle of a library that cannot be pickled: no two such states are equal
            return object(), payload

    def restore(self, private: PrivateEnv, payload: Any) -> None:
        """Call the user's ``restore``."""
        self._restore(private.env, payload)


class MujocoState:
    """MuJoCo's integration state (with the warm start), the stale positions that rewards read, and the attributes."""

    name, is_plain, keeps_keys = "MuJoCo state", True, True

    def __init__(self, private: PrivateEnv) -> None:
        self._mujoco: Any = importlib.import_module("mujoco")
        self._kind = self._mujoco.mjtState.mjSTATE_INTEGRATION
        self._attributes = Attributes(private)

    def save(self, private: PrivateEnv) -> Saved:
        """Return MuJoCo's state vector and the attributes."""
        model, data = private.core.model, private.core.data
        vector = np.empty(self._mujoco.mj_stateSize(model, self._kind))
        self._mujoco.mj_getState(model, data, vector, self._kind)
        key, rest = self._attributes.save(private)
        return (vector.tobytes(), key), (vector, data.xpos.copy(), data.xipos.copy(), rest)

    def restore(self, private: PrivateEnv, payload: Any) -> None:
        """Set MuJoCo's state and the attributes."""
        vector, xpos, xipos, rest = payload
        model, data = private.core.model, private.core.data
        self._mujoco.mj_setState(model, data, vector, self._kind)
        data.xpos[:], data.xipos[:] = xpos, xipos
        self._attributes.restore(private, rest)


REPEATED = 8  # steps at a time
_WALKS, _STEPS, _ORIGINS = 4, 24, 4


class Transition(NamedTuple):
    """One step of an episode: the state it was taken from, the action, the seed of its draws, and what it showed."""

    snapshot: Snapshot
    action: Any
    draws: int
    shown: StepResult


def walk(private: PrivateEnv, steps: int, picks: np.random.Generator) -> list[Transition]:
    """Go on at random from where the environment stands, saved before each step."""
    taken: list[Transition] = []
    while len(taken) < steps and not (taken and taken[-1].shown.is_end):
        snapshot, draws = private.save(), int(picks.integers(2**31))
        action, result = private.try_step(picks, seeded(draws))
        taken.append(Transition(snapshot, action, draws, kept(result)))
    return taken


def kept(result: StepResult) -> StepResult:
    """What a step showed, as it stays when the environment goes on."""
    return result._replace(observation=freeze(result.observation))


def verify_snapshot(private: PrivateEnv, seed: int = 0) -> str:
    """Try a method out on random episodes; return what is wrong with it, or "" if it can be trusted."""
    picks = np.random.default_rng(seed)
    for episode in range(_WALKS):
        private.reset(seed + episode)
        outside = global_states()
        taken = walk(private, _STEPS, picks)
        if global_states() != outside:
            return "its step draws from NumPy's or Python's global generator; it must draw from self.np_random"
        private.reset(seed + 1000 + episode)
        walk(private, 3, picks)
        for origin in picks.permutation(len(taken))[:_ORIGINS].tolist():
            private.restore(taken[origin].snapshot)
            fault = _repeat(private, taken[origin : origin + REPEATED])
            if fault:
                return f"after restoring, {fault}"
        fault = _with_detours(private, taken[:REPEATED], picks) or _mistaken(private, taken)
        if fault:
            return fault
    return ""


def _with_detours(private: PrivateEnv, taken: list[Transition], picks: np.random.Generator) -> str:
    """Repeat an episode as a search does: restore, step, save, and go elsewhere in between."""
    snapshot = taken[0].snapshot
    for each in taken:
        private.restore(taken[int(picks.integers(len(taken)))].snapshot)
        private.try_step(picks, seeded(int(picks.integers(2**31))))
        private.restore(snapshot)
        fault = _repeat(private, [each])
        if fault:
            return f"after restoring between other states, {fault}"
        if not each.shown.is_end:
            snapshot = private.save()
    return ""


def _mistaken(private: PrivateEnv, taken: list[Transition]) -> str:
    """Whether states of equal keys go on alike."""
    first: dict[Any, int] = {}
    for later, each in enumerate(taken):
        earlier = first.setdefault(each.snapshot.key, later)
        if earlier != later:
            private.restore(taken[earlier].snapshot)
            fault = _repeat(private, taken[later : later + REPEATED])
            if fault:
                return f"it takes two states for one: {fault}"
    return ""


def _repeat(private: PrivateEnv, taken: list[Transition]) -> str:
    """Take the steps again with the same draws; return what differs, or ""."""
    for h, each in enumerate(taken):
        fault = difference(each.shown, private.step(each.action, seeded(each.draws)))
        if fault:
            return f"the same draws gave another {fault} at step {h + 1}"
    return ""


def difference(once: StepResult, again: StepResult) -> str:
    """Say where a step differs from what was shown before; empty if nowhere."""
    if freeze(again.reward) != freeze(once.reward):
        return f"reward ({once.reward!r}, then {again.reward!r})"
    if again.is_end != once.is_end:
        return f"end ({once.is_end}, then {again.is_end})"
    if again.allowed != once.allowed:
        return f"mask ({once.allowed}, then {again.allowed})"
    return "" if freeze(again.observation) == once.observation else f"observation ({short(again.observation, 60)})"
