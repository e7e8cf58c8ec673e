"""The report of the paper's experiments: every number beside the paper's, the exact one, and its sampling error."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tailwise._files import write_whole
from tailwise.errors import RunError
from tailwise.report.document import Block, Bullets, Document, Heading, Image, Paragraph, Table
from tailwise.reproduction.figures import ALGORITHMS, curve_rows, draw_figures
from tailwise.reproduction.variants import ORACLE
from tailwise.risk.measures import Interval

if TYPE_CHECKING:
    from tailwise.reproduction.summary import Row, Summary


def write_reproduction(summary: Summary, out: Path, *, page: Path | None = None) -> tuple[Path, ...]:
    """Write report, numbers and figures of a reproduction into its folder.

    Parameters
    ----------
    summary : tailwise.reproduction.Summary
        The numbers.
    out : Path
        The folder; its ``figures`` are made if need be.
    page : Path, optional
        Also write ``report.html`` here, with the figures inside, so that it is one file.

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
        images, files = draw_figures(summary, folder)
        document = Document("The paper's experiments, reproduced", _blocks(summary, images))
        for name, text in (
            ("report.md", document.markdown()),
            ("report.html", document.html()),
            ("results.csv", results_table(summary)),
        ):
            write_whole(out / name, [text.encode("utf-8")])
            files.append(out / name)
        if page is not None:
            files.append(document.save(page, folder=out))
    except OSError as error:
        raise RunError(f"the report cannot be written into {out}: {error}") from None
    return tuple(files)


def results_table(summary: Summary) -> str:
    """Return ``results.csv``: a header, then one line per experiment, every number in full."""
    stream = io.StringIO()
    rows = [row.to_dict() for row in summary.rows]
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _blocks(summary: Summary, images: list[Image]) -> list[Block]:
    problems, seeds = summary.settings.problems, summary.settings.seeds
    blocks = [*_introduction(summary)]
    for problem in problems:
        blocks.append(Heading(f"{problem}: the paper's table"))
        for beta in summary.betas(problem):
            blocks += [Heading(f"beta = {beta:g}", 3), _table(summary.table(problem, beta), seeds)]
        blocks.append(Paragraph(_FREQUENCIES if problem == "mdp-4" else _falls(summary, problem)))
    curves = [row for name in problems for beta in summary.betas(name) for row in curve_rows(summary, name, beta)]
    if curves:
        blocks += [Heading("Risk against the number of iterations"), _curve_table(curves)]
    blocks += [Heading("Figures"), *images]
    if summary.checks:
        blocks += _check_blocks(summary)
    return blocks


def _introduction(summary: Summary) -> list[Block]:
    settings = summary.settings
    main = settings.variants[0]
    inside = [row.paper_inside for row in summary.rows if row.paper and row.experiment.variant in ("exact", main)]
    return [
        Paragraph(
            f"{settings.seeds} episodes per entry, root seed {settings.seed}; the planner re-plans at every step and "
            "keeps the part of its tree below the step taken. All rows of one problem and risk level share their "
            "random numbers. `manifest.json` has the versions and the command, `results.csv` every number in full, "
            "`samples/` every episode."
        ),
        Heading("How to read the numbers"),
        Bullets((
            f"**ERM of {settings.seeds}** is what the paper's tables show: the empirical entropic risk of so many "
            "episodes, with the paper's 90 % percentile bootstrap (25,000 resamples). Where a rare disaster decides "
            "the risk this number is mostly luck, and an interval from a sample without the disaster is short and "
            "wrong.",
            "**Closed loop** is the best estimate of the true risk of the planner. grid-mdp: what no decision can "
            "change any more (the pit, the target) is integrated exactly (conditional Monte Carlo). mdp-4: from five "
            "times as many episodes, in table entries. With a 95 % percentile bootstrap interval over episodes.",
            "**Exact** is the optimum, from backward induction; **regret** is closed loop minus exact.",
            f"**Sampling error** is the range that holds 90 % of all experiments of {settings.seeds} episodes with "
            "that very closed loop. A number of the paper inside of it differs from ours by no more than that.",
        )),
        Paragraph(
            f"**{sum(map(bool, inside))} of {len(inside)}** numbers of the paper's tables lie inside the 90 % range "
            f"of sampling error of this run (oracle and variant {main}); if nothing but luck differed, one in ten "
            "would lie outside."
        ),
        Heading("Variants: where the text, the code and what is right differ"),
        Bullets(tuple(f"**{variant.name}**: {variant.summary}" for variant in summary.variants)),
        Paragraph(
            "In all of them: bonus sqrt(2) N(s)^(1/4) / N(s, a)^(1/2) with N(s) one more than the sum of the actions' "
            "visits (but for the constants named above), untried actions first, ties to the first, the most visited "
            "action is taken. The original lets planner and environment share one random stream; here each has its "
            "own, which changes no distribution."
        ),
    ]  # fmt: skip


def _table(rows: Iterable[Row], seeds: int) -> Table:
    has_frequency = any(row.frequency_risk is not None for row in rows)
    columns = ["algorithm", "variant", "paper", f"ERM of {seeds}", "closed loop", "exact", "regret"]
    columns += ["sampling error (90 %)", "paper inside"] + (["frequencies"] if has_frequency else [])
    lines = []
    for row in sorted(rows, key=lambda row: ALGORITHMS.index(row.experiment.algorithm)):
        is_oracle = row.experiment.algorithm == ORACLE
        line = [
            row.experiment.algorithm,
            row.experiment.variant,
            "" if row.paper is None else _value(row.paper.value, Interval(row.paper.low, row.paper.high), 2),
            _value(row.erm, row.interval),
            _number(row.closed_loop) if is_oracle else _value(row.closed_loop, row.closed_interval),
            _number(row.exact),
            _number(row.regret),
            _range(row.sampling_range),
            {None: "", True: "yes", False: "no"}[row.paper_inside],
        ]
        if has_frequency:
            line.append("" if row.frequency_risk is None else _number(row.frequency_risk))
        lines.append(tuple(line))
    return Table(tuple(columns), tuple(lines), text_columns=2)


_FREQUENCIES = (
    "**frequencies**: the exact risk of the policy that takes each action as often, at each step and state, as the "
    "planner was seen to: the planner's own decisions without the luck of the environment. A number of the paper "
    "below the exact optimum is luck; no planner has a smaller risk than the optimum."
)


def _falls(summary: Summary, problem: str) -> str:
    falls = [
        f"{int(np.count_nonzero(row.totals > 12.0))} ({row.experiment.algorithm}, beta {beta:g})"
        for beta in summary.betas(problem)
        for row in summary.table(problem, beta)
        if row.experiment.variant in ("exact", summary.settings.variants[0])
    ]
    return (
        f"Episodes that cost more than 12, nearly all of them falls into the pit, among {summary.settings.seeds}: "
        f"{', '.join(falls)}. One fall more or less moves the empirical risk by more than the algorithms differ, so "
        "the column **closed loop** is the one that compares them."
    )


def _curve_table(rows: Iterable[Row]) -> Table:
    def order(row: Row) -> tuple[str, float, str, str, int]:
        one = row.experiment
        return one.problem, one.beta, one.algorithm, one.variant, one.iterations

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
    columns = ("problem", "algorithm", "kind", "beta", "n", "episodes", "their code", "closed loop here")
    return [
        Heading("Against the authors' code"),
        Paragraph(
            f"Results of the authors' code, run as it is, beside the variant authors: **{agreeing} of "
            f"{len(summary.checks)}** agree. plain: the empirical risk of their episodes; allowed is where 95 % of "
            "experiments with as many episodes of our closed loop fall. conditional: the same with the slips "
            "integrated exactly; allowed is our value give or take the 95 % noise of both. One in twenty may disagree "
            "by chance."
        ),
        Table((*columns, "allowed (95 %)", "agrees"), tuple(lines), text_columns=3),
    ]


def _number(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}"  # + 0.0: no "-0.000"


def _range(interval: Interval) -> str:
    return f"{interval.low:.2f} to {interval.high:.2f}"


def _value(value: float, interval: Interval, digits: int = 3) -> str:
    return f"{value:.{digits}f} ({_range(interval)})"
