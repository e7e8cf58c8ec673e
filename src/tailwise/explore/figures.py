"""The figures of the page: the charts of the reports, in the colours of the page's style sheet."""

from __future__ import annotations

from tailwise.evaluation import Frontier
from tailwise.explore.session import Moment
from tailwise.report import charts
from tailwise.report.document import Chart
from tailwise.report.outlook import known_totals, places
from tailwise.report.plots import PlainFigure, plain_figure

CONFIG = {"displayModeBar": False, "displaylogo": False, "responsive": True}
_MOST_ACTIONS = 4  # drawn; the table has them all
_GREY = dict.fromkeys(("text", "soft", "grid"), "#808080")  # read on light and dark
_LOOK = {
    "margin": {"l": 10, "r": 10, "t": 10, "b": 10}, "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"family": "system-ui, sans-serif", "size": 13}, "uirevision": "kept",
}  # fmt: skip


def of_moment(moment: Moment) -> list[tuple[str, str, PlainFigure]]:
    """Return (title, name, figure) of what is known of a decision: totals after the best actions, and the way there."""
    plan = moment.plan
    if plan is None:
        return []
    order, totals = places(plan)[:_MOST_ACTIONS], known_totals(plan)
    parts = [(plan.rows[k].label, law) for k in order if (law := totals[k]) is not None]
    drawn = []
    if parts:
        beta, xlabel = plan.root_beta if plan.is_erm else None, f"total {plan.sense}"
        drawn += [
            ("Totals", "distribution", charts.histograms(parts[:2], beta=beta, caption="", xlabel=xlabel)),
            ("How probable is worse?", "exceedance", charts.exceedances(parts, caption="", sense=plan.sense)),
        ]
    way = moment.trajectory
    if way is not None and way.iterations.size > 1:
        sure = {} if moment.exact is None else {row.action: row.erm for row in moment.exact.rows}
        rows = [plan.rows[k] for k in order]
        exact = [sure[row.action] for row in rows] if all(row.action in sure for row in rows) else []
        chart = charts.convergence([row.label for row in rows], way.of(order), exact=exact, caption="")
        drawn.append(("Estimates by iterations", "convergence", chart))
    return [(title, name, _figure(chart)) for title, name, chart in drawn]


def frontier(found: Frontier, beta: float) -> PlainFigure:
    """Draw the plans of a frontier; the one of ``beta`` stands out."""
    figure, here = _figure(charts.frontier(found, caption="")), found.at(beta)
    name = f"{'' if here.low <= beta <= here.high else 'nearest to '}beta {beta:.4g}"
    star = {"color": charts.COLOURS[2], "symbol": "star", "size": 18}
    mark = {"type": "scatter", "mode": "markers", "name": name, "marker": star, "hoverinfo": "skip"}
    figure["data"].append({**mark, "x": [here.mean], "y": [here.cvar[1]]})
    return figure


def _figure(chart: Chart) -> PlainFigure:
    return plain_figure(chart, _GREY, _LOOK, {"zeroline": False, "automargin": True})
