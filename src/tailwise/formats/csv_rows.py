"""Read CSV files: whole, where they are plain numbers (with pyarrow, or NumPy), else row by row with the csv module.

Columns are separated by commas, semicolons or tabs, whichever the first line shows; where it is no comma, a comma in a
number is its decimal point, and what may as well be a thousand (1.000, or 1,000) is noted, or refused where the file
has decimals of the other kind. Blank lines, lines that start with ``#``, Excel's ``sep=;`` and commas at the ends of
lines are skipped. All ways yield raw columns (numbers, or texts), so that whatever is wrong with a file is found in one
place.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import lzma
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import FormatError
from tailwise.formats.list_columns import IDS, Header, check_header, objects

_LONGEST_LINE = 1_000_000
_CHUNK = 20000  # rows; as texts they stay in memory
_BLOCK = 1 << 20  # bytes; stays in the processor's cache
_DECIMAL_COMMA = re.compile(r"\s*[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?\s*%?\s*")
_SEPARATOR_LINE = re.compile(r"\"?sep=[,;\t]\"?\s*", re.IGNORECASE)  # what Excel may begin a file with
_VALUES = ("probability", "reward", "cost")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3}|,[0-9]{3})+")

Raw = dict[str, NDArray[Any]]


def read_rows(
    path: Path, ignore_columns: tuple[str, ...] = (), columns: Mapping[str, str] | None = None
) -> tuple[Header, Raw]:
    """Read a CSV file with a line of column names; ``columns`` says what those with other names are."""
    rows = numbered_rows(path)
    line, names = next(rows, (1, []))
    if not names:
        raise FormatError(f"{path}, line 1: expected column names, found an empty file")
    header = check_header(names, ignore_columns, columns or {}, f"{path}, line {line}")
    raw = _read_fast(path, header, line)
    if delimiter(path) != ",":
        header = header._replace(notes=(*header.notes, *_noted_marks(path, header, may_stop=raw is not None)))
    return header, _read_rows(path, header) if raw is None else raw


def _noted_marks(path: Path, header: Header, *, may_stop: bool) -> list[str]:
    """Return a note where all decimals may be thousands; refuse what may be one beside decimals of the other kind."""
    clear: set[str] = set()
    unclear: dict[str, tuple[int, str]] = {}
    for line, fields in islice(numbered_rows(path), 1, None):
        for cell in (fields[header.used[name]].strip() for name in _VALUES if name in header.used):
            mark = "," if "," in cell else "."
            if mark not in cell:
                continue
            if _THOUSANDS.fullmatch(cell):
                unclear.setdefault(mark, (line, cell))
            else:
                clear.add(mark)
        if may_stop and clear:  # no number has a comma: a decimal point settles it
            return []
    for mark, (line, cell) in unclear.items():
        if len(clear | set(unclear)) > 1:
            plain = cell.replace(mark, "")
            raise FormatError(
                f"{path}, line {line}: {cell!r} may be {plain} or a decimal: the file has both 1.5 and 1,5; "
                f"write {plain}, or all decimals in one way"
            )
    found = [(mark, cell) for mark, (_, cell) in unclear.items() if mark not in clear]
    return [f"{cell!r} is read as a decimal, not as {cell.replace(mark, '')}" for mark, cell in found]


def numbered_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields of every row that holds something, the column names first."""
    line, width = 0, 0
    try:
        separator = delimiter(path)
        with open_text(path) as file:
            reader = csv.reader(_lines(file, path), strict=True, delimiter=separator)
            for fields in reader:
                line = reader.line_num
                if not fields:
                    continue
                width = width or len(fields)
                if len(fields) > width and not any(map(str.strip, fields[width:])):
                    fields = fields[:width]
                if len(fields) != width:
                    problem = f"{len(fields)} fields, but the first line names {width} columns"
                    raise FormatError(f"{path}, line {line}: {problem}")
                yield line, fields
    except csv.Error as error:
        raise FormatError(f"{path}, line {line + 1}: not valid CSV: {error}") from None
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}, line {_line_of_bad_byte(path)}: not UTF-8 text: {error.reason}; save it as UTF-8"
        ) from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise FormatError(f"{path}, line {line + 1}: damaged gzip data: {error}") from None


def delimiter(path: Path) -> str:
    """Return what separates the columns in the first line that holds something."""
    with open_text(path) as file:
        first = next((text for text in _lines(file, path) if text.strip()), "")
    return "," if "," in first else max(";\t", key=first.count) if ";" in first or "\t" in first else ","


def open_text(path: Path) -> io.TextIOWrapper:
    """Open a text file, compressed with gzip or xz or not, for reading."""
    if _mark(path).startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FormatError(f"{path}, line 1: the file is UTF-16; expected UTF-8: convert it")
    return io.TextIOWrapper(_open_binary(path), encoding="utf-8-sig", newline="")


def _mark(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(6)


def _open_binary(path: Path) -> Any:
    mark = _mark(path)
    if mark.startswith(b"\x1f\x8b"):
        return gzip.open(path)
    return lzma.open(path) if mark == b"\xfd7zXZ\0" else path.open("rb")


def line_finder(path: Path) -> Callable[[int], str]:
    """Return what names the file and line of an entry, by reading the file again."""
    return lambda entry: f"{path}, line {next(islice(numbered_rows(path), entry + 1, None))[0]}"


def _lines(file: Any, path: Path) -> Iterator[str]:
    """Lines of bounded length; those without content become empty."""
    for number, line in enumerate(file, start=1):
        if len(line) > _LONGEST_LINE:
            raise FormatError(f"{path}, line {number}: longer than {_LONGEST_LINE} characters")
        content = line.lstrip(" \t\r\n,;")
        is_empty = not content or content[0] == "#" or (number == 1 and _SEPARATOR_LINE.fullmatch(content))
        yield "\n" if is_empty else line


def _line_of_bad_byte(path: Path) -> int:
    with _open_binary(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 1


def _read_rows(path: Path, header: Header, texts: frozenset[str] = frozenset(("done",))) -> Raw:
    """Read with the csv module; the columns ``texts`` are known to hold more than numbers."""
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in header.used}
    has_commas = delimiter(path) != ","
    rows = numbered_rows(path)
    next(rows)
    while chunk := [fields for _, fields in islice(rows, _CHUNK)]:
        columns = list(zip(*chunk, strict=True))
        for name, position in header.used.items():
            cells = columns[position]
            if has_commas and name in _VALUES:
                cells = tuple(cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in cells)
            numbers = None if name in texts else _numbers(cells, whole=name in IDS)
            if numbers is None:
                if name not in texts:
                    return _read_rows(path, header, texts | {name})
                numbers = objects(list(cells))
            parts[name].append(numbers)
    return {name: np.concatenate(found) if found else np.zeros(0) for name, found in parts.items()}


def _numbers(cells: tuple[str, ...], *, whole: bool) -> NDArray[Any] | None:
    """Plain decimal numbers as an array, or None."""
    text = "".join(cells)
    if "_" in text or not text.isascii():  # Python reads 1_0 and other alphabets' digits as numbers
        return None
    if whole:
        try:
            return np.array(list(map(int, cells)), dtype=np.int64)
        except (ValueError, OverflowError):
            pass
    try:
        numbers = np.array(list(map(float, cells)))
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _read_fast(path: Path, header: Header, line: int) -> Raw | None:
    """Read with pyarrow, or with NumPy where it is not installed; None if anything but plain numbers stands there."""
    try:
        importlib.import_module("pyarrow.csv")
    except ImportError:
        raw = _read_numpy(path, header, line)
    else:
        raw = _read_arrow(path, header, line)
    return raw if raw is not None and all(np.isfinite(column).all() for column in raw.values()) else None


def _read_numpy(path: Path, header: Header, line: int) -> Raw | None:
    try:
        with warnings.catch_warnings(), open_text(path) as file:
            warnings.simplefilter("error")  # a file without entries, for one
            cells = np.loadtxt(file, delimiter=delimiter(path), skiprows=line, comments=None, ndmin=2)
    except (ValueError, Warning, OSError, EOFError, zlib.error):
        return None
    if cells.shape[1] != header.width:
        return None
    raw: Raw = {name: np.ascontiguousarray(cells[:, position]) for name, position in header.used.items()}
    if "done" in raw:
        if not np.isin(raw["done"], (0, 1)).all():
            return None
        raw["done"] = raw["done"] == 1
    return raw


def _read_arrow(path: Path, header: Header, line: int) -> Raw | None:
    arrow, reader = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
    names = [f"#{k}" for k in range(header.width)]
    for name, position in header.used.items():
        names[position] = name
    types = {**dict.fromkeys(_VALUES, arrow.float64()), "done": arrow.bool_()}
    try:
        table = reader.read_csv(
            path,
            read_options=reader.ReadOptions(skip_rows=line, column_names=names),
            parse_options=reader.ParseOptions(delimiter=delimiter(path)),
            convert_options=reader.ConvertOptions(
                column_types=types, include_columns=list(header.used), null_values=[],
                true_values=["1", "true", "True", "TRUE"], false_values=["0", "false", "False", "FALSE"],
            ),
        )  # fmt: skip
    except (arrow.ArrowException, ValueError, OSError):
        return None
    for name in header.used:
        kinds = ("bool",) if name == "done" else ("int64", "double")
        if str(table[name].type) not in kinds or table[name].null_count:
            return None
    raw: Raw = {name: table[name].to_numpy() for name in header.used}
    return None if _holds_hexadecimals(path) else raw


def _holds_hexadecimals(path: Path) -> bool:
    """Whether an x stands behind the first line: pyarrow alone reads 0x10 as 16."""
    block = bytearray(_BLOCK)
    with _open_binary(path) as file:
        file.readline()
        while size := file.readinto(block):
            if block.find(b"x", 0, size) >= 0 or block.find(b"X", 0, size) >= 0:
                return True
    return False
