"""Results as plain values: what JSON can say."""

from __future__ import annotations

import dataclasses
import math
from enum import Enum
from typing import Any, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Any]
"""Plain values by name, as ``json.dumps`` takes them: :data:`Json` all through."""


def plain(value: Any) -> Json:
    """Turn ``value`` into None, bool, int, float, str, and lists and dicts of these.

    NaN and infinities, which JSON lacks, become None, a dataclass its public fields, a named tuple a list; what is
    none of these becomes its text.
    """
    if value is None or (isinstance(value, (bool, str)) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if hasattr(value, "to_dict"):
        own: JsonObject = value.to_dict()
        return own
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # an array or a scalar of NumPy
        return plain(value.tolist())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return str(value)


class Result:
    """A frozen dataclass of findings, for subclasses that add the fields."""

    def to_dict(self) -> JsonObject:
        """Return the public fields as plain values, ready for ``json.dumps``: see the class for what they are.

        Numbers that JSON lacks (NaN, infinities) are None, arrays are lists, results within are dicts.
        """
        return _fields(self)


def _fields(value: Any) -> JsonObject:
    names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
    return {name: plain(getattr(value, name)) for name in names}
