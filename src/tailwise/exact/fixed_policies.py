"""Fixed policies on a table, in one form (the row, or the chances, of a step and state), and their exact risk."""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints, marked, ranges, runs
from tailwise._results import Columns, step_word
from tailwise._validate import function_of, real
from tailwise.errors import OptionError, StateError
from tailwise.exact.grid_totals import GridTotals
from tailwise.models import Alternatives, TabularMDP
from tailwise.models.tabular import require_table
from tailwise.risk.entropic import weighted_erm


def as_policy(policy: object) -> object:
    """Return a plain function as a policy with ``act``; anything else as it is."""
    if not callable(policy) or hasattr(policy, "act"):
        return policy
    return SimpleNamespace(act=function_of(policy, "a policy", "state", "step"))


def policy_rows(mdp: TabularMDP, policy: Any) -> NDArray[np.int64]:
    """Return the row (H, S) that a policy takes, -1 for none: an object, a function, or ids of shape (S,) or (H, S)."""
    mdp.require_sound()
    shape = (mdp.horizon, mdp.num_states)
    given = getattr(policy, "policy", as_policy(policy))
    if hasattr(given, "act"):
        given = _asked(mdp, given)
    actions = np.asarray(given)
    if actions.dtype.kind not in "iu" or actions.shape not in (shape, shape[1:]):
        raise OptionError(
            f"a policy must be whole numbers of shape (S,) = {shape[1:]} or (H, S) = {shape}, not "
            f"{actions.dtype} of shape {actions.shape}"
        )
    actions = np.broadcast_to(actions, shape)
    rows = mdp.rows_of(actions)
    wrong = np.argwhere((rows < 0) & (actions != -1))
    if wrong.size:
        h, state = wrong[0]
        raise StateError(
            f"the policy takes action {actions[h, state]} in state {mdp.state_name(int(state))} at step {h}, "
            "where it is not allowed"
        )
    return rows


def _asked(mdp: TabularMDP, policy: Any) -> NDArray[np.int64]:
    actions = np.full((mdp.horizon, mdp.num_states), -1, dtype=np.int64)
    for h in range(mdp.horizon):
        for state in np.flatnonzero(np.diff(mdp.action_offsets)):
            actions[h, state] = action_id(mdp, policy.act(int(state), h), int(state), h)
    return actions


def action_id(mdp: TabularMDP, action: Any, state: int, h: int) -> int:
    """Return the id of an action given by id or label, or raise ``StateError``."""
    if isinstance(action, str) and action in mdp.action_labels:
        return mdp.action_labels.index(action)
    try:
        return operator.index(action)
    except TypeError:
        raise StateError(
            f"the policy gives {action!r} in state {mdp.state_name(state)} at step {h}: it is no action's id or label"
        ) from None


def policy_chances(mdp: TabularMDP, policy: Any) -> NDArray[np.float64]:
    """Return the probability of each row (H, rows): of a policy, or chances (H, S, A), uniform where they sum to 0."""
    mdp.require_sound()
    given = getattr(policy, "policy", policy)
    if np.ndim(given) != 3:
        rows = policy_rows(mdp, policy)
        chances = np.zeros((mdp.horizon, mdp.num_rows))
        steps, states = np.nonzero(rows >= 0)
        chances[steps, rows[steps, states]] = 1.0
        return chances
    full = np.asarray(given, dtype=np.float64)
    shape = (mdp.horizon, mdp.num_states, mdp.num_actions)
    if full.shape != shape:
        raise OptionError(f"action probabilities must have shape (H, S, A) = {shape}, not {full.shape}")
    sums = full.sum(axis=2)
    if not np.isfinite(full).all() or (full < 0).any() or not (np.isclose(sums, 1.0) | (sums == 0.0)).all():
        raise OptionError("action probabilities must be >= 0 and sum to 1 (or all be 0) in each step and state")
    chances = full[:, mdp.row_states, mdp.action_ids]
    legal = np.add.reduceat(chances, mdp.action_offsets[:-1][np.diff(mdp.action_offsets) > 0], axis=1)
    used = sums[:, np.flatnonzero(np.diff(mdp.action_offsets))]
    if not np.allclose(legal, used):
        raise StateError("the policy gives a positive probability to an action that is not allowed")
    counts = np.diff(mdp.action_offsets)[mdp.row_states]
    empty = sums[:, mdp.row_states] == 0.0
    return np.where(empty, 1.0 / counts, chances / np.where(empty, 1.0, sums[:, mdp.row_states]))


def policy_risk(mdp: TabularMDP | Alternatives, policy: Any, beta: float) -> float:
    """Return the exact entropic risk of a fixed policy, which may be stochastic.

    Parameters
    ----------
    mdp : TabularMDP or Alternatives
        The table, or several of which one is true for the whole episode.
    policy : Policy, object with ``act(state, h)``, or array_like
        Action ids of shape (S,) or (H, S), or probabilities of shape (H, S, A).
    beta : float
        Finite risk level at step 0.

    Returns
    -------
    float
        In the model's own sense.

    Notes
    -----
    Backward, O(H * outcomes) in Python: for tables of up to some thousand states.

    Examples
    --------
    >>> from tailwise import backward_induction, domains
    >>> from tailwise.exact import policy_risk
    >>> mdp = domains.make("mdp-4")
    >>> round(policy_risk(mdp, backward_induction(mdp, 0.5), 0.5), 9)
    1.779207373
    """
    level = real(beta, "beta")
    if isinstance(mdp, Alternatives):
        each = mdp.tables[0].signed(np.array([policy_risk(table, policy, level) for table in mdp.tables]))
        return float(mdp.tables[0].signed(weighted_erm(each, level, mdp.weights)))
    require_table(mdp, "policy_risk")
    chances = policy_chances(mdp, policy)
    values = mdp.terminal_losses.copy()
    for h in range(mdp.horizon - 1, -1, -1):
        tails = np.where(mdp.done, 0.0, mdp.discount * values[mdp.next_states]) + mdp.losses
        if mdp.step_losses.size:
            tails = tails + np.repeat(mdp.step_losses[h], np.diff(mdp.outcome_offsets))
        weights = mdp.probabilities * np.repeat(chances[h], np.diff(mdp.outcome_offsets))
        values = np.full(mdp.num_states, np.nan)
        for state in range(mdp.num_states):
            rows = mdp.action_offsets[state : state + 2]
            kept = slice(*mdp.outcome_offsets[rows])
            used = weights[kept] > 0.0
            if used.any():
                mass = weights[kept][used]
                values[state] = weighted_erm(tails[kept][used], level * mdp.discount**h, mass / mass.sum())
    return float(mdp.signed(values[mdp.start]))


def action_frequencies(mdp: TabularMDP, decisions: NDArray[np.int32]) -> Floats:
    """Return how often a planner took each action where it came: its decisions as a stochastic policy.

    Parameters
    ----------
    mdp : TabularMDP
        The table that was played.
    decisions : ndarray of int32, shape (n, H, 2)
        ``Returns.decisions`` of a planner: state and action id of each step, -1 after the end of an episode.

    Returns
    -------
    ndarray of float64, shape (H, S, A)
        Shares that sum to 1 in each (step, state) that was visited, and to 0 elsewhere: what :func:`policy_risk` and
        :func:`return_distribution` take. The risk of this policy is close to that of the planner where the states
        visited rarely are few; it takes the planner's decisions at one state for independent of each other.

    Examples
    --------
    >>> from tailwise import ErmMcts, domains, evaluate
    >>> from tailwise.exact import action_frequencies, policy_risk
    >>> mdp = domains.make("mdp-4")
    >>> returns = evaluate(mdp, ErmMcts(mdp, 0.5), episodes=20, iterations=300, seed=0)
    >>> shares = action_frequencies(mdp, returns.decisions)
    >>> shares.shape, float(shares[0, mdp.start].sum())
    ((20, 4, 2), 1.0)
    >>> policy_risk(mdp, shares, 0.5) >= 1.779207373  # no policy is better than the optimum
    True
    """
    require_table(mdp, "action_frequencies")
    mdp.require_sound()
    counts = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    for h in range(mdp.horizon):
        taken = decisions[decisions[:, h, 0] >= 0, h]
        np.add.at(counts[h], (taken[:, 0], taken[:, 1]), 1.0)
    sums = counts.sum(axis=2, keepdims=True)
    return np.asarray(counts / np.where(sums > 0, sums, 1.0))


def difference(mdp: TabularMDP, before: Any, after: Any) -> str:
    """Say where a policy first does something else than another, of the places that the other comes to; or nothing."""
    one, other = policy_rows(mdp, before), policy_rows(mdp, after)
    reached = marked(mdp.num_states, mdp.start)
    first, count = "", 0
    for h in range(mdp.horizon):
        states = np.flatnonzero(reached & (one[h] >= 0))
        changed = states[one[h, states] != other[h, states]]
        if changed.size and not first:
            state = int(changed[0])
            names = [mdp.action_name(int(mdp.action_ids[rows[h, state]])) for rows in (other, one)]
            first = f"{step_word()} {h}, {mdp.state_name(state)}: {names[0]}, not {names[1]}"
        count += changed.size
        rows = one[h, states]
        _, _, outcomes = ranges(mdp.outcome_offsets[rows], mdp.outcome_offsets[rows + 1])
        reached = np.zeros_like(reached)
        reached[mdp.next_states[outcomes[~mdp.done[outcomes]]]] = True
    return f"{first} (and {count - 1:,} more)" if count > 1 else first


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
        begins = runs(states, ids)
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
