r"""Objectives that are taken again at every step, exact on tables: the worst case, and nested (iterated) CVaR.

    V_H(s) = c_H(s)
    V_h(s) = min over a of R(c_h(s, a, s') + discount V_{h+1}(s')),     R the largest outcome, or the CVaR at a level

Nested CVaR is another objective than the CVaR of the total (:mod:`tailwise.exact.tails`). It is consistent over time:
the plan depends on state and step alone, and planning again later finds the same. The price is that a tail of tails is
hard to read. Of one plan it is at least the mean and at most the worst case, and grows with the horizon. It is often
above the static CVaR, but not always: if .1 of the outcomes cost 5, and .01 of the others 100, it is 10 at level .9 (of
the others alone), and the CVaR of the total 13.55 (of both together). What other risk-averse planners offer as
"risk-averse dynamic programming" is often this.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tailwise._progress import Progress, followed
from tailwise.exact.policy import Policy
from tailwise.exact.sweeps import chosen_of, least_of, row_ends, row_tails
from tailwise.models import TabularMDP
from tailwise.risk import NestedCVaR, WorstCase

Floats = NDArray[np.float64]


def worst_case(mdp: TabularMDP, progress: Progress = None) -> Policy:
    """Return the policy of the least worst total. O(H * outcomes)."""

    def rows(h: int, values: Floats, sizes: Floats) -> tuple[Floats, Floats]:
        largest = row_ends(mdp, h, values, values)[1]
        return largest, np.abs(largest)

    values, policy = _induced(mdp, rows, progress)
    return Policy(WorstCase(), mdp, float(values[0, mdp.start]), beta=math.inf, values=values, policy=policy)


def nested_cvar(mdp: TabularMDP, level: float, progress: Progress = None) -> Policy:
    """Return the policy of the least nested CVaR, at a level inside (0, 1). O(H * outcomes * log outcomes)."""
    values, policy = _induced(mdp, lambda h, later, sizes: row_tails(mdp, h, later, sizes, 1.0 - level), progress)
    return Policy(NestedCVaR(level), mdp, float(values[0, mdp.start]), values=values, policy=policy)


def _induced(
    mdp: TabularMDP, rows: Callable[[int, Floats, Floats], tuple[Floats, Floats]], progress: Progress
) -> tuple[Floats, NDArray[np.int32]]:
    """Return values (H + 1, S) in the model's sense and policy (H, S); ``rows`` takes step, values and their sizes."""
    mdp.require_sound()
    values = np.empty((mdp.horizon + 1, mdp.num_states))
    policy = np.empty((mdp.horizon, mdp.num_states), np.int32)
    values[-1] = mdp.terminal_losses
    sizes = np.abs(mdp.terminal_losses)
    with followed(progress, "solving", mdp.horizon) as tick:
        for h in range(mdp.horizon - 1, -1, -1):
            risks, added = rows(h, values[h + 1], sizes)
            values[h] = least_of(mdp, risks)
            policy[h], sizes = chosen_of(mdp, risks, values[h], added)
            if tick is not None:
                tick(mdp.horizon - h)
    return np.asarray(mdp.signed(values)), policy
