"""Cassandra's text format (.MDP, and .POMDP where the state is said to be seen).

``T: a : s : s' p``, ``T: a : s`` with a row, ``T: a`` with a matrix, ``uniform`` or ``identity``; rewards
``R: a : s : s' r``, likewise, with ``: o`` in between where there are observations. ``*`` stands for all; what comes
later counts. Rewards that differ by observation are refused, since the outcomes of a table have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import FormatError, ModelError, OptionError
from tailwise.formats.list_columns import number_of
from tailwise.formats.list_options import DEFAULT_HORIZON, check_common, observed
from tailwise.formats.registry import register_format
from tailwise.models import TabularMDP

_MOST = 50_000_000  # numbers of the dense arrays
_HEADS = ("discount", "values", "states", "actions", "observations", "start", "T", "O", "R")
_TOKEN = re.compile(r"[^\s:]+|:")


def read_cassandra(
    path: Path,
    *,
    horizon: int | None = None,
    discount: float | None = None,
    start: int | str | None = None,
    observe: str | None = None,
) -> TabularMDP:
    """Cassandra's text format, of MDPs and (with observe=state) POMDPs."""
    check_common(horizon, discount, start)
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    return _Reader(path, text).table(horizon, discount, start, observe)


class _Reader:
    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._tokens = [
            (match[0], number)
            for number, line in enumerate(text.splitlines(), 1)
            for match in _TOKEN.finditer(line.partition("#")[0])
        ]
        self._at = 0
        self._names: dict[str, list[str]] = {"states": [], "actions": [], "observations": []}
        self._settings: dict[str, list[str]] = {}
        while self._at < len(self._tokens) and self._word() not in ("T", "O", "R"):
            self._head()
        for name in ("states", "actions"):
            if not self._names[name]:
                self._fail(f"no line '{name}:' before the transitions")
        count, actions = len(self._names["states"]), len(self._names["actions"])
        if actions * count * count > _MOST:
            self._fail(f"{count} states and {actions} actions: more than {_MOST} numbers; list the transitions as CSV")
        self._chances = np.zeros((actions, count, count))
        self._rewards = np.zeros((actions, count, count))
        while self._at < len(self._tokens):
            self._entry()

    def table(
        self, horizon: int | None, discount: float | None, start: int | str | None, observe: str | None
    ) -> TabularMDP:
        path, states = self._path, self._names["states"]
        notes = [observed(observe, f"{path}")] if self._names["observations"] else []
        factor = number_of("".join(self._settings.get("discount", ["1"]))) if discount is None else discount
        if factor == 0:
            notes.append("discount 0: only the first step counts, so that the horizon is 1")
            horizon, factor = 1, 1.0
        if horizon is None:
            notes.append(f"the file gives no horizon; {DEFAULT_HORIZON} is assumed; say horizon=")
        sense = "costs" if self._settings.get("values") == ["cost"] else "rewards"
        given: dict[str, Any] = {sense: self._rewards, "discount": factor}
        try:
            mdp = TabularMDP.from_arrays(
                self._chances, **given, order="ASS", costs_order="ASS",
                horizon=DEFAULT_HORIZON if horizon is None else horizon, start=self._start(start),
                state_labels=states, action_labels=self._names["actions"], name=path.name,
            )  # fmt: skip
        except (ModelError, TypeError) as error:
            raise FormatError(f"{path}: {error}") from None
        return replace(mdp, notes=(*mdp.notes, *notes))

    def _start(self, given: int | str | None) -> int:
        states = self._names["states"]
        said = self._settings.get("start", [])
        if given is None and len(said) == 1 and said[0] in states:
            return states.index(said[0])
        if given is None and len(said) == len(states):
            chances = [number_of(text) for text in said]
            if chances.count(0.0) == len(states) - 1:
                return int(np.argmax([bool(chance) for chance in chances]))
        if given is None and (said or len(states) > 1):
            raise OptionError(
                f"{self._path}: it names no single start state; say start= one of {', '.join(states[:9])}"
            )
        text = states[0] if given is None else str(given)
        return self._index(text, "states", OptionError)[0]

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
        if head == "O":
            return
        array = self._chances if head == "T" else self._rewards
        kinds = ["actions", "states", "states", "observations"][: 3 if head == "T" else 4]
        if not 1 <= len(keys) <= len(kinds):
            self._fail(f"{head} with {len(keys)} names", line)
        if len(keys) == 4:
            if keys[3] != "*":
                self._fail("a reward that depends on the observation; a table has none", line)
            keys = keys[:3]
        where = [self._index(key, kind) for key, kind in zip(keys, kinds, strict=False)]
        block = array[np.ix_(*where)]
        if head == "R" and self._names["observations"] and len(keys) < 4 and words and len(words) > 1:
            words = self._without_observations(words, line)
        array[np.ix_(*where)] = self._numbers(words, block.shape[len(keys) :], line)

    def _without_observations(self, words: list[str], line: int) -> list[str]:
        """Rows over observations, all of whose numbers are the same, as one number each."""
        width = len(self._names["observations"])
        rows = [words[k : k + width] for k in range(0, len(words), width)]
        if any(len(set(map(number_of, row))) > 1 for row in rows):
            self._fail("a reward that depends on the observation; a table has none", line)
        return [row[0] for row in rows]

    def _numbers(self, words: list[str], shape: tuple[int, ...], line: int) -> Any:
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


register_format("cassandra", read_cassandra, extensions=(".mdp",))
