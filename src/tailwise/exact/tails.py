r"""Policies for functions of the total, exact on tables: CVaR, the probability of exceeding a threshold, a utility.

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

import contextlib
import heapq
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tailwise._arrays import Floats
from tailwise._progress import Progress, Tick, untold
from tailwise._progress import followed as told
from tailwise._validate import real
from tailwise.errors import OptionError
from tailwise.exact.distributions import distribution_of, followed
from tailwise.exact.grid_totals import Choices, GridTotals
from tailwise.exact.policy import Policy
from tailwise.exact.totals import ReachableTotals, reach_totals
from tailwise.models import TabularMDP
from tailwise.models.contract import short
from tailwise.risk import CVaR, Exceedance, ExpectedUtility, Objective, value_at_risk

ROUNDING = 1e-12  # of the values compared: a gap below it is none
Graph = ReachableTotals | GridTotals


class Limits(NamedTuple):
    """How far to go: an accepted gap (None: a small share of the value), a share of the usual work, who follows."""

    tolerance: float | None = None
    effort: float = 1.0
    threads: int = 1
    progress: Progress = None

    @property
    def share(self) -> float:
        """How much closer than that to come: the root of the share of work."""
        return math.sqrt(min(1.0, self.effort))


def solve_cvar(mdp: TabularMDP, objective: CVaR, limits: Limits) -> Policy:
    """Return the policy of least CVaR, at a level inside (0, 1). One threshold costs O(outcomes of all pairs)."""
    with told(limits.progress, "solving for each threshold", None) as tick:
        graph = reach_totals(mdp, work=limits.effort)
        found = least_cvar(graph, objective.level, limits, tick=tick)
    if isinstance(graph, GridTotals):
        law, bound = followed(graph, found.chosen), found.value - found.gap
        if law is None:
            found = _rounded_up(graph, objective.level, found)
        else:
            found = found._replace(value=objective.of_costs(*law), law=law)
        found = found._replace(gap=gap_of(found.value, bound))
    return on_totals(mdp, objective, found, graph)


def _rounded_up(graph: GridTotals, level: float, found: Found) -> Found:
    """Return the plan that acts on what was paid, rounded up: its CVaR as followed is bounded, without its law."""
    tail, best, threshold, upward = 1.0 - level, math.inf, found.threshold, found.chosen
    totals, masses = graph.law(found.chosen)
    quantile = value_at_risk(totals, level, masses)  # moved up by a share of what totals can be moved
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        b = quantile + share * graph.tolerance
        above, chosen = graph.minimise_upward(lambda totals, b=b: np.maximum(totals - b, 0.0))  # type: ignore[misc]
        if b + above / tail < best:
            best, upward, threshold = b + above / tail, chosen, b
    return found._replace(value=best, chosen=upward, threshold=threshold)


class Found(NamedTuple):
    """What was found on totals: value and gap as losses, what to do there, and its law where that is known better."""

    value: float
    gap: float
    chosen: Choices
    threshold: float | None = None
    solves: int = 1
    law: tuple[Floats, Floats] | None = None


def on_totals(mdp: TabularMDP, objective: Objective, found: Found, graph: Graph, **fields: Any) -> Policy:
    """Return the policy in the model's own sense."""
    is_share = isinstance(objective, (Exceedance, ExpectedUtility))  # whose values have no sign to turn
    totals, masses = graph.law(found.chosen) if found.law is None else found.law
    law = distribution_of(mdp, totals, masses, graph.tolerance if found.law is None else 0.0)
    return Policy(
        objective, mdp, found.value if is_share else float(mdp.signed(found.value)), found.gap, solves=found.solves,
        threshold=None if found.threshold is None else float(mdp.signed(found.threshold)), graph=graph,
        chosen=found.chosen, _law=law, **fields,
    )  # fmt: skip


def gap_of(value: float, bound: float) -> float:
    """Return how much better than ``value`` a plan may be; 0 where rounding alone is between them."""
    gap = max(0.0, value - bound)
    return 0.0 if gap <= ROUNDING * abs(value) else gap


def least_cvar(graph: Graph, level: float, limits: Limits, *, most: int = 500, tick: Tick = untold) -> Found:
    """Return the plan of least CVaR on totals that are laid out already."""
    tail, risk = 1.0 - level, CVaR(level)
    points = graph.all_totals()
    off = graph.overstated(level=level)
    limit = max(2, int(most * limits.share**0.5))
    least: dict[int, float] = {}

    def solve(index: int) -> tuple[float, int, Choices]:
        threshold = points[index]
        least[index], chosen = graph.minimise(lambda totals: np.maximum(totals - threshold, 0.0))
        tick(len(least))
        return risk.of_costs(*graph.law(chosen)), index, chosen

    def bounded(i: int, j: int) -> tuple[float, int, int]:
        a, b = float(points[i]), float(points[j])
        if j == i + 1:
            return min(a + least[i] / tail, b + least[j] / tail), i, j
        return a + least[i] - least[j] + least[j] / tail, i, j

    def is_close(gap: float) -> bool:
        # Closer than the totals are known is of no use. The scale is what the best plan can cost over the least.
        close = max(1e-6 / limits.share * (best[0] - float(points[0])), off)
        return gap <= (close if limits.tolerance is None else limits.tolerance)

    last = points.size - 1
    best = solve(0)
    intervals = []
    if last:
        best = min(best, solve(last), key=operator.itemgetter(0))
        intervals = [bounded(0, last)]
    while intervals and not is_close(best[0] - intervals[0][0]) and len(least) < limit:
        _, i, j = intervals[0]
        if j == i + 1:
            break  # the least bound is reached
        heapq.heappop(intervals)
        corner = points[i] + least[i] - least[j]  # where the two bounds on W meet
        middle = int(np.clip(np.searchsorted(points, corner), i + 1, j - 1))
        best = min(best, solve(middle), key=operator.itemgetter(0))
        heapq.heappush(intervals, bounded(i, middle))
        heapq.heappush(intervals, bounded(middle, j))
    gap = gap_of(best[0], intervals[0][0]) if intervals else 0.0
    return Found(best[0], gap + off, best[2], float(points[best[1]]), len(least))


def solve_exceedance(mdp: TabularMDP, objective: Exceedance, limits: Limits) -> Policy:
    """Return the policy of least probability of a total worse than a threshold."""
    limit, given = float(mdp.signed(objective.threshold)), objective.threshold
    with told(limits.progress, "solving for the probability", None) as tick:
        graph = reach_totals(mdp, work=limits.effort)
        least, slack = float(graph.all_totals()[0]), graph.slack(limit)
        if least - graph.tolerance > limit + slack:
            word, side = ("least", "below") if mdp.sense == "cost" else ("largest", "above")
            raise OptionError(
                f"threshold {given:g} is {side} the {word} total that any plan can have, "
                f"{float(mdp.signed(least)):g}: it is missed with certainty"
            )
        found = _least_exceedance(graph, limit, slack)
        tick(1)
    if found.value - found.gap >= 1.0 - 1e-8:
        raise OptionError(f"no plan's total can be within the threshold {given:g}: it is missed with certainty")
    return on_totals(mdp, objective, found, graph)


def _least_exceedance(graph: Graph, limit: float, slack: float) -> Found:
    def above(moved: float) -> Callable[[Floats], Floats]:
        return lambda totals: (totals > limit + slack + moved).astype(np.float64)

    if isinstance(graph, GridTotals):
        value, chosen = graph.minimise_upward(above(0.0))
        moved, doubt = graph.displaced
        bound = max(0.0, graph.minimise(above(moved))[0] - doubt)
        law = followed(graph, chosen)
        value = value if law is None else Exceedance(limit).of_costs(*law)
        return Found(value, gap_of(value, bound), chosen, limit, 1, law)
    bound, choices = graph.minimise(above(0.0))
    totals, masses = graph.law(choices)
    value = math.fsum(masses[totals > limit + slack])
    return Found(value, gap_of(value, bound), choices, limit)


def _utility_of(objective: ExpectedUtility, total: float) -> float:
    """Return what the utility says of a total, or raise ``OptionError`` with what it raised, or is no number."""
    try:
        said: Any = objective.utility(total)
    except Exception as error:
        raise OptionError(f"the utility of a total of {total:.9g} raised {type(error).__name__}: {error}") from error
    with contextlib.suppress(TypeError, ValueError):
        numbers = np.asarray(said, float).reshape(-1)
        if said is not None and numbers.size == 1:
            return float(numbers[0])
    raise OptionError(f"the utility of a total of {total:.9g} must return a number, not {short(said)}")


def solve_utility(mdp: TabularMDP, objective: ExpectedUtility, limits: Limits) -> Policy:
    """Return the policy of the best mean utility of the total; its totals must be few enough to list."""
    sign = float(mdp.signed(1.0))

    def losses(totals: Floats) -> Floats:
        worth = [_utility_of(objective, float(total)) for total in (sign * totals).tolist()]
        return sign * np.array(worth, np.float64).reshape(-1)

    with told(limits.progress, "solving for the utility", None) as tick:
        graph = reach_totals(mdp, work=limits.effort, every_action=True)  # which need not be monotone
        if isinstance(graph, GridTotals):
            raise OptionError(
                "there are too many totals to list: the expected utility is then searched, as by "
                "NluMcts(model, utility) or DistributionalMcts(model, utility); or raise effort="
            )
        for part in (graph.final, *(step.ended for step in graph.steps)):
            bad = part[~np.isfinite(losses(part))]
            if bad.size:
                raise OptionError(f"the utility is not finite on a total of {sign * float(bad[0]):.9g}")
        value, chosen = graph.minimise(losses)
        tick(1)
    return on_totals(mdp, objective, Found(sign * value, 0.0, chosen), graph)


def check_level(level: float) -> float:
    """Return a level inside (0, 1), or raise ``OptionError``."""
    try:
        return real(level, "level", low=0.0, high=1.0, ends="()")
    except OptionError as error:
        raise OptionError(
            f"{error}; it is the share of outcomes that are not the tail, 0.95 for the worst 5 % (0 would be the mean, "
            "1 the worst case: a very large beta)"
        ) from None
