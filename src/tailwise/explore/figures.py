"""The figures of the page, as plain values for Dash; colours of text and lines are the style sheet's."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from tailwise.report.paper_plots import COLOURS

_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up")
_MOST_ACTIONS = len(_DASHES)  # drawn; the table has them all
_MOST_POINTS = 400
HEIGHT = 310
CONFIG = {"displayModeBar": False, "displaylogo": False, "responsive": True}


def distribution(plan: Any) -> dict[str, Any]:
    """Draw the totals after the best action and its runner-up, with mean and ERM of the best."""
    rows = [row for row in _ranked(plan)[:2] if plan.samples(row.action).size > 1]
    every = [plan.samples(row.action) for row in rows]
    data: list[dict[str, Any]] = []
    if rows and all(np.isfinite(totals).all() for totals in every):
        edges = np.histogram_bin_edges(np.concatenate(every), bins=40)
        for k, (row, totals) in enumerate(zip(rows, every, strict=True)):
            shares = np.histogram(totals, bins=edges)[0] / totals.size
            data.append(
                {
                    "type": "bar", "name": _text(row.label), "x": ((edges[1:] + edges[:-1]) / 2).tolist(),
                    "y": shares.tolist(), "width": float(edges[1] - edges[0]), "opacity": 0.6,
                    "marker": {"color": COLOURS[k], "pattern": {"shape": ("", "/")[k]}},
                }
            )  # fmt: skip
        for name, dash, value in (("mean", "dot", rows[0].mean), ("ERM", "dash", rows[0].erm)):
            if not np.isfinite(value):
                continue
            data.append(
                {
                    "type": "scatter", "mode": "lines", "name": f"{name} of {_text(rows[0].label)}",
                    "x": [value, value], "y": [0, 1], "yaxis": "y2", "line": {"color": COLOURS[0], "dash": dash},
                }
            )  # fmt: skip
    aside = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
    return _figure(data, f"total {plan.sense}", "share of episodes", barmode="overlay", yaxis2=aside)


def exceedance(plan: Any) -> dict[str, Any]:
    """Draw, for each of the best actions, how probable a worse total is."""
    data = []
    for k, row in enumerate(_ranked(plan)[:_MOST_ACTIONS]):
        totals = np.sort(plan.samples(row.action))
        if totals.size < 2:
            continue
        points = np.unique(totals)
        if points.size > _MOST_POINTS:
            points = np.unique(np.append(np.quantile(points, np.linspace(0, 1, _MOST_POINTS)), totals[[0, -1]]))
        worse = 1.0 - np.searchsorted(totals, points, side="right") / totals.size
        if plan.sense == "reward":
            worse = np.searchsorted(totals, points, side="left") / totals.size
        kept = worse > 0.0  # of a logarithm
        line = {"color": COLOURS[k], "dash": _DASHES[k], "shape": "hv"}
        named = {"type": "scatter", "mode": "lines", "name": _text(row.label), "line": line}
        data.append({**named, "x": points[kept].tolist(), "y": worse[kept].tolist()})
    word = "above" if plan.sense == "cost" else "below"
    return _figure(data, f"total {plan.sense}", f"P(total {word})", yaxis={"type": "log", "exponentformat": "power"})


def convergence(moment: Any) -> dict[str, Any]:
    """Draw the risk of the best actions over the iterations, and the exact optimum where it is known."""
    plan, trace = moment.plan, moment.trace
    data: list[dict[str, Any]] = []
    counts = [count for count, _ in trace]
    places = {row.action: k for k, row in enumerate(plan.rows)}
    for k, row in enumerate(_ranked(plan)[:_MOST_ACTIONS]):
        values = [risks[places[row.action]] for _, risks in trace]
        drawn = [value if np.isfinite(value) else None for value in values]
        data.append(
            {
                "type": "scatter", "mode": "lines+markers", "name": _text(row.label), "x": counts, "y": drawn,
                "line": {"color": COLOURS[k], "dash": _DASHES[k]}, "marker": {"symbol": _SYMBOLS[k], "size": 5},
            }
        )  # fmt: skip
    if moment.exact is not None and counts:
        ends, value = [counts[0], counts[-1]], moment.exact.value
        line = {"color": "#888888", "dash": "longdash"}
        named = {"type": "scatter", "mode": "lines", "name": "exact optimum", "line": line}
        data.append({**named, "x": ends, "y": [value, value]})
    return _figure(data, "iterations", "ERM", xaxis={"type": "log"})


def frontier(found: Any, beta: float) -> dict[str, Any]:
    """Draw the mean of each plan against the mean of its worst 5 %; the plan of ``beta`` stands out."""
    here = found.at(beta)
    others = [point for point in found.points if point is not here]
    data = [
        _points([p for p in others if not p.dominated], "other betas", COLOURS[0], "circle", 9),
        _points([p for p in others if p.dominated], "dominated", COLOURS[1], "x", 9),
        _points(
            [here], f"{'' if here.low <= beta <= here.high else 'nearest to '}beta {beta:.4g}", COLOURS[2], "star", 16
        ),
    ]
    return _figure([one for one in data if one["x"]], f"mean {found.sense}", "mean of the worst 5 %")


def _points(points: Sequence[Any], name: str, colour: str, symbol: str, size: int) -> dict[str, Any]:
    words = [f"{_text(p.label)}, beta {p.low:.4g} to {p.high:.4g}" for p in points]
    hover = "%{text}<br>%{x:.6g}, %{y:.6g}<extra></extra>"
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": [p.mean for p in points],
        "y": [p.cvar[1] for p in points], "text": words, "hovertemplate": hover,
        "marker": {"color": colour, "symbol": symbol, "size": size},
    }  # fmt: skip


def _ranked(plan: Any) -> list[Any]:
    """The plan's rows: the recommended one, then by risk."""
    sign = 1.0 if plan.sense == "cost" else -1.0
    return sorted(plan.rows, key=lambda row: (row.action != plan.action, np.isnan(row.erm), sign * row.erm))


def _text(label: str) -> str:
    """A label as plotly shows it unchanged: it reads some HTML."""
    return html.escape(label, quote=False)


def _figure(data: list[dict[str, Any]], across: str, up: str, **layout: Any) -> dict[str, Any]:
    axis = {"zeroline": False, "automargin": True}
    shape = {
        "margin": {"l": 10, "r": 10, "t": 10, "b": 10},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13},
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
        "uirevision": "kept",
    }
    axes = {
        "xaxis": {**axis, "title": {"text": across}, **layout.pop("xaxis", {})},
        "yaxis": {**axis, "title": {"text": up}, **layout.pop("yaxis", {})},
    }
    return {"data": data, "layout": {**shape, **axes, **layout}}
