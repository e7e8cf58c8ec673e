"""Plots and documents."""

from tailwise.report.document import Bullets, Document, Heading, Image, Paragraph, Table
from tailwise.report.plots import Curve, Panel, Sample, histogram_panels, risk_curves, save_figure

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
]
