"""Run what is missing of a reproduction."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tailwise import domains
from tailwise._validate import integer
from tailwise.evaluation import action_frequencies, evaluate, policy_risk
from tailwise.planners import backward_induction
from tailwise.reproduction import settled_returns
from tailwise.reproduction.grid import Cell, Settings, plan_cells
from tailwise.reproduction.published import ORACLE
from tailwise.reproduction.storage import RunFolder
from tailwise.reproduction.variants import make_planner


def reproduce(
    out: str | Path,
    settings: Settings | None = None,
    *,
    threads: int = 1,
    resume: bool = False,
    progress: Callable[[str, float], None] | None = None,
) -> RunFolder:
    """Run the paper's experiments and keep their samples.

    Parameters
    ----------
    out : str or Path
        Output folder; a new or empty one, or with ``resume`` that of the same run.
    settings : Settings, optional
        What to run; everything, as in the paper, if not given.
    threads : int, default 1
        Threads over the episodes of a cell. They do not change the result.
    resume : bool, default False
        Go on with a run that was interrupted.
    progress : callable, optional
        Called with (name of the current cell, share of the work done).

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
    cells = plan_cells(folder.settings)
    present = {cell for cell in cells if folder.has(cell)}
    for cell in present:
        folder.load(cell)  # a damaged file is found before hours of work, not after
    work = float(sum(cell.work for cell in cells))
    done = float(sum(cell.work for cell in present))
    for cell in cells:
        if cell in present:
            continue
        if progress is not None:
            progress(cell.name, done / work)
        begun = time.perf_counter()
        _run(folder, cell, workers)
        with (folder.path / "timing.log").open("a") as log:
            log.write(f"{time.perf_counter() - begun:9.3f} s  {cell.name}\n")
        done += cell.work
    if progress is not None:
        progress("", 1.0)
    return folder


def _run(folder: RunFolder, cell: Cell, threads: int) -> None:
    mdp = domains.make(cell.problem)
    seed = cell.seed_sequence(folder.settings.seed)
    if cell.algorithm == ORACLE:
        returns = evaluate(mdp, backward_induction(mdp, cell.beta), episodes=cell.episodes, seed=seed)
        folder.save(cell, returns.costs, {}, None)
        return
    planner = make_planner(mdp, cell.algorithm, cell.variant, cell.beta)
    if cell.is_settled:
        settled = settled_returns(
            mdp, planner, episodes=cell.episodes, iterations=cell.iterations, seed=seed, threads=threads
        )
        law = np.column_stack((settled.owners.astype(np.float64), settled.costs, settled.weights))
        folder.save(cell, settled.returns.costs, {}, law)
        return
    returns = evaluate(mdp, planner, episodes=cell.episodes, iterations=cell.iterations, seed=seed, threads=threads)
    assert returns.decisions is not None
    shares = action_frequencies(mdp, returns.decisions)
    folder.save(cell, returns.costs, {"frequency_risk": policy_risk(mdp, shares, cell.beta)}, None)
