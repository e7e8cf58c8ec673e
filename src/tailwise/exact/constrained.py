r"""The least mean among the plans whose risk keeps to a budget, by the Lagrangian (after Zhang et al., 2025).

A plan is a law of the total X, and both constraints are means of functions of X once a number is fixed:

    ERM_beta(X) <= B       is   E[exp(beta (X - B))] <= 1,
    CVaR_level(X) <= B     is   b + E[(X - b)+] / (1 - level) <= B   for some b.

For a multiplier m >= 0 the plan of least ``E[X + m g(X)]`` is found exactly on pairs (state, accrued cost). The largest
of these minima over m (the dual) is a bound on the mean of *every* plan that keeps to the budget, mixtures of plans
included; it is found by going to the m at which the two best plans on either side of the budget are equally good, until
no third one is better. The plan returned is the best one met that does keep to the budget, and the gap between its mean
and the bound is stated. For CVaR the same is done over intervals of b, the one with the least bound first, with the
relaxation ``b + (X - b)+ / tail >= low + (X - high)+ / tail`` on [low, high].
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailwise._progress import Progress, followed
from tailwise._validate import integer, real
from tailwise.errors import OptionError
from tailwise.exact.backward_induction import backward_induction
from tailwise.exact.cvar import ROUNDING, TotalPlan, least_cvar, plan_of
from tailwise.exact.evar import check_level, check_table
from tailwise.exact.grid_totals import GridTotals
from tailwise.exact.totals import Floats, ReachableTotals, reach_totals
from tailwise.models import TabularMDP
from tailwise.risk import conditional_value_at_risk, erm

_ATTEMPTS = 2
_EXPONENT = 700.0  # of the exponential beyond which it is cut: far over the budget either way


@dataclass(frozen=True, eq=False)
class ConstrainedPlan(TotalPlan):
    """The plan of least mean that was found within a risk budget.

    ``value`` is its mean, ``threshold`` the budget; no plan within it has a mean better by more than ``gap``.

    Attributes
    ----------
    risk : float
        The plan's risk, at most (rewards: at least) the budget.
    multiplier : float
        Price of the constraint at the best bound, >= 0; 0 where the budget does not bind.
    """

    risk: float
    multiplier: float


@dataclass(frozen=True, eq=False)
class _Found:
    """Bound on the mean of every plan within the budget, and the best plan met on the way that keeps to it."""

    bound: float
    multiplier: float
    mean: float
    chosen: Any


def constrained_planning(
    mdp: TabularMDP,
    budget: float,
    *,
    level: float | None = None,
    beta: float | None = None,
    tolerance: float | None = None,
    merge: float | None = None,
    max_solves: int = 600,
    work: float = 1.0,
    progress: Progress = None,
) -> ConstrainedPlan:
    """Find a plan of least mean whose CVaR or ERM keeps to a budget.

    Parameters
    ----------
    mdp : TabularMDP
        The problem.
    budget : float
        The risk is to be at most this (for rewards, at least).
    level : float in (0, 1), optional
        Constrain the CVaR at this level.
    beta : float, optional
        Constrain the ERM at this level, > 0. Give one of the two.
    tolerance : float, optional
        Gap at which to stop, >= 0; 1e-3 of the range of the totals if not given.
    merge : float, optional
        As in :func:`cvar_planning`.
    max_solves : int, default 600
        Stop there, with the gap that is left.
    work : float, default 1.0
        Share of the usual work for laying out totals: less is coarser, for tables that are estimates themselves.
    progress : bool or callable, optional
        True shows a bar; a function is called with (solves done, None).

    Returns
    -------
    ConstrainedPlan
        The plan, its mean and risk, and how much better any plan within the budget can be at most.

    Raises
    ------
    OptionError
        If no plan keeps to the budget; the message says the least risk there is, or, where totals are on a grid, the
        risk of the nearest plan.
    ModelError
        If ``mdp`` is no table.

    Examples
    --------
    >>> from tailwise import constrained_planning, domains
    >>> mdp = domains.make("grid-mdp")
    >>> plan = constrained_planning(mdp, 15.0, level=0.95)
    >>> mdp.action_name(plan.action), round(plan.value, 4), plan.risk <= 15.0, plan.gap < 0.3
    ('right', 8.039, True, True)
    """
    check_table(mdp, "constrained_planning")
    if (level is None) == (beta is None):
        raise OptionError("give level= (to constrain the CVaR) or beta= (the ERM), one of the two")
    limit = integer(max_solves, "max_solves", low=2)
    most, share = float(mdp.signed(real(budget, "budget"))), real(work, "work", low=0.0, low_open=True)
    with followed(progress, "solving for each price of the risk", None) as tick:
        counted = _Counted(reach_totals(mdp, tolerance=merge, work=share), tick)
        plan = _within(counted, most, level, beta, tolerance, limit)
        return _as_followed(
            plan, most, level, beta, lambda budget: _within(counted, budget, level, beta, tolerance, limit)
        )


def _as_followed(
    plan: ConstrainedPlan,
    most: float,
    level: float | None,
    beta: float | None,
    solve: Callable[[float], ConstrainedPlan],
) -> ConstrainedPlan:
    """Return a plan on a grid with the law that it has as it is followed, where that can be listed.

    The budget is to hold there, too: if it is missed by a little, the plan for a budget that is smaller is taken.
    If that does not help it is an error: a plan is never returned that breaks its budget as it is followed.
    """
    mdp = plan.graph.mdp
    bound = float(mdp.signed(plan.value)) - plan.gap
    for attempt in range(_ATTEMPTS):
        law = plan.graph.followed(plan.chosen) if isinstance(plan.graph, GridTotals) else None
        if law is None:
            return plan
        totals, weights = law
        risk = (
            erm(totals, beta, weights) if beta is not None else conditional_value_at_risk(totals, level or 0.0, weights)
        )
        if risk <= most + slack_of(most, max(0.0, most - float(totals[0]))):
            break
        missed = OptionError(
            f"no plan was found that keeps to the budget {float(mdp.signed(most)):.9g} as it is followed: "
            f"the totals are laid out on a grid, and the nearest plan has a risk of {float(mdp.signed(risk)):.9g}; "
            "give a budget as loose as that, or a larger work= for a finer grid"
        )
        if attempt == _ATTEMPTS - 1:
            raise missed
        try:
            plan = solve(most - 2.0 * (risk - most))
        except OptionError:  # there is no smaller risk
            raise missed from None
    mean = float(np.dot(totals, weights))
    exact = plan_of(plan.graph, plan.chosen, mean, max(0.0, mean - bound), most, plan.solves, law=law)
    shown = {**vars(exact), "tolerance": 0.0}
    return ConstrainedPlan(**shown, risk=float(mdp.signed(risk)), multiplier=plan.multiplier)


def _within(
    counted: _Counted, most: float, level: float | None, beta: float | None, tolerance: float | None, limit: int
) -> ConstrainedPlan:
    """Find the plan on totals that are laid out, for a budget as an inner cost."""
    graph: Any = counted.graph
    mdp: TabularMDP = graph.mdp
    over = graph.overstated(level=level, beta=beta)
    room = max(0.0, most - float(graph.all_totals()[0]))  # no plan within the budget has a mean outside it
    slack = slack_of(most, room)
    allowed = max(1e-3 * room, over) if tolerance is None else real(tolerance, "tolerance", low=0.0)
    if beta is not None:
        risk_level = real(beta, "beta", low=0.0, low_open=True)

        def risk(chosen: Any) -> float:
            totals, weights = graph.law(chosen)
            return erm(totals, risk_level, weights)

        def solve(within: float) -> _Found:
            return _dual(
                counted, lambda x: np.expm1(np.minimum(risk_level * (x - within), _EXPONENT)), within, risk, slack,
                math.expm1(min(risk_level * slack, _EXPONENT)),
            )  # fmt: skip

        safest: TotalPlan | None = None
        name = f"ERM at beta {risk_level:g}"
        least_risk = float(mdp.signed(backward_induction(mdp, risk_level).value))
    else:
        tail_level = check_level(level if level is not None else math.nan)

        def risk(chosen: Any) -> float:
            totals, weights = graph.law(chosen)
            return conditional_value_at_risk(totals, tail_level, weights)

        def solve(within: float) -> _Found:
            return _cvar_dual(counted, tail_level, within, risk, slack, allowed, limit)

        name = f"CVaR at {tail_level:g}"
        safest = least_cvar(graph, tail_level, tick=counted.tell)
        least_risk = float(mdp.signed(safest.value))
    neutral_mean, neutral = counted.minimise(lambda x: x)
    found: _Found | None
    if risk(neutral) <= most:
        found = _Found(neutral_mean, 0.0, neutral_mean, neutral)
    else:
        found = solve(most) if least_risk <= most + slack else None
    if found is not None and found.chosen is None and safest is not None:  # nothing but the least risk is within it
        mean = float(np.dot(mdp.signed(safest.totals), safest.probabilities))
        known = found.bound if found.bound < math.inf else neutral_mean
        found = _Found(known, found.multiplier, mean, safest.chosen)
    if found is None or found.chosen is None:
        word, kept = "least" if mdp.sense == "cost" else "largest", float(mdp.signed(most))
        raise OptionError(
            f"no plan was found that keeps the {name} to {kept:g}: the {word} that any plan can have is "
            f"{float(mdp.signed(least_risk)):.9g}" + (f", known to {over:.2g}" if over else "")
        )
    bound = found.bound if over == 0.0 else solve(most + over).bound
    gap = max(0.0, found.mean - bound)
    gap = 0.0 if gap <= ROUNDING * abs(found.mean) else gap
    plan = plan_of(graph, found.chosen, found.mean, gap, most, counted.solves)
    return ConstrainedPlan(**vars(plan), risk=float(mdp.signed(risk(found.chosen))), multiplier=found.multiplier)


def slack_of(budget: float, room: float) -> float:
    """Return how much a risk may be over a budget from rounding; ``room`` is from the least total to the budget."""
    return 1e-12 * abs(budget) + 1e-9 * room


class _Counted:
    """A graph that counts how often it was solved, and tells who follows."""

    def __init__(self, graph: ReachableTotals | GridTotals, tick: Callable[[float], None] | None) -> None:
        self.graph, self._tick = graph, tick
        self.solves = self._told = 0

    def minimise(self, function: Callable[[Floats], Floats]) -> tuple[float, Any]:
        found = self.graph.minimise(function)
        self.solves += 1
        self.tell()
        return found

    def tell(self, _: float = 0.0) -> None:
        """Say that one more solve is done."""
        self._told += 1
        if self._tick is not None:
            self._tick(self._told)


def _dual(
    counted: _Counted,
    excess: Callable[[Floats], Floats],
    budget: float,
    risk: Callable[[Any], float],
    slack: float,
    near: float,
) -> _Found:
    """Solve the dual of: least mean subject to ``E[excess(X)] <= 0``. A plan counts as kept by its own risk.

    Risks that differ by ``slack``, and excesses by ``near``, differ in rounding alone.
    """
    best: tuple[float, Any] = (math.inf, None)

    def look(chosen: Any) -> tuple[float, float]:
        nonlocal best
        totals, weights = counted.graph.law(chosen)
        mean = float(np.dot(totals, weights))
        if mean < best[0] and risk(chosen) <= budget + slack:
            best = mean, chosen
        return mean, float(np.dot(excess(totals), weights))

    outside_mean, outside = look(counted.minimise(lambda x: x)[1])
    if outside <= near:
        return _Found(outside_mean, 0.0, *best)
    inside_mean, inside = look(counted.minimise(excess)[1])
    if inside > near:
        return _Found(math.inf, math.inf, *best)
    seen = {(outside_mean, outside), (inside_mean, inside)}
    while True:
        multiplier = max(0.0, inside_mean - outside_mean) / (outside - inside)
        least, chosen = counted.minimise(lambda x, m=multiplier: x + m * excess(x))  # type: ignore[misc]
        met = outside_mean + multiplier * outside
        mean, over = look(chosen)
        if (mean, over) in seen or least >= met - 1e-3 * slack:
            return _Found(least, multiplier, *best)
        seen.add((mean, over))
        if over > near:
            outside_mean, outside = mean, over
        else:
            inside_mean, inside = mean, over


def _cvar_dual(
    counted: _Counted,
    level: float,
    budget: float,
    risk: Callable[[Any], float],
    slack: float,
    allowed: float,
    limit: int,
) -> _Found:
    """Solve the dual over intervals of the threshold b, the least bound first."""
    tail = 1.0 - level
    points = counted.graph.all_totals()

    def solve(low: float, high: float) -> _Found:
        return _dual(counted, lambda x: low + np.maximum(x - high, 0.0) / tail - budget, budget, risk, slack, slack)

    top = min(float(points[-1]), budget)  # b itself is a bound from below
    first = solve(float(points[0]), max(top, float(points[0])))
    best = first
    intervals = [(first.bound, float(points[0]), max(top, float(points[0])), first.multiplier)]
    while best.mean - intervals[0][0] > allowed and counted.solves < limit and intervals[0][0] < math.inf:
        _, low, high, _ = heapq.heappop(intervals)
        middle = (low + high) / 2.0
        for start, stop in ((low, middle), (middle, high)):
            part = solve(start, stop)
            heapq.heappush(intervals, (part.bound, start, stop, part.multiplier))
            best = min(best, part, key=lambda found: found.mean)
        if high - low <= 1e-12 * max(abs(low), abs(high)):
            break
    exact = solve(intervals[0][1], intervals[0][1]) if best.chosen is None else best
    best = min(best, exact, key=lambda found: found.mean)
    return _Found(min(intervals[0][0], best.mean), intervals[0][3], best.mean, best.chosen)
