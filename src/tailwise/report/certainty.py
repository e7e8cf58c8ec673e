"""How sure a decision is, by what its planner can say, and by the exact solution where there is one."""

from __future__ import annotations

from tailwise.exact import Solution
from tailwise.planners import BoundedPlan, TotalsPlan, UtilityPlan
from tailwise.planners.exact import ExactPlan
from tailwise.planners.until import possible_loss
from tailwise.report.document import Block, Heading, Paragraph, literal
from tailwise.report.ranking import best_place, worse_by
from tailwise.report.words import number, share, span
from tailwise.search.learned.plan import LearnedPlan
from tailwise.search.plan import ActionRow, Plan


def how_sure(plan: Plan, solution: Solution | None) -> list[Block]:
    """Return what a report says of how sure its decision is; ``solution`` is the exact one, where it is known."""
    blocks: list[Block] = [Heading("How sure this is")]
    chosen = plan.rows[best_place(plan)]
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
        worst = f"could be worse than the best by {number(loss, 3)} at most"
        proof = "is proven best" if plan.proven else f"has the best estimate, is not proven best, and {worst}"
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
    exact = float(values[best_place(plan)])
    best = literal(plan.rows[ids.tolist().index(solution.action)].label)
    loss = worse_by(plan, exact, solution.value)
    if loss <= 1e-9 * max(1.0, abs(solution.value)):
        said = f"{literal(plan.label)} is optimal, with an exact ERM of {number(exact, 8)}."
        return f"The table is small enough to check: {said}"
    return (
        f"**The table is small enough to check, and the planner is wrong:** {best} is optimal with an ERM of "
        f"{number(solution.value, 8)}; {literal(plan.label)} is worse by {number(loss, 4)}."
    )
