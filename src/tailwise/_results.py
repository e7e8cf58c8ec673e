"""How results say themselves: as plain values (JSON), in numbers and names as people read them, and in notebooks.

The layer ``report`` stands above results, and so is found by name at first use.
"""

from __future__ import annotations

import csv
import dataclasses
import importlib
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from tailwise._files import write_result
from tailwise._validate import file_path
from tailwise.errors import OptionError, require

if TYPE_CHECKING:
    import pandas

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Any]
Columns: TypeAlias = dict[str, Any]  # of a table, by name: a list or an array each
"""Plain values by name, as ``json.dumps`` takes them: :data:`Json` all through."""


def plain(value: Any) -> Json:
    """Turn ``value`` into None, bool, int, float, str, and lists and dicts of these.

    NaN and infinities, which JSON lacks, become None, a dataclass its public fields, a named tuple a list; what is
    none of these becomes its text.
    """
    if value is None or (isinstance(value, (bool, str)) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if hasattr(value, "to_dict"):
        own: JsonObject = value.to_dict()
        return own
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # an array or a scalar of NumPy
        return plain(value.tolist())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return str(value)


def nesting(value: Any) -> int:
    """Return how deep lists and objects of JSON are nested, looked at one level at a time: 0 for other values."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, (dict, list))]:
        depth += 1
        level = [item for one in level for item in (one.values() if isinstance(one, dict) else one)]
    return depth


class Result:
    """A frozen dataclass of findings, for subclasses that add the fields."""

    def to_dict(self) -> JsonObject:
        """Return the public fields as plain values, ready for ``json.dumps``: see the class for what they are.

        Numbers that JSON lacks (NaN, infinities) are None, arrays are lists, results within are dicts.
        """
        return _fields(self)


def _fields(value: Any) -> JsonObject:
    names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
    return {name: plain(getattr(value, name)) for name in names}


def report_layer(module: str) -> ModuleType:
    """Return a module of ``tailwise.report``, for what stands below it."""
    return importlib.import_module(f"tailwise.report.{module}")


class Shown:
    """A result that a notebook shows as a small table of HTML, without scripts."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(report_layer("words").html_of(self))


def aligned(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines of a table of texts, the headings first, each column to the right."""
    cells = [[name, *column] for name, column in columns.items()]
    widths = [max(map(len, column)) for column in cells]
    return ["  ".join(map(str.rjust, row, widths)) for row in zip(*cells, strict=True)]


class Tabled:
    """A result that is a table of rows as well; subclasses give its columns."""

    __slots__ = ()

    def to_columns(self) -> Columns:
        """Return the table column by column, by name, for those who have no pandas; the class says what they are."""
        raise NotImplementedError

    def to_frame(self) -> pandas.DataFrame:
        """Return the table as a pandas frame; the class says what its columns are.

        Raises
        ------
        MissingExtraError
            If pandas is not installed (extra ``pandas``).
        """
        frame: pandas.DataFrame = require("pandas", "pandas", "a frame").DataFrame(self.to_columns())
        return frame

    def to_csv(self, path: str | Path) -> Path:
        """Write the table to a CSV file, with a line of names first; return its path."""
        return write_table(self.to_columns(), path, ".csv")

    def to_excel(self, path: str | Path) -> Path:
        """Write the table to a sheet of an .xlsx file (extra ``excel``); return its path."""
        return write_table(self.to_columns(), path, ".xlsx")

    def to_parquet(self, path: str | Path) -> Path:
        """Write the table to a Parquet file (extra ``arrow``); return its path."""
        return write_table(self.to_columns(), path, ".parquet")


def write_table(columns: Columns, path: str | Path, suffix: str = "") -> Path:
    """Write a table, whole or not at all, as its suffix says (of the path, if none is given); return its path.

    Raises
    ------
    OptionError
        If no table is written to files of that suffix, or there are more rows than a sheet has.
    FormatError
        If the file cannot be written.
    MissingExtraError
        If what writes it is not installed.
    """
    target = file_path(path)
    own = target.suffix.lower()
    if own != suffix and (suffix == ".xlsx" or (suffix == ".parquet" and own in _TABLES)):  # Excel opens its own alone
        other = f", or use to_{own[1:]}()" if own in _TABLES else ""
        raise OptionError(f"{target} would hold {suffix}: name it so{other}")
    made = _TABLES[table_suffix(suffix or target)]({name: _cells(column) for name, column in columns.items()})
    write_result(target, [made])
    return target


def table_suffix(path: str | Path) -> str:
    """Return the suffix of a table's file, or raise where none is written, or what writes it is not installed."""
    suffix = str(path).lower() if str(path) in _TABLES else Path(path).suffix.lower()
    if suffix not in _TABLES:
        raise OptionError(f"{path} must end with {', '.join(_TABLES)}: tables are written as these")
    if suffix == ".xlsx":
        require("openpyxl", "excel", "an Excel file")
    if suffix == ".parquet":
        require("pyarrow.parquet", "arrow", "a Parquet file")
    return suffix


def _cells(column: Any) -> list[Any]:
    """Return a column as numbers, truths and texts; None where there is none."""
    found = [value.item() if hasattr(value, "item") else value for value in column]
    found = [value if isinstance(value, (int, float, str, type(None))) else str(value) for value in found]
    found = [None if value != value else value for value in found]
    kinds = {type(value) for value in found} - {type(None)}
    return [None if value is None else str(value) for value in found] if str in kinds and len(kinds) > 1 else found


def _csv(columns: Columns) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode("utf8")


def _excel(columns: Columns) -> bytes:
    rows = list(zip(*columns.values(), strict=True))
    if len(rows) > _MOST_ROWS:
        raise OptionError(f"{len(rows):,} rows are more than a sheet of Excel has ({_MOST_ROWS:,}); write .csv")
    book = require("openpyxl", "excel", "an Excel file").Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    for row in [tuple(columns), *rows]:
        sheet.append([str(cell) if isinstance(cell, float) and math.isinf(cell) else cell for cell in row])
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def _parquet(columns: Columns) -> bytes:
    arrow, parquet = (require(name, "arrow", "a Parquet file") for name in ("pyarrow", "pyarrow.parquet"))
    content = io.BytesIO()
    parquet.write_table(arrow.table(columns), content)
    return content.getvalue()


_MOST_ROWS = 2**20 - 1
_TABLES: dict[str, Callable[[Columns], bytes]] = {".csv": _csv, ".xlsx": _excel, ".parquet": _parquet}


MISSING = "-"


def number(value: float | None, digits: int = 6) -> str:
    """Return a number of so many digits, with a comma for each thousand; a dash where there is none."""
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    text = f"{value:.{digits}g}" if value else "0"
    rounded = float(text)
    if 1e-7 <= abs(rounded) < 1e-4:
        return f"{rounded:.{digits + 6}f}".rstrip("0")
    if not 1e3 <= abs(rounded) < 1e15:
        return text
    whole = math.floor(math.log10(abs(rounded)))
    text = f"{rounded:,.{max(0, digits - 1 - whole)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclasses.dataclass
class _Words:
    unit: str = ""
    step_name: str = "step"


_words = _Words()


def set_printoptions(*, unit: str | None = None, step_name: str | None = None) -> None:
    """Say what amounts and steps are called in all that is printed, drawn and reported from now on.

    Numbers, JSON and tables of data stay as they are.

    Parameters
    ----------
    unit : str, optional
        What costs or rewards are counted in, such as "EUR"; "" for none. If not given, as before.
    step_name : str, optional
        What a step is, in the singular, such as "week". If not given, as before.

    Raises
    ------
    OptionError
        If the name of a step is empty, or either is no single line of text.

    See Also
    --------
    printoptions : The same for a while.
    """
    for name, text in (("unit", unit), ("step_name", step_name)):
        if text is not None and (not isinstance(text, str) or not text.isprintable() or (name[0] == "s" and not text)):
            raise OptionError(f"{name}={text!r} is no name; give a word or two, such as 'EUR' or 'week'")
    if unit is not None:
        _words.unit = unit.strip()
    if step_name is not None:
        _words.step_name = step_name.strip()


@contextmanager
def printoptions(*, unit: str | None = None, step_name: str | None = None) -> Iterator[None]:
    """Say what amounts and steps are called, within a ``with`` block; the arguments are of :func:`set_printoptions`.

    Examples
    --------
    >>> from tailwise import ERM, domains, printoptions, solve
    >>> with printoptions(unit="EUR", step_name="week"):
    ...     print(solve(domains.make("mdp-4"), ERM(0.5)).plan().headline)
    Take safe: ERM at beta 0.5 is 1.77920737 (costs in EUR, lower is better)
    """
    before = dataclasses.replace(_words)
    try:
        set_printoptions(unit=unit, step_name=step_name)
        yield
    finally:
        _words.unit, _words.step_name = before.unit, before.step_name


def in_unit(text: str) -> str:
    """Return what numbers are, with the unit where there is one: "costs", or "costs in EUR"."""
    return f"{text} in {_words.unit}" if _words.unit else text


def amounts(sense: str) -> str:
    """Return what numbers of a sense are: "costs", or "costs in EUR"."""
    return in_unit(f"{sense}s")


def amount(text: str) -> str:
    """Return a number in words with its unit, where it has one."""
    return f"{text} {_words.unit}" if _words.unit and text != MISSING else text


def step_word(count: int | None = None) -> str:
    """Return what a step is called; with a count, the count and the word for so many."""
    name = _words.step_name
    if count is None:
        return name
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def span(low: float | None, high: float | None, digits: int = 5, *, point: bool = True) -> str:
    """Return an interval, or a dash where an end is missing.

    Of samples that do not differ it is a single point, which says nothing: ``point`` is whether it may be one.
    """
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return MISSING
    if low == high and not point:
        return "no spread"
    ends = number(low, digits), number(high, digits)
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def share(value: float | None) -> str:
    """Return a probability in percent."""
    return MISSING if value is None or not math.isfinite(value) else f"{100 * value:.3g} %"


def listed(names: Iterable[str]) -> str:
    """Return names with commas and an "and"."""
    every = list(names)
    return " and ".join([", ".join(every[:-1]), every[-1]] if len(every) > 1 else every)
