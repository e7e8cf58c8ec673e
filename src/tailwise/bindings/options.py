"""What a search asks of a simulator beyond its steps: bounded outcomes, and how to value a leaf."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tailwise._validate import real


@dataclass(frozen=True)
class Widening:
    """Progressive widening of a simulator's outcomes, for continuous or huge outcome spaces.

    A chance node (a state and an action) that was visited n times keeps at most ``k n^alpha`` different draws:
    once it holds as many, one of them, chosen evenly, is taken again instead of a new draw (double progressive
    widening: Couetoux et al., 2011). Without it, where no outcome comes twice, a tree grows no
    deeper than one step. Estimates are biased until n is large: each rests on a sample of ``k n^alpha`` outcomes.

    Parameters
    ----------
    k : float, default 1.0
        Positive factor.
    alpha : float in (0, 1), default 0.5
        Growth exponent.

    Examples
    --------
    >>> from tailwise import Widening
    >>> Widening(k=2.0, alpha=0.25).k
    2.0
    """

    k: float = 1.0
    alpha: float = 0.5

    def __post_init__(self) -> None:
        real(self.k, "k", low=0.0, low_open=True)
        real(self.alpha, "alpha", low=0.0, high=1.0, low_open=True, high_open=True)


class SimulationOptions(Protocol):
    """The part of a search's options that a binding reads."""

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
