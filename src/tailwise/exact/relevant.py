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

from tailwise._arrays import marked, ranges
from tailwise.exact.sweeps import least_of, row_ends
from tailwise.models import TabularMDP
from tailwise.models.accrued import total_bounds

_SURE = 1e-9  # bounds that differ by less may differ in rounding alone


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
    reached = reached_by(mdp, ~useless)
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


def low_total(mdp: TabularMDP) -> float:
    """Return the least total loss that any plan can have, from the start."""
    mdp.require_sound()
    low = mdp.terminal_losses
    for h in range(mdp.horizon - 1, -1, -1):
        low = least_of(mdp, row_ends(mdp, h, low, low)[0])
    return float(low[mdp.start])


def relevant_bounds(mdp: TabularMDP) -> tuple[float, float]:
    """Return bounds (low, high) on the total loss of every plan that can still be best."""
    return total_bounds(relevant(mdp))


def reached_by(mdp: TabularMDP, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which states the start leads to within the horizon, if there is one, by allowed rows."""
    rows = mdp.outcome_rows
    going = allowed[rows] & ~mdp.done
    owners, targets = mdp.row_states[rows[going]], mdp.next_states[going]
    reached = marked(mdp.num_states, mdp.start)
    for _ in range(mdp.num_states if mdp.horizon is None else mdp.horizon):
        before = np.count_nonzero(reached)
        reached[targets[reached[owners]]] = True
        if np.count_nonzero(reached) == before:
            break
    return reached
