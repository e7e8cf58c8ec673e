"""A finite choice of actions for a continuous action space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailwise._validate import integer
from tailwise.errors import OptionError
from tailwise.models.simulator import short

_MOST = 10_000


@dataclass(frozen=True)
class Discretized:
    """Which actions of a continuous space the search may take: an even grid, or a list.

    The search tries every action of a state before it repeats one: a few well-chosen actions are worth
    more than a fine grid.

    Parameters
    ----------
    levels : int, default 3
        Points per dimension, from the lower to the upper bound (one level: the middle).
    choices : sequence, optional
        The actions themselves, instead of a grid: numbers, or one tuple of numbers each.

    Examples
    --------
    >>> from tailwise import Discretized
    >>> Discretized(levels=3).grid([-1.0, 0.0], [1.0, 4.0])[:3]
    ((-1.0, 0.0), (-1.0, 2.0), (-1.0, 4.0))
    >>> Discretized(choices=[-1, 0.5]).grid([-1.0], [1.0])
    ((-1.0,), (0.5,))
    """

    levels: int = 3
    choices: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        integer(self.levels, "levels", low=1)
        if self.choices is not None and (isinstance(self.choices, str) or len(self.choices) == 0):
            raise OptionError(f"choices must be a sequence of at least one action, not {short(self.choices)}")

    def grid(self, low: Any, high: Any, *, is_integer: bool = False) -> tuple[tuple[float, ...], ...]:
        """Return the actions for a box with the bounds ``low`` and ``high``, each a flat tuple of floats.

        Parameters
        ----------
        low, high : array_like of float, shape (d,)
            Bounds of each dimension.
        is_integer : bool, default False
            Whether the box holds integers only: the points of a grid are rounded, and other choices refused.

        Returns
        -------
        tuple of tuple of float
            At most 10,000 actions.

        Raises
        ------
        OptionError
            If a grid is asked for and a bound is infinite or the grid has over 10,000 points; or if a choice
            does not lie in the box, or is no integer where it must be.
        """
        lows = np.asarray(low, dtype=np.float64).reshape(-1)
        highs = np.asarray(high, dtype=np.float64).reshape(-1)
        if self.choices is not None:
            points = tuple(_inside(choice, lows, highs) for choice in self.choices)
            broken = next((point for point in points if is_integer and not all(x.is_integer() for x in point)), None)
            if broken is not None:
                raise OptionError(f"the action {short(broken)} must hold integers: the action space is one of integers")
            return points
        if not (np.isfinite(lows).all() and np.isfinite(highs).all()):
            raise OptionError("a grid needs finite bounds; give the actions as Discretized(choices=[...])")
        if lows.size * math.log(self.levels) > math.log(_MOST):
            raise OptionError(
                f"{self.levels} levels in {lows.size} dimensions make {self.levels**lows.size} actions, over {_MOST}; "
                "give fewer levels, or the actions as Discretized(choices=[...])"
            )
        axes = [_axis(float(a), float(b), self.levels) for a, b in zip(lows, highs, strict=True)]
        if is_integer:
            axes = [list(dict.fromkeys(float(round(x)) for x in axis)) for axis in axes]
        return tuple(itertools.product(*axes))


def _axis(low: float, high: float, levels: int) -> list[float]:
    return [(low + high) / 2] if levels == 1 else [float(x) for x in np.linspace(low, high, levels)]


def _inside(choice: Any, lows: Any, highs: Any) -> tuple[float, ...]:
    try:
        point = np.asarray(choice, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        point = np.empty(0)
    if point.shape != lows.shape:
        raise OptionError(f"the action {short(choice)} must hold {lows.size} numbers")
    if not ((point >= lows) & (point <= highs)).all():
        raise OptionError(f"the action {short(choice)} lies outside {lows.tolist()}..{highs.tolist()}")
    return tuple(point.tolist())
