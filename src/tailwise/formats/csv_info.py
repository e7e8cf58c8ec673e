"""``domains_info.csv``: start states and discounts of the CSV files beside it.

Its columns are ``domain`` (a file name), ``initstate`` (an id, as that file counts) and ``discount``.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from tailwise.errors import FormatError

FILE_NAME = "domains_info.csv"
_LARGEST = 10_000_000


@dataclass(frozen=True)
class Info:
    """Start state and discount of one file; ``where`` is the file and line that say so."""

    start: str
    discount: float
    where: str


def find_info(path: Path) -> Info | None:
    """Look up a model in the ``domains_info.csv`` of its folder.

    Parameters
    ----------
    path : Path
        The model's file.

    Returns
    -------
    Info or None
        None if there is no such list, or it does not name the file.

    Raises
    ------
    FormatError
        If the list is damaged; names its line.
    """
    listing = path.parent / FILE_NAME
    if not listing.is_file() or path.name == FILE_NAME:
        return None
    with listing.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise FormatError(f"{listing}, line 1: the list is larger than {_LARGEST} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(f"{listing}, line {line}: not UTF-8 text: {error.reason}") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        missing = [name for name in ("domain", "initstate", "discount") if name not in header]
        if missing:
            raise FormatError(f"{listing}, line 1: the column {missing[0]!r} is missing")
        for fields in reader:
            if not fields:
                continue
            where = f"{listing}, line {reader.line_num}"
            if len(fields) != len(header):
                raise FormatError(f"{where}: {len(fields)} fields for {len(header)} columns")
            entry = dict(zip(header, (field.strip() for field in fields), strict=True))
            if entry["domain"] in (path.name, path.stem):
                return Info(_start(entry["initstate"], where), _discount(entry["discount"], where), where)
    except csv.Error as error:
        raise FormatError(f"{listing}, line {reader.line_num}: not valid CSV: {error}") from None
    return None


def _start(text: str, where: str) -> str:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise FormatError(f"{where}: initstate is {text[:40]!r}; expected a state's id")
    return text


def _discount(text: str, where: str) -> float:
    try:
        value = float(text) if len(text) <= 64 and "_" not in text else 0.0
    except ValueError:
        value = 0.0
    if not 0.0 < value <= 1.0:
        raise FormatError(f"{where}: discount is {text[:40]!r}; expected a number in (0, 1]")
    return value
