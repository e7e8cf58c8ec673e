"""Workers in a clock of their own: what happens to the hand-out of tasks on a thousand machines.

The rules are those of :mod:`tailwise.scale.scheduler` themselves; what a worker does is drawn.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from tailwise.scale.cluster import Event, Report, WorkerPool


class SimulatedPool(WorkerPool):
    """Workers with speeds and lives that are given.

    Parameters
    ----------
    size : int
        How many are started at first.
    work : float
        Units of work of a task; infinite for one that ends by time alone.
    speed : callable
        Units a second of a worker, from its number.
    ready_after, lives : callable
        Seconds from its start until a worker is ready, and until it dies; infinite for never.
    handling : float
        Seconds that the receiver spends on each report.
    """

    def __init__(
        self,
        size: int,
        *,
        work: float,
        speed: Callable[[int], float] = lambda worker: 1.0,
        ready_after: Callable[[int], float] = lambda worker: 0.0,
        lives: Callable[[int], float] = lambda worker: math.inf,
        handling: float = 0.0,
    ) -> None:
        self.size = size
        self._work, self._speed, self._ready_after, self._lives = work, speed, ready_after, lives
        self._handling = handling
        self._time = 0.0
        self._coming: list[tuple[float, int, Event]] = []
        self._ends: dict[int, float] = {}
        self._at: dict[int, tuple[int, float]] = {}  # worker: its task, and how far it is
        self.sent = self.received = 0

    def now(self) -> float:
        """Return the time of the simulated clock."""
        return self._time

    def start(self, worker: int) -> None:
        """Start a worker."""
        self._ends[worker] = self._time + self._lives(worker)
        self._come(self._ready_after(worker), Event(worker, None))

    def send(self, worker: int, task: int, seconds: float) -> None:
        """Let a worker work."""
        self.sent += 1
        known, done = self._at.get(worker, (-1, 0.0))
        done = done if known == task else 0.0
        lasts = min(seconds, (self._work - done) / self._speed(worker))
        done = min(self._work, done + lasts * self._speed(worker))
        self._at[worker] = (task, done)
        self._come(lasts, Event(worker, Report(task, None, done, done >= self._work * (1.0 - 1e-12))))

    def _come(self, delay: float, event: Event) -> None:
        at = self._time + delay
        end = self._ends[event.worker]
        if end <= at:
            at, event = max(end, self._time), Event(event.worker, "its machine died")
        heapq.heappush(self._coming, (at, len(self._ends) + self.sent, event))

    def events(self, timeout: float) -> list[Event]:
        """Move the clock to the next event, or by the timeout; each report takes its time to handle."""
        if not self._coming or self._coming[0][0] > self._time + timeout:
            self._time += timeout
            return []
        self._time = max(self._time, self._coming[0][0])
        found = []
        while self._coming and self._coming[0][0] <= self._time:
            found.append(heapq.heappop(self._coming)[2])
        self.received += len(found)
        self._time += self._handling * len(found)
        return found
