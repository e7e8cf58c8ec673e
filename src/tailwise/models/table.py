"""The arrays of a table, what can be read straight off them, and every rule that they can break.

State ``s`` owns the rows ``action_offsets[s]`` to ``action_offsets[s + 1]``, one per allowed action; row ``r`` owns the
outcomes ``outcome_offsets[r]`` to ``outcome_offsets[r + 1]``. Two outcomes with the same next state and different
costs stay two: merging them keeps the mean and falsifies every other risk.

Inside, everything is a *loss*, which is minimised: a cost, or minus a reward. Whatever a user passes or is
shown is in the model's own sense; the arrays of losses are for those who compute with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints
from tailwise._results import Shown
from tailwise.errors import ModelError, SimulatorError
from tailwise.models.contract import LARGEST_COST, SUM_TOLERANCE, Sense, scalar_faults

ARRAYS = {
    "action_offsets": np.int64, "action_ids": np.int64, "outcome_offsets": np.int64, "probabilities": np.float64,
    "next_states": np.int32, "losses": np.float64, "done": np.bool_, "step_losses": np.float64,
    "terminal_losses": np.float64,
}  # fmt: skip

Loss = TypeVar("Loss", float, Floats)


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """The data of a :class:`tailwise.TabularMDP`, which says what each field is.

    The arrays are read-only and the table's own: one that can be written to, here or elsewhere, is copied.
    """

    is_shareable = True  # threads may use it at a time: it keeps nothing of a step

    action_offsets: Ints
    action_ids: Ints
    outcome_offsets: Ints
    probabilities: Floats
    next_states: NDArray[np.int32]
    losses: Floats
    done: NDArray[np.bool_]
    step_losses: Floats
    terminal_losses: Floats
    horizon: Any  # int, or None: no horizon
    discount: float
    start: int
    sense: Sense = "cost"
    state_labels: tuple[str, ...] = ()
    action_labels: tuple[str, ...] = ()
    name: str = "table"
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for name, kind in ARRAYS.items():
            try:
                array: NDArray[Any] = np.asarray(getattr(self, name), dtype=kind, order="C")
            except (TypeError, ValueError) as error:
                raise ModelError(f"{name} of {self.name} must be an array of {kind.__name__}: {error}") from None
            if array.flags.writeable or not array.flags.owndata:
                array = array.copy()
                array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def num_states(self) -> int:
        """Number of states S."""
        return int(self.action_offsets.size - 1)

    @cached_property
    def num_actions(self) -> int:
        """Number of action ids A (the largest id plus 1)."""
        return max(int(self.action_ids.max(initial=-1)) + 1, len(self.action_labels))

    @property
    def num_rows(self) -> int:
        """Number of (state, action) pairs."""
        return int(self.action_ids.size)

    @property
    def num_outcomes(self) -> int:
        """Number of outcomes."""
        return int(self.probabilities.size)

    @cached_property
    def row_states(self) -> Ints:
        """State of each row: int64, shape (rows,)."""
        return np.repeat(np.arange(self.num_states), np.diff(self.action_offsets))

    def rows_of(self, actions: NDArray[np.integer], states: Any = None) -> Ints:
        """Return the rows of action ids in states, by default (..., S) in all: int64; -1 where they are not allowed."""
        states = np.arange(self.num_states) if states is None else states
        index = np.full((self.num_states, self.num_actions + 1), -1, dtype=np.int64)
        index[self.row_states, self.action_ids] = np.arange(self.num_rows)
        known = (actions >= 0) & (actions < self.num_actions)
        return np.asarray(index[states, np.where(known, actions, -1)])

    @property
    def outcome_rows(self) -> Ints:
        """Row of each outcome: int64, shape (outcomes,)."""
        return np.repeat(np.arange(self.num_rows), np.diff(self.outcome_offsets))

    def losses_at(self, h: int, outcomes: Any = slice(None), rows: Any = None) -> Floats:
        """Return the losses at step ``h`` of outcomes and their ``rows``: of all where none are given."""
        losses: Floats = self.losses[outcomes]
        if self.step_losses.size:
            losses = losses + self.step_losses[h, self.outcome_rows if rows is None else rows]
        return losses

    @cached_property
    def shared_losses(self) -> Floats:
        """Loss of each row whose outcomes all go on at one loss, NaN of the others: float64, shape (rows,)."""
        first = self.outcome_offsets[:-1]
        differs = np.append(self.losses[1:] != self.losses[:-1], False)
        differs[first[1:] - 1] = False  # the last outcome of a row beside the first of the next
        if self.done.any():
            differs |= self.done
        shared = self.losses[first]
        shared[np.logical_or.reduceat(differs, first)] = np.nan
        return shared

    def signed(self, loss: Loss) -> Loss:
        """Turn losses into the model's own sense, or back: costs stay, rewards are negated."""
        return loss if self.sense == "cost" else 0.0 - loss

    def state_name(self, state: int) -> str:
        """Return the label of ``state``, or its index as text."""
        return self.state_labels[state] if self.state_labels else str(state)

    def action_name(self, action: int) -> str:
        """Return the label of ``action``, or its id as text."""
        return self.action_labels[action] if self.action_labels else str(action)


class TableData(NamedTuple):
    """Flat arrays of a table; S states, R rows (state-action pairs), O outcomes.

    Invariant: within a row ``cumulative`` increases and ends in exactly 1.0, so that the first
    outcome whose entry exceeds a draw from [0, 1) always exists.
    """

    action_offsets: NDArray[np.int64]  # (S + 1,)
    outcome_offsets: NDArray[np.int64]  # (R + 1,)
    cumulative: NDArray[np.float64]  # (O,)
    losses: NDArray[np.float64]  # (O,)
    targets: NDArray[np.int64]  # (O,) next state, or -1 - next state where the episode ends
    step_losses: NDArray[np.float64]  # (H, R), or (0, 0) where losses do not depend on the step
    terminal_losses: NDArray[np.float64]  # (S,)

    def drawn(self, row: int, draw: Callable[[], float]) -> int:
        """Return an outcome of a row by a draw from [0, 1); a certain one draws nothing, as in the kernels."""
        first, last = int(self.outcome_offsets[row]), int(self.outcome_offsets[row + 1])
        several = last - first > 1
        return first + int(np.searchsorted(self.cumulative[first:last], draw(), side="right")) if several else first

    @classmethod
    def build(cls, mdp: Table) -> TableData:
        """Copy the arrays of ``mdp`` into the kernels' layout (numba would compile anew for read-only ones)."""
        cumulative = _running_sums(mdp.outcome_offsets, mdp.probabilities)
        np.minimum(cumulative, 1.0, out=cumulative)
        cumulative[mdp.outcome_offsets[1:] - 1] = 1.0
        targets = mdp.next_states.astype(np.int64)
        targets[mdp.done] = -1 - targets[mdp.done]
        return cls(
            mdp.action_offsets.copy(), mdp.outcome_offsets.copy(), cumulative, mdp.losses.copy(), targets,
            mdp.step_losses.copy(), mdp.terminal_losses.copy(),
        )  # fmt: skip


def _running_sums(offsets: NDArray[np.int64], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Running sums within each row; one sum over all rows would drift."""
    lengths = np.diff(offsets)
    longest_first = np.argsort(-lengths, kind="stable")
    firsts, result = offsets[:-1][longest_first], probabilities.copy()
    reach = np.searchsorted(-lengths[longest_first], -np.arange(1, lengths.max(initial=1)), side="left")
    for column, count in enumerate(reach.tolist(), start=1):  # the rows that have this column come first
        index = firsts[:count] + column
        result[index] += result[index - 1]
    return result


_SHOWN = 20


@dataclass(frozen=True)
class Violation:
    """One broken rule: where, what is wrong, and how to fix it."""

    where: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}; {self.fix}"


@dataclass(frozen=True)
class Report(Shown):
    """What :func:`check_model` found.

    Attributes
    ----------
    name : str
        Name of the model.
    violations : tuple of Violation
        What must be fixed.
    warnings : tuple of Violation
        What deserves a look.
    """

    name: str
    violations: tuple[Violation, ...]
    warnings: tuple[Violation, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is no violation."""
        return not self.violations

    def raise_for_errors(self) -> None:
        """Raise one ``ModelError`` that lists the violations, if there are any."""
        if self.violations:
            shown = "\n  ".join(str(item) for item in self.violations[:_SHOWN])
            more = len(self.violations) - _SHOWN
            tail = f"\n  and {more} more" if more > 0 else ""
            raise ModelError(f"the model {self.name!r} breaks its contract:\n  {shown}{tail}")

    def __str__(self) -> str:
        count = len(self.violations)
        verdict = "ok" if self.ok else f"{count} violation{'s' if count > 1 else ''}"
        lines = [f"{self.name}: {verdict}"]
        lines += [f"  error    {item}" for item in self.violations]
        lines += [f"  warning  {item}" for item in self.warnings]
        return "\n".join(lines)


_ARRAYS = "arrays"
_LARGE_COST = 1e12


def check_table(table: Table) -> Report:
    """Check a table; O(outcomes)."""
    return Report(table.name, tuple(_violations(table)), tuple(_warnings(table)))


def _violations(table: Table) -> Iterator[Violation]:
    broken = tuple(_structure(table))
    yield from broken
    if any(item.where == _ARRAYS for item in broken):
        return  # what is below could not be read, or named
    rows = table.row_states

    def place(row: int) -> str:
        return f"state {table.state_name(int(rows[row]))}, action {table.action_name(int(table.action_ids[row]))}"

    def row_of(outcome: int) -> int:
        return int(np.searchsorted(table.outcome_offsets, outcome, side="right")) - 1

    outside = _outside(table.probabilities, 0.0, 1.0 + SUM_TOLERANCE)
    for k in outside.tolist():
        yield Violation(place(row_of(k)), f"probability {table.probabilities[k]:g}", "it must lie in [0, 1]")
    sums = np.add.reduceat(table.probabilities, table.outcome_offsets[:-1])
    wrong = set(_outside(sums, 1.0 - SUM_TOLERANCE, 1.0 + SUM_TOLERANCE).tolist())
    for row in sorted(wrong - set(map(row_of, outside.tolist()))):
        yield Violation(place(row), f"probabilities sum to {sums[row]:.9g}", "they must sum to 1")
    limit = f"it must be a finite number of at most {LARGEST_COST:g}"
    for k in _outside(table.losses, -LARGEST_COST, LARGEST_COST).tolist():
        yield Violation(
            f"{place(row_of(k))}, next state {table.state_name(int(table.next_states[k]))}",
            f"{table.sense} {table.signed(table.losses[k])}",
            f"{limit}; leave illegal actions out",
        )
    for k in _outside(table.step_losses.reshape(-1), -LARGEST_COST, LARGEST_COST).tolist():
        h, row = divmod(k, table.num_rows)
        yield Violation(f"step {h}, {place(row)}", f"{table.sense} {table.signed(table.step_losses[h, row])}", limit)
    if table.horizon is None and table.terminal_losses.any():
        problem = "there are terminal costs, but no horizon at which they are charged"
        yield Violation("terminal costs", problem, "give a horizon, or charge them on the outcomes that end")
    for state in _outside(table.terminal_losses, -LARGEST_COST, LARGEST_COST).tolist():
        value = table.signed(table.terminal_losses[state])
        yield Violation(f"state {table.state_name(state)}", f"terminal {table.sense} {value}", limit)
    for state in [] if broken else dead_ends(table).tolist():
        yield Violation(
            f"state {table.state_name(state)}",
            "no action is allowed here, though an episode can get here before the horizon",
            "give it an action (a self-loop of cost 0 for an absorbing state), or end the episode with done",
        )


def _structure(table: Table) -> Iterator[Violation]:
    """Scalars out of range, and arrays that do not belong together: of tables put together by hand."""
    for fault in scalar_faults(table):
        name, _, rest = fault.partition(" ")
        problem, _, fix = rest.partition("; ")
        yield Violation(name, problem, fix or "see tailwise.TabularMDP")
    states, rows, outcomes = table.num_states, table.num_rows, table.num_outcomes
    start = table.start
    if isinstance(start, bool) or not isinstance(start, (int, np.integer)) or not 0 <= start < states:
        yield Violation("start", f"start {start!r} is not in the table", f"states are 0..{states - 1}")
    shapes = {
        "action_offsets": (states + 1,), "action_ids": (rows,), "outcome_offsets": (rows + 1,),
        "probabilities": (outcomes,), "next_states": (outcomes,), "losses": (outcomes,), "done": (outcomes,),
        "terminal_losses": (states,),
        "step_losses": (table.horizon or 0, rows) if table.step_losses.size else table.step_losses.shape,
    }  # fmt: skip
    for name, shape in shapes.items():
        if getattr(table, name).shape != shape:
            yield Violation(_ARRAYS, f"{name} has shape {getattr(table, name).shape}", f"it must be {shape}")
    for name, offsets, least, last in (
        ("action_offsets", table.action_offsets, 0, rows),
        ("outcome_offsets", table.outcome_offsets, 1, outcomes),
    ):
        if offsets.size == 0 or offsets[0] != 0 or offsets[-1] != last or (np.diff(offsets) < least).any():
            rule = f"they must go from 0 to {last} in steps of at least {least}"
            yield Violation(_ARRAYS, f"{name} are out of order", rule)
    for k in _outside(table.next_states, 0, states - 1)[:1].tolist():
        yield Violation(_ARRAYS, f"next_states[{k}] is {table.next_states[k]}", f"states are 0..{states - 1}")
    for k in _outside(table.action_ids, 0, np.iinfo(np.int32).max)[:1].tolist():
        yield Violation(_ARRAYS, f"action_ids[{k}] is {table.action_ids[k]}", "ids are 0 or more, in 32 bits")
    falls = np.flatnonzero(np.diff(table.action_ids) <= 0) + 1
    within = falls[~np.isin(falls, table.action_offsets)]
    if within.size:
        yield Violation(_ARRAYS, f"action_ids[{within[0]}] does not exceed the one before", "they rise within a state")
    for name, labels, least in (
        ("state_labels", table.state_labels, states),
        ("action_labels", table.action_labels, int(table.action_ids.max(initial=-1)) + 1),
    ):
        if labels and len(labels) < least:
            yield Violation(_ARRAYS, f"{name} has {len(labels)} names for {least} items", "give one per item, or none")


def _outside(values: NDArray[Any], low: float, high: float) -> NDArray[np.intp]:
    """Where ``values`` are not in [low, high]; two passes where all are."""
    if values.size == 0 or (values.min() >= low and values.max() <= high):  # false for NaN, which min passes on
        return np.empty(0, np.intp)
    return np.flatnonzero(~((values >= low) & (values <= high)))


def dead_ends(table: Table, start: int | None = None, steps: int | None = None) -> NDArray[np.intp]:
    """States without an action that an episode can reach, from ``start``, while some of its ``steps`` are left."""
    empty = np.diff(table.action_offsets) == 0
    start, steps = table.start if start is None else start, table.horizon if steps is None else steps
    targets = table.next_states[~table.done]
    if not (empty[start] or empty[targets].any()):
        return np.empty(0, np.intp)
    from scipy.sparse import csgraph, csr_array  # slow to import, and seldom needed

    limit = np.inf if steps is None else steps - 1
    offsets = np.append(0, np.cumsum(~table.done, dtype=np.int64))[table.outcome_offsets[table.action_offsets]]
    graph = csr_array((np.ones(targets.size), targets, offsets), shape=(table.num_states,) * 2)
    distance = csgraph.dijkstra(graph, indices=start, unweighted=True, limit=limit)
    return np.flatnonzero(empty & np.isfinite(distance))


def fail_in_dead_end(table: Table, state: int, step: int) -> None:
    """Raise ``SimulatorError`` if ``state`` at ``step`` can lead to a dead end, as a sound start cannot."""
    found = dead_ends(table, state, max(1, table.horizon - step))
    if found.size:
        raise SimulatorError(
            f"no action is allowed in state {table.state_name(int(found[0]))}, which can be reached before the horizon "
            f"from state {table.state_name(state)}, where the search was at step {step}"
        )


def _warnings(table: Table) -> Iterator[Violation]:
    largest = max(float(table.losses.max(initial=0.0)), -float(table.losses.min(initial=0.0)))
    if _LARGE_COST < largest <= LARGEST_COST:
        yield Violation("costs", f"the largest is {largest:g}", "rescale them: double precision has 16 digits")
