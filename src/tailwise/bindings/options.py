"""What a search asks of a simulator beyond its steps: few outcomes, and how to value a leaf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tailwise.bindings.widening import Widening


class SimulationOptions(Protocol):
    """The part of a search's options that an interface reads."""

    @property
    def widening(self) -> Widening | None:
        """Bound on the different outcomes of each action."""
        ...

    @property
    def rollout_policy(self) -> Callable[[Any, int, np.random.Generator], Any] | None:
        """``rollout_policy(state, h, rng) -> action``, instead of uniform random actions."""
        ...

    @property
    def leaf_value(self) -> Callable[[Any, int], float] | None:
        """``leaf_value(state, h) -> float``, instead of a rollout."""
        ...
