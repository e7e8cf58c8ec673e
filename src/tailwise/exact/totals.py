"""Every total that a table can reach: the ground on which any aim about the total is solved exactly.

What matters for a function of the total is the pair (state, accrued discounted cost). From ``(start, 0)`` each step
sends every pair through every action to its outcomes; pairs that are equal are one. On the graph that results, the
least mean of *any* function of the total takes one pass backward, and a policy's law one pass forward.

Equal means: to 1e-12 of the range, since sums in another order differ in their last digits. There can still be too
many pairs: their number grows exponentially with the horizon where costs are in general position. Then they are put
on a grid (:mod:`tailwise.exact.grid_totals`). Or accrued costs that are close are merged, so that no total moves by
more than a tolerance; the risk of every policy under every measure that is monotone and translation-invariant then
moves by at most as much, and so does the optimum.

Costs here are inner ones: minimised, whatever the model's sense.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._ranges import ranges
from tailwise._validate import integer, real
from tailwise.errors import OptionError, StateError
from tailwise.exact.grid_totals import WORK, GridTotals, tie_unit
from tailwise.models import TabularMDP
from tailwise.models.accrued import total_bounds

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_OUTCOMES = 1_000_000
_EQUAL = 1e-12
_TIE = 1e-12


class Step(NamedTuple):
    """The pairs of one step, sorted by state and accrued cost, and where their actions lead.

    Values of the next pairs are followed by those of the totals that end here, and ``children`` points into both.
    """

    states: Ints  # (n,)
    accrued: Floats  # (n,)
    choices: Ints  # (n,): first entry of each pair in ``rows``
    rows: Ints  # (k,): rows of the table
    branches: Ints  # (k,): first entry of each row in ``children``
    probabilities: Floats  # (m,)
    children: Ints  # (m,)
    ended: Floats  # (e,): totals of the episodes that are done


@dataclass(frozen=True, eq=False)
class ReachableTotals:
    """A table unfolded over (state, accrued cost).

    Attributes
    ----------
    mdp : TabularMDP
        The table.
    steps : tuple of Step
        One per decision.
    final : ndarray of float64
        Totals of the pairs at the horizon.
    tolerance : float
        No total was moved by more than this.
    """

    mdp: TabularMDP
    steps: tuple[Step, ...]
    final: Floats
    tolerance: float

    @classmethod
    def unfold(cls, mdp: TabularMDP, *, tolerance: float = 0.0, max_outcomes: int = MAX_OUTCOMES) -> ReachableTotals:
        """Unfold a table.

        Parameters
        ----------
        mdp : TabularMDP
            The table.
        tolerance : float, optional
            Merge accrued costs so far that no total moves by more than this, >= 0.
        max_outcomes : int, default 1,000,000
            Most outcomes, over all pairs and actions.

        Raises
        ------
        OptionError
            If there are more.
        """
        mdp.require_sound()
        moved = real(tolerance, "tolerance", low=0.0)
        return _unfold(mdp, moved, integer(max_outcomes, "max_outcomes", low=mdp.horizon))

    @property
    def pairs(self) -> int:
        """Number of pairs (state, accrued cost) with a decision, over all steps."""
        return sum(step.states.size for step in self.steps)

    def all_totals(self) -> Floats:
        """Return every total that some policy can reach, increasing."""
        return np.unique(np.concatenate([self.final, *(step.ended for step in self.steps)]))

    def minimise(self, function: Callable[[Floats], Floats]) -> tuple[float, tuple[Ints, ...]]:
        """Return the least mean of a function of the total, and the table's row to take in each pair of each step.

        Parameters
        ----------
        function : callable
            From an array of total costs to an array of numbers.
        """
        worth = [function(self.final), *(function(step.ended) for step in self.steps)]
        unit = tie_unit(np.concatenate(worth))
        values = worth[0] / unit
        chosen: list[Ints] = []
        for step, ended in zip(reversed(self.steps), reversed(worth), strict=False):
            values = np.concatenate((values, ended / unit))
            rows = np.add.reduceat(step.probabilities * values[step.children], step.branches)
            values = np.minimum.reduceat(rows, step.choices)
            widths = np.diff(np.append(step.choices, rows.size))
            good = rows <= np.repeat(values + _TIE * np.maximum(1.0, np.abs(values)), widths)
            first = np.flatnonzero(good)
            chosen.append(first[np.searchsorted(first, step.choices)])  # the first that ties
        return unit * float(values[0]), tuple(reversed(chosen))

    def law(self, chosen: tuple[Ints, ...]) -> tuple[Floats, Floats]:
        """Return totals (increasing) and probabilities under the choices of :meth:`minimise`."""
        mass = np.ones(1)
        totals: list[Floats] = []
        masses: list[Floats] = []
        for step, picks, after in zip(
            self.steps, chosen, [*(s.states.size for s in self.steps[1:]), self.final.size], strict=True
        ):
            ends = np.append(step.branches, step.children.size)
            sizes = ends[picks + 1] - ends[picks]
            entries = np.repeat(ends[picks] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
            sent = np.repeat(mass, sizes) * step.probabilities[entries]
            reached: Floats = np.zeros(after + step.ended.size)
            np.add.at(reached, step.children[entries], sent)
            mass = reached[:after]
            totals.append(step.ended)
            masses.append(reached[after:])
        values, inverse = np.unique(np.concatenate([*totals, self.final]), return_inverse=True)
        weights = np.bincount(inverse, np.concatenate([*masses, mass]), values.size)
        kept = weights > 0
        return values[kept], weights[kept] / weights.sum()

    @property
    def understated(self) -> float:
        """By how much a risk may be understated."""
        return self.tolerance

    def overstated(self, *, level: float | None = None, beta: float | None = None) -> float:
        """By how much a risk may be overstated, whichever measure it is."""
        return self.tolerance

    @property
    def displaced(self) -> tuple[float, float]:
        """A distance, and with what probability a total is off by more: never."""
        return self.tolerance, 0.0

    def action(self, chosen: tuple[Ints, ...], state: int, h: int, accrued: float) -> int:
        """Return the action id in the pair nearest to (state, accrued) at step ``h``; ``accrued`` is an inner cost."""
        step = self.steps[h]
        low, high = np.searchsorted(step.states, [state, state + 1])
        if low == high:
            raise StateError(f"state {self.mdp.state_name(state)} cannot be reached at step {h}")
        near = int(low + np.searchsorted(step.accrued[low:high], accrued))
        options = [index for index in (near - 1, near) if low <= index < high]
        index = min(options, key=lambda one: abs(step.accrued[one] - accrued))
        return int(self.mdp.action_ids[step.rows[chosen[h][index]]])


def reach_totals(mdp: TabularMDP, *, tolerance: float | None = None, work: float = 1.0) -> ReachableTotals | GridTotals:
    """List all totals, merged within a tolerance if there is one; or put them on a grid where there are too many.

    ``work`` is a share of the usual work, for tables that are estimates themselves.
    """
    if tolerance is not None:
        return ReachableTotals.unfold(mdp, tolerance=tolerance)
    try:
        return ReachableTotals.unfold(mdp, max_outcomes=max(mdp.horizon, int(work * MAX_OUTCOMES)))
    except OptionError:
        return GridTotals.over(mdp, work=work * WORK)


def _unfold(mdp: TabularMDP, tolerance: float, limit: int) -> ReachableTotals:
    """Unfold step by step."""
    low, high = total_bounds(mdp)
    width = max(2.0 * tolerance / (mdp.horizon + 1), _EQUAL * (max(high - low, abs(low), abs(high)) or 1.0))
    states, accrued, factor, count = np.array([mdp.start]), np.zeros(1), 1.0, 0
    steps: list[Step] = []
    for h in range(mdp.horizon):
        choices, pairs, rows = ranges(mdp.action_offsets[states], mdp.action_offsets[states + 1])
        branches, owners, outcomes = ranges(mdp.outcome_offsets[rows], mdp.outcome_offsets[rows + 1])
        count += outcomes.size
        if count > limit:
            raise OptionError(
                f"over {limit} outcomes of pairs (state, accrued cost) at step {h} of {mdp.horizon}; give a larger "
                f"tolerance than {tolerance:g}, or raise max_outcomes="
            )
        costs = mdp.losses[outcomes]
        if mdp.step_losses.size:
            costs = costs + mdp.step_losses[h, rows[owners]]
        paid = accrued[pairs[owners]] + factor * costs
        done, targets = mdp.done[outcomes], mdp.next_states[outcomes].astype(np.int64)
        states_after, accrued_after, going = _merged(targets[~done], paid[~done], width)
        _, ended, over = _merged(0 * targets[done], paid[done], width)
        children = np.empty(outcomes.size, np.int64)
        children[~done], children[done] = going, states_after.size + over
        steps.append(Step(states, accrued, choices, rows, branches, mdp.probabilities[outcomes], children, ended))
        states, accrued = states_after, accrued_after
        factor *= mdp.discount
        if not states.size:
            break
    return ReachableTotals(mdp, tuple(steps), accrued + factor * mdp.terminal_losses[states], tolerance)


def _merged(states: Ints, accrued: Floats, width: float) -> tuple[Ints, Floats, Ints]:
    """Return the distinct pairs, sorted, and the index of each pair as given; those in one cell lie in its middle."""
    if not states.size:
        return states, accrued, states
    order = np.lexsort((accrued, states))
    states, accrued = states[order], accrued[order]
    new = np.append(True, (np.diff(states) != 0) | (np.diff(np.floor(accrued / width)) != 0))
    first = np.flatnonzero(new)
    last = np.append(first[1:], order.size) - 1
    inverse = np.empty_like(order)
    inverse[order] = np.cumsum(new) - 1
    return states[first], (accrued[first] + accrued[last]) / 2.0, inverse
