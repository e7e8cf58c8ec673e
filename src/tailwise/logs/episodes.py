"""Episodes: what was seen, done and paid, step by step, as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints, ranges
from tailwise._validate import real
from tailwise.errors import OptionError
from tailwise.logs.columns import BinLoss
from tailwise.models.contract import Sense

UNKNOWN = -1
"""Next state of a step whose end was not logged."""


@dataclass(frozen=True, eq=False)
class Episodes:
    """A log of n steps in k episodes; made by :func:`load_episodes`. All arrays are read-only.

    Attributes
    ----------
    first : ndarray of int64, shape (k + 1,)
        First step of each episode, and n.
    states, actions, next_states : ndarray of int32, shape (n,)
        Indices. The next state is -1 where it was not logged: such a step says what was paid, not where it led.
    losses : ndarray of float64, shape (n,)
        What each step cost: its cost, or minus its reward.
    done : ndarray of bool, shape (n,)
        Whether the step ended the episode for good. An episode that ends without is cut off.
    sense : "cost" or "reward"
        What the log speaks of.
    num_states, num_actions : int
        Numbers of states and actions: of those that occur, or the largest id plus 1 where ids are numbers.
    state_labels, action_labels : tuple of str
        Names; empty where ids are numbers.
    source : str
        The file or object.
    notes : tuple of str
        What the reader assumed.
    bin_losses : tuple of BinLoss
        What is lost by binning continuous columns, on held-out episodes.
    """

    first: Ints
    states: NDArray[np.int32]
    actions: NDArray[np.int32]
    next_states: NDArray[np.int32]
    losses: Floats
    done: NDArray[np.bool_]
    sense: Sense = "cost"
    num_states: int = 0
    num_actions: int = 0
    state_labels: tuple[str, ...] = ()
    action_labels: tuple[str, ...] = ()
    source: str = "the log"
    notes: tuple[str, ...] = ()
    bin_losses: tuple[BinLoss, ...] = ()

    def __post_init__(self) -> None:
        for name in ("first", "states", "actions", "next_states", "losses", "done"):
            getattr(self, name).setflags(write=False)

    @property
    def num_episodes(self) -> int:
        """Number of episodes."""
        return int(self.first.size - 1)

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return int(self.states.size)

    @cached_property
    def lengths(self) -> Ints:
        """Number of steps of each episode: int64, shape (k,)."""
        return np.diff(self.first)

    @property
    def longest(self) -> int:
        """Number of steps of the longest episode."""
        return int(self.lengths.max())

    @property
    def ends(self) -> NDArray[np.bool_]:
        """Whether each episode came to its end, and was not cut off: bool, shape (k,)."""
        return np.asarray(self.done[self.first[1:] - 1])

    @cached_property
    def steps(self) -> Ints:
        """Position of each step in its episode: int64, shape (n,)."""
        return np.arange(self.num_steps) - np.repeat(self.first[:-1], self.lengths)

    def totals(self, discount: float = 1.0) -> Floats:
        """Return the discounted total of each episode, in the log's own sense: float64, shape (k,).

        Examples
        --------
        >>> from tailwise import load_episodes
        >>> log = load_episodes({"episode": [0, 0, 1], "state": [0, 1, 0], "action": [0, 0, 1], "cost": [1.0, 2.0, 5.0],
        ...                      "done": [0, 1, 1]})
        >>> log.totals(0.5).tolist()
        [2.0, 5.0]
        """
        factor = real(discount, "discount", low=0.0, high=1.0, ends="(]")
        weighed = self.losses if factor == 1.0 else self.losses * factor**self.steps
        return np.asarray(self.signed(np.add.reduceat(weighed, self.first[:-1])))

    def signed(self, losses: Any) -> Any:
        """Turn losses into the log's own sense, or back."""
        return losses if self.sense == "cost" else 0.0 - losses

    def select(self, episodes: Sequence[int] | NDArray[Any]) -> Episodes:
        """Return some of the episodes, by index or by a mask; states and actions keep their indices."""
        which = np.asarray(episodes)
        which = np.flatnonzero(which) if which.dtype.kind == "b" else which.astype(np.int64)
        if not which.size:
            raise OptionError("select() needs at least one episode")
        _, _, kept = ranges(self.first[which], self.first[which + 1])
        arrays = {name: getattr(self, name)[kept] for name in ("states", "actions", "next_states", "losses", "done")}
        return replace(self, first=np.append(0, np.cumsum(self.lengths[which])), **arrays)

    def split(self, share: float = 0.25, *, seed: int = 0) -> tuple[Episodes, Episodes]:
        """Return two logs: the episodes to learn from, and those held out, drawn at random.

        Parameters
        ----------
        share : float in (0, 1), default 0.25
            Share of the episodes that is held out; at least one on either side.
        seed : int, default 0
            Of the draw.
        """
        part = real(share, "share", low=0.0, high=1.0, ends="()")
        if self.num_episodes < 2:
            raise OptionError("one episode cannot be split; log more of them")
        order = np.random.default_rng(seed).permutation(self.num_episodes)
        held = min(max(1, round(part * self.num_episodes)), self.num_episodes - 1)
        return self.select(np.sort(order[held:])), self.select(np.sort(order[:held]))

    def state_name(self, state: int) -> str:
        """Return the label of a state, or its index as text."""
        return self.state_labels[state] if self.state_labels else str(state)

    def action_name(self, action: int) -> str:
        """Return the label of an action, or its id as text."""
        return self.action_labels[action] if self.action_labels else str(action)

    def __repr__(self) -> str:
        return (
            f"Episodes({self.num_episodes} episodes, {self.num_steps} steps, states={self.num_states}, "
            f"actions={self.num_actions}, sense={self.sense!r}, source={self.source!r})"
        )
