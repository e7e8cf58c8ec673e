"""Which rewards of a JANI file Storm would average, or count in states as well as on steps.

JANI may put rewards on single destinations of an edge. Storm lifts them to the edge, as the mean over its
destinations: right for expectations, wrong for every other risk. A reward is a transient variable: states have its
initial value, and so have steps that assign no other; where that is not 0, it matters which of the two count.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tailwise.errors import FormatError


def rewards_to_ask_about(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the rewards that differ between destinations of one edge, and of those not 0 at first."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise FormatError(f"{path}, line {error.lineno}: not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}, line 1: not valid JSON: {error}") from None
    found: set[str] = set()
    automata = _items(content, "automata")
    for automaton in automata:
        elsewhere = [item for other in automata if other is not automaton for item in _assignments(other)]
        for item in _assignments(automaton):  # what another automaton assigns before, in the same step, may be random
            read = set(_names(item.get("value")))
            if any(_index(before) < _index(item) and str(before["ref"]) in read for before in elsewhere):
                found.add(str(item["ref"]))
        for edge in _items(automaton, "edges"):
            destinations = [_assigned(destination) for destination in _items(edge, "destinations")]
            names = {name for values in destinations for name in values}
            found |= {name for name in names if len({values.get(name) for values in destinations}) > 1}
    variables = [item for item in _items(content, "variables") if isinstance(item, dict) and item.get("transient")]
    return frozenset(found), frozenset(str(v.get("name")) for v in variables if v.get("initial-value", 0) != 0)


def _assignments(automaton: Any) -> Iterator[dict[str, Any]]:
    for edge in _items(automaton, "edges"):
        for destination in _items(edge, "destinations"):
            yield from _valid(destination)


def _valid(destination: Any) -> list[dict[str, Any]]:
    """Assignments of a destination, in order of their indices."""
    items = [item for item in _items(destination, "assignments") if isinstance(item, dict) and "ref" in item]
    return sorted(items, key=_index)


def _index(item: dict[str, Any]) -> int:
    index = item.get("index", 0)
    return index if isinstance(index, int) else 0


def _assigned(destination: Any) -> dict[str, str]:
    """What a destination assigns, by variable, as JSON text in terms of the values before the step.

    Assignments of one index happen at once; those of a higher index read what lower ones assigned.
    """
    known: dict[str, Any] = {}
    for _, group in itertools.groupby(_valid(destination), key=_index):
        known |= {str(item["ref"]): _value(item.get("value"), known) for item in list(group)}
    return {name: json.dumps(value, sort_keys=True) for name, value in known.items()}


def _value(value: Any, known: dict[str, Any]) -> Any:
    """Put in what was assigned before, and drop comments, which tools add to expressions."""
    if isinstance(value, dict):
        return {k: v if k == "op" else _value(v, known) for k, v in value.items() if k != "comment"}
    if isinstance(value, str):
        return known.get(value, value)
    return [_value(item, known) for item in value] if isinstance(value, list) else value


def _names(value: Any) -> Iterator[str]:
    """Every name that an expression may refer to."""
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _names(item)


def _items(owner: Any, key: str) -> list[Any]:
    items = owner.get(key, []) if isinstance(owner, dict) else []
    return items if isinstance(items, list) else []
