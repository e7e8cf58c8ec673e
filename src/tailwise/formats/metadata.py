"""What a transition list cannot say: horizon, discount, start, labels, terminal costs.

``save`` writes it as JSON: beside a CSV file (``model.csv.json``), inside the schema of an Arrow or Parquet file,
and as a member of an ``.npz`` file. Unknown versions and keys are refused by name.

``domains_info.csv`` holds start states and discounts of the lists beside it, or one folder below, in columns ``domain``
(a file name), ``initstate`` and ``discount``. A start is an id as its model's file counts; but there are lists that
count from 1 for models that count from 0, and the reverse. What the list itself shows (an entry 0, an id that its model
does not have or cannot leave) decides; where it does not, the start is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from tailwise._arrays import Bools
from tailwise.errors import FormatError
from tailwise.formats.csv_rows import numbered_rows
from tailwise.formats.list_columns import number_of
from tailwise.models import TabularMDP
from tailwise.models.contract import Sense

FORMAT = "tailwise-table"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """The fields of a :class:`tailwise.TabularMDP` that are not columns; ``source`` is where they stood."""

    source: str
    name: str
    sense: Sense
    horizon: int | None
    discount: float
    start: int
    num_states: int
    state_labels: tuple[str, ...]
    action_labels: tuple[str, ...]
    terminal_values: tuple[float, ...]  # in the sense of the model; empty if all are 0
    list_bytes: int  # size of the list that it was saved with; 0 where both are in one file
    list_sha256: str = ""  # what that list said; empty where both are in one file, and in files of tailwise 0.1
    notes: tuple[str, ...]


def metadata_of(mdp: TabularMDP, *, list_bytes: int = 0, list_sha256: str = "") -> str:
    """Return the metadata of a table as JSON text."""
    terminal = mdp.signed(mdp.terminal_losses).tolist() if mdp.terminal_losses.any() else ()
    known = ("name", "sense", "horizon", "discount", "start", "num_states", "state_labels", "action_labels")
    fields = {"format": FORMAT, "version": VERSION, **{name: getattr(mdp, name) for name in known}}
    fields |= {"terminal_values": terminal, "list_bytes": list_bytes}
    fields |= {"list_sha256": list_sha256, "notes": mdp.notes} if list_sha256 else {"notes": mdp.notes}
    return json.dumps(fields, indent=1, ensure_ascii=False) + "\n"


def parse_metadata(text: str, source: str) -> Metadata:
    """Read metadata back; an error names ``source``, the line and the key that is wrong."""

    def fail(key: str, problem: str) -> NoReturn:
        at = text.find(f'"{key}"')
        line = text.count("\n", 0, at) + 1 if at >= 0 else 1
        raise FormatError(f"{source}, line {line}: {problem}")

    fields: Any = parse_json(text, source, parse_constant=_no_constant)
    if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
        fail("format", f'not metadata of tailwise; expected an object with "format": "{FORMAT}"')
    version = fields.pop("version", None)
    if version != VERSION or isinstance(version, bool):
        fail("version", f"version {version!r} of {FORMAT}; this tailwise reads version {VERSION}: upgrade it")
    known = ", ".join(_EXPECTED)
    for key in fields:
        if key not in _EXPECTED:
            fail(key, f"unknown key {key!r} in version {VERSION}; known keys are {known}")
    for key, (accepts, expected) in _EXPECTED.items():
        if key not in fields and key != "list_sha256":
            fail("format", f"the key {key!r} is missing")
        if key in fields and not accepts(fields[key]):
            fail(key, f"{key} must be {expected}, not {str(fields[key])[:40]!r}")
        if isinstance(fields.get(key), list):
            fields[key] = tuple(map(float, fields[key])) if key == "terminal_values" else tuple(fields[key])
            if key.endswith("labels") and len(set(fields[key])) != len(fields[key]):
                fail(key, f"{key} holds a name more than once; labels must differ")
    if fields["start"] >= fields["num_states"]:
        fail("start", f"start must be a state of 0..{fields['num_states'] - 1}, not {fields['start']}")
    if len(fields["terminal_values"]) not in (0, fields["num_states"]):
        fail("terminal_values", "terminal_values must be a list of one finite number per state")
    fields["discount"] = float(fields["discount"])
    return Metadata(source=source, **fields)


def parse_json(text: str, source: str, **how: Any) -> object:
    """Read JSON; an error names ``source`` and the line."""
    try:
        found: object = json.loads(text, **how)
    except json.JSONDecodeError as error:
        raise FormatError(f"{source}, line {error.lineno}: not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{source}, line 1: not valid JSON: {error}") from None
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63


def _whole(low: int, bits: int = 31) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value < 2**bits


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: isinstance(value, str), "a text"),
    "sense": (lambda value: value in ("cost", "reward"), "'cost' or 'reward'"),
    "horizon": (lambda value: value is None or _whole(1)(value), "a whole number of at least 1, or null for none"),
    "discount": (lambda value: _is_number(value) and 0 < value <= 1, "a number in (0, 1]"),
    "start": (_whole(0), "the number of a state"),
    "num_states": (_whole(1), "a whole number of at least 1"),
    "state_labels": (_is_texts, "a list of texts"),
    "action_labels": (_is_texts, "a list of texts"),
    "terminal_values": (
        lambda value: isinstance(value, list) and all(map(_is_number, value)),
        "a list of one finite number per state",
    ),
    "list_bytes": (_whole(0, 63), "a whole number of bytes"),
    "list_sha256": (lambda value: isinstance(value, str), "a text"),
    "notes": (_is_texts, "a list of texts"),
}


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
        """Return the index of the start, and a note; ``leaves`` says which states lead to others, ids from ``base``."""
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
