r"""Distributional MCTS: the whole law of the total at each action, and Thompson sampling by the bootstrap.

After Hayes, Reymond, Roijers, Howley & Mannion (2023), the other algorithm that the paper compares itself to in words.
The tree is over (state, accrued cost). Each action of a node keeps the totals of the episodes that went through it, in
J bootstrap replicates: every total enters each replicate or not, by a coin of its own (a running bootstrap). An action
is chosen by drawing one replicate per action and taking the best: the replicates disagree where little is known, and
exploration dies out where they agree. No constant is to be tuned. A bootstrap of one sample knows no doubt, so that
every replicate holds one made-up total besides: half of them the least that was seen so far, half the largest.

What "best" means is a *utility* of the total, whose mean counts (replicates are then two running sums), or any
*measure* of a sample of totals, CVaR for one (replicates are then subsets, and a choice costs time in proportion to
them). Below the root a measure is applied to the totals of whole episodes, given how the node was reached: for a
measure that is no mean of a utility this is a heuristic.

It runs in Python, on tables and simulators alike: tens of microseconds a step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tailwise._progress import PlanProgress, followed_plan
from tailwise._random import Seed, seed_sequence
from tailwise._validate import integer, real
from tailwise.errors import OptionError
from tailwise.models.accrued import AccruedTable
from tailwise.planners.registry import register_planner
from tailwise.planners.utility_search import accrued_view
from tailwise.risk import conditional_value_at_risk, erm
from tailwise.search import StopReason

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DistributionalRow:
    """One action at the root. Numbers are in the model's own sense.

    Attributes
    ----------
    action, label : object, str
        The action and its name.
    visits : int
        Episodes through it.
    value : float
        Mean utility, or measure, of ``totals``; NaN if it was never taken.
    totals : ndarray of float64
        Sampled totals of the whole episode, what was paid before the root included.
    """

    action: Any
    label: str
    visits: int
    value: float
    totals: Floats


@dataclass(frozen=True, eq=False)
class DistributionalPlan:
    """What :meth:`DistributionalMcts.plan` found.

    Attributes
    ----------
    action, label : object, str
        The recommended action: of the best value.
    value : float
        Its mean utility or measure.
    rows : tuple of DistributionalRow
        Every action that is allowed.
    iterations : int
        Episodes sampled from this root in this call.
    seconds : float
        Time of the call.
    stopped : StopReason
        Why it ended.
    notes : tuple of str
        What the user should know of how the plan came about.
    """

    action: Any
    label: str
    value: float
    rows: tuple[DistributionalRow, ...]
    iterations: int
    seconds: float
    stopped: StopReason
    notes: tuple[str, ...] = ()


class _Node:
    """A decision node: per action the totals so far, and the replicates' weights or sums."""

    __slots__ = ("actions", "children", "totals", "weights", "worths")

    def __init__(self, actions: list[Any], replicates: int, is_utility: bool) -> None:
        self.actions = actions
        self.children: dict[Any, _Node] = {}
        self.totals: list[list[float]] = [[] for _ in actions]
        self.weights: list[Any] = [np.zeros(replicates) if is_utility else [] for _ in actions]  # counts, or coins
        self.worths: list[Any] = [np.zeros(replicates) for _ in actions]


class DistributionalMcts:
    """Monte Carlo tree search with bootstrapped laws of the total and Thompson sampling.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    utility : callable float -> float, optional
        Utility of the discounted total in the model's own sense: of the total cost, and minimised, or of the total
        reward, and maximised.
    measure : callable (ndarray of float64) -> float, optional
        Measure of a sample of totals, minimised for costs and maximised for rewards. Give one of the two.
    replicates : int, default 32
        J, bootstrap replicates of each action.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.

    Examples
    --------
    >>> from tailwise import DistributionalMcts, domains
    >>> search = DistributionalMcts(domains.make("mdp-4"), lambda total: total * total, seed=0)
    >>> plan = search.plan(iterations=500)
    >>> plan.label, plan.rows[0].totals.size + plan.rows[1].totals.size
    ('safe', 500)
    """

    def __init__(
        self,
        model: Any,
        utility: Callable[[float], float] | None = None,
        *,
        measure: Callable[[Floats], float] | None = None,
        replicates: int = 32,
        seed: Seed = None,
    ) -> None:
        if (utility is None) == (measure is None) or not callable(utility or measure):
            raise OptionError("give a utility of the total or a measure= of a sample of totals: one function")
        self.model, self._utility, self._measure = model, utility, measure
        self._view: Any = accrued_view(model, _same)
        self._replicates = integer(replicates, "replicates", low=2)
        self._sign = 1.0 if model.sense == "cost" else -1.0
        self._rng = np.random.default_rng(seed_sequence(seed))
        self.reset()

    @property
    def state(self) -> Any:
        """State of the root."""
        return self._place[0]

    @property
    def accrued(self) -> float:
        """Discounted cost (or reward) paid before the root."""
        return float(self._place[1])

    def reset(self, state: Any = None, step: int = 0, *, accrued: float = 0.0) -> None:
        """Forget the tree and start anywhere, as :meth:`NluMcts.reset`."""
        self._place = self._view.root(state, real(accrued, "accrued"), step)
        self.step = step
        self._root: _Node | None = None
        self._seen = (math.inf, -math.inf)  # least and largest utility (total, for a measure) so far

    def fresh(self, seed: Seed = None) -> Self:
        """Return an equal planner at the model's start with a seed of its own."""
        return type(self)(self.model, self._utility, measure=self._measure, replicates=self._replicates, seed=seed)

    def advance(self, action: Any, state: Any, *, cost: float | None = None) -> None:
        """Move on after a real step, as :meth:`NluMcts.advance`; what was found below is kept."""
        if self.step >= self._view.horizon:
            raise OptionError(f"the horizon ({self._view.horizon} steps) is reached; call reset() to start again")
        paid = self._view.known_cost(self.state, action, state, self.step) if cost is None else real(cost, "cost")
        accrued = self.accrued + float(self._view.powers[self.step]) * paid
        self._place = self._view.root(state, accrued, self.step + 1)
        self.step += 1
        children = {} if self._root is None else self._root.children
        self._root = children.get((self._index(action), self._place))

    def plan(
        self,
        iterations: int | None = None,
        seconds: float | None = None,
        *,
        until: Callable[[Any], bool] | None = None,
        progress: PlanProgress = None,
    ) -> DistributionalPlan:
        """Sample episodes from the root until a limit is reached."""
        if iterations is None and seconds is None and until is None:
            raise OptionError("plan needs a limit: iterations=, seconds= or until=")
        if self.step >= self._view.horizon:
            raise OptionError(f"no decision is left: step {self.step} is the horizon; call reset() to start again")
        most = math.inf if iterations is None else integer(iterations, "iterations", low=1)
        limit = math.inf if seconds is None else real(seconds, "seconds", low=0.0, low_open=True)
        begun, done, stopped = time.perf_counter(), 0, StopReason.ITERATIONS
        if self._root is None:
            self._root = self._node(self._place)
        with followed_plan(progress, iterations, seconds) as told:
            while done < most:
                self._iterate(self._root)
                done += 1
                if done % 64 == 0:
                    used = time.perf_counter() - begun
                    if told is not None:
                        told(done, used)
                    if used >= limit:
                        stopped = StopReason.SECONDS
                        break
                    if until is not None and until(self._found(done, used, stopped)):
                        stopped = StopReason.UNTIL
                        break
        return self._found(done, time.perf_counter() - begun, stopped)

    def _node(self, place: Any) -> _Node:
        actions = self._view.actions(place)
        listed = list(range(actions)) if isinstance(actions, (int, np.integer)) else list(actions)
        return _Node(listed, self._replicates, self._utility is not None)

    def _iterate(self, root: _Node) -> None:
        """Sample one episode: Thompson sampling down the tree, one new node, random from there on."""
        node: _Node | None = root
        place, h, done, total = self._place, self.step, False, math.nan
        path: list[tuple[_Node, int]] = []
        is_table = isinstance(self._view, AccruedTable)
        while not done and h < self._view.horizon:
            if node is None:
                actions = self._view.actions(place)
                listed = range(actions) if isinstance(actions, (int, np.integer)) else actions
                action, key = listed[int(self._rng.integers(len(listed)))], None
            else:
                index = self._select(node)
                path.append((node, index))
                action, key = node.actions[index], index
            step = (place, action, self._rng, h) if is_table else (place, action, self._rng)
            place, total, done = self._view.step(*step)
            h += 1
            if node is not None and not done and h < self._view.horizon:
                known = node.children.get((key, place))
                if known is None:
                    node.children[key, place] = self._node(place)
                    path_ended = True
                else:
                    path_ended = False
                node = None if path_ended else known
        worth = float(total) if self._utility is None else self._worth(float(total))
        self._seen = (min(self._seen[0], worth), max(self._seen[1], worth))
        for visited, index in path:
            self._note(visited, index, float(total), worth)

    def _select(self, node: _Node) -> int:
        """Draw a replicate for each action; take the best, or an action never tried."""
        best, chosen = math.inf, 0
        for index in self._rng.permutation(len(node.actions)).tolist():
            if not node.totals[index]:
                return int(index)
            j = int(self._rng.integers(self._replicates))
            made_up = self._seen[j % 2]
            if self._utility is not None:
                value = (node.worths[index][j] + made_up) / (node.weights[index][j] + 1.0)
            else:
                kept = [x for x, coins in zip(node.totals[index], node.weights[index], strict=True) if coins[j]]
                value = self._measured(np.array([*kept, made_up]))
            if self._sign * value < best:
                best, chosen = self._sign * value, index
        return chosen

    def _note(self, node: _Node, index: int, total: float, worth: float) -> None:
        """Enter a total into each replicate, or not, by a coin."""
        coins = self._rng.random(self._replicates) < 0.5
        node.totals[index].append(total)
        if self._utility is not None:
            node.weights[index] += coins
            node.worths[index] += np.where(coins, worth, 0.0)
        else:
            node.weights[index].append(coins)

    def _worth(self, total: float) -> float:
        assert self._utility is not None
        worth = float(self._utility(total))
        if not math.isfinite(worth):
            raise OptionError(f"the utility of the total {total:g} is {worth}; it must be finite")
        return worth

    def _measured(self, totals: Floats) -> float:
        assert self._measure is not None
        return float(self._measure(totals))

    def _index(self, action: Any) -> int | None:
        if self._root is None:
            return None
        names = [self._label(one) for one in self._root.actions]
        if action in self._root.actions:
            return self._root.actions.index(action)
        return names.index(action) if action in names else None

    def _label(self, action: Any) -> str:
        name = getattr(self.model, "action_name", None)
        return str(action) if name is None else str(name(action))

    def _found(self, iterations: int, seconds: float, stopped: StopReason) -> DistributionalPlan:
        assert self._root is not None
        rows = []
        for action, totals in zip(self._root.actions, self._root.totals, strict=True):
            sample = np.array(totals)
            value = math.nan
            if totals:
                value = self._measured(sample) if self._utility is None else float(np.mean([*map(self._worth, totals)]))
            rows.append(DistributionalRow(action, self._label(action), len(totals), value, sample))
        best = min(rows, key=lambda row: math.inf if math.isnan(row.value) else self._sign * row.value)
        return DistributionalPlan(best.action, best.label, best.value, tuple(rows), iterations, seconds, stopped)

    def __repr__(self) -> str:
        return f"DistributionalMcts({'utility' if self._measure is None else 'measure'}, replicates={self._replicates})"


def _same(total: float) -> float:
    """Return the total itself: the view is to charge the total at the end."""
    return total


@dataclass(frozen=True)
class _Entropic:
    """The entropic risk of a sample, in a model's sense."""

    beta: float
    is_cost: bool

    def __call__(self, totals: Floats) -> float:
        return erm(totals, self.beta) if self.is_cost else -erm(-totals, self.beta)


@dataclass(frozen=True)
class _TailMean:
    """The CVaR of a sample, in a model's sense."""

    level: float
    is_cost: bool

    def __call__(self, totals: Floats) -> float:
        sign = 1.0 if self.is_cost else -1.0
        return sign * conditional_value_at_risk(sign * totals, self.level)


def _build(
    model: Any, beta: float, *, seed: Seed = None, level: float | None = None, **options: Any
) -> DistributionalMcts:
    """Return the planner by name: for the ERM at ``beta``, or the CVaR at ``level`` if that is given."""
    is_cost = model.sense == "cost"
    measure = _Entropic(beta, is_cost) if level is None else _TailMean(level, is_cost)
    return DistributionalMcts(model, measure=measure, seed=seed, **options)


register_planner(
    "distributional", _build, summary="laws of the total, Thompson sampling (ERM at beta, or CVaR: level=)"
)
