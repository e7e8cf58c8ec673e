"""What stands between the kernel and a user's compiled functions: three C functions with the kernel's one signature.

Each reads the state's words from memory, calls the user's functions, and leaves its answer, or what failed, where the
kernel looks (:mod:`tailwise.bindings.callback_model`). An exception cannot leave a C function, so every call of a
user's function has a ``try`` of its own.

Memory by address, for the machine code of compiled simulators (never used interpreted).

A user's compiled function reaches the kernel as an address, so that the kernel is compiled once for all simulators; all
that it needs must come through that address. numba offers ``carray`` for arrays behind a pointer that is an argument,
but no way to follow an address that was read from memory, and none to hand a NumPy Generator to a C function. Hence
these few instructions. The layout of numba's generator, which is private, is checked once a process
(:func:`verify_layout`).
"""

from __future__ import annotations

import builtins
import ctypes
import functools
import math
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tailwise._compiler import PART, cfunc, njit
from tailwise._jit import kernel
from tailwise._random import generator
from tailwise.bindings import callback_model as shared
from tailwise.bindings.callback_model import (
    COST,
    DISCOUNT,
    FAULT,
    FAULT_ACTION,
    FAULT_STEP,
    GENERATOR,
    HORIZON,
    NEXT,
    NUMBERS,
    POLICY_ACTION,
    SAVED_STREAM,
    SCRATCH,
    STATUS,
    STEPS,
)
from tailwise.bindings.intern import float_bits
from tailwise.bindings.kernel_model import DONE, GO_ON
from tailwise.errors import VersionError
from tailwise.models.compiled import CompiledSimulator
from tailwise.models.contract import LARGEST_COST, MAX_ACTIONS

_WORD = ir.IntType(64)


def _pointer(builder: Any, address: Any, index: Any, kind: Any) -> Any:
    return builder.gep(builder.inttoptr(address, ir.PointerType(kind)), [index])


def _memory(kind: Any, word: Any) -> tuple[Any, Any]:
    """Return what loads and what stores number ``index`` from an address: of a kind, in LLVM's terms and numba's."""

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def load(typing_context, address, index):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.load(_pointer(builder, args[0], args[1], kind))

        return word(types.int64, types.int64), codegen

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def store(typing_context, address, index, value):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            builder.store(args[2], _pointer(builder, args[0], args[1], kind))

        return types.void(types.int64, types.int64, word), codegen

    return load, store


load_word, store_word = _memory(_WORD, types.int64)
load_float, store_float = _memory(ir.DoubleType(), types.float64)


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


ACTIONS, STEP, TERMINAL, ROLLOUT, LEAF, POLICY = 1, 2, 3, 4, 5, 6  # what integers[FAULT] says
_SIGNATURE = types.int64(types.int64, types.int64, types.int64, types.int64)
_inline: Any = njit(**PART)
_c_function: Any = cfunc(_SIGNATURE)


class Adapters(NamedTuple):
    """The compiled functions; ``address`` of each goes to the kernel."""

    count: Any
    step: Any
    roll: Any


class UserFunctions(NamedTuple):
    """A user's functions, each compiled by itself; of those that are None the model has none."""

    step: Any
    actions: Any
    terminal_cost: Any
    rollout: Any
    leaf_value: Any
    rollout_policy: Any


def _state_access(model: CompiledSimulator) -> tuple[Any, Any, Any]:
    """Return (load, cast, keep): a state from its words, with each field of its type, and back into scratch.

    Written out as source: numba builds a tuple of mixed ints and floats only from an expression that spells it out.
    """
    fields = list(enumerate(model.fields))
    parts = [f"value[{k}]" if model.is_tuple else "value" for k, _ in fields]
    casts = [f"int({parts[k]})" if kind is int else f"(float({parts[k]}) + 0.0)" for k, kind in fields]
    loads = [f"load_word(base, {k})" if kind is int else f"load_float(base, {k})" for k, kind in fields]
    stores = [f"store_word(base, {k}, {casts[k] if kind is int else f'float_bits({casts[k]})'})" for k, kind in fields]
    whole = "({},)" if model.is_tuple else "{}"
    source = (
        f"def load(base):\n    return {whole.format(', '.join(loads))}\n"
        f"def cast(value):\n    return {whole.format(', '.join(casts))}\n"
        f"def keep(base, value):\n    {'; '.join(stores)}\n"
    )
    scope: dict[str, Any] = {"load_word": load_word, "load_float": load_float, "store_word": store_word}
    scope["float_bits"] = float_bits
    builtins.exec(compile(source, "<state access>", "exec"), scope)
    return _inline(scope["load"]), _inline(scope["cast"]), _inline(scope["keep"])


def make_adapters(model: CompiledSimulator, user: UserFunctions) -> Adapters:
    """Compile the adapters for a simulator's functions, fields and sense."""
    load, cast, keep = _state_access(model)
    row, sign = 8 * len(model.fields), 1.0 if model.sense == "cost" else -1.0
    step, number_of_all = user.step, model.num_actions
    actions = user.actions or _inline(lambda state: number_of_all)
    terminal_cost = user.terminal_cost or _inline(lambda state: 0.0)
    policy, has_policy = user.rollout_policy or _inline(lambda state, h, rng: 0), user.rollout_policy is not None
    once: Any = None if has_policy else user.rollout
    once_fault = ROLLOUT
    leaf_value = user.leaf_value
    if leaf_value is not None:
        once, once_fault = _inline(lambda state, h, rng: leaf_value(state, h)), LEAF

    @_inline
    def load_state(context, handle):  # type: ignore[no-untyped-def]
        return load(load_word(context, shared.WORDS) + row * handle)

    @_inline
    def fail(context, value, action, h):  # type: ignore[no-untyped-def]
        keep(load_word(context, SCRATCH), value)
        store_word(context, FAULT_ACTION, action)
        store_word(context, FAULT_STEP, h)
        return 0

    @_inline
    def save_stream(context):  # type: ignore[no-untyped-def]
        source = load_word(context, GENERATOR)
        for k in range(5):
            store_word(context, SAVED_STREAM + k, load_word(source, k))

    @_inline
    def counted(context, state, h):  # type: ignore[no-untyped-def]
        """Number of actions, 0 where that failed."""
        store_word(context, FAULT, ACTIONS)
        try:
            number = np.int64(actions(state))
        except Exception:
            return fail(context, state, -1, h)
        if number < 1 or number > MAX_ACTIONS:
            return fail(context, state, -1, h)
        return number

    @_inline
    def end_of(context, state, h):  # type: ignore[no-untyped-def]
        """Terminal cost, NaN where that failed."""
        store_word(context, FAULT, TERMINAL)
        try:
            end = float(terminal_cost(state))
        except Exception:
            return fail(context, state, -1, h) + math.nan
        if not abs(end) <= LARGEST_COST:
            return fail(context, state, -1, h) + math.nan
        return 0.0 + sign * end

    @_inline
    def stepped(context, state, action, h, rng):  # type: ignore[no-untyped-def]
        """Next state, charged cost (NaN where that failed), and whether the episode is over."""
        store_word(context, FAULT, STEP)
        save_stream(context)
        try:
            target, cost, done = step(state, action, rng)
        except Exception:
            return state, fail(context, state, action, h) + math.nan, False
        total = 0.0 + sign * float(cost)
        if not abs(total) <= LARGEST_COST:
            return state, fail(context, state, action, h) + math.nan, False
        return cast(target), total, done != 0

    def count_adapter(context, handle, action, h):  # type: ignore[no-untyped-def]
        number = counted(context, load_state(context, handle), np.int64(-1))  # no literal: it is compiled once
        if number > 0:
            store_word(context, NEXT, number)
            store_word(context, STATUS, GO_ON)
        return 0

    def step_adapter(context, handle, action, h):  # type: ignore[no-untyped-def]
        state = load_state(context, handle)
        numbers = load_word(context, NUMBERS)
        target, total, done = stepped(context, state, action, h, generator_at(context + 8 * GENERATOR))
        if math.isnan(total):
            return 0
        h += 1
        if done:
            store_word(context, STATUS, DONE)
        elif h == load_word(context, HORIZON):
            end = end_of(context, target, h)
            if math.isnan(end):
                return 0
            total += load_float(numbers, DISCOUNT) * end
            store_word(context, STATUS, DONE)
        else:
            keep(load_word(context, SCRATCH), target)
            store_word(context, STATUS, GO_ON)
        store_float(numbers, COST, total)
        return 0

    def follow_adapter(context, handle, what, h):  # type: ignore[no-untyped-def]
        """Roll out step by step: the policy, or uniformly random actions; or say the policy's action alone."""
        state = load_state(context, handle)
        rng = generator_at(context + 8 * GENERATOR)
        numbers = load_word(context, NUMBERS)
        discount, horizon = load_float(numbers, DISCOUNT), load_word(context, HORIZON)
        total, factor, first, done = 0.0, 1.0, h, False
        while h < horizon:
            number = counted(context, state, h)
            if number < 1:
                return 0
            action = 0
            if has_policy:
                store_word(context, FAULT, POLICY)
                save_stream(context)
                try:
                    action = int(policy(state, h, rng))
                except Exception:
                    return fail(context, state, -1, h)
                if action < 0 or action >= number:
                    return fail(context, state, -1, h)
                if what == POLICY_ACTION:
                    store_word(context, NEXT, action)
                    store_word(context, STATUS, GO_ON)
                    return 0
            elif number > 1:
                action = int(rng.random() * number)
            target, charged, done = stepped(context, state, action, h, rng)
            if math.isnan(charged):
                return 0
            total += factor * charged
            h += 1
            if done:
                break
            factor *= discount
            state = target
        if not done:
            end = end_of(context, state, h)
            if math.isnan(end):
                return 0
            total += factor * end
        store_float(numbers, COST, total)
        store_word(context, STEPS, h - first)
        store_word(context, STATUS, GO_ON)
        return 0

    def once_adapter(context, handle, action, h):  # type: ignore[no-untyped-def]
        """Ask for the cost-to-go as a whole."""
        state = load_state(context, handle)
        rng = generator_at(context + 8 * GENERATOR)
        store_word(context, FAULT, once_fault)
        save_stream(context)
        try:
            whole = float(once(state, h, rng))
        except Exception:
            return fail(context, state, -1, h)
        if not abs(whole) <= LARGEST_COST:
            return fail(context, state, -1, h)
        store_float(load_word(context, NUMBERS), COST, 0.0 + sign * whole)
        store_word(context, STEPS, 0)
        store_word(context, STATUS, GO_ON)
        return 0

    follow, answer = _inline(follow_adapter), _inline(once_adapter)

    def roll_adapter(context, handle, what, h):  # type: ignore[no-untyped-def]
        """A leaf is valued; an iteration that looks past it asks the policy."""
        return follow(context, handle, what, h) if what == POLICY_ACTION else answer(context, handle, what, h)

    roll = follow_adapter if once is None else roll_adapter if has_policy else once_adapter
    return Adapters(_c_function(count_adapter), _c_function(step_adapter), _c_function(roll))
