"""Plans for many roots at once: what to do in each of a list of states."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable
from typing import Any

from tailwise._progress import Progress
from tailwise._random import Seed, seed_sequence
from tailwise._validate import thread_count
from tailwise.planners.make import make_planner
from tailwise.planners.protocol import as_plan, is_shareable
from tailwise.risk.objectives import Objective
from tailwise.search.anytime import one_thread
from tailwise.search.plan import Plan
from tailwise.search.policy_mixin import DEFAULT_ITERATIONS
from tailwise.search.side_by_side import in_threads


def plan_many(
    model: Any,
    objective: Objective | float,
    states: Iterable[Any],
    *,
    step: int = 0,
    kind: str = "auto",
    iterations: int | None = None,
    seconds: float | None = None,
    threads: int = 1,
    seed: Seed = None,
    progress: Progress = None,
    **options: Any,
) -> tuple[Plan, ...]:
    """Plan in each of many states, several at a time.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    objective : Objective or float
        What is wanted of the total; a number is the beta of an ERM.
    states : iterable
        The roots, as the model names its states.
    step : int, default 0
        Step h of every root, 0 to H - 1.
    kind : str, default "auto"
        Which planner, as for :func:`tailwise.make_planner`. Of an exact one all roots share the solution.
    iterations, seconds : optional
        Limits of each plan; 1000 iterations if neither is given.
    threads : int, default 1
        How many roots are planned for at a time. It does not change the result. A model in plain Python keeps to one
        thread, and the ``notes`` of its plans say so.
    seed : None, int, SeedSequence or Generator
        The k-th root has the k-th child of it.
    progress : bool or callable, optional
        True shows a bar; a function is called with (roots done, of how many).
    **options
        Options of the planner.

    Returns
    -------
    tuple of Plan
        One per state, in their order; without their trees, which would not all fit into memory.

    Raises
    ------
    StateError
        If the model has no such state.
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> from tailwise import domains, plan_many
    >>> mdp = domains.make("grid-mdp")
    >>> plans = plan_many(mdp, 0.1, [0, 1, 2], iterations=500, seed=0)
    >>> [(plan.state, plan.label) for plan in plans][0]
    (0, 'up')
    """
    roots = list(states)
    workers = thread_count(threads)
    notes = () if is_shareable(model) else one_thread(workers, "a model in plain Python keeps to one")
    workers = 1 if notes else workers
    root_seed = seed_sequence(seed)
    planner = make_planner(model, objective, kind=kind, seed=root_seed, **options)
    limits = {"iterations": DEFAULT_ITERATIONS if iterations is None and seconds is None else iterations}
    seeds, stopped = root_seed.spawn(len(roots)), threading.Event()

    def watch(done: int, used: float) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    def one(k: int) -> Plan:
        own: Any = planner.fresh(seeds[k])
        own.reset(roots[k], step)
        plan = own.plan(**limits, seconds=seconds, progress=watch if workers > 1 else None)
        if getattr(plan, "stopped", None) == "interrupted":
            raise KeyboardInterrupt
        found = as_plan(plan, own)
        return dataclasses.replace(found, notes=(*found.notes, *notes), tree=None)

    return tuple(in_threads(one, len(roots), workers, progress, label="planning", stop=stopped.set))
