"""Whatever has named columns, as a transition list.

CSV; data frames of pandas, polars and pyarrow, NumPy records, mappings; Arrow IPC and Parquet files, typed, with
metadata in the schema; the first sheet of Excel workbooks, through openpyxl.
"""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import FormatError, require
from tailwise.formats.csv_rows import line_finder, read_rows
from tailwise.formats.list_columns import as_array, check_columns, check_header, columns_of_table, digest_of
from tailwise.formats.list_table import table_of_list
from tailwise.formats.metadata import Metadata, metadata_of, parse_metadata
from tailwise.formats.options import ListOptions
from tailwise.formats.registry import register_format
from tailwise.models import Alternatives, TabularMDP

if TYPE_CHECKING:
    import pyarrow


def read_frame(
    frame: Any,
    options: ListOptions,
    *,
    source: str = "",
    notes: tuple[str, ...] = (),
    place: Callable[[int], str] | None = None,
    **more: Any,
) -> TabularMDP | Alternatives:
    """Build a table from a data frame that holds a transition list."""
    source = source or f"the {type(frame).__name__}"
    names = column_names(frame)
    assert names is not None
    kept = [name for name in getattr(getattr(frame, "index", None), "names", None) or () if name is not None]
    try:
        header = check_header(names, options.ignore_columns, options.columns, f"{source}, columns")
    except FormatError as error:
        hint = f"; {', '.join(map(repr, kept))} is its index: give frame.reset_index()" if kept else ""
        raise FormatError(f"{error}{hint}") from None
    frame = frame.collect() if hasattr(frame, "collect_schema") and not hasattr(frame, "height") else frame
    raw = {name: _array(frame, names[position]) for name, position in header.used.items()}
    sizes = {name: column.size for name, column in raw.items() if column.ndim == 1}
    odd = next((name for name in raw if sizes.get(name) != sizes.get("idstatefrom")), None)
    if odd is not None or not sizes:
        raise FormatError(f"{source}, columns: {odd or 'idstatefrom'} is no column of the same length as the others")
    place = place or (lambda entry: f"{source}, row {entry + 1}")
    columns = check_columns(raw, source, place, ids=options.ids, notes=(*notes, *header.notes))
    return table_of_list(columns, options, **more)


def column_names(frame: Any) -> list[Any] | None:
    """Return the names of a table's columns; None if it has none."""
    if isinstance(frame, Mapping):
        return list(frame)
    if hasattr(frame, "collect_schema"):  # a lazy frame of polars
        return list(frame.collect_schema().names())
    if isinstance(frame, np.ndarray):
        return list(frame.dtype.names) if frame.dtype.names else None
    names = getattr(frame, "column_names", None)  # pyarrow's ``columns`` are the columns themselves
    names = getattr(frame, "columns", None) if names is None else names
    if names is None or isinstance(names, str) or not hasattr(frame, "__getitem__"):
        return None
    try:
        return list(names)
    except TypeError:
        return None


def _array(frame: Any, name: Any) -> NDArray[Any]:
    column, array = frame[name], as_array(frame[name])
    if array.dtype.kind == "f" and getattr(column, "null_count", None):
        missing = np.isnan(array)
        array = array.astype(object)
        array[missing] = None
    return array


_KEY = b"tailwise"


def arrow_table(path: Path, *, is_parquet: bool) -> pyarrow.Table:
    """Read a Parquet file, or an Arrow IPC file or stream, and validate it."""
    arrow: Any = require("pyarrow", "arrow", f"reading {path}")
    with path.open("rb") as file:
        mark = file.read(6)
    try:
        if is_parquet:
            table = require("pyarrow.parquet", "arrow", f"reading {path}").ParquetFile(path).read()
        elif mark.startswith((b"ARROW1", b"FEA1")):
            table = require("pyarrow.feather", "arrow", f"reading {path}").read_table(path)
        else:
            with arrow.OSFile(str(path)) as source:
                table = require("pyarrow.ipc", "arrow", f"reading {path}").open_stream(source).read_all()
        table.validate(full=True)
        return table.drop_columns([name for name in table.column_names if name.startswith("__index_level_")])  # pandas'
    except (arrow.ArrowException, OSError, ValueError) as error:
        what = "Parquet" if is_parquet else "Arrow IPC"
        raise FormatError(f"{path}, row 1: not a readable {what} file: {str(error)[:200]}") from None


def _read_typed(path: Path, is_parquet: bool, options: dict[str, Any]) -> TabularMDP | Alternatives:
    asked, table = ListOptions(**options), arrow_table(path, is_parquet=is_parquet)
    stored = (table.schema.metadata or {}).get(_KEY)
    metadata = None
    if stored is not None and asked.metadata != "ignore":
        metadata = parse_metadata(stored.decode("utf-8", "replace"), f"{path}, metadata")
    return read_frame(table, asked, source=str(path), path=path, metadata=metadata)


def read_arrow(path: Path, **options: Any) -> TabularMDP | Alternatives:
    """Transition list, Arrow IPC file or stream (extra ``arrow``)."""
    return _read_typed(path, False, options)


def read_parquet(path: Path, **options: Any) -> TabularMDP | Alternatives:
    """Transition list, Parquet (extra ``arrow``); as :func:`read_arrow`."""
    return _read_typed(path, True, options)


def _arrow_table(mdp: TabularMDP, path: Path) -> pyarrow.Table:
    arrow: Any = require("pyarrow", "arrow", f"writing {path}")
    raw = columns_of_table(mdp, str(path))
    text = metadata_of(mdp, list_sha256=digest_of(raw))
    return arrow.table(raw).replace_schema_metadata({_KEY: text.encode()})


def write_arrow(mdp: TabularMDP, path: Path) -> None:
    """Write a table as an Arrow IPC file (extra ``arrow``); see :func:`tailwise.save`."""
    feather: Any = require("pyarrow.feather", "arrow", f"writing {path}")
    feather.write_feather(_arrow_table(mdp, path), str(path), compression="uncompressed")


def write_parquet(mdp: TabularMDP, path: Path) -> None:
    """Write a table as a Parquet file (extra ``arrow``); see :func:`tailwise.save`."""
    table = _arrow_table(mdp, path)
    require("pyarrow.parquet", "arrow", f"writing {path}").write_table(table, str(path))


register_format(
    "arrow", read_arrow, extensions=(".arrow", ".ipc", ".feather", ".arrows"), write=write_arrow, options=ListOptions
)
register_format("parquet", read_parquet, extensions=(".parquet", ".pq"), write=write_parquet, options=ListOptions)


def read_excel(path: Path, **options: Any) -> TabularMDP | Alternatives:
    """Transition list, first sheet of an Excel workbook (openpyxl)."""
    excel: Any = require("openpyxl", "excel", f"reading {path}")
    try:
        with path.open("rb") as file:
            sheet = excel.load_workbook(file, read_only=True, data_only=True).worksheets[0]
            rows = list(enumerate(sheet.iter_rows(values_only=True), 1))
    except Exception as error:  # openpyxl raises many types
        raise FormatError(f"{path}: not a readable workbook: {str(error)[:200]}") from None
    rows = [(k, cells) for k, cells in rows if any(cell is not None for cell in cells)]
    if not rows:
        raise FormatError(f"{path}, row 1: the first sheet is empty")
    names = ["" if cell is None else str(cell) for cell in rows[0][1]]
    columns = {name: [cells[k] for _, cells in rows[1:]] for k, name in enumerate(names) if name}

    def place(entry: int) -> str:
        return f"{path}, row {rows[entry + 1][0]}"

    return read_frame(columns, ListOptions(**options), source=str(path), place=place, path=path)


register_format("excel", read_excel, extensions=(".xlsx", ".xlsm"), options=ListOptions)


_LARGEST_METADATA = 1_000_000_000


def read_csv(path: Path, **options: Any) -> TabularMDP | Alternatives:
    """Transition list, one line per outcome."""
    asked = ListOptions(**options)
    header, raw = read_rows(path, asked.ignore_columns, asked.columns)
    metadata = None if asked.metadata == "ignore" else _read_metadata(path)
    if metadata is not None and not metadata.list_sha256 and metadata.list_bytes != path.stat().st_size:
        metadata = dataclasses.replace(metadata, list_sha256="of another list")  # tailwise 0.1 kept sizes only
    columns = check_columns(raw, str(path), line_finder(path), ids=asked.ids, notes=header.notes)
    return table_of_list(columns, asked, path=path, metadata=metadata)


def write_csv(mdp: TabularMDP, path: Path) -> None:
    """Write a transition list in the community's dialect, and what it cannot say as JSON (``NAME.csv.json``)."""
    raw = columns_of_table(mdp, str(path))
    texts = [
        map(repr, (column if column.dtype.kind == "f" else column.astype(int)).tolist()) for column in raw.values()
    ]
    with path.open("wb") as binary:
        packed = gzip.GzipFile("", "wb", fileobj=binary, mtime=0) if path.suffix == ".gz" else binary
        packed.write((",".join(raw) + "\n").encode())
        packed.writelines((",".join(fields) + "\n").encode() for fields in zip(*texts, strict=True))
        if packed is not binary:
            packed.close()
    text = metadata_of(mdp, list_bytes=path.stat().st_size, list_sha256=digest_of(raw))
    path.with_name(f"{path.name}.json").write_text(text, encoding="utf-8")


def _read_metadata(path: Path) -> Metadata | None:
    beside = path.with_name(f"{path.name}.json")
    if not beside.is_file():
        return None
    if beside.stat().st_size > _LARGEST_METADATA:
        raise FormatError(f"{beside}, line 1: the file is larger than {_LARGEST_METADATA} bytes")
    content = beside.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(f"{beside}, line {line}: not UTF-8 text: {error.reason}") from None
    return parse_metadata(text, str(beside))


register_format(
    "csv", read_csv, extensions=(".csv", ".csv.gz", ".tsv", ".tsv.gz"), write=write_csv, options=ListOptions
)
