"""What a learned-model search says of every action at its root."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.risk.accumulator import merge_values
from tailwise.risk.entropic import oce_utility
from tailwise.risk.intervals import Interval
from tailwise.search.plan import ActionRow

TIE = 1e-9  # of a value: estimates that close count as equal


@dataclass(frozen=True)
class LearnedRow(ActionRow):
    """What is known of one action at the root; ``interval`` is one for what ``LearnedPlan.interval_meaning`` says.

    Attributes
    ----------
    held_out_erm : float
        ERM of the action and of the policy after it that one half of the draws would choose, by the other half of them:
        too pessimistic, where ``erm`` is too optimistic (it believes the luck of every action that seems best). NaN
        where it was not worked out: in a tree, or where that would take longer than the search did.
    draws : int
        Outcomes of the action that were drawn from the model in the root's state, at any step.
    probability_best : float in [0, 1]
        Share of the bootstrap, centred between ``erm`` and ``held_out_erm``, in which no other action was better.
    unseen_probability : float in [0, 1]
        ``min(1, 3 / draws)``: with 95 % confidence an outcome never seen is no more likely than that.
    unseen_erm : float
        What the action's ERM could be if there were such an outcome, as bad as the worst total seen at the root.
    """

    held_out_erm: float
    draws: int
    probability_best: float
    unseen_probability: float
    unseen_erm: float


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
) -> tuple[LearnedRow, ...]:
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
            LearnedRow(
                action, label, int(visits[k]), int(visits[k]) / total_visits if total_visits else 0.0,
                0.0 + sign * erm if known[k] else math.nan, mean, std, least_seen, most_seen, interval,
                0.0 + sign * float(judged[k]), int(draws[k]), float(best[k]), chance, 0.0 + sign * unseen,
            )
        )  # fmt: skip
    return tuple(rows)
