"""One step of a model, free of what depends on the step: what outcome counts may be shared across steps.

A table with costs per step draws an outcome at its row's constant cost; what the step adds is an
offset, known exactly. Everything else takes the step as the kernel model gives it.
"""

from __future__ import annotations

import numpy as np

from tailwise._jit import ChosenByKind, borrowed, inlined
from tailwise.bindings.kernel_model import DONE, GO_ON, end_cost, take_step
from tailwise.bindings.table import draw_outcome as draw_of_table
from tailwise.models.table_data import TableData


@ChosenByKind
def draw_step(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    """Draw (next state, cost without the step's offset, status)."""
    return take_step(model, state, action, h, stream)


@ChosenByKind
def cost_offset(model, state, action, h):  # type: ignore[no-untyped-def]
    """What step ``h`` adds to every cost of an action."""
    return 0.0


def _table_draw(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    k = draw_of_table(model, model.action_offsets[state] + action, stream)
    target = model.targets[k]
    if target < 0:
        return -1 - target, model.losses[k], DONE
    return target, model.losses[k], GO_ON


def _table_offset(model, state, action, h):  # type: ignore[no-untyped-def]
    if model.step_losses.size:
        return model.step_losses[h, model.action_offsets[state] + action]
    return 0.0


@inlined
def draw_outcome(model, state, action, h, horizon, discount, stream):  # type: ignore[no-untyped-def]
    """Draw (next state, -1 where the episode ends; cost without the step's offset, with what the end costs; status)."""
    target, cost, status = draw_step(model, state, action, h, stream)
    if status == GO_ON and h + 1 == horizon:
        return np.int64(-1), cost + discount * end_cost(model, target), np.int64(DONE)
    return np.int64(-1 if status == DONE else target), cost, np.int64(status)


def play_step(model, state, action, h, horizon, discount, stream):  # type: ignore[no-untyped-def]
    """The same with the step's offset: (next state or -1, cost without it, offset, status)."""
    model, stream = borrowed(model), borrowed(stream)
    target, cost, status = draw_outcome(model, state, action, h, horizon, discount, stream)
    return target, cost, cost_offset(model, state, action, h), status


draw_step.register(TableData, _table_draw)
cost_offset.register(TableData, _table_offset)
