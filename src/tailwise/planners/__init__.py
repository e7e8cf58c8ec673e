"""Planners: exact solvers and thin configurations of the search."""

from tailwise.planners.backward_induction import Solution, backward_induction

__all__ = ["Solution", "backward_induction"]
