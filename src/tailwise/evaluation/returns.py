"""A sample of episode totals: what :func:`tailwise.evaluate` returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailwise._random import Seed
from tailwise.evaluation.bootstrap import bootstrap_interval
from tailwise.evaluation.measures import Floats, Measures
from tailwise.models.contract import Sense
from tailwise.risk.intervals import Interval


@dataclass(frozen=True, eq=False)
class Returns(Measures):
    """Discounted totals of independent episodes, in the model's own sense.

    Attributes
    ----------
    costs : ndarray of float64, shape (n,)
        One total per episode; rewards where the model has rewards. Read-only.
    sense : "cost" or "reward"
        What the totals are.
    label : str
        What was evaluated, for display.
    streams : tuple of int
        Identifies the model and the random numbers that it was played with: two samples with equal streams were
        drawn on common random numbers and can be compared pair by pair.
    decisions : ndarray of int32, shape (n, H, 2), or None
        For planners on tables: state and action id of each step; -1 after the end of an episode.
    notes : tuple of str
        What the user should know of how the sample came about.

    Examples
    --------
    >>> from tailwise import backward_induction, domains, evaluate
    >>> mdp = domains.make("mdp-4")
    >>> returns = evaluate(mdp, backward_induction(mdp, beta=0.5), episodes=2000, seed=0)
    >>> returns.episodes, 1.7 < returns.erm(0.5) < 1.85
    (2000, True)
    >>> low, high = returns.interval("erm", beta=0.5)
    >>> low < returns.erm(0.5) < high
    True
    """

    costs: Floats
    sense: Sense = "cost"
    label: str = ""
    streams: tuple[int, ...] = ()
    decisions: NDArray[np.int32] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        costs = np.array(self.costs, dtype=np.float64).reshape(-1)  # a copy: the caller's array stays writable
        costs.setflags(write=False)
        object.__setattr__(self, "costs", costs)

    def _atoms(self) -> tuple[Floats, None]:
        return self.costs, None

    @property
    def episodes(self) -> int:
        """Number of episodes n."""
        return int(self.costs.size)

    def __len__(self) -> int:
        return self.episodes

    def interval(
        self,
        measure: str = "erm",
        *,
        beta: float | None = None,
        level: float | None = None,
        confidence: float = 0.9,
        method: str = "bca",
        resamples: int = 10_000,
        seed: Seed = 0,
    ) -> Interval:
        """Return a two-sided bootstrap interval of a measure.

        Parameters
        ----------
        measure : "erm", "mean", "std", "quantile" or "cvar", default "erm"
            The measure; "erm" needs ``beta``, the last two need ``level``.
        beta : float, optional
            Finite risk level.
        level : float in [0, 1], optional
            Level of the quantile or CVaR.
        confidence : float in (0, 1), default 0.9
            Nominal coverage.
        method : "bca" or "percentile", default "bca"
            Kind of interval; the paper's is "percentile".
        resamples : int, default 10,000
            Number of resamples, at least 100.
        seed : None, int, SeedSequence or Generator, default 0
            Of the resampling.

        Returns
        -------
        Interval
            It knows only what the sample saw: a rare disaster that decides the risk and did not occur
            in it makes the interval short and wrong.

        Raises
        ------
        OptionError
            If an option is missing or out of range.
        """
        costs = np.asarray(self._signed(self.costs))
        if self.sense == "reward" and measure == "quantile" and level is not None:
            costs = self.costs  # a quantile has no bad side
        found = bootstrap_interval(
            costs, measure, beta=beta, level=level, confidence=confidence, method=method, resamples=resamples,
            seed=seed,
        )  # fmt: skip
        if costs is self.costs or measure == "std":
            return found
        return Interval(0.0 - found.high, 0.0 - found.low)

    def __repr__(self) -> str:
        name = f"{self.label!r}, " if self.label else ""
        spread = f"mean={self.mean:.6g}, std={self.std:.6g}"
        return f"Returns({name}episodes={self.episodes}, {spread}, {self.sense}s)"
