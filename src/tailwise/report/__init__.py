"""Reports of decisions as self-contained pages, plots for notebooks, and documents and figures for print."""

from tailwise.report import plots
from tailwise.report.decision import decision_report
from tailwise.report.document import Bullets, Chart, Document, Heading, Image, Paragraph, Table, literal
from tailwise.report.paper_plots import Curve, Panel, Sample, histogram_panels, risk_curves, save_figure
from tailwise.report.recording import recorded_plan
from tailwise.report.totals import comparison_report, evaluation_report, frontier_report, plans_report

__all__ = [
    "Bullets",
    "Chart",
    "Curve",
    "Document",
    "Heading",
    "Image",
    "Panel",
    "Paragraph",
    "Sample",
    "Table",
    "comparison_report",
    "decision_report",
    "evaluation_report",
    "frontier_report",
    "histogram_panels",
    "literal",
    "plans_report",
    "plots",
    "recorded_plan",
    "risk_curves",
    "save_figure",
]
