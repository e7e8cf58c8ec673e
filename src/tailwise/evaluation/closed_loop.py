"""One episode, closed loop: plan, act, see what happens, tell the planner."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tailwise._validate import integer, real
from tailwise.errors import ModelError, StateError
from tailwise.evaluation.environment import Environment
from tailwise.exact.policies import action_id
from tailwise.models import TabularMDP
from tailwise.planners.protocol import Planner, takes
from tailwise.search.acting import DEFAULT_ITERATIONS


def checked_limits(iterations: int | None, seconds: float | None) -> tuple[int | None, float | None]:
    """Return the limits of each decision, 1000 iterations if none is given, or raise ``OptionError``."""
    if iterations is None and seconds is None:
        return DEFAULT_ITERATIONS, None
    wanted = None if iterations is None else integer(iterations, "iterations", low=1)
    return wanted, None if seconds is None else real(seconds, "seconds", low=0.0, low_open=True)


class Player:
    """A planner in an episode.

    Parameters
    ----------
    model : TabularMDP or simulator
        What is played; the planner may have another model of it, of the same horizon.
    planner : Planner
        Any planner; it is left alone, each episode gets a fresh copy.
    limits : tuple
        Iterations and seconds of each decision; None is no limit.
    reuse : bool, default True
        Whether the planner may keep what it found in the step before.

    Raises
    ------
    ModelError
        If the horizons differ.
    """

    def __init__(
        self, model: Any, planner: Planner, limits: tuple[int | None, float | None], *, reuse: bool = True
    ) -> None:
        if planner.model.horizon != model.horizon:
            raise ModelError(
                f"the planner's model has horizon {planner.model.horizon}, the model to play {model.horizon}"
            )
        self.model = model
        self.planner = planner
        self.is_stopped = threading.Event()
        self._iterations, self._seconds = limits
        self._reuse = reuse
        self._told_cost, self._told_accrued = takes(planner.advance, "cost"), takes(planner.reset, "accrued")

    def fresh(self, seed: np.random.SeedSequence) -> Any:
        """Return a copy of the planner at the start of the model that is played."""
        planner = self.planner.fresh(seed)
        if self.planner.model is not self.model:
            planner.reset(self.model.start)
        return planner

    def decide(self, planner: Any, state: Any, h: int) -> Any:
        """Return an action that is allowed; Ctrl-C during a plan, which may end it early, ends the evaluation."""
        watch = self._watch if threading.current_thread() is not threading.main_thread() else None
        plan = planner.plan(self._iterations, self._seconds, progress=watch)
        if getattr(plan, "stopped", None) == "interrupted":
            raise KeyboardInterrupt
        if isinstance(self.model, TabularMDP):
            return action_id(self.model, plan.action, state, h)
        return allowed(self.model, plan.action, state, h)

    def _watch(self, iterations: int, seconds: float) -> None:
        if self.is_stopped.is_set():
            raise KeyboardInterrupt

    def follow(self, planner: Any, action: Any, state: Any, cost: float, h: int, accrued: float) -> None:
        """Tell a planner what happened at step ``h``; ``accrued`` is the discounted total up to and with it."""
        if self._reuse:
            planner.advance(action, state, **({"cost": cost} if self._told_cost else {}))
        else:
            planner.reset(state, h + 1, **({"accrued": accrued} if self._told_accrued else {}))


def play(
    environment: Environment,
    model: Any,
    act: Callable[[Any, int], Any],
    episode: int,
    observe: Callable[[Any, Any, float, int, float], None] | None = None,
) -> float:
    """Play one episode and return its total; ``observe`` is told (action, next state, cost, step, total so far)."""
    state = environment.begin(episode)
    total, factor = 0.0, 1.0
    for h in range(model.horizon):
        action = act(state, h)
        state, cost, done = environment.step(state, action, h)
        total += factor * cost
        if done:
            return total
        factor *= model.discount
        if observe is not None and h + 1 < model.horizon:
            observe(action, state, cost, h, total)
    return total + factor * environment.end_cost(state)


def allowed(model: Any, action: Any, state: Any, h: int) -> Any:
    """Return the action, or raise ``StateError`` if a simulator does not allow it."""
    actions = model.actions(state)
    choices = range(int(actions)) if isinstance(actions, (int, np.integer)) else list(actions)
    if action not in choices:
        raise StateError(f"the policy takes action {action!r} in state {state!r} at step {h}, where it is not allowed")
    return action
