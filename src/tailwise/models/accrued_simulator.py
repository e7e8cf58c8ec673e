"""The accrued-cost view of a simulator: what :mod:`tailwise.models.accrued` is for tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tailwise.errors import OptionError, SimulatorError
from tailwise.models.accrued import ExponentialUtility, Utility, check_utility
from tailwise.models.contract import LARGEST_COST
from tailwise.models.simulator import (
    Simulator,
    action_label,
    cost_fault,
    model_name,
    own_method,
    short,
    state_label,
    validate_simulator,
)


class AccruedSimulator(Simulator):
    """A simulator seen as (state, accrued discounted cost, step), with a utility of the total at the end.

    It runs in Python, whatever the simulator is.

    Parameters
    ----------
    inner : simulator
        The simulator.
    utility : callable float -> float
        As for :class:`tailwise.models.AccruedTable`.

    Raises
    ------
    ModelError
        If ``inner`` is no simulator.
    OptionError
        If ``utility`` cannot be called, or is an exponential one of the other sense.
    """

    labels_by_state = True

    def __init__(self, inner: Any, utility: Utility) -> None:
        validate_simulator(inner)
        check_utility(utility, inner.sense)
        self.inner = inner
        self.utility = utility
        self.horizon = int(inner.horizon)
        self.discount = 1.0
        self.sense = inner.sense
        self.start = (inner.start, 0.0, 0)
        self.name = model_name(inner)
        self.powers = float(inner.discount) ** np.arange(self.horizon + 1, dtype=np.float64)
        self._end = own_method(inner, "terminal_cost")

    def actions(self, state: Any) -> Any:
        """Return the actions that the simulator allows."""
        return self.inner.actions(state[0])

    def step(self, state: Any, action: Any, rng: np.random.Generator) -> tuple[Any, float, bool]:
        """Draw ((next state, accrued, step), cost, done); only the end charges, the utility of the total."""
        inner, accrued, h = state
        target, cost, done = self.inner.step(inner, action, rng)
        if not abs(cost) <= LARGEST_COST:
            raise SimulatorError(f"the cost {cost_fault(cost)}")
        accrued = accrued + float(self.powers[h]) * float(cost)
        after = (target, accrued, h + 1)
        if not done and h + 1 < self.horizon:
            return after, 0.0, False
        end = 0.0 if done or self._end is None else float(self.powers[h + 1]) * float(self._end(target))
        return after, self.utility_of(accrued + end), bool(done)

    def action_name(self, action: Any, state: Any = None) -> str:
        """Return the simulator's name of an action, in a state of the view."""
        return action_label(self.inner, action, None if state is None else state[0])

    def state_name(self, state: Any) -> str:
        """Return the simulator's name of a state, with the accrued cost."""
        return f"{state_label(self.inner, state[0])} (accrued {state[1]:.6g})"

    def signed(self, loss: Any) -> Any:
        """Turn a loss into the simulator's own sense, or back."""
        return loss if self.sense == "cost" else 0.0 - loss

    def utility_of(self, total: float) -> float:
        """Return the utility of a total in the simulator's own sense, in that sense; raise if it overflows."""
        value = float(self.utility(total))
        if isinstance(self.utility, ExponentialUtility) and math.isinf(value):
            raise self.utility.overflow(f"of {total:g}")
        return value

    def root(self, state: Any, accrued: float, step: int) -> tuple[Any, float, int]:
        """Return the view's state for a state, what was paid before it, and its step."""
        return (self.inner.start if state is None else state), accrued, step

    def known_cost(self, origin: Any, action: Any, target: Any, step: int) -> float:
        """Raise: what a simulated step costs, only the caller knows."""
        raise OptionError(
            f"what action {action!r} in state {short(origin)} cost must be said: advance(action, state, cost=...)"
        )
