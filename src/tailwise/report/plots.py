"""Plots for notebooks: what the reports draw, as plotly figures.

plotly is imported when the first is drawn (extra ``report``). Names are escaped: whatever a label holds stays text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tailwise.errors import OptionError, require
from tailwise.evaluation import Frontier, Returns, Sensitivity
from tailwise.exact import Policy
from tailwise.report import charts
from tailwise.report.document import Chart
from tailwise.report.outlook import outlook, root_table, solved
from tailwise.report.policy_charts import MOST_PARTS, policy_chart, scenario_tree, search_tree
from tailwise.risk.distribution import Measures, ReturnDistribution
from tailwise.search import NodeView
from tailwise.search.plan import Plan

if TYPE_CHECKING:
    from plotly import graph_objects as go

T = TypeVar("T")
PlainFigure: TypeAlias = dict[str, Any]

_THEME = {"text": "#333", "soft": "#777", "grid": "#ddd", "page": "#fff", "shade": "#f3f3f3"}


Totals: TypeAlias = Plan | Measures | Mapping[str, Measures]


def distribution(what: Totals, *, beta: float | None = None, level: float = 0.95) -> go.Figure:
    """Draw the distribution of the total: of each action of a plan, of a sample or law, or of several by name.

    Parameters
    ----------
    what : Plan, Returns, ReturnDistribution, or mapping of str to these last two
        Of a plan on a small table: the exact laws; else what its planner sampled.
    beta : float, optional
        Risk level of the ERM lines; of a plan its own.
    level : float in (0, 1), default 0.95
        Where the tail begins.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    OptionError
        If there is nothing to draw: the plan has no totals.
    MissingExtraError
        If plotly is not installed.

    Examples
    --------
    >>> from tailwise import domains, make_planner
    >>> from tailwise.report import plots
    >>> plan = make_planner(domains.make("mdp-4"), 0.5, seed=0).plan(iterations=100)
    >>> plots.distribution(plan).layout.xaxis.title.text
    'total cost'
    """
    parts, sense, own = _parts(what)
    aversion = own if beta is None else beta
    return figure(charts.histograms(parts, beta=aversion, level=level, caption="", xlabel=f"total {sense}"))


def exceedance(what: Totals) -> go.Figure:
    """Draw the probability of doing worse than each total, on a logarithmic scale; ``what`` as for `distribution`."""
    parts, sense, _ = _parts(what)
    return figure(charts.exceedances(parts, caption="", sense=sense))


def convergence(plan: Plan) -> go.Figure:
    """Draw how the ERM of each action and its share of the visits evolved.

    Parameters
    ----------
    plan : Plan
        Made by :func:`tailwise.report.recorded_plan`.

    Raises
    ------
    OptionError
        If nothing was recorded.
    """
    trajectory = None if plan.origin is None else plan.origin.trajectory
    if trajectory is None:
        raise OptionError("how this plan came about was not recorded; make it with tailwise.report.recorded_plan")
    return figure(charts.convergence([row.label for row in plan.rows], trajectory, caption=""))


def _of(found: T, kind: type[T], maker: str) -> T:
    """Return what is drawn, if it is what a function returns."""
    if not isinstance(found, kind):
        raise OptionError(f"this draws a {kind.__name__}, as {maker} returns it, not a {type(found).__name__}")
    return found


def frontier(found: Frontier) -> go.Figure:
    """Draw the plans of :func:`tailwise.frontier` by their mean and their CVaR at 95 %."""
    return figure(charts.frontier(_of(found, Frontier, "tailwise.frontier"), caption=""))


def tornado(found: Sensitivity) -> go.Figure:
    """Draw the value with each number of :func:`tailwise.sensitivity` less and more, and where the decision turns."""
    return figure(charts.tornado(_of(found, Sensitivity, "tailwise.sensitivity"), caption=""))


def policy(solution: Policy, step: int = 0) -> go.Figure:
    """Draw the optimal action of each state.

    States whose names are pairs, such as ``(3,0)``, are cells of a grid, at ``step``, coloured by the ERM to come; the
    cells that nothing leads to are walls. Other states are rows, and each step has a column, coloured by the action.

    Parameters
    ----------
    solution : Policy
        Of :func:`tailwise.backward_induction`.
    step : int, default 0
        The step of a grid, 0 to H - 1.

    Examples
    --------
    >>> from tailwise import backward_induction, domains
    >>> from tailwise.report import plots
    >>> found = plots.policy(backward_induction(domains.make("grid-mdp"), 0.1))
    >>> [note.text for note in found.layout.annotations if (note.x, note.y) == (0, 4)]
    ['<b>→</b>']
    """
    return figure(policy_chart(_of(solution, Policy, "tailwise.solve"), step))


def tree(what: Plan | NodeView | Policy, *, most: int = MOST_PARTS) -> go.Figure:
    """Draw a tree to go down into by clicking: one that was searched, or what may happen on a table.

    Parameters
    ----------
    what : Plan, NodeView or Policy
        A plan of a tree search, ``search.root`` or a part of it; or a solution: its first actions and their outcomes,
        and the optimal actions after them.
    most : int, default 1200
        States and actions to draw, those first that weigh most.

    Raises
    ------
    OptionError
        If the plan has no tree.
    """
    shown: Any = what
    if hasattr(shown, "mdp"):
        return figure(scenario_tree(shown.mdp, shown, most=most))
    return figure(search_tree(getattr(shown, "root", shown), most=most)[0])


def figure(chart: Chart) -> go.Figure:
    """Return a chart of a report as a plotly figure in light colours."""
    graph_objects = require("plotly.graph_objects", "report", "drawing a plot")
    axes = {"gridcolor": _THEME["grid"], "zerolinecolor": _THEME["grid"], "automargin": True}
    margin = {"l": 60, "r": 12, "t": 40, "b": 44}
    page = {"paper_bgcolor": "#fff", "plot_bgcolor": "#fff", "font": {"color": _THEME["text"]}, "margin": margin}
    drawn = plain_figure(chart, _THEME, page, axes)
    if chart.names:
        drawn["data"] = [{**trace, "maxdepth": 5} for trace in drawn["data"]]
    return graph_objects.Figure(drawn["data"], drawn["layout"])


def plain_figure(
    chart: Chart, colours: Mapping[str, str], look: Mapping[str, Any], axis: Mapping[str, Any]
) -> PlainFigure:
    """Return a chart as plotly's plain data, with its colours that follow a page, and the look of that page."""
    data, layout = _coloured([list(chart.traces), chart.layout], colours)
    layout = {key: {**axis, **value} if key[1:].startswith("axis") else value for key, value in layout.items()}
    margin = {**look["margin"], **layout.pop("margin", {})}
    return {"data": data, "layout": {**look, **layout, "margin": margin, "height": chart.height}}


def _coloured(value: Any, colours: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            key: colours[item[1:]] if "color" in key and isinstance(item, str) and item[:1] == "@"
            else _coloured(item, colours)
            for key, item in value.items()
        }  # fmt: skip
    return [_coloured(item, colours) for item in value] if isinstance(value, list) else value


def _parts(what: Any) -> tuple[list[tuple[str, Measures]], str, float | None]:
    """Return names and totals, their sense, and a plan's own beta."""
    if hasattr(what, "rows"):
        table = root_table(what)
        found = outlook(what, table, solved(table, what))
        parts = [(row.label, law) for row, law in zip(what.rows, found.totals, strict=True) if law is not None]
        if not parts:
            raise OptionError("the plan holds no totals: it was loaded, or its planner samples none")
        return parts, what.sense, what.root_beta if what.is_erm else None
    if isinstance(what, Mapping):
        named = list(what.items())
        if not named:
            raise OptionError("there is nothing to draw: the mapping is empty")
        return named, named[0][1].sense, None
    if isinstance(what, (Returns, ReturnDistribution)):
        return [(getattr(what, "label", "") or "total", what)], what.sense, None
    raise OptionError(f"a distribution is drawn of a Plan, Returns or ReturnDistribution, not of {type(what).__name__}")
