"""The first line of a transition CSV: which column is which.

The dialect of the risk-averse reinforcement learning community names its columns
``idstatefrom,idaction,idstateto,probability,reward``, with ``idoutcome`` where an action has
alternatives. tailwise adds ``cost`` (instead of ``reward``) and ``done``. Order and capitals do not matter.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tailwise.errors import FormatError
from tailwise.models.contract import Sense

IDS = ("idstatefrom", "idaction", "idstateto")
KNOWN = (*IDS, "idoutcome", "probability", "reward", "cost", "done")
_LONGEST = 65_536

Column = Literal["idstatefrom", "idaction", "idstateto", "idoutcome", "probability", "reward", "cost", "done"]


@dataclass(frozen=True)
class Header:
    """Positions of the columns of a transition list.

    Attributes
    ----------
    names : tuple of str
        All columns, in the file's order, in lower case.
    sense : "cost" or "reward"
        Which of the two value columns there is.
    """

    names: tuple[str, ...]
    sense: Sense

    def position(self, name: Column) -> int:
        """Return the position of a column, or -1 if the file lacks it."""
        return self.names.index(name) if name in self.names else -1


def check_header(names: list[str], ignore: tuple[str, ...], where: str) -> Header:
    """Check the names of the columns.

    Parameters
    ----------
    names : list of str
        As they stand in the file.
    ignore : tuple of str
        Further columns that may be there.
    where : str
        File and line, for messages.

    Returns
    -------
    Header

    Raises
    ------
    FormatError
        Naming a column that is missing, unknown or there twice.
    """
    columns = tuple(name.strip().lower() for name in names)
    ignored = {name.lower() for name in ignore}
    if "domain" in columns and "initstate" in columns:
        raise FormatError(
            f"{where}: this is a list of start states and discounts, not a model; it is read together "
            "with the models beside it"
        )
    missing = [name for name in (*IDS, "probability") if name not in columns]
    if missing:
        hint = "" if "," in ",".join(names) and len(names) > 1 else "; columns must be separated by commas"
        raise FormatError(
            f"{where}: the column {missing[0]!r} is missing; a transition list starts with a line that names "
            f"{', '.join((*IDS, 'probability'))} and reward or cost{hint}"
        )
    for name in columns:
        if columns.count(name) > 1:
            raise FormatError(f"{where}: the column {name[:40]!r} is there more than once")
    values = [name for name in ("reward", "cost") if name in columns]
    if len(values) != 1:
        raise FormatError(
            f"{where}: expected one of the columns 'reward' and 'cost', not {'both' if values else 'neither'}"
        )
    sense: Sense = "cost" if values == ["cost"] else "reward"
    unknown = [name for name in columns if name not in KNOWN and name not in ignored]
    if unknown:
        raise FormatError(
            f"{where}: unknown column {unknown[0][:40]!r}; known columns are {', '.join(KNOWN)}; drop it, "
            f"or skip it with ignore_columns={unknown[0][:40]!r}"
        )
    return Header(columns, sense)


def read_header(path: Path, ignore: tuple[str, ...]) -> Header:
    """Read and check the first line of a CSV file; see :func:`check_header`."""
    with path.open("rb") as file:
        line = file.readline(_LONGEST)
    where = f"{path}, line 1"
    if line[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FormatError(f"{where}: the file is UTF-16; expected UTF-8: convert it")
    if len(line) == _LONGEST:
        raise FormatError(f"{where}: the first line is longer than {_LONGEST} bytes; expected column names")
    if not line.strip():
        raise FormatError(f"{where}: expected column names, found {'an empty line' if line else 'an empty file'}")
    try:
        text = line.decode("utf-8-sig")
        names = next(csv.reader(io.StringIO(text), strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{where}: cannot read the column names: {error}") from None
    return check_header(names, ignore, where)
