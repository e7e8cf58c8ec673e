"""Exploration bonuses: one code for the bandits of the paper's section 3 and for the tree search."""

from tailwise.bonuses.bonus import Bonus, Slots, bonus_of, growth_of, observe, register_bonus
from tailwise.bonuses.logarithmic import LogBonus
from tailwise.bonuses.observed_range import RangeBonus
from tailwise.bonuses.polynomial import PolynomialBonus

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
