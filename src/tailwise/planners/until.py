"""When to stop: conditions for ``plan(until=...)``, asked about every 50 ms with the plan so far.

Any function of a plan will do; these are the usual ones. A condition that has memory (:func:`stable`) is made anew for
each call of ``plan``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tailwise._validate import integer, real
from tailwise.errors import OptionError
from tailwise.search import Plan, StopReason

Condition: TypeAlias = Callable[[Plan], bool]


def proven() -> Condition:
    """Return the condition that the recommended action is proven best.

    Only planners that know every outcome prove anything; with the others it never holds, so give a limit as well.

    Examples
    --------
    >>> from tailwise import domains, make_planner
    >>> from tailwise.planners import until
    >>> make_planner(domains.make("mdp-4"), 0.5, kind="exact").plan(until=until.proven()).label
    'safe'
    """
    return is_proven


def is_proven(plan: Any) -> bool:
    """Return whether a plan's action is proven best."""
    return bool(getattr(plan, "proven", plan.stopped is StopReason.PROVEN))


def gap(width: float) -> Condition:
    """Return the condition that no action could be better than the recommended one by more than ``width``.

    Parameters
    ----------
    width : float
        Loss that is accepted, in the unit of the costs, at least 0. See :attr:`tailwise.Plan.possible_loss`.

    Examples
    --------
    >>> from tailwise import ErmMcts, domains
    >>> from tailwise.planners import until
    >>> plan = ErmMcts(domains.make("mdp-4"), 0.5, seed=0).plan(iterations=100_000, until=until.gap(0.5))
    >>> plan.label, plan.possible_loss <= 0.5
    ('safe', True)
    """
    accepted = real(width, "width", low=0.0)
    return lambda plan: plan.possible_loss <= accepted


def stable(iterations: int) -> Condition:
    """Return the condition that the recommended action has been the same for so many iterations.

    Parameters
    ----------
    iterations : int
        At least 1. A recommendation can be stable and wrong: this saves time, it proves nothing.

    Examples
    --------
    >>> from tailwise import ErmMcts, domains
    >>> from tailwise.planners import until
    >>> plan = ErmMcts(domains.make("mdp-4"), 0.5, seed=0).plan(iterations=10**7, until=until.stable(5000))
    >>> plan.label, 5000 <= plan.iterations < 10**7
    ('safe', True)
    """
    wanted = integer(iterations, "iterations", low=1)
    action: Any = None
    since = -1

    def holds(plan: Plan) -> bool:
        nonlocal action, since
        if since < 0 or plan.action != action or plan.iterations < since:
            action, since = plan.action, plan.iterations
        return plan.iterations - since >= wanted

    return holds


def from_text(text: str) -> Condition:
    """Return the condition that a text names: ``proven``, ``gap:WIDTH`` or ``stable:ITERATIONS``.

    Raises
    ------
    OptionError
        If it names none.
    """
    name, _, value = text.partition(":")
    try:
        if name == "proven" and not value:
            return proven()
        if name == "gap":
            return gap(float(value))
        if name == "stable":
            return stable(int(float(value)))
    except (ValueError, OverflowError) as error:
        if isinstance(error, OptionError):
            raise
    raise OptionError(f"until must be proven, gap:WIDTH or stable:ITERATIONS (as gap:0.05, stable:5000), not {text!r}")
