"""How much memory the states of a Python simulator take, estimated."""

from __future__ import annotations

import sys
from collections import deque
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
_MOST_OBJECTS = 20_000
_FIRST, _EVERY = 32, 16


def size_of(value: Any) -> int:
    """Return the bytes of ``value`` and of all that it holds, each object once; an estimate past 20,000 objects."""
    total, seen, pending = 0, set[int](), [value]
    while pending and len(seen) < _MOST_OBJECTS:
        one = pending.pop()
        if id(one) in seen or isinstance(one, _SHARED):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one, 64)
        if isinstance(one, _PLAIN):
            continue
        if isinstance(one, np.ndarray):
            total += one.nbytes if one.base is not None else 0
        elif isinstance(one, dict):
            pending += [*one.keys(), *one.values()]
        elif isinstance(one, (tuple, list, set, frozenset, deque)):
            pending += one
        pending.append(getattr(one, "__dict__", None))
        for kind in type(one).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            pending += [getattr(one, name, None) for name in ((slots,) if isinstance(slots, str) else slots)]
    return total


class RunningSize:
    """Bytes of a growing list of like objects: the first 32 are measured, then one of 16."""

    def __init__(self) -> None:
        self.total = 0.0
        self._seen = 0
        self._measured = 0
        self._mean = 0.0

    def add(self, value: Any) -> None:
        """Count one more object."""
        self._seen += 1
        if isinstance(value, _PLAIN):
            self.total += sys.getsizeof(value)
            return
        if self._seen <= _FIRST or self._seen % _EVERY == 0:
            size = size_of(value)
            self._measured += 1
            self._mean += (size - self._mean) / self._measured
            self.total += size
        else:
            self.total += self._mean
