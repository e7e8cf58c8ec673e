"""Python values as JSON and arrays, exactly, and functions, which no file can hold, as keys of what they compute.

What comes back has the same types and equals what went in.

None, truth values, numbers, texts, bytes, tuples, lists, dicts, sets, NumPy arrays and scalars; and, where the caller
allows it, dataclasses, named tuples and enumerations, by the name of their class. A class is looked up among those
that the process has loaded, never imported, and an instance is put together from its fields without running any of
its code.

A function is its code, and what that may name: defaults, closure cells, globals. One written in a loop, or made by a
builder that is called again, is a new object each time with the same key. By it machine code is shared and cached on
disk, and a saved search compared. numba never frees machine code (about 1 MB for a small function, 10 MB for a
simulator), so that what is compiled is kept, by this key, and used again.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import json
import math
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
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


_BY_VALUE = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic)
_BY_IDENTITY = (BuiltinFunctionType, type, np.ufunc)
_LIBRARIES = ("numpy", "math", "cmath", "numba", "builtins", "operator")  # what these hold does not change


class NoKeyError(Exception):
    """Raised where a function depends on something that may change unseen."""


def function_key(function: Any, *, arrays: bool = True) -> tuple[Hashable, ...]:
    """Return the key of a function: hashable, equal in one process for functions that compile to the same.

    With ``arrays`` they are taken as the constants that they are to numba, by their bytes. ``NoKeyError`` says that it
    uses an object whose content cannot be told: a list, a dict, an instance.
    """
    return _Keys(strict=True, scopes=True, arrays=arrays).of(function)


def function_name(function: Any) -> list[str]:
    """Return the name of a function, and a digest of its code and of the plain values that it closes over.

    They are the same in every process. Of objects whose content cannot be told the class counts.
    """
    inner = getattr(function, "py_func", function)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    return [str(name), _digest(_Keys(strict=False, scopes=False).of(inner))]


def code_digest(function: Any, bodies: Callable[[Any], list[Any]]) -> str:
    """Return a digest of the code of a function and of all that it calls by name, the same in every process.

    ``bodies(value)`` are the functions that one may stand for, if any.
    """
    return _digest(_Keys(strict=False, scopes=True, bodies=bodies).of(function))


def _digest(key: tuple[Hashable, ...]) -> str:
    return hashlib.sha256(repr(key).encode("utf-8", "backslashreplace")).hexdigest()[:16]


class _Keys:
    """Walks from a function to all that it names; ``strict`` as :func:`function_key` is, else in words."""

    def __init__(
        self, *, strict: bool, scopes: bool, arrays: bool = True, bodies: Callable[[Any], list[Any]] | None = None
    ) -> None:
        self._strict, self._scopes, self._arrays, self._bodies = strict, scopes, arrays, bodies
        self._seen: dict[int, int] = {}  # functions may call each other in circles

    def of(self, value: Any) -> tuple[Hashable, ...]:
        kind = type(value)
        if isinstance(value, _BY_VALUE):
            return self._name(kind), repr(value)  # of numbers the repr is exact, and tells 0.0 from -0.0
        if isinstance(value, tuple) or (isinstance(value, list) and not self._strict):
            return (self._name(kind), *map(self.of, value))
        if isinstance(value, (set, frozenset)) and (not self._strict or kind is frozenset):
            return (self._name(kind), *sorted(map(repr, map(self.of, value))))
        if isinstance(value, np.ndarray) and self._arrays and value.dtype.kind in "biufc":
            digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            return "array", value.dtype.str, value.shape, digest
        if isinstance(value, CodeType):
            return self._code(value)
        if self._bodies is not None and (bodies := self._bodies(value)):
            return "bodies", *map(self.of, bodies)
        home = getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", None)
        if isinstance(value, _BY_IDENTITY) or str(home).partition(".")[0] in _LIBRARIES:
            return (self._name(value),)
        inner = getattr(value, "py_func", None) or getattr(value, "_defn", value)  # of what numba compiles
        if isinstance(inner, FunctionType):
            return self._function(inner, repr(sorted(getattr(value, "targetoptions", {}).items())))
        if self._strict:
            raise NoKeyError(f"{type(value).__name__} may change unseen")
        return self._object(value)

    def _name(self, value: Any) -> Any:
        """What stands for something that does not change: itself, or its name."""
        if self._strict:
            return value
        fields = getattr(value, "__annotations__", None) if isinstance(value, type) else None
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}", fields

    def _code(self, code: CodeType) -> tuple[Hashable, ...]:
        texts = code.co_code.hex(), code.co_exceptiontable.hex(), code.co_names, code.co_varnames, code.co_flags
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_freevars
        return (*texts, *counts, self.of(code.co_consts))

    def _function(self, value: FunctionType, options: str) -> tuple[Hashable, ...]:
        if id(value) in self._seen:
            return "function", self._seen[id(value)]
        self._seen[id(value)] = len(self._seen)
        cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
        parts = value.__defaults__, tuple(sorted((value.__kwdefaults__ or {}).items())), cells
        outer = self._named(value.__globals__, names(value.__code__)) if self._scopes else ()
        return "function", options, self._code(value.__code__), self.of(parts), outer

    def _named(self, scope: dict[str, Any], wanted: set[str]) -> tuple[Hashable, ...]:
        """Keys of what a function may name in a scope, and in modules there that are no library's."""
        found: list[Hashable] = []
        for name in sorted(wanted & scope.keys()):
            value = scope[name]
            if isinstance(value, ModuleType) and value.__name__.partition(".")[0] not in _LIBRARIES:
                fresh = id(value) not in self._seen
                self._seen.setdefault(id(value), len(self._seen))
                found.append((name, self._name(value), self._named(vars(value), wanted) if fresh else ()))
            else:
                found.append((name, self.of(value)))
        return tuple(found)

    def _object(self, value: Any) -> tuple[Hashable, ...]:
        """Of an object that can be called the code and the attributes, of any other the class."""
        if isinstance(value, functools.partial):
            return "partial", self.of(value.func), self.of(value.args), self.of(tuple(sorted(value.keywords.items())))
        if isinstance(value, MethodType):
            return "method", self.of(value.__func__), self._attributes(value.__self__)
        if not callable(value) or id(value) in self._seen:
            return (self._name(type(value)),)
        self._seen[id(value)] = len(self._seen)
        return self._name(type(value)), self.of(type(value).__call__), self._attributes(value)

    def _attributes(self, owner: Any) -> tuple[Hashable, ...]:
        return tuple((name, self.of(value)) for name, value in sorted(getattr(owner, "__dict__", {}).items()))


def names(code: CodeType) -> set[str]:
    """Return the names that a function refers to, also in its comprehensions and inner functions."""
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*map(names, inner))
