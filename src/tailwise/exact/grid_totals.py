"""Totals on a grid: for tables with too many accrued costs to list (:mod:`tailwise.exact.totals`).

Accrued costs live on equally spaced points, the same at every step; each state at each step has those that it can be
reached with. What falls between two points goes to both, in the
proportion that keeps the mean. Every total X of a policy then becomes X + D, where D is a sum of H + 1 steps, each of
mean 0 whatever came before and within one spacing w. Hence for every policy

- the mean is exact, and the mean of a convex function of the total (CVaR, ERM) is never understated;
- no total is off by more than ``(H + 1) w``, and risks are overstated by far less, since D is sub-Gaussian (Hoeffding):
  CVaR, which is subadditive, by at most ``w sqrt((H + 1) ln(1 / (1 - level)) / 2)``, ERM by ``beta (H + 1) w^2 / 8``.

So the optimum on the grid bounds that of the table from both sides, up to these. The plan that has the value of
the grid rounds what was paid to one of the two points at random; :meth:`GridTotals.action` takes the nearest, which the
bound on the optimum does not depend on.

A bound for a plan *as it is followed* comes from rounding every cost up (:meth:`GridTotals.minimise_upward`). Let V be
the least mean of an increasing function of the total in that model; V grows with what was paid. A plan that acts on
what was paid, rounded up once, pays c at x and is then at ``ceil(x + c) <= ceil(x) + ceil(c)``: by induction its mean
in the table is at most V.

Where what is done is given, :meth:`GridTotals.bounds_followed` rounds up on a finer grid, and takes the worse of the
actions that the plan may be at: what was truly paid is known up to a point a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints, marked, ranges
from tailwise._jit import kernel
from tailwise.errors import StateError
from tailwise.exact.reachability import relevant
from tailwise.models import TabularMDP
from tailwise.models.accrued import total_bounds

Choices: TypeAlias = Sequence[NDArray[np.signedinteger[Any]]]
"""What to do at each step, as laid out on the totals: of one graph alone."""

_POINTS = (64, 8192)
_EQUAL = 1e-9  # of a spacing: rounding
_ROOM = 30_000_000  # choices kept: points of all states at all steps
WORK = 400_000_000  # outcomes of all these points: a sweep takes about half a second


class Layer(NamedTuple):
    """The states of one step, in order, each with the points ``low .. low + width - 1``, one after the other."""

    states: Ints  # (n,)
    low: Ints  # (n,)
    first: Ints  # (n + 1,): where the points of each begin
    place: Ints  # (S,): index of a state in ``states``


class Moves(NamedTuple):
    """A table's arrays, with each outcome's shift on the grid at a step."""

    action_offsets: Ints
    outcome_offsets: Ints
    probabilities: Floats
    next_states: NDArray[np.int32]
    whole: Ints  # points
    part: Floats  # of a point, beyond
    done: NDArray[np.bool_]


class Upward(list[NDArray[np.int32]]):
    """Choices that are read at the point above what was paid, not at the nearest."""


@dataclass(frozen=True, eq=False)
class GridTotals:
    """A table over (state, accrued cost), with accrued costs on a grid of whole multiples of a spacing."""

    mdp: TabularMDP
    spacing: float
    layers: tuple[Layer, ...]  # what can be reached, at the steps 0 to H
    ends: tuple[int, int]  # the first and the last point of a total

    @classmethod
    def over(cls, mdp: TabularMDP, *, work: float = WORK, every_action: bool = False) -> GridTotals:
        """Lay the grid as fine as room and ``work``, in outcomes of points to look at in a sweep, allow."""
        mdp.require_sound()
        mdp = mdp if every_action else relevant(mdp)
        low, high = total_bounds(mdp)
        coarse = cls.spaced(mdp, (high - low) / 1024.0 or 1.0, every_action=True)
        points = sum(int(layer.first[-1]) for layer in coarse.layers)
        looks = sum(
            int((np.diff(layer.first) * _outcomes(mdp)[layer.states]).sum()) for layer in coarse.layers[: mdp.horizon]
        )
        total = coarse.ends[1] - coarse.ends[0] + 1
        finer = min(work / looks, _ROOM / points, _POINTS[1] / total)
        return cls.spaced(mdp, coarse.spacing / max(finer, _POINTS[0] / total), every_action=True)

    @classmethod
    def spaced(cls, mdp: TabularMDP, spacing: float, *, every_action: bool = False) -> GridTotals:
        """Lay a grid of a given spacing."""
        mdp = mdp if every_action else relevant(mdp)
        states, low, high = np.array([mdp.start]), np.zeros(1, np.int64), np.zeros(1, np.int64)
        layers, least, most = [], [], []
        for h in range(mdp.horizon + 1):
            place = np.full(mdp.num_states, -1)
            place[states] = np.arange(states.size)
            layers.append(Layer(states, low, np.append(0, np.cumsum(high - low + 1)), place))
            if h == mdp.horizon:
                shift = np.floor(mdp.terminal_losses[states] * mdp.discount**h / spacing).astype(np.int64)
                least.append(low + shift)
                most.append(high + shift + 1)
                break
            owners, rows, outcomes = _from_states(mdp, states)
            shift = _moved(mdp, h, spacing, outcomes, rows)[0]
            low, high = low[owners] + shift, high[owners] + shift + 1
            done = mdp.done[outcomes]
            least.append(low[done])
            most.append(high[done])
            targets = mdp.next_states[outcomes][~done]
            reached = np.full(mdp.num_states, 2**62), np.full(mdp.num_states, -(2**62))
            np.minimum.at(reached[0], targets, low[~done])
            np.maximum.at(reached[1], targets, high[~done])
            states = np.flatnonzero(marked(mdp.num_states, targets))
            low, high = reached[0][states], reached[1][states]
        ends = int(np.concatenate(least).min()), int(np.concatenate(most).max())
        return cls(mdp, spacing, tuple(layers), ends)

    @property
    def tolerance(self) -> float:
        """No total is off by more than this."""
        return float((self.mdp.horizon + 1) * self.spacing)

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
        return np.asarray(self.spacing * np.arange(self.ends[0], self.ends[1] + 1), np.float64)

    def minimise(self, function: Callable[[Floats], Floats]) -> tuple[float, list[NDArray[np.int32]]]:
        """Return the least mean of a function of the total, and the table's row to take at each point of each step."""
        points = self.all_totals()
        worth = np.asarray(function(points), dtype=np.float64)
        return self._swept(worth, np.interp(self._final(), points, worth), is_upward=False)

    def minimise_upward(self, function: Callable[[Floats], Floats]) -> tuple[float, Upward]:
        """Return a bound on the mean of an increasing function under the choices, as they are followed, and these."""
        worth = np.asarray(function(self.all_totals()), dtype=np.float64)
        least, chosen = self._swept(worth, np.asarray(function(self._final()), np.float64), is_upward=True)
        return least, Upward(chosen)

    def is_blind(self, chosen: Choices) -> bool:
        """Return whether choices do not depend on what was paid: then they are followed as on the grid."""
        firsts = (
            np.repeat(rows[layer.first[:-1]], np.diff(layer.first))
            for rows, layer in zip(chosen, self.layers, strict=False)
        )
        return all(np.array_equal(rows, first) for rows, first in zip(chosen, firsts, strict=True))

    def bounds_followed(self, chosen: Choices, functions: Callable[[Floats], Floats], *, finer: int = 8) -> Floats:
        """Return bounds (F,) on the means of increasing functions, values (F, n) of n totals, of a plan as followed."""
        fine = GridTotals.spaced(self.mdp, self.spacing / finer, every_action=True)
        worth, values = np.atleast_2d(functions(fine.all_totals())), np.atleast_2d(functions(fine._final()))
        for h in range(self.mdp.horizon - 1, -1, -1):
            layer = fine.layers[h]
            _, owners, points = ranges(layer.low, layer.low + np.diff(layer.first))
            states, high = layer.states[owners], (points + _EQUAL) * fine.spacing
            low = high - (h + 2.0 * _EQUAL) * fine.spacing
            steps = range(math.ceil(h / finer) + 2)
            rows = np.array([self.rows_at(chosen, states, h, np.minimum(low + k * self.spacing, high)) for k in steps])
            table = fine._table(h, is_upward=True)
            values = follow_back(table, layer, fine.layers[h + 1], worth, fine.ends[0], values, rows)
        return np.asarray(values[:, 0])

    def slack(self, total: float) -> float:
        """Return how far the totals lie above ``total`` that are equal to it but for rounding."""
        return 1e-11 * abs(total) + _EQUAL * self.spacing

    def _swept(self, worth: Floats, values: Floats, *, is_upward: bool) -> tuple[float, list[NDArray[np.int32]]]:
        """Sweep back from what the totals are worth, and the points of the last step."""
        chosen = []
        for h in range(self.mdp.horizon - 1, -1, -1):
            here = self.layers[h]
            rows = np.empty(here.first[-1], np.int32)
            table = self._table(h, is_upward=is_upward)
            values = sweep_back(table, here, self.layers[h + 1], worth, self.ends[0], values, rows)
            chosen.append(rows)
        return float(values[0]), chosen[::-1]

    def law(self, chosen: Choices) -> tuple[Floats, Floats]:
        """Return totals (increasing) and probabilities under the choices of :meth:`minimise`."""
        ended, mass = np.zeros(self.ends[1] - self.ends[0] + 1), np.ones(1)
        for h, rows in enumerate(chosen):
            mass = send_forward(self._table(h), self.layers[h], self.layers[h + 1], rows, mass, self.ends[0], ended)
        held = np.flatnonzero(mass)
        position = self._final()[held] / self.spacing - self.ends[0]
        below = np.clip(np.floor(position).astype(np.int64), 0, max(0, ended.size - 2))
        part = np.clip(position - below, 0.0, 1.0)
        ended += np.bincount(below, (1.0 - part) * mass[held], ended.size)
        ended += np.bincount(np.minimum(below + 1, ended.size - 1), part * mass[held], ended.size)
        kept = ended > 0.0
        return self.all_totals()[kept], ended[kept] / ended.sum()

    def action(self, chosen: Choices, state: int, h: int, accrued: float) -> int:
        """Return the action id at the point nearest to ``accrued``, an inner cost."""
        if self.layers[h].place[state] < 0:
            raise StateError(f"state {self.mdp.state_name(state)} cannot be reached at step {h}")
        return int(self.mdp.action_ids[self.rows_at(chosen, np.array([state]), h, np.array([accrued]))[0]])

    def rows_at(self, chosen: Choices, states: Ints, h: int, accrued: Floats) -> NDArray[np.int32]:
        """Return the table's row to take in each pair, at the nearest point."""
        layer = self.layers[h]
        index = layer.place[states]
        first, width = layer.first[index], layer.first[index + 1] - layer.first[index]
        place = (
            np.ceil(accrued / self.spacing - _EQUAL) if isinstance(chosen, Upward) else np.rint(accrued / self.spacing)
        )
        points = np.clip(place - layer.low[index], 0, width - 1).astype(np.int64)
        return np.asarray(chosen[h][first + points])

    def begun_with(self, chosen: Choices, row: int) -> Choices:
        """Return choices that take another row of the table first."""
        kind = Upward if isinstance(chosen, Upward) else list
        return kind([np.full_like(chosen[0], row), *chosen[1:]])

    def _final(self) -> Floats:
        """Return the total at each point of step H, with the end's cost."""
        layer, mdp = self.layers[-1], self.mdp
        _, owners, points = ranges(layer.low, layer.low + np.diff(layer.first))
        ends: Floats = mdp.terminal_losses[layer.states] * mdp.discount**mdp.horizon
        return np.asarray(self.spacing * points + ends[owners])

    @cached_property
    def _moves(self) -> list[tuple[Ints, Floats]]:
        mdp, states = self.mdp, [layer.states for layer in self.layers[:-1]]
        if np.bincount(np.concatenate(states)).max() > 1:
            return [_moved(mdp, h, self.spacing) for h in range(mdp.horizon)]
        moves = np.zeros(mdp.num_outcomes, np.int64), np.zeros(mdp.num_outcomes)  # states that are of one step each
        for h, layer in enumerate(states):
            _, rows, outcomes = _from_states(mdp, layer)
            moves[0][outcomes], moves[1][outcomes] = _moved(mdp, h, self.spacing, outcomes, rows)
        return [moves] * mdp.horizon

    def _table(self, h: int, *, is_upward: bool = False) -> Moves:
        """Return the table at a step."""
        mdp = self.mdp
        whole, part = self._moves[h]
        if is_upward:
            whole, part = whole + (part > _EQUAL), np.zeros_like(part)
        return Moves(mdp.action_offsets, mdp.outcome_offsets, mdp.probabilities, mdp.next_states, whole, part, mdp.done)


def _from_states(mdp: TabularMDP, states: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the outcomes of some states: place of the state, row and number of each."""
    _, owners, rows = ranges(mdp.action_offsets[states], mdp.action_offsets[states + 1])
    _, places, outcomes = ranges(mdp.outcome_offsets[rows], mdp.outcome_offsets[rows + 1])
    return owners[places], rows[places], outcomes


def _moved(
    mdp: TabularMDP, h: int, spacing: float, outcomes: Any = slice(None), rows: Any = None
) -> tuple[Ints, Floats]:
    """Return by how many points, and parts of one, outcomes move at step ``h``; given some, with the row of each."""
    moved = mdp.losses_at(h, outcomes, rows) * (mdp.discount**h / spacing)
    whole = np.floor(moved)
    return whole.astype(np.int64), moved - whole


def _outcomes(mdp: TabularMDP) -> Ints:
    """Return the number of outcomes of each state's actions."""
    return np.diff(mdp.outcome_offsets[mdp.action_offsets])


@kernel
def sweep_back(table, here, after, worth, bottom, values, chosen):  # type: ignore[no-untyped-def]
    """One step back: return the least mean over the actions at each point; ``chosen`` becomes its row."""
    before = np.full(here.first[-1], np.inf)
    for i in range(here.states.size):
        state, start = here.states[i], here.first[i]
        width = here.first[i + 1] - start
        mean = np.empty(width)
        for row in range(table.action_offsets[state], table.action_offsets[state + 1]):
            mean[:] = 0.0
            for j in range(table.outcome_offsets[row], table.outcome_offsets[row + 1]):
                source, shift = worth, here.low[i] + table.whole[j] - bottom
                if not table.done[j]:
                    k = after.place[table.next_states[j]]
                    source, shift = values, here.low[i] + table.whole[j] - after.low[k] + after.first[k]
                near, far = table.probabilities[j] * (1.0 - table.part[j]), table.probabilities[j] * table.part[j]
                if far == 0.0:  # a cost on a point, or rounded up to one: there may be none beyond it
                    for k in range(width):
                        mean[k] += near * source[shift + k]
                else:
                    for k in range(width):
                        mean[k] += near * source[shift + k] + far * source[shift + k + 1]
            for k in range(width):
                old = before[start + k]
                if old == np.inf or mean[k] < old - 1e-12 * abs(old):
                    before[start + k] = mean[k]
                    chosen[start + k] = row
    return before


@kernel
def follow_back(table, here, after, worth, bottom, values, rows):  # type: ignore[no-untyped-def]
    """One step back: return, of each function, the largest mean over the rows (R, n) that may be taken at a point."""
    before = np.full((worth.shape[0], here.first[-1]), -np.inf)
    for i in range(here.states.size):
        for place in range(here.first[i], here.first[i + 1]):
            point = here.low[i] + place - here.first[i]
            for k in range(rows.shape[0]):
                row = rows[k, place]
                if k > 0 and row == rows[k - 1, place]:
                    continue
                for f in range(worth.shape[0]):
                    mean = 0.0
                    for j in range(table.outcome_offsets[row], table.outcome_offsets[row + 1]):
                        if table.done[j]:
                            value = worth[f, point + table.whole[j] - bottom]
                        else:
                            to = after.place[table.next_states[j]]
                            value = values[f, point + table.whole[j] - after.low[to] + after.first[to]]
                        mean += table.probabilities[j] * value
                    before[f, place] = max(before[f, place], mean)
    return before


@kernel
def send_forward(table, here, after, chosen, mass, bottom, ended):  # type: ignore[no-untyped-def]
    """One step forward: the mass of each point goes to its row's outcomes; ``ended`` takes what is done."""
    reached = np.zeros(after.first[-1])
    for i in range(here.states.size):
        for place in range(here.first[i], here.first[i + 1]):
            if mass[place] == 0.0:
                continue
            row, point = chosen[place], here.low[i] + place - here.first[i]
            for j in range(table.outcome_offsets[row], table.outcome_offsets[row + 1]):
                sent = mass[place] * table.probabilities[j]
                if table.done[j]:
                    index = point + table.whole[j] - bottom
                    ended[index] += sent * (1.0 - table.part[j])
                    ended[index + 1] += sent * table.part[j]
                else:
                    k = after.place[table.next_states[j]]
                    index = point + table.whole[j] - after.low[k] + after.first[k]
                    reached[index] += sent * (1.0 - table.part[j])
                    reached[index + 1] += sent * table.part[j]
    return reached
