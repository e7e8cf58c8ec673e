"""Checks of plain arguments, so that each message is written once."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from tailwise._arrays import Floats
from tailwise.errors import OptionError, TailwiseError

T = TypeVar("T")
Ends = Literal["[]", "(]", "[)", "()"]  # of a range: which of its ends belong to it


def real(
    value: Any,
    name: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    ends: Ends = "[]",
    finite: bool = True,
    hint: str = "",
) -> float:
    """Return ``value`` as a float inside the given range, with or without its ``ends``, or raise ``OptionError``."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, np.number)):
        raise OptionError(f"{name} must be a number, not {value!r} of type {type(value).__name__}{_tail(hint)}")
    try:
        number = float(value)
    except OverflowError:  # an int beyond the range of a double
        number = math.inf if value == abs(value) else -math.inf
    above = number > low if ends[0] == "(" else number >= low
    inside = above and (number < high if ends[1] == ")" else number <= high)
    if math.isnan(number) or (finite and math.isinf(number)) or not inside:
        left = "(" if math.isinf(low) else ends[0]
        right = ")" if math.isinf(high) else ends[1]
        kind = "a finite number" if finite else "a number"
        raise OptionError(f"{name} must be {kind} in {left}{low:g}, {high:g}{right}, not {value!r}{_tail(hint)}")
    return number


def integer(value: Any, name: str, *, low: int, high: int | None = None, hint: str = "") -> int:
    """Return ``value`` as an int inside the given range, or raise ``OptionError``."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Integral, np.integer)):
        raise OptionError(f"{name} must be a whole number, not {value!r} of type {type(value).__name__}{_tail(hint)}")
    number = int(value)
    if number < low or (high is not None and number > high):
        bounds = f"at least {low}" if high is None else f"from {low} to {high}"
        raise OptionError(f"{name} must be {bounds}, not {number}{_tail(hint)}")
    return number


def numeric(values: Any, name: str, error: type[TailwiseError] = OptionError, what: str = "numbers") -> Floats:
    """Return an array of float64, or raise ``error`` for what is none: complex, a time, or hidden by a mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        hidden = int(np.sum(values.mask))
        raise error(
            f"{name} is a masked array that hides {hidden} of {values.size} entries: fill them (values.filled(...))"
        )
    try:
        given = np.asarray(values)
        if given.dtype.kind in "cmMV":
            raise TypeError(f"it is of type {given.dtype}")
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as fault:
        raise error(f"{name} must be {what}: {fault}") from None


def thread_count(threads: Any) -> int:
    """Return a number of threads, 1 to 1024, or raise ``OptionError``."""
    return integer(threads, "threads", low=1, high=1024, hint="more than there are cores gain nothing")


def choice(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``allowed``, or raise ``OptionError``."""
    if not isinstance(value, str) or value not in allowed:
        raise OptionError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


def truth(value: Any, name: str) -> bool:
    """Return ``value`` if it is True or False, or raise ``OptionError``: "no" would be taken for True."""
    if not isinstance(value, (bool, np.bool_)):
        raise OptionError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def file_path(path: Any) -> Path:
    """Return the path of a file, ``~`` being the home, or raise ``OptionError``."""
    try:
        return Path(path).expanduser()
    except TypeError:
        raise OptionError(f"a file is named by a text or a Path, not {path!r} of type {type(path).__name__}") from None


def page_path(path: Any) -> Path:
    """Return the path of a report, or raise ``OptionError`` where its ending says that it is something else."""
    target = file_path(path)
    if target.suffix.lower() not in ("", ".html", ".htm"):
        raise OptionError(f"a report is one HTML page: its file must end with .html, not {target.suffix} ({target})")
    return target


def listing(values: Iterable[T], name: str, of: str) -> list[T]:
    """Return what can be gone through, but a single text, as a list, or raise ``OptionError``."""
    try:
        if not isinstance(values, (str, bytes)):
            return list(values)
    except TypeError:
        pass
    raise OptionError(f"{name} must be a list of {of}, not {values!r}")


def function_of(value: T, name: str, *arguments: str) -> T:
    """Return a function that can be called with so many arguments, or raise ``OptionError``."""
    given = f"{name} must be a function of ({', '.join(arguments)}), not {value!r}"
    if not callable(value):
        raise OptionError(given)
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # of some functions in C
        return value
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise OptionError(f"{given}: {error}") from None
    return value


def _tail(hint: str) -> str:
    return f"; {hint}" if hint else ""
