"""Whether the planner's private environment is the one that was given, also where that was changed after it was made.

Gymnasium's ``EzPickle`` and many a ``__deepcopy__`` copy an environment by making it anew: other prices, masses or
maps that the user has set are lost in silence. So the two are compared, attribute by attribute, in every wrapper.
What differs may be a part of the state; it is if it ever varies in the private environment. Else it is a change.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from tailwise.models.copying import GENERATORS, Copier
from tailwise.models.gymnasium_machine import SCALARS, Machine, freeze, seeded, wrappers
from tailwise.models.simulator import short

_SKIPPED = {"env", "_np_random", "_np_random_seed", "np_random", "_cached_spec", "spec", "_max_episode_steps"}
_EPISODES, _STEPS = 3, 12
_DEEPEST = 40
_MISSING = object()


def find_change(given: Any, machine: Machine) -> str:
    """Name what differs between a given environment and the private one, and never varies there; empty if nothing."""
    pairs = [
        (depth, name, vars(one).get(name, _MISSING), vars(other).get(name, _MISSING))
        for depth, (one, other) in enumerate(zip(_layers(given), _layers(machine.env), strict=False))
        if type(one) is type(other)
        for name in dict.fromkeys((*vars(one), *vars(other)))
        if name not in _SKIPPED and (depth, name) not in machine.varying
    ]
    differing = {(depth, name): (a, short(b, 60)) for depth, name, a, b in pairs if not _is_same(a, b, set())}
    if not differing:
        return ""
    seen: dict[tuple[int, str], set[Hashable]] = {key: set() for key in differing}

    def look() -> None:
        layers = [vars(each) for each in _layers(machine.env)]
        for depth, name in differing:
            value = layers[depth].get(name, _MISSING)
            seen[depth, name].add("missing" if value is _MISSING else (type(value), freeze(value)))

    look()
    picks = np.random.default_rng(0)
    for episode in range(_EPISODES):
        machine.reset(episode)
        look()
        for _ in range(_STEPS):
            is_end = machine.try_step(picks, seeded(episode))[1].is_end
            look()
            if is_end:
                break
    machine.varying |= {key for key, values in seen.items() if len(values) > 1}
    changed = [(name, *differing[depth, name]) for (depth, name), values in seen.items() if len(values) == 1]
    return "; ".join(
        f"{name} is {_told(a)} where a copy has {'none' if b == short(_MISSING, 60) else b}"
        for name, a, b in changed[:3]
    )


def _layers(env: Any) -> list[Any]:
    return list(wrappers(env))[::-1]


def _told(value: Any) -> str:
    return "missing" if value is _MISSING else short(value, 60)


def _is_same(a: Any, b: Any, met: set[tuple[int, int]], depth: int = 0) -> bool:
    """Whether two values hold the same data; what cannot be looked into, and generators, count as the same."""
    if a is b or (id(a), id(b)) in met or depth > _DEEPEST:
        return True
    met.add((id(a), id(b)))
    if type(a) is not type(b) or isinstance(a, SCALARS):
        is_equal = isinstance(a, SCALARS) and isinstance(b, SCALARS) and freeze(a) == freeze(b)
        return is_equal or not (_is_open(a) and _is_open(b))
    if isinstance(a, GENERATORS):
        return True
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and (
            freeze(a) == freeze(b) if a.dtype != object else _is_same(a.tolist(), b.tolist(), met, depth + 1)
        )
    if isinstance(a, (set, frozenset)):
        return freeze(a) == freeze(b)
    if isinstance(a, dict):
        return all(
            _is_same(a.get(key, _MISSING), b.get(key, _MISSING), met, depth + 1) for key in dict.fromkeys((*a, *b))
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(_is_same(x, y, met, depth + 1) for x, y in zip(a, b, strict=True))
    if hasattr(a, "__dict__") and not isinstance(a, type):
        return _is_same(vars(a), vars(b), met, depth + 1)
    return not (_is_open(a) and _is_open(b)) or freeze(a) == freeze(b)


def _is_open(value: Any) -> bool:
    """Whether a value can be looked into: windows, sockets and running generators cannot."""
    if value is _MISSING:
        return True
    try:
        Copier().freeze(value)
    except Exception:
        return False
    return True
