"""The finitely many actions of a Gymnasium environment: chosen from a continuous space, and which are legal where."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailwise._validate import integer
from tailwise.errors import ModelError, OptionError
from tailwise.models.contract import short

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
        if self.choices is not None and not _is_list(self.choices):
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
        middle = (lows + highs) / 2.0
        axes = (np.linspace(lows, highs, self.levels) if self.levels > 1 else middle[None]).T.tolist()
        if is_integer:
            axes = [list(dict.fromkeys(float(round(x)) for x in axis)) for axis in axes]
        return tuple(itertools.product(*axes))


def _is_list(given: Any) -> bool:
    return not isinstance(given, str) and hasattr(given, "__len__") and len(given) > 0


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


class FiniteActions:
    """The actions as people see them (``shown``, hashable) and as the environment takes them (``natives``)."""

    def __init__(self, space: Any, given: Discretized | Sequence[Any] | None, name: str) -> None:
        from gymnasium import spaces

        self._name = name
        self.has_mask = False  # whether one was ever given
        self.shown: tuple[Any, ...]
        self.natives: list[Any]
        axes = _axes(space, spaces)
        if isinstance(space, spaces.Box):
            self.shown, self.natives = _points(space, given, name)
        elif given is not None:
            self.shown, self.natives = _listed(space, given, name, is_number=isinstance(space, spaces.Discrete))
        elif axes is None:
            raise ModelError(f"{name} has the action space {space}; give the actions to choose from as actions=[...]")
        else:
            count = int(np.prod([float(len(axis)) for axis in axes]))
            if count > _MOST:
                raise ModelError(f"{name} has {count} actions, over {_MOST}; choose some as actions=[...]")
            points = tuple(itertools.product(*axes))
            is_number = isinstance(space, spaces.Discrete)
            self.shown = tuple(point[0] for point in points) if is_number else points
            self.natives = list(self.shown) if is_number else [np.array(each, dtype=space.dtype) for each in points]
        offsets = np.cumsum([0, *map(len, axes or ())])
        self._mask_length = int(offsets[-1])
        starts = [int(offset) - axis.start for offset, axis in zip(offsets, axes or (), strict=False)]
        self._bits = [
            [start + int(part) for start, part in zip(starts, np.ravel(native), strict=True)] if axes else []
            for native in self.natives
        ]

    def allowed(self, env: Any, observation: Any, info: Any) -> tuple[int, ...] | None:
        """Return the positions of the legal actions by the environment's mask; None where it has none."""
        if not self._mask_length:
            return None
        mask = info.get("action_mask") if isinstance(info, dict) else None
        if mask is None and isinstance(observation, dict):
            mask = observation.get("action_mask")
        while mask is None:
            ask = getattr(env, "action_masks", None)
            if callable(ask):
                mask = ask()
            elif env is env.unwrapped:
                return None
            else:
                env = env.env
        flat = np.concatenate([np.ravel(part) for part in mask]) if isinstance(mask, (tuple, list)) else np.ravel(mask)
        if flat.size != self._mask_length:
            raise ModelError(f"{self._name} has a mask of {flat.size} entries; expected {self._mask_length}")
        self.has_mask = True
        legal = flat.tolist()
        return tuple(i for i, bits in enumerate(self._bits) if all(legal[bit] for bit in bits))


def _axes(space: Any, spaces: Any) -> list[range] | None:
    """The values of each component of an action, where they are integers."""
    if isinstance(space, spaces.Discrete):
        return [range(int(space.start), int(space.start) + int(space.n))]
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return [range(int(a), int(a) + int(n)) for a, n in zip(space.start, space.nvec, strict=True)]
    if isinstance(space, spaces.MultiBinary) and isinstance(space.n, (int, np.integer)):
        return [range(2)] * int(space.n)
    return None


def _points(space: Any, given: Any, name: str) -> tuple[tuple[Any, ...], list[Any]]:
    if given is None:
        raise ModelError(
            f"{name} has the continuous action space {space}; the search needs finitely many actions: choose them "
            f"with actions=Discretized(levels=3) or actions=Discretized(choices=[...]), or load {name}?levels=3"
        )
    chosen = given if isinstance(given, Discretized) else Discretized(choices=_listing(given, name))
    points = chosen.grid(space.low, space.high, is_integer=not np.issubdtype(space.dtype, np.floating))
    return points, [np.array(point, dtype=space.dtype).reshape(space.shape) for point in points]


def _listing(given: Any, name: str) -> tuple[Any, ...]:
    if not _is_list(given):
        raise ModelError(f"actions of {name} must be a sequence of at least one action, not {short(given)}")
    return tuple(given)


def _listed(space: Any, given: Any, name: str, *, is_number: bool) -> tuple[tuple[Any, ...], list[Any]]:
    if isinstance(given, Discretized):
        raise ModelError(f"{name} has the action space {space}, which needs no Discretized")
    given = tuple(given.tolist() if isinstance(given, np.ndarray) and is_number else _listing(given, name))
    natives = [int(a) if is_number and isinstance(a, (int, np.integer)) else a for a in given]
    outside = next((action for action in natives if not space.contains(action)), None)
    if outside is not None:
        raise ModelError(f"action {outside!r} is not in the action space {space} of {name}")
    return given, natives
