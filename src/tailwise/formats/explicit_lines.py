"""The lines of explicit files, and the ids and numbers in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tailwise.errors import FormatError

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_LONGEST_LINE = 100_000


@dataclass(frozen=True)
class Lines:
    """A text file's lines that hold something: number and fields of each."""

    path: Path
    lines: list[tuple[int, list[str]]]

    def fail(self, line: int, problem: str) -> NoReturn:
        """Raise ``FormatError`` about one line."""
        raise FormatError(f"{self.path}, line {line}: {problem}")


def read_lines(path: Path) -> Lines:
    """Read a text file; raise ``FormatError`` if it is empty, or no text."""
    lines: list[tuple[int, list[str]]] = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if len(line) > _LONGEST_LINE:
                    raise FormatError(f"{path}, line {number}: longer than {_LONGEST_LINE} characters")
                if line.strip():
                    lines.append((number, line.split()))
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}, line {len(lines) + 1}: not UTF-8 text: {error.reason}") from None
    if not lines:
        raise FormatError(f"{path}, line 1: the file is empty")
    return Lines(path, lines)


def is_id(text: str) -> bool:
    """Whether ``text`` is a whole number that is not negative."""
    return text.isascii() and text.isdigit() and len(text) <= 18


def read_id(source: Lines, line: int, text: str, limit: int) -> int:
    """Return a number of a state or choice, at most ``limit``, or raise ``FormatError``."""
    if not is_id(text) or int(text) > limit:
        source.fail(line, f"{text[:40]!r} is no number of a state or choice (0 to {limit} in this file)")
    return int(text)


def read_number(source: Lines, line: int, text: str) -> str:
    """Return ``text`` if it is a finite number, or raise ``FormatError``."""
    if len(text) > 64 or not _NUMBER.fullmatch(text):
        source.fail(line, f"{text[:40]!r} is not a finite number")
    return text
