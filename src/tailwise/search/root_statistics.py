"""What trees know of their root: the totals sampled through each action, and what several trees know together.

An ERM with its count is a commutative monoid (:mod:`tailwise.risk.accumulator`): the ERM of all costs-to-go sampled
through an action, by whichever tree, is the ERM of the trees' values under weights in proportion to their counts,

    value = ln(sum_k n_k / n exp(beta value_k)) / beta,        n = sum_k n_k.

So merged statistics are those of one sample that holds all samples, exactly but for rounding; they are computed in one
step from the trees in their given order, which fixes the rounding too. What they are *not* is the statistics of
one larger tree: each tree explored on its own and knows nothing of what the others saw. With a backup that keeps no
plain sample (:class:`tailwise.BellmanBackup`) the value is the ERM of the mixture of the trees' estimates.

A part is small: 56 bytes an action, beside the samples, which is what makes it fit to travel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import inlined
from tailwise.risk.entropic import weighted_erm

MEAN, SPREAD, LOW, HIGH = 0, 1, 2, 3  # columns of the moments; SPREAD is the sum of squared deviations


@inlined
def note_total(counts, moments, latest, action, total):  # type: ignore[no-untyped-def]
    """Note a total sampled through ``action``; the number of latest ones is a power of 2."""
    count = counts[action]
    latest[action, count & (latest.shape[1] - 1)] = total
    counts[action] = count + 1
    gap = total - moments[action, MEAN]
    moments[action, MEAN] += gap / (count + 1)
    moments[action, SPREAD] += gap * (total - moments[action, MEAN])
    moments[action, LOW] = min(moments[action, LOW], total)
    moments[action, HIGH] = max(moments[action, HIGH], total)


class RootStatistics(NamedTuple):
    """What a tree knows of its root, as costs; A is the number of actions."""

    visits: NDArray[np.int64]  # (A,) over the life of the node
    values: NDArray[np.float64]  # (A,) ERM of the costs-to-go sampled so often
    counts: NDArray[np.int64]  # (A,) totals sampled since the last re-root
    moments: NDArray[np.float64]  # (A, 4) their mean, sum of squared deviations, minimum and maximum
    samples: tuple[NDArray[np.float64], ...]  # the latest of these totals, for each action
    iterations: int
    simulator_steps: int
    nodes: int
    num_bytes: int


def merged(parts: Sequence[RootStatistics], beta: float) -> RootStatistics:
    """Return the statistics of all trees at a root together, in O(parts * A): their order decides the rounding."""
    first = parts[0]
    if len(parts) == 1:
        return first
    visits = np.array([part.visits for part in parts])
    values = np.array([part.values for part in parts])
    totals = visits.sum(axis=0)
    actions = range(totals.size)
    return RootStatistics(
        totals,
        np.array([_value(values[:, k], visits[:, k], int(totals[k]), beta) for k in actions]),
        np.sum([part.counts for part in parts], axis=0),
        np.array([_moments([(int(part.counts[k]), part.moments[k]) for part in parts]) for k in actions]),
        tuple(np.concatenate([part.samples[k] for part in parts]) for k in actions),
        sum(part.iterations for part in parts),
        sum(part.simulator_steps for part in parts),
        sum(part.nodes for part in parts),
        sum(part.num_bytes for part in parts),
    )


def _value(values: NDArray[np.float64], visits: NDArray[np.int64], total: int, beta: float) -> float:
    """ERM of one action; 0 where no tree took it."""
    seen = visits > 0
    if seen.sum() < 2:
        return float(values[seen].sum())
    return weighted_erm(values[seen], beta, visits[seen] / total)


def _moments(parts: list[tuple[int, NDArray[np.float64]]]) -> NDArray[np.float64]:
    """Mean, squared deviations, minimum and maximum of one action (Chan, Golub and LeVeque, 1983)."""
    count, (mean, spread, low, high) = parts[0][0], parts[0][1].tolist()
    for more, moments in parts[1:]:
        if not more:
            continue
        other, deviations, least, greatest = moments.tolist()
        share, gap = more / (count + more), other - mean
        mean = other if not count else mean + share * gap
        spread += deviations + (gap * gap * share * count if count else 0.0)
        low, high, count = min(low, least), max(high, greatest), count + more
    return np.array([mean, spread, low, high])
