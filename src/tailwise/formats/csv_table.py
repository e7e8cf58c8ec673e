"""Tables from and to CSV files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tailwise.errors import FormatError
from tailwise.formats.csv_careful import read_careful
from tailwise.formats.csv_fast import read_fast
from tailwise.formats.csv_header import read_header
from tailwise.formats.csv_info import find_info
from tailwise.formats.list_table import table_from_columns
from tailwise.formats.metadata import Metadata, metadata_of, parse_metadata
from tailwise.formats.rows import check_listable, rows_of
from tailwise.formats.settings import Settings
from tailwise.models import TabularMDP

_LARGEST_METADATA = 1_000_000_000


def read_csv(path: Path, settings: Settings) -> TabularMDP:
    """Read a transition list; see :func:`tailwise.load` for the options.

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
        Naming the file and the line that is wrong.
    """
    header = read_header(path, settings.ignore_columns)
    columns = read_fast(path, header) or read_careful(path, header)
    metadata = _read_metadata(path)
    if metadata is not None and metadata.sense != header.sense:
        raise FormatError(
            f"{path}, line 1: the values are {header.sense}s, but {metadata.source} says {metadata.sense}s"
        )
    if metadata is None:
        settings = with_info(path, settings)
    elif path.stat().st_size != metadata.list_bytes:
        note = f"the file was changed after it was saved; horizon, start and names are those in {metadata.source}"
        settings = dataclasses.replace(settings, notes=(*settings.notes, note))
    return table_from_columns(columns, settings, metadata, name=path.name)


def with_info(path: Path, settings: Settings) -> Settings:
    """Add what the list of start states and discounts beside ``path`` says, where the user said nothing."""
    info = find_info(path)
    if info is None or (settings.start is not None and settings.discount is not None):
        return settings
    added: list[str] = []
    if settings.start is None:
        added.append(f"start {info.start}")
        settings = dataclasses.replace(settings, start=info.start, start_from=info.where)
    if settings.discount is None:
        added.append(f"discount {info.discount:g}")
        settings = dataclasses.replace(settings, discount=info.discount)
    note = f"{' and '.join(added)} from {Path(info.where).name}"
    return dataclasses.replace(settings, notes=(*settings.notes, note))


def write_csv(mdp: TabularMDP, path: Path) -> None:
    """Write a transition list, and its metadata as JSON beside it (``NAME.csv.json``).

    The list itself is the community's dialect (ids from 0; a column ``done`` only where needed), for any
    reader; horizon, discount, start, labels and terminal costs are in the JSON file.

    Parameters
    ----------
    mdp : TabularMDP
        The table; it must not have costs that depend on the step.
    path : Path
        The file to write.

    Raises
    ------
    FormatError
        If the format cannot hold the table.
    """
    check_listable(mdp, path)
    columns = rows_of(mdp)
    texts = [
        map(repr, column.tolist())
        if name in ("probability", "reward", "cost")
        else map(str, column.astype("int64").tolist())
        for name, column in columns.items()
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(columns) + "\n")
        file.writelines(",".join(fields) + "\n" for fields in zip(*texts, strict=True))
    metadata_path(path).write_text(metadata_of(mdp, list_bytes=path.stat().st_size), encoding="utf-8")


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
