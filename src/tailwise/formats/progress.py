"""One line on stderr that says how long a slow load has been at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_line(text: str, *, show: bool | None = None) -> Iterator[Callable[[str], None]]:
    """Show ``text`` and the time passed while the body runs; yields a function that changes the text.

    Parameters
    ----------
    text : str
        What is being done.
    show : bool, optional
        Whether to show it; by default only if stderr is a terminal.
    """
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, force_terminal=show or None)
    if not (console.is_terminal if show is None else show):
        yield lambda _: None
        return
    columns = (TextColumn("{task.description} ...", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=None)
        yield lambda changed: bar.update(task, description=changed, refresh=True)
