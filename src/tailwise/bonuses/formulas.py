"""What an exploration bonus is: options for people, a NamedTuple for kernels, and a formula.

A bandit or a decision node takes the action of least ``value - bonus``. A bonus of your own is one file: a frozen
dataclass that derives from :class:`Bonus`, a NamedTuple that its method ``compiled`` returns, the formula as two
plain functions of that NamedTuple, and one call of :func:`register_bonus`. numba builds the formula into the kernels.

A bonus may ask for *statistics*: numbers that the search keeps for it with each decision node or each action, such as
the least and the greatest cost-to-go seen. Their memory is taken only where some rule asks for them.

Those that are here:

*Polynomial* (eqs. ``mcts_action-selection``, ``ucb_erm_algorithm``). At depth h the paper subtracts from the ERM

    (theta_{h+1})^(1/xi_{h+1})  *  N(s)^(alpha_{h+1}/xi_{h+1})  /  N(s, a)^(1 - eta_{h+1}).

Theorem ``mcts-result`` sets alpha = eta (1 - eta) xi, so that the exponents depend on eta alone and the first factor
is one *constant* per depth. Its experiments take eta = 1/2 and sqrt(2): ``sqrt(2) N(s)^(1/4) / N(s, a)^(1/2)``.

*Logarithmic*: that of UCB1 and UCT (Auer et al., 2002; Kocsis & Szepesvari, 2006).

*Observed range*: the range of the costs-to-go seen at the node,

    constant * scale * N(s)^(1/4) / N(s, a)^(1/2),      scale = max(high - low, floor * widest * togo_h / togo_0)

``low`` and ``high`` are the least and the greatest cost-to-go sampled at the node, ``widest`` is the range of the
totals of whole episodes, and ``togo_h`` the sum of the discounts of the steps that are left. The floor keeps the
scale positive where the first samples of a node are equal, so that every action of a node that is visited for ever
is taken for ever. While all totals are equal, the scale is a part of them of the size of rounding, or 1 if they are 0:
values are then equal as well, and any bonus at all makes the actions take turns.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import apart
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


@dataclass(frozen=True, kw_only=True)
class PolynomialBonus(Bonus):
    """Exploration bonus ``constant[h] N(s)^(eta (1 - eta)) / N(s, a)^(1 - eta)`` (eq. mcts_action-selection).

    Parameters
    ----------
    constant : float or sequence of float, default sqrt(2)
        Non-negative scale, in the unit of the costs; a sequence gives one per depth 0..H-1 (the
        schedule of theorem ``mcts-result``).
    eta : float in [1/2, 1) or sequence of such, default 1/2
        The paper's eta, or one per depth.
    exponent : float or sequence of float, optional
        alpha/xi, the exponent of N(s), or one per depth; eta (1 - eta) if not given.

    Examples
    --------
    >>> from tailwise import PolynomialBonus
    >>> PolynomialBonus(constant=5.0).eta
    0.5
    """

    constant: float | Sequence[float] = math.sqrt(2)
    eta: float | Sequence[float] = 0.5
    exponent: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "constant", constants_of(self.constant, "constant"))
        object.__setattr__(self, "eta", constants_of(self.eta, "eta"))
        for eta in self.eta if isinstance(self.eta, tuple) else (self.eta,):
            real(eta, "eta", low=0.5, high=1.0, ends="[)", hint="the theory needs 1/2 <= eta < 1")
        if self.exponent is not None:
            object.__setattr__(self, "exponent", constants_of(self.exponent, "exponent"))

    def compiled(self, horizon: int, discount: float, slots: Slots) -> PolynomialRule:
        """Return the constants and the tables of powers."""
        return _polynomial(self.constant, self.eta, self.exponent, horizon)


class PolynomialRule(NamedTuple):
    """The bonus as the kernel reads it."""

    constants: NDArray[np.float64]  # (H,)
    visit_powers: PowerTable  # of N(s)
    count_powers: PowerTable  # of N(s, a)


@functools.lru_cache(maxsize=64)
def _polynomial(
    constant: float | tuple[float, ...],
    eta: float | tuple[float, ...],
    exponent: float | tuple[float, ...] | None,
    horizon: int,
) -> PolynomialRule:
    etas, constants = per_step(eta, horizon, "values of eta"), per_step(constant, horizon, "constants")
    growth = etas * (1.0 - etas) if exponent is None else per_step(exponent, horizon, "exponents")
    return PolynomialRule(constants, power_table(growth), power_table(etas - 1.0))


def polynomial_growth(rule, h, visits, statistics, node):  # type: ignore[no-untyped-def]
    """``constant N(s)^exponent``."""
    return rule.constants[h] * power(rule.visit_powers, h, visits)


def polynomial_bonus(rule, growth, h, count, statistics, action):  # type: ignore[no-untyped-def]
    """``constant N(s)^exponent / N(s, a)^(1 - eta)``."""
    return growth * power(rule.count_powers, h, count)


register_bonus(PolynomialRule, polynomial_growth, polynomial_bonus)


@dataclass(frozen=True, kw_only=True)
class LogBonus(Bonus):
    """Exploration bonus ``constant[h] sqrt(ln N(s) / N(s, a))`` of UCB1 and UCT (Kocsis & Szepesvari, 2006).

    Parameters
    ----------
    constant : float or sequence of float, default sqrt(2)
        Non-negative scale, in the unit of the costs, or one per depth.

    Examples
    --------
    >>> from tailwise import LogBonus
    >>> LogBonus(constant=[1, 2]).constant
    (1.0, 2.0)
    """

    constant: float | Sequence[float] = math.sqrt(2)

    def __post_init__(self) -> None:
        object.__setattr__(self, "constant", constants_of(self.constant, "constant"))

    def compiled(self, horizon: int, discount: float, slots: Slots) -> LogRule:
        """Return the constants and the tables of logarithms and roots."""
        return _logarithmic(self.constant, horizon)


class LogRule(NamedTuple):
    """The bonus as the kernel reads it."""

    constants: NDArray[np.float64]  # (H,)
    roots_of_logs: NDArray[np.float64]  # (1024,) sqrt(ln N)
    count_powers: PowerTable  # 1 / sqrt(N(s, a))


@functools.lru_cache(maxsize=64)
def _logarithmic(constant: float | tuple[float, ...], horizon: int) -> LogRule:
    counts = np.arange(TABLE, dtype=np.float64)
    counts[0] = 1.0
    return LogRule(
        per_step(constant, horizon, "constants"), np.sqrt(np.log(counts)), power_table(np.full(horizon, -0.5))
    )


def log_growth(rule, h, visits, statistics, node):  # type: ignore[no-untyped-def]
    """``constant sqrt(ln N(s))``."""
    if visits < TABLE:
        return rule.constants[h] * rule.roots_of_logs[visits]
    return rule.constants[h] * math.sqrt(math.log(float(visits)))


def log_bonus(rule, growth, h, count, statistics, action):  # type: ignore[no-untyped-def]
    """``constant sqrt(ln N(s)) / sqrt(N(s, a))``."""
    return growth * power(rule.count_powers, h, count)


register_bonus(LogRule, log_growth, log_bonus)

_ROUNDING = 1e-12  # least scale, as a part of the greatest total


@dataclass(frozen=True, kw_only=True)
class RangeBonus(Bonus):
    """Exploration bonus ``constant * scale * N(s)^(1/4) / N(s, a)^(1/2)``, its scale observed at the node.

    Parameters
    ----------
    constant : float, default 0.25
        Non-negative number without a unit.
    floor : float in [0, 1], default 0.001
        Least scale at a node, as a part of the range of whole episodes. As long as all totals are equal (but for
        rounding) the actions take turns, whatever the floor.

    Examples
    --------
    >>> from tailwise import ErmMcts, RangeBonus, domains
    >>> ErmMcts(domains.make("grid-mdp"), beta=0.1, bonus=RangeBonus(), seed=0).plan(iterations=100).iterations
    100
    """

    constant: float = 0.25
    floor: float = 0.001
    node_statistics: ClassVar[dict[str, float]] = {"low": np.inf, "high": -np.inf}

    def __post_init__(self) -> None:
        real(self.constant, "constant", low=0.0)
        real(self.floor, "floor", low=0.0, high=1.0)

    def compiled(self, horizon: int, discount: float, slots: Slots) -> RangeRule:
        """Return the constant, the floors and where the range of a node is kept."""
        (totals,) = apart(np.float64, 2)
        totals[:] = np.inf, -np.inf
        togo = np.cumsum(discount ** np.arange(horizon, dtype=np.float64))[::-1]
        return RangeRule(
            float(self.constant),
            float(self.floor) * togo / togo[0],
            totals,
            power_table(np.full(horizon, 0.25)),
            power_table(np.full(horizon, -0.5)),
            slots.node["low"],
            slots.node["high"],
        )


class RangeRule(NamedTuple):
    """The bonus as the kernel reads it."""

    constant: float
    floors: NDArray[np.float64]  # (H,) least scale, as a part of the range of whole episodes
    totals: NDArray[np.float64]  # (2,) least and greatest cost-to-go seen at the root
    visit_powers: PowerTable  # N(s)^(1/4)
    count_powers: PowerTable  # N(s, a)^(-1/2)
    low: int
    high: int


def range_growth(rule, h, visits, statistics, node):  # type: ignore[no-untyped-def]
    """``constant * scale * N(s)^(1/4)``."""
    least, greatest = rule.totals[0], rule.totals[1]
    scale = max(statistics[node, rule.high] - statistics[node, rule.low], rule.floors[h] * max(greatest - least, 0.0))
    if least <= greatest:  # while all totals are equal but for rounding, actions take turns
        scale = max(scale, _ROUNDING * max(abs(least), abs(greatest)))
    if scale <= 0.0:
        scale = 1.0
    return rule.constant * scale * power(rule.visit_powers, h, visits)


def range_bonus(rule, growth, h, count, statistics, action):  # type: ignore[no-untyped-def]
    """``constant * scale * N(s)^(1/4) / N(s, a)^(1/2)``."""
    return growth * power(rule.count_powers, h, count)


def note_range(rule, statistics, nodes, actions, costs_to_go, length):  # type: ignore[no-untyped-def]
    """Widen the range of each node on the path."""
    rule.totals[0] = min(rule.totals[0], costs_to_go[0])
    rule.totals[1] = max(rule.totals[1], costs_to_go[0])
    for k in range(length):
        row, cost = nodes[k], costs_to_go[k]
        statistics[row, rule.low] = min(statistics[row, rule.low], cost)
        statistics[row, rule.high] = max(statistics[row, rule.high], cost)


register_bonus(RangeRule, range_growth, range_bonus, note_range)
