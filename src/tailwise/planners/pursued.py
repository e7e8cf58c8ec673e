r"""What a plan pursues for an objective of the total: a function of the total whose mean is made least.

A plan of least mean of any function of the total is found exactly on a table of pairs (state, accrued cost). For an
expected utility or an exceedance the function is given. CVaR has one, ``(x - b)+``, of which b is sought:
``CVaR = min over b of b + E[(X - b)+] / (1 - level)``. The ERM is the least mean of ``exp(beta x)``. EVaR and measures
of a user's own are made least among the plans that are best for some ``exp(beta x)`` or ``(x - b)+``, or for x itself:
these hold the optimum of EVaR; for another measure the best of them is an attempt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tailwise._arrays import Floats
from tailwise.errors import OptionError
from tailwise.exact.grid_totals import Choices
from tailwise.exact.tails import Graph, Limits, least_cvar
from tailwise.models.contract import Sense
from tailwise.risk.measures import value_at_risk
from tailwise.risk.objectives import ERM, CVaR, Exceedance, Expectation, ExpectedUtility, Objective

Pursued: TypeAlias = Callable[[Floats], Floats]
"""From totals of the whole episode, in the model's sense, to what is to be least in the mean."""

Kind = TypeVar("Kind", bound=Pursued)
Numbers = TypeVar("Numbers", float, Floats)

_BETAS = (0.1, 0.3, 1.0, 3.0)  # over the standard deviation of the total
_EXPONENT = 600.0
_GRID = 5
_TIE = 1e-6  # of plans that are equal in what is pursued, the one of least mean


@dataclass(frozen=True)
class Episode:
    """Where a decision stands in its episode: from inner costs after it to whole totals in the model's sense."""

    sign: float  # -1 for rewards
    scale: float  # sign times the discount of the steps before
    accrued: float  # paid before

    def whole(self, totals: Numbers) -> Numbers:
        """Return totals of the whole episode, in the model's sense, from inner costs from the root on."""
        return self.accrued + self.scale * totals

    def distribution(self, graph: Graph, chosen: Choices) -> tuple[Floats, Floats]:
        """Return increasing totals of the whole episode and their probabilities, under choices on a graph."""
        totals, weights = graph.law(chosen)
        totals = self.whole(totals)
        return (totals, weights) if self.scale > 0.0 else (totals[::-1], weights[::-1])

    def solved(self, graph: Graph, pursued: Pursued) -> Choices:
        """Return the choices of the plan of least mean of ``pursued``."""
        points = graph.all_totals()
        unit = float(np.ptp(pursued(self.whole(points)))) / (float(np.ptp(points)) or 1.0)
        return graph.minimise(lambda x: pursued(self.whole(x)) + _TIE * unit * x)[1]


@dataclass(frozen=True)
class Shortfall:
    """How far totals are beyond a threshold, on the bad side."""

    threshold: float
    sign: float

    def __call__(self, totals: Floats) -> Floats:
        """Return ``(x - b)+`` for costs, ``(b - x)+`` for rewards."""
        return np.maximum(self.sign * (totals - self.threshold), 0.0)

    def __str__(self) -> str:
        return f"(x - {self.threshold:.6g})+" if self.sign > 0.0 else f"-({self.threshold:.6g} - x)+"


@dataclass(frozen=True)
class Exponential:
    """``expm1(beta (x - reference)) / beta`` of a cost; at beta 0 the cost itself. Its unit is that of costs."""

    beta: float
    reference: float
    sign: float

    def __call__(self, totals: Floats) -> Floats:
        """Return the exponential of totals."""
        costs = self.sign * (totals - self.reference)
        if self.beta == 0.0:
            return costs
        return np.asarray(np.expm1(np.minimum(self.beta * costs, _EXPONENT)) / self.beta)

    def __str__(self) -> str:
        return "the mean" if self.beta == 0.0 else f"exp({self.beta:.4g} x)"


@dataclass(frozen=True)
class Beyond:
    """1 where a total is worse than a threshold, by more than its last digits."""

    threshold: float
    sign: float

    def __call__(self, totals: Floats) -> Floats:
        """Return 0 or 1 for each total."""
        slack = 1e-11 * np.maximum(abs(self.threshold), np.abs(totals))
        return np.asarray(self.sign * (totals - self.threshold) > slack, np.float64)

    def __str__(self) -> str:
        return f"x {'>' if self.sign > 0.0 else '<'} {self.threshold:.6g}"


@dataclass(frozen=True)
class UtilityOf:
    """A user's utility of the total, as something to be least."""

    objective: ExpectedUtility
    sign: float

    def __call__(self, totals: Floats) -> Floats:
        """Return the utility of each total, negated for rewards."""
        return self.sign * np.array([self._of(total) for total in np.asarray(totals).tolist()])

    def _of(self, total: float) -> float:
        return asked(lambda: self.objective.utility(total), f"the utility of the total {total:g}")

    def __str__(self) -> str:
        return f"utility {getattr(self.objective.utility, '__name__', repr(self.objective.utility))}"


def asked(function: Callable[[], Any], what: str) -> float:
    """Return what a user's function says, a finite number; or raise ``OptionError``."""
    try:
        found = function()
        number = float(found)
    except Exception as error:  # whatever a user's function raises
        raise OptionError(f"{what} failed with {type(error).__name__}: {error}; expected a finite number") from error
    if not math.isfinite(number):
        raise OptionError(f"{what} is {found}; it must be finite")
    return number


def worth(objective: Objective, totals: Floats, weights: Floats, sign: float) -> float:
    """Return an objective of a distribution of totals."""
    sense: Sense = "cost" if sign > 0.0 else "reward"
    return asked(
        lambda: objective.of(totals, weights, sense=sense), f"the {objective.name} of a distribution of totals"
    )


def choose_pursued(objective: Objective, graph: Graph, episode: Episode, solves: int) -> Pursued:
    """Return what to pursue for an objective on a learned table, as far as so many solves find it."""
    sign = episode.sign
    if isinstance(objective, ExpectedUtility):
        return UtilityOf(objective, sign)
    if isinstance(objective, Exceedance):
        return Beyond(objective.threshold, sign)
    if isinstance(objective, CVaR) and 0.0 < objective.level < 1.0:
        limits = Limits(1e-3 * float(np.ptp(graph.all_totals())))
        found = least_cvar(graph, objective.level, limits, most=solves)
        totals, masses = graph.law(found.chosen)
        b = value_at_risk(totals, objective.level, masses)
        return Shortfall(float(episode.whole(b)), sign)
    totals, weights = graph.law(graph.minimise(lambda x: x)[1])
    mean = float(np.dot(weights, totals))
    std = abs(episode.scale) * math.sqrt(float(np.dot(weights, (totals - mean) ** 2)))
    reference = float(episode.whole(mean))
    if isinstance(objective, (ERM, Expectation)):
        return Exponential(objective.beta if isinstance(objective, ERM) else 0.0, reference, sign)

    def least(tried: Sequence[Kind]) -> tuple[float, Kind]:
        """Return the function whose plan has the best objective, and that (negated for rewards)."""
        found = []
        for pursued in tried:
            law = episode.distribution(graph, episode.solved(graph, pursued))
            found.append((sign * worth(objective, *law, sign), pursued))
        return min(found, key=lambda pair: pair[0])

    betas = [0.0, *(beta / std for beta in _BETAS)] if std > 0.0 else [0.0]
    best: tuple[float, Pursued] = least([Exponential(beta, reference, sign) for beta in betas])
    low, high = sorted(episode.whole(graph.all_totals()[[0, -1]]).tolist())
    middle, half = (low + high) / 2.0, (high - low) / 2.0
    for _ in range(max(1, solves // _GRID)):  # the thresholds beside the best one, ever closer
        nearest = least([Shortfall(b, sign) for b in np.linspace(middle - half, middle + half, _GRID)])
        best = nearest if nearest[0] < best[0] else best
        middle, half = nearest[1].threshold, half / 2.0
    return best[1]
