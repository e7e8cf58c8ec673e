"""Simulators as the compiled kernel sees them: three addresses, and the memory they answer in.

A simulator reaches the kernel as a :class:`CallbackModel`. Its functions are plain addresses with one
signature, so that the kernel is compiled once for all simulators and cached on disk; a
compiled simulator supplies machine code, a Python one a C callback. Before each call the kernel marks the
answer as failed: a function that dies half-way has answered "failed".

Memory shared with the functions: ``integers`` and ``numbers``, whose entries are named below. The
functions find everything through ``context``, the address of ``integers``. A compiled
simulator reads its state's words from the store and leaves the next state's in ``scratch``, which the
kernel interns; a Python one interns for itself and answers with the handle.
"""

from __future__ import annotations

import ctypes
import math
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numba import float64, types
from numba.core.errors import NumbaWarning
from numba.extending import intrinsic
from numpy.typing import NDArray

from tailwise._compiler import cfunc, njit
from tailwise._jit import DISABLE_JIT, inlined
from tailwise._random import next_double
from tailwise._values import NoKeyError, function_key
from tailwise.bindings.intern import InternStore, intern, recalled_store, store_memory
from tailwise.bindings.kernel_model import (
    DONE,
    FAILED,
    FULL,
    GO_ON,
    ModelInterface,
    policy_action,
    register_kernel_model,
    value_bounds,
)
from tailwise.bindings.options import (
    SimulationOptions,
    Widened,
    begin_step,
    enlarged,
    find_record,
    new_widened,
    note_visit,
    pruned,
    store_outcome,
    takes_again,
    undo,
)
from tailwise.models.simulator import state_label

if DISABLE_JIT:  # the "address" of a function is the function itself

    def call_number(function: Any, value: float) -> float:
        """Call a function of a number; see the compiled form."""
        return float(function(float(value)))

    def call_words(function: Any, context: Any, state: Any, action: Any, h: Any) -> int:
        """Call a function of four ints; see the compiled form."""
        return int(function(int(context), int(state), int(action), int(h)))

else:

    def _call(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        from llvmlite import ir

        result, *kinds = (target.get_value_type(kind) for kind in (signature.return_type, *signature.args[1:]))
        pointer = builder.inttoptr(args[0], ir.PointerType(ir.FunctionType(result, kinds)))
        return builder.call(pointer, args[1:])

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def call_number(typing_context, function, value):  # type: ignore[no-untyped-def]
        """Call the C function double(double) at the address ``function``.

        An address, not a first-class function: with one of those among its arguments a kernel takes a
        millisecond to be dispatched, more than 1000 iterations of a small problem.
        """
        return types.float64(types.int64, types.float64), _call

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def call_words(typing_context, function, context, state, action, h):  # type: ignore[no-untyped-def]
        """Call the C function at the address ``function`` with four int64; returns its int64."""
        return types.int64(*[types.int64] * 5), _call


SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)


class Callback:
    """A Python function that compiled code can call; its first exception is kept."""

    def __init__(self, function: Callable[[float], float]) -> None:
        self.function = function
        self.error: BaseException | None = None
        self._pointer = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(self)

    @property
    def address(self) -> int:
        """Address of the C function; valid while this object lives."""
        return ctypes.cast(self._pointer, ctypes.c_void_p).value or 0

    def __call__(self, total: float) -> float:
        """Call the function; NaN if it raises."""
        try:
            return float(self.function(total))
        except BaseException as error:  # whatever it is must not cross the compiled frames
            self.error = self.error or error
            return math.nan


class CompiledFunction(Protocol):
    """What numba makes of a function float -> float."""

    address: int


_COMPILED: dict[tuple[Any, ...], CompiledFunction | None] = {}


def compile_function(function: Callable[[float], float]) -> CompiledFunction | None:
    """Compile ``function``, or None where numba cannot; remembered by what it computes.

    An exception cannot pass through the kernel, so it becomes NaN, which the kernel reports.
    """
    plain = getattr(function, "py_func", function)
    if not isinstance(plain, FunctionType):
        return None  # np.exp, a partial, an object with __call__
    try:
        key = function_key(plain, arrays=False)
    except NoKeyError:
        return None  # an array, list or dict may change between two calls
    if key not in _COMPILED:
        inner = njit(plain)

        def guarded(total):  # type: ignore[no-untyped-def]
            try:
                return inner(total)
            except Exception:
                return math.nan

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", NumbaWarning)  # a cast that numba doubts is not compiled
                _COMPILED[key] = cfunc(float64(float64))(guarded)
        except Exception:  # numba raises its own errors for most functions, and any other for some
            _COMPILED[key] = None
    return _COMPILED[key]


# Entries of ``integers``.
STATUS, NEXT, STEPS, HORIZON = 0, 1, 2, 3
WORDS, SCRATCH, NUMBERS = 4, 5, 6  # addresses
FAULT, FAULT_ACTION, FAULT_STEP = 7, 8, 9  # what a compiled simulator was doing when it failed
GENERATOR = 10  # address of the state, state, next_uint64, next_uint32, next_double, bit generator
SAVED_STREAM = 16  # the generator's state (5 words) before the last step
INTEGERS_SIZE = 24
# What the third function is asked for, in place of an action, and where it answers.
TOTAL = 0  # numbers[COST], integers[STEPS]
POLICY_ACTION = 1  # integers[NEXT]
BOUNDS = 2  # numbers[COST, HIGHEST]
# Entries of ``numbers``.
COST, DISCOUNT, HIGHEST = 0, 1, 2
NUMBERS_SIZE = 4


class CallbackModel(NamedTuple):
    """A simulator's data for the kernel; see the module's docstring."""

    count: Any  # address of (context, state, 0, 0): number of actions to integers[NEXT]
    step: Any  # address of (context, state, action, h): integers[STATUS, NEXT], numbers[COST]
    roll: Any  # address of (context, state, what, h): integers[STATUS], and what ``what`` asks for, as said there
    context: int
    integers: NDArray[np.int64]
    numbers: NDArray[np.float64]
    scratch: NDArray[np.int64]  # (width,) words of the next state; empty for Python simulators
    store: InternStore
    widened: Widened


def _count_actions(model, state):  # type: ignore[no-untyped-def]
    model.integers[STATUS] = FAILED
    call_words(model.count, model.context, state, 0, 0)
    if model.integers[STATUS] < 0:
        return np.int64(0)
    return model.integers[NEXT]


@inlined
def _draw_step(model, state, action, h):  # type: ignore[no-untyped-def]
    model.integers[STATUS] = FAILED
    call_words(model.step, model.context, state, action, h)
    status = model.integers[STATUS]
    cost = model.numbers[COST]
    if status != GO_ON:
        return np.int64(state), cost, status
    if model.scratch.size == 0:
        return model.integers[NEXT], cost, status
    target = intern(model.store, model.scratch)
    if target < 0:
        return np.int64(state), cost, np.int64(FULL)
    return target, cost, status


def _take_step(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    if model.widened.limits.size == 0:
        return _draw_step(model, state, action, h)
    widened = model.widened
    begin_step(widened, h)
    last = h + 1 == model.integers[HORIZON]  # its outcomes hold the terminal cost: kept apart
    record = find_record(widened, state, -1 - action if last else action)
    if record < 0:
        return np.int64(state), 0.0, np.int64(FULL)
    held = widened.held[record]
    if takes_again(widened.limits, float(widened.visits[record] + 1), held):
        slot = widened.first[record]
        if held > 1:
            slot += np.int64(next_double(stream) * held)
        target = widened.targets[slot]
        note_visit(widened, record, 0)
        if target < 0:
            return np.int64(state), widened.costs[slot], np.int64(DONE)
        return target, widened.costs[slot], np.int64(GO_ON)
    target, cost, status = _draw_step(model, state, action, h)
    if status < 0:
        return target, cost, status
    kept = np.int64(-1) if status == DONE else target
    if not store_outcome(widened, record, kept, cost):
        return np.int64(state), cost, np.int64(FULL)
    note_visit(widened, record, 1)
    return target, cost, status


def _end_cost(model, state):  # type: ignore[no-untyped-def]
    return 0.0  # step H is charged by the step that reaches it


def _roll_out(model, state, h, horizon, discount, stream):  # type: ignore[no-untyped-def]
    model.integers[STATUS] = FAILED
    call_words(model.roll, model.context, state, TOTAL, h)
    return model.numbers[COST], model.integers[STEPS], model.integers[STATUS]


def _policy_action(model, state, h):  # type: ignore[no-untyped-def]
    model.integers[STATUS] = FAILED
    call_words(model.roll, model.context, state, POLICY_ACTION, h)
    return model.integers[NEXT], model.integers[STATUS]


def _value_bounds(model, state, h):  # type: ignore[no-untyped-def]
    model.integers[STATUS] = FAILED
    call_words(model.roll, model.context, state, BOUNDS, h)
    return model.numbers[COST], model.numbers[HIGHEST], model.integers[STATUS]


register_kernel_model(CallbackModel, _count_actions, _take_step, _end_cost, _roll_out)
policy_action.register(CallbackModel, _policy_action)
value_bounds.register(CallbackModel, _value_bounds)


class SimulatorInterface(ModelInterface):
    """A simulator whose states are kept as integer handles; the functions that the kernel calls come from a subclass.

    The model draws from ``rng``, the search's own stream, too. ``width`` is the number of words of a state that the
    kernel interns; 0 where the interface interns for itself.
    """

    draws = True
    forgets = True

    def __init__(self, model: Any, rng: np.random.Generator, options: SimulationOptions, width: int) -> None:
        self.model = model
        self._rng = rng
        self._options = options
        self._integers = np.zeros(INTEGERS_SIZE, np.int64)
        self._integers[HORIZON] = int(model.horizon)
        self._numbers = np.zeros(NUMBERS_SIZE)
        self._numbers[DISCOUNT] = float(model.discount)
        self._scratch = np.zeros(width, np.int64)

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._integers = self._integers.copy()  # where the states of the living one are, its kernels read there
        return other

    def _connect(self, functions: list[Any], store: InternStore) -> None:
        """Make what the kernel reads, from what it calls to count actions, to step and to roll out."""
        count, step, roll = functions
        self.data = CallbackModel(
            count,
            step,
            roll,
            self._integers.ctypes.data,
            self._integers,
            self._numbers,
            self._scratch,
            store,
            new_widened(self._options.widening, int(self.model.horizon)),
        )

    def try_out(self, handle: int, step: int) -> None:
        """Take a step and value the state that follows as a leaf; ask there what else the user gave: as kernels do."""
        stream = self._rng.bit_generator
        before = stream.state
        try:
            with self.running():
                self._try(self.data.step, self._begun(handle, step), 0, step)
                target = int(self._integers[NEXT])
                for what in self._valued() if self._integers[STATUS] == GO_ON else ():
                    self._try(self.data.roll, target, what, step + 1)
        finally:
            stream.state = before

    def _try(self, function: Any, handle: int, what: int, step: int) -> None:
        self._integers[STATUS] = FAILED
        (function if DISABLE_JIT else SIGNATURE(function))(self.data.context, handle, what, step)
        if self._integers[STATUS] < 0:
            self.fail(handle, what, step)

    def _begun(self, handle: int, step: int) -> int:
        """Return the handle from which a step is tried."""
        return handle

    def _valued(self) -> list[int]:
        """Return what is asked of a state after it, of those that have a handle by then."""
        if self._scratch.size > 0:
            return []
        options = self._options
        asked = [TOTAL] + [POLICY_ACTION] * (options.rollout_policy is not None)
        return asked + [BOUNDS] * (options.bounds is not None)

    def state_name(self, state: Any) -> str:
        """Return the simulator's own name for a state, or its text."""
        return state_label(self.model, state)

    def make_room(self) -> bool:
        """Enlarge the memory of outcomes, if it is what ran out; the iteration will be done again."""
        undo(self.data.widened)
        larger = enlarged(self.data.widened)
        if larger is not None:
            self._spend(larger.num_bytes - self.data.widened.num_bytes)
            self.data = self.data._replace(widened=larger)
        return larger is not None

    @property
    def num_bytes(self) -> int:
        """Memory of states and outcomes."""
        return int(self.data.widened.num_bytes + self.data.store.num_bytes)

    def _forget_outcomes(self, kept: NDArray[np.int64], fresh: NDArray[np.int64]) -> None:
        """Keep the outcomes whose states are all among the handles ``kept``, now called ``fresh``."""
        self.data = self.data._replace(widened=pruned(self.data.widened, kept, fresh))

    def state_dict(self) -> dict[str, object]:
        """Return the outcomes remembered."""
        widened = self.data.widened
        own = {name: array.copy() for name, array in widened._asdict().items() if name not in ("limits", "pairs")}
        return {"pairs": store_memory(widened.pairs), "widened": own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember the outcomes that another binding remembered."""
        own = {"pairs": recalled_store(state["pairs"]), **state["widened"]}
        self.data = self.data._replace(widened=self.data.widened._replace(**own))
