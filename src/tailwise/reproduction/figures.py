"""The figures of the reproduction: those of the paper, and the same for the risk of the closed loop.

matplotlib is imported when the first is drawn (extra ``report``); the same data give the same bytes, as PNG and SVG.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tailwise._arrays import Floats
from tailwise.errors import require
from tailwise.report.charts import COLOURS
from tailwise.report.document import Image
from tailwise.reproduction.variants import ACC, DISTRIBUTIONAL, ERM, ORACLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tailwise.reproduction.summary import Row, Summary


ALGORITHMS = (ORACLE, ACC, ERM, DISTRIBUTIONAL)
"""The order in which they are shown."""
MARKERS = ("o", "s", "^", "D", "v", "P")
_HISTOGRAM_ITERATIONS = 1000
_DPI = 160


def draw_figures(summary: Summary, folder: Path) -> tuple[list[Image], list[Path]]:
    """Draw all figures into an existing folder; return them as blocks of the report above it, and their files."""
    images: list[Image] = []
    files: list[Path] = []

    def add(name: str, figure: Any, caption: str) -> None:
        files.extend(save_figure(figure, folder, name))
        images.append(Image(f"figures/{name}.png", caption))

    xlabel = "discounted cost of an episode"
    main = summary.settings.variants[0]
    for letter, problem in zip("ab", ("mdp-4", "grid-mdp"), strict=True):
        rows = _histogram_rows(summary, problem, main)
        if rows:
            samples = {f"beta {row.experiment.beta:g}": row.totals for row in rows}
            title = f"{problem}: ERM-MCTS, n = {rows[0].experiment.iterations}, variant {main}"
            caption = f"Figure ({letter}): discounted costs of {len(rows[0].totals)} episodes of ERM-MCTS on {problem}."
            figure = histogram_panels([Panel(title, samples)], xlabel=xlabel)
            add(f"{letter}_{problem}", figure, caption)
    for letter, problem in zip("cd", ("mdp-4", "grid-mdp"), strict=True):
        for beta in summary.betas(problem):
            rows = curve_rows(summary, problem, beta)
            if len({row.experiment.iterations for row in rows}) < 2:
                continue
            name, title = f"{letter}_{problem}_beta-{beta:g}", f"Figure ({letter}), {problem}, beta {beta:g}"
            against = "against the number of iterations."
            paper = f"{title}: empirical risk {against} Bars: 90 % percentile bootstrap, as in the paper."
            add(name, _empirical_curves(summary, rows), paper)
            how = "certain remainders integrated exactly" if problem == "grid-mdp" else "from all episodes there are"
            bars = f"The risk of the closed loop, {how}. Bars: 95 % percentile bootstrap."
            closed = f"{title}: closed-loop risk {against} {bars}"
            add(f"{name}_closed-loop", _closed_loop_curves(rows), closed)
    for problem in summary.settings.problems:
        panels = [
            Panel(f"{problem}, beta {beta:g}", _samples(rows, main), rows[0].exact)
            for beta in summary.betas(problem)
            for rows in (summary.table(problem, beta),)
        ]
        caption = f"Discounted costs of the three algorithms on {problem} (variant {main})."
        add(f"distributions_{problem}", histogram_panels(panels, xlabel=xlabel), caption)
    return images, files


def curve_rows(summary: Summary, problem: str, beta: float) -> list[Row]:
    """Return the rows of algorithms and variants that were run for several numbers of iterations."""
    rows = summary.select(problem, beta)
    kinds = [_kind(row) for row in rows]
    return [row for row, kind in zip(rows, kinds, strict=True) if kinds.count(kind) > 1]


def _kind(row: Row) -> tuple[str, str]:
    return row.experiment.algorithm, row.experiment.variant


def _histogram_rows(summary: Summary, problem: str, variant: str) -> list[Row]:
    betas = summary.betas(problem)
    most = max((row.experiment.iterations for beta in betas for row in summary.select(problem, beta)), default=0)
    size = min(_HISTOGRAM_ITERATIONS, most)
    return [row for beta in betas if (row := summary.find(problem, ERM, variant, beta, size)) is not None]


def _samples(rows: Sequence[Row], variant: str) -> dict[str, Floats]:
    shown = [row for row in rows if row.experiment.variant in ("exact", variant)]
    shown.sort(key=lambda row: ALGORITHMS.index(row.experiment.algorithm))
    return {row.experiment.algorithm: row.totals for row in shown}


def _empirical_curves(summary: Summary, rows: list[Row]) -> Any:
    experiment = rows[0].experiment
    oracle = summary.find(experiment.problem, ORACLE, "exact", experiment.beta)
    curves = _curves(rows, [(row.erm, *row.interval) for row in rows])
    title = f"empirical risk of {len(rows[0].totals)} episodes"
    return _draw(rows[0], curves, title, None if oracle is None else oracle.sampling_range)


def _closed_loop_curves(rows: list[Row]) -> Any:
    curves = _curves(rows, [(row.closed_loop, *row.closed_interval) for row in rows])
    return _draw(rows[0], curves, "risk of the closed loop", None)


def _curves(rows: list[Row], values: list[tuple[float, float, float]]) -> list[Curve]:
    """One curve for each algorithm and variant, over the number of iterations."""
    curves = []
    for kind in dict.fromkeys(map(_kind, rows)):
        points = sorted(
            (float(row.experiment.iterations), *value)
            for row, value in zip(rows, values, strict=True)
            if _kind(row) == kind
        )
        curves.append(Curve(", ".join(kind), *np.array(points).T))
    return curves


def _draw(row: Row, curves: list[Curve], title: str, band: tuple[float, float] | None) -> Any:
    experiment = row.experiment
    return risk_curves(
        curves,
        xlabel="iterations n of each decision",
        ylabel=f"ERM at beta {experiment.beta:g}",
        title=f"{experiment.problem}, beta {experiment.beta:g}: {title}",
        exact=row.exact,
        band=band,
        band_label="90 % of experiments with the optimal policy",
    )


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


def histogram_panels(panels: Sequence[Panel], *, xlabel: str) -> Figure:
    """Draw panels of overlaid density histograms, one above the other, each on common bins."""
    figure = new_figure(5.2, 2.9 * len(panels) + 0.3)
    for index, panel in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, index + 1)
        edges = np.histogram_bin_edges(np.concatenate(list(panel.samples.values())), bins=20).tolist()
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
) -> Figure:
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
        figure.savefig(png, dpi=_DPI, metadata={"Software": None})
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return png, svg


def new_figure(width: float, height: float) -> Figure:
    """Return an empty matplotlib figure (sizes in inches), which touches no global state."""
    module = require("matplotlib.figure", "report", "drawing a figure")
    figure: Figure = module.Figure(figsize=(width, height), layout="constrained")
    return figure
