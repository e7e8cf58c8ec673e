"""The decision report: what was decided, what may come of it, how sure that is, and what would change it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tailwise.errors import OptionError
from tailwise.evaluation.measures import Measures
from tailwise.models import TabularMDP
from tailwise.planners import BoundedPlan, Solution, TotalsPlan, UtilityPlan, policy_intervals
from tailwise.planners.cvar_mcts import CvarPlan
from tailwise.planners.distributional_mcts import DistributionalPlan
from tailwise.planners.exact import ExactPlan
from tailwise.planners.until import possible_loss
from tailwise.report import charts, trees
from tailwise.report.document import Block, Document, Heading, Paragraph, Table, literal
from tailwise.report.outlook import Outlooks, erms_by_beta, is_erm, outlooks, root_table, sampled_erms, solved
from tailwise.report.policies import policy_chart
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
from tailwise.search.plan import ActionRow, Plan

_KINDS: dict[type, str] = {
    CvarPlan: "learned model, solved for the CVaR", DistributionalPlan: "learned model, solved for laws of the total",
    BoundedPlan: "bounded trials", ExactPlan: "backward induction", LearnedPlan: "learned-model search",
    Plan: "tree search", UtilityPlan: "tree search for a utility, on accrued costs",
}  # fmt: skip
_MOST_ACTIONS = 6  # with charts; tables have all
_MOST_BETA_WORK = 300_000  # outcomes times steps of a table that is solved for many betas


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
        *_how_sure(plan, solution),
        *_changes(plan, found, table),
        *_evolution(plan, solution),
        *_what_follows(plan, table, solution),
        *_settings(plan),
    ]
    return Document(f"Take {literal(plan.label)}", tuple(blocks))


def _worse(plan: Plan, value: float, other: float) -> float:
    """Return by how much ``value`` is worse than ``other``."""
    return value - other if plan.sense == "cost" else other - value


def _value(plan: Plan, k: int) -> float:
    """Return what a row is judged by, in the unit of the totals where there is such a number."""
    return plan.certainty_equivalents[k] if _sure(plan) else plan.rows[k].erm  # type: ignore[attr-defined]


def _sure(plan: Plan) -> bool:
    return bool(getattr(plan, "certainty_equivalents", ()))


def _ranked(plan: Plan) -> list[int]:
    """Return the positions of the rows: the recommended one first, then by value, unknown ones last."""

    def key(k: int) -> tuple[bool, float]:
        value = _value(plan, k)
        bad = math.isnan(value)
        return bad, 0.0 if bad else value if plan.sense == "cost" else -value

    best = _best(plan)
    return [best, *sorted((k for k in range(len(plan.rows)) if k != best), key=key)]


def _best(plan: Plan) -> int:
    return next(k for k, row in enumerate(plan.rows) if row.action == plan.action)


def _state_name(plan: Plan) -> str:
    model = None if plan._origin is None else plan._origin.model
    if plan._reader is not None and not isinstance(plan, UtilityPlan):
        return plan._reader.binding.state_name(plan.state)
    name = getattr(model, "state_name", None)
    return str(name(plan.state)) if name is not None else str(plan.state)


def _decision(plan: Plan, found: Outlooks) -> list[Block]:
    order = _ranked(plan)
    best, label = order[0], literal(plan.label)
    measure = "It"
    where = f"In state **{literal(_state_name(plan))}** at step {plan.step}: take **{label}**."
    value = _value(plan, best)
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
    others = [k for k in order[1:] if not math.isnan(_value(plan, k))]
    if not others:
        return "There is no other action." if len(plan.rows) == 1 else "No other action was tried."
    name = literal(plan.rows[others[0]].label)
    margin = _worse(plan, _value(plan, others[0]), _value(plan, order[0]))
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
    value = "as good as" if _sure(plan) else plan.measure
    columns: dict[str, list[str]] = {"action": [literal(plan.rows[k].label) for k in order]}

    def add(name: str, cells: list[str]) -> None:
        if any(cell != number(None) for cell in cells):
            columns[name] = cells

    add(value, [number(None if is_bounded else _value(plan, k)) for k in order])
    if not is_exact and not _sure(plan):
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
    parts = [(found.actions[k].label, found.actions[k].law) for k in _ranked(plan)]
    return [(name, law) for name, law in parts if law is not None]


def _distributions(plan: Plan, found: Outlooks) -> list[Block]:
    heading = Heading("What may come of each action")
    parts = _shown(plan, found)
    if not parts:
        return [heading, Paragraph("Not known: the plan holds no totals (it was loaded, or its planner samples none).")]
    beta = plan.root_beta if is_erm(plan) else None
    chosen = parts[:_MOST_ACTIONS]
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


def _how_sure(plan: Plan, solution: Solution | None) -> list[Block]:
    blocks: list[Block] = [Heading("How sure this is")]
    chosen = plan.rows[_best(plan)]
    if isinstance(plan, ExactPlan):
        tied = [literal(row.label) for row in plan.rows if row.action in plan.optimal_actions]
        text = "The ERM of each action is exact, by backward induction; nothing here was sampled."
        if len(tied) > 1:
            text += f" {len(tied)} actions are equally good: {', '.join(tied)}."
        return [*blocks, Paragraph(text)]
    if isinstance(plan, TotalsPlan):
        luck = "somewhat too good" if plan.states_recur else "far too good, since hardly a state came back"
        said = f"The values are those of the model that was learned, and {luck}. No intervals are given."
        return [*blocks, Paragraph(said)]
    if isinstance(plan, BoundedPlan):
        loss = possible_loss(plan)
        proof = "is proven best" if plan.proven else f"could be worse than the best by {number(loss, 3)} at most"
        blocks.append(
            Paragraph(
                f"{literal(plan.label)} {proof}: the optimal ERM is in {span(plan.lower, plan.upper)} with certainty."
            )
        )
    elif isinstance(plan, LearnedPlan):
        row = plan.chosen
        blocks.append(Paragraph(
            f"{literal(plan.label)} is best with probability {share(row.probability_best)}, as far as the samples can "
            f"tell. An outcome never seen in {row.draws:,} draws may have a probability of up to "
            f"{row.unseen_probability:.2g}; the worst total seen, met so often, would make its ERM "
            f"{number(row.unseen_erm)}."
        ))  # fmt: skip
    else:
        blocks.append(Paragraph(_overlap(plan, chosen)))
    if not isinstance(plan, BoundedPlan):
        blocks.append(Paragraph(f"The intervals are for {literal(plan.interval_meaning)}."))
    if solution is not None:
        blocks.append(Paragraph(_against_exact(plan, solution)))
    return blocks


def _overlap(plan: Plan, chosen: ActionRow) -> str:
    if isinstance(plan, UtilityPlan):
        return "The values are means of sampled utilities."
    close = []
    for row in plan.rows:
        if row is chosen:
            continue
        bad, good = chosen.interval, row.interval
        apart = bad.high < good.low if plan.sense == "cost" else bad.low > good.high
        if not apart:
            close.append(literal(row.label))
    if not close:
        return "The 90 % interval of the recommended action is apart from all others."
    return f"The 90 % interval of the recommended action overlaps that of {', '.join(close)}: search on to be surer."


def _against_exact(plan: Plan, solution: Solution) -> str:
    start, table = solution.mdp.start, solution.mdp
    ids = table.actions(start)
    values = solution.action_values(0)[start, ids]
    exact = float(values[_best(plan)])
    best = literal(plan.rows[ids.tolist().index(solution.action)].label)
    loss = _worse(plan, exact, solution.value)
    if loss <= 1e-9 * max(1.0, abs(solution.value)):
        said = f"{literal(plan.label)} is optimal, with an exact ERM of {number(exact, 8)}."
        return f"The table is small enough to check: {said}"
    return (
        f"**The table is small enough to check, and the planner is wrong:** {best} is optimal with an ERM of "
        f"{number(solution.value, 8)}; {literal(plan.label)} is worse by {number(loss, 4)}."
    )


def _changes(plan: Plan, found: Outlooks, table: TabularMDP | None) -> list[Block]:
    if len(plan.rows) < 2:
        return []
    blocks: list[Block] = [Heading("What would change the decision")]
    order = _ranked(plan)
    others = [k for k in order[1:] if math.isfinite(_value(plan, k))]
    value = _value(plan, order[0])
    what = "exact values (so, the model)" if isinstance(plan, ExactPlan) else "estimates"
    if others and math.isfinite(value) and not isinstance(plan, BoundedPlan):
        runner = plan.rows[others[0]]
        margin = _worse(plan, _value(plan, others[0]), value)
        blocks.append(Paragraph(
            f"**The estimates.** {literal(runner.label)} would be as good if the two {what} were wrong by "
            f"{number(margin, 4)} altogether."
        ))  # fmt: skip
    if not is_erm(plan) or not math.isfinite(value):
        return blocks
    order = [k for k in order if found.actions[k].law is not None or table is not None][:_MOST_ACTIONS]
    names = [plan.rows[k].label for k in order]
    reach = _reach(plan, found)
    if not reach or not names:
        return blocks
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


def _reach(plan: Plan, found: Outlooks) -> float:
    """Return a beta that is large for the totals at hand: three over their spread; 0 where that is not known."""
    spreads = [one.law.std for one in found.actions if one.law is not None]
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
    parts = []
    for a, b, which in _merged(firsts):
        parts.append(f"{literal(which)} from {a:.5g} to {b:.5g}")
    return (f"{name} is optimal from beta {start:.5g} to {end:.5g}. In full: {'; '.join(parts)}.{gaps}"), changes


def _merged(pieces: list[tuple[float, float, str]]) -> list[tuple[float, float, str]]:
    merged: list[tuple[float, float, str]] = []
    for low, high, name in pieces:
        if merged and merged[-1][2] == name:
            merged[-1] = (merged[-1][0], high, name)
        else:
            merged.append((low, high, name))
    return merged


def _evolution(plan: Plan, solution: Solution | None) -> list[Block]:
    heading = Heading("How the search got there")
    if isinstance(plan, ExactPlan):
        return []
    trajectory = None if plan._origin is None else plan._origin.trajectory
    if trajectory is None or trajectory.iterations.size < 2:
        return [heading, Paragraph(
            "Not recorded. `tailwise plan --report` and `tailwise.report.recorded_plan` make plans that know their way."
        )]  # fmt: skip
    order = _ranked(plan)[:_MOST_ACTIONS]
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
