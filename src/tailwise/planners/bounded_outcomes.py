"""Where bounded RTDP reads outcomes: a table as it is, or the part of a simulator that was asked for.

A simulator's step does not depend on the step index, so its outcomes are listed once for each state. Listing fills a
table that compiled trials read; they stop where it has a gap and go on when it is filled.
"""

from __future__ import annotations

import copy
from typing import Any, NoReturn, Protocol

import numpy as np

from tailwise._values import refilled
from tailwise.bindings.portable import require_portable
from tailwise.bindings.sizes import RunningSize
from tailwise.bindings.table import TableBinding
from tailwise.errors import ModelError, OptionError, StateError
from tailwise.models import TabularMDP
from tailwise.models.simulator import (
    action_label,
    cost_fault,
    model_name,
    own_method,
    short,
    state_fault,
    validate_simulator,
)
from tailwise.models.tabulate import ask
from tailwise.planners.bounded_kernels import OutcomeTable

_PER_OUTCOME = ("probabilities", "losses", "next_states", "done")


def read_only(table: OutcomeTable) -> OutcomeTable:
    """Return views that cannot be written: one type for the compiler, whatever the model."""
    views = [array.view() for array in table]
    for view in views:
        view.setflags(write=False)
    return OutcomeTable._make(views)


class Listing(Protocol):
    """A model whose outcomes can be read: its states are handles, its actions rows of a table."""

    @property
    def table(self) -> OutcomeTable:
        """What the kernels read."""
        ...

    def handle(self, state: Any) -> int:
        """Return the handle of a user's state, or raise ``StateError``."""
        ...

    def state(self, handle: int) -> Any:
        """Return the user's state of a handle."""
        ...

    def actions(self, handle: int) -> list[Any]:
        """Return the user's actions in a state, in the order of the rows."""
        ...

    def action_name(self, action: Any, handle: int) -> str:
        """Return the name to show for an action in a state."""
        ...

    def state_name(self, state: Any) -> str:
        """Return the name to show for a state."""
        ...

    def fail(self, handle: int, position: int, step: int) -> NoReturn:
        """Raise the error behind a state without actions."""
        ...

    @property
    def bytes(self) -> int:
        """Memory that the listing takes besides the model's own."""
        ...

    def memory(self) -> dict[str, Any]:
        """Return what is known beside the model's own; what a file keeps."""
        ...

    def recall(self, memory: dict[str, Any]) -> None:
        """Know what another listing knew, with its handles."""
        ...

    @property
    def widths(self) -> tuple[int, int]:
        """Most actions of a state and most outcomes of an action, so far."""
        ...

    def list_outcomes(self, handle: int) -> None:
        """Fill the rows of a state."""
        ...

    def list_terminal_cost(self, handle: int) -> None:
        """Fill the terminal cost of a state."""
        ...


class TableListing(TableBinding):
    """A table: everything is there from the start."""

    def __init__(self, mdp: TabularMDP) -> None:
        mdp.require_sound()
        self.mdp = mdp  # without the arrays that only samplers read
        self.table = read_only(
            OutcomeTable(
                mdp.action_offsets[:-1], mdp.action_offsets[1:], mdp.outcome_offsets, mdp.probabilities, mdp.losses,
                mdp.next_states, mdp.done, mdp.step_losses, mdp.terminal_losses,
            )
        )  # fmt: skip

        self.widths = int(np.diff(mdp.action_offsets).max()), int(np.diff(mdp.outcome_offsets).max())

    bytes = 0

    def list_outcomes(self, handle: int) -> None:
        """Nothing is left to list."""

    def list_terminal_cost(self, handle: int) -> None:
        """Nothing is left to list."""


class SimulatorListing:
    """The states of a simulator that were met, and the outcomes of those that were asked for.

    Parameters
    ----------
    model : Simulator or object with its methods
        It must define ``outcomes(state, action)``.
    step_range : (float, float)
        Costs that a step may have (in costs, not rewards); one outside is an error.
    terminal_range : (float, float)
        The same for terminal costs.
    """

    def __init__(self, model: Any, step_range: tuple[float, float], terminal_range: tuple[float, float]) -> None:
        validate_simulator(model)
        if own_method(model, "outcomes") is None:
            raise ModelError(
                f"{model_name(model)} has no outcomes(state, action), which bounded RTDP needs; search it with ErmMcts"
            )
        self.model = model
        self._ranges = {"outcomes": step_range, "terminal_cost": terminal_range}
        self._sign = 1.0 if model.sense == "cost" else -1.0
        self._canonical = getattr(model, "canonical", None)
        self._terminal = own_method(model, "terminal_cost")
        self._index: dict[Any, int] = {}
        self._states: list[Any] = []
        self._size = RunningSize()  # of the states
        self._actions: dict[int, list[Any]] = {}
        self._ahead: list[int] = []  # by state: for how many steps all that it reaches is listed; -1 for none
        self._rows = self._outcomes = 0
        self.widths = 1, 1
        none = np.zeros(0, np.int64)
        self._room = OutcomeTable(
            none, none, np.zeros(1, np.int64), np.zeros(0), np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.bool_),
            np.zeros((0, 0)), np.zeros(0),
        )  # fmt: skip

    def copy(self) -> SimulatorListing:
        """Return a listing that knows the same and goes on by itself."""
        other = copy.copy(self)
        other._index, other._states, other._actions = self._index.copy(), self._states.copy(), self._actions.copy()
        other._ahead, other._size = self._ahead.copy(), copy.copy(self._size)
        other._room = OutcomeTable._make(array.copy() for array in self._room)
        return other

    def memory(self) -> dict[str, Any]:
        """Return the states met, if a file can hold them, and their outcomes."""
        require_portable(self._states, 0, self.model)
        sizes = self._rows, self._outcomes, *self.widths
        return {"states": self._states, "ahead": self._ahead, "sizes": sizes, "room": tuple(self._room)}

    def recall(self, memory: dict[str, Any]) -> None:
        """Know the states and outcomes that another listing knew."""
        self._states, self._ahead = memory["states"], memory["ahead"]
        self._index = {state: handle for handle, state in enumerate(self._states)}
        self._size = RunningSize()
        for state in self._states:
            self._size.add(state)
        self._actions = {}
        self._rows, self._outcomes, *widths = memory["sizes"]
        self.widths = widths[0], widths[1]
        self._room = refilled(self._room, iter(memory["room"]))

    @property
    def table(self) -> OutcomeTable:
        """What is known so far, with spare room at the ends of the arrays."""
        return read_only(self._room)

    def known(self) -> OutcomeTable:
        """What is known so far, without spare room."""
        states, room = len(self._states), self._room
        per_state = {name: getattr(room, name)[:states] for name in ("first_rows", "last_rows", "terminal_losses")}
        per_outcome = {name: getattr(room, name)[: self._outcomes] for name in _PER_OUTCOME}
        return read_only(room._replace(offsets=room.offsets[: self._rows + 1], **per_state, **per_outcome))

    def handle(self, state: Any) -> int:
        """Return the handle of a state, known or new."""
        fault = state_fault(state)
        if fault:
            raise StateError(f"state {fault}")
        return self._intern(state)

    def _intern(self, state: Any) -> int:
        if self._canonical is not None:
            state = self._canonical(state)
        handle = self._index.setdefault(state, len(self._states))
        if handle == len(self._states):
            self._states.append(state)
            self._size.add(state)
            self._reserve("first_rows", handle + 1, -1)
            self._reserve("last_rows", handle + 1, 0)
            self._reserve("terminal_losses", handle + 1, np.nan)
        return handle

    def state(self, handle: int) -> Any:
        """Return the state of a handle."""
        return self._states[handle]

    def actions(self, handle: int) -> list[Any]:
        """Return the actions allowed in a state, as the simulator names them."""
        if handle not in self._actions:
            self._actions[handle] = ask(self.model, "actions", self._states[handle])
        return self._actions[handle]

    def action_name(self, action: Any, handle: int) -> str:
        """Return the simulator's own name for an action, or its text."""
        return action_label(self.model, action, self._states[handle])

    def state_name(self, state: Any) -> str:
        """Return the simulator's own name for a state, or its text."""
        name = getattr(self.model, "state_name", None)
        return short(state) if name is None else str(name(state))

    def fail(self, handle: int, position: int, step: int) -> NoReturn:
        """Raise: never reached, since a state without actions is an error where it is listed."""
        raise ModelError(f"no action is allowed in state {self.state_name(self._states[handle])}")

    def list_outcomes(self, handle: int) -> None:
        """Fill the rows of a state."""
        state, allowed = self._states[handle], self.actions(handle)
        listed = [ask(self.model, "outcomes", state, action) for action in allowed]
        first = row = self._rows
        kept = self._outcomes
        self._reserve("offsets", row + len(listed) + 1, 0)
        for name in _PER_OUTCOME:
            self._reserve(name, kept + sum(map(len, listed)), 0)
        for action, entries in zip(allowed, listed, strict=True):
            self._check(state, action, entries)
            for probability, target, cost, done in entries:
                if probability > 0.0:
                    following = handle if done else self._intern(target)  # may replace arrays of the table
                    room = self._room
                    room.probabilities[kept], room.losses[kept] = probability, self._sign * cost
                    room.next_states[kept], room.done[kept] = following, bool(done)
                    kept += 1
            row += 1
            self._room.offsets[row] = kept
        self._rows, self._outcomes = row, kept
        self.widths = max(self.widths[0], len(listed)), max(self.widths[1], *map(len, listed))
        self._room.first_rows[handle], self._room.last_rows[handle] = first, row

    def _check(self, state: Any, action: Any, entries: list[Any]) -> None:
        """Raise ``ModelError`` where probabilities are none, or a cost lies outside the range it was said to have."""
        where = f"outcomes({short(state)}, {short(action)}) of {model_name(self.model)}"
        chances = [entry[0] for entry in entries]
        if not all(chance >= 0.0 for chance in chances) or not abs(sum(chances) - 1.0) <= 1e-6:
            raise ModelError(f"{where}: probabilities {short(chances)} must not be negative and must sum to 1")
        for entry in entries:
            self._check_range("outcomes", entry[2], where)

    def _check_range(self, kind: str, value: float, where: str) -> None:
        low, high = self._ranges[kind]
        if not low <= self._sign * value <= high:
            given = sorted((self._sign * low, self._sign * high))
            option = "bounds" if kind == "outcomes" else "terminal_bounds"
            raise OptionError(f"{where} holds {value:g}, outside {option}=({given[0]:g}, {given[1]:g}); widen them")

    def list_terminal_cost(self, handle: int) -> None:
        """Fill the terminal cost of a state."""
        value, state = 0.0, self._states[handle]
        if self._terminal is not None:
            where = f"terminal_cost({short(state)}) of {model_name(self.model)}"
            try:
                value = self._terminal(state)
            except Exception as error:
                raise ModelError(f"{where} raised {type(error).__name__}: {error}") from error
            fault = cost_fault(value)
            if fault:
                raise ModelError(f"{where}: its value {fault}")
            self._check_range("terminal_cost", value, where)
        self._room.terminal_losses[handle] = self._sign * value

    def list_ahead(self, handle: int, steps: int, max_states: int) -> bool:
        """List all that a state can reach in so many steps; return whether anything was new.

        Raises
        ------
        OptionError
            If there are more than ``max_states``.
        """
        listed, level = self._outcomes, np.array([handle])
        for left in range(steps, -1, -1):
            self._ahead += [-1] * (len(self._states) - len(self._ahead))
            level = level[[self._ahead[state] < left for state in level]]
            for state in level.tolist():
                self._ahead[state] = left
                self.list_terminal_cost(state)
                if left and self._room.first_rows[state] < 0:
                    self.list_outcomes(state)
                if len(self._states) > max_states:
                    raise OptionError(
                        f"{model_name(self.model)} reaches over max_states={max_states} states, too many to look for "
                        "its largest cost: give bounds=(least, greatest) of a step, or a function of (state, h)"
                    )
            if not left or not level.size:
                break
            room = self._room
            rows = [slice(room.offsets[room.first_rows[k]], room.offsets[room.last_rows[k]]) for k in level]
            level = np.unique(np.concatenate([room.next_states[k][~room.done[k]] for k in rows]))
        return self._outcomes > listed

    @property
    def bytes(self) -> int:
        """Memory of the arrays and of the states, these estimated."""
        return sum(array.nbytes for array in self._room) + int(self._size.total)

    def _reserve(self, name: str, size: int, fill: float) -> None:
        """Let an array of the table hold ``size`` entries."""
        array = getattr(self._room, name)
        if array.size < size:
            larger = np.full(2 * size, fill, array.dtype)
            larger[: array.size] = array
            self._room = self._room._replace(**{name: larger})
