"""Memory by address, for the machine code of compiled simulators (never used interpreted).

A user's compiled function reaches the kernel as an address, so that the kernel is compiled once for all simulators; all
that it needs must come through that address. numba offers ``carray`` for arrays behind a pointer that is an argument,
but no way to follow an address that was read from memory, and none to hand a NumPy Generator to a C function. Hence
these few instructions. The layout of numba's generator, which is private, is checked once a process
(:func:`verify_layout`).
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tailwise._jit import kernel
from tailwise._random import generator
from tailwise.errors import VersionError

_WORD = ir.IntType(64)


def _pointer(builder: Any, address: Any, index: Any, kind: Any) -> Any:
    return builder.gep(builder.inttoptr(address, ir.PointerType(kind)), [index])


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def load_word(typing_context, address, index):  # type: ignore[no-untyped-def]
    """Int64 number ``index`` from ``address``."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.load(_pointer(builder, args[0], args[1], _WORD))

    return types.int64(types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def store_word(typing_context, address, index, value):  # type: ignore[no-untyped-def]
    """Write int64 number ``index`` from ``address``."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        builder.store(args[2], _pointer(builder, args[0], args[1], _WORD))

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def load_float(typing_context, address, index):  # type: ignore[no-untyped-def]
    """Double number ``index`` from ``address``."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.load(_pointer(builder, args[0], args[1], ir.DoubleType()))

    return types.float64(types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def store_float(typing_context, address, index, value):  # type: ignore[no-untyped-def]
    """Write double number ``index`` from ``address``."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        builder.store(args[2], _pointer(builder, args[0], args[1], ir.DoubleType()))

    return types.void(types.int64, types.int64, types.float64), codegen


def generator_words(rng: np.random.Generator) -> list[int]:
    """Return the six numbers from which :func:`generator_at` rebuilds ``rng``."""
    interface: Any = rng.bit_generator.ctypes

    def address(item: Any) -> int:
        return int(ctypes.cast(item, ctypes.c_void_p).value or 0)

    functions = (interface.next_uint64, interface.next_uint32, interface.next_double)
    return [
        int(interface.state_address),
        address(interface.state),
        *map(address, functions),
        address(interface.bit_generator),
    ]


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def generator_at(typing_context, address):  # type: ignore[no-untyped-def]
    """The NumPy Generator whose :func:`generator_words` stand at ``address``."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        kind = types.npy_rng
        rng = cgutils.create_struct_proxy(kind)(context, builder)
        model = context.data_model_manager.lookup(kind)
        inner_kind = dict(zip(model._fields, model._members, strict=True))["bit_generator"]
        inner = cgutils.create_struct_proxy(inner_kind)(context, builder)
        inner.parent = cgutils.get_null_value(inner.parent.type)
        names = ("state_address", "state", "fnptr_next_uint64", "fnptr_next_uint32", "fnptr_next_double")
        for k, name in enumerate((*names, "bit_generator")):
            setattr(inner, name, builder.load(_pointer(builder, args[0], _WORD(k), _WORD)))
        rng.bit_generator = inner._getvalue()
        rng.meminfo = cgutils.get_null_value(rng.meminfo.type)
        rng.parent = cgutils.get_null_value(rng.parent.type)
        return rng._getvalue()

    return types.npy_rng(types.int64), codegen


@kernel
def _draw_at(words):  # type: ignore[no-untyped-def]
    return generator_at(words.ctypes.data).random()


@functools.cache
def verify_layout() -> None:
    """Check that numba keeps a Generator as :func:`generator_at` builds it, or raise ``VersionError``."""
    rng, twin = generator(7), generator(7)
    try:
        drawn = _draw_at(np.array(generator_words(rng), dtype=np.int64))
    except Exception as error:  # whatever numba raises where a field is missing
        drawn, reason = None, f": {type(error).__name__}: {error}"
    else:
        reason = ""
    if drawn != twin.random():
        raise VersionError(
            f"numba {numba.__version__} keeps a NumPy Generator otherwise than tailwise builds it{reason}; install "
            "another version (pip install 'numba<0.70'), or pass fallback=True to run the simulator interpreted"
        )
