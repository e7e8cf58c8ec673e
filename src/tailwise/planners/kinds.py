"""The kinds of planners of this package: which models, objectives and options each takes.

In the order in which "auto" looks through them: what proves the best action comes before what samples.
"""

from __future__ import annotations

from tailwise.planners.registry import PlannerKind, register_planner
from tailwise.risk.objectives import ERM, CVaR, EVaR, Exceedance, Expectation, ExpectedUtility, Objective

_TREE = (
    *("bonus", "backup", "leaf", "expansion", "untried", "recommend", "max_nodes", "max_memory", "widening"),
    *("rollout_policy", "leaf_value"),
)
_LEARNED = ("exploration", "max_nodes", "max_memory", "widening", "rollout_policy", "leaf_value")
_POLYNOMIAL, _LOG = "tailwise.bonuses:PolynomialBonus", "tailwise.bonuses:LogBonus"

register_planner(PlannerKind(
    "exact", build="tailwise.planners.exact:ExactPlanner",
    summary="the exact optimum, by tailwise.solve", models="outcomes", options=("max_states", "threads"),
    objectives=(Objective,),
))  # fmt: skip
register_planner(PlannerKind(
    "exact-neutral", build="tailwise.planners.exact:neutral_planner",
    summary="the exact risk-neutral optimum, whatever the beta", models="outcomes", options=("max_states", "threads"),
))  # fmt: skip
register_planner(PlannerKind(
    "bounded", build="tailwise.planners.bounded_rtdp:BoundedRtdp",
    summary="certified bounds on the optimal risk, and an action proven best", models="outcomes", saves=True,
    options=("bounds", "terminal_bounds", "tolerance", "width", "max_nodes", "max_memory", "max_states"),
))  # fmt: skip
register_planner(PlannerKind(
    "learned", build="tailwise.planners.learned:LearnedModelSearch",
    summary="sampling, with every outcome kept as a learned model", options=_LEARNED, saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "tree", build="tailwise.planners.erm_mcts:auto_tree",
    summary="tree search with rules that need no constant (ErmMcts, preset='auto')", options=("preset", *_TREE),
    saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "erm-mcts", build="tailwise.planners.erm_mcts:ErmMcts",
    summary="the paper's search for the entropic risk", options=("preset", *_TREE), bonus=_POLYNOMIAL, saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "acc-mcts", build="tailwise.planners.acc_mcts:AccMcts",
    summary="search on accrued costs, rescaled utility", options=("form", "reference", *_TREE), bonus=_POLYNOMIAL,
    saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "acc-mcts-raw", build="tailwise.planners.acc_mcts:raw_planner",
    summary="search on accrued costs, the paper's utility exp(beta x)", options=_TREE, bonus=_POLYNOMIAL, saves=True,
    objectives=(ERM,),
))  # fmt: skip
register_planner(PlannerKind(
    "uct", build="tailwise.planners.uct:uct_planner",
    summary="risk-neutral search, logarithmic bonus, whatever the beta", options=_TREE, bonus=_LOG, saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "uct-polynomial", build="tailwise.planners.uct:polynomial_planner",
    summary="risk-neutral search, polynomial bonus, whatever the beta", options=_TREE, bonus=_POLYNOMIAL, saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "cvar-mcts", build="tailwise.planners.cvar_mcts:cvar_planner",
    summary="least CVaR of the total, by search with a learned model", objectives=(CVaR,),
    options=("threshold", *_LEARNED),
))  # fmt: skip
register_planner(PlannerKind(
    "nlu-mcts", build="tailwise.planners.nlu_mcts:utility_planner",
    summary="best mean of a utility of the total, by search on accrued costs", objectives=(ExpectedUtility,),
    options=_TREE, bonus=_LOG, saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "distributional", build="tailwise.planners.distributional_mcts:distributional_planner",
    summary="distributions of the total, Thompson sampling, for any objective of the total",
    objectives=(ERM, Expectation, CVaR, EVaR, Exceedance, ExpectedUtility), options=_LEARNED,
))  # fmt: skip
