"""How far long work is: what ``progress=`` means wherever tailwise takes it.

``True`` shows a bar with rate and time left on standard error; where that is no terminal, a line says after a second
about how long it will take, if that is long. A function is called with (done, total), total being None where it is not
known, in the thread that does the work; what it raises ends the work. ``None`` and ``False`` show nothing. Of nested
work the outermost is shown. Planners, whose work has two limits, call the function with (iterations done, seconds used)
instead.
"""

from __future__ import annotations

import gc
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from tailwise._validate import function_of
from tailwise.errors import OptionError

Progress: TypeAlias = bool | Callable[[float, float | None], None] | None
PlanProgress: TypeAlias = bool | Callable[[int, float], None] | None
Tick: TypeAlias = Callable[[float], None]
"""Told how much is done."""
PlanTick: TypeAlias = Callable[[int, float], None]
"""Told how many iterations are done, and how long they took."""


_NEVER = 2**31 - 1


def untold(*done: float) -> None:
    """What work calls where nobody follows it."""


def after(before: float, tick: Tick) -> Callable[[float, float | None], None]:
    """Return the ``progress=`` of a part of the work, where ``before`` is done when it begins."""
    return lambda done, _: tick(before + done)


@contextmanager
def followed(progress: Progress, label: str, total: float | None) -> Iterator[Tick]:
    """Yield what the work calls with how much of ``total`` is done."""
    if callable(progress):
        tell = function_of(progress, "progress", "done", "total")
        yield lambda done: tell(done, total)
        return
    with _bar(progress, label, total) as move:
        yield move


@contextmanager
def followed_plan(progress: PlanProgress, iterations: int | None, seconds: float | None) -> Iterator[PlanTick]:
    """Yield what a planner calls with (iterations done, seconds used)."""
    if callable(progress):
        yield function_of(progress, "progress", "iterations", "seconds")
        return
    by_time = iterations is None and seconds is not None
    with _bar(progress, "searching", seconds if by_time else iterations, has_rate=not by_time) as move:
        yield lambda done, used: move(used if by_time else done)


_holding = threading.Lock()
_held, _usual = 0, (0, 0, 0)


@contextmanager
def young_alone(*, wanted: bool = True) -> Iterator[None]:
    """Let Python collect young garbage alone, where that is wanted: through all that numba made it takes 0.1 s."""
    global _held, _usual
    if not wanted:
        yield
        return
    with _holding:
        if not _held:
            _usual = gc.get_threshold()
            gc.set_threshold(*_usual[:2], _NEVER)
        _held += 1
    try:
        yield
    finally:
        with _holding:
            _held -= 1
            if not _held:
                gc.set_threshold(*_usual)


@contextmanager
def activity(text: str, *, show: bool | None = None) -> Iterator[Callable[[str], None]]:
    """Show ``text`` and the time passed while the body runs; yields a function that changes the text.

    For work of which is not known how much is left; shown on a terminal, unless ``show`` says otherwise. Inside another
    activity that is shown there is one line, with the inner one's text.
    """
    global _change
    if _change is not None:
        _change(text)
        yield _change
        return
    from rich.console import Console

    console = Console(stderr=True, force_terminal=show or None)
    if not (console.is_terminal if show is None else show):
        yield lambda _: None
        return
    from rich.progress import Progress as Bars
    from rich.progress import TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description} ...", markup=False), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True, redirect_stdout=False) as bars:
        task = bars.add_task(text, total=None)
        _change = lambda changed: bars.update(task, description=changed, refresh=True)  # noqa: E731
        try:
            yield _change
        finally:
            _change = None


_FORECAST_AFTER, _LONG = 1.0, 15.0  # seconds


def _forecast(label: str, total: float) -> Callable[[float], None]:
    """Return what is called with how much is done, and says once about how long the rest takes.

    It goes by what came after the first piece of work, which may have loaded, compiled or begun something.
    """
    begun, first, is_said = time.perf_counter(), (0.0, math.inf), False

    def moved(done: float) -> None:
        nonlocal first, is_said
        used = time.perf_counter() - begun
        if first[0] == 0:
            first = done, used
        passed = used - first[1]
        if is_said or done <= first[0] or used < _FORECAST_AFTER or passed < _FORECAST_AFTER / 2:
            return
        left = passed * (total - done) / (done - first[0])
        if left >= _LONG:  # of work that grows it may be so later
            is_said = True
            name, size = next((unit for unit in _UNITS if left >= 2 * unit[1]), ("s", 1.0))
            rest = f"{done:,.0f} of {total:,.0f} after {used:.0f} s, about {left / size:,.0f} {name} left"
            print(f"tailwise: {label}: {rest}", file=sys.stderr, flush=True)

    return moved


_UNITS = (("days", 86400.0), ("hours", 3600.0), ("min", 60.0))
_is_shown = False
_change: Callable[[str], None] | None = None  # of the activity that is shown


@contextmanager
def _bar(progress: Any, label: str, total: float | None, *, has_rate: bool = True) -> Iterator[Tick]:
    """Show a bar while the body runs, if ``progress`` is True, standard error a terminal, and no other bar there."""
    global _is_shown
    if progress is not None and not isinstance(progress, bool):
        raise OptionError(f"progress must be True, False, None or a function, not {progress!r}")
    if not progress or _is_shown:
        yield untold
        return
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars
    from rich.text import Text

    console = Console(stderr=True)
    if not console.is_terminal:
        _is_shown = total is not None
        try:
            yield untold if total is None else _forecast(label, total)
        finally:
            _is_shown = False
        return

    class Rate(ProgressColumn):
        """Work done a second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2g}/s")

    shown = [BarColumn(), TextColumn("{task.percentage:>3.0f} %")]
    if total is None:
        shown = [TextColumn("{task.completed:,.0f}")]
    columns = (TextColumn("{task.description}", markup=False), *shown, *([Rate()] if has_rate else []))
    _is_shown = True
    try:
        times = (TimeElapsedColumn(), TimeRemainingColumn())
        with Bars(*columns, *times, console=console, transient=True, redirect_stdout=False) as bars:
            task = bars.add_task(label, total=total)
            yield lambda done: bars.update(task, completed=done)
    finally:
        _is_shown = False
