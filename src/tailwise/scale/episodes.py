"""``scale.evaluate``: the episodes of a sample, spread over a cluster in blocks.

Each episode has streams of its own, from the seed and its number: the sample is that of :func:`tailwise.evaluate`, bit
for bit, whoever played it. :func:`run_blocks` hands out whatever is made of independent pieces: a task is a block.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tailwise._progress import Progress, followed
from tailwise._random import Seed, seed_sequence
from tailwise._validate import integer
from tailwise.errors import WorkersLostError
from tailwise.evaluation import Returns
from tailwise.evaluation.closed_loop import checked_limits
from tailwise.evaluation.episodes import play_episodes
from tailwise.evaluation.streams import world_name
from tailwise.models.check import require_model
from tailwise.planners import Planner
from tailwise.scale.cluster import Report, WorkerPool, connected
from tailwise.scale.pickling import packed
from tailwise.scale.scheduler import Gathered, Scheduler

_BLOCKS = 4  # for each worker


def evaluate(
    model: Any,
    planner_or_policy: Any,
    *,
    episodes: int,
    seed: Seed = None,
    iterations: int | None = None,
    seconds: float | None = None,
    reuse: bool = True,
    label: str | None = None,
    address: str = "local",
    workers: int | None = None,
    progress: Progress = None,
    partial: bool = False,
    model_path: str | None = None,
    restarts: int = 10,
) -> Returns:
    """Play closed-loop episodes on a cluster: :func:`tailwise.evaluate` with the same result.

    Parameters
    ----------
    model, planner_or_policy, episodes, seed, iterations, seconds, reuse, label, progress, partial
        As for :func:`tailwise.evaluate`.
    address, workers, model_path, restarts
        As for :func:`tailwise.scale.plan`.

    Returns
    -------
    tailwise.Returns
        The sample; its ``notes`` say whether workers were lost.

    Raises
    ------
    WorkersLostError
        If no worker is left; its ``gathered`` are the returns of the episodes before the first that is missing, or
        None.
    """
    require_model(model)
    count, root = integer(episodes, "episodes", low=1), seed_sequence(seed)
    limits = (iterations, seconds)
    if isinstance(planner_or_policy, Planner) and not hasattr(planner_or_policy, "fixed_policy"):
        limits = checked_limits(iterations, seconds)
    name = str(label if label is not None else getattr(planner_or_policy, "kind", type(planner_or_policy).__name__))
    play = functools.partial(play_episodes, model, planner_or_policy, root=root, limits=limits, reuse=reuse)

    def returns(found: Gathered) -> Returns | None:
        known = 0
        while known in found.reports:
            known += 1
        if not known:
            return None
        contents = [found.reports[k].content for k in range(known)]
        totals = np.concatenate([totals for totals, _, _ in contents])
        decisions = None if contents[0][1] is None else np.concatenate([taken for _, taken, _ in contents])
        notes = found.notes(len(blocks), "blocks of episodes")
        if totals.size < count:
            notes = (*notes, f"interrupted: the first {totals.size} of {count} episodes are here")
        return Returns(totals, model.sense, name, world_name(root, model), decisions, notes)

    with connected(address, workers) as size:
        blocks = blocks_of(count, _BLOCKS * size)
        found = run_blocks(
            play, [(block,) for block in blocks], [len(block) for block in blocks], workers=size, restarts=restarts,
            progress=progress, verb="playing", model=model, model_path=model_path, rescued=returns,
        )  # fmt: skip
    sample = returns(found)
    if sample is None or (sample.episodes < count and not partial):
        raise KeyboardInterrupt
    return sample


class _Blocks:
    """Task k is a call of ``function`` with the k-th arguments."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any], work: Sequence[float]) -> None:
        self._function, self._arguments, self._work = function, arguments, work

    def begin(self) -> None:
        """Nothing has to be got ready."""

    def run(self, task: int, seconds: float) -> Report:
        """Do a block, to its end."""
        return Report(task, self._function(*self._arguments[task]), self._work[task], True)


def blocks_of(episodes: int, blocks: int) -> list[range]:
    """Return the numbers of all episodes in so many blocks of about equal size, none empty."""
    edges = np.linspace(0, episodes, min(episodes, blocks) + 1).astype(int).tolist()
    return [range(first, last) for first, last in itertools.pairwise(edges)]


def run_blocks(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    work: Sequence[float],
    *,
    workers: int,
    restarts: int,
    progress: Progress,
    verb: str,
    done: float = 0.0,
    model: Any = None,
    model_path: str | None = None,
    keep: Callable[[Report], None] | None = None,
    rescued: Callable[[Gathered], Any] = lambda found: found,
) -> Gathered:
    """Call ``function`` with each of ``arguments`` on a cluster that is connected.

    ``work`` says how much each is, and ``done`` what was done before: the progress counts both. ``keep`` is told each
    report, once, as it comes. Of what was gathered when all workers are lost, the error takes ``rescued``.
    """
    job = packed(_Blocks(function, arguments, work), model, model_path)
    with WorkerPool(job, min(workers, len(work))) as pool, followed(progress, verb, done + sum(work)) as tick:
        follow = None if tick is None else lambda found, used: tick(done + found.work)
        try:
            return Scheduler(pool, len(work), restarts=restarts, progress=follow, keep=keep).run()
        except WorkersLostError as error:
            error.gathered = rescued(error.gathered)
            raise
