"""Episodes of a fixed policy played side by side, by a simulator's ``step_many``.

A batch has one generator, of the seed and the number of its first episode: seed and batch size fix the result. Its
episodes are independent of each other, and share their luck with no other sample.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._random import generator
from tailwise.errors import OptionError, SimulatorError
from tailwise.evaluation.closed_loop import PolicyPlayer, SimulatorEnvironment, child
from tailwise.exact.policy import Policy
from tailwise.models.compiled import listed_states, same_states, steps_of
from tailwise.models.simulator import model_name, own_method
from tailwise.planners.protocol import Planner


class Batches:
    """A fixed policy in batches of episodes of a simulator; its totals are in the model's own sense."""

    def __init__(self, model: Any, policy: Any, root: np.random.SeedSequence, horizon: int) -> None:
        step_many = own_method(model, "step_many")
        if step_many is None:
            raise OptionError(
                f"{model_name(model)} has no step_many(states, actions, rng), which plays a batch; leave batch_size out"
            )
        if isinstance(policy, Planner):
            raise OptionError("batch_size is for fixed policies; a planner decides episode by episode: leave it out")
        self.model, self.horizon, self.left = model, horizon, 0
        self._step_many, self._root, self._world = step_many, root, SimulatorEnvironment(model, root)
        player = PolicyPlayer(model, policy)
        self._policy: Any = player.fresh(root)
        self._minds, self._is_fixed = player.minds, isinstance(policy, Policy)

    def play(self, first: int, totals: NDArray[np.float64]) -> None:
        """Fill ``totals`` with those of consecutive episodes; ``left`` counts those that reach the horizon."""
        rng, live, factor = generator(child(self._root, first, 0)), np.arange(totals.size), 1.0
        states = same_states(self.model, self.model.start, totals.size)
        totals[:] = 0.0
        for h in range(self.horizon):
            actions = self._decide(states, h, totals[live])
            states, costs, done = self._step(states, actions, rng, h)
            totals[live] += factor * costs
            live, states = live[~done], states[~done]
            if not live.size:
                return
            factor *= self.model.discount
        self.left += live.size
        if self.model.horizon is not None:
            totals[live] += factor * np.array([self._world.end_cost(state) for state in listed_states(states)])

    def _decide(self, states: NDArray[Any], h: int, paid: NDArray[np.float64]) -> NDArray[Any]:
        """Return the actions of a step; each pair of state and action is looked at once."""
        rows, act = listed_states(states), self._policy.act
        if hasattr(self._policy, "act_many"):
            actions = np.asarray(self._policy.act_many(states, h))
        elif self._minds:
            actions = np.array([act(row, h, accrued=total) for row, total in zip(rows, paid.tolist(), strict=True)])
        else:
            ask = cache(lambda row: act(row, h)) if self._is_fixed else lambda row: act(row, h)
            actions = np.array(list(map(ask, rows)))
        if len(actions) != len(rows):
            raise OptionError(f"act_many returned {len(actions)} actions for {len(rows)} states at step {h}")
        for state, action in set(zip(rows, listed_states(actions), strict=True)):
            self._world.allowed(self.model, action, state, h)
        return actions

    def _step(self, states: NDArray[Any], actions: NDArray[Any], rng: np.random.Generator, h: int) -> Any:
        where = f"step_many of {len(states)} states of {model_name(self.model)} at step {h}"
        try:
            answer = self._step_many(states, actions, rng)
        except Exception as error:
            raise SimulatorError(f"{where} raised {type(error).__name__}: {error}") from error
        found, fault = steps_of(states, answer)
        if fault:
            raise SimulatorError(f"{where}: {fault}")
        return found
