"""Compiled work side by side in threads: pieces in step (the trees of ``plan(threads=)``), or many small ones.

The work of pieces in step comes in chunks (:mod:`tailwise.search.anytime`); between two chunks nothing runs, so that
conditions and reports see all trees at rest. Kernels hold no lock of Python while they run. How far each piece has to
go follows from the number of iterations in all, never from how fast it is: chunks and timing do not show in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Self, TypeVar

from tailwise._progress import Progress, followed
from tailwise.search.plan import StopReason

T = TypeVar("T")


class SideBySide:
    """Runs pieces of work in step. To be used in a ``with`` block.

    Parameters
    ----------
    runs : sequence of callable
        ``run(n)`` does n iterations of one piece, and returns a reason to stop or None.
    counts : sequence of callable
        How many iterations each has done.
    """

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

    Parameters
    ----------
    one : callable
        What to compute for an index.
    count, threads : int
        How many indices, and how many threads.
    progress : bool, callable or None
        True shows a bar; a function is told (how many are done, of how many).
    label : str, default "playing"
        What the bar says.
    partial : bool, default False
        On Ctrl-C return those that are done, in order, if there are any.
    stop : callable, optional
        Called before the threads are waited for: what they do may end early.
    """
    values: list[T] = []
    pool = ThreadPoolExecutor(threads) if threads > 1 else None
    try:
        with followed(progress, label, count) as tick:
            for value in map(one, range(count)) if pool is None else pool.map(one, range(count)):
                values.append(value)
                if tick is not None:
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
