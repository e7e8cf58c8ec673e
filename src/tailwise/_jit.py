"""The decorators of compiled kernels.

Nothing here imports numba: that takes a third of a second, and :mod:`tailwise._compiler` does it at the first call.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeAlias, TypeVar

from tailwise._values import code_digest

T = TypeVar("T")
Kernel: TypeAlias = Callable[..., Any]
"""A compiled function: numba infers the types of its arguments, so mypy sees none."""
DISABLE_JIT = os.environ.get("NUMBA_DISABLE_JIT", "").strip().lstrip("0").isdecimal()  # as numba reads it, unimported


class _Deferred:
    """A function that numba compiles at its first call: a command that calls no kernel does not import numba.

    To kernels that call it, and wherever it is asked for anything but a call, it is numba's own.
    """

    def __init__(self, function: Kernel, options: dict[str, Any]) -> None:
        self.py_func = function
        self._options = options
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        return self._whole(*args)

    @property
    def _numba_type_(self) -> Any:  # what numba asks a global of a kernel
        return getattr(self._dispatcher, "_numba_type_", None)

    def __getattr__(self, name: str) -> Any:
        if name == "_dispatcher":  # at the first use; without a lock, which a thread that compiles might wait for
            from tailwise._compiler import compiled

            return self.__dict__.setdefault(name, compiled(self.py_func, **self._options))
        if name == "_whole":  # what Python may call
            whole = _Deferred(self.py_func, {})._dispatcher if "forceinline" in self._options else self._dispatcher
            return self.__dict__.setdefault(name, whole)
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._dispatcher, name)


def kernel(function: Kernel) -> Kernel:
    """Compile ``function`` at its first call, with the options that every kernel shares."""
    return function if DISABLE_JIT else _Deferred(function, {"cache": True})


def inlined(function: Kernel) -> Kernel:
    """Like :func:`kernel`, for functions that must vanish into their callers.

    Alone they are neither optimised nor made machine code, nor cached on disk: whoever calls them is. (A cache file of
    their own would name the types of other people's rules, which cannot be read back where their module is missing.)
    Called from Python they are compiled once more, in every process.
    """
    return function if DISABLE_JIT else _Deferred(function, {"forceinline": True})


def prepare(function: Any, *arguments: Any) -> None:
    """Compile a kernel for such arguments, or load it, without a call."""
    if not DISABLE_JIT:
        from numba import typeof

        function.compile(tuple(map(typeof, arguments)))


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
        if not DISABLE_JIT:
            from tailwise._compiler import choose_by_kind

            choose_by_kind(self, self.body)

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
    the name of the cache file holds a fingerprint of all the code that goes into the kernel, and of what compiles it.
    """
    if DISABLE_JIT:
        return function
    named = [(kind.__module__, kind.__qualname__, getattr(kind, "__annotations__", None)) for kind in kinds]

    def bodies(value: Any) -> list[Kernel]:
        return [value.body(kind) for kind in kinds] if isinstance(value, ChosenByKind) else []

    compiler: Any = importlib.util.find_spec("tailwise._compiler")
    code = [code_digest(part, bodies) for part in (function, compiler.loader.get_code(compiler.name))]
    digest = hashlib.sha256(repr((named, code)).encode()).hexdigest()[:16]
    plain: Any = function
    copy = FunctionType(plain.__code__, plain.__globals__, plain.__name__)
    copy.__module__, copy.__qualname__ = plain.__module__, f"{plain.__qualname__}_{digest}"
    return kernel(copy)


class _Borrowed:
    """Borrow an array, or a (named) tuple that holds arrays, from the caller of a kernel.

    numba counts references to every array that a helper receives, atomically: 5 ns each, more
    than a simulated step costs. Arguments outlive the call, so a kernel borrows them once,
    at its top, and what it passes on is no longer counted. A borrowed array must not be returned.
    Of a borrowed named tuple a kernel passes one pointer on, quick to compile; it is read by its fields' names.
    """

    def __call__(self, value: T) -> T:
        return value

    @property
    def _numba_type_(self) -> Any:
        from tailwise._compiler import type_of_borrowed

        return type_of_borrowed()


borrowed = _Borrowed()
