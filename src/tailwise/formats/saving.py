"""``save``: tables to files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tailwise.errors import FormatError, ModelError, UnknownNameError
from tailwise.formats.spec import EXTENSIONS
from tailwise.models import TabularMDP


def save(model: TabularMDP, path: str | os.PathLike[str]) -> Path:
    """Save a table; :func:`load` gives an equal one back.

    Parameters
    ----------
    model : TabularMDP
        The table. Simulators have no finite description and cannot be saved.
    path : str or path
        Where to; the extension decides. ``.npz`` holds everything. ``.csv`` is the community's transition
        list, with what a list cannot say in ``NAME.csv.json`` beside it; ``.arrow`` is the same in one file
        (extra ``arrow``). Lists cannot hold costs that depend on the step.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    FormatError
        If the format cannot hold the table, or the file cannot be written.
    UnknownNameError
        If the extension is none of the three.
    ModelError
        If ``model`` is no table.

    Examples
    --------
    >>> import tailwise, tempfile, pathlib
    >>> mdp = tailwise.load("mdp-4")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = tailwise.save(mdp, pathlib.Path(folder) / "mdp.csv")
    ...     tailwise.load(path).equals(mdp)
    True
    """
    target = Path(path)
    if not isinstance(model, TabularMDP):
        raise ModelError(f"only tables can be saved, and {type(model).__name__} is none")
    kind = EXTENSIONS.get(target.suffix.lower())
    write = _writer(kind)
    if write is None:
        raise UnknownNameError(f"{target}: tables are saved as .npz, .csv or .arrow, not {target.suffix!r}")
    try:
        with TemporaryDirectory(prefix=".tailwise-", dir=target.parent) as folder:  # whole files or none
            draft = Path(folder) / target.name
            try:
                write(model, draft)
            except FormatError as error:
                raise FormatError(str(error).replace(str(draft), str(target))) from None
            for part in sorted(Path(folder).iterdir(), key=lambda part: part.name == target.name):
                part.replace(target.with_name(part.name))
    except OSError as error:
        raise FormatError(f"{target}: it cannot be written: {error.strerror}") from None
    return target


def _writer(kind: str | None) -> Callable[[Any, Path], None] | None:
    if kind == "csv":
        from tailwise.formats.csv_table import write_csv

        return write_csv
    if kind == "arrow":
        from tailwise.formats.arrow_table import write_arrow

        return write_arrow
    if kind == "npz":
        from tailwise.formats.npz_table import write_npz

        return write_npz
    return None
