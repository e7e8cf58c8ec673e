"""Run what is missing of a reproduction."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._progress import Progress, followed
from tailwise._validate import thread_count
from tailwise.evaluation.episodes import Episodes
from tailwise.exact import action_frequencies, backward_induction, policy_risk
from tailwise.reproduction.conditional_returns import integrate_episodes
from tailwise.reproduction.experiments import Experiment, Settings, list_experiments
from tailwise.reproduction.published import ORACLE
from tailwise.reproduction.storage import RunFolder
from tailwise.reproduction.variants import variant_planner


def reproduce(
    out: str | Path,
    settings: Settings | None = None,
    *,
    threads: int = 1,
    resume: bool = False,
    progress: Progress = None,
) -> RunFolder:
    """Run the paper's experiments and keep their samples.

    Parameters
    ----------
    out : str or Path
        Output folder; a new or empty one, or with ``resume`` that of the same run.
    settings : Settings, optional
        What to run; everything, as in the paper, if not given.
    threads : int, default 1
        Threads over the episodes of an experiment. They do not change the result.
    resume : bool, default False
        Go on with a run that was interrupted.
    progress : bool or callable, optional
        True shows a bar; a function is called with (iterations done, of how many).

    Returns
    -------
    RunFolder
        The folder, complete: see :func:`tailwise.reproduction.summarise`.

    Raises
    ------
    RunError
        If the folder holds something else, or a file in it is damaged.
    """
    workers = thread_count(threads)
    folder, missing = opened(out, settings, resume=resume)
    work = float(sum(experiment.work for experiment in list_experiments(folder.settings)))
    done = work - float(sum(experiment.work for experiment in missing))
    with followed(progress, "reproducing", work) as tick:
        for experiment in missing:
            if tick is not None:
                tick(done)
            begun = time.perf_counter()
            keep(folder, experiment, [play(experiment, folder.settings.seed, range(experiment.episodes), workers)])
            with (folder.path / "timing.log").open("a") as log:
                log.write(f"{time.perf_counter() - begun:9.3f} s  {experiment.name}\n")
            done += experiment.work
        if tick is not None:
            tick(done)
    return folder


def opened(out: str | Path, settings: Settings | None, *, resume: bool) -> tuple[RunFolder, list[Experiment]]:
    """Return the folder of a run, and the experiments that it lacks.

    Raises
    ------
    RunError
        If the folder holds something else, or a file in it is damaged: that is found before hours of work, not after.
    """
    folder = RunFolder(Path(out), Settings() if settings is None else settings, resume=resume)
    experiments = list_experiments(folder.settings)
    present = {experiment for experiment in experiments if folder.has(experiment)}
    for experiment in present:
        folder.load(experiment)
    return folder, [experiment for experiment in experiments if experiment not in present]


class Sample(NamedTuple):
    """What some episodes of an experiment gave."""

    totals: NDArray[np.float64]
    decisions: NDArray[np.int32] | None  # of plain episodes of a planner
    mixture: NDArray[np.float64] | None  # of conditional Monte Carlo: (episode, total, probability)


def play(experiment: Experiment, seed: int, episodes: range, threads: int = 1) -> Sample:
    """Play some episodes of an experiment, under the root seed of the whole run."""
    mdp, root = experiment.table(), experiment.seed_sequence(seed)
    if experiment.algorithm == ORACLE:
        policy = backward_induction(mdp, experiment.beta)
        return Sample(Episodes(mdp, policy, root).play(episodes)[0], None, None)
    planner = variant_planner(mdp, experiment.beta, experiment.algorithm, experiment.variant)
    if experiment.is_conditional:
        mixture, totals = integrate_episodes(mdp, planner, episodes, root, experiment.iterations, threads=threads)
        return Sample(totals, None, mixture)
    limits = (experiment.iterations, None)
    totals, decisions, _ = Episodes(mdp, planner, root, limits).play(episodes, threads=threads)
    return Sample(totals, decisions, None)


def keep(folder: RunFolder, experiment: Experiment, parts: Sequence[Sample]) -> None:
    """Write the samples of an experiment, all of whose episodes are in ``parts``, in order."""
    totals = np.concatenate([part.totals for part in parts])
    mixtures = [part.mixture for part in parts if part.mixture is not None]
    decisions = [part.decisions for part in parts if part.decisions is not None]
    facts: dict[str, float] = {}
    if decisions:
        mdp = experiment.table()
        shares = action_frequencies(mdp, np.concatenate(decisions))
        facts["frequency_risk"] = policy_risk(mdp, shares, experiment.beta)
    folder.save(experiment, totals, facts, np.concatenate(mixtures) if mixtures else None)
