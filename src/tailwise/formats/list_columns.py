"""The columns of a transition list: which is which, what their cells mean, and those of a table.

The dialect of the risk-averse reinforcement learning community names its columns
``idstatefrom,idaction,idstateto,probability,reward``, with ``idoutcome`` where an action has alternatives. tailwise
adds ``cost`` (instead of ``reward``) and ``done``. Order and capitals do not matter; usual other names are guessed,
with a note, or given with ``columns=``. Numbers may be fractions and percents.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Bools, Floats, Ints
from tailwise.errors import FormatError, OptionError
from tailwise.models import TabularMDP
from tailwise.models.contract import Sense

Column = NDArray[Any]
Raw = Mapping[str, Column]

IDS = ("idstatefrom", "idaction", "idstateto")
KNOWN = (*IDS, "idoutcome", "probability", "reward", "cost", "done")
_GUESSES = {
    "idstatefrom": "state s from fromstate statefrom currentstate origin source stateid",
    "idaction": "action a act decision actionid",
    "idstateto": "nextstate next sprime sp ns s2 to tostate stateto target successor newstate destination nextstateid",
    "probability": "prob p pr chance transitionprobability",
    "reward": "r rewards payoff gain",
    "cost": "c costs loss",
    "done": "terminal terminated isterminal end final",
}
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FRACTION = re.compile(r"([+-]?[0-9]{1,300})\s*/\s*(0*[1-9][0-9]{0,300})")
_TRUTHS = {"1": True, "true": True, "0": False, "false": False}
_LARGEST_ID = 10**18
_LONGEST_NUMBER = 10_000


class Header(NamedTuple):
    """The columns of a list: how many, the position of each that is known, and what was guessed."""

    width: int
    used: Mapping[str, int]
    notes: tuple[str, ...] = ()


def check_header(names: Sequence[object], ignore: tuple[str, ...], given: Mapping[str, str], where: str) -> Header:
    """Find the columns by their names; ``given`` says what those with other names are."""
    columns = [str(name).strip().lower() for name in names]
    columns = ["" if name.startswith("unnamed:") else name for name in columns]  # the index, as pandas has it
    if "domain" in columns and "initstate" in columns:
        raise FormatError(
            f"{where}: this is a list of start states and discounts, not a model; it is read together "
            "with the models beside it"
        )
    ignored = {name.lower() for name in ignore}
    for name in given:
        if name.lower() not in columns:
            raise OptionError(f"columns: {where} has no column {name!r}; it has {', '.join(filter(None, columns))}")
    called = {name.lower(): meant for name, meant in given.items()}
    known = [called.get(name, name) for name in columns]
    taken = set(known)
    notes = []
    for position, name in enumerate(columns):
        plain = re.sub(r"[^a-z0-9]", "", name.replace("'", "prime"))
        meant = next((meant for meant, others in _GUESSES.items() if plain in others.split()), None)
        if meant and known[position] == name not in (*KNOWN, *ignored) and meant not in taken:
            known[position] = meant
            taken.add(meant)
            notes.append(f"{name} as {meant}")
    if notes:
        notes = [f"columns are read by their names: {', '.join(notes)}; say columns=NAME:MEANING for another reading"]
    missing = [name for name in (*IDS, "probability") if name not in known]
    if missing:
        hint = "" if len(columns) > 1 else "; columns must be separated by commas, semicolons or tabs"
        hint += _named_else(known, missing[0])
        raise FormatError(
            f"{where}: the column {missing[0]!r} is missing; a transition list starts with a line that names "
            f"{', '.join((*IDS, 'probability'))} and reward or cost{hint}. A log of decisions is read with kind='log', "
            "log:PATH?state=COLUMN or, on the command line, --episodes"
        )
    for name in known:
        if name and name not in ignored and known.count(name) > 1:
            raise FormatError(f"{where}: the column {name[:40]!r} is there more than once")
    values = [name for name in ("reward", "cost") if name in known]
    if len(values) != 1:
        found = "not both" if values else f"found neither{_named_else(known, 'cost')}"
        raise FormatError(f"{where}: expected one of the columns 'reward' and 'cost', {found}")
    unknown = [name for name in known if name and name not in KNOWN and name not in ignored]
    if unknown:
        raise FormatError(
            f"{where}: unknown column {unknown[0][:40]!r}; known columns are {', '.join(KNOWN)}; drop it, "
            f"or skip it with ignore_columns={unknown[0][:40]!r}"
        )
    if "" in columns:
        notes.append(f"column {columns.index('') + 1} has no name and is skipped")
    used = {name: position for position, name in enumerate(known) if name in KNOWN}
    return Header(len(columns), used, tuple(notes))


def _named_else(names: Sequence[str], meaning: str) -> str:
    """Say how a column of another name is named, where there may be one."""
    others = [name[:40] for name in names if name and name not in KNOWN]
    listed = f"{', '.join(others[:8])}{', ...' if len(others) > 8 else ''}"
    return f"; say which it is of {listed}: columns=NAME:{meaning}" if len(names) > 1 and others else ""


@dataclass(frozen=True, eq=False)
class Columns:
    """A transition list: n entries, ids in the list's own base (or in order of appearance, where they are names)."""

    origins: Ints  # (n,)
    actions: Ints  # (n,)
    targets: Ints  # (n,)
    alternatives: Ints | None  # (n,) the column idoutcome
    probabilities: Floats  # (n,)
    values: Floats  # (n,) costs or rewards, as ``sense`` says
    done: Bools | None  # (n,)
    sense: Sense
    source: str  # the file or object, for messages
    place: Callable[[int], str]  # "file, line" of an entry, for messages
    state_names: tuple[str, ...] = ()  # where ids are names
    action_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(self.origins.size)

    def fail(self, entry: int, problem: str) -> NoReturn:
        """Raise ``FormatError`` about one entry."""
        raise FormatError(f"{self.place(entry)}: {problem}")

    def digest(self) -> str:
        """Return a checksum of what the list says; how it is written down does not count."""
        hasher = hashlib.sha256()
        for column in (self.origins, self.actions, self.targets, self.alternatives, self.probabilities, self.values):
            hasher.update(b"-" if column is None else np.ascontiguousarray(column).tobytes())
        hasher.update(b"-" if self.done is None else self.done.tobytes())
        hasher.update(repr((self.sense, self.state_names, self.action_names)).encode())
        return hasher.hexdigest()


def check_columns(
    raw: Raw, source: str, place: Callable[[int], str], *, ids: str = "auto", notes: tuple[str, ...] = ()
) -> Columns:
    """Turn raw columns (numbers, truth values or objects, of one length) into checked ones."""
    cells = _Cells(raw, place)
    sense: Sense = "cost" if "cost" in raw else "reward"
    states = [cells.ids(name, ids) for name in ("idstatefrom", "idstateto")]
    if isinstance(states[0], list) != isinstance(states[1], list):
        numbered, kind = ("idstateto", "name") if isinstance(states[0], list) else ("idstatefrom", "number")
        cells.fail(numbered, 0, f"a {kind}, as in the other column of states")
    state_names, (origins, targets) = _numbered(states)
    action_names, (actions,) = _numbered([cells.ids("idaction", ids)])
    alternatives = cells.ids("idoutcome", "auto") if "idoutcome" in raw else None
    if isinstance(alternatives, list):
        cells.fail("idoutcome", 0, "a whole number")
    what = " and ".join(word for word, found in (("states", state_names), ("actions", action_names)) if found)
    if what:
        notes = (*notes, f"the ids of {what} are names; they count in order of appearance")
    return Columns(
        origins, actions, targets, alternatives, cells.numbers("probability"), cells.numbers(sense),
        cells.truths("done") if "done" in raw else None, sense, source, place, state_names, action_names, notes,
    )  # fmt: skip


class _Cells:
    """Cells of raw columns, read as ids, numbers or truth values; complaints name the entry."""

    def __init__(self, raw: Raw, place: Callable[[int], str]) -> None:
        self._raw, self._place = raw, place

    def fail(self, name: str, entry: int, expected: str) -> NoReturn:
        value = self._raw[name][entry]
        value = value.item() if isinstance(value, np.generic) else value
        shown = repr(value if not isinstance(value, str) or len(value) <= 40 else value[:40] + "...")
        shown = "empty" if shown in ("None", "''") else shown
        raise FormatError(f"{self._place(entry)}: {name} is {shown}; expected {expected}")

    def ids(self, name: str, kind: str) -> Ints | list[str]:
        """Return ids as whole numbers, or as names: all of one kind."""
        column = self._raw[name]
        if column.dtype.kind == "S":
            column = column.astype(np.str_)
        if column.dtype.kind in "iu" and kind == "auto":
            return column.astype(np.int64, copy=False)
        if column.dtype.kind == "f" and kind == "auto":
            wrong = ~((np.abs(column) < 2.0**53) & (column == np.floor(column)))
            if wrong.any():
                self.fail(name, int(np.argmax(wrong)), "a whole number")
            return column.astype(np.int64)
        if column.dtype.kind not in "iufOUTS":
            self.fail(name, 0, "a whole number or a name")
        found: list[Any] = []
        for entry, cell in enumerate(column.tolist()):
            value: Any = cell.item() if isinstance(cell, np.generic) else cell
            if isinstance(cell, str):
                value = cell.strip()
                if kind == "auto" and NUMBER.fullmatch(value[:_LONGEST_NUMBER]):
                    value = float(value) if len(value) > 18 or set(value) & set(".eE") else int(value)
            elif kind == "names" and cell is not None and cell == cell:
                value = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            is_name = isinstance(found[0] if found else value, str)
            is_empty = isinstance(value, str) and not value  # "==" of a missing value is neither true nor false
            if is_empty or isinstance(value, bool) or not isinstance(value, str if is_name else int):
                expected = "a name, as in the first entry" if is_name else "a whole number (or say ids=names)"
                self.fail(name, entry, expected)
            if isinstance(value, int) and not abs(value) < _LARGEST_ID:
                self.fail(name, entry, "a whole number in a sensible range")
            found.append(value)
        return found if found and isinstance(found[0], str) else np.array(found, dtype=np.int64)

    def numbers(self, name: str) -> Floats:
        column = self._raw[name]
        if column.dtype.kind in "iuf":
            numbers = column.astype(np.float64, copy=False)
            if np.isnan(numbers).any():
                self.fail(name, int(np.argmax(np.isnan(numbers))), "a finite number")
            return numbers
        return self._each(name, _number, "a finite number", np.float64)

    def truths(self, name: str) -> Bools:
        """Return truth values."""
        column = self._raw[name]
        return column if column.dtype.kind == "b" else self._each(name, _truth, "0, 1, true or false", np.bool_)

    def _each(self, name: str, read: Callable[[Any], Any], expected: str, kind: Any) -> NDArray[Any]:
        found = []
        for entry, cell in enumerate(self._raw[name].tolist()):
            value = read(cell)
            if value is None:
                self.fail(name, entry, expected)
            found.append(value)
        return np.array(found, dtype=kind)


def _number(cell: Any) -> float | None:
    text = cell.strip() if isinstance(cell, str) else str(cell)
    return None if isinstance(cell, bool) or len(text) > _LONGEST_NUMBER else number_of(text)


def _truth(cell: Any) -> bool | None:
    return _TRUTHS.get(str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip().lower())


def number_of(text: str) -> float | None:
    """Return the number that a text spells: decimal, a fraction (1/3) or a percentage (25%); else None."""
    if NUMBER.fullmatch(text):
        return float(text)
    if text.endswith("%") and NUMBER.fullmatch(text[:-1].rstrip()):
        return float(text[:-1]) / 100.0
    fraction = _FRACTION.fullmatch(text)
    return int(fraction[1]) / int(fraction[2]) if fraction else None


def _numbered(columns: list[Ints | list[str]]) -> tuple[tuple[str, ...], list[Ints]]:
    """Number names in order of appearance; numbers stay."""
    index: dict[str, int] = {}
    numbers = [
        np.array([index.setdefault(name, len(index)) for name in column], dtype=np.int64)
        if isinstance(column, list)
        else column
        for column in columns
    ]
    return tuple(index), numbers


def as_array(column: Any) -> Column:
    """Return any column as an array."""
    if isinstance(column, np.ndarray):
        return column
    try:
        return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    except (TypeError, ValueError, ImportError):  # kinds that a library cannot turn into an array whole
        return objects(list(column))


def objects(values: list[Any]) -> Column:
    """Return a list as a column of objects."""
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def digest_of(raw: Raw) -> str:
    """Return the checksum of columns that :func:`columns_of_table` gave."""
    return check_columns(raw, "", str).digest()


def columns_of_table(mdp: TabularMDP, where: str) -> dict[str, Column]:
    """Return the outcomes of a table as columns, by name, ids from 0; ``done`` only where some outcome needs it."""
    if mdp.step_losses.size:
        raise FormatError(
            f"{where}: the table has {mdp.sense}s that depend on the step, which a transition list cannot "
            "hold; save it as .npz"
        )
    if mdp.num_states > 4 * mdp.num_outcomes:
        raise FormatError(
            f"{where}: {mdp.num_states} states with only {mdp.num_outcomes} outcomes; a transition list names "
            "states by their transitions: save it as .npz"
        )
    rows = mdp.outcome_rows
    columns: dict[str, NDArray[Any]] = {
        "idstatefrom": mdp.row_states[rows],
        "idaction": mdp.action_ids[rows],
        "idstateto": mdp.next_states.astype(np.int64),
        "probability": mdp.probabilities,
        mdp.sense: mdp.signed(mdp.losses),
    }
    without_actions = np.diff(mdp.action_offsets) == 0
    if mdp.done.any() or without_actions[mdp.next_states].any():
        columns["done"] = mdp.done
    return columns
