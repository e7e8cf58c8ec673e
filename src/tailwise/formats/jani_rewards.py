"""Which rewards of a JANI file Storm would average.

JANI may put rewards on single destinations of an edge. Storm lifts them to the edge, as the mean over its
destinations: right for expectations, wrong for every other risk. Such reward structures are found here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tailwise.errors import FormatError


def averaged_rewards(path: Path) -> frozenset[str]:
    """Return the names of the rewards that differ between destinations of one edge.

    Parameters
    ----------
    path : Path
        A JANI file that Storm has read.

    Returns
    -------
    frozenset of str

    Raises
    ------
    FormatError
        If the file is not JSON.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise FormatError(f"{path}, line {error.lineno}: not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}, line 1: not valid JSON: {error}") from None
    found: set[str] = set()
    for edge in _edges(content):
        destinations = [_assigned(destination) for destination in _items(edge, "destinations")]
        names = {name for values in destinations for name in values}
        found |= {name for name in names if len({values.get(name) for values in destinations}) > 1}
    return frozenset(found)


def _edges(content: Any) -> Iterator[Any]:
    for automaton in _items(content, "automata"):
        yield from _items(automaton, "edges")


def _assigned(destination: Any) -> dict[str, str]:
    """What a destination assigns, by variable; values as JSON text."""
    return {
        str(item["ref"]): json.dumps(_value(item.get("value")), sort_keys=True)
        for item in _items(destination, "assignments")
        if isinstance(item, dict) and "ref" in item
    }


def _value(value: Any) -> Any:
    """Drop comments, which tools add to expressions."""
    if isinstance(value, dict):
        return {key: _value(item) for key, item in value.items() if key != "comment"}
    return [_value(item) for item in value] if isinstance(value, list) else value


def _items(owner: Any, key: str) -> list[Any]:
    items = owner.get(key, []) if isinstance(owner, dict) else []
    return items if isinstance(items, list) else []
