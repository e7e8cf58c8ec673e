"""The figures of the page: the charts of the reports, as plain values for Dash.

Colours of text and of the grid are the style sheet's; what a chart wants in the colour of the text is grey here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailwise.evaluation import Frontier, Returns
from tailwise.explore.session import Moment
from tailwise.report import charts
from tailwise.report.document import Chart
from tailwise.report.paper_plots import COLOURS
from tailwise.search.plan import Plan, Trajectory

CONFIG = {"displayModeBar": False, "displaylogo": False, "responsive": True}
_MOST_ACTIONS = 4  # drawn; the table has them all


def totals(plan: Plan) -> dict[str, Any] | None:
    """Draw the totals after the best action and its runner-up, if there are any."""
    parts = _parts(plan, 2)
    beta = plan.root_beta if plan.is_erm else None
    xlabel = f"total {plan.sense}"
    return _figure(charts.histograms(parts, beta=beta, caption="", xlabel=xlabel)) if parts else None


def exceedance(plan: Plan) -> dict[str, Any] | None:
    """Draw, for the best actions, how probable each worse total is, if there are any totals."""
    parts = _parts(plan, _MOST_ACTIONS)
    return _figure(charts.exceedances(parts, caption="", sense=plan.sense)) if parts else None


def convergence(moment: Moment) -> dict[str, Any]:
    """Draw the risk and the share of the best actions over the iterations, with exact risks where they are known."""
    rows = _ranked(moment.plan)[:_MOST_ACTIONS]
    places = [moment.plan.rows.index(row) for row in rows]
    seen = [[known[place] for place in places] for _, known in moment.trace]
    values = np.array([[(row.erm, row.visits, *row.interval) for row in known] for known in seen], dtype=np.float64)
    iterations = np.array([count for count, _ in moment.trace])
    way = Trajectory(iterations, np.zeros_like(iterations), *np.moveaxis(values, 2, 0))
    sure = {} if moment.exact is None else {row.action: row.erm for row in moment.exact.rows}
    exact = [sure[row.action] for row in rows] if all(row.action in sure for row in rows) else []
    return _figure(charts.convergence([row.label for row in rows], way, exact=exact, caption=""))


def frontier(found: Frontier, beta: float) -> dict[str, Any]:
    """Draw the plans of a frontier; the one of ``beta`` stands out."""
    figure, here = _figure(charts.frontier(found, caption="")), found.at(beta)
    name = f"{'' if here.low <= beta <= here.high else 'nearest to '}beta {beta:.4g}"
    star = {"color": COLOURS[2], "symbol": "star", "size": 18}
    mark = {"type": "scatter", "mode": "markers", "name": name, "marker": star, "hoverinfo": "skip"}
    figure["data"].append({**mark, "x": [here.mean], "y": [here.cvar[1]]})
    return figure


def _ranked(plan: Plan) -> list[Any]:
    """The plan's rows: the recommended one, then by risk."""
    sign = 1.0 if plan.sense == "cost" else -1.0
    return sorted(plan.rows, key=lambda row: (row.action != plan.action, np.isnan(row.erm), sign * row.erm))


def _parts(plan: Plan, most: int) -> list[tuple[str, Returns]]:
    """Names and sampled totals of the best actions."""
    sampled = [(row.label, plan.samples(row.action)) for row in _ranked(plan)[:most]]
    return [(name, Returns(some, plan.sense)) for name, some in sampled if some.size > 1 and np.isfinite(some).all()]


def _figure(chart: Chart) -> dict[str, Any]:
    shape = {
        "margin": {"l": 10, "r": 10, "t": 10, "b": 10, **chart.layout.get("margin", {})},
        "height": chart.height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13},
        "uirevision": "kept",
    }
    axis = {"zeroline": False, "automargin": True}
    layout = {key: {**axis, **value} if key[1:].startswith("axis") else value for key, value in chart.layout.items()}
    figure: dict[str, Any] = _grey({"data": list(chart.traces), "layout": {**layout, **shape}})
    return figure


def _grey(value: Any) -> Any:
    """The same, with colours that follow a report's page as a grey that is read on light and dark."""
    if isinstance(value, dict):
        return {key: _grey(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_grey(item) for item in value]
    return "#808080" if isinstance(value, str) and value in ("@text", "@soft", "@grid") else value
