"""A sample of episode totals: what :func:`tailwise.evaluate` returns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats
from tailwise._random import Seed
from tailwise._results import Columns, Result, Shown, Tabled, aligned, amounts, number, plain, span
from tailwise._validate import choice, integer, listing, numeric
from tailwise.errors import OptionError
from tailwise.evaluation.intervals import objective_statistic, sample_interval, statistic
from tailwise.models.contract import Sense
from tailwise.risk.distribution import Measures
from tailwise.risk.measures import Interval
from tailwise.risk.objectives import Objective, as_objective

MEASURES = ("mean", "std", "cvar", "quantile")


class SampleInterval(Interval):
    """A bootstrap interval ``(low, high)`` that says what it is for.

    Attributes
    ----------
    measure : str
        Name of the measure, as "ERM at beta 0.5".
    value : float
        The sample's own.
    target : str
        What the interval is meant to cover: the measure of the *law* that the episodes were drawn from, which is not
        the optimum of the problem, and not what one episode will pay.
    confidence : float
        Nominal coverage; the true one is lower where rare totals decide the measure.
    method : str
        "bca" or "percentile".
    """

    measure: str
    value: float
    target: str
    confidence: float
    method: str

    def __new__(
        cls, low: float, high: float, measure: str, value: float, target: str, confidence: float, method: str
    ) -> SampleInterval:
        """Return the interval; the rest is for display."""
        built = super().__new__(cls, low, high)
        built.measure, built.value, built.target = measure, value, target
        built.confidence, built.method = confidence, method
        return built

    def __getnewargs__(self) -> Any:
        return (*self, *vars(self).values())

    def to_dict(self) -> dict[str, object]:
        """Return everything that it holds as plain values, ready for ``json.dumps``."""
        return {"measure": self.measure, "value": plain(self.value), "low": plain(self.low), "high": plain(self.high),
                "target": self.target}  # fmt: skip


@dataclass(frozen=True)
class Summary(Shown, Tabled, Result):
    """What a sample says, in the model's own sense; by :meth:`Returns.summary`. As a table, a row for each measure.

    Attributes
    ----------
    label : str
        What was evaluated.
    sense : "cost" or "reward"
        What the numbers are.
    episodes : int
        Number of episodes n.
    measure : str
        What was asked for, as "ERM at beta 0.5".
    value : float
        That of the sample.
    beta, erm : float or None
        Risk level, and ``value`` again, where it is an ERM.
    mean, std, cvar_95, median, minimum, maximum : float
        Measures of the sample.
    confidence : float
        Nominal coverage of the intervals.
    unseen : float
        An outcome of up to this probability may be missing from the sample; see :attr:`Returns.unseen`.
    estimates : tuple of SampleInterval
        ``value`` and the measures that were asked for beside it, with their intervals.
    notes : tuple of str
        What the user should know of how the sample came about.
    """

    label: str
    sense: Sense
    episodes: int
    measure: str
    value: float
    beta: float | None
    erm: float | None
    mean: float
    std: float
    cvar_95: float
    median: float
    minimum: float
    maximum: float
    confidence: float
    unseen: float
    estimates: tuple[SampleInterval, ...]
    notes: tuple[str, ...]

    @property
    def caveat(self) -> str:
        """What the sample cannot tell, in words."""
        return (
            f"an outcome of a probability up to {self.unseen:.2g} may be missing from {self.episodes:,} episodes: it "
            "would not show in these numbers, nor widen their intervals"
        )

    def to_columns(self) -> Columns:
        """Return measure, value, low and high, column by column."""
        return {
            "measure": [one.measure for one in self.estimates], "value": [one.value for one in self.estimates],
            "low": [one.low for one in self.estimates], "high": [one.high for one in self.estimates],
        }  # fmt: skip

    def __str__(self) -> str:
        columns = {
            "measure": [one.measure for one in self.estimates],
            "value": [number(one.value) for one in self.estimates],
            f"{100 * self.confidence:g} % interval": [span(*one, point=False) for one in self.estimates],
        }
        line = f"{self.label or 'totals'}: {self.episodes:,} episodes ({amounts(self.sense)})"
        return "\n".join([line, *aligned(columns), self.caveat, *(f"note: {note}" for note in self.notes)])


@dataclass(frozen=True, eq=False)
class Returns(Shown, Tabled, Measures):
    """Discounted totals of independent episodes, in the model's own sense; as a table, a row for each.

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
        costs = numeric(self.costs, "the totals of a sample").reshape(-1).copy()  # the caller's array stays writable
        costs.setflags(write=False)
        choice(self.sense, "sense", ("cost", "reward"))
        object.__setattr__(self, "costs", costs)

    def weighted(self) -> tuple[Floats, None]:
        """Return the totals, all equally likely, and None."""
        return self.costs, None

    @property
    def episodes(self) -> int:
        """Number of episodes n."""
        return int(self.costs.size)

    def __len__(self) -> int:
        return self.episodes

    def interval(
        self,
        measure: str | Objective | float = "erm",
        *,
        beta: float | None = None,
        level: float | None = None,
        confidence: float = 0.9,
        method: str = "bca",
        resamples: int = 10_000,
        seed: Seed = 0,
    ) -> SampleInterval:
        """Return a two-sided bootstrap interval of a measure of the law that the episodes were drawn from.

        Parameters
        ----------
        measure : Objective, float, or "erm", "mean", "std", "quantile" or "cvar", default "erm"
            An objective, as :class:`tailwise.CVaR` (a number is the beta of an ERM), or the name of a measure: "erm"
            needs ``beta``, the last two need ``level``.
        beta : float, optional
            Finite risk level.
        level : float in [0, 1], optional
            Level of the quantile or CVaR.
        confidence : float in (0, 1), default 0.9
            Nominal coverage.
        method : "bca" or "percentile", default "bca"
            Kind of interval; the paper's is "percentile".
        resamples : int, default 10,000
            Number of resamples, 100 to 1,000,000.
        seed : None, int, SeedSequence or Generator, default 0
            Of the resampling.

        Returns
        -------
        SampleInterval
            A pair (low, high) whose ``target`` says what it is for. It knows only what the sample saw: a rare
            disaster that decides the risk and did not occur in it makes the interval short and wrong. Of more than
            4096 different totals those of nearby ranks are taken for one, so that large samples take seconds.

        Raises
        ------
        OptionError
            If an option is missing or out of range.
        """
        player = f" played by {self.label}" if self.label else ""
        how = confidence, method, resamples, seed
        if not isinstance(measure, str):
            objective = as_objective(measure)
            if beta is not None or level is not None:
                raise OptionError("an objective has its own beta or level: leave beta= and level= out")
            found = sample_interval(  # in costs: the draws of a name
                lambda atoms: objective_statistic(objective, self.signed(atoms), self.sense),
                self.signed(self.costs),
                how,
            )
            target = f"{objective.words} of the total {self.sense} of an episode{player}"
            return SampleInterval(*found, objective.words, self.risk(objective), target, confidence, method)
        costs = np.asarray(self.signed(self.costs))
        if self.sense == "reward" and measure == "quantile" and level is not None:
            costs = self.costs  # a quantile has no bad side
        near = level if measure == "quantile" else None
        found = sample_interval(lambda atoms: statistic(measure, atoms, beta=beta, level=level), costs, how, level=near)
        if costs is not self.costs and measure != "std":
            found = Interval(0.0 - found.high, 0.0 - found.low)
        given = beta if level is None else level
        value = getattr(self, measure) if given is None else getattr(self, measure)(given)
        name = _name(measure, beta, level)
        target = f"{name} of the total {self.sense} of an episode{player}"
        return SampleInterval(*found, name, float(value), target, confidence, method)

    @property
    def unseen(self) -> float:
        """Largest probability of an outcome that may have been missed (at 95 %): about 3/n.

        A disaster as rare as that shows in no measure of the sample, nor does it widen an interval.
        """
        return float(-np.expm1(math.log(0.05) / self.episodes))

    def summary(
        self,
        objective: Objective | float,
        *,
        measures: tuple[str, ...] = MEASURES,
        confidence: float = 0.9,
        resamples: int = 10_000,
    ) -> Summary:
        """Return an objective of the sample and the usual measures, with intervals.

        Parameters
        ----------
        objective : Objective or float
            What is asked for, as :class:`tailwise.CVaR`; a number is the beta of an ERM.
        measures : tuple of str, default all
            Which others get an interval: of "mean", "std", "cvar" (at 95 %) and "quantile" (the median).
        confidence, resamples
            As for :meth:`interval`.

        Examples
        --------
        >>> from tailwise import backward_induction, domains, evaluate
        >>> mdp = domains.make("mdp-4")
        >>> returns = evaluate(mdp, backward_induction(mdp, 0.5), episodes=200, seed=0, label="the optimal policy")
        >>> summary = returns.summary(0.5, measures=())
        >>> summary.value == returns.erm(0.5), round(summary.unseen, 3)
        (True, 0.015)
        >>> summary.estimates[0].target
        'ERM at beta 0.5 of the total cost of an episode played by the optimal policy'
        """
        aim, levels = as_objective(objective), {"cvar": 0.95, "quantile": 0.5}
        how: dict[str, Any] = {"confidence": confidence, "resamples": resamples}
        estimates = [self.interval(aim, **how)]
        estimates += [
            self.interval(measure, level=levels.get(measure), **how)
            for measure in listing(measures, "measures", "names")
        ]
        beta, value = getattr(aim, "beta", None), self.risk(aim)
        return Summary(
            self.label, self.sense, self.episodes, aim.words, value, beta, None if beta is None else value, self.mean,
            self.std, self.cvar(0.95), self.quantile(0.5), self.minimum, self.maximum, confidence, self.unseen,
            tuple(estimates), self.notes,
        )  # fmt: skip

    def head(self, episodes: int) -> Returns:
        """Return the first so many episodes: the pairs of a sample that is shorter."""
        count = integer(episodes, "episodes", low=1, high=self.episodes)
        decisions = None if self.decisions is None else self.decisions[:count]
        return replace(self, costs=self.costs[:count], decisions=decisions)

    def to_dict(self) -> dict[str, object]:
        """Return label, sense, number of episodes, totals and notes as plain values, ready for ``json.dumps``."""
        names = ("label", "sense", "episodes", "costs", "notes")
        return {name: plain(getattr(self, name)) for name in names}

    def to_columns(self) -> Columns:
        """Return planner, episode and total, column by column."""
        return episode_columns([({"planner": self.label}, self.costs)])

    def __repr__(self) -> str:
        name = f"{self.label!r}, " if self.label else ""
        spread = f"mean={self.mean:.6g}, std={self.std:.6g}"
        return f"Returns({name}episodes={self.episodes}, {spread}, {self.sense}s)"


def episode_columns(samples: Iterable[tuple[Mapping[str, Any], Floats]]) -> Columns:
    """Return a table with a row for each episode: the settings of its sample, its number there, and its total."""
    columns: Columns = {}
    for settings, totals in samples:
        for name, value in settings.items():
            columns.setdefault(name, []).extend([value] * len(totals))
        columns.setdefault("episode", []).extend(range(len(totals)))
        columns.setdefault("total", []).extend(totals.tolist())
    return columns


def _name(measure: str, beta: float | None, level: float | None) -> str:
    if measure == "erm":
        return f"ERM at beta {number(beta)}"
    if measure == "cvar":
        return f"CVaR {level:.0%}"
    if measure == "quantile":
        return "median" if level == 0.5 else f"{level:.0%} quantile"
    return "standard deviation" if measure == "std" else measure
