"""Hand out tasks to workers that may be slow or die, until each has reported: the rules, whatever carries them.

- A worker has one task at a time and reports every ``slice`` seconds what it has of it so far. A report replaces
  the earlier ones of its task, if it is further: whatever arrives, twice or late, each task counts once.
- A worker that is lost gives its task back; what it had reported of it stays until the task, done again, is further. As
  many lost workers as ``restarts`` are replaced.
- A worker without a task takes over, in a second copy, one that lasts much longer than the others did; the first copy
  that is done counts.
- Where time is limited the clock starts once the first workers are ready (or lost). At its end nothing more is handed
  out, the slices under way may report, and what is missing is missing.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailwise._progress import Progress, followed
from tailwise.errors import WorkersLostError
from tailwise.scale.cluster import Event, Job, Report, WorkerPool, packed
from tailwise.search import StopReason

_TOO_LONG = 3.0  # times the median of the tasks that are done
_READY_WITHIN = 120.0  # seconds for the first worker
_OTHERS_WITHIN = 20.0  # seconds for the other first workers after it, where time is limited
_POLL = 0.25  # seconds
_GOLDEN = 0.6180339887498949
_MOST_REPORTS = 200.0  # a second, if no other rhythm is given


@dataclass
class Gathered:
    """What came of all tasks."""

    reports: dict[int, Report] = field(default_factory=dict)  # the furthest of each task that reported
    stopped: StopReason = StopReason.ITERATIONS
    lost: list[str] = field(default_factory=list)  # why each lost worker was lost
    again: set[int] = field(default_factory=set)  # tasks that were begun again
    seconds: float = 0.0  # from the first hand-out to the end

    @property
    def work(self) -> float:
        """Work of all reports."""
        return sum(report.work for report in self.reports.values())

    def notes(self, tasks: int, noun: str) -> tuple[str, ...]:
        """Return what the user should know: workers lost, tasks not done."""
        found = []
        if self.lost:
            again = f"; {noun} begun again: {len(self.again)}" if self.again else ""
            found.append(f"workers lost on the way: {len(self.lost)}{again}")
        short = sum(not report.is_final for report in self.reports.values())
        missing = tasks - len(self.reports)
        if missing:
            found.append(f"{missing} of {tasks} {noun} reported nothing")
        if short and self.stopped is not StopReason.SECONDS:
            found.append(f"{short} of {tasks} {noun} count as far as they had reported")
        return tuple(found)


class Scheduler:
    """Who is doing what. Tasks are handed out in the order of their numbers.

    A worker reports on its task every ``report_every`` seconds (1, or such that 200 reports a second arrive).
    ``restarts`` lost workers are replaced. After reports came ``watch`` is told what was gathered and the seconds used;
    a true answer ends the work. ``keep`` is told each final report that counts, once, as it comes.
    """

    def __init__(
        self,
        pool: WorkerPool,
        tasks: int,
        *,
        seconds: float | None = None,
        report_every: float | None = None,
        restarts: int = 10,
        watch: Callable[[Gathered, float], bool | None] | None = None,
        keep: Callable[[Report], None] | None = None,
    ) -> None:
        self._found = Gathered()
        self._pool, self._waiting, self._open = pool, deque(range(tasks)), set(range(tasks))
        self._seconds, self._restarts = math.inf if seconds is None else seconds, restarts
        self._slice = max(1.0, pool.size / _MOST_REPORTS) if report_every is None else report_every
        self._watch, self._keep = watch, keep
        self._starting: set[int] = set()
        self._idle: list[int] = []
        self._busy: dict[int, tuple[int, float]] = {}  # worker: task, since
        self._durations: list[float] = []
        self._given_back: set[int] = set()
        self._started = 0
        self._first_ready: float | None = None
        self._begun: float | None = None

    def run(self) -> Gathered:
        """Have all tasks done; Ctrl-C ends the work early, and returns what had been reported, if anything was.

        Raise ``WorkersLostError``, with what was gathered, if no worker is left or none gets ready; and what a task
        raised.
        """
        found, arrived = self._found, self._pool.now()
        for _ in range(self._pool.size):
            self._start()
        try:
            while self._is_open(arrived):
                news = self._pool.events(min(_POLL, max(0.01, self._left())))
                for event in news:
                    self._take(event)
                self._hand_out()
                if news and self._watch is not None and self._watch(found, self._used()):
                    found.stopped = StopReason.UNTIL
                    break
        except KeyboardInterrupt:
            if not found.reports:
                raise
            found.stopped = StopReason.INTERRUPTED
        found.seconds = self._used()
        return found

    def _start(self) -> None:
        self._starting.add(self._started)
        self._pool.start(self._started)
        self._started += 1

    def _used(self) -> float:
        """Seconds since the first task was handed out."""
        return 0.0 if self._begun is None else self._pool.now() - self._begun

    def _left(self) -> float:
        return self._seconds - self._used()

    def _is_open(self, arrived: float) -> bool:
        """Whether there is anything left to wait for."""
        if not self._open:
            return False
        left = self._left()
        if left <= 0.0:  # what is under way may still report
            if self._busy and left > -max(1.0, 2.0 * self._slice):
                return True
            self._found.stopped = StopReason.SECONDS
            return False
        if not (self._starting or self._idle or self._busy):
            self._give_up(f"all workers were lost (the last: {self._found.lost[-1]})")
        if self._first_ready is None and self._pool.now() - arrived > _READY_WITHIN:
            self._give_up(f"no worker was ready after {_READY_WITHIN:g} s: has the cluster a free CPU?")
        return True

    def _give_up(self, why: str) -> None:
        known = len(self._found.reports)
        self._found.seconds = self._used()
        raise WorkersLostError(
            f"{why}; {known} of {known + len(self._open - self._found.reports.keys())} tasks had reported, see the "
            "error's gathered", gathered=self._found,
        )  # fmt: skip

    def _take(self, event: Event) -> None:
        """Note what came from a worker."""
        worker, what = event
        task, since = self._busy.pop(worker, (-1, 0.0))
        self._starting.discard(worker)
        if isinstance(what, str):
            self._lose(task, what)
            return
        if isinstance(what, Exception):
            raise what
        if self._first_ready is None:
            self._first_ready = self._pool.now()
        if what is not None and self._counts(what, since) and self._left() > 0.0:
            self._send(worker, task, since)
        else:
            self._idle.append(worker)

    def _counts(self, report: Report, since: float) -> bool:
        """Keep a report if it is the furthest of its task; return whether its worker goes on with the task."""
        if report.task not in self._open:
            return False
        known = self._found.reports.get(report.task)
        if known is None or report.is_final or report.work > known.work:
            self._found.reports[report.task] = report
        if report.is_final:
            self._open.discard(report.task)
            self._durations.append(self._pool.now() - since)
            if self._keep is not None:
                self._keep(report)
        return not report.is_final

    def _lose(self, task: int, why: str) -> None:
        self._found.lost.append(why)
        if task in self._open and task not in (other for other, _ in self._busy.values()):
            self._waiting.appendleft(task)
            self._given_back.add(task)
        if self._restarts > 0:
            self._restarts -= 1
            self._start()

    def _hand_out(self) -> None:
        """Give tasks to those who have none."""
        now = self._pool.now()
        if self._begun is None:
            others_due = self._first_ready is not None and now - self._first_ready > _OTHERS_WITHIN
            if self._first_ready is None or (self._seconds < math.inf and self._starting and not others_due):
                return
            self._begun = now
        while self._idle and self._left() > 0.0 and (task := self._next()) is not None:
            worker = self._idle.pop(0)
            self._send(worker, task, now, 0.5 + 0.5 * (worker * _GOLDEN % 1.0))  # so that not all report at once

    def _send(self, worker: int, task: int, since: float, share: float = 1.0) -> None:
        self._busy[worker] = (task, since)
        self._pool.send(worker, task, min(share * self._slice, self._left()))

    def _next(self) -> int | None:
        """Return the next task to hand out: one that waits, or a second copy of one that lasts too long."""
        while self._waiting:
            task = self._waiting.popleft()
            if task in self._open:
                self._found.again.update(self._given_back & {task})
                return task
        if not self._durations:
            return None
        limit, running = max(1.0, _TOO_LONG * statistics.median(self._durations)), self._busy.values()
        copies = Counter(task for task, _ in running)
        slow = [(since, task) for task, since in running if task in self._open and copies[task] == 1]
        since, task = min(slow, default=(math.inf, -1))
        return task if self._pool.now() - since > limit else None


@dataclass(frozen=True)
class Blocks(Job):
    """Independent pieces of work: task k is a call of ``function`` with the k-th ``arguments``."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    work: Sequence[float]  # of each
    verb: str  # of the progress
    done: float = 0.0  # what was done before

    def run(self, task: int, seconds: float) -> Report:
        """Do a block, to its end."""
        return Report(task, self.function(*self.arguments[task]), self.work[task], True)


def blocks_of(episodes: int, blocks: int) -> list[range]:
    """Return the numbers of all episodes in so many blocks of about equal size, none empty."""
    edges = np.linspace(0, episodes, min(episodes, blocks) + 1).astype(int).tolist()
    return [range(first, last) for first, last in itertools.pairwise(edges)]


def run_blocks(
    blocks: Blocks,
    *,
    workers: int,
    restarts: int,
    progress: Progress,
    model: Any = None,
    model_path: str | None = None,
    keep: Callable[[Report], None] | None = None,
) -> Gathered:
    """Do blocks on a cluster that is connected; ``keep`` is told each report, once, as it comes."""
    job, size, done = packed(blocks, model, model_path), len(blocks.work), blocks.done
    with WorkerPool(job, min(workers, size)) as pool, followed(progress, blocks.verb, done + sum(blocks.work)) as tick:
        return Scheduler(
            pool, size, restarts=restarts, watch=lambda found, used: tick(done + found.work), keep=keep
        ).run()  # fmt: skip
