"""Planners and policies by name: what the command line and comparisons take."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tailwise.errors import ModelError, UnknownNameError
from tailwise.models import TabularMDP
from tailwise.planners import AccMcts, ErmMcts, Uct, backward_induction
from tailwise.search import Bonus, LogBonus, PolynomialBonus


@dataclass(frozen=True)
class Contender:
    """One entry of the list.

    Attributes
    ----------
    name : str
        What :func:`make_contender` takes.
    summary : str
        What it is.
    is_planner : bool
        Whether it plans, and so takes iterations; if not it is a fixed policy.
    needs_table : bool
        Whether it works on tables only.
    build : callable
        From (model, beta, exploration constant or None) to a planner or policy.
    """

    name: str
    summary: str
    is_planner: bool
    needs_table: bool
    build: Callable[[Any, float, float | None], Any]


def _polynomial(constant: float | None) -> Bonus | None:
    return None if constant is None else PolynomialBonus(constant=constant)


def _log(constant: float | None) -> Bonus | None:
    return None if constant is None else LogBonus(constant=constant)


_CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender(
            "erm-mcts", "the paper's search for the entropic risk", True, False,
            lambda model, beta, c: ErmMcts(model, beta, bonus=_polynomial(c)),
        ),
        Contender(
            "acc-mcts", "search on accrued costs, rescaled utility", True, False,
            lambda model, beta, c: AccMcts(model, beta, bonus=_polynomial(c)),
        ),
        Contender(
            "acc-mcts-raw", "search on accrued costs, the paper's utility exp(beta x)", True, False,
            lambda model, beta, c: AccMcts(model, beta, form="raw", bonus=_polynomial(c)),
        ),
        Contender(
            "uct", "risk-neutral search, logarithmic bonus", True, False,
            lambda model, beta, c: Uct(model, bonus=_log(c)),
        ),
        Contender(
            "uct-polynomial", "risk-neutral search, polynomial bonus", True, False,
            lambda model, beta, c: Uct(model, bonus=_polynomial(c) or PolynomialBonus()),
        ),
        Contender(
            "erm-bi", "the exact optimal policy, by backward induction", False, True,
            lambda model, beta, c: backward_induction(model, beta),
        ),
        Contender(
            "neutral-bi", "the exact risk-neutral policy", False, True,
            lambda model, beta, c: backward_induction(model, 0.0),
        ),
    )
}  # fmt: skip


def list_contenders() -> tuple[Contender, ...]:
    """Return all planners and policies that have a name."""
    return tuple(_CONTENDERS.values())


def find_contender(name: str) -> Contender:
    """Return the entry of a name, or raise ``UnknownNameError`` with the nearest names."""
    if name not in _CONTENDERS:
        close = difflib.get_close_matches(name, _CONTENDERS, n=2)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {', '.join(_CONTENDERS)}"
        raise UnknownNameError(f"no planner is called {name!r}; {hint}")
    return _CONTENDERS[name]


def make_contender(name: str, model: Any, beta: float, *, exploration: float | None = None) -> Any:
    """Build a planner or policy by name.

    Parameters
    ----------
    name : str
        One of :func:`list_contenders`.
    model : TabularMDP or simulator
        The model to plan on.
    beta : float
        Risk level; the risk-neutral ones ignore it.
    exploration : float, optional
        Exploration constant; the planner's default if not given. Fixed policies ignore it.

    Returns
    -------
    TreeSearch or Solution
        What :func:`tailwise.evaluate` takes.

    Raises
    ------
    UnknownNameError
        If there is no such name.
    ModelError
        If it works on tables only and the model is none.

    Examples
    --------
    >>> from tailwise import domains
    >>> from tailwise.evaluation import make_contender
    >>> make_contender("erm-bi", domains.make("mdp-4"), 0.5).action
    1
    """
    contender = find_contender(name)
    if contender.needs_table and not isinstance(model, TabularMDP):
        raise ModelError(f"{name} works on tables only; this model is a {type(model).__name__}: use erm-mcts or uct")
    return contender.build(model, beta, exploration)
