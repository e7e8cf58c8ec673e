"""The careful CSV reader: line by line, and every complaint names its line.

The fast readers of :mod:`tailwise.formats.csv_fast` hand over to this one whenever something is not plain
numbers, so that whatever is wrong with a file is found, and said, here.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tailwise.errors import FormatError
from tailwise.formats.columns import Columns
from tailwise.formats.csv_header import Column, Header

_WHOLE = re.compile(r"[+-]?0*[0-9]{1,18}(\.0*)?")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LONGEST_FIELD = 10_000
_LONGEST_LINE = 1_000_000
_TRUE, _FALSE = ("1", "true", "True", "TRUE"), ("0", "false", "False", "FALSE")


def read_careful(path: Path, header: Header) -> Columns:
    """Read a CSV file whose header has been checked.

    Parameters
    ----------
    path : Path
        The file.
    header : Header
        Its columns.

    Returns
    -------
    Columns

    Raises
    ------
    FormatError
        Naming file, line, column and what stands there.
    """
    present: list[Column] = [name for name in header.names if name in _KINDS]  # type: ignore[misc]
    stores: dict[str, Any] = {name: array(_KINDS[name]) for name in present}
    plan = [(header.position(name), name, stores[name]) for name in present]
    width = len(header.names)
    for line, fields in _rows(path):
        if len(fields) != width:
            raise FormatError(f"{path}, line {line}: {len(fields)} fields, but the first line names {width} columns")
        for position, name, store in plan:
            text = fields[position].strip()
            if _KINDS[name] == "q":
                if not (len(text) <= _LONGEST_FIELD and _WHOLE.fullmatch(text)):
                    _fail(path, line, name, text, "a whole number")
                store.append(int(text.partition(".")[0]))
            elif _KINDS[name] == "d":
                if not (len(text) <= _LONGEST_FIELD and _NUMBER.fullmatch(text)):
                    _fail(path, line, name, text, "a finite number")
                store.append(float(text))
            else:
                if text not in (*_TRUE, *_FALSE):
                    _fail(path, line, name, text, "0, 1, true or false")
                store.append(int(text in _TRUE))
    whole = {name: np.array(stores[name], dtype=np.int64) for name in present if _KINDS[name] == "q"}
    done = np.array(stores["done"], dtype=np.bool_) if "done" in stores else None
    return Columns(
        whole["idstatefrom"],
        whole["idaction"],
        whole["idstateto"],
        whole.get("idoutcome"),
        np.array(stores["probability"], dtype=np.float64),
        np.array(stores[header.sense], dtype=np.float64),
        done,
        header.sense,
        str(path),
        LineFinder(path),
    )


_KINDS: dict[str, str] = {
    "idstatefrom": "q", "idaction": "q", "idstateto": "q", "idoutcome": "q",
    "probability": "d", "reward": "d", "cost": "d", "done": "b",
}  # fmt: skip


class LineFinder:
    """A callable that names the file and line of an entry, by reading the file again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, entry: int) -> str:
        """Return ``file, line`` of an entry."""
        for number, (line, _) in enumerate(_rows(self._path)):
            if number == entry:
                return f"{self._path}, line {line}"
        return f"{self._path}, entry {entry}"


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each entry; empty lines are skipped."""
    line = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(_bounded(file, path), strict=True)
            next(reader, None)
            for fields in reader:
                line = reader.line_num
                if fields:
                    yield line, fields
    except csv.Error as error:
        raise FormatError(f"{path}, line {reader.line_num}: not valid CSV: {error}") from None
    except UnicodeDecodeError as error:
        line = _line_of_bad_byte(path)
        raise FormatError(f"{path}, line {line}: not UTF-8 text: {error.reason}") from None


def _bounded(lines: Iterator[str], path: Path) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if len(line) > _LONGEST_LINE:
            raise FormatError(f"{path}, line {number}: longer than {_LONGEST_LINE} characters")
        yield line


def _line_of_bad_byte(path: Path) -> int:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 1


def _fail(path: Path, line: int, name: str, text: str, expected: str) -> NoReturn:
    shown = repr(text if len(text) <= 40 else text[:40] + "...")
    raise FormatError(f"{path}, line {line}: {name} is {shown}; expected {expected}")
