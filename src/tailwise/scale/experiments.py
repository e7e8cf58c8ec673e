"""``scale.reproduce``: the paper's experiments, spread over a cluster in blocks of episodes.

The folder is the one that :func:`tailwise.reproduction.reproduce` writes, byte for byte, and resumes like it: an
experiment is written once all of its blocks are in.
"""

from __future__ import annotations

from pathlib import Path

from tailwise._progress import Progress, followed
from tailwise.reproduction import Settings
from tailwise.reproduction.experiments import Experiment, list_experiments
from tailwise.reproduction.runner import Sample, keep, opened, play
from tailwise.reproduction.storage import RunFolder
from tailwise.scale.cluster import RayCrew, connected
from tailwise.scale.episodes import blocks_of
from tailwise.scale.gathering import Gathered, Report, gather
from tailwise.scale.travel import packed
from tailwise.search import StopReason

_BLOCKS = 2  # of each experiment, for each worker


class ExperimentsJob:
    """Blocks of episodes of several experiments."""

    def __init__(self, blocks: list[tuple[Experiment, range]], seed: int) -> None:
        self._blocks, self._seed = blocks, seed

    def begin(self) -> None:
        """Nothing has to be got ready."""

    def run(self, task: int, seconds: float) -> Report:
        """Play a block, to its end."""
        experiment, episodes = self._blocks[task]
        work = experiment.work * len(episodes) / experiment.episodes
        return Report(task, play(experiment, self._seed, episodes), work, True)


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
    whole = float(sum(experiment.work for experiment in list_experiments(folder.settings)))
    before = whole - float(sum(experiment.work for experiment in missing))
    with connected(address, workers) as size:
        blocks = [
            (experiment, part) for experiment in missing for part in blocks_of(experiment.episodes, _BLOCKS * size)
        ]
        samples: dict[Experiment, dict[int, Sample]] = {experiment: {} for experiment in missing}
        wanted = {experiment: [part.start for one, part in blocks if one == experiment] for experiment in missing}

        def note(report: Report) -> None:
            experiment, part = blocks[report.task]
            parts = samples[experiment]
            parts[part.start] = report.content
            if len(parts) == len(wanted[experiment]):
                keep(folder, experiment, [parts[start] for start in wanted[experiment]])
                del samples[experiment]

        if blocks:
            content = packed(ExperimentsJob(blocks, folder.settings.seed))
            with RayCrew(content, min(size, len(blocks))) as crew, followed(progress, "reproducing", whole) as tick:

                def tell(found: Gathered, used: float) -> None:
                    if tick is not None:
                        tick(before + sum(report.work for report in found.reports.values()))

                found = gather(crew, range(len(blocks)), restarts=restarts, progress=tell, keep=note)
            if found.stopped is StopReason.INTERRUPTED:
                raise KeyboardInterrupt
    return folder
