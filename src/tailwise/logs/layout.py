"""From the columns of a log to :class:`Episodes`: order, next states and ends, each fault with its row and way out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Ints, marked
from tailwise.errors import FormatError, OptionError
from tailwise.logs.columns import Binned, Cells, Encoded, Place, as_array, bin_losses
from tailwise.logs.episodes import UNKNOWN, Episodes
from tailwise.models.contract import Sense
from tailwise.models.gymnasium.actions import Discretized

Codes = NDArray[np.int32]
_SPARE_IDS = 1000  # ids may leave this many gaps, and 4 per row more, before they count as names
_MOST_NUMBERS = 100  # different numbers with a fraction, before a column counts as continuous


@dataclass(frozen=True)
class Asked:
    """Options of :func:`tailwise.load_episodes`."""

    discretize: Any
    gaps: str
    ends: str


@dataclass(frozen=True)
class Found:
    """Columns by meaning, and where they come from."""

    columns: Mapping[str, list[Any]]
    names: Mapping[str, tuple[str, ...]]
    source: str
    place: Place


def laid_out(found: Found, asked: Asked, notes: list[str]) -> Episodes:
    """Check the columns of a log and put its rows in order."""
    cells = Cells(found.source, found.place)
    columns = found.columns
    sense: Sense = "cost" if "cost" in columns else "reward"
    size = len(as_array(columns["action"][0]))
    if size == 0:
        raise FormatError(f"{found.source}: the log has no rows")
    binned: list[Binned] = []
    states, next_states, state_labels = _states(cells, found, asked, binned)
    actions, _, action_labels = _ids([cells.encoded(c, n) for c, n in _pairs(found, "action")], None)
    values = cells.numbers(columns[sense][0], found.names[sense][0])
    done = cells.truths(columns["done"][0], "done") if "done" in columns else None
    cut = cells.truths(columns["cut"][0], "cut") if "cut" in columns else None
    owners, order = _order(cells, found, states, next_states, done, cut, notes)
    if order is not None:
        owners, states, actions, values = owners[order], states[order], actions[order], values[order]
        next_states = None if next_states is None else next_states[order]
        done, cut = (None if flags is None else flags[order] for flags in (done, cut))
    rows = np.arange(size) if order is None else order
    last = np.append(owners[1:] != owners[:-1], True)
    log = _Rows(rows, states, actions, values, next_states, last)
    _check_missing(cells, log, sense)
    closing = (actions < 0) & last  # a row that only says where the episode came to
    breaks = _breaks(cells, found, asked, log, notes)
    follows = np.append(states[1:], UNKNOWN).astype(np.int32)
    follows[last | breaks] = UNKNOWN
    if next_states is not None:
        follows = np.where(next_states >= 0, next_states, np.where(breaks, UNKNOWN, follows)).astype(np.int32)
    if cut is not None and done is None:
        done = last & ~cut
    ended = np.zeros(size, dtype=np.bool_) if done is None else done.copy()
    if closing.any():  # what is said of the closing row holds for the step that led there
        ended[np.flatnonzero(closing) - 1] |= ended[closing]
    kept = ~closing
    ended, last = ended[kept], np.append(owners[kept][1:] != owners[kept][:-1], True)
    follows, states, actions, values = follows[kept], states[kept], actions[kept], values[kept]
    early = "done before the episode's last row; give the rows after it another episode, or correct done"
    cells.refuse(ended & ~last, early, rows[kept])
    ended = _ends(follows, states, ended, last, done is not None or cut is not None, asked, notes)
    itself = ended & (follows == UNKNOWN)  # where an episode is over nothing follows, and no state matters
    follows[itself] = states[itself]
    unknown = int((follows == UNKNOWN).sum())
    if unknown:
        notes.append(
            f"{unknown:,} of {states.size:,} steps do not say where they led (cut off, or across a gap): their costs "
            "count, their next states are not known"
        )
    first = np.append(0, np.flatnonzero(last) + 1)
    lost = bin_losses([part.rows(rows).rows(kept) for part in binned], first, states, actions, values, sense)
    notes += [str(loss) for loss in lost if loss.halved > loss.explained + 0.01]
    losses = np.ascontiguousarray(values if sense == "cost" else 0.0 - values)
    return Episodes(
        first, np.ascontiguousarray(states), np.ascontiguousarray(actions), follows, losses, ended, sense,
        max(int(max(states.max(), follows.max())) + 1, len(state_labels)),
        max(int(actions.max()) + 1, len(action_labels)), state_labels, action_labels, found.source, tuple(notes), lost,
    )  # fmt: skip


def _pairs(found: Found, what: str) -> list[tuple[Any, str]]:
    return list(zip(found.columns[what], found.names[what], strict=True))


def _states(
    cells: Cells, found: Found, asked: Asked, binned: list[Binned]
) -> tuple[Codes, Codes | None, tuple[str, ...]]:
    """Return the index of each state and next state, and the labels."""
    parts = [_spread(column, name) for column, name in _pairs(found, "state")]
    columns = [pair for part in parts for pair in part]
    later = [p for column, name in _pairs(found, "next_state") for p in _spread(column, name)] \
        if "next_state" in found.columns else None  # fmt: skip
    if later is not None and len(later) != len(columns):
        raise OptionError(f"next_state has {len(later)} columns, state has {len(columns)}; they must match")
    bins = asked.discretize
    if isinstance(bins, Mapping) and set(bins) - {name for _, name in columns}:
        absent = ", ".join(sorted(set(map(str, bins)) - {name for _, name in columns}))
        raise OptionError(
            f"discretize: {absent} is no column of the state; those are {', '.join(n for _, n in columns)}"
        )
    encoded, encoded_later = [], []
    for k, (column, name) in enumerate(columns):
        how = bins if isinstance(bins, Discretized) else (bins or {}).get(name)
        sides = [column] if later is None else [column, later[k][0]]
        if how is None:
            made = [cells.encoded(side, name) for side in sides]
            _refuse_continuous(cells, made, name)
        else:
            made, one = _binned(cells, sides, name, how)
            binned.append(one)
        encoded.append(made[0])
        encoded_later += made[1:]
    return _ids(encoded, encoded_later or None)


def _spread(column: Any, name: str) -> list[tuple[Any, str]]:
    """Return the columns of a state that is an array of several numbers; a column of plain values is itself."""
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return [(column[:, k], f"{name}[{k}]") for k in range(column.shape[1])]
    return [(column, name)]


def _refuse_continuous(cells: Cells, made: list[Encoded], name: str) -> None:
    values = [v for one in made for v in one.values]
    fractions = {v for v in values if isinstance(v, float)}
    if len(fractions) > _MOST_NUMBERS:
        row = int(np.argmax(made[0].codes >= 0))
        cells.fail(
            row,
            f"the column {name} holds {len(set(values)):,} different numbers: it is continuous, and no state would "
            f"come back; bin it with discretize={{{name!r}: Discretized(levels=5)}}, or round it",
        )


def _binned(cells: Cells, sides: list[Any], name: str, how: Discretized) -> tuple[list[Encoded], Binned]:
    numbers = [cells.numbers(side, name) for side in sides]
    known = np.concatenate([side[~np.isnan(side)] for side in numbers])
    if not known.size:
        cells.fail(0, f"the column {name} holds nothing")
    ends = ([-np.inf], [np.inf]) if how.choices is not None else ([float(known.min())], [float(known.max())])
    points = np.unique([point[0] for point in how.grid(*ends)])
    middles = (points[1:] + points[:-1]) / 2.0
    made = [
        Encoded(
            np.where(np.isnan(side), -1, np.searchsorted(middles, side)).astype(np.int32),
            [f"{point:.6g}" for point in points],
        )
        for side in numbers
    ]
    return made, Binned(name, numbers[0], numbers[1] if len(numbers) > 1 else None, points)


def _ids(encoded: list[Encoded], later: list[Encoded] | None) -> tuple[Any, Any, tuple[str, ...]]:
    """Return indices of (combined) columns, here and in their later form, and labels; -1 where nothing stands."""
    sides: list[list[Encoded]] = [encoded] if later is None else [encoded, later]
    merged: list[list[Codes]] = [[] for _ in sides]
    values: list[list[Any]] = []
    for k in range(len(encoded)):
        all_values = [value for side in sides for value in side[k].values]
        are_numbers = all(isinstance(value, (int, float)) for value in all_values)
        if not are_numbers:
            all_values = list(map(str, all_values))
        order: dict[Any, int] = {}
        for value in sorted(set(all_values)) if are_numbers else all_values:
            order.setdefault(value, len(order))
        values.append(list(order))
        for into, side in zip(merged, sides, strict=True):
            own = [order[v if are_numbers else str(v)] for v in side[k].values]
            into.append(np.array([*own, -1], dtype=np.int32)[side[k].codes])
    if len(encoded) == 1:
        numbers = values[0]
        if (
            all(isinstance(v, int) for v in numbers)
            and numbers
            and numbers[0] >= 0
            and numbers[-1] <= 4 * encoded[0].codes.size + _SPARE_IDS
        ):
            table = np.array([*numbers, -1], dtype=np.int32)
            kept = [table[codes[0]] for codes in merged]
            return kept[0], kept[1] if later is not None else None, ()
        labels = tuple(str(value) for value in values[0])
        return merged[0][0], merged[1][0] if later is not None else None, labels
    if math.prod(len(own) + 1 for own in values) > 2**62:
        raise FormatError(f"the {len(values)} columns of a state have too many values to come back; bin them")
    sizes, keys = [len(own) + 1 for own in values], []
    for codes in merged:
        key = np.ravel_multi_index([np.maximum(column, 0) for column in codes], sizes)
        keys.append(np.where(np.any([column < 0 for column in codes], axis=0), -1, key))
    distinct = np.unique(np.concatenate(keys))
    distinct = distinct[distinct >= 0]
    places = zip(*(column.tolist() for column in np.unravel_index(distinct, sizes)), strict=True)
    names = [", ".join(str(own[k]) for own, k in zip(values, row, strict=True)) for row in places]
    indices = [np.where(key < 0, -1, np.searchsorted(distinct, key)).astype(np.int32) for key in keys]
    return indices[0], indices[1] if later is not None else None, tuple(names)


def _order(
    cells: Cells, found: Found, states: Codes, next_states: Codes | None, done: Any, cut: Any, notes: list[str]
) -> tuple[Any, Any]:
    """Return the episode of each row, as a number, and the order of the rows; None where they are in order."""
    steps = _step_codes(cells, found)
    if "episode" in found.columns:
        column, name = _pairs(found, "episode")[0]
        codes: Any = cells.encoded(column, name).codes
        cells.refuse(codes < 0, f"{name} is missing; each row must say its episode")
    else:
        codes = _told_apart(found, states, next_states, steps, done, cut, notes)
    if steps is None:
        if (np.diff(codes) < 0).any() and "episode" in found.columns:
            order = np.argsort(codes, kind="stable")
            changes = 1 + int((np.diff(codes) != 0).sum())
            if changes > int(codes.max()) + 1:
                notes.append("the rows of an episode do not stand together and have no step; they count in their order")
            return codes, order
        return codes, None
    key = codes.astype(np.int64) * (int(steps.max()) + 1) + steps
    if (np.diff(key) > 0).all():
        return codes, None
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(np.diff(key[order]) == 0)
    if twice.size:
        one, other = int(order[twice[0]]), int(order[twice[0] + 1])
        cells.fail(
            other,
            f"the same episode and step as {cells.place(one)}; drop one of the two rows, or give another step= (a "
            "finer time), or none where rows stand in order",
        )
    return codes, order


def _step_codes(cells: Cells, found: Found) -> Any:
    """Return the rank of each row's step among all steps; numbers, dates, or texts that sort as time does."""
    if "step" not in found.columns:
        return None
    column, name = _pairs(found, "step")[0]
    encoded = cells.encoded(column, name)
    cells.refuse(encoded.codes < 0, f"{name} is missing; each row must say its step")
    values = encoded.values
    if all(isinstance(value, (int, float)) for value in values):
        return encoded.codes.astype(np.int64)
    texts = [str(value) for value in values]
    if not all(len(text) >= 8 and text[:4].isdigit() for text in texts):  # 2024-01-31, with or without a time
        row = int(np.argmax(encoded.codes == next(k for k, t in enumerate(texts) if not t[:4].isdigit() or len(t) < 8)))
        cells.fail(
            row, f"{name} is {texts[int(encoded.codes[row])][:40]!r}; expected a number, or a date as 2024-01-31"
        )
    rank = np.empty(len(texts), dtype=np.int64)
    rank[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return rank[encoded.codes]


def _told_apart(
    found: Found, states: Codes, next_states: Codes | None, steps: Any, done: Any, cut: Any, notes: list[str]
) -> Ints:
    """Return the episode of each row where no column says it."""
    begins = np.zeros(states.size, dtype=np.bool_)
    if done is not None or cut is not None:
        over = (np.zeros_like(begins) if done is None else done) | (np.zeros_like(begins) if cut is None else cut)
        begins[1:] = over[:-1]
        said = "done"
    elif steps is not None:
        begins[1:] = np.diff(steps) <= 0
        said = "a step that is not later than the one before"
    elif next_states is not None:
        begins[1:] = states[1:] != next_states[:-1]
        said = "a state that is not the next state of the row before"
    else:
        raise FormatError(
            f"{found.source}: nothing tells episodes apart: say episode=COLUMN (or done=, step= or next_state=)"
        )
    notes.append(
        f"no column says the episode: one ends at {said}" if said == "done" else f"an episode begins at {said}"
    )
    return np.cumsum(begins)


@dataclass(frozen=True)
class _Rows:
    """The rows of a log in order: episode by episode, step by step."""

    numbers: Ints  # (n,) where each stands in the log
    states: Codes
    actions: Codes
    values: Any
    next_states: Codes | None
    last: NDArray[np.bool_]  # (n,) the last of its episode


def _check_missing(cells: Cells, log: _Rows, sense: str) -> None:
    """Refuse what is missing, but for the action and the cost of an episode's closing row."""
    rows, states, actions, values, last = log.numbers, log.states, log.actions, log.values, log.last
    cells.refuse(states < 0, "the state is missing; drop the episode, or fill it in", rows)
    closing = actions < 0
    inside = "the action is missing, and it is not the episode's last row; fill it in, or end the episode there"
    cells.refuse(closing & ~last, inside, rows)
    cells.refuse(closing & np.append(True, last[:-1]), "the episode has no action at all; drop it", rows)
    paid = f"a {sense} without an action; put it into the row before, or give the row an action"
    cells.refuse(closing & ~np.isnan(values) & (values != 0.0), paid, rows)
    wrong = ~np.isfinite(values) & ~closing
    if wrong.any():
        row = int(np.argmax(wrong))
        cells.fail(int(rows[row]), f"the {sense} is {values[row]}; expected a finite number (0 where nothing was paid)")


def _breaks(cells: Cells, found: Found, asked: Asked, log: _Rows, notes: list[str]) -> NDArray[np.bool_]:
    """Return the rows that the next row of their episode does not follow."""
    states, next_states, inside = log.states, log.next_states, ~log.last
    breaks = np.zeros(states.size, dtype=np.bool_)
    why = ""
    if next_states is not None:
        breaks = inside & (next_states >= 0) & (next_states != np.append(states[1:], UNKNOWN))
        why = "leads to a state that is not that of the next row"
    elif "step" in found.columns:
        numbers = cells.encoded(found.columns["step"][0], "step")
        if all(isinstance(value, int) for value in numbers.values):
            whole = np.array(numbers.values, dtype=np.int64)[numbers.codes][log.numbers]
            jumps = np.append(np.diff(whole), 0)
            usual = int(np.median(jumps[inside])) if inside.any() else 1
            breaks = inside & (jumps != usual)
            why = f"is followed by a step {usual} later in most rows, but not here"
        elif inside.any():
            notes.append("steps are dates or times: whether some are missing cannot be seen")
    if not breaks.any() or asked.gaps == "ignore":
        if breaks.any():
            notes.append(f"{int(breaks.sum()):,} gaps in the order of steps are ignored (gaps='ignore')")
        return np.zeros_like(breaks)
    if asked.gaps == "error":
        cells.fail(
            int(log.numbers[np.argmax(breaks)]),
            f"this row {why} ({int(breaks.sum()):,} such rows); say gaps='split' to leave out what leads across a gap, "
            "or gaps='ignore' to take the next row as what followed",
        )
    notes.append(f"{int(breaks.sum()):,} gaps: the steps that lead across are left out (gaps='split')")
    return breaks


def _ends(
    follows: Codes, states: Codes, ended: Any, last: Any, is_said: bool, asked: Asked, notes: list[str]
) -> NDArray[np.bool_]:
    """Return which steps end their episode, where the log does not say it."""
    if is_said:
        return np.asarray(ended)
    known = last & (follows >= 0)
    if known.any():
        left = marked(int(max(states.max(), follows.max())) + 1, states)
        over = known.copy()
        over[known] = ~left[follows[known]]
        if over.any():
            notes.append(
                f"no column says done: an episode ends in a state in which nothing is ever done "
                f"({np.unique(follows[over]).size} such states)"
            )
        return np.asarray(over)
    if asked.ends == "done":
        return np.asarray(last)
    notes.append(
        "neither next states nor done are logged: the last step of each episode counts as cut off; say ends='done' if "
        "the episode is over there"
    )
    return np.asarray(ended)
