"""A polynomial bonus that finds its own scale: the range of the costs-to-go seen at the node.

    constant * scale * N(s)^(1/4) / N(s, a)^(1/2),      scale = max(high - low, floor * widest * togo_h / togo_0)

``low`` and ``high`` are the least and the greatest cost-to-go sampled at the node, ``widest`` is the range of the
totals of whole episodes, and ``togo_h`` the sum of the discounts of the steps that are left. The floor keeps the
scale positive where the first samples of a node are equal, so that every action of a node that is visited for ever
is taken for ever. While all totals are equal, the scale is a part of them of the size of rounding, or 1 if they are 0:
values are then equal as well, and any bonus at all makes the actions take turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._padding import apart
from tailwise._validate import real
from tailwise.bonuses.bonus import Bonus, Slots, register_bonus
from tailwise.bonuses.powers import PowerTable, power, power_table

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
