"""What is known of each action at a root: totals sampled through it, by one tree or several; and the rows of a plan.

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

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import inlined
from tailwise._results import Result, plain
from tailwise.models.contract import Sense
from tailwise.risk.distribution import ReturnDistribution
from tailwise.risk.entropic import oce_utility, weighted_erm
from tailwise.risk.measures import Interval

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


UNBOUNDED = Interval(-math.inf, math.inf)


class Numbers(Result):
    """Findings among which numbers may be unknown: every NaN is the same one, so that equal findings are equal."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in ("state", "action"):  # the model's own
                continue
            if isinstance(value, float) and math.isnan(value):
                object.__setattr__(self, name, math.nan)
            elif type(value) is tuple and any(isinstance(item, float) and math.isnan(item) for item in value):
                object.__setattr__(self, name, tuple(math.nan if item != item else item for item in value))

    def to_dict(self) -> dict[str, object]:
        """Return the public fields as plain values, ready for ``json.dumps``, without those that nothing filled.

        Distributions stay behind. Numbers that JSON lacks (NaN, infinities) are None, arrays are lists, results
        within are dicts.
        """
        found: dict[str, object] = {}
        for item in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, item.name)
            is_empty = item.default is not dataclasses.MISSING and value is None
            if item.repr and not is_empty and not item.name.startswith("_"):
                found[item.name] = plain(value)
        return found


@dataclass(frozen=True)
class ActionRow(Numbers):
    """What is known of one action at the root. Costs (or rewards) are in the model's sense.

    Attributes
    ----------
    action : object
        The action, as the model names it.
    label : str
        Its name.
    visits : int
        How often the search took it, over the whole life of the node (``Plan.unit`` says what is counted).
    share : float in [0, 1]
        Its part of all visits.
    erm : float
        What the plan's objective is worth with this action: an ERM, unless ``Plan.measure`` says otherwise. NaN if
        unvisited.
    mean, std, minimum, maximum : float
        Of the totals sampled since the last re-root, or of ``distribution``; NaN if there are none.
    interval : Interval
        90 % interval for what ``Plan.interval_meaning`` says; unbounded where none can be given.
    lower, upper : float, optional
        Bounds of the risk of the action, followed by optimal ones, that are certain.
    draws : int, optional
        Outcomes of the action that were drawn from the model in the root's state, at any step.
    probability_best : float in [0, 1], optional
        Share of the bootstrap in which the action was the best; equal ones share a replicate, so that they add up to 1.
    unexplored : float in [0, 1], optional
        Probability, under what was learned, that the action and the best ones after it lead to a state in which nothing
        was tried: what follows there is left out of ``erm``, which counts the other outcomes alone. NaN in a tree,
        where new states are valued by playing on.
    unseen_probability : float in [0, 1], optional
        ``min(1, 3 / draws)``: with 95 % confidence an outcome never seen is no more likely than that.
    unseen_erm : float, optional
        What the action's ERM could be if there were such an outcome, as bad as the worst total seen at the root.
    certainty_equivalent : float, optional
        Sure total that is as good as a utility ``erm``.
    distribution : ReturnDistribution, optional
        Of the total, with this action and what is planned afterwards.
    """

    action: Any
    label: str
    visits: int
    share: float
    erm: float
    mean: float
    std: float
    minimum: float
    maximum: float
    interval: Interval
    _: KW_ONLY
    lower: float | None = None
    upper: float | None = None
    draws: int | None = None
    probability_best: float | None = None
    unexplored: float | None = None
    unseen_probability: float | None = None
    unseen_erm: float | None = None
    certainty_equivalent: float | None = None
    distribution: ReturnDistribution | None = field(default=None, repr=False, compare=False)

    @property
    def value(self) -> float:
        """What the action is judged by, in the unit of the totals where there is such a number."""
        return self.erm if self.certainty_equivalent is None else self.certainty_equivalent


def bounded_row(action: Any, label: str, visits: int, total: int, value: float, bounds: Interval) -> ActionRow:
    """Return the row of an action, taken in ``visits`` of ``total`` trials, of which bounds are certain."""
    unknown = (math.nan,) * 4  # no totals are sampled
    share = visits / max(1, total)
    return ActionRow(action, label, visits, share, value, *unknown, bounds, lower=bounds.low, upper=bounds.high)


def in_sense(low: float, high: float, sense: Sense) -> Interval:
    """Return bounds of a cost as bounds in the model's sense."""
    return Interval(float(low), float(high)) if sense == "cost" else Interval(0.0 - float(high), 0.0 - float(low))


class Findings(NamedTuple):
    """What is known of the actions at a root, as inner costs; A is their number."""

    actions: Sequence[Any]
    labels: Sequence[str]
    visits: NDArray[np.int64]  # (A,)
    values: NDArray[np.float64]  # (A,)
    known: NDArray[np.bool_]  # (A,) where a value means something
    counts: NDArray[np.int64]  # (A,) totals sampled since the last re-root
    moments: NDArray[np.float64]  # (A, 4) their mean, sum of squared deviations, minimum and maximum
    intervals: Sequence[Interval]
    sense: Sense  # of the rows


def make_rows(found: Findings, further: Sequence[dict[str, Any]] | None = None) -> tuple[ActionRow, ...]:
    """Return the rows of a plan, in the model's sense, with ``further`` fields of each."""
    total, rows = max(1, int(found.visits.sum())), []
    columns = (found.visits.tolist(), found.values.tolist(), found.counts.tolist(), found.moments.tolist())
    for k, (seen, erm, count, (mean, spread, low, high)) in enumerate(zip(*columns, strict=True)):
        interval = found.intervals[k]
        if found.sense == "reward":
            erm, mean, low, high = 0.0 - erm, 0.0 - mean, 0.0 - high, 0.0 - low
            interval = in_sense(*interval, found.sense)
        if not found.known[k]:
            erm = math.nan
        if not count:
            mean = low = high = math.nan
        std = math.sqrt(spread / (count - 1)) if count > 1 else math.nan
        more = further[k] if further else {}
        row = ActionRow(
            found.actions[k], found.labels[k], seen, seen / total, erm, mean, std, low, high, interval, **more
        )
        rows.append(row)
    return tuple(rows)


def sampled_interval(
    erm: float, visits: int, beta: float, samples: NDArray[np.float64], *, is_sampled: bool
) -> Interval:
    """Return the interval of an ERM of costs-to-go; it reaches to that of ``samples`` where it is none of them."""
    if not visits or samples.size < 2:
        return UNBOUNDED
    error = float(np.std(oce_utility(samples - erm, beta), ddof=1)) / math.sqrt(max(visits, samples.size))
    width = 1.6448536269514722 * error  # the normal 95 % quantile: a two-sided 90 % interval
    other = erm if is_sampled else weighted_erm(samples, beta, np.full(samples.size, 1.0 / samples.size))
    return Interval(min(erm, other) - width, max(erm, other) + width)
