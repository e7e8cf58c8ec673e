"""The columns of a transition list: from raw arrays to checked ones, and from a table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import FormatError
from tailwise.formats.list_header import Header, check_header
from tailwise.models import TabularMDP
from tailwise.models.contract import Sense

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TRUTHS = {"1": True, "true": True, "0": False, "false": False}
_LARGEST_ID = 10**18
_LONGEST_NUMBER = 10_000


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
    raw: Mapping[str, NDArray[Any]], header: Header, source: str, place: Callable[[int], str], *, ids: str = "auto"
) -> Columns:
    """Turn raw columns into checked ones.

    Parameters
    ----------
    raw : mapping of str to ndarray
        The columns by name: numbers, truth values, or objects (texts, mostly), all of one length.
    header : Header
        Their names, checked.
    source : str
        Where they come from, for messages.
    place : callable
        Names an entry, for messages.
    ids : "auto" or "names"
        Whether ids are names whatever they look like.

    Returns
    -------
    Columns

    Raises
    ------
    FormatError
        Naming the entry, the column and what stands there.
    """

    def fail(name: str, entry: int, expected: str) -> NoReturn:
        value = raw[name][entry]
        value = value.item() if isinstance(value, np.generic) else value
        shown = repr(value if not isinstance(value, str) or len(value) <= 40 else value[:40] + "...")
        raise FormatError(f"{place(entry)}: {name} is {shown}; expected {expected}")

    states = [_ids(raw, name, ids, fail) for name in ("idstatefrom", "idstateto")]
    if isinstance(states[0], list) != isinstance(states[1], list):
        numbered = "idstateto" if isinstance(states[0], list) else "idstatefrom"
        fail(numbered, 0, f"a {'name' if isinstance(states[0], list) else 'number'}, as in the other column of states")
    state_names, (origins, targets) = _numbered(states)
    action_names, (actions,) = _numbered([_ids(raw, "idaction", ids, fail)])
    alternatives = _ids(raw, "idoutcome", "auto", fail) if "idoutcome" in raw else None
    if isinstance(alternatives, list):
        fail("idoutcome", 0, "a whole number")
    if state_names or action_names:
        what = " and ".join(w for w, n in (("states", state_names), ("actions", action_names)) if n)
        notes = (*header.notes, f"the ids of {what} are names; they count in order of appearance")
    else:
        notes = header.notes
    return Columns(
        origins, actions, targets, alternatives,
        _numbers(raw, "probability", fail), _numbers(raw, header.sense, fail),
        _truths(raw, fail) if "done" in raw else None,
        header.sense, source, place, state_names, action_names, notes,
    )  # fmt: skip


def _ids(raw: Mapping[str, NDArray[Any]], name: str, ids: str, fail: Callable[..., NoReturn]) -> Ints | list[str]:
    """Return ids as whole numbers, or as names: all of one kind."""
    column = raw[name]
    if column.dtype.kind == "S":
        column = column.astype(np.str_)
    if column.dtype.kind in "iu" and ids == "auto":
        return column.astype(np.int64, copy=False)
    if column.dtype.kind == "f" and ids == "auto":
        wrong = ~((np.abs(column) < 2.0**53) & (column == np.floor(column)))
        if wrong.any():
            fail(name, int(np.argmax(wrong)), "a whole number")
        return column.astype(np.int64)
    if column.dtype.kind not in "iufOUTS":
        fail(name, 0, "a whole number or a name")
    found: list[Any] = []
    for entry, cell in enumerate(column.tolist()):
        value: Any = cell.item() if isinstance(cell, np.generic) else cell
        if isinstance(cell, str):
            value = cell.strip()
            if ids == "auto" and _NUMBER.fullmatch(value[:_LONGEST_NUMBER]):
                value = float(value) if len(value) > 18 or set(value) & set(".eE") else int(value)
        elif ids == "names" and cell is not None and cell == cell:
            value = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        is_first_name = isinstance(found[0] if found else value, str)
        if value == "" or isinstance(value, bool) or not isinstance(value, str if is_first_name else int):
            fail(name, entry, "a name, as in the first entry" if is_first_name else "a whole number (or say ids=names)")
        if isinstance(value, int) and not abs(value) < _LARGEST_ID:
            fail(name, entry, "a whole number in a sensible range")
        found.append(value)
    return found if found and isinstance(found[0], str) else np.array(found, dtype=np.int64)


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


def _numbers(raw: Mapping[str, NDArray[Any]], name: str, fail: Callable[..., NoReturn]) -> Floats:
    column = raw[name]
    if column.dtype.kind in "iuf":
        numbers = column.astype(np.float64, copy=False)
        if np.isnan(numbers).any():
            fail(name, int(np.argmax(np.isnan(numbers))), "a finite number")
        return numbers
    found: list[float] = []
    for entry, cell in enumerate(column.tolist()):
        text = cell.strip() if isinstance(cell, str) else repr(cell) if isinstance(cell, (int, float)) else str(cell)
        if isinstance(cell, bool) or len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
            fail(name, entry, "a finite number")
        found.append(float(text))
    return np.array(found, dtype=np.float64)


def _truths(raw: Mapping[str, NDArray[Any]], fail: Callable[..., NoReturn]) -> Bools:
    column = raw["done"]
    if column.dtype.kind == "b":
        return column
    found: list[bool] = []
    for entry, cell in enumerate(column.tolist()):
        key = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip().lower()
        if key not in _TRUTHS:
            fail("done", entry, "0, 1, true or false")
        found.append(_TRUTHS[key])
    return np.array(found, dtype=np.bool_)


def digest_of(raw: Mapping[str, NDArray[Any]]) -> str:
    """Return the checksum of columns that :func:`columns_of_table` gave."""
    return check_columns(raw, check_header(list(raw), (), ""), "", str).digest()


def columns_of_table(mdp: TabularMDP, where: str) -> dict[str, NDArray[Any]]:
    """Return the outcomes of a table as columns, by name, ids from 0; ``done`` only where some outcome needs it.

    Raises
    ------
    FormatError
        If a transition list cannot hold the table.
    """
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
    per_row = np.diff(mdp.outcome_offsets)
    columns: dict[str, NDArray[Any]] = {
        "idstatefrom": np.repeat(mdp.row_states, per_row),
        "idaction": np.repeat(mdp.action_ids, per_row),
        "idstateto": mdp.next_states.astype(np.int64),
        "probability": mdp.probabilities,
        mdp.sense: mdp.signed(mdp.losses),
    }
    without_actions = np.diff(mdp.action_offsets) == 0
    if mdp.done.any() or without_actions[mdp.next_states].any():
        columns["done"] = mdp.done
    return columns
