"""Charts as plotly's plain data: what the pages and :mod:`tailwise.report.plots` draw.

Colours are Okabe and Ito's, told apart by the colour-blind; what differs in colour differs in dash or place as well.
A colour ``"@text"`` follows the page (:class:`tailwise.report.document.Chart`). Names go through ``label``.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from tailwise._arrays import Floats
from tailwise._results import in_unit, number
from tailwise.evaluation import Frontier, Influence, Sensitivity
from tailwise.report.document import Chart, label
from tailwise.risk.distribution import Measures
from tailwise.search.plan import Trajectory

# Okabe and Ito's palette: told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
BODY, TAIL = COLOURS[0], COLOURS[1]
_BINS, _POINTS = 48, 400
_RARE = 1e-9  # ends of the totals that are less probable are not drawn
_AMOUNTS = {"separatethousands": True, "exponentformat": "none"}  # 40,000, not 40k or 4e4
_LEGEND = {"orientation": "h", "yanchor": "bottom", "y": 1.0, "xanchor": "left", "x": 0.0}


def histograms(
    parts: Sequence[tuple[str, Measures]], *, beta: float | None, level: float = 0.95, caption: str, xlabel: str
) -> Chart:
    """Draw one histogram under the other on a common axis, each with its mean, ERM and CVaR, its tail marked.

    The tail begins at the VaR of ``level``; one that is too low to be seen there is drawn once more beside it, with a
    scale of its own. Without ``beta`` there are no lines of the ERM. ``xlabel`` is plain text.
    """
    seen = [law.quantile(share) for _, law in parts for share in (_RARE, 1.0 - _RARE)]
    seen += [law.erm(beta) for _, law in parts] if beta is not None else []
    low, high = min(seen), max(seen)
    is_whole = low <= min(law.minimum for _, law in parts) and high >= max(law.maximum for _, law in parts)
    ends = (low, high) if high > low else (low - 0.5, low + 0.5)
    is_cost, vars_ = parts[0][1].sense == "cost", [law.var(level) for _, law in parts]
    beyond = np.nextafter(min(vars_) if is_cost else max(vars_), np.inf if is_cost else -np.inf)
    tail = (float(beyond), ends[1]) if is_cost else (ends[0], float(beyond))
    heights = np.concatenate([_chances(law, np.linspace(*ends, _BINS + 1)) for _, law in parts])
    is_low = bool(heights[heights > 0.0].min() < 0.03 * heights.max())
    has_tail = is_low and tail[0] < tail[1] and tail != ends
    panels = [(ends, [0.0, 0.58 if has_tail else 1.0], _BINS)] + has_tail * [(tail, [0.74, 1.0], _BINS // 2)]
    traces: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "bargap": 0.05, "legend": _LEGEND, "annotations": [], "barmode": "overlay", "margin": {"t": 60},
    }  # fmt: skip
    room, named = 1.0 / len(parts), set[str]()
    for which, (span, across, bins) in enumerate(panels):
        edges = np.linspace(*span, bins + 1)
        slack = 0.03 * (span[1] - span[0])
        x = "x2" if which else "x"
        for k, (name, law) in enumerate(parts):
            bars, top = _bars(law, edges, vars_[k], is_tail_only=bool(which))
            if which and not top:
                continue
            place = which * len(parts) + k + 1
            y, top = f"y{place if place > 1 else ''}", top or 1.0
            for trace in bars + _marks(law, span, top, beta, level):
                is_new = len(trace["x"]) > 0 and trace["name"] not in named  # plotly names nothing that is empty
                named |= {trace["name"]} if is_new else set()
                traces.append({**trace, "showlegend": is_new, "legendgroup": trace["name"], "xaxis": x, "yaxis": y})
            start = 1.0 - (k + 1) * room
            up = [start + (0.02 if k < len(parts) - 1 else 0.0), start + room - 0.2 * room]
            layout[f"yaxis{y[1:]}"] = {
                "domain": up, "anchor": x, "nticks": 4, "range": [0.0, top * 1.08], "exponentformat": "power",
            }  # fmt: skip
            layout["annotations"].append({
                "text": "tail" if which else f"<b>{label(name, 40)}</b>",
                "xref": "paper", "yref": "paper", "x": across[0], "y": up[1], "xanchor": "left", "yanchor": "bottom",
                "showarrow": False,
            })  # fmt: skip
        layout[f"xaxis{x[1:]}"] = {
            "domain": across, "anchor": y, "range": [span[0] - slack, span[1] + slack], "nticks": 4 if which else 8,
            **_AMOUNTS, **({} if which else {"title": {"text": label(in_unit(xlabel))}}),
        }  # fmt: skip
    caption += "" if is_whole else " Ends less probable than 1e-9 are left out."
    enlarged = f"; on the right what is beyond VaR {level:.0%} again, on scales of its own" if has_tail else ""
    return Chart(
        f"{caption} Upwards: probability of each bin{enlarged}.", tuple(traces), layout, height=120 + 150 * len(parts)
    )


def _bars(law: Measures, edges: Floats, var: float, *, is_tail_only: bool) -> tuple[list[dict[str, Any]], float]:
    """Return the bars of a histogram, those of the tail in their own colour, and the height of the highest."""
    chances, width = _chances(law, edges), float(edges[1] - edges[0])
    centres, is_tail = (
        (edges[:-1] + edges[1:]) / 2.0,
        (edges[:-1] > var) if law.sense == "cost" else (edges[1:] < var),
    )
    bars: list[dict[str, Any]] = []
    for which, colour, said in ((~is_tail & (not is_tail_only), BODY, "total"), (is_tail, TAIL, "worst cases")):
        keep = (chances > 0.0) & which
        bars.append({
            "type": "bar", "x": centres[keep], "y": chances[keep], "width": 0.95 * width, "marker": {"color": colour},
            "name": said, "hovertemplate": "%{x:,.6~g}: probability %{y:.4g}<extra></extra>",
        })  # fmt: skip
    return bars, max((float(bar["y"].max()) for bar in bars if bar["y"].size), default=0.0)


def _marks(
    law: Measures, span: tuple[float, float], top: float, beta: float | None, level: float
) -> list[dict[str, Any]]:
    """Return a vertical line at the mean, the ERM and the CVaR, as far as they lie in the span."""
    marks = [("mean", law.mean, "solid", "@text"), (f"CVaR {level:.0%}", law.cvar(level), "dash", "@text")]
    if beta is not None:
        marks.insert(1, (f"ERM at beta {number(beta)}", law.erm(beta), "dot", "@text"))
    return [
        {
            "type": "scatter", "mode": "lines", "x": [value, value], "y": [0.0, top * 1.05], "name": said,
            "line": {"color": colour, "dash": dash, "width": 2},
            "hovertemplate": f"{said} {number(value)}<extra></extra>",
        }
        for said, value, dash, colour in marks
        if span[0] <= value <= span[1]
    ]  # fmt: skip


def slides(parts: Sequence[tuple[str, Measures]], *, level: float = 0.95, caption: str, xlabel: str) -> Chart:
    """Draw one histogram at a time on common axes, by a slider whose places have the names."""
    seen = [law.quantile(share) for _, law in parts for share in (_RARE, 1.0 - _RARE)]
    low, high = (min(seen), max(seen)) if max(seen) > min(seen) else (seen[0] - 0.5, seen[0] + 0.5)
    edges, slack = np.linspace(low, high, _BINS + 1), 0.03 * (high - low)
    bars = [_bars(law, edges, law.var(level), is_tail_only=False) for _, law in parts]
    top = max(height for _, height in bars)
    traces = [
        {**trace, "meta": k, "visible": k == 0}
        for k, (_, law) in enumerate(parts)
        for trace in bars[k][0] + _marks(law, (low, high), top, None, level)
    ]
    layout = {
        "xaxis": {"title": {"text": label(in_unit(xlabel))}, "range": [low - slack, high + slack], **_AMOUNTS},
        "yaxis": {"title": {"text": "probability"}, "range": [0.0, top * 1.08]},
        "legend": _LEGEND, "barmode": "overlay",
    }  # fmt: skip
    return Chart(caption, tuple(traces), layout, height=300, names=tuple(name for name, _ in parts))


def exceedances(parts: Sequence[tuple[str, Measures]], *, caption: str, sense: str) -> Chart:
    """Draw the probability of doing worse than each total, on a logarithmic scale."""
    traces, least = [], 1.0
    ends = [law.minimum for _, law in parts] if sense == "cost" else [law.maximum for _, law in parts]
    for k, (name, law) in enumerate(parts):
        x, y = _exceedance(law, min(ends) if sense == "cost" else max(ends))
        least = min(least, float(y.min()))
        traces.append({
            "type": "scatter", "mode": "lines", "x": x, "y": y, "name": label(name, 40),
            "line": {**_style(k), "shape": "hv" if law.sense == "cost" else "vh"},
            "hovertemplate": "worse than %{x:,.5~g}: %{y:.4g}<extra></extra>",
        })  # fmt: skip
    worse = "more" if sense == "cost" else "less"
    layout = {
        "xaxis": {"title": {"text": label(in_unit(f"total {sense}"))}, **_AMOUNTS},
        "yaxis": {
            "title": {"text": f"P({worse} than this)"}, "type": "log", "exponentformat": "power",
            "range": [math.log10(least) - 0.1, 0.05], "dtick": max(1, round(-math.log10(least) / 6)),
        },
        "legend": _LEGEND,
    }  # fmt: skip
    return Chart(caption, tuple(traces), layout, height=max(360, 320 + 20 * len(parts)))  # on phones names are a column


def convergence(names: Sequence[str], trajectory: Trajectory, *, exact: Sequence[float] = (), caption: str) -> Chart:
    """Draw how the ERM of each action and its share of the visits evolved; ``exact`` values are dotted."""
    x = trajectory.iterations
    total = np.maximum(1.0, trajectory.visits.sum(axis=1))
    traces: list[dict[str, Any]] = []
    for k, name in enumerate(names):
        style = {"type": "scatter", "mode": "lines", "x": x, "name": label(name, 30), "legendgroup": str(k)}
        ends = np.stack((trajectory.lows[:, k], trajectory.highs[:, k]))
        sure = np.isfinite(ends).all(axis=0)
        if sure.sum() > 1:
            around = np.concatenate((ends[0][sure], ends[1][sure][::-1]))
            traces.append({
                **style, "x": [*x[sure], *x[sure][::-1]], "y": around, "fill": "toself", "showlegend": False,
                "fillcolor": _faint(k), "line": {"width": 0, "color": _faint(k)}, "hoverinfo": "skip",
            })  # fmt: skip
        traces.append({**style, "y": trajectory.erms[:, k], "line": _style(k)})
        if len(exact):
            traces.append({
                **style, "x": [x[0], x[-1]], "y": [exact[k]] * 2, "showlegend": False, "hoverinfo": "skip",
                "line": {"color": _style(k)["color"], "dash": "dot", "width": 1},
            })  # fmt: skip
        share = trajectory.visits[:, k] / total
        traces.append({**style, "y": share, "line": _style(k), "showlegend": False, "yaxis": "y2"})
    low, high = _sight(trajectory, exact)
    sparse = {"dtick": "D2"} if x[-1] < 1000 * x[0] else {}  # 2 and 5 between powers of ten: a 9 runs into the next one
    layout = {
        "xaxis": {"title": {"text": "iterations"}, "type": "log", "anchor": "y2", **sparse},
        "yaxis": {"domain": [0.42, 1.0], "title": {"text": "ERM"}, "range": [low, high]},
        "yaxis2": {"domain": [0.0, 0.34], "title": {"text": "share"}, "range": [0.0, 1.02]},
        "legend": _LEGEND,
    }
    return Chart(caption, tuple(traces), layout, height=460)


def risk_by_beta(
    names: Sequence[str], betas: Floats, erms: Floats, *, beta: float, changes: Sequence[float], caption: str
) -> Chart:
    """Draw how much worse each action is than the best one, against beta; ``erms`` has shape (k, A), as losses."""
    above = erms - np.nanmin(erms, axis=1, keepdims=True)
    most = float(np.nanmax(above))
    if len(names) > 2:  # an action that is never near the best would press the others together
        most = min(most, 4.0 * float(np.nanmax(np.sort(above, axis=1)[:, 1])))
    traces = [
        {
            "type": "scatter", "mode": "lines", "x": betas, "y": above[:, k], "name": label(name, 30),
            "line": _style(k),
        }
        for k, name in enumerate(names)
    ]  # fmt: skip
    shapes = [_vertical(beta, "@text", "solid"), *(_vertical(change, TAIL, "dash") for change in changes)]
    layout = {
        "xaxis": {"title": {"text": "beta"}, "exponentformat": "none"},
        "yaxis": {
            "title": {"text": "ERM above the best"}, "range": [-0.02 * most, 1.05 * most or 1.0], **_AMOUNTS,
        },
        "legend": _LEGEND, "shapes": shapes,
    }  # fmt: skip
    return Chart(caption, tuple(traces), layout)


def frontier(found: Frontier, *, caption: str) -> Chart:
    """Draw the plans of a frontier: what each pays on average, and in the worst 5 %."""
    traces = []
    for dominated, said, symbol, colour in (
        (False, "on the frontier", "circle", BODY), (True, "dominated", "x", TAIL),
    ):  # fmt: skip
        points = [point for point in found.points if point.dominated is dominated]
        if points:
            traces.append({
                "type": "scatter", "mode": "markers" if dominated else "lines+markers", "name": said,
                "x": [point.mean for point in points], "y": [point.cvar[1] for point in points],
                "text": [f"{label(p.label)}<br>beta {number(p.low, 4)} to {number(p.high, 4)}" for p in points],
                "marker": {"symbol": symbol, "color": colour, "size": 10}, "line": {"color": colour, "width": 1},
                "hovertemplate": "%{text}<br>mean %{x:,.5~g}, CVaR 95 % %{y:,.5~g}<extra></extra>",
            })  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": label(in_unit(f"mean {found.sense}"))}, **_AMOUNTS},
        "yaxis": {"title": {"text": "CVaR 95 %"}, **_AMOUNTS},
        "legend": _LEGEND,
    }  # fmt: skip
    return Chart(caption, tuple(traces), layout)


def intervals(
    rows: Sequence[tuple[str, float, float, float]], *, exact: float | None, xlabel: str, caption: str
) -> Chart:
    """Draw values with their intervals, given as (name, value, low, high), one under the other."""
    values, lows, highs = (np.array([row[k] for row in rows], dtype=np.float64) for k in (1, 2, 3))
    traces: list[dict[str, Any]] = [{
        "type": "scatter", "mode": "markers", "x": values, "y": [label(row[0], 30) for row in rows],
        "marker": {"color": BODY, "size": 10}, "name": "value and interval", "showlegend": False,
        "error_x": {
            "type": "data", "symmetric": False, "array": np.maximum(0.0, highs - values),
            "arrayminus": np.maximum(0.0, values - lows), "color": BODY, "thickness": 2, "width": 6,
        },
        "hovertemplate": "%{y}: %{x:,.6~g}<extra></extra>",
    }]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": label(xlabel)}, **_AMOUNTS},
        "yaxis": {"type": "category", "autorange": "reversed"},
        "shapes": [] if exact is None else [_vertical(exact, "@text", "dot")],
    }
    return Chart(caption, tuple(traces), layout, height=130 + 42 * len(rows))


def tornado(found: Sensitivity, *, caption: str) -> Chart:
    """Draw what each number does to the value when it is less and more, the widest bar above, and where decisions turn.

    A diamond ends a bar at whose end another action is best; the name of a number says how far off that is.
    """
    base, names = found.base.value, [_tornado_name(one) for one in found.influences]
    traces: list[dict[str, Any]] = []
    for side, colour, said in (("low", BODY, "less"), ("high", TAIL, "more")):
        ends = [getattr(one, side) for one in found.influences]
        traces.append({
            "type": "bar", "orientation": "h", "y": names, "x": [end.value - base for end in ends], "base": base,
            "marker": {"color": colour}, "opacity": 0.8, "name": f"{found.spread:.0%} {said}",
            "customdata": [[number(end.value), label(end.label, 30)] for end in ends],
            "hovertemplate": f"{said}: %{{customdata[0]}}, %{{customdata[1]}} is best<extra></extra>",
        })  # fmt: skip
    turned = [
        (name, end.value)
        for name, one in zip(names, found.influences, strict=True)
        for end in (one.low, one.high)
        if end.label != found.base.label
    ]
    if turned:
        traces.append({
            "type": "scatter", "mode": "markers", "y": [name for name, _ in turned], "x": [x for _, x in turned],
            "marker": {"symbol": "diamond", "size": 12, "color": "@text"}, "name": "another action is best",
            "hoverinfo": "skip",
        })  # fmt: skip
    layout = {
        "barmode": "overlay", "bargap": 0.4, "legend": _LEGEND, "shapes": [_vertical(base, "@text", "dot")],
        "xaxis": {"title": {"text": label(in_unit(found.objective.words))}, "nticks": 6, **_AMOUNTS},
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
    }  # fmt: skip
    lines = max(name.count("<br>") + 1 for name in names)
    return Chart(caption, tuple(traces), layout, height=140 + (18 + 17 * lines) * len(names))


def _tornado_name(one: Influence) -> str:
    """Return a number's name, and beneath it the factors at which the decision turns."""
    turns = [f"×{number(turn.factor, 3)}: {turn.label}" for turn in (one.below, one.above) if turn is not None]
    said = (one.name, f"turns at {', '.join(turns)}" if turns else "never turns")
    lines = (line for text in said for line in textwrap.wrap(text, 22, max_lines=3, placeholder=" …"))  # a phone's room
    return "<br>".join(label(line, 24) for line in lines)


def _chances(law: Measures, edges: Floats) -> Floats:
    totals, weights = law.weighted()
    counts, _ = np.histogram(totals, bins=edges, weights=weights)
    return np.asarray(counts / (totals.size if weights is None else weights.sum()), dtype=np.float64)


def _exceedance(law: Measures, end: float) -> tuple[Floats, Floats]:
    """Return at most some hundred points (total, probability of worse), in order of the total, from ``end`` on."""
    totals, weights = law.weighted()
    costs, places = np.unique(law.signed(totals), return_inverse=True)
    chances = np.bincount(places, weights=weights) / (totals.size if weights is None else weights.sum())
    worse = np.concatenate((np.cumsum(chances[::-1])[::-1][1:], [0.0]))
    keep = worse > _RARE  # at the worst total it is 0, which a logarithm does not show: the curve ends there
    rare = costs[(worse > 0.0) & ~keep]
    last = rare[0] if rare.size else costs[-1]
    values = np.asarray(law.signed(np.array([law.signed(end), costs[0], *costs[keep], last])))
    worse = np.array([1.0, 1.0, *worse[keep], *worse[keep][-1:], *[1.0][keep.sum() :]])
    if law.sense == "reward":
        values, worse = values[::-1], worse[::-1]
    chosen = np.unique(np.linspace(0, values.size - 1, min(values.size, _POINTS)).astype(int))
    return values[chosen], worse[chosen]


def _style(k: int) -> dict[str, Any]:
    return {"color": COLOURS[k % len(COLOURS)], "dash": DASHES[k % len(DASHES)], "width": 2}


def _faint(k: int) -> str:
    red, green, blue = (int(COLOURS[k % len(COLOURS)][i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.13)"


def _vertical(x: float, colour: str, dash: str) -> dict[str, Any]:
    return {
        "type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1,
        "line": {"color": colour, "dash": dash, "width": 1},
    }  # fmt: skip


def _sight(trajectory: Trajectory, exact: Sequence[float]) -> tuple[float, float]:
    """Return a range of ERMs that shows the second half of the way, which a wild beginning would squeeze."""
    half = trajectory.iterations >= np.sqrt(trajectory.iterations[0] * trajectory.iterations[-1])
    ends = trajectory.lows[-1], trajectory.highs[-1]
    values = np.concatenate((trajectory.erms[half].reshape(-1), *ends, np.asarray(exact, dtype=np.float64)))
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0, 1.0
    low, high = np.quantile(values, [0.01, 0.99])
    slack = 0.15 * (high - low) or 0.1 * max(1.0, abs(high))
    return float(low - slack), float(high + slack)
