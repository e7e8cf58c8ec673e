"""Distributions of the total, and the measures that they share with samples of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

import numpy as np

from tailwise._arrays import Floats, inner
from tailwise._results import Columns, Tabled
from tailwise._validate import real
from tailwise.errors import OptionError
from tailwise.risk.entropic import erm
from tailwise.risk.measures import conditional_value_at_risk, entropic_value_at_risk, value_at_risk
from tailwise.risk.objectives import Exceedance, Objective, as_objective

Numbers = TypeVar("Numbers", float, Floats)


class Measures:
    """Risk measures of totals in the model's own sense, for subclasses that give ``weighted``.

    For costs the upper tail is the bad one; for rewards it is the lower, and every measure is that of the
    negated rewards, negated back.
    """

    sense: Literal["cost", "reward"]

    def weighted(self) -> tuple[Floats, Floats | None]:
        """Return totals, and their weights: None where all are equally likely."""
        raise NotImplementedError

    def signed(self, values: Numbers) -> Numbers:
        """Return totals as costs, or costs as totals: where totals are rewards the sign changes."""
        return values if self.sense == "cost" else 0.0 - values

    def erm(self, beta: float) -> float:
        """Return the entropic risk at ``beta`` (1/cost); for rewards ``-ERM(-X)``."""
        return self._of_costs(erm, beta)

    def cvar(self, level: float) -> float:
        """Return the mean of the worst ``1 - level`` of the totals, ``level`` in [0, 1]."""
        return self._of_costs(conditional_value_at_risk, level)

    def var(self, level: float) -> float:
        """Return the value at risk: the least cost x with ``P(X <= x) >= level``, of negated rewards, negated back."""
        return self._of_costs(value_at_risk, level)

    def evar(self, level: float) -> float:
        """Return the entropic value at risk, the least of ``ERM_beta - ln(1 - level) / beta``; ``level`` in [0, 1]."""
        return self._of_costs(entropic_value_at_risk, level)

    def _of_costs(self, measure: Callable[..., float], level: float) -> float:
        totals, weights = self.weighted()
        return float(self.signed(measure(self.signed(totals), level, weights)))

    def exceedance(self, total: float) -> float:
        """Return the probability of a total worse than ``total``: above it for costs, below it for rewards.

        A total that differs in its last digits alone (by 1e-11, relative) is not worse: 0.1 + 0.2 does not exceed 0.3.
        """
        totals, weights = self.weighted()
        return Exceedance(total).of(totals, weights, sense=self.sense)

    def risk(self, objective: Objective | float) -> float:
        """Return any objective of the totals, as ``ERM(0.5)`` or ``CVaR(0.95)``; a number is ``ERM(number)``."""
        totals, weights = self.weighted()
        return as_objective(objective).of(totals, weights, sense=self.sense)

    def dominates(self, other: Measures) -> int:
        """Return the order of stochastic dominance over another distribution or sample; 0 where there is none.

        1: no total is less likely to be kept to, so that everyone prefers this one. 2: everyone averse to risk does,
        whatever the utility: beyond no total is the mean excess larger. Laws that are equal do not dominate.

        Examples
        --------
        >>> from tailwise import domains, solve
        >>> plan = solve(domains.make("mdp-4"), 0.5).plan()
        >>> safe, risky = plan.row("safe").distribution, plan.row("risky").distribution
        >>> safe.dominates(risky), risky.dominates(safe)
        (0, 0)
        """
        laws = [(self.signed(part.weighted()[0]), part.weighted()[1]) for part in (self, other)]
        grid = np.unique(np.concatenate([costs for costs, _ in laws]))
        (beyond, excess), (others, other_excess) = (_tails(costs, weights, grid) for costs, weights in laws)
        slack = 1e-12 * float(np.abs(grid).max())
        if np.allclose(beyond, others, rtol=0.0, atol=1e-12) or (excess > other_excess + slack).any():
            return 0
        return 2 if (beyond > others + 1e-12).any() else 1

    def quantile(self, level: float) -> float:
        """Return the least total x with ``P(X <= x) >= level``, ``level`` in [0, 1]."""
        totals, weights = self.weighted()
        return value_at_risk(totals, real(level, "level", low=0.0, high=1.0), weights)

    @property
    def mean(self) -> float:
        """Mean total."""
        totals, weights = self.weighted()
        return erm(totals, 0.0, weights)

    @property
    def minimum(self) -> float:
        """Least total."""
        return float(self.weighted()[0].min())

    @property
    def maximum(self) -> float:
        """Largest total."""
        return float(self.weighted()[0].max())

    @property
    def std(self) -> float:
        """Standard deviation: with n - 1 for a sample (NaN for a single one), exact for a distribution."""
        totals, weights = self.weighted()
        if weights is not None:
            return math.sqrt(max(0.0, inner(weights, (totals - self.mean) ** 2)))
        return float(np.std(totals, ddof=1)) if totals.size > 1 else math.nan


def _tails(costs: Floats, weights: Floats | None, grid: Floats) -> tuple[Floats, Floats]:
    """Return the probability of more than each point of a grid that has all costs, and the mean excess over it."""
    places = np.searchsorted(grid, costs)
    chances = np.bincount(places, weights=weights, minlength=grid.size) / (costs.size if weights is None else 1.0)
    beyond = np.append(np.cumsum(chances[::-1])[::-1][1:], 0.0)
    return beyond, np.append(np.cumsum((beyond[:-1] * np.diff(grid))[::-1])[::-1], 0.0)


@dataclass(frozen=True, eq=False)
class ReturnDistribution(Tabled, Measures):
    """A discrete distribution of the total, in the model's own sense; as a table, a row for each total.

    Attributes
    ----------
    costs : ndarray of float64, shape (k,)
        Distinct totals, increasing; rewards where the model has rewards.
    probabilities : ndarray of float64, shape (k,)
        Their probabilities, all positive, which sum to 1.
    sense : "cost" or "reward"
        What the totals are.
    tolerance : float
        No total was moved by more than this; 0 if only equal ones were merged.
    unfinished : float
        Probability of episodes without a horizon that were cut off before their end: they stand at what was paid by
        then.
    """

    costs: Floats
    probabilities: Floats
    sense: Literal["cost", "reward"] = "cost"
    tolerance: float = 0.0
    unfinished: float = 0.0

    def __post_init__(self) -> None:
        for name in ("costs", "probabilities"):
            if not isinstance(getattr(self, name), np.ndarray):
                raise OptionError(f"{name} must be an array of float64, not {getattr(self, name)!r}")
            getattr(self, name).setflags(write=False)

    def weighted(self) -> tuple[Floats, Floats]:
        """Return totals and their probabilities."""
        return self.costs, self.probabilities

    def to_columns(self) -> Columns:
        """Return total and probability, column by column."""
        return {"total": self.costs.tolist(), "probability": self.probabilities.tolist()}

    @property
    def atoms(self) -> int:
        """Number of distinct totals."""
        return int(self.costs.size)

    def equally_likely(self, count: int) -> Floats:
        """Return so many equally likely totals that stand for the distribution."""
        cuts = np.searchsorted(np.cumsum(self.probabilities), (np.arange(count) + 0.5) / count)
        return self.costs[np.minimum(cuts, self.costs.size - 1)]

    @overload
    def cdf(self, points: float) -> float: ...
    @overload
    def cdf(self, points: Sequence[float] | Floats) -> Floats: ...
    def cdf(self, points: float | Sequence[float] | Floats) -> float | Floats:
        """Return ``P(X <= x)`` at each of ``points``."""
        running = np.concatenate(([0.0], np.cumsum(self.probabilities)))
        return running[np.searchsorted(self.costs, np.asarray(points, dtype=np.float64), side="right")]

    def kolmogorov_smirnov(self, sample: Any) -> tuple[float, float]:
        """Test whether ``sample`` may have been drawn from this law.

        Parameters
        ----------
        sample : array_like of float, shape (n,)
            Independent totals.

        Returns
        -------
        statistic : float
            Largest distance between the two distribution functions.
        p_value : float
            Asymptotic; for a law with atoms the test is conservative (it rejects the truth less often
            than the level says).
        """
        from scipy.special import kolmogorov

        values = np.sort(np.asarray(sample, dtype=np.float64).reshape(-1))
        if not values.size:
            raise OptionError("sample is empty; the test needs at least one total")
        # Totals that differ in rounding alone are one atom: compare just above an atom that no other is close to.
        unit = float(np.abs(self.costs[self.costs != 0.0]).min(initial=math.inf))
        unit = unit if unit < math.inf else 1.0
        near, values_near = (1e-9 * np.maximum(unit, np.abs(part)) for part in (self.costs, values))
        apart = np.flatnonzero(np.diff(self.costs) > near[:-1] + near[1:])
        cuts = np.append(self.costs[apart] + near[apart], math.inf)
        points = np.concatenate((cuts, values + values_near))
        exact = np.concatenate((np.cumsum(self.probabilities)[apart], [1.0], self.cdf(points[cuts.size :])))
        empirical = np.searchsorted(values, points, side="right") / values.size
        largest = float(np.abs(empirical - exact).max())
        return largest, float(kolmogorov(largest * math.sqrt(values.size)))

    def __repr__(self) -> str:
        return f"ReturnDistribution(atoms={self.atoms}, mean={self.mean:.6g}, std={self.std:.6g}, {self.sense}s)"
