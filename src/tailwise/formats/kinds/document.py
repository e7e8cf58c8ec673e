"""Models as documents: nested objects of JSON, YAML or TOML, bare ``P[s][a]`` tables, and course-style text files.

Every form becomes named columns, which go the way of all transition lists, and what a list cannot say (discount, start,
horizon). Forms: columns; records, one an outcome; ``transitions`` as either, as rows ``[s, a, s', p, r]``, or nested as
``{s: {a: {s': p}}}`` with ``rewards`` ``{s: r}``, ``{s: {a: r}}`` or ``{s: {a: {s': r}}}``; and ``P[s][a] = [(p, s', r,
done)]``, as in Gymnasium.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tailwise.errors import FormatError, OptionError, require
from tailwise.formats.kinds.columns import column_names, read_frame
from tailwise.formats.list_columns import number_of
from tailwise.formats.options import ListOptions
from tailwise.formats.registry import register_format
from tailwise.models import Alternatives, TabularMDP

Rows = list[tuple[Any, ...]]  # state, action, next state, probability, reward, and perhaps done

_SETTINGS = {
    "discount": ("discount", "gamma", "discount_factor"),
    "start": ("start", "initial", "initial_state", "start_state", "init", "initstate"),
    "horizon": ("horizon", "steps", "num_steps"),
    "sense": ("sense", "values"),
}
_TABLES = ("transitions", "transition", "T", "P", "table", "dynamics", "outcomes")
_VALUES = {"rewards": "reward", "reward": "reward", "R": "reward", "costs": "cost", "cost": "cost"}
_ENDS = ("terminals", "terminal_states", "terminal", "end", "end_states")
_NAMES = ("states", "actions", "S", "A", "name", "comment", "description", "nS", "nA", "num_states", "num_actions")


def is_nested(value: Any) -> bool:
    """Whether ``value`` looks like ``P[s][a] = [(p, s', r, done)]``."""
    rows = _first(_first(value))
    return _is_list(rows) and _is_list(_first(rows)) and len(_first(rows)) in (3, 4)


def read_document(document: Any, options: ListOptions, source: str, **more: Any) -> TabularMDP | Alternatives:
    """Build the table that a document describes; options that the user gave win over what it says."""
    settings: dict[str, Any] = {}
    value, sense, ends = None, "reward", set()
    table = document
    if isinstance(document, Mapping) and any(key in document for key in _TABLES):
        table = next(document[key] for key in _TABLES if key in document)
        settings = {name: document[word] for name, words in _SETTINGS.items() for word in words if word in document}
        keys = [key for key in _VALUES if key in document]
        if len(keys) > 1:
            raise FormatError(f"{source}: both {keys[0]!r} and {keys[1]!r} say what is paid; expected one of them")
        value, sense = (document[keys[0]], _VALUES[keys[0]]) if keys else (None, "reward")
        ends = {str(end) for word in _ENDS for end in _listed(document.get(word))}
        known = {*_TABLES, *_VALUES, *_ENDS, *_NAMES, *(word for words in _SETTINGS.values() for word in words)}
        unknown = [key for key in document if key not in known]
        if unknown:
            raise FormatError(
                f"{source}: unknown key {str(unknown[0])[:40]!r}; known keys are {', '.join(sorted(known))}"
            )
    if value is not None and settings.get("sense", sense) != sense and keys[0] != "R":
        raise FormatError(f"{source}: {keys[0]!r} contradicts the sense {settings['sense']!r:.20}")
    sense = str(settings.pop("sense", sense))
    if _is_list(table) and table and all(isinstance(row, Mapping) for row in table):
        lacking = next((k for k, row in enumerate(table) if list(row) != list(table[0])), None)
        if lacking is not None:
            raise FormatError(f"{source}, record {lacking + 1}: its keys are not those of the first record")
        table = {key: [row[key] for row in table] for key in table[0]}
    if not (isinstance(table, Mapping) and table and all(_is_list(column) for column in table.values())) or is_nested(
        table
    ):
        paid = _keyed(value, document.get("states") if isinstance(document, Mapping) else None)
        rows = list(_rows(table, paid, source))
        _require_paid(paid, {tuple(map(str, row[:3])) for row in rows}, ends, source)
        if paid is not None and _says_something(paid) and rows == list(_rows(table, None, source)):
            raise FormatError(f"{source}: {keys[0]!r} stands beside transitions that say themselves what is paid")
        table = _columns(rows, sense, ends, source)
    elif value is not None:
        raise FormatError(f"{source}: {keys[0]!r} stands beside a list; give the list a column for it")
    asked, notes = with_settings(options, settings)
    return read_frame(table, asked, source=source, notes=notes, **more)


def with_settings(options: ListOptions, settings: Mapping[str, Any]) -> tuple[ListOptions, tuple[str, ...]]:
    """Options with what the source itself says, where the user says nothing; discount 0 is one step, with a note."""
    notes: tuple[str, ...] = ()
    found = {name: value for name, value in settings.items() if getattr(options, name) is None}
    if "start" in found and not isinstance(found["start"], int):
        found["start"] = str(found["start"])
    if found.get("discount") == 0:
        found |= {"discount": 1.0, "horizon": 1}
        notes = ("discount 0: only the first step counts, so that the horizon is 1",)
    return replace(options, **found), notes


def _columns(rows: Rows, sense: str, ends: set[str], source: str) -> dict[str, list[Any]]:
    if not rows:
        raise FormatError(f"{source}: no transitions follow; expected at least one")
    width = len(rows[0])
    if width not in (5, 6) or any(len(row) != width for row in rows):
        raise FormatError(f"{source}: each transition must have state, action, next state, probability and {sense}")
    columns = [list(column) for column in zip(*rows, strict=True)]
    names = ("idstatefrom", "idaction", "idstateto", "probability", sense, "done")
    table = dict(zip(names, columns, strict=False))
    if ends:
        unknown = ends.difference(*(map(str, table[name]) for name in ("idstatefrom", "idstateto")))
        if unknown:
            raise FormatError(f"{source}: the end {min(unknown)!r:.40} is no state of any transition")
        kept = [k for k, state in enumerate(table["idstatefrom"]) if str(state) not in ends]
        table = {name: [column[k] for k in kept] for name, column in table.items()}
        table["done"] = [str(state) in ends for state in table["idstateto"]]
    return table


def _rows(table: Any, values: Any, source: str) -> Iterator[tuple[Any, ...]]:
    """Yield the outcomes of a nested table, or of rows ``[s, a, s', p, r]``."""
    cell = _first(_first(table))
    if _is_list(table) and _is_list(_first(table)) and not _is_list(cell) and not isinstance(cell, Mapping):
        odd = next((row for row in table if not _is_list(row)), None)
        if odd is not None:
            raise FormatError(f"{source}: {odd!r:.60} is no transition; expected a row [s, a, s', p, r]")
        yield from (tuple(row) for row in table)
        return
    for state, actions in _items(table, source):
        for action, outcomes in _items(actions, source):
            if isinstance(outcomes, Mapping):  # s': p, or s': (p, r)
                for target, chance in outcomes.items():
                    if _is_list(chance):
                        yield state, action, target, *chance
                    else:
                        yield state, action, target, chance, _value(values, state, action, target)
                continue
            if not _is_list(outcomes) or not all(_is_list(outcome) for outcome in outcomes):
                raise FormatError(
                    f"{source}: state {state!r}, action {action!r}: expected outcomes, not {outcomes!r:.60}"
                )
            for outcome in outcomes:
                if len(outcome) == 2:  # s', p
                    yield state, action, *outcome, _value(values, state, action, outcome[0])
                elif len(outcome) in (3, 4):  # p, s', r, done
                    yield state, action, outcome[1], outcome[0], *outcome[2:]
                else:
                    raise FormatError(f"{source}: state {state!r}, action {action!r}: {outcome!r:.60} is no outcome")


def _keyed(values: Any, names: Any = None) -> Any:
    """Return nested lists and tables of rewards as tables by the texts of their keys."""
    if isinstance(values, Mapping):
        return {str(key): _keyed(value) for key, value in values.items()}
    if not _is_list(values):
        return values
    is_named = _is_list(names) and len(names) == len(values)
    return {
        str(key): _keyed(value) for key, value in zip(names if is_named else range(len(values)), values, strict=True)
    }


def _value(values: Any, *keys: Any) -> Any:
    """Look up a reward by state, then action, then next state, as far as there are levels; none is 0."""
    for key in keys:
        if isinstance(values, Mapping):
            values = values.get(str(key), 0.0)
    return 0.0 if values is None else values


def _says_something(values: Any) -> bool:
    return any(map(_says_something, values.values())) if isinstance(values, Mapping) else bool(values)


def _require_paid(values: Any, rows: set[tuple[str, ...]], ends: set[str], source: str) -> None:
    """Raise where a reward is said that no transition pays: of a name that is misspelt, or of an end."""
    known = {row[:depth] for row in rows if row[0] not in ends for depth in (1, 2, 3)}
    left: list[tuple[tuple[str, ...], Any]] = [((), values)]
    while left:
        path, found = left.pop()
        if isinstance(found, Mapping):
            left += [((*path, key), value) for key, value in found.items()]
        elif found and path and path not in known:
            where = ", ".join(
                f"{word} {key!r}" for word, key in zip(("state", "action", "next state"), path, strict=False)
            )
            raise FormatError(
                f"{source}: a reward of {found!r:.20} is never paid: no transition goes by {where}; rewards are paid "
                "on transitions, that of an end on those that lead there"
            )


def _items(level: Any, source: str) -> list[tuple[Any, Any]]:
    if isinstance(level, Mapping):
        return list(level.items())
    if _is_list(level):
        return list(enumerate(level))
    raise FormatError(f"{source}: expected states, then actions, then outcomes; found {level!r:.60}")


def _first(value: Any) -> Any:
    if isinstance(value, Mapping):
        return next(iter(value.values()), None)
    return value[0] if _is_list(value) and len(value) else None


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _listed(value: Any) -> list[Any]:
    return [] if value is None else list(value) if _is_list(value) else [value]


def is_list(value: Any) -> bool:
    """Whether ``value`` is a transition list in named columns, and no document around one."""
    return column_names(value) is not None and not (
        isinstance(value, Mapping) and (is_nested(value) or any(k in value for k in _TABLES))
    )


def is_frame_or_nested(value: Any) -> bool:
    """Whether ``value`` has named columns, is a list of records, or a nested table."""
    is_records = isinstance(value, list) and isinstance(_first(value), Mapping)
    return is_records or is_nested(value) or column_names(value) is not None


_LARGEST = 1_000_000_000


def read_json(path: Path, **options: Any) -> TabularMDP | Alternatives:
    """Transitions as JSON: columns, records or nested."""
    found = _parsed(path, lambda text: json.loads(text, object_pairs_hook=_once))
    if isinstance(found, dict) and "jani-version" in found:
        raise OptionError(f"{path}: it is a JANI model; say jani:{path}")
    return read_document(found, ListOptions(**options), str(path), name=path.name)


def _once(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return a table, or raise where a key stands twice: parsers take the last in silence."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in one table")
    return found


def read_json_lines(path: Path, **options: Any) -> TabularMDP | Alternatives:
    """Transitions as JSON, one record a line."""
    records = _parsed(
        path, lambda text: [json.loads(line, object_pairs_hook=_once) for line in text.splitlines() if line.strip()]
    )
    return read_document(records, ListOptions(**options), str(path), name=path.name)


def read_yaml(path: Path, **options: Any) -> TabularMDP | Alternatives:
    """Transitions as YAML: columns, records or nested (PyYAML)."""
    yaml: Any = require("yaml", "yaml", f"reading {path}")

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Keys once."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            return _once([tuple(self.construct_object(one, deep=True) for one in pair) for pair in node.value])

    return read_document(
        _parsed(path, lambda text: yaml.load(text, Loader)), ListOptions(**options), str(path), name=path.name
    )


def read_toml(path: Path, **options: Any) -> TabularMDP | Alternatives:
    """Transitions as TOML: columns, records or nested."""
    return read_document(_parsed(path, tomllib.loads), ListOptions(**options), str(path), name=path.name)


def read_text(path: Path, **options: Any) -> TabularMDP | Alternatives:
    """Course-style text: numStates, then lines 'transition s a s2 r p'."""
    text = _parsed(path, str)
    if "transition" not in text:
        raise FormatError(f"{path}, line 1: no line 'transition s a s2 r p'; for another format say FORMAT:{path}")
    settings: dict[str, Any] = {}
    ends: set[str] = set()
    rows: Rows = []
    lines: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        word, *fields = re.split(r"[\s,]+", line.partition("#")[0].strip())
        word = word.lower()
        numbers = [number_of(field) for field in fields]
        if word == "transition":
            if len(fields) != 5 or None in numbers[3:]:
                raise FormatError(f"{path}, line {number}: expected 'transition s a s2 r p', not {line.strip()[:60]!r}")
            rows.append((fields[0], fields[1], fields[2], numbers[4], numbers[3]))
            lines.append(number)
        elif word in ("discount", "gamma", "start") and len(fields) == 1:
            if word != "start" and numbers[0] is None:
                raise FormatError(f"{path}, line {number}: the discount {fields[0]!r:.20} is no number")
            settings["start" if word == "start" else "discount"] = fields[0] if word == "start" else numbers[0]
        elif word == "end":
            ends = set(fields) - {"-1"}
        elif word and word not in ("numstates", "numactions", "mdptype", "states", "actions"):
            raise FormatError(f"{path}, line {number}: {word[:40]!r} is no word of this format")
    kept = [lines[k] for k, row in enumerate(rows) if row[0] not in ends]
    table = _columns(rows, "reward", ends, f"{path}, line 1")
    table = {name: [str(cell) for cell in column] for name, column in table.items()}
    asked, notes = with_settings(ListOptions(**options), settings)
    return read_frame(
        table, asked, source=str(path), notes=notes, place=lambda entry: f"{path}, line {kept[entry]}", name=path.name
    )


def _parsed(path: Path, parse: Callable[[str], Any]) -> Any:
    if path.stat().st_size > _LARGEST:
        raise FormatError(f"{path}, line 1: the file is larger than {_LARGEST} bytes")
    try:
        return parse(path.read_text(encoding="utf-8-sig"))
    except Exception as error:  # each parser has errors of its own
        line = getattr(error, "lineno", None) or getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise FormatError(f"{path}, line {line}: it cannot be parsed: {said}") from None


register_format("json", read_json, extensions=(".json",), options=ListOptions)
register_format("jsonl", read_json_lines, extensions=(".jsonl", ".ndjson"), options=ListOptions)
register_format("yaml", read_yaml, extensions=(".yaml", ".yml"), options=ListOptions)
register_format("toml", read_toml, extensions=(".toml",), options=ListOptions)
register_format("text", read_text, extensions=(".txt",), options=ListOptions)
