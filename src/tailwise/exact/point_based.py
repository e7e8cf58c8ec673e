"""Conditional plans that are best at chosen tilted beliefs: where all of those that matter are too many.

Backward over the steps, each chosen belief gets its best action, each of whose observations goes on with the plan of
the next step that is best there (Pineau, Gordon & Thrun 2003, for the tilted belief). So every plan is one that can be
followed, and its value is certain: the optimum is no dearer. How near it is depends on the beliefs. They are those that
the start leads to by any action, the likely ones first; then, once plans are known, by the best action and by others.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from tailwise._arrays import Floats
from tailwise._random import Seed, generator
from tailwise.exact.alpha_vectors import Branch, Level, backed_up, belief_erm, normalised, tilted
from tailwise.models.pomdp_table import PomdpTable

_CELLS, _LEAST = 10.0, -30.0  # two beliefs are one here where the logarithms of all their weights, by tenths, are
_EVEN = 0.2  # chance of actions that are not the best


def point_based_levels(
    model: PomdpTable, branches: Sequence[Branch], beta: float, log_start: Floats, points: int, seed: Seed = 0
) -> list[Level]:
    """Return plans of each step, best at some ``points`` tilted beliefs of it."""
    parts = levels_in_parts(model, branches, beta, log_start, points, seed)
    while True:
        try:
            next(parts)
        except StopIteration as end:
            return list[Level](end.value)


def levels_in_parts(
    model: PomdpTable, branches: Sequence[Branch], beta: float, log_start: Floats, points: int, seed: Seed = 0
) -> Generator[None, None, list[Level]]:
    """Find the same, and pause after each action at each step."""
    rng = generator(seed)
    levels: list[Level] = []
    for _ in range(2):
        chosen = yield from _beliefs(model, branches, beta, log_start, points, levels, rng)
        levels = yield from _backward(model, branches, beta, chosen)
    return levels


def _backward(
    model: PomdpTable, branches: Sequence[Branch], beta: float, chosen: list[Floats]
) -> Generator[None, None, list[Level]]:
    discount, levels = model.discount, list[Level]()
    after = model.table.terminal_losses[None, :]
    width = max(1, *(len(branch.seen) for branch in branches))
    for h in range(len(chosen) - 1, -1, -1):
        here, level = chosen[h], beta * discount**h
        rows, ways, options = [], [], []
        for branch in branches:
            way = np.zeros((len(here), width), np.int64)
            for signal, logs in enumerate(tilted(branch, here, level)):
                can = np.flatnonzero(np.isfinite(logs).any(axis=1))
                if can.size and len(after) > 1:
                    reached = normalised(logs[can])
                    way[can, signal] = belief_erm(after[None], reached[:, None, :], level * discount).argmin(axis=1)
            row = backed_up(branch, after, way, level, discount)
            rows.append(row)
            ways.append(way)
            options.append(belief_erm(row, here, level))
            yield
        actions = np.argmin(options, axis=0)
        own = np.arange(len(here))
        values, children = np.stack(rows)[actions, own], np.stack(ways)[actions, own]
        _, kept = np.unique(values, axis=0, return_index=True)
        levels.insert(0, Level(values[kept], actions[kept], children[kept]))
        after = levels[0].values
    return levels


def _beliefs(
    model: PomdpTable, branches: Sequence[Branch], beta: float, log_start: Floats, points: int,
    levels: list[Level], rng: np.random.Generator,
) -> Generator[None, None, list[Floats]]:  # fmt: skip
    """Return tilted beliefs of each step (N, S), in logs, that are likely to be reached."""
    here, weights = normalised(log_start[None, :]), np.ones(1)
    found = [here]
    for h in range(model.horizon - 1):
        level = beta * model.discount**h
        shares = np.full((len(here), len(branches)), 1.0 / len(branches))
        if levels:
            worths = belief_erm(levels[h].values[None], here[:, None, :], level)
            shares *= _EVEN
            shares[np.arange(len(here)), levels[h].actions[worths.argmin(axis=1)]] += 1.0 - _EVEN
        beliefs, masses = [], []
        for action, branch in enumerate(branches):
            if not branch.seen:
                continue
            after = np.array(tilted(branch, here, level))
            tops = after.max(axis=(0, 2))
            with np.errstate(invalid="ignore"):
                parts = np.exp(after - tops[None, :, None]).sum(axis=2)  # what each observation weighs
                parts *= weights * shares[:, action] / parts.sum(axis=0)
            can = np.isfinite(after).any(axis=2)
            beliefs.append(normalised(after[can]))
            masses.append(parts[can])
            yield
        if any(len(some) for some in beliefs):
            here, weights = _sifted(np.concatenate(beliefs), np.concatenate(masses), points, rng)
        else:  # all of these have ended; plans must still say what they do in every state
            here, weights = normalised(np.zeros((1, log_start.size))), np.ones(1)
        found.append(here)
    return found


def _sifted(beliefs: Floats, weights: Floats, points: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return at most so many beliefs, each for those near it: half of them the likeliest, the others by luck."""
    cells = np.round(_CELLS * np.maximum(beliefs, _LEAST)).astype(np.int64)
    _, first, owners = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    summed = np.bincount(owners.reshape(-1), weights, len(first))
    order = np.argsort(-summed, kind="stable")
    if order.size > points:
        order = np.append(order[: points // 2], rng.permutation(order[points // 2 :])[: points - points // 2])
    return beliefs[first[order]], summed[order] / summed[order].sum()
