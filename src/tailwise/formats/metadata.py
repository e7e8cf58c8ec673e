"""What a transition list cannot say: horizon, discount, start, labels, terminal costs.

``save`` writes it as JSON: beside a CSV file (``model.csv.json``), inside the schema of an Arrow or Parquet file,
and as a member of an ``.npz`` file. Unknown versions and keys are refused by name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from tailwise.errors import FormatError
from tailwise.models import TabularMDP
from tailwise.models.contract import Sense

FORMAT = "tailwise-table"
VERSION = 1


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
    list_sha256: str = ""  # what that list said; empty where both are in one file, and in files of tailwise 0.1
    notes: tuple[str, ...]


def metadata_of(mdp: TabularMDP, *, list_bytes: int = 0, list_sha256: str = "") -> str:
    """Return the metadata of a table as JSON text."""
    terminal = mdp.signed(mdp.terminal_losses).tolist() if mdp.terminal_losses.any() else ()
    fields = asdict(
        Metadata(
            source="", name=mdp.name, sense=mdp.sense, horizon=mdp.horizon, discount=mdp.discount, start=mdp.start,
            num_states=mdp.num_states, state_labels=mdp.state_labels, action_labels=mdp.action_labels,
            terminal_values=tuple(terminal), list_bytes=list_bytes, list_sha256=list_sha256, notes=mdp.notes,
        )
    )  # fmt: skip
    del fields["source"]
    if not list_sha256:
        del fields["list_sha256"]
    return json.dumps({"format": FORMAT, "version": VERSION, **fields}, indent=1, ensure_ascii=False) + "\n"


def parse_metadata(text: str, source: str) -> Metadata:
    """Read metadata back; an error names ``source``, the line and the key that is wrong."""

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
    if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
        fail("format", f'not metadata of tailwise; expected an object with "format": "{FORMAT}"')
    version = fields.pop("version", None)
    if version != VERSION or isinstance(version, bool):
        fail("version", f"version {version!r} of {FORMAT}; this tailwise reads version {VERSION}: upgrade it")
    known = ", ".join(_EXPECTED)
    for key in fields:
        if key not in _EXPECTED:
            fail(key, f"unknown key {key!r} in version {VERSION}; known keys are {known}")
    for key, (accepts, expected) in _EXPECTED.items():
        if key not in fields and key != "list_sha256":
            fail("format", f"the key {key!r} is missing")
        if key in fields and not accepts(fields[key]):
            fail(key, f"{key} must be {expected}, not {str(fields[key])[:40]!r}")
        if isinstance(fields.get(key), list):
            fields[key] = tuple(map(float, fields[key])) if key == "terminal_values" else tuple(fields[key])
            if key.endswith("labels") and len(set(fields[key])) != len(fields[key]):
                fail(key, f"{key} holds a name more than once; labels must differ")
    if fields["start"] >= fields["num_states"]:
        fail("start", f"start must be a state of 0..{fields['num_states'] - 1}, not {fields['start']}")
    if len(fields["terminal_values"]) not in (0, fields["num_states"]):
        fail("terminal_values", "terminal_values must be a list of one finite number per state")
    fields["discount"] = float(fields["discount"])
    return Metadata(source=source, **fields)


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63


def _whole(low: int, bits: int = 31) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value < 2**bits


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: isinstance(value, str), "a text"),
    "sense": (lambda value: value in ("cost", "reward"), "'cost' or 'reward'"),
    "horizon": (_whole(1), "a whole number of at least 1"),
    "discount": (lambda value: _is_number(value) and 0 < value <= 1, "a number in (0, 1]"),
    "start": (_whole(0), "the number of a state"),
    "num_states": (_whole(1), "a whole number of at least 1"),
    "state_labels": (_is_texts, "a list of texts"),
    "action_labels": (_is_texts, "a list of texts"),
    "terminal_values": (
        lambda value: isinstance(value, list) and all(map(_is_number, value)),
        "a list of one finite number per state",
    ),
    "list_bytes": (_whole(0, 63), "a whole number of bytes"),
    "list_sha256": (lambda value: isinstance(value, str), "a text"),
    "notes": (_is_texts, "a list of texts"),
}
