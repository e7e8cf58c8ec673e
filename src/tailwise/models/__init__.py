"""What the world is: the model contract, tables, simulators, and their checks."""

from tailwise.models.check import Report, Violation, check_model
from tailwise.models.contract import Model, Outcome
from tailwise.models.tabular import TabularMDP

__all__ = ["Model", "Outcome", "Report", "TabularMDP", "Violation", "check_model"]
