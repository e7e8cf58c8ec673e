"""The figures of the reproduction: those of the paper, and the same for the risk of the closed loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailwise.report.document import Image
from tailwise.reproduction.plots import Curve, Panel, histogram_panels, risk_curves, save_figure
from tailwise.reproduction.published import ACC, DISTRIBUTIONAL, ERM, ORACLE

if TYPE_CHECKING:
    from tailwise.reproduction.summary import Row, Summary

_HISTOGRAM_ITERATIONS = 1000
ALGORITHMS = (ORACLE, ACC, ERM, DISTRIBUTIONAL)
"""The order in which they are shown."""


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


def _samples(rows: Sequence[Row], variant: str) -> dict[str, NDArray[np.float64]]:
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
