"""One episode, closed loop: plan, act, see what happens, tell the planner."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from tailwise._validate import integer, real
from tailwise.errors import ModelError
from tailwise.evaluation.environment import environment_of
from tailwise.evaluation.streams import child
from tailwise.exact.policies import as_policy
from tailwise.exact.policy import Policy
from tailwise.planners.protocol import Planner, takes
from tailwise.search.policy_mixin import DEFAULT_ITERATIONS


def checked_limits(iterations: int | None, seconds: float | None) -> tuple[int | None, float | None]:
    """Return the limits of each decision, 1000 iterations if none is given, or raise ``OptionError``."""
    if iterations is None and seconds is None:
        return DEFAULT_ITERATIONS, None
    wanted = None if iterations is None else integer(iterations, "iterations", low=1)
    return wanted, None if seconds is None else real(seconds, "seconds", low=0.0, low_open=True)


class Player:
    """A planner in the episodes of a model, which may be another than its own, of the same horizon.

    It is left alone: each episode gets a fresh copy. ``limits`` are iterations and seconds of each decision (None is no
    limit), ``reuse`` says whether the copy keeps what it found in the step before.
    """

    def __init__(
        self, model: Any, planner: Planner, limits: tuple[int | None, float | None], *, reuse: bool = True
    ) -> None:
        if planner.model.horizon != model.horizon:
            raise ModelError(
                f"the planner's model has horizon {planner.model.horizon}, the model to play {model.horizon}"
            )
        self.model, self.world = model, environment_of(model)
        self.planner = planner
        self.is_stopped = threading.Event()
        self._iterations, self._seconds = limits
        self._reuse = reuse
        self._told_cost, self._told_accrued = takes(planner.advance, "cost"), takes(planner.reset, "accrued")

    def fresh(self, seed: np.random.SeedSequence) -> Planner:
        """Return a copy of the planner at the start of the model that is played."""
        planner = self.planner.fresh(seed)
        if self.planner.model is not self.model:
            planner.reset(self.model.start)
        return planner

    def decide(self, planner: Any, state: Any, h: int, accrued: float) -> object:
        """Return an action that is allowed; Ctrl-C during a plan, which may end it early, ends the evaluation."""
        watch = self._watch if threading.current_thread() is not threading.main_thread() else None
        plan = planner.plan(self._iterations, self._seconds, progress=watch)
        if getattr(plan, "stopped", None) == "interrupted":
            raise KeyboardInterrupt
        return self.world.allowed(self.model, plan.action, state, h)

    def _watch(self, iterations: int, seconds: float) -> None:
        if self.is_stopped.is_set():
            raise KeyboardInterrupt

    def follow(self, planner: Any, action: Any, state: Any, cost: float, h: int, accrued: float) -> None:
        """Tell a planner what happened at step ``h``; ``accrued`` is the discounted total up to and with it."""
        if self._reuse:
            planner.advance(action, state, **({"cost": cost} if self._told_cost else {}))
        else:
            planner.reset(state, h + 1, **({"accrued": accrued} if self._told_accrued else {}))


class PolicyPlayer:
    """A fixed policy in the episodes of a model: a function of (state, h), or what has ``act``."""

    def __init__(self, model: Any, policy: Any) -> None:
        self.model, self.world = model, environment_of(model)
        self.is_stopped = threading.Event()
        self._policy: Any = as_policy(policy)
        self._minds = minds_the_past(policy)
        if not hasattr(self._policy, "act"):
            raise ModelError(
                f"{policy!r} is neither a planner nor a policy; expected a tailwise.Planner such as "
                "ErmMcts, a function of (state, h), or an object with act(state, h)"
            )

    def fresh(self, seed: np.random.SeedSequence) -> object:
        """Return the policy: it keeps nothing."""
        return self._policy

    def decide(self, policy: Any, state: Any, h: int, accrued: float) -> object:
        """Return an action that is allowed."""
        action = policy.act(state, h, accrued=accrued) if self._minds else policy.act(state, h)
        return self.world.allowed(self.model, action, state, h)

    def follow(self, policy: Any, action: Any, state: Any, cost: float, h: int, accrued: float) -> None:
        """Nothing has to be told."""


def minds_the_past(policy: Any) -> bool:
    """Return whether a policy's ``act`` wants to know what was paid so far."""
    if isinstance(policy, Policy):
        return policy.minds_the_past
    return hasattr(policy, "act") and takes(policy.act, "accrued")


def play(player: Player | PolicyPlayer, root: np.random.SeedSequence, episode: int, decisions: Any = None) -> float:
    """Play one episode and return its total; ``decisions`` (H, 2), if given, gets state and action of each step."""
    model = player.model
    # An environment per episode (it holds the episode's draws), so that threads share nothing.
    environment = player.world(model, root)
    mine, state = player.fresh(child(root, episode, 1)), environment.begin(episode)
    total, factor = 0.0, 1.0
    for h in range(model.horizon):
        action = player.decide(mine, state, h, total)
        if decisions is not None:
            decisions[h] = state, action
        state, cost, done = environment.step(state, action, h)
        total += factor * cost
        if done:
            return total
        factor *= model.discount
        if h + 1 < model.horizon:
            player.follow(mine, action, state, cost, h, total)
    return total + factor * environment.end_cost(state)
