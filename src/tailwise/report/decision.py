"""The decision report: what was decided, what may come of it, how sure that is, and what would change it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailwise._results import number, step_word
from tailwise.errors import OptionError
from tailwise.exact import Policy
from tailwise.models import TabularMDP
from tailwise.report import charts, trees
from tailwise.report.changes import what_would_change
from tailwise.report.document import Block, Document, Heading, Paragraph, Table, literal
from tailwise.report.outlook import MOST_ACTIONS, Outlook, outlook, places, root_table, solved
from tailwise.report.policies import policy_chart, policy_table
from tailwise.report.words import LEVEL, made_with, measures_table, measures_words, model_rows, settings_rows
from tailwise.risk.distribution import Measures
from tailwise.search.plan import Plan


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
    found = outlook(plan, table, solution)
    blocks: list[Block] = [
        *_decision(plan, found),
        *_distributions(plan, found),
        *_certainty(plan, solution),
        *_promised(plan),
        *_feared(plan),
        *what_would_change(plan, found, table),
        *_evolution(plan, solution),
        *_what_follows(plan, table, solution),
        *_settings(plan),
    ]
    return Document(f"Take {literal(plan.label)}", tuple(blocks))


def _decision(plan: Plan, found: Outlook) -> list[Block]:
    where = f"In state **{literal(plan.state_name)}** at {step_word()} {plan.step}: take **{literal(plan.label)}**."
    parts = [where, *map(literal, plan.in_words)]
    if plan.reason:
        parts.append(f"How it was planned: {literal(plan.planner)}, since {literal(plan.reason)}.")
    notes = [Paragraph(f"Note: {literal(note)}") for note in plan.notes]
    has_laws = any(law is not None for law in found.totals)
    return [Paragraph(" ".join(parts)), *notes, _rows_table(plan, ("mean", "std", "min", "max") if has_laws else ())]


def _rows_table(plan: Plan, left_out: tuple[str, ...]) -> Table:
    """Return the plan's rows, the best first, without the columns that stand with the distributions."""
    columns = {name: cells for name, cells in plan.columns.items() if name not in left_out}
    rows = [tuple(literal(cells[k]) for cells in columns.values()) for k in places(plan)]
    first = tuple(f"**{cell}**" for cell in rows[0])
    return Table(tuple(columns), (first, *rows[1:]))


def _certainty(plan: Plan, solution: Policy | None) -> list[Block]:
    """Return how sure the decision is, by what its planner says, and by the exact solution where there is one."""
    said = [*map(literal, plan.how_sure)]
    if solution is not None and not plan.is_exact:
        start = solution.mdp.start
        ids = solution.mdp.actions(start)
        exact = float(solution.action_values(0)[start, ids][plan.rows.index(plan.chosen)])
        best, loss = literal(plan.rows[ids.tolist().index(solution.action)].label), plan.worse_by(exact, solution.value)
        if ids[plan.rows.index(plan.chosen)] in solution.optimal_actions(0, start):
            is_optimal = f"{literal(plan.label)} is optimal, with an exact ERM of {number(exact, 8)}."
            said.append(f"The table is small enough to check: {is_optimal}")
        else:
            said.append(
                f"**The table is small enough to check, and the planner is wrong:** {best} is optimal with an ERM of "
                f"{number(solution.value, 8)}; {literal(plan.label)} is worse by {number(loss, 4)}."
            )
    return [Heading("How sure this is"), *map(Paragraph, said)]


def _promised(plan: Plan) -> list[Block]:
    """Return what the plan promises, on a table that was learned from a log."""
    if not hasattr(getattr(plan.policy, "mdp", None), "promise"):
        return []
    heading = Heading("What it promises, and what the log achieved")
    try:
        promise = plan.promise
    except OptionError as error:
        return [heading, Paragraph(f"No promise: {literal(str(error))}.")]
    try:
        judged = str(promise.off_policy)
    except OptionError as error:
        judged = f"off-policy: no estimate: {error}"
    said = [*promise.lines, judged, *(f"the model: {note}" for note in plan.policy.mdp.notes)]
    return [heading, *(Paragraph(f"{literal(line[:1].upper() + line[1:])}.") for line in said)]


def _feared(plan: Plan) -> list[Block]:
    """Return the model that a risk-averse plan acts against."""
    said = [Paragraph(f"{literal(line[:1].upper() + line[1:])}.") for line in plan.fears()]
    return [Heading("The model that it fears"), *said] if said else []


def _shown(plan: Plan, found: Outlook) -> list[tuple[str, Measures]]:
    return [(plan.rows[k].label, law) for k in places(plan) if (law := found.totals[k]) is not None]


def _distributions(plan: Plan, found: Outlook) -> list[Block]:
    heading = Heading("What may come of each action")
    parts = _shown(plan, found)
    if not parts:
        return [heading, Paragraph("Not known: the plan holds no totals (it was loaded, or its planner samples none).")]
    beta = plan.root_beta if plan.is_erm else None
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


def _evolution(plan: Plan, solution: Policy | None) -> list[Block]:
    heading = Heading("How the search got there")
    if plan.is_exact:
        return []
    trajectory = None if plan.origin is None else plan.origin.trajectory
    if trajectory is None or trajectory.iterations.size < 2:
        return [heading, Paragraph(
            "Not recorded. `tailwise plan --report` and `tailwise.report.recorded_plan` make plans that know their way."
        )]  # fmt: skip
    order = places(plan)[:MOST_ACTIONS]
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
            [plan.rows[k].label for k in order], trajectory.of(order), exact=exact,
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


def _what_follows(plan: Plan, table: TabularMDP | None, solution: Policy | None) -> list[Block]:
    heading = Heading("What may follow")
    if table is not None and solution is not None and plan.tree is None:
        names = [row.label for row in plan.rows]
        policy = [policy_chart(solution)] if plan.step == 0 else []  # whose steps are those of the table
        return [heading, trees.scenario_tree(table, solution, names=names), *policy]
    if plan.policy is not None and plan.policy.graph is not None:
        return [heading, *policy_table(plan.policy)]
    if plan.tree is None:
        why = "This planner keeps no tree" if plan.origin is not None else "The plan was copied or loaded"
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
    origin: Any = plan.origin
    if origin is not None:
        rows += model_rows(origin.model)
        rows += settings_rows(origin.settings)
        rows.append(("seed", origin.seed))
    else:
        rows.append(("settings and seed", "not known: the plan was copied or loaded"))
    if plan.is_erm:
        rows.append(("beta", f"{plan.beta:g} at {step_word()} 0, {plan.root_beta:g} at {step_word()} {plan.step}"))
    rows += [
        ("planner", plan.method),
        ("work", f"{plan.iterations:,} iterations, {plan.simulator_steps:,} simulated steps, {plan.nodes:,} nodes"),
        ("size and time", f"{plan.bytes / 1e6:.1f} MB, {plan.seconds:.2f} s"),
        ("stopped", plan.stopped.message),
    ]
    return list(made_with(rows))
