"""One line on stderr that says how long a slow load has been at it."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

_DELAY = 1.0  # quick loads stay silent


class ProgressLine:
    """Context manager that shows ``text`` and the seconds passed, once a second, after the first.

    Parameters
    ----------
    text : str
        What is being done.
    show : bool, optional
        Whether to show it; by default only if stderr is a terminal.
    """

    def __init__(self, text: str, *, show: bool | None = None) -> None:
        self._text = text
        self._show = sys.stderr.isatty() if show is None else show
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._show:
            self._thread = threading.Thread(target=self._tick, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def say(self, text: str) -> None:
        """Change what the line says."""
        self._text = text

    def _tick(self) -> None:
        began, shown = time.monotonic(), 0
        while not self._over.wait(_DELAY):
            line = f"{self._text} ... {time.monotonic() - began:.0f} s"
            sys.stderr.write("\r" + line.ljust(shown))
            sys.stderr.flush()
            shown = len(line)
        if shown:
            sys.stderr.write("\r" + " " * shown + "\r")
            sys.stderr.flush()
