"""The table of a policy: what to do at each step in each state and, where it matters, over what was paid so far."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import ranges
from tailwise.exact.grid_totals import GridTotals

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns: TypeAlias = dict[str, NDArray[Any]]


def policy_columns(policy: Any, state_names: list[str], first_steps: list[int]) -> Columns:
    """Return the columns of :class:`tailwise.exact.Policy`'s table; each state has a name and a first step."""
    steps, states, ids, rest = _by_state(policy) if policy.graph is None else _by_accrued(policy)
    is_met = steps >= np.array(first_steps)[states]
    actions = np.array([policy.mdp.action_name(k) for k in range(policy.mdp.num_actions)])
    columns = {"step": steps, "state": np.array(state_names)[states], "action": actions[ids], **rest}
    return {name: column[is_met] for name, column in columns.items()}


def _by_state(policy: Any) -> tuple[Ints, Ints, Ints, dict[str, Floats]]:
    steps, states = np.nonzero(policy.policy >= 0)
    ids = policy.policy[steps, states].astype(np.int64)
    return steps, states, ids, {"value": policy.values[steps, states]}


def _by_accrued(policy: Any) -> tuple[Ints, Ints, Ints, dict[str, Floats]]:
    """One row for each run of accrued costs, in a state at a step, over which the action is the same."""
    parts = []
    for h in range(policy.mdp.horizon):
        states, accrued, rows = _pairs(policy, h)
        ids = policy.graph.mdp.action_ids[rows].astype(np.int64)
        begins = np.flatnonzero(np.append(True, (np.diff(states) != 0) | (np.diff(ids) != 0))[: states.size])
        ends = np.append(begins[1:], states.size) - 1
        parts.append((np.full(begins.size, h), states[begins], ids[begins], accrued[begins], accrued[ends]))
    steps, all_states, actions, low, high = (np.concatenate(part) for part in zip(*parts, strict=True))
    paid = np.sort(np.stack([policy.mdp.signed(low), policy.mdp.signed(high)]), axis=0)
    return steps, all_states, actions, {"paid_from": paid[0], "paid_to": paid[1]}


def _pairs(policy: Any, h: int) -> tuple[Ints, Floats, Ints]:
    """Return states, accrued costs (increasing within a state) and rows of the table to take, at a step."""
    graph: Any = policy.graph
    if not isinstance(graph, GridTotals):
        step = graph.steps[h]
        return step.states, step.accrued, step.rows[policy.chosen[h]]
    layer = graph.layers[h]
    _, owners, points = ranges(layer.low, layer.low + np.diff(layer.first))
    return layer.states[owners], np.multiply(graph.spacing, points, dtype=np.float64), np.asarray(policy.chosen[h])
