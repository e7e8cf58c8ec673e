"""What bounded RTDP found: a plan whose intervals are certain."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.models.contract import Sense
from tailwise.planners.bounded_play import Player
from tailwise.risk.intervals import Interval
from tailwise.search.plan import ActionRow, Plan


class BoundedRow(ActionRow):
    """What is known of one action: the risk of taking it, and then optimal ones, lies in ``interval``, with certainty.

    ``erm`` is an estimate in the interval, of unknown error (once the best action is proven: the middle); ``visits``
    counts the trials that began with the action; ``mean``, ``std``, ``minimum`` and ``maximum`` are NaN, since no
    totals are sampled.
    """

    @property
    def lower(self) -> float:
        """Lower end of the interval."""
        return self.interval.low

    @property
    def upper(self) -> float:
        """Upper end of the interval."""
        return self.interval.high


@dataclass(frozen=True, kw_only=True)
class BoundedPlan(Plan):
    """The outcome of one call of :meth:`tailwise.BoundedRtdp.plan`.

    Beside what every plan carries (``action`` is the one of the best ``erm`` until one is proven, ``value`` the
    estimate of the optimal risk; ``iterations`` counts trials and ``simulator_steps`` the states they came to):

    Attributes
    ----------
    rows : tuple of BoundedRow
        One per action allowed at the root, in the model's order.
    lower, upper : float
        Bounds of the optimal risk at the root, in the model's sense.
    proven : bool
        Whether no other action is better by more than the planner's tolerance (and the bounds are as close as its
        ``width`` asks).
    """

    rows: tuple[BoundedRow, ...]
    lower: float
    upper: float
    proven: bool
    _player: Player | None = field(repr=False, compare=False, default=None)

    def samples(self, action: Any) -> NDArray[np.float64]:
        """Return totals of episodes that begin with ``action``: float64, shape (k,), in the model's sense.

        They are played at the first call, and follow the action of the least risk that is certain; the risk of that
        policy is at most ``upper`` of the row (for rewards: at least ``lower``). 4,096 episodes, fewer where they are
        long; none where the planner's ``bounds`` is a function, or the plan was copied or loaded.
        """
        position = self.rows.index(self.row(action))
        totals = np.empty(0) if self._player is None else self._player.totals(position)
        return totals.copy() if self.sense == "cost" else 0.0 - totals

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_player": None}

    def __str__(self) -> str:
        better = "lower" if self.sense == "cost" else "higher"
        state = "proven best" if self.proven else "not proven"
        lines = [
            f"take {self.label} ({state}): ERM in [{self.lower:.6g}, {self.upper:.6g}] at beta {self.root_beta:.6g} "
            f"({self.sense}s, {better} is better)",
            f"{self.iterations} trials, {self.simulator_steps} steps, {self.nodes} nodes, {self.seconds:.3g} s; "
            f"{self.stopped.message}",
        ]
        for row in self.rows:
            guess = "" if self.proven else f", estimate {row.erm:.6g}"
            lines.append(f"  {row.label:>12}  trials {row.visits:>9}  ERM in [{row.lower:.6g}, {row.upper:.6g}]{guess}")
        return "\n".join(lines)


def make_bounded_row(action: Any, label: str, visits: int, total: int, erm: float, bounds: Interval) -> BoundedRow:
    """Assemble a row; ``erm`` and ``bounds`` are in the model's sense."""
    share = visits / total if total else 0.0
    return BoundedRow(action, label, visits, share, erm, math.nan, math.nan, math.nan, math.nan, bounds)


def in_sense(low: float, high: float, sense: Sense) -> Interval:
    """Return bounds of a cost as bounds in the model's sense."""
    return Interval(float(low), float(high)) if sense == "cost" else Interval(0.0 - float(high), 0.0 - float(low))
