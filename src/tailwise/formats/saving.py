"""``save``: tables to files."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from tailwise._files import put_in_place
from tailwise.errors import FormatError, ModelError, UnknownNameError
from tailwise.formats.registry import format_of_file, list_formats
from tailwise.models import TabularMDP


def save(model: TabularMDP, path: str | os.PathLike[str]) -> Path:
    """Save a table; :func:`load` gives an equal one back.

    Parameters
    ----------
    model : TabularMDP
        The table. Simulators have no finite description and cannot be saved.
    path : str or path
        Where to; the extension decides. ``.npz`` holds everything. ``.csv`` is the community's transition
        list, with what a list cannot say in ``NAME.csv.json`` beside it (``.csv.gz`` is the same, compressed);
        ``.arrow`` and ``.parquet`` are the same in one file (extra ``arrow``). Lists cannot hold costs that depend
        on the step.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    FormatError
        If the format cannot hold the table, or the file cannot be written.
    UnknownNameError
        If no format that is written has the extension.
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
    target = Path(path).expanduser()
    if not isinstance(model, TabularMDP):
        raise ModelError(f"only tables can be saved, and {type(model).__name__} is none")
    found = format_of_file(target.name)
    if found is None or found.write is None:
        endings = ", ".join(ending for item in list_formats() if item.write for ending in item.extensions)
        raise UnknownNameError(
            f"{target}: tables are saved as .npz, .csv or .arrow, not {target.suffix!r}; all: {endings}"
        )
    write = found.write
    try:
        with TemporaryDirectory(prefix=".tailwise-", dir=target.parent) as folder:  # whole files or none
            draft = Path(folder) / target.name
            try:
                write(model, draft)
            except FormatError as error:
                raise FormatError(str(error).replace(str(draft), str(target))) from None
            for part in sorted(Path(folder).iterdir(), key=lambda part: part.name == target.name):
                put_in_place(part, target.with_name(part.name))
    except OSError as error:
        raise FormatError(f"{target}: it cannot be written: {error.strerror}") from None
    return target
