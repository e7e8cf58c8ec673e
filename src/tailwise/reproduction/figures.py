"""The figures of the reproduction: those of the paper, and the same with luck taken out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tailwise.report.document import Image
from tailwise.report.plots import Curve, Panel, Sample, histogram_panels, risk_curves, save_figure
from tailwise.risk.intervals import Interval

if TYPE_CHECKING:
    from tailwise.reproduction import Row, Summary

_HISTOGRAM_ITERATIONS = 1000
ALGORITHMS = ("ERM-BI", "Acc-MCTS", "ERM-MCTS")
"""The order in which they are shown."""


def draw_figures(summary: Summary, folder: Path) -> tuple[list[Image], list[Path]]:
    """Draw all figures into ``folder``; return them as blocks of the report, and their files."""
    images: list[Image] = []
    files: list[Path] = []

    def add(name: str, figure: object, caption: str) -> None:
        files.extend(save_figure(figure, folder, name))
        images.append(Image(f"figures/{name}.png", caption))

    main = summary.settings.variants[0]
    for letter, problem in zip("ab", ("mdp-4", "grid-mdp"), strict=True):
        rows = _histogram_rows(summary, problem, main)
        if rows:
            samples = tuple(Sample(f"beta {row.cell.beta:g}", row.totals) for row in rows)
            size = rows[0].cell.iterations
            panel = Panel(f"{problem}: ERM-MCTS, n = {size}, variant {main}", samples)
            add(
                f"{letter}_{problem}",
                histogram_panels([panel], xlabel="discounted cost of an episode"),
                f"Figure ({letter}): discounted costs of {len(rows[0].totals)} episodes of ERM-MCTS on {problem}.",
            )
    for letter, problem in zip("cd", ("mdp-4", "grid-mdp"), strict=True):
        for beta in betas(summary, problem):
            rows = curve_rows(summary, problem, beta)
            if len({row.cell.iterations for row in rows}) < 2:
                continue
            for settled in (False, True):
                kind = "closed-loop" if settled else "empirical"
                add(
                    f"{letter}_{problem}_beta-{beta:g}" + ("_closed-loop" if settled else ""),
                    _curve_figure(
                        rows, problem, beta, settled, None if settled else _oracle_luck(summary, problem, beta)
                    ),
                    f"Figure ({letter}), {problem}, beta {beta:g}: {kind} risk against the number of iterations. "
                    + _error_bars(problem, settled),
                )
    for problem in summary.settings.problems:
        panels = [
            Panel(
                f"{problem}, beta {beta:g}",
                _comparison_samples(summary, problem, beta, main),
                _exact(summary, problem, beta),
            )
            for beta in betas(summary, problem)
        ]
        add(
            f"distributions_{problem}",
            histogram_panels(panels, xlabel="discounted cost of an episode"),
            f"Discounted costs of the three algorithms on {problem} (variant {main}).",
        )
    return images, files


def _error_bars(problem: str, settled: bool) -> str:
    if not settled:
        return "Bars: 90 % percentile bootstrap, as in the paper."
    how = "certain remainders integrated exactly" if problem == "grid-mdp" else "from all episodes there are"
    return f"The risk of the closed loop, {how}. Bars: 95 % percentile bootstrap."


def _histogram_rows(summary: Summary, problem: str, variant: str) -> list[Row]:
    most = max((row.cell.iterations for row in summary.rows if row.cell.problem == problem), default=0)
    size = min(_HISTOGRAM_ITERATIONS, most)
    found = [summary.find(problem, "ERM-MCTS", variant, beta, size) for beta in betas(summary, problem)]
    return [row for row in found if row is not None]


def curve_rows(summary: Summary, problem: str, beta: float) -> list[Row]:
    """Return the rows of algorithms and variants that were run for several numbers of iterations."""
    rows = [row for row in summary.rows if (row.cell.problem, row.cell.beta) == (problem, beta)]
    sizes = {(row.cell.algorithm, row.cell.variant): 0 for row in rows}
    for row in rows:
        sizes[row.cell.algorithm, row.cell.variant] += 1
    return [row for row in rows if sizes[row.cell.algorithm, row.cell.variant] > 1]


def _oracle_luck(summary: Summary, problem: str, beta: float) -> Interval | None:
    row = summary.find(problem, "ERM-BI", "exact", beta)
    return None if row is None else row.luck


def _curve_figure(rows: list[Row], problem: str, beta: float, settled: bool, band: Interval | None) -> object:
    curves = []
    for key in dict.fromkeys((row.cell.algorithm, row.cell.variant) for row in rows):
        own = sorted(
            (row for row in rows if (row.cell.algorithm, row.cell.variant) == key), key=lambda row: row.cell.iterations
        )
        bars = [row.closed_interval if settled else row.interval for row in own]
        curves.append(
            Curve(
                f"{key[0]}, {key[1]}",
                np.array([row.cell.iterations for row in own], dtype=np.float64),
                np.array([row.closed_loop if settled else row.erm for row in own]),
                np.array([bar.low for bar in bars]),
                np.array([bar.high for bar in bars]),
            )
        )
    kind = "risk of the closed loop" if settled else f"empirical risk of {len(rows[0].totals)} episodes"
    return risk_curves(
        curves,
        xlabel="iterations n of each decision",
        ylabel=f"ERM at beta {beta:g}",
        title=f"{problem}, beta {beta:g}: {kind}",
        exact=rows[0].exact,
        band=band,
        band_label="90 % of experiments with the optimal policy",
    )


def _comparison_samples(summary: Summary, problem: str, beta: float, variant: str) -> tuple[Sample, ...]:
    rows = [row for row in summary.table(problem, beta) if row.cell.variant in ("exact", variant)]
    rows.sort(key=lambda row: ALGORITHMS.index(row.cell.algorithm))
    return tuple(Sample(row.cell.algorithm, row.totals) for row in rows)


def betas(summary: Summary, problem: str) -> list[float]:
    """Return the risk levels at which a problem was run."""
    return list(dict.fromkeys(row.cell.beta for row in summary.rows if row.cell.problem == problem))


def _exact(summary: Summary, problem: str, beta: float) -> float:
    return next(row.exact for row in summary.rows if (row.cell.problem, row.cell.beta) == (problem, beta))
