"""The paper's tables and figures, and studies beyond them."""

from tailwise.reproduction.bandit_studies import (
    ConvergenceRow,
    convergence_rows,
    convergence_study,
    runs_over_beta,
    transient,
)
from tailwise.reproduction.conditional_returns import SettledReturns, settled_returns, settled_states
from tailwise.reproduction.grid import PROBLEMS, Cell, Settings, plan_cells
from tailwise.reproduction.report import write_reproduction
from tailwise.reproduction.runner import reproduce
from tailwise.reproduction.storage import RunFolder
from tailwise.reproduction.summary import CodeCheck, Row, Summary, summarise
from tailwise.reproduction.variants import VARIANTS, Variant, make_planner

__all__ = [
    "PROBLEMS",
    "VARIANTS",
    "Cell",
    "CodeCheck",
    "ConvergenceRow",
    "Row",
    "RunFolder",
    "Settings",
    "SettledReturns",
    "Summary",
    "Variant",
    "convergence_rows",
    "convergence_study",
    "make_planner",
    "plan_cells",
    "reproduce",
    "runs_over_beta",
    "settled_returns",
    "settled_states",
    "summarise",
    "transient",
    "write_reproduction",
]
