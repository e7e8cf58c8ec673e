"""The contract that every model answers, whatever its kind.

A model is a finite-horizon decision problem. At step ``h`` (0 to ``horizon - 1``) the decision
maker sees the state, picks one of ``actions(state)``, pays a cost and moves on. The total is
``sum_h discount**h * cost_h``, plus ``discount**horizon * terminal_cost(state)`` when step
``horizon`` is reached. ``done=True`` ends the episode: nothing more is charged, no terminal cost.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

Sense: TypeAlias = Literal["cost", "reward"]


class Outcome(NamedTuple):
    """One outcome of an action. Two outcomes may share ``next_state`` and differ in cost."""

    probability: float
    next_state: Any
    cost: float
    done: bool


@runtime_checkable
class Model(Protocol):
    """What planners ask of a model. Costs are in the model's own ``sense``.

    Attributes
    ----------
    horizon : int
        Number of decisions H, at least 1.
    discount : float in (0, 1]
        Factor per step.
    sense : "cost" or "reward"
        Whether the numbers of ``step`` are costs (minimised) or rewards (maximised).
    start : hashable
        Initial state.
    """

    horizon: int
    discount: float
    sense: Sense
    start: Any

    def actions(self, state: Any) -> int | Sequence[Any]:
        """Return the actions allowed in ``state``: their ids, or their number n for 0..n-1."""
        ...

    def step(self, state: Any, action: Any, rng: np.random.Generator) -> tuple[Hashable, float, bool]:
        """Draw ``(next_state, cost, done)``."""
        ...
