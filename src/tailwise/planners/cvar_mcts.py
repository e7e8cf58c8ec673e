r"""CVaR-MCTS: the tail mean of the total, by search on accrued cost, for tables and any simulator.

``CVaR = min over b of b + E[(X - b)+] / tail`` (:mod:`tailwise.planners.cvar`). For a given b the plan that minimises
``E[(X - b)+]`` is searched for on pairs (state, accrued cost), which :class:`NluMcts` does. What is new is b. The first
decision compares several, side by side, each with a tree of its own: over the range of random episodes at first, then
beside the best one, then the three best once more. The b with the least estimate of ``b + E[(X - b)+] / tail`` is kept
to the end of the episode, and later decisions go on with its tree alone: a static aim is not chosen anew half-way (see
"What such a plan means later" there). One tree whose b follows a quantile of its samples was not chosen: each change
of b makes the tree's means those of another function.

An estimate is the tree's own, and the least of several noisy ones is too good: trust the action sooner than the value.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, Unpack

import numpy as np

from tailwise._progress import PlanProgress
from tailwise._random import Seed, seed_sequence
from tailwise._validate import integer
from tailwise.errors import OptionError
from tailwise.models import TabularMDP
from tailwise.planners.evar import check_level
from tailwise.planners.nlu_mcts import NluMcts
from tailwise.planners.registry import register_planner
from tailwise.search import Plan, SearchKeywords
from tailwise.search.options import PRESETS

_PILOT = 200  # random episodes that say where totals lie
_ROUNDS = 3
_SHARE = 0.5  # of the first decision's iterations: to find b


@dataclass(frozen=True)
class Shortfall:
    """How far a total is beyond a threshold: ``(x - b)+`` for costs; ``-(b - x)+`` for rewards, which are maximised."""

    threshold: float
    is_cost: bool

    def __call__(self, total: float) -> float:
        """Return the utility of a total."""
        return max(total - self.threshold, 0.0) if self.is_cost else min(total - self.threshold, 0.0)


@dataclass(frozen=True)
class CvarPlan:
    """What :meth:`CvarMcts.plan` found. Numbers are in the model's own sense, and count the whole episode.

    Attributes
    ----------
    action : object
        The recommended action.
    label : str
        Its name.
    value : float
        Estimated CVaR: ``threshold + mean shortfall / tail``.
    threshold : float
        The b that is kept for the rest of the episode.
    level : float
        Share of outcomes that are not the tail.
    tried : tuple of (float, float)
        The thresholds that were compared, with their estimates; empty after the first decision.
    search : Plan
        The plan of the tree of this threshold; its numbers are mean shortfalls.
    """

    action: Any
    label: str
    value: float
    threshold: float
    level: float
    tried: tuple[tuple[float, float], ...]
    search: Plan

    @property
    def iterations(self) -> int:
        """Iterations of the tree so far."""
        return self.search.iterations

    @property
    def stopped(self) -> Any:
        """Why the search ended."""
        return self.search.stopped

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of how the plan came about."""
        return self.search.notes

    def __str__(self) -> str:
        return (
            f"take {self.label}: CVaR at {self.level:g} about {self.value:.6g}, threshold {self.threshold:.6g}\n"
            f"{self.search}"
        )


class CvarMcts:
    """Monte Carlo tree search for the mean of the worst ``1 - level`` of the total.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem. The view of a simulator on accrued cost runs in Python.
    level : float in (0, 1)
        Share of outcomes that are not the tail: 0.95 for the worst 5 %.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    thresholds : int, default 6
        How many are compared at a time.
    **keywords
        Fields of :class:`tailwise.SearchOptions`; those of the preset "auto", which needs no constant, if not given.

    Examples
    --------
    >>> from tailwise import CvarMcts, domains
    >>> plan = CvarMcts(domains.make("mdp-4"), 0.9, seed=0).plan(iterations=4000)
    >>> plan.label
    'safe'
    """

    def __init__(
        self,
        model: Any,
        level: float,
        *,
        seed: Seed = None,
        thresholds: int = 6,
        **keywords: Unpack[SearchKeywords],
    ) -> None:
        self.model, self.level = model, check_level(level)
        self._count = integer(thresholds, "thresholds", low=2)
        self._keywords = keywords
        self._seeds = seed_sequence(seed)
        self._search: NluMcts | None = None
        self._root: tuple[Any, int, float] = (None, 0, 0.0)
        self._probe = self._tree(0.0)  # faults of model and options show here

    @property
    def threshold(self) -> float | None:
        """The b of this episode; None before its first plan."""
        return getattr(None if self._search is None else self._search.model.utility, "threshold", None)

    @property
    def state(self) -> Any:
        """State of the root."""
        return self._current.state

    @property
    def step(self) -> int:
        """Step of the root."""
        return self._current.step

    @property
    def accrued(self) -> float:
        """Discounted cost (or reward) paid before the root."""
        return self._current.accrued

    def plan(
        self,
        iterations: int | None = None,
        seconds: float | None = None,
        *,
        threads: int = 1,
        until: Callable[[Any], bool] | None = None,
        progress: PlanProgress = None,
    ) -> CvarPlan:
        """Search from the root; the first plan of an episode also chooses the threshold, with half of the limit.

        ``threads`` are for the trees of each threshold, as in :meth:`NluMcts.plan`.
        """
        if iterations is None and seconds is None and until is None:
            raise OptionError("plan needs a limit: iterations=, seconds= or until=")
        tried: dict[float, float] = {}
        if self._search is None:
            begun = time.perf_counter()
            tried = self._choose(iterations, seconds, threads)
            if seconds is not None:
                seconds = max(1e-3, seconds - (time.perf_counter() - begun))
            if iterations is not None:
                iterations = max(1, iterations - int(_SHARE * iterations))
        assert self._search is not None
        found = self._search.plan(
            iterations, seconds, threads=threads, progress=progress,
            until=None if until is None else lambda plan: until(self._shown(plan, tried)),
        )  # fmt: skip
        return self._shown(found, tried)

    def advance(self, action: Any, state: Any, *, cost: float | None = None) -> None:
        """Move on after a real step, as :meth:`NluMcts.advance`; the threshold stays."""
        self._current.advance(action, state, cost=cost)
        if self._search is None:
            self._root = (self._probe.state, self._probe.step, self._probe.accrued)

    def reset(self, state: Any = None, step: int = 0, *, accrued: float = 0.0) -> None:
        """Start a new episode, anywhere; its first plan chooses a threshold."""
        self._search = None
        self._probe.reset(state, step, accrued=accrued)
        self._root = (state, step, accrued)

    def fresh(self, seed: Seed = None) -> Self:
        """Return an equal planner at the model's start with a seed of its own."""
        return type(self)(self.model, self.level, seed=seed, thresholds=self._count, **self._keywords)

    @property
    def _current(self) -> NluMcts:
        return self._probe if self._search is None else self._search

    def _tree(self, threshold: float) -> NluMcts:
        """Return a tree for one threshold, at the root of the episode."""
        is_cost = self.model.sense == "cost"
        options: Any = {**PRESETS["auto"], **self._keywords}
        tree = NluMcts(self.model, Shortfall(threshold, is_cost), seed=self._seeds.spawn(1)[0], **options)
        tree.reset(*self._root[:2], accrued=self._root[2])
        return tree

    def _choose(self, iterations: int | None, seconds: float | None, threads: int) -> dict[float, float]:
        """Compare thresholds in three rounds of equal cost; return all with their last estimates.

        First all over the range, then the two best and what lies beside the best, then the three best; trees grow on.
        """
        totals = self._random_totals()
        sign = 1.0 if self.model.sense == "cost" else -1.0
        trees: dict[float, NluMcts] = {}
        estimates: dict[float, float] = {}

        def compare(thresholds: list[float]) -> None:
            share = _SHARE / (_ROUNDS * len(thresholds))
            for threshold in thresholds:
                if threshold not in trees:
                    trees[threshold] = self._tree(threshold)
                found = trees[threshold].plan(
                    None if iterations is None else max(1, int(share * iterations)),
                    None if seconds is None else share * seconds,
                    threads=threads,
                )
                estimates[threshold] = self._estimate(threshold, found)

        def leading(count: int) -> list[float]:
            return sorted(estimates, key=lambda b: sign * estimates[b])[:count]

        low, high = float(totals.min()), float(totals.max())
        compare(np.linspace(low, high, self._count).tolist())
        beside = (high - low) / (2 * (self._count - 1))
        compare([*leading(2), *(leading(1)[0] + d for d in (-beside, beside))])
        compare(leading(3))
        self._search = trees[leading(1)[0]]
        return estimates

    def _estimate(self, threshold: float, plan: Plan) -> float:
        """Return the CVaR of the recommended action's episodes."""
        row = next(row for row in plan.rows if row.action == plan.action)
        return threshold + row.erm / (1.0 - self.level)

    def _random_totals(self) -> Any:
        """Return totals of random episodes from the root."""
        rng = np.random.default_rng(self._seeds.spawn(1)[0])
        model, is_table = self.model, isinstance(self.model, TabularMDP)
        start = self._probe.state
        totals = np.empty(_PILOT)
        for k in range(_PILOT):
            state, done, total, h = start, False, self._root[2], self._root[1]
            while h < model.horizon and not done:
                actions = model.actions(state)
                allowed = range(actions) if isinstance(actions, (int, np.integer)) else actions
                action = allowed[int(rng.integers(len(allowed)))]
                state, cost, done = model.step(state, action, rng, h) if is_table else model.step(state, action, rng)
                total += model.discount**h * cost
                h += 1
            if not done and hasattr(model, "terminal_cost"):
                total += model.discount**h * model.terminal_cost(state)
            totals[k] = total
        return totals

    def _shown(self, found: Plan, tried: dict[float, float]) -> CvarPlan:
        threshold = self.threshold
        assert threshold is not None
        return CvarPlan(
            found.action, found.label, self._estimate(threshold, found), threshold, self.level,
            tuple(sorted(tried.items())), found,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"CvarMcts(level={self.level:g}, threshold={self.threshold})"


def _build(model: Any, beta: float, *, seed: Seed = None, level: float = 0.95, **options: Any) -> CvarMcts:
    """Return the planner by name; its aim is the tail at ``level``, and ``beta`` does not matter to it."""
    return CvarMcts(model, level, seed=seed, **options)


register_planner("cvar-mcts", _build, summary="least CVaR of the total (level=0.95), by search on accrued cost")
