"""What the world is: the model contract, tables, simulators, and their checks."""

from tailwise.models.accrued import AccruedTable, ExponentialUtility
from tailwise.models.check import Report, Violation, check_model
from tailwise.models.compiled import CompiledSimulator
from tailwise.models.contract import Model, Outcome
from tailwise.models.simulator import Simulator
from tailwise.models.tabular import TabularMDP

__all__ = [
    "AccruedTable",
    "CompiledSimulator",
    "ExponentialUtility",
    "Model",
    "Outcome",
    "Report",
    "Simulator",
    "TabularMDP",
    "Violation",
    "check_model",
]
