"""Paired comparison of two planners on common random numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailwise._random import Seed, generator
from tailwise._results import Result, Shown, number, span
from tailwise._validate import integer, real
from tailwise.errors import OptionError
from tailwise.evaluation.intervals import MOST_RESAMPLES, bounded_resamples, objective_statistic, resampled_counts
from tailwise.evaluation.returns import Returns
from tailwise.risk.measures import Interval
from tailwise.risk.objectives import Objective, as_objective


@dataclass(frozen=True)
class Comparison(Shown, Result):
    """The difference in an objective between two samples, first minus second.

    Attributes
    ----------
    first, second : str
        Labels of the two.
    measure : str
        What is compared, as "ERM at beta 0.5".
    difference : float
        That of the first minus that of the second, in the model's own sense.
    interval : Interval
        Percentile bootstrap interval of the difference, pairs resampled together.
    confidence : float
        Its nominal coverage.
    better, equal, worse : int
        Episodes in which the first did better than, as well as, and worse than the second.
    """

    first: str
    second: str
    measure: str
    difference: float
    interval: Interval
    confidence: float
    better: int
    equal: int
    worse: int

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return not self.interval.low <= 0.0 <= self.interval.high

    def __str__(self) -> str:
        clear = "" if self.is_clear else "; that may be luck: the interval holds 0"
        return (
            f"{self.first} minus {self.second}, {self.measure}: {number(self.difference)}, {100 * self.confidence:g} % "
            f"interval {span(*self.interval)}{clear}\n{self.first} did better in {self.better:,} episodes, as well in "
            f"{self.equal:,}, worse in {self.worse:,}"
        )


def compare(
    first: Returns,
    second: Returns,
    objective: Objective | float,
    *,
    confidence: float = 0.9,
    resamples: int = 10_000,
    seed: Seed = 0,
) -> Comparison:
    """Compare two samples that were drawn on common random numbers.

    Parameters
    ----------
    first, second : Returns
        Samples of :func:`tailwise.evaluate` on one model under one seed, with equally many episodes.
    objective : Objective or float
        What is compared, as :class:`tailwise.CVaR`; a number is the beta of an ERM.
    confidence : float in (0, 1), default 0.9
        Nominal coverage of the interval.
    resamples : int, default 10,000
        Number of resamples, 100 to 1,000,000. Of over 4096 different pairs fewer are drawn, in inverse proportion to
        the pairs (409 of 100,000), but ten beyond each end of the interval (200 at 0.9) at least.
    seed : None, int, SeedSequence or Generator, default 0
        Of the resampling.

    Returns
    -------
    Comparison

    Raises
    ------
    OptionError
        If the samples are not paired.

    Examples
    --------
    >>> from tailwise import backward_induction, domains, evaluate
    >>> from tailwise.evaluation import compare
    >>> mdp = domains.make("mdp-4")
    >>> averse = evaluate(mdp, backward_induction(mdp, 1.0), episodes=500, seed=0)
    >>> neutral = evaluate(mdp, backward_induction(mdp, 0.0), episodes=500, seed=0)
    >>> compare(averse, neutral, 1.0).is_clear
    True
    """
    aim = as_objective(objective)
    wanted = real(confidence, "confidence", low=0.0, high=1.0, ends="()")
    number = integer(resamples, "resamples", low=100, high=MOST_RESAMPLES)
    for name, sample in (("first", first), ("second", second)):
        if not isinstance(sample, Returns):
            raise OptionError(f"{name} must be Returns, as tailwise.evaluate gives them, not {sample!r}")
    if first.streams != second.streams or first.episodes != second.episodes or first.sense != second.sense:
        raise OptionError(
            "the samples are not paired: evaluate both on one model with the same seed and episodes "
            f"(got {first.episodes} and {second.episodes} episodes{_difference(first, second)})"
        )
    sign = 1.0 if first.sense == "cost" else -1.0
    pairs, counts = np.unique(np.stack((sign * first.costs, sign * second.costs)), axis=1, return_counts=True)
    left, right = (objective_statistic(aim, sign * costs, first.sense) for costs in pairs)
    drawn = resampled_counts(counts, bounded_resamples(counts, number, wanted), generator(seed))
    values = np.concatenate([left(rows) - right(rows) for rows in drawn])
    low, high = np.quantile(sign * values, [(1.0 - wanted) / 2.0, (1.0 + wanted) / 2.0])
    found = first.risk(aim) - second.risk(aim) + 0.0  # + 0.0: no -0.0
    ends = sorted((sign * float(low) + 0.0, sign * float(high) + 0.0))
    one, two = sign * first.costs, sign * second.costs
    return Comparison(
        first.label, second.label, aim.words, found,
        Interval(*ends), wanted,
        int(np.count_nonzero(one < two)), int(np.count_nonzero(one == two)), int(np.count_nonzero(one > two)),
    )  # fmt: skip


def _difference(first: Returns, second: Returns) -> str:
    if first.streams == second.streams:
        return ""
    if max(len(first.streams), len(second.streams)) > 3:
        return ", of which batch_size gave luck that no other sample shares"
    return " of different models" if first.streams[:2] == second.streams[:2] else " under different seeds"
