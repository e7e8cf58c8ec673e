"""Planners: the protocol, exact solvers and thin configurations of the search, each with a name."""

from typing import TYPE_CHECKING

from tailwise._lazy import lazy

if TYPE_CHECKING:
    from tailwise.planners import until
    from tailwise.planners.belief_search import BeliefSearch
    from tailwise.planners.bounded_rtdp import BoundedRtdp
    from tailwise.planners.distributional_mcts import CvarMcts, DistributionalMcts
    from tailwise.planners.exact import ExactPlanner
    from tailwise.planners.history_mcts import HistoryMcts, ParticleBelief
    from tailwise.planners.learned_beliefs import LearnedBeliefs
    from tailwise.planners.make import make_planner, plan_many
    from tailwise.planners.protocol import Decision, FullPlanner, Planner
    from tailwise.planners.registry import PlannerKind, find_planner, list_planners, objective_cells, register_planner
    from tailwise.planners.searches import ErmMcts, LearnedModelSearch, Uct
    from tailwise.planners.utility_search import AccMcts, NluMcts, UtilitySearch

__all__ = [
    "AccMcts",
    "BeliefSearch",
    "BoundedRtdp",
    "CvarMcts",
    "Decision",
    "DistributionalMcts",
    "ErmMcts",
    "ExactPlanner",
    "FullPlanner",
    "HistoryMcts",
    "LearnedBeliefs",
    "LearnedModelSearch",
    "NluMcts",
    "ParticleBelief",
    "Planner",
    "PlannerKind",
    "Uct",
    "UtilitySearch",
    "find_planner",
    "list_planners",
    "make_planner",
    "objective_cells",
    "plan_many",
    "register_planner",
    "until",
]

__getattr__ = lazy(__name__)
