"""What the compiled search asks of a model: four functions, chosen by the type of its data.

A model reaches the kernel as a NamedTuple. Inside the tree a state is one integer: a table's state
index, or a simulator's handle of an interned state. Each kind of model registers

    count_actions(model, state) -> n                 (0 or less: error)
    take_step(model, state, action, h, stream) -> (next_state, cost, status)
    end_cost(model, state) -> cost                   (charged when step H is reached)
    roll_out(model, state, h, horizon, discount, stream) -> (cost_to_go, steps, status)

``action`` is the position 0..n-1 among the state's actions; costs are costs (never rewards);
``status`` is GO_ON, DONE, or an error below 0. The kernel is written once; numba compiles it
once per kind, and caches both on disk. Uncompiled, the same functions dispatch on the type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.extending import overload

from tailwise._jit import inlined
from tailwise._random import next_double
from tailwise.models.table_data import TableData

GO_ON, DONE, FAILED, FULL = 0, 1, -1, -2

_KINDS: dict[type, tuple[Callable[..., Any], ...]] = {}


def register_world(
    kind: type,
    count_actions: Callable[..., Any],
    take_step: Callable[..., Any],
    end_cost: Callable[..., Any],
    roll_out: Callable[..., Any],
) -> None:
    """Make models whose data is a ``kind`` (a NamedTuple class) known to the search."""
    _KINDS[kind] = (count_actions, take_step, end_cost, roll_out)


def count_actions(model: Any, state: Any) -> Any:
    """Number of actions in ``state``."""
    return _KINDS[type(model)][0](model, state)


def take_step(model: Any, state: Any, action: Any, h: Any, stream: Any) -> Any:
    """Draw the outcome of an action."""
    return _KINDS[type(model)][1](model, state, action, h, stream)


def end_cost(model: Any, state: Any) -> Any:
    """Terminal cost of ``state``."""
    return _KINDS[type(model)][2](model, state)


def roll_out(model: Any, state: Any, h: Any, horizon: Any, discount: Any, stream: Any) -> Any:
    """Cost-to-go of a default policy, followed from step ``h`` to the horizon."""
    return _KINDS[type(model)][3](model, state, h, horizon, discount, stream)


_OPTIONS = {"nogil": True, "error_model": "numpy", "forceinline": True}


@overload(count_actions, jit_options=_OPTIONS)
def _count_actions(model, state):  # type: ignore[no-untyped-def]
    return _KINDS[model.instance_class][0]


@overload(take_step, jit_options=_OPTIONS)
def _take_step(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    return _KINDS[model.instance_class][1]


@overload(end_cost, jit_options=_OPTIONS)
def _end_cost(model, state):  # type: ignore[no-untyped-def]
    return _KINDS[model.instance_class][2]


@overload(roll_out, jit_options=_OPTIONS)
def _roll_out(model, state, h, horizon, discount, stream):  # type: ignore[no-untyped-def]
    return _KINDS[model.instance_class][3]


@inlined
def draw_index(stream, size):  # type: ignore[no-untyped-def]
    """Uniform draw from 0..size-1; draws nothing when there is no choice."""
    if size == 1:
        return 0
    return int(next_double(stream) * size)


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


def _table_count_actions(model, state):  # type: ignore[no-untyped-def]
    return model.action_offsets[state + 1] - model.action_offsets[state]


def _table_take_step(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    row = model.action_offsets[state] + action
    k = draw_outcome(model, row, stream)
    cost = model.losses[k]
    if model.step_losses.size:
        cost += model.step_losses[h, row]
    target = model.targets[k]
    if target < 0:
        return -1 - target, cost, DONE
    return target, cost, GO_ON


def _table_end_cost(model, state):  # type: ignore[no-untyped-def]
    return model.terminal_losses[state]


def _table_roll_out(model, state, h, horizon, discount, stream):  # type: ignore[no-untyped-def]
    total, factor, steps = 0.0, 1.0, 0
    while h < horizon:
        row = model.action_offsets[state]
        row += draw_index(stream, model.action_offsets[state + 1] - row)
        k = draw_outcome(model, row, stream)
        cost = model.losses[k]
        if model.step_losses.size:
            cost += model.step_losses[h, row]
        total += factor * cost
        steps += 1
        target = model.targets[k]
        if target < 0:
            return total, steps, DONE
        state = target
        factor *= discount
        h += 1
    return total + factor * model.terminal_losses[state], steps, GO_ON


register_world(TableData, _table_count_actions, _table_take_step, _table_end_cost, _table_roll_out)

__all__ = [
    "DONE",
    "FAILED",
    "FULL",
    "GO_ON",
    "count_actions",
    "draw_index",
    "end_cost",
    "register_world",
    "roll_out",
    "take_step",
]
