"""The compiled tree search: arena, selection, rollout, backup, and the anytime driver."""

from tailwise.search.driver import TreeSearch
from tailwise.search.options import Bonus, LogBonus, PolynomialBonus, SearchOptions
from tailwise.search.plan import ActionRow, Plan, StopReason

__all__ = [
    "ActionRow",
    "Bonus",
    "LogBonus",
    "Plan",
    "PolynomialBonus",
    "SearchOptions",
    "StopReason",
    "TreeSearch",
]
