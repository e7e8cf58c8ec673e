"""Which column of a transition list is which.

The dialect of the risk-averse reinforcement learning community names its columns
``idstatefrom,idaction,idstateto,probability,reward``, with ``idoutcome`` where an action has
alternatives. tailwise adds ``cost`` (instead of ``reward``) and ``done``. Order and capitals do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailwise.errors import FormatError
from tailwise.models.contract import Sense

IDS = ("idstatefrom", "idaction", "idstateto")
KNOWN = (*IDS, "idoutcome", "probability", "reward", "cost", "done")


@dataclass(frozen=True)
class Header:
    """The columns of a transition list.

    Attributes
    ----------
    names : tuple of str
        All columns, in order, in lower case; a column without a name is "".
    sense : "cost" or "reward"
        Which of the two value columns there is.
    notes : tuple of str
        What the user should know of columns that are skipped.
    """

    names: tuple[str, ...]
    sense: Sense
    notes: tuple[str, ...] = ()

    @property
    def used(self) -> dict[str, int]:
        """Position of each column that is part of the format."""
        return {name: position for position, name in enumerate(self.names) if name in KNOWN}


def check_header(names: Sequence[object], ignore: tuple[str, ...], where: str) -> Header:
    """Check the names of the columns.

    Parameters
    ----------
    names : sequence
        As they stand in the source. Columns without a name (the index of ``pandas.to_csv``, or commas at
        the ends of lines) are skipped; so are those that pandas calls ``Unnamed: 0``.
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
    columns = tuple(str(name).strip().lower() for name in names)
    columns = tuple("" if name.startswith("unnamed:") else name for name in columns)
    ignored = {name.lower() for name in ignore}
    if "domain" in columns and "initstate" in columns:
        raise FormatError(
            f"{where}: this is a list of start states and discounts, not a model; it is read together "
            "with the models beside it"
        )
    missing = [name for name in (*IDS, "probability") if name not in columns]
    if missing:
        hint = "" if len(columns) > 1 else "; columns must be separated by commas"
        raise FormatError(
            f"{where}: the column {missing[0]!r} is missing; a transition list starts with a line that names "
            f"{', '.join((*IDS, 'probability'))} and reward or cost{hint}"
        )
    for name in columns:
        if name and name not in ignored and columns.count(name) > 1:
            raise FormatError(f"{where}: the column {name[:40]!r} is there more than once")
    values = [name for name in ("reward", "cost") if name in columns]
    if len(values) != 1:
        raise FormatError(
            f"{where}: expected one of the columns 'reward' and 'cost', not {'both' if values else 'neither'}"
        )
    unknown = [name for name in columns if name and name not in KNOWN and name not in ignored]
    if unknown:
        raise FormatError(
            f"{where}: unknown column {unknown[0][:40]!r}; known columns are {', '.join(KNOWN)}; drop it, "
            f"or skip it with ignore_columns={unknown[0][:40]!r}"
        )
    nameless = [position + 1 for position, name in enumerate(columns) if not name]
    notes = (f"column {nameless[0]} has no name and is skipped",) if nameless else ()
    return Header(columns, "cost" if values == ["cost"] else "reward", notes)
