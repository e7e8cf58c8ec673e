"""What is lost by putting a continuous column into bins, measured on held-out episodes.

On three quarters of the episodes the mean of the cost, and of the column's next value, is learned for each state and
action; and again with each bin cut in half. On the other episodes the better of the two predictions shows what the
bins do not say: where halves explain more, more levels would tell more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_HELD_OUT = 0.25
_OF_BIN = 2.0  # steps that the mean of a whole bin counts as, for each half


@dataclass(frozen=True)
class BinLoss:
    """How much of something the bins of a column explain on held-out episodes, and how much halves of them would.

    Attributes
    ----------
    column : str
        The column that was binned.
    levels : int
        Its bins.
    target : str
        What is explained: "cost", "reward", or "next" and the column.
    explained, halved : float
        Share of the variance that the states and actions explain, with the bins as they are and with each cut in half;
        NaN where nothing varies, or no held-out step is of a state and action that the others had.
    """

    column: str
    levels: int
    target: str
    explained: float
    halved: float

    def __str__(self) -> str:
        return (
            f"{self.column} in {self.levels} bins: on held-out episodes states and actions explain "
            f"{self.explained:.0%} of the variance of the {self.target}; with bins of half the width {self.halved:.0%}"
        )


@dataclass(frozen=True)
class Binned:
    """A binned column: its numbers at each row, those of the next state where that is a column, and its grid."""

    name: str
    here: Floats
    later: Floats | None
    points: Floats

    def rows(self, kept: Ints | NDArray[np.bool_]) -> Binned:
        """Return some rows, in another order."""
        return Binned(self.name, self.here[kept], None if self.later is None else self.later[kept], self.points)


def bin_losses(
    columns: list[Binned],
    first: Ints,
    states: NDArray[np.int32],
    actions: NDArray[np.int32],
    values: Floats,
    sense: str,
) -> tuple[BinLoss, ...]:
    """Return what binning loses, for each column: of the costs, and of the column's own next value."""
    episodes = first.size - 1
    if not columns or episodes < 2:
        return ()
    order = np.random.default_rng(0).permutation(episodes)
    held = np.zeros(episodes, np.bool_)
    held[order[: max(1, round(_HELD_OUT * episodes))]] = True
    is_held = np.repeat(held, np.diff(first))
    cells = states.astype(np.int64) * (int(actions.max()) + 1) + actions
    last = np.zeros(states.size, np.bool_)
    last[first[1:] - 1] = True
    found = []
    for column in columns:
        middles = (column.points[1:] + column.points[:-1]) / 2.0
        edges = np.concatenate([[column.here.min()], middles, [column.here.max()]])
        above = column.here > ((edges[1:] + edges[:-1]) / 2.0)[np.searchsorted(middles, column.here)]
        follows = np.where(last, np.nan, np.append(column.here[1:], np.nan))
        later = follows if column.later is None else np.where(np.isnan(column.later), follows, column.later)
        for target, y in ((sense, values), (f"next {column.name}", later)):
            found.append(BinLoss(column.name, column.points.size, target, *_explained(cells, above, y, is_held)))
    return tuple(found)


def _explained(cells: Ints, above: NDArray[np.bool_], y: Floats, held: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the share of the held-out variance that means of cells explain, and means of their halves."""
    known = ~np.isnan(y)
    _, cell = np.unique(cells, return_inverse=True)
    half = 2 * cell + above
    learned, judged = known & ~held, known & held
    count = np.bincount(cell[learned], minlength=cell.max() + 1)
    judged &= count[cell] > 0
    if not judged.any() or not np.ptp(y[judged]):
        return float("nan"), float("nan")
    mean = np.bincount(cell[learned], weights=y[learned], minlength=count.size) / np.maximum(count, 1)
    halves = np.bincount(half[learned], minlength=2 * count.size)
    sums = np.bincount(half[learned], weights=y[learned], minlength=2 * count.size)
    finer = (sums + _OF_BIN * np.repeat(mean, 2)) / (halves + _OF_BIN)
    spread = float(((y[judged] - y[learned].mean()) ** 2).sum())
    coarse, fine = (
        1.0 - float(((y[judged] - guess[judged]) ** 2).sum()) / spread for guess in (mean[cell], finer[half])
    )
    return coarse, fine
