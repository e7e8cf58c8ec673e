"""Machine code for a user's functions: three C functions with the kernel's one signature.

The adapters are written out as Python source for the state's fields and compiled around the user's own
functions, which are compiled first and by themselves, so that a failure names the user's line.
"""

from __future__ import annotations

import builtins
import linecache
import math
import re
import types as python_types
from collections.abc import Callable
from typing import Any, NamedTuple

from numba import cfunc, njit, types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

from tailwise.errors import ModelError
from tailwise.models.compiled import CompiledSimulator
from tailwise.models.simulator import model_name
from tailwise.search import native, world
from tailwise.search import simulator_world as shared
from tailwise.search.intern import bits_float, float_bits
from tailwise.search.options import SearchOptions

ACTIONS, STEP, TERMINAL, ROLLOUT, LEAF, POLICY = 1, 2, 3, 4, 5, 6  # what integers[FAULT] says
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SIGNATURE = types.int64(types.int64, types.int64, types.int64, types.int64)


class Adapters(NamedTuple):
    """The compiled functions; ``address`` of each goes to the kernel."""

    count: Any
    step: Any
    roll: Any


def compile_adapters(model: CompiledSimulator, options: SearchOptions) -> Adapters:
    """Compile a simulator for the kernel, or return what was compiled before.

    Raises
    ------
    ModelError
        If a function cannot be compiled: names the function, the line and the reason.
    """
    key = (options.leaf_value, options.rollout_policy)
    if key not in model.adapters:
        model.adapters[key] = _compile(model, options)
    found: Adapters = model.adapters[key]
    return found


def _compile(model: CompiledSimulator, options: SearchOptions) -> Adapters:
    scope = _user_functions(model, options)
    constants = {"DONE": world.DONE, "GO_ON": world.GO_ON}
    for name in ("STATUS", "NEXT", "STEPS", "HORIZON", "WORDS", "SCRATCH", "NUMBERS", "COST", "DISCOUNT"):
        constants[name] = getattr(shared, name)
    for name in ("FAULT", "FAULT_ACTION", "FAULT_STEP", "GENERATOR", "SAVED_STREAM"):
        constants[name] = getattr(shared, name)
    scope |= constants | {"WIDTH": len(model.fields)}
    scope |= {"float_bits": float_bits, "bits_float": bits_float, "isfinite": math.isfinite}
    for name in ("load_word", "store_word", "load_float", "store_float", "generator_at"):
        scope[name] = getattr(native, name)
    source = _source(model, options)
    builtins.exec(compile(source, f"<adapters of {model_name(model)}>", "exec"), scope)
    inline: Any = njit(forceinline=True)
    for name in ("load_state", "fail", "save_stream"):
        scope[name] = inline(scope[name])
    compiler: Any = cfunc
    return Adapters(*(compiler(_SIGNATURE)(scope[f"{name}_adapter"]) for name in ("count", "step", "roll")))


# ------------------------------------------------------------- the user's part


def _user_functions(model: CompiledSimulator, options: SearchOptions) -> dict[str, Any]:
    """Compile each of the user's functions by itself; check what it returns."""
    fields = [types.int64 if kind is int else types.float64 for kind in model.fields]
    state: Any = types.Tuple(fields) if model.is_tuple else fields[0]
    whole, rng = types.int64, types.npy_rng
    done: dict[str, Any] = {}
    step = _compiled(model, "step", model.step, (state, whole, rng))
    _check_step(model, step[1], fields)
    done["step"] = step[0]
    number = (types.Integer, types.Boolean, types.Float)
    wanted = {
        "actions": (model.actions if model.num_actions is None else None, (state,), (types.Integer,)),
        "terminal_cost": (getattr(model, "terminal_cost", None), (state,), number),
        "rollout": (getattr(model, "rollout", None), (state, whole, rng), number),
        "leaf_value": (options.leaf_value, (state, whole), number),
        "rollout_policy": (options.rollout_policy, (state, whole, rng), (types.Integer,)),
    }
    for name, (function, arguments, kinds) in wanted.items():
        if function is None:
            continue
        done[name], returned = _compiled(model, name, function, arguments)
        if not isinstance(returned, kinds):
            expected = "an int" if kinds == (types.Integer,) else "a number"
            raise ModelError(f"{name} of {model_name(model)} returns {returned}; expected {expected}")
    return done


def _compiled(
    model: CompiledSimulator, name: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Compile ``function``; return its dispatcher and the numba type it returns."""
    dispatcher = function if isinstance(function, Dispatcher) else njit(_with_compiled_helpers(function))
    try:
        dispatcher.compile(arguments)
    except NumbaError as error:
        raise ModelError(_explain(model, name, function, error)) from error
    returned = dispatcher.overloads[arguments].signature.return_type
    return dispatcher, returned


def _with_compiled_helpers(function: Any) -> Any:
    """Return ``function`` with the plain functions that it calls by name compiled too."""
    if not isinstance(function, python_types.FunctionType):
        raise ModelError(
            f"{function!r} cannot be compiled; expected a plain function, not a method or another callable (pass "
            "fallback=True, or use a Simulator, to run it interpreted)"
        )

    def jitted(value: Any) -> Any:
        same = value is function
        return (
            njit(_with_compiled_helpers(value)) if isinstance(value, python_types.FunctionType) and not same else value
        )

    names = set(function.__code__.co_names)
    scope = {key: jitted(value) if key in names else value for key, value in function.__globals__.items()}
    cells = tuple(python_types.CellType(jitted(cell.cell_contents)) for cell in function.__closure__ or ())
    copy = python_types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return copy


def _explain(model: CompiledSimulator, name: str, function: Any, error: NumbaError) -> str:
    """The failure in the user's terms: function, file, line, the line itself, numba's first words."""
    lines = [line.strip() for line in _COLOURS.sub("", str(error)).splitlines()]
    said = [line for line in lines if line and not line.startswith(("Failed in", "During:", "- ", "File "))]
    reason = said[0] if said else type(error).__name__
    location = getattr(error, "loc", None)
    where = ""
    if location is not None and location.filename:
        where = f" at {location.filename}, line {location.line}"
        source = linecache.getline(location.filename, location.line).strip()
        if source:
            where += f" ({source})"
    return (
        f"{name} of {model_name(model)} cannot be compiled{where}: {reason}; use ints, floats, tuples and the methods "
        "of rng, or pass fallback=True (or use a Simulator) to run it interpreted"
    )


def _check_step(model: CompiledSimulator, returned: Any, fields: list[Any]) -> None:
    name = model_name(model)
    if not isinstance(returned, types.BaseTuple) or len(returned) != 3:
        raise ModelError(f"step of {name} returns {returned}; expected (next_state, cost, done)")
    state, cost, done = returned
    given = list(state) if isinstance(state, types.BaseTuple) else [state]
    like = isinstance(state, types.BaseTuple) == model.is_tuple and len(given) == len(fields)
    for have, want in zip(given, fields, strict=False):
        whole = isinstance(have, (types.Integer, types.Boolean))
        like = like and (whole or (want is types.float64 and isinstance(have, types.Float)))
    if not like:
        raise ModelError(
            f"step of {name} returns a next state of type {state}, but start {model.start!r} is of type "
            f"{types.Tuple(fields) if model.is_tuple else fields[0]}; make both alike (write 0.0 for a float)"
        )
    if not isinstance(cost, (types.Integer, types.Boolean, types.Float)):
        raise ModelError(f"step of {name} returns a cost of type {cost}; expected a number")
    if not isinstance(done, (types.Boolean, types.Integer)):
        raise ModelError(f"step of {name} returns done of type {done}; expected a bool")


# ------------------------------------------------------------------ the source


def _source(model: CompiledSimulator, options: SearchOptions) -> str:
    fields = range(len(model.fields))
    loads = [
        f"load_word(base, {k})" if kind is int else f"load_float(base, {k})" for k, kind in enumerate(model.fields)
    ]
    parts = [f"value[{k}]" if model.is_tuple else "value" for k in fields]
    casts = [
        f"int({part})" if kind is int else f"(float({part}) + 0.0)"
        for part, kind in zip(parts, model.fields, strict=True)
    ]
    words = [cast if kind is int else f"float_bits({cast})" for cast, kind in zip(casts, model.fields, strict=True)]
    whole = "({},)" if model.is_tuple else "{}"
    stores = "; ".join(f"store_word(scratch, {k}, {words[k]})" for k in fields)
    has_terminal = hasattr(model, "terminal_cost")
    sign = "0.0 + float({})" if model.sense == "cost" else "0.0 - float({})"
    blocks = {
        "@STATE": whole.format(", ".join(loads)),
        "@CAST": whole.format(", ".join(casts)).replace("value", "target"),
        "@STORES": stores,
        "@COUNT": str(model.num_actions) if model.num_actions is not None else "actions(state)",
        "@SIGNED": sign,
    }
    source = _COMMON + _COUNT_SOURCE + _STEP_SOURCE
    source = source.replace("@TERMINAL", _TERMINAL if has_terminal else "end = 0.0")
    roll = (
        _ROLL_ONCE if options.leaf_value or (hasattr(model, "rollout") and not options.rollout_policy) else _ROLL_STEPS
    )
    once = (LEAF, "leaf_value(state, h)") if options.leaf_value else (ROLLOUT, "rollout(state, h, rng)")
    source += roll.replace("@CODE", str(once[0])).replace("@ONCE", once[1])
    source = source.replace("@END", _TERMINAL if has_terminal else "end = 0.0")
    source = source.replace("@CHOICE", _POLICY if options.rollout_policy else _UNIFORM)
    for key, text in blocks.items():
        if key != "@SIGNED":
            source = source.replace(key, text)
    for name in ("cost", "end", "whole"):
        source = source.replace(f"@SIGNED({name})", sign.format(name))
    return source


_COMMON = """
def load_state(context, handle):
    base = load_word(context, WORDS) + 8 * WIDTH * handle
    return @STATE

def fail(context, value, action, h):
    scratch = load_word(context, SCRATCH)
    @STORES
    store_word(context, FAULT_ACTION, action)
    store_word(context, FAULT_STEP, h)

def save_stream(context):
    source = load_word(context, GENERATOR)
    for k in range(5):
        store_word(context, SAVED_STREAM + k, load_word(source, k))
"""

_COUNT_SOURCE = """
def count_adapter(context, handle, action, h):
    state = load_state(context, handle)
    store_word(context, FAULT, 1)
    try:
        number = @COUNT
    except Exception:
        fail(context, state, -1, -1)
        return 0
    if number < 1:
        fail(context, state, -1, -1)
        return 0
    store_word(context, NEXT, number)
    store_word(context, STATUS, GO_ON)
    return 0
"""

_TERMINAL = """store_word(context, FAULT, 3)
        try:
            end = float(terminal_cost(target))
        except Exception:
            fail(context, target, -1, h)
            return 0
        if not isfinite(end):
            fail(context, target, -1, h)
            return 0
        end = @SIGNED(end)"""

_STEP_SOURCE = """
def step_adapter(context, handle, action, h):
    state = load_state(context, handle)
    rng = generator_at(context + 8 * GENERATOR)
    numbers = load_word(context, NUMBERS)
    save_stream(context)
    store_word(context, FAULT, 2)
    try:
        target, cost, done = step(state, action, rng)
    except Exception:
        fail(context, state, action, h)
        return 0
    total = @SIGNED(cost)
    if not isfinite(total):
        fail(context, state, action, h)
        return 0
    h += 1
    if done:
        store_word(context, STATUS, DONE)
    elif h == load_word(context, HORIZON):
        target = @CAST
        @TERMINAL
        total += load_float(numbers, DISCOUNT) * end
        store_word(context, STATUS, DONE)
    else:
        value = target
        scratch = load_word(context, SCRATCH)
        @STORES
        store_word(context, STATUS, GO_ON)
    store_float(numbers, COST, total)
    return 0
"""

_UNIFORM = """action = 0
        if number > 1:
            action = int(rng.random() * number)"""

_POLICY = """store_word(context, FAULT, 6)
        save_stream(context)
        try:
            action = int(rollout_policy(state, h, rng))
        except Exception:
            fail(context, state, -1, h)
            return 0
        if action < 0 or action >= number:
            fail(context, state, -1, h)
            return 0"""

_ROLL_STEPS = """
def roll_adapter(context, handle, action, h):
    state = load_state(context, handle)
    rng = generator_at(context + 8 * GENERATOR)
    numbers = load_word(context, NUMBERS)
    discount = load_float(numbers, DISCOUNT)
    horizon = load_word(context, HORIZON)
    total = 0.0
    factor = 1.0
    first = h
    done = False
    while h < horizon:
        store_word(context, FAULT, 1)
        try:
            number = @COUNT
        except Exception:
            fail(context, state, -1, h)
            return 0
        if number < 1:
            fail(context, state, -1, h)
            return 0
        @CHOICE
        store_word(context, FAULT, 2)
        save_stream(context)
        try:
            target, cost, ended = step(state, action, rng)
        except Exception:
            fail(context, state, action, h)
            return 0
        one = @SIGNED(cost)
        if not isfinite(one):
            fail(context, state, action, h)
            return 0
        total += factor * one
        h += 1
        if ended:
            done = True
            break
        factor *= discount
        state = @CAST
    if not done:
        target = state
        @END
        total += factor * end
    store_float(numbers, COST, total)
    store_word(context, STEPS, h - first)
    store_word(context, STATUS, GO_ON)
    return 0
"""

_ROLL_ONCE = """
def roll_adapter(context, handle, action, h):
    state = load_state(context, handle)
    rng = generator_at(context + 8 * GENERATOR)
    store_word(context, FAULT, @CODE)
    save_stream(context)
    try:
        whole = float(@ONCE)
    except Exception:
        fail(context, state, -1, h)
        return 0
    if not isfinite(whole):
        fail(context, state, -1, h)
        return 0
    store_float(load_word(context, NUMBERS), COST, @SIGNED(whole))
    store_word(context, STEPS, 0)
    store_word(context, STATUS, GO_ON)
    return 0
"""
