"""What a learned-model search says of every action at its root."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.risk.accumulator import merge_values
from tailwise.risk.entropic import oce_utility
from tailwise.risk.intervals import Interval
from tailwise.search.action_rows import ActionRow

TIE = 1e-9  # of a value: estimates that close count as equal


BOOTSTRAP = (
    "the optimal ERM after the action, from the Bayesian bootstrap of all outcome counts, its worse end at "
    "least as bad as held_out_erm: as if every outcome had been seen and drawn independently"
)
ROOT_BOOTSTRAP = (
    "the ERM after the action, from the Bayesian bootstrap of the outcomes at the root alone: as if every outcome had "
    "been seen, and the values of the states that follow were right"
)
SAMPLED = "the ERM of the totals as they were sampled, exploration included, as if they were independent"


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


def make_rows(
    actions: Sequence[Any],
    labels: Sequence[str],
    *,
    visits: NDArray[np.int64],
    draws: NDArray[np.int64],
    values: NDArray[np.float64],
    middle: NDArray[np.float64],
    possible: NDArray[np.float64],
    held_out: NDArray[np.float64],
    sure: NDArray[np.bool_],
    moments: NDArray[np.float64],
    counts: NDArray[np.int64],
    worst: float,
    beta: float,
    sign: float,
) -> tuple[ActionRow, ...]:
    """Assemble the rows from inner costs; arrays have shape (A,), ``possible`` and ``held_out`` (B, A), moments (A, 4).

    ``sign`` is -1 for a model with rewards, ``worst`` the greatest total seen; there are intervals where ``sure``.
    """
    known = np.isfinite(values)
    low, high = np.full(values.size, -math.inf), np.full(values.size, math.inf)
    low[sure], high[sure] = np.quantile(possible[:, sure], [0.05, 0.95], axis=0)
    if held_out.size:
        high[sure] = np.maximum(high[sure], np.quantile(held_out[:, sure], 0.95, axis=0))
    centred = possible.copy()
    centred[:, known] += middle[known] - values[known]
    least = centred[:, known].min(axis=1)
    limit = least + TIE * np.maximum(1.0, np.abs(least))
    best = np.where(known, (centred <= limit[:, None]).mean(axis=0), 0.0)
    judged = held_out.mean(axis=0) if held_out.size else np.full(values.size, math.nan)
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
                draws=int(draws[k]), probability_best=float(best[k]), held_out_erm=0.0 + sign * float(judged[k]),
                unseen_probability=chance, unseen_erm=0.0 + sign * unseen,
            )
        )  # fmt: skip
    return tuple(rows)
