"""The one decorator for compiled kernels.

Kernels are cached on disk and release the GIL. ``fastmath`` stays off: it turns
logarithms of minus infinity into NaN. ``error_model="numpy"`` makes a division by
zero give inf or NaN, as in NumPy, and spares a branch per division.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

_F = TypeVar("_F", bound=Callable[..., Any])


def kernel(function: _F) -> _F:
    """Compile ``function`` at its first call, with the options that every kernel shares."""
    compiled: _F = njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


def inlined(function: _F) -> _F:
    """Like :func:`kernel`, for small functions that must vanish into their callers."""
    compiled: _F = njit(cache=True, nogil=True, error_model="numpy", inline="never", forceinline=True)(
        function
    )
    return compiled
