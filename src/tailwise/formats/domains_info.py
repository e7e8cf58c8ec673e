"""``domains_info.csv``: start states and discounts of the lists beside it, or one folder below.

Its columns are ``domain`` (a file name), ``initstate`` and ``discount``. A start is an id as its model's file counts;
but there are lists that count from 1 for models that count from 0, and the reverse. What the list itself shows
(an entry 0, an id that its model does not have or cannot leave) decides; where it does not, the start is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tailwise.errors import FormatError
from tailwise.formats.csv_rows import numbered_rows
from tailwise.formats.list_columns import Bools, number_of

FILE_NAME = "domains_info.csv"
_LARGEST = 10_000_000


@dataclass(frozen=True)
class Info:
    """Start state and discount of one file; ``where`` is the file and line that say so."""

    start: str
    discount: float
    where: str
    has_zero: bool  # some entry of the list is 0

    def start_index(self, base: int, can_start: Bools, leaves: Bools) -> tuple[int, str]:
        """Return the index of the start state, and a note; an error if none, or more than one, can be meant.

        The ids of the model's file count from ``base``; ``can_start`` says which states have transitions of their own,
        ``leaves`` which of them lead to another state.
        """
        given = int(self.start)
        meant = {given - base: "as its file counts"}
        if base == 0 and not self.has_zero:
            meant[given - 1] = "the list counts from 1, its file from 0"
        elif base == 1 and self.has_zero:
            meant[given] = "the list counts from 0, its file from 1"
        found = [index for index in meant if 0 <= index < can_start.size and can_start[index]]
        found = [index for index in found if leaves[index]] or found
        if not found:
            inside = 0 <= given - base < can_start.size
            problem = (
                "has no transitions" if inside else f"is not in its file; ids are {base}..{can_start.size - 1 + base}"
            )
            raise FormatError(f"{self.where}: start state {self.start!r} {problem}")
        if len(found) > 1:
            ids = " or ".join(str(index + base) for index in sorted(found))
            raise FormatError(
                f"{self.where}: start state {self.start!r} may count from 0 or from 1: say start={ids}, an id as the "
                "model's file counts"
            )
        return found[0], meant[found[0]]


def find_info(path: Path) -> Info | None:
    """Look up a model's file in the ``domains_info.csv`` of its folder, or of the one above."""
    for listing in (path.parent / FILE_NAME, path.absolute().parent.parent / FILE_NAME):
        info = _look_up(listing, path) if listing.is_file() and path.name != FILE_NAME else None
        if info is not None:
            return info
    return None


def _look_up(listing: Path, path: Path) -> Info | None:
    if listing.stat().st_size > _LARGEST:
        raise FormatError(f"{listing}, line 1: the list is larger than {_LARGEST} bytes")
    rows = numbered_rows(listing)
    line, names = next(rows, (1, []))
    header = [name.strip().lower() for name in names]
    missing = [name for name in ("domain", "initstate", "discount") if name not in header]
    if missing:
        raise FormatError(f"{listing}, line {line}: the column {missing[0]!r} is missing")
    wanted = {path.name, path.stem, path.name.removesuffix(".gz"), f"{path.parent.name}/{path.name}"}
    found: Info | None = None
    has_zero = False
    for line, fields in rows:
        entry = dict(zip(header, map(str.strip, fields), strict=True))
        has_zero = has_zero or entry["initstate"] == "0"
        if entry["domain"] in wanted and found is None:
            where = f"{listing}, line {line}"
            start, discount = entry["initstate"], number_of(entry["discount"][:64])
            if not (start.isascii() and start.isdigit() and len(start) <= 18):
                raise FormatError(f"{where}: initstate is {start[:40]!r}; expected a state's id")
            if discount is None or not 0.0 < discount <= 1.0:
                raise FormatError(f"{where}: discount is {entry['discount'][:40]!r}; expected a number in (0, 1]")
            found = Info(start, discount, where, False)
    return found and replace(found, has_zero=has_zero)
