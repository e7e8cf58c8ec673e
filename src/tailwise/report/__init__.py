"""Reports of decisions as self-contained pages, plots for notebooks, and documents."""

from tailwise._results import printoptions, set_printoptions
from tailwise.planners.protocol import recorded_plan
from tailwise.report import plots
from tailwise.report.decision import decision_report
from tailwise.report.document import Bullets, Chart, Document, Heading, Image, Paragraph, Table, literal
from tailwise.report.totals import comparison_report, evaluation_report, frontier_report, plans_report, what_if_report

__all__ = [
    "Bullets",
    "Chart",
    "Document",
    "Heading",
    "Image",
    "Paragraph",
    "Table",
    "comparison_report",
    "decision_report",
    "evaluation_report",
    "frontier_report",
    "literal",
    "plans_report",
    "plots",
    "printoptions",
    "recorded_plan",
    "set_printoptions",
    "what_if_report",
]
