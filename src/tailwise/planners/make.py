"""One door to every planner: :func:`make_planner`."""

from __future__ import annotations

import numbers
from typing import Any

from tailwise._random import Seed
from tailwise._validate import real
from tailwise.errors import ModelError, OptionError
from tailwise.models import TabularMDP
from tailwise.models.simulator import own_method
from tailwise.planners.registry import PlannerKind, find_planner

DEFAULT_KIND = "erm-mcts"


def make_planner(model: Any, beta: float, *, kind: str = "auto", seed: Seed = None, **options: Any) -> Any:
    """Build a planner (or a policy) by name.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    beta : float
        Finite risk level at step 0 (1/cost); the risk-neutral kinds ignore it.
    kind : str, default "auto"
        A name of :func:`tailwise.planners.list_planners`, or ``package.module:Class``; "auto" chooses by what the
        model offers.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    **options
        Options of the kind, such as ``bonus``: for this one a number will do, the constant of the kind's own rule.

    Returns
    -------
    Planner or policy
        What :func:`tailwise.evaluate` takes.

    Raises
    ------
    UnknownNameError
        If there is no such kind.
    OptionError
        If the kind has no such option, or its value is out of range.
    ModelError
        If the kind needs a model that lists its outcomes, and this one does not.

    Examples
    --------
    >>> from tailwise import domains, make_planner
    >>> make_planner(domains.make("mdp-4"), 0.5, kind="erm-bi").action
    1
    >>> make_planner(domains.make("mdp-4"), 0.5, kind="uct", seed=0, bonus=3.0).plan(iterations=2000).label
    'risky'
    """
    found = find_planner(DEFAULT_KIND if kind == "auto" else kind)
    if found.needs_outcomes and not lists_outcomes(model):
        raise ModelError(
            f"{found.name} needs a model that lists its outcomes: a table, or a simulator with "
            f"outcomes(state, action); this {type(model).__name__} does not: use erm-mcts or uct"
        )
    if isinstance(options.get("bonus"), numbers.Real):
        options["bonus"] = _bonus(found, options["bonus"])
    try:
        return found.build(model, beta, seed=seed, **options)
    except TypeError as error:
        if "unexpected keyword argument" in str(error):
            raise OptionError(f"{found.name} does not take these options: {error}") from error
        raise


def lists_outcomes(model: Any) -> bool:
    """Return whether a model can say every outcome of an action, with its probability."""
    return isinstance(model, TabularMDP) or own_method(model, "outcomes") is not None


def _bonus(kind: PlannerKind, constant: Any) -> Any:
    if kind.bonus is None:
        raise OptionError(f"{kind.name} has no exploration bonus; leave out bonus={constant!r}")
    return kind.bonus(constant=real(constant, "bonus", low=0.0))
