"""What planners of problems whose state is not seen have in common: a root that is known by its history."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from tailwise._progress import PlanProgress, followed_plan
from tailwise._random import Seed, generator, seed_text
from tailwise._validate import real
from tailwise.errors import ModelError, OptionError, StateError
from tailwise.models.partly_observed import hidden_actions, require_hidden
from tailwise.models.simulator import is_partly_observed, model_name
from tailwise.search.action_rows import ActionRow
from tailwise.search.anytime import Pace, Turn, one_thread, plan_limits, run_anytime
from tailwise.search.plan import Origin, Plan, StopReason
from tailwise.search.policy_mixin import PolicyMixin

_SLACK = 1.25  # of the time that a report took, kept for the next one


class HiddenPlanner(PolicyMixin):
    """A planner that decides from what was done and observed; subclasses say what is known, and how they search.

    Attributes
    ----------
    model : PomdpTable or PartlyObserved
        The problem.
    beta : float
        Risk level at step 0.
    """

    model: Any
    method = ""
    unit = "iterations"
    meaning = ""
    _report_pace = Pace(memory=0.99)
    _report_by = math.inf  # when the report under way is to be ready

    def __init__(self, model: Any, beta: float, *, seed: Seed = None) -> None:
        self.require_unseen(model)
        self.model, self.beta = model, real(beta, "beta")
        self._rng = generator(seed)
        self._seed, self._turn, self._step, self._done = seed_text(self._rng), Turn(), 0, 0
        self._notes: list[str] = []
        self._before = 0  # iterations before the plan under way
        self._deadline = math.inf  # of the plan under way, for iterations that are long
        self._actions = hidden_actions(model)
        self._begin()

    @staticmethod
    def require_unseen(model: Any) -> None:
        """Raise ``ModelError`` for a model whose state is seen, and for what can be seen to be wrong with another."""
        if not is_partly_observed(model):
            raise ModelError(f"the state of {model_name(model)} is seen; use a planner of models whose state is")
        require_hidden(model)

    @property
    def step(self) -> int:
        """Step h of the root; equal to the horizon when no decision is left."""
        return self._step

    @property
    def state(self) -> Any:
        """What is known of the hidden state at the root."""
        return self.belief

    @property
    def belief(self) -> Any:
        """What is known of the hidden state at the root."""
        raise NotImplementedError

    @property
    def root_beta(self) -> float:
        """Risk level at the root."""
        return self.beta * float(self.model.discount) ** self._step

    def reset(self, state: Any = None, step: int = 0) -> None:
        """Go back to the start and forget what was found; other roots are reached by :meth:`advance`."""
        if (state is not None and state is not self.belief) or step:
            raise OptionError(
                "a decision where the state is not seen follows from its history: reset(), then advance()"
            )
        with self._turn:
            self._step, self._notes = 0, []
            self._begin()

    def advance(self, action: Any, observation: Any, cost: float | None = None) -> None:
        """Move the root on, after ``action`` was taken and ``observation`` was made.

        Parameters
        ----------
        action, observation : object
            As the model names them; of a table also their indices or labels.
        cost : float, optional
            What the step cost (or earned); needed where the model says that it is seen.

        Raises
        ------
        StateError
            If there is no such action, or this cannot be observed.
        OptionError
            If the horizon was reached already, or the cost is seen and not given.
        """
        with self._turn:
            if self._step >= self.model.horizon:
                raise OptionError(f"the horizon ({self.model.horizon} steps) is reached; call reset() to start again")
            if getattr(self.model, "cost_seen", False) and cost is None:
                raise OptionError(
                    f"{model_name(self.model)}: what a step costs is seen; give it: advance(action, o, cost)"
                )
            self._follow(action, observation, cost)
            self._step += 1

    def plan(
        self,
        iterations: int | None = None,
        seconds: float | None = None,
        *,
        threads: int = 1,
        until: Callable[[Any], bool] | None = None,
        progress: PlanProgress = None,
    ) -> Plan:
        """Search on from what is known, and report; see :meth:`tailwise.TreeSearch.plan`."""
        notes = one_thread(threads, f"{type(self).__name__} keeps to one")
        limit = plan_limits(iterations, seconds, until)[1]
        with self._turn.within(limit), followed_plan(progress, iterations, seconds) as told:
            if self._step >= self.model.horizon:
                raise OptionError(f"no decision is left: step {self._step} is the horizon; call reset() to start again")
            begun, before = time.perf_counter(), self._done
            self._before = before
            self._report_by = math.inf if limit is None else begun + limit
            if limit is not None:
                limit -= min(_SLACK * self._report_pace.seconds, limit / 2.0)
            self._deadline = math.inf if limit is None else begun + limit
            stopped = run_anytime(
                self._run, lambda: self._done - before, iterations=iterations, seconds=limit,
                until=None if until is None else lambda: until(self._report(before, begun, StopReason.UNTIL, ())),
                progress=told, first_chunk=1,
            )  # fmt: skip
            ended = time.perf_counter()
            plan = self._report(before, begun, stopped, notes)
            self._report_pace = self._report_pace.after(time.perf_counter() - ended)
            return plan

    def _report(self, before: int, begun: float, stopped: StopReason, notes: tuple[str, ...]) -> Plan:
        rows, best, value, more = self._rows()
        return Plan(
            action=rows[best].action, label=rows[best].label, value=value, rows=rows, state=self.belief,
            step=self._step, beta=self.beta, root_beta=self.root_beta, sense=self.model.sense,
            iterations=self._done - before,
            seconds=time.perf_counter() - begun, stopped=stopped, interval_meaning=self.meaning, method=self.method,
            planner=self.kind if self.reason else "", reason=self.reason, unit=self.unit,
            notes=(*self._notes, *more.pop("notes", ()), *notes),
            origin=Origin(self.model, self.get_params(), self._seed), **more,
        )  # fmt: skip

    def _placed(self, action: Any, observation: Any) -> tuple[int, Any, Any]:
        """Return the place of an action, and action and observation as indices where the model is a table."""
        find_action = getattr(self.model, "find_action", None)
        if find_action is not None:
            action, observation = find_action(action), self.model.find_observation(observation)
        if action not in self._actions:
            raise StateError(f"there is no action {action!r} in {model_name(self.model)}; there are {self._actions}")
        return self._actions.index(action), action, observation

    def _begin(self) -> None:
        """Root the search at the start."""
        raise NotImplementedError

    def _follow(self, action: Any, observation: Any, cost: float | None) -> None:
        """Move the root on."""
        raise NotImplementedError

    def _run(self, count: int) -> StopReason | None:
        """Do some iterations, counted in ``_done``."""
        raise NotImplementedError

    def _rows(self) -> tuple[tuple[ActionRow, ...], int, float, dict[str, Any]]:
        """Return the rows, the position of the best, its value, and other fields of the plan."""
        raise NotImplementedError
