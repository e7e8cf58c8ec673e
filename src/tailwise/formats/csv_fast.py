"""The fast CSV readers: pyarrow's if it is installed, else NumPy's.

They accept plain numbers only. Whatever else stands in a file makes them give up, without a verdict:
the careful reader then reads it, or says what is wrong and where.
"""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tailwise.formats.columns import Columns
from tailwise.formats.csv_careful import LineFinder
from tailwise.formats.csv_header import IDS, Header

_BLOCK = 1 << 20  # bytes; stays in the processor's cache


def read_fast(path: Path, header: Header) -> Columns | None:
    """Read a CSV file of plain numbers whose header has been checked.

    Parameters
    ----------
    path : Path
        The file.
    header : Header
        Its columns.

    Returns
    -------
    Columns or None
        None if the file needs the careful reader.
    """
    try:
        csv = importlib.import_module("pyarrow.csv")
    except ImportError:
        found = read_numpy(path, header)
    else:
        found = _read_arrow(csv, path, header)
    if found is None or found.size == 0:
        return None
    return found if np.isfinite(found.probabilities).all() and np.isfinite(found.values).all() else None


def _read_arrow(csv: Any, path: Path, header: Header) -> Columns | None:
    arrow = importlib.import_module("pyarrow")
    types = dict.fromkeys((*IDS, "idoutcome"), arrow.int64())
    types |= dict.fromkeys(("probability", "reward", "cost"), arrow.float64()) | {"done": arrow.bool_()}
    wanted = [name for name in header.names if name in types]
    try:
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(skip_rows=1, column_names=list(header.names)),
            convert_options=csv.ConvertOptions(
                column_types=types,
                include_columns=wanted,
                null_values=[],
                true_values=["1", "true", "True", "TRUE"],
                false_values=["0", "false", "False", "FALSE"],
            ),
        )
    except (arrow.ArrowException, ValueError, OSError):
        return None
    if any(table[name].null_count for name in wanted) or _holds(path, b"x", b"X"):  # pyarrow alone reads 0x10 as 16
        return None
    arrays = {name: table[name].to_numpy() for name in wanted}
    return _columns(arrays, path, header)


def _holds(path: Path, *letters: bytes) -> bool:
    """Whether one of the letters stands behind the first line."""
    block = bytearray(_BLOCK)
    with path.open("rb") as file:
        file.readline()
        while size := file.readinto(block):
            if any(block.find(letter, 0, size) >= 0 for letter in letters):
                return True
    return False


def read_numpy(path: Path, header: Header) -> Columns | None:
    """Read with NumPy alone; as :func:`read_fast`."""
    kinds = dict.fromkeys((*IDS, "idoutcome"), np.int64) | {"done": np.int8}
    types = np.dtype([(name, kinds.get(name, np.float64)) for name in header.names])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a file without entries, or ids such as 1e3
            cells = np.loadtxt(path, dtype=types, delimiter=",", skiprows=1, comments=None, encoding="utf-8", ndmin=1)
    except (ValueError, Warning, OverflowError, OSError):
        return None
    arrays: dict[str, Any] = {name: np.ascontiguousarray(cells[name]) for name in header.names}
    if "done" in arrays:
        if not np.isin(arrays["done"], (0, 1)).all():
            return None
        arrays["done"] = arrays["done"] == 1
    return _columns(arrays, path, header)


def _columns(arrays: dict[str, Any], path: Path, header: Header) -> Columns:
    return Columns(
        arrays["idstatefrom"],
        arrays["idaction"],
        arrays["idstateto"],
        arrays.get("idoutcome"),
        arrays["probability"],
        arrays[header.sense],
        arrays.get("done"),
        header.sense,
        str(path),
        LineFinder(path),
    )
