"""The outcomes of a model as kernels read them, and the range of what they can cost.

A table's outcomes are there from the start. A simulator's are listed once for each state that is asked for (its step
does not depend on the step index): kernels stop where the arrays have a gap, and go on when it is filled.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, NoReturn, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import kernel
from tailwise._validate import real
from tailwise._values import refilled
from tailwise.bindings.intern import KnownStates
from tailwise.bindings.kernel_model import ModelInterface
from tailwise.bindings.table import TableInterface
from tailwise.errors import ModelError, OptionError, StateError
from tailwise.models import TabularMDP
from tailwise.models.contract import short, state_fault
from tailwise.models.simulator import action_label, model_name, own_method, state_label, validate_simulator
from tailwise.models.tabulate import ask, ask_terminal_cost

Range: TypeAlias = tuple[float, float]
Bounds: TypeAlias = Range | Callable[[Any, int], Range]

ANY: Range = (-math.inf, math.inf)
_PER_STATE = {"first_rows": -1, "last_rows": 0, "terminal_losses": math.nan}
_PER_OUTCOME = ("probabilities", "losses", "next_states", "done")


class OutcomeTable(NamedTuple):
    """Outcomes by state, in arrays that kernels only read; those of a simulator are filled in as they are needed."""

    first_rows: NDArray[np.int64]  # (S,) first row (action) of a state, -1 where its outcomes are not known yet
    last_rows: NDArray[np.int64]  # (S,) one past its last row
    offsets: NDArray[np.int64]  # (R + 1,) first outcome of a row
    probabilities: NDArray[np.float64]  # (O,)
    losses: NDArray[np.float64]  # (O,)
    next_states: NDArray[np.int32]  # (O,)
    done: NDArray[np.bool_]  # (O,) whether the episode ends there
    step_losses: NDArray[np.float64]  # (H, R) or (0, 0)
    terminal_losses: NDArray[np.float64]  # (S,) NaN where not known yet


def _read_only(table: OutcomeTable) -> OutcomeTable:
    """Return views that cannot be written: one type for the compiler, whatever the model."""
    views = [array.view() for array in table]
    for view in views:
        view.setflags(write=False)
    return OutcomeTable._make(views)


class TableOutcomes(TableInterface):
    """A table: nothing is left to list."""

    def __init__(self, mdp: TabularMDP) -> None:
        mdp.require_sound()
        self.mdp = mdp  # without the arrays that only samplers read
        self.table = _read_only(
            OutcomeTable(
                mdp.action_offsets[:-1], mdp.action_offsets[1:], mdp.outcome_offsets, mdp.probabilities, mdp.losses,
                mdp.next_states, mdp.done, mdp.step_losses, mdp.terminal_losses,
            )
        )  # fmt: skip
        self.max_branching = int(np.diff(mdp.action_offsets).max()), int(np.diff(mdp.outcome_offsets).max())

    def known(self) -> OutcomeTable:
        """Return the table."""
        return self.table

    def copy(self) -> Self:
        """Return itself: it never changes."""
        return self

    def list_outcomes(self, handle: int) -> None:
        """Nothing is left to list."""

    def list_terminal_cost(self, handle: int) -> None:
        """Nothing is left to list."""


class SimulatorOutcomes(ModelInterface):
    """The states of a simulator that were met, and the outcomes of those that were asked for."""

    def __init__(self, model: Any, step_range: Range, terminal_range: Range) -> None:
        validate_simulator(model)
        if own_method(model, "outcomes") is None:
            raise ModelError(
                f"{model_name(model)} has no outcomes(state, action), which bounded RTDP needs; search it with ErmMcts"
            )
        self.model = model
        self._ranges = {"outcomes": step_range, "terminal_cost": terminal_range}  # of costs: others are errors
        self._sign = 1.0 if model.sense == "cost" else -1.0
        self._canonical = getattr(model, "canonical", None)
        self._known = KnownStates()
        self._ahead: list[int] = []  # by state: for how many steps all that it reaches is listed; -1 for none
        self._rows = self._outcomes = 0
        self.max_branching = 1, 1  # most actions of a state, and outcomes of an action, so far
        none = np.zeros(0, np.int64)
        self._arrays = OutcomeTable(
            none, none, np.zeros(1, np.int64), np.zeros(0), np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.bool_),
            np.zeros((0, 0)), np.zeros(0),
        )  # fmt: skip

    def copy(self) -> Self:
        """Return a model that knows the same outcomes and goes on by itself."""
        other = copy.copy(self)
        other._known, other._ahead = self._known.copy(), self._ahead.copy()
        other._arrays = OutcomeTable._make(array.copy() for array in self._arrays)
        return other

    def state_dict(self) -> dict[str, object]:
        """Return the states met and their outcomes."""
        sizes, room = (self._rows, self._outcomes, *self.max_branching), tuple(one.copy() for one in self._arrays)
        return {**self._known.state_dict(), "ahead": list(self._ahead), "sizes": sizes, "room": room}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Know the states and outcomes that another one knew."""
        self._known, self._ahead = KnownStates.loaded(state), state["ahead"]
        self._rows, self._outcomes, *most = state["sizes"]
        self.max_branching = most[0], most[1]
        self._arrays = refilled(self._arrays, iter(state["room"]))

    def require_portable(self) -> None:
        """Raise if a file cannot hold one of the states; names it."""
        self._known.require_portable(self.model)

    @property
    def table(self) -> OutcomeTable:
        """What is known so far, with spare room at the ends of the arrays."""
        return _read_only(self._arrays)

    def known(self) -> OutcomeTable:
        """Return what is known so far, without spare room."""
        states, arrays = len(self._known.states), self._arrays
        per_state = {name: getattr(arrays, name)[:states] for name in _PER_STATE}
        per_outcome = {name: getattr(arrays, name)[: self._outcomes] for name in _PER_OUTCOME}
        return _read_only(arrays._replace(offsets=arrays.offsets[: self._rows + 1], **per_state, **per_outcome))

    @property
    def num_bytes(self) -> int:
        """Memory of the arrays and of the states, these estimated."""
        return sum(array.nbytes for array in self._arrays) + self._known.num_bytes

    def handle(self, state: Any) -> int:
        """Return the handle of a state, known or new."""
        fault = state_fault(state)
        if fault:
            raise StateError(f"state {fault}")
        return self._intern(state)

    def _intern(self, state: Any) -> int:
        if self._canonical is not None:
            state = self._canonical(state)
        handle = self._known.index.get(state)
        if handle is None:
            handle = self._known.add(state, math.inf)
            for name, unknown in _PER_STATE.items():
                self._reserve(name, handle + 1, unknown)
        return handle

    def state(self, handle: int) -> Hashable:
        """Return the state of a handle."""
        return self._known.states[handle]

    def actions(self, handle: int) -> list[object]:
        """Return the actions allowed in a state, as the simulator names them."""
        allowed = self._known.actions[handle]
        if allowed is None:
            allowed = self._known.actions[handle] = ask(self.model, "actions", self._known.states[handle])
        return allowed

    def action_name(self, action: Any, handle: int) -> str:
        """Return the simulator's own name for an action, or its text."""
        return action_label(self.model, action, self._known.states[handle])

    def state_name(self, state: Any) -> str:
        """Return the simulator's own name for a state, or its text."""
        return state_label(self.model, state)

    def fail(self, handle: int, position: int, step: int) -> NoReturn:
        """Raise: never reached, since a state without actions is an error where it is listed."""
        raise ModelError(f"no action is allowed in state {self.state_name(self.state(handle))}")

    def list_outcomes(self, handle: int) -> None:
        """Fill the rows of a state."""
        state, allowed = self.state(handle), self.actions(handle)
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
                    arrays = self._arrays
                    arrays.probabilities[kept], arrays.losses[kept] = probability, self._sign * cost
                    arrays.next_states[kept], arrays.done[kept] = following, bool(done)
                    kept += 1
            row += 1
            self._arrays.offsets[row] = kept
        self._rows, self._outcomes = row, kept
        self.max_branching = max(self.max_branching[0], len(listed)), max(self.max_branching[1], *map(len, listed))
        self._arrays.first_rows[handle], self._arrays.last_rows[handle] = first, row

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
        state = self.state(handle)
        value = ask_terminal_cost(self.model, state)
        if own_method(self.model, "terminal_cost") is not None:
            self._check_range("terminal_cost", value, f"terminal_cost({short(state)}) of {model_name(self.model)}")
        self._arrays.terminal_losses[handle] = self._sign * value

    def list_ahead(self, handle: int, steps: int, max_states: int) -> bool:
        """List all that a state can reach in so many steps; return whether anything was new."""
        listed, level = self._outcomes, np.array([handle])
        for left in range(steps, -1, -1):
            self._ahead += [-1] * (len(self._known.states) - len(self._ahead))
            level = level[[self._ahead[state] < left for state in level]]
            for state in level.tolist():
                self._ahead[state] = left
                self.list_terminal_cost(state)
                if left and self._arrays.first_rows[state] < 0:
                    self.list_outcomes(state)
                if len(self._known.states) > max_states:
                    raise OptionError(
                        f"{model_name(self.model)} reaches over max_states={max_states} states, too many to look for "
                        "its largest cost: give bounds=(least, greatest) of a step, or a function of (state, h)"
                    )
            if not left or not level.size:
                break
            arrays = self._arrays
            rows = [slice(arrays.offsets[arrays.first_rows[k]], arrays.offsets[arrays.last_rows[k]]) for k in level]
            level = np.unique(np.concatenate([arrays.next_states[k][~arrays.done[k]] for k in rows]))
        return self._outcomes > listed

    def _reserve(self, name: str, size: int, fill: float) -> None:
        """Let an array of the table hold ``size`` entries."""
        array = getattr(self._arrays, name)
        if array.size < size:
            larger = np.full(2 * size, fill, array.dtype)
            larger[: array.size] = array
            self._arrays = self._arrays._replace(**{name: larger})


OutcomeModel: TypeAlias = TableOutcomes | SimulatorOutcomes


class CostToGo(NamedTuple):
    """Bounds of the risk-to-go of any state, by step: an ERM lies between the least and the greatest total."""

    low: NDArray[np.float64]  # (H + 1,), or (0,) where they are asked for, or not known yet
    high: NDArray[np.float64]
    scale: float  # what totals are told to be equal by


def ranges_of(table: OutcomeTable, horizon: int, discount: float) -> CostToGo:
    """Return bounds from all outcomes of a table."""
    count = horizon if table.step_losses.size else 1
    ranges = [_step_ranges(table, h) for h in range(count)] * (horizon // count)
    terminal = float(table.terminal_losses.min()), float(table.terminal_losses.max())
    return ranges_from([found[:2] for found in ranges], [found[2:] for found in ranges], terminal, discount)


@kernel
def _step_ranges(table, h):  # type: ignore[no-untyped-def]
    """Range of the cost at step ``h`` of outcomes that go on, and of those that end the episode."""
    least, greatest, least_end, greatest_end = math.inf, -math.inf, math.inf, -math.inf
    for row in range(table.offsets.size - 1):
        added = table.step_losses[h, row] if table.step_losses.size else 0.0
        for k in range(table.offsets[row], table.offsets[row + 1]):
            cost = table.losses[k] + added
            if table.done[k]:
                least_end, greatest_end = min(least_end, cost), max(greatest_end, cost)
            else:
                least, greatest = min(least, cost), max(greatest, cost)
    return least, greatest, least_end, greatest_end


def ranges_from(going: list[Range], ending: list[Range], terminal: Range, discount: float) -> CostToGo:
    """Return bounds: ``low[h] = min(least end, least cost + discount low[h + 1])``, ``low[H]`` the least end's cost."""
    low, high = np.empty(len(going) + 1), np.empty(len(going) + 1)
    low[-1], high[-1] = terminal
    for h in range(len(going) - 1, -1, -1):
        low[h] = min(ending[h][0], going[h][0] + discount * low[h + 1])
        high[h] = max(ending[h][1], going[h][1] + discount * high[h + 1])
    margin = 4.0 * np.finfo(np.float64).eps * len(going) * np.maximum(np.abs(low), np.abs(high)).max()
    scale = float(max(abs(low[0]), abs(high[0])))
    return CostToGo(low - margin, high + margin, scale)


@kernel
def size_of_totals(table, horizon, discount, state, step):  # type: ignore[no-untyped-def]
    """Size of the least total from ``state`` on, or of the least worst one; what is not listed is not reached."""
    low, high = table.terminal_losses.copy(), table.terminal_losses.copy()
    for h in range(horizon - 1, step - 1, -1):
        before = np.zeros(low.size), np.zeros(low.size)
        for s in range(low.size):
            first = table.first_rows[s]
            for row in range(first, table.last_rows[s] if first >= 0 else first):
                added = table.step_losses[h, row] if table.step_losses.size else 0.0
                least, most = math.inf, -math.inf
                for k in range(table.offsets[row], table.offsets[row + 1]):
                    paid, target = table.losses[k] + added, table.next_states[k]
                    least = min(least, paid if table.done[k] else paid + discount * low[target])
                    most = max(most, paid if table.done[k] else paid + discount * high[target])
                before[0][s] = least if row == first else min(least, before[0][s])
                before[1][s] = most if row == first else min(most, before[1][s])
        low, high = before
    return max(abs(low[state]), abs(high[state]))


def starting_point(model: Any, bounds: Bounds | None, terminal_bounds: Range | None) -> tuple[OutcomeModel, CostToGo]:
    """Return the outcomes of a model and the bounds to begin with."""
    asked = CostToGo(np.empty(0), np.empty(0), 0.0)
    if isinstance(model, TabularMDP):
        if bounds is not None and not callable(bounds):
            raise OptionError("the costs of a table are known: leave bounds out, or give a function of (state, h)")
        table = TableOutcomes(model)
        return table, asked if bounds is not None else ranges_of(table.table, model.horizon, model.discount)
    if bounds is None or callable(bounds):
        return SimulatorOutcomes(model, ANY, ANY), asked
    step = cost_range(bounds, "bounds", model.sense)
    terminal = 0.0, 0.0
    if own_method(model, "terminal_cost") is not None:
        if terminal_bounds is None:
            raise OptionError(f"{model_name(model)} has terminal costs: give terminal_bounds=(least, greatest) too")
        terminal = cost_range(terminal_bounds, "terminal_bounds", model.sense)
    steps = [step] * int(model.horizon)  # any outcome may end the episode
    return SimulatorOutcomes(model, step, terminal), ranges_from(steps, steps, terminal, model.discount)


def cost_range(given: Any, name: str, sense: str) -> Range:
    """Return a pair (low, high) in the model's sense as a range of costs, or raise ``OptionError``."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise OptionError(f"{name} is {short(given)}; expected a pair (low, high)")
    low, high = real(given[0], f"{name}[0]"), real(given[1], f"{name}[1]")
    if low > high:
        raise OptionError(f"{name} is ({low:g}, {high:g}); the first must not exceed the second")
    return (low, high) if sense == "cost" else (0.0 - high, 0.0 - low)
