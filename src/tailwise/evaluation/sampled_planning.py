"""Aims about the whole total for black boxes: plan on what was learned, then see on fresh episodes whether it holds.

The exact solvers of tables (EVaR, CVaR, nested CVaR, the probability of exceeding a budget, least mean within a risk
budget) work on a learned model too (``LearnedSearch.table``). What they say there is an estimate, and the best of many
estimates is too good. So the plan is played on fresh episodes, and what those say is what counts: each number comes
with an interval, and where the two contradict each other the result says so.

A risk budget that the plan breaks in these episodes is met by planning again for a smaller one: less by as much as it
was exceeded. The last plan is then judged on other episodes than those that it was corrected by.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailwise._progress import Progress, Tick, after, followed
from tailwise._random import Seed, seed_sequence
from tailwise._results import Result, amount, number
from tailwise._validate import integer
from tailwise.errors import OptionError
from tailwise.evaluation.episodes import evaluate
from tailwise.evaluation.returns import Returns
from tailwise.exact import solve
from tailwise.models.check import require_model
from tailwise.planners.distributional_mcts import DistributionalMcts
from tailwise.risk.measures import Interval
from tailwise.risk.objectives import (
    ERM,
    Budgeted,
    CVaR,
    EVaR,
    Exceedance,
    Expectation,
    NestedCVaR,
    Objective,
    as_objective,
)
from tailwise.search import Plan
from tailwise.search.learned import LearnedPolicy

_WORK = 0.02
_RESAMPLES = 400
_ATTEMPTS = 3


@dataclass(frozen=True, eq=False)
class SampledPlan(Result):
    """A plan for an aim, made on a learned model and judged on fresh episodes. Numbers are in the model's own sense.

    Attributes
    ----------
    aim : str
        What is made least (for rewards: largest), or constrained, in words.
    action, label : object, str
        First action, and its name.
    believed : float
        The aim's value under what was learned: an estimate that is too good.
    value : float
        The same on fresh episodes: an estimate without bias, or nearly.
    interval : Interval
        90 % bootstrap interval of it. It knows nothing of disasters that did not occur.
    mean : float
        Mean of the total on fresh episodes.
    within : float or None
        The risk budget.
    is_kept : bool or None
        Whether the risk on fresh episodes keeps to the budget; None without one.
    notes : tuple of str
        What the user should know, first of all where belief and episodes contradict each other.
    returns : Returns
        The fresh episodes.
    """

    aim: str
    action: Any
    label: str
    believed: float
    value: float
    interval: Interval
    mean: float
    within: float | None
    is_kept: bool | None
    notes: tuple[str, ...]
    returns: Returns = field(repr=False)
    _policy: LearnedPolicy = field(repr=False)

    def act(self, state: Any, step: int, accrued: float = 0.0) -> object:
        """Return the plan's action after ``accrued`` discounted cost (or reward) since step 0."""
        return self._policy.act(state, step, accrued)

    def __str__(self) -> str:
        lines = [
            f"take {self.label}: {self.aim} {amount(number(self.value))}, 90 % interval {number(self.interval.low)} to "
            f"{number(self.interval.high)}, mean {number(self.mean)}, on {self.returns.episodes:,} fresh episodes",
            f"under what was learned: {number(self.believed)}",
            *(f"note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)


def sampled_planning(
    model: Any,
    objective: Objective | float,
    *,
    iterations: int = 10_000,
    episodes: int = 2000,
    seed: Seed = 0,
    progress: Progress = None,
) -> SampledPlan:
    """Plan for an objective of the total of a black box, and judge the plan on fresh episodes.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem. It is sampled and nothing else.
    objective : Objective or float
        What is wanted of the total, as ``CVaR(0.95)`` or ``Exceedance(30)``, or the least mean within a risk budget:
        ``Expectation().within(CVaR(0.95), 40)``, of an ERM or a CVaR. A number is the beta of an ERM. What is measured
        of a plan for the nested CVaR is the CVaR of its total.
    iterations : int, default 10,000
        Episodes to learn from.
    episodes : int, default 2000
        Fresh episodes to judge the plan on.
    seed : None, int, SeedSequence or Generator, default 0
        Source of all randomness. Under one seed the fresh episodes of all objectives meet the same random numbers.
    progress : bool or callable, optional
        True shows a bar; a function is called with (episodes done, of how many).

    Returns
    -------
    SampledPlan

    Raises
    ------
    OptionError
        If the objective is none of these, or under what was learned no plan keeps to the budget.

    Examples
    --------
    >>> from tailwise import Exceedance, domains, sampled_planning
    >>> found = sampled_planning(domains.make("grid-mdp"), Exceedance(8.0), iterations=3000, episodes=500)
    >>> found.label, found.interval.low <= 0.01 <= found.interval.high  # the least probability there is: 0.01
    ('right', True)
    """
    require_model(model, endless=True)
    wanted = as_objective(objective)
    budget = wanted if isinstance(wanted, Budgeted) else None
    if budget is not None and not (isinstance(budget.objective, Expectation) and isinstance(budget.risk, (ERM, CVaR))):
        raise OptionError(f"a budget is for the mean, within an ERM or a CVaR; not for: {budget.words}")
    learned, count = integer(iterations, "iterations", low=1), integer(episodes, "episodes", low=20)
    attempts = 0 if budget is None else _ATTEMPTS
    with followed(progress, "sampling", learned + (attempts + 1) * count) as tick:
        return _planned(model, wanted, learned, count, seed, tick)


def _planned(model: Any, wanted: Objective, iterations: int, count: int, seed: Seed, tick: Tick) -> SampledPlan:
    """Learn, solve, correct and judge; the arguments are checked, ``count`` are the fresh episodes each time."""
    budget = wanted if isinstance(wanted, Budgeted) else None
    attempts = 0 if budget is None else _ATTEMPTS

    def played(policy: Any, before: int, seed: Any) -> Returns:
        return evaluate(model, policy, episodes=count, seed=seed, label="the plan", progress=after(before, tick))

    learning, correcting, judging = seed_sequence(seed).spawn(3)
    sign = 1.0 if model.sense == "cost" else -1.0
    measure = budget.risk if budget is not None else wanted
    if isinstance(wanted, NestedCVaR):
        measure = CVaR(wanted.level)
    search = DistributionalMcts(model, measure, seed=learning)
    found = search.plan(iterations=iterations, progress=after(0, tick))
    within = None if budget is None else budget.bound
    policy, believed = _solved(search, found, wanted, within)
    notes: list[str] = []
    target = within
    for attempt in range(attempts):
        tried = played(policy, iterations + attempt * count, correcting.spawn(1)[0])
        excess = sign * (tried.risk(measure) - (within or 0.0))
        if excess <= 0.0:
            break
        target = (target or 0.0) - sign * excess
        try:
            policy, believed = _solved(search, found, wanted, target)
        except OptionError:
            notes.append(f"no plan was learned that is safer, after {attempt} corrections")
            break
    returns = played(policy, iterations + attempts * count, judging)
    value, interval = returns.risk(measure), _interval(returns, measure, judging.spawn(1)[0])
    is_kept = None if within is None else sign * (value - within) <= 0.0
    if within is not None and not is_kept:
        notes.append(f"the budget {within:g} is broken on fresh episodes; give more iterations, or a larger budget")
    elif within is not None and sign * ((interval.high if sign > 0.0 else interval.low) - within) > 0.0:
        notes.append(
            f"the budget {within:g} is kept on these episodes, but it lies inside the interval: give more episodes"
        )
    less_is_better = sign > 0.0 or isinstance(measure, Exceedance)
    if within is None and (interval.low - believed if less_is_better else believed - interval.high) > 0.0:
        notes.append(
            f"under what was learned it is {believed:.6g}, which fresh episodes contradict: give more iterations"
        )
    if not found.states_recur:
        notes.extend(found.notes)
    first = policy.act(model.start, 0)
    words = measure.words + (" (of a plan for nested CVaR)" if isinstance(wanted, NestedCVaR) else "")
    return SampledPlan(
        words, first, found.row(first).label, believed, value, interval, float(returns.mean), within, is_kept,
        tuple(notes), returns, policy,
    )  # fmt: skip


def _solved(
    search: DistributionalMcts, found: Plan, wanted: Objective, bound: float | None
) -> tuple[LearnedPolicy, float]:
    """Return the plan under what was learned, and what it is worth there."""
    if not isinstance(wanted, (Budgeted, EVaR, Exceedance, NestedCVaR)):
        return found.policy, found.value
    table = search.search.table()
    exact = wanted.objective.within(wanted.risk, bound or 0.0) if isinstance(wanted, Budgeted) else wanted
    policy = solve(table.mdp, exact, effort=_WORK)

    def decide(state: int, step: int, paid: float) -> int:
        return int(policy.act(state, step, float(table.mdp.signed(paid))))

    worth = policy.value if policy.risk is None else policy.risk
    return LearnedPolicy(table, decide, 0, 0.0), float(worth)


def _interval(returns: Returns, measure: Objective, seed: np.random.SeedSequence) -> Interval:
    """Return a 90 % interval: exact for a probability (Clopper and Pearson), else by the bootstrap."""
    if isinstance(measure, Exceedance):
        from scipy.stats import binomtest

        times = round(returns.risk(measure) * returns.episodes)
        found = binomtest(times, returns.episodes).proportion_ci(0.9)
        return Interval(float(found.low), float(found.high))
    if isinstance(measure, ERM):
        return Interval(*map(float, returns.interval("erm", beta=measure.beta)))
    if isinstance(measure, CVaR):
        return Interval(*map(float, returns.interval("cvar", level=measure.level)))
    rng, costs = np.random.default_rng(seed), returns.costs
    again = (costs[rng.integers(costs.size, size=costs.size)] for _ in range(_RESAMPLES))
    low, high = np.quantile([measure.of(totals, sense=returns.sense) for totals in again], [0.05, 0.95])
    return Interval(float(low), float(high))
