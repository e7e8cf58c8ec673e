"""The report of the paper's experiments: every number beside the paper's, the exact one, and luck."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tailwise.errors import RunError
from tailwise.report.document import Block, Bullets, Document, Heading, Image, Paragraph, Table
from tailwise.report.plots import Curve, Panel, Sample, histogram_panels, risk_curves, save_figure
from tailwise.risk.intervals import Interval

if TYPE_CHECKING:
    from tailwise.experiments import Row, Summary

_HISTOGRAM_ITERATIONS = 1000
_ORDER = ("ERM-BI", "Acc-MCTS", "ERM-MCTS")
_RESULT_COLUMNS = (
    *("problem", "algorithm", "variant", "beta", "iterations", "episodes", "erm", "erm_low", "erm_high"),
    *("closed_loop", "closed_low", "closed_high", "frequency_risk", "exact", "regret", "luck_low", "luck_high"),
    *("paper", "paper_low", "paper_high", "paper_inside"),
)


def write_reproduction(summary: Summary, out: Path) -> tuple[Path, ...]:
    """Write report, numbers and figures of a reproduction into its folder.

    Parameters
    ----------
    summary : tailwise.experiments.Summary
        The numbers.
    out : Path
        The folder; its ``figures`` are made if need be.

    Returns
    -------
    tuple of Path
        The files written: ``report.md``, ``report.html``, ``results.csv`` and the figures.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    RunError
        If the folder cannot be written.
    """
    try:
        folder = out / "figures"
        folder.mkdir(parents=True, exist_ok=True)
        images, files = _figures(summary, folder)
        document = Document("The paper's experiments, reproduced", _blocks(summary, images))
        for name, text in (
            ("report.md", document.markdown()),
            ("report.html", document.html()),
            ("results.csv", _results(summary)),
        ):
            (out / name).write_text(text, encoding="utf-8", newline="\n")
            files.append(out / name)
    except OSError as error:
        raise RunError(f"the report cannot be written into {out}: {error}") from None
    return tuple(files)


# -------------------------------------------------------------------- figures


def _figures(summary: Summary, folder: Path) -> tuple[list[Image], list[Path]]:
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
        for beta in _betas(summary, problem):
            rows = _curve_rows(summary, problem, beta)
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
            for beta in _betas(summary, problem)
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
    found = [summary.find(problem, "ERM-MCTS", variant, beta, size) for beta in _betas(summary, problem)]
    return [row for row in found if row is not None]


def _curve_rows(summary: Summary, problem: str, beta: float) -> list[Row]:
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
    rows.sort(key=lambda row: _ORDER.index(row.cell.algorithm))
    return tuple(Sample(row.cell.algorithm, row.totals) for row in rows)


def _betas(summary: Summary, problem: str) -> list[float]:
    return list(dict.fromkeys(row.cell.beta for row in summary.rows if row.cell.problem == problem))


def _exact(summary: Summary, problem: str, beta: float) -> float:
    return next(row.exact for row in summary.rows if (row.cell.problem, row.cell.beta) == (problem, beta))


# ----------------------------------------------------------------------- text


def _blocks(summary: Summary, images: list[Image]) -> list[Block]:
    settings = summary.settings
    entries = [
        row for row in summary.rows if row.paper is not None and row.cell.variant in ("exact", settings.variants[0])
    ]
    inside = [row for row in entries if row.paper_inside]
    blocks: list[Block] = [
        Paragraph(
            f"{settings.seeds} episodes per entry, root seed {settings.seed}; the planner re-plans at every "
            "step and keeps "
            "the part of its tree below the step taken. All rows of one problem and risk level share their random "
            "numbers. `manifest.json` has the versions and the command, `results.csv` every number in full, `samples/` "
            "every episode."
        ),
        Heading("How to read the numbers"),
        Bullets(
            (
                f"**ERM of {settings.seeds}** is what the paper's tables show: the empirical entropic risk of so many "
                "episodes, with the paper's 90 % percentile bootstrap (25,000 resamples). Where a rare "
                "disaster decides "
                "the risk this number is mostly luck, and an interval from a sample without the disaster is "
                "short and wrong.",
                "**Closed loop** is the best estimate of the true risk of the planner. grid-mdp: what no "
                "decision can change "
                "any more (the pit, the target) is integrated exactly. mdp-4: from five times as many "
                "episodes, in table "
                "entries. With a 95 % percentile bootstrap interval over episodes.",
                "**Exact** is the optimum, from backward induction; **regret** is closed loop minus exact.",
                f"**Luck** is the range that holds 90 % of all experiments of {settings.seeds} episodes with "
                "that very closed "
                "loop. A number of the paper inside of it differs from ours by no more than sampling error.",
            )
        ),
        Paragraph(
            f"**{len(inside)} of {len(entries)}** numbers of the paper's tables lie inside the 90 % range of "
            "sampling error of "
            f"this run (oracle and variant {settings.variants[0]}); if nothing but luck differed, one in ten "
            "would lie outside."
        ),
        Heading("Variants: where the text, the code and what is right differ"),
        Bullets(tuple(f"**{variant.name}**: {variant.summary}" for variant in summary.variants)),
        Paragraph(
            "In all of them: bonus sqrt(2) N(s)^(1/4) / N(s, a)^(1/2) with N(s) one more than the sum of the "
            "actions' visits "
            "(but for the constants named above), untried actions first, ties to the first, the most visited action is "
            "taken. The original lets planner and environment share one random stream; here each has its own, which "
            "changes no distribution."
        ),
    ]
    for problem in settings.problems:
        blocks.append(Heading(f"{problem}: the paper's table"))
        for beta in _betas(summary, problem):
            blocks.append(Heading(f"beta = {beta:g}", 3))
            blocks.append(_table(summary.table(problem, beta), settings.seeds))
        blocks.append(Paragraph(_remark(summary, problem)))
    curves = [
        row
        for problem in settings.problems
        for beta in _betas(summary, problem)
        for row in _curve_rows(summary, problem, beta)
    ]
    if curves:
        blocks.append(Heading("Risk against the number of iterations"))
        blocks.append(_curve_table(curves))
    blocks.append(Heading("Figures"))
    blocks.extend(images)
    if summary.checks:
        blocks.extend(_check_blocks(summary))
    return blocks


def _table(rows: Iterable[Row], seeds: int) -> Table:
    has_frequency = any(row.frequency_risk is not None for row in rows)
    columns = ["algorithm", "variant", "paper", f"ERM of {seeds}", "closed loop", "exact", "regret", "luck (90 %)"]
    columns += ["paper inside"] + (["frequencies"] if has_frequency else [])
    lines = []
    for row in sorted(rows, key=lambda row: _ORDER.index(row.cell.algorithm)):
        oracle = row.cell.algorithm == "ERM-BI"
        line = [
            row.cell.algorithm,
            row.cell.variant,
            "" if row.paper is None else _value(row.paper.value, Interval(row.paper.low, row.paper.high), 2),
            _value(row.erm, row.interval),
            _number(row.closed_loop) if oracle else _value(row.closed_loop, row.closed_interval),
            _number(row.exact),
            _number(row.regret),
            _range(row.luck),
            {None: "", True: "yes", False: "no"}[row.paper_inside],
        ]
        if has_frequency:
            line.append("" if row.frequency_risk is None else _number(row.frequency_risk))
        lines.append(tuple(line))
    return Table(tuple(columns), tuple(lines), text_columns=2)


def _remark(summary: Summary, problem: str) -> str:
    if problem == "mdp-4":
        return (
            "**frequencies**: the exact risk of the policy that takes each action as often, at each step and "
            "state, as the "
            "planner was seen to: the planner's own decisions without the luck of the environment. A number "
            "of the paper "
            "below the exact optimum is luck; no planner has a smaller risk than the optimum."
        )
    falls = [
        f"{int(np.count_nonzero(row.totals > 12.0))} ({row.cell.algorithm}, beta {row.cell.beta:g})"
        for beta in _betas(summary, problem)
        for row in summary.table(problem, beta)
        if row.cell.variant in ("exact", summary.settings.variants[0])
    ]
    return (
        f"Episodes that cost more than 12, nearly all of them falls into the pit, among {summary.settings.seeds}: "
        + ", ".join(falls)
        + ". One fall more or less moves the empirical risk by more than the algorithms differ, so the column **closed "
        "loop** is the one that compares them."
    )


def _curve_table(rows: Iterable[Row]) -> Table:
    def order(row: Row) -> tuple[str, float, str, str, int]:
        cell = row.cell
        return cell.problem, cell.beta, cell.algorithm, cell.variant, cell.iterations

    lines = [
        (
            *map(str, order(row)), _value(row.erm, row.interval), _value(row.closed_loop, row.closed_interval),
            _number(row.exact), _number(row.regret),
        )
        for row in sorted(rows, key=order)
    ]  # fmt: skip
    columns = ("problem", "beta", "algorithm", "variant", "n", "ERM (90 %)", "closed loop (95 %)", "exact", "regret")
    return Table(columns, tuple(lines), text_columns=4)


def _check_blocks(summary: Summary) -> list[Block]:
    agreeing = sum(check.agrees for check in summary.checks)
    lines = [
        (
            run.problem, run.algorithm, run.kind, f"{run.beta:g}", f"{run.iterations}", f"{run.episodes}",
            f"{run.value:g}", _number(check.value), _range(check.allowed), "yes" if check.agrees else "no",
        )
        for check in summary.checks
        for run in (check.run,)
    ]  # fmt: skip
    columns = (
        "problem",
        "algorithm",
        "kind",
        "beta",
        "n",
        "episodes",
        "their code",
        "closed loop here",
        "allowed (95 %)",
        "agrees",
    )
    return [
        Heading("Against the authors' code"),
        Paragraph(
            f"Results of the authors' code, run as it is, beside the variant authors: **{agreeing} of "
            f"{len(summary.checks)}** "
            "agree. plain: the empirical risk of their episodes; allowed is where 95 % of experiments with "
            "as many episodes "
            "of our closed loop fall. settled: the same with the slips integrated exactly; allowed is our "
            "value give or "
            "take the 95 % noise of both. One in twenty may disagree by chance."
        ),
        Table(columns, tuple(lines), text_columns=3),
    ]


def _results(summary: Summary) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_RESULT_COLUMNS)
    for row in summary.rows:
        cell, paper = row.cell, row.paper
        writer.writerow([
            cell.problem, cell.algorithm, cell.variant, cell.beta, cell.iterations, cell.episodes,
            row.erm, *row.interval,
            row.closed_loop, *row.closed_interval, row.frequency_risk, row.exact, row.regret, *row.luck,
            *(("", "", "", "") if paper is None else (paper.value, paper.low, paper.high, row.paper_inside)),
        ])  # fmt: skip
    return stream.getvalue()


def _number(value: float, digits: int = 3) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0: no "-0.000"


def _range(interval: Interval) -> str:
    return f"{interval.low:.2f} to {interval.high:.2f}"


def _value(value: float, interval: Interval, digits: int = 3) -> str:
    return f"{value:.{digits}f} ({interval.low:.2f} to {interval.high:.2f})"
