"""What a function computes, as a key: by it machine code is shared, cached on disk, and a saved search compared.

A function is its code, and what that may name: defaults, closure cells, globals. One written in a loop, or made by a
builder that is called again, is a new object each time with the same key. numba never frees machine code (about 1 MB
for a small function, 10 MB for a simulator), so that what is compiled is kept, by this key, and used again.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Hashable
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic)
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
        if isinstance(value, _PLAIN):
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
