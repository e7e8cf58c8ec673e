"""``check_model``: everything that is wrong with a model, at once, with where and how to fix it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tailwise.errors import ModelError
from tailwise.models.accrued import AccruedTable
from tailwise.models.check_simulator import check_simulator
from tailwise.models.report import Report, Violation
from tailwise.models.tabular import TabularMDP
from tailwise.models.tabular_build import _SUM_TOLERANCE, check_discount, check_horizon, find_start

_ARRAYS = "arrays"


def check_model(model: Any) -> Report:
    """Report every violation of the model contract.

    Parameters
    ----------
    model : TabularMDP or simulator
        The model to check. Nothing is raised: see ``report.raise_for_errors()``. A simulator is tried
        out on a few random episodes, as :func:`tailwise.check_simulator` does at more length.

    Returns
    -------
    Report
        ``report.ok``, ``report.violations`` and ``report.warnings``; prints as a list.

    Raises
    ------
    ModelError
        If ``model`` is no model at all.

    Examples
    --------
    >>> from tailwise import TabularMDP, check_model
    >>> broken = TabularMDP.from_arrays([[[0.5, 0.4], [1, 0]], [[0, 1], [0, 1]]], order="SAS",
    ...                                 costs=[[0, 1], [2, 2]], horizon=3, validate=False)
    >>> print(check_model(broken))
    table: 1 violation
      error    state 0, action 0: probabilities sum to 0.9; they must sum to 1
    """
    if isinstance(model, TabularMDP):
        return check_table(model)
    if isinstance(model, AccruedTable):
        return check_table(model.mdp)
    if not hasattr(model, "step") and not hasattr(model, "actions"):
        raise ModelError(f"{type(model).__name__} is not a model; expected a TabularMDP or a simulator")
    return check_simulator(model, 0, episodes=5)


def check_table(mdp: TabularMDP) -> Report:
    """Check a table; O(outcomes)."""
    return Report(mdp.name, tuple(_violations(mdp)), tuple(_warnings(mdp)))


def _violations(mdp: TabularMDP) -> Iterator[Violation]:
    broken = tuple(_structure(mdp))
    yield from broken
    if any(item.where == _ARRAYS for item in broken):
        return  # nothing below can be read
    offsets, rows = mdp.outcome_offsets, mdp.row_states

    def place(row: int) -> str:
        return f"state {mdp.state_name(int(rows[row]))}, action {mdp.action_name(int(mdp.action_ids[row]))}"

    def row_of(outcome: int) -> int:
        return int(np.searchsorted(offsets, outcome, side="right")) - 1

    bad = ~((mdp.probabilities >= 0) & (mdp.probabilities <= 1 + _SUM_TOLERANCE))
    for k in np.flatnonzero(bad).tolist():
        yield Violation(place(row_of(k)), f"probability {mdp.probabilities[k]:g}", "it must lie in [0, 1]")
    sums = np.add.reduceat(mdp.probabilities, offsets[:-1])
    wrong = ~(np.abs(sums - 1.0) <= _SUM_TOLERANCE)
    wrong &= ~np.logical_or.reduceat(bad, offsets[:-1])
    for row in np.flatnonzero(wrong).tolist():
        yield Violation(place(row), f"probabilities sum to {sums[row]:.9g}", "they must sum to 1")
    for k in np.flatnonzero(~np.isfinite(mdp.losses)).tolist():
        yield Violation(
            f"{place(row_of(k))}, next state {mdp.state_name(int(mdp.next_states[k]))}",
            f"{mdp.sense} {mdp.signed(mdp.losses[k])}",
            "it must be a finite number; leave illegal actions out",
        )
    for h, row in np.argwhere(~np.isfinite(mdp.step_losses)).tolist():
        value = mdp.signed(mdp.step_losses[h, row])
        yield Violation(f"step {h}, {place(row)}", f"{mdp.sense} {value}", "it must be a finite number")
    for state in np.flatnonzero(~np.isfinite(mdp.terminal_losses)).tolist():
        value = mdp.signed(mdp.terminal_losses[state])
        yield Violation(f"state {mdp.state_name(state)}", f"terminal {mdp.sense} {value}", "it must be a finite number")
    for state in np.flatnonzero(_stuck(mdp)).tolist():
        yield Violation(
            f"state {mdp.state_name(state)}",
            "no action is allowed here, though an episode can get here before the horizon",
            "give it an action (a self-loop of cost 0 for an absorbing state), or end the episode with done",
        )


def _structure(mdp: TabularMDP) -> Iterator[Violation]:
    """Scalars out of range, and arrays that do not belong together: of tables put together by hand."""
    for name, check in (("horizon", check_horizon), ("discount", check_discount)):
        try:
            check(getattr(mdp, name))
        except ModelError as error:
            yield Violation(name, f"{getattr(mdp, name)!r}", str(error))
    if mdp.sense not in ("cost", "reward"):
        yield Violation("sense", f"{mdp.sense!r}", "it must be 'cost' or 'reward'")
    states, rows, outcomes = mdp.action_offsets.size - 1, mdp.action_ids.size, mdp.probabilities.size
    try:
        find_start(mdp.start, states, ())
    except ModelError as error:
        yield Violation("start", f"{mdp.start!r}", str(error))
    sizes = {
        "outcome_offsets": rows + 1, "next_states": outcomes, "losses": outcomes, "done": outcomes,
        "terminal_losses": states,
    }  # fmt: skip
    for name, size in sizes.items():
        if getattr(mdp, name).shape != (size,):
            yield Violation(_ARRAYS, f"{name} has shape {getattr(mdp, name).shape}", f"it must be ({size},)")
    if mdp.step_losses.size and mdp.step_losses.shape != (mdp.horizon, rows):
        yield Violation(_ARRAYS, f"step_losses has shape {mdp.step_losses.shape}", f"it must be {(mdp.horizon, rows)}")
    for name, offsets, least, last in (
        ("action_offsets", mdp.action_offsets, 0, rows),
        ("outcome_offsets", mdp.outcome_offsets, 1, outcomes),
    ):
        if offsets.size == 0 or offsets[0] != 0 or offsets[-1] != last or (np.diff(offsets) < least).any():
            rule = f"they must go from 0 to {last} in steps of at least {least}"
            yield Violation(_ARRAYS, f"{name} are out of order", rule)
    wild = np.flatnonzero((mdp.next_states < 0) | (mdp.next_states >= states))
    if wild.size:
        found = f"next_states[{wild[0]}] is {mdp.next_states[wild[0]]}"
        yield Violation(_ARRAYS, found, f"states are 0..{states - 1}")


def _stuck(mdp: TabularMDP) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """States without an action that some outcome enters before the horizon, or that are the start."""
    empty = np.asarray(np.diff(mdp.action_offsets) == 0)
    if not empty.any():
        return empty
    entered = np.zeros(mdp.num_states, dtype=np.bool_)
    if mdp.horizon > 1:
        entered[mdp.next_states[~mdp.done]] = True
    entered[mdp.start] = True
    return np.asarray(empty & entered)


def _warnings(mdp: TabularMDP) -> Iterator[Violation]:
    largest = float(np.abs(mdp.losses).max(initial=0.0))
    if np.isfinite(largest) and largest > 1e12:
        yield Violation("costs", f"the largest is {largest:g}", "rescale them: double precision has 16 digits")
