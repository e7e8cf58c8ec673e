"""Plots of totals and risks for print, as PNG and SVG; the same data give the same bytes.

matplotlib is imported when the first plot is drawn (extra ``report``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import require
from tailwise.report.charts import COLOURS

Floats = NDArray[np.float64]

MARKERS = ("o", "s", "^", "D", "v", "P")
DPI = 160


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
    """One histogram panel: a title, totals by name, and a value to mark (the exact risk) or None."""

    title: str
    samples: Mapping[str, Floats]
    mark: float | None = None


def histogram_panels(panels: Sequence[Panel], *, xlabel: str) -> Any:
    """Draw panels of overlaid density histograms, one above the other, each on common bins."""
    figure = new_figure(5.2, 2.9 * len(panels) + 0.3)
    for index, panel in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, index + 1)
        edges = np.histogram_bin_edges(np.concatenate(list(panel.samples.values())), bins=20)
        for k, (name, totals) in enumerate(panel.samples.items()):
            colour, label = COLOURS[k % len(COLOURS)], f"{name} (mean {totals.mean():.2f}, max {totals.max():.2f})"
            axes.hist(totals, bins=edges, density=True, color=colour, alpha=0.35)
            axes.hist(totals, bins=edges, density=True, color=colour, histtype="step", linewidth=1.4, label=label)
        if panel.mark is not None:
            axes.axvline(panel.mark, color="#444444", linestyle=":", linewidth=1.2, label="exact optimal risk")
        axes.set_title(panel.title, fontsize=10)
        axes.set_ylabel("density")
        axes.legend(fontsize=7.5, frameon=False)
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
    """Draw risk against a parameter on a logarithmic axis, with the exact optimum marked and a range shaded."""
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
