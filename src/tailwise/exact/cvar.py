r"""Plans for the tail mean of the total (static CVaR), and for the probability of exceeding a budget, exact on tables.

With ``tail = 1 - level``, by Rockafellar & Uryasev (2000),

    CVaR = min over b of  b + E[(X - b)+] / tail,

and over plans ``min over b of f(b)``, ``f(b) = b + W(b) / tail``, where W(b) is the least ``E[(X - b)+]`` of all
plans: a function of the total, hence solved on pairs (state, accrued cost), :mod:`tailwise.exact.totals`. For one
plan ``E[(X - b)+]`` is convex in b, falls by at most 1 per unit, and is straight between two totals. For the best plan,
between a < b,

    W(x) >= max(W(b), W(a) - (x - a)),   hence   f >= a + W(a) - W(b) + W(b) / tail,

and if no total lies between them W is concave there, hence ``f >= min(f(a), f(b))``. Only the interval with the least
bound is split, at a total, until the gap is closed: the optimum is exact, or certified to within the tolerance.

*What such a plan means later.* Its actions depend on what was paid so far: they keep to the b of the start. Planning
again for the CVaR of the rest at a later step is another aim (the tail is then that of the outcomes *from there*), and
may contradict the plan: static CVaR is not consistent over time.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailwise._progress import Progress, followed
from tailwise._validate import integer, real
from tailwise.errors import OptionError, StateError
from tailwise.exact.evar import check_level, check_table
from tailwise.exact.grid_totals import GridTotals
from tailwise.exact.totals import Floats, ReachableTotals, reach_totals
from tailwise.models import TabularMDP
from tailwise.risk.measures import conditional_value_at_risk, exceedance

ROUNDING = 1e-12  # of the values compared


@dataclass(frozen=True, eq=False)
class TotalPlan:
    """A plan for an aim about the total; its actions depend on state, step and accrued cost.

    All numbers are in the model's own sense.

    Attributes
    ----------
    value : float
        The aim's value under this plan; for CVaR exact to ``tolerance``, a bound for the probability of exceeding.
    gap : float
        No plan is better by more than this; what merging accrued costs can have done is included.
    threshold : float
        The total from which on costs count: the best b for CVaR, the budget for the probability of exceeding it.
    totals, probabilities : ndarray of float64
        Law of the plan's total, increasing; exact to ``tolerance``.
    tolerance : float
        No total was moved by more than this.
    solves : int
        How many thresholds were solved.
    """

    value: float
    gap: float
    threshold: float
    totals: Floats
    probabilities: Floats
    tolerance: float
    solves: int
    graph: ReachableTotals | GridTotals
    chosen: Any

    @property
    def action(self) -> int:
        """First action, from the start state."""
        return self.act(self.graph.mdp.start, 0, 0.0)

    def act(self, state: int, h: int, accrued: float) -> int:
        """Return the action id in ``state`` at step ``h`` after ``accrued`` discounted cost (or reward)."""
        mdp = self.graph.mdp
        if not 0 <= h < mdp.horizon:
            raise StateError(f"step {h!r} is outside 0..{mdp.horizon - 1}")
        return self.graph.action(self.chosen, state, h, float(mdp.signed(accrued)))


def cvar_planning(
    mdp: TabularMDP,
    level: float,
    *,
    tolerance: float | None = None,
    merge: float | None = None,
    max_solves: int = 500,
    work: float = 1.0,
    progress: Progress = None,
) -> TotalPlan:
    """Find the plan whose total has the least mean over its worst ``1 - level``.

    Parameters
    ----------
    mdp : TabularMDP
        The problem.
    level : float in (0, 1)
        Share of outcomes that are not the tail: 0.95 for the worst 5 %.
    tolerance : float, optional
        Gap at which to stop, >= 0; 1e-6 of the range of the totals if not given, or what merging moves them by.
    merge : float, optional
        How far totals may be moved to merge accrued costs. If not given, they are kept apart, and put on a fine grid
        where there are too many.
    max_solves : int, default 500
        Stop there, with the gap that is left.
    work : float, default 1.0
        Share of the usual work for laying out totals. Where they are put on a grid, 0.1 is at least ten times as fast,
        and the gap up to ten times as wide; the plan is often hardly worse.
    progress : bool or callable, optional
        True shows a bar; a function is called with (thresholds solved, None).

    Returns
    -------
    TotalPlan
        ``value`` is the plan's CVaR.

    Raises
    ------
    OptionError
        If ``level`` is not inside (0, 1).
    ModelError
        If ``mdp`` is no table.

    Notes
    -----
    One solve costs O(outcomes of all pairs). Source: :mod:`tailwise.exact.cvar`.

    Examples
    --------
    >>> from tailwise import cvar_planning, domains
    >>> mdp = domains.make("grid-mdp")
    >>> plan = cvar_planning(mdp, 0.9)
    >>> mdp.action_name(plan.action), round(plan.value, 6), plan.gap
    ('right', 10.859848, 0.0)
    """
    check_table(mdp, "cvar_planning")
    check_level(level)
    limit, share = integer(max_solves, "max_solves", low=2), real(work, "work", low=0.0, low_open=True)
    with followed(progress, "solving for each threshold", None) as tick:
        graph = reach_totals(mdp, tolerance=merge, work=share)
        plan = least_cvar(graph, level, tolerance=tolerance, limit=limit, tick=tick)
    law = graph.followed(plan.chosen) if isinstance(graph, GridTotals) else None
    if law is None:
        return plan
    value = conditional_value_at_risk(law[0], level, law[1])
    gap = max(0.0, value - float(mdp.signed(plan.value)) + plan.gap)
    exact = plan_of(graph, plan.chosen, value, gap, float(mdp.signed(plan.threshold)), plan.solves, law=law)
    return replace(exact, tolerance=0.0)


def least_cvar(
    graph: Any,
    level: float,
    *,
    tolerance: float | None = None,
    limit: int = 500,
    tick: Callable[[float], None] | None = None,
) -> TotalPlan:
    """Return the plan of least CVaR on totals that are laid out already; see :func:`cvar_planning`."""
    tail = 1.0 - level
    points = graph.all_totals()
    off = graph.overstated(level=level)
    given = None if tolerance is None else real(tolerance, "tolerance", low=0.0)
    least: dict[int, float] = {}

    def solve(index: int) -> tuple[float, int, Any]:
        threshold = points[index]
        least[index], chosen = graph.minimise(lambda totals: np.maximum(totals - threshold, 0.0))
        if tick is not None:
            tick(len(least))
        totals, weights = graph.law(chosen)
        return conditional_value_at_risk(totals, level, weights), index, chosen

    def bounded(i: int, j: int) -> tuple[float, int, int]:
        a, b = float(points[i]), float(points[j])
        if j == i + 1:
            return min(a + least[i] / tail, b + least[j] / tail), i, j
        return a + least[i] - least[j] + least[j] / tail, i, j

    last = points.size - 1
    best = solve(0)
    intervals = []
    if last:
        best = min(best, solve(last), key=operator.itemgetter(0))
        intervals = [bounded(0, last)]
    while intervals and len(least) < limit:
        # Closer than the totals are known is of no use. The scale is what the best plan can cost over the least.
        if best[0] - intervals[0][0] <= (max(1e-6 * (best[0] - float(points[0])), off) if given is None else given):
            break
        _, i, j = intervals[0]
        if j == i + 1:
            break  # the least bound is reached
        heapq.heappop(intervals)
        corner = points[i] + least[i] - least[j]  # where the two bounds on W meet
        middle = int(np.clip(np.searchsorted(points, corner), i + 1, j - 1))
        best = min(best, solve(middle), key=operator.itemgetter(0))
        heapq.heappush(intervals, bounded(i, middle))
        heapq.heappush(intervals, bounded(middle, j))
    gap = max(0.0, best[0] - intervals[0][0]) if intervals else 0.0
    gap = 0.0 if gap <= ROUNDING * abs(best[0]) else gap
    return plan_of(graph, best[2], best[0], gap + off, float(points[best[1]]), len(least))


def exceedance_planning(
    mdp: TabularMDP,
    budget: float,
    *,
    merge: float | None = None,
    work: float = 1.0,
    progress: Progress = None,
) -> TotalPlan:
    """Find the plan whose total exceeds a budget (falls short of a target, for rewards) with the least probability.

    Parameters
    ----------
    mdp : TabularMDP
        The problem.
    budget : float
        The total that should not be exceeded; for rewards, the total that should be reached.
    merge : float, optional
        How far totals may be moved to merge accrued costs. If not given, they are kept apart, and put on a fine grid
        where there are too many.
    work : float, default 1.0
        Share of the usual work for laying out totals: less is coarser, for tables that are estimates themselves.
    progress : bool or callable, optional
        True shows a bar; a function is called with (solves done, None).

    Returns
    -------
    TotalPlan
        ``value`` is the probability of ``X > budget`` (``X < budget`` for rewards), or a bound on it where accrued
        costs had to be merged; ``gap`` says how much less any plan can have.

    Raises
    ------
    OptionError
        If no plan's total can stay within the budget.
    ModelError
        If ``mdp`` is no table.

    Examples
    --------
    >>> from tailwise import domains, exceedance_planning
    >>> mdp = domains.make("grid-mdp")
    >>> plan = exceedance_planning(mdp, 8.0)
    >>> mdp.action_name(plan.action), round(plan.value, 9), plan.gap
    ('right', 0.01, 0.0)
    """
    check_table(mdp, "exceedance_planning")
    limit = float(mdp.signed(real(budget, "budget")))
    share = real(work, "work", low=0.0, low_open=True)
    with followed(progress, "solving for the probability", None) as tick:
        graph: Any = reach_totals(mdp, tolerance=merge, work=share)
        points, slack = graph.all_totals(), graph.slack(limit)
        if points[0] - graph.tolerance > limit + slack:
            word, bound = ("least", "below") if mdp.sense == "cost" else ("largest", "above")
            end = float(mdp.signed(points[0]))
            raise OptionError(
                f"budget {budget:g} is {bound} the {word} total that any plan can have, {end:g}: "
                "it is missed with certainty"
            )
        plan = least_exceedance(graph, limit, slack, tick)
        if plan.value - plan.gap >= 1.0 - 1e-8:
            raise OptionError(f"no plan's total can be within the budget {budget:g}: it is missed with certainty")
        return plan


def least_exceedance(graph: Any, limit: float, slack: float, tick: Callable[[float], None] | None) -> TotalPlan:
    """Return the plan of least probability of a total above ``limit``, an inner cost, by ``slack``; and a bound."""

    def above(moved: float) -> Callable[[Floats], Floats]:
        return lambda totals: (totals > limit + slack + moved).astype(np.float64)

    if isinstance(graph, GridTotals):
        value, chosen = graph.minimise_upward(above(0.0))
        moved, doubt = graph.displaced
        bound = max(0.0, graph.minimise(above(moved))[0] - doubt)
        law = graph.followed(chosen)
        totals, weights = graph.law(chosen) if law is None else law
    else:
        bound, chosen = graph.minimise(above(0.0))
        law = totals, weights = graph.law(chosen)
        value = math.fsum(weights[totals > limit + slack])
    if tick is not None:
        tick(1)
    if law is not None:
        value = min(1.0, exceedance(totals, limit, weights)) if isinstance(graph, GridTotals) else value
    gap = max(0.0, value - bound)
    gap = 0.0 if gap <= ROUNDING * value else gap
    return plan_of(graph, chosen, value, gap, limit, 1, is_signed=False, law=(totals, weights))


def plan_of(
    graph: ReachableTotals | GridTotals,
    chosen: Any,
    value: float,
    gap: float,
    threshold: float,
    solves: int,
    *,
    is_signed: bool = True,
    law: tuple[Floats, Floats] | None = None,
) -> TotalPlan:
    """Return the plan in the model's own sense; ``law`` is that of its total, if it is known better."""
    mdp = graph.mdp
    totals, weights = graph.law(chosen) if law is None else law
    if mdp.sense == "reward":
        totals, weights = 0.0 - totals[::-1], weights[::-1]
    shown = float(mdp.signed(value)) if is_signed else value
    return TotalPlan(shown, gap, float(mdp.signed(threshold)), totals, weights, graph.tolerance, solves, graph, chosen)
