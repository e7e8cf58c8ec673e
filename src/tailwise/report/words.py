"""Numbers and names in words: what all reports share."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterable
from typing import Any

from tailwise._text import number
from tailwise.report.document import Heading, Paragraph, Table, literal
from tailwise.risk.distribution import Measures

LEVEL = 0.95


def measures_table(parts: Iterable[tuple[str, Measures]], beta: float | None, *, first: str = "action") -> Table:
    """Return the usual measures of each of some totals; with ``beta`` also their ERM."""
    columns = [first, "mean", "std", f"VaR {LEVEL:.0%}", f"CVaR {LEVEL:.0%}", "CVaR 99%", "worst"]
    if beta is not None:
        columns.insert(3, f"ERM at {beta:g}")
    rows = []
    for name, law in parts:
        cells = [law.mean, law.std, law.var(LEVEL), law.cvar(LEVEL), law.cvar(0.99)]
        cells.append(law.maximum if law.sense == "cost" else law.minimum)
        if beta is not None:
            cells.insert(2, law.erm(beta))
        rows.append((literal(name), *map(number, cells)))
    return Table(tuple(columns), tuple(rows))


def measures_words(sense: str, *, has_erm: bool = True) -> Paragraph:
    """Say what the measures of :func:`measures_table` are."""
    side = "exceeded" if sense == "cost" else "missed"
    text = f"All numbers are {sense}s, {'lower' if sense == 'cost' else 'higher'} is better."
    if has_erm:
        text += f" ERM: the sure {sense} that is as good as all that may come, at this aversion to risk."
    return Paragraph(f"{text} VaR 95%: {side} in at most 5 % of cases. CVaR 95%: the mean of the worst 5 %.")


def made_with(rows: Iterable[tuple[str, str]]) -> tuple[Heading, Table]:
    """Return the last part of a report: settings, seed and versions; of ``rows`` the values are plain text."""
    lines = [(literal(name), literal(value)) for name, value in rows]
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "numba", "plotly")]
    lines.append(
        ("versions", literal(", ".join([f"tailwise {_version()}", *versions, f"Python {platform.python_version()}"])))
    )
    return Heading("Settings, seed and versions"), Table(("what", "value"), tuple(lines), text_columns=2)


def settings_rows(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Return options in words, but for the beta and those that were not given."""
    return [(name, _said(value)) for name, value in settings.items() if value is not None and name != "beta"]


def model_rows(model: Any) -> list[tuple[str, str]]:
    """Return what a model is: its name, size, horizon, discount and notes."""
    rows = [("model", str(getattr(model, "name", type(model).__name__)))]
    if hasattr(model, "num_states"):
        rows.append(("size", f"{model.num_states:,} states, {model.num_outcomes:,} outcomes"))
    rows.append(("horizon and discount", f"{model.horizon} steps, {float(model.discount):g}"))
    return rows + [("note", str(note)) for note in getattr(model, "notes", ())]


def _said(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return str(name) if name is not None and callable(value) else str(value)


def _version() -> str:
    from tailwise import __version__

    return __version__
