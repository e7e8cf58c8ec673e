"""What a log counts: each pair of state and action, where it led, and at which costs; and what that covers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints, marked, runs
from tailwise.errors import StateError
from tailwise.exact.fixed_policies import policy_chances
from tailwise.logs.episodes import Episodes
from tailwise.models import TabularMDP

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

    @cached_property
    def quad_atoms(self) -> Atoms:
        """The costs of each transition (state, action, target) that was seen."""
        return _atoms(self.quads, self.losses, _MOST_ATOMS)

    @cached_property
    def guesses(self) -> list[tuple[str, Atoms]]:
        """What transitions that were not seen may cost, the ways that tell costs best first, by their mean left out."""
        keys = self._ways(self.states, self.actions, self.targets)
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
        return self._ways(states, actions, targets)[words]

    def _ways(self, states: Ints, actions: Ints, targets: Ints) -> dict[str, Ints]:
        """Return what transitions may be grouped by, in words, and the group of each."""
        return {
            "state and action": states * self.episodes.num_actions + actions,
            "state and next state": states * self.num_targets + targets,
            "action and next state": actions * self.num_targets + targets, "next state": targets, "action": actions,
            "state": states, "nothing": np.zeros_like(states),
        }  # fmt: skip


def _atoms(keys: Ints, losses: Floats, most: int) -> Atoms:
    """Return the distinct losses of each group, at most so many: beyond, neighbours are put together at their mean."""
    order = np.lexsort((losses, keys))
    key, value = keys[order], losses[order]
    starts = runs(key, value)
    key, value, count = key[starts], value[starts], np.diff(np.append(starts, keys.size)).astype(np.float64)
    groups, first, sizes = np.unique(key, return_index=True, return_counts=True)
    if (sizes > most).any():
        before = np.cumsum(count) - count
        inner = before - np.repeat(before[first], sizes)
        total = np.repeat(np.add.reduceat(count, first), sizes)
        cell = np.where(
            np.repeat(sizes, sizes) > most, np.floor((inner + count / 2) / total * most), np.arange(key.size)
        )
        starts = runs(key, cell)
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


def normalized(values: Floats, owners: Ints) -> Floats:
    """Return values over the sum of those of their owner; owners stand together."""
    first = runs(owners)
    sums = np.add.reduceat(values, first)
    return np.asarray(values / np.repeat(sums, np.diff(np.append(first, owners.size))))


def spread_of(log: Any) -> float:
    """Return the worst that followed a logged step, from there to the end of its episode, as a loss."""
    ends = np.cumsum(log.losses)
    totals = np.repeat(ends[log.first[1:] - 1], log.lengths) - ends + log.losses
    return float(totals.max())


RARE = 5
_SHOWN = 5


@dataclass(frozen=True)
class PairCount:
    """A pair of state and action, how often it was tried, and how often a plan comes to take it.

    Attributes
    ----------
    state, action : int
        Indices.
    state_name, action_name : str
        Labels.
    tried : int
        How often the log tried it.
    visits : float
        Expected number of times that an episode under the plan takes it; NaN without a plan.
    """

    state: int
    action: int
    state_name: str
    action_name: str
    tried: int
    visits: float = float("nan")

    def __str__(self) -> str:
        said = f"{self.action_name} in {self.state_name}: tried {self.tried} times"
        return said if self.visits != self.visits else f"{said}, taken {self.visits:.3g} times an episode"


@dataclass(frozen=True, eq=False)
class Coverage:
    """Which pairs of state and action a log tried, and how often.

    Attributes
    ----------
    counts : ndarray of int64, shape (S, A)
        How often each was tried; states that the model adds have a row of zeros.
    reached : ndarray of bool, shape (S,)
        Whether the log was ever in the state, with a decision to take.
    state_labels, action_labels : tuple of str
        Names.
    """

    counts: NDArray[np.int64]
    reached: NDArray[np.bool_]
    state_labels: tuple[str, ...]
    action_labels: tuple[str, ...]
    _mdp: TabularMDP

    @classmethod
    def of(cls, mdp: TabularMDP, log: Episodes) -> Coverage:
        """Count the pairs of a learned table's log."""
        counts = np.zeros((mdp.num_states, mdp.num_actions), dtype=np.int64)
        np.add.at(counts, (log.states, log.actions), 1)
        reached = marked(mdp.num_states, log.states)
        reached[log.next_states[(log.next_states >= 0) & ~log.done]] = True
        return cls(counts, reached, mdp.state_labels, mdp.action_labels, mdp)

    def tried(self, state: int | str, action: int | str) -> int:
        """Return how often an action was tried in a state, each by index or label."""
        s = self._mdp.find_state(state) if isinstance(state, str) else state
        a = self.action_labels.index(action) if action in self.action_labels else action
        if not (isinstance(s, (int, np.integer)) and 0 <= s < self.counts.shape[0]) or not isinstance(
            a, (int, np.integer)
        ):
            raise StateError(f"there is no state {state!r} or action {action!r} in the log")
        return int(self.counts[s, a])

    @cached_property
    def never_tried(self) -> tuple[PairCount, ...]:
        """Pairs of a state that the log reached and an action that it never tried there."""
        return self._pairs((self.counts == 0) & self.reached[:, None])

    @cached_property
    def rarely_tried(self) -> tuple[PairCount, ...]:
        """Pairs that were tried, but less than 5 times."""
        return self._pairs((self.counts > 0) & (self.counts < RARE))

    def under(self, policy: Any, *, below: int = RARE) -> tuple[PairCount, ...]:
        """Return the pairs tried less than ``below`` times that a policy comes to take, most often taken first.

        Parameters
        ----------
        policy : Policy or whatever tailwise.exact.policy_risk takes
            What is done; on the learned table.
        below : int, default 5
            1 for those never tried.
        """
        visits = visits_of(self._mdp, policy)
        mdp = self._mdp
        few = self.counts[mdp.row_states, mdp.action_ids] < below
        few &= self.reached[mdp.row_states]
        rows = np.flatnonzero(few & (visits > 1e-12))
        rows = rows[np.argsort(-visits[rows], kind="stable")]
        return tuple(self._pair(int(mdp.row_states[r]), int(mdp.action_ids[r]), float(visits[r])) for r in rows)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the model should know, in words."""
        never, rare = len(self.never_tried), len(self.rarely_tried)
        if not never and not rare:
            return ()
        shown = "; ".join(f"{pair.action_name} in {pair.state_name}" for pair in self.never_tried[:_SHOWN])
        more = f" ({shown}{'; ...' if never > _SHOWN else ''})" if never else ""
        said = f"the log never tried {never:,} pairs of a state it reached and an action{more}"
        return (f"{said}; {rare:,} it tried less than {RARE} times",)

    def _pairs(self, mask: NDArray[np.bool_]) -> tuple[PairCount, ...]:
        return tuple(self._pair(int(s), int(a)) for s, a in np.argwhere(mask))

    def _pair(self, state: int, action: int, visits: float = float("nan")) -> PairCount:
        names, tried = (self._mdp.state_name(state), self._mdp.action_name(action)), int(self.counts[state, action])
        return PairCount(state, action, *names, tried, visits)

    def __str__(self) -> str:
        tried = int((self.counts > 0).sum())
        of = int(self.reached.sum()) * self.counts.shape[1]
        return "\n".join([f"{tried:,} of {of:,} pairs of a reached state and an action were tried", *self.notes])


def visits_of(mdp: TabularMDP, policy: Any) -> Floats:
    """Return how often an episode under a policy takes each row, on average: float64, shape (rows,)."""
    chances = policy_chances(mdp, policy)
    per_row = np.diff(mdp.outcome_offsets)
    here: Floats = np.zeros(mdp.num_states)
    here[mdp.start] = 1.0
    visits: Floats = np.zeros(mdp.num_rows)
    goes_on = ~mdp.done
    for h in range(mdp.horizon):
        taken = here[mdp.row_states] * chances[h]
        visits += taken
        flow = np.repeat(taken, per_row) * mdp.probabilities
        arrived = np.bincount(mdp.next_states[goes_on], weights=flow[goes_on], minlength=mdp.num_states)
        here = np.asarray(arrived, dtype=np.float64)
    return visits
