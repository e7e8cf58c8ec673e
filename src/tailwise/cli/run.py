"""``tailwise run``: a study of models, planners, objectives and seeds, from a file, into a folder."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from tailwise._results import number, span, table_suffix, write_table
from tailwise.cli import options as given
from tailwise.cli.output import print_json, say, show_table


def command(
    *,
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="Models, planners, objectives and seeds.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the results, if not the file's own.")] = None,
    processes: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 1,
    parquet: Annotated[bool, typer.Option("--parquet", help="Write Parquet, not CSV (needs pyarrow).")] = False,
    output: given.Output,
) -> None:
    """Play a study, or go on with one that was interrupted, and compare its planners in pairs."""
    from tailwise.errors import OptionError
    from tailwise.evaluation.study import load_study

    output.check()
    suffix = table_suffix(".parquet" if parquet else ".csv")
    if not study.is_file():
        raise OptionError(f"there is no file {study}")
    wanted, own = load_study(study)
    found = wanted.run(out or own, processes=processes, progress=True)
    tables = {"results": found.to_columns(), "returns": found.episode_columns()}
    written = [write_table(columns, found.folder / f"{name}{suffix}") for name, columns in tables.items()]
    output.save_document(lambda: _report(found))
    if output.json:
        print_json({"folder": str(found.folder), "rows": found.rows})
        return
    columns = ("planner", "value", "90 % interval", "against the first", "90 % of it", "mean", "worst", "seconds")
    for (model, objective), rows in groupby(found.rows, lambda row: (row["model"], row["objective"])):
        cells = [
            (
                row["planner"], number(row["value"]), span(row["low"], row["high"]),
                number(row["difference"], 4), span(row["difference_low"], row["difference_high"], 4),
                number(row["mean"]), number(row["worst"]), number(row["seconds"], 3),
            )
            for row in rows
        ]  # fmt: skip
        show_table(columns, cells, title=f"{model}: {objective}", spare=("seconds", "worst", "mean"))
    where = " and ".join(map(str, written))
    say(f"{found.rows[0]['episodes']:,} episodes a row, on the same luck; in full: {where}")


def _report(found: Any) -> Any:
    """Return one document: a comparison for each model and objective, one after the other."""
    from tailwise.formats import load
    from tailwise.report import Document, Heading, comparison_report, literal

    blocks: list[Any] = []
    for run, objective, parts in found.groups:
        rows = [(returns, returns.summary(objective), versus) for returns, versus in parts]
        used = {"objective": objective.words, "seeds": str(found.study.seeds), "episodes": found.study.episodes}
        part = comparison_report(rows, model=load(run.model, **dict(run.model_options)), settings=used)
        blocks += [Heading(f"{literal(run.model)}: {literal(objective.words)}"), *part.blocks]
    return Document("A study", tuple(blocks))
