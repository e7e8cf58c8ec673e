"""The page: controls that stay, and what the session has to show. All text reaches the page as text.

Figures are the charts of the reports, in the colours of the page's style sheet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tailwise._results import amount, amounts, in_unit, number, span, step_word
from tailwise.evaluation import Frontier
from tailwise.explore.session import Moment, Session, View
from tailwise.models.simulator import model_name
from tailwise.report import charts
from tailwise.report.decision import sentences
from tailwise.report.document import Chart
from tailwise.report.outlook import known_totals, places
from tailwise.report.plots import PlainFigure, plain_figure

if TYPE_CHECKING:
    from dash.development.base_component import Component

CONFIG = {"displayModeBar": False, "displaylogo": False, "responsive": True}
_MOST_SAID = 10**7  # outcomes times decisions of a table whose feared model is said
_MOST_ACTIONS = 4  # drawn; the table has them all
_GREY = dict.fromkeys(("text", "soft", "grid"), "#808080")  # read on light and dark
_LOOK = {
    "margin": {"l": 10, "r": 10, "t": 10, "b": 10}, "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"family": "system-ui, sans-serif", "size": 13}, "uirevision": "kept",
}  # fmt: skip


def _figures_of(moment: Moment) -> list[tuple[str, str, PlainFigure]]:
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
            (
                "Totals of the two best" if len(parts) > 2 else "Totals",
                "distribution",
                charts.histograms(parts[:2], beta=beta, caption="", xlabel=xlabel),
            ),
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


def _frontier_figure(found: Frontier, beta: float) -> PlainFigure:
    """Draw the plans of a frontier; the one of ``beta`` stands out."""
    figure, here = _figure(charts.frontier(found, caption="")), found.at(beta)
    name = f"{'' if here.low <= beta <= here.high else 'nearest to '}beta {beta:.4g}"
    star = {"color": charts.COLOURS[2], "symbol": "star", "size": 18}
    mark = {"type": "scatter", "mode": "markers", "name": name, "marker": star, "hoverinfo": "skip"}
    figure["data"].append({**mark, "x": [here.mean], "y": [here.cvar[1]]})
    return figure


def _figure(chart: Chart) -> PlainFigure:
    figure = plain_figure(chart, _GREY, _LOOK, {"zeroline": False, "automargin": True})
    for name, axis in figure["layout"].items():
        if name.startswith("xaxis") and "nticks" in axis:  # two figures stand side by side
            axis["nticks"] = -(-axis["nticks"] // 2)
    return figure


Children: TypeAlias = "str | list[Component]"

BETA_STEPS = 20  # of the slider, in each power of ten
LEAST_BETA, MOST_BETA = -6, 2  # powers of ten; its first position is 0
ITERATION_STEPS = 10
FACTOR_STEPS = 20  # of the slider, for each doubling
ASSETS = Path(__file__).parent / "assets"
_MOST_STATES = 1000  # suggested


def beta_position(beta: float) -> int:
    """Return the position of the slider that is nearest to a beta; 0 for none above 0."""
    if beta <= 0.0:
        return 0
    return min(max(1, round(BETA_STEPS * (math.log10(beta) - LEAST_BETA))), BETA_STEPS * (MOST_BETA - LEAST_BETA))


def beta_at(position: float) -> float:
    """Return the beta of a position of the slider, to three digits."""
    return 0.0 if position < 1 else float(f"{10.0 ** (LEAST_BETA + position / BETA_STEPS):.3g}")


def iterations_at(position: float) -> int:
    """Return the iterations of a position of the slider, to two digits."""
    return int(float(f"{10.0 ** (position / ITERATION_STEPS):.2g}"))


def iterations_position(iterations: int) -> int:
    """Return the position of the slider that is nearest to a number of iterations."""
    return min(max(ITERATION_STEPS, round(ITERATION_STEPS * math.log10(iterations))), 6 * ITERATION_STEPS)


def factor_position(factor: float) -> int:
    """Return the position of the slider that is nearest to a factor; its middle is 1."""
    return round(FACTOR_STEPS * math.log2(factor))


def factor_at(position: float) -> float:
    """Return the factor of a position of the slider, to three digits."""
    return float(f"{2.0 ** (position / FACTOR_STEPS):.3g}")


def page(session: Session) -> Component:
    """Return the page's fixed parts, filled with the session's settings."""
    from dash import dcc, html

    model, asked = session.model, session.view().settings
    better = "lower" if model.sense == "cost" else "higher"
    states = range(min(_MOST_STATES, model.num_states)) if session.is_table else ()
    last = BETA_STEPS * (MOST_BETA - LEAST_BETA)
    numeric = {"type": "number", "debounce": True, "step": "any"}
    controls = html.Section(
        [
            html.H2("Settings", className="hidden"),
            _field(
                "Risk aversion: beta", "beta", dcc.Input(id="beta", value=asked.beta, **numeric),
                html.Label("beta, by powers of ten", htmlFor="beta-slider", className="hidden"),
                dcc.Input(
                    id="beta-slider", type="range", min=0, max=last, step=1, debounce=0.15,
                    value=beta_position(asked.beta),
                ),
            ),
            _field(
                "Iterations of each decision", "iterations",
                dcc.Input(id="iterations", value=asked.iterations, min=1, **numeric),
                html.Label("iterations, by powers of ten", htmlFor="iterations-slider", className="hidden"),
                dcc.Input(
                    id="iterations-slider", type="range", min=10, max=60, step=1, debounce=0.15,
                    value=iterations_position(asked.iterations),
                ),
            ),
            _field(
                "First state", "state",
                dcc.Input(
                    id="state", type="text", debounce=True, list="states", autoComplete="off",
                    value=session.state_text(asked.state),
                ),
                html.Datalist([html.Option(value=session.state_text(state)) for state in states], id="states"),
            ),
            html.Fieldset(
                [
                    html.Legend("Planner"),
                    dcc.RadioItems(list(session.planners), asked.planner, id="planner", inline=True),
                ]
            ),
        ],
        className="controls",
    )  # fmt: skip
    buttons = html.Div(
        [
            html.Button("Search on", id="more"),
            html.Button("Cancel", id="cancel", disabled=True),
            html.Button("New episode", id="restart"),
            html.Span(id="status", role="status"),
        ],
        className="buttons",
    )
    facts = (
        f"horizon {model.horizon}, discount {model.discount:g}; numbers are {amounts(model.sense)}, {better} is "
        "better. beta 0 is the mean, positive averse, negative seeking."
    )
    return html.Main(
        [
            html.H1(model_name(model)),
            html.P(facts),
            controls,
            buttons,
            html.P(id="alert", role="alert"),
            html.Section(id="decision", className="card"),
            html.Section(id="episode", className="card"),
            html.Section(id="curves", className="pair"),
            html.Section(id="frontier", className="card"),
            _what_if(session),
            dcc.Interval(id="clock", interval=400),
            dcc.Store(id="asked", data=0),
            dcc.Store(id="pressed"),
            dcc.Store(id="seen", data=-1),
        ]
    )


def _what_if(session: Session) -> Component:
    """Return the controls that vary a number; they stay on the page, out of sight where they are of no use."""
    from dash import dcc, html

    varied = session.view().varied
    fields = html.Div(
        [
            _field(
                "Cost or probability" if session.model.sense == "cost" else "Reward or probability", "number",
                dcc.Input(
                    id="number", type="text", debounce=True, list="numbers", autoComplete="off", value=varied.number,
                    placeholder=session.numbers[0] if session.numbers else "",
                ),
                html.Datalist([html.Option(value=number) for number in session.numbers], id="numbers"),
            ),
            _field(
                "Half as much to twice as much", "factor",
                dcc.Input(
                    id="factor", type="range", min=-FACTOR_STEPS, max=FACTOR_STEPS, step=1, debounce=0.15,
                    value=factor_position(varied.factor),
                ),
            ),
        ],
        className="fields", hidden=not session.is_solved,
    )  # fmt: skip
    said = html.P(
        "Only tables that are solved at once can be asked; this model is none.",
        hidden=session.is_solved,
    )
    return html.Section(
        [html.H2("What if a number were another?"), said, fields, html.Div(id="varied")], className="card"
    )


def varied(session: Session, view: View) -> Children:
    """Return the actions of the first state with the model as it is, and with a number multiplied."""
    from dash import html

    found, number_varied = view.answers, view.varied.number
    if not number_varied:
        return [html.P("Choose a number of the model, and move the slider.")] if session.is_solved else []
    if found is None:
        return [html.P("Solving the model ...", className="note")]
    base, new = found.base, found.changed
    times = f"{found.varied.number} times {found.varied.factor:.3g}"
    if base.action in new.optimal_actions:
        text = f"{times}: {base.label} stays the best action in state {session.state_text(view.settings.state)}."
    else:
        text = f"{times}: {new.label} is better than {base.label} in state {session.state_text(view.settings.state)}."
    if found.varied.factor < view.varied.factor:
        text += " More is not possible: its probability is 1 then."
    was = {row.action: row.value for row in base.rows}
    rows = [
        ([row.label, *map(number, (was[row.action], row.value, row.value - was[row.action]))], row.action == new.action)
        for row in new.rows
    ]
    columns = ["action", "as it is", "as varied", "difference"]
    return [html.P(text, id="turn"), _table("Actions as the number is varied", columns, rows)]


def status(view: View) -> Children:
    """Return what the worker is at, with a bar."""
    from dash import html

    now = view.status
    if not now.label:
        return ""
    share = {} if now.share is None else {"value": f"{now.share:.4f}"}
    known = "" if now.share is None else f" {100 * now.share:.0f} %"
    return [html.Progress(**share, **{"aria-label": now.label}), f" {now.label}{known}"]


def decision(session: Session, view: View) -> Children:
    """Return the recommendation and the table of the actions."""
    from dash import html

    moment, h = view.moment, view.place
    plan, exact = moment.plan, moment.exact
    where = f"in state {session.state_text(moment.state)} at {step_word()} {h}"
    if plan is None:
        return [html.H2(f"Thinking {where}")]
    label = session.action_text(plan.action, moment.state)
    said = [html.H2(["Take ", html.Strong(label, id="action"), f" {where}"])]
    if view.status.label == "searching":
        said.append(html.P("So far; the search is under way.", className="note"))
    if plan.is_exact:
        said.append(html.P("This is the exact optimum."))
    elif exact is not None:
        verdict = "the search agrees" if plan.action in exact.optimal_actions else "the search has not found it"
        said.append(html.P(f"Exact optimum: {exact.label}; {verdict}."))
    columns = {name: cells for name, cells in plan.columns.items() if name not in ("share", "std")}
    columns.pop("min" if plan.sense == "cost" else "max", None)
    if exact is not None and not plan.is_exact:
        columns["exact ERM"] = tuple(number(row.erm) for row in exact.rows)
    rows = []
    for k, row in enumerate(plan.rows):
        take = html.Button("Take", id={"type": "act", "place": h, "action": k}, **{"aria-label": f"Take {row.label}"})
        name, *cells = (cells[k] for cells in columns.values())
        rows.append(([name, take, *cells], row.action == plan.action))
    first, *others = columns
    said.append(_table("Actions", [first, "take it", *others], rows))
    best = plan if plan.is_exact else exact
    said += [html.P(f"note: {note}", className="note") for note in plan.notes]
    if best is not None:
        said += [html.P(f"{line}.", className="note") for line in sentences(best.fears(_MOST_SAID))]
    done = f": {moment.trajectory.iterations[-1]:,} {plan.unit}" if moment.trajectory and not plan.is_exact else ""
    parts = filter(None, (f"{plan.planner or view.settings.planner}{done}", plan.stopped.message, plan.reason))
    said.append(html.P("; ".join(parts) + ".", className="note"))
    return said


def curves(view: View) -> Children:
    """Return the distributions after the actions, and how the estimates came about."""
    return [_graph(title, name, figure) for title, name, figure in _figures_of(view.moment)]


def frontier(session: Session, view: View) -> Children:
    """Return what each beta would do from the first state, or a button that finds out."""
    from dash import html

    found, beta = view.frontier, view.settings.beta
    title = html.H2(f"What each beta would do, from state {session.state_text(view.settings.state)}")
    if found is None:
        work = "solves the table at many betas" if session.is_table else "plays episodes at five betas"
        text = f"It {work}, which can take a while; Cancel ends it."
        return [title, html.P(text), html.Button("Lay out the frontier", id={"type": "lay", "place": 0, "action": 0})]
    here = found.at(beta)
    rows = []
    for k, point in enumerate(found.points):
        use = html.Button(
            "Use", id={"type": "use", "place": 0, "action": k}, **{"aria-label": f"Use beta {point.beta:.4g}"}
        )
        cells = [
            point.label,
            use,
            span(point.low, point.high, 4),
            *map(number, (point.mean, point.cvar[1], point.worst)),
        ]
        rows.append((cells, point is here))
    columns = ["first action", "use it", "beta", "mean", "mean of the worst 5 %", "worst"]
    table = _table("Plans", columns, rows)
    return [title, html.P(" ".join(found.in_words)), _graph("", "frontier-graph", _frontier_figure(found, beta)), table]


def episode(session: Session, view: View) -> Children:
    """Return what happened so far, and what the planner thought of it."""
    from dash import html

    rows = []
    for h, moment in enumerate(view.moments):
        thought = "..." if moment.plan is None else session.action_text(moment.plan.action, moment.state)
        taken = "" if moment.taken is None else session.action_text(moment.taken, moment.state)
        cost = "" if moment.taken is None else number(moment.cost)
        look = html.Button(
            "Look", id={"type": "look", "place": h, "action": 0}, **{"aria-label": f"Look at {step_word()} {h}"}
        )
        worth = "" if moment.plan is None else moment.plan.worth
        state = session.state_text(moment.state)
        rows.append(([str(h), look, state, thought, worth, taken, cost, number(moment.accrued)], h == view.place))
    unit = session.model.sense
    columns = [step_word(), "look at it", "state", "advised", "worth", "taken", in_unit(unit)]
    columns.append(f"{in_unit(f'total {unit}')} before")
    text = (
        f"Take an action above to go on; at an earlier {step_word()} it begins another course."
        if view.total is None
        else f"The episode is over: its total {unit} is {amount(number(view.total))}."
    )
    return [
        html.H2(f"The episode, {step_word()} by {step_word()}"),
        html.P(text, id="outcome"),
        _table("Steps", columns, rows),
    ]


def _field(label: str, name: str, *inputs: Any) -> Any:
    from dash import html

    return html.Div([html.Label(label, htmlFor=name), *inputs], className="field")


def _graph(title: str, name: str, figure: Any) -> Any:
    from dash import dcc, html

    graph = dcc.Graph(id=name, figure=figure, config=CONFIG, style={"height": f"{figure['layout']['height']}px"})
    return html.Div([*([html.H2(title)] if title else []), graph], className="card" if title else "")


def _table(name: str, columns: Sequence[str], rows: Sequence[tuple[Sequence[Any], bool]]) -> Any:
    """Return a table that scrolls by itself; the rows that are marked stand out, in words too."""
    from dash import html

    head = html.Thead(html.Tr([html.Th(column, scope="col") for column in columns]))
    body = html.Tbody(
        [
            html.Tr(
                [html.Th(cells[0], scope="row"), *map(html.Td, cells[1:])],
                className="marked" if marked else "",
                **({"aria-current": "true"} if marked else {}),
            )
            for cells, marked in rows
        ]
    )
    caption = {"role": "region", "aria-label": name}
    return html.Div(html.Table([head, body]), className="wide", tabIndex=0, **caption)
