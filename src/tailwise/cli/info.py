"""``tailwise info``: what a model holds, and what was assumed when it was read."""

from __future__ import annotations

from typing import Any

from tailwise._results import amounts
from tailwise.cli import options as given
from tailwise.cli.output import console, print_json, say, say_notes


def command(*, model: given.Model, state: given.State = None, json: given.Json = False) -> None:
    """Show states, actions, outcomes, ranges and warnings of a model."""
    from tailwise._progress import activity
    from tailwise.formats import summarize

    with activity(f"reading {model.model}"):
        summary = summarize(model.load(start=state))
    if json:
        print_json(summary)
    else:
        _show(summary)


def _show(summary: Any) -> None:
    from rich.table import Table
    from rich.text import Text

    sense = summary.sense
    no_terminal = "none" if summary.kind == "table" else _UNKNOWN
    lines = [
        ("states", _count(summary.states)),
        ("actions", _count(summary.actions)),
        ("actions in the start state", _count(summary.start_actions)),
        ("state-action pairs", _count(summary.pairs)),
        ("outcomes", _count(summary.outcomes)),
        (f"{sense} of a step", _range(summary.lowest, summary.highest)),
        (f"terminal {sense}", _range(summary.lowest_terminal, summary.highest_terminal, no_terminal)),
        ("horizon", "none" if summary.horizon is None else f"{summary.horizon:,}"),
        ("discount", f"{summary.discount:g}"),
        ("start", summary.start),
    ]
    say(f"{summary.name}  ({summary.kind}; numbers are {amounts(sense)})", "bold")
    grid = Table(show_header=False, box=None, pad_edge=False)
    grid.add_column()
    grid.add_column(overflow="fold")
    for name, value in lines:
        if value != _UNKNOWN:
            grid.add_row(Text(name), Text(value))
    console().print(grid)
    say_notes(summary)
    for warning in summary.warnings:
        say(f"warning: {warning}", "yellow")


_UNKNOWN = ""  # what a simulator does not tell without being run


def _count(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _range(low: float | None, high: float | None, nothing: str = _UNKNOWN) -> str:
    if low is None or high is None:
        return nothing
    return f"{low:.10g}" if low == high else f"{low:.10g} .. {high:.10g}"
