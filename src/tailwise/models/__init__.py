"""What the world is: the model contract, tables, simulators, and their checks."""

from typing import TYPE_CHECKING

from tailwise._lazy import lazy

if TYPE_CHECKING:
    from tailwise.models.accrued import AccruedView, ExponentialUtility
    from tailwise.models.alternatives import Alternatives
    from tailwise.models.check import check_model, check_simulator
    from tailwise.models.compiled import CompiledSimulator
    from tailwise.models.contract import Model, Outcome
    from tailwise.models.gymnasium.actions import Discretized
    from tailwise.models.gymnasium.simulator import EnvironmentState, GymnasiumSimulator
    from tailwise.models.partly_observed import Draw, PartlyObserved
    from tailwise.models.pomdp_table import PomdpTable
    from tailwise.models.simulator import Simulator
    from tailwise.models.table import Report, Violation
    from tailwise.models.tabular import TabularMDP
    from tailwise.models.tabulate import tabulate, tabulate_hidden

__all__ = [
    "AccruedView",
    "Alternatives",
    "CompiledSimulator",
    "Discretized",
    "Draw",
    "EnvironmentState",
    "ExponentialUtility",
    "GymnasiumSimulator",
    "Model",
    "Outcome",
    "PartlyObserved",
    "PomdpTable",
    "Report",
    "Simulator",
    "TabularMDP",
    "Violation",
    "check_model",
    "check_simulator",
    "tabulate",
    "tabulate_hidden",
]

__getattr__ = lazy(__name__)
