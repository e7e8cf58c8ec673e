"""numba, for the decorators of :mod:`tailwise._jit`: imported when the first kernel is called.

Kernels are cached on disk and release the GIL. ``fastmath`` stays off: it turns
logarithms of minus infinity into NaN. ``error_model="numpy"`` makes a division by
zero give inf or NaN, as in NumPy, and spares a branch per division.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numba import config, types
from numba import njit as njit  # whoever compiles by himself takes it from here, once the below is done
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload
from numba.np import linalg

if TYPE_CHECKING:
    from llvmlite import ir

Kernel = Callable[..., Any]


def _trust_that_scipy_is_installed() -> None:
    """Spare numba its import of scipy.linalg, half a second to learn that SciPy is there: tailwise depends on it."""
    ask = getattr(linalg, "ensure_blas", None)
    if ask is None or config.DISABLE_JIT:
        return
    linalg.ensure_blas = lambda: None
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = ask


_trust_that_scipy_is_installed()


def compiled(function: Kernel, **options: Any) -> Kernel:
    """Return numba's dispatcher of a function."""
    made: Kernel
    try:
        made = njit(nogil=True, error_model="numpy", **options)(function)
    except RuntimeError:  # no folder to cache in: neither beside the package nor in the user's home
        made = njit(nogil=True, error_model="numpy")(function)
    return made


def choose_by_kind(function: Kernel, body: Callable[[type], Kernel]) -> None:
    """Let numba put in the body for the type of the first argument, a NamedTuple, where a kernel calls ``function``."""

    def choose(kind: Any, *rest: Any) -> Kernel:
        return body(kind.instance_class)

    options = {"nogil": True, "error_model": "numpy", "forceinline": True}
    overload(function, jit_options=options, strict=False)(choose)


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


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def _borrowed(typing_context, value):  # type: ignore[no-untyped-def]
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> ir.Value:
        return _without_owner(context, builder, signature.args[0], args[0])

    return value(value), codegen


def type_of_borrowed() -> types.Type:
    """Return the numba type of :func:`tailwise._jit.borrowed`: what calls it in a kernel calls ``_borrowed``."""
    found: types.Type = cpu_target.typing_context.resolve_value_type(_borrowed)
    return found
