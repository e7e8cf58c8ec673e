"""``scale.plan``: root-parallel search, the trees spread over a cluster.

Tree 0 draws from the search's own stream, tree k from the k-th child of its seed: what ``plan(threads=)`` does in one
process, so that with a limit of iterations the merged plan is the same, bit for bit, whoever grew the trees.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tailwise._progress import PlanProgress, followed_plan
from tailwise._validate import integer
from tailwise.errors import OptionError, WorkersLostError
from tailwise.evaluation.closed_loop import child
from tailwise.scale.cluster import Report, WorkerPool, connected, packed
from tailwise.scale.scheduler import Gathered, Scheduler
from tailwise.search import AnytimeSearch, Plan, StopReason, TreeSearch
from tailwise.search.action_rows import RootStatistics
from tailwise.search.anytime import plan_limits

_SAMPLES = 4096  # of each action, from all trees together


class TreeJob:
    """The trees of one search, to be rooted at ``root``: task k grows tree k.

    The iterations are those of all trees, the seconds of each; tree 0 has the seed, tree k its k-th child.
    """

    def __init__(
        self,
        search: TreeSearch,
        root: tuple[Any, int],
        seed: np.random.SeedSequence,
        trees: int,
        iterations: int | None,
        seconds: float | None,
    ) -> None:
        self._search, self._root, self._seed, self._trees = search, root, seed, trees
        self._iterations, self._seconds = iterations, seconds
        self._task = -1
        self._tree: TreeSearch

    def begin(self) -> None:
        """Root the search and compile the kernel."""
        AnytimeSearch.reset(self._search, *self._root)
        self._search.prepare(1)

    def run(self, task: int, seconds: float) -> Report:
        """Grow a tree for some time, and report what it knows of its root."""
        if task != self._task:
            seed = self._seed if task == 0 else child(self._seed, task - 1)
            self._tree = self._search.new_tree(seed)
            self._task, self._used, self._begun = task, 0.0, self._tree.counters().copy()
        left = None
        if self._iterations is not None:
            share = (self._iterations + self._trees - 1 - task) // self._trees
            left = share - self._tree.done_since(self._begun)
        allowed = seconds if self._seconds is None else min(seconds, self._seconds - self._used)
        begun = time.perf_counter()
        stopped = self._tree.plan(left, max(allowed, 1e-3)).stopped
        self._used += time.perf_counter() - begun
        found = self._tree.statistics(self._begun)
        is_over = self._seconds is not None and self._used >= self._seconds - 1e-3
        is_final = stopped is not StopReason.SECONDS or is_over
        most = max(1, _SAMPLES // self._trees)
        content = found._replace(samples=tuple(row[-most:] for row in found.samples))
        return Report(task, (content, stopped), float(found.iterations), is_final)


def plan(
    search: TreeSearch,
    iterations: int | None = None,
    seconds: float | None = None,
    *,
    trees: int | None = None,
    address: str = "local",
    workers: int | None = None,
    until: Callable[[Plan], bool] | None = None,
    progress: PlanProgress = None,
    model_path: str | None = None,
    report_every: float | None = None,
    restarts: int = 10,
) -> Plan:
    """Search from a root with many trees on a cluster, and merge what they find.

    Parameters
    ----------
    search : TreeSearch
        Says model, options, seed and root; it is left as it is, and what it has found is not used.
    iterations : int, optional
        Number of iterations in all, divided evenly among the trees.
    seconds : float, optional
        Wall time from when the workers are ready.
    trees : int, optional
        Number of trees; as many as workers if not given. With a limit of iterations the result depends on the seed and
        on this number alone: it is that of ``plan(iterations, threads=trees)`` on a search that has not begun, but for
        ``samples``, of which 4096 an action travel, and ``root``, which there is none of.
    address : str, default "local"
        A Ray cluster: "local" for one of this machine, which is started and ended here; "auto"; or its address.
    workers : int, optional
        As many as the cluster has CPUs, if not given.
    until : callable, optional
        Called with the plan so far when reports have come; a true result ends the work.
    progress : bool or callable, optional
        True shows a bar; a function is called with (iterations reported, seconds used).
    model_path : str, optional
        ``package.module:function`` that makes the model on the workers, where it cannot travel itself.
    report_every : float, optional
        Seconds between the reports of a worker; 1, or more where there are more than 200 workers.
    restarts : int, default 10
        How many lost workers are replaced.

    Returns
    -------
    Plan
        Its ``notes`` say what was lost or is missing.

    Raises
    ------
    OptionError
        If no limit is given, an option is out of range, or ``search`` is no tree search.
    ModelError
        If the model cannot travel, or a worker cannot import what it needs.
    WorkersLostError
        If no worker is left; its ``gathered`` is the plan of what had been reported, or None.
    """
    if not isinstance(search, TreeSearch):
        raise OptionError(f"{type(search).__name__} is no search of trees; use ErmMcts, AccMcts, NluMcts or Uct")
    search.require_decision()
    follow = followed_plan(progress, iterations, seconds)
    _, limit = plan_limits(iterations, seconds, until)
    with connected(address, workers) as size:
        count = size if trees is None else integer(trees, "trees", low=1)
        total = None if iterations is None else integer(iterations, "iterations", low=count, hint="one for each tree")
        each = None if limit is None else limit / -(-count // size)  # where trees have to take turns
        root = search.root_state, search.step
        job = TreeJob(search, root, search.seed, count, total, each)
        content = packed(job, search.problem, model_path)

        def so_far(found: Gathered) -> Plan:
            return _merged(search, found, count)

        with WorkerPool(content, min(size, count)) as pool, follow as told:

            def watch(found: Gathered, used: float) -> bool:
                told(int(found.work), used)
                return until is not None and bool(found.reports) and until(so_far(found))

            try:
                found = Scheduler(
                    pool, count, seconds=limit, report_every=report_every, restarts=restarts,
                    watch=watch,
                ).run()  # fmt: skip
            except WorkersLostError as error:
                error.gathered = so_far(error.gathered) if error.gathered.reports else None
                raise
        return so_far(found)


def _merged(search: TreeSearch, found: Gathered, count: int) -> Plan:
    """Return the plan of what was reported, merged in the order of the trees."""
    contents = [found.reports[task].content for task in sorted(found.reports)]
    if not contents:
        raise OptionError("seconds leaves no time for a first report; raise it")
    parts: list[RootStatistics] = [part for part, _ in contents]
    stopped = found.stopped
    if stopped is StopReason.ITERATIONS:  # all trees are done: why they ended
        stopped = next((reason for _, reason in contents if reason is not stopped), stopped)
    plan = search.merged_plan(parts, found.seconds, stopped)
    return dataclasses.replace(plan, notes=found.notes(count, "trees"), tree=None, origin=search.plan_origin())
