"""``scale.reproduce`` and ``scale.convergence_study``: the paper's experiments, spread over a cluster.

The folder is the one that :func:`tailwise.reproduction.reproduce` writes, byte for byte, and resumes like it: an
experiment is written once all of its blocks of episodes are in. Of the studies of bandits a worker does a run, and only
its rows travel back.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from tailwise._progress import Progress
from tailwise._random import Seed
from tailwise.reproduction import Settings
from tailwise.reproduction.bandit_studies import (
    STUDY_BETAS,
    STUDY_CONSTANT,
    ConvergenceRow,
    study_rows,
    study_settings,
)
from tailwise.reproduction.experiments import Experiment, list_experiments
from tailwise.reproduction.runner import Sample, keep, opened, play
from tailwise.reproduction.storage import RunFolder
from tailwise.scale.cluster import Report, connected
from tailwise.scale.episodes import Blocks, blocks_of, run_blocks
from tailwise.search import StopReason

_BLOCKS = 2  # of each experiment, for each worker


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
            (one, folder.settings.seed, part) for one in missing for part in blocks_of(one.episodes, _BLOCKS * size)
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
    names: Sequence[str],
    *,
    betas: Sequence[float] = STUDY_BETAS,
    constant: float = STUDY_CONSTANT,
    pulls: int = 100_000,
    replications: int = 100,
    seed: Seed = 0,
    address: str = "local",
    workers: int | None = None,
    progress: Progress = None,
    restarts: int = 10,
) -> tuple[ConvergenceRow, ...]:
    """Run a study of bandits on a cluster: :func:`tailwise.reproduction.convergence_study` with the same result.

    Parameters
    ----------
    names, betas, constant, pulls, replications, seed, progress
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
    runs = [(setting,) for setting in study_settings(names, betas, seed)]
    study = functools.partial(study_rows, constant=constant, pulls=pulls, replications=replications)
    with connected(address, workers) as size:
        job = Blocks(study, runs, [1.0] * len(runs), "pulling")
        found = run_blocks(job, workers=size, restarts=restarts, progress=progress)
    if found.stopped is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    return tuple(row for task in range(len(runs)) for row in found.reports[task].content)
