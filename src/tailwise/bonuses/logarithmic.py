"""The logarithmic bonus of UCB1 and UCT (Auer et al., 2002; Kocsis & Szepesvari, 2006)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise.bonuses.bonus import Bonus, Slots, constants_of, per_step, register_bonus
from tailwise.bonuses.powers import TABLE, PowerTable, power, power_table


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
        return _compiled(self.constant, horizon)


class LogRule(NamedTuple):
    """The bonus as the kernel reads it."""

    constants: NDArray[np.float64]  # (H,)
    roots_of_logs: NDArray[np.float64]  # (1024,) sqrt(ln N)
    count_powers: PowerTable  # 1 / sqrt(N(s, a))


@functools.lru_cache(maxsize=64)
def _compiled(constant: float | tuple[float, ...], horizon: int) -> LogRule:
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
