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

_FEWEST = 16  # draws of every action, before intervals that come from samples may end a search
_SURE = 0.8  # that the recommended action is best, where that is said


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

    Where intervals come from samples it holds only once every action of the root was drawn 16 times, and never where a
    learned model says that states do not come back, or that too little was seen: there are no intervals then.

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
    return lambda plan: plan.possible_loss <= accepted and _has_evidence(plan)


def _has_evidence(plan: Plan) -> bool:
    """Whether the intervals of the rows are certain, or those of actions that were all drawn often enough."""
    if plan.lower is not None or is_proven(plan):
        return True
    if plan.states_recur is False:
        return False
    return all((row.visits if row.draws is None else row.draws) >= _FEWEST for row in plan.rows)


def stable(iterations: int) -> Condition:
    """Return the condition that the recommended action has been the same for so many iterations.

    A plan that says how probably its action is best must say .8 at least, too; one that was made too early to say it
    (``plan.too_early``) does not do. A tree says nothing of it, nor does a learned model whose states do not come back:
    there the action alone counts.

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
        sure = getattr(plan, "probability_best", None)
        if getattr(plan, "too_early", False):
            return False
        return plan.iterations - since >= wanted and (sure is None or sure >= _SURE)

    return holds


def from_text(text: str) -> Condition:
    """Return the condition that a text names: ``proven``, ``gap:WIDTH`` or ``stable:ITERATIONS``; or raise."""
    name, _, value = text.partition(":")
    try:
        if name == "proven" and not value:
            return proven()
        if name == "gap":
            return gap(float(value))
        if name == "stable":
            steps = float(value)
            if steps.is_integer():
                return stable(int(steps))
    except (ValueError, OverflowError):  # an OptionError is a ValueError
        pass
    raise OptionError(
        f"until must be proven, gap:WIDTH or stable:ITERATIONS, with numbers of at least 0 (as gap:0.05, stable:5000), "
        f"not {text!r}"
    )
