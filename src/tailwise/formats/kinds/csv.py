"""CSV: transition lists."""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path
from typing import Any

from tailwise.errors import FormatError
from tailwise.formats.csv_rows import LineFinder, read_rows
from tailwise.formats.list_columns import check_columns, columns_of_table, digest_of
from tailwise.formats.list_options import ListOptions
from tailwise.formats.list_table import table_of_list
from tailwise.formats.metadata import Metadata, metadata_of, parse_metadata
from tailwise.formats.registry import register_format
from tailwise.models import Alternatives, TabularMDP

_LARGEST_METADATA = 1_000_000_000


def read_csv(path: Path, **options: Any) -> TabularMDP | Alternatives:
    """Transition list, one line per outcome.

    The options are those of :class:`ListOptions`. Raises ``FormatError`` naming the file and the line that is wrong.
    """
    asked = ListOptions(**options)
    header, raw = read_rows(path, asked.ignore_columns, asked.columns)
    metadata = None if asked.metadata == "ignore" else _read_metadata(path)
    if metadata is not None and not metadata.list_sha256 and metadata.list_bytes != path.stat().st_size:
        metadata = dataclasses.replace(metadata, list_sha256="of another list")  # tailwise 0.1 kept sizes only
    columns = check_columns(raw, header, str(path), LineFinder(path), ids=asked.ids)
    return table_of_list(columns, asked, path=path, metadata=metadata)


def write_csv(mdp: TabularMDP, path: Path) -> None:
    """Write a transition list, and its metadata as JSON beside it (``NAME.csv.json``).

    The list itself is the community's dialect (ids from 0; a column ``done`` only where needed), for any
    reader; horizon, discount, start, labels and terminal costs are in the JSON file.
    """
    raw = columns_of_table(mdp, str(path))
    texts = [
        map(repr, column.tolist())
        if name in ("probability", "reward", "cost")
        else map(str, column.astype("int64").tolist())
        for name, column in raw.items()
    ]
    with path.open("wb") as binary:
        packed = gzip.GzipFile("", "wb", fileobj=binary, mtime=0) if path.suffix == ".gz" else binary
        packed.write((",".join(raw) + "\n").encode())
        packed.writelines((",".join(fields) + "\n").encode() for fields in zip(*texts, strict=True))
        if packed is not binary:
            packed.close()
    text = metadata_of(mdp, list_bytes=path.stat().st_size, list_sha256=digest_of(raw))
    metadata_path(path).write_text(text, encoding="utf-8")


def metadata_path(path: Path) -> Path:
    """Return where the metadata of a CSV file stands."""
    return path.with_name(path.name + ".json")


def _read_metadata(path: Path) -> Metadata | None:
    beside = metadata_path(path)
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
