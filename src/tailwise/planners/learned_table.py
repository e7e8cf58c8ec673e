"""The learned model as a table: what was counted, from the root on, for every exact solver of tables.

A state of the table is a state of the model *at a step*, so that one table holds the steps' own costs. Frequencies are
taken for probabilities. An action that was never tried is left out; a state of which no action is known ends the
episode, at the value that the search gave it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._csr import ranges
from tailwise.errors import SimulatorError
from tailwise.exact.totals import Floats, Ints
from tailwise.models import TabularMDP
from tailwise.models.simulator import cost_fault, model_name, own_method, short
from tailwise.search.learned import LearnedSearch
from tailwise.search.learned.store import LEAST, OUTCOMES, RECORDS, find_node


@dataclass(frozen=True, eq=False)
class LearnedTable:
    """A learned model from its root on.

    Attributes
    ----------
    mdp : TabularMDP
        The table. Its step 0 is the root's, its state 0 the root, its action k the k-th that the model allows.
    index : dict of (int, int) to int
        State of the table by (step of the model, handle of the state).
    counts : ndarray of float64, shape (outcomes,)
        How often each outcome was counted.
    seen : ndarray of int64, shape (outcomes,)
        Its number in the learned model, the same at every step; 0 for the end of a state of which nothing is known.
    """

    mdp: TabularMDP
    index: dict[tuple[int, int], int]
    counts: Floats
    seen: Ints

    def draws(self, row: int) -> int:
        """Return how often the action of a row was drawn, at any step."""
        return int(self.counts[self.mdp.outcome_offsets[row] : self.mdp.outcome_offsets[row + 1]].sum())

    def redrawn(self, rng: np.random.Generator) -> TabularMDP:
        """Return the table under counts drawn again (the Bayesian bootstrap; Rubin, 1981), alike at every step."""
        _, first, inverse = np.unique(self.seen, return_index=True, return_inverse=True)
        weights = rng.standard_gamma(self.counts[first])[inverse]
        weights[self.seen == 0] = 1.0
        starts = self.mdp.outcome_offsets[:-1]
        sums = np.add.reduceat(weights, starts)
        return replace(self.mdp, probabilities=weights / np.repeat(sums, np.diff(self.mdp.outcome_offsets)))


@dataclass(frozen=True, eq=False)
class LearnedPolicy:
    """A plan on a learned table as a policy of the model.

    Where the plan has nothing to say, in a state that was never seen at that step, it does what it would do there at
    the nearest step, or what is named first.
    """

    search: LearnedSearch
    table: LearnedTable
    plan: Any
    step: int
    accrued: float

    def act(self, state: Any, step: int, accrued: float = 0.0) -> Any:
        """Return the model's action after ``accrued`` discounted cost (or reward) since step 0."""
        model, binding = self.search.model, self.search._binding
        handle = binding.handle(state)
        sign = 1.0 if model.sense == "cost" else -1.0
        position = self.position(handle, step, sign * (accrued - self.accrued) / float(model.discount) ** self.step)
        return binding.actions(handle)[position or 0]

    def position(self, handle: int, step: int, paid: float) -> int | None:
        """Return the action's position after ``paid`` inner cost since the plan's root; None if nothing is known."""
        state = self.table.index.get((step, handle))
        if state is None:
            steps = [h for h in range(self.step, self.search._horizon) if (h, handle) in self.table.index]
            if not steps:
                return None
            step = min(steps, key=lambda h: abs(h - step))
            state = self.table.index[step, handle]
        if self.plan.minds_the_past:
            return int(self.plan.graph.action(self.plan.chosen, state, step - self.step, paid))
        return int(self.plan.act(state, step - self.step))


def learned_table(search: LearnedSearch) -> LearnedTable:
    """Return what a search knows, as a table from its root on; something must have been sampled there."""
    known, horizon, depth, is_cost = search._known, search._horizon, search._step, search.model.sense == "cost"
    order = np.argsort(known.records[1 : known.used[OUTCOMES]], kind="stable") + 1
    starts = np.searchsorted(known.records[order], np.arange(known.used[RECORDS] + 1))
    index, end = {(depth, search._handle): 0}, terminal_costs(search)
    layer, columns = np.array([search._handle], np.int64), []
    for h in range(depth, horizon):
        here, ahead = len(index) - layer.size, len(index)  # first states of this layer and of the next
        records, arity, borrows = _records(known, layer, h, horizon)
        _, places, tried = ranges(records, records + arity)
        _, rows, entries = ranges(starts[tried], starts[tried + 1])
        owners, outcomes = places[rows], order[entries]
        actions = tried[rows] - records[owners]
        counts, targets = known.counts[outcomes], known.targets[outcomes].astype(np.int64)
        costs = known.costs[outcomes] + _offsets(search.model, layer[owners], actions, h)
        ends = borrows[owners] & (targets >= 0)
        costs[ends] += search._rules.discount * np.array([*map(end, targets[ends].tolist())])
        targets[ends] = -1
        after = np.unique(targets[targets >= 0])
        index |= {(h + 1, handle): ahead + k for k, handle in enumerate(after.tolist())}
        done = targets < 0
        reached = np.where(done, here, ahead + np.searchsorted(after, targets))
        columns.append((here + owners, actions, reached, counts.astype(np.float64), costs, done, outcomes))
        bare = np.setdiff1d(np.arange(layer.size), owners)
        one = np.ones(bare.size)
        columns.append((here + bare, 0 * bare, here + bare, one, _values(search, h, layer[bare]), one > 0.0, 0 * bare))
        layer = after
    order = np.lexsort((np.concatenate([part[1] for part in columns]), np.concatenate([part[0] for part in columns])))
    states, actions, reached, counts, costs, done, seen = (
        np.concatenate(parts)[order] for parts in zip(*columns, strict=True)
    )
    first = np.flatnonzero(np.append(True, (np.diff(states) != 0) | (np.diff(actions) != 0)))
    sizes = np.diff(np.append(first, states.size))
    paid = {"costs": costs} if is_cost else {"costs": None, "rewards": 0.0 - costs}
    mdp = TabularMDP.from_outcomes(
        states, actions, reached, counts / np.repeat(np.add.reduceat(counts, first), sizes), **paid, done=done,
        num_states=len(index), horizon=horizon - depth, discount=float(search.model.discount), name="learned",
    )  # fmt: skip
    return LearnedTable(mdp, index, np.asarray(counts, np.float64), seen)


def _records(known: Any, layer: Ints, h: int, horizon: int) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return first record and number of actions of each state, and whether the last step borrows what others counted.

    The last step's costs hold the end's, so that it is counted by itself; more counts of other steps serve instead.
    """
    records, arity, draws = _found(known, known.phases * layer + (h if known.phases > 2 else int(h + 1 == horizon)))
    borrows = np.zeros(layer.size, np.bool_)
    if known.phases == 2 and h + 1 == horizon:
        others, other_arity, other_draws = _found(known, 2 * layer)
        borrows = other_draws > draws
        records, arity = np.where(borrows, others, records), np.where(borrows, other_arity, arity)
    return records, arity, borrows


def _found(known: Any, places: Ints) -> tuple[Ints, Ints, Ints]:
    """Return first record, number of actions and draws at ``places``; none where a state was not met."""
    inside = np.minimum(places, known.first.size - 1)
    met = (places < known.first.size) & (known.first[inside] > 0)
    records, arity = np.where(met, known.first[inside], 0).astype(np.int64), np.where(met, known.arity[inside], 0)
    running = np.append(0, np.cumsum(known.draws))
    return records, arity.astype(np.int64), running[records + arity] - running[records]


def _offsets(model: Any, handles: Ints, actions: Ints, h: int) -> Floats:
    """Return what a table's costs per step add."""
    if isinstance(model, TabularMDP) and model.step_losses.size:
        return np.asarray(model.step_losses[h, model.action_offsets[handles] + actions])
    return np.zeros(handles.size)


def terminal_costs(search: LearnedSearch) -> Callable[[int], float]:
    """Return the terminal cost of a handle, as an inner cost."""
    model, binding = search.model, search._binding
    if isinstance(model, TabularMDP):
        return lambda handle: float(model.terminal_losses[handle])
    end, sign = own_method(model, "terminal_cost"), 1.0 if model.sense == "cost" else -1.0
    return (lambda handle: 0.0) if end is None else lambda handle: sign * float(end(binding.state(handle)))


def draw_outcome(
    search: LearnedSearch, handle: int, position: int, h: int, rng: np.random.Generator
) -> tuple[int, float, float, bool]:
    """Draw (handle, inner cost, what a table's step adds to it, done) of an action of the model, in Python."""
    model, binding = search.model, search._binding
    if isinstance(model, TabularMDP):
        row = int(model.action_offsets[handle]) + position
        first, last = int(model.outcome_offsets[row]), int(model.outcome_offsets[row + 1])
        k = first + int(np.searchsorted(model.data.cumulative[first : last - 1], rng.random(), side="right"))
        offset = float(model.step_losses[h, row]) if model.step_losses.size else 0.0
        return int(model.next_states[k]), float(model.losses[k]), offset, bool(model.done[k])
    state, action = binding.state(handle), binding.actions(handle)[position]
    try:
        target, cost, done = model.step(state, action, rng)
        fault = cost_fault(cost)
    except Exception as error:  # whatever a user's code raises
        fault = f"{type(error).__name__}: {error}"
    if fault:
        raise SimulatorError(f"step({short(state)}, {short(action)}) of {model_name(model)} at step {h}: {fault}")
    inner = float(cost) if model.sense == "cost" else 0.0 - float(cost)
    return -1 if done else int(binding.handle(target)), inner, 0.0, bool(done)


def _values(search: LearnedSearch, h: int, handles: Ints) -> Floats:
    """Return the search's values of states; the least that they could be where there are none."""
    nodes, least = search._nodes, search._scratch.numbers[LEAST] * search._rules.togo[h]
    values = np.array([nodes.values[find_node(nodes, h, handle)] for handle in handles.tolist()])
    return np.where(np.isfinite(values) & (values != 0.0), values, least) if values.size else values
