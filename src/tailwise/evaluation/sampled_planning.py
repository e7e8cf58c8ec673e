"""Aims about the whole total for black boxes: plan on what was learned, then see on fresh episodes whether it holds.

The exact solvers of tables (EVaR, CVaR, nested CVaR, the probability of exceeding a budget, least mean within a risk
budget) work on a learned model too (:mod:`tailwise.planners.learned_table`). What they say there is an estimate, and
the best of many estimates is too good. So the plan is played on fresh episodes, and what those say is what counts: each
number comes with an interval, and where the two contradict each other the result says so.

A risk budget that the plan breaks in these episodes is met by planning again for a smaller one: less by as much as it
was exceeded. The last plan is then judged on other episodes than those that it was corrected by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailwise._plain import Result
from tailwise._progress import Progress, followed
from tailwise._random import Seed, seed_sequence
from tailwise._validate import integer, real
from tailwise.errors import OptionError
from tailwise.evaluation.episodes import evaluate
from tailwise.evaluation.returns import Returns
from tailwise.exact import solve
from tailwise.exact.tails import check_level
from tailwise.planners.cvar_mcts import CvarMcts
from tailwise.planners.distributional_mcts import DistributionalMcts, ErmOf
from tailwise.planners.learned_table import LearnedPolicy, learned_table
from tailwise.risk import ERM, CVaR, EVaR, Exceedance, Expectation, NestedCVaR
from tailwise.risk.intervals import Interval

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

    def act(self, state: Any, step: int, accrued: float = 0.0) -> Any:
        """Return the plan's action after ``accrued`` discounted cost (or reward) since step 0."""
        return self._policy.act(state, step, accrued)

    def __str__(self) -> str:
        lines = [
            f"take {self.label}: {self.aim} {self.value:.6g}, 90 % interval {self.interval.low:.6g} to "
            f"{self.interval.high:.6g}, mean {self.mean:.6g}, on {self.returns.episodes} fresh episodes",
            f"under what was learned: {self.believed:.6g}",
            *(f"note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)


def sampled_planning(
    model: Any,
    *,
    cvar: float | None = None,
    evar: float | None = None,
    nested_cvar: float | None = None,
    exceed: float | None = None,
    beta: float | None = None,
    within: float | None = None,
    iterations: int = 10_000,
    episodes: int = 2000,
    seed: Seed = 0,
    progress: Progress = None,
) -> SampledPlan:
    """Plan for an aim about the total of a black box, and judge the plan on fresh episodes.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem. It is sampled and nothing else.
    cvar, evar, nested_cvar : float in (0, 1), optional
        Least CVaR or EVaR of the total, or least CVaR of CVaR at every step, at this level: 0.95 for the worst 5 %.
        What is measured of a nested plan is the CVaR of its total, which it bounds.
    exceed : float, optional
        Least probability that the total exceeds this (for rewards, falls short of it).
    beta : float, optional
        With ``within``: the ERM at this level is constrained. Give one aim.
    within : float, optional
        With ``cvar`` or ``beta``: least mean such that that risk is at most this (for rewards, at least).
    iterations : int, default 10,000
        Episodes to learn from.
    episodes : int, default 2000
        Fresh episodes to judge the plan on.
    seed : None, int, SeedSequence or Generator, default 0
        Source of all randomness. Under one seed the fresh episodes of all aims meet the same random numbers.
    progress : bool or callable, optional
        True shows a bar; a function is called with (episodes done, of how many).

    Returns
    -------
    SampledPlan

    Raises
    ------
    OptionError
        If not one aim is given, a level is out of range, or under what was learned no plan keeps to the budget.

    Examples
    --------
    >>> from tailwise import domains, sampled_planning
    >>> found = sampled_planning(domains.make("grid-mdp"), exceed=8.0, iterations=3000, episodes=500)
    >>> found.label, found.interval.low <= 0.01 <= found.interval.high  # the least probability there is: 0.01
    ('right', True)
    """
    aims = {"cvar": cvar, "evar": evar, "nested_cvar": nested_cvar, "exceed": exceed, "beta": beta}
    given = [name for name, amount in aims.items() if amount is not None]
    if len(given) != 1 or (within is None and given == ["beta"]) or (within is not None and given[0] not in _RISKS):
        raise OptionError(
            "give one aim: cvar=, evar=, nested_cvar= or exceed=; or a constraint: cvar= or beta=, with within="
        )
    name, amount = given[0], real(aims[given[0]], given[0])
    learned, count = integer(iterations, "iterations", low=1), integer(episodes, "episodes", low=20)
    if name in ("cvar", "evar", "nested_cvar"):
        check_level(amount)
    attempts = _ATTEMPTS if within is not None else 0
    with followed(progress, "sampling", learned + (attempts + 1) * count) as tick:
        return _planned(model, name, amount, within, learned, count, attempts, seed, tick)


def _planned(
    model: Any,
    name: str,
    amount: float,
    within: float | None,
    iterations: int,
    count: int,
    attempts: int,
    seed: Seed,
    tick: Callable[[float], None] | None,
) -> SampledPlan:
    """Learn, solve, correct and judge; the arguments are checked, ``count`` are the fresh episodes each time."""

    def told(before: int) -> Callable[[float, Any], None] | None:
        return None if tick is None else lambda done, _: tick(before + done)

    learning, correcting, judging = seed_sequence(seed).spawn(3)
    sign = 1.0 if model.sense == "cost" else -1.0
    search = _search(model, name, amount, sign, learning)
    found = search.plan(iterations=iterations, progress=told(0))
    table = learned_table(search._search)

    def solved(budget: float | None) -> tuple[LearnedPolicy, float]:
        """Return the plan under what was learned, and what it is worth there."""
        plan: Any
        mdp = table.mdp
        if budget is not None:
            risk = CVaR(amount) if name == "cvar" else ERM(amount)
            plan = solve(mdp, Expectation().within(risk, budget), effort=_WORK)
            return LearnedPolicy(search._search, table, plan, 0, 0.0), plan.risk
        if name == "cvar":
            return found._policy, found.value
        objective = {"exceed": Exceedance, "evar": EVaR, "nested_cvar": NestedCVaR}[name](amount)
        plan = solve(mdp, objective, effort=_WORK)
        return LearnedPolicy(search._search, table, plan, 0, 0.0), float(plan.value)

    measure = _measure(name, amount)
    policy, believed = solved(within)
    notes: list[str] = []
    target = within
    for attempt in range(attempts):
        played = told(iterations + attempt * count)
        tried = evaluate(model, policy, episodes=count, seed=correcting.spawn(1)[0], progress=played)
        excess = sign * (measure(tried) - (within or 0.0))
        if excess <= 0.0:
            break
        target = (target or 0.0) - sign * excess
        try:
            policy, believed = solved(target)
        except OptionError:
            notes.append(f"no plan was learned that is safer, after {attempt} corrections")
            break
    played = told(iterations + attempts * count)
    returns = evaluate(model, policy, episodes=count, seed=judging, label="the plan", progress=played)
    value, interval = measure(returns), _interval(returns, name, amount, measure, judging.spawn(1)[0])
    is_kept = None if within is None else sign * (value - within) <= 0.0
    if within is not None and not is_kept:
        notes.append(f"the budget {within:g} is broken on fresh episodes; give more iterations, or a larger budget")
    elif within is not None and sign * ((interval.high if sign > 0.0 else interval.low) - within) > 0.0:
        notes.append(
            f"the budget {within:g} is kept on these episodes, but it lies inside the interval: give more episodes"
        )
    too_good = interval.low - believed if sign > 0.0 or name == "exceed" else believed - interval.high
    if too_good > 0.0 and within is None:
        notes.append(
            f"under what was learned it is {believed:.6g}, which fresh episodes contradict: give more iterations"
        )
    if not found.states_recur:
        notes.extend(found.notes)
    first = policy.act(model.start, 0)
    row = next(row for row in found.rows if row.action == first)
    words = _words(name, amount, model.sense)
    return SampledPlan(
        words, first, row.label, believed, value, interval, float(returns.mean), within, is_kept, tuple(notes), returns,
        policy,
    )  # fmt: skip


_RISKS = ("cvar", "beta")


def _search(model: Any, name: str, amount: float, sign: float, seed: Any) -> Any:
    """Return the planner that samples for an aim."""
    if name == "exceed":
        return DistributionalMcts(model, lambda total: float(sign * (total - amount) > 0.0) * sign, seed=seed)
    if name == "beta":
        return DistributionalMcts(model, measure=ErmOf(amount, sign), seed=seed)
    return CvarMcts(model, amount, seed=seed)


def _measure(name: str, amount: float) -> Callable[[Returns], float]:
    if name == "exceed":
        return lambda returns: float(returns.exceedance(amount))
    measure = {"evar": "evar", "beta": "erm"}.get(name, "cvar")
    return lambda returns: float(getattr(returns, measure)(amount))


def _interval(
    returns: Returns, name: str, amount: float, measure: Callable[[Returns], float], seed: np.random.SeedSequence
) -> Interval:
    """Return a 90 % interval: exact for a probability (Clopper and Pearson), else by the bootstrap."""
    if name == "exceed":
        from scipy.stats import binomtest

        times = round(measure(returns) * returns.episodes)
        found = binomtest(times, returns.episodes).proportion_ci(0.9)
        return Interval(float(found.low), float(found.high))
    if name != "evar":
        is_erm = name == "beta"
        ends = returns.interval("erm", beta=amount) if is_erm else returns.interval("cvar", level=amount)
        return Interval(float(ends[0]), float(ends[1]))
    rng, costs = np.random.default_rng(seed), returns.costs
    values = [
        measure(Returns(costs[rng.integers(costs.size, size=costs.size)], returns.sense)) for _ in range(_RESAMPLES)
    ]
    low, high = np.quantile(values, [0.05, 0.95])
    return Interval(float(low), float(high))


def _words(name: str, amount: float, sense: str) -> str:
    side = "above" if sense == "cost" else "below"
    return {
        "cvar": f"CVaR at {amount:g}",
        "evar": f"EVaR at {amount:g}",
        "nested_cvar": f"CVaR at {amount:g} (of a plan for nested CVaR)",
        "exceed": f"probability of a total {side} {amount:g}",
        "beta": f"ERM at {amount:g}",
    }[name]
