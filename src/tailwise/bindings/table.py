"""Tables bound to the kernel: as they are, where a state is its index, and as the view of accrued costs.

In the tree of the view a state is the handle of the interned pair (state, bits of the accrued cost): two
histories share a node where their accrued costs agree to the last bit. Inside, everything is a
cost; the utility is charged by the step that ends the episode, and ``end_cost`` is 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import DISABLE_JIT, inlined
from tailwise._random import generator, next_double
from tailwise.bindings.callback_model import Callback, call_number, compile_function
from tailwise.bindings.intern import (
    FULL_STORE,
    InternStore,
    WordStates,
    bits_float,
    float_bits,
    float_word,
    intern,
    new_store,
    word_float,
)
from tailwise.bindings.kernel_model import DONE, FAILED, FULL, GO_ON, ModelInterface, draw_index, register_kernel_model
from tailwise.errors import SimulatorError
from tailwise.models import TabularMDP
from tailwise.models.accrued import EXP_LIMIT, AccruedView, ExponentialUtility
from tailwise.models.table import TableData, fail_in_dead_end
from tailwise.risk.entropic import utility


@inlined
def outcome_at(table, first, last, draw):  # type: ignore[no-untyped-def]
    """Index of the outcome from ``first`` to ``last``, both included, at a ``draw`` from [0, 1)."""
    while last - first > 8:
        middle = (first + last) >> 1
        if table.cumulative[middle] > draw:
            last = middle
        else:
            first = middle + 1
    while table.cumulative[first] <= draw:
        first += 1
    return first


@inlined
def draw_outcome(table, row, stream):  # type: ignore[no-untyped-def]
    """Index of a sampled outcome of ``row``; draws nothing when it is certain."""
    first = table.outcome_offsets[row]
    last = table.outcome_offsets[row + 1] - 1
    if first == last:
        return first
    return outcome_at(table, first, last, next_double(stream))


@inlined
def draw_step(table, row, h, stream):  # type: ignore[no-untyped-def]
    """Draw (next state, or -1 - next state where the episode ends, cost) of ``row`` at step ``h``."""
    k = table.outcome_offsets[row]
    last = table.outcome_offsets[row + 1] - 1
    if k != last:  # not by draw_outcome: each helper more that receives the table costs a few per cent of a step
        k = outcome_at(table, k, last, next_double(stream))
    cost = table.losses[k]
    if table.step_losses.size:
        cost += table.step_losses[h, row]
    return table.targets[k], cost


def _table_count_actions(model, state):  # type: ignore[no-untyped-def]
    return model.action_offsets[state + 1] - model.action_offsets[state]


def _table_take_step(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    target, cost = draw_step(model, model.action_offsets[state] + action, h, stream)
    if target < 0:
        return -1 - target, cost, DONE
    return target, cost, GO_ON


def _table_end_cost(model, state):  # type: ignore[no-untyped-def]
    return model.terminal_losses[state]


def _table_roll_out(model, state, h, horizon, discount, stream):  # type: ignore[no-untyped-def]
    total, factor, steps = 0.0, 1.0, 0
    while h < horizon:
        row = model.action_offsets[state]
        number = model.action_offsets[state + 1] - row
        if number == 0:
            return total, steps, FAILED
        target, cost = draw_step(model, row + draw_index(stream, number), h, stream)
        total += factor * cost
        steps += 1
        if target < 0:
            return total, steps, DONE
        state = target
        factor *= discount
        h += 1
    return total + factor * model.terminal_losses[state], steps, GO_ON


register_kernel_model(TableData, _table_count_actions, _table_take_step, _table_end_cost, _table_roll_out)


class TableInterface(ModelInterface):
    """A table: handles are state indices."""

    def __init__(self, mdp: TabularMDP) -> None:
        mdp.require_sound()
        self.mdp = mdp
        self.data = mdp.data

    def handle(self, state: Any) -> int:
        """Return the state's index."""
        return self.mdp.find_state(state)

    def state(self, handle: int) -> int:
        """Return the state's index."""
        return int(handle)

    def actions(self, handle: int) -> list[object]:
        """Return the ids of the actions allowed in a state."""
        return [int(action) for action in self.mdp.actions(handle)]

    def action_name(self, action: Any, handle: int) -> str:
        """Return the action's label or id."""
        return self.mdp.action_name(action)

    def state_name(self, state: Any) -> str:
        """Return the state's label or index."""
        return self.mdp.state_name(state)

    def fail(self, handle: int, position: int, step: int) -> NoReturn:
        """Raise: a checked table fails only where a state has no action."""
        fail_in_dead_end(self.mdp, handle, step)
        raise SimulatorError(f"no action is allowed below state {self.mdp.state_name(handle)}, reached at step {step}")


RAW, RESCALED, CUSTOM = 0, 1, 2


class AccruedData(NamedTuple):
    """A table, the pairs met so far, and a utility of the total cost."""

    table: TableData
    store: InternStore  # of (state, accrued bits)
    words: NDArray[np.int64]  # (2,) scratch
    powers: NDArray[np.float64]  # (H + 1,) discount ** h
    horizon: int
    kind: int
    beta: float
    reference: float
    sign: float  # of a custom utility: -1 where the model has rewards
    custom: Any  # address of a C function double(double), 0 if none (uncompiled: the function itself)


_rescaled = inlined(utility)


@inlined
def _utility(model, total):  # type: ignore[no-untyped-def]
    """Return the utility of a total cost, to be minimised; NaN where it overflows or the function fails."""
    if model.kind == CUSTOM:
        return model.sign * call_number(model.custom, model.sign * total)
    exponent = model.beta * (total - model.reference)
    if exponent > EXP_LIMIT:
        return math.nan
    if model.kind == RAW:
        return math.copysign(math.exp(exponent), model.beta)
    return _rescaled(total - model.reference, model.beta)


def count_accrued_actions(model, state):  # type: ignore[no-untyped-def]
    """Return the number of actions of the state in a pair."""
    index = model.store.words[state, 0]
    return model.table.action_offsets[index + 1] - model.table.action_offsets[index]


def take_accrued_step(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    """Draw the outcome of an action; only the step that ends the episode charges, the utility of the total."""
    table = model.table
    target, cost = draw_step(table, table.action_offsets[model.store.words[state, 0]] + action, h, stream)
    accrued = bits_float(model.store.words[state, 1]) + model.powers[h] * cost
    over = target < 0
    if over:
        target = -1 - target
    status, charged = GO_ON, 0.0
    if over or h + 1 == model.horizon:
        total = accrued
        if not over:
            total += model.powers[h + 1] * table.terminal_losses[target]
        charged = _utility(model, total)
        if not abs(charged) < math.inf:
            return np.int64(state), charged, FAILED
        if over:
            status = DONE
    model.words[0] = target
    model.words[1] = float_bits(accrued + 0.0)
    fresh = intern(model.store, model.words)
    if fresh == FULL_STORE:
        return np.int64(state), 0.0, FULL
    return fresh, charged, status


def accrued_end_cost(model, state):  # type: ignore[no-untyped-def]
    """Return 0: the last step has charged already."""
    return 0.0


def roll_out_accrued(model, state, h, horizon, discount, stream):  # type: ignore[no-untyped-def]
    """Return the utility of the total that a uniformly random policy reaches."""
    table = model.table
    index, total = model.store.words[state, 0], bits_float(model.store.words[state, 1])
    steps, status = 0, GO_ON
    while h < horizon:
        row = table.action_offsets[index]
        number = table.action_offsets[index + 1] - row
        if number == 0:
            return total, steps, FAILED
        index, cost = draw_step(table, row + draw_index(stream, number), h, stream)
        total += model.powers[h] * cost
        steps += 1
        h += 1
        if index < 0:
            status = DONE
            break
    if status == GO_ON:
        total += model.powers[h] * table.terminal_losses[index]
    value = _utility(model, total)
    return value, steps, status if abs(value) < math.inf else FAILED


register_kernel_model(AccruedData, count_accrued_actions, take_accrued_step, accrued_end_cost, roll_out_accrued)


class AccruedInterface(WordStates):
    """The accrued-cost view of a table bound to the kernel: handles are interned (state, accrued) pairs."""

    def __init__(self, view: AccruedView) -> None:
        self.view, self.mdp = view, view.model
        self._callback: Callback | None = None
        utility = view.utility
        kind, beta, reference, custom = CUSTOM, 0.0, 0.0, 0
        if isinstance(utility, ExponentialUtility):
            kind, beta = (RAW, utility.beta) if utility.reference is None else (RESCALED, utility.beta)
            reference = float(view.signed(utility.reference or 0.0))
        else:
            custom = self._make_custom(utility)
        self.data = AccruedData(
            self.mdp.data, new_store(2), np.zeros(2, np.int64), view.powers, view.horizon, kind, beta, reference,
            -1.0 if view.sense == "reward" else 1.0, custom,
        )  # fmt: skip

    @property
    def is_parallel(self) -> bool:  # type: ignore[override]
        """Whether nothing runs in Python: the utility is one of the library's, or compiled."""
        return self._callback is None

    def _make_custom(self, utility: Any) -> Any:
        compiled = None if DISABLE_JIT else compile_function(utility)
        if compiled is not None:
            return int(compiled.address)
        self._callback = Callback(utility)
        return self._callback if DISABLE_JIT else self._callback.address

    def handle(self, state: Any) -> int:
        """Return the handle of a (state, accrued) pair; the accrued part is in the table's own sense."""
        return self._handle_of([self.mdp.find_state(state[0]), float_word(float(self.mdp.signed(state[1])))])

    def state(self, handle: int) -> tuple[int, float]:
        """Return the (state, accrued) pair of a handle."""
        state, bits = self.data.store.words[handle]
        return int(state), float(self.mdp.signed(word_float(int(bits))))

    def actions(self, handle: int) -> list[object]:
        """Return the ids of the actions allowed in a state."""
        return [int(action) for action in self.mdp.actions(int(self.data.store.words[handle, 0]))]

    def action_name(self, action: Any, handle: int) -> str:
        """Return the action's label or id."""
        return self.view.action_name(action)

    def state_name(self, state: Any) -> str:
        """Return the state's label or index, with the accrued cost."""
        return self.view.state_name(state)

    def try_out(self, handle: int, step: int) -> None:
        """Ask the utility for the total of an episode."""
        state: Any = self.state(handle)
        done, rng = isinstance(self.view.utility, ExponentialUtility), generator(0)
        while not done and step < self.view.horizon:
            actions = self.mdp.actions(state[0])
            state, _, done = self.view.step(state, actions[int(rng.random() * len(actions))], rng, step)
            step += 1

    def fail(self, handle: int, position: int, step: int) -> NoReturn:
        """Raise the error behind a failed iteration."""
        where = f"below state {self.state_name(self.state(handle))}"
        fail_in_dead_end(self.mdp, int(self.data.store.words[handle, 0]), step)
        if self._callback is not None and self._callback.error is not None:
            error, self._callback.error = self._callback.error, None
            if not isinstance(error, Exception):
                raise error
            raise SimulatorError(f"the utility raised {type(error).__name__}: {error} ({where})") from error
        if isinstance(self.view.utility, ExponentialUtility):
            raise self.view.utility.overflow(f"reached {where}")
        raise SimulatorError(
            f"the utility raised an exception or gave NaN or inf for a total reached {where}; it must be finite on "
            "all totals that the model can produce"
        )

    @property
    def num_bytes(self) -> int:
        """Memory of the pairs."""
        return int(self.data.store.num_bytes)
