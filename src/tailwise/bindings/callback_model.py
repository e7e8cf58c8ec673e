"""Simulators as the compiled kernel sees them: three addresses, and the memory they answer in.

A simulator reaches the kernel as a :class:`CallbackModel`. Its functions are plain addresses with one
signature, so that the kernel is compiled once for all simulators and cached on disk; a
compiled simulator supplies machine code, a Python one a C callback. Before each call the kernel marks the
answer as failed: a function that dies half-way has answered "failed".

Memory shared with the functions: ``integers`` and ``numbers``, whose entries are named below. The
functions find everything through ``context``, the address of ``integers``. A compiled
simulator reads its state's words from the store and leaves the next state's in ``scratch``, which the
kernel interns; a Python one interns for itself and answers with the handle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import inlined
from tailwise._random import next_double
from tailwise.bindings.callbacks import call_words
from tailwise.bindings.intern import InternStore, intern
from tailwise.bindings.kernel_model import DONE, FAILED, FULL, GO_ON, register_kernel_model
from tailwise.bindings.widening import (
    Widened,
    begin_step,
    find_record,
    note_visit,
    store_outcome,
    takes_again,
)

# Entries of ``integers``.
STATUS, NEXT, STEPS, HORIZON = 0, 1, 2, 3
WORDS, SCRATCH, NUMBERS = 4, 5, 6  # addresses
FAULT, FAULT_ACTION, FAULT_STEP = 7, 8, 9  # what a compiled simulator was doing when it failed
GENERATOR = 10  # address of the state, state, next_uint64, next_uint32, next_double, bit generator
SAVED_STREAM = 16  # the generator's state (5 words) before the last step
INTEGERS_SIZE = 24
# Entries of ``numbers``.
COST, DISCOUNT = 0, 1
NUMBERS_SIZE = 4


class CallbackModel(NamedTuple):
    """A simulator's data for the kernel; see the module's docstring."""

    count: Any  # address of (context, state, 0, 0): number of actions to integers[NEXT]
    step: Any  # address of (context, state, action, h): integers[STATUS, NEXT], numbers[COST]
    roll: Any  # address of (context, state, 0, h): integers[STATUS, STEPS], numbers[COST]
    context: int
    integers: NDArray[np.int64]
    numbers: NDArray[np.float64]
    scratch: NDArray[np.int64]  # (width,) words of the next state; empty for Python simulators
    store: InternStore
    widened: Widened


def _count_actions(model, state):  # type: ignore[no-untyped-def]
    model.integers[STATUS] = FAILED
    call_words(model.count, model.context, state, 0, 0)
    if model.integers[STATUS] < 0:
        return np.int64(0)
    return model.integers[NEXT]


@inlined
def _draw_step(model, state, action, h):  # type: ignore[no-untyped-def]
    model.integers[STATUS] = FAILED
    call_words(model.step, model.context, state, action, h)
    status = model.integers[STATUS]
    cost = model.numbers[COST]
    if status != GO_ON:
        return np.int64(state), cost, status
    if model.scratch.size == 0:
        return model.integers[NEXT], cost, status
    target = intern(model.store, model.scratch)
    if target < 0:
        return np.int64(state), cost, np.int64(FULL)
    return target, cost, status


def _take_step(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    if model.widened.limits.size == 0:
        return _draw_step(model, state, action, h)
    widened = model.widened
    begin_step(widened, h)
    last = h + 1 == model.integers[HORIZON]  # its outcomes hold the terminal cost: kept apart
    record = find_record(widened, state, -1 - action if last else action)
    if record < 0:
        return np.int64(state), 0.0, np.int64(FULL)
    held = widened.held[record]
    if takes_again(widened.limits, widened.visits[record] + 1, held):
        slot = widened.first[record]
        if held > 1:
            slot += np.int64(next_double(stream) * held)
        target = widened.targets[slot]
        note_visit(widened, record, 0)
        if target < 0:
            return np.int64(state), widened.costs[slot], np.int64(DONE)
        return target, widened.costs[slot], np.int64(GO_ON)
    target, cost, status = _draw_step(model, state, action, h)
    if status < 0:
        return target, cost, status
    kept = np.int64(-1) if status == DONE else target
    if not store_outcome(widened, record, kept, cost):
        return np.int64(state), cost, np.int64(FULL)
    note_visit(widened, record, 1)
    return target, cost, status


def _end_cost(model, state):  # type: ignore[no-untyped-def]
    return 0.0  # step H is charged by the step that reaches it


def _roll_out(model, state, h, horizon, discount, stream):  # type: ignore[no-untyped-def]
    model.integers[STATUS] = FAILED
    call_words(model.roll, model.context, state, 0, h)
    return model.numbers[COST], model.integers[STEPS], model.integers[STATUS]


register_kernel_model(CallbackModel, _count_actions, _take_step, _end_cost, _roll_out)
