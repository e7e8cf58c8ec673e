"""Work in blocks, spread over a cluster: the episodes of a sample, and the paper's experiments.

Each episode has streams of its own, from the seed and its number: the sample is that of :func:`tailwise.evaluate`, bit
for bit, whoever played it. :func:`run_blocks` hands out whatever is made of independent pieces: a task is a block.

The folder is the one that :func:`tailwise.reproduction.reproduce` writes, byte for byte, and resumes like it: an
experiment is written once all of its blocks of episodes are in. Of the studies of bandits a worker does a run, and only
its rows travel back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tailwise._progress import Progress, followed
from tailwise._random import Seed, seed_sequence
from tailwise._validate import integer
from tailwise.errors import WorkersLostError
from tailwise.evaluation import Returns
from tailwise.evaluation.closed_loop import checked_limits, world_name
from tailwise.evaluation.episodes import Episodes
from tailwise.models.check import require_model
from tailwise.planners import Planner
from tailwise.reproduction import Settings
from tailwise.reproduction.bandit_studies import ConvergenceRow, ConvergenceStudy
from tailwise.reproduction.experiments import Experiment, list_experiments
from tailwise.reproduction.runner import RunFolder, Sample, keep, opened, play
from tailwise.scale.cluster import Report, WorkerPool, connected, packed
from tailwise.scale.scheduler import Gathered, Scheduler
from tailwise.search import StopReason

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


@dataclass(frozen=True)
class Blocks:
    """Independent pieces of work: task k is a call of ``function`` with the k-th ``arguments``.

    ``work`` says how much each is, and ``done`` what was done before: the progress, called ``verb``, counts both.
    """

    function: Callable[..., Any]
    arguments: Sequence[Any]
    work: Sequence[float]
    verb: str
    done: float = 0.0

    def begin(self) -> None:
        """Nothing has to be got ready."""

    def run(self, task: int, seconds: float) -> Report:
        """Do a block, to its end."""
        return Report(task, self.function(*self.arguments[task]), self.work[task], True)


def blocks_of(episodes: int, blocks: int) -> list[range]:
    """Return the numbers of all episodes in so many blocks of about equal size, none empty."""
    edges = np.linspace(0, episodes, min(episodes, blocks) + 1).astype(int).tolist()
    return [range(first, last) for first, last in itertools.pairwise(edges)]


def run_blocks(
    blocks: Blocks,
    *,
    workers: int,
    restarts: int,
    progress: Progress,
    model: Any = None,
    model_path: str | None = None,
    keep: Callable[[Report], None] | None = None,
) -> Gathered:
    """Do blocks on a cluster that is connected; ``keep`` is told each report, once, as it comes."""
    job, size, done = packed(blocks, model, model_path), len(blocks.work), blocks.done
    with WorkerPool(job, min(workers, size)) as pool, followed(progress, blocks.verb, done + sum(blocks.work)) as tick:
        return Scheduler(
            pool, size, restarts=restarts, watch=lambda found, used: tick(done + found.work), keep=keep
        ).run()  # fmt: skip


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
