"""Totals of episodes under what bounded RTDP knows: the distribution behind a risk.

The policy takes the action of least upper bound everywhere. Upper bounds that begin with the largest costs exceed their
own backups, now and later, so the risk of this policy is at most the upper bound of the action that it begins with.
"""

from __future__ import annotations

import copy

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import borrowed, inlined, kernel
from tailwise._random import generator, next_double, own_words
from tailwise.models.contract import Sense
from tailwise.planners.bounded_kernels import (
    DISCOUNT,
    ENOUGH,
    NEEDS_BOUNDS,
    NEEDS_OUTCOMES,
    NEEDS_TERMINAL,
    WHERE_STATE,
    WHERE_STEP,
    Nodes,
    Trial,
    back_up,
    fitted,
    least_row,
)
from tailwise.planners.bounded_outcomes import Listing

_MOST_EPISODES, _FEWEST_EPISODES, _STEPS = 4_096, 64, 2**18


class Player:
    """Plays episodes that begin with a decision.

    Parameters
    ----------
    listing, nodes, trial
        What the trials ran on. A planner that is reset takes new nodes, and leaves these as they were.
    handle, step : int
        State and step of the decision.
    seed : int
        Of the episodes.
    sense : "cost" or "reward"
        What the totals are.
    """

    def __init__(
        self, listing: Listing, nodes: Nodes, trial: Trial, handle: int, step: int, seed: int, sense: Sense
    ) -> None:
        self._sense = sense
        self._listing, self._nodes, self._trial = listing, nodes, trial
        self._handle, self._step, self._seed = handle, step, seed
        self._played: dict[int, NDArray[np.float64]] = {}

    def totals(self, position: int) -> NDArray[np.float64]:
        """Return discounted totals of 4,096 episodes that begin with an action (fewer where they are long).

        None where ``bounds`` is a function: episodes come to states of which it was not asked.
        """
        if position not in self._played:
            self._played[position] = self._play(position)
        totals = self._played[position]
        return totals.copy() if self._sense == "cost" else 0.0 - totals

    def _play(self, position: int) -> NDArray[np.float64]:
        trial = copy.deepcopy(self._trial)  # scratch of its own
        stream = own_words(generator(self._seed + position))
        steps = trial.betas.size - self._step
        totals = np.empty(min(_MOST_EPISODES, max(_FEWEST_EPISODES, _STEPS // steps)))
        done, status = 0, NEEDS_OUTCOMES
        while status != ENOUGH:
            done, status = play(
                self._listing.table, self._nodes, trial, stream, self._handle, position, self._step, totals, done
            )
            if status == NEEDS_OUTCOMES:
                self._listing.list_outcomes(int(trial.book[WHERE_STATE]))
                trial = fitted(trial, *self._listing.widths)
            elif status == NEEDS_TERMINAL:
                self._listing.list_terminal_cost(int(trial.book[WHERE_STATE]))
            elif status == NEEDS_BOUNDS:
                return totals[:0]
        return totals


@kernel
def play(table, nodes, trial, stream, state, position, step, totals, done):  # type: ignore[no-untyped-def]
    """Fill ``totals[done:]``; return (episodes done, status). An episode that must wait begins again."""
    table, nodes, trial, stream = borrowed(table), borrowed(nodes), borrowed(trial), borrowed(stream)
    begun = np.empty_like(stream)
    for k in range(done, totals.size):
        begun[:] = stream
        total, status = _episode(table, nodes, trial, stream, state, position, step)
        if status != ENOUGH:
            stream[:] = begun
            return k, status
        totals[k] = total
    return totals.size, ENOUGH


@inlined
def _episode(table, nodes, trial, stream, state, action, h):  # type: ignore[no-untyped-def]
    """Play one episode from ``state`` at step ``h``; return (total, status)."""
    total, factor = 0.0, 1.0
    while True:
        row = table.first_rows[state] + action
        k, last = table.offsets[row], table.offsets[row + 1] - 1
        left = next_double(stream)
        while k < last and left >= table.probabilities[k]:
            left -= table.probabilities[k]
            k += 1
        total += factor * table.losses[k]
        if table.step_losses.size:
            total += factor * table.step_losses[h, row]
        if table.done[k]:
            return total, ENOUGH
        state, factor, h = np.int64(table.next_states[k]), factor * trial.limits[DISCOUNT], h + 1
        if h == trial.betas.size:
            trial.book[WHERE_STEP], trial.book[WHERE_STATE] = h, state
            value = table.terminal_losses[state]
            return total + factor * value, NEEDS_TERMINAL if np.isnan(value) else ENOUGH
        status = back_up(table, nodes, trial, h, state)
        if status != ENOUGH:
            return total, status
        action = least_row(trial.q_high, trial.q_low, table.last_rows[state] - table.first_rows[state], -1)
