"""The paper's tables and figures, and studies beyond them."""

from tailwise.reproduction.bandit_studies import (
    ConvergenceRow,
    ConvergenceStudy,
    convergence_rows,
    convergence_study,
    runs_over_beta,
    transient,
)
from tailwise.reproduction.conditional_returns import ConditionalReturns, certain_states, conditional_returns
from tailwise.reproduction.experiments import PROBLEMS, Experiment, Settings, list_experiments
from tailwise.reproduction.report import write_reproduction
from tailwise.reproduction.runner import RunFolder, reproduce
from tailwise.reproduction.summary import CodeCheck, Row, Summary, summarise
from tailwise.reproduction.variants import DEFAULT_VARIANTS, VARIANTS, Variant, variant_planner

__all__ = [
    "DEFAULT_VARIANTS",
    "PROBLEMS",
    "VARIANTS",
    "CodeCheck",
    "ConditionalReturns",
    "ConvergenceRow",
    "ConvergenceStudy",
    "Experiment",
    "Row",
    "RunFolder",
    "Settings",
    "Summary",
    "Variant",
    "certain_states",
    "conditional_returns",
    "convergence_rows",
    "convergence_study",
    "list_experiments",
    "reproduce",
    "runs_over_beta",
    "summarise",
    "transient",
    "variant_planner",
    "write_reproduction",
]
