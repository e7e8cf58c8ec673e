"""The optimal policy of a model that lists its outcomes: what is followed without planning at each step.

A simulator that lists its outcomes is turned into a table first; the policy speaks of the simulator's own states.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from tailwise._progress import Progress
from tailwise._validate import integer, real, thread_count
from tailwise.errors import ModelError, StateError
from tailwise.exact.backward_induction import Solution, backward_induction
from tailwise.models import TabularMDP
from tailwise.models.check import require_model
from tailwise.models.simulator import model_name, own_method, short
from tailwise.models.tabulate import tabulate_states


class ExactPolicy:
    """The optimal policy of a table or of a simulator that lists its outcomes.

    Parameters
    ----------
    model : TabularMDP or simulator with ``outcomes(state, action)``
        The problem.
    beta : float
        Finite risk level at step 0.
    max_states : int, default 100_000
        Most states of a simulator.
    threads : int, default 1
        Threads of the solution, which they do not change.

    Raises
    ------
    ModelError
        If the model does not list its outcomes, lists wrong ones, or has too many states.

    Examples
    --------
    >>> from tailwise import domains
    >>> from tailwise.planners import ExactPolicy
    >>> battery = domains.make("battery")
    >>> policy = ExactPolicy(battery, beta=0.02)
    >>> 0 <= policy.act(battery.start, 0) < battery.actions(battery.start)
    True
    """

    def __init__(self, model: Any, beta: float, *, max_states: int = 100_000, threads: int = 1) -> None:
        require_model(model)
        self.model = model
        self.beta = real(beta, "beta")
        self._max_states = integer(max_states, "max_states", low=1)
        self.threads = thread_count(threads)
        self._places: dict[Any, tuple[int, int]] = {}
        self._solution: Solution | None = None
        self.table: TabularMDP = model
        if not isinstance(model, TabularMDP):
            if own_method(model, "outcomes") is None:
                raise ModelError(f"{model_name(model)} has no outcomes(state, action); an exact solution needs them")
            self.table, self._places = tabulate_states(model, max_states=max_states)

    @property
    def solution(self) -> Solution:
        """The solution of the table, found at first use."""
        return self.solve()

    def solve(self, progress: Progress = None) -> Solution:
        """Return the solution of the table; ``progress``, as for `backward_induction`, follows it where it is found."""
        if self._solution is None:
            self._solution = backward_induction(self.table, self.beta, threads=self.threads, progress=progress)
        return self._solution

    def index(self, state: Any, h: int) -> int:
        """Return the table's index of a state, or raise ``StateError``.

        A simulator's table holds what its start reaches; a state that it reaches only later than ``h``, or not
        at all, has no full future there.
        """
        if isinstance(self.model, TabularMDP):
            return self.model.find_state(state)
        canonical = getattr(self.model, "canonical", None)
        place = self._places.get(state if canonical is None else canonical(state))
        if place is None or place[1] > h:
            raise StateError(f"state {short(state)} cannot be reached from the start by step {h}")
        return place[0]

    def action(self, state: Any, position: int) -> Any:
        """Return the model's own name of the table's action."""
        if isinstance(self.model, TabularMDP):
            return position
        actions = self.model.actions(state)
        return position if isinstance(actions, (int, np.integer)) else list(actions)[position]

    def act(self, state: Any, h: int) -> Any:
        """Return the optimal action in ``state`` at step ``h``."""
        return self.action(state, self.solution.act(self.index(state, h), h))

    def rooted(self, state: Any) -> ExactPolicy:
        """Return the policy of the same simulator begun in another state."""
        other = copy.copy(self.model)
        other.start = state
        return ExactPolicy(other, self.beta, max_states=self._max_states, threads=self.threads)
