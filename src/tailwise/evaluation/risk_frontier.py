"""What each beta would do: the plans that the entropic risk finds best, from neutral to worst case, side by side.

On a table, or a simulator that is solved as one, the frontier is exact: every distinct optimal policy, the betas at
which it is optimal (:mod:`tailwise.exact.intervals`) and the law of its total. On another simulator each beta is
searched closed loop, all on the same random numbers. It stands in ``evaluation`` since it needs both planners and laws.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tailwise._progress import Progress, Tick, after, followed
from tailwise._random import Seed, seed_sequence
from tailwise._validate import integer, real, thread_count
from tailwise.errors import OptionError
from tailwise.evaluation.episodes import evaluate
from tailwise.evaluation.frontier_points import Frontier, FrontierPoint, compared, point_of
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
from tailwise.exact.fixed_policies import difference, policy_rows
from tailwise.exact.induction import worst_case
from tailwise.exact.reachability import relevant_bounds
from tailwise.exact.sweeps import row_worst
from tailwise.models import TabularMDP, tabulate
from tailwise.models.check import require_model
from tailwise.models.simulator import lists_outcomes
from tailwise.planners import find_planner, make_planner
from tailwise.planners.make import choose_kind
from tailwise.risk import WorstCase
from tailwise.risk.distribution import ReturnDistribution

_FIRST_SOLVES, _MOST_SOLVES = 9, 1000  # of a frontier without a horizon
_SECONDS, _TRIAL_SECONDS = 60.0, 0.3  # of a frontier that is sampled, and of a look at how fast that goes
_MOST_EPISODES, _LEAST_EPISODES, _MOST_ITERATIONS, _LEAST_ITERATIONS = 200, 20, 1000, 50
_MOST_ATOMS, _LEAST_MOST, _ALL_ATOMS = 200_000, 30_000, 3_000_000  # of the exact law of each plan, and of all
_SCALES = (0.1, 0.3, 1.0, 3.0)  # betas times the standard deviation of the risk-neutral total


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
        Increasing betas. On a table, and on a simulator that ``kind`` solves as one, the frontier runs from the first
        to the last and finds every change between; on another simulator these are the betas that are searched. "auto"
        runs from 0 to where risk and worst total are nearly those of the worst case (tables), or to three over the
        standard deviation of the risk-neutral total (simulators).
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
    wanted = checked_betas(betas) if isinstance(betas, (Sequence, np.ndarray)) and not isinstance(betas, str) else None
    if wanted is None and not (isinstance(betas, str) and betas == "auto"):
        raise OptionError(f"betas must be 'auto' or increasing numbers, not {betas!r}")
    limit = None if budget is None else real(budget, "budget")
    for size, name in ((episodes, "episodes"), (iterations, "iterations")):  # wrong on a table too, which needs neither
        if size is not None:
            integer(size, name, low=1)
    slack, threads = real(tolerance, "tolerance", low=0.0), thread_count(threads)
    if not isinstance(seed, np.random.Generator):  # which asking would move
        seed_sequence(seed)
    if not (isinstance(kind, str) and kind == "auto"):
        find_planner(kind)
    if not isinstance(model, TabularMDP) and lists_outcomes(model):
        require_model(model, endless=True)
        if kind == "exact" or (kind == "auto" and choose_kind(model, 0.0)[0].name == "exact"):
            model = tabulate(model)
    if isinstance(model, TabularMDP):
        with followed(progress, "solving for each beta", None) as tick:
            if model.horizon is None:
                found = _endless_points(model, wanted, slack, limit, tick)
                return Frontier(compared(found, model.sense), model.sense, limit, True, False)
            found, certified = _exact_points(model, wanted, slack, limit, threads, tick)
        return Frontier(compared(found, model.sense), model.sense, limit, True, certified)
    number = 1 + len(_SCALES) + 1 if wanted is None else len(wanted)
    episodes, iterations = _affordable(model, kind, number, episodes, iterations)
    options = {"episodes": episodes, "iterations": iterations, "seed": seed, "threads": threads}
    with followed(progress, "playing each beta", number * episodes) as tick:
        found = _sampled_points(model, wanted, kind, limit, options, tick)
    return Frontier(compared(found, model.sense), model.sense, limit, False, False, iterations)


def checked_betas(betas: Sequence[float]) -> list[float]:
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
    tick: Tick,
) -> tuple[list[FrontierPoint], bool]:
    if betas is None:
        betas = [0.0, _largest_beta(mdp, threads)]
    if len(betas) == 1:
        pieces = [PolicyInterval(betas[0], betas[0], backward_induction(mdp, betas[0], threads=threads), True)]
    else:
        pieces = [
            piece
            for low, high in itertools.pairwise(betas)
            for piece in policy_intervals(mdp, low, high, tolerance=tolerance, threads=threads, progress=after(0, tick))
        ]
    most = min(_MOST_ATOMS, max(_LEAST_MOST, _ALL_ATOMS // len(pieces)))
    points: list[FrontierPoint] = []
    before: Policy | None = None
    for piece in pieces:
        solution = piece.solution
        law = return_distribution(mdp, solution, tolerance=None, max_atoms=most)
        label = mdp.action_name(solution.action)
        if points and _same(points[-1], law, label):
            points[-1] = replace(points[-1], high=piece.high)
            continue
        point = point_of(law, piece.low, piece.high, solution.beta, solution.action, label, budget)
        points.append(point if before is None else replace(point, change=difference(mdp, before, solution)))
        before = solution
    return points, all(piece.certified for piece in pieces)


def _endless_points(
    mdp: TabularMDP,
    betas: list[float] | None,
    tolerance: float,
    budget: float | None,
    tick: Tick,
) -> list[FrontierPoint]:
    """Return the plans without a horizon, by solving where the policies at two betas differ, until those are close."""
    found: dict[float, Policy] = {}

    def at(beta: float) -> Policy:
        if beta not in found:
            found[beta] = solve(mdp, beta)
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
        if points:
            points[-1] = replace(points[-1], high=beta)
        if last is not None and _alike(last, policy):
            continue
        last = policy
        label = mdp.action_name(policy.action)
        points.append(point_of(policy.distribution(), beta, beta, beta, policy.action, label, budget))
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
    first = 1.0 / max(float(np.abs(mdp.losses).max()), 1e-300)
    return _near_worst(lambda beta: at(beta).value, solve(mdp, WorstCase()).value, first)


def _largest_beta(mdp: TabularMDP, threads: int) -> float:
    """Return a beta at which risk and worst total of the best plan are within 1 % of their way to the worst case."""
    low, high = relevant_bounds(mdp)
    if high <= low:
        return 1.0

    def at(beta: float) -> Policy:
        return backward_induction(mdp, beta, threads=threads)

    worst = worst_case(mdp).value
    beta = _near_worst(lambda beta: at(beta).value, worst, 1.0 / (high - low))
    slack = 0.01 * abs(worst - at(0.0).value) + 1e-9 * (high - low)
    while abs(_worst_total(mdp, at(beta)) - worst) > slack and beta < 1e200:
        beta *= 2.0
    return beta


def _worst_total(mdp: TabularMDP, policy: Policy) -> float:
    """Return the worst total that a policy can come to, in the model's sense. O(H * outcomes)."""
    rows, values = policy_rows(mdp, policy), mdp.terminal_losses
    for h in range(mdp.horizon - 1, -1, -1):
        values = np.where(rows[h] < 0, np.inf, row_worst(mdp, h, values, values)[0][rows[h]])
    return float(mdp.signed(values[mdp.start]))


def _near_worst(optimum: Callable[[float], float], worst: float, beta: float) -> float:
    """Return the first of ``beta`` times 1, 2, 4, ... whose optimum is near the worst case's."""
    neutral = optimum(0.0)
    while abs(optimum(beta) - neutral) < 0.99 * abs(worst - neutral) and beta < 1e200:
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
    most, given = [_MOST_EPISODES, _MOST_ITERATIONS], [episodes, iterations]
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
    tick: Tick,
) -> list[FrontierPoint]:
    played = 0

    def play(beta: float) -> Returns:
        nonlocal played
        before, played = played, played + options["episodes"]
        player = make_planner(model, beta, kind=kind, seed=options["seed"])
        return evaluate(model, player, progress=after(before, tick), **options)

    if betas is None:
        spread = play(0.0).std
        betas = [0.0, *((scale / spread for scale in _SCALES) if spread > 0.0 else ())]
    points = []
    for beta in betas:
        returns = play(beta)
        first = make_planner(model, beta, kind=kind, seed=options["seed"]).plan(iterations=options["iterations"])
        ends = returns.interval("erm", beta=beta)
        point = point_of(returns, beta, beta, beta, None, first.label, budget)
        points.append(replace(point, interval=(float(ends[0]), float(ends[1]))))
    return points
