"""What a learned-model search found: a plan that says how sure it can be."""

from __future__ import annotations

from dataclasses import dataclass

from tailwise.search.learned.rows import LearnedRow
from tailwise.search.plan import Plan

BOOTSTRAP = (
    "the optimal ERM after the action, from the Bayesian bootstrap of all outcome counts, its worse end at "
    "least as bad as held_out_erm: as if every outcome had been seen and drawn independently"
)
ROOT_BOOTSTRAP = (
    "the ERM after the action, from the Bayesian bootstrap of the outcomes at the root alone: as if every outcome had "
    "been seen, and the values of the states that follow were right"
)
SAMPLED = "the ERM of the totals as they were sampled, exploration included, as if they were independent"


@dataclass(frozen=True, kw_only=True)
class LearnedPlan(Plan):
    """The outcome of one call of ``plan`` of a learned-model search.

    ``value`` is the ERM of the recommended action and of the policy that is optimal under what was learned.

    Attributes
    ----------
    rows : tuple of LearnedRow
        One per action allowed at the root, in the model's order.
    states_recur : bool
        Whether states come back often enough for what there is to try in them, so that outcomes were pooled over steps;
        if not, a tree was searched.
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
