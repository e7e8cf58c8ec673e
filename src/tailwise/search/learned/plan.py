"""What a learned-model search found: a plan that says how sure it can be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.risk.accumulator import merge_values
from tailwise.risk.intervals import Interval
from tailwise.search.plan import ActionRow, Plan

BOOTSTRAP = (
    "the optimal ERM after the action, from the Bayesian bootstrap of all outcome counts, its worse end at "
    "least as bad as held_out_erm: as if every outcome had been seen and drawn independently"
)
ROOT_BOOTSTRAP = (
    "the ERM after the action, from the Bayesian bootstrap of the outcomes at the root alone: as if every outcome had "
    "been seen, and the values of the states that follow were right"
)
SAMPLED = "the ERM of the totals as they were sampled, exploration included, as if they were independent"


@dataclass(frozen=True)
class LearnedRow(ActionRow):
    """What is known of one action at the root; ``interval`` is one for what ``LearnedPlan.interval_meaning`` says.

    Attributes
    ----------
    held_out_erm : float
        ERM of the action and of the policy after it that one half of the draws would choose, by the other half of them:
        too pessimistic, where ``erm`` is too optimistic (it believes the luck of every action that seems best). NaN
        where it was not worked out: in a tree, or where that would take longer than the search did.
    draws : int
        Outcomes of the action that were drawn from the model in the root's state, at any step.
    probability_best : float in [0, 1]
        Share of the bootstrap, centred between ``erm`` and ``held_out_erm``, in which no other action was better.
    unseen_probability : float in [0, 1]
        ``min(1, 3 / draws)``: with 95 % confidence an outcome never seen is no more likely than that.
    unseen_erm : float
        What the action's ERM could be if there were such an outcome, as bad as the worst total seen at the root.
    """

    held_out_erm: float
    draws: int
    probability_best: float
    unseen_probability: float
    unseen_erm: float


@dataclass(frozen=True, kw_only=True)
class LearnedPlan(Plan):
    """The outcome of one call of ``plan`` of a learned-model search.

    ``value`` is the ERM of the recommended action and of the policy that is optimal under what was learned.

    Attributes
    ----------
    rows : tuple of LearnedRow
        One per action allowed at the root, in the model's order.
    states_recur : bool
        Whether states come back, so that outcomes were pooled over steps; if not, a tree was searched.
    """

    rows: tuple[LearnedRow, ...]
    states_recur: bool

    @property
    def chosen(self) -> LearnedRow:
        """Row of the recommended action."""
        return next(row for row in self.rows if row.action == self.action)

    @property
    def probability_best(self) -> float:
        """Probability that the recommended action is best, as far as the samples can tell."""
        return self.chosen.probability_best

    def __str__(self) -> str:
        row, change = self.chosen, "raise" if self.sense == "cost" else "lower"
        return (
            f"{super().__str__()}\nbest with probability {row.probability_best:.3g} as far as the samples can tell; an "
            f"outcome never seen in {row.draws} draws, of probability up to {row.unseen_probability:.2g}, could "
            f"{change} its ERM to {row.unseen_erm:.6g}"
        )


def make_learned_row(
    action: Any,
    label: str,
    *,
    visits: int,
    total_visits: int,
    draws: int,
    erm: float,
    held_out: float,
    beta: float,
    moments: NDArray[np.float64],
    count: int,
    interval: Interval,
    probability_best: float,
    worst: float,
    sign: float,
) -> LearnedRow:
    """Assemble a row from inner costs; ``sign`` is -1 for a model with rewards, ``worst`` the greatest total seen."""
    mean, spread, low, high = (float(moment) for moment in moments) if count else (math.nan,) * 4
    std = math.sqrt(spread / (count - 1)) if count > 1 else math.nan
    chance = min(1.0, 3.0 / draws) if draws else 1.0
    unseen = float(merge_values(erm, max(worst, erm), chance, beta)) if math.isfinite(erm) else math.nan
    if sign < 0.0:
        mean, low, high, interval = 0.0 - mean, 0.0 - high, 0.0 - low, Interval(0.0 - interval.high, 0.0 - interval.low)
    share = visits / total_visits if total_visits else 0.0
    value = 0.0 + sign * erm if math.isfinite(erm) else math.nan
    return LearnedRow(
        action, label, visits, share, value, mean, std, low, high, interval, 0.0 + sign * held_out,
        draws, probability_best, chance, 0.0 + sign * unseen,
    )  # fmt: skip
