"""From the columns of a log to :class:`Episodes`: order, next states and ends, each fault with its row and way out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Ints, marked
from tailwise.errors import FormatError, OptionError
from tailwise.formats.list_columns import as_array
from tailwise.logs.columns import Binned, Codes, Columns, Encoded, bin_losses, id_number
from tailwise.logs.episodes import UNKNOWN, Episodes
from tailwise.models.contract import Sense
from tailwise.models.gymnasium.actions import Discretized

_SPARE_IDS = 1000  # ids may leave this many gaps, and 4 per row more, before they count as names
_MOST_NUMBERS = 100  # different numbers with a fraction, before a column counts as continuous


@dataclass(frozen=True)
class _Rows:
    """The rows of a log, soon in order: episode by episode, step by step."""

    numbers: Ints  # (n,) where each stands in the log
    states: Codes
    actions: Codes
    values: Any
    next_states: Codes | None
    done: NDArray[np.bool_] | None
    cut: NDArray[np.bool_] | None
    owners: Any = None  # (n,) the episode of each

    def take(self, which: Any) -> _Rows:
        """Return some rows, in another order."""
        columns: Any = (None if column is None else column[which] for column in vars(self).values())
        return _Rows(*columns)

    @property
    def last(self) -> NDArray[np.bool_]:
        """Whether each is the last of its episode."""
        return np.append(self.owners[1:] != self.owners[:-1], True)


def laid_out(columns: Columns, discretize: Any, gaps: str, ends: str, notes: list[str]) -> Episodes:
    """Check the columns of a log and put its rows in order."""
    sense: Sense = "cost" if "cost" in columns.found else "reward"
    size = len(as_array(columns.found["action"][0][0]))
    if size == 0:
        raise FormatError(f"{columns.source}: the log has no rows")
    binned: list[Binned] = []
    states, next_states, state_labels = _states(columns, size, discretize, binned)
    actions, action_labels = _ids([columns.encoded(column) for column, _ in columns.found["action"]], size)
    values, done, cut = columns.numbers(*columns.found[sense][0]), columns.truths("done"), columns.truths("cut")
    steps = _steps(columns)
    log = _ordered(columns, _Rows(np.arange(size), states, actions, values, next_states, done, cut), steps, notes)
    last = log.last
    _check_missing(columns, log, last, sense)
    breaks = _breaks(columns, log, last, steps, gaps, notes)
    follows = np.append(log.states[1:], UNKNOWN).astype(np.int32)
    follows[last | breaks] = UNKNOWN
    if log.next_states is not None:
        follows = np.where(log.next_states >= 0, log.next_states, np.where(breaks, UNKNOWN, follows)).astype(np.int32)
    if log.done is not None:
        ended = log.done.copy()
    else:
        ended = np.zeros(size, dtype=np.bool_) if log.cut is None else last & ~log.cut
    closing = log.actions < 0  # a row that only says where the episode came to:
    ended[np.flatnonzero(closing) - 1] |= ended[closing]  # what is said of it holds for the step that led there
    log, ended, follows = log.take(~closing), ended[~closing], follows[~closing]
    last, states, actions = log.last, np.ascontiguousarray(log.states), np.ascontiguousarray(log.actions)
    early = "done before the episode's last row; give the rows after it another episode, or correct done"
    columns.refuse(ended & ~last, early, log.numbers)
    if done is None and cut is None:
        ended = _ends(follows, states, last, ends, notes)
    itself = ended & (follows == UNKNOWN)  # where an episode is over nothing follows, and no state matters
    follows[itself] = states[itself]
    unknown = int((follows == UNKNOWN).sum())
    if unknown:
        notes.append(
            f"{unknown:,} of {states.size:,} steps do not say where they led (cut off, or across a gap): their costs "
            "count, their next states are not known"
        )
    first = np.append(0, np.flatnonzero(last) + 1)
    lost = bin_losses(binned, log.numbers, first, states, actions, log.values, sense)
    notes += [str(loss) for loss in lost if loss.halved > loss.explained + 0.01]
    losses = np.ascontiguousarray(log.values if sense == "cost" else 0.0 - log.values)
    num_states = max(int(max(states.max(), follows.max())) + 1, len(state_labels))
    num_actions = max(int(actions.max()) + 1, len(action_labels))
    return Episodes(
        first, states, actions, follows, losses, ended, sense, num_states, num_actions, state_labels, action_labels,
        columns.source, tuple(notes), lost,
    )  # fmt: skip


def _states(log: Columns, size: int, bins: Any, binned: list[Binned]) -> tuple[Codes, Codes | None, tuple[str, ...]]:
    """Return the index of each state and next state, and the labels."""
    columns, later = (_spread(log.found.get(what, [])) for what in ("state", "next_state"))
    if later and len(later) != len(columns):
        raise OptionError(f"next_state has {len(later)} columns, state has {len(columns)}; they must match")
    if isinstance(bins, Mapping) and set(bins) - {name for _, name in columns}:
        absent = ", ".join(sorted(set(map(str, bins)) - {name for _, name in columns}))
        raise OptionError(
            f"discretize: {absent} is no column of the state; those are {', '.join(n for _, n in columns)}"
        )
    encoded = []
    for k, (column, name) in enumerate(columns):
        how = bins if isinstance(bins, Discretized) else (bins or {}).get(name)
        sides = [column, later[k][0]] if later else [column]
        if how is None:
            encoded.append(log.encoded(*sides))
            _refuse_continuous(log, encoded[-1], size, name)
        else:
            binned.append(_binned(log, sides, name, how))
            encoded.append(binned[-1].encoded())
    indices, labels = _ids(encoded, size)
    return indices[:size], indices[size:] if later else None, labels


def _spread(columns: list[tuple[Any, str]]) -> list[tuple[Any, str]]:
    """Return the columns of a state, of which one that is an array of several numbers makes as many."""
    return [
        part
        for column, name in columns
        for part in (
            [(column[:, k], f"{name}[{k}]") for k in range(column.shape[1])]
            if isinstance(column, np.ndarray) and column.ndim == 2
            else [(column, name)]
        )
    ]


def _refuse_continuous(log: Columns, one: Encoded, size: int, name: str) -> None:
    numbers = [number for value in one.values if (number := id_number(value)) is not None]
    if sum(isinstance(number, float) for number in numbers) > _MOST_NUMBERS:
        log.fail(
            int(np.argmax(one.codes[:size] >= 0)),
            f"the column {name} holds {len(numbers):,} different numbers: it is continuous, and no state would "
            f"come back; bin it with discretize={{{name!r}: Discretized(levels=5)}}, or round it",
        )


def _binned(log: Columns, sides: list[Any], name: str, how: Discretized) -> Binned:
    numbers = [log.numbers(side, name) for side in sides]
    known = np.concatenate([side[~np.isnan(side)] for side in numbers])
    if not known.size:
        log.fail(0, f"the column {name} holds nothing")
    ends = ([-np.inf], [np.inf]) if how.choices is not None else ([float(known.min())], [float(known.max())])
    return Binned(name, numbers[0], numbers[1] if len(numbers) > 1 else None, np.unique(how.grid(*ends)))


def _ids(encoded: list[Encoded], size: int) -> tuple[Codes, tuple[str, ...]]:
    """Return indices of (combined) columns, -1 where nothing stands, and labels; none where they are ids."""
    if len(encoded) == 1:
        codes, values = encoded[0].codes, encoded[0].values
        are_ids = values and all(isinstance(value, int) for value in values)
        if are_ids and values[0] >= 0 and values[-1] <= 4 * size + _SPARE_IDS:
            return np.array([*values, -1], dtype=np.int32)[codes], ()
        return codes, tuple(map(str, values))
    sizes = [len(one.values) + 1 for one in encoded]
    if math.prod(sizes) > 2**62:
        raise FormatError(f"the {len(sizes)} columns of a state have too many values to come back; bin them")
    keys = np.ravel_multi_index([np.maximum(one.codes, 0) for one in encoded], sizes)
    keys[np.any([one.codes < 0 for one in encoded], axis=0)] = -1
    distinct = np.unique(keys[keys >= 0])
    places = zip(*(column.tolist() for column in np.unravel_index(distinct, sizes)), strict=True)
    names = tuple(", ".join(str(one.values[k]) for one, k in zip(encoded, row, strict=True)) for row in places)
    return np.where(keys < 0, -1, np.searchsorted(distinct, keys)).astype(np.int32), names


def _ordered(columns: Columns, log: _Rows, steps: Encoded | None, notes: list[str]) -> _Rows:
    """Return the rows in order, with the episode of each, as a number."""
    if "episode" in columns.found:
        column, name = columns.found["episode"][0]
        codes: Any = columns.encoded(column).codes
        columns.refuse(codes < 0, f"{name} is missing; each row must say its episode")
    else:
        codes = _told_apart(columns, log, steps, notes)
    log = dataclasses.replace(log, owners=codes)
    key = codes if steps is None else codes.astype(np.int64) * len(steps.values) + steps.codes
    if (np.diff(key) >= (steps is not None)).all():
        return log
    order = np.argsort(key, kind="stable")
    if steps is None:
        if 1 + int((np.diff(codes) != 0).sum()) > int(codes.max()) + 1:
            notes.append("the rows of an episode do not stand together and have no step; they count in their order")
        return log.take(order)
    twice = np.flatnonzero(np.diff(key[order]) == 0)
    if twice.size:
        one, other = int(order[twice[0]]), int(order[twice[0] + 1])
        columns.fail(
            other,
            f"the same episode and step as {columns.place(one)}; drop one of the two rows, or give another step= (a "
            "finer time), or none where rows stand in order",
        )
    return log.take(order)


def _steps(log: Columns) -> Encoded | None:
    """Return the rank of each row's step among all steps; numbers, dates, or texts that sort as time does."""
    if "step" not in log.found:
        return None
    column, name = log.found["step"][0]
    found = log.encoded(column)
    log.refuse(found.codes < 0, f"{name} is missing; each row must say its step")
    if all(isinstance(value, (int, float)) for value in found.values):
        return found
    texts = [str(value) for value in found.values]
    odd = [k for k, text in enumerate(texts) if len(text) < 8 or not text[:4].isdigit()]
    if odd:  # 2024-01-31, with or without a time
        row = int(np.argmax(found.codes == odd[0]))
        log.fail(row, f"{name} is {texts[odd[0]][:40]!r}; expected a number, or a date as 2024-01-31")
    return Encoded(np.unique(texts, return_inverse=True)[1].astype(np.int32)[found.codes], sorted(texts))


def _told_apart(columns: Columns, log: _Rows, steps: Encoded | None, notes: list[str]) -> Ints:
    """Return the episode of each row where no column says it."""
    begins = np.zeros(log.states.size, dtype=np.bool_)
    overs = [flags for flags in (log.done, log.cut) if flags is not None]
    if overs:
        begins[1:] = np.any(overs, axis=0)[:-1]
        notes.append("no column says the episode: one ends at done")
    elif steps is not None:
        begins[1:] = np.diff(steps.codes) <= 0
        notes.append("an episode begins at a step that is not later than the one before")
    elif log.next_states is not None:
        begins[1:] = log.states[1:] != log.next_states[:-1]
        notes.append("an episode begins at a state that is not the next state of the row before")
    else:
        raise FormatError(
            f"{columns.source}: nothing tells episodes apart: say episode=COLUMN (or done=, step= or next_state=)"
        )
    return np.cumsum(begins)


def _check_missing(columns: Columns, log: _Rows, last: NDArray[np.bool_], sense: str) -> None:
    """Refuse what is missing, but for the action and the cost of an episode's closing row."""
    rows, values = log.numbers, log.values
    columns.refuse(log.states < 0, "the state is missing; drop the episode, or fill it in", rows)
    closing = log.actions < 0
    inside = "the action is missing, and it is not the episode's last row; fill it in, or end the episode there"
    columns.refuse(closing & ~last, inside, rows)
    columns.refuse(closing & np.append(True, last[:-1]), "the episode has no action at all; drop it", rows)
    paid = f"a {sense} without an action; put it into the row before, or give the row an action"
    columns.refuse(closing & ~np.isnan(values) & (values != 0.0), paid, rows)
    wrong = ~np.isfinite(values) & ~closing
    odd = f"the {sense} is {values[np.argmax(wrong)]}; expected a finite number (0 where nothing was paid)"
    columns.refuse(wrong, odd, rows)


def _breaks(
    columns: Columns, log: _Rows, last: NDArray[np.bool_], steps: Encoded | None, gaps: str, notes: list[str]
) -> NDArray[np.bool_]:
    """Return the rows that the next row of their episode does not follow."""
    breaks = np.zeros(last.size, dtype=np.bool_)
    why = ""
    if log.next_states is not None:
        breaks = ~last & (log.next_states >= 0) & (log.next_states != np.append(log.states[1:], UNKNOWN))
        why = "leads to a state that is not that of the next row"
    elif steps is not None and all(isinstance(value, int) for value in steps.values):
        jumps = np.append(np.diff(np.array(steps.values, dtype=np.int64)[steps.codes][log.numbers]), 0)
        usual = int(np.median(jumps[~last])) if not last.all() else 1
        breaks = ~last & (jumps != usual)
        why = f"is followed by a step {usual} later in most rows, but not here"
    elif steps is not None and not last.all():
        notes.append("steps are dates or times: whether some are missing cannot be seen")
    count = int(breaks.sum())
    if not count:
        return breaks
    if gaps == "error":
        columns.fail(
            int(log.numbers[np.argmax(breaks)]),
            f"this row {why} ({count:,} such rows); say gaps='split' to leave out what leads across a gap, "
            "or gaps='ignore' to take the next row as what followed",
        )
    if gaps == "ignore":
        notes.append(f"{count:,} gaps in the order of steps are ignored (gaps='ignore')")
        return np.zeros_like(breaks)
    notes.append(f"{count:,} gaps: the steps that lead across are left out (gaps='split')")
    return breaks


def _ends(follows: Codes, states: Codes, last: Any, ends: str, notes: list[str]) -> NDArray[np.bool_]:
    """Return which steps end their episode, where no column says it."""
    known = last & (follows >= 0)
    if known.any():
        left = marked(int(max(states.max(), follows.max())) + 1, states)
        over = known & ~left[follows]
        if over.any():
            notes.append(
                f"no column says done: an episode ends in a state in which nothing is ever done "
                f"({np.unique(follows[over]).size} such states)"
            )
        return np.asarray(over)
    if ends == "done":
        return np.asarray(last)
    notes.append(
        "neither next states nor done are logged: the last step of each episode counts as cut off; say ends='done' if "
        "the episode is over there"
    )
    return np.zeros_like(last)
