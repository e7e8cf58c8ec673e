"""The exact optimum as a planner: a policy answers every decision at once, so that it looks its action up."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, Self

from tailwise._progress import PlanProgress, Progress, followed_plan
from tailwise._random import Seed, generator, seed_text
from tailwise._validate import integer, thread_count
from tailwise._values import is_same
from tailwise.errors import OptionError, StateError
from tailwise.exact import Policy, solve
from tailwise.exact.policy import find_index
from tailwise.exact.solving import tabulated
from tailwise.models import TabularMDP
from tailwise.models.contract import choices_of
from tailwise.models.simulator import action_label, begun_in, state_label
from tailwise.risk import ERM, Expectation, Objective, as_objective
from tailwise.search.anytime import Turn, plan_limits
from tailwise.search.plan import Plan
from tailwise.search.policy_mixin import PolicyMixin


class ExactPlanner(PolicyMixin):
    """The optimal policy of a model as a planner: exact values, and the exact distribution of each action's total.

    Parameters
    ----------
    model : TabularMDP or simulator with ``outcomes(state, action)``
        The problem.
    objective : Objective or float
        What is wanted of the total; a number is the beta of an ERM (1/cost): positive averse, 0 the mean, negative
        seeking. A policy that acts on what was paid so far plans the first decision alone: follow its ``fixed_policy``.
    seed : optional
        Taken as every planner takes one; nothing here is random.
    max_states : int, default 100_000
        Most states of a simulator.
    threads : int, default 1
        Threads of the solution, which they do not change.

    Raises
    ------
    ModelError
        If the model does not list its outcomes, lists wrong ones, or has too many states.

    Notes
    -----
    It is solved once, at the first plan; copies by ``fresh`` share the solution.

    Examples
    --------
    >>> from tailwise import ExactPlanner, domains
    >>> plan = ExactPlanner(domains.make("mdp-4"), 0.5).plan()
    >>> plan.label, round(plan.value, 9), round(plan.row("safe").mean, 6)
    ('safe', 1.779207373, 1.753463)
    """

    def __init__(
        self,
        model: Any,
        objective: Objective | float,
        *,
        seed: Seed = None,
        max_states: int = 100_000,
        threads: int = 1,
    ) -> None:
        self.model, self.objective = model, as_objective(objective)
        self._limits = {"max_states": integer(max_states, "max_states", low=1), "threads": thread_count(threads)}
        self._whole = self._at = _Lazy(model, self.objective, self._limits)
        self._turn, self._seed = Turn(), seed_text(generator(seed))
        self.reset()

    @property
    def table(self) -> TabularMDP:
        """The table that is solved: the model, or what a simulator's start can reach."""
        return self._at.table

    @property
    def beta(self) -> float:
        """Risk level at step 0; NaN for an objective that has none."""
        if isinstance(self.objective, ERM):
            return self.objective.beta
        return 0.0 if isinstance(self.objective, Expectation) else math.nan

    @property
    def state(self) -> Hashable:
        """State of the root."""
        state: Hashable = self._state
        return state

    @property
    def step(self) -> int:
        """Step h of the root; equal to the horizon when no decision is left."""
        return self._step

    @property
    def fixed_policy(self) -> Policy:
        """The optimal policy, found at first use: what evaluation follows, without a plan at each step."""
        return self._whole.policy()

    def fresh(self, seed: Seed = None) -> Self:
        """Return another planner at the model's start; it shares the solution."""
        other = copy.copy(self)
        other._turn, other._seed = Turn(), seed_text(generator(seed))
        other.reset()
        return other

    def reset(self, state: Any = None, step: int = 0) -> None:
        """Move the root to ``state`` (the model's start if not given) at ``step``, 0 to H - 1."""
        h = integer(step, "step", low=0, high=None if self.model.horizon is None else int(self.model.horizon) - 1)
        with self._turn:
            self._move(self.model.start if state is None else state, h)

    def advance(self, action: Any, state: Any) -> None:
        """Move the root to ``state``, which was observed after ``action`` was taken."""
        with self._turn:
            if self._is_over:
                raise OptionError(f"the horizon ({self.model.horizon} steps) is reached; call reset() to start again")
            self._require_allowed(action)
            self._move(state, self._step + 1)

    def _require_allowed(self, action: Any) -> None:
        """Raise ``StateError`` where an action, given as it is or by its label, is not allowed at the root."""
        allowed = choices_of(self.model.actions(self._state))
        labels = [action_label(self.model, candidate, self._state) for candidate in allowed]
        if not any(is_same(action, one) for one in (*allowed, *labels)):
            where, names = state_label(self.model, self._state), ", ".join(labels)
            raise StateError(f"action {action!r} is not allowed in state {where}; allowed: {names}")

    @property
    def _is_over(self) -> bool:
        return self.model.horizon is not None and self._step >= self.model.horizon

    @property
    def _is_table(self) -> bool:
        return self._whole.table is self.model

    def _move(self, state: Any, h: int) -> None:
        at = self._whole
        if h < (math.inf if self.model.horizon is None else self.model.horizon):
            try:
                index = at.index(state, h)
            except StateError:
                if self._is_table:
                    raise
                other = begun_in(self.model, state)  # where its start leads later, or never
                at = _Lazy(other, self.objective, self._limits)
                index = at.index(state, h)
            if not at.table.actions(index).size:
                name = self.model.state_name(index)
                raise StateError(f"no action is allowed in state {name}; there is nothing to decide")
            state = index if self._is_table else state
        elif self._is_table:
            state = self.model.find_state(state)
        self._state, self._step, self._at = state, h, at

    def plan(
        self,
        iterations: int | None = None,
        seconds: float | None = None,
        *,
        threads: int = 1,
        until: Callable[[Plan], bool] | None = None,
        progress: PlanProgress = None,
    ) -> Plan:
        """Look the optimal action up, and find the exact distribution of the total after each.

        Parameters
        ----------
        threads : int, default 1
            Threads of the solution, where it has not been found yet; they do not change the result.
        iterations, seconds, until, progress : optional
            As for every planner. The answer does not depend on them: it is exact.

        Returns
        -------
        Plan
        """
        plan_limits(iterations, seconds, until, ends=True)
        self._limits["threads"] = max(self._limits["threads"], thread_count(threads))
        with self._turn, followed_plan(progress, 1, None) as told:
            begun = time.perf_counter()
            plan = self._decided(None, distributions=True)
            told(1, time.perf_counter() - begun)
        return plan

    def decision(self, progress: Progress = None) -> Plan:
        """Return the exact optimum of the root's decision without the distributions of the total.

        ``progress`` is as for :func:`tailwise.solve`; it follows the solution, where that is found first.
        """
        return self._decided(progress, distributions=False)

    def _decided(self, progress: Progress, *, distributions: bool) -> Plan:
        if self._is_over:
            raise OptionError(f"no decision is left: step {self._step} is the horizon; call reset() to start again")
        plan = self._at.policy(progress).plan(self._state, self._step, distributions=distributions)
        origin = replace(plan.origin, seed=self._seed) if plan.origin is not None else None
        return replace(plan, planner=self.kind if self.reason else "", reason=self.reason, origin=origin)


class _Lazy:
    """A model as a table, and its optimal policy, which is found at first use."""

    def __init__(self, model: Any, objective: Objective, limits: dict[str, int]) -> None:
        self.model, self.objective, self.limits = model, objective, limits
        self.table, self.places = tabulated(model, max_states=limits["max_states"])
        self._found: Policy | None = None

    def index(self, state: Any, step: int) -> int:
        """Return the table's index of a state, or raise ``StateError``."""
        return find_index(self.table, self.model, self.places, state, step)

    def policy(self, progress: Progress = None) -> Policy:
        """Return the optimal policy."""
        if self._found is None:
            threads = self.limits["threads"]
            found = solve(self.table, self.objective, threads=threads, progress=progress)
            self._found = found if self.table is self.model else replace(found, model=self.model, _places=self.places)
        return self._found


def neutral_planner(model: Any, beta: float, *, seed: Seed = None, **options: Any) -> ExactPlanner:
    """Return the exact planner for the mean, whatever the beta: what a planner that minds risk is held against."""
    return ExactPlanner(model, 0.0, seed=seed, **options)
