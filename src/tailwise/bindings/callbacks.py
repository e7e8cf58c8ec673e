"""C functions that kernels call by their address, and a user's function float -> float as one."""

from __future__ import annotations

import ctypes
import math
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any, Protocol

from numba import cfunc, config, float64, njit, types
from numba.core.errors import NumbaWarning
from numba.extending import intrinsic

from tailwise._function_key import NoKeyError, function_key

if config.DISABLE_JIT:  # the "address" of a function is the function itself

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
