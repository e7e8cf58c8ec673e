"""tailwise: planning under risk.

Give a model of a decision problem and an aversion to risk; get the action to take now,
its whole cost distribution, and how sure the answer is. Names load at first use, so that
``import tailwise`` is quick.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from tailwise._version import __version__

if TYPE_CHECKING:
    from tailwise.bindings import Widening
    from tailwise.bonuses import Bonus, LogBonus, PolynomialBonus, RangeBonus
    from tailwise.evaluation import (
        Returns,
        choose_beta,
        evaluate,
        frontier,
        sampled_planning,
        sensitivity,
        what_if,
    )
    from tailwise.exact import (
        Policy,
        backward_induction,
        limit_beta,
        solve,
        truncate,
    )
    from tailwise.formats import load, save
    from tailwise.logs import learn_model, load_episodes
    from tailwise.models import (
        Alternatives,
        CompiledSimulator,
        Discretized,
        GymnasiumSimulator,
        PartlyObserved,
        PomdpTable,
        Simulator,
        TabularMDP,
        check_model,
        check_simulator,
    )
    from tailwise.planners import (
        AccMcts,
        BoundedRtdp,
        CvarMcts,
        DistributionalMcts,
        ErmMcts,
        ExactPlanner,
        LearnedModelSearch,
        NluMcts,
        Planner,
        Uct,
        make_planner,
        plan_many,
        register_planner,
    )
    from tailwise.report import printoptions, set_printoptions
    from tailwise.risk import (
        ERM,
        Average,
        CVaR,
        EntropicAccumulator,
        EVaR,
        Exceedance,
        Expectation,
        ExpectedUtility,
        NestedCVaR,
        Objective,
        Recursive,
        RobustKL,
        RobustL1,
        WorstCase,
        erm,
    )
    from tailwise.search import (
        BellmanBackup,
        NodeView,
        OffPolicyBackup,
        Plan,
        Rollout,
        SampledBackup,
        SearchOptions,
        TreeSearch,
        load_plan,
        load_search,
    )

logging.getLogger(__name__).addHandler(logging.NullHandler())  # whoever wants to hear adds one of their own

# Where each name lives. The block above says the same to type checkers and editors; a test compares them.
_HOMES = {
    "AccMcts": "planners",
    "Average": "risk",
    "Alternatives": "models",
    "BoundedRtdp": "planners",
    "CVaR": "risk",
    "CompiledSimulator": "models",
    "CvarMcts": "planners",
    "Discretized": "models",
    "DistributionalMcts": "planners",
    "ERM": "risk",
    "EVaR": "risk",
    "EntropicAccumulator": "risk",
    "ErmMcts": "planners",
    "ExactPlanner": "planners",
    "Exceedance": "risk",
    "Expectation": "risk",
    "ExpectedUtility": "risk",
    "GymnasiumSimulator": "models",
    "LearnedModelSearch": "planners",
    "LogBonus": "bonuses",
    "NestedCVaR": "risk",
    "RobustKL": "risk",
    "RobustL1": "risk",
    "NluMcts": "planners",
    "Objective": "risk",
    "Plan": "search",
    "Planner": "planners",
    "PartlyObserved": "models",
    "PolynomialBonus": "bonuses",
    "PomdpTable": "models",
    "Recursive": "risk",
    "Bonus": "bonuses",
    "RangeBonus": "bonuses",
    "BellmanBackup": "search",
    "NodeView": "search",
    "OffPolicyBackup": "search",
    "Rollout": "search",
    "SampledBackup": "search",
    "Returns": "evaluation",
    "SearchOptions": "search",
    "Simulator": "models",
    "Policy": "exact",
    "TabularMDP": "models",
    "TreeSearch": "search",
    "Uct": "planners",
    "Widening": "bindings",
    "WorstCase": "risk",
    "backward_induction": "exact",
    "check_model": "models",
    "check_simulator": "models",
    "choose_beta": "evaluation",
    "erm": "risk",
    "evaluate": "evaluation",
    "limit_beta": "exact",
    "frontier": "evaluation",
    "learn_model": "logs",
    "load": "formats",
    "load_episodes": "logs",
    "load_plan": "search",
    "load_search": "search",
    "make_planner": "planners",
    "plan_many": "planners",
    "printoptions": "report",
    "register_planner": "planners",
    "sampled_planning": "evaluation",
    "sensitivity": "evaluation",
    "set_printoptions": "report",
    "save": "formats",
    "solve": "exact",
    "truncate": "exact",
    "what_if": "evaluation",
}
_LAYERS = (
    *("bandits", "bindings", "bonuses", "domains", "errors", "evaluation", "exact", "explore", "formats", "logs"),
    *("models", "planners", "report", "reproduction", "risk", "scale", "search", "theory"),
)

__all__ = [*sorted(_HOMES), *_LAYERS, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"tailwise.{_HOMES[name]}"), name)
    elif name in _LAYERS:
        value = importlib.import_module(f"tailwise.{name}")
    else:
        raise AttributeError(f"module 'tailwise' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
