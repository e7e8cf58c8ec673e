"""What a learned-model search says of every action at its root."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise.risk.accumulator import merge_values
from tailwise.risk.entropic import oce_utility
from tailwise.risk.measures import Interval

TIE = 1e-9  # of a value: estimates that close count as equal
BOOTSTRAP = (
    "the optimal ERM after the action, from the Bayesian bootstrap of all outcome counts, with half a draw of an "
    "outcome that was not seen, like those seen anywhere: as if outcomes were drawn independently"
)
NO_INTERVAL = "none is given: it would have taken far longer than the search"
SAMPLED = "the ERM of the totals as they were sampled, exploration included, as if they were independent"
UNEXPLORED = (
    "with probability {:.2g} it comes to a state in which nothing was tried; what follows there is not in the values"
)


def sampling_errors(
    latest: NDArray[np.float64],
    sampled: NDArray[np.int64],
    values: NDArray[np.float64],
    taken: NDArray[np.int64],
    beta: float,
) -> NDArray[np.float64]:
    """Return the standard errors of the ERM of the totals sampled through each action, inf where there are too few.

    ``latest`` has shape (A, K): the last K totals of each; the other arrays have shape (A,).
    """
    counts = np.minimum(sampled, latest.shape[1])
    judged = (counts >= 2) & np.isfinite(values)
    there = np.arange(counts.max(initial=0)) < counts[:, None]
    costs = np.where(there, latest[:, : there.shape[1]], values[:, None])
    utilities = np.where(
        there & judged[:, None], oce_utility(costs - np.where(judged, values, 0.0)[:, None], beta), 0.0
    )
    fair = np.maximum(counts, 2)
    squares = np.where(there, (utilities - utilities.sum(axis=1, keepdims=True) / fair[:, None]) ** 2, 0.0).sum(axis=1)
    return np.where(judged, np.sqrt(squares / (fair - 1) / np.maximum(taken, fair)), math.inf)


class Judged(NamedTuple):
    """What the samples say of the actions at the root beside their values, as inner costs; A is their number."""

    values: NDArray[np.float64]  # (A,) inf where nothing is known
    draws: NDArray[np.int64]  # (A,)
    unexplored: NDArray[np.float64]  # (A,)
    possible: NDArray[np.float64]  # (B, A) values that the samples leave possible; none where none were worked out
    sure: NDArray[np.bool_]  # (A,) where there are intervals
    worst: float  # the greatest total seen
    beta: float
    sign: float  # -1 for a model with rewards

    def intervals(self) -> list[Interval]:
        """Return the 90 % interval of each value."""
        low, high = np.full(self.values.size, -math.inf), np.full(self.values.size, math.inf)
        if self.possible.size:
            low[self.sure], high[self.sure] = np.quantile(self.possible[:, self.sure], [0.05, 0.95], axis=0)
        return [Interval(*ends) for ends in zip(low.tolist(), high.tolist(), strict=True)]

    def further(self) -> list[dict[str, Any]]:
        """Return what a row of a learned model has beside those of a tree."""
        known, best = np.isfinite(self.values), None
        if self.possible.size:
            least = self.possible[:, known].min(axis=1)
            limit = least + TIE * np.abs(least)
            best = np.where(known, (self.possible <= limit[:, None]).mean(axis=0), 0.0).tolist()
        chances = np.minimum(1.0, 3.0 / np.maximum(self.draws, 1)).tolist()
        found = []
        for k, (erm, chance) in enumerate(zip(self.values.tolist(), chances, strict=True)):
            unseen = float(merge_values(erm, max(self.worst, erm), chance, self.beta)) if known[k] else math.nan
            found.append({
                "draws": int(self.draws[k]), "probability_best": None if best is None else best[k],
                "unexplored": float(self.unexplored[k]) if known[k] else math.nan,
                "unseen_probability": chance, "unseen_erm": 0.0 + self.sign * unseen,
            })  # fmt: skip
        return found
