"""Reports of decisions as self-contained pages, plots for notebooks, and documents and figures for print."""

from tailwise.report.decision import decision_report
from tailwise.report.document import Bullets, Chart, Document, Heading, Image, Paragraph, Table, literal
from tailwise.report.paper_plots import Curve, Panel, Sample, histogram_panels, risk_curves, save_figure
from tailwise.report.recording import recorded_plan

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
    "decision_report",
    "histogram_panels",
    "literal",
    "recorded_plan",
    "risk_curves",
    "save_figure",
]
