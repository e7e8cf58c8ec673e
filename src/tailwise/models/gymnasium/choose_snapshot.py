"""Choose how a Gymnasium environment is saved and restored: make a private one, and try the methods in turn.

The private environment is a copy of the given one. Gymnasium's ``EzPickle`` and many a ``__deepcopy__`` copy an
environment by making it anew: other prices, masses or maps that the user has set are lost in silence. So the two are
compared, attribute by attribute, in every wrapper. What differs may be a part of the state; it is if it ever varies in
the private environment. Else it is a change that was lost.

A method that was chosen is checked when the simulator is made, by ``check_simulator``, and in the middle of a search at
every 256th step, on up to eight steps that the search itself has taken (:class:`SpotCheck`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from tailwise.errors import ModelError
from tailwise.models.contract import short
from tailwise.models.gymnasium.actions import FiniteActions
from tailwise.models.gymnasium.copying import GENERATORS, SCALARS, Copier, freeze
from tailwise.models.gymnasium.leak_check import Leak, find_leak
from tailwise.models.gymnasium.private_env import (
    CALLER_CHECKS,
    PrivateEnv,
    StepResult,
    UnsuitableError,
    made_private,
    make_environment,
    seeded,
    strip,
    wrappers,
)
from tailwise.models.gymnasium.snapshots import (
    REPEATED,
    Attributes,
    Copies,
    MujocoState,
    OwnFunctions,
    Replay,
    difference,
    kept,
    verify_snapshot,
)

_CHANGED = "what was changed after it was made"
_NOT_COMPARED = {
    *("env", "_np_random", "_np_random_seed", "np_random"),
    *("_cached_spec", "spec", "_max_episode_steps", "render_mode"),
}
_EPISODES, _STEPS = 3, 12
_DEEPEST = 40
_MISSING = type("Missing", (), {"__repr__": lambda self: "missing"})()


def choose_snapshot(
    env: Any, own: OwnFunctions | None, actions: FiniteActions, name: str, *, is_users: bool
) -> tuple[PrivateEnv, Leak]:
    """Return a private environment that can be saved, and whether its snapshots tell the future."""
    reasons = []
    for source, made in _sources(env, is_users):
        try:
            private = PrivateEnv(made_private(made()), actions)
            change = find_change(strip(env), private) if is_users else ""
            if change:
                reasons.append(f"{source}: {_CHANGED} is lost: {change}")
                continue
            private.reset(0)
            private.has_generators = bool(private.generators)
            is_mujoco = type(getattr(private.core, "data", None)).__name__ == "MjData"
            found: tuple[Any, ...] = (MujocoState, Replay) if is_mujoco else (Attributes, Copies, Replay)
        except Exception as error:  # environments raise anything when they are broken
            reasons.append(f"{source}: {_reason(error, name)}")
            continue
        for kind in found if own is None else (own,):
            try:
                private.method = kind if own is not None else kind(private)
                fault = verify_snapshot(private)
                leak = None if fault else find_leak(private)
            except Exception as error:
                fault, leak = _reason(error, name), None
            if leak is not None:
                private.is_masked = actions.has_mask
                return private, leak
            reasons.append(f"{kind.name} ({source}): {fault}")
    listed = "\n  ".join(dict.fromkeys(reasons))
    ways = ["give your own save= and restore="] if own is None else []
    if is_users and getattr(env, "spec", None) is None:
        ways.append("register it with Gymnasium and give its id, by which it is made anew and not copied")
    fix = f"; {_CHANGED} belongs into its constructor, or its __deepcopy__ must keep it" if _CHANGED in listed else ""
    raise ModelError(
        f"{name} cannot be planned on: no way to save and restore it works.\n  {listed}\n"
        f"The way out: {', or '.join((*ways, 'write the problem as a Simulator'))}{fix}"
    )


def _reason(error: Exception, name: str) -> str:
    """What went wrong; what is wrong with the environment itself, however it is saved, is passed on."""
    if isinstance(error, UnsuitableError):
        raise UnsuitableError(f"{name} cannot be planned on: {error}") from None
    return f"{type(error).__name__}: {short(str(error))}"


def _sources(env: Any, is_users: bool) -> list[tuple[str, Callable[[], Any]]]:
    """Where the planner's own environment can come from, in order of preference."""
    stripped = strip(env)
    if not is_users:
        return [("made from its id", lambda: stripped)]
    sources: list[tuple[str, Callable[[], Any]]] = [("a copy of the given one", lambda: _copied(stripped))]
    if getattr(env, "spec", None) is not None:  # with its wrappers, or not at all
        sources.append(("made from its spec", lambda: strip(make_environment(env.spec))))
    return sources


def _copied(env: Any) -> Any:
    copier = Copier()
    try:
        return copier.thaw(copier.freeze(env))[0]
    except Exception:  # its own __deepcopy__ may know better
        return copy.deepcopy(env)


def find_change(given: Any, private: PrivateEnv) -> str:
    """Name what differs between a given environment and the private one, and never varies there; empty if nothing."""
    pairs = list(zip(_layers(given), _layers(private.env), strict=False))
    met = {(id(one), id(other)) for one, other in pairs}  # what a layer holds of others is compared there
    differing = {
        (depth, name): (vars(one).get(name, _MISSING), short(vars(other).get(name, _MISSING), 60))
        for depth, (one, other) in enumerate(pairs)
        if type(one) is type(other) and type(one).__name__ not in CALLER_CHECKS
        for name in dict.fromkeys((*vars(one), *vars(other)))
        if name not in _NOT_COMPARED
        and (depth, name) not in private.varying
        and not _is_same(vars(one).get(name, _MISSING), vars(other).get(name, _MISSING), set(met))
    }
    if not differing:
        return ""
    seen: dict[tuple[int, str], set[Hashable]] = {key: set() for key in differing}

    def look() -> None:
        layers = [vars(each) for each in _layers(private.env)]
        for depth, name in differing:
            value = layers[depth].get(name, _MISSING)
            seen[depth, name].add((type(value), None if value is _MISSING else freeze(value)))

    look()
    picks = np.random.default_rng(0)
    for episode in range(_EPISODES):
        private.reset(episode)
        look()
        for _ in range(_STEPS):
            is_end = private.try_step(picks, seeded(episode))[1].is_end
            look()
            if is_end:
                break
    private.varying |= {key for key, values in seen.items() if len(values) > 1}
    changed = [(name, *differing[depth, name]) for (depth, name), values in seen.items() if len(values) == 1]
    return "; ".join(f"{name} is {short(a, 60)} where a copy has {b}" for name, a, b in changed[:3])


def _layers(env: Any) -> list[Any]:
    return list(wrappers(env))[::-1]


def _is_same(a: Any, b: Any, met: set[tuple[int, int]], depth: int = 0) -> bool:
    """Whether two values hold the same data; what cannot be looked into, and generators, count as the same."""
    if a is b or (id(a), id(b)) in met or depth > _DEEPEST or isinstance(a, GENERATORS):
        return True
    met.add((id(a), id(b)))

    def is_same(x: Any, y: Any) -> bool:
        return _is_same(x, y, met, depth + 1)

    if type(a) is not type(b) or isinstance(a, SCALARS):
        both = isinstance(a, SCALARS) and isinstance(b, SCALARS)
        return (both and freeze(a) == freeze(b)) or not (_is_open(a) and _is_open(b))
    if isinstance(a, np.ndarray) and a.dtype == object:
        return bool(a.shape == b.shape) and is_same(a.tolist(), b.tolist())
    if isinstance(a, dict):
        return all(is_same(a.get(key, _MISSING), b.get(key, _MISSING)) for key in dict.fromkeys((*a, *b)))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(is_same, a, b))
    if hasattr(a, "__dict__") and not isinstance(a, type):
        return is_same(vars(a), vars(b))
    return freeze(a) == freeze(b) or not (_is_open(a) and _is_open(b))


def _is_open(value: Any) -> bool:
    """Whether a value can be looked into: windows, sockets and running generators cannot."""
    try:
        return value is _MISSING or bool(Copier().freeze(value))
    except Exception:
        return False


_FIRST_GAP, _GAP = 8, 256


class SpotCheck:
    """Records a few steps of the search now and then, and repeats them much later."""

    def __init__(self, private: PrivateEnv, name: str) -> None:
        self._private, self._name = private, name
        self._start: Any = None
        self._last: Any = None
        self._steps: list[tuple[Any, Any, StepResult]] = []
        self.is_open = False  # whether it is in the middle of recording
        self._gap = self.due = _FIRST_GAP  # number of the step of the search from which it wants to see them

    def wants(self, count: int, state: Any) -> bool:
        """Whether the step from ``state`` is to be recorded; what was recorded long ago is repeated first."""
        if self.is_open:
            if state == self._last and len(self._steps) < REPEATED:
                return True
            self.is_open = False
            self.due, self._gap = count + self._gap, min(2 * self._gap, _GAP)
            return False
        self._repeat()
        self._start, self._steps, self.is_open = state, [], True
        return True

    def record(self, draws: Any, action: Any, result: StepResult, state: Any) -> None:
        """Keep what a step with ``draws`` (the state of a generator's bits) showed."""
        self._steps.append((draws, action, kept(result)))
        self._last = state

    def _repeat(self) -> None:
        if not self._steps:
            return
        self._private.restore(self._start.snapshot)
        for h, (draws, action, once) in enumerate(self._steps):
            kind: Any = getattr(np.random, draws["bit_generator"])
            bits = kind(0)
            bits.state = draws
            fault = difference(once, self._private.step(action, np.random.Generator(bits)))
            if fault:
                taken = ", ".join(short(each[1], 40) for each in self._steps[: h + 1])
                raise ModelError(
                    f"{self._name} did not repeat itself: from the state {short(self._start)} the action {taken} gave, "
                    f"with the same draws, another {fault}; something that its step depends on is neither saved nor "
                    f"restored by {self._private.method.name}. Give your own save= and restore=, or write a Simulator"
                )
