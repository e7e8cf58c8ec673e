"""What would change a decision: other estimates, or another aversion to risk."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tailwise._results import number
from tailwise.errors import OptionError
from tailwise.exact import policy_intervals
from tailwise.models import TabularMDP
from tailwise.report import charts
from tailwise.report.document import Block, Heading, Paragraph, literal
from tailwise.report.outlook import MOST_ACTIONS, Outlook, erms_by_beta, places, sampled_erms
from tailwise.search.plan import Plan

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
    if not plan.is_erm or not math.isfinite(value):
        return blocks
    order = [k for k in places(plan) if found.totals[k] is not None or table is not None][:MOST_ACTIONS]
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
