r"""Empirical checks of the bandit theorems, for the command line, the figures and the benchmarks.

The theorems bound errors by ``B n^(eta' - 1)``, for every n and with a large B. The exponent that a line through
measured errors shows is a *local* one. Balancing the indices, a bad arm is pulled about

    T_i(n) ~ (constant n^q / (gap + constant n^(q - 1 + eta)))^(1 / (1 - eta)),      q = alpha/xi,

times, whose share of n has the local exponent ``eta' - 1 + transient`` with

    transient = (1 - eta - q) / (1 - eta) x / (1 + x),      x = constant n^(q - 1 + eta) / gap,

which vanishes only like n^(q - 1 + eta), that is n^-1/4 at eta = 1/2. With the practical constant sqrt(2) and a
gap of 0.44 it is still 0.08 at n = 10^5, and the measured exponent is near -0.42 there, rightly. A measured
interval is therefore compared with the theorem's exponent plus this transient, and the studies use a
constant of 0.1, for which the transient is about 0.01.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tailwise._progress import Progress, followed
from tailwise._random import Seed, seed_sequence
from tailwise._results import JsonObject, Result
from tailwise._validate import integer
from tailwise.bandits.algorithms import ErmUcb
from tailwise.bandits.arms import make_bandit
from tailwise.bandits.simulate import ESTIMATORS, BanditRun, simulate

STUDY_CONSTANT = 0.1
STUDY_BETAS = (-1.0, 0.1, 1.0, 3.0)


@dataclass(frozen=True)
class ConvergenceRow(Result):
    """How fast one estimator approached mu* in one setting.

    Attributes
    ----------
    bandit, estimator, measure : str
        Which bandit; "average" or "stream"; "absolute" or "bias" (see :meth:`BanditRun.exponent`).
    beta : float
        Risk level.
    slope, low, high : float
        Measured exponent of n with its interval.
    theory : float
        The theorem's exponent, eta' - 1.
    transient : float
        How much flatter the exponent is at the middle of the measured range, see the module's docstring.
    bias, error : float
        Mean of estimate minus mu* at the last n, and its standard error.
    """

    bandit: str
    beta: float
    estimator: str
    measure: str
    slope: float
    low: float
    high: float
    theory: float
    transient: float
    bias: float
    error: float

    @property
    def is_no_slower(self) -> bool:
        """Whether the interval admits the theorem's exponent (plus the transient), or a faster decay."""
        return self.low <= self.theory + self.transient

    def to_dict(self) -> JsonObject:
        """Return the attributes and ``is_no_slower`` as plain values, ready for ``json.dumps``."""
        return {**super().to_dict(), "is_no_slower": self.is_no_slower}


def runs_over_beta(
    name: str,
    *,
    betas: Sequence[float] = STUDY_BETAS,
    constant: float,
    pulls: int,
    replications: int,
    seed: Seed = 0,
    threads: int = 1,
    progress: Progress = None,
) -> tuple[BanditRun, ...]:
    """Run :class:`ErmUcb` with eta = 1/2 on the example bandit ``name`` at each beta; every beta has its own stream."""
    bandit, children = make_bandit(name), seed_sequence(seed).spawn(len(betas))
    runs: list[BanditRun] = []
    with followed(progress, "pulling", len(betas)) as tick:
        for beta, child in zip(betas, children, strict=True):
            rule = ErmUcb(beta, constant)
            runs.append(simulate(bandit, rule, pulls=pulls, replications=replications, seed=child, threads=threads))
            tick(len(runs))
    return tuple(runs)


def convergence_rows(name: str, run: BanditRun, *, start: int, batches: int = 20) -> tuple[ConvergenceRow, ...]:
    """Summarise a run of :class:`ErmUcb`: four rows, one per estimator and measure.

    Parameters
    ----------
    name : str
        How to call the bandit.
    run : BanditRun
        At least ``batches`` replications, with checkpoints beyond ``start``.
    start, batches : int
        First n that counts, and independent groups of replications; see :meth:`BanditRun.exponent`.

    Returns
    -------
    tuple of ConvergenceRow
        Absolute error and bias of the average, then of the stream.
    """
    theory, algorithm = theorem_exponent(run), run.algorithm
    assert isinstance(algorithm, ErmUcb)
    middle = math.sqrt(start * float(run.checkpoints[-1]))
    shift = transient(algorithm, run.bandit.gap(algorithm.beta), middle)
    rows = []
    for estimator in ESTIMATORS:
        bias, error = run.bias(estimator)
        for measure in ("absolute", "bias"):
            fit = run.exponent(estimator, measure=measure, start=start, batches=batches)
            ends = (fit.slope, fit.low, fit.high, theory, shift, float(bias[-1]), float(error[-1]))
            rows.append(ConvergenceRow(name, algorithm.beta, estimator, measure, *ends))
    return tuple(rows)


def theorem_exponent(run: BanditRun) -> float:
    """Return the exponent of n that the theorems give for a run of :class:`ErmUcb`: eta' - 1."""
    algorithm = run.algorithm
    assert isinstance(algorithm, ErmUcb)
    assert algorithm.exponent is not None
    return algorithm.exponent / (1.0 - algorithm.eta) - 1.0


def transient(algorithm: ErmUcb, gap: float, count: float) -> float:
    """Return how much flatter than the theorem's the local exponent is at n = ``count``.

    Parameters
    ----------
    algorithm : ErmUcb
        Gives constant, eta and q = alpha/xi.
    gap : float
        Delta_min, > 0.
    count : float
        n, >= 1.

    Returns
    -------
    float
        In [0, 1).

    Examples
    --------
    >>> from tailwise.bandits import ErmUcb
    >>> from tailwise.reproduction import transient
    >>> round(transient(ErmUcb(1.0), gap=0.44, count=1e5), 3)
    0.077
    """
    assert algorithm.exponent is not None
    room = 1.0 - algorithm.eta - algorithm.exponent
    size = algorithm.constant * count**-room / gap
    return float(room / (1.0 - algorithm.eta) * size / (1.0 + size))


class StudySetting(NamedTuple):
    """One run of a study, with its own stream."""

    name: str
    beta: float
    seed: np.random.SeedSequence


@dataclass(frozen=True)
class ConvergenceStudy:
    """The exponents of both estimators on example bandits, over the last 1.5 decades of n: what is measured.

    Parameters
    ----------
    names : sequence of str
        Names for :func:`make_bandit`.
    betas : sequence of float
        Risk levels.
    constant : float, default 0.1
        Bonus constant of :class:`ErmUcb`, at eta = 1/2.
    pulls, replications : int
        Size of each run; at least two replications, which form at most 20 batches.
    seed : None, int, SeedSequence or Generator
        Every bandit gets its own child.
    """

    names: Sequence[str]
    betas: Sequence[float] = STUDY_BETAS
    constant: float = STUDY_CONSTANT
    pulls: int = 100_000
    replications: int = 100
    seed: Seed = 0

    def settings(self) -> list[StudySetting]:
        """Return its runs, in order."""
        children = zip(self.names, seed_sequence(self.seed).spawn(len(self.names)), strict=True)
        return [
            StudySetting(name, beta, one)
            for name, child in children
            for beta, one in zip(self.betas, child.spawn(len(self.betas)), strict=True)
        ]

    def rows(self, setting: StudySetting, threads: int = 1) -> tuple[ConvergenceRow, ...]:
        """Return the rows of one run."""
        batches = min(20, integer(self.replications, "replications", low=2, hint="an interval needs at least two"))
        rule, bandit = ErmUcb(setting.beta, self.constant), make_bandit(setting.name)
        run = simulate(
            bandit, rule, pulls=self.pulls, replications=self.replications, seed=setting.seed, threads=threads
        )
        return convergence_rows(setting.name, run, start=max(1, self.pulls // 30), batches=batches)


def convergence_study(
    study: ConvergenceStudy, *, threads: int = 1, progress: Progress = None
) -> tuple[ConvergenceRow, ...]:
    """Run a study.

    Parameters
    ----------
    study : ConvergenceStudy
        What is measured.
    threads : int, default 1
        Does not change the result.
    progress : bool or callable, optional
        True shows a bar; a function is called with (runs done, of how many).

    Returns
    -------
    tuple of ConvergenceRow
        Four rows per bandit and beta.
    """
    settings = study.settings()
    rows: list[ConvergenceRow] = []
    with followed(progress, "pulling", len(settings)) as tick:
        for done, setting in enumerate(settings):
            rows += study.rows(setting, threads)
            tick(done + 1)
    return tuple(rows)
