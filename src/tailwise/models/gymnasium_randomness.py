"""Where a Gymnasium environment takes its random draws from, besides the generator that Gymnasium gives it.

An environment may keep generators of its own (NumPy's new and old ones, Python's ``random.Random``), or draw from the
global ones. A saved generator would show the planner the future, so its own are re-seeded from the planner's
stream before every simulated step; the global ones belong to the whole program and are only watched.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

_DEEPEST = 12  # an attribute of a part costs two
_MOST_ITEMS, _MOST_OBJECTS = 1_000, 100_000
_NOT_DRAWN_FROM = {"action_space", "observation_space", "spec", "metadata"}
_KINDS = (np.random.Generator, np.random.RandomState, random.Random)


def own_generators(env: Any) -> list[Any]:
    """Return the generators that an environment and its wrappers hold in attributes, containers and parts.

    Parameters
    ----------
    env : gymnasium.Env
        It is read, never stepped.

    Returns
    -------
    list
        Each generator once, in the order of the attributes; not the one that Gymnasium gives.
    """
    found: dict[int, Any] = {}
    seen: set[int] = set()
    for each in _inside(env.unwrapped, 0, seen):
        found[id(each)] = each
    for each in _inside(env, 0, seen):
        found[id(each)] = each
    found.pop(id(getattr(env.unwrapped, "_np_random", None)), None)
    return list(found.values())


def _inside(value: Any, depth: int, seen: set[int]) -> Iterator[Any]:
    if isinstance(value, _KINDS):
        yield value
        return
    if isinstance(value, dict):
        items = [item for key, item in value.items() if not (isinstance(key, str) and key in _NOT_DRAWN_FROM)]
    elif isinstance(value, (list, tuple, set, frozenset)):
        items = list(value)
    elif hasattr(value, "__dict__") and not callable(value):
        items = [vars(value)]
    else:
        return
    if depth > _DEEPEST or id(value) in seen or len(seen) > _MOST_OBJECTS:
        return
    seen.add(id(value))
    for item in items[:_MOST_ITEMS]:
        yield from _inside(item, depth + 1, seen)


def reseed(generators: list[Any], rng: np.random.Generator) -> None:
    """Seed each generator anew, in place, from one draw of ``rng``."""
    for each in generators:
        seed = int(rng.integers(2**32))
        if isinstance(each, np.random.Generator):
            fresh: Any = type(each.bit_generator)
            each.bit_generator.state = fresh(seed).state
        else:
            each.seed(seed)


def global_states() -> tuple[Any, Any]:
    """Return the states of NumPy's and Python's global generators, to be compared."""
    name, words, *rest = np.random.get_state()  # noqa: NPY002
    return (name, np.asarray(words).tobytes(), *rest), random.getstate()
