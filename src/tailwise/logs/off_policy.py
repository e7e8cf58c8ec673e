"""What held-out episodes say of a plan that others played: weighted importance sampling, and doubly robust.

An episode counts by the product of ``pi(a | s) / b(a | s)`` over its steps, where b is what the log did: how often each
action was taken in the state. The weighted mean (or any other objective of the weighted totals) is consistent; its
effective sample size ``(sum w)^2 / sum w^2`` says how many episodes it really rests on. The doubly robust estimate
(Jiang & Li, 2016) corrects the model's own value of the plan by what the episodes show, and is right if either the
model or b is. Both assume that the state holds all that the log's actions were chosen by: where they were chosen by
something that is not in the log, no estimate from it is right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailwise._arrays import Floats
from tailwise._results import number
from tailwise._validate import real
from tailwise.errors import OptionError
from tailwise.exact.fixed_policies import action_id, policy_rows
from tailwise.logs.episodes import Episodes
from tailwise.logs.posterior import fixed_values, interval_of
from tailwise.logs.table import LearnedTable
from tailwise.risk import ERM, Expectation, Objective
from tailwise.risk.measures import Interval

LEAST = 30.0  # effective episodes below which no estimate is given
_RESAMPLES = 400


@dataclass(frozen=True)
class OffPolicy:
    """An off-policy estimate; all numbers are in the model's own sense.

    Attributes
    ----------
    value : float or None
        The objective by weighted importance sampling; None where too few episodes count.
    interval : Interval or None
        From resampling episodes.
    doubly_robust : float or None
        The mean by the doubly robust estimate, for the mean alone.
    effective_episodes : float
        How many episodes the weighted ones are worth.
    episodes : int
        Held-out episodes that came to an end or to the horizon.
    reason : str
        Why there is no value, in words.
    of : str
        Which plan is judged.
    """

    value: float | None
    interval: Interval | None
    doubly_robust: float | None
    effective_episodes: float
    episodes: int
    reason: str = ""
    of: str = "this plan"

    def __str__(self) -> str:
        if self.value is None or self.interval is None:
            return f"off-policy: no estimate: {self.reason}"
        low, high = map(number, self.interval)
        also = "" if self.doubly_robust is None else f"; doubly robust: {number(self.doubly_robust)}"
        return (
            f"off-policy, of {self.of}: {number(self.value)} ({low} to {high}) on held-out episodes worth "
            f"{self.effective_episodes:.1f} of {self.episodes:,}{also}"
        )


def off_policy(
    model: LearnedTable,
    policy: Any,
    objective: Objective,
    held_out: Episodes,
    *,
    confidence: float = 0.9,
    seed: int = 0,
) -> OffPolicy:
    """Estimate what a plan would have achieved in episodes that the model was not learned from.

    Parameters
    ----------
    model : LearnedTable
        What the plan was made on; how often the log took each action is from its episodes.
    policy : Policy
        The plan.
    objective : Objective
        What is estimated.
    held_out : Episodes
        Episodes of the same states and actions.
    confidence : float in (0, 1), default 0.9
        Of the interval.
    seed : int, default 0
        Of the resampling.

    Returns
    -------
    OffPolicy
        Without a value where fewer than 30 effective episodes are left.
    """
    share = real(confidence, "confidence", low=0.0, high=1.0, ends="()")
    log = model.evidence.episodes
    same = ("num_states", "num_actions", "state_labels", "action_labels", "sense")
    if any(getattr(held_out, name) != getattr(log, name) for name in same):
        raise OptionError("held-out episodes must have the log's states and actions; get them by episodes.split()")
    counts = model.comparable(held_out)
    if not counts.any():
        reason = "no held-out episode begins where the model does and comes to an end"
        return OffPolicy(None, None, None, 0.0, 0, reason)
    part = held_out.select(counts)
    steps = part.steps
    inside = steps < model.horizon - model.steps_before
    discounted = np.where(inside, part.losses, 0.0) * model.discount**steps
    totals = np.add.reduceat(discounted, part.first[:-1])
    ratios = np.where(inside, _ratios(model, policy, part, discounted), 1.0)
    weights = np.multiply.reduceat(ratios, part.first[:-1])
    effective = float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 0.0
    if effective < LEAST:
        reason = (
            f"of {weights.size:,} held-out episodes those that did what the plan does are worth {effective:.1f}; at "
            f"least {LEAST:.0f} are needed"
        )
        return OffPolicy(None, None, None, effective, int(weights.size), reason)
    shown = np.asarray(model.signed(totals))
    value = objective.of(shown, weights, sense=model.sense)
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(_RESAMPLES):
        often = np.bincount(rng.integers(0, weights.size, weights.size), minlength=weights.size) * weights
        if often.any():
            found.append(objective.of(shown, often, sense=model.sense))
    robust = None
    is_mean = isinstance(objective, Expectation) or (isinstance(objective, ERM) and objective.beta == 0.0)
    if is_mean and not getattr(policy, "minds_the_past", False):
        robust = _doubly_robust(model, policy, part, ratios)
    return OffPolicy(float(value), interval_of(np.array(found), share), robust, effective, int(weights.size))


def _ratios(model: LearnedTable, policy: Any, part: Episodes, discounted: Floats) -> Floats:
    """Return pi(a | s) / b(a | s) of each step; b is how often the log took the action in the state."""
    often = model.coverage.counts
    taken = often[part.states, part.actions] / np.maximum(often.sum(axis=1), 1)[part.states]
    planned = np.full(part.num_steps, -1)
    steps = part.steps + model.steps_before
    inside = np.flatnonzero(steps < model.horizon)
    if getattr(policy, "minds_the_past", False):
        before = np.cumsum(discounted) - discounted
        accrued = np.asarray(model.signed(before - np.repeat(before[part.first[:-1]], part.lengths)))
        for k in inside.tolist():
            state, h = int(part.states[k]), int(steps[k])
            try:
                planned[k] = action_id(model, policy.act(state, h, float(accrued[k])), state, h)
            except LookupError:  # the plan never comes there
                planned[k] = -1
    else:
        rows = policy_rows(model, policy)
        found = rows[steps[inside], part.states[inside]]
        planned[inside] = np.where(found >= 0, model.action_ids[found], -1)
    return np.where((planned == part.actions) & (taken > 0.0), 1.0 / np.where(taken > 0.0, taken, 1.0), 0.0)


def _doubly_robust(model: LearnedTable, policy: Any, part: Episodes, ratios: Floats) -> float:
    """Return the doubly robust estimate of the mean."""
    rows, offset = policy_rows(model, policy), model.steps_before
    values = fixed_values(model, rows, 0.0)
    own = model.rows_of(part.actions, part.states)
    steps = part.steps + offset
    corrected = np.zeros(part.num_episodes)
    first, owner = model.outcome_offsets[:-1], part.first[:-1]
    for h in range(min(int(steps.max()), model.horizon - 1), offset - 1, -1):
        later = np.where(model.done, 0.0, model.discount * values[h + 1][model.next_states])
        action_values = np.add.reduceat(model.probabilities * (model.losses + later), first)
        here = np.flatnonzero(part.lengths > h - offset)
        at = owner[here] + h - offset
        if h == model.horizon - 1:
            corrected[here] = 0.0
        follows = np.where(part.done[at], 0.0, model.discount * corrected[here])
        known = own[at] >= 0
        expected = np.where(known, action_values[own[at]], 0.0)
        value = values[h][part.states[at]]
        step = np.where(ratios[at] > 0.0, ratios[at] * (part.losses[at] + follows - expected), 0.0)
        corrected[here] = np.where(math.inf > value, value, 0.0) + step
    return float(model.signed(corrected.mean()))
