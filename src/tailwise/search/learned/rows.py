"""What a learned-model search says of every action at its root."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise.risk.accumulator import merge_values
from tailwise.risk.entropic import oce_utility
from tailwise.risk.intervals import Interval
from tailwise.search.action_rows import ActionRow

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


class Findings(NamedTuple):
    """What is known at the root, as inner costs; A is the number of actions."""

    actions: Sequence[Any]
    labels: Sequence[str]
    visits: NDArray[np.int64]  # (A,)
    draws: NDArray[np.int64]  # (A,)
    values: NDArray[np.float64]  # (A,) inf where nothing is known
    unexplored: NDArray[np.float64]  # (A,)
    possible: NDArray[np.float64]  # (B, A) values that the samples leave possible; none where none were worked out
    sure: NDArray[np.bool_]  # (A,) where there are intervals
    counts: NDArray[np.int64]  # (A,) totals sampled since the last re-root
    moments: NDArray[np.float64]  # (A, 4) their mean, sum of squared deviations, minimum and maximum
    worst: float  # the greatest total seen
    beta: float
    sign: float  # -1 for a model with rewards


def make_rows(found: Findings) -> tuple[ActionRow, ...]:
    """Return the rows of a plan, in the model's sense."""
    actions, labels, visits, draws, values, unexplored, possible, sure, counts, moments, worst, beta, sign = found
    known = np.isfinite(values)
    low, high, best = np.full(values.size, -math.inf), np.full(values.size, math.inf), np.zeros(values.size)
    if possible.size:
        low[sure], high[sure] = np.quantile(possible[:, sure], [0.05, 0.95], axis=0)
        least = possible[:, known].min(axis=1)
        limit = least + TIE * np.abs(least)
        best = np.where(known, (possible <= limit[:, None]).mean(axis=0), 0.0)
    chances = np.minimum(1.0, 3.0 / np.maximum(draws, 1))
    total_visits, rows = int(visits.sum()), []
    for k, (action, label) in enumerate(zip(actions, labels, strict=True)):
        count, erm, chance = int(counts[k]), float(values[k]), float(chances[k])
        mean, spread, least_seen, most_seen = (float(moment) for moment in moments[k]) if count else (math.nan,) * 4
        std = math.sqrt(spread / (count - 1)) if count > 1 else math.nan
        unseen = float(merge_values(erm, max(worst, erm), chance, beta)) if known[k] else math.nan
        interval = Interval(float(low[k]), float(high[k]))
        if sign < 0.0:
            mean, least_seen, most_seen = 0.0 - mean, 0.0 - most_seen, 0.0 - least_seen
            interval = Interval(0.0 - interval.high, 0.0 - interval.low)
        rows.append(
            ActionRow(
                action, label, int(visits[k]), int(visits[k]) / total_visits if total_visits else 0.0,
                0.0 + sign * erm if known[k] else math.nan, mean, std, least_seen, most_seen, interval,
                draws=int(draws[k]), probability_best=float(best[k]) if possible.size else None,
                unexplored=float(unexplored[k]) if known[k] else math.nan,
                unseen_probability=chance, unseen_erm=0.0 + sign * unseen,
            )
        )  # fmt: skip
    return tuple(rows)
