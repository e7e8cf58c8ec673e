"""A watch over calls into user code that never return.

An endless loop in a user's ``step`` cannot be seen from inside. One daemon thread looks at the watched searches
every now and then; where a call has lasted longer than its patience, it raises :class:`EndlessCall` in the
thread that is stuck. (Python's own means, a signal, reaches the main thread only; a limit in another process would need
the model to travel there.) That works for Python code, which looks for such exceptions as it runs; a call stuck in
foreign code (a socket, a sleep) is interrupted when it comes back, or by Ctrl-C.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_IDLE_SECONDS = 10.0
_LONGEST_NAP = 1.0


class EndlessCall(BaseException):
    """Raised inside a call that has lasted too long; no ``except Exception`` of a user swallows it."""


class Watch:
    """One thread's calls: ``calls`` goes up with each, ``inside`` is true during one."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.calls = 0
        self.inside = False
        self.thread = 0
        self._seen = -1
        self._since = 0.0
        self._fired = False

    def look(self, now: float) -> None:
        """Raise in the watched thread if its present call has lasted too long."""
        if not self.inside or self.calls != self._seen:
            self._seen, self._since = self.calls, now
        elif now - self._since > self.patience and not self._fired and not _is_debugged(self.thread):
            self._fired = True
            _raise_in(self.thread, EndlessCall)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch the calling thread for the time of a ``with`` block."""
        self.thread, self._fired, self._seen = threading.get_ident(), False, -1
        _watched.add(self)
        _wake()
        try:
            yield
        finally:
            _watched.discard(self)
            if self._fired:
                _raise_in(self.thread, None)  # if the call came back by itself in the very last moment


def _is_debugged(thread: int) -> bool:
    """Whether a debugger traces what the thread runs: whoever looks at a step takes his time."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_trace is not None:
            return True
        frame = frame.f_back
    return False


_watched: set[Watch] = set()
_lock = threading.Lock()
_thread: threading.Thread | None = None


def _wake() -> None:
    global _thread
    if _thread is None or not _thread.is_alive():
        with _lock:
            if _thread is None or not _thread.is_alive():
                _thread = threading.Thread(target=_keep_watch, name="tailwise-watchdog", daemon=True)
                _thread.start()


def _keep_watch() -> None:
    idle = time.monotonic()
    while time.monotonic() - idle < _IDLE_SECONDS:
        watched = list(_watched)
        now = time.monotonic()
        for watch in watched:
            watch.look(now)
        if watched:
            idle = now
        time.sleep(min([_LONGEST_NAP, *(watch.patience / 4 for watch in watched)]))


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    value = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), value)
