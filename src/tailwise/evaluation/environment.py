"""Environments: what an episode is played in, one step at a time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

import numpy as np

from tailwise._random import generator
from tailwise.errors import SimulatorError, StateError
from tailwise.evaluation.streams import child, episode_uniforms, run_key
from tailwise.exact.policies import action_id
from tailwise.models import TabularMDP
from tailwise.models.contract import Model
from tailwise.models.simulator import cost_fault, model_name, outcome_fault, own_method, short


class Environment(Protocol):
    """One model, many episodes; costs are in the model's own sense."""

    def __init__(self, model: Any, root: np.random.SeedSequence) -> None: ...

    @staticmethod
    def allowed(model: Any, action: Any, state: Any, h: int) -> object:
        """Return an action (of a table its id), or raise ``StateError`` where it is not allowed."""
        ...

    def begin(self, episode: int) -> Hashable:
        """Start an episode; return its first state."""
        ...

    def step(self, state: Any, action: Any, h: int) -> tuple[Hashable, float, bool]:
        """Return (next state, cost, done)."""
        ...

    def end_cost(self, state: Any) -> float:
        """Return what reaching step H in ``state`` costs."""
        ...


class TableEnvironment:
    """A table on common random numbers (see :mod:`tailwise.evaluation.streams`)."""

    def __init__(self, mdp: TabularMDP, root: np.random.SeedSequence) -> None:
        self.mdp = mdp
        self._key = run_key(root)
        self._cumulative = mdp.data.cumulative
        self._uniforms = np.empty(0)

    def begin(self, episode: int) -> int:
        """Start an episode; return its first state."""
        self._uniforms = episode_uniforms(self._key, episode, self.mdp.horizon)
        return self.mdp.start

    def step(self, state: int, action: int, h: int) -> tuple[int, float, bool]:
        """Return (next state, cost, done) by inverting the row's distribution at the step's draw."""
        mdp = self.mdp
        row = mdp.row(state, action)
        first, last = int(mdp.outcome_offsets[row]), int(mdp.outcome_offsets[row + 1])
        k = first + int(np.searchsorted(self._cumulative[first:last], self._uniforms[h], side="right"))
        cost = float(mdp.losses[k])
        if mdp.step_losses.size:
            cost += float(mdp.step_losses[h, row])
        return int(mdp.next_states[k]), float(mdp.signed(cost)), bool(mdp.done[k])

    def end_cost(self, state: int) -> float:
        """Return what reaching step H in ``state`` costs."""
        return self.mdp.terminal_cost(state)

    @staticmethod
    def allowed(mdp: TabularMDP, action: Any, state: int, h: int) -> int:
        """Return the id of an action, or raise ``StateError``."""
        return action_id(mdp, action, state, h)


class SimulatorEnvironment:
    """Any other model: each episode has a generator of its own, the same for every planner."""

    def __init__(self, model: Model, root: np.random.SeedSequence) -> None:
        self.model = model
        self._root = root
        self._rng = generator(root)
        self._end = own_method(model, "terminal_cost")

    def begin(self, episode: int) -> Hashable:
        """Start an episode; return its first state."""
        self._rng = generator(child(self._root, episode, 0))
        start: Hashable = self.model.start
        return start

    def step(self, state: Any, action: Any, h: int) -> tuple[Hashable, float, bool]:
        """Return (next state, cost, done); a failure names state, action and step."""
        where = f"step({short(state)}, {short(action)}) of {model_name(self.model)} at step {h} of an evaluated episode"
        try:
            outcome = self.model.step(state, action, self._rng)
        except Exception as error:
            raise SimulatorError(f"{where} raised {type(error).__name__}: {error}") from error
        fault = outcome_fault(outcome)
        if fault:
            raise SimulatorError(f"{where}: {fault}")
        target, cost, done = outcome
        return target, float(cost), bool(done)

    def end_cost(self, state: Any) -> float:
        """Return what reaching step H in ``state`` costs."""
        if self._end is None:
            return 0.0
        where = f"terminal_cost({short(state)}) of {model_name(self.model)}"
        try:
            cost = self._end(state)
        except Exception as error:
            raise SimulatorError(f"{where} raised {type(error).__name__}: {error}") from error
        fault = cost_fault(cost)
        if fault:
            raise SimulatorError(f"{where}: the terminal cost {fault}")
        return float(cost)

    @staticmethod
    def allowed(model: Model, action: Any, state: Any, h: int) -> object:
        """Return an action that is allowed, or raise ``StateError``."""
        actions = model.actions(state)
        choices = range(int(actions)) if isinstance(actions, (int, np.integer)) else list(actions)
        if action not in choices:
            raise StateError(
                f"the policy takes action {action!r} in state {state!r} at step {h}, where it is not allowed"
            )
        return action


def environment_of(model: Any) -> type[Environment]:
    """Return the kind of environment of a model, to be made with it and a seed."""
    return TableEnvironment if isinstance(model, TabularMDP) else SimulatorEnvironment
