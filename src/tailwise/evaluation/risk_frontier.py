"""What each beta would do: the plans that the entropic risk finds best, from neutral to worst case, side by side.

On a table the frontier is exact: every distinct optimal policy, the betas at which it is optimal
(:mod:`tailwise.exact.intervals`) and the law of its total. On a simulator each beta is searched closed loop,
all on the same random numbers. It stands in ``evaluation`` since it needs both planners and laws.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailwise._progress import Progress, followed
from tailwise._random import Seed
from tailwise._results import MISSING, Shown, number, plain, span
from tailwise._validate import integer, real, thread_count
from tailwise.errors import OptionError
from tailwise.evaluation.episodes import evaluate
from tailwise.evaluation.returns import Returns
from tailwise.exact import (
    Policy,
    PolicyInterval,
    backward_induction,
    limit_beta,
    policy_intervals,
    return_distribution,
    solve,
)
from tailwise.exact.fixed_policies import difference
from tailwise.exact.induction import worst_case
from tailwise.exact.relevant import relevant_bounds
from tailwise.models import TabularMDP
from tailwise.models.contract import Sense
from tailwise.planners import find_planner, make_planner
from tailwise.risk import WorstCase
from tailwise.risk.distribution import Measures, ReturnDistribution

LEVELS = (0.9, 0.95, 0.99)
_CHANGE = "differs first from the line above"
_FIRST_SOLVES, _MOST_SOLVES = 9, 1000  # of a frontier without a horizon
_MOST_ATOMS = 1_000_000  # of laws whose shapes are compared, times their number
_SECONDS, _TRIAL_SECONDS = 60.0, 0.3  # of a frontier that is sampled, and of a look at how fast that goes
_MOST_EPISODES, _LEAST_EPISODES, _MOST_ITERATIONS, _LEAST_ITERATIONS = 200, 20, 1000, 50
_SCALES = (0.1, 0.3, 1.0, 3.0)  # betas times the standard deviation of the risk-neutral total


@dataclass(frozen=True, eq=False)
class FrontierPoint:
    """One plan of a frontier. All numbers are in the model's own sense.

    Attributes
    ----------
    low, high : float
        The betas at which it is optimal; equal where single betas were tried.
    beta : float
        The beta of ``erm``: inside the interval, so that another solve there finds the same policy.
    action : int or None
        First action id, from the start; None where it was searched.
    label : str
        Name of the first action.
    law : ReturnDistribution or Returns
        The plan's total: mean, std, erm, var, cvar, evar, exceedance and more.
    mean, std, erm, worst : float
        Mean and standard deviation of the total, its ERM at ``beta``, and the worst total.
    var, cvar : tuple of float
        At 90, 95 and 99 %.
    exceedance : float or None
        Probability of a total worse than the budget.
    price : float
        Mean given up per unit of 95 % CVaR saved, against the point before; NaN for the first, or where none is saved.
    dominated : bool
        Whether another point is no worse in mean and in 95 % CVaR, and better in one.
    dominated_by : str
        The first action of a point whose whole distribution is better for everyone averse to risk, with its beta; ""
        where there is none, or the distributions are samples, or too large to be compared.
    interval : tuple of (float, float) or None
        90 % interval of ``erm`` where it was sampled.
    change : str
        Where the plan first does something else than the one before, of the places that one comes to; "" if not known.
    """

    low: float
    high: float
    beta: float
    action: int | None
    label: str
    law: Measures
    mean: float
    std: float
    erm: float
    worst: float
    var: tuple[float, ...]
    cvar: tuple[float, ...]
    exceedance: float | None
    price: float = math.nan
    dominated: bool = False
    dominated_by: str = ""
    interval: tuple[float, float] | None = None
    change: str = ""


@dataclass(frozen=True, eq=False)
class Frontier(Shown):
    """The plans for a range of betas, in order of beta.

    Attributes
    ----------
    points : tuple of FrontierPoint
        One per distinct plan.
    sense : "cost" or "reward"
        What the totals are.
    budget : float or None
        The total of ``exceedance``.
    exact : bool
        Whether laws and intervals of beta are exact; False for a simulator.
    certified : bool
        Whether no policy can have been missed between the betas that were solved.
    iterations : int or None
        Of each decision, where they were searched.
    """

    points: tuple[FrontierPoint, ...]
    sense: Sense
    budget: float | None
    exact: bool
    certified: bool
    iterations: int | None = None

    @property
    def episodes(self) -> int | None:
        """Played of each point, where they were sampled."""
        sample = self.points[0].law
        return sample.episodes if isinstance(sample, Returns) else None

    @property
    def switches(self) -> tuple[float, ...]:
        """The betas at which the *first action* changes."""
        pairs = zip(self.points, self.points[1:], strict=False)
        return tuple(after.low for before, after in pairs if before.label != after.label)

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The points as a table of texts, by heading."""
        columns: dict[str, list[str]] = {}
        for point in self.points:
            cells = {
                "first action": point.label + (" (dominated)" if point.dominated or point.dominated_by else ""),
                "beta": span(point.low, point.high, 7), "mean": number(point.mean), "std": number(point.std),
                "ERM": number(point.erm),
                **{f"CVaR {100 * level:g} %": number(tail) for level, tail in zip(LEVELS, point.cvar, strict=True)},
                "worst": number(point.worst),
                **({} if self.budget is None else {"worse than budget": number(point.exceedance)}),
                "price": number(point.price),
                **({_CHANGE: point.change or MISSING} if any(one.change for one in self.points) else {}),
            }  # fmt: skip
            for name, cell in cells.items():
                columns.setdefault(name, []).append(cell)
        return {name: tuple(cells) for name, cells in columns.items()}

    @property
    def in_words(self) -> tuple[str, ...]:
        """What the frontier says, and how sure it is, in sentences."""
        said = ["The first action is the same throughout."]
        if self.switches:
            said = [f"The first action changes at beta = {', '.join(f'{beta:.8g}' for beta in self.switches)}."]
        said.append(
            "price: mean given up per unit of 95 % CVaR saved, against the line above. ERM is at the interval's lower "
            "end."
        )
        said += [
            f"By shape {point.dominated_by} dominates {point.label} at beta {point.beta:.4g}: nobody averse to risk "
            "prefers the latter."
            for point in self.points
            if point.dominated_by
        ]
        if not self.exact:
            said.append(
                f"Sampled: {self.episodes:,} episodes of each beta were played in closed loop, with "
                f"{self.iterations:,} iterations a decision, on common random numbers; all numbers are uncertain (see "
                "to_dict for 90 % intervals of the ERM). More episodes and iterations make them surer."
            )
        elif not self.certified:
            said.append(
                "More plans may be optimal on short intervals in between: the betas that were solved do not exclude it."
            )
        return tuple(said)

    def to_dict(self) -> dict[str, object]:
        """Return everything but the distributions as plain values, ready for ``json.dumps``."""
        points = [{name: plain(value) for name, value in vars(p).items() if name != "law"} for p in self.points]
        found = {name: plain(getattr(self, name)) for name in ("sense", "exact", "certified", "budget", "switches")}
        return {**found, "points": points}

    def at(self, beta: float) -> FrontierPoint:
        """Return the point for a beta: the one whose interval holds it, or the nearest."""
        level = real(beta, "beta")
        return min(self.points, key=lambda point: max(point.low - level, level - point.high, 0.0))


def frontier(
    model: Any,
    betas: str | Sequence[float] = "auto",
    *,
    budget: float | None = None,
    tolerance: float = 1e-8,
    kind: str = "auto",
    episodes: int | None = None,
    iterations: int | None = None,
    seed: Seed = 0,
    threads: int = 1,
    progress: Progress = None,
) -> Frontier:
    """Lay out what each beta would do.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    betas : "auto" or sequence of float, default "auto"
        Increasing betas. On a table the frontier runs from the first to the last and finds every change between; on a
        simulator these are the betas that are searched. "auto" runs from 0 to where the risk is nearly that of the
        worst case (tables), or to three over the standard deviation of the risk-neutral total (simulators).
    budget : float, optional
        A total; adds the probability of doing worse.
    tolerance : float, default 1e-8
        How exactly the betas of change are found, relative.
    kind : str, default "auto"
        On simulators, a name of :func:`tailwise.planners.list_planners`.
    episodes, iterations : int, optional
        On simulators, as for :func:`tailwise.evaluate`; 200 and 1000 if not given, or fewer (at least 20 and 50) where
        those would take much more than a minute.
    seed
        As for :func:`tailwise.evaluate`. Every beta meets the same random numbers.
    threads : int, default 1
        Threads of each exact solve, or of the episodes of a compiled simulator; they do not change the result. Models
        in plain Python keep to one, and the ``notes`` of each point's sample say so.
    progress : bool or callable, optional
        True shows a bar; a function is called with (betas solved, None) on a table, and with (episodes played, of how
        many) on a simulator.

    Returns
    -------
    Frontier
        The distinct plans, in order of beta.

    Raises
    ------
    OptionError
        If betas do not increase.

    Examples
    --------
    >>> from tailwise import domains, frontier
    >>> found = frontier(domains.make("grid-mdp"), [0.0, 0.05])
    >>> [point.label for point in found.points], [round(beta, 8) for beta in found.switches]
    (['up', 'right'], [0.03402361])
    """
    wanted = _checked(betas) if isinstance(betas, (Sequence, np.ndarray)) and not isinstance(betas, str) else None
    if wanted is None and not (isinstance(betas, str) and betas == "auto"):
        raise OptionError(f"betas must be 'auto' or increasing numbers, not {betas!r}")
    limit = None if budget is None else real(budget, "budget")
    for size, name in ((episodes, "episodes"), (iterations, "iterations")):  # wrong on a table too, which needs neither
        if size is not None:
            integer(size, name, low=1)
    if kind != "auto":
        find_planner(kind)
    if isinstance(model, TabularMDP):
        with followed(progress, "solving for each beta", None) as tick:
            if model.horizon is None:
                found = _endless_points(model, wanted, tolerance, limit, tick)
                return Frontier(_compared(found, model.sense), model.sense, limit, True, False)
            found, certified = _exact_points(model, wanted, tolerance, limit, thread_count(threads), tick)
        return Frontier(_compared(found, model.sense), model.sense, limit, True, certified)
    number = 1 + len(_SCALES) + 1 if wanted is None else len(wanted)
    episodes, iterations = _affordable(model, kind, number, episodes, iterations)
    options = {"episodes": episodes, "iterations": iterations, "seed": seed, "threads": threads}
    with followed(progress, "playing each beta", number * episodes) as tick:
        found = _sampled_points(model, wanted, kind, limit, options, tick)
    return Frontier(_compared(found, model.sense), model.sense, limit, False, False, iterations)


def _checked(betas: Sequence[float]) -> list[float]:
    """Return increasing betas, or raise."""
    levels = [real(beta, f"betas[{k}]") for k, beta in enumerate(betas)]
    if not levels:
        raise OptionError("betas is empty; give at least one, or 'auto'")
    for k in range(1, len(levels)):
        if levels[k - 1] >= levels[k]:
            raise OptionError(f"betas must increase: betas[{k}] = {levels[k]:g} comes after {levels[k - 1]:g}")
    return levels


def _exact_points(
    mdp: TabularMDP,
    betas: list[float] | None,
    tolerance: float,
    budget: float | None,
    threads: int,
    tick: Callable[[float], None] | None,
) -> tuple[list[FrontierPoint], bool]:
    if betas is None:
        betas = [0.0, _largest_beta(mdp, threads)]
    if len(betas) == 1:
        pieces = [PolicyInterval(betas[0], betas[0], backward_induction(mdp, betas[0], threads=threads), True)]
    else:
        pieces = [
            piece
            for low, high in itertools.pairwise(betas)
            for piece in policy_intervals(
                mdp,
                low,
                high,
                tolerance=tolerance,
                threads=threads,
                progress=None if tick is None else lambda done, _: tick(done),
            )
        ]
    points: list[FrontierPoint] = []
    before: Policy | None = None
    for piece in pieces:
        law = return_distribution(mdp, piece.solution, tolerance=None)
        last = points[-1] if points else None
        if last is not None and _same(last, law, mdp.action_name(piece.solution.action)):
            points[-1] = replace(last, high=piece.high)
            continue
        solution = piece.solution
        label = mdp.action_name(solution.action)
        point = _point(law, piece.low, piece.high, solution.beta, solution.action, label, budget)
        points.append(point if before is None else replace(point, change=difference(mdp, before, solution)))
        before = solution
    return points, all(piece.certified for piece in pieces)


def _endless_points(
    mdp: TabularMDP,
    betas: list[float] | None,
    tolerance: float,
    budget: float | None,
    tick: Callable[[float], None] | None,
) -> list[FrontierPoint]:
    """Return the plans without a horizon, by solving where the policies at two betas differ, until those are close."""
    found: dict[float, Policy] = {}

    def at(beta: float) -> Policy:
        if beta not in found:
            found[beta] = solve(mdp, beta)
            if tick is not None:
                tick(len(found))
        return found[beta]

    if betas is None:
        betas = [0.0, _largest_endless_beta(mdp, at)]
    if len(betas) == 2:
        betas = np.linspace(betas[0], betas[1], _FIRST_SOLVES).tolist()
    gaps = list(itertools.pairwise(betas))
    at(betas[0])
    while gaps and len(found) < _MOST_SOLVES:
        low, high = gaps.pop()
        middle = 0.5 * (low + high)
        if not _alike(at(low), at(high)) and high - low > tolerance * max(abs(low), abs(high)) and low < middle < high:
            gaps += [(low, middle), (middle, high)]
    points: list[FrontierPoint] = []
    last: Policy | None = None
    for beta in sorted(found):
        policy = found[beta]
        if last is not None and _alike(last, policy):
            points[-1] = replace(points[-1], high=beta)
            continue
        if points:
            points[-1] = replace(points[-1], high=beta)
        last = policy
        label = mdp.action_name(policy.action)
        points.append(_point(policy.distribution(), beta, beta, beta, policy.action, label, budget))
    return points


def _alike(first: Policy, second: Policy) -> bool:
    """Whether two policies without a horizon do the same in every state at every step."""
    one, other = first.policy, second.policy
    places = np.arange(max(len(one), len(other)))
    return np.array_equal(one[np.minimum(places, len(one) - 1)], other[np.minimum(places, len(other) - 1)])


def _largest_endless_beta(mdp: TabularMDP, at: Callable[[float], Policy]) -> float:
    """Return a beta near that from which on the total is infinite, or one at which it is nearly the worst case."""
    if mdp.discount == 1.0:
        limit = float(limit_beta(mdp))
        if math.isfinite(limit):
            return 0.95 * limit
    neutral, worst = at(0.0).value, solve(mdp, WorstCase()).value
    beta = 1.0 / max(float(np.abs(mdp.losses).max()), 1e-300)
    while abs(at(beta).value - neutral) < 0.99 * abs(worst - neutral) and beta < 1e200:
        beta *= 2.0
    return beta


def _largest_beta(mdp: TabularMDP, threads: int) -> float:
    """Return a beta at which the optimal risk has come within 1 % of its way to the worst case."""
    low, high = relevant_bounds(mdp)
    if high <= low:
        return 1.0

    def optimum(beta: float) -> float:
        return backward_induction(mdp, beta, threads=threads).value

    neutral, worst = optimum(0.0), worst_case(mdp).value
    beta = 1.0 / (high - low)
    while abs(optimum(beta) - neutral) < 0.99 * abs(worst - neutral):
        beta *= 2.0
    return beta


def _same(point: FrontierPoint, law: ReturnDistribution, label: str) -> bool:
    """Whether a policy does what the point's does: the same first action and the same law."""
    known = point.law
    return (
        isinstance(known, ReturnDistribution)
        and point.label == label
        and known.costs.size == law.costs.size
        and np.allclose(known.costs, law.costs, rtol=1e-12, atol=1e-15 * float(np.abs(law.costs).max()))
        and np.allclose(known.probabilities, law.probabilities, rtol=1e-9, atol=1e-15)
    )


def _affordable(model: Any, kind: str, betas: int, episodes: int | None, iterations: int | None) -> tuple[int, int]:
    """Return numbers of episodes and iterations: those that were given, or so many that all take about a minute."""
    most = [_MOST_EPISODES, _MOST_ITERATIONS]
    given = [
        None if number is None else integer(number, name, low=1)
        for number, name in ((episodes, "episodes"), (iterations, "iterations"))
    ]
    planner: Any = make_planner(model, 0.0, kind=kind, seed=0)
    if None not in given or hasattr(planner, "fixed_policy"):
        return (given[0] or most[0], given[1] or most[1])
    planner.plan(iterations=1)  # what is compiled does not count
    begun = time.perf_counter()
    trial = planner.plan(iterations=_MOST_ITERATIONS, seconds=_TRIAL_SECONDS)
    pace = max(1, getattr(trial, "iterations", 1)) / max(time.perf_counter() - begun, 1e-9)
    decisions = betas * int(planner.model.horizon) / 2  # later ones look less far
    share = _SECONDS * pace / decisions / ((given[0] or most[0]) * (given[1] or most[1]))
    share = min(1.0, share ** (1.0 / given.count(None)))
    found = [
        number or max(least, int(share * usual))
        for number, least, usual in zip(given, (_LEAST_EPISODES, _LEAST_ITERATIONS), most, strict=True)
    ]
    return found[0], found[1]


def _sampled_points(
    model: Any,
    betas: list[float] | None,
    kind: str,
    budget: float | None,
    options: dict[str, Any],
    tick: Callable[[float], None] | None,
) -> list[FrontierPoint]:
    played = 0

    def play(beta: float) -> Returns:
        nonlocal played
        before, played = played, played + options["episodes"]
        told = None if tick is None else lambda done, _: tick(before + done)
        return evaluate(model, make_planner(model, beta, kind=kind, seed=options["seed"]), progress=told, **options)

    if betas is None:
        spread = play(0.0).std
        betas = [0.0, *((scale / spread for scale in _SCALES) if spread > 0.0 else ())]
    points = []
    for beta in betas:
        returns = play(beta)
        first = make_planner(model, beta, kind=kind, seed=options["seed"]).plan(iterations=options["iterations"])
        ends = returns.interval("erm", beta=beta)
        point = _point(returns, beta, beta, beta, None, first.label, budget)
        points.append(replace(point, interval=(float(ends[0]), float(ends[1]))))
    return points


def _point(
    law: Measures, low: float, high: float, beta: float, action: int | None, label: str, budget: float | None
) -> FrontierPoint:
    return FrontierPoint(
        low=low,
        high=high,
        beta=beta,
        action=action,
        label=label,
        law=law,
        mean=law.mean,
        std=law.std,
        erm=law.erm(beta),
        worst=law.maximum if law.sense == "cost" else law.minimum,
        var=tuple(map(law.var, LEVELS)),
        cvar=tuple(map(law.cvar, LEVELS)),
        exceedance=None if budget is None else law.exceedance(budget),
    )


def _compared(points: list[FrontierPoint], sense: Sense) -> tuple[FrontierPoint, ...]:
    """Add what the tail costs, and who is dominated."""
    sign = 1.0 if sense == "cost" else -1.0
    costs = [(sign * point.mean, sign * point.cvar[1]) for point in points]
    spans = [max(part) - min(part) for part in zip(*costs, strict=True)]
    slack = max(1e-12 * abs(x) for pair in costs for x in pair) + 1e-9 * min(spans)
    compared = []
    for k, (mean, tail) in enumerate(costs):
        dominated = any(
            m <= mean + slack and t <= tail + slack and (m < mean - slack or t < tail - slack) for m, t in costs
        )
        saved = costs[k - 1][1] - tail if k else 0.0
        price = (mean - costs[k - 1][0]) / saved if saved > slack else math.nan
        compared.append(replace(points[k], price=price, dominated=dominated, dominated_by=_better_by_shape(points, k)))
    return tuple(compared)


def _better_by_shape(points: list[FrontierPoint], k: int) -> str:
    """Return which point dominates the k-th one, whatever the aversion to risk."""
    if isinstance(points[k].law, Returns):  # of samples it may be no more than luck
        return ""
    if len(points) * sum(point.law.weighted()[0].size for point in points) > _MOST_ATOMS:
        return ""
    found = next((one for one in points if one is not points[k] and one.law.dominates(points[k].law)), None)
    return "" if found is None else f"{found.label} at beta {found.beta:.4g}"
