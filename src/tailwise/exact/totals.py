"""Every total that a table can reach: the ground on which any aim about the total is solved exactly.

What matters for a function of the total is the pair (state, accrued discounted cost). From ``(start, 0)`` each step
sends every pair through every action to its outcomes; pairs that are equal are one. On the graph that results, the
least mean of *any* function of the total takes one pass backward, and a policy's law one pass forward.

Equal means: but for the rounding of the sums that led there, which is told from the sizes of what was added. There can
still be too many pairs: their number grows exponentially with the horizon where costs are in general position. Then
they are put on a grid (:mod:`tailwise.exact.grid_totals`).

Costs here are inner ones: minimised, whatever the model's sense.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tailwise._arrays import Floats, Ints, ranges
from tailwise._validate import integer
from tailwise.errors import OptionError, StateError
from tailwise.exact.grid_totals import WORK, Choices, GridTotals
from tailwise.exact.reachability import relevant
from tailwise.models import TabularMDP

MAX_OUTCOMES = 1_000_000
_ROUNDING = 8 * float(np.finfo(np.float64).eps)  # of the size of a sum, per term
_TIE = 1e-12


class Step(NamedTuple):
    """The pairs of one step, sorted by state and accrued cost, and where their actions lead."""

    states: Ints  # (n,)
    accrued: Floats  # (n,)
    choices: Ints  # (n,): first entry of each pair in ``rows``
    rows: Ints  # (k,): rows of the table
    branches: Ints  # (k,): first entry of each row in ``children``
    probabilities: Floats  # (m,)
    children: Ints  # (m,): of the next pairs, followed by the totals that end here
    ended: Floats  # (e,): totals of the episodes that are done
    ended_sizes: Floats  # (e,): sum of what was added, without signs


@dataclass(frozen=True, eq=False)
class ReachableTotals:
    """A table unfolded over (state, accrued cost), without actions that no plan needs."""

    mdp: TabularMDP
    steps: tuple[Step, ...]
    final: Floats  # totals of the pairs at the horizon
    final_sizes: Floats  # sum of what was added, without signs

    tolerance = 0.0  # no total is moved

    @classmethod
    def unfold(
        cls, mdp: TabularMDP, *, max_outcomes: int = MAX_OUTCOMES, every_action: bool = False
    ) -> ReachableTotals:
        """Unfold a table; ``OptionError`` where there are over ``max_outcomes``, over all pairs and actions."""
        mdp.require_sound()
        table = mdp if every_action else relevant(mdp)
        return _unfold(table, integer(max_outcomes, "max_outcomes", low=mdp.horizon))

    @property
    def pairs(self) -> int:
        """Number of pairs (state, accrued cost) with a decision, over all steps."""
        return sum(step.states.size for step in self.steps)

    def all_totals(self) -> Floats:
        """Return every total that some policy can reach, increasing."""
        return np.unique(np.concatenate([self.final, *(step.ended for step in self.steps)]))

    def slack(self, total: float) -> float:
        """Return how far the totals lie above ``total`` that are equal to it but for rounding."""
        totals = np.concatenate([self.final, *(step.ended for step in self.steps)])
        sizes = np.concatenate([self.final_sizes, *(step.ended_sizes for step in self.steps)])
        off = np.abs(totals - total)
        same = off <= np.maximum(1e-11 * max(abs(total), 1e-3 * float(np.median(sizes))), self._rounding * sizes)
        return float(off[same].max(initial=0.0))

    @property
    def _rounding(self) -> float:
        return float(_ROUNDING * (self.mdp.horizon + 8))

    def minimise(self, function: Callable[[Floats], Floats]) -> tuple[float, tuple[Ints, ...]]:
        """Return the least mean of a function of the total, and the table's row to take in each pair of each step."""
        worth = [function(self.final), *(function(step.ended) for step in self.steps)]
        is_signed = any((part < 0.0).any() for part in worth)  # then sums may cancel, and ties are told by their sizes
        values = worth[0]
        sizes = np.abs(values) if is_signed else values
        chosen: list[Ints] = []
        for step, ended in zip(reversed(self.steps), reversed(worth), strict=False):
            values = np.concatenate((values, ended))
            rows = np.add.reduceat(step.probabilities * values[step.children], step.branches)
            values = np.minimum.reduceat(rows, step.choices)
            widths = np.diff(np.append(step.choices, rows.size))
            if is_signed:
                sizes = np.concatenate((sizes, np.abs(ended)))
                row_sizes = np.add.reduceat(step.probabilities * sizes[step.children], step.branches)
                best = np.flatnonzero(rows == np.repeat(values, widths))
                sizes = row_sizes[best[np.searchsorted(best, step.choices)]]
            else:
                sizes = values
            good = np.flatnonzero(rows <= np.repeat(values + _TIE * sizes, widths))
            chosen.append(good[np.searchsorted(good, step.choices)])  # the first that ties
        return float(values[0]), tuple(reversed(chosen))

    def law(self, chosen: Choices) -> tuple[Floats, Floats]:
        """Return totals (increasing) and probabilities under the choices of :meth:`minimise`."""
        mass = np.ones(1)
        totals: list[Floats] = []
        masses: list[Floats] = []
        for step, picks, after in zip(
            self.steps, chosen, [*(s.states.size for s in self.steps[1:]), self.final.size], strict=True
        ):
            ends = np.append(step.branches, step.children.size)
            _, owners, entries = ranges(ends[picks], ends[picks + 1])
            sent = mass[owners] * step.probabilities[entries]
            reached: Floats = np.zeros(after + step.ended.size)
            np.add.at(reached, step.children[entries], sent)
            mass = reached[:after]
            totals.append(step.ended)
            masses.append(reached[after:])
        values, inverse = np.unique(np.concatenate([*totals, self.final]), return_inverse=True)
        weights = np.bincount(inverse, np.concatenate([*masses, mass]), values.size)
        kept = weights > 0
        return values[kept], weights[kept] / weights.sum()

    def begun_with(self, chosen: Choices, row: int) -> Choices:
        """Return choices that take another row of the table first."""
        return np.flatnonzero(self.steps[0].rows == row), *chosen[1:]

    def overstated(self, *, level: float | None = None, beta: float | None = None) -> float:
        """By how much a risk may be overstated, whichever measure it is: not at all."""
        return 0.0

    def rows_at(self, chosen: Choices, state: int, h: int, accrued: float) -> int:
        """Return the table's row to take in the pair nearest to (state, accrued); ``accrued`` is an inner cost."""
        step = self.steps[h]
        low, high = np.searchsorted(step.states, [state, state + 1])
        if low == high:
            raise StateError(f"state {self.mdp.state_name(state)} cannot be reached at step {h}")
        near = int(low + np.searchsorted(step.accrued[low:high], accrued))
        options = [index for index in (near - 1, near) if low <= index < high]
        index = min(options, key=lambda one: abs(step.accrued[one] - accrued))
        return int(step.rows[chosen[h][index]])

    def action(self, chosen: Choices, state: int, h: int, accrued: float) -> int:
        """Return the action id in the pair nearest to (state, accrued) at step ``h``; ``accrued`` is an inner cost."""
        return int(self.mdp.action_ids[self.rows_at(chosen, state, h, accrued)])


def reach_totals(mdp: TabularMDP, *, work: float = 1.0, every_action: bool = False) -> ReachableTotals | GridTotals:
    """List all totals, or put them on a grid where there are too many; ``work`` is a share of the usual work."""
    try:
        most = max(mdp.horizon, int(work * MAX_OUTCOMES))
        return ReachableTotals.unfold(mdp, max_outcomes=most, every_action=every_action)
    except OptionError:
        return GridTotals.over(mdp, work=work * WORK, every_action=every_action)


def _unfold(mdp: TabularMDP, limit: int) -> ReachableTotals:
    """Unfold step by step."""
    states, accrued, sizes, factor, count = np.array([mdp.start]), np.zeros(1), np.zeros(1), 1.0, 0
    steps: list[Step] = []
    for h in range(mdp.horizon):
        choices, pairs, rows = ranges(mdp.action_offsets[states], mdp.action_offsets[states + 1])
        branches, owners, outcomes = ranges(mdp.outcome_offsets[rows], mdp.outcome_offsets[rows + 1])
        count += outcomes.size
        if count > limit:
            raise OptionError(
                f"over {limit} outcomes of pairs (state, accrued cost) at step {h} of {mdp.horizon}; raise "
                "max_outcomes=, or lay the totals out on a grid"
            )
        costs = factor * mdp.losses_at(h, outcomes, rows[owners])
        paid, added = accrued[pairs[owners]] + costs, sizes[pairs[owners]] + np.abs(costs)
        done, targets = mdp.done[outcomes], mdp.next_states[outcomes].astype(np.int64)
        share = _ROUNDING * (h + 8)
        states_after, accrued_after, sizes_after, going = _merged(targets[~done], paid[~done], added[~done], share)
        _, ended, ended_sizes, over = _merged(0 * targets[done], paid[done], added[done], share)
        children = np.empty(outcomes.size, np.int64)
        children[~done], children[done] = going, states_after.size + over
        steps.append(
            Step(states, accrued, choices, rows, branches, mdp.probabilities[outcomes], children, ended, ended_sizes)
        )
        states, accrued, sizes = states_after, accrued_after, sizes_after
        factor *= mdp.discount
        if not states.size:
            break
    ends = factor * mdp.terminal_losses[states]
    return ReachableTotals(mdp, tuple(steps), accrued + ends, sizes + np.abs(ends))


def _merged(states: Ints, accrued: Floats, sizes: Floats, share: float) -> tuple[Ints, Floats, Floats, Ints]:
    """Return the distinct pairs, sorted, and the index of each as given; equal to ``share`` of their sizes is one."""
    if not states.size:
        return states, accrued, sizes, states
    order = np.lexsort((accrued, states))
    states, accrued, sizes = states[order], accrued[order], sizes[order]
    apart = np.diff(accrued) > share * np.maximum(sizes[1:], sizes[:-1])
    new = np.append(True, (np.diff(states) != 0) | apart)
    first = np.flatnonzero(new)
    last = np.append(first[1:], order.size) - 1
    inverse = np.empty_like(order)
    inverse[order] = np.cumsum(new) - 1
    return states[first], (accrued[first] + accrued[last]) / 2.0, np.maximum.reduceat(sizes, first), inverse
