"""Objectives: what is wanted of the discounted total of an episode.

An objective is a small frozen value. It knows its formula, its words, what it becomes at a later decision, and whether
a policy for it must know what was paid so far. Every function that plans, solves, measures or compares takes one in
the same place, after the model; a plain number stands for ``ERM(number)``.

================================  ==================================================================================
``Expectation()``                 the mean
``ERM(beta)``                     ``ln E[exp(beta X)] / beta`` of a cost X (entropic risk; the paper's)
``EVaR(level)``                   ``inf over beta > 0 of ERM_beta(X) - ln(1 - level) / beta`` (Ahmadi-Javid, 2012)
``CVaR(level)``                   the mean of the worst ``1 - level`` (Rockafellar & Uryasev, 2000)
``NestedCVaR(level)``             the CVaR of step cost plus CVaR of what follows, step by step (Ruszczynski, 2010)
``RobustKL(r)``, ``RobustL1(r)``  the mean, where each row may be the worst of a ball around it (rectangular)
``Exceedance(threshold)``         the probability of a total worse than the threshold
``WorstCase()``                   the worst total that can happen
``ExpectedUtility(utility)``      the mean of a function of the total
``objective.within(risk, bound)`` the objective, among the policies whose risk keeps to a bound
================================  ==================================================================================

All numbers are in the model's own sense: for rewards every measure is that of the negated rewards, negated back, and
a threshold or bound is a reward. A new objective is a frozen subclass of :class:`Objective` with ``name``, ``words``
and :meth:`Objective.of_costs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from tailwise._results import number
from tailwise._validate import real
from tailwise.errors import OptionError
from tailwise.risk.entropic import erm
from tailwise.risk.measures import conditional_value_at_risk, entropic_value_at_risk, exceedance


class Objective:
    """What is wanted of the total; the base of all objectives.

    Attributes
    ----------
    name : str
        Short name of the measure, as "CVaR".
    needs_accrued : bool
        Whether the best policy depends on what was paid so far, and not on state and step alone.
    """

    name: ClassVar[str]
    needs_accrued: ClassVar[bool] = False

    @property
    def words(self) -> str:
        """The objective in words, as "CVaR at level 0.95"."""
        return self.name

    def of_costs(self, costs: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the objective of a distribution of *costs*: what a subclass defines."""
        raise OptionError(f"{self.words} is no function of the total's distribution alone")

    def of(
        self, totals: ArrayLike, weights: ArrayLike | None = None, *, sense: Literal["cost", "reward"] = "cost"
    ) -> float:
        """Return the objective of samples or of a discrete distribution.

        Parameters
        ----------
        totals : array_like of float, shape (n,)
            Totals in the model's own sense.
        weights : array_like of float, shape (n,), optional
            Their non-negative weights; equal if not given.
        sense : "cost" or "reward", default "cost"
            What the totals are.

        Returns
        -------
        float
            In the model's own sense.

        Raises
        ------
        OptionError
            If there are no totals, or the objective is no function of the total's distribution.

        Examples
        --------
        >>> from tailwise import CVaR
        >>> CVaR(0.5).of([1.0, 2.0, 3.0, 4.0]), CVaR(0.5).of([1.0, 2.0, 3.0, 4.0], sense="reward")
        (3.5, 1.5)
        """
        if sense == "cost":
            return self.of_costs(totals, weights)
        return 0.0 - self.of_costs(0.0 - np.asarray(totals, dtype=np.float64), weights)

    def later(self, factor: float) -> Objective:
        """Return the objective of what follows a decision whose costs are discounted by ``factor`` to the start."""
        return self

    def within(self, risk: Objective, bound: float) -> Budgeted:
        """Return this objective among the policies whose ``risk`` is no worse than ``bound``.

        Examples
        --------
        >>> from tailwise import CVaR, Expectation
        >>> Expectation().within(CVaR(0.95), 40).words
        'mean, with CVaR at level 0.95 within 40'
        """
        return Budgeted(self, as_objective(risk), bound)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class ERM(Objective):
    """The entropic risk measure ``ln E[exp(beta X)] / beta`` of the total cost X.

    Parameters
    ----------
    beta : float
        Finite risk level at step 0 (1/cost): positive averse, 0 the mean, negative seeking. At depth h the level is
        ``beta * discount**h``.

    Examples
    --------
    >>> from tailwise import ERM
    >>> round(ERM(0.5).of([1.0, 2.0, 10.0]), 6)
    7.860776
    """

    beta: float
    name: ClassVar[str] = "ERM"

    def __post_init__(self) -> None:
        hint = "0 is the mean, positive averse, negative seeking; the worst case is WorstCase()"
        object.__setattr__(self, "beta", real(self.beta, "beta", hint=hint))

    @property
    def words(self) -> str:
        """The objective in words."""
        return f"ERM at beta {number(self.beta)}"

    def of_costs(self, costs: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the ERM of costs."""
        return erm(costs, self.beta, weights)

    def later(self, factor: float) -> ERM:
        """Return the ERM at ``beta * factor``."""
        return ERM(self.beta * factor)


@dataclass(frozen=True)
class Expectation(Objective):
    """The mean of the total: risk-neutral."""

    name: ClassVar[str] = "mean"

    def of_costs(self, costs: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the mean of costs."""
        return erm(costs, 0.0, weights)


@dataclass(frozen=True)
class WorstCase(Objective):
    """The worst total that can happen: the limit of the ERM as beta grows."""

    name: ClassVar[str] = "worst case"

    def of_costs(self, costs: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the largest cost of positive weight."""
        return erm(costs, np.inf, weights)


@dataclass(frozen=True)
class _AtLevel(Objective):
    """An objective at a confidence level in [0, 1]: 0 is the mean, 1 the worst case."""

    level: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", real(self.level, "level", low=0.0, high=1.0))

    @property
    def words(self) -> str:
        """The objective in words."""
        return f"{self.name} at level {self.level:.10g}"


@dataclass(frozen=True)
class EVaR(_AtLevel):
    """The entropic value at risk: the tightest bound on CVaR that ERM gives.

    Parameters
    ----------
    level : float in [0, 1]
        Confidence; 0 is the mean and 1 the worst case.
    """

    name: ClassVar[str] = "EVaR"

    def of_costs(self, costs: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the EVaR of costs."""
        return entropic_value_at_risk(costs, self.level, weights)


@dataclass(frozen=True)
class CVaR(_AtLevel):
    """The conditional value at risk: the mean of the worst ``1 - level`` of the totals.

    A policy for it acts on what was paid so far, and keeps to the aim of the start: planning again for the CVaR of
    the rest is another aim (the measure is not consistent over time).

    Parameters
    ----------
    level : float in [0, 1]
        Confidence; 0 is the mean and 1 the worst case.
    """

    name: ClassVar[str] = "CVaR"
    needs_accrued: ClassVar[bool] = True

    def of_costs(self, costs: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the CVaR of costs."""
        return conditional_value_at_risk(costs, self.level, weights)


@dataclass(frozen=True)
class NestedCVaR(_AtLevel):
    """The CVaR at each step of the step's cost plus the nested CVaR of what follows: consistent over time.

    It depends on how the total comes about and is no function of its distribution, so that samples do not have it.

    Parameters
    ----------
    level : float in [0, 1]
        Confidence of each step; 0 is the mean and 1 the worst case.
    """

    name: ClassVar[str] = "nested CVaR"


@dataclass(frozen=True)
class Robust(Objective):
    """The mean in the worst model of a ball around each row of a table; the base of its two kinds.

    Each state and action has a ball of its own (rectangular), over the outcomes that the row lists, and nature may take
    another model of it at each step. Like nested CVaR it is no function of the total's distribution.
    """

    radius: float | None = None
    confidence: float | None = None
    ball: ClassVar[str]

    def __post_init__(self) -> None:
        if (self.radius is None) == (self.confidence is None):
            raise OptionError(f"{type(self).__name__} takes a radius, or the confidence of balls that a log allows")
        if self.radius is None:
            share = real(self.confidence, "confidence", low=0.0, high=1.0, ends="()")
            object.__setattr__(self, "confidence", share)
        else:
            object.__setattr__(self, "radius", real(self.radius, "radius", low=0.0))

    @property
    def words(self) -> str:
        """The objective in words."""
        if self.radius is None:
            return (
                f"{self.name} within {self.ball} balls that hold {self.confidence:.4g} of what the log leaves possible"
            )
        return f"{self.name} within {self.ball} balls of radius {self.radius:.6g}"


@dataclass(frozen=True)
class RobustKL(Robust):
    """The robust mean in KL balls: each row q keeps ``KL(q || p) <= radius``. At each step it is an EVaR.

    Parameters
    ----------
    radius : float >= 0, optional
        In nats. 0 is the mean; from ``-ln p`` of the rarest outcome on, the worst case.
    confidence : float in (0, 1), optional
        Instead, on a table learned from a log: the share of the posterior of each row that its ball holds.
    """

    name: ClassVar[str] = "robust mean"
    ball: ClassVar[str] = "KL"


@dataclass(frozen=True)
class RobustL1(Robust):
    """The robust mean in L1 balls: each row q keeps ``sum |q - p| <= radius``.

    Parameters
    ----------
    radius : float >= 0, optional
        0 is the mean; from 2 on (all mass moved), the worst case.
    confidence : float in (0, 1), optional
        Instead, on a table learned from a log: the share of the posterior of each row that its ball holds (a Bayesian
        credible region; Petrik & Russell, 2019).
    """

    name: ClassVar[str] = "robust mean"
    ball: ClassVar[str] = "L1"


@dataclass(frozen=True)
class Exceedance(Objective):
    """The probability of a total worse than a threshold: above it for costs, below it for rewards.

    Parameters
    ----------
    threshold : float
        Finite total in the model's own sense.

    Examples
    --------
    >>> from tailwise import Exceedance
    >>> Exceedance(2.5).of([1.0, 2.0, 3.0, 4.0]), Exceedance(1.5).of([1.0, 2.0, 3.0, 4.0], sense="reward")
    (0.5, 0.25)
    """

    threshold: float
    name: ClassVar[str] = "exceedance"
    needs_accrued: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", real(self.threshold, "threshold"))

    @property
    def words(self) -> str:
        """The objective in words."""
        return f"probability of a total worse than {self.threshold:.10g}"

    def of_costs(self, costs: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the probability of a cost above the threshold."""
        return exceedance(costs, self.threshold, weights)

    def of(
        self, totals: ArrayLike, weights: ArrayLike | None = None, *, sense: Literal["cost", "reward"] = "cost"
    ) -> float:
        """Return the probability; see :meth:`Objective.of`."""
        if sense == "cost":
            return self.of_costs(totals, weights)
        return exceedance(0.0 - np.asarray(totals, dtype=np.float64), 0.0 - self.threshold, weights)


@dataclass(frozen=True)
class ExpectedUtility(Objective):
    """The mean of a function of the total.

    Parameters
    ----------
    utility : callable float -> float
        Of the discounted total in the model's own sense: of a total cost, and minimised; of a total reward, and
        maximised. Finite on every total that can occur.

    Examples
    --------
    >>> from tailwise import ExpectedUtility
    >>> ExpectedUtility(lambda total: total**2).of([1.0, 3.0])
    5.0
    """

    utility: Callable[[float], float]
    name: ClassVar[str] = "expected utility"
    needs_accrued: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not callable(self.utility):
            raise OptionError(f"utility must be a function of the total, not {self.utility!r}")

    @property
    def words(self) -> str:
        """The objective in words."""
        return f"mean of the utility {getattr(self.utility, '__name__', self.utility)}"

    def of_costs(self, costs: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the mean utility of costs."""
        return erm([self.utility(float(cost)) for cost in np.asarray(costs, dtype=np.float64).ravel()], 0.0, weights)

    def of(
        self, totals: ArrayLike, weights: ArrayLike | None = None, *, sense: Literal["cost", "reward"] = "cost"
    ) -> float:
        """Return the mean utility of totals, which are in the sense that the utility takes."""
        return self.of_costs(totals, weights)


@dataclass(frozen=True)
class Budgeted(Objective):
    """An objective among the policies whose risk keeps to a bound; made by :meth:`Objective.within`.

    Parameters
    ----------
    objective : Objective
        What is made best.
    risk : Objective
        What must keep to the bound.
    bound : float
        Finite, in the model's own sense: the most for costs, the least for rewards.
    """

    objective: Objective
    risk: Objective
    bound: float
    name: ClassVar[str] = "budget"
    needs_accrued: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.objective, Budgeted) or isinstance(self.risk, Budgeted):
            raise OptionError("one budget is all: within() takes and keeps objectives without a budget of their own")
        object.__setattr__(self, "bound", real(self.bound, "bound"))

    @property
    def words(self) -> str:
        """The objective in words."""
        return f"{self.objective.words}, with {self.risk.words} within {self.bound:.10g}"

    def of_costs(self, costs: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the objective of costs, whether they keep to the bound or not."""
        return self.objective.of_costs(costs, weights)

    def of(
        self, totals: ArrayLike, weights: ArrayLike | None = None, *, sense: Literal["cost", "reward"] = "cost"
    ) -> float:
        """Return the objective of totals, whether they keep to the bound or not."""
        return self.objective.of(totals, weights, sense=sense)

    def later(self, factor: float) -> Budgeted:
        """Return the same with both measures taken later."""
        return Budgeted(self.objective.later(factor), self.risk.later(factor), self.bound)


def as_objective(value: object) -> Objective:
    """Return an objective as it is, and ``ERM(number)`` for a number.

    Raises
    ------
    OptionError
        If it is neither.

    Examples
    --------
    >>> from tailwise.risk import as_objective
    >>> as_objective(0.5)
    ERM(beta=0.5)
    """
    if isinstance(value, Objective):
        return value
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return ERM(float(value))
    raise OptionError(
        f"the objective must be one of {', '.join(kind.__name__ for kind in OBJECTIVES)}, or a number, the beta of "
        f"an ERM; not {value!r}"
    )


OBJECTIVES: tuple[type[Objective], ...] = (
    Expectation, ERM, EVaR, CVaR, NestedCVaR, RobustKL, RobustL1, Exceedance, WorstCase, ExpectedUtility, Budgeted,
)  # fmt: skip
