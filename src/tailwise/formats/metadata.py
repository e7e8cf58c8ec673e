"""What a transition list cannot say: horizon, discount, start, labels, terminal costs.

``save`` writes it as JSON: beside a CSV file (``model.csv.json``), inside the schema of an Arrow file,
and as a member of an ``.npz`` file. Unknown versions and keys are refused by name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from tailwise.errors import FormatError
from tailwise.models import TabularMDP
from tailwise.models.contract import Sense

FORMAT = "tailwise-table"
VERSION = 1
_KEYS = (
    "format", "version", "name", "sense", "horizon", "discount", "start", "num_states",
    "state_labels", "action_labels", "terminal_values", "list_bytes", "notes",
)  # fmt: skip
_DIGEST = "list_sha256"  # not in files of tailwise 0.1


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """The fields of a :class:`tailwise.TabularMDP` that are not columns; ``source`` is where they stood."""

    source: str
    name: str
    sense: Sense
    horizon: int
    discount: float
    start: int
    num_states: int
    state_labels: tuple[str, ...]
    action_labels: tuple[str, ...]
    terminal_values: tuple[float, ...]  # in the sense of the model; empty if all are 0
    list_bytes: int  # size of the list that it was saved with; 0 where both are in one file
    list_sha256: str  # what that list said; empty where both are in one file, and in old files
    notes: tuple[str, ...]


def metadata_of(mdp: TabularMDP, *, list_bytes: int = 0, list_sha256: str = "") -> str:
    """Return the metadata of a table as JSON text."""
    has_terminal = bool(mdp.terminal_losses.any())
    fields = {
        "format": FORMAT,
        "version": VERSION,
        "name": mdp.name,
        "sense": mdp.sense,
        "horizon": mdp.horizon,
        "discount": mdp.discount,
        "start": mdp.start,
        "num_states": mdp.num_states,
        "state_labels": list(mdp.state_labels),
        "action_labels": list(mdp.action_labels),
        "terminal_values": mdp.signed(mdp.terminal_losses).tolist() if has_terminal else [],
        "list_bytes": list_bytes,
        **({_DIGEST: list_sha256} if list_sha256 else {}),
        "notes": list(mdp.notes),
    }
    return json.dumps(fields, indent=1, ensure_ascii=False) + "\n"


def parse_metadata(text: str, source: str) -> Metadata:
    """Read metadata back.

    Parameters
    ----------
    text : str
        The JSON text.
    source : str
        File it comes from, for messages.

    Returns
    -------
    Metadata

    Raises
    ------
    FormatError
        Naming the file, the line and the key that is wrong.
    """

    def fail(key: str, problem: str) -> NoReturn:
        at = text.find(f'"{key}"')
        line = text.count("\n", 0, at) + 1 if at >= 0 else 1
        raise FormatError(f"{source}, line {line}: {problem}")

    try:
        fields = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise FormatError(f"{source}, line {error.lineno}: not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{source}, line 1: not valid JSON: {error}") from None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        fail("format", f'not metadata of tailwise; expected an object with "format": "{FORMAT}"')
    version = fields.get("version")
    if version != VERSION or isinstance(version, bool):
        fail("version", f"version {version!r} of {FORMAT}; this tailwise reads version {VERSION}: upgrade it")
    unknown, missing = [k for k in fields if k not in (*_KEYS, _DIGEST)], [k for k in _KEYS if k not in fields]
    if unknown:
        fail(unknown[0], f"unknown key {unknown[0]!r} in version {VERSION}; known keys are {', '.join(_KEYS)}")
    if missing:
        fail("format", f"the key {missing[0]!r} is missing")

    def need(key: str, accepts: Callable[[Any], bool], expected: str) -> Any:
        if not accepts(fields[key]):
            fail(key, f"{key} must be {expected}, not {str(fields[key])[:40]!r}")
        return fields[key]

    def texts(key: str) -> tuple[str, ...]:
        found = tuple(need(key, _is_texts, "a list of texts"))
        if key != "notes" and len(set(found)) != len(found):
            fail(key, f"{key} holds a name more than once; labels must differ")
        return found

    fields.setdefault(_DIGEST, "")
    num_states = need("num_states", lambda v: _is_whole(v, 1), "a whole number of at least 1")
    return Metadata(
        source=source,
        name=need("name", lambda v: isinstance(v, str), "a text"),
        sense=cast("Sense", need("sense", lambda v: v in ("cost", "reward"), "'cost' or 'reward'")),
        horizon=need("horizon", lambda v: _is_whole(v, 1), "a whole number of at least 1"),
        discount=float(need("discount", lambda v: _is_number(v) and 0 < v <= 1, "a number in (0, 1]")),
        start=need("start", lambda v: _is_whole(v, 0) and v < num_states, f"a state of 0..{num_states - 1}"),
        num_states=num_states,
        state_labels=texts("state_labels"),
        action_labels=texts("action_labels"),
        terminal_values=tuple(
            map(
                float,
                need(
                    "terminal_values",
                    lambda v: isinstance(v, list) and len(v) in (0, num_states) and all(map(_is_number, v)),
                    "a list of one finite number per state",
                ),
            )
        ),
        list_bytes=need("list_bytes", _is_size, "a whole number of bytes"),
        list_sha256=need(_DIGEST, lambda v: isinstance(v, str), "a text"),
        notes=texts("notes"),
    )


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63


def _is_whole(value: Any, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < 2**31


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
