"""Every rule of a table, and where and how it is broken; what the checks of all models report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._results import Shown
from tailwise.errors import ModelError, SimulatorError
from tailwise.models.contract import LARGEST_COST, SUM_TOLERANCE, scalar_faults
from tailwise.models.table import Table

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
