r"""Discounted problems without end: one level for all steps, and the ERM of the total, whose level fades.

    V(s) = min over a of ERM_beta(c + discount V(s'))

is a contraction with factor ``discount``. Newton's method on it is policy iteration: the rows that are best now, and
their tilted matrix Q as derivative,

    V <- V + (I - discount Q)^-1 (T V - V),

which at beta = 0 is Howard's. Steps that do not bring V nearer give way to sweeps. With ``r = T V - V`` the fixed point
lies in ``T V + discount / (1 - discount) [min r, max r]`` (MacQueen, Porteus), which is what is told.

The ERM of the discounted total has level ``beta discount^h`` at step h: it fades, and what is left is nearly
risk-neutral (Baeuerle, Pitera & Stettner, 2026; Hau, Petrik & Ghavamzadeh, 2023). From step T on the policy is the
stationary one of the least mean m. By Hoeffding's lemma its ERM from there on lies in ``m + [0, beta_T w^2 / 8]`` for
beta > 0 (reflected for beta < 0), w being the range of the totals, and so does the optimum; backward induction over the
T steps before carries both ends to step 0, where they are ``|beta| discount^(2T) w^2 / 8`` apart.
"""

from __future__ import annotations

import math

import numpy as np

from tailwise._arrays import Floats, Ints
from tailwise.errors import OptionError
from tailwise.exact.parts import Part, solved
from tailwise.models import TabularMDP

_ROUNDS = 500
_SWEEPS = 10
_PATIENCE = 4  # steps of Newton in a row that bring the bounds no nearer: rough ones may take them apart first
_ROUGH, _EXACT = 1e-2, 1e-9  # how well linear equations are solved


def contracted(part: Part, beta: float, discount: float) -> tuple[Floats, Floats, Floats, Ints]:
    """Return the fixed point, bounds on it, and the best row (``ids``) of each state whose value is finite."""
    from scipy.sparse import eye_array

    deciding = part.deciding
    values = np.full(part.size, np.inf)
    values[deciding] = 0.0
    settled = _lead_to_nothing(part, values)
    deciding = settled.deciding
    sweeps, close, patience = _SWEEPS, 0.0, _PATIENCE
    best, gap, last = values, np.inf, np.empty(0, np.int64)
    for _ in range(_ROUNDS):
        for _ in range(sweeps):
            values[deciding] = settled.least(settled.risks(values, beta, discount))[deciding]
        risks = settled.risks(values, beta, discount)
        after = settled.least(risks)
        with np.errstate(invalid="ignore"):
            moved = np.where(np.isfinite(values), after - values, 0.0)
        reach = float(moved.max(initial=0.0) - moved.min(initial=0.0)) * discount / (1.0 - discount)
        close = 4.0 * settled.rounding(values, discount) / (1.0 - discount)
        if reach < 0.5 * gap:
            best, gap, sweeps, patience = values.copy(), reach, 0, _PATIENCE
        elif patience and reach > close and np.isfinite(reach):
            patience -= 1
        elif reach > close and sweeps < 10_000:
            sweeps = max(1, 4 * sweeps)
            continue
        if reach <= close or sweeps >= 10_000:
            break
        rows = settled.best_rows(risks, after)
        _, tilted = settled.taking(rows).tilted(values, beta, discount)
        within = _EXACT if np.array_equal(rows, last) else _ROUGH  # rows that will change need no exact values
        found = solved(eye_array(part.size) - discount * tilted, moved, within=within)
        last = rows
        if found is None:
            sweeps = _SWEEPS
            continue
        values = np.where(np.isfinite(values), values + found[0], values)
    values = best
    risks = settled.risks(values, beta, discount)
    after = settled.least(risks)
    with np.errstate(invalid="ignore"):
        moved = np.where(np.isfinite(values), after - values, 0.0)
    slack = settled.rounding(values, discount) / (1.0 - discount)
    share = discount / (1.0 - discount)
    low = after + share * float(moved.min(initial=0.0)) - slack
    high = after + share * float(moved.max(initial=0.0)) + slack
    return after, low, high, settled.ids[settled.best_rows(risks, after)]


def _lead_to_nothing(part: Part, values: Floats) -> Part:
    """Leave out rows that can lead to states without an action, and give +inf to states that have no other."""
    while True:
        left = part.where(~part.rows_into(values == np.inf))
        stuck = np.setdiff1d(part.deciding, left.deciding)
        stuck = stuck[values[stuck] < np.inf]
        if not stuck.size:
            return left
        values[stuck] = np.inf


_MOST = 2**33  # bytes of values and policy


def solve_fading(mdp: TabularMDP, beta: float, tolerance: float | None) -> tuple[Floats, Floats, Floats, Ints]:
    """Return values (T + 1, S), bounds at step 0 (S,), and rows (T + 1, S), of which the last is followed from T on."""
    part, discount = Part.of(mdp), mdp.discount
    mean, low, high, rows = contracted(part, 0.0, discount)
    off = float(np.abs(high - low)[np.isfinite(mean)].max(initial=0.0))
    ends = bool((part.targets < 0).any())
    width = float(np.ptp(np.append(part.costs, 0.0) if ends else part.costs)) / (1.0 - discount)
    size = max(float(np.abs(mean[np.isfinite(mean)]).max(initial=0.0)), 1e-3 * width)
    allowed = 1e-10 * size if tolerance is None else tolerance
    bound = abs(beta) * width**2 / 8.0
    steps = 0
    if bound > allowed:
        steps = math.ceil(math.log(allowed / bound) / (2.0 * math.log(discount)))
    if (steps + 1) * mdp.num_states * 16 > _MOST:
        raise OptionError(
            f"{steps} steps are needed until the level has faded, over {mdp.num_states} states: more than 8 GiB; give "
            "a larger tolerance="
        )
    values = np.empty((steps + 1, part.size))
    chosen = np.full((steps + 1, part.size), -1, np.int64)
    values[steps], chosen[steps, part.deciding] = mean, _rows_of(part, rows, mean)
    extra = bound * discount**steps  # at step T, in its unit
    slack = off
    for h in range(steps - 1, -1, -1):
        risks = part.risks(values[h + 1], beta * discount**h, discount)
        values[h] = part.least(risks)
        chosen[h, part.deciding] = part.ids[part.best_rows(risks, values[h])]
        slack = discount * slack + part.rounding(values[h + 1], discount)
    spread = extra * discount**steps
    first = values[0]
    below, above = (0.0, spread) if beta > 0.0 else (spread, 0.0)
    return values, first - below - slack, first + above + slack, chosen


def _rows_of(part: Part, rows: Ints, values: Floats) -> Ints:
    """Return the table's rows of the deciding states; those without a finite value take their first."""
    ids = part.ids[part.first_rows].copy()
    places = np.isfinite(values)[part.deciding]
    ids[places] = rows
    return ids
