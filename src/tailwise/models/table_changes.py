"""Changes of a table's numbers, said as text: ``cost[run,failed]=60000``, ``p[run,good,failed]*=1.5``.

Or made by a slider, which multiplies one (:func:`vary`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import marked
from tailwise._validate import real
from tailwise.errors import OptionError
from tailwise.models.tabular import TabularMDP

_CHANGE = re.compile(r"\s*(?P<what>[a-z_]+)\s*(\[(?P<where>.*)\])?\s*(?P<how>[*+-]?=)\s*(?P<number>\S+)\s*")
_FORM = "say it as cost[state,action]=60000, cost[state,action,next]+=5, p[state,action,next]*=1.5 or end[state]=9"
_NUMBER = "say it as cost[state,action], cost[state,action,next], p[state,action,next] or end[state]"
_ANY = ("*", "...")


def changed(table: TabularMDP, change: str, said: str = "") -> TabularMDP:
    """Return a table with one change made; see :func:`tailwise.what_if` for what can be said.

    Errors quote ``said``, if the user said that.
    """
    match, change = _CHANGE.fullmatch(change), said or change
    try:
        number = float(match["number"]) if match else math.nan
    except ValueError:
        number = math.nan
    if match is None or not math.isfinite(number):
        raise OptionError(
            f"{said!r} is no number of a model: {_NUMBER}" if said else f"{change!r} is no change: {_FORM}"
        )
    what, where = match["what"], match["where"]

    new = _operation(match["how"], number)
    if what in ("discount", "horizon") and where is None:
        old = getattr(table, what)
        if old is None and match["how"] != "=":
            raise OptionError(f"{change!r}: there is no horizon to change; say horizon={number:g}")
        value = number if old is None else new(old)
        if what == "horizon" and said:
            raise OptionError("horizon is a whole number, which factors do not keep one: say horizon=50, as a change")
        options: dict[str, Any] = {what: int(value) if what == "horizon" and value == int(value) else value}
        try:
            return table.with_options(**options)
        except ValueError as error:
            raise OptionError(f"{change!r}: {error}") from None
    if what not in ("p", "end", table.sense) or where is None:
        form = _NUMBER if said else _FORM
        raise OptionError(f"{change!r} names no number of this model, which has {table.sense}s: {form}")
    if what == "end":
        states = _places(table, where, change)[0]
        losses = table.terminal_losses.copy()
        losses[states] = table.signed(new(table.signed(losses[states])))
        return replace(table, terminal_losses=losses)
    hit, owners = _outcomes(table, where, change)
    if what == "p":
        return _with_chances(table, hit, new, owners, change)
    if table.step_losses.size and match["how"] in ("=", "*=") and table.step_losses[:, owners[hit]].any():
        raise OptionError(f"{change!r}: {table.sense}s there differ by step; say += or -=")
    losses = table.losses.copy()
    losses[hit] = table.signed(new(table.signed(losses[hit])))
    return replace(table, losses=losses)


def largest_factor(table: TabularMDP, name: str) -> float:
    """Return by what a number, as ``p[state,action,next state]``, can be multiplied: a probability until it is 1.

    Raises
    ------
    OptionError
        If it cannot be read, matches nothing, or is 0, or a probability of 1, so that factors do nothing.
    """
    if changed(table, f"{name}*=.5", name).equals(table):
        raise OptionError(f"{name} is 0, which no factor changes: say what it might be, as {name}=1")
    match = re.fullmatch(r"\s*p\s*\[(.*)\]\s*", name)
    if match is None:
        return math.inf
    hit, owners = _outcomes(table, match[1], name)
    return float(1.0 / np.bincount(owners[hit], table.probabilities[hit]).max())


def _outcomes(table: TabularMDP, where: str, change: str) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which outcomes are meant, as a mask, and the row of every outcome."""
    states, actions, targets = _places(table, where, change)
    owners = table.outcome_rows
    hit = states[table.row_states[owners]] & actions[table.action_ids[owners]] & targets[table.next_states]
    if not hit.any():
        raise OptionError(f"{change!r} matches nothing: no such action is allowed, or it does not lead there")
    return hit, owners


def _operation(how: str, number: float) -> Callable[[Any], Any]:
    """Return what an operator with a number makes of an old number, or of an array of them."""
    return {
        "=": lambda old: old * 0 + number,
        "*=": lambda old: old * number,
        "+=": lambda old: old + number,
        "-=": lambda old: old - number,
    }[how]


def _with_chances(
    table: TabularMDP, hit: NDArray[np.bool_], new: Callable[[Any], Any], owners: NDArray[np.int64], change: str
) -> TabularMDP:
    """Return a table in which the outcomes that were hit have another probability, as a whole in each row."""
    old = np.bincount(owners[hit], table.probabilities[hit], table.num_rows)
    rows = np.unique(owners[hit])
    wanted = old.copy()
    wanted[rows] = new(old[rows])
    wanted[rows] = np.where(np.abs(wanted[rows] - 1.0) < 1e-12, 1.0, wanted[rows])
    for row in rows:
        place = f"state {table.state_name(int(table.row_states[row]))}, {table.action_name(int(table.action_ids[row]))}"
        if not 0.0 <= wanted[row] <= 1.0:
            raise OptionError(f"{change!r}: the probability would be {wanted[row]:g} in {place}")
        if old[row] > 1.0 - 1e-12 and wanted[row] < 1.0:
            raise OptionError(f"{change!r}: nothing else can happen in {place}; give it another outcome first")
    factors = np.where(hit, (wanted / np.where(old > 0.0, old, 1.0))[owners], 1.0)
    rest = np.ones(table.num_rows)
    rest[rows] = (1.0 - wanted[rows]) / np.where(old[rows] < 1.0, 1.0 - old[rows], 1.0)
    chances = table.probabilities * np.where(hit, factors, rest[owners])
    keep = chances > 0.0
    offsets = np.append(0, np.cumsum(keep, dtype=np.int64))[table.outcome_offsets]
    return replace(
        table, outcome_offsets=offsets.astype(table.outcome_offsets.dtype), probabilities=chances[keep],
        next_states=table.next_states[keep], losses=table.losses[keep], done=table.done[keep],
    )  # fmt: skip


def _places(table: TabularMDP, where: str, change: str) -> tuple[NDArray[np.bool_], ...]:
    """Return which states, actions and next states are meant, as masks; names may have commas of their own."""
    state = _Side("state", table.num_states, table.state_labels)
    action = _Side("action", table.num_actions, table.action_labels)
    parts = re.split(r",(?![^(]*\))", where)
    ways = [
        [",".join(parts[a:b]).strip() for a, b in pairwise((0, *cuts, len(parts)))]
        for size in range(min(len(parts), 3) - 1, -1, -1)
        for cuts in combinations(range(1, len(parts)), size)
    ]
    for names in ways:
        if not state.has(names[0]) and action.has(names[0]):  # cost[run,failed]
            names[:2] = [*(names[1:2] or ["*"]), names[0]]
        names += ["*"] * (3 - len(names))
    fitting = [names for names in ways if state.has(names[0]) and action.has(names[1]) and state.has(names[2])]
    if len(fitting) > 1:
        before, after = change.partition("[")[0], change.rpartition("]")[2]
        spelt = [
            f"{before}[{','.join(side.number(name) for side, name in zip((state, action, state), names, strict=True))}]"
            f"{after} for {'; '.join(names)}"
            for names in fitting[:2]
        ]
        raise OptionError(f"{change!r} can be read in two ways; say {', or '.join(spelt)}")
    if not fitting and len(parts) > 3:
        raise OptionError(f"{change!r}: no state or action has a name of these {len(parts)} parts; {_FORM}")
    names = (fitting or ways)[0]
    return state.mask(names[0], change), action.mask(names[1], change), state.mask(names[2], change)


class _Side(NamedTuple):
    """States or actions, by label or index."""

    kind: str
    size: int
    labels: Sequence[str]

    def has(self, name: str) -> bool:
        return name in _ANY or name in self.labels or (name.isdecimal() and int(name) < self.size)

    def number(self, name: str) -> str:
        """Return what is meant without a name; a label that looks like a number hides that number."""
        place = str(self.labels.index(name)) if name in self.labels else name
        return name if place in self.labels else place

    def mask(self, name: str, change: str) -> NDArray[np.bool_]:
        if not self.has(name):
            known = ", ".join(map(str, self.labels[:8])) or f"0..{self.size - 1}"
            raise OptionError(f"{change!r}: there is no {self.kind} {name!r}; there are {known}")
        if name in _ANY:
            return np.ones(self.size, np.bool_)
        found = marked(self.size, [k for k, label in enumerate(self.labels) if label == name] or [int(name)])
        return found


LEAST_FACTOR, MOST_FACTOR = 0.5, 2.0
_NAME = re.compile(r"[^\[\]()=*]+|\([^\[\]()=*]*\)")  # of a state or action, as it can be written in a change
_MOST_NUMBERS = 500  # suggested of each kind


@dataclass(frozen=True)
class Varied:
    """A number of the model, in the words of ``tailwise whatif``, and the factor by which it is multiplied."""

    number: str = ""
    factor: float = 1.0


def vary(table: TabularMDP, asked: Varied) -> tuple[TabularMDP, Varied]:
    """Return the table with a number multiplied, and by what: a probability grows until it is 1."""
    factor = real(asked.factor, "factor", low=LEAST_FACTOR, high=MOST_FACTOR)
    possible = min(factor, largest_factor(table, asked.number))
    return changed(table, f"{asked.number}*={possible!r}"), Varied(asked.number, possible)


def numbers_of(table: TabularMDP) -> tuple[str, ...]:
    """Return numbers that can be varied, as ``cost[good,run]`` and ``p[good,run,failed]``; of many, some."""
    owners = table.outcome_rows
    costs = np.unique(owners[table.losses != 0.0])[:_MOST_NUMBERS]
    chances = np.flatnonzero((table.probabilities > 0.0) & (table.probabilities < 1.0 - 1e-12))[:_MOST_NUMBERS]
    states, actions = _words(table.state_labels, table.num_states), _words(table.action_labels, table.num_actions)

    def pair(row: int) -> str:
        return f"{states[table.row_states[row]]},{actions[table.action_ids[row]]}"

    found = [f"{table.sense}[{pair(row)}]" for row in costs.tolist()]
    found += [f"p[{pair(int(owners[k]))},{states[table.next_states[k]]}]" for k in chances.tolist()]
    return tuple(dict.fromkeys(found))


def _words(labels: tuple[str, ...], size: int) -> list[str]:
    """Return names that can be written in a change: the labels, or else the indices."""
    counts = Counter(labels)
    return [
        label
        if _NAME.fullmatch(label) and label == label.strip() and counts[label] == 1 and not label.isdecimal()
        else str(k)
        for k, label in enumerate(labels or [""] * size)
    ]
