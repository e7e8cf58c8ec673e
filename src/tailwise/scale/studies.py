"""``scale.convergence_study``: the bandit studies, a run on each worker; only their rows travel back."""

from __future__ import annotations

from collections.abc import Sequence

from tailwise._progress import Progress, followed
from tailwise._random import Seed
from tailwise.reproduction.bandit_studies import (
    STUDY_BETAS,
    STUDY_CONSTANT,
    ConvergenceRow,
    StudySetting,
    study_rows,
    study_settings,
)
from tailwise.scale.cluster import RayCrew, connected
from tailwise.scale.gathering import Report, gather
from tailwise.scale.travel import packed
from tailwise.search import StopReason


class StudyJob:
    """The runs of a study: task k is run k."""

    def __init__(self, settings: list[StudySetting], constant: float, pulls: int, replications: int) -> None:
        self._settings, self._constant, self._pulls, self._replications = settings, constant, pulls, replications

    def begin(self) -> None:
        """Nothing has to be got ready."""

    def run(self, task: int, seconds: float) -> Report:
        """Do a run, to its end."""
        rows = study_rows(
            self._settings[task], constant=self._constant, pulls=self._pulls, replications=self._replications
        )
        return Report(task, rows, 1.0, True)


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
    settings = study_settings(names, betas, seed)
    job = StudyJob(settings, constant, pulls, replications)
    with connected(address, workers) as size:
        content = packed(job)
        with RayCrew(content, min(size, len(settings))) as crew, followed(progress, "pulling", len(settings)) as tick:
            found = gather(
                crew, range(len(settings)), restarts=restarts,
                progress=None if tick is None else lambda found, used: tick(len(found.reports)),
            )  # fmt: skip
    if found.stopped is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    return tuple(row for task in range(len(settings)) for row in found.reports[task].content)
