"""Random numbers of evaluated episodes: one key per run, one stream per episode.

In a table the environment uses one uniform draw per step, whatever happens: draw h of episode e is the
same number for every planner under one seed. These are *common random numbers*: two planners
that act alike meet the same luck, so their difference is seen without it. The stream of an
episode is SFC64, seeded by the run's key and the episode's number and stirred 12 times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import inlined, kernel
from tailwise._random import Seed, next_double, seed_sequence
from tailwise.models.fingerprint import fingerprint

_STIR = 12


def run_key(root: np.random.SeedSequence) -> NDArray[np.uint64]:
    """Return the key of a run: uint64, shape (2,)."""
    return np.asarray(root.generate_state(2, np.uint64), dtype=np.uint64)


def child(root: np.random.SeedSequence, *path: int) -> np.random.SeedSequence:
    """Return a descendant of ``root`` by its path; unlike ``spawn`` it leaves ``root`` as it was."""
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, *path), pool_size=root.pool_size)


def world_name(seed: Seed, model: Any) -> tuple[int, ...]:
    """Return what tells the random numbers of a seed and the model that they were used in: three ints.

    Two samples are pairs only if both were the same.
    """
    return (*(int(word) for word in run_key(seed_sequence(seed))), int.from_bytes(fingerprint(model, 8), "big"))


@inlined
def start_stream(key, episode, words):  # type: ignore[no-untyped-def]
    """Set ``words`` (uint64, shape (4,)) to the beginning of an episode's stream."""
    words[0], words[1], words[2], words[3] = key[0], key[1], np.uint64(episode), np.uint64(1)
    for _ in range(_STIR):
        next_double(words)


@kernel
def fill_uniforms(key, episode, words, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (H,) with the uniform draws of an episode."""
    start_stream(key, episode, words)
    for h in range(out.size):
        out[h] = next_double(words)


def episode_uniforms(key: NDArray[np.uint64], episode: int, horizon: int) -> NDArray[np.float64]:
    """Return the draws of an episode, one per step: float64 in [0, 1), shape (H,)."""
    out = np.empty(horizon)
    fill_uniforms(key, episode, np.empty(4, np.uint64), out)
    return out
