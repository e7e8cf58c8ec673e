"""What may come of each action: the best that can be said, with a word on where it comes from.

On a table that is small enough, the exact law of the total: the action, and then what is optimal at the root's risk
level. Else what the planner has: episodes played with what is certain (bounded RTDP), or the totals that its search
sampled, exploration and all.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailwise._arrays import Floats
from tailwise.errors import OptionError, StateError, TailwiseError
from tailwise.evaluation import Returns
from tailwise.evaluation.closed_loop import HiddenPlayer, play
from tailwise.exact import Policy, backward_induction, solve
from tailwise.models import TabularMDP
from tailwise.models.simulator import begun_in, is_partly_observed, own_method
from tailwise.models.tabulate import lists_hidden, tabulate
from tailwise.planners import make_planner
from tailwise.risk.distribution import Measures
from tailwise.search import Plan

MOST_WORK = 3_000_000  # outcomes times steps of a table that a report solves
_MOST_STATES = 2_000  # of a simulator that a report turns into a table
EXACT = (
    "Exact: the action now, and then the policy that is optimal for the same objective, by a forward pass over all "
    "totals."
)
PLAYED = "Played: episodes that begin with the action and then follow what is certain to be good."
_LEAST, _EPISODES, _ITERATIONS, _SECONDS = 20, 200, 5, 4.0  # of what is played where the state is not seen
_SOLVE_SECONDS = 2.0
UNSEEN = (
    "Played: {} episodes in which the recommended action comes first, and then {} plans anew at each step, with few "
    "iterations. More of them would do better. An outcome of a probability up to {:.2g} may well be missing."
)
LEARNED = (
    "Learned: the law of the whole episode's total, with the action now and then what is best for the same aim, in the "
    "model that was learned from samples. It is somewhat too good, as the best of many estimates is, and holds no "
    "outcome that was not met."
)
SAMPLED = (
    "Sampled by the search: the latest totals of its own episodes through the action. They hold its exploration and "
    "its rollouts, and so are worse, and wider, than what careful decisions would lead to. A disaster that it did not "
    "meet is not in them."
)


@dataclass(frozen=True, eq=False)
class Outlook:
    """What may come of each row of a plan: an exact distribution or a sample of the total, and where it comes from."""

    totals: tuple[Measures | None, ...]  # one per row; None where there is nothing to show
    source: str
    is_exact: bool


def places(plan: Plan) -> list[int]:
    """Return the positions of the rows: the recommended one first, then by value, unknown ones last."""
    return [plan.rows.index(row) for row in plan.ranked]


def root_table(plan: Plan) -> TabularMDP | None:
    """Return the decision as a table of its own, which starts at the plan's root; None without a small table.

    A simulator that lists its outcomes has one too, if it reaches few states. A plan for another aim than the
    ERM has none.
    """
    origin = plan.origin
    if origin is None or not plan.is_erm:
        return None
    if isinstance(origin.model, TabularMDP):
        table, root = origin.model, int(plan.state)
    else:
        table, root = _table_of(origin.model, plan.state) or (origin.table, origin.root)
    if table is None or table.horizon is None or table.num_outcomes * table.horizon > MOST_WORK:
        return None
    steps = table.step_losses[plan.step :]
    rooted: TabularMDP = replace(table, start=root, horizon=table.horizon - plan.step, step_losses=steps)
    return rooted if rooted.actions(root).size == len(plan.rows) else None


def _table_of(model: Any, state: Any) -> tuple[TabularMDP, int] | None:
    """Return the table of a simulator from a state on, and the state's place in it, if it is small."""
    if own_method(model, "outcomes") is None:
        return None
    try:
        return tabulate(begun_in(model, state), max_states=_MOST_STATES), 0
    except TailwiseError:
        return None


def outlook(plan: Plan, table: TabularMDP | None, solution: Policy | None) -> Outlook:
    """Return what may come of each action of a plan; ``table`` is its decision, ``solution`` the optimum of that."""
    known = tuple(known_totals(plan))
    if plan.is_exact and any(row.distribution for row in plan.rows):
        return Outlook(known, EXACT, True)
    if table is not None and solution is not None:
        try:
            laws = tuple(solution.distribution(int(action)) for action in table.actions(table.start))
        except (OptionError, StateError):  # too many totals, or a state without an action ahead
            pass
        else:
            return Outlook(laws, EXACT, True)
    if any(row.distribution for row in plan.rows):
        return Outlook(known, LEARNED, False)
    begins = plan.step == 0 and not plan.is_exact  # an exact plan without laws may be for any belief
    if begins and is_partly_observed(getattr(plan.origin, "model", None)) and not any(known):
        found = _unseen(plan)
        if found is not None:
            return found
    return Outlook(known, PLAYED if plan.is_bounded else SAMPLED, False)


class _First(HiddenPlayer):
    """Plays a given action first, and then as the planner says."""

    first: Any = None

    def decide(self, planner: Any, state: Any, h: int, accrued: float) -> object:
        return super().decide(planner, state, h, accrued) if h else self.first


def _unseen(plan: Plan) -> Outlook | None:
    """Return what may come where the state is not seen: exactly, if that is soon known; else played."""
    model, begun = plan.origin.model, time.perf_counter()  # type: ignore[union-attr]  # whose model is one

    def watch(*_: object) -> None:
        if time.perf_counter() - begun > _SOLVE_SECONDS:
            raise OptionError("it takes too long")

    if lists_hidden(model):
        try:
            policy = solve(model, plan.root_beta, progress=watch)
            return Outlook(tuple(policy.distribution(row.action) for row in plan.rows), EXACT, True)
        except TailwiseError:
            pass
    totals: list[float] = []
    try:
        planner: Any = make_planner(model, plan.root_beta, seed=0)
        player, root = _First(planner.model, planner, (_ITERATIONS, None)), np.random.SeedSequence(0)
        player.first, begun = plan.action, time.perf_counter()
        while len(totals) < _EPISODES and time.perf_counter() - begun < _SECONDS:
            totals.append(play(player, root, len(totals)))
    except TailwiseError:  # a report does without
        return None
    if len(totals) < _LEAST:
        return None
    found = Returns(np.array(totals), plan.sense)
    laws = tuple(found if row is plan.chosen else None for row in plan.rows)
    return Outlook(laws, UNSEEN.format(len(totals), planner.kind, found.unseen), False)


def known_totals(plan: Plan) -> list[Measures | None]:
    """Return what a plan itself knows of the total after each action: its distribution, a sample, or nothing."""
    return [row.distribution or _sample(plan.samples(row.action), plan) for row in plan.rows]


def _sample(totals: Floats, plan: Plan) -> Returns | None:
    return Returns(totals, plan.sense) if totals.size > 1 and np.isfinite(totals).all() else None


def solved(table: TabularMDP | None, plan: Plan) -> Policy | None:
    """Return the exact solution of the plan's decision, where it is a small table."""
    return None if table is None else backward_induction(table, plan.root_beta)


def erms_by_beta(table: TabularMDP, betas: Floats) -> Floats:
    """Return the exact ERM of each action at the start, for each beta: float64, shape (k, A)."""
    ids = table.actions(table.start)
    return np.array([backward_induction(table, float(beta)).action_values(0)[table.start, ids] for beta in betas])


def sampled_erms(found: Outlook, betas: Floats) -> Floats:
    """Return the ERM of each action's own totals at each beta; NaN where there are none: shape (k, A)."""
    unknown = np.full(betas.size, np.nan)
    columns = [unknown if law is None else [law.erm(float(beta)) for beta in betas] for law in found.totals]
    return np.stack(columns, axis=1)
