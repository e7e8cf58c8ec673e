"""Arrow IPC and Parquet: the columns of the CSV dialect, typed, with metadata in the schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailwise.errors import FormatError, require
from tailwise.formats.frames import read_frame
from tailwise.formats.list_columns import columns_of_table, digest_of
from tailwise.formats.list_options import ListOptions
from tailwise.formats.metadata import metadata_of, parse_metadata
from tailwise.formats.registry import register_format
from tailwise.models import TabularMDP

if TYPE_CHECKING:
    import pyarrow

_KEY = b"tailwise"


def read_arrow(path: Path, **options: Any) -> TabularMDP:
    """Transition list, Arrow IPC file or stream (extra ``arrow``).

    The options are those of :class:`ListOptions`. Raises ``FormatError`` naming the file and the row that is wrong.
    """
    arrow: Any = require("pyarrow", "arrow", f"reading {path}")
    ipc: Any = require("pyarrow.ipc", "arrow", f"reading {path}")
    with path.open("rb") as file:
        is_file = file.read(6) == b"ARROW1"

    def read() -> pyarrow.Table:
        with arrow.OSFile(str(path)) as source:
            return (ipc.open_file(source) if is_file else ipc.open_stream(source)).read_all()

    return _table(arrow, read, path, ListOptions(**options), "Arrow IPC")


def read_parquet(path: Path, **options: Any) -> TabularMDP:
    """Transition list, Parquet (extra ``arrow``); as :func:`read_arrow`."""
    arrow: Any = require("pyarrow", "arrow", f"reading {path}")
    parquet: Any = require("pyarrow.parquet", "arrow", f"reading {path}")
    return _table(arrow, lambda: parquet.ParquetFile(path).read(), path, ListOptions(**options), "Parquet")


def _table(arrow: Any, read: Any, path: Path, options: ListOptions, what: str) -> TabularMDP:
    try:
        table = read()
        table.validate(full=True)
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"{path}, row 1: not a readable {what} file: {str(error)[:200]}") from None
    index = [name for name in table.column_names if name.startswith("__index_level_")]  # what pandas adds
    table = table.drop_columns(index) if index else table
    stored = (table.schema.metadata or {}).get(_KEY)
    metadata = None
    if stored is not None and options.metadata != "ignore":
        metadata = parse_metadata(stored.decode("utf-8", "replace"), f"{path}, metadata")
    return read_frame(table, options, source=str(path), path=path, metadata=metadata)


def _arrow_table(mdp: TabularMDP, path: Path) -> pyarrow.Table:
    arrow: Any = require("pyarrow", "arrow", f"writing {path}")
    raw = columns_of_table(mdp, str(path))
    text = metadata_of(mdp, list_sha256=digest_of(raw))
    return arrow.table(raw).replace_schema_metadata({_KEY: text.encode()})


def write_arrow(mdp: TabularMDP, path: Path) -> None:
    """Write a table as an Arrow IPC file (extra ``arrow``); see :func:`tailwise.save`."""
    table = _arrow_table(mdp, path)
    arrow, ipc = require("pyarrow", "arrow", "writing"), require("pyarrow.ipc", "arrow", "writing")
    with arrow.OSFile(str(path), "wb") as sink, ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def write_parquet(mdp: TabularMDP, path: Path) -> None:
    """Write a table as a Parquet file (extra ``arrow``); see :func:`tailwise.save`."""
    table = _arrow_table(mdp, path)
    require("pyarrow.parquet", "arrow", f"writing {path}").write_table(table, str(path))


register_format(
    "arrow", read_arrow, extensions=(".arrow", ".ipc", ".feather", ".arrows"), write=write_arrow, options=ListOptions
)
register_format("parquet", read_parquet, extensions=(".parquet", ".pq"), write=write_parquet, options=ListOptions)
