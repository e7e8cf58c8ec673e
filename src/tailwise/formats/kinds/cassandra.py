"""Cassandra's text format: .MDP and .POMDP files.

``T: a : s : s' p``, ``T: a : s`` with a row, ``T: a`` with a matrix, ``uniform``, ``identity`` or (a row) ``reset``;
``O: a : s' : o p`` likewise; rewards ``R: a : s : s' r``, with ``: o`` in between where there are observations. ``*``
stands for all; what comes later counts. The start is probabilities, a state, ``uniform``, or states to include or
exclude. A file with observations is a :class:`tailwise.PomdpTable`; with ``observe="state"`` it is planned as if its
state were seen, and then rewards that differ by observation are refused, since the outcomes of a table have none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import FormatError, ModelError, OptionError
from tailwise.formats.list_columns import number_of
from tailwise.formats.options import SeenOptions, observed, settled
from tailwise.formats.registry import register_format
from tailwise.models import PomdpTable, TabularMDP
from tailwise.models.contract import SUM_TOLERANCE

_MOST = 50_000_000  # numbers of the dense arrays
_KINDS = ["actions", "states", "states", "observations"]
_HEADS = ("discount", "values", "states", "actions", "observations", "start", "T", "O", "R")
_TOKEN = re.compile(r"[^\s:]+|:")


def read_cassandra(path: Path, **options: Any) -> TabularMDP | PomdpTable:
    """Cassandra's text format, of MDPs and POMDPs."""
    asked = SeenOptions(**options)
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    return _Reader(path, text, asked).model()


class _Reader:
    def __init__(self, path: Path, text: str, asked: SeenOptions) -> None:
        self._path, self._asked = path, asked
        self._tokens = [
            (match[0], number)
            for number, line in enumerate(text.splitlines(), 1)
            for match in _TOKEN.finditer(line.partition("#")[0])
        ]
        self._at = 0
        self._names: dict[str, list[str]] = {"states": [], "actions": [], "observations": []}
        self._settings: dict[str, list[str]] = {}
        self._settings_lines: dict[str, int] = {}
        while self._at < len(self._tokens) and self._word() not in ("T", "O", "R"):
            self._head()
        for name in ("states", "actions"):
            if not self._names[name]:
                self._fail(f"no line '{name}:' before the transitions")
        count, actions = len(self._names["states"]), len(self._names["actions"])
        if actions * count * count > _MOST:
            self._fail(f"{count} states and {actions} actions: more than {_MOST} numbers; list the transitions as CSV")
        self._chances = np.zeros((actions, count, count))
        self._rewards = np.zeros((actions, count, count))  # with a last axis once they differ by observation
        self._shown = np.zeros((actions, count, len(self._names["observations"])))
        self.hides = bool(self._names["observations"]) and asked.observe is None
        self._lines = {"T": np.zeros((actions, count), np.int64), "O": np.zeros((actions, count), np.int64)}
        while self._at < len(self._tokens):
            self._entry()

    def model(self) -> TabularMDP | PomdpTable:
        """Return what the file says: with hidden states where it has observations that are not left aside."""
        names = self._names["observations"]
        notes = [observed(self._asked.observe, f"{self._path}")] if names and not self.hides else []
        given = self._frame(notes)
        try:
            if not self.hides:
                mdp = TabularMDP.from_arrays(self._chances, **given, start=self._start())
                return replace(mdp, notes=(*mdp.notes, *notes))
            for head, chances, what in (("T", self._chances, "transitions"), ("O", self._shown, "observations")):
                self._check_rows(head, chances, what)
            belief = self._belief(self._asked.start, notes)
            found = PomdpTable.from_arrays(self._chances, self._shown, **given, start=belief, observation_labels=names)
            return replace(found, table=replace(found.table, notes=(*found.table.notes, *notes)))
        except (ModelError, TypeError) as error:
            raise FormatError(f"{self._path}: {error}") from None

    def _check_rows(self, head: str, chances: NDArray[np.float64], what: str) -> None:
        """Raise what is wrong with a row of probabilities, with the last line that wrote into it."""
        with np.errstate(invalid="ignore"):
            sums = chances.sum(axis=2)
            wrong = ~(np.abs(sums - 1.0) <= SUM_TOLERANCE) | ~(chances >= 0.0).all(axis=2)
        if not wrong.any():
            return
        a, s = np.argwhere(wrong)[0].tolist()
        line = int(self._lines[head][a, s])
        place = f"action {self._names['actions'][a]}, state {self._names['states'][s]}"
        if not line:
            raise FormatError(f"{self._path}: no line gives the {what} of {place}")
        self._fail(f"the {what} of {place} are probabilities that sum to {sums[a, s]:.9g}; they must sum to 1", line)

    def _frame(self, notes: list[str]) -> dict[str, Any]:
        """Return costs or rewards, horizon, discount and names."""
        own, discount = number_of("".join(self._settings.get("discount", ["1"]))), self._asked.discount
        steps, factor = settled(self._asked.horizon, own if discount is None else discount, notes)
        values = self._settings.get("values", ["reward"])
        if values not in (["cost"], ["reward"]):
            raise FormatError(f"{self._path}: 'values:' must be cost or reward, not {' '.join(values)[:40]!r}")
        return {
            f"{values[0]}s": self._rewards, "discount": factor, "horizon": steps, "name": self._path.name,
            "state_labels": self._names["states"], "action_labels": self._names["actions"], "order": "ASS",
            "costs_order": "ASS" if self._rewards.ndim == 3 else None,
        }  # fmt: skip

    def _belief(self, given: int | str | None, notes: list[str]) -> NDArray[np.float64]:
        """Return the probability of each state before the first decision."""
        states, said = self._names["states"], self._settings.get("start", [])
        belief = np.zeros(len(states))
        if given is not None:
            belief[self._index(str(given), "states", OptionError)] = 1.0
            return belief
        if said[:1] in (["include"], ["exclude"]):
            for word in said[1:]:
                belief[self._index(word, "states")] = 1.0
            belief = belief if said[0] == "include" else 1.0 - belief
            if not belief.any():
                raise FormatError(f"{self._path}: its start {said[0]}s no state that is left to begin in")
            return np.asarray(belief / belief.sum())
        if not said or said == ["uniform"]:
            if not said:
                notes.append("the file gives no start; every state is taken as equally likely")
            return np.full(len(states), 1.0 / len(states))
        if len(said) == 1 and len(states) > 1:
            belief[self._index(said[0], "states")] = 1.0
            return belief
        chances = [number_of(word) for word in said]
        total = math.fsum(chance or 0.0 for chance in chances)
        if len(said) != len(states) or None in chances or not abs(total - 1.0) <= SUM_TOLERANCE:
            line = self._settings_lines.get("start")
            self._fail(
                f"the start must be a state, uniform, or {len(states)} probabilities that sum to 1, not "
                f"{' '.join(said)[:60]!r}",
                line,
            )
        return np.array(chances, dtype=np.float64)

    def _start(self) -> int:
        belief = self._belief(self._asked.start, [])
        if np.count_nonzero(belief) > 1:
            names = ", ".join(self._names["states"][:9])
            raise OptionError(f"{self._path}: it names no single start state; say start= one of {names}")
        return int(belief.argmax())

    def _head(self) -> None:
        name = self._take()
        if name not in _HEADS or self._word() not in (":", "include", "exclude"):
            self._at -= 1
            self._fail(f"{name[:40]!r} starts no line of this format")
        kind = self._take()
        if kind != ":":  # start include: ..., start exclude: ...
            self._take()
        words = list(self._until_head())
        if name in self._names:
            is_count = len(words) == 1 and words[0].isdigit()
            if is_count and int(words[0]) > _MOST:
                self._fail(f"{words[0]} {name}")
            self._names[name] = list(map(str, range(int(words[0])))) if is_count else words
        else:
            self._settings[name] = words if kind == ":" else [kind, *words]
            self._settings_lines[name] = self._line()

    def _entry(self) -> None:
        """Read one T, O or R entry."""
        head, line = self._take(), self._line()
        if head not in ("T", "O", "R"):
            self._at -= 1
            self._fail(f"{head[:40]!r} starts no entry; expected T, R or O")
        keys: list[str] = []
        while self._word() == ":":
            self._take()
            keys.append(self._take())
        words = list(self._until_head())
        if head == "O" and not self.hides:
            return
        kinds = {"T": _KINDS[:3], "O": [*_KINDS[:2], "observations"], "R": _KINDS[:]}[head]
        if not 1 <= len(keys) <= len(kinds):
            self._fail(f"{head} with {len(keys)} names", line)
        if head == "R":
            self._reward(keys, words, line)
            return
        array = self._chances if head == "T" else self._shown
        where = [self._index(key, kind) for key, kind in zip(keys, kinds, strict=False)]
        array[np.ix_(*where)] = self._numbers(words, array.shape[len(keys) :], line)
        self._lines[head][np.ix_(*where[:2])] = line

    def _reward(self, keys: list[str], words: list[str], line: int) -> None:
        """Read a reward: one number, or numbers over what is not named."""
        by_observation = "a reward that depends on the observation; a table has none"
        if len(keys) == 4 and keys[3] == "*":
            keys = keys[:3]
        elif len(keys) == 4 and not self.hides:
            self._fail(by_observation, line)
        where = [self._index(key, kind) for key, kind in zip(keys, _KINDS, strict=False)]
        size, seen = len(self._names["states"]), len(self._names["observations"])
        is_one = len(words) == 1 and len(keys) == 3  # for every observation; some files have it so
        shape = () if is_one else (size, size, *[seen] * (seen > 0))[len(keys) - 1 :]
        value = self._numbers(words, shape, line)
        if is_one or not seen:
            self._rewards[np.ix_(*where)] = value
            return
        if len(keys) < 4 and self._rewards.ndim == 3 and (np.ptp(value, axis=-1) == 0.0).all():
            self._rewards[np.ix_(*where)] = value[..., 0]
            return
        if not self.hides:
            self._fail(by_observation, line)
        if self._rewards.ndim == 3:
            if self._rewards.size * seen > _MOST:
                self._fail(f"rewards that depend on the observation: more than {_MOST} numbers", line)
            self._rewards = np.repeat(self._rewards[..., None], seen, axis=3)
        self._rewards[np.ix_(*where)] = value

    def _numbers(self, words: list[str], shape: tuple[int, ...], line: int) -> Any:
        if words == ["reset"] and len(shape) == 1 and self._names["observations"]:
            return self._belief(None, [])
        if words == ["uniform"] and shape:
            return np.full(shape, 1.0 / shape[-1])
        if words == ["identity"] and len(shape) == 2:
            return np.eye(shape[0])
        numbers = [number_of(word) for word in words]
        if None in numbers or len(numbers) != int(np.prod(shape)):
            expected = "one number" if not shape else f"{' x '.join(map(str, shape))} numbers"
            self._fail(f"expected {expected}, not {' '.join(words)[:60]!r}", line)
        found: NDArray[np.float64] = np.array(numbers, dtype=np.float64).reshape(shape)
        return found

    def _index(self, text: str, kind: str, error: type[Exception] = FormatError) -> list[int]:
        names = self._names[kind]
        if text == "*":
            return list(range(len(names)))
        if text in names:
            return [names.index(text)]
        if text.isdigit() and int(text) < len(names):
            return [int(text)]
        raise error(f"{self._path}, line {self._line()}: {text[:40]!r} is none of the {kind}: {', '.join(names[:9])}")

    def _until_head(self) -> Iterator[str]:
        """Words up to the next line that starts something."""
        while self._at < len(self._tokens):
            word, after = self._tokens[self._at][0], self._tokens[self._at + 1 : self._at + 2]
            if word in _HEADS and after and after[0][0] in (":", "include", "exclude"):
                return
            yield self._take()

    def _word(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        if self._at >= len(self._tokens):
            self._fail("the file ends in the middle of an entry")
        self._at += 1
        return self._tokens[self._at - 1][0]

    def _line(self) -> int:
        return self._tokens[min(max(self._at - 1, 0), len(self._tokens) - 1)][1] if self._tokens else 1

    def _fail(self, problem: str, line: int | None = None) -> NoReturn:
        raise FormatError(f"{self._path}, line {line or self._line()}: {problem}")


register_format("cassandra", read_cassandra, extensions=(".mdp",), options=SeenOptions)
