"""Run an algorithm on a bandit, many times over: both estimators of the root, and how often each arm was pulled.

The estimators (paper, Sec. "Risk-aware multi-armed bandits")::

    rho_bar_n    = sum_i T_i(n)/n rho_i                           the average
    rho_stream_n = ln(sum_i T_i(n)/n exp(beta rho_i)) / beta      the ERM of all n costs

By Jensen's inequality rho_stream >= rho_bar for beta > 0, and <= for beta < 0; they agree at beta = 0.
Every replication draws from its own SFC64 stream, spawned from the seed: the result depends neither on the
number of threads nor on how many replications run beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints
from tailwise._jit import kernel_for
from tailwise._progress import Progress, followed, untold
from tailwise._random import Seed, seed_sequence
from tailwise._results import JsonObject, Result, plain
from tailwise._validate import choice, integer, listing, real, thread_count
from tailwise.bandits._kernels import GUIDES, run_many
from tailwise.bandits.algorithms import BanditAlgorithm
from tailwise.bandits.arms import Bandit, Drift
from tailwise.bandits.distributions import BoundedDistribution
from tailwise.errors import OptionError
from tailwise.theory.rates import ExponentFit, fit_exponent

_MOST_PULLS = 10**10  # minutes of one replication
_MOST_NUMBERS = 2**27  # of the record, in all: a gigabyte
_PARTS = 100  # told of, one after the other


def simulate(
    bandit: Bandit,
    algorithm: BanditAlgorithm,
    *,
    pulls: int,
    replications: int = 100,
    checkpoints: Sequence[int] | None = None,
    seed: Seed = None,
    threads: int = 1,
    progress: Progress = None,
) -> BanditRun:
    """Run ``algorithm`` on ``bandit``, ``replications`` times independently.

    Parameters
    ----------
    bandit : Bandit
        The arms.
    algorithm : BanditAlgorithm
        The rule, with its risk level.
    pulls : int
        Pulls of each replication, at least the number of arms.
    replications : int, default 100
        Independent repetitions.
    checkpoints : sequence of int, optional
        Numbers of pulls at which to record, ascending, at most ``pulls``; by default about 6 per decade.
    seed : None, int, SeedSequence or Generator
        Replication r uses the r-th child of its seed sequence.
    threads : int, default 1
        Does not change the result.
    progress : bool or callable, optional
        True shows a bar; a function is called with (replications done, of how many).

    Returns
    -------
    BanditRun
        Counts and both estimators at every checkpoint.

    Raises
    ------
    OptionError
        If an argument is out of range.

    Notes
    -----
    O(pulls K) per replication, O(K) memory besides the record.

    Examples
    --------
    >>> from tailwise.bandits import Arm, Bandit, ErmUcb, bernoulli, simulate, uniform
    >>> bandit = Bandit((Arm.of(uniform(0.3, 0.5)), Arm.of(bernoulli(0.35))))
    >>> run = simulate(bandit, ErmUcb(beta=3.0), pulls=1000, replications=20, seed=1)
    >>> run.counts[:, -1].mean(axis=0).argmax() == bandit.best(3.0)
    np.True_
    >>> bool((run.stream >= run.average - 1e-12).all())
    True
    """
    if not isinstance(bandit, Bandit) or not isinstance(algorithm, BanditAlgorithm):
        raise OptionError(f"simulate takes a Bandit and a BanditAlgorithm, not {bandit!r} and {algorithm!r}")
    arms = len(bandit.arms)
    total = integer(pulls, "pulls", low=arms, high=_MOST_PULLS, hint="every arm is pulled once first")
    number = integer(replications, "replications", low=1)
    points = _checkpoints(checkpoints, arms, total)
    most = _MOST_NUMBERS // (points.size * (arms + 2))
    integer(number, "replications", low=1, high=max(most, 1), hint=f"each keeps a record at {points.size} checkpoints")
    words = _stream_states(seed, number)
    counts = np.zeros((number, points.size, arms), dtype=np.int64)
    average, stream = np.zeros((number, points.size)), np.zeros((number, points.size))
    tables = compile_tables(bandit)
    rule = algorithm.rule(bandit.high - bandit.low)
    kinds: list[Any] = [type(rule), type(getattr(rule, "bonus", None))]
    run = kernel_for(run_many, *kinds)
    level = float(algorithm.beta)

    def work(part: slice) -> None:
        known = (np.zeros(arms, dtype=np.int64), *(np.zeros(arms) for _ in range(3)))
        memory = np.zeros(tables.outcomes.shape[0], dtype=np.int64), known
        run(tables, rule, level, points, words[part], memory, (counts[part], average[part], stream[part]))

    workers = min(thread_count(threads), number)
    with followed(progress, "pulling", number) as tick, ThreadPoolExecutor(workers) as pool:
        parts = workers if tick is untold else min(number, max(workers, _PARTS))
        edges = np.linspace(0, number, parts + 1).astype(int).tolist()
        try:
            ended = pool.map(work, itertools.starmap(slice, itertools.pairwise(edges)))
            for done, _ in zip(edges[1:], ended, strict=True):
                tick(done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return BanditRun(bandit, algorithm, points, counts, average, stream, bandit.risks(level))


def _checkpoints(given: Sequence[int] | None, arms: int, pulls: int) -> NDArray[np.int64]:
    """Return checked or default checkpoints, ascending."""
    if given is None:
        number = max(2, int(6 * np.log10(pulls / arms)) + 1)
        return np.unique(np.geomspace(arms, pulls, number).round().astype(np.int64))
    wanted = listing(given, "checkpoints", "numbers")
    points = np.array([integer(point, "checkpoint", low=1, high=pulls) for point in wanted], dtype=np.int64)
    if points.size == 0 or (np.diff(points) <= 0).any():
        raise OptionError(f"checkpoints must be ascending and not empty, not {list(given)!r}")
    return points


def _stream_states(seed: Seed, number: int) -> NDArray[np.uint64]:
    """Return the initial SFC64 state of each replication, shape (number, 4)."""
    words = np.empty((number, 4), dtype=np.uint64)
    for row, child in enumerate(seed_sequence(seed).spawn(number)):
        words[row] = np.random.SFC64(child).state["state"]["state"]
    return words


class Tables(NamedTuple):
    """A bandit as the few flat arrays that the compiled loop reads: each array that it is handed costs a count."""

    outcome_start: Ints  # (K + 1,)
    cost: Floats  # (K,) immediate cost
    outcomes: Floats  # (O, 5): cumulative probability in its arm, limit and start (their indices), amplitude, decay
    guide: Ints  # (D * GUIDES,) first piece that can hold a level of the g-th of GUIDES equal parts of [0, 1)
    pieces: Floats  # (P, 4): cumulative probability before and after it in its distribution, left, width / probability
    discount: float


def compile_tables(bandit: Bandit) -> Tables:
    """Flatten a bandit."""
    known: dict[int, tuple[int, BoundedDistribution]] = {}  # by identity: arms may share a distribution

    def index(costs: BoundedDistribution) -> int:
        return known.setdefault(id(costs), (len(known), costs))[0]

    starts, rows = [0], []
    for arm in bandit.arms:
        shares = np.cumsum([outcome.probability for outcome in arm.outcomes])
        shares[-1] = 1.0
        for share, outcome in zip(shares, arm.outcomes, strict=True):
            drift = outcome.drift or Drift(outcome.distribution, amplitude=0.0)
            rows.append((share, index(outcome.distribution), index(drift.start), drift.amplitude, drift.decay))
        starts.append(len(rows))
    parts = [costs for _, costs in known.values()]
    uppers = [costs.cumulative for costs in parts]
    upper = np.concatenate(uppers)
    lower = np.concatenate([np.append(0.0, one[:-1]) for one in uppers])
    left, width = (np.concatenate([getattr(costs, name) for costs in parts]) for name in ("left", "width"))
    first_piece = np.cumsum([0, *(one.size for one in uppers[:-1])])
    levels = np.arange(GUIDES) / GUIDES
    guide = [start + np.searchsorted(one, levels, "right") for start, one in zip(first_piece, uppers, strict=True)]
    return Tables(
        outcome_start=np.array(starts, dtype=np.int64),
        cost=np.array([float(arm.cost) for arm in bandit.arms]),
        outcomes=np.array(rows, dtype=np.float64),
        guide=np.concatenate(guide).astype(np.int64),
        pieces=np.column_stack([lower, upper, left, width / (upper - lower)]),
        discount=float(bandit.discount),
    )


ESTIMATORS = ("average", "stream")


@dataclass(frozen=True, eq=False)
class BanditRun(Result):
    """What :func:`simulate` found; n ranges over the checkpoints.

    Attributes
    ----------
    bandit, algorithm : Bandit, BanditAlgorithm
        What was run.
    checkpoints : ndarray of int64, shape (m,)
        Numbers of pulls n at which the state was recorded.
    counts : ndarray of int64, shape (replications, m, K)
        T_i(n).
    average, stream : ndarray of float64, shape (replications, m)
        rho_bar_n and rho_stream_n.
    risks : ndarray of float64, shape (K,)
        Exact limit mu_i of each arm at the algorithm's beta.
    """

    bandit: Bandit
    algorithm: BanditAlgorithm
    checkpoints: NDArray[np.int64]
    counts: NDArray[np.int64]
    average: Floats
    stream: Floats
    risks: Floats

    @property
    def optimum(self) -> float:
        """mu*, the least of the arms' limits."""
        return float(self.risks.min())

    def errors(self, estimator: str = "stream") -> Floats:
        """Return estimate minus mu*, shape (replications, m)."""
        name = choice(estimator, "estimator", ESTIMATORS)
        return (self.average if name == "average" else self.stream) - self.optimum

    def bias(self, estimator: str = "stream") -> tuple[Floats, Floats]:
        """Return the mean error at each n and its standard error (NaN for one replication), each of shape (m,)."""
        return _mean_and_error(self.errors(estimator))

    def regret(self) -> Floats:
        """Return the mean of ``sum_i (mu_i - mu*) T_i(n)``, shape (m,)."""
        return self._regret()[0]

    def _regret(self) -> tuple[Floats, Floats]:
        return _mean_and_error(self.counts @ (self.risks - self.optimum))

    def exponent(
        self,
        estimator: str = "stream",
        *,
        measure: str = "absolute",
        start: int = 1,
        batches: int = 20,
        confidence: float = 0.95,
    ) -> ExponentFit:
        """Measure the power of n with which the error decays.

        Parameters
        ----------
        estimator : {"average", "stream"}
            Which estimator.
        measure : {"absolute", "bias"}
            The mean of the absolute error (what the proofs bound), or the absolute mean error.
        start : int
            First n that counts.
        batches : int
            Independent groups of replications, one line each.
        confidence : float in (0, 1)
            Coverage of the interval.

        Returns
        -------
        ExponentFit
            Slope of ln error against ln n, with its interval.
        """
        errors = self.errors(estimator)[:, self.checkpoints >= start]
        number = integer(batches, "batches", low=2, high=errors.shape[0])
        kind = choice(measure, "measure", ("absolute", "bias"))
        groups = np.array_split(errors, number)
        pooled = [np.abs(g).mean(axis=0) if kind == "absolute" else np.abs(g.mean(axis=0)) for g in groups]
        return fit_exponent(self.checkpoints[self.checkpoints >= start], pooled, confidence=confidence)

    def tail_frequency(self, deviation: float, eta: float, estimator: str = "stream") -> tuple[Floats, Floats]:
        """Return the share of replications with ``n error >= n^eta z`` and ``<= -n^eta z``, each of shape (m,).

        Parameters
        ----------
        deviation : float
            z >= 1 (any positive number is allowed).
        eta : float
            The exponent eta' of the bound.
        estimator : {"average", "stream"}
            Which estimator.

        Returns
        -------
        tuple of two ndarray of float64
            Upper and lower tail frequencies.
        """
        far = real(deviation, "deviation", low=0.0, ends="(]")
        scaled = self.errors(estimator) * self.checkpoints ** (1.0 - real(eta, "eta"))
        return (scaled >= far).mean(axis=0), (scaled <= -far).mean(axis=0)

    def to_dict(self) -> JsonObject:
        """Return the means over the replications at each checkpoint, as plain values ready for ``json.dumps``.

        Returns
        -------
        dict
            beta, replications, pulls (the checkpoints), risks and shares of the arms, and of both estimators
            the bias with its standard error, as of the regret.
        """
        (average, average_error), (stream, stream_error) = self.bias("average"), self.bias("stream")
        regret, regret_error = self._regret()
        content: Any = plain({
            "beta": self.algorithm.beta,
            "replications": self.counts.shape[0],
            "risks": self.risks,
            "shares": self.counts[:, -1].mean(axis=0) / self.checkpoints[-1],
            "pulls": self.checkpoints,
            "average_bias": average,
            "average_error": average_error,
            "stream_bias": stream,
            "stream_error": stream_error,
            "regret": regret,
            "regret_error": regret_error,
        })  # fmt: skip
        return dict(content)


def _mean_and_error(values: Floats) -> tuple[Floats, Floats]:
    """Mean over the replications (the first axis), and its standard error (NaN for a single one)."""
    number = values.shape[0]
    spread = values.std(axis=0, ddof=1) if number > 1 else np.full(values.shape[1:], np.nan)
    return np.asarray(values.mean(axis=0)), np.asarray(spread / np.sqrt(number))
