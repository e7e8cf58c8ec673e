"""Run what is missing of a reproduction."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from tailwise import domains
from tailwise._progress import Progress, followed
from tailwise._validate import integer
from tailwise.evaluation import action_frequencies, evaluate, policy_risk
from tailwise.planners import backward_induction
from tailwise.reproduction.conditional_returns import conditional_returns
from tailwise.reproduction.experiments import Experiment, Settings, list_experiments
from tailwise.reproduction.published import ORACLE
from tailwise.reproduction.storage import RunFolder
from tailwise.reproduction.variants import make_planner


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
    workers = integer(threads, "threads", low=1)
    folder = RunFolder(Path(out), Settings() if settings is None else settings, resume=resume)
    experiments = list_experiments(folder.settings)
    present = {experiment for experiment in experiments if folder.has(experiment)}
    for experiment in present:
        folder.load(experiment)  # a damaged file is found before hours of work, not after
    work = float(sum(experiment.work for experiment in experiments))
    done = float(sum(experiment.work for experiment in present))
    with followed(progress, "reproducing", work) as tick:
        for experiment in experiments:
            if experiment in present:
                continue
            if tick is not None:
                tick(done)
            begun = time.perf_counter()
            _run(folder, experiment, workers)
            with (folder.path / "timing.log").open("a") as log:
                log.write(f"{time.perf_counter() - begun:9.3f} s  {experiment.name}\n")
            done += experiment.work
        if tick is not None:
            tick(done)
    return folder


def _run(folder: RunFolder, experiment: Experiment, threads: int) -> None:
    mdp = domains.make(experiment.problem)
    episodes, iterations = experiment.episodes, experiment.iterations
    seed = experiment.seed_sequence(folder.settings.seed)
    if experiment.algorithm == ORACLE:
        returns = evaluate(mdp, backward_induction(mdp, experiment.beta), episodes=episodes, seed=seed)
        folder.save(experiment, returns.costs, {}, None)
        return
    planner = make_planner(mdp, experiment.algorithm, experiment.variant, experiment.beta)
    if experiment.is_conditional:
        found = conditional_returns(mdp, planner, episodes=episodes, iterations=iterations, seed=seed, threads=threads)
        mixture = np.column_stack((found.owners.astype(np.float64), found.costs, found.weights))
        folder.save(experiment, found.returns.costs, {}, mixture)
        return
    returns = evaluate(mdp, planner, episodes=episodes, iterations=iterations, seed=seed, threads=threads)
    assert returns.decisions is not None
    shares = action_frequencies(mdp, returns.decisions)
    folder.save(experiment, returns.costs, {"frequency_risk": policy_risk(mdp, shares, experiment.beta)}, None)
