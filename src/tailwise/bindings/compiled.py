"""Compiled simulators bound to the kernel: states as words in an intern store.

The functions of a user are compiled first and by themselves, so that a failure names the line; then their adapters.
"""

from __future__ import annotations

import linecache
import re
import types as python_types
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from tailwise._compiler import njit
from tailwise._random import generator, stream_words
from tailwise._values import NoKeyError, function_key, names
from tailwise.bindings import adapters as faults
from tailwise.bindings import callback_model as shared
from tailwise.bindings.adapters import Adapters, UserFunctions, make_adapters
from tailwise.bindings.callback_model import SimulatorInterface
from tailwise.bindings.intern import InternStore, WordStates, float_word, new_store, word_float
from tailwise.bindings.options import SimulationOptions
from tailwise.errors import ModelError, SimulatorError, StateError
from tailwise.models.compiled import CompiledSimulator
from tailwise.models.contract import cost_fault, listed_actions, outcome_fault, short
from tailwise.models.simulator import model_name

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def compile_adapters(model: CompiledSimulator, options: SimulationOptions) -> Adapters:
    """Compile a simulator for the kernel, or return what was compiled before; an error names function and line."""
    mine = (options.leaf_value, options.rollout_policy)
    if mine not in model.adapters:
        key = _content(model, options)
        if key is None or key not in _COMPILED:
            made = make_adapters(model, _user_functions(model, options))
            if key is not None:
                _COMPILED[key] = made
        model.adapters[mine] = made if key is None else _COMPILED[key]
    found: Adapters = model.adapters[mine]
    return found


_COMPILED: dict[Any, Adapters] = {}


@contextmanager
def _of_compiled_arithmetic() -> Iterator[None]:
    """Let pass what Python's arithmetic raises, where compiled code has infinities and NaN."""
    try:
        yield
    except SimulatorError as error:
        cause = error.__cause__
        is_of_math = isinstance(cause, ValueError) and str(cause).startswith(("math domain", "expected a "))
        if not is_of_math and not isinstance(cause, OverflowError):
            raise


def _content(model: CompiledSimulator, options: SimulationOptions) -> Any:
    """Key of all that the adapters depend on; None where a function depends on what may change unseen."""
    functions = [getattr(model, name, None) for name in ("step", "terminal_cost", "rollout")]
    functions += [model.actions if model.num_actions is None else None, options.leaf_value, options.rollout_policy]
    try:
        keys = tuple(None if function is None else function_key(function) for function in functions)
    except NoKeyError:
        return None
    return keys, model.fields, model.is_tuple, model.sense, model.num_actions


def _user_functions(model: CompiledSimulator, options: SimulationOptions) -> UserFunctions:
    """Compile each of the user's functions by itself; check what it returns."""
    fields = [types.int64 if kind is int else types.float64 for kind in model.fields]
    state: Any = types.Tuple(fields) if model.is_tuple else fields[0]
    whole, rng = types.int64, types.npy_rng
    done: dict[str, Any] = dict.fromkeys(UserFunctions._fields)
    done["step"], returned = _compiled(model, "step", model.step, (state, whole, rng))
    _check_step(model, returned, fields)
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
    return UserFunctions(**done)


def _compiled(
    model: CompiledSimulator, name: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Compile ``function``; return its dispatcher and the numba type it returns."""
    try:
        dispatcher = function if isinstance(function, Dispatcher) else _dispatcher(function, {})
        dispatcher.compile(arguments)
    except ModelError:
        raise
    except Exception as error:  # numba raises its own errors for most functions, and others for some
        raise ModelError(_explain(model, name, function, error)) from error
    returned = dispatcher.overloads[arguments].signature.return_type
    return dispatcher, returned


def _dispatcher(function: Any, made: dict[Any, Any]) -> Any:
    """Return ``function`` for numba, with the functions that it calls by name compiled too: ``made`` has those met.

    Indices are checked: beyond an array there is an error, as in Python, and not a number.
    """
    if not isinstance(function, python_types.FunctionType):
        raise ModelError(
            f"{function!r} cannot be compiled; expected a plain function, not a method or another callable (pass "
            "fallback=True, or use a Simulator, to run it interpreted)"
        )
    scope = dict(function.__globals__)
    cells = tuple(python_types.CellType() for _ in function.__closure__ or ())
    copy = python_types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    made[function] = njit(boundscheck=True)(copy)

    def compiled(value: object) -> object:
        if not isinstance(value, python_types.FunctionType):
            return value
        return made[value] if value in made else _dispatcher(value, made)

    for key in names(function.__code__) & scope.keys():
        scope[key] = compiled(scope[key])
    for cell, old in zip(cells, function.__closure__ or (), strict=True):
        cell.cell_contents = compiled(old.cell_contents)
    return made[function]


def _explain(model: CompiledSimulator, name: str, function: Any, error: Exception) -> str:
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
    if "NumPyRandomGeneratorType_integers" in reason:
        reason = "rng.integers takes two bounds here: for one of n, write rng.integers(0, n)"
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


_METHODS = {
    faults.ACTIONS: "actions",
    faults.STEP: "step",
    faults.TERMINAL: "terminal_cost",
    faults.ROLLOUT: "rollout",
    faults.LEAF: "leaf_value",
    faults.POLICY: "rollout_policy",
}


class CompiledInterface(WordStates, SimulatorInterface):
    """A compiled simulator: a handle is a row of words in the store."""

    def __init__(self, model: CompiledSimulator, rng: np.random.Generator, options: SimulationOptions) -> None:
        faults.verify_layout()
        super().__init__(model, rng, options, width=len(model.fields))
        with _of_compiled_arithmetic():
            self._try_interpreted()
        self._adapters = adapters = compile_adapters(model, options)
        # their machine code must live as long as its addresses are used
        words = faults.generator_words(rng)
        self._integers[shared.GENERATOR : shared.GENERATOR + len(words)] = words
        self._integers[shared.SCRATCH] = self._scratch.ctypes.data
        self._integers[shared.NUMBERS] = self._numbers.ctypes.data
        store = new_store(len(model.fields))
        self._integers[shared.WORDS] = store.words.ctypes.data
        self._connect([function.address for function in adapters], store)

    def _try_interpreted(self) -> None:
        """Call what is to be compiled once, along a step from the start: that takes microseconds, compiling seconds."""
        model, rng = self.model, generator(0)
        if self._options.prior_policy is not None:
            self._called("prior_policy", model.start, -1, 0, rng)
        if (self._options.leaf_value, self._options.rollout_policy) in model.adapters or not self.actions_of(
            model.start
        ):
            return  # they are compiled; or there is nothing to do at the start, which is told later
        result = self._called("step", model.start, 0, 0, rng)
        try:
            following, _, done = result
            following = model.canonical(following)
        except (TypeError, ValueError, StateError):  # of which type it is, the compiler says
            return
        if done or model.horizon == 1:
            return
        if self._options.leaf_value is not None:
            fault = cost_fault(self._called("leaf_value", following, -1, 1, rng))
            if fault:
                raise SimulatorError(f"{self._place_of('leaf_value', following, -1, 1)}: its value {fault}")
        if self._options.rollout_policy is not None:
            chosen = self._called("rollout_policy", following, -1, 1, rng)
            if chosen not in self.actions_of(following):
                where = self._place_of("rollout_policy", following, -1, 1)
                raise SimulatorError(f"{where}: {self._fault('rollout_policy', chosen, following)}")

    def _place_of(self, method: str, state: Any, action: int, h: int) -> str:
        shown = f"{short(state)}, {action}" if method == "step" else short(state)
        return f"{method}({shown}) of {model_name(self.model)}" + (f" at step {h}" if h >= 0 else "")

    def _called(self, method: str, state: Any, action: int, h: int, rng: np.random.Generator) -> Any:
        """Call a function of the user, interpreted; say where it was if it raises."""
        arguments: dict[str, tuple[Any, ...]] = {
            "actions": (state,),
            "step": (state, action, rng),
            "terminal_cost": (state,),
            "rollout": (state, h, rng),
            "leaf_value": (state, h),
            "rollout_policy": (state, h, rng),
            "prior_policy": (state, h),
        }
        function = getattr(self._options, method, None) or getattr(self.model, method)
        try:
            return function(*arguments[method])
        except Exception as error:
            where = self._place_of(method, state, action, h)
            raise SimulatorError(f"{where} raised {type(error).__name__}: {error}") from error

    def handle(self, state: Any) -> int:
        """Return the handle of a state, known or new."""
        state = self.model.canonical(state)
        given = state if self.model.is_tuple else (state,)
        row = [
            float_word(value) if kind is float else value for value, kind in zip(given, self.model.fields, strict=True)
        ]
        return self._handle_of(row)

    def state(self, handle: int) -> Hashable:
        """Return the state of a handle."""
        return self._from_words(self.data.store.words[handle])

    def _from_words(self, words: NDArray[np.int64]) -> Hashable:
        fields = tuple(
            word_float(word) if kind is float else int(word)
            for word, kind in zip(words.tolist(), self.model.fields, strict=True)
        )
        return fields if self.model.is_tuple else fields[0]

    def actions(self, handle: int) -> list[object]:
        """Return the actions allowed in a state: 0..n-1."""
        return self.actions_of(self.state(handle))

    def actions_of(self, state: Any) -> list[object]:
        """Return the actions allowed in a state, which may have no handle."""
        try:
            number: Any = self.model.actions(state)
        except Exception as error:
            raise SimulatorError(
                f"actions({short(state)}) of {model_name(self.model)} raised {type(error).__name__}: {error}"
            ) from error
        allowed, fault = listed_actions(number)
        if fault:
            raise SimulatorError(f"actions({short(state)}) of {model_name(self.model)}: {fault}")
        return allowed

    def action_name(self, action: Any, handle: int) -> str:
        """Return the action's label, or its number as text."""
        return str(self.model.action_name(action, self.state(handle)))

    def fail(self, handle: int, position: int, step: int) -> NoReturn:
        """Run the failing call again, interpreted and from the same draw, and raise what it says."""
        integers = self._integers
        method = _METHODS[int(integers[shared.FAULT])]
        state = self._from_words(self._scratch)
        action, h = int(integers[shared.FAULT_ACTION]), int(integers[shared.FAULT_STEP])
        rng = generator(0)
        stream_words(rng)[:] = integers[shared.SAVED_STREAM : shared.SAVED_STREAM + 5].view(np.uint64)
        result = self._called(method, state, action, h, rng)
        raise SimulatorError(f"{self._place_of(method, state, action, h)}: {self._fault(method, result, state)}")

    def _fault(self, method: str, result: Any, state: Any) -> str:
        if method == "actions":
            return listed_actions(result)[1]
        if method == "rollout_policy":
            return (
                f"it chose {short(result)}, which is not allowed; allowed: {short(self.model.actions(state))} actions"
            )
        fault = outcome_fault(result) if method == "step" else cost_fault(result)
        if fault:
            return fault if method == "step" else f"its value {fault}"
        return (
            f"it failed when compiled, though interpreted it returns {short(result)}; does it leave the range of "
            "64-bit integers, or read beyond an array?"
        )

    def retain(self, handles: NDArray[np.int64]) -> NDArray[np.int64]:
        """Forget all states but these; return their new handles."""
        fresh = super().retain(handles)
        self._forget_outcomes(np.asarray(handles, dtype=np.int64), fresh)
        return fresh

    def _replace_store(self, store: InternStore) -> None:
        self._integers[shared.WORDS] = store.words.ctypes.data
        super()._replace_store(store)
