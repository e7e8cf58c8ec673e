"""The decorators of compiled kernels.

Kernels are cached on disk and release the GIL. ``fastmath`` stays off: it turns
logarithms of minus infinity into NaN. ``error_model="numpy"`` makes a division by
zero give inf or NaN, as in NumPy, and spares a branch per division.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

Kernel: TypeAlias = Callable[..., Any]
"""A compiled function: numba infers the types of its arguments, so mypy sees none."""


def kernel(function: Kernel) -> Kernel:
    """Compile ``function`` at its first call, with the options that every kernel shares."""
    return _compiled(function, error_model="numpy")


def inlined(function: Kernel) -> Kernel:
    """Like :func:`kernel`, for small functions that must vanish into their callers."""
    return _compiled(function, error_model="numpy", forceinline=True)


def _compiled(function: Kernel, **options: Any) -> Kernel:
    try:
        compiled: Kernel = njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # no folder to cache in: neither beside the package nor in the user's home
        compiled = njit(nogil=True, **options)(function)
    return compiled


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The native ``value`` of numba type ``kind`` with the owners of all its arrays set to null."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        items = cgutils.unpack_tuple(builder, value, len(kind))
        parts = [_without_owner(context, builder, k, v) for k, v in zip(kind.types, items, strict=True)]
        return context.make_tuple(builder, kind, parts)
    return value


if config.DISABLE_JIT:

    def borrowed(value: Any) -> Any:
        """Return ``value``; see the compiled form."""
        return value

else:

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def borrowed(typing_context, value):  # type: ignore[no-untyped-def]
        """Borrow an array, or a (named) tuple that holds arrays, from the caller of a kernel.

        numba counts references to every array that a helper receives, atomically: 5 ns each, more
        than a simulated step costs. Arguments outlive the call, so a kernel borrows them once,
        at its top, and what it passes on is no longer counted. A borrowed array must not be returned.
        """

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _without_owner(context, builder, signature.args[0], args[0])

        return value(value), codegen
