"""What commands print: tables for people, one JSON object for programs.

A table that is wider than the screen first gives up the columns that its command can spare, and says so; if that is
not enough, each row becomes a paragraph of "column  value" lines. No cell is ever cut. And the files that are wanted
beside: whether they can be is checked before the work.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tailwise._results import MISSING, in_unit, number, plain, step_word, table_suffix, write_table
from tailwise._validate import page_path
from tailwise.errors import FormatError, OptionError, require

BARS = " ▁▂▃▄▅▆▇█"
_MOST_SAID = 10**7  # outcomes times decisions of a table whose feared models and promises are said unasked
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_WIDTH = 120  # of what is no terminal, if COLUMNS does not say otherwise


def console() -> Console:
    """Return a console on standard output; plain and wide enough for tables when it is no terminal."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    columns = os.environ.get("COLUMNS", "")
    return Console(width=int(columns) if columns.isdecimal() and int(columns) else _WIDTH, highlight=False)


def say(text: str, style: str = "") -> None:
    """Print a line of text as it is, wrapped at the width of the screen."""
    console().print(Text(text, style))


def print_json(content: Any) -> None:
    """Print one JSON object, from plain values and results, on one standard output."""
    print(json.dumps(plain(content), indent=2))


def show_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    best: int | None = None,
    spare: Sequence[str] = (),
    texts: Sequence[str] = (),
) -> None:
    """Print a table, the row ``best`` emphasised; columns ``spare`` may be left out in order, ``texts`` wrap."""
    out = console()
    if title:
        out.print(Text(title, "italic"))
    kept = {name: [row[k] for row in rows] for k, name in enumerate(columns)}
    for name in spare:
        if all(cell == MISSING for cell in kept[name]):
            del kept[name]
    left_out = []
    for name in spare:
        if _width(kept, texts) > out.width and name in kept:
            del kept[name]
            left_out.append(name)
    if _width(kept, texts) > out.width:
        _show_stacked(out, columns, rows, best)
        return
    built = Table(header_style="bold")
    for k, name in enumerate(kept):
        is_text = k == 0 or name in texts
        built.add_column(name, justify="left" if is_text else "right", no_wrap=name not in texts, overflow="fold")
    for k in range(len(rows)):
        style = "bold green" if k == best else None
        built.add_row(*(Text(cells[k]) for cells in kept.values()), style=style)
    out.print(built)
    if left_out:
        out.print(Text(f"left out at this width: {', '.join(left_out)}", "dim"))


def _width(columns: dict[str, list[str]], texts: Sequence[str]) -> int:
    """Width of a table that cuts nothing; a text wraps at 20."""
    widths = [min(20 if name in texts else 1000, max(map(cell_len, (name, *cells)))) for name, cells in columns.items()]
    return sum(widths) + 3 * len(widths) + 1


def _show_stacked(out: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], best: int | None) -> None:
    for k, row in enumerate(rows):
        out.print(Text(f"{columns[0]} {row[0]}", "bold green" if k == best else "bold"))
        lines = Table.grid(padding=(0, 2, 0, 0))
        lines.add_column(no_wrap=True)
        lines.add_column(overflow="fold")
        for name, cell in zip(columns[1:], row[1:], strict=True):
            if cell not in ("", MISSING):
                lines.add_row(Text(f"  {name}"), Text(cell))
        out.print(lines)


def sparkline(samples: np.ndarray[Any, Any]) -> str:
    """Draw a histogram of ``samples`` in one line of text, between its least and greatest value."""
    low, high = number(float(samples.min()), 4), number(float(samples.max()), 4)
    bins = max(5, min(40, console().width - len(low) - len(high) - 6))
    counts, _ = np.histogram(samples, bins=bins)
    heights = np.ceil(counts / counts.max() * (len(BARS) - 1)).astype(int)
    return f"  {low} |{''.join(BARS[height] for height in heights)}| {high}"


def show_plan(problem: Any, plan: Any, planner: str = "exact") -> None:
    """Print what a plan says of itself; ``planner`` made it."""
    end = "no horizon" if problem.horizon is None else f"horizon {step_word(problem.horizon)}"
    where = f"{step_word()} {plan.step}, in state {plan.state_name}"
    say(f"{problem.name}: {end}, discount {problem.discount:g}, {where}.")
    say_notes(problem)
    say(f"{plan.headline}.", "bold green")
    columns = plan.columns
    show_table(
        tuple(columns), list(zip(*columns.values(), strict=True)), best=plan.rows.index(plan.chosen),
        spare=_spare(columns),
    )  # fmt: skip
    totals = plan.chosen.distribution
    samples = plan.samples(plan.action)
    if samples.size > 1:
        marks = (
            f"{100 * level:g} % {number(totals.quantile(level) if totals else float(np.quantile(samples, level)), 4)}"
            for level in _LEVELS
        )
        say(f"{in_unit(f'Total {plan.sense}')} after {plan.label}:  {'  '.join(marks)}")
        say(sparkline(samples))
    say(f"{plan.planner or planner}: {plan.work}", "dim")
    for note in plan.notes:
        say(f"note: {note}", "yellow")
    if plan.reason:
        say(plan.reason, "dim")
    for said in plan.how_sure:
        say(said, "yellow" if plan.is_bounded and not plan.proven else "dim")
    for said in (*plan.dominance, *plan.fears(_MOST_SAID), *_promised(problem, plan)):
        say(said, "dim")


def _promised(problem: Any, plan: Any) -> tuple[str, ...]:
    """Return what a plan promises on a table that was learned from a log and is small enough to say it at once."""
    if (
        not hasattr(problem, "promise")
        or problem.horizon is None
        or problem.num_outcomes * problem.horizon > _MOST_SAID
    ):
        return ()
    try:
        lines: tuple[str, ...] = plan.promise.lines
    except OptionError:  # a plan for one decision alone
        return ()
    return lines


def say_notes(problem: Any) -> None:
    """Print what should be known of a model."""
    for note in getattr(problem, "notes", ()):
        say(f"note: {note}", "dim")


def show_measures(totals: dict[str, Any], level: float) -> None:
    """Print the measures of distributions or samples of the total, by name, the first of them emphasised."""
    rows = {name: measures(law, level) for name, law in totals.items()}
    columns = tuple(next(iter(rows.values())))
    cells = [(name, *map(number, row.values())) for name, row in rows.items()]
    show_table(("total", *columns), cells, best=0, spare=("std", columns[2]))


def measures(law: Any, level: float) -> dict[str, float]:
    """Return the measures of a distribution or sample of the total, by their names."""
    worst = law.maximum if law.sense == "cost" else law.minimum
    return {
        "mean": law.mean, "std": law.std, f"VaR {level:g}": law.var(level), f"CVaR {level:g}": law.cvar(level),
        f"EVaR {level:g}": law.evar(level), "worst": worst,
    }  # fmt: skip


def _spare(columns: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Columns that a narrow screen can do without, the first of them first; never the action and its value."""
    order = ("std", "min", "max", "share", "visits", "trials", "episodes", "mean", "P(best)")
    names = list(columns)[1:]
    return (*(name for name in order if name in names), *(name for name in names[::-1] if name not in order))


def check_file(path: Path | None, option: str) -> None:
    """Raise, before the work, if a file that is wanted after it cannot be."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise OptionError(f"{option} must be a file in a folder that exists, not {path}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OptionError(f"{option}: {path} may not be written")


def check_report(path: Path | None) -> None:
    """Raise, before the work, what would keep a report from being written after it."""
    if path is None:
        return
    require("plotly.offline", "report", "drawing the charts of a report")
    check_file(path, "--report")
    page_path(path)


def check_model_file(out: Path, *, force: bool) -> None:
    """Raise, before the work, what would keep a model from being written after it."""
    from tailwise.formats.loading import writer_of

    if out.exists() and not force:
        raise FormatError(f"{out}: the file exists; write over it with --force, or choose another name")
    check_file(out, "the file to write")
    writer_of(out)


def check_table(path: Path | None, option: str) -> None:
    """Raise, before the work, what would keep a table from being written after it."""
    if path is None:
        return
    check_file(path, option)
    try:
        table_suffix(path)
    except OptionError as error:
        raise OptionError(f"{option} {error}") from None


def save_table(columns: Callable[[], Any], path: Path | None, name: str) -> None:
    """Write a table where one is wanted."""
    if path is None:
        return
    print(f"{name}: {write_table(columns(), path)}", file=sys.stderr)
