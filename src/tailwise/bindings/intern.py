"""Interned states: one integer handle for each distinct state, a tuple of 64-bit words or any Python object.

The tree knows a state by one integer. Compiled models whose states are tuples keep them here: an open
hash table from words to handles, in flat arrays, so that compiled models can intern while they
step. Floats enter by their bits (``float_bits``), so that equal means equal to the last bit. What Python simulators
return is kept as it is, by what hashes alike, and in files where it can be.
"""

from __future__ import annotations

import copy
import json
import sys
from collections import deque
from collections.abc import Hashable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from tailwise._jit import DISABLE_JIT, Kernel, inlined, kernel
from tailwise._values import CannotPackError, pack, unpack
from tailwise.bindings.kernel_model import BudgetSpentError, ModelInterface
from tailwise.errors import SimulatorError
from tailwise.models.contract import short
from tailwise.models.simulator import model_name

FULL_STORE = -1
_EMPTY = -1
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_32 = np.uint64(32)
_MASK = 0xFFFFFFFFFFFFFFFF


class InternStore(NamedTuple):
    """Distinct states of ``width`` words. Invariant: at most half of the slots are taken."""

    words: NDArray[np.int64]  # (capacity, width) row = handle
    slots: NDArray[np.int32]  # (2**k,) handle or -1; 2**k >= 2 * capacity
    used: NDArray[np.int64]  # (1,) number of handles

    @property
    def num_bytes(self) -> int:
        """Memory that it takes."""
        return int(self.words.nbytes + self.slots.nbytes)


def new_store(width: int, capacity: int = 1024) -> InternStore:
    """Return an empty store for ``capacity`` states of ``width`` words."""
    size = 1 << (2 * capacity - 1).bit_length()
    return InternStore(np.empty((capacity, width), np.int64), np.full(size, _EMPTY, np.int32), np.zeros(1, np.int64))


def _mix(mixed, word):  # type: ignore[no-untyped-def]
    mixed = (mixed ^ np.uint64(word)) * _MULTIPLIER
    return mixed ^ (mixed >> _32)


def _mix_interpreted(mixed: int, word: int) -> np.uint64:
    """The same in Python's unbounded integers."""
    mixed = ((int(mixed) ^ (int(word) & _MASK)) * int(_MULTIPLIER)) & _MASK
    return np.uint64(mixed ^ (mixed >> 32))


mix: Kernel = _mix_interpreted if DISABLE_JIT else inlined(_mix)  # one more word into a hash


@inlined
def _hash(words):  # type: ignore[no-untyped-def]
    mixed = np.uint64(0)
    for k in range(words.size):
        mixed = mix(mixed, words[k])
    return mixed


@inlined
def find(store, words):  # type: ignore[no-untyped-def]
    """Return (handle of ``words``, or -1 if they are not in the store; the slot that holds or would hold it)."""
    mask = np.uint64(store.slots.size - 1)
    slot = _hash(words) & mask
    while True:
        handle = store.slots[slot]
        if handle == _EMPTY:
            return np.int64(_EMPTY), slot
        same = True
        for k in range(words.size):
            same = same and store.words[handle, k] == words[k]
        if same:
            return np.int64(handle), slot
        slot = (slot + np.uint64(1)) & mask


@inlined
def intern(store, words):  # type: ignore[no-untyped-def]
    """Return the handle of ``words`` (int64, shape (width,)), new or old; FULL_STORE if there is no room."""
    handle, slot = find(store, words)
    if handle != _EMPTY:
        return handle
    fresh = store.used[0]
    if fresh == store.words.shape[0]:
        return np.int64(FULL_STORE)
    for k in range(words.size):
        store.words[fresh, k] = words[k]
    store.slots[slot] = fresh
    store.used[0] = fresh + 1
    return np.int64(fresh)


@kernel
def intern_rows(store, rows):  # type: ignore[no-untyped-def]
    """Intern every row; return their handles (the store must have room)."""
    handles = np.empty(rows.shape[0], dtype=np.int64)
    for k in range(rows.shape[0]):
        handles[k] = intern(store, rows[k])
    return handles


def store_memory(store: InternStore) -> tuple[int, NDArray[np.int64]]:
    """Return all that makes a store: its capacity, and the words in use, shape (used, width)."""
    return store.words.shape[0], store.words[: int(store.used[0])].copy()


def recalled_store(memory: tuple[int, NDArray[np.int64]]) -> InternStore:
    """Return the store that :func:`store_memory` described, the same slot for slot."""
    capacity, words = memory
    if words.dtype != np.int64 or words.shape[0] > capacity:
        raise ValueError("a store of states holds more than it has room for")
    store = new_store(words.shape[1], capacity)
    intern_rows(store, words)
    if int(store.used[0]) != words.shape[0]:
        raise ValueError("a store of states holds a state twice")
    return store


def grown(store: InternStore) -> InternStore:
    """Return a store of twice the capacity with the same handles."""
    used = int(store.used[0])
    larger = new_store(store.words.shape[1], 2 * store.words.shape[0])
    intern_rows(larger, store.words[:used])
    return larger


def retained(store: InternStore, handles: NDArray[np.integer]) -> tuple[InternStore, NDArray[np.int64]]:
    """Return a store that holds only the states of ``handles``, and their new handles."""
    kept, inverse = np.unique(np.asarray(handles, dtype=np.int64), return_inverse=True)
    smaller = new_store(store.words.shape[1], max(1024, 2 * kept.size))
    fresh = intern_rows(smaller, store.words[kept])
    return smaller, fresh[inverse]


def float_word(value: float) -> int:
    """The 64 bits of ``value`` as an int; -0.0 counts as 0.0."""
    return int(np.float64(value + 0.0).view(np.int64))


def word_float(word: int) -> float:
    """The inverse of :func:`float_word`."""
    return float(np.int64(word).view(np.float64))


if DISABLE_JIT:
    float_bits, bits_float = float_word, word_float
else:

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def float_bits(typing_context, value):  # type: ignore[no-untyped-def]
        """The bits of a double as an int64, inside a kernel (pass ``x + 0.0``: -0.0 is then 0.0)."""

        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.bitcast(args[0], context.get_value_type(types.int64))

        return types.int64(types.float64), codegen

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def bits_float(typing_context, value):  # type: ignore[no-untyped-def]
        """The inverse of :func:`float_bits`, inside a kernel."""

        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.bitcast(args[0], context.get_value_type(types.float64))

        return types.float64(types.int64), codegen


class WordStates(ModelInterface):
    """A model whose handles are rows of ``data.store``."""

    forgets = True

    def _replace_store(self, store: InternStore) -> None:
        self.data = self.data._replace(store=store)

    def _handle_of(self, words: list[int]) -> int:
        if int(self.data.store.used[0]) == self.data.store.words.shape[0]:
            self.make_room()
        return int(intern_rows(self.data.store, np.array([words], dtype=np.int64))[0])

    def make_room(self) -> bool:
        """Double the store if it is full, and enlarge what else ran out."""
        has_more, store = super().make_room(), self.data.store
        if int(store.used[0]) < store.words.shape[0]:
            return has_more
        self._spend(store.num_bytes)  # it doubles
        self._replace_store(grown(store))
        return True

    def retain(self, handles: NDArray[np.int64]) -> NDArray[np.int64]:
        """Forget all states but these; return their new handles."""
        store, fresh = retained(self.data.store, handles)
        self._replace_store(store)
        return fresh

    def state_dict(self) -> dict[str, object]:
        """Return the states met so far, and what else is remembered."""
        return {**super().state_dict(), "store": store_memory(self.data.store)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Know what another interface knew."""
        super().load_state_dict(state)
        self._replace_store(recalled_store(state["store"]))


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
