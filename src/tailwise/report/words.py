"""Numbers and names in words, which all reports share, and what a notebook shows of a result.

That is a line and a small table of HTML, escaped, without scripts.
"""

from __future__ import annotations

import html
import importlib.metadata
import platform
from collections.abc import Iterable, Mapping
from functools import singledispatch
from typing import Any

import numpy as np

from tailwise import __version__
from tailwise._results import amounts, number, span, step_word
from tailwise.evaluation import Comparison, Frontier, Returns
from tailwise.exact import Policy
from tailwise.models import Report, TabularMDP
from tailwise.models.simulator import model_name
from tailwise.report.document import Heading, Paragraph, Table, html_table, literal
from tailwise.risk.distribution import Measures
from tailwise.search.plan import Plan

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
    text = f"All numbers are {amounts(sense)}, {'lower' if sense == 'cost' else 'higher'} is better."
    if has_erm:
        text += f" ERM: the sure {sense} that is as good as all that may come, at this aversion to risk."
    return Paragraph(f"{text} VaR 95%: {side} in at most 5 % of cases. CVaR 95%: the mean of the worst 5 %.")


def made_with(rows: Iterable[tuple[str, str]]) -> tuple[Heading, Table]:
    """Return the last part of a report: settings, seed and versions; of ``rows`` the values are plain text."""
    lines = [(literal(name), literal(value)) for name, value in rows]
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "numba", "plotly")]
    versions = [f"tailwise {__version__}", *versions, f"Python {platform.python_version()}"]
    lines.append(("versions", literal(", ".join(versions))))
    return Heading("Settings, seed and versions"), Table(("what", "value"), tuple(lines), text_columns=2)


def settings_rows(model: Any, settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a model is, and options in words, but for the beta and those that were not given."""
    rows = [("model", model_name(model))]
    if hasattr(model, "num_states"):
        rows.append(("size", f"{model.num_states:,} states, {model.num_outcomes:,} outcomes"))
    steps = "none" if model.horizon is None else step_word(model.horizon)
    rows.append(("horizon and discount", f"{steps}, {float(model.discount):g}"))
    rows += [("note", str(note)) for note in getattr(model, "notes", ())]
    return rows + [(name, _said(value)) for name, value in settings.items() if value is not None and name != "beta"]


def _said(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return str(name) if name is not None and callable(value) else str(value)


_MOST_ROWS = 20


@singledispatch
def html_of(result: Any) -> str:
    """Return a result as HTML: its text, unless its kind has a table."""
    return f"<pre>{html.escape(str(result))}</pre>"


@html_of.register
def _(plan: Plan) -> str:
    columns, order = plan.columns, [plan.rows.index(row) for row in plan.ranked]
    rows = [tuple(literal(cells[k]) for cells in columns.values()) for k in order]
    return _shown(plan.headline, tuple(columns), rows, plan.work, *plan.notes)


@html_of.register
def _(policy: Policy) -> str:
    plan = policy.plan(distributions=False)
    rows: list[tuple[str, ...]] = [
        (literal(row.label), number(row.erm, 8), "yes" if row.action in plan.optimal_actions else "")
        for row in plan.rows
    ]
    line = f"Optimum of {policy.mdp.name}: {policy.objective.words}, from {plan.state_name}"
    return _shown(line, ("action", f"{plan.measure} ({amounts(plan.sense)})", "optimal"), rows)


@html_of.register
def _(returns: Returns) -> str:
    measures = {
        "mean": returns.mean, "std": returns.std, "median": returns.quantile(0.5), "VaR 95%": returns.var(0.95),
        "CVaR 95%": returns.cvar(0.95), "min": returns.minimum, "max": returns.maximum,
    }  # fmt: skip
    line = f"{returns.label or 'totals'}: {returns.episodes:,} episodes, {amounts(returns.sense)}"
    return _shown(line, tuple(measures), [tuple(map(number, measures.values()))], *returns.notes, text_columns=0)


@html_of.register
def _(found: Comparison) -> str:
    clear, episodes = "clear" if found.is_clear else "not clear", (found.better, found.equal, found.worse)
    cells = (number(found.difference), span(*found.interval), clear, *map(str, episodes))
    columns = ("difference", f"{100 * found.confidence:g} % interval", "", "better", "equal", "worse")
    return _shown(f"{found.first} minus {found.second}: {found.measure}", columns, [cells], text_columns=0)


@html_of.register
def _(found: Frontier) -> str:
    columns, (line, *notes) = found.columns, found.in_words
    rows = [tuple(map(literal, cells)) for cells in zip(*columns.values(), strict=True)]
    return _shown(line, tuple(columns), rows, f"Numbers are {amounts(found.sense)}.", *notes)


@html_of.register
def _(mdp: TabularMDP) -> str:
    counts = (mdp.num_states, mdp.num_actions, mdp.num_outcomes)
    size = (*(f"{count:,}" for count in counts), str(mdp.horizon), f"{mdp.discount:g}")
    widths = np.diff(mdp.action_offsets)
    start = f"starts at {mdp.state_name(mdp.start)}; {mdp.sense}s; {widths.min()} to {widths.max()} actions a state"
    columns = ("states", "actions", "outcomes", "horizon", "discount")
    return _shown(f"Table {mdp.name}", columns, [size], start, *mdp.notes, text_columns=0)


@html_of.register
def _(report: Report) -> str:
    every = [("error", item) for item in report.violations] + [("warning", item) for item in report.warnings]
    rows = [(kind, *map(literal, (item.where, item.problem, item.fix))) for kind, item in every]
    verdict = "ok" if report.ok else f"{len(report.violations)} to fix"
    return _shown(f"{report.name}: {verdict}", ("", "where", "what", "how to fix it"), rows, text_columns=4)


def _shown(line: str, columns: tuple[str, ...], rows: list[tuple[str, ...]], *notes: str, text_columns: int = 1) -> str:
    parts = [f"<p><b>{html.escape(line)}</b></p>"]
    if rows:
        parts.append(html_table(Table(columns, tuple(rows[:_MOST_ROWS]), text_columns)))
    more = [f"{len(rows) - _MOST_ROWS:,} more rows"] if len(rows) > _MOST_ROWS else []
    parts += [f"<p>{html.escape(note)}</p>" for note in (*more, *notes)]
    return f"<div>{''.join(parts)}</div>"
