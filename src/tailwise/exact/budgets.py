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

from tailwise._arrays import Floats
from tailwise._progress import Tick
from tailwise._progress import followed as told
from tailwise.errors import OptionError
from tailwise.exact.distributions import followed
from tailwise.exact.grid_totals import Choices, GridTotals
from tailwise.exact.induction import backward_induction
from tailwise.exact.policy import Policy
from tailwise.exact.tails import Found, Graph, Limits, gap_of, least_cvar, on_totals
from tailwise.exact.totals import reach_totals
from tailwise.models import TabularMDP
from tailwise.risk import ERM, Budgeted, CVaR, value_at_risk

_ATTEMPTS = 2
_MOST = 600  # solves
_EXPONENT = 700.0  # of the exponential beyond which it is cut: far over the budget either way


@dataclass(frozen=True, eq=False)
class _Dual:
    """Bound on the mean of every plan within the budget, and the best plan met on the way that keeps to it."""

    bound: float
    multiplier: float
    mean: float
    chosen: Choices | None


def solve_budget(mdp: TabularMDP, objective: Budgeted, limits: Limits) -> Policy:
    """Return a policy of least mean whose CVaR, or ERM at a beta > 0, keeps to a budget, also as it is followed."""
    risk: Any = objective.risk
    most = float(mdp.signed(objective.bound))
    with told(limits.progress, "solving for each price of the risk", None) as tick:
        counted = _Counted(reach_totals(mdp, work=limits.effort), tick)
        graph = counted.graph
        found, multiplier = _within(counted, mdp, most, risk, limits)
        bound = found.value - found.gap
        for attempt in range(_ATTEMPTS):
            law = followed(graph, found.chosen) if isinstance(graph, GridTotals) else None
            totals, masses = graph.law(found.chosen) if law is None else law
            met, mean = risk.of_costs(totals, masses), float(np.dot(totals, masses))
            if law is None and isinstance(graph, GridTotals) and not graph.is_blind(found.chosen):
                met, mean = _bounds(graph, found.chosen, risk, most)
            if met <= most + slack_of(most, max(0.0, most - float(totals[0]))):
                break
            missed = OptionError(
                f"no plan was found that keeps to the budget {objective.bound:.9g} as it is followed: "
                f"the totals are laid out on a grid, and the nearest plan has a risk of {float(mdp.signed(met)):.9g}; "
                "give a budget as loose as that, or a larger effort= for a finer grid"
            )
            if attempt == _ATTEMPTS - 1:
                raise missed
            try:
                found, multiplier = _within(counted, mdp, most - 2.0 * (met - most), risk, limits)
            except OptionError:  # there is no smaller risk
                raise missed from None
    if isinstance(graph, GridTotals):
        found = found._replace(value=mean, gap=gap_of(mean, bound), law=law)
    found = found._replace(threshold=most, solves=counted.solves)
    return on_totals(mdp, objective, found, graph, risk=float(mdp.signed(met)), multiplier=multiplier)


def _bounds(graph: GridTotals, chosen: Choices, risk: ERM | CVaR, most: float) -> tuple[float, float]:
    """Return bounds on the risk and the mean of a plan as it is followed, whose law is too long to list."""
    if isinstance(risk, ERM):
        beta = risk.beta

        def functions(x: Floats) -> Floats:
            return np.stack((np.exp(np.minimum(beta * (x - most), _EXPONENT)), x))

        grown, mean = graph.bounds_followed(chosen, functions)
        return most + math.log(grown) / beta, float(mean)
    totals, masses = graph.law(chosen)
    quantile = value_at_risk(totals, risk.level, masses)
    thresholds = quantile + graph.tolerance * np.linspace(0.0, 0.25, 5)
    *above, mean = graph.bounds_followed(chosen, lambda x: np.stack((*(np.maximum(x - b, 0.0) for b in thresholds), x)))
    return float(np.min(thresholds + np.array(above) / (1.0 - risk.level))), float(mean)


def _within(
    counted: _Counted, mdp: TabularMDP, most: float, budgeted: ERM | CVaR, limits: Limits
) -> tuple[Found, float]:
    """Find the plan, and the price of the constraint, on totals that are laid out; the budget is an inner cost."""
    graph = counted.graph
    room = max(0.0, most - float(graph.all_totals()[0]))  # no plan within the budget has a mean outside it
    slack = slack_of(most, room)
    safest: Found | None = None

    def risk(chosen: Choices) -> float:
        return budgeted.of_costs(*graph.law(chosen))

    if isinstance(budgeted, ERM):
        beta = budgeted.beta
        over = graph.overstated(beta=beta)

        def solve(within: float) -> _Dual:
            return _dual(
                counted, lambda x: np.expm1(np.minimum(beta * (x - within), _EXPONENT)), within, risk, slack,
                math.expm1(min(beta * slack, _EXPONENT)),
            )  # fmt: skip

        least = float(mdp.signed(backward_induction(mdp, beta).value))
    else:
        level = budgeted.level
        over = graph.overstated(level=level)
        allowed = max(1e-3 / limits.share * room, over) if limits.tolerance is None else limits.tolerance
        limit = max(2, int(_MOST * limits.share**0.5))

        def solve(within: float) -> _Dual:
            return _cvar_dual(counted, level, within, risk, slack, allowed, limit)

        safest = least_cvar(graph, level, Limits(effort=limits.effort), tick=counted.tell)
        least = safest.value
    neutral_mean, neutral = counted.minimise(lambda x: x)
    found: _Dual | None
    if risk(neutral) <= most:
        found = _Dual(neutral_mean, 0.0, neutral_mean, neutral)
    else:
        found = solve(most) if least <= most + slack else None
    if found is not None and found.chosen is None and safest is not None:  # nothing but the least risk is within it
        totals, masses = graph.law(safest.chosen)
        known = found.bound if found.bound < math.inf else neutral_mean
        found = _Dual(known, found.multiplier, float(np.dot(totals, masses)), safest.chosen)
    if found is None or found.chosen is None:
        word, kept = "least" if mdp.sense == "cost" else "largest", float(mdp.signed(most))
        raise OptionError(
            f"no plan was found that keeps the {budgeted.words} to {kept:g}: the {word} that any plan can have is "
            f"{float(mdp.signed(least)):.9g}" + (f", known to {over:.2g}" if over else "")
        )
    bound = found.bound if over == 0.0 else solve(most + over).bound
    return Found(found.mean, gap_of(found.mean, bound), found.chosen), found.multiplier


def slack_of(budget: float, room: float) -> float:
    """Return how much a risk may be over a budget from rounding; ``room`` is from the least total to the budget."""
    return 1e-12 * abs(budget) + 1e-9 * room


class _Counted:
    """A graph that counts how often it was solved, and tells who follows."""

    def __init__(self, graph: Graph, tick: Tick) -> None:
        self.graph, self._tick = graph, tick
        self.solves = self._told = 0

    def minimise(self, function: Callable[[Floats], Floats]) -> tuple[float, Choices]:
        found = self.graph.minimise(function)
        self.solves += 1
        self.tell()
        return found

    def tell(self, _: float = 0.0) -> None:
        """Say that one more solve is done."""
        self._told += 1
        self._tick(self._told)


def _dual(
    counted: _Counted,
    excess: Callable[[Floats], Floats],
    budget: float,
    risk: Callable[[Choices], float],
    slack: float,
    near: float,
) -> _Dual:
    """Solve the dual of: least mean with ``E[excess(X)] <= 0``; differences of ``slack`` and ``near`` are rounding."""
    best: tuple[float, Choices | None] = (math.inf, None)

    def look(chosen: Choices) -> tuple[float, float]:
        nonlocal best
        totals, weights = counted.graph.law(chosen)
        mean = float(np.dot(totals, weights))
        if mean < best[0] and risk(chosen) <= budget + slack:
            best = mean, chosen
        return mean, float(np.dot(excess(totals), weights))

    outside_mean, outside = look(counted.minimise(lambda x: x)[1])
    if outside <= near:
        return _Dual(outside_mean, 0.0, *best)
    inside_mean, inside = look(counted.minimise(excess)[1])
    if inside > near:
        return _Dual(math.inf, math.inf, *best)
    seen = {(outside_mean, outside), (inside_mean, inside)}
    while True:
        multiplier = max(0.0, inside_mean - outside_mean) / (outside - inside)
        least, chosen = counted.minimise(lambda x, m=multiplier: x + m * excess(x))  # type: ignore[misc]
        met = outside_mean + multiplier * outside
        mean, over = look(chosen)
        if (mean, over) in seen or least >= met - 1e-3 * slack:
            return _Dual(least, multiplier, *best)
        seen.add((mean, over))
        if over > near:
            outside_mean, outside = mean, over
        else:
            inside_mean, inside = mean, over


def _cvar_dual(
    counted: _Counted,
    level: float,
    budget: float,
    risk: Callable[[Choices], float],
    slack: float,
    allowed: float,
    limit: int,
) -> _Dual:
    """Solve the dual over intervals of the threshold b, the least bound first."""
    tail = 1.0 - level
    points = counted.graph.all_totals()

    def solve(low: float, high: float) -> _Dual:
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
    return _Dual(min(intervals[0][0], best.mean), intervals[0][3], best.mean, best.chosen)
