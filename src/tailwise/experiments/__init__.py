"""The paper's tables and figures, and studies beyond them."""

from tailwise.experiments.cells import PROBLEMS, Cell, Settings, plan_cells
from tailwise.experiments.runner import reproduce
from tailwise.experiments.storage import RunFolder
from tailwise.experiments.summary import CodeCheck, Row, Summary, summarise
from tailwise.experiments.variants import VARIANTS, Variant

__all__ = [
    "PROBLEMS",
    "VARIANTS",
    "Cell",
    "CodeCheck",
    "Row",
    "RunFolder",
    "Settings",
    "Summary",
    "Variant",
    "plan_cells",
    "reproduce",
    "summarise",
]
