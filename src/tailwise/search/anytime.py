"""Anytime work in chunks: time limits, progress, conditions and Ctrl-C, for whatever counts iterations; and in threads.

Chunks of about 50 ms let all of these work; they must not change the result. Pieces side by side (the trees of
``plan(threads=)``) go in step: between two chunks nothing runs, so that conditions and reports see all trees at rest.
Kernels hold no lock of Python while they run. How far each piece has to go follows from the number of iterations in
all, never from how fast it is: chunks and timing do not show in the result.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from tailwise._progress import PlanTick, Progress, followed, young_alone
from tailwise._validate import function_of, integer, real, thread_count
from tailwise.errors import OptionError
from tailwise.search.plan import StopReason

CHUNK_SECONDS = 0.05
_OF_LEFT = 1 / 3  # of what is left of the time, for the next chunk: it may turn out slower than the last one
_SHORT = 1.0  # seconds of a call during which only young garbage is collected
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds that a piece of work takes, by what it took lately: a slow one counts at once, quick ones bit by bit."""

    seconds: float = 0.0  # before the first, a guess
    memory: float = 0.9  # of the last one, that is kept where the next is quicker
    most: float = math.inf  # that is believed

    def after(self, seconds: float) -> Pace:
        """Return the pace once another piece took so long."""
        return replace(self, seconds=max(self.memory * self.seconds, min(seconds, self.most)))

    def faded(self, memory: float) -> Pace:
        """Return the pace after a piece that was not begun, as it would have taken too long."""
        return replace(self, seconds=memory * self.seconds)


def run_anytime(
    run: Callable[[int], StopReason | None],
    done: Callable[[], int],
    *,
    iterations: int | None,
    seconds: float | None,
    until: Callable[[], bool] | None = None,
    progress: PlanTick,
    first_chunk: int = 64,
) -> StopReason:
    """Call ``run(n)``, which does up to n iterations and returns a reason to stop or None, until a limit is reached.

    ``done()`` says how many were done since this call began. ``until`` is asked, and ``progress`` told (iterations
    done, seconds used), about every 50 ms; ``until`` less often where asking takes long (a fifth of the time, or, where
    ``seconds`` is no limit, whenever the iterations have doubled).
    ``first_chunk`` is small where an iteration may be slow. Ctrl-C ends it with ``INTERRUPTED`` once anything was done,
    and is raised on before.
    """
    wanted = 2**62 if iterations is None else int(iterations)
    allowed = float("inf") if seconds is None else float(seconds)
    begun = time.perf_counter()
    chunk, ask_at, asked_of = min(first_chunk, wanted), 0.0, 0
    try:
        while True:
            finished, used = done(), time.perf_counter() - begun
            if finished:
                progress(finished, used)
            if finished >= wanted:
                return StopReason.ITERATIONS
            if used >= allowed and finished:
                return StopReason.SECONDS
            has_doubled = seconds is None and finished >= 2 * asked_of
            if until is not None and finished and (used >= ask_at or has_doubled):
                asked_of = finished
                if until():
                    return StopReason.UNTIL
                asked = time.perf_counter() - begun
                ask_at, used = asked + 4.0 * (asked - used), asked
            stopped = run(min(chunk, wanted - finished))
            if stopped is not None:
                return stopped
            lasted = time.perf_counter() - begun - used
            growth = 4.0 if until is None else 1.6  # who asks wants to see how it came about
            long = min(CHUNK_SECONDS, max(0.0, allowed - used - lasted) * _OF_LEFT)
            chunk = int(min(max(1, chunk * min(growth, long / max(lasted, 1e-9))), 2**30))
    except KeyboardInterrupt:
        if done() == 0:
            raise
        return StopReason.INTERRUPTED


def plan_limits(
    iterations: int | None, seconds: float | None, until: Any = None, *, ends: bool = False
) -> tuple[int | None, float | None]:
    """Return the limits of a plan, or raise ``OptionError`` where one is wrong, or none is given that ``ends`` not."""
    if until is not None:
        function_of(until, "until", "plan")
    elif iterations is None and seconds is None and not ends:
        raise OptionError("plan needs a limit: iterations=, seconds= or until=")
    wanted = None if iterations is None else integer(iterations, "iterations", low=1)
    return wanted, None if seconds is None else real(seconds, "seconds", low=0.0, ends="(]")


def one_thread(threads: int, reason: str) -> tuple[str, ...]:
    """Return the notes of a plan that keeps to one thread: one that says why, if more were wanted."""
    count = thread_count(threads)
    return () if count == 1 else (f"searched in one thread, not {count}: {reason}",)


class Turn:
    """One call at a time on one search: a second thread waits, a call from inside a call is an error."""

    __slots__ = ("_lock", "_owner")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._owner == me:
            raise OptionError("the search is at work already: a callback of plan() must not use the same search")
        self._lock.acquire()
        self._owner = me

    def __exit__(self, *error: object) -> None:
        self._owner = 0
        self._lock.release()

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Hold the turn for a call of so many seconds; in a short one only young garbage is collected."""
        with self, young_alone(wanted=seconds is not None and seconds <= _SHORT):
            yield

    def or_mine(self) -> AbstractContextManager[None]:
        """Return what waits for a turn, unless this thread has it: for what may look at a search between two chunks."""
        return nullcontext() if self._owner == threading.get_ident() else self

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()  # a copy of a search has a turn of its own


class _Compiling:
    """Time that this process spent on compiling kernels, which no limit of a plan counts."""

    seconds = 0.0


compiling = _Compiling()


@contextmanager
def compile_notice() -> Iterator[None]:
    """Say that kernels are being compiled, if that takes over a second, and on Ctrl-C what becomes of them."""
    message = "tailwise: compiling the kernels (once; later runs load it from the cache) ..."
    timer = threading.Timer(1.0, lambda: print(message, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    begun = time.perf_counter()
    _log.info("compiling kernels, or loading them from the cache")
    try:
        yield
        _log.info("kernels are ready after %.2f s", time.perf_counter() - begun)
    except KeyboardInterrupt:
        print("tailwise: kernels that are compiled are kept; the next run compiles the others", file=sys.stderr)
        raise
    finally:
        timer.cancel()
        compiling.seconds += time.perf_counter() - begun


T = TypeVar("T")


class SideBySide:
    """Runs pieces of work in step, in a ``with`` block: ``run(n)`` does n iterations and may say why it stops."""

    def __init__(self, runs: Sequence[Callable[[int], StopReason | None]], counts: Sequence[Callable[[], int]]) -> None:
        self._runs, self.counts = runs, counts
        self._aim = 0
        self.reasons: list[StopReason | None] = [None] * len(runs)
        self._pool = ThreadPoolExecutor(len(runs) - 1) if len(runs) > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def resume(self, reasons: list[StopReason | None]) -> None:
        """Go on from where the counts stand, with pieces that stopped for these reasons already."""
        self.reasons, size = reasons, len(self._runs)
        going = [k for k in range(size) if reasons[k] is None]
        self._aim = max((size * (done - 1) + 1 + k for k in going if (done := self.counts[k]())), default=0)

    @property
    def reason(self) -> StopReason | None:
        """Why the first piece that stopped early did so."""
        return next((reason for reason in self.reasons if reason is not None), None)

    def done(self) -> int:
        """Iterations in all; what pieces that stopped early will not do counts as done."""
        return self._aim if self.reason else sum(count() for count in self.counts)

    def run(self, iterations: int) -> StopReason | None:
        """Go on by so many iterations in all; return a reason to stop once every piece has one."""
        self._aim += iterations
        futures: list[Future[Any]] = []
        try:
            if self._pool is not None:
                futures = [self._pool.submit(self._one, k) for k in range(1, len(self._runs))]
            self._one(0)
        finally:
            _wait(futures)
        for future in futures:
            future.result()
        return self.reason if all(self.reasons) else None

    def _one(self, k: int) -> None:
        """Bring one piece to its part of the aim; the first pieces do what does not divide."""
        size = len(self._runs)
        left = (self._aim + size - 1 - k) // size - self.counts[k]()
        if left > 0 and self.reasons[k] is None:
            self.reasons[k] = self._runs[k](left)


def _wait(futures: list[Future[Any]]) -> None:
    """Wait until all are at rest, whatever keys are pressed; the last Ctrl-C is passed on then."""
    interrupted = False
    while True:
        try:
            wait(futures)
            break
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        raise KeyboardInterrupt


def in_threads(
    one: Callable[[int], T],
    count: int,
    threads: int,
    progress: Progress,
    *,
    label: str = "playing",
    partial: bool = False,
    stop: Callable[[], None] | None = None,
) -> list[T]:
    """Return ``[one(0), ..., one(count - 1)]``, computed by some threads; an error stops them all.

    On Ctrl-C ``partial`` returns those that are done, in order, if there are any. ``stop`` is called before the threads
    are waited for: what they do may end early.
    """
    values: list[T] = []
    pool = ThreadPoolExecutor(threads) if threads > 1 else None
    try:
        with followed(progress, label, count) as tick:
            for value in map(one, range(count)) if pool is None else pool.map(one, range(count)):
                values.append(value)
                tick(len(values))
    except KeyboardInterrupt:
        if not (partial and values):
            raise
    finally:
        if pool is not None:
            if len(values) < count and stop is not None:
                stop()
            pool.shutdown(wait=True, cancel_futures=True)
    return values
