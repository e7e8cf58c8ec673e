"""Planners: exact solvers and thin configurations of the search."""

from tailwise.planners.acc_mcts import AccMcts
from tailwise.planners.backward_induction import Solution, backward_induction
from tailwise.planners.erm_mcts import ErmMcts
from tailwise.planners.nlu_mcts import NluMcts
from tailwise.planners.uct import Uct
from tailwise.planners.utility_search import UtilityPlan, UtilitySearch

__all__ = [
    "AccMcts",
    "ErmMcts",
    "NluMcts",
    "Solution",
    "Uct",
    "UtilityPlan",
    "UtilitySearch",
    "backward_induction",
]
