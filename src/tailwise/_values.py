"""Python values as JSON and arrays, exactly: what comes back has the same types and equals what went in.

None, truth values, numbers, texts, bytes, tuples, lists, dicts, sets, NumPy arrays and scalars; and, where the caller
allows it, dataclasses, named tuples and enumerations, by the name of their class. A class is looked up among those
that the process has loaded, never imported, and an instance is put together from its fields without running any of
its code.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tailwise._results import Json

_PLAIN = (type(None), bool, int, float, str)
_LISTS = {"tuple": tuple, "list": list, "set": set, "frozenset": frozenset}
_NAMES: dict[type, str] = {kind: name for name, kind in _LISTS.items()}
_NUMBERS = "biufcSU"  # kinds of arrays that are their bytes

Arrays = list[Any]
Leaf: TypeAlias = np.ndarray[Any, Any] | np.generic | bool | int | float
T = TypeVar("T")


class CannotPackError(Exception):
    """Raised where a value holds what cannot be said; the message names it."""


def is_same(one: Any, other: Any) -> bool:
    """Whether two actions are equal, arrays or not; as arrays, ``("a", 1)`` and ``("a", "1")`` would be."""
    is_array = isinstance(one, np.ndarray) or isinstance(other, np.ndarray)
    return np.array_equal(one, other) if is_array else bool(one == other)


def pack(value: Any, arrays: Arrays, *, instead: Callable[[Any], Any] | None = None) -> Json:
    """Turn ``value`` into what JSON can say, or raise ``CannotPackError``; arrays are appended to ``arrays``.

    ``instead`` is called with each object that is none of the plain kinds, and returns what is to be packed in its
    place, or the very same object, which is then packed by the name of its class.
    """
    kind = type(value)
    if kind in _PLAIN:
        plain: Json = value
        return plain
    if kind in _NAMES:
        items = [pack(item, arrays, instead=instead) for item in value]
        if kind in (set, frozenset) and not _is_ordered(value):
            items.sort(key=json.dumps)
        return [_NAMES[kind], *items]
    if kind is dict:
        pairs = [[pack(part, arrays, instead=instead) for part in pair] for pair in value.items()]
        return ["dict", *pairs]
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind is complex:
        return ["complex", value.real, value.imag]
    if isinstance(value, (np.ndarray, np.generic)) and kind.__module__ == "numpy" and value.dtype.kind in _NUMBERS:
        arrays.append(np.asarray(value))
        return ["array" if kind is np.ndarray else "scalar", len(arrays) - 1]
    if instead is not None and (other := instead(value)) is not value:
        return pack(other, arrays, instead=instead)
    if isinstance(value, Enum) and value.name in kind.__members__:
        return ["enum", class_name(kind), value.name]
    return [*_fields_of(value), *(pack(item, arrays, instead=instead) for item in _items_of(value))]


def _is_ordered(values: Iterable[Any]) -> bool:
    """Whether a set of ``values`` is walked through in the same order in every process: texts, for one, are not."""
    return all(type(v) in (bool, int, float) or (type(v) is tuple and _is_ordered(v)) for v in values)


def _fields_of(value: Any) -> list[Any]:
    """Return how an instance of a class is put together, or raise."""
    kind = type(value)
    if "<locals>" in kind.__qualname__ or kind.__module__ == "builtins":
        raise CannotPackError(f"{kind.__qualname__} cannot be found by name")
    if kind.__bases__ == (tuple,) and hasattr(kind, "_fields"):
        return ["named", class_name(kind)]
    if dataclasses.is_dataclass(kind) and kind.__new__ is object.__new__:
        names = [field.name for field in dataclasses.fields(kind)]
        others = vars(value).keys() - set(names) if hasattr(value, "__dict__") else set()
        if others:
            raise CannotPackError(f"{kind.__qualname__} has attributes beside its fields: {', '.join(sorted(others))}")
        return ["fields", class_name(kind), names]
    raise CannotPackError(f"{kind.__qualname__} is neither a plain value nor a dataclass or named tuple of such")


def _items_of(value: Any) -> Iterable[Any]:
    return value if isinstance(value, tuple) else (getattr(value, f.name) for f in dataclasses.fields(value))


def unpack(packed: Any, arrays: Any, find: Callable[[str], type] | None = None) -> Any:
    """Return the value that :func:`pack` turned into ``packed``, what JSON gave back, and ``arrays``.

    ``find`` finds a class by its name, among all that are loaded if not given. What ``pack`` did not make raises a
    ValueError, TypeError, LookupError or AttributeError.
    """
    if not isinstance(packed, list):
        return math.nan if packed != packed else packed  # one NaN, so that rows with it are equal to themselves
    name, *parts = packed
    if name in _LISTS:
        return _LISTS[name](unpack(item, arrays, find) for item in parts)
    if name == "dict":
        return {unpack(key, arrays, find): unpack(item, arrays, find) for key, item in parts}
    if name == "bytes":
        return bytes.fromhex(parts[0])
    if name == "complex":
        return complex(*parts)
    if name == "array":
        return arrays[parts[0]]
    if name == "scalar":
        return arrays[parts[0]][()]
    kind = (find or find_class)(parts[0])
    if name == "enum" and issubclass(kind, Enum):
        return kind[parts[1]]
    if name == "named" and kind.__bases__ == (tuple,):
        return tuple.__new__(kind, [unpack(item, arrays, find) for item in parts[1:]])
    if name == "fields" and dataclasses.is_dataclass(kind) and kind.__new__ is object.__new__:
        if [field.name for field in dataclasses.fields(kind)] != parts[1]:
            raise ValueError(f"{kind.__qualname__} has other fields than {', '.join(parts[1])}")
        made = object.__new__(kind)
        for field, item in zip(parts[1], parts[2:], strict=True):
            object.__setattr__(made, field, unpack(item, arrays, find))
        return made
    raise ValueError(f"a value of kind {name!r}")


def class_name(kind: type) -> str:
    """Return the name by which :func:`find_class` finds a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def find_class(name: str) -> type:
    """Return a class that is loaded, by its name, or raise ``LookupError``."""
    module, _, path = name.partition(":")
    if module.partition(".")[0] == __package__:
        importlib.import_module(module)
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type):
        return found
    raise LookupError(f"there is no class {path} in module {module}, or that module is not imported yet")


def leaves(value: Any) -> Iterator[Leaf]:
    """Yield the arrays and numbers in nested (named) tuples, in order."""
    if isinstance(value, tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def refilled(like: Any, values: Iterator[Leaf]) -> Any:
    """Return nested tuples built as ``like``, their leaves taken from ``values``; arrays may be longer or shorter.

    A leaf of another type raises ``ValueError``, too few of them ``StopIteration``.
    """
    if isinstance(like, tuple):
        items = [refilled(item, values) for item in like]
        return type(like)(*items) if hasattr(like, "_fields") else tuple(items)
    value: Any = next(values)
    is_array = isinstance(like, np.ndarray)
    if type(value) is not type(like) or (is_array and (value.dtype, value.ndim) != (like.dtype, like.ndim)):
        raise ValueError(f"{value!r} in the place of {like!r}")
    return value
