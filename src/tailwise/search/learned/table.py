"""The learned model as a table: what was counted, from the root on, for every exact solver of tables.

A state of the table is a state of the model *at a step*, so that one table holds the steps' own costs. Frequencies are
taken for probabilities. What nothing is known of is left out, as in an answer of the search: actions never tried, and
outcomes that lead to a state in which nothing was; leaves that were valued end the episode at their value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints, ranges
from tailwise.bindings import ModelInterface
from tailwise.models import TabularMDP
from tailwise.models.simulator import own_method
from tailwise.models.table import TableData
from tailwise.search.learned.counts import OUTCOMES, PAIRS, TREE, Nodes, Scratch, TransitionCounts, find_node
from tailwise.search.options import LearnedRules


@dataclass(frozen=True, eq=False)
class Learned:
    """What a search with a learned model knows, and where it is rooted: what a table is made from."""

    model: Any
    binding: ModelInterface
    known: TransitionCounts
    nodes: Nodes
    rules: LearnedRules
    scratch: Scratch
    handle: int  # of the root's state
    step: int
    ends: list[float]  # what the end costs, by handle, as far as the model was asked
    induct: Callable[..., int]  # :func:`tailwise.search.learned.answer.answer`, of all this

    @property
    def has_handles_of_table(self) -> bool:
        """Whether handles are the states of a table; with a ``leaf_value`` or ``rollout_policy`` they are not."""
        return isinstance(self.binding.data, TableData)

    @property
    def is_tree(self) -> bool:
        """Whether the search is a tree by now; see :func:`tailwise.search.learned.kernels.is_tree`."""
        return bool(self.scratch.work[TREE])

    def offsets(self, handles: Ints, actions: Ints, h: int) -> Floats:
        """Return what a table's costs per step add, where draws do not hold it."""
        added: Floats = getattr(self.model, "step_losses", np.empty(0))
        if added.size and self.has_handles_of_table:
            return np.asarray(added[h, self.model.action_offsets[handles] + actions])
        return np.zeros(handles.size)

    def terminal_costs(self) -> Floats:
        """Return what the end costs in each state, as far as an answer may ask; empty where it costs nothing."""
        if self.has_handles_of_table:
            return np.asarray(self.model.terminal_losses)
        end = own_method(self.model, "terminal_cost")
        if end is None:
            return np.empty(0)
        sign = -1.0 if self.model.sense == "reward" else 1.0
        used = int(self.known.used[OUTCOMES])
        for handle in range(len(self.ends), 1 + int(self.known.targets[:used].max(initial=-1))):
            try:
                self.ends.append(0.0 + sign * float(end(self.binding.state(handle))))
            except Exception:  # a state in which no episode ended: nothing is known of it
                self.ends.append(math.inf)
        return np.array(self.ends)


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
        Its number in the learned model, the same at every step; 0 for the end of a leaf.
    model, binding : object
        The model that was sampled, and its interface to the kernel, which knows the handles.
    """

    mdp: TabularMDP
    index: dict[tuple[int, int], int]
    counts: Floats
    seen: Ints
    model: Any
    binding: ModelInterface

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
    """A policy of a learned table as one of the model.

    Where the table has nothing to say, in a state that was never acted in at that step, it does what it would do there
    at the nearest step, or what is named first. ``decide(state of the table, its step, paid)`` is the action's position
    after ``paid`` inner cost since the table's root, which lies at ``step``, ``accrued`` after the episode's start.
    """

    table: LearnedTable
    decide: Callable[[int, int, float], int]
    step: int
    accrued: float

    def act(self, state: Any, step: int, accrued: float = 0.0) -> object:
        """Return the model's action after ``accrued`` discounted cost (or reward) since step 0."""
        model, binding = self.table.model, self.table.binding
        handle = binding.handle(state)
        sign = 1.0 if model.sense == "cost" else -1.0
        position = self.position(handle, step, sign * (accrued - self.accrued) / float(model.discount) ** self.step)
        return binding.actions(handle)[position or 0]

    def position(self, handle: int, step: int, paid: float) -> int | None:
        """Return the action's position after ``paid`` inner cost since the table's root; None if nothing is known."""
        index = self.table.index
        state = index.get((step, handle))
        if state is None:
            steps = [h for h in range(self.step, self.step + self.table.mdp.horizon) if (h, handle) in index]
            if not steps:
                return None
            step = min(steps, key=lambda h: abs(h - step))
            state = index[step, handle]
        return self.decide(state, step - self.step, paid)


def learned_table(learned: Learned) -> LearnedTable:
    """Return what a search knows, as a table from its root on; something must have been sampled there."""
    known, horizon, depth = learned.known, learned.rules.horizon, learned.step
    order = np.argsort(known.pairs[1 : known.used[OUTCOMES]], kind="stable") + 1
    starts = np.searchsorted(known.pairs[order], np.arange(known.used[PAIRS] + 1))
    layers, steps = [np.array([learned.handle], np.int64)], []
    for h in range(depth, horizon):
        pairs, owners, actions, borrowed = _tried(known, layers[-1], h, horizon)
        _, rows, entries = ranges(starts[pairs], starts[pairs + 1])
        owners, actions, outcomes = owners[rows], actions[rows], order[entries]
        targets = known.targets[outcomes].astype(np.int64)
        costs = known.costs[outcomes] + learned.offsets(layers[-1][owners], actions, h)
        if h + 1 == horizon:
            ends, at_end = learned.terminal_costs(), borrowed[rows] & (targets >= 0)
            if ends.size:
                costs[at_end] += learned.rules.discount * ends[targets[at_end]]
            targets[:] = -1
        after = np.unique(targets[targets >= 0])
        reached = np.where(targets < 0, -1, np.searchsorted(after, targets))
        leaves, values = _leaves(learned, h, layers[-1], owners)
        none = np.zeros(leaves.size, np.int64)
        steps.append([
            np.concatenate(columns)
            for columns in (
                (owners, leaves), (actions, none), (reached, none - 1), (costs, values),
                (known.counts[outcomes].astype(np.float64), none + 1.0), (outcomes, none),
            )
        ])  # fmt: skip
        layers.append(after)
    return _table(learned, layers, steps)


def _table(learned: Learned, layers: list[Ints], steps: list[list[Any]]) -> LearnedTable:
    """Return the table of those states after which something is known; ``steps`` are the columns of each step."""
    places = np.full(layers[-1].size, -1)  # of each state of the next step in the table, -1 for none
    used, columns = 0, []
    index: dict[tuple[int, int], int] = {}
    for h in range(len(steps) - 1, -1, -1):
        owners, actions, reached, costs, counts, seen = steps[h]
        done = reached < 0
        kept = done | (places[reached] >= 0) if places.size else done
        after = np.where(done, 0, places[reached]) if places.size else 0 * reached
        states = np.unique(owners[kept])
        places = np.full(layers[h].size, -1)
        places[states] = used + np.arange(states.size)
        index |= {(learned.step + h, int(layers[h][k])): int(places[k]) for k in states.tolist()}
        used += states.size
        parts = (places[owners], actions, after, costs, counts, done, seen)
        columns.append([part[kept] for part in parts])
    states, actions, after, costs, counts, done, seen = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    states, after = used - 1 - states, used - 1 - after  # the root was last, and is state 0
    order = np.lexsort((actions, states))
    states, actions, after, costs, counts, done, seen = (
        part[order] for part in (states, actions, after, costs, counts, done, seen)
    )
    first = np.flatnonzero(np.append(True, (np.diff(states) != 0) | (np.diff(actions) != 0)))
    sizes = np.diff(np.append(first, states.size))
    is_cost, model = learned.model.sense == "cost", learned.model
    paid = {"costs": costs} if is_cost else {"costs": None, "rewards": 0.0 - costs}
    mdp = TabularMDP.from_outcomes(
        states, actions, np.where(done, states, after), counts / np.repeat(np.add.reduceat(counts, first), sizes),
        **paid, done=done, num_states=used, horizon=len(steps), discount=float(model.discount), name="learned",
    )  # fmt: skip
    return LearnedTable(
        mdp, {key: used - 1 - place for key, place in index.items()}, counts, seen, model, learned.binding
    )


def _tried(known: TransitionCounts, layer: Ints, h: int, horizon: int) -> tuple[Ints, Ints, Ints, NDArray[np.bool_]]:
    """Return pair, place in the layer, action, and whether other steps lend their draws, of every action tried.

    The last step's costs hold the end's, so that it is counted by itself; more draws of other steps serve instead.
    """
    first, arity = _found(known, known.step_kinds * layer + (h if known.step_kinds > 2 else int(h + 1 == horizon)))
    other, other_arity = (
        _found(known, 2 * layer) if known.step_kinds == 2 and h + 1 == horizon else (0 * first, 0 * arity)
    )
    _, owners, actions = ranges(0 * arity, np.maximum(arity, other_arity))
    own, lent = (np.where(part[owners] > 0, part[owners] + actions, 0) for part in (first, other))
    borrowed = known.draws[lent] > known.draws[own]
    pairs = np.where(borrowed, lent, own)
    tried = known.draws[pairs] > 0
    return pairs[tried], owners[tried], actions[tried], borrowed[tried]


def _found(known: TransitionCounts, places: Ints) -> tuple[Ints, Ints]:
    """Return first pair and number of actions at ``places``; 0 where a state was not met."""
    inside = np.minimum(places, known.first.size - 1)
    met = places < known.first.size
    return np.where(met, known.first[inside], 0).astype(np.int64), np.where(met, known.arity[inside], 0).astype(
        np.int64
    )


def _leaves(learned: Learned, h: int, layer: Ints, owners: Ints) -> tuple[Ints, Floats]:
    """Return the states of a layer that were valued as leaves and nothing more, and their values."""
    if not learned.rules.leaves and not learned.is_tree:
        return np.empty(0, np.int64), np.empty(0)
    bare, nodes = np.setdiff1d(np.arange(layer.size), owners), learned.nodes
    found = np.array([find_node(nodes, h, handle) for handle in layer[bare].tolist()], np.int64)
    known = (found > 0) & np.isfinite(nodes.values[found])
    return bare[known], nodes.values[found[known]]
