"""Planners: the protocol, exact solvers and thin configurations of the search, each with a name."""

from tailwise.planners import until
from tailwise.planners.acc_mcts import AccMcts
from tailwise.planners.bounded_rtdp import BoundedRtdp
from tailwise.planners.cvar_mcts import CvarMcts
from tailwise.planners.distributional_mcts import DistributionalMcts
from tailwise.planners.erm_mcts import ErmMcts
from tailwise.planners.exact import ExactPlanner
from tailwise.planners.exact_policy import ExactPolicy
from tailwise.planners.learned import LearnedModelSearch
from tailwise.planners.make import AutoPlanner, make_planner
from tailwise.planners.many import plan_many
from tailwise.planners.nlu_mcts import NluMcts
from tailwise.planners.protocol import Decision, Planner
from tailwise.planners.registry import PlannerKind, find_planner, list_planners, register_planner
from tailwise.planners.uct import Uct
from tailwise.planners.utility_search import UtilitySearch

__all__ = [
    "AccMcts",
    "AutoPlanner",
    "BoundedRtdp",
    "CvarMcts",
    "Decision",
    "DistributionalMcts",
    "ErmMcts",
    "ExactPlanner",
    "ExactPolicy",
    "LearnedModelSearch",
    "NluMcts",
    "Planner",
    "PlannerKind",
    "Uct",
    "UtilitySearch",
    "find_planner",
    "list_planners",
    "make_planner",
    "plan_many",
    "register_planner",
    "until",
]
