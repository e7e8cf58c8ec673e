"""What a function computes, as a key: two functions with one key may share one machine code.

A function written in a loop, or made by a builder that is called again, is a new object each time, of the same code.
Its machine code depends on the code and on what numba freezes into it: defaults, closure cells and the globals that
it names. numba never frees machine code (about 1 MB for a small function, 10 MB for a simulator), so that what is
compiled is kept, by this key, and used again.
"""

from __future__ import annotations

import hashlib
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
_BY_IDENTITY = (BuiltinFunctionType, type, np.ufunc)
_LIBRARIES = ("numpy", "math", "cmath", "numba", "builtins", "operator")  # what these hold does not change


class NoKeyError(Exception):
    """Raised where a function depends on something that may change unseen."""


def function_key(function: Any, *, arrays: bool = True) -> tuple[Any, ...]:
    """Return the key of a function: hashable, equal for functions that compile to the same.

    Parameters
    ----------
    function : callable
        A plain function, or one that numba has compiled.
    arrays : bool, default True
        Whether arrays are taken as the constants that they are to numba, by their bytes.

    Raises
    ------
    NoKeyError
        If it uses an object whose content cannot be told: a list, a dict, an instance.
    """
    return _key(function, {}, arrays)


def _key(value: Any, seen: dict[int, int], arrays: bool) -> tuple[Any, ...]:
    if isinstance(value, _PLAIN):
        return type(value), repr(value)  # of numbers the repr is exact, and tells 0.0 from -0.0
    if isinstance(value, tuple):
        return (type(value), *(_key(item, seen, arrays) for item in value))
    if isinstance(value, np.ndarray) and arrays and value.dtype.kind in "biufc":
        return np.ndarray, value.dtype.str, value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).digest()
    home = getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", None)
    if isinstance(value, _BY_IDENTITY) or str(home).partition(".")[0] in _LIBRARIES:
        return type(value), value
    options: tuple[Any, ...] = ()
    if isinstance(value, Dispatcher):
        options, value = (repr(sorted(value.targetoptions.items())),), value.py_func
    if isinstance(value, FunctionType):
        if id(value) in seen:  # functions may call each other in circles
            return FunctionType, seen[id(value)]
        seen[id(value)] = len(seen)
        cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
        parts = value.__defaults__, tuple(sorted((value.__kwdefaults__ or {}).items())), cells
        outer = _named(value.__globals__, names(value.__code__), seen, arrays)
        return FunctionType, options, value.__code__, _key(parts, seen, arrays), outer
    raise NoKeyError(f"{type(value).__name__} may change unseen")


def _named(scope: dict[str, Any], wanted: set[str], seen: dict[int, int], arrays: bool) -> tuple[Any, ...]:
    """Keys of what a function may name in a scope, and in the user's own modules there."""
    found: list[Any] = []
    for name in sorted(wanted & scope.keys()):
        value = scope[name]
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] not in _LIBRARIES:
            fresh = id(value) not in seen
            seen.setdefault(id(value), len(seen))
            found.append((name, value, _named(vars(value), wanted, seen, arrays) if fresh else ()))
        else:
            found.append((name, _key(value, seen, arrays)))
    return tuple(found)


def names(code: CodeType) -> set[str]:
    """Return the names that a function refers to, also in its comprehensions and inner functions."""
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*map(names, inner))
