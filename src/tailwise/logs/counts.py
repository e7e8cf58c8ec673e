"""What a log counts: each pair of state and action, where it led, and at which costs."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise.logs.episodes import Episodes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST_ATOMS = 32  # different costs of one transition; more are put into so many groups of equal weight
_GUESSED_ATOMS = 4


class Atoms(NamedTuple):
    """Costs of groups: group g has the losses ``values[offsets[g]:offsets[g + 1]]``, and how often each was seen."""

    keys: Ints  # (groups,) increasing
    offsets: Ints
    values: Floats
    counts: Floats


class Counts:
    """The steps of a log whose next state is known, counted. A target is ``2 * next state + done``."""

    def __init__(self, episodes: Episodes) -> None:
        self.episodes = log = episodes
        self.known = log.next_states >= 0
        self.states = log.states[self.known].astype(np.int64)
        self.actions = log.actions[self.known].astype(np.int64)
        next_states = log.next_states[self.known].astype(np.int64)
        self.done = log.done[self.known]
        self.targets = 2 * next_states + self.done
        self.losses = log.losses[self.known]
        self.num_targets = 2 * log.num_states
        self.pairs = self.states * log.num_actions + self.actions
        self.moves = self.states * self.num_targets + self.targets
        self.quads = self.pairs * self.num_targets + self.targets

    @cached_property
    def by_pair(self) -> tuple[Ints, Ints]:
        """Pairs (state * A + action) that were tried, increasing, and how often."""
        return np.unique(self.pairs, return_counts=True)

    @cached_property
    def by_move(self) -> tuple[Ints, Ints]:
        """Pairs (state * targets + target) that were seen, and how often."""
        return np.unique(self.moves, return_counts=True)

    @cached_property
    def by_target(self) -> tuple[Ints, Ints]:
        """Targets that were seen, and how often."""
        return np.unique(self.targets, return_counts=True)

    def without(self, held: NDArray[np.bool_], steps: Ints) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Return what the other steps count of some: their quad, pair, move and state, and the target's share."""
        weights = (~held).astype(np.float64)
        found = []
        for keys in (self.quads, self.pairs, self.moves, self.states):
            _, codes = np.unique(keys, return_inverse=True)
            found.append(np.bincount(codes, weights=weights)[codes[steps]])
        _, codes = np.unique(self.targets, return_inverse=True)
        counts = np.bincount(codes, weights=weights) + 0.5
        return found[0], found[1], found[2], found[3], (counts / counts.sum())[codes[steps]]

    # ------------------------------------------------------------------- costs

    @cached_property
    def quad_atoms(self) -> Atoms:
        """The costs of each transition (state, action, target) that was seen."""
        return _atoms(self.quads, self.losses, _MOST_ATOMS)

    @cached_property
    def guesses(self) -> list[tuple[str, Atoms]]:
        """What transitions that were not seen may cost, the ways that tell costs best first.

        A way looks at the steps that share some of state, action and target. It is judged by the variance of the costs
        within its groups, as if the step at hand were left out.
        """
        keys = {
            "state and action": self.pairs, "state and next state": self.moves,
            "action and next state": self.actions * self.num_targets + self.targets, "next state": self.targets,
            "action": self.actions, "state": self.states, "nothing": np.zeros_like(self.states),
        }  # fmt: skip
        scale = float(np.abs(self.losses).max(initial=0.0))
        ranked = []
        for position, (words, key) in enumerate(keys.items()):
            _, codes, sizes = np.unique(key, return_inverse=True, return_counts=True)
            means = np.bincount(codes, weights=self.losses) / sizes
            many = sizes[codes] > 1
            error = (self.losses - means[codes])[many] * (sizes / np.maximum(sizes - 1, 1))[codes][many]
            share = float(many.mean())
            score = float((error**2).mean()) if many.any() else np.inf
            ranked.append((share < 0.5, 0.0 if score <= (1e-9 * scale) ** 2 else score, position, words, key))
        ranked.sort(key=lambda entry: entry[:3])
        return [(words, _atoms(key, self.losses, _GUESSED_ATOMS)) for *_, words, key in ranked]

    def key_of(self, words: str, states: Ints, actions: Ints, targets: Ints) -> Ints:
        """Return the group of a way (see :attr:`guesses`) that a transition belongs to."""
        return {
            "state and action": states * self.episodes.num_actions + actions,
            "state and next state": states * self.num_targets + targets,
            "action and next state": actions * self.num_targets + targets, "next state": targets, "action": actions,
            "state": states, "nothing": np.zeros_like(states),
        }[words]  # fmt: skip


def _atoms(keys: Ints, losses: Floats, most: int) -> Atoms:
    """Return the distinct losses of each group, at most so many: beyond, neighbours are put together at their mean."""
    order = np.lexsort((losses, keys))
    key, value = keys[order], losses[order]
    new = np.append(True, (key[1:] != key[:-1]) | (value[1:] != value[:-1]))
    starts = np.flatnonzero(new)
    key, value, count = key[starts], value[starts], np.diff(np.append(starts, keys.size)).astype(np.float64)
    groups, first, sizes = np.unique(key, return_index=True, return_counts=True)
    if (sizes > most).any():
        before = np.cumsum(count) - count
        inner = before - np.repeat(before[first], sizes)
        total = np.repeat(np.add.reduceat(count, first), sizes)
        cell = np.where(
            np.repeat(sizes, sizes) > most, np.floor((inner + count / 2) / total * most), np.arange(key.size)
        )
        new = np.append(True, (key[1:] != key[:-1]) | (cell[1:] != cell[:-1]))
        starts = np.flatnonzero(new)
        masses = np.add.reduceat(count, starts)
        value, key, count = np.add.reduceat(value * count, starts) / masses, key[starts], masses
        groups, first = np.unique(key, return_index=True)
    return Atoms(groups, np.append(first, key.size), value, count)


def find(keys: Ints, wanted: Ints) -> Ints:
    """Return the position of each wanted key among increasing keys; -1 where it is not there."""
    if not keys.size:
        return np.full(wanted.shape, -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.where(keys[at] == wanted, at, -1)


def spread_of(log: Any) -> float:
    """Return the worst that followed a logged step, from there to the end of its episode, as a loss."""
    ends = np.cumsum(log.losses)
    totals = np.repeat(ends[log.first[1:] - 1], log.lengths) - ends + log.losses
    return float(totals.max())
