"""Tables bound to the kernel: a state is its index."""

from __future__ import annotations

from typing import Any, NoReturn

from tailwise._jit import inlined
from tailwise._random import next_double
from tailwise.bindings.kernel_model import DONE, FAILED, GO_ON, ModelInterface, draw_index, register_kernel_model
from tailwise.errors import SimulatorError
from tailwise.models import TabularMDP
from tailwise.models.check_table import fail_in_dead_end
from tailwise.models.table import TableData


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
