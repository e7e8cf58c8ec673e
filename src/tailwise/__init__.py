"""tailwise: planning under risk.

Give a model of a decision problem and an aversion to risk; get the action to take now,
its whole cost distribution, and how sure the answer is. Names load at first use, so that
``import tailwise`` is quick.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:  # each name by itself, so that strict type checkers take it for exported
    from tailwise.bindings import Widening as Widening
    from tailwise.bonuses import Bonus as Bonus
    from tailwise.bonuses import LogBonus as LogBonus
    from tailwise.bonuses import PolynomialBonus as PolynomialBonus
    from tailwise.bonuses import RangeBonus as RangeBonus
    from tailwise.evaluation import Returns as Returns
    from tailwise.evaluation import choose_beta as choose_beta
    from tailwise.evaluation import evaluate as evaluate
    from tailwise.evaluation import frontier as frontier
    from tailwise.evaluation import sampled_planning as sampled_planning
    from tailwise.evaluation import sensitivity as sensitivity
    from tailwise.evaluation import what_if as what_if
    from tailwise.exact import Policy as Policy
    from tailwise.exact import backward_induction as backward_induction
    from tailwise.exact import limit_beta as limit_beta
    from tailwise.exact import load_policy as load_policy
    from tailwise.exact import solve as solve
    from tailwise.exact import truncate as truncate
    from tailwise.formats import load as load
    from tailwise.formats import save as save
    from tailwise.logs import learn_model as learn_model
    from tailwise.logs import load_episodes as load_episodes
    from tailwise.models import Alternatives as Alternatives
    from tailwise.models import CompiledSimulator as CompiledSimulator
    from tailwise.models import Discretized as Discretized
    from tailwise.models import GymnasiumSimulator as GymnasiumSimulator
    from tailwise.models import PartlyObserved as PartlyObserved
    from tailwise.models import PomdpTable as PomdpTable
    from tailwise.models import Simulator as Simulator
    from tailwise.models import TabularMDP as TabularMDP
    from tailwise.models import check_model as check_model
    from tailwise.models import check_simulator as check_simulator
    from tailwise.planners import AccMcts as AccMcts
    from tailwise.planners import BoundedRtdp as BoundedRtdp
    from tailwise.planners import CvarMcts as CvarMcts
    from tailwise.planners import DistributionalMcts as DistributionalMcts
    from tailwise.planners import ErmMcts as ErmMcts
    from tailwise.planners import ExactPlanner as ExactPlanner
    from tailwise.planners import LearnedModelSearch as LearnedModelSearch
    from tailwise.planners import NluMcts as NluMcts
    from tailwise.planners import Planner as Planner
    from tailwise.planners import Uct as Uct
    from tailwise.planners import make_planner as make_planner
    from tailwise.planners import plan_many as plan_many
    from tailwise.planners import register_planner as register_planner
    from tailwise.report import printoptions as printoptions
    from tailwise.report import set_printoptions as set_printoptions
    from tailwise.risk import ERM as ERM
    from tailwise.risk import Average as Average
    from tailwise.risk import CVaR as CVaR
    from tailwise.risk import EntropicAccumulator as EntropicAccumulator
    from tailwise.risk import EVaR as EVaR
    from tailwise.risk import Exceedance as Exceedance
    from tailwise.risk import Expectation as Expectation
    from tailwise.risk import ExpectedUtility as ExpectedUtility
    from tailwise.risk import NestedCVaR as NestedCVaR
    from tailwise.risk import Objective as Objective
    from tailwise.risk import Recursive as Recursive
    from tailwise.risk import RobustKL as RobustKL
    from tailwise.risk import RobustL1 as RobustL1
    from tailwise.risk import WorstCase as WorstCase
    from tailwise.risk import erm as erm
    from tailwise.search import BellmanBackup as BellmanBackup
    from tailwise.search import NodeView as NodeView
    from tailwise.search import OffPolicyBackup as OffPolicyBackup
    from tailwise.search import Plan as Plan
    from tailwise.search import Rollout as Rollout
    from tailwise.search import SampledBackup as SampledBackup
    from tailwise.search import SearchOptions as SearchOptions
    from tailwise.search import TreeSearch as TreeSearch
    from tailwise.search import load_plan as load_plan
    from tailwise.search import load_search as load_search

logging.getLogger(__name__).addHandler(logging.NullHandler())  # whoever wants to hear adds one of their own

_LAYERS = (
    *("bandits", "bindings", "bonuses", "domains", "errors", "evaluation", "exact", "explore", "formats", "logs"),
    *("models", "planners", "report", "reproduction", "risk", "scale", "search", "theory"),
)


def _homes() -> dict[str, str]:
    """Return the layer of each name, by the block above."""
    from tailwise._lazy import homes_of

    return {name: home.removeprefix("tailwise.") for name, home in homes_of(__name__).items() if "._" not in home}


def __getattr__(name: str) -> Any:
    if name in _LAYERS:
        value: Any = importlib.import_module(f"tailwise.{name}")
    elif name == "__all__":
        value = [*sorted(_homes()), *_LAYERS, "__version__"]
    elif name in (homes := _homes()):
        value = getattr(importlib.import_module(f"tailwise.{homes[name]}"), name)
    else:
        raise AttributeError(f"module 'tailwise' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
