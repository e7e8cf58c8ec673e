"""What a model holds, in numbers: the content of ``tailwise info``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailwise._arrays import marked
from tailwise.errors import ModelError
from tailwise.models import PomdpTable, TabularMDP
from tailwise.models.contract import Sense
from tailwise.models.partly_observed import hidden_actions
from tailwise.models.simulator import is_partly_observed, model_name


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Sizes and ranges of a model. What a simulator cannot know without being run is None.

    Attributes
    ----------
    name : str
        Name of the problem.
    kind : "table", "simulator", or "hidden states"
        Which of them it is.
    sense : "cost" or "reward"
        What the numbers are.
    states : int or None
        Number of states.
    actions : int or None
        Number of action ids; ``start_actions`` counts those allowed in the start state.
    start_actions : int
        Number of actions allowed in the start state.
    pairs : int or None
        Number of (state, action) pairs.
    outcomes : int or None
        Number of outcomes.
    lowest, highest : float or None
        Range of the cost (or reward) of one step, in the model's sense.
    lowest_terminal, highest_terminal : float or None
        Range of the terminal cost (or reward); None if there is none.
    horizon : int or None
        Number of decisions.
    discount : float in (0, 1]
        Factor per step.
    start : str
        Name of the start state.
    notes, warnings : tuple of str
        What the loader assumed, and what deserves a look.
    """

    name: str
    kind: str
    sense: Sense
    states: int | None = None
    actions: int | None = None
    start_actions: int
    pairs: int | None = None
    outcomes: int | None = None
    lowest: float | None = None
    highest: float | None = None
    lowest_terminal: float | None = None
    highest_terminal: float | None = None
    horizon: int | None
    discount: float
    start: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def summarize(model: Any) -> Summary:
    """Count what a model holds; O(outcomes) for a table.

    Parameters
    ----------
    model : TabularMDP or simulator
        The model.

    Returns
    -------
    Summary

    Raises
    ------
    ModelError
        If ``model`` is no model.

    Examples
    --------
    >>> import tailwise
    >>> from tailwise.formats import summarize
    >>> summary = summarize(tailwise.load("mdp-4"))
    >>> summary.states, summary.actions, summary.outcomes, summary.lowest, summary.highest
    (4, 2, 15, 0.0, 1.0)
    """
    if isinstance(model, TabularMDP):
        return _of_table(model)
    if is_partly_observed(model):
        return _of_hidden(model)
    lacking = [name for name in ("actions", "step", "start", "horizon") if not hasattr(model, name)]
    if lacking:
        raise ModelError(f"{type(model).__name__} is no model: it has no {lacking[0]}")
    allowed = model.actions(model.start)
    state_name = getattr(model, "state_name", repr)
    return Summary(
        name=str(getattr(model, "name", "") or type(model).__name__),
        kind="simulator",
        sense=getattr(model, "sense", "cost"),
        actions=getattr(model, "num_actions", None),
        start_actions=allowed if isinstance(allowed, int) else len(allowed),
        horizon=None if model.horizon is None else int(model.horizon),
        discount=float(getattr(model, "discount", 1.0)),
        start=str(state_name(model.start)),
        notes=tuple(getattr(model, "notes", ())),
    )


def _of_hidden(model: Any) -> Summary:
    seen = "seen" if getattr(model, "cost_seen", False) else "not seen"
    notes = (*getattr(model, "notes", ()), f"the state is not seen; what a step costs is {seen}")
    count = len(hidden_actions(model))
    given: dict[str, Any] = {"name": model_name(model), "sense": model.sense, "start": "a belief", "notes": notes}
    if isinstance(model, PomdpTable):
        table = _of_table(model.table)
        notes = (*notes, f"{model.num_observations} observations: {', '.join(model.observation_labels[:8])}")
        return replace(table, **given | {"kind": "hidden states", "notes": notes})
    return Summary(
        kind="hidden states", actions=count, start_actions=count, horizon=int(model.horizon),
        discount=float(model.discount), **given,
    )  # fmt: skip


def _of_table(mdp: TabularMDP) -> Summary:
    bounds = mdp.signed(np.array(_range(mdp)))
    terminal = mdp.signed(mdp.terminal_losses) if mdp.terminal_losses.any() else None
    report = mdp.check()
    warnings = [str(item) for item in (*report.violations, *report.warnings)]
    unreached = mdp.num_states - _count_reached(mdp)
    if unreached:
        warnings.append(f"{unreached} of {mdp.num_states} states cannot be reached from the start")
    return Summary(
        name=mdp.name,
        kind="table",
        sense=mdp.sense,
        states=mdp.num_states,
        actions=mdp.num_actions,
        start_actions=int(mdp.actions(mdp.start).size),
        pairs=mdp.num_rows,
        outcomes=mdp.num_outcomes,
        lowest=float(bounds.min()),
        highest=float(bounds.max()),
        lowest_terminal=None if terminal is None else float(terminal.min()),
        highest_terminal=None if terminal is None else float(terminal.max()),
        horizon=mdp.horizon,
        discount=mdp.discount,
        start=mdp.state_name(mdp.start),
        notes=mdp.notes,
        warnings=tuple(warnings),
    )


def _range(mdp: TabularMDP) -> tuple[float, float]:
    """Smallest and largest cost of one step."""
    if not mdp.step_losses.size:
        return float(mdp.losses.min()), float(mdp.losses.max())
    first = mdp.outcome_offsets[:-1]
    low = np.minimum.reduceat(mdp.losses, first) + mdp.step_losses.min(axis=0)
    high = np.maximum.reduceat(mdp.losses, first) + mdp.step_losses.max(axis=0)
    return float(low.min()), float(high.max())


def _count_reached(mdp: TabularMDP) -> int:
    """Count the states that outcomes lead to from the start, ends included, whatever the horizon."""
    from scipy import sparse
    from scipy.sparse import csgraph

    origins = mdp.row_states[mdp.outcome_rows]
    goes_on = ~mdp.done
    shape = (mdp.num_states, mdp.num_states)
    ones = np.ones(int(goes_on.sum()), dtype=np.int8)
    graph = sparse.csr_array((ones, (origins[goes_on], mdp.next_states[goes_on])), shape=shape)
    order = csgraph.breadth_first_order(graph, mdp.start, return_predecessors=False)
    reached = marked(mdp.num_states, order)
    reached[mdp.next_states[mdp.done & reached[origins]]] = True
    return int(reached.sum())
