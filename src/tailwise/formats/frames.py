"""Whatever has named columns, as a transition list: pandas, polars and pyarrow tables, NumPy records, mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import FormatError
from tailwise.formats.list_columns import check_header
from tailwise.formats.list_options import ListOptions
from tailwise.formats.list_table import table_of_list
from tailwise.models import TabularMDP


def is_frame(value: Any) -> bool:
    """Whether ``value`` has named columns."""
    return _column_names(value) is not None


def read_frame(frame: Any, options: ListOptions, *, source: str = "", **more: Any) -> TabularMDP:
    """Build a table from a data frame that holds a transition list."""
    source = source or f"the {type(frame).__name__}"
    names = _column_names(frame)
    assert names is not None
    header = check_header(names, options.ignore_columns, options.columns, f"{source}, columns")
    frame = frame.collect() if hasattr(frame, "collect_schema") and not hasattr(frame, "height") else frame
    raw = {name: _array(frame, names[position]) for name, position in header.used.items()}
    sizes = {name: column.size for name, column in raw.items() if column.ndim == 1}
    odd = next((name for name in raw if sizes.get(name) != sizes.get("idstatefrom")), None)
    if odd is not None or not sizes:
        raise FormatError(f"{source}, columns: {odd or 'idstatefrom'} is no column of the same length as the others")
    more = {"place": lambda entry: f"{source}, row {entry + 1}", **more}
    return table_of_list(raw, header, options, source=source, **more)


def _column_names(frame: Any) -> list[Any] | None:
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
    column = frame[name]
    try:
        array = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    except (TypeError, ValueError, ImportError):  # kinds that a library cannot turn into an array whole
        array = np.array(list(column), dtype=object)
    if array.dtype.kind == "f" and getattr(column, "null_count", None):
        missing = np.isnan(array)
        array = array.astype(object)
        array[missing] = None
    return array
