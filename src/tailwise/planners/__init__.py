"""Planners: exact solvers and thin configurations of the search."""

from tailwise.planners.backward_induction import Solution, backward_induction
from tailwise.planners.erm_mcts import ErmMcts

__all__ = ["ErmMcts", "Solution", "backward_induction"]
