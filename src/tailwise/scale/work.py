"""The same work on a cluster: the trees of a plan, the episodes of a sample, and the paper's experiments.

Tree 0 draws from the search's own stream, tree k from the k-th child of its seed: what ``plan(threads=)`` does in one
process, so that with a limit of iterations the merged plan is the same, bit for bit, whoever grew the trees.

Each episode has streams of its own, from the seed and its number: the sample is that of :func:`tailwise.evaluate`, bit
for bit, whoever played it.

The folder is the one that :func:`tailwise.reproduction.reproduce` writes, byte for byte, and resumes like it: an
experiment is written once all of its blocks of episodes are in. Of the studies of bandits a worker does a run, and only
its rows travel back.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tailwise._progress import PlanProgress, Progress, followed_plan
from tailwise._random import Seed, seed_sequence
from tailwise._validate import integer, truth
from tailwise.errors import OptionError, WorkersLostError
from tailwise.evaluation import Returns
from tailwise.evaluation.closed_loop import checked_limits, child, world_name
from tailwise.evaluation.episodes import Episodes
from tailwise.models.check import require_model
from tailwise.planners import Planner
from tailwise.reproduction import Settings
from tailwise.reproduction.bandit_studies import ConvergenceRow, ConvergenceStudy
from tailwise.reproduction.experiments import Experiment, list_experiments
from tailwise.reproduction.runner import RunFolder, Sample, keep, opened, play
from tailwise.scale.cluster import Report, WorkerPool, connected, packed
from tailwise.scale.scheduler import Blocks, Gathered, Scheduler, blocks_of, run_blocks
from tailwise.search import AnytimeSearch, Plan, StopReason, TreeSearch
from tailwise.search.action_rows import RootStatistics
from tailwise.search.anytime import plan_limits

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
    for flag, option in ((reuse, "reuse"), (partial, "partial")):
        truth(flag, option)
    limits = (iterations, seconds)
    if isinstance(planner_or_policy, Planner) and not hasattr(planner_or_policy, "fixed_policy"):
        limits = checked_limits(iterations, seconds)
    name = str(label if label is not None else getattr(planner_or_policy, "kind", type(planner_or_policy).__name__))
    played = Episodes(model, planner_or_policy, root, limits, reuse).play

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
        work = Blocks(played, [(block,) for block in blocks], [len(block) for block in blocks], "playing")
        try:
            found = run_blocks(
                work, workers=size, restarts=restarts, progress=progress, model=model, model_path=model_path
            )
        except WorkersLostError as error:
            error.gathered = returns(error.gathered)
            raise
    sample = returns(found)
    if sample is None or (sample.episodes < count and not partial):
        raise KeyboardInterrupt
    return sample


_OF_EACH = 2  # of each experiment, for each worker


def reproduce(
    out: str | Path,
    settings: Settings | None = None,
    *,
    address: str = "local",
    workers: int | None = None,
    resume: bool = False,
    progress: Progress = None,
    restarts: int = 10,
) -> RunFolder:
    """Run the paper's experiments on a cluster: :func:`tailwise.reproduction.reproduce` with the same files.

    Parameters
    ----------
    out, settings, resume, progress
        As there.
    address, workers, restarts
        As for :func:`tailwise.scale.plan`.

    Returns
    -------
    RunFolder
        The folder, complete.

    Raises
    ------
    WorkersLostError
        If no worker is left. Experiments that were complete are in the folder, and ``resume`` goes on with the rest.
    """
    folder, missing = opened(out, settings, resume=resume)
    if not missing:
        return folder
    done = sum(one.work for one in list_experiments(folder.settings)) - sum(one.work for one in missing)
    with connected(address, workers) as size:
        blocks = [
            (one, folder.settings.seed, part) for one in missing for part in blocks_of(one.episodes, _OF_EACH * size)
        ]
        samples: dict[Experiment, dict[int, Sample]] = {experiment: {} for experiment in missing}
        wanted = {experiment: [part.start for one, _, part in blocks if one == experiment] for experiment in missing}

        def note(report: Report) -> None:
            experiment, _, part = blocks[report.task]
            parts = samples[experiment]
            parts[part.start] = report.content
            if len(parts) == len(wanted[experiment]):
                keep(folder, experiment, [parts[start] for start in wanted[experiment]])
                del samples[experiment]

        work = [one.work * len(part) / one.episodes for one, _, part in blocks]
        job = Blocks(play, blocks, work, "reproducing", float(done))
        found = run_blocks(job, workers=size, restarts=restarts, progress=progress, keep=note)
    if found.stopped is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    return folder


def convergence_study(
    study: ConvergenceStudy,
    *,
    address: str = "local",
    workers: int | None = None,
    progress: Progress = None,
    restarts: int = 10,
) -> tuple[ConvergenceRow, ...]:
    """Run a study of bandits on a cluster: :func:`tailwise.reproduction.convergence_study` with the same result.

    Parameters
    ----------
    study, progress
        As there.
    address, workers, restarts
        As for :func:`tailwise.scale.plan`.

    Returns
    -------
    tuple of ConvergenceRow
        Four rows per bandit and beta.

    Raises
    ------
    WorkersLostError
        If no worker is left.
    """
    runs = [(setting,) for setting in study.settings()]
    with connected(address, workers) as size:
        job = Blocks(study.rows, runs, [1.0] * len(runs), "pulling")
        found = run_blocks(job, workers=size, restarts=restarts, progress=progress)
    if found.stopped is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    return tuple(row for task in range(len(runs)) for row in found.reports[task].content)


_SAMPLES = 4096  # of each action, from all trees together


class TreeJob:
    """The trees of one search; tree 0 has its seed, tree k the k-th child. The seconds are those of each tree."""

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
