"""What an exploration bonus is: options for people, a NamedTuple for kernels, and a formula.

A bandit or a decision node takes the action of least ``value - bonus``. A bonus of your own is one file: a frozen
dataclass that derives from :class:`Bonus`, a NamedTuple that its method ``compiled`` returns, the formula as two
plain functions of that NamedTuple, and one call of :func:`register_bonus`. numba builds the formula into the kernels.

A bonus may ask for *statistics*: numbers that the search keeps for it with each decision node or each action, such as
the least and the greatest cost-to-go seen. Their memory is taken only where some rule asks for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import ChosenByKind, Kernel, inlined
from tailwise._validate import real
from tailwise.errors import OptionError

TABLE = 1024  # counts below this are looked up: the tables stay in the first-level cache


class PowerTable(NamedTuple):
    """Powers ``count ** exponent``, with one exponent per step; E of them differ."""

    exponents: NDArray[np.float64]  # (H,)
    first: NDArray[np.int64]  # (H,) where the powers of the step's exponent begin
    powers: NDArray[np.float64]  # (E * 1024,) those of the counts 0 (as if it were 1), 1, 2, ...


def power_table(exponents: NDArray[np.float64]) -> PowerTable:
    """Return the table of one exponent per step: float64, shape (H,)."""
    different, row = np.unique(exponents, return_inverse=True)
    counts = np.arange(TABLE, dtype=np.float64)
    counts[0] = 1.0
    return PowerTable(exponents, row.astype(np.int64) * TABLE, (counts ** different[:, None]).ravel())


@inlined
def power(table, h, count):  # type: ignore[no-untyped-def]
    """``count ** exponents[h]`` for ``count`` >= 1."""
    if count < TABLE:
        return table.powers[table.first[h] + count]
    number, exponent = float(count), table.exponents[h]
    if exponent == 0.25:
        return math.sqrt(math.sqrt(number))
    if exponent == -0.5:
        return 1.0 / math.sqrt(number)
    return number**exponent


class Slots(NamedTuple):
    """Where a rule finds its statistics: columns of ``statistics``, by name."""

    node: dict[str, int]
    action: dict[str, int]


_MOST = 1e300  # above this a constant times a power of a count may overflow, and all scores are alike


class Bonus:
    """Base class of exploration bonuses; derive a frozen, keyword-only dataclass from it.

    Attributes
    ----------
    node_statistics, action_statistics : dict of str to float
        Names and first values of what the search keeps for the bonus with each decision node, and with each action.
    """

    node_statistics: ClassVar[dict[str, float]] = {}
    action_statistics: ClassVar[dict[str, float]] = {}

    def compiled(self, horizon: int, discount: float, slots: Slots) -> NamedTuple:
        """Return what the kernel reads: a NamedTuple whose class was given to :func:`register_bonus`.

        Parameters
        ----------
        horizon : int
            Number of decisions H of the model (1 for a bandit).
        discount : float
            The model's discount.
        slots : Slots
            Column of each statistic that the bonus asked for.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what the kernel reads: give it compiled()")


@ChosenByKind
def growth_of(rule, h, visits, statistics, node):  # type: ignore[no-untyped-def]
    """Part of the bonus that the actions of a node share, from its ``visits`` >= 2 at step ``h``.

    ``statistics[node]`` is the row of the node.
    """
    raise NotImplementedError


@ChosenByKind
def bonus_of(rule, growth, h, count, statistics, action):  # type: ignore[no-untyped-def]
    """Bonus, in the unit of the costs, of an action that was taken ``count`` >= 1 times, from the shared part.

    ``statistics[action]`` is the row of the action.
    """
    raise NotImplementedError


@ChosenByKind
def observe(rule, statistics, nodes, actions, costs_to_go, length):  # type: ignore[no-untyped-def]
    """Take note of one iteration: of the cost-to-go at each of the ``length`` steps of its path. Nothing by default."""


def register_bonus(kind: type, growth: Kernel, formula: Kernel, note: Kernel | None = None) -> None:
    """Make a bonus known to the kernels.

    It is written in two parts, so that what the actions of a node share is worked out once a visit.

    Parameters
    ----------
    kind : type
        The NamedTuple class that the bonus's ``compiled`` returns.
    growth : callable
        ``growth(rule, h, visits, statistics, node) -> number``; see :func:`growth_of`.
    formula : callable
        ``formula(rule, growth, h, count, statistics, action) -> bonus``; see :func:`bonus_of`.
    note : callable, optional
        ``note(rule, statistics, nodes, actions, costs_to_go, length)``, which keeps the bonus's statistics up to
        date; see :func:`observe`.
    """
    growth_of.register(kind, growth)
    bonus_of.register(kind, formula)
    if note is not None:
        observe.register(kind, note)


def constants_of(value: float | Sequence[float], name: str) -> float | tuple[float, ...]:
    """Validate a non-negative number, or one per depth."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(real(item, f"{name}[{h}]", low=0.0, high=_MOST) for h, item in enumerate(value))
    return real(value, name, low=0.0, high=_MOST)


def per_step(value: float | tuple[float, ...], horizon: int, name: str) -> NDArray[np.float64]:
    """Return one number per step: float64, shape (H,)."""
    if isinstance(value, tuple) and len(value) != horizon:
        raise OptionError(f"the bonus has {len(value)} {name} for a horizon of {horizon}; give one per step")
    return np.array(value, dtype=np.float64) if isinstance(value, tuple) else np.full(horizon, float(value))
