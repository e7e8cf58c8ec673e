"""Criteria for models without a horizon, beside the total: the risk that is taken again at every step, and the average.

=========================  =========================================================================================
an objective of the total  ``solve(model, ERM(beta))``: of everything that is ever paid
``Recursive(ERM(beta))``   ``V(s) = min over a of ERM_beta(c + discount V(s'))``: the level is the same at every step
``Average(ERM(beta))``     the rate at which the ERM of the total of T steps grows with T
=========================  =========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from tailwise._validate import choice
from tailwise.errors import OptionError
from tailwise.risk.objectives import (
    ERM,
    CVaR,
    EVaR,
    Exceedance,
    Expectation,
    NestedCVaR,
    Objective,
    RobustKL,
    RobustL1,
    as_objective,
)

_NAMED: dict[str, Callable[[float], Objective]] = {
    "beta": ERM, "evar": EVaR, "cvar": CVaR, "nested_cvar": NestedCVaR, "robust_kl": RobustKL, "robust_l1": RobustL1,
    "exceed": Exceedance,
}  # fmt: skip


@dataclass(frozen=True)
class _OfSteps(Objective):
    """An ERM or a mean that is taken of steps, and not of the total."""

    risk: Objective

    def __post_init__(self) -> None:
        risk = as_objective(self.risk)
        if not isinstance(risk, (ERM, Expectation)):
            raise OptionError(f"the {self.name} criterion is there for ERM(beta) and Expectation(), not: {risk.words}")
        object.__setattr__(self, "risk", risk)

    @property
    def beta(self) -> float:
        """The risk level; 0 is the mean."""
        return self.risk.beta if isinstance(self.risk, ERM) else 0.0

    @property
    def words(self) -> str:
        """The objective in words."""
        return f"{self.name} {self.risk.words}"


@dataclass(frozen=True)
class Recursive(_OfSteps):
    """The ERM of a step's cost and of what follows, at the same level at every step (Epstein-Zin, Hansen-Sargent).

    ``V(s) = min over a of ERM_beta(c + discount V(s'))``. The paper's ERM of the discounted total takes the level
    ``beta discount^h`` at step h instead, which fades.

    Parameters
    ----------
    risk : ERM, Expectation or float
        The risk; a number is ``ERM(number)``.
    apart : bool, default False
        Leave the step's cost out of the risk: ``V(s) = min over a of E[c] + discount ERM_beta(V(s'))``, as economists
        write it for costs that are certain.

    Examples
    --------
    >>> from tailwise import ERM, Recursive
    >>> Recursive(ERM(0.5)).words
    'recursive ERM at beta 0.5'
    """

    apart: bool = False
    name: ClassVar[str] = "recursive"


@dataclass(frozen=True)
class Average(_OfSteps):
    """The long-run rate of growth of the ERM of the total: its limit per step, of undiscounted costs.

    Parameters
    ----------
    risk : ERM, Expectation or float
        The risk; a number is ``ERM(number)``, 0 the mean cost per step.

    Examples
    --------
    >>> from tailwise import Average
    >>> Average(0.5).words
    'average ERM at beta 0.5'
    """

    name: ClassVar[str] = "average"


CRITERIA = ("total", "recursive", "average")


def of_criterion(objective: Objective, criterion: str) -> Objective:
    """Return an objective of the total as it is, or as one of the other criteria has it, or raise ``OptionError``."""
    kind = choice(criterion, "criterion", CRITERIA)
    if kind == "total":
        return objective
    return Recursive(objective) if kind == "recursive" else Average(objective)


def objective_of(*, within: float | None = None, **wanted: float | None) -> Objective:
    """Return the objective that one number names, as on the command line: ``beta=0.1``, ``cvar=0.95``, ``exceed=40``.

    Raises
    ------
    OptionError
        If none or several are given, or a budget (``within``) goes with another than ``beta`` or ``cvar``.
    """
    chosen = {name: value for name, value in wanted.items() if value is not None}
    names = ", ".join(f"{name}=" for name in _NAMED)
    if unknown := sorted(set(chosen) - set(_NAMED)):
        raise OptionError(f"{unknown[0]} is no objective; there are {names}, and within= for a budget")
    if not chosen:
        raise OptionError(
            f"beta= is missing: how much risk weighs, per unit of cost (> 0 averse, 0 the mean, < 0 seeking); "
            f"'tailwise beta' finds one. Or give another objective: one of {names}"
        )
    if len(chosen) > 1:
        raise OptionError(f"give one objective, not {' and '.join(f'{name}=' for name in chosen)}; there are {names}")
    ((name, value),) = chosen.items()
    objective = _NAMED[name](value)
    if within is None:
        return objective
    if name not in ("beta", "cvar"):
        raise OptionError(f"within= goes with beta= (ERM) or cvar=, not with {name}=")
    return Expectation().within(objective, within)
