"""Columns of a log: from what files and frames hold to codes of names, and numbers; and what is lost by binning them.

On three quarters of the episodes the mean of the cost, and of the column's next value, is learned for each state and
action; and again with each bin cut in half. On the other episodes the better of the two predictions shows what the
bins do not say: where halves explain more, more levels would tell more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints, marked
from tailwise.errors import FormatError, require
from tailwise.formats.list_columns import NUMBER, as_array, number_of, objects

Codes = NDArray[np.int32]
Place = Callable[[int], str]
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "nat", "-", "?"))
_TRUTHS = {"1": True, "true": True, "yes": True, "y": True, "t": True, "0": False, "false": False, "no": False,
           "n": False, "f": False}  # fmt: skip


@dataclass(frozen=True)
class Encoded:
    """Columns, one after the other, as codes of distinct values; -1 where nothing stands."""

    codes: Codes
    values: list[Any]


@dataclass(frozen=True)
class Columns:
    """The columns of a log by meaning, each with its name, and what names the place of a row, for complaints."""

    found: Mapping[str, list[tuple[Any, str]]]
    source: str
    place: Place

    def fail(self, row: int, problem: str) -> NoReturn:
        """Raise ``FormatError`` about a row, counted from 0."""
        raise FormatError(f"{self.place(row)}: {problem}")

    def refuse(self, wrong: NDArray[np.bool_], problem: str, rows: Ints | None = None) -> None:
        """Raise about the first entry that is wrong, if there is any; ``rows`` are where the entries stand."""
        if wrong.any():
            k = int(np.argmax(wrong))
            self.fail(k if rows is None else int(rows[k]), problem)

    def encoded(self, *columns: Any) -> Encoded:
        """Return the distinct values of columns: numbers where all are, in increasing order, else texts."""
        codes: Any = None
        plain: list[Any] = []
        for column in columns:
            own, values = _factorized(column)
            codes = own if codes is None else np.append(codes, np.where(own < 0, -1, own + len(plain)))
            plain += map(_plain, values)
        numbers = [id_number(value) for value in plain]
        are_numbers = all(value is None for value, number in zip(plain, numbers, strict=True) if number is None)
        found = numbers if are_numbers else [None if value is None else _text(value) for value in plain]
        distinct = {value: None for value in found if value is not None}
        order: dict[Any, int] = {value: k for k, value in enumerate(sorted(distinct) if are_numbers else distinct)}
        renumbered = np.array([*(order.get(value, -1) for value in found), -1], dtype=np.int32)
        return Encoded(renumbered[codes], list(order))

    def numbers(self, column: Any, name: str) -> Floats:
        """Return a column as numbers, NaN where nothing stands; raise at what is no number."""
        array = as_array(column)
        if array.dtype.kind in "iufb":
            return array.astype(np.float64, copy=False)
        return self._read(array, name, lambda value: _number(value, comma=True), math.nan, "a number, or nothing")

    def truths(self, what: str) -> NDArray[np.bool_] | None:
        """Return a column of truth values, if it is there; nothing stands for no."""
        if what not in self.found:
            return None
        array = as_array(self.found[what][0][0])
        return array if array.dtype.kind == "b" else self._read(array, what, _truth, False, "0, 1, true or false")

    def _read(self, column: Any, name: str, read: Callable[[Any], Any], missing: float, expected: str) -> NDArray[Any]:
        """Return what each value of a column is read as; None is what it cannot be."""
        codes, values = _factorized(column)
        plain = [_plain(value) for value in values]
        found = [missing if value is None else read(value) for value in plain]
        if None in found:
            k = found.index(None)
            self.fail(int(np.argmax(codes == k)), f"{name} is {str(plain[k])[:40]!r}; expected {expected}")
        return np.asarray(np.array([*found, missing])[codes])


def _factorized(column: Any) -> tuple[NDArray[Any], list[Any]]:
    """Return the code of each entry and the distinct values, in order of appearance, by the column's own library."""
    if hasattr(column, "dictionary_encode"):  # pyarrow, without a Python object for each entry
        return _arrow_codes(column)
    if hasattr(column, "to_arrow"):  # polars
        return _arrow_codes(column.to_arrow())
    if hasattr(column, "factorize"):  # pandas
        codes, values = column.factorize()
        return codes, list(values)
    array = as_array(column)
    if array.dtype.kind in "iub" and array.size:
        low, high = int(array.min()), int(array.max())
        if high - low <= 4 * array.size + 1000:  # a table of what occurs costs less than sorting
            shifted = (array - low).astype(np.int64) if array.dtype.kind != "b" else array.astype(np.int64) - low
            occurs = marked(high - low + 1, shifted)
            values = np.flatnonzero(occurs)
            return (np.cumsum(occurs) - 1).astype(np.int32)[shifted], (values + low).tolist()
    if array.dtype.kind in "iufbM":
        values, codes = np.unique(array, return_inverse=True)
        return codes.reshape(-1), list(values) if array.dtype.kind == "M" else values.tolist()
    index: dict[Any, int] = {}
    found = [index.setdefault(_hashable(value), len(index)) for value in array.tolist()]
    return np.array(found, dtype=np.int64), list(index)


def _arrow_codes(column: Any) -> tuple[NDArray[Any], list[Any]]:
    arrow: Any = require("pyarrow", "arrow", "reading an Arrow column")
    found = column if arrow.types.is_dictionary(column.type) else column.dictionary_encode()
    if isinstance(found, arrow.ChunkedArray):
        found = found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)
        if isinstance(found, arrow.ChunkedArray):
            found = found.unify_dictionaries().combine_chunks()
    return found.indices.fill_null(-1).to_numpy(zero_copy_only=False), found.dictionary.to_pylist()


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, np.ndarray)):
        return tuple(np.asarray(value).reshape(-1).tolist())
    return None if isinstance(value, float) and math.isnan(value) else value


def _plain(value: Any) -> Any:
    """Return a value as a plain one; None where it says that nothing stands there."""
    value = value.item() if isinstance(value, np.generic) and value.dtype.kind in "iufbUS" else value
    if value is None or (isinstance(value, float) and math.isnan(value)) or str(value).strip().lower() in MISSING:
        return None
    return value.strip() if isinstance(value, str) else value


def id_number(value: Any) -> int | float | None:
    """Return the number that an id is: 007 and 7.0 are 7, but 1/2 and 5 % are names."""
    if isinstance(value, str):
        if not NUMBER.fullmatch(value):
            return None
        value = float(value) if len(value) > 15 or set(value) & set(".eE") else int(value)
    if isinstance(value, (int, float)):
        return int(value) if float(value).is_integer() else float(value)
    return None


def _number(value: Any, *, comma: bool = False) -> float | None:
    if isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, str):
        return None
    found = number_of(value)
    return number_of(value.replace(",", ".")) if found is None and comma and value.count(",") == 1 else found


def _truth(value: Any) -> bool | None:
    number = _number(value)
    return _TRUTHS.get(str(int(number)) if number in (0.0, 1.0) else str(value).lower())


def _text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_text, value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


_HELD_OUT = 0.25
_OF_BIN = 2.0  # steps that the mean of a whole bin counts as, for each half


@dataclass(frozen=True)
class BinLoss:
    """How much of something the bins of a column explain on held-out episodes, and how much halves of them would.

    Attributes
    ----------
    column : str
        The column that was binned.
    levels : int
        Its bins.
    target : str
        What is explained: "cost", "reward", or "next" and the column.
    explained, halved : float
        Share of the variance that the states and actions explain, with the bins as they are and with each cut in half;
        NaN where nothing varies, or no held-out step is of a state and action that the others had.
    """

    column: str
    levels: int
    target: str
    explained: float
    halved: float

    def __str__(self) -> str:
        return (
            f"{self.column} in {self.levels} bins: on held-out episodes states and actions explain "
            f"{self.explained:.0%} of the variance of the {self.target}; with bins of half the width {self.halved:.0%}"
        )


@dataclass(frozen=True)
class Binned:
    """A binned column: its numbers at each row, those of the next state where that is a column, and its grid."""

    name: str
    here: Floats
    later: Floats | None
    points: Floats

    def encoded(self) -> Encoded:
        """Return each number as the point nearest to it."""
        middles = (self.points[1:] + self.points[:-1]) / 2.0
        numbers = self.here if self.later is None else np.concatenate([self.here, self.later])
        codes = np.where(np.isnan(numbers), -1, np.searchsorted(middles, numbers)).astype(np.int32)
        return Encoded(codes, [f"{point:.6g}" for point in self.points])


def bin_losses(
    columns: list[Binned],
    rows: Ints,
    first: Ints,
    states: NDArray[np.int32],
    actions: NDArray[np.int32],
    values: Floats,
    sense: str,
) -> tuple[BinLoss, ...]:
    """Return what binning loses, for each column at some rows: of the costs, and of the column's own next value."""
    episodes = first.size - 1
    if not columns or episodes < 2:
        return ()
    order = np.random.default_rng(0).permutation(episodes)
    held = marked(episodes, order[: max(1, round(_HELD_OUT * episodes))])
    is_held = np.repeat(held, np.diff(first))
    cells = states.astype(np.int64) * (int(actions.max()) + 1) + actions
    last = marked(states.size, first[1:] - 1)
    found = []
    for column in columns:
        middles = (column.points[1:] + column.points[:-1]) / 2.0
        here = column.here[rows]
        edges = np.concatenate([[here.min()], middles, [here.max()]])
        above = here > ((edges[1:] + edges[:-1]) / 2.0)[np.searchsorted(middles, here)]
        later = follows = np.where(last, np.nan, np.append(here[1:], np.nan))
        if column.later is not None:
            later = np.where(np.isnan(column.later[rows]), follows, column.later[rows])
        for target, y in ((sense, values), (f"next {column.name}", later)):
            found.append(BinLoss(column.name, column.points.size, target, *_explained(cells, above, y, is_held)))
    return tuple(found)


def _explained(cells: Ints, above: NDArray[np.bool_], y: Floats, held: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the share of the held-out variance that means of cells explain, and means of their halves."""
    known = ~np.isnan(y)
    _, cell = np.unique(cells, return_inverse=True)
    half = 2 * cell + above
    learned, judged = known & ~held, known & held
    count = np.bincount(cell[learned], minlength=cell.max() + 1)
    judged &= count[cell] > 0
    if not judged.any() or not np.ptp(y[judged]):
        return float("nan"), float("nan")
    mean = np.bincount(cell[learned], weights=y[learned], minlength=count.size) / np.maximum(count, 1)
    halves = np.bincount(half[learned], minlength=2 * count.size)
    sums = np.bincount(half[learned], weights=y[learned], minlength=2 * count.size)
    finer = (sums + _OF_BIN * np.repeat(mean, 2)) / (halves + _OF_BIN)
    spread = float(((y[judged] - y[learned].mean()) ** 2).sum())
    coarse, fine = (
        1.0 - float(((y[judged] - guess[judged]) ** 2).sum()) / spread for guess in (mean[cell], finer[half])
    )
    return coarse, fine


_FIELDS = {
    "observations": ("observations", "states", "obs", "state"), "actions": ("actions", "action"),
    "rewards": ("rewards", "reward"), "costs": ("costs", "cost"),
    "terminations": ("terminations", "terminals", "terminated", "dones", "done"),
}  # fmt: skip


def joined(episodes: list[Any]) -> dict[str, object]:
    """Return the columns of a sequence of episodes: mappings or objects with arrays, or lists of rows."""
    if not episodes:
        raise FormatError("the log holds no episodes")
    columns: dict[str, list[Any]] = {name: [] for name in ("episode", "state", "action", "cost", "done")}
    sense = ""
    for number, item in enumerate(episodes):
        if isinstance(item, (list, tuple)) and item and isinstance(item[0], (list, tuple)):
            item = _steps(item, number)
        fields = {name: _field(item, names) for name, names in _FIELDS.items()}
        own = "reward" if fields["rewards"] is not None else "cost"
        parts = [fields[name] for name in ("observations", "actions", f"{own}s")]
        if any(part is None for part in parts) or own != (sense or own):
            raise FormatError(
                f"episode {number}: expected observations, actions and rewards (or costs), or a list of (state, "
                "action, reward) or (state, action, reward, next_state, done)"
            )
        sense = own
        seen, acts, paid = map(as_array, parts)
        if len(seen) not in (len(acts), len(acts) + 1) or len(paid) != len(acts):
            raise FormatError(
                f"episode {number}: {len(seen)} observations, {len(acts)} actions and {len(paid)} {own}s; expected as "
                "many actions as rewards, and one observation more or as many"
            )
        over = fields["terminations"]
        flags = [False] * len(acts) if over is None else [bool(flag) for flag in np.asarray(over).reshape(-1)]
        extra = len(seen) - len(acts)
        columns["episode"] += [number] * len(seen)
        columns["state"] += map(_value, seen)
        columns["action"] += [*map(_value, acts), *[None] * extra]
        columns["cost"] += [*map(float, paid), *[None] * extra]
        columns["done"] += [*flags[: len(acts)], *[False] * extra]
    columns[sense] = columns.pop("cost")
    if not any(columns["done"]):
        del columns["done"]
    return {name: column if name in ("episode", "done") else objects(column) for name, column in columns.items()}


def _steps(rows: Sequence[Any], number: int) -> dict[str, Any]:
    """Return the arrays of an episode given as rows."""
    widths = {len(row) for row in rows}
    if len(widths) != 1 or widths & {0, 1, 2, 4} or max(widths) > 6:
        raise FormatError(
            f"episode {number}: its rows must be (state, action, reward) or (state, action, reward, next, done)"
        )
    columns = list(zip(*rows, strict=True))
    item: dict[str, Any] = {"observations": list(columns[0]), "actions": columns[1], "rewards": columns[2]}
    if len(columns) > 3:
        for k in range(len(rows) - 1):
            if _value(rows[k][3]) != _value(rows[k + 1][0]):
                raise FormatError(
                    f"episode {number}, step {k}: leads to {rows[k][3]!r}, but the next row is in {rows[k + 1][0]!r}"
                )
        item["observations"].append(columns[3][-1])
        item["terminations"] = columns[4]
    return {name: objects(list(column)) for name, column in item.items()}


def _field(item: Any, names: Sequence[str]) -> Any:
    for name in names:
        found = item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)
        if found is not None:
            return found
    return None


def _value(part: Any) -> Any:
    array = np.asarray(part)
    return array.item() if array.ndim == 0 else tuple(array.reshape(-1).tolist())
