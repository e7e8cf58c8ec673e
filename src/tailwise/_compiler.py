"""numba, for the decorators of :mod:`tailwise._jit`: imported when the first kernel is called.

Kernels are cached on disk and release the GIL. ``fastmath`` stays off: it turns
logarithms of minus infinity into NaN. ``error_model="numpy"`` makes a division by
zero give inf or NaN, as in NumPy, and spares a branch per division.
"""

from __future__ import annotations

import functools
import gc
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numba
from numba import config, types
from numba.core import cgutils
from numba.core.caching import IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import register_pass
from numba.core.registry import cpu_target
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    overload,
    register_model,
)
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


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc, unused-ignore]
    """The code of a function that vanishes into its callers: it waits to be linked, and they are optimised as a whole.

    numba would optimise it and make machine code of it alone, with all that it calls, and once more for each caller.
    """

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):  # type: ignore[misc, unused-ignore]
    _name = "tailwise_part_lowering"

    def run_pass(self, state: Any) -> bool:
        flags, state.library = state.flags, _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        super().run_pass(state)
        entry = object().__reduce__  # numba knows a function by a builtin: any that there is but once
        state.targetctx.insert_user_function(entry, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=entry)
        return True


class _Flags(Flags):  # type: ignore[misc, unused-ignore]
    """A function's options; what looks an overload up at every call compares copies, numba's option by option."""

    def copy(self) -> Flags:
        return _SETTLED.setdefault(self.summary(), _Settled(self))


class _Settled(Flags):  # type: ignore[misc, unused-ignore]
    """Options that change no more: equal ones are the same object."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def copy(self) -> Flags:
        return Flags(self)


_SETTLED: dict[str, _Settled] = {}
_size_in_memory = functools.cache(cpu_target.target_context.get_abi_sizeof)  # numba parses code to learn each


class _Compiler(Compiler):  # type: ignore[misc, unused-ignore]
    """numba's compiler, with less done besides; it makes the same code.

    It makes many objects, of which hardly one is garbage: looking for some took a ninth of its time.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.flags = _Flags(self.state.flags)
        self.state.targetctx.get_abi_sizeof = _size_in_memory

    def compile_extra(self, func: Any) -> Any:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if was_enabled:
                gc.enable()


class _PartCompiler(_Compiler):
    """The same, less what makes a function one that can be called by itself."""

    def define_pipelines(self) -> list[object]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_PartLowering, say) if one is NativeLowering else (one, say) for one, say in passes.passes]
        passes.finalize()
        return [passes]


class _CacheFile(IndexDataCacheFile):  # type: ignore[misc, unused-ignore]
    """Compiled code on disk; what cannot be read, of classes that have moved since or a damaged file, is made anew."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # whatever unpickling raises
            return {}

    def load(self, key: Any) -> object:
        try:
            return super().load(key)
        except Exception:  # as above
            return None


njit: Any = functools.partial(numba.njit, pipeline_class=_Compiler)  # for whoever compiles by himself
cfunc: Any = functools.partial(numba.cfunc, pipeline_class=_Compiler)
_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "pipeline_class": _Compiler}
PART = {"forceinline": True, "pipeline_class": _PartCompiler}  # the options of a function that only kernels call


def compiled(function: Kernel, **options: Any) -> Kernel:
    """Return numba's dispatcher of a function; with ``forceinline``, of one that kernels alone may call."""
    made: Kernel
    if "forceinline" in options:
        made = njit(**{**_OPTIONS, **PART})(function)
        return made
    try:
        made = njit(**_OPTIONS, **options)(function)
        if (file := getattr(made._cache, "_cache_file", None)) is not None:  # type: ignore[attr-defined]
            file.__class__ = _CacheFile
    except RuntimeError:  # no folder to cache in: neither beside the package nor in the user's home
        made = njit(**_OPTIONS)(function)
    return made


def choose_by_kind(function: Kernel, body: Callable[[type], Kernel]) -> None:
    """Let numba put in the body for the type of the first argument, a NamedTuple, where a kernel calls ``function``."""

    def choose(kind: Any, *rest: Any) -> Kernel:
        return body(kind.instance_class)

    overload(function, jit_options={**_OPTIONS, **PART}, strict=False)(choose)


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The native ``value`` of numba type ``kind`` with the owners of all its arrays set to null."""
    if isinstance(kind, types.Array):
        at = context.data_model_manager[kind].get_field_position("meminfo")
        return builder.insert_value(value, cgutils.get_null_value(value.type.elements[at]), at)
    if isinstance(kind, types.BaseTuple):
        for at, part in enumerate(kind.types):
            if isinstance(part, types.Array | types.BaseTuple):
                lent = _without_owner(context, builder, part, builder.extract_value(value, at))
                value = builder.insert_value(value, lent, at)
    return value


class Lent(types.Type):  # type: ignore[misc, unused-ignore]
    """Where a NamedTuple of the caller's lies: to pass it on is to pass one pointer on, and counts no references."""

    def __init__(self, kind: Any) -> None:
        self.kind, self.instance_class = kind, kind.instance_class
        super().__init__(f"Lent({kind.name})")

    @property
    def key(self) -> object:
        """What calls of helpers and the disk cache compare: a name would not tell two classes of one name apart."""
        return self.kind


@register_model(Lent)
class _LentModel(models.PrimitiveModel):  # type: ignore[misc, unused-ignore]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, manager.lookup(kind.kind).get_value_type().as_pointer())


@infer_getattr
class _LentAttributes(AttributeTemplate):  # type: ignore[misc, unused-ignore]
    key = Lent

    def generic_resolve(self, lent: Any, name: str) -> object:
        kind = lent.kind
        return kind.types[kind.fields.index(name)] if name in kind.fields else None


@lower_getattr_generic(Lent)  # type: ignore[untyped-decorator, unused-ignore]
def _lent_attribute(context: Any, builder: Any, lent: Any, value: Any, name: str) -> Any:
    at = lent.kind.fields.index(name)
    found = builder.load(cgutils.gep_inbounds(builder, value, 0, at))
    return _without_owner(context, builder, lent.kind.types[at], found)


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def _borrowed(typing_context, value):  # type: ignore[no-untyped-def]
    lends = isinstance(value, types.BaseNamedTuple)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> ir.Value:
        found = _without_owner(context, builder, signature.args[0], args[0])
        return cgutils.alloca_once_value(builder, found) if lends else found

    return (Lent(value) if lends else value)(value), codegen


def type_of_borrowed() -> types.Type:
    """Return the numba type of :func:`tailwise._jit.borrowed`: what calls it in a kernel calls ``_borrowed``."""
    found: types.Type = cpu_target.typing_context.resolve_value_type(_borrowed)
    return found
