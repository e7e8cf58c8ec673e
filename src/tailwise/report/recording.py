"""A plan made with its way recorded: the same search in growing parts, looked at after each.

Searches can be called again to continue, and their result does not depend on how often they are: so a search that is
not recorded pays nothing for this, and a recorded one gives the same plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tailwise._progress import PlanProgress, followed_plan
from tailwise._validate import integer, thread_count
from tailwise.errors import OptionError
from tailwise.planners.protocol import plan_in_threads
from tailwise.search import RootedSearch
from tailwise.search.plan import Plan, StopReason, Trajectory

_FIRST, _GROWTH = 16, 1.3
_UNLIMITED = 2**62


def recorded_plan(
    planner: Any,
    iterations: int | None = None,
    seconds: float | None = None,
    *,
    threads: int = 1,
    until: Callable[[Plan], bool] | None = None,
    progress: PlanProgress = None,
) -> Any:
    """Plan as ``planner.plan`` does, and record how estimates and visits evolved, for :meth:`tailwise.Plan.report`.

    Parameters
    ----------
    planner : Planner
        What plans. Tree searches, learned-model searches and bounded RTDP are recorded; others plan without.
    iterations, seconds, threads, until, progress : optional
        As for ``planner.plan``; with ``iterations`` the result is the same.

    Returns
    -------
    Plan
        Of the planner's kind. Its iterations, simulator steps and seconds are those of all parts.

    Raises
    ------
    OptionError
        If there is no limit.

    Examples
    --------
    >>> from tailwise import ErmMcts, domains
    >>> from tailwise.report import recorded_plan
    >>> plan = recorded_plan(ErmMcts(domains.make("mdp-4"), 0.5, seed=0), iterations=2000)
    >>> same = ErmMcts(domains.make("mdp-4"), 0.5, seed=0).plan(iterations=2000)
    >>> plan.iterations, plan.rows == same.rows
    (2000, True)
    """
    thread_count(threads)
    limit = _UNLIMITED if iterations is None else integer(iterations, "iterations", low=1)
    if iterations is None and seconds is None and until is None:
        raise OptionError("a recorded plan needs a limit: iterations=, seconds= or until=")
    with followed_plan(progress, iterations, seconds) as tell:
        return _recorded(planner, limit, seconds, threads, until, tell)


def _recorded(
    planner: Any,
    limit: int,
    seconds: float | None,
    threads: int,
    until: Callable[[Plan], bool] | None,
    tell: Callable[[int, float], None] | None,
) -> Any:
    done, steps, used = 0, 0, 0.0
    seen: list[tuple[Any, ...]] = []

    def whole(part: Any) -> Any:
        return replace(
            part, iterations=done + part.iterations, simulator_steps=steps + part.simulator_steps,
            seconds=used + part.seconds,
        )  # fmt: skip

    def holds(part: Any) -> bool:
        return until is not None and until(whole(part))

    def told(part: int, time: float) -> None:
        if tell is not None:
            tell(done + part, used + time)

    watch: dict[str, Any] = {"until": until and holds, "progress": tell and told}
    if not isinstance(getattr(planner, "planner", planner), RootedSearch):  # of AutoPlanner, the one it took
        most = limit if limit < _UNLIMITED else None
        return plan_in_threads(planner, threads, iterations=most, seconds=seconds, **watch)
    size = _FIRST * threads  # all sizes are multiples of it, or the trees would get other shares of the iterations
    while True:
        plan: Any = None  # a living plan would make the search keep a copy of its tree
        left = None if seconds is None else seconds - used
        plan = plan_in_threads(planner, threads, iterations=min(size, limit - done), seconds=left, **watch)
        done, steps, used = done + plan.iterations, steps + plan.simulator_steps, used + plan.seconds
        columns = [(row.erm, row.visits, *row.interval) for row in plan.rows]
        position = next(k for k, row in enumerate(plan.rows) if row.action == plan.action)
        seen.append((done, position, *zip(*columns, strict=True)))
        out_of_time = seconds is not None and used >= seconds
        if plan.stopped is not StopReason.ITERATIONS or done >= limit or out_of_time:
            break
        size = threads * max(_FIRST, int(done * (_GROWTH - 1.0)) // threads)
    cut = out_of_time and done < limit and plan.stopped is StopReason.ITERATIONS
    stopped = StopReason.SECONDS if cut else plan.stopped
    iterations_seen, chosen, erms, visits, lows, highs = (np.array(column) for column in zip(*seen, strict=True))
    trajectory = Trajectory(
        iterations_seen, chosen, erms.astype(float), visits.astype(float), lows.astype(float), highs.astype(float)
    )
    origin = None if plan.origin is None else replace(plan.origin, trajectory=trajectory)
    return replace(plan, iterations=done, simulator_steps=steps, seconds=used, stopped=stopped, origin=origin)
