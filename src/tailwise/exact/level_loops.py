r"""Loops that add up to nothing: those that cost nothing, and those whose costs cancel.

*Nothing is paid.* End components whose rows cost nothing are one state, in which an episode may end at a total of 0.

*Costs cancel* (+1, then -1). A total that stays there has no limit; but where every outcome of the loop's rows has
``c + v(s') = v(s)`` for the best values v of policies that end, walking in it is worth nothing. In costs
``c + v(s') - v(s)`` it costs nothing: it is merged, and must be left. What is proven then for all policies that leave
it, ``v <= T v``, says of one that stays, at every T,

    ERM of the total of T steps >= v(s) - largest v in the loop,

so that staying is no better than leaving where v is nowhere above 0 in it, however a total without limit is read. Where
it is above 0 somewhere the loop is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailwise._arrays import Floats, Ints, marked
from tailwise.exact.parts import OVER, Part, components, distances, end_components
from tailwise.exact.policy_total import bracket, evaluate_policy, places_of

_LOOSE = 1e-10  # of values and costs: how far below a lower bound is worth another look


@dataclass(frozen=True, eq=False)
class Merged:
    """A part whose end components that cost nothing are one state each, with a row that ends (``ids`` -1).

    ``owner`` is the state that stands for each state, ``held`` are the rows that stay inside, as a part.
    """

    part: Part
    owner: Ints
    held: Part

    @classmethod
    def of(cls, part: Part, *, ending: bool = True) -> Merged:
        """Merge them; without a row that ends where not ``ending``."""
        free = np.logical_and.reduceat((part.costs == 0.0) & (part.targets >= 0), part.offsets[:-1])
        owner, at = np.arange(part.size), np.flatnonzero(free)
        at = at[end_components(part.taking(at))] if at.size else at
        held = part.taking(at)
        if not at.size:
            return cls(part, owner, held)
        inside = held.decides
        count, labels = components(held)
        least = np.full(count, part.size)
        np.minimum.at(least, labels, owner)
        owner = np.where(inside, least[labels], owner)
        left, stops = part.where(~marked(part.states.size, at)), np.unique(owner[inside]) if ending else at[:0]
        lengths, over = np.append(np.diff(left.offsets), np.ones(stops.size, np.int64)), np.full(stops.size, OVER)
        both = Part(
            part.size, np.append(owner[left.states], stops), np.append(left.ids, np.full(stops.size, -1)),
            np.append(0, np.cumsum(lengths)), np.append(left.probabilities, np.ones(stops.size)),
            np.append(left.costs, np.zeros(stops.size)),
            np.append(np.where(left.targets >= 0, owner[left.targets], OVER), over).astype(np.int32),
        )  # fmt: skip
        return cls(both.taking(np.argsort(both.states, kind="stable")), owner, held)

    def spread(self, ids: Ints, owners: Ints) -> Ints:
        """Return the table's row of every state, from those of the merged states; ``owners`` are the rows' states."""
        rows, held = ids[self.owner], self.held
        if not held.states.size:
            return rows
        leaves, inside = rows >= 0, held.decides
        steps = distances(held, marked(rows.size, owners[rows[leaves]]) & inside)
        good = np.logical_or.reduceat(steps[held.targets] < steps[held.states[held.owners]], held.offsets[:-1])
        order = np.lexsort((~good, held.states))  # the first row of each state that leads nearer; else any
        states, first = np.unique(held.states[order], return_index=True)
        moves = np.full(rows.size, -1, np.int64)
        moves[states] = held.ids[order[first]]
        mine = np.zeros(rows.size, np.bool_)
        mine[leaves] = owners[rows[leaves]] == np.flatnonzero(leaves)
        return np.where(inside & ~mine, moves, rows)


def bounded_past_loops(part: Part, chosen: Part, values: Floats, lower: Floats, beta: float) -> Floats:
    """Return lower bounds that are loose only where loops that add up to nothing may be worth staying in.

    ``values`` are those of the policy ``chosen``, which ends; ``lower`` is what :func:`bracket` found for them.
    """
    going, known = part.targets >= 0, np.isfinite(values)
    scale = float(np.abs(part.costs).max(initial=0.0)) + np.where(known, np.abs(values), 0.0)
    short = known & (lower < np.where(known, values, 0.0) - _LOOSE * scale)
    if not short.any() or not np.isfinite(values[part.targets[going]]).all():
        return lower
    slack = part.rounding(values)
    ahead = part.costs + np.where(going, values[part.targets], 0.0) - values[part.states[part.owners]]
    level = np.flatnonzero(np.logical_and.reduceat((np.abs(ahead) <= 4.0 * slack) & going, part.offsets[:-1]))
    level = level[end_components(part.taking(level))] if level.size else level
    if not level.size or float(values[part.states[level]].max()) > 4.0 * slack:
        return lower
    walked = marked(part.states.size, level)
    merged = Merged.of(replace(part, costs=np.where(walked[part.owners], 0.0, ahead)), ending=False)
    kept = chosen.where(~np.isin(chosen.ids, part.ids[level]) | (chosen.ids < 0))
    states, first = np.unique(merged.owner[kept.states], return_index=True)
    if not np.array_equal(states, merged.part.deciding):
        return lower
    rows = replace(kept.taking(first), states=states)
    rows = merged.part.taking(places_of(merged.part, rows))
    none = np.zeros(part.size)
    found = evaluate_policy(rows, none, beta)
    if found.bad is not None:
        return lower
    below, _ = bracket(merged.part, rows, none, found.steps, beta)
    past = values + (below - slack * found.steps)[merged.owner]
    return np.where(short, np.fmax(past, lower), lower)
