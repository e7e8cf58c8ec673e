"""The states of a Python simulator that a search has met: handles, memory, and whether a file can keep them."""

from __future__ import annotations

import copy
import json
import sys
from collections import deque
from collections.abc import Hashable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Self

import numpy as np

from tailwise._values import CannotPackError, pack, unpack
from tailwise.bindings.kernel_model import BudgetSpentError
from tailwise.errors import SimulatorError
from tailwise.models.simulator import model_name, short

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


def require_portable(states: list[Hashable], first: int, model: Any) -> None:
    """Raise ``SimulatorError`` unless each state from ``first`` on comes back from a file as it was."""
    for state in states[first:]:
        fault = _fault(state)
        if fault:
            raise SimulatorError(
                f"state {short(state)} of {model_name(model)} cannot be kept in a file: {fault}. Let states be "
                "numbers, texts, tuples, frozensets, or frozen dataclasses and named tuples of such, of a class at the "
                "top of a module; or keep the plan alone (plan.save)"
            )


def _fault(state: Any) -> str:
    try:
        packed, arrays = _packed(state)
        copy = unpack(json.loads(packed), arrays)
        if _text(copy) != _text(state) or hash(copy) != hash(state) or not bool(copy == state):
            return "it does not come back the same"
    except CannotPackError as error:
        return str(error)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _packed(state: Any) -> tuple[str, list[Any]]:
    arrays: list[Any] = []
    return json.dumps(pack(state, arrays)), arrays


def _text(state: Any) -> str:
    packed, arrays = _packed(state)
    return packed + "".join(f"{array.dtype.str}{array.shape}{array.tobytes()!r}" for array in arrays)


_RECORD = 200  # bytes of a state in the lists and the index


class KnownStates:
    """States by handle, with what is looked up often. It grows; to forget is to make another, so that old views last.

    ``hashes`` tell a state that was changed in place; ``actions`` are None where nobody has asked yet.
    """

    def __init__(self) -> None:
        self.states: list[Hashable] = []
        self.hashes: list[int] = []
        self.actions: list[list[object] | None] = []
        self.index: dict[Hashable, int] = {}
        self._size = RunningSize()
        self._portable = 0  # so many of the states are known to fit into a file

    @property
    def num_bytes(self) -> int:
        """Memory that they take, estimated."""
        return int(self._size.total) + _RECORD * len(self.states)

    def add(self, state: Hashable, budget: float) -> int:
        """Return the handle of a new state; ``BudgetSpentError`` where all would take more than ``budget`` bytes."""
        before = self._size.total
        self._size.add(state)
        if self.num_bytes > budget:
            self._size.total = before
            raise BudgetSpentError
        handle = self.index[state] = len(self.states)
        self.states.append(state)
        self.hashes.append(hash(state))
        self.actions.append(None)
        return handle

    def retained(self, kept: list[int]) -> KnownStates:
        """Return the states with the handles ``kept`` alone, whose positions there are their new handles."""
        return KnownStates._of(
            [self.states[handle] for handle in kept],
            [self.hashes[handle] for handle in kept],
            [self.actions[handle] for handle in kept],
        )

    def copy(self) -> Self:
        """Return an independent copy; the states themselves are shared."""
        other = copy.copy(self)
        other.states, other.hashes, other.actions = list(self.states), list(self.hashes), list(self.actions)
        other.index, other._size = dict(self.index), copy.copy(self._size)
        return other

    def require_portable(self, model: Any) -> None:
        """Raise ``SimulatorError`` if a file cannot hold one of the states of a model; names it."""
        require_portable(self.states, self._portable, model)
        self._portable = len(self.states)

    def state_dict(self) -> dict[str, object]:
        """Return all that makes them: the states themselves are shared."""
        return {"states": list(self.states), "size": dict(vars(self._size))}

    @classmethod
    def loaded(cls, state: dict[str, Any]) -> KnownStates:
        """Return the states that :meth:`state_dict` described."""
        states = state["states"]
        return cls._of(states, [hash(one) for one in states], [None] * len(states), state["size"])

    @classmethod
    def _of(
        cls,
        states: list[Hashable],
        hashes: list[int],
        actions: list[list[object] | None],
        size: dict[str, Any] | None = None,
    ) -> KnownStates:
        known = cls()
        known.states, known.hashes, known.actions = states, hashes, actions
        known.index = {state: handle for handle, state in enumerate(states)}
        if size is not None:
            vars(known._size).update(size)
        else:
            for state in states:
                known._size.add(state)
        return known
