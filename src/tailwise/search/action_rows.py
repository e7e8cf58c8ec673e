"""The rows of a plan, from what a search counted at its root."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.models.contract import Sense
from tailwise.risk.entropic import oce_utility
from tailwise.risk.intervals import Interval
from tailwise.search.plan import ActionRow

_UNBOUNDED = Interval(-math.inf, math.inf)


def make_rows(
    actions: list[Any],
    labels: list[str],
    visits: NDArray[np.int64],
    erms: NDArray[np.float64],
    beta: float,
    counts: NDArray[np.int64],
    moments: NDArray[np.float64],
    samples: list[NDArray[np.float64]],
    sense: Sense,
) -> tuple[ActionRow, ...]:
    """Return the rows of a plan, in the model's sense, from inner costs; A is the number of actions at the root.

    Parameters
    ----------
    actions, labels : list, of length A
        The actions as the model names them, and their names.
    visits : ndarray of int64, shape (A,)
        How often each was taken.
    erms : ndarray of float64, shape (A,)
        ERM of the costs-to-go sampled so often.
    beta : float
        Risk level at the root.
    counts : ndarray of int64, shape (A,)
        Totals sampled since the last re-root.
    moments : ndarray of float64, shape (A, 4)
        Their mean, sum of squared deviations, minimum and maximum.
    samples : list of ndarray
        The latest of them, of each action.
    sense : "cost" or "reward"
        What the user speaks of.
    """
    total = max(1, int(visits.sum()))
    rows = []
    columns = (visits.tolist(), erms.tolist(), counts.tolist(), moments.tolist())
    for k, (seen, erm, count, (mean, spread, low, high)) in enumerate(zip(*columns, strict=True)):
        interval = _interval(erm, seen, beta, samples[k]) if seen else _UNBOUNDED
        if sense == "reward":
            erm, mean, low, high = 0.0 - erm, 0.0 - mean, 0.0 - high, 0.0 - low
            interval = Interval(0.0 - interval.high, 0.0 - interval.low)
        if not seen:
            erm = math.nan
        if not count:
            mean = low = high = math.nan
        std = math.sqrt(spread / (count - 1)) if count > 1 else math.nan
        rows.append(ActionRow(actions[k], labels[k], seen, seen / total, erm, mean, std, low, high, interval))
    return tuple(rows)


def _interval(erm: float, visits: int, beta: float, samples: NDArray[np.float64]) -> Interval:
    if samples.size < 2:
        return _UNBOUNDED
    error = float(np.std(oce_utility(samples - erm, beta), ddof=1)) / math.sqrt(max(visits, samples.size))
    width = 1.6448536269514722 * error  # the normal 95 % quantile: a two-sided 90 % interval
    return Interval(erm - width, erm + width)
