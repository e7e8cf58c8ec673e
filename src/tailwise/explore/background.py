"""Work in the background, so that whoever asks for it stays responsive: one piece at a time, in a thread.

And what is worked out there beside the episode of a page: what other betas, and another number of the model, would do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tailwise.errors import TailwiseError
from tailwise.evaluation import Frontier, frontier
from tailwise.exact import solve
from tailwise.models import TabularMDP
from tailwise.models.simulator import begun_in
from tailwise.models.table_changes import Varied, vary
from tailwise.risk.objectives import ERM
from tailwise.search import Plan

_FRONTIER = "laying out the frontier"
_EPISODES = 50  # of each beta on the frontier of a simulator


class Cancelled(Exception):  # noqa: N818 - it ends the work, and is no error
    """Raised inside work that was cancelled."""


class Ticket:
    """What a piece of work holds: it says how far it is, and sees whether it is still wanted."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.done = 0.0
        self.total: float | None = None
        self.is_cancelled = False

    def tell(self, done: float, total: float | None) -> None:
        """Say how far the work is; raise :class:`Cancelled` if it is not wanted any more."""
        self.done, self.total = done, total
        self.check()

    def check(self) -> None:
        """Raise :class:`Cancelled` if the work is not wanted any more."""
        if self.is_cancelled:
            raise Cancelled


@dataclass(frozen=True)
class Status:
    """What the worker is at: nothing if ``label`` is empty; ``share`` is None where it is not known."""

    label: str = ""
    share: float | None = None
    error: str = ""


class Worker:
    """Runs one piece of work in a thread of its own; new work takes the place of what is under way.

    Examples
    --------
    >>> from tailwise.explore.background import Worker
    >>> worker, found = Worker(), []
    >>> worker.start("adding", lambda ticket: found.append(1 + 1))
    >>> worker.wait(), found, worker.status.label
    (True, [2], '')
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ticket: Ticket | None = None
        self._thread: threading.Thread | None = None
        self._error = ""

    def start(self, label: str, work: Callable[[Ticket], None]) -> None:
        """Begin some work; what is under way is cancelled, and ends first."""
        with self._lock:
            before, ticket = self._thread, Ticket(label)
            if self._ticket is not None:
                self._ticket.is_cancelled = True
            self._ticket, self._error = ticket, ""
            self._thread = threading.Thread(target=self._run, args=(ticket, work, before), daemon=True)
            self._thread.start()

    def cancel(self) -> None:
        """Ask the work under way to end."""
        with self._lock:
            if self._ticket is not None:
                self._ticket.is_cancelled = True

    def holds(self, ticket: Ticket) -> bool:
        """Return whether no newer work has taken this one's place."""
        return self._ticket is ticket

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing is under way; return whether that is so."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
        return thread is None or not thread.is_alive()

    @property
    def status(self) -> Status:
        """What it is at, and what went wrong last."""
        with self._lock:
            ticket = self._ticket
            if ticket is None:
                return Status(error=self._error)
            share = None if not ticket.total else min(1.0, ticket.done / ticket.total)
            return Status("cancelling" if ticket.is_cancelled else ticket.label, share)

    def _run(self, ticket: Ticket, work: Callable[[Ticket], None], before: threading.Thread | None) -> None:
        error = ""
        if before is not None:
            before.join()
        try:
            ticket.check()
            work(ticket)
        except Cancelled:
            pass
        except TailwiseError as found:
            error = str(found)
        except Exception as found:  # whatever it is, the page says so and goes on
            error = f"{type(found).__name__}: {found}"
        with self._lock:
            if self._ticket is ticket:
                self._ticket, self._error = None, error


@dataclass(frozen=True, eq=False)
class Answers:
    """The decision in the first state of a model as it is, and as it would be."""

    varied: Varied
    base: Plan
    changed: Plan


class TradeOffs:
    """What other betas, and another number of a table, would do in the first state.

    Of a table the frontier is laid out beside the episode, of a simulator in place of its ``search``. What was found is
    kept under the ``lock``, and then ``tell`` is called.
    """

    def __init__(self, model: Any, *, is_table: bool, search: Worker, lock: Any, tell: Callable[[], None]) -> None:
        self._model, self._is_table, self._lock, self._tell = model, is_table, lock, tell
        self._varying = Worker()
        self._laying = Worker() if is_table else search
        self.workers = (self._laying, self._varying)
        self.varied = Varied()
        self.answers: Answers | None = None
        self._answered: Any = None  # what they are for
        self._bases: dict[Any, Plan] = {}  # the last decision of the model as it is, by beta and state
        self._frontiers: dict[Any, Frontier] = {}
        self._under_way: Any = None  # what the frontier is being laid out for

    def take_up(self, asked: Varied) -> None:
        """Vary another number from now on, or raise ``OptionError`` where that cannot be."""
        if asked.number:
            vary(self._model, asked)
        self.varied = asked

    def vary(self, beta: float, state: Any) -> None:
        """Solve the table with the number that is varied."""
        asked, own = self.varied, (beta, state)
        if (asked, own) == self._answered:
            return
        self._answered, self.answers = (asked, own), None

        def work(ticket: Ticket) -> None:
            found = answers(begun_in(self._model, state), beta, asked, self._bases.get(own))
            with self._lock:
                self._bases = {own: found.base}
                if self._varying.holds(ticket):
                    self.answers = found
                    self._tell()

        if asked.number:
            self._varying.start("what if", work)
        else:
            self._varying.cancel()

    def frontier(self, state: Any, planner: str, iterations: int) -> Frontier | None:
        """Return the frontier, if it was laid out."""
        return self._frontiers.get(self._key(state, planner, iterations))

    def _key(self, state: Any, planner: str, iterations: int) -> Any:
        return state if self._is_table else (state, planner, iterations)

    def lay_out(self, state: Any, planner: str, iterations: int) -> None:
        """Lay out the frontier."""
        key = self._key(state, planner, iterations)
        if key in self._frontiers or (key == self._under_way and self._laying.status.label == _FRONTIER):
            return
        self._under_way = key

        def work(ticket: Ticket) -> None:
            size: dict[str, Any] = {"episodes": _EPISODES, "iterations": iterations, "kind": planner}
            found = frontier(begun_in(self._model, state), progress=ticket.tell, **({} if self._is_table else size))
            with self._lock:
                self._frontiers[key] = found
                self._tell()

        self._laying.start(_FRONTIER, work)


def answers(table: TabularMDP, beta: float, asked: Varied, base: Plan | None = None) -> Answers:
    """Solve a table as it is, where ``base`` is not known from before, and as it would be."""
    other, varied = vary(table, asked)
    if base is None:
        base = solve(table, ERM(beta)).plan(distributions=False)
    return Answers(varied, base, solve(other, ERM(beta)).plan(distributions=False))
