"""Totals on a grid: for tables with too many accrued costs to list (:mod:`tailwise.planners.totals`).

Accrued costs live on equally spaced points, the same at every step. What falls between two points goes to both, in the
proportion that keeps the mean. Every total X of a policy then becomes X + D, where D is a sum of H + 1 steps, each of
mean 0 whatever came before and within one spacing w. Hence for every policy

- the mean is exact, and the mean of a convex function of the total (CVaR, ERM) is never understated;
- no total is off by more than ``(H + 1) w``, and risks are overstated by far less, since D is sub-Gaussian (Hoeffding):
  CVaR, which is subadditive, by at most ``w sqrt((H + 1) ln(1 / (1 - level)) / 2)``, ERM by ``beta (H + 1) w^2 / 8``.

So the optimum on the grid bounds that of the table from both sides, up to these. The plan that has the value of
the grid rounds what was paid to one of the two points at random; :meth:`GridTotals.action` takes the nearest, which the
bound on the optimum does not depend on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import kernel
from tailwise.models import TabularMDP

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_POINTS = (64, 8192)
_ROOM = 30_000_000  # choices kept: steps x states x points
_WORK = 400_000_000  # outcomes x steps x points of a sweep: a second or so


@dataclass(frozen=True, eq=False)
class GridTotals:
    """A table over (state, accrued cost), with accrued costs on a grid.

    Attributes
    ----------
    mdp : TabularMDP
        The table.
    points : ndarray of float64, shape (n,)
        The grid.
    spacing : float
        Its spacing w.
    """

    mdp: TabularMDP
    points: Floats
    spacing: float

    @classmethod
    def over(cls, mdp: TabularMDP) -> GridTotals:
        """Lay the grid over all accrued costs that can occur, as fine as room and time allow."""
        low = high = 0.0
        least, most = float(mdp.losses.min()), float(mdp.losses.max())
        lows, highs = [0.0], [0.0]
        for h in range(mdp.horizon):
            step = mdp.step_losses[h] if mdp.step_losses.size else np.zeros(1)
            low += mdp.discount**h * (least + float(step.min()))
            high += mdp.discount**h * (most + float(step.max()))
            lows.append(low)
            highs.append(high)
        last = mdp.discount**mdp.horizon
        bottom = min(*lows, low + last * float(mdp.terminal_losses.min()))
        top = max(*highs, high + last * float(mdp.terminal_losses.max()))
        count = min(
            _POINTS[1],
            _ROOM // (mdp.horizon * mdp.num_states),
            _WORK // (mdp.horizon * mdp.num_outcomes),
        )
        count = max(_POINTS[0], count)
        margin = mdp.horizon + 2  # each step may go one point further
        spacing = (top - bottom) / max(1, count - 2 * margin) or 1.0
        first = math.floor(bottom / spacing) - margin
        points = spacing * np.arange(first, first + math.ceil((top - bottom) / spacing) + 2 * margin + 2)
        return cls(mdp, np.asarray(points, np.float64), spacing)

    @property
    def tolerance(self) -> float:
        """No total is off by more than this."""
        return (self.mdp.horizon + 1) * self.spacing

    @property
    def understated(self) -> float:
        """By how much the CVaR or ERM of a policy may be understated: not at all."""
        return 0.0

    def overstated(self, *, level: float | None = None, beta: float | None = None) -> float:
        """By how much the CVaR at a level, or the ERM at a beta, of a policy may be overstated."""
        steps = self.mdp.horizon + 1
        if level is not None:
            return min(self.tolerance, self.spacing * math.sqrt(-0.5 * steps * math.log1p(-level)))
        return self.tolerance if beta is None else min(self.tolerance, beta * steps * self.spacing**2 / 8.0)

    @property
    def displaced(self) -> tuple[float, float]:
        """A distance, and with what probability a total is off by more, in one direction, at most (Hoeffding)."""
        doubt = 1e-9
        far = self.spacing * math.sqrt(-0.5 * (self.mdp.horizon + 1) * math.log(doubt))
        return (far, doubt) if far < self.tolerance else (self.tolerance, 0.0)

    def all_totals(self) -> Floats:
        """Return every total on the grid, increasing."""
        return self.points

    def minimise(self, function: Callable[[Floats], Floats]) -> tuple[float, NDArray[np.int32]]:
        """Return the least mean of a function of the total, and the table's row to take: (H, S, n); -1 for none."""
        mdp, size = self.mdp, self.points.size
        worth = np.asarray(function(self.points), dtype=np.float64)
        values = np.empty((mdp.num_states, size))
        for state, loss in enumerate(mdp.terminal_losses * mdp.discount**mdp.horizon):
            values[state] = np.interp(self.points + loss, self.points, worth)
        chosen = np.empty((mdp.horizon, mdp.num_states, size), np.int32)
        for h in range(mdp.horizon - 1, -1, -1):
            before = np.empty_like(values)
            sweep_back(*self._table(h), worth, values, before, chosen[h])
            values = before
        zero = round(-self.points[0] / self.spacing)
        return float(values[mdp.start, zero]), chosen

    def law(self, chosen: NDArray[np.int32]) -> tuple[Floats, Floats]:
        """Return totals (increasing) and probabilities under the choices of :meth:`minimise`."""
        mdp, size = self.mdp, self.points.size
        mass, ended = np.zeros((mdp.num_states, size)), np.zeros(size)
        mass[mdp.start, round(-self.points[0] / self.spacing)] = 1.0
        for h in range(mdp.horizon):
            after = np.zeros_like(mass)
            send_forward(*self._table(h), chosen[h], mass, after, ended)
            mass = after
        for state, loss in enumerate(mdp.terminal_losses * mdp.discount**mdp.horizon):
            shift = math.floor(loss / self.spacing)
            part = loss / self.spacing - shift
            held = np.flatnonzero(mass[state])
            ended += np.bincount(np.clip(held + shift, 0, size - 1), (1.0 - part) * mass[state, held], size)
            ended += np.bincount(np.clip(held + shift + 1, 0, size - 1), part * mass[state, held], size)
        kept = ended > 0.0
        return self.points[kept], ended[kept] / ended.sum()

    def action(self, chosen: NDArray[np.int32], state: int, h: int, accrued: float) -> int:
        """Return the action id at the point nearest to ``accrued``, an inner cost."""
        index = int(np.clip(round((accrued - self.points[0]) / self.spacing), 0, self.points.size - 1))
        return int(self.mdp.action_ids[chosen[h, state, index]])

    def _table(self, h: int) -> tuple[Ints, Ints, Floats, NDArray[np.int32], Ints, Floats, NDArray[np.bool_]]:
        """Return the table's arrays, with each outcome's shift on the grid: whole points, and the part beyond."""
        mdp = self.mdp
        losses = mdp.losses
        if mdp.step_losses.size:
            losses = losses + np.repeat(mdp.step_losses[h], np.diff(mdp.outcome_offsets))
        moved = losses * (mdp.discount**h / self.spacing)
        whole = np.floor(moved)
        return (
            mdp.action_offsets, mdp.outcome_offsets, mdp.probabilities, mdp.next_states, whole.astype(np.int64),
            moved - whole, mdp.done,
        )  # fmt: skip


@kernel
def sweep_back(
    action_offsets: Ints,
    outcome_offsets: Ints,
    probabilities: Floats,
    next_states: NDArray[np.int32],
    whole: Ints,
    part: Floats,
    done: NDArray[np.bool_],
    worth: Floats,
    values: Floats,
    before: Floats,
    chosen: NDArray[np.int32],
) -> None:
    """One step back: ``before[s, k]`` is the least mean over the actions of s, ``chosen[s, k]`` its row."""
    size = values.shape[1]
    mean = np.empty(size)
    for state in range(values.shape[0]):
        before[state] = np.inf
        chosen[state] = -1
        for row in range(action_offsets[state], action_offsets[state + 1]):
            mean[:] = 0.0
            for j in range(outcome_offsets[row], outcome_offsets[row + 1]):
                source = worth if done[j] else values[next_states[j]]
                near, far = probabilities[j] * (1.0 - part[j]), probabilities[j] * part[j]
                shift = whole[j]
                for k in range(size):
                    index = min(max(k + shift, 0), size - 2)
                    mean[k] += near * source[index] + far * source[index + 1]
            for k in range(size):
                if mean[k] < before[state, k] - 1e-12 * max(1.0, abs(before[state, k])) or chosen[state, k] < 0:
                    before[state, k] = mean[k]
                    chosen[state, k] = row


@kernel
def send_forward(
    action_offsets: Ints,
    outcome_offsets: Ints,
    probabilities: Floats,
    next_states: NDArray[np.int32],
    whole: Ints,
    part: Floats,
    done: NDArray[np.bool_],
    chosen: NDArray[np.int32],
    mass: Floats,
    after: Floats,
    ended: Floats,
) -> None:
    """One step forward: the mass of each (state, point) goes to its row's outcomes; ``ended`` takes what is done."""
    size = mass.shape[1]
    for state in range(mass.shape[0]):
        for k in range(size):
            here = mass[state, k]
            if here == 0.0:
                continue
            row = chosen[state, k]
            for j in range(outcome_offsets[row], outcome_offsets[row + 1]):
                target = ended if done[j] else after[next_states[j]]
                index = min(max(k + whole[j], 0), size - 2)
                target[index] += here * probabilities[j] * (1.0 - part[j])
                target[index + 1] += here * probabilities[j] * part[j]
