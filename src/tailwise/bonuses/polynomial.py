"""The paper's bonus (eqs. ``mcts_action-selection``, ``ucb_erm_algorithm``): polynomial in the counts.

The paper subtracts from an action's ERM, at depth h,

    (theta_{h+1})^(1/xi_{h+1})  *  N(s)^(alpha_{h+1}/xi_{h+1})  /  N(s, a)^(1 - eta_{h+1}).

Theorem ``mcts-result`` sets alpha = eta (1 - eta) xi, so that the exponents depend on eta alone and the first factor
is one *constant* per depth. Its experiments take eta = 1/2 and sqrt(2): ``sqrt(2) N(s)^(1/4) / N(s, a)^(1/2)``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._validate import real
from tailwise.bonuses.bonus import Bonus, Slots, constants_of, per_step, register_bonus
from tailwise.bonuses.powers import PowerTable, power, power_table


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
            real(eta, "eta", low=0.5, high=1.0, high_open=True, hint="the theory needs 1/2 <= eta < 1")
        if self.exponent is not None:
            object.__setattr__(self, "exponent", constants_of(self.exponent, "exponent"))

    def compiled(self, horizon: int, discount: float, slots: Slots) -> PolynomialRule:
        """Return the constants and the tables of powers."""
        return _compiled(self.constant, self.eta, self.exponent, horizon)


class PolynomialRule(NamedTuple):
    """The bonus as the kernel reads it."""

    constants: NDArray[np.float64]  # (H,)
    visit_powers: PowerTable  # of N(s)
    count_powers: PowerTable  # of N(s, a)


@functools.lru_cache(maxsize=64)
def _compiled(
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
