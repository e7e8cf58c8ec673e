"""Compiled simulators bound to the kernel: states as words in an intern store."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tailwise._random import generator, stream_words
from tailwise.bindings import adapters as faults
from tailwise.bindings import callback_model as shared
from tailwise.bindings import native
from tailwise.bindings.compiled_adapters import compile_adapters
from tailwise.bindings.intern import InternStore, float_word, new_store, word_float
from tailwise.bindings.options import SimulationOptions
from tailwise.bindings.simulator import SimulatorInterface
from tailwise.bindings.word_states import WordStates
from tailwise.errors import SimulatorError
from tailwise.models.compiled import CompiledSimulator
from tailwise.models.simulator import cost_fault, listed_actions, model_name, outcome_fault, short

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
        native.verify_layout()
        adapters = compile_adapters(model, options)
        super().__init__(model, rng, options, width=len(model.fields))
        self._adapters = adapters  # their machine code must live as long as its addresses are used
        words = native.generator_words(rng)
        self._integers[shared.GENERATOR : shared.GENERATOR + len(words)] = words
        self._integers[shared.SCRATCH] = self._scratch.ctypes.data
        self._integers[shared.NUMBERS] = self._numbers.ctypes.data
        store = new_store(len(model.fields))
        self._integers[shared.WORDS] = store.words.ctypes.data
        self._connect([function.address for function in adapters], store)

    # --------------------------------------------------------- states, actions

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
        state = self.state(handle)
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

    # ------------------------------------------------------------------ errors

    def fail(self, handle: int, position: int, step: int) -> NoReturn:
        """Run the failing call again, interpreted and from the same draw, and raise what it says."""
        integers = self._integers
        method = _METHODS[int(integers[shared.FAULT])]
        state = self._from_words(self._scratch)
        action, h = int(integers[shared.FAULT_ACTION]), int(integers[shared.FAULT_STEP])
        rng = generator(0)
        stream_words(rng)[:] = integers[shared.SAVED_STREAM : shared.SAVED_STREAM + 5].view(np.uint64)
        arguments = {
            "actions": (state,),
            "step": (state, action, rng),
            "terminal_cost": (state,),
            "rollout": (state, h, rng),
            "leaf_value": (state, h),
            "rollout_policy": (state, h, rng),
        }[method]
        shown = f"{short(state)}, {action}" if method == "step" else short(state)
        where = f"{method}({shown}) of {model_name(self.model)}" + (f" at step {h}" if h >= 0 else "")
        function = getattr(self._options, method, None) or getattr(self.model, method)
        try:
            result = function(*arguments)
        except Exception as error:
            raise SimulatorError(f"{where} raised {type(error).__name__}: {error}") from error
        raise SimulatorError(f"{where}: {self._fault(method, result, state)}")

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

    # ------------------------------------------------------------------ memory

    def retain(self, handles: NDArray[np.int64]) -> NDArray[np.int64]:
        """Forget all states but these; return their new handles."""
        fresh = super().retain(handles)
        self._forget_outcomes(np.asarray(handles, dtype=np.int64), fresh)
        return fresh

    def _replace_store(self, store: InternStore) -> None:
        self._integers[shared.WORDS] = store.words.ctypes.data
        super()._replace_store(store)
