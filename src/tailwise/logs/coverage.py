"""What a log covers: how often each pair of state and action was tried, and which were not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import StateError
from tailwise.exact.fixed_policies import policy_chances
from tailwise.logs.episodes import Episodes
from tailwise.models import TabularMDP

Floats = NDArray[np.float64]
RARE = 5
_SHOWN = 5


@dataclass(frozen=True)
class PairCount:
    """A pair of state and action, how often it was tried, and how often a plan comes to take it.

    Attributes
    ----------
    state, action : int
        Indices.
    state_name, action_name : str
        Labels.
    tried : int
        How often the log tried it.
    visits : float
        Expected number of times that an episode under the plan takes it; NaN without a plan.
    """

    state: int
    action: int
    state_name: str
    action_name: str
    tried: int
    visits: float = float("nan")

    def __str__(self) -> str:
        said = f"{self.action_name} in {self.state_name}: tried {self.tried} times"
        return said if self.visits != self.visits else f"{said}, taken {self.visits:.3g} times an episode"


@dataclass(frozen=True, eq=False)
class Coverage:
    """Which pairs of state and action a log tried, and how often.

    Attributes
    ----------
    counts : ndarray of int64, shape (S, A)
        How often each was tried; states that the model adds have a row of zeros.
    reached : ndarray of bool, shape (S,)
        Whether the log was ever in the state, with a decision to take.
    state_labels, action_labels : tuple of str
        Names.
    """

    counts: NDArray[np.int64]
    reached: NDArray[np.bool_]
    state_labels: tuple[str, ...]
    action_labels: tuple[str, ...]
    _mdp: TabularMDP

    @classmethod
    def of(cls, mdp: TabularMDP, log: Episodes) -> Coverage:
        """Count the pairs of a learned table's log."""
        counts = np.zeros((mdp.num_states, mdp.num_actions), dtype=np.int64)
        flat = np.bincount(
            log.states.astype(np.int64) * log.num_actions + log.actions, minlength=log.num_states * log.num_actions
        )
        counts[: log.num_states, : log.num_actions] = flat.reshape(log.num_states, log.num_actions)
        reached = np.zeros(mdp.num_states, dtype=np.bool_)
        reached[log.states] = True
        reached[log.next_states[(log.next_states >= 0) & ~log.done]] = True
        return cls(counts, reached, mdp.state_labels, mdp.action_labels, mdp)

    def tried(self, state: int | str, action: int | str) -> int:
        """Return how often an action was tried in a state, each by index or label."""
        s = self._mdp.find_state(state) if isinstance(state, str) else state
        a = self.action_labels.index(action) if action in self.action_labels else action
        if not (isinstance(s, (int, np.integer)) and 0 <= s < self.counts.shape[0]) or not isinstance(
            a, (int, np.integer)
        ):
            raise StateError(f"there is no state {state!r} or action {action!r} in the log")
        return int(self.counts[s, a])

    @cached_property
    def never_tried(self) -> tuple[PairCount, ...]:
        """Pairs of a state that the log reached and an action that it never tried there."""
        return self._pairs((self.counts == 0) & self.reached[:, None])

    @cached_property
    def rarely_tried(self) -> tuple[PairCount, ...]:
        """Pairs that were tried, but less than 5 times."""
        return self._pairs((self.counts > 0) & (self.counts < RARE))

    def under(self, policy: Any, *, below: int = RARE) -> tuple[PairCount, ...]:
        """Return the pairs tried less than ``below`` times that a policy comes to take, most often taken first.

        Parameters
        ----------
        policy : Policy or whatever :func:`tailwise.exact.policy_risk` takes
            What is done; on the learned table.
        below : int, default 5
            1 for those never tried.
        """
        visits = visits_of(self._mdp, policy)
        mdp = self._mdp
        few = self.counts[mdp.row_states, mdp.action_ids] < below
        few &= self.reached[mdp.row_states]
        rows = np.flatnonzero(few & (visits > 1e-12))
        rows = rows[np.argsort(-visits[rows], kind="stable")]
        return tuple(self._pair(int(mdp.row_states[r]), int(mdp.action_ids[r]), float(visits[r])) for r in rows)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the model should know, in words."""
        never, rare = len(self.never_tried), len(self.rarely_tried)
        if not never and not rare:
            return ()
        shown = "; ".join(f"{pair.action_name} in {pair.state_name}" for pair in self.never_tried[:_SHOWN])
        more = f" ({shown}{'; ...' if never > _SHOWN else ''})" if never else ""
        said = f"the log never tried {never:,} pairs of a state it reached and an action{more}"
        return (f"{said}; {rare:,} it tried less than {RARE} times",)

    def _pairs(self, mask: NDArray[np.bool_]) -> tuple[PairCount, ...]:
        return tuple(self._pair(int(s), int(a)) for s, a in np.argwhere(mask))

    def _pair(self, state: int, action: int, visits: float = float("nan")) -> PairCount:
        return PairCount(
            state,
            action,
            self._mdp.state_name(state),
            self._mdp.action_name(action),
            int(self.counts[state, action]),
            visits,
        )

    def __str__(self) -> str:
        tried = int((self.counts > 0).sum())
        of = int(self.reached.sum()) * self.counts.shape[1]
        return "\n".join([f"{tried:,} of {of:,} pairs of a reached state and an action were tried", *self.notes])


def visits_of(mdp: TabularMDP, policy: Any) -> Floats:
    """Return how often an episode under a policy takes each row, on average: float64, shape (rows,)."""
    chances = policy_chances(mdp, policy)
    per_row = np.diff(mdp.outcome_offsets)
    here: Floats = np.zeros(mdp.num_states)
    here[mdp.start] = 1.0
    visits: Floats = np.zeros(mdp.num_rows)
    goes_on = ~mdp.done
    for h in range(mdp.horizon):
        taken = here[mdp.row_states] * chances[h]
        visits += taken
        flow = np.repeat(taken, per_row) * mdp.probabilities
        arrived = np.bincount(mdp.next_states[goes_on], weights=flow[goes_on], minlength=mdp.num_states)
        here = np.asarray(arrived, dtype=np.float64)
    return visits
