"""What may follow a tilted belief: every action and everything that may be seen after it, at once.

The outcomes of all actions lie sorted by action, by what is seen and by where they lead, so that whatever is summed up
over some of them is summed over neighbours. Only outcomes of states that are possible are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tailwise._arrays import Bools, Floats, Ints, log_of, runs
from tailwise.exact.alpha_vectors import NEAR, Branch, normalised
from tailwise.models.pomdp_table import PomdpTable


class Step(NamedTuple):
    """What may follow a belief: A actions, each with at most K things that may be seen, the end among them.

    Attributes
    ----------
    log_masses, losses : ndarray of float64, shape (A, K)
        Logarithm of the probability of each (-inf where there are fewer), and the ERM of what is paid with it.
    places : ndarray of int64, shape (N,)
        Where in these, flattened, the episode goes on.
    beliefs : ndarray of float64, shape (N, S)
        The tilted beliefs that follow there, in logs.
    """

    log_masses: Floats
    losses: Floats
    places: Ints
    beliefs: Floats


class BeliefSteps:
    """The outcomes of a table, as steps from belief to belief."""

    def __init__(self, model: PomdpTable, branches: Sequence[Branch]) -> None:
        self._size, self._num_actions = model.num_states, len(branches)
        self._width = 1 + max(len(branch.seen) for branch in branches)
        signals, targets = (np.concatenate([getattr(b, name) for b in branches]) for name in ("signals", "targets"))
        actions = np.repeat(np.arange(len(branches)), [branch.states.size for branch in branches])
        order = np.lexsort((targets, signals, actions))
        self._actions, self._targets, signals = actions[order], targets[order], signals[order]
        self._groups = self._actions * self._width + 1 + signals
        self._states, self._losses, chances = (
            np.concatenate([getattr(b, name) for b in branches])[order] for name in ("states", "losses", "chances")
        )
        self._logs = log_of(chances)
        ends = np.where(signals >= 0, model.discount * model.table.terminal_losses[self._targets], 0.0)
        self._last_losses = self._losses + ends  # what the end costs is paid with the step

    def after(self, log_belief: Floats, beta: float, *, last: bool) -> Step:
        """Return what may follow a belief, at the risk level of its step; after the ``last`` nothing does."""
        logs = log_belief[self._states] + self._logs
        can = np.flatnonzero(logs > -np.inf)
        logs, owners = logs[can], (self._actions if last else self._groups)[can]
        starts = runs(owners)
        masses, losses = _summed_up((self._last_losses if last else self._losses)[can], logs, starts, beta)
        owners = owners[starts]
        actions = owners if last else owners // self._width
        column = np.arange(owners.size) - np.searchsorted(actions, actions)
        shape = self._num_actions, int(column.max()) + 1
        log_masses, paid = np.full(shape, -np.inf), np.zeros(shape)
        log_masses[actions, column], paid[actions, column] = masses, losses
        if last:
            return Step(log_masses, paid, np.empty(0, np.int64), np.empty((0, self._size)))
        goes_on: Bools = owners % self._width > 0
        targets = self._targets[can]
        firsts = runs(self._groups[can] * self._size + targets)
        rows = np.searchsorted(starts, firsts, side="right") - 1
        beliefs = np.full((owners.size, self._size), -np.inf)
        beliefs[rows, targets[firsts]] = _log_sums(logs + beta * self._losses[can], firsts)
        places = actions * shape[1] + column
        return Step(log_masses, paid, places[goes_on], normalised(beliefs[goes_on]))


def _log_sums(logs: Floats, starts: Ints) -> Floats:
    """Return the logarithm of the sum of each group's weights."""
    top = np.maximum.reduceat(logs, starts)
    lengths = np.diff(starts, append=logs.size)
    return np.asarray(top + np.log(np.add.reduceat(np.exp(logs - np.repeat(top, lengths)), starts)))


def _summed_up(values: Floats, logs: Floats, starts: Ints, beta: float) -> tuple[Floats, Floats]:
    """Return the logarithm of each group's mass, and the ERM of its values under weights in logs."""
    norm = _log_sums(logs, starts)
    lengths = np.diff(starts, append=logs.size)
    shares = np.exp(logs - np.repeat(norm, lengths))
    means = np.add.reduceat(shares * values, starts)
    if beta == 0.0:
        return norm, means
    spread = np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts)
    far = (_log_sums(logs + beta * values, starts) - norm) / beta
    with np.errstate(over="ignore", invalid="ignore"):
        gains = np.add.reduceat(shares * np.expm1(beta * (values - np.repeat(means, lengths))), starts)
        near = means + np.log1p(gains) / beta
    return norm, np.where(abs(beta) * spread < NEAR, near, far)
