"""The decorators of compiled kernels.

Kernels are cached on disk and release the GIL. ``fastmath`` stays off: it turns
logarithms of minus infinity into NaN. ``error_model="numpy"`` makes a division by
zero give inf or NaN, as in NumPy, and spares a branch per division.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numba.np import linalg

from tailwise._function_key import code_digest

if TYPE_CHECKING:
    from llvmlite import ir

T = TypeVar("T")
Kernel: TypeAlias = Callable[..., Any]
"""A compiled function: numba infers the types of its arguments, so mypy sees none."""


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


def kernel(function: Kernel) -> Kernel:
    """Compile ``function`` at its first call, with the options that every kernel shares."""
    try:
        compiled: Kernel = njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # no folder to cache in: neither beside the package nor in the user's home
        compiled = njit(nogil=True, error_model="numpy")(function)
    return compiled


def inlined(function: Kernel) -> Kernel:
    """Like :func:`kernel`, for small functions that must vanish into their callers.

    They are not cached on disk: whoever calls them is. (A cache file of their own would name the types of other
    people's rules, which cannot be read back where their module is missing.) So do not call them from Python.
    """
    compiled: Kernel = njit(nogil=True, error_model="numpy", forceinline=True)(function)
    return compiled


@functools.cache
def interpreted(function: Kernel) -> Kernel:
    """Return a kernel uncompiled, with the kernels that it calls: the same numbers, with nothing to load or compile."""
    plain: Any = getattr(function, "py_func", function)
    scope = dict(plain.__globals__)
    for name in plain.__code__.co_names:
        value = scope.get(name)
        if value is borrowed:
            scope[name] = lambda value: value
        elif hasattr(value, "py_func"):
            scope[name] = interpreted(value)
    return FunctionType(plain.__code__, scope, plain.__name__)


class ChosenByKind:
    """A function of kernels whose body is chosen by the type of its first argument, a NamedTuple.

    The decorated function says what it does and, with its own body, what holds where a kind registered nothing.
    numba resolves the choice while it compiles, so that a plug-in costs no more than code written in place.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> @ChosenByKind
    ... def area(shape):
    ...     return 0.0
    >>> class Square(NamedTuple):
    ...     side: float
    >>> def area_of_square(shape):
    ...     return shape.side * shape.side
    >>> area.register(Square, area_of_square)
    >>> area(Square(3.0))
    9.0
    """

    def __init__(self, default: Kernel) -> None:
        self._bodies: dict[type, Kernel] = {}
        self._default = default
        functools.update_wrapper(self, default)
        bodies = self._bodies

        def choose(kind: Any, *rest: Any) -> Kernel:
            return bodies.get(kind.instance_class, default)

        options = {"nogil": True, "error_model": "numpy", "forceinline": True}
        overload(self, jit_options=options, strict=False)(choose)

    def register(self, kind: type, body: Kernel) -> None:
        """Use ``body`` where the first argument is a ``kind`` (a NamedTuple class)."""
        self._bodies[kind] = body

    def body(self, kind: type) -> Kernel:
        """Return what runs for a kind."""
        return self._bodies.get(kind, self._default)

    def __call__(self, kind: Any, *rest: Any) -> Any:
        """Call the body for ``kind``'s type: what runs where nothing is compiled."""
        return self.body(type(kind))(kind, *rest)


@functools.cache
def kernel_for(function: Kernel, *kinds: type) -> Kernel:
    """Compile ``function`` for one combination of plugged-in kinds (NamedTuple classes), with a cache file of its own.

    numba's cache knows neither an edit in another file nor that a kind's module may be missing in another process. So
    the name of the cache file holds a fingerprint of all the code that goes into the kernel.
    """
    if config.DISABLE_JIT:
        return function
    named = [(kind.__module__, kind.__qualname__, getattr(kind, "__annotations__", None)) for kind in kinds]

    def bodies(value: Any) -> list[Kernel]:
        return [value.body(kind) for kind in kinds] if isinstance(value, ChosenByKind) else []

    code = code_digest(function, bodies)
    digest = hashlib.sha256(repr((named, code)).encode()).hexdigest()[:16]
    plain: Any = function
    copy = FunctionType(plain.__code__, plain.__globals__, plain.__name__)
    copy.__module__, copy.__qualname__ = plain.__module__, f"{plain.__qualname__}_{digest}"
    return kernel(copy)


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

    def borrowed(value: T) -> T:
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

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> ir.Value:
            return _without_owner(context, builder, signature.args[0], args[0])

        return value(value), codegen
