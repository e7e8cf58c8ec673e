r"""The total of one stationary policy without a horizon: by linear solves, with brackets, and where it is infinite.

:mod:`tailwise.exact.undiscounted` looks for the best policy, and says what the methods are.

Loops can add up to nothing. *Nothing is paid:* end components whose rows cost nothing are one state, in which an
episode may end at a total of 0.

*Costs cancel* (+1, then -1): a total that stays there has no limit; but where every outcome of the loop's rows has
``c + v(s') = v(s)`` for the best values v of policies that end, walking in it is worth nothing. In costs
``c + v(s') - v(s)`` it costs nothing: it is merged, and must be left. What is proven then for all policies that leave
it, ``v <= T v``, says of one that stays, at every T,

    ERM of the total of T steps >= v(s) - largest v in the loop,

so that staying is no better than leaving where v is nowhere above 0 in it, however a total without limit is read. Where
it is above 0 somewhere the loop is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import diags_array, eye_array

from tailwise._arrays import Bools, Floats, Ints, marked
from tailwise.exact.parts import OVER, Part, is_positive, log_radius, solved
from tailwise.exact.reachability import components, distances, end_components, reaching

MOST_SWEEPS = 200
_NEAR = 1e-7  # relative change from which on a solve is enough: the next is off by its square
_ENDLESS = 1e14  # steps
_WITHIN = 1e-4  # how well each of the repeated linear equations is solved, where that is by iteration
_ROUGH = 3e-2
LEAST_RADIUS = -1e-14  # logarithm of the spectral radius from which on a total is not finite
_CALM = 30.0  # |beta residual| from which on a policy is evaluated by a solve


@dataclass(frozen=True, eq=False)
class Evaluated:
    """One policy: its values, and the steps to the end under its tilted matrix; or where it has none."""

    values: Floats
    steps: Floats
    bad: Bools | None = None  # states of components from which the total is not finite


def evaluate_policy(chosen: Part, start: Floats, beta: float, steps: Floats | None = None) -> Evaluated:
    """Return the values of a policy, a row of each deciding state; ``steps`` are a first guess, of a policy like it."""
    deciding, size = chosen.states, chosen.size
    ending, decides, values = reaching(chosen), chosen.decides, start.copy()
    never = decides & ~ending
    if beta == 0.0:
        if never.any():
            return Evaluated(values, np.full(size, np.nan), _closed(chosen, never))
        return _mean(chosen, values, decides, steps)
    values[deciding] = np.where(np.isfinite(values[deciding]), values[deciding], 0.0)
    if never.any():
        bad = _grown(chosen, values, beta)
        if bad is not None and bad[never].any():
            return Evaluated(values, np.full(size, np.nan), bad & never)
        values[never] = -np.inf if beta > 0.0 else np.inf
        chosen = chosen.where(~never[chosen.states])
        deciding = chosen.states
        decides = decides & ~never
        if not deciding.size:
            return Evaluated(values, np.ones(size))
    for _ in range(10 * MOST_SWEEPS):
        after = chosen.risks(values, beta)
        moved = beta * (after - values[deciding])
        if np.abs(moved).max() <= _CALM:
            break
        values[deciding] = after
    for _ in range(8):
        found = _scaled(chosen, values, beta, decides, steps)
        if found is None:
            bad = _grown(chosen, values, beta)
            return Evaluated(values, np.ones(size), decides & ending if bad is None else bad)
        logs, steps = found
        values[deciding] += logs[deciding] / beta
        if np.abs(logs[deciding]).max() <= _NEAR * (1e-3 + np.abs(beta * values[deciding]).max()):
            break
    return Evaluated(values, np.ones(size) if steps is None else steps)


def _scaled(
    chosen: Part, values: Floats, beta: float, decides: Bools, steps: Floats | None = None
) -> tuple[Floats, Floats] | None:
    """Return ln of x in ``(exp(-beta r) - Q) (x - 1) = 1 - exp(-beta r)``, and steps to the end; None: infinite."""
    risks, tilted = chosen.tilted(values, beta)
    scale, side = np.ones(chosen.size), np.zeros(chosen.size)
    residual = -beta * (risks - values[chosen.states])
    scale[chosen.states], side[chosen.states] = np.exp(residual), -np.expm1(residual)
    found = solved(diags_array(scale) - tilted, side, np.ones(chosen.size), within=_WITHIN, guesses=(None, steps))
    if found is None or not is_positive(1.0 + found[0][decides]) or not is_positive(found[1][decides]):
        return None
    return (np.log1p(np.where(decides, found[0], 0.0)), found[1]) if found[1].max() < _ENDLESS else None


def nearer(part: Part, rows: Ints, start: Floats, beta: float) -> Floats | None:
    """Take one rough Newton step from a start towards the values of a policy: proof of nothing; None where it fails."""
    deciding = part.deciding
    values = start.copy()
    values[deciding] = np.where(np.isfinite(values[deciding]), values[deciding], 0.0)
    risks, tilted = part.mean_of(rows, values) if beta == 0.0 else part.taking(rows).tilted(values, beta)
    gaps = risks - values[deciding]
    if not np.isfinite(gaps).all() or np.abs(beta * gaps).max() > _CALM:
        return None
    scale, side = np.ones(part.size), np.zeros(part.size)
    scale[deciding] = np.exp(-beta * gaps)
    side[deciding] = -np.expm1(-beta * gaps) / beta if beta else gaps
    found = solved(diags_array(scale) - tilted, side, within=_ROUGH)
    if found is None or not is_positive(1.0 + beta * found[0]):
        return None
    return np.asarray(values + (np.log1p(beta * found[0]) / beta if beta else found[0]))


def _mean(chosen: Part, values: Floats, decides: Bools, steps: Floats | None = None) -> Evaluated:
    """Return the mean total and the mean number of steps of a policy that surely ends."""
    values, ones = np.where(decides & ~np.isfinite(values), 0.0, values), np.ones(chosen.size)
    matrix = eye_array(chosen.size) - chosen.tilted(values, 0.0)[1]
    for _ in range(8):
        side = np.zeros(chosen.size)
        side[chosen.states] = chosen.risks(values, 0.0) - values[chosen.states]
        found = solved(matrix, side, ones, within=_WITHIN, guesses=(None, steps))
        if found is None or not is_positive(found[1]) or found[1].max() > _ENDLESS:
            return Evaluated(values, ones, decides)
        steps = found[1]
        values = np.where(decides, values + found[0], values)
        if np.abs(found[0]).max() <= _NEAR * np.abs(values[decides]).max():
            break
    return Evaluated(values, ones if steps is None else steps)


def _closed(chosen: Part, never: Bools) -> Bools:
    """Return the states among ``never`` that a policy stays in for ever."""
    mask = np.zeros(chosen.size, np.bool_)
    for states in kept_components(chosen, never):
        mask[states] = True
    return mask


def kept_components(chosen: Part, inside: Bools) -> list[Ints]:
    """Return the classes of states that a policy never leaves, and where it never ends, among those inside."""
    count, labels = components(chosen)
    origins = labels[chosen.states[chosen.owners]]
    leaving = np.where(chosen.targets >= 0, labels[chosen.targets], OVER) != origins
    is_left = np.ones(count, np.bool_)
    is_left[labels[chosen.states]] = False
    is_left[origins[leaving]] = True
    kept = np.flatnonzero(inside & ~is_left[labels])
    kept = kept[np.argsort(labels[kept], kind="stable")]
    return np.split(kept, np.flatnonzero(np.diff(labels[kept])) + 1) if kept.size else []


def is_level(chosen: Part, states: Ints, beta: float) -> bool:
    """Whether the total of a policy that stays among these states neither grows nor falls."""
    inside = marked(chosen.size, states)
    held = chosen.where(inside[chosen.states])
    scale = float(np.abs(held.costs).max())
    if beta != 0.0:
        ((radius, _),) = component_radii(held, np.zeros(chosen.size), beta)
        return abs(radius) <= 1e-11 * (1.0 + abs(beta) * scale)
    means, matrix = held.tilted(np.zeros(chosen.size), 0.0)
    shares = np.ones(1)
    if states.size > 1:  # the stationary law, scaled to 1 at the first state
        balance = (eye_array(states.size) - matrix[states][:, states]).T.tocsr()
        found = solved(balance[1:, 1:], -balance[1:, [0]].toarray().ravel())
        if found is None:
            return True
        shares = np.append(1.0, found[0])
    return abs(float(shares @ means)) <= 1e-11 * scale * float(np.abs(shares).sum())


def component_radii(chosen: Part, values: Floats, beta: float, told: float | None = None) -> list[tuple[float, Ints]]:
    """Return ln of the spectral radius of exp(beta cost) of each loop of a policy, with its states (`log_radius`)."""
    values = np.where(np.isfinite(values), values, 0.0)
    risks, tilted = chosen.tilted(values, beta)
    scale = np.zeros(chosen.size)
    scale[chosen.states] = np.exp(np.clip(beta * (risks - values[chosen.states]), -700.0, 700.0))
    matrix = (diags_array(scale) @ tilted).tocsr()
    count, labels = components(chosen)
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(count + 1))
    sizes, loops = np.diff(edges), matrix.diagonal()
    found = []
    for k in range(count):
        states = order[edges[k] : edges[k + 1]]
        if sizes[k] == 1:
            if loops[states[0]] > 0.0:
                found.append((math.log(float(loops[states[0]])), states))
        else:
            found.append((log_radius(matrix[states][:, states], told), states))
    return found


def _grown(chosen: Part, values: Floats, beta: float) -> Bools | None:
    """Return the states of the loops of a policy whose radius is 1 or more; None where there are none."""
    mask = np.zeros(chosen.size, np.bool_)
    for radius, states in component_radii(chosen, values, beta, LEAST_RADIUS):
        if radius >= LEAST_RADIUS:
            mask[states] = True
    return mask if mask.any() else None


def bracket(part: Part, chosen: Part, values: Floats, steps: Floats, beta: float) -> tuple[Floats, Floats]:
    """Return bounds on the optimal values of a part, checked; the lower is -inf where none could be proven."""
    deciding, states = chosen.states, chosen.decides & np.isfinite(values)
    slack = part.rounding(np.where(states, values, 0.0))
    residual = np.abs(part.least(part.risks(values, beta))[states] - values[states])
    off = 1.2 * (float(residual.max(initial=0.0)) + slack)
    upper, lower = values.copy(), values.copy()
    for _ in range(30):
        trial = np.where(states, values + off * steps, values)
        if _all_below(chosen, chosen.risks(trial, beta), trial - slack, states):
            upper = trial
            break
        off *= 2.0
    else:
        upper[states] = np.inf
    off = 1.2 * (float(residual.max(initial=0.0)) + slack)
    longest, rows = steps, chosen
    for _ in range(60):
        trial = np.where(states, values - off * longest, values)
        risks = part.risks(trial, beta)
        least = part.least(risks)
        if _all_below(chosen, (trial + slack)[deciding], least, states):
            lower = trial
            break
        bad = states & (least < trial + slack)
        picked = part.best_rows(risks, least)
        longer = part.taking(np.where(bad[part.deciding], picked, places_of(part, rows)))
        try_steps = _steps_of(longer, values, beta, states)
        if try_steps is None or np.array_equal(longer.ids, rows.ids):
            off *= 2.0
            continue
        longest, rows = np.maximum(longest, try_steps), longer
    else:
        lower[states] = -np.inf
    return lower, upper


def places_of(part: Part, rows: Part) -> Ints:
    """Return where the rows of a policy stand in the part."""
    keys = part.states * (part.ids.max(initial=0) + 2) + part.ids + 1
    order = np.argsort(keys, kind="stable")
    wanted = rows.states * (part.ids.max(initial=0) + 2) + rows.ids + 1
    return np.asarray(order[np.searchsorted(keys[order], wanted)])


def _steps_of(chosen: Part, values: Floats, beta: float, states: Bools) -> Floats | None:
    """Return the steps to the end of a policy from the states whose values are finite; None where it has none."""
    chosen = chosen.where(states[chosen.states])
    if beta != 0.0:
        found = _scaled(chosen, values, beta, states)
        return None if found is None else found[1]
    evaluated = _mean(chosen, values, states)
    return None if evaluated.bad is not None else evaluated.steps


def _all_below(chosen: Part, rows: Floats, limits: Floats, states: Bools) -> bool:
    """Whether a number of each row of a policy is at most that of its state, where that is finite."""
    counts = states[chosen.states]
    return bool((rows <= limits[chosen.states])[counts].all())


_LOOSE = 1e-10  # of values and costs: how far below a lower bound is worth another look


@dataclass(frozen=True, eq=False)
class Merged:
    """A part whose end components that cost nothing are one state each, with a row that ends (``ids`` -1)."""

    part: Part
    owner: Ints  # the state that stands for each state
    held: Part  # the rows that stay inside

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
    """Return the ``lower`` of `bracket`, loose only where loops that add up to nothing may be worth staying in."""
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
