"""The decision report: what was decided, what may come of it, how sure that is, and what would change it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tailwise._results import number, step_word
from tailwise.errors import OptionError
from tailwise.exact import Policy, policy_intervals
from tailwise.models import TabularMDP
from tailwise.report import charts
from tailwise.report.document import Block, Document, Heading, Paragraph, Table, literal
from tailwise.report.outlook import (
    Outlook,
    erms_by_beta,
    outlook,
    places,
    root_table,
    sampled_erms,
    solved,
)
from tailwise.report.policy_charts import policy_chart, policy_table, scenario_tree, search_tree
from tailwise.report.totals import MOST_SHOWN, totals_blocks
from tailwise.report.words import made_with, settings_rows
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
        *_decision(plan, found, _checked(plan, solution)),
        *_distributions(plan, found),
        Heading("How sure this is"),
        *map(Paragraph, map(literal, plan.how_sure)),
        *_promised(plan),
        *_feared(plan),
        *what_would_change(plan, found, table),
        *_evolution(plan, solution),
        *_what_follows(plan, table, solution),
        *_settings(plan),
    ]
    return Document(f"Take {literal(plan.label)}", tuple(blocks))


def _decision(plan: Plan, found: Outlook, checked: list[Block]) -> list[Block]:
    where = f"In state **{literal(plan.state_name)}** at {step_word()} {plan.step}: take **{literal(plan.label)}**."
    parts = [where, *map(literal, plan.in_words)]
    if plan.reason:
        parts.append(f"How it was planned: {literal(plan.planner)}, since {literal(plan.reason)}.")
    notes = [Paragraph(f"Note: {literal(note)}") for note in plan.notes]
    has_laws = any(law is not None for law in found.totals)
    left_out = ("mean", "std", "min", "max") if has_laws else ()  # they stand with the distributions
    columns = {name: cells for name, cells in plan.columns.items() if name not in left_out}
    rows = [tuple(literal(cells[k]) for cells in columns.values()) for k in places(plan)]
    first = tuple(f"**{cell}**" for cell in rows[0])
    return [Paragraph(" ".join(parts)), *checked, *notes, Table(tuple(columns), (first, *rows[1:]))]


def _checked(plan: Plan, solution: Policy | None) -> list[Block]:
    """Return what the exact solution says of what was sampled, where there is one."""
    if solution is None or plan.is_exact:
        return []
    start = solution.mdp.start
    ids = solution.mdp.actions(start)
    exact = float(solution.action_values(0)[start, ids][plan.rows.index(plan.chosen)])
    if ids[plan.rows.index(plan.chosen)] in solution.optimal_actions(0, start):
        is_optimal = f"{literal(plan.label)} is optimal, with an exact ERM of {number(exact, 8)}."
        return [Paragraph(f"The table is small enough to check: {is_optimal}")]
    best, loss = literal(plan.rows[ids.tolist().index(solution.action)].label), plan.worse_by(exact, solution.value)
    return [
        Paragraph(
            f"**The table is small enough to check, and the planner is wrong:** {best} is optimal with an ERM of "
            f"{number(solution.value, 8)}; {literal(plan.label)} has {number(exact, 8)}, worse by {number(loss, 4)}."
        )
    ]


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
    said = [Paragraph(f"{literal(line)}.") for line in sentences(plan.fears())]
    return [Heading("The model that it fears"), *said] if said else []


def sentences(lines: Sequence[str]) -> list[str]:
    """Return what a policy fears with a capital letter where prose begins: the others begin with a state's name."""
    return [line[:1].upper() + line[1:] if k == 0 else line for k, line in enumerate(lines)]


def _distributions(plan: Plan, found: Outlook) -> list[Block]:
    heading = Heading("What may come of each action")
    parts = [(plan.rows[k].label, law) for k in places(plan) if (law := found.totals[k]) is not None]
    if not parts:
        return [heading, Paragraph(
            "Not known: the plan holds no totals (it was loaded, or its planner keeps none). `tailwise.evaluate` plays "
            "episodes, and its result has a report of its own."
        )]  # fmt: skip
    source = found.source
    moved = max((getattr(law, "tolerance", 0.0) for _, law in parts), default=0.0)
    if moved:
        source += f" Totals close to each other were merged; none moved by more than {number(moved, 2)}."
    caption = f"Distribution of the total {plan.sense} from here on, for each action."
    beta, shown = plan.root_beta if plan.is_erm else None, "{} best actions"
    blocks = totals_blocks(parts, beta, caption=caption, first="action", shown=shown)
    return [heading, Paragraph(source), *blocks]


def _evolution(plan: Plan, solution: Policy | None) -> list[Block]:
    heading = Heading("How the search got there")
    if plan.is_exact:
        return []
    trajectory = None if plan.origin is None else plan.origin.trajectory
    if trajectory is None or trajectory.iterations.size < 2:
        return [heading, Paragraph(
            "Not recorded. `tailwise plan --report` and `tailwise.report.recorded_plan` record tree searches, "
            "learned-model searches and bounded RTDP."
        )]  # fmt: skip
    order = places(plan)[:MOST_SHOWN]
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
        return [heading, scenario_tree(table, solution, names=names), *policy]
    if getattr(plan.policy, "graph", None) is not None:
        return [heading, *policy_table(plan.policy)]
    if plan.tree is None:
        why = "This planner keeps no tree" if plan.origin is not None else "The plan was copied or loaded"
        return [heading, Paragraph(f"{why}, so that there is nothing to go down into.")]
    try:
        chart, *_ = search_tree(plan.root)
        if plan.trees > 1:
            heading = Heading(f"What may follow: one of the {plan.trees} trees that grew side by side")
    except OptionError as error:  # the search has gone on, and the tree was too large to keep
        return [heading, Paragraph(literal(str(error)))]
    return [heading, chart]


def _settings(plan: Plan) -> list[Block]:
    rows: list[tuple[str, str]] = []
    origin: Any = plan.origin
    if origin is not None:
        rows += settings_rows(origin.model, origin.settings)
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


_MOST_BETA_WORK = 300_000  # outcomes times steps of a table that is solved for many betas


def what_would_change(plan: Plan, found: Outlook, table: TabularMDP | None) -> list[Block]:
    """Return what a report says of the estimates and the betas at which its decision would be another one."""
    if len(plan.rows) < 2:
        return []
    blocks: list[Block] = [Heading("What would change the decision")]
    others = [row for row in plan.ranked[1:] if math.isfinite(row.value)]
    value = plan.chosen.value
    what = "exact values (so, the model)" if plan.is_exact else "estimates"
    if others and math.isfinite(value) and not plan.is_bounded:
        margin = plan.worse_by(others[0].value, value)
        blocks.append(Paragraph(
            f"**The estimates.** {literal(others[0].label)} would be as good if the two {what} were wrong by "
            f"{number(margin, 4)} altogether."
        ))  # fmt: skip
    nothing = blocks if len(blocks) > 1 else []  # a heading alone says nothing
    if not plan.is_erm or not math.isfinite(value):
        return nothing
    order = [k for k in places(plan) if found.totals[k] is not None or table is not None][:MOST_SHOWN]
    names = [plan.rows[k].label for k in order]
    reach = _reach(plan, found)
    if not reach or not names:
        return nothing
    low, high = min(0.0, plan.root_beta), max(reach, 3.0 * plan.root_beta)
    if plan.root_beta < 0.0:
        low, high = min(-reach, 3.0 * plan.root_beta), 0.0
    betas = np.unique(np.append(np.linspace(low, high, 49), plan.root_beta))
    sign = 1.0 if plan.sense == "cost" else -1.0
    if table is not None and table.num_outcomes * table.horizon <= _MOST_BETA_WORK:
        text, changes = _beta_interval(plan, table, low, high)
        erms = sign * erms_by_beta(table, betas)[:, order]
        caption = "Exact, with optimal decisions afterwards at each beta."
    else:
        text, changes = "", []
        erms = sign * sampled_erms(found, betas)[:, order]
        how = "the exact laws above" if found.is_exact else "the totals above"
        caption = f"From {how}, measured at other betas; what follows the action is not planned anew for them."
        here = np.nanargmin(erms, axis=1)
        if here[np.flatnonzero(betas == plan.root_beta)[0]] != 0:
            text = (
                "The totals above cannot say: even at the plan's own beta they rank the actions otherwise than the "
                "estimates do. Plan at other betas to know."
            )
            return [*blocks, Paragraph(f"**The aversion to risk.** {text}")]
        if (here == 0).all():
            text = f"Measured at any beta from {low:.4g} to {high:.4g}, the totals of {literal(names[0])} are the best."
        else:
            first = betas[np.flatnonzero(here != 0)]
            nearest = float(first[np.argmin(np.abs(first - plan.root_beta))])
            text = (
                f"Measured at other betas, the totals of {literal(names[0])} are not the best from about beta "
                f"{nearest:.3g} on; plan there to know."
            )
    blocks.append(Paragraph(f"**The aversion to risk.** {text}"))
    finite = np.where(np.isfinite(erms), erms, np.nan)
    blocks.append(
        charts.risk_by_beta(
            names, betas, finite, beta=plan.root_beta, changes=changes,
            caption=f"By how much each action is worse than the best; the line stands at the plan's beta. {caption}",
        )
    )  # fmt: skip
    return blocks


def _reach(plan: Plan, found: Outlook) -> float:
    """Return a beta that is large for the totals at hand: three over their spread; 0 where that is not known."""
    spreads = [law.std for law in found.totals if law is not None]
    spread = max((s for s in spreads if math.isfinite(s)), default=0.0)
    return 3.0 / spread if spread > 0.0 else 3.0 * abs(plan.root_beta)


def _beta_interval(plan: Plan, table: TabularMDP, low: float, high: float) -> tuple[str, list[float]]:
    """Say between which betas the recommended action is optimal, and return where the first action changes."""
    solves = int(np.clip(6_000_000 // (table.num_outcomes * table.horizon), 30, 300))
    try:
        pieces = policy_intervals(table, low, high, tolerance=1e-6, max_solves=solves)
    except OptionError:
        return "", []
    names = {int(action): row.label for action, row in zip(table.actions(table.start), plan.rows, strict=True)}
    firsts = [(piece.low, piece.high, names[piece.solution.action]) for piece in pieces]
    changes = [after[0] for before, after in itertools.pairwise(firsts) if before[2] != after[2]]
    start, end = low, high
    for change in changes:
        if change <= plan.root_beta:
            start = change
        else:
            end = min(end, change)
    here = next(name for a, b, name in firsts if a <= plan.root_beta <= b)
    gaps = "" if all(piece.certified for piece in pieces) else " Short intervals in between may have been missed."
    name = literal(here)
    if not changes:
        return f"{name} is optimal at every beta from {low:.4g} to {high:.4g}, which is as far as was looked.{gaps}", []
    runs = [(which, list(run)) for which, run in itertools.groupby(firsts, key=lambda piece: piece[2])]
    parts = [f"{literal(which)} from {run[0][0]:.5g} to {run[-1][1]:.5g}" for which, run in runs]
    return f"{name} is optimal from beta {start:.5g} to {end:.5g}. In full: {'; '.join(parts)}.{gaps}", changes
