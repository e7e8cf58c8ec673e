"""What commands print: tables for people, one JSON object for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tailwise._plain import plain

BARS = " ▁▂▃▄▅▆▇█"


def console() -> Console:
    """Return a console on standard output; plain and wide enough for tables when it is no terminal."""
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False)


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object on one standard output."""
    print(json.dumps(plain(content), indent=2))


def number(value: float | None, digits: int = 6) -> str:
    """Format a number for a table; a dash where there is none."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.{digits}g}" if value else "0"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", best: int | None = None) -> Table:
    """Build a table; the first column is text, the others numbers; row ``best`` is emphasised."""
    built = Table(title=title or None, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        built.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
    for index, row in enumerate(rows):
        built.add_row(*row, style="bold green" if index == best else None)
    return built


def sparkline(samples: np.ndarray[Any, Any], bins: int = 40) -> str:
    """Draw a histogram of ``samples`` in one line of text."""
    counts, _ = np.histogram(samples, bins=bins)
    heights = np.ceil(counts / counts.max() * (len(BARS) - 1)).astype(int)
    return "".join(BARS[height] for height in heights)


@contextmanager
def progress_bar(label: str, total: float | None) -> Iterator[Callable[[float], None] | None]:
    """Show a bar on standard error while the body runs; yields None where that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)
