"""Independent pieces of work, each done by one call: a task is a block of them, done to its end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tailwise._progress import Progress, followed
from tailwise.errors import WorkersLostError
from tailwise.scale.cluster import Report, WorkerPool
from tailwise.scale.pickling import packed
from tailwise.scale.scheduler import Gathered, Scheduler


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

    Parameters
    ----------
    work : sequence of float
        How much each is; ``done`` was done before, and the progress counts both.
    keep : callable, optional
        Told each report, once, as it comes.
    rescued : callable, optional
        What an error that all workers are lost takes along, from what was gathered.
    """
    job = packed(_Blocks(function, arguments, work), model, model_path)
    with WorkerPool(job, min(workers, len(work))) as pool, followed(progress, verb, done + sum(work)) as tick:
        follow = None if tick is None else lambda found, used: tick(done + found.work)
        try:
            return Scheduler(pool, len(work), restarts=restarts, progress=follow, keep=keep).run()
        except WorkersLostError as error:
            error.gathered = rescued(error.gathered)
            raise
