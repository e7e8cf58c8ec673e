"""Anytime work in chunks: time limits, progress, conditions and Ctrl-C, for whatever counts iterations.

Chunks of about 50 ms let all of these work; they must not change the result.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tailwise._validate import integer, real, thread_count
from tailwise.errors import OptionError
from tailwise.search.plan import StopReason

CHUNK_SECONDS = 0.05
Progress = Callable[[int, float], None]


def run_anytime(
    run: Callable[[int], StopReason | None],
    done: Callable[[], int],
    *,
    iterations: int | None,
    seconds: float | None,
    until: Callable[[], bool] | None = None,
    progress: Progress | None = None,
    first_chunk: int = 64,
) -> StopReason:
    """Call ``run`` with numbers of iterations until a limit is reached.

    Parameters
    ----------
    run : callable
        ``run(n)`` does up to n iterations and returns a reason to stop, or None.
    done : callable
        Number of iterations done since this call began.
    iterations, seconds : optional
        Limits, at least one of the two.
    until : callable, optional
        Asked about every 50 ms, less often where asking takes long (a fifth of the time); a true answer ends the work.
    progress : callable, optional
        Called with (iterations done, seconds used) about every 50 ms.
    first_chunk : int, default 64
        Size of the first chunk; small where an iteration may be slow.

    Returns
    -------
    StopReason
        Why it ended. Ctrl-C ends it with ``INTERRUPTED`` once anything was done, and is raised on before.

    Raises
    ------
    OptionError
        If no limit is given, or one is not positive.
    """
    if iterations is None and seconds is None and until is None:
        raise OptionError("plan needs a limit: iterations=, seconds= or until=")
    wanted = 2**62 if iterations is None else integer(iterations, "iterations", low=1)
    allowed = float("inf") if seconds is None else real(seconds, "seconds", low=0.0, low_open=True)
    begun = time.perf_counter()
    chunk, ask_at = min(first_chunk, wanted), 0.0
    try:
        while True:
            finished, used = done(), time.perf_counter() - begun
            if progress is not None and finished:
                progress(finished, used)
            if finished >= wanted:
                return StopReason.ITERATIONS
            if used >= allowed and finished:
                return StopReason.SECONDS
            if until is not None and finished and used >= ask_at:
                if until():
                    return StopReason.UNTIL
                asked = time.perf_counter() - begun
                ask_at, used = asked + 4.0 * (asked - used), asked
            stopped = run(min(chunk, wanted - finished))
            if stopped is not None:
                return stopped
            lasted = time.perf_counter() - begun - used
            growth = 4.0 if until is None else 1.6  # who asks wants to see how it came about
            chunk = int(min(max(1, chunk * min(growth, CHUNK_SECONDS / max(lasted, 1e-9))), 2**30))
            if allowed - used < 2 * CHUNK_SECONDS:
                chunk = max(1, min(chunk, int(chunk * max(0.0, allowed - used) / (2 * CHUNK_SECONDS))))
    except KeyboardInterrupt:
        if done() == 0:
            raise
        return StopReason.INTERRUPTED


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

    def or_mine(self) -> AbstractContextManager[None]:
        """Return what waits for a turn, unless this thread has it: for what may look at a search between two chunks."""
        return nullcontext() if self._owner == threading.get_ident() else self

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()  # a copy of a search has a turn of its own


@contextmanager
def compile_notice() -> Iterator[None]:
    """Say that a kernel is being compiled, if that takes over a second."""
    message = "tailwise: compiling the kernels (once; later runs load it from the cache) ..."
    timer = threading.Timer(1.0, lambda: print(message, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
