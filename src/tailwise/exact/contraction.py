r"""Discounted problems without end at one level for all steps: the recursive criterion, and the discounted mean.

    V(s) = min over a of ERM_beta(c + discount V(s'))

is a contraction with factor ``discount``. Newton's method on it is policy iteration: the rows that are best now, and
their tilted matrix Q as derivative,

    V <- V + (I - discount Q)^-1 (T V - V),

which at beta = 0 is Howard's. Steps that do not bring V nearer give way to sweeps. With ``r = T V - V`` the fixed point
lies in ``T V + discount / (1 - discount) [min r, max r]`` (MacQueen, Porteus), which is what is told.
"""

from __future__ import annotations

import numpy as np

from tailwise.exact.parts import Floats, Ints, Part, solved

_ROUNDS = 500
_SWEEPS = 40


def contracted(part: Part, beta: float, discount: float) -> tuple[Floats, Floats, Floats, Ints]:
    """Return the fixed point, bounds on it, and the best row (``ids``) of each state whose value is finite."""
    from scipy.sparse import eye_array

    deciding = part.deciding
    values = np.full(part.size, np.inf)
    values[deciding] = 0.0
    settled = _lead_to_nothing(part, values)
    deciding = settled.deciding
    sweeps = _SWEEPS
    best, gap = values, np.inf
    for _ in range(_ROUNDS):
        for _ in range(sweeps):
            values[deciding] = settled.least(settled.risks(values, beta, discount))[deciding]
        risks = settled.risks(values, beta, discount)
        after = settled.least(risks)
        with np.errstate(invalid="ignore"):
            moved = np.where(np.isfinite(values), after - values, 0.0)
        reach = float(moved.max(initial=0.0) - moved.min(initial=0.0)) * discount / (1.0 - discount)
        if reach < 0.5 * gap:
            best, gap, sweeps = values.copy(), reach, 0
        elif reach <= _close(settled, values, discount) or sweeps >= 10_000:
            break
        else:
            sweeps = max(1, 4 * sweeps)
            continue
        if reach == 0.0:
            break
        rows = settled.best_rows(risks, after)
        chosen = settled.taking(rows)
        _, tilted = chosen.tilted(values, beta, discount)
        found = solved(eye_array(part.size) - discount * tilted, moved)
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


def _close(part: Part, values: Floats, discount: float) -> float:
    """Return how near is as near as rounding allows."""
    return part.rounding(values, discount) / (1.0 - discount)


def _lead_to_nothing(part: Part, values: Floats) -> Part:
    """Leave out rows that can lead to states without an action, and give +inf to states that have no other."""
    while True:
        left = part.where(~part.rows_into(values == np.inf))
        stuck = np.setdiff1d(part.deciding, left.deciding)
        stuck = stuck[values[stuck] < np.inf]
        if not stuck.size:
            return left
        values[stuck] = np.inf
