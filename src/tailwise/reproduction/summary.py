"""From samples to numbers: every entry beside the paper's, the exact value, and what sampling error allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailwise._results import JsonObject, Result, plain
from tailwise.evaluation import Returns, sampling_interval
from tailwise.exact import backward_induction, return_distribution
from tailwise.reproduction.conditional_returns import ConditionalReturns
from tailwise.reproduction.experiments import (
    AUTHORS_CODE,
    TABLE_ITERATIONS,
    TABLES,
    CodeRun,
    Entry,
    Experiment,
    Settings,
    list_experiments,
)
from tailwise.reproduction.runner import RunFolder
from tailwise.reproduction.variants import ORACLE, VARIANTS, Variant
from tailwise.risk.distribution import Measures
from tailwise.risk.measures import Interval

RESAMPLES = 25_000  # the paper's


@dataclass(frozen=True)
class CodeCheck(Result):
    """A result of the authors' code beside the range that chance allows around this run's.

    Attributes
    ----------
    run : CodeRun
        Their result.
    value : float
        This run's value of the same quantity.
    allowed : Interval
        For "plain" results, where 95 % of such experiments fall; for "conditional" ones, the 95 % bootstrap
        interval of the difference, about their value.
    """

    run: CodeRun
    value: float
    allowed: Interval

    @property
    def agrees(self) -> bool:
        """Whether their result lies within sampling error of this run's."""
        return self.allowed.low <= self.run.value <= self.allowed.high


@dataclass(frozen=True, eq=False)
class Row(Result):
    """What one experiment says.

    Attributes
    ----------
    experiment : Experiment
        What was run.
    totals : ndarray of float64, shape (seeds,)
        Totals of as many episodes as the paper has seeds.
    erm : float
        Their empirical entropic risk: what the paper's tables show.
    interval : Interval
        Its 90 % percentile bootstrap interval, 25,000 resamples, as in the paper.
    closed_loop : float
        Best estimate of the risk of the closed loop: exact for the oracle; by conditional Monte Carlo for
        grid-mdp; for mdp-4 from five times as many episodes.
    closed_interval : Interval
        Its 95 % percentile bootstrap interval; a point for the oracle.
    frequency_risk : float or None
        mdp-4: exact risk of the policy with the action frequencies seen; None elsewhere.
    exact : float
        The optimum.
    sampling_range : Interval
        Where the empirical risk of so many episodes of this closed loop falls in 90 % of all experiments.
    paper : Entry or None
        The paper's entry for this algorithm, if it has one.
    """

    experiment: Experiment
    totals: NDArray[np.float64]
    erm: float
    interval: Interval
    closed_loop: float
    closed_interval: Interval
    frequency_risk: float | None
    exact: float
    sampling_range: Interval
    paper: Entry | None

    @property
    def regret(self) -> float:
        """How far the closed loop is from the optimum."""
        return self.closed_loop - self.exact

    @property
    def paper_inside(self) -> bool | None:
        """Whether sampling error allows the paper's number; None where the paper has none."""
        return None if self.paper is None else self.sampling_range.low <= self.paper.value <= self.sampling_range.high

    def to_dict(self) -> JsonObject:
        """Return what ``results.csv`` says of the experiment, as plain values ready for ``json.dumps``.

        Returns
        -------
        dict
            The experiment's fields, then erm, closed_loop, frequency_risk, exact, regret, paper (each interval as
            ``_low`` and ``_high``), sampling_low, sampling_high and paper_inside; None where there is none.
        """
        paper = self.paper
        numbers = {name: plain(value) for name, value in {
            "erm": self.erm, "erm_low": self.interval.low, "erm_high": self.interval.high,
            "closed_loop": self.closed_loop,
            "closed_low": self.closed_interval.low, "closed_high": self.closed_interval.high,
            "frequency_risk": self.frequency_risk, "exact": self.exact, "regret": self.regret,
            "sampling_low": self.sampling_range.low, "sampling_high": self.sampling_range.high,
            "paper": paper and paper.value, "paper_low": paper and paper.low, "paper_high": paper and paper.high,
            "paper_inside": self.paper_inside,
        }.items()}  # fmt: skip
        return {**self.experiment.to_dict(), **numbers}


@dataclass(frozen=True, eq=False)
class Summary(Result):
    """All numbers of a reproduction.

    Attributes
    ----------
    settings : Settings
        What was run.
    rows : tuple of Row
        One per experiment.
    checks : tuple of CodeCheck
        The authors' code against the variant "authors".
    """

    settings: Settings
    rows: tuple[Row, ...]
    checks: tuple[CodeCheck, ...]

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants that were run."""
        return tuple(VARIANTS[name] for name in self.settings.variants)

    def find(self, problem: str, algorithm: str, variant: str, beta: float, iterations: int = 0) -> Row | None:
        """Return the row of an experiment, or None if it was not run."""
        key = (problem, algorithm, variant, beta, iterations)
        return next((row for row in self.rows if _key(row.experiment) == key), None)

    def select(self, problem: str, beta: float) -> tuple[Row, ...]:
        """Return the rows of a problem at a risk level, in the order in which they ran."""
        return tuple(row for row in self.rows if (row.experiment.problem, row.experiment.beta) == (problem, beta))

    def table(self, problem: str, beta: float) -> tuple[Row, ...]:
        """Return the rows of the paper's table for a problem and risk level, in all variants."""
        wanted = min(TABLE_ITERATIONS[problem], self.settings.most_iterations)
        return tuple(row for row in self.select(problem, beta) if row.experiment.iterations in (0, wanted))

    def betas(self, problem: str) -> tuple[float, ...]:
        """Return the risk levels at which a problem was run."""
        return tuple(dict.fromkeys(row.experiment.beta for row in self.rows if row.experiment.problem == problem))


def summarise(folder: RunFolder) -> Summary:
    """Compute all numbers of a complete run; the same samples give the same numbers.

    Parameters
    ----------
    folder : RunFolder
        A folder that :func:`tailwise.reproduction.reproduce` returned.

    Returns
    -------
    Summary
        One row per experiment; ``to_dict()`` is all of it as plain values.

    Raises
    ------
    RunError
        If a sample is missing or damaged.
    """
    rows, measured = [], {}
    for experiment in list_experiments(folder.settings):
        row, measured[experiment] = _row(folder, experiment)
        rows.append(row)
    checks = [
        _check(run, measures)
        for run in AUTHORS_CODE
        for experiment, measures in measured.items()
        if _key(experiment) == (run.problem, run.algorithm, "authors", run.beta, run.iterations)
    ]
    return Summary(folder.settings, tuple(rows), tuple(checks))


def _key(experiment: Experiment) -> tuple[str, str, str, float, int]:
    return (experiment.problem, experiment.algorithm, experiment.variant, experiment.beta, experiment.iterations)


def _row(folder: RunFolder, experiment: Experiment) -> tuple[Row, Measures]:
    """Return the row of an experiment, and the distribution of the closed loop's total that it rests on."""
    totals, facts, mixture = folder.load(experiment)
    mdp, beta, seeds = experiment.table(), experiment.beta, folder.settings.seeds
    solution = backward_induction(mdp, beta)
    sample, everything = Returns(totals[:seeds]), Returns(totals)
    measured: Measures
    if experiment.algorithm == ORACLE:
        measured, closed = return_distribution(mdp, solution), solution.value
        around = Interval(closed, closed)
    elif mixture is not None:
        measured = ConditionalReturns(mixture[:, 1], mixture[:, 2], mixture[:, 0].astype(np.int64), everything)
        closed, around = measured.erm(beta), measured.interval(beta=beta, confidence=0.95)
    else:
        measured, closed = everything, everything.erm(beta)
        around = everything.interval("erm", beta=beta, confidence=0.95, method="percentile")
    row = Row(
        experiment=experiment,
        totals=sample.costs,
        erm=sample.erm(beta),
        interval=sample.interval("erm", beta=beta, method="percentile", resamples=RESAMPLES),
        closed_loop=closed,
        closed_interval=around,
        frequency_risk=facts.get("frequency_risk"),
        exact=solution.value,
        sampling_range=sampling_interval(measured, beta, episodes=seeds),
        paper=_entry(experiment),
    )
    return row, measured


def _entry(experiment: Experiment) -> Entry | None:
    if experiment.iterations not in (0, TABLE_ITERATIONS[experiment.problem]):
        return None
    key = (experiment.problem, experiment.algorithm, experiment.beta)
    return next((entry for entry in TABLES if (entry.problem, entry.algorithm, entry.beta) == key), None)


def _check(run: CodeRun, measured: Measures) -> CodeCheck:
    value = measured.erm(run.beta)
    if run.kind == "plain":
        return CodeCheck(run, value, sampling_interval(measured, run.beta, episodes=run.episodes, confidence=0.95))
    assert isinstance(measured, ConditionalReturns)
    # Their episodes are as noisy as these: where the ERM of as many conditional risks falls.
    risks = Returns(measured.conditional_erms(run.beta), measured.sense)
    spread = sampling_interval(risks, run.beta, episodes=run.episodes, confidence=0.95)
    own = measured.interval(beta=run.beta, confidence=0.95)
    low = value - float(np.hypot(value - spread.low, value - own.low))
    high = value + float(np.hypot(spread.high - value, own.high - value))
    return CodeCheck(run, value, Interval(low, high))
