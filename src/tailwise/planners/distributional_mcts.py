r"""Distributional MCTS: the law of the whole total at each action, and Thompson sampling by the bootstrap.

After Hayes, Reymond, Roijers, Howley & Mannion (2023), the other algorithm that the paper compares itself to in words:
keep distributions of the total rather than means, take any utility or measure of them, and explore by following
bootstrap replicates. What differs: theirs keeps sampled totals in a tree over (state, accrued cost), where each node
learns by itself, and exploration stays in its averages; here the replicates are those of a learned model, which all
steps share, and laws are computed from it (:mod:`tailwise.planners.learned_totals`).

With a *utility* of the total the plan of least mean is exact under what was learned. A *measure* is minimised among
plans that are best for some function of the total: ``exp(beta x)``, ``(x - b)+``, and x itself. These hold the optimum
for ERM, EVaR and CVaR; for another measure the best of them is an attempt. The function that the first
decision finds is kept to the end of the episode, so that later decisions do not follow a new aim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np

from tailwise._random import Seed
from tailwise.errors import OptionError
from tailwise.exact.tails import check_level
from tailwise.exact.totals import Floats
from tailwise.planners.cvar_mcts import Shortfall, best_shortfall
from tailwise.planners.learned_totals import Aim, LearnedTotals
from tailwise.planners.protocol import takes
from tailwise.risk import conditional_value_at_risk, erm
from tailwise.risk.distribution import ReturnDistribution
from tailwise.risk.objectives import ERM, CVaR, Expectation, ExpectedUtility, Objective
from tailwise.search.learned import LearnedKeywords, LearnedOptions
from tailwise.search.plan import SaidObjective

_BETAS = (0.1, 0.3, 1.0, 3.0)  # over the standard deviation of the total
_SAMPLE = 4096  # equally likely totals that stand for a law, for a measure that takes no weights
_EXPONENT = 600.0
_GRID = 5


@dataclass(frozen=True)
class _Utility:
    """A user's utility of the total, as something to be least."""

    utility: Callable[[float], float]
    sign: float

    def __call__(self, totals: Floats) -> Floats:
        return self.sign * np.array([self._of(total) for total in np.asarray(totals).tolist()])

    def _of(self, total: float) -> float:
        return _asked(lambda: self.utility(total), f"the utility of the total {total:g}")

    def __str__(self) -> str:
        return f"utility {getattr(self.utility, '__name__', repr(self.utility))}"


def _asked(function: Callable[[], Any], what: str) -> float:
    """Return what a user's function says, a finite number; or raise ``OptionError``."""
    try:
        found = function()
        number = float(found)
    except Exception as error:  # whatever a user's function raises
        raise OptionError(f"{what} failed with {type(error).__name__}: {error}; expected a finite number") from error
    if not math.isfinite(number):
        raise OptionError(f"{what} is {found}; it must be finite")
    return number


@dataclass(frozen=True)
class _Exponential:
    """``expm1(beta (x - reference)) / beta`` of a cost; at beta 0 the cost itself. Its unit is that of costs."""

    beta: float
    reference: float
    sign: float

    def __call__(self, totals: Floats) -> Floats:
        costs = self.sign * (totals - self.reference)
        if self.beta == 0.0:
            return costs
        return np.asarray(np.expm1(np.minimum(self.beta * costs, _EXPONENT)) / self.beta)

    def __str__(self) -> str:
        return "the mean" if self.beta == 0.0 else f"exp({self.beta:.4g} x)"


class DistributionalMcts(LearnedTotals):
    """Monte Carlo search with laws of the total and Thompson sampling.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem, used as a black box: it is sampled and nothing else.
    utility : callable float -> float, optional
        Utility of the discounted total in the model's own sense: of the total cost, and minimised, or of the total
        reward, and maximised.
    measure : callable (ndarray of float64) -> float, optional
        Measure of a sample of totals, minimised for costs and maximised for rewards; it is asked about 4096 equally
        likely totals, or, if it takes ``weights``, about a law as it is. Give one of the two.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    **keywords
        As for :class:`CvarMcts`.

    Examples
    --------
    >>> from tailwise import DistributionalMcts, domains
    >>> search = DistributionalMcts(domains.make("mdp-4"), lambda total: total * total, seed=0)
    >>> plan = search.plan(iterations=500)
    >>> plan.label, plan.row("risky").distribution.atoms > 1
    ('safe', True)
    """

    def __init__(
        self,
        model: Any,
        utility: Callable[[float], float] | None = None,
        *,
        measure: Callable[..., float] | None = None,
        seed: Seed = None,
        **keywords: Unpack[LearnedKeywords],
    ) -> None:
        if (utility is None) == (measure is None) or not callable(utility or measure):
            raise OptionError("give a utility of the total or a measure= of a sample of totals: one function")
        self._utility, self._measure = utility, measure
        super().__init__(model, LearnedOptions(beta=0.0, **keywords), seed=seed)

    def _leading_beta(self, std: float) -> float:
        return self._measure.beta if isinstance(self._measure, ErmOf) else 1.0 / std

    def _choose(self, graph: Any, solves: int) -> Aim:
        if self._utility is not None:
            return _Utility(self._utility, self._sign)
        if isinstance(self._measure, CvarOf):
            return best_shortfall(self, graph, self._measure.level, solves)
        totals, weights = graph.law(graph.minimise(lambda x: x)[1])
        mean = float(np.dot(weights, totals))
        std = abs(self._scale) * math.sqrt(float(np.dot(weights, (totals - mean) ** 2)))
        reference = float(self._whole(mean))
        if isinstance(self._measure, ErmOf):
            return _Exponential(self._measure.beta, reference, self._sign)
        betas = [0.0, *(beta / std for beta in _BETAS)] if std > 0.0 else [0.0]
        best = self._least(graph, [_Exponential(beta, reference, self._sign) for beta in betas])
        low, high = sorted(self._whole(graph.all_totals()[[0, -1]]).tolist())
        middle, half = (low + high) / 2.0, (high - low) / 2.0
        for _ in range(max(1, solves // _GRID)):  # the thresholds beside the best one, ever closer
            tried = self._least(
                graph, [Shortfall(b, self._sign) for b in np.linspace(middle - half, middle + half, _GRID)]
            )
            best = min(best, tried, key=lambda pair: pair[0])
            middle, half = tried[1].threshold, half / 2.0
        chosen: Aim = best[1]
        return chosen

    def _least(self, graph: Any, aims: list[Any]) -> tuple[float, Any]:
        """Return the aim whose plan has the least measure, and that measure (negated for rewards)."""
        found = []
        for aim in aims:
            totals, weights = graph.law(self._solved(graph, aim))
            found.append((self._sign * self._worth(aim, self._whole(totals), weights), aim))
        return min(found, key=lambda pair: pair[0])

    def _worth(self, aim: Any, totals: Floats, weights: Floats) -> float:
        if self._measure is None:
            return float(self._sign * np.dot(weights, aim(totals)))
        measure = self._measure
        if takes(measure, "weights"):
            return _asked(lambda: measure(totals, weights=weights), "the measure of a law of totals")
        return _asked(
            lambda: measure(ReturnDistribution(totals, weights).equally_likely(_SAMPLE)),
            "the measure of a sample of totals",
        )

    def _said(self, aim: Any) -> dict[str, Any]:
        return {"objective": self._objective}

    @property
    def _objective(self) -> Objective | SaidObjective:
        if self._utility is not None:
            return ExpectedUtility(self._utility)
        if isinstance(self._measure, MeasureOf):
            return self._measure.objective
        if isinstance(self._measure, CvarOf):
            return CVaR(self._measure.level)
        if isinstance(self._measure, ErmOf):
            return ERM(self._measure.beta)
        return SaidObjective("measure", f"measure {getattr(self._measure, '__name__', 'of the total')}")

    def __repr__(self) -> str:
        return f"DistributionalMcts({'utility' if self._measure is None else 'measure'})"


@dataclass(frozen=True)
class MeasureOf:
    """An objective of totals, in a model's sense."""

    objective: Objective
    sense: Literal["cost", "reward"]

    @property
    def name(self) -> str:
        """What the numbers are."""
        return self.objective.name

    def __call__(self, totals: Floats, *, weights: Floats | None = None) -> float:
        """Return the objective."""
        return self.objective.of(totals, weights, sense=self.sense)


@dataclass(frozen=True)
class ErmOf:
    """The entropic risk of totals, in a model's sense."""

    beta: float
    sign: float

    def __call__(self, totals: Floats, *, weights: Floats | None = None) -> float:
        """Return the risk."""
        return self.sign * erm(self.sign * totals, self.beta, weights)


@dataclass(frozen=True)
class CvarOf:
    """The CVaR of totals, in a model's sense."""

    level: float
    sign: float

    def __call__(self, totals: Floats, *, weights: Floats | None = None) -> float:
        """Return the tail's mean."""
        return self.sign * conditional_value_at_risk(self.sign * totals, self.level, weights)


def distributional_planner(
    model: Any, objective: Objective, *, seed: Seed = None, **options: Any
) -> DistributionalMcts:
    """Return the planner for an objective of the total."""
    sign = 1.0 if model.sense == "cost" else -1.0
    if isinstance(objective, ExpectedUtility):
        return DistributionalMcts(model, objective.utility, seed=seed, **options)
    measure: Any = MeasureOf(objective, model.sense)
    if isinstance(objective, (ERM, Expectation)):
        measure = ErmOf(getattr(objective, "beta", 0.0), sign)
    elif isinstance(objective, CVaR):
        measure = CvarOf(check_level(objective.level), sign)
    return DistributionalMcts(model, measure=measure, seed=seed, **options)
