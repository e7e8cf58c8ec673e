"""One piece of work at a time, in a thread, so that whoever asks for it stays responsive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from tailwise.errors import TailwiseError


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
    >>> from tailwise.explore.worker import Worker
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
