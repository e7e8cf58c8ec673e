"""Tables from and to Arrow IPC files: the columns of the CSV dialect, typed, with metadata in the schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tailwise.errors import FormatError, require
from tailwise.formats.columns import Columns
from tailwise.formats.csv_header import IDS, check_header
from tailwise.formats.csv_table import with_info
from tailwise.formats.list_table import table_from_columns
from tailwise.formats.metadata import metadata_of, parse_metadata
from tailwise.formats.rows import check_listable, rows_of
from tailwise.formats.settings import Settings
from tailwise.models import TabularMDP

_KEY = b"tailwise"


def read_arrow(path: Path, settings: Settings) -> TabularMDP:
    """Read a transition list from an Arrow IPC file or stream (extra ``arrow``).

    Parameters
    ----------
    path : Path
        The file.
    settings : Settings
        The user's options.

    Returns
    -------
    TabularMDP

    Raises
    ------
    FormatError
        Naming the file and the row that is wrong.
    MissingExtraError
        If pyarrow is not installed.
    """
    arrow: Any = require("pyarrow", "arrow", f"reading {path}")
    require("pyarrow.ipc", "arrow", f"reading {path}")
    with path.open("rb") as file:
        is_file = file.read(6) == b"ARROW1"
    try:
        with arrow.OSFile(str(path)) as source:
            reader = arrow.ipc.open_file(source) if is_file else arrow.ipc.open_stream(source)
            table = reader.read_all()
        table.validate(full=True)
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"{path}, row 1: not a readable Arrow IPC file: {str(error)[:200]}") from None
    header = check_header(table.column_names, settings.ignore_columns, f"{path}, schema")
    arrays: dict[str, Any] = {}
    for name, column in zip(header.names, table.columns, strict=True):
        kind = "whole" if name in (*IDS, "idoutcome") else "truth" if name == "done" else "number"
        if name in ("probability", "reward", "cost", "done", "idoutcome", *IDS):
            arrays[name] = _column(arrow, column, name, kind, path)
    columns = Columns(
        arrays["idstatefrom"],
        arrays["idaction"],
        arrays["idstateto"],
        arrays.get("idoutcome"),
        arrays["probability"],
        arrays[header.sense],
        arrays.get("done"),
        header.sense,
        str(path),
        lambda entry: f"{path}, row {entry + 1}",
    )
    stored = (table.schema.metadata or {}).get(_KEY)
    metadata = None
    if stored is not None:
        metadata = parse_metadata(stored.decode("utf-8", "replace"), f"{path}, metadata")
        if metadata.sense != header.sense:
            raise FormatError(f"{path}, schema: a column of {header.sense}s, metadata of {metadata.sense}s")
    else:
        settings = with_info(path, settings)
    return table_from_columns(columns, settings, metadata, name=path.name)


def _column(arrow: Any, column: Any, name: str, kind: str, path: Path) -> Any:
    target = {"whole": arrow.int64(), "number": arrow.float64(), "truth": arrow.bool_()}[kind]
    if arrow.types.is_boolean(column.type) != (kind == "truth"):
        raise FormatError(f"{path}, schema: the column {name} holds {column.type}; expected {target}")
    try:
        cast = column.cast(target)
    except arrow.ArrowException as error:
        raise FormatError(f"{path}, schema: the column {name} cannot be read as {target}: {error}") from None
    if cast.null_count:
        row = int(np.argmax(column.is_null().to_numpy())) + 1
        raise FormatError(f"{path}, row {row}: {name} is missing")
    return cast.to_numpy()


def write_arrow(mdp: TabularMDP, path: Path) -> None:
    """Write a table as an Arrow IPC file (extra ``arrow``); see :func:`tailwise.save`.

    Raises
    ------
    FormatError
        If the format cannot hold the table.
    MissingExtraError
        If pyarrow is not installed.
    """
    check_listable(mdp, path)
    arrow: Any = require("pyarrow", "arrow", f"writing {path}")
    require("pyarrow.ipc", "arrow", f"writing {path}")
    table = arrow.table(rows_of(mdp)).replace_schema_metadata({_KEY: metadata_of(mdp).encode()})
    with arrow.OSFile(str(path), "wb") as sink, arrow.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
