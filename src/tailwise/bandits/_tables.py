"""A bandit as the few flat arrays that the compiled loop reads: each array that a kernel is handed costs a count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise.bandits.arms import Bandit, Drift
from tailwise.bandits.distributions import BoundedDistribution

GUIDES = 1024

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Tables(NamedTuple):
    """Arms, their outcomes, and the pieces of all distributions one after another."""

    outcome_start: Ints  # (K + 1,)
    cost: Floats  # (K,) immediate cost
    outcomes: Floats  # (O, 5): cumulative probability in its arm, limit and start (their indices), amplitude, decay
    guide: Ints  # (D * GUIDES,) first piece that can hold a level of the g-th of GUIDES equal parts of [0, 1)
    pieces: Floats  # (P, 4): cumulative probability before and after it in its distribution, left, width / probability
    discount: float


def compile_tables(bandit: Bandit) -> Tables:
    """Flatten a bandit."""
    known: dict[int, tuple[int, BoundedDistribution]] = {}  # by identity: arms may share a distribution

    def index(costs: BoundedDistribution) -> int:
        return known.setdefault(id(costs), (len(known), costs))[0]

    starts, rows = [0], []
    for arm in bandit.arms:
        shares = np.cumsum([outcome.probability for outcome in arm.outcomes])
        shares[-1] = 1.0
        for share, outcome in zip(shares, arm.outcomes, strict=True):
            drift = outcome.drift or Drift(outcome.distribution, amplitude=0.0)
            rows.append((share, index(outcome.distribution), index(drift.start), drift.amplitude, drift.decay))
        starts.append(len(rows))
    parts = [costs for _, costs in known.values()]
    uppers = [costs.cumulative for costs in parts]
    upper = np.concatenate(uppers)
    lower = np.concatenate([np.append(0.0, one[:-1]) for one in uppers])
    left, width = (np.concatenate([getattr(costs, name) for costs in parts]) for name in ("left", "width"))
    first_piece = np.cumsum([0, *(one.size for one in uppers[:-1])])
    levels = np.arange(GUIDES) / GUIDES
    guide = [start + np.searchsorted(one, levels, "right") for start, one in zip(first_piece, uppers, strict=True)]
    return Tables(
        outcome_start=np.array(starts, dtype=np.int64),
        cost=np.array([float(arm.cost) for arm in bandit.arms]),
        outcomes=np.array(rows, dtype=np.float64),
        guide=np.concatenate(guide).astype(np.int64),
        pieces=np.column_stack([lower, upper, left, width / (upper - lower)]),
        discount=float(bandit.discount),
    )
