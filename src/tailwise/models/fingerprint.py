"""Whether two models are the same, as far as that can be told.

A table is known by its arrays. A simulator cannot be read, so it is known by its class, its contract and what it does
at the beginning of a few random episodes from a fixed seed. Simulators that differ only where none of these episodes
came are not told apart.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tailwise._random import generator
from tailwise.models.pomdp_table import PomdpTable
from tailwise.models.simulator import is_partly_observed, model_name, own_method
from tailwise.models.tabular import TabularMDP

_EPISODES, _STEPS = 4, 25  # a hundred steps: little beside an evaluation, even of a slow simulator


def fingerprint(model: Any, size: int = 16) -> bytes:
    """Return what tells a model from others: ``size`` bytes."""
    digest = hashlib.blake2b(digest_size=size)
    if isinstance(model, PomdpTable):
        for array in (model.observed, model.start_belief, np.array([model.cost_seen])):
            digest.update(np.ascontiguousarray(array).data)
        model = model.table
    digest.update(
        repr((model.sense, None if model.horizon is None else int(model.horizon), float(model.discount))).encode()
    )
    if isinstance(model, TabularMDP):
        digest.update(repr(model.start).encode())
        for array in (*model.data, model.action_ids):
            digest.update(str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).data)
    else:
        digest.update(f"{type(model).__qualname__} {model_name(model)}".encode())
        for episode in range(_EPISODES):
            _trace(model, episode, digest)
    return digest.digest()


def _trace(model: Any, episode: int, digest: Any) -> None:
    """Add the costs of a random episode to the digest; a model that fails ends it."""
    rng = generator(episode)
    end = own_method(model, "terminal_cost")
    hidden = is_partly_observed(model)
    state, done = model.sample_start(rng) if hidden else model.start, False
    for _ in range(_STEPS if model.horizon is None else min(_STEPS, int(model.horizon))):
        try:
            actions = model.actions() if hidden else model.actions(state)
            choices = range(int(actions)) if isinstance(actions, (int, np.integer)) else list(actions)
            state, cost, done = model.step(state, choices[int(rng.random() * len(choices))], rng)
            digest.update(np.float64(cost).tobytes() + len(choices).to_bytes(8, "big") + bytes([bool(done)]))
        except Exception:  # the evaluation itself meets and names what matters of it
            digest.update(b"failed")
            return
        if done:
            return
    if end is not None and not hidden:
        try:
            digest.update(np.float64(end(state)).tobytes())
        except Exception:
            digest.update(b"failed")
