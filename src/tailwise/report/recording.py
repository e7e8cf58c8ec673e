"""A plan made with its way recorded: what the search says when it asks, every 50 ms, whether to go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tailwise._progress import PlanProgress
from tailwise.errors import OptionError
from tailwise.planners.protocol import plan_in_threads
from tailwise.search import AnytimeSearch
from tailwise.search.plan import Plan, Trajectory

_MOST = 400  # points that are kept


class Recorder:
    """The way of one decision's plans: what each said, a point for each number of iterations, the latest last."""

    def __init__(self) -> None:
        self._seen: list[tuple[Any, ...]] = []

    @property
    def iterations(self) -> int:
        """Iterations done by the last point."""
        return int(self._seen[-1][0]) if self._seen else 0

    def note(self, plan: Plan, before: int = 0) -> None:
        """Keep what a plan says, which was made after ``before`` iterations of other calls."""
        if not plan.rows:
            return
        done = before + plan.iterations
        if self._seen and self._seen[-1][0] == done:
            self._seen.pop()
        columns = zip(*((row.erm, row.visits, *row.interval) for row in plan.rows), strict=True)
        self._seen.append((done, plan.rows.index(plan.chosen), *map(np.array, columns)))
        if len(self._seen) > _MOST:
            del self._seen[1::2]

    @property
    def trajectory(self) -> Trajectory | None:
        """All of it; None if there is nothing."""
        if not self._seen:
            return None
        done, chosen, *numbers = (np.array(column) for column in zip(*self._seen, strict=True))
        return Trajectory(done, chosen, *(column.astype(np.float64) for column in numbers))


def recorded_plan(
    planner: Any,
    iterations: int | None = None,
    seconds: float | None = None,
    *,
    threads: int = 1,
    until: Callable[[Plan], bool] | None = None,
    progress: PlanProgress = None,
    **keywords: Any,
) -> Any:
    """Plan as ``planner.plan`` does, and record how estimates and visits evolved, for :meth:`tailwise.Plan.report`.

    Parameters
    ----------
    planner : Planner
        What plans. Tree searches, learned-model searches and bounded RTDP are recorded; others plan without.
    iterations, seconds, threads, until, progress, **keywords : optional
        As for ``planner.plan``; with ``iterations`` the result is the same.

    Returns
    -------
    Plan
        With its way in ``origin.trajectory``.

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
    if iterations is None and seconds is None and until is None:
        raise OptionError("a recorded plan needs a limit: iterations=, seconds= or until=")
    limits: dict[str, Any] = {"iterations": iterations, "seconds": seconds, "progress": progress, **keywords}
    if not isinstance(planner, AnytimeSearch):
        return plan_in_threads(planner, threads, until=until, **limits)  # of whatever kind its plans are
    recorder = Recorder()

    def asked(plan: Plan) -> bool:
        recorder.note(plan)
        return until is not None and until(plan)

    plan: Plan = planner.plan(threads=threads, until=asked, **limits)
    recorder.note(plan)
    return replace(plan, origin=plan.origin and replace(plan.origin, trajectory=recorder.trajectory))
