"""``tailwise reproduce``: the paper's tables and figures, from one command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tailwise._progress import activity
from tailwise._results import number
from tailwise.cli import options as given
from tailwise.cli.output import print_json, show_table
from tailwise.errors import OptionError, require


def command(
    *,
    out: Annotated[Path, typer.Option(help="Folder for samples, figures and the report; new or empty.")],
    problem: Annotated[str, typer.Argument(metavar="[mdp-4|grid-mdp|all]")] = "all",
    seeds: Annotated[int, typer.Option(help="Episodes per entry; the paper has 100.")] = 100,
    seed: Annotated[int, typer.Option(help="Root of all randomness.")] = 0,
    threads: Annotated[
        int | None, typer.Option(help="Threads, all cores if not given; they do not change the result.")
    ] = None,
    cluster: given.Cluster,
    resume: Annotated[bool, typer.Option(help="Go on with the interrupted run in --out.")] = False,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            help="Reading of the algorithms: authors, repaired, text, rescaled, constant-5, constant-20, "
            "constant-60. May be repeated; the first is the one in figures. All of these if not given; laws is "
            "Distributional MCTS, which takes minutes."
        ),
    ] = None,
    most_iterations: Annotated[
        int, typer.Option(help="Cut all numbers of iterations down to this, for a quick trial.")
    ] = 10_000,
    report: given.Report = None,
    json: given.Json = False,
) -> None:
    """Repeat the paper's experiments; report every number beside the paper's and the exact one."""
    from tailwise.reproduction import DEFAULT_VARIANTS, PROBLEMS, Settings, reproduce, summarise, write_reproduction

    if problem != "all" and problem not in PROBLEMS:
        raise OptionError(f"problem must be one of {', '.join((*PROBLEMS, 'all'))}, not {problem!r}")
    settings = Settings(
        problems=PROBLEMS if problem == "all" else (problem,),
        seeds=seeds,
        seed=seed,
        variants=tuple(dict.fromkeys(variant)) if variant else DEFAULT_VARIANTS,
        most_iterations=most_iterations,
    )
    given.check_report(report)
    require("matplotlib", "report", "drawing the figures")  # before hours of work, not after
    cluster.check()
    if cluster.ray is not None:
        folder = cluster.run("reproduce", out, settings, resume=resume, progress=True)
    else:
        count = (os.cpu_count() or 1) if threads is None else threads
        folder = reproduce(out, settings, threads=count, resume=resume, progress=True)
    with activity("drawing and writing the report"):
        summary = summarise(folder)
        files = write_reproduction(summary, folder.path, page=report)
    if json:
        rows = [row.to_dict() for row in summary.rows]
        print_json({"out": str(out), "files": [str(path) for path in files], "rows": rows})
        return
    lines = [
        (
            row.experiment.problem, f"{row.experiment.beta:g}", row.experiment.algorithm, row.experiment.variant,
            number(row.paper.value), number(row.erm, 4), number(row.closed_loop, 4), number(row.exact, 4),
            "yes" if row.paper_inside else "no",
        )
        for row in summary.rows
        if row.paper is not None
    ]  # fmt: skip
    columns = ("problem", "beta", "algorithm", "variant", "paper", f"ERM of {seeds}", "closed loop", "exact")
    show_table((*columns, "paper inside"), lines, spare=("paper inside", "variant", "closed loop"))
    print(f"report: {folder.path / 'report.html'} (and report.md, results.csv, figures, samples)")
