"""What the user asked a loader for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tailwise._validate import integer, real
from tailwise.errors import OptionError

DEFAULT_HORIZON = 100
"""Number of decisions where neither the file nor the user gives one (a note says so)."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Options of the transition-list formats, checked.

    Attributes
    ----------
    horizon : int, optional
        Number of decisions.
    discount : float in (0, 1], optional
        Factor per step.
    start : int or str, optional
        Start state: an id as the file counts, or a label.
    base, action_base : 0 or 1, optional
        Where the file's state ids (and action ids) start; told from the file if not given.
    outcomes : int or "uniform", optional
        What to do with alternatives in a column ``idoutcome``.
    ignore_columns : tuple of str
        Columns that are not part of the format and may be skipped.
    start_from : str
        Where ``start`` comes from, if not from the user: a file and line.
    notes : tuple of str
        What the user should know of where the settings come from.
    """

    horizon: int | None = None
    discount: float | None = None
    start: int | str | None = None
    base: int | None = None
    action_base: int | None = None
    outcomes: int | Literal["uniform"] | None = None
    ignore_columns: tuple[str, ...] = ()
    start_from: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.horizon is not None:
            integer(self.horizon, "horizon", low=1, hint="it is the number of decisions")
        if self.discount is not None:
            real(self.discount, "discount", low=0.0, high=1.0, low_open=True)
        for name, value in (("base", self.base), ("action_base", self.action_base)):
            if value is not None:
                integer(value, name, low=0, high=1)
        if self.outcomes is not None and self.outcomes != "uniform":
            integer(self.outcomes, "outcomes", low=0, hint="give an idoutcome of the file, or 'uniform'")
        check_start(self.start)


def check_start(start: Any) -> None:
    """Raise ``OptionError`` unless ``start`` can name a state (None, a whole number or text)."""
    if start is not None and not isinstance(start, str):
        integer(start, "start", low=0, hint="give a state's id or its label")


def names(value: Any, option: str) -> tuple[str, ...]:
    """Return a comma-separated text, or a sequence of texts, as a tuple."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, (list, tuple, set, frozenset)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise OptionError(f"{option} must be a name, or a sequence of names, not {value!r}")
