"""The decision report: what was decided, what may come of it, how sure that is, and what would change it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tailwise.errors import OptionError
from tailwise.exact import Solution
from tailwise.exact.measures import Measures
from tailwise.models import TabularMDP
from tailwise.planners import BoundedPlan, TotalsPlan, UtilityPlan
from tailwise.planners.cvar_mcts import CvarPlan
from tailwise.planners.distributional_mcts import DistributionalPlan
from tailwise.planners.exact import ExactPlan
from tailwise.planners.until import possible_loss
from tailwise.report import charts, trees
from tailwise.report.certainty import how_sure
from tailwise.report.changes import what_would_change
from tailwise.report.document import Block, Document, Heading, Paragraph, Table, literal
from tailwise.report.outlook import Outlooks, is_erm, outlooks, root_table, solved
from tailwise.report.policies import policy_chart
from tailwise.report.ranking import MOST_ACTIONS, has_equivalents, ranked, value_of, worse_by
from tailwise.report.words import (
    LEVEL,
    made_with,
    measures_table,
    measures_words,
    model_rows,
    number,
    settings_rows,
    share,
    span,
)
from tailwise.search.learned.plan import LearnedPlan
from tailwise.search.plan import Plan

_KINDS: dict[type, str] = {
    CvarPlan: "learned model, solved for the CVaR", DistributionalPlan: "learned model, solved for laws of the total",
    BoundedPlan: "bounded RTDP", ExactPlan: "backward induction", LearnedPlan: "learned-model search",
    Plan: "tree search", UtilityPlan: "tree search for a utility, on accrued costs",
}  # fmt: skip


def decision_report(plan: Any) -> Document:
    """Return the report of a plan as a document; see :meth:`tailwise.Plan.report`, which writes it.

    Raises
    ------
    OptionError
        If it is no :class:`tailwise.Plan`.

    Examples
    --------
    >>> from tailwise import domains, make_planner
    >>> from tailwise.report import decision_report
    >>> document = decision_report(make_planner(domains.make("mdp-4"), 0.5, seed=0).plan(iterations=100))
    >>> document.title
    'Take safe'
    """
    if not isinstance(plan, Plan):
        raise OptionError(f"reports are of a Plan; a {type(plan).__name__} has none")
    table = root_table(plan)
    solution = solved(table, plan)
    found = outlooks(plan, table, solution)
    blocks: list[Block] = [
        *_decision(plan, found),
        *_distributions(plan, found),
        *how_sure(plan, solution),
        *what_would_change(plan, found, table),
        *_evolution(plan, solution),
        *_what_follows(plan, table, solution),
        *_settings(plan),
    ]
    return Document(f"Take {literal(plan.label)}", tuple(blocks))


def _state_name(plan: Plan) -> str:
    model = None if plan._origin is None else plan._origin.model
    if plan._reader is not None and not isinstance(plan, UtilityPlan):
        return plan._reader.binding.state_name(plan.state)
    name = getattr(model, "state_name", None)
    return str(name(plan.state)) if name is not None else str(plan.state)


def _decision(plan: Plan, found: Outlooks) -> list[Block]:
    order = ranked(plan)
    best, label = order[0], literal(plan.label)
    measure = "It"
    where = f"In state **{literal(_state_name(plan))}** at step {plan.step}: take **{label}**."
    value = value_of(plan, best)
    unit = plan.sense
    if isinstance(plan, UtilityPlan):
        said = f"{measure} is judged by the mean of the utility {literal(plan.utility)} of the whole episode's total."
    elif isinstance(plan, TotalsPlan):
        said = f"It is judged by the {literal(plan.measure)} of the whole episode's total ({literal(plan.aim)}): "
        said += f"**{number(value)}** under what was learned."
    elif isinstance(plan, BoundedPlan) and plan.lower < plan.upper:
        said = (
            f"Counting risk at beta {plan.root_beta:g}, all that may come after {label}, and then the best actions, is "
            f"as good as a sure {unit} in **{span(*plan.rows[best].interval)}**, with certainty."
        )
    elif plan.root_beta == 0.0:
        said = f"{measure} is judged by its mean: beta is 0, so that risk does not count. That is {number(value)}."
    else:
        said = (
            f"Counting risk at beta {plan.root_beta:g}, all that may come after {label} is as good as a sure {unit} of "
            f"**{number(value)}**."
        )
    parts = [where, said, _runner_up(plan, order)]
    if plan.reason:
        parts.append(f"How it was planned: {literal(plan.planner)}, since {literal(plan.reason)}.")
    has_laws = any(one.law is not None for one in found.actions)
    notes = [Paragraph(f"Note: {literal(note)}") for note in plan.notes]
    return [Paragraph(" ".join(part for part in parts if part)), *notes, _rows_table(plan, order, has_laws)]


def _runner_up(plan: Plan, order: list[int]) -> str:
    """Say by how much the next best action is worse."""
    others = [k for k in order[1:] if not math.isnan(value_of(plan, k))]
    if not others:
        return "There is no other action." if len(plan.rows) == 1 else "No other action was tried."
    name = literal(plan.rows[others[0]].label)
    margin = worse_by(plan, value_of(plan, others[0]), value_of(plan, order[0]))
    if isinstance(plan, BoundedPlan):
        loss = possible_loss(plan)
        return f"Another action could be better by {number(loss, 4)} at most." if loss else "No other action is better."
    if not math.isfinite(margin):
        return f"The next best, {name}, is out of the question: its {plan.sense} is without bound."
    if margin > 0.0:
        return f"The next best is {name}, which is worse by {number(margin, 4)}."
    if margin == 0.0:
        return f"{name} is as good."
    return f"The estimate of {name} is better by {number(-margin, 4)}, but the planner's rule goes by something else."


def _rows_table(plan: Plan, order: list[int], has_laws: bool) -> Table:
    """Return the plan's rows, the best first, without the columns that hold nothing or stand with the laws."""
    is_exact, is_bounded = isinstance(plan, ExactPlan), isinstance(plan, BoundedPlan)
    value = "as good as" if has_equivalents(plan) else plan.measure
    columns: dict[str, list[str]] = {"action": [literal(plan.rows[k].label) for k in order]}

    def add(name: str, cells: list[str]) -> None:
        if any(cell != number(None) for cell in cells):
            columns[name] = cells

    is_proven = isinstance(plan, BoundedPlan) and plan.proven
    add("estimate" if is_bounded else value, [number(None if is_proven else value_of(plan, k)) for k in order])
    if not is_exact and not has_equivalents(plan):
        add("ERM is in" if is_bounded else "90 % interval", [span(*plan.rows[k].interval) for k in order])
    if isinstance(plan, LearnedPlan):
        add("best with probability", [share(plan.rows[k].probability_best) for k in order])
    if not is_exact:
        add("trials" if is_bounded else "visits", [f"{plan.rows[k].visits:,}" for k in order])
        add("share", [share(plan.rows[k].share) for k in order])
    for name in () if has_laws else ("mean", "std", "minimum", "maximum"):
        add(name, [number(getattr(plan.rows[k], name)) for k in order])
    rows = tuple(zip(*columns.values(), strict=True))
    first = tuple(f"**{cell}**" for cell in rows[0])
    return Table(tuple(columns), (first, *rows[1:]))


def _shown(plan: Plan, found: Outlooks) -> list[tuple[str, Measures]]:
    parts = [(found.actions[k].label, found.actions[k].law) for k in ranked(plan)]
    return [(name, law) for name, law in parts if law is not None]


def _distributions(plan: Plan, found: Outlooks) -> list[Block]:
    heading = Heading("What may come of each action")
    parts = _shown(plan, found)
    if not parts:
        return [heading, Paragraph("Not known: the plan holds no totals (it was loaded, or its planner samples none).")]
    beta = plan.root_beta if is_erm(plan) else None
    chosen = parts[:MOST_ACTIONS]
    source = found.source
    moved = max((getattr(law, "tolerance", 0.0) for _, law in parts), default=0.0)
    if moved:
        source += f" Totals close to each other were merged; none moved by more than {number(moved, 2)}."
    blocks: list[Block] = [heading, Paragraph(source)]
    if len(parts) > len(chosen):
        left = len(parts) - len(chosen)
        blocks.append(Paragraph(f"The charts show the {len(chosen)} best actions; {left} more are in the table."))
    blocks += [
        charts.histograms(
            chosen, beta=beta, level=LEVEL, xlabel=f"total {plan.sense}",
            caption=f"Distribution of the total {plan.sense} from here on, for each action.",
        ),
        charts.exceedances(
            chosen, sense=plan.sense,
            caption="How likely the total is worse than each value: the lower curve on the bad side is the safer.",
        ),
        measures_table(parts, beta),
        measures_words(plan.sense, has_erm=beta is not None),
    ]  # fmt: skip
    return blocks


def _evolution(plan: Plan, solution: Solution | None) -> list[Block]:
    heading = Heading("How the search got there")
    if isinstance(plan, ExactPlan):
        return []
    trajectory = None if plan._origin is None else plan._origin.trajectory
    if trajectory is None or trajectory.iterations.size < 2:
        return [heading, Paragraph(
            "Not recorded. `tailwise plan --report` and `tailwise.report.recorded_plan` make plans that know their way."
        )]  # fmt: skip
    order = ranked(plan)[:MOST_ACTIONS]
    part = type(trajectory)(
        trajectory.iterations, trajectory.chosen, *(
            getattr(trajectory, name)[:, order] for name in ("erms", "visits", "lows", "highs")
        )
    )  # fmt: skip
    exact: list[float] = []
    if solution is not None:
        ids = solution.mdp.actions(solution.mdp.start)
        exact = [float(value) for value in solution.action_values(0)[solution.mdp.start, ids][order]]
    last = int(trajectory.chosen[-1])
    other = np.flatnonzero(trajectory.chosen != last)
    since = int(trajectory.iterations[other[-1] + 1]) if other.size else int(trajectory.iterations[0])
    what = plan.measure
    return [
        heading,
        charts.convergence(
            [plan.rows[k].label for k in order], part, exact=exact,
            caption=(
                f"Estimated {what} of each action, with its interval where there is one, and its share of the visits, "
                "against the iterations done." + (" Dotted: the exact values." if exact else "")
            ),
        ),
        Paragraph(
            f"{literal(plan.label)} has been the recommendation since iteration {since:,} or before, of "
            f"{int(trajectory.iterations[-1]):,}. A recommendation can be stable and wrong."
        ),
    ]  # fmt: skip


def _what_follows(plan: Plan, table: TabularMDP | None, solution: Solution | None) -> list[Block]:
    heading = Heading("What may follow")
    if table is not None and solution is not None and plan._reader is None:
        names = [row.label for row in plan.rows]
        policy = [policy_chart(solution)] if plan.step == 0 else []  # whose steps are those of the table
        return [heading, trees.scenario_tree(table, solution, names=names), *policy]
    if plan._reader is None:
        why = "This planner keeps no tree" if plan._origin is not None else "The plan was copied or loaded"
        return [heading, Paragraph(f"{why}, so that there is nothing to go down into.")]
    try:
        chart, *_ = trees.search_tree(plan.root)
        if plan.trees > 1:
            heading = Heading(f"What may follow: one of the {plan.trees} trees that grew side by side")
    except OptionError as error:  # the search has gone on, and the tree was too large to keep
        return [heading, Paragraph(literal(str(error)))]
    return [heading, chart]


def _settings(plan: Plan) -> list[Block]:
    rows: list[tuple[str, str]] = []
    origin: Any = plan._origin
    if origin is not None:
        rows += model_rows(getattr(origin.model, "model", origin.model))
        rows += settings_rows(origin.settings)
        rows.append(("seed", origin.seed))
    else:
        rows.append(("settings and seed", "not known: the plan was copied or loaded"))
    rows += [
        ("beta", f"{plan.beta:g} at step 0, {plan.root_beta:g} at step {plan.step}"),
        ("planner", _KINDS.get(type(plan), type(plan).__name__)),
        ("work", f"{plan.iterations:,} iterations, {plan.simulator_steps:,} simulated steps, {plan.nodes:,} nodes"),
        ("size and time", f"{plan.bytes / 1e6:.1f} MB, {plan.seconds:.2f} s"),
        ("stopped", plan.stopped.message),
    ]
    return list(made_with(rows))
