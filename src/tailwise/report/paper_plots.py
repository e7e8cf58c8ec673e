"""Plots of totals and risks, as PNG and SVG; the same data give the same bytes.

matplotlib is imported when the first plot is drawn (extra ``report``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import require

Floats = NDArray[np.float64]

# Okabe and Ito's palette: told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
DPI = 160


@dataclass(frozen=True, eq=False)
class Sample:
    """Totals with a name."""

    label: str
    totals: Floats


@dataclass(frozen=True, eq=False)
class Curve:
    """Estimates with error bars over a parameter; all arrays of shape (k,)."""

    label: str
    x: Floats
    y: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Panel:
    """One histogram panel: several samples, a title, and a value to mark (the exact risk) or None."""

    title: str
    samples: tuple[Sample, ...]
    mark: float | None = None


def histogram_panels(panels: Sequence[Panel], *, xlabel: str, bins: int = 20, columns: int = 1) -> Any:
    """Draw panels of overlaid density histograms on common bins; return a matplotlib figure.

    Parameters
    ----------
    panels : sequence of Panel
        What to draw, row by row.
    xlabel : str
        Label of the horizontal axis.
    bins : int, default 20
        Number of bins over the range of each panel.
    columns : int, default 1
        Panels side by side.
    """
    rows = -(-len(panels) // columns)
    figure = new_figure(5.2 * columns, 2.9 * rows + 0.3)
    for index, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, index + 1)
        every = np.concatenate([sample.totals for sample in panel.samples])
        edges = np.histogram_bin_edges(every, bins=bins)
        for k, sample in enumerate(panel.samples):
            colour = COLOURS[k % len(COLOURS)]
            label = f"{sample.label} (mean {sample.totals.mean():.2f}, max {sample.totals.max():.2f})"
            axes.hist(sample.totals, bins=edges, density=True, color=colour, alpha=0.35)
            axes.hist(
                sample.totals, bins=edges, density=True, color=colour, histtype="step", linewidth=1.4, label=label
            )
        if panel.mark is not None:
            axes.axvline(panel.mark, color="#444444", linestyle=":", linewidth=1.2, label="exact optimal risk")
        axes.set_title(panel.title, fontsize=10)
        axes.set_ylabel("density")
        axes.legend(fontsize=7.5, frameon=False)
        if index >= len(panels) - columns:
            axes.set_xlabel(xlabel)
    return figure


def risk_curves(
    curves: Sequence[Curve],
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    exact: float | None = None,
    band: tuple[float, float] | None = None,
    band_label: str = "",
) -> Any:
    """Draw risk against a parameter on a logarithmic axis; return a matplotlib figure.

    Parameters
    ----------
    curves : sequence of Curve
        What to draw.
    xlabel, ylabel, title : str
        Labels.
    exact : float, optional
        A value to mark with a dotted line: the exact optimum.
    band : tuple of two floats, optional
        A range to shade.
    band_label : str
        What the range is.
    """
    figure = new_figure(5.6, 4.3)
    axes = figure.add_subplot()
    if band is not None:
        axes.axhspan(*band, color="#999999", alpha=0.18, linewidth=0, label=band_label)
    for k, curve in enumerate(curves):
        colour, nudge = COLOURS[k % len(COLOURS)], 1.0 + 0.03 * (k - (len(curves) - 1) / 2)
        errors = np.maximum(0.0, np.stack((curve.y - curve.low, curve.high - curve.y)))
        axes.errorbar(
            curve.x * nudge, curve.y, yerr=errors, color=colour, marker=MARKERS[k % len(MARKERS)], markersize=5,
            linewidth=1.4, capsize=3, label=curve.label,
        )  # fmt: skip
    if exact is not None:
        axes.axhline(exact, color="#444444", linestyle=":", linewidth=1.2, label="exact optimum")
    axes.set_xscale("log")
    ticks = sorted({float(x) for curve in curves for x in curve.x})
    axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks], rotation=45 if len(ticks) > 5 else 0)
    axes.minorticks_off()
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_title(title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def save_figure(figure: Any, folder: Path, name: str) -> tuple[Path, Path]:
    """Write a figure as ``name.png`` and ``name.svg``; return both paths."""
    matplotlib = require("matplotlib", "report", "drawing a figure")
    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    with matplotlib.rc_context({"svg.hashsalt": "tailwise", "svg.fonttype": "path"}):
        figure.savefig(png, dpi=DPI, metadata={"Software": None})
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return png, svg


def new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure (sizes in inches), which touches no global state."""
    module = require("matplotlib.figure", "report", "drawing a figure")
    return module.Figure(figsize=(width, height), layout="constrained")
