"""From samples to numbers: every entry beside the paper's, the exact value, and what luck allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailwise import domains
from tailwise.evaluation import Returns, cost_distribution, sampling_interval
from tailwise.evaluation.measures import Measures
from tailwise.planners import backward_induction
from tailwise.reproduction import SettledReturns
from tailwise.reproduction.grid import TABLE_ITERATIONS, Cell, Settings, plan_cells
from tailwise.reproduction.published import AUTHORS_CODE, ORACLE, TABLES, CodeRun, Entry
from tailwise.reproduction.storage import RunFolder
from tailwise.reproduction.variants import VARIANTS, Variant
from tailwise.risk.intervals import Interval

RESAMPLES = 25_000  # the paper's


@dataclass(frozen=True)
class CodeCheck:
    """A result of the authors' code beside the range that chance allows around this run's.

    Attributes
    ----------
    run : CodeRun
        Their result.
    value : float
        This run's value of the same quantity.
    allowed : Interval
        For "plain" results, where 95 % of such experiments fall; for "settled" ones, the 95 % bootstrap
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
class Row:
    """What one cell says.

    Attributes
    ----------
    cell : Cell
        What was run.
    totals : ndarray of float64, shape (seeds,)
        Totals of as many episodes as the paper has seeds.
    erm : float
        Their empirical entropic risk: what the paper's tables show.
    interval : Interval
        Its 90 % percentile bootstrap interval, 25,000 resamples, as in the paper.
    closed_loop : float
        Best estimate of the risk of the closed loop: exact for the oracle; settled outcomes integrated for
        grid-mdp; for mdp-4 from five times as many episodes.
    closed_interval : Interval
        Its 95 % percentile bootstrap interval; a point for the oracle.
    frequency_risk : float or None
        mdp-4: exact risk of the policy with the action frequencies seen; None elsewhere.
    exact : float
        The optimum.
    luck : Interval
        Where the empirical risk of so many episodes of this closed loop falls in 90 % of all experiments.
    paper : Entry or None
        The paper's entry for this algorithm, if it has one.
    """

    cell: Cell
    totals: NDArray[np.float64]
    erm: float
    interval: Interval
    closed_loop: float
    closed_interval: Interval
    frequency_risk: float | None
    exact: float
    luck: Interval
    paper: Entry | None

    @property
    def regret(self) -> float:
        """How far the closed loop is from the optimum."""
        return self.closed_loop - self.exact

    @property
    def paper_inside(self) -> bool | None:
        """Whether the paper's number is what luck allows; None where the paper has none."""
        return None if self.paper is None else self.luck.low <= self.paper.value <= self.luck.high


@dataclass(frozen=True, eq=False)
class Summary:
    """All numbers of a reproduction.

    Attributes
    ----------
    settings : Settings
        What was run.
    rows : tuple of Row
        One per cell.
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
        """Return the row of a cell, or None if it was not run."""
        for row in self.rows:
            cell = row.cell
            key = (cell.problem, cell.algorithm, cell.variant, cell.beta, cell.iterations)
            if key == (problem, algorithm, variant, beta, iterations):
                return row
        return None

    def table(self, problem: str, beta: float) -> tuple[Row, ...]:
        """Return the rows of the paper's table for a problem and risk level, in all variants."""
        wanted = min(TABLE_ITERATIONS[problem], self.settings.most_iterations)
        return tuple(
            row
            for row in self.rows
            if (row.cell.problem, row.cell.beta) == (problem, beta) and row.cell.iterations in (0, wanted)
        )


def summarise(folder: RunFolder) -> Summary:
    """Compute all numbers of a complete run; the same samples give the same numbers.

    Parameters
    ----------
    folder : RunFolder
        A folder that :func:`tailwise.reproduction.reproduce` returned.

    Returns
    -------
    Summary

    Raises
    ------
    RunError
        If a sample is missing or damaged.
    """
    settings = folder.settings
    rows, laws = [], {}
    for cell in plan_cells(settings):
        totals, facts, law = folder.load(cell)
        found, measured = _row(cell, totals, facts, law, settings.seeds)
        rows.append(found)
        laws[cell] = measured
    checks = [check for run in AUTHORS_CODE for cell in laws if (check := _check(run, cell, laws[cell])) is not None]
    return Summary(settings, tuple(rows), tuple(checks))


def _row(
    cell: Cell,
    totals: NDArray[np.float64],
    facts: dict[str, float],
    law: NDArray[np.float64] | None,
    seeds: int,
) -> tuple[Row, Measures]:
    mdp = domains.make(cell.problem)
    solution = backward_induction(mdp, cell.beta)
    sample, everything = Returns(totals[:seeds].copy()), Returns(totals)
    measured: Measures
    if cell.algorithm == ORACLE:
        measured, closed = cost_distribution(mdp, solution), solution.value
        around = Interval(closed, closed)
    elif law is not None:
        measured = SettledReturns(law[:, 1], law[:, 2], law[:, 0].astype(np.int64), everything)
        closed, around = measured.erm(cell.beta), measured.interval(beta=cell.beta, confidence=0.95)
    else:
        measured, closed = everything, everything.erm(cell.beta)
        around = everything.interval("erm", beta=cell.beta, confidence=0.95, method="percentile")
    row = Row(
        cell=cell,
        totals=sample.costs,
        erm=sample.erm(cell.beta),
        interval=sample.interval("erm", beta=cell.beta, method="percentile", resamples=RESAMPLES),
        closed_loop=closed,
        closed_interval=around,
        frequency_risk=facts.get("frequency_risk"),
        exact=solution.value,
        luck=sampling_interval(measured, cell.beta, episodes=seeds),
        paper=_entry(cell),
    )
    return row, measured


def _entry(cell: Cell) -> Entry | None:
    if cell.iterations not in (0, TABLE_ITERATIONS[cell.problem]):
        return None
    key = (cell.problem, cell.algorithm, cell.beta)
    return next((e for e in TABLES if (e.problem, e.algorithm, e.beta) == key), None)


def _check(run: CodeRun, cell: Cell, law: Measures) -> CodeCheck | None:
    key = (cell.problem, cell.algorithm, cell.beta, cell.iterations)
    if cell.variant != "authors" or key != (run.problem, run.algorithm, run.beta, run.iterations):
        return None
    if run.kind == "plain":
        allowed = sampling_interval(law, run.beta, episodes=run.episodes, confidence=0.95)
        return CodeCheck(run, law.erm(run.beta), allowed)
    assert isinstance(law, SettledReturns)
    # Their episodes are as noisy as these: where the ERM of as many conditional risks falls.
    risks = Returns(law.conditional_erms(run.beta), law.sense)
    spread = sampling_interval(risks, run.beta, episodes=run.episodes, confidence=0.95)
    own = law.interval(beta=run.beta, confidence=0.95)
    value = law.erm(run.beta)
    low = value - float(np.hypot(value - spread.low, value - own.low))
    high = value + float(np.hypot(spread.high - value, own.high - value))
    return CodeCheck(run, value, Interval(low, high))
