"""What plans that can still be best can do: the ground for every tolerance of an exact solver.

A plan that bounds the total from above whatever happens is the worst-case one: from each state on, ``high`` is the
least over the actions of the largest total. An action whose *least* total is larger is worse in every outcome than
following that plan instead, at whatever was paid before; so no plan for a monotone objective needs it. Costs of such
actions ("never do this": 1e9) say nothing about the scale of the problem, and are left out before anything is scaled.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailwise._csr import ranges
from tailwise.exact.backward_induction import TIE_TOLERANCE
from tailwise.models import TabularMDP
from tailwise.models.accrued import total_bounds

Floats = NDArray[np.float64]

_SURE = 1e-9  # bounds that differ by less may differ in rounding alone


def row_ends(mdp: TabularMDP, h: int, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest total of each row at step ``h``, from those of each state after it."""
    first = mdp.outcome_offsets[:-1]
    ends = []
    for values, reduce in ((low, np.minimum), (high, np.maximum)):
        later = np.where(mdp.done, 0.0, mdp.discount * values[mdp.next_states])
        rows = reduce.reduceat(mdp.losses + later, first)
        ends.append(rows + mdp.step_losses[h] if mdp.step_losses.size else rows)
    return ends[0], ends[1]


def least_of(mdp: TabularMDP, rows: Floats) -> Floats:
    """Return the least over the actions of each state; +inf where there is none."""
    deciding = np.flatnonzero(np.diff(mdp.action_offsets))
    values = np.full(mdp.num_states, np.inf)
    values[deciding] = np.minimum.reduceat(rows, mdp.action_offsets[deciding])
    return values


def relevant(mdp: TabularMDP) -> TabularMDP:
    """Return the table without the actions that are worse at every step, whatever happens, and what they lead to."""
    mdp.require_sound()
    low = high = mdp.terminal_losses
    useless = np.ones(mdp.num_rows, np.bool_)
    for h in range(mdp.horizon - 1, -1, -1):
        lows, highs = row_ends(mdp, h, low, high)
        low, high = least_of(mdp, lows), least_of(mdp, highs)
        bound = high[mdp.row_states]
        with np.errstate(invalid="ignore"):
            useless &= lows - bound > _SURE * (np.abs(lows) + np.abs(bound))
        if not useless.any():
            break
    reached = _reached(mdp, ~useless)
    kept = ~useless & reached[mdp.row_states]
    if kept.all() and reached.all():
        return mdp
    rows = np.flatnonzero(kept)
    outcomes = ranges(mdp.outcome_offsets[rows], mdp.outcome_offsets[rows + 1])[2]
    counts = np.bincount(mdp.row_states[rows], minlength=mdp.num_states)
    sizes = np.diff(mdp.outcome_offsets)[rows]
    return replace(
        mdp,
        action_offsets=np.append(0, np.cumsum(counts)),
        action_ids=mdp.action_ids[rows],
        outcome_offsets=np.append(0, np.cumsum(sizes)),
        probabilities=mdp.probabilities[outcomes],
        next_states=mdp.next_states[outcomes],
        losses=mdp.losses[outcomes],
        done=mdp.done[outcomes],
        step_losses=mdp.step_losses[:, rows] if mdp.step_losses.size else mdp.step_losses,
        terminal_losses=np.where(reached, mdp.terminal_losses, mdp.terminal_losses[reached].min()),
    )


def worst_case(mdp: TabularMDP) -> tuple[Floats, NDArray[np.int32]]:
    """Return the least worst total loss from each state on, shape (H + 1, S), and the policy that has it, (H, S)."""
    mdp.require_sound()
    values = np.empty((mdp.horizon + 1, mdp.num_states))
    policy = np.full((mdp.horizon, mdp.num_states), -1, np.int32)
    values[-1] = mdp.terminal_losses
    deciding = np.flatnonzero(np.diff(mdp.action_offsets))
    starts = mdp.action_offsets[deciding]
    for h in range(mdp.horizon - 1, -1, -1):
        rows = row_ends(mdp, h, values[h + 1], values[h + 1])[1]
        values[h] = least_of(mdp, rows)
        bound = values[h][mdp.row_states]
        slack = TIE_TOLERANCE * np.where(np.isfinite(bound), np.abs(bound), 0.0)
        first = np.flatnonzero(rows <= bound + slack)
        policy[h, deciding] = mdp.action_ids[first[np.searchsorted(first, starts)]]
    return values, policy


def low_total(mdp: TabularMDP) -> float:
    """Return the least total loss that any plan can have, from the start."""
    low = mdp.terminal_losses
    for h in range(mdp.horizon - 1, -1, -1):
        low = least_of(mdp, row_ends(mdp, h, low, low)[0])
    return float(low[mdp.start])


def relevant_bounds(mdp: TabularMDP) -> tuple[float, float]:
    """Return bounds (low, high) on the total loss of every plan that can still be best."""
    return total_bounds(relevant(mdp))


def _reached(mdp: TabularMDP, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which states the start leads to within the horizon, by allowed rows."""
    going = np.repeat(allowed, np.diff(mdp.outcome_offsets)) & ~mdp.done
    owners = np.repeat(mdp.row_states, np.diff(mdp.outcome_offsets))[going]
    targets = mdp.next_states[going]
    reached = np.zeros(mdp.num_states, np.bool_)
    reached[mdp.start] = True
    for _ in range(mdp.horizon):
        before = np.count_nonzero(reached)
        reached[targets[reached[owners]]] = True
        if np.count_nonzero(reached) == before:
            break
    return reached
