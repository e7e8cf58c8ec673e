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

from tailwise._arrays import Floats, Ints, inner, marked, ranges, runs
from tailwise.bindings import ModelInterface
from tailwise.models import TabularMDP
from tailwise.models.simulator import own_method
from tailwise.models.table import TableData
from tailwise.search.learned.counts import NODES, OUTCOMES, PAIRS, TREE, Nodes, Scratch, TransitionCounts
from tailwise.search.options import LearnedRules

_LOOKS = 20.0  # at outcomes where states are valued, for each that is laid out: these take so much longer
_STEEPEST = 600.0  # exponent


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
    handles, places : tuple of ndarray of int64
        Of each step: the handles of the states, increasing, and the state of the table of each, -1 for none.
    counts : ndarray of float64, shape (outcomes,)
        How often each outcome was counted.
    seen : ndarray of int64, shape (outcomes,)
        Its number in the learned model, the same at every step; 0 for the end of a leaf.
    model, binding : object
        The model that was sampled, and its interface to the kernel, which knows the handles.
    is_cut : bool
        Whether there was more: the last step then stands for all from there on.
    """

    mdp: TabularMDP
    handles: tuple[Ints, ...]
    places: tuple[Ints, ...]
    counts: Floats
    seen: Ints
    model: Any
    binding: ModelInterface
    is_cut: bool

    def find(self, handle: int, step: int) -> int:
        """Return the state of the table at one of its steps; -1 where there is none."""
        handles = self.handles[step]
        place = int(np.searchsorted(handles, handle))
        return int(self.places[step][place]) if place < handles.size and handles[place] == handle else -1

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
        wanted, find = step - self.step, self.table.find
        steps = self.table.mdp.horizon - (1 if self.table.is_cut else 0)  # in which there are decisions
        state = find(handle, wanted) if 0 <= wanted < steps else -1
        if state < 0:
            wanted = min((h for h in range(steps) if find(handle, h) >= 0), key=lambda h: abs(h - wanted), default=-1)
            state = find(handle, wanted) if wanted >= 0 else -1
        return None if state < 0 else self.decide(state, wanted, paid)


def learned_table(learned: Learned, outcomes: float = math.inf) -> LearnedTable:
    """Return what a search knows, as a table from its root on; something must have been sampled there.

    After so many ``outcomes`` it is cut, see :meth:`LearnedSearch.table`.
    """
    known, horizon, depth = learned.known, learned.rules.horizon, learned.step
    entries = _by_pair(known)
    layers, steps, looked, is_cut = [np.array([learned.handle], np.int64)], [], 0, False
    place = np.empty(1 + max(learned.handle, int(known.targets[: known.used[OUTCOMES]].max(initial=0))), np.int64)
    for h in range(depth, horizon):
        owners, actions, targets, costs, found = _drawn(learned, entries, layers[-1], h)
        looked += found.size
        if looked > outcomes and h > depth:
            ends = _ends(learned, entries, h, layers[-1], place.size, _LOOKS * outcomes)
            if is_cut := ends[0].size > 0:
                none = np.empty(0, np.int64)
                steps.append(_columns(none, none, none, np.empty(0), np.empty(0), none, ends))
                break
        after = np.flatnonzero(marked(place.size, targets[targets >= 0]))
        place[after] = np.arange(after.size)
        reached = np.where(targets < 0, -1, place[targets])
        counts = known.counts[found].astype(np.float64)
        steps.append(_columns(owners, actions, reached, costs, counts, found, _leaves(learned, h, layers[-1], owners)))
        layers.append(after)
    return _table(learned, layers, steps, is_cut=is_cut)


def _by_pair(known: TransitionCounts) -> tuple[Ints, Ints]:
    """Return the outcomes in the order of their pairs, and where those of each pair begin."""
    order = np.argsort(known.pairs[1 : known.used[OUTCOMES]], kind="stable") + 1
    return order, np.searchsorted(known.pairs[order], np.arange(known.used[PAIRS] + 1))


def _drawn(learned: Learned, entries: tuple[Ints, Ints], layer: Ints, h: int) -> tuple[Ints, Ints, Ints, Floats, Ints]:
    """Return what was drawn of some states at a step: place in the layer, action, target, cost and outcome of each."""
    known, horizon = learned.known, learned.rules.horizon
    order, starts = entries
    pairs, owners, actions, borrowed = _tried(known, layer, h, horizon)
    _, rows, places = ranges(starts[pairs], starts[pairs + 1])
    owners, actions, found = owners[rows], actions[rows], order[places]
    targets = known.targets[found].astype(np.int64)
    costs = known.costs[found] + learned.offsets(layer[owners], actions, h)
    if h + 1 == horizon:
        ends, at_end = learned.terminal_costs(), borrowed[rows] & (targets >= 0)
        if ends.size:
            costs[at_end] += learned.rules.discount * ends[targets[at_end]]
        targets[:] = -1
    return owners, actions, targets, costs, found


def _ends(
    learned: Learned, entries: tuple[Ints, Ints], step: int, layer: Ints, size: int, looks: float
) -> tuple[Ints, Floats]:
    """Return the states of a step of which anything is known, by their places in the layer, and the risk from them on.

    That of as many steps as so many ``looks`` at an outcome allow; those after them cost what a draw did on average.
    """
    known, rules = learned.known, learned.rules
    counts = known.counts[1 : known.used[OUTCOMES]].astype(np.float64)
    last = min(rules.horizon, step + max(1, int(looks / counts.size)))
    mean = inner(counts, known.costs[1 : known.used[OUTCOMES]]) / float(counts.sum())
    values, everywhere = (
        np.full(size, mean * np.sum(rules.discount ** np.arange(rules.horizon - last))),
        np.arange(size),
    )
    is_alike = known.step_kinds == 2 and not getattr(learned.model, "step_losses", np.empty(0)).size
    for h in range(last - 1, step - 1, -1):
        if h == last - 1 or h == rules.horizon - 2 or not is_alike:
            owners, actions, targets, costs, found = _drawn(learned, entries, everywhere, h)
            weights, goes_on = known.counts[found].astype(np.float64), np.flatnonzero(targets >= 0)
            first, going = runs(owners, actions), targets[goes_on]
            firsts = runs(owners[first])
        totals, masses = costs.copy(), weights.copy()
        totals[goes_on] += rules.discount * values[going]
        unknown = np.isinf(totals)
        totals[unknown] = masses[unknown] = 0.0
        values = np.full(size, math.inf)
        risks = _risks(totals, masses, first, float(rules.betas[h]))
        values[owners[first[firsts]]] = np.minimum.reduceat(risks, firsts)
    found_here = values[layer]
    bare = np.flatnonzero(np.isinf(found_here))
    there, of_node = _valued(learned, step, layer[bare])
    found_here[bare[there]] = of_node
    there = np.flatnonzero(np.isfinite(found_here))
    return there, found_here[there]


def _risks(totals: Floats, weights: Floats, first: Ints, beta: float) -> Floats:
    """Return the ERM of each run of weighted totals, inf of one without a weight."""
    masses = np.add.reduceat(weights, first)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.add.reduceat(weights * totals, first) / masses
        if beta != 0.0:
            sizes = np.diff(np.append(first, totals.size))
            tilted = np.exp(np.minimum(beta * (totals - np.repeat(means, sizes)), _STEEPEST))
            means += np.log(np.add.reduceat(weights * tilted, first) / masses) / beta
    return np.where(masses > 0.0, means, math.inf)


def _columns(
    owners: Ints, actions: Ints, reached: Ints, costs: Floats, counts: Floats, seen: Ints, valued: tuple[Ints, Floats]
) -> list[Any]:
    """Return the columns of a step: its outcomes, and those of states that end at their values."""
    leaves, values = valued
    none = np.zeros(leaves.size, np.int64)
    ends = leaves, none, none - 1, values, none + 1.0, none
    return [np.concatenate(pair) for pair in zip((owners, actions, reached, costs, counts, seen), ends, strict=True)]


def _table(learned: Learned, layers: list[Ints], steps: list[list[Any]], *, is_cut: bool) -> LearnedTable:
    """Return the table of those states after which something is known; ``steps`` are the columns of each step."""
    places = np.full(0 if is_cut else layers[-1].size, -1)  # of each state of the next step in the table, -1 for none
    used, found = 0, []
    columns: list[list[Any]] = []
    for h in range(len(steps) - 1, -1, -1):
        owners, actions, reached, costs, counts, seen = steps[h]
        done = reached < 0
        kept = done | (places[reached] >= 0) if places.size else done
        after = np.where(done, 0, places[reached]) if places.size else 0 * reached
        states = np.flatnonzero(marked(layers[h].size, owners[kept]))
        places = np.full(layers[h].size, -1)
        places[states] = used + np.arange(states.size)
        found.append(places)
        used += states.size
        parts = (places[owners], actions, after, costs, counts, done, seen)
        columns.append([part[kept] for part in parts])
    states, actions, after, costs, counts, done, seen = map(np.concatenate, zip(*columns, strict=True))
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
    in_table = tuple(np.where(places < 0, -1, used - 1 - places) for places in reversed(found))
    counts, layered = np.asarray(counts, np.float64), tuple(layers[: len(steps)])
    return LearnedTable(mdp, layered, in_table, counts, seen, model, learned.binding, is_cut=is_cut)


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
    bare = np.flatnonzero(~marked(layer.size, owners))
    places, values = _valued(learned, h, layer[bare])
    return bare[places], values


def _valued(learned: Learned, h: int, layer: Ints) -> tuple[Ints, Floats]:
    """Return which handles of a layer have a node with a value, by their places in it, and the values."""
    nodes = learned.nodes
    there = 1 + np.flatnonzero(nodes.steps[1 : nodes.used[NODES]] == h)
    there = there[np.isfinite(nodes.values[there])]
    _, places, held = np.intersect1d(layer, nodes.states[there], assume_unique=True, return_indices=True)
    return places, nodes.values[there[held]]
