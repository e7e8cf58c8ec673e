"""What a planner is: the protocol that :func:`tailwise.evaluate`, comparisons and the command line ask for.

A planner is bound to one model and stands at one decision, the *root*: a state and a step. ``plan`` thinks about
it and recommends an action, ``advance`` moves on to the decision that follows, and ``fresh`` gives an equal planner
with a seed of its own, one for each episode. Any object with these members takes part, whoever wrote it; there is
nothing to inherit from. A *policy*, by contrast, has no root: it has ``act(state, h)`` alone. The planners of this
library have it too, so that they can stand where a policy is asked for.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Hashable
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from tailwise._progress import PlanProgress
from tailwise._random import Seed
from tailwise.errors import OptionError
from tailwise.models.contract import choices_of
from tailwise.models.simulator import action_label
from tailwise.search import ActionRow, StopReason
from tailwise.search.action_rows import UNBOUNDED
from tailwise.search.anytime import one_thread
from tailwise.search.plan import Plan, Trajectory


class Decision(Protocol):
    """The least that ``plan`` returns. Those of this library return a :class:`tailwise.Plan`, which says more."""

    @property
    def action(self) -> object:
        """The recommended action, as the model names it."""
        ...


@runtime_checkable
class Planner(Protocol):
    """What evaluation and the command line ask of a planner.

    Attributes
    ----------
    model : TabularMDP or simulator
        The problem, or a view of it; it has the problem's ``horizon``.
    state : hashable
        State of the root.
    step : int
        Step h of the root: 0 to H - 1 where there is a decision, H when none is left.

    Notes
    -----
    ``plan`` may take a keyword ``threads``: in how many threads to work; where it can make no use of them, the plan's
    ``notes`` say so (see :func:`plan_in_threads`).

    ``advance`` may take a keyword ``cost``: what the step cost (or earned), not discounted. ``reset`` may take
    a keyword ``accrued``: the discounted total paid before the root. A planner to which the past matters names them
    in its signature and is told; the others are not.

    A planner that has no need to search may have ``fixed_policy``, which is then followed in its place.

    The result must be a function of the model, the options and the seed. Copies made by ``fresh`` share nothing that
    a plan changes, so that they can run side by side in threads. Ctrl-C during ``plan`` either raises
    ``KeyboardInterrupt`` or returns a decision whose ``stopped`` is ``"interrupted"``.

    Examples
    --------
    A planner that looks at the cost of the next step alone:

    >>> import copy
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from tailwise import Planner, domains, evaluate
    >>> class Greedy:
    ...     def __init__(self, model, seed=None):
    ...         self.model, self.rng = model, np.random.default_rng(seed)
    ...         self.reset()
    ...     def reset(self, state=None, step=0):
    ...         self.state, self.step = self.model.start if state is None else state, step
    ...     def fresh(self, seed=None):
    ...         return Greedy(self.model, seed)
    ...     def advance(self, action, state):
    ...         self.state, self.step = state, self.step + 1
    ...     def plan(self, iterations=None, seconds=None, *, until=None, progress=None):
    ...         def mean_cost(action):
    ...             drawn = [self.model.step(self.state, action, self.rng)[1] for _ in range(iterations)]
    ...             return sum(drawn) / iterations
    ...         return SimpleNamespace(action=min(self.model.actions(self.state), key=mean_cost))
    >>> mdp = domains.make("mdp-4")
    >>> isinstance(Greedy(mdp), Planner)
    True
    >>> evaluate(mdp, Greedy(mdp), episodes=5, iterations=10, seed=0).episodes
    5
    """

    model: Any

    @property
    def state(self) -> Hashable:
        """State of the root."""
        ...

    @property
    def step(self) -> int:
        """Step of the root."""
        ...

    def plan(
        self,
        iterations: int | None = None,
        seconds: float | None = None,
        *,
        until: Callable[[Any], bool] | None = None,
        progress: Callable[[int, float], None] | None = None,
    ) -> Decision:
        """Think about the root until a limit is reached, and recommend an action. May be called again to go on.

        Parameters
        ----------
        iterations : int, optional
            Number of iterations; what one is, the planner says.
        seconds : float, optional
            Wall time to use; whichever limit comes first ends the call.
        until : callable, optional
            Called now and then with the decision so far; a true result ends the call.
        progress : callable, optional
            Called now and then with (iterations done, seconds used).
        """
        ...

    def advance(self, action: Any, state: Any) -> None:
        """Move the root to ``state``, which was observed after ``action`` was taken; what is known of it is kept."""
        ...

    def reset(self, state: Any = None, step: int = 0) -> None:
        """Move the root to any decision (the model's start if not given) and forget what was found."""
        ...

    def fresh(self, seed: Seed = None) -> Self:
        """Return an equal planner at the model's start, with a new seed, which has found nothing yet."""
        ...


def as_plan(decision: Any, planner: Any) -> Plan:
    """Return a decision as a :class:`tailwise.Plan`; of a stranger's the action is all that is known."""
    if isinstance(decision, Plan):
        return decision
    model, state, h = planner.model, planner.state, planner.step
    rows = tuple(
        ActionRow(action, action_label(model, action, state), 0, 0.0, *(math.nan,) * 5, UNBOUNDED)
        for action in choices_of(model.actions(state))
    )
    beta = float(getattr(planner, "beta", 0.0))
    return Plan(
        decision.action, action_label(model, decision.action, state), math.nan, rows, state, h, beta,
        beta * float(model.discount) ** h, model.sense, 0, 0, 0, 0, 0.0, StopReason.ITERATIONS,
        method=type(planner).__name__,
    )  # fmt: skip


class FullPlanner(Planner, Protocol):
    """A planner whose plans say all that a :class:`tailwise.Plan` does, as those of this library do."""

    def plan(
        self,
        iterations: int | None = None,
        seconds: float | None = None,
        *,
        threads: int = 1,
        until: Callable[[Any], bool] | None = None,
        progress: PlanProgress = None,
    ) -> Plan:
        """Think about the root until a limit is reached; see :meth:`Planner.plan`."""
        ...


def takes(method: Callable[..., Any], keyword: str) -> bool:
    """Return whether a method has a parameter of that name."""
    return keyword in inspect.signature(method).parameters


def is_shareable(model: Any) -> bool:
    """Return whether threads may use one model at a time: tables and compiled simulators keep nothing of a step."""
    return bool(getattr(model, "is_shareable", False))


def plan_in_threads(planner: Any, threads: int, **limits: Any) -> Decision:
    """Return what ``planner.plan(**limits)`` finds in so many threads; if in one alone, its ``notes`` say so."""
    if takes(planner.plan, "threads"):
        found: Decision = planner.plan(threads=threads, **limits)
        return found
    notes = one_thread(threads, f"{type(planner).__name__} keeps to one")
    found = planner.plan(**limits)
    if notes and hasattr(found, "notes"):
        noted: Any = found
        found = dataclasses.replace(noted, notes=(*noted.notes, *notes))
    return found


_MOST = 400  # points that are kept of how a plan came about


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
    from tailwise.search import AnytimeSearch

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
    return dataclasses.replace(
        plan, origin=plan.origin and dataclasses.replace(plan.origin, trajectory=recorder.trajectory)
    )
