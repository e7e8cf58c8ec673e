"""Run an algorithm on a bandit, many times over.

Every replication draws from its own SFC64 stream, spawned from the seed: the result depends neither on the
number of threads nor on how many replications run beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import kernel_for
from tailwise._progress import Progress, followed
from tailwise._random import Seed, seed_sequence
from tailwise._validate import integer, thread_count
from tailwise.bandits._kernels import GUIDES, run_many
from tailwise.bandits.algorithms import BanditAlgorithm
from tailwise.bandits.arms import Bandit, Drift
from tailwise.bandits.distributions import BoundedDistribution
from tailwise.bandits.run import BanditRun
from tailwise.errors import OptionError

_PARTS = 100  # told of, one after the other

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    total = integer(pulls, "pulls", low=arms, hint="every arm is pulled once first")
    number = integer(replications, "replications", low=1)
    points = _checkpoints(checkpoints, arms, total)
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
        parts = workers if tick is None else min(number, max(workers, _PARTS))
        edges = np.linspace(0, number, parts + 1).astype(int).tolist()
        try:
            ended = pool.map(work, itertools.starmap(slice, itertools.pairwise(edges)))
            for done, _ in zip(edges[1:], ended, strict=True):
                if tick is not None:
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
    points = np.array([integer(point, "checkpoint", low=1, high=pulls) for point in given], dtype=np.int64)
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
