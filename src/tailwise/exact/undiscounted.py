r"""Totals without a horizon: the least ERM of the undiscounted total, of either sign of beta and of the costs.

The total of T steps has an ERM at every T, and the value of a policy is its limit. With ``W = E exp(beta total)`` it
solves the linear equation

    W(s) = sum of p exp(beta c) over outcomes that end + sum of p exp(beta c) W(s') over the others,

and is finite exactly where the spectral radius of the matrix B = (p exp(beta c)) of what goes on is below 1 (Su, Petrik
& Grand-Clement, 2025; Baier et al., 2023). beta > 0 looks for the least W, beta < 0 for the largest, beta = 0 is the
mean, with W itself in place of its logarithm. A stationary policy is optimal.

*What ends.* Outcomes that are ``done``, and end components whose rows cost nothing: a policy may stay there for ever
at a total of 0 (absorbing states are the simplest). Each is merged into one state, with a row "stop" of its own.

*What is infinite.* A policy whose B has radius >= 1 in a component. For beta < 0 one such policy makes everything that
can lead there -inf. For beta > 0 a finite policy is looked for: of greedy ones after some sweeps, of the quickest to
the end, and, where neither is finite, by killing: the episode is over after each step with probability 1 - theta, which
makes every policy finite for small theta; theta grows as far as the best policy allows, up to 1 or to the inverse of
the least radius, which is then proven to be above 1; each strongly connected component has a theta of its own. What is
infinite is removed, with all rows that lead there. A total that stays in loops that add up to nothing on the whole has
no limit: they are refused, but where :mod:`tailwise.exact.undiscounted_policy` can prove that leaving them is best.

*Policy iteration.* Values are scaled by their last guess, so that nothing overflows, and each policy is evaluated by
one sparse solve; a second right-hand side of ones, whose solution must be positive, proves that the radius is below 1.

*Brackets.* ``u = v + e d``, with d the steps to the end under the tilted matrix, is an upper bound where T_policy u <=
u, and ``l = v - e m`` a lower one where T l >= l for every row. Both are checked with the rounding of T on top.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from tailwise._arrays import Bools, Floats, Ints
from tailwise.errors import ModelError
from tailwise.exact.parts import LARGE, Part, words_of
from tailwise.exact.reachability import components, distances, kept_by_all, reached_from, reaching
from tailwise.exact.stationary import contracted
from tailwise.exact.undiscounted_policy import (
    LEAST_RADIUS,
    MOST_SWEEPS,
    Evaluated,
    Merged,
    bounded_past_loops,
    bracket,
    component_radii,
    evaluate_policy,
    is_level,
    kept_components,
    nearer,
)
from tailwise.models import TabularMDP

_ROUNDS = 1000
_ROUGH_ROUNDS = 20
_WORK = 50_000_000  # outcomes that sweeps may come through to prove that a total is infinite


@dataclass(frozen=True, eq=False)
class Total:
    """Values of the total from each state on, as losses, with what they are certain to lie between."""

    values: Floats
    lower: Floats
    upper: Floats
    rows: Ints  # the table's, of each state (-1 where it has none or does not matter)
    reasons: tuple[tuple[Ints, str], ...]  # why values are infinite: states and words

    def why(self, state: int) -> str:
        """Return in words why the value of a state is infinite."""
        for states, words in self.reasons:
            if state in states:
                return words
        return self.reasons[-1][1] if self.reasons else ""


class UndecidedError(ModelError):
    """Loops that a total may stay in add up to nothing, so that it has no limit."""


def solve_total(mdp: TabularMDP, beta: float) -> Total:
    """Return the least ERM of the total from each state on; NaN for loops without limit that it never meets."""
    try:
        return _Search(mdp, beta).run()
    except UndecidedError:
        within = reached_from(Part.of(mdp), [mdp.start])
        if within.all():
            raise
        found = _Search(mdp, beta, within).run()
        for values in (found.values, found.lower, found.upper):
            values[~within] = np.nan
        return found


@dataclass(eq=False)
class _Search:
    """The search for the values of a table; ``values`` are NaN where they are not known yet."""

    mdp: TabularMDP
    beta: float
    within: Bools | None = None  # states that matter; all if None
    merged: Merged = field(init=False)
    values: Floats = field(init=False)
    reasons: list[tuple[Ints, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        part = Part.of(self.mdp)
        self.merged = Merged.of(part if self.within is None else part.where(self.within[part.states]))
        own = self.merged.owner == np.arange(self.part.size)
        self.values = np.where(own, np.nan, 0.0)
        empty = np.flatnonzero(own & ~self.part.decides)
        self._set(empty, np.inf, f"no action is allowed in {words_of(self.mdp, empty)}")

    @property
    def part(self) -> Part:
        """The table, with what costs nothing merged."""
        return self.merged.part

    def run(self) -> Total:
        if self.beta == 0.0:
            self._drop_improper()
        while True:
            part = self._left()
            if not part.states.size:
                lower, upper = self.values.copy(), self.values.copy()
                chosen = part
                break
            found = self._round(part)
            if found is not None:
                rows, evaluated = found
                chosen = part.taking(rows)
                self.values = np.where(np.isnan(self.values), evaluated.values, self.values)
                lower, upper = bracket(part, chosen, self.values, evaluated.steps, self.beta)
                lower = bounded_past_loops(part, chosen, self.values, lower, self.beta)
                break
        ids = np.full(self.part.size, -1, np.int64)
        ids[chosen.states] = chosen.ids
        free = np.flatnonzero(self.part.decides & ~chosen.decides)  # infinite, whatever is done: the first action
        ids[free] = self.part.ids[np.searchsorted(self.part.states, free)]
        owner = self.merged.owner
        rows = self.merged.spread(ids, self.mdp.row_states)
        return Total(self.values[owner], lower[owner], upper[owner], rows, tuple(self.reasons))

    def _set(self, states: Ints, value: float, words: str) -> None:
        if states.size:
            self.values[states] = value
            self.reasons.append((states, words))

    def _left(self) -> Part:
        """Return the rows of states without a value that lead to no +inf; a state that loses all of them is +inf."""
        part = self.part
        while True:
            open_, worst = np.isnan(self.values), self.values == np.inf
            rows = open_[part.states] & ~part.rows_into(worst)
            if self.beta < 0.0:  # +inf is left out of a mean of exp(beta total)
                rows = open_[part.states]
            left = part.where(rows)
            stuck = np.flatnonzero(open_ & ~left.decides)
            if not stuck.size:
                return left
            self._set(stuck, np.inf, f"every action in {words_of(self.mdp, stuck)} can lead to an infinite total")

    def _drop_improper(self) -> None:
        """Of the mean: give a value to what cannot end surely, which is infinite whatever is done."""
        part, inside = self.part, np.isnan(self.values)
        while True:
            held = part.where(part.rows_within(inside))
            proper = reaching(held)
            if (proper & inside == inside).all():
                break
            inside = proper & inside
        outside = np.isnan(self.values) & ~inside
        if not outside.any():
            return
        gains, chosen = _gains(part)
        scale = float(np.abs(part.costs).max(initial=0.0))
        near = outside & (np.abs(gains) < 1e-5 * scale)
        if near.any():
            self._require_moving(chosen, outside & reached_from(chosen, np.flatnonzero(near)))
        falls = outside & (gains < 0.0)
        lost = np.flatnonzero(falls)
        self._set(
            lost, -np.inf, f"from {words_of(self.mdp, lost)} a loop can be followed for ever that lowers the total"
        )
        rest = np.flatnonzero(outside & ~falls)
        self._set(rest, np.inf, f"from {words_of(self.mdp, rest)} there is no way to end for sure")
        if lost.size:
            self._spread(inside)

    def _spread(self, inside: Bools) -> None:
        """Of the mean: what can lead to -inf, and to +inf not at all, is -inf too."""
        part = self.part
        while True:
            lost = self.values == -np.inf
            rows = part.rows_within(inside | lost) & part.rows_into(lost) & np.isnan(self.values)[part.states]
            more = np.unique(part.states[rows])
            if not more.size:
                return
            self._set(more, -np.inf, f"{words_of(self.mdp, more)} can lead to a loop that lowers the total for ever")

    def _round(self, part: Part) -> tuple[Ints, Evaluated] | None:
        """Solve what is left; None where some of it turned out to be infinite, and was given its value."""
        endless = np.isnan(self.values) & ~reaching(part)
        if endless.any():
            self._decide_endless(part.where(endless[part.states]), endless)
            return None
        quick = cache(lambda: self._quickest(part))
        start = np.where(np.isnan(self.values), 0.0, self.values)
        if self.beta > 0.0:
            finite = self._finite(part, quick, start)
            if finite is None:
                return None
            rows, start, steps = finite
        else:
            (rows, start), steps = self._nearly(part, *self._greedy(part, start, quick)), None
        rows, found = self._improved(part, rows, start, steps)
        if found.bad is not None and self.beta <= 0.0 and self._is_level(part.taking(rows), found.bad):
            rows, found = self._improved(part, quick(), start)  # improving on what ends leads to no such loop
        if found.bad is None:
            return rows, found
        self._lower(part, rows, found.bad)
        return None

    def _is_level(self, chosen: Part, inside: Bools) -> bool:
        """Whether a policy stays for ever, among states ``inside``, in loops that add up to nothing."""
        return any(is_level(chosen, states, self.beta) for states in kept_components(chosen, inside))

    def _require_moving(self, chosen: Part, inside: Bools) -> None:
        """Refuse loops that a policy stays in for ever, of states ``inside``, and that add up to nothing."""
        for states in kept_components(chosen, inside):
            if is_level(chosen, states, self.beta):
                raise undecided(self.mdp, states, self.beta)

    def _lower(self, part: Part, rows: Ints, bad: Bools) -> None:
        """Give -inf to a loop that can be followed at will, and to what can lead there."""
        loop = np.flatnonzero(bad)
        self._require_moving(part.taking(rows), bad)
        word = "lowers the total for ever" if self.beta == 0.0 else f"is left too seldom for beta {self.beta:g}"
        self._set(loop, -np.inf, f"{_loop_words(self.mdp, loop)} {word}")
        if self.beta == 0.0:
            self._spread(np.isnan(self.values))
            return
        can = reaching(self.part, bad)
        others = np.flatnonzero(can & np.isnan(self.values))
        self._set(
            others,
            -np.inf,
            f"from {words_of(self.mdp, others)} {_loop_words(self.mdp, loop)} can be reached, which {word}",
        )

    def _decide_endless(self, part: Part, endless: Bools) -> None:
        """Give values to states from which no end can be reached: the sign of what they pay for ever."""
        killed = part.killed(1.0 - 1e-9)
        start, rows = np.zeros(part.size), part.first_rows
        start[~endless] = self.values[~endless] if self.beta == 0.0 else start[~endless]
        states = np.flatnonzero(endless)
        words = f"from {words_of(self.mdp, states)} there is no way to end"
        if self.beta > 0.0:
            finite = self._finite(killed, lambda: rows, start)
            if finite is not None:
                self._require_moving(part.taking(finite[0]), endless)
                self._set(states, -np.inf, f"{words}, and the total falls for ever")
            return
        rows, found = self._improved(killed, rows, start)
        if found.bad is None:
            self._require_moving(part.taking(rows), endless)
            self._set(states, np.inf, f"{words}, and the total grows for ever")
        else:
            self._lower(part, rows, found.bad)

    def _finite(
        self, part: Part, quick: Callable[[], Ints], start: Floats
    ) -> tuple[Ints, Floats, Floats | None] | None:
        """Return a policy of finite values for beta > 0, those, and steps to the end if known; None if none is."""
        ways: tuple[Callable[[], tuple[Ints, Floats]], ...] = (
            lambda: self._nearly(part, *self._greedy(part, start, quick)),
            lambda: self._greedy(part, start, quick),
            lambda: (quick(), start),
        )
        for way in ways:
            rows, values = way()
            found = evaluate_policy(part.taking(rows), values, self.beta)
            if found.bad is None:
                return rows, found.values, found.steps
        loops = _grown_by_all(part, self.beta)
        if loops:
            for states in loops:
                self._set(states, np.inf, self._left_too_seldom(states))
            return None
        rows, loops = self._quietest(part, quick())
        if not loops:
            return rows, start, None
        mask = np.zeros(part.size, np.bool_)
        for states in loops:
            self._set(states, np.inf, self._left_too_seldom(states))
            mask[states] = True
        _, labels = components(part)
        others = np.flatnonzero(reaching(part.held_in(labels).taking(rows), mask) & ~mask & np.isnan(self.values))
        self._set(others, np.inf, f"from {words_of(self.mdp, others)} every way leads to loops: {self.reasons[-1][1]}")
        return None

    def _left_too_seldom(self, loop: Ints) -> str:
        return f"{_loop_words(self.mdp, loop)} is left too seldom for beta {self.beta:g}"

    def _quietest(self, part: Part, rows: Ints) -> tuple[Ints, list[Ints]]:
        """Return a policy whose total is finite in each component where one's is, and the loops of the others."""
        count, labels = components(part)
        held, none = part.held_in(labels), np.zeros(part.size)  # what leaves a component does not come through again
        of_row, of_state, rows = labels[held.states], labels[held.deciding], rows.copy()
        top, going = np.zeros(count), np.zeros(count, np.bool_)
        endless: list[Ints] = []
        np.maximum.at(top, of_row, self.beta * held.risks(none, self.beta))
        share = before = 0.5 * np.exp(-top)
        going[of_row] = True
        for _ in range(_ROUNDS):
            if not going.any():
                return rows, endless
            ids, mine = np.flatnonzero(going[of_row]), going[of_state]
            piece, old = held.taking(ids).killed(share[of_row[going[of_row]]]), np.searchsorted(ids, rows[mine])
            better, found = self._improved(piece, old, none)
            stuck = np.zeros(count, np.bool_)
            if found.bad is not None:  # by rounding
                stuck[labels[found.bad]] = True
            rows[mine] = np.where(stuck[of_state[mine]], rows[mine], ids[better])
            loops, most = component_radii(held.taking(rows[mine]), found.values, self.beta), np.full(count, -np.inf)
            for radius, states in loops:
                most[labels[states[0]]] = max(most[labels[states[0]]], radius)
            proven = going & (share * np.exp(most) >= 1.0 - np.where(stuck, 1e-6, 1e-10))
            for radius, states in loops:
                own = labels[states[0]]
                if proven[own] and radius >= max(most[own] - 1e-9, LEAST_RADIUS):
                    endless.append(states)
            going &= ~proven & (most >= LEAST_RADIUS)
            nearer = share + 0.95 * (np.exp(-np.where(going, most, 0.0)) - share)
            share, before = np.where(stuck, 0.5 * (before + share), nearer), share
        raise undecided(self.mdp, np.flatnonzero(going[labels]), self.beta)

    def _improved(self, part: Part, rows: Ints, start: Floats, steps: Floats | None = None) -> tuple[Ints, Evaluated]:
        """Improve a policy until no row is better, or a total is not finite; ``steps``, to the end, if known."""
        values, settled = start, steps is not None
        for _ in range(_ROUNDS):
            found = evaluate_policy(part.taking(rows), values, self.beta, steps)
            if found.bad is not None:
                return rows, found
            values, steps = found.values, found.steps
            risks = part.risks(values, self.beta)
            best = part.least(risks)
            sizes = np.where(np.isfinite(values), np.abs(values), 0.0) + _local_size(part, rows)
            better = (best < values - 1e-13 * sizes)[part.deciding]
            if not better.any():
                if settled:
                    break
                settled = True  # once more: each evaluation is a Newton step from the last
                continue
            settled = False
            rows = np.where(better, part.best_rows(risks, best), rows)
        return rows, found

    def _nearly(self, part: Part, rows: Ints, values: Floats) -> tuple[Ints, Floats]:
        """Improve a policy of a large part by values that are rough, as long as they are of use: to begin with."""
        if part.size <= LARGE:
            return rows, values
        before, good = (rows, values), rows
        for _ in range(_ROUGH_ROUNDS):
            found = nearer(part, rows, values, self.beta)
            if found is None:
                break
            good, values = rows, found
            risks = part.risks(values, self.beta)
            best = part.least(risks)
            better = (best < values - 1e-9 * float(np.abs(values[part.deciding]).max()))[part.deciding]
            if not better.any():
                break
            rows = np.where(better, part.best_rows(risks, best), rows)
        ending = reaching(part.taking(good))
        return (good, values) if ending[part.deciding].all() else before

    def _greedy(self, part: Part, start: Floats, quick: Callable[[], Ints]) -> tuple[Ints, Floats]:
        """Return what is best after some sweeps, and the values after them."""
        values, deciding = start.copy(), part.deciding
        limit, level = (MOST_SWEEPS, self.beta) if part.size <= 10_000 else (30, 0.0)  # sweeps of means are quick
        for _ in range(limit):
            risks = part.risks(values, level)
            best = part.least(risks)[deciding]
            moved = float(np.abs(best - values[deciding]).max())
            values[deciding] = best
            if not moved > 1e-12 * float(np.abs(best).max()) or not math.isfinite(moved):
                break
        risks = part.risks(values, self.beta)
        return (part.best_rows(risks, part.least(risks)), values) if np.isfinite(risks).all() else (quick(), start)

    @staticmethod
    def _quickest(part: Part) -> Ints:
        """Return, of each state, its first row that can lead one step nearer to the end."""
        distance = distances(part)
        nearer = np.where(part.targets >= 0, distance[part.targets], -1.0) < distance[part.states[part.owners]]
        good = np.flatnonzero(np.logical_or.reduceat(nearer, part.offsets[:-1]))
        return good[np.searchsorted(part.states[good], part.deciding)]


def _grown_by_all(part: Part, beta: float) -> list[Ints]:
    """Return sets of states where no total is finite: ``least sum of p exp(beta c + h(s')) >= exp h(s)`` inside."""
    held, deciding = kept_by_all(part)
    if not deciding.size:
        return []
    count, labels = components(held)
    stays, first = held.targets >= 0, held.offsets[:-1]
    weights, costs, labels = np.where(stays, held.probabilities, 0.0), beta * held.costs, labels[deciding]
    near, logs = 1e-12 * (1.0 + float(np.abs(costs).max())), np.zeros(part.size)
    for _ in range(max(10, min(1000, _WORK // held.targets.size))):
        ahead = np.where(stays, costs + logs[held.targets], -np.inf)
        top = np.maximum.reduceat(ahead, first)
        rows = top + np.log(np.add.reduceat(weights * np.exp(ahead - top[held.owners]), first))
        after = held.least(rows)[deciding]
        moved, low, high = after - logs[deciding], np.full(count, np.inf), np.full(count, -np.inf)
        np.minimum.at(low, labels, moved)
        np.maximum.at(high, labels, moved)
        grown = (low >= near) & (low < np.inf)
        if grown.any() or (high < near).all():
            return [deciding[labels == k] for k in np.flatnonzero(grown)]
        logs[deciding] = np.logaddexp(logs[deciding], after) - math.log(2.0)  # half of it stays: no period
    return []


def _local_size(part: Part, rows: Ints) -> Floats:
    """Return the largest cost of each state's row, for tolerances."""
    sizes = np.zeros(part.size)
    sizes[part.states[rows]] = np.maximum.reduceat(np.abs(part.costs), part.offsets[:-1])[rows]
    return sizes


def undecided(mdp: TabularMDP, states: Ints, beta: float) -> UndecidedError:
    """Say which loops add up to nothing."""
    kind = "worst total" if beta == math.inf else f"total at beta {beta:g}"
    return UndecidedError(
        f"the {kind} of {mdp.name} cannot be told: loops through {words_of(mdp, states)} add up to "
        "nothing on the whole, so that a total that stays in them has no limit; let them end, or cost something"
    )


def _gains(part: Part) -> tuple[Floats, Part]:
    """Return about the least mean cost per step for ever from each state, and the policy that has it."""
    far = 1.0 - 1e-7
    values, _, _, ids = contracted(part, 0.0, far)
    return (1.0 - far) * values, part.taking(np.flatnonzero(np.isin(part.ids, ids)))


def _loop_words(mdp: TabularMDP, loop: Ints) -> str:
    """Name a loop by its states."""
    if loop.size == 1:
        return f"the loop of state {mdp.state_name(int(loop[0]))}"
    return f"from state {mdp.state_name(int(loop[0]))} the loop through {words_of(mdp, loop[1:])}"
