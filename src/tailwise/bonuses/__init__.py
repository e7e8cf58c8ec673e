"""Exploration bonuses: one code for the bandits of the paper's section 3 and for the tree search."""

from tailwise.bonuses.formulas import (
    Bonus,
    LogBonus,
    PolynomialBonus,
    RangeBonus,
    Slots,
    bonus_of,
    growth_of,
    observe,
    register_bonus,
)

__all__ = [
    "Bonus",
    "LogBonus",
    "PolynomialBonus",
    "RangeBonus",
    "Slots",
    "bonus_of",
    "growth_of",
    "observe",
    "register_bonus",
]
