"""What one page looks at: a model, the settings, an episode, and what the planner thinks at each of its steps.

Plain Python: the page shows a session and passes on what is pressed. One thread works for it; every method returns at
once, and ``version`` goes up whenever there is something new to see.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailwise._validate import integer, real
from tailwise.errors import OptionError, StateError
from tailwise.evaluation import Frontier
from tailwise.evaluation.closed_loop import environment_of
from tailwise.exact import truncate
from tailwise.explore.background import Answers, Status, Ticket, TradeOffs, Worker
from tailwise.models import TabularMDP, tabulate
from tailwise.models.check import require_model
from tailwise.models.contract import Action, State, listed_actions, short
from tailwise.models.simulator import action_label, read_state, state_label
from tailwise.models.table_changes import Varied, numbers_of
from tailwise.planners import ExactPlanner, list_planners, make_planner
from tailwise.planners.make import choose_kind
from tailwise.planners.protocol import Recorder, as_plan, takes
from tailwise.risk.objectives import ERM
from tailwise.search import Plan
from tailwise.search.plan import Trajectory


@dataclass(frozen=True)
class Settings:
    """What is asked: risk level at step 0, iterations of each decision, a planner by name, and the first state."""

    beta: float
    iterations: int
    planner: str
    state: Any


@dataclass(frozen=True, eq=False)
class Moment:
    """One decision of the episode.

    Attributes
    ----------
    state : object
        Where it is taken; its step is its place among the moments.
    accrued : float
        Discounted total before it.
    plan : Plan or None
        What the planner thinks so far.
    exact : Plan or None
        The exact optimum, of a table that is solved in no time.
    trajectory : Trajectory or None
        How the plan came about.
    taken, cost : object, float
        The action that was taken, None if none yet, and what it cost.
    """

    state: Any
    accrued: float = 0.0
    plan: Plan | None = None
    exact: Plan | None = None
    trajectory: Trajectory | None = None
    taken: Any = None
    cost: float = 0.0


@dataclass(frozen=True, eq=False)
class View:
    """A session as it is at one moment, for the page."""

    version: int
    settings: Settings
    moments: tuple[Moment, ...]
    place: int
    total: float | None
    frontier: Frontier | None
    varied: Varied
    answers: Answers | None
    status: Status

    @property
    def moment(self) -> Moment:
        """The decision that is looked at."""
        return self.moments[self.place]


class Session:
    """One page's model, settings and episode.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    beta : float, default 0.0
        Risk level at step 0.
    iterations : int, default 2000
        Iterations of each decision.
    kind : str, default "auto"
        A name of :func:`tailwise.planners.list_planners`.
    seed : int, default 0
        Of the planner and of what happens.

    Raises
    ------
    ModelError, OptionError
        If the model or an option is wrong.

    Examples
    --------
    >>> from tailwise import domains
    >>> from tailwise.explore import Session
    >>> session = Session(domains.make("grid-mdp"), beta=0.03)
    >>> session.wait()
    >>> session.view().moment.plan.label
    'up'
    >>> session.change(beta=0.04)
    >>> session.wait()
    >>> session.view().moment.plan.label
    'right'
    """

    def __init__(
        self, model: Any, *, beta: float = 0.0, iterations: int = 2000, kind: str = "auto", seed: int = 0
    ) -> None:
        require_model(model, endless=True)
        if model.horizon is None:
            model = truncate(model)
        if kind == "auto" and choose_kind(model, 0.0)[0].name == "exact":
            model = tabulate(model)
        self.model = model
        self.is_table = isinstance(model, TabularMDP)
        kinds = (one.name for one in list_planners() if one.works_on(model) and one.pursues(ERM(beta)))
        self.planners = tuple(dict.fromkeys(("auto", *kinds, kind)))
        self.is_solved = self.is_table and choose_kind(model, 0.0)[0].name == "exact"
        self.numbers = numbers_of(model) if self.is_solved else ()
        self._seed = np.random.SeedSequence(integer(seed, "seed", low=0))
        self._lock = threading.RLock()
        self._worker = Worker()
        self._trade_offs = TradeOffs(
            model, is_table=self.is_table, search=self._worker, lock=self._lock, tell=self._tell
        )
        self._version, self._episode, self._planner = 0, -1, None
        self._total: float | None = None
        self._recorder = Recorder()
        first = Settings(real(beta, "beta"), integer(iterations, "iterations", low=1), kind, model.start)
        self._check(first)
        self._settings = first
        self.restart()

    def view(self) -> View:
        """Return the session as it is now."""
        with self._lock:
            found, now = self._trade_offs, self._settings
            laid_out = found.frontier(now.state, now.planner, now.iterations)
            return View(
                self._version, now, tuple(self._moments), self._place, self._total, laid_out, found.varied,
                found.answers, self._status(),
            )  # fmt: skip

    def change(
        self,
        *,
        beta: float | None = None,
        iterations: int | None = None,
        planner: str | None = None,
        state: str | None = None,
    ) -> None:
        """Change settings, and think again; another state (its label, or a Python literal) begins a new episode.

        Raises
        ------
        OptionError, StateError
            If a value is wrong; nothing is changed then.
        """
        with self._lock:
            now = self._settings
            asked = Settings(
                now.beta if beta is None else real(beta, "beta"),
                now.iterations if iterations is None else integer(iterations, "iterations", low=1),
                now.planner if planner is None else planner,
                now.state if state is None else self.find_state(state),
            )
            self._check(asked)
            self._settings = asked
            if state is not None:
                self.restart()
            else:
                self._keep_moments(self._place)
                self._think()

    def vary(self, *, number: str | None = None, factor: float | None = None) -> None:
        """Ask what if a number of the model were multiplied; no number, and nothing is asked.

        Raises
        ------
        OptionError
            If there is no such number, or the factor is not between 0.5 and 2; nothing is changed then.
        """
        with self._lock:
            now = self._trade_offs.varied
            asked = Varied(now.number if number is None else number.strip(), now.factor if factor is None else factor)
            if asked.number and not self.is_solved:
                raise OptionError("what if is asked of tables that are solved at once; this model is none")
            self._trade_offs.take_up(asked)
            self._trade_offs.vary(self._settings.beta, self._settings.state)
            self._tell()

    def search_on(self) -> None:
        """Search for as many iterations again."""
        with self._lock:
            self._think(more=True)

    def cancel(self) -> None:
        """End what is under way; what was found stays."""
        for worker in (self._worker, *self._trade_offs.workers):
            worker.cancel()
        self._tell()

    def restart(self) -> None:
        """Begin a new episode."""
        with self._lock:
            self._episode += 1
            self._environment = environment_of(self.model)(self.model, self._seed)
            self._environment.begin(self._episode)
            self._moments, self._place, self._total = [Moment(self._settings.state)], 0, None
            self._think()

    def look(self, place: int) -> None:
        """Look at an earlier decision of the episode."""
        with self._lock:
            self._place = integer(place, "place", low=0, high=len(self._moments) - 1)
            self._planner = None
            self._tell()

    def act(self, action: Any) -> None:
        """Take an action in the decision that is looked at; what came after it is forgotten.

        Raises
        ------
        StateError
            If the action is not allowed.
        """
        with self._lock:
            h, now = self._place, self._moments[self._place]
            if action not in self.actions(now.state):
                raise StateError(f"action {short(action)} is not allowed in state {self.state_text(now.state)}")
            self._worker.start("acting", lambda ticket: self._step(ticket, h, action))
            self._tell()

    def lay_out(self) -> None:
        """Lay out the frontier of a simulator: what each beta would do. On a table that is done unasked."""
        with self._lock:
            now = self._settings
            self._trade_offs.lay_out(now.state, now.planner, now.iterations)
            self._tell()

    def wait(self, seconds: float | None = None) -> bool | None:
        """Wait until nothing is under way; with a limit, return whether that is so."""
        ended = [worker.wait(seconds) for worker in (self._worker, *self._trade_offs.workers)]
        return None if seconds is None else all(ended)

    def find_state(self, text: str) -> State:
        """Return the state that a text means, or raise ``StateError``."""
        found: State = self.model.start
        name = text.strip()
        return found if name in ("", self.state_text(found)) else read_state(self.model, name)

    def actions(self, state: Any) -> list[Action]:
        """Return the actions allowed in a state."""
        return listed_actions(self.model.actions(state))[0]

    def action_text(self, action: Any, state: Any) -> str:
        """Return an action's name."""
        return action_label(self.model, action, state)

    def state_text(self, state: Any) -> str:
        """Return a state's name."""
        return state_label(self.model, state)

    def _check(self, settings: Settings) -> None:
        """Raise the error of a wrong setting, before anything is changed."""
        planner = make_planner(self.model, settings.beta, kind=settings.planner, seed=self._seed)
        planner.reset(settings.state, 0)

    def _keep_moments(self, place: int) -> None:
        """Forget what came after a decision, and what was done in it."""
        self._moments[place:] = [replace(self._moments[place], taken=None, cost=0.0)]
        self._total = None

    def _status(self) -> Status:
        """What is under way: the search, or else what goes on beside it."""
        search, beside, varying = (worker.status for worker in (self._worker, *self._trade_offs.workers))
        shown = search if search.label else beside
        return replace(shown, error=search.error or beside.error or varying.error)

    def _tell(self) -> None:
        self._version += 1

    def _think(self, *, more: bool = False) -> None:
        """Think about the decision that is looked at, in the worker's thread."""
        h, settings = self._place, self._settings
        planner = self._planner if more else None
        if planner is None:
            self._moments[h] = replace(self._moments[h], plan=None, exact=None, trajectory=None)
        self._planner = None

        self._worker.start("searching", lambda ticket: self._search(ticket, h, settings, planner))
        if self.is_solved:
            self._trade_offs.lay_out(settings.state, settings.planner, settings.iterations)
            self._trade_offs.vary(settings.beta, settings.state)
        self._tell()

    def _step(self, ticket: Ticket, h: int, action: Any) -> None:
        """Let an action happen, and think about what follows; in the worker's thread, where the model is used."""
        now = self._moments[h]
        state, cost, done = self._environment.step(now.state, action, h)
        factor = float(self.model.discount) ** h
        total, ended = now.accrued + factor * cost, None
        if done or h + 1 >= self.model.horizon:
            ended = total if done else total + factor * float(self.model.discount) * self._environment.end_cost(state)
        with self._lock:
            if not self._is_current(ticket, h):
                return
            self._moments[h:] = [replace(now, taken=action, cost=cost)]
            self._total, self._planner = ended, None
            if ended is None:
                self._moments.append(Moment(state, total))
                self._place = h + 1
            self._tell()
            settings = self._settings
        if ended is None:
            ticket.label = "searching"
            self._search(ticket, h + 1, settings, None)

    def _search(self, ticket: Ticket, h: int, settings: Settings, planner: Any) -> None:
        moment = self._moments[h]
        if planner is None:
            if self.is_solved:
                solver = ExactPlanner(self.model, settings.beta, seed=0)
                solver.reset(moment.state, h)
                self._store(ticket, h, exact=solver.decision())
            planner = make_planner(self.model, settings.beta, kind=settings.planner, seed=self._seed)
            planner.reset(moment.state, h, **({"accrued": moment.accrued} if takes(planner.reset, "accrued") else {}))
            self._recorder = Recorder()
        recorder = self._recorder
        before = recorder.iterations

        def note(decision: Any) -> bool:
            plan = replace(as_plan(decision, planner), tree=None)  # which would make the search keep a copy of its tree
            recorder.note(plan, before)
            self._store(ticket, h, plan=plan, trajectory=recorder.trajectory)
            return ticket.is_cancelled

        def watch(iterations: int, _: float) -> None:
            ticket.done, ticket.total = iterations, settings.iterations

        plan = planner.plan(settings.iterations, until=note, progress=watch)
        note(plan)
        with self._lock:
            if self._is_current(ticket, h) and h == self._place:
                self._planner = planner
        ticket.check()

    def _store(self, ticket: Ticket, h: int, **found: Any) -> None:
        """Keep what was found, unless the page has moved on."""
        with self._lock:
            if self._is_current(ticket, h):
                self._moments[h] = replace(self._moments[h], **found)
                self._tell()

    def _is_current(self, ticket: Ticket, h: int) -> bool:
        return self._worker.holds(ticket) and h < len(self._moments)
