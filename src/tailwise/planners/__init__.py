"""Planners: the protocol, exact solvers and thin configurations of the search, each with a name."""

from tailwise.planners import until
from tailwise.planners.acc_mcts import AccMcts
from tailwise.planners.backward_induction import Solution, backward_induction
from tailwise.planners.bounded_plan import BoundedPlan, BoundedRow
from tailwise.planners.bounded_rtdp import BoundedRtdp
from tailwise.planners.constrained import ConstrainedPlan, constrained_planning
from tailwise.planners.cvar import TotalPlan, cvar_planning, exceedance_planning
from tailwise.planners.cvar_mcts import CvarMcts, CvarPlan
from tailwise.planners.distributional_mcts import DistributionalMcts, DistributionalPlan
from tailwise.planners.erm_mcts import ErmMcts
from tailwise.planners.evar import EvarSolution, evar_planning
from tailwise.planners.exact import ExactPlan, ExactPlanner
from tailwise.planners.exact_policy import ExactPolicy
from tailwise.planners.learned import LearnedModelSearch
from tailwise.planners.learned_totals import TotalsPlan
from tailwise.planners.make import AutoPlanner, make_planner
from tailwise.planners.many import plan_many
from tailwise.planners.nested_cvar import NestedCvarSolution, nested_cvar_planning
from tailwise.planners.nlu_mcts import NluMcts
from tailwise.planners.policy_intervals import PolicyInterval, policy_intervals
from tailwise.planners.protocol import Decision, Planner
from tailwise.planners.registry import PlannerKind, find_planner, list_planners, register_planner
from tailwise.planners.truncation import truncate
from tailwise.planners.uct import Uct
from tailwise.planners.utility_search import UtilityPlan, UtilitySearch

__all__ = [
    "AccMcts",
    "AutoPlanner",
    "BoundedPlan",
    "BoundedRow",
    "BoundedRtdp",
    "ConstrainedPlan",
    "CvarMcts",
    "CvarPlan",
    "Decision",
    "DistributionalMcts",
    "DistributionalPlan",
    "ErmMcts",
    "EvarSolution",
    "ExactPlan",
    "ExactPlanner",
    "ExactPolicy",
    "LearnedModelSearch",
    "NestedCvarSolution",
    "NluMcts",
    "Planner",
    "PlannerKind",
    "PolicyInterval",
    "Solution",
    "TotalPlan",
    "TotalsPlan",
    "Uct",
    "UtilityPlan",
    "UtilitySearch",
    "backward_induction",
    "constrained_planning",
    "cvar_planning",
    "evar_planning",
    "exceedance_planning",
    "find_planner",
    "list_planners",
    "make_planner",
    "nested_cvar_planning",
    "plan_many",
    "policy_intervals",
    "register_planner",
    "truncate",
    "until",
]
