"""Plots, documents, and the report of the reproduction."""

from tailwise.report.document import Bullets, Document, Heading, Image, Paragraph, Table
from tailwise.report.plots import Curve, Panel, Sample, histogram_panels, risk_curves, save_figure
from tailwise.report.reproduction import write_reproduction

__all__ = [
    "Bullets",
    "Curve",
    "Document",
    "Heading",
    "Image",
    "Panel",
    "Paragraph",
    "Sample",
    "Table",
    "histogram_panels",
    "risk_curves",
    "save_figure",
    "write_reproduction",
]
