"""A user's function float -> float as a C function that kernels can call by its address."""

from __future__ import annotations

import ctypes
import math
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import cfunc, float64, njit
from numba.core.errors import NumbaWarning

from tailwise.bindings.function_key import NoKeyError, function_key


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


_COMPILED: dict[tuple[Any, ...], Any] = {}


def compile_function(function: Callable[[float], float]) -> Any:
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
