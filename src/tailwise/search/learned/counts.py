"""What was learned, as flat arrays: transition counts that all steps share, and one node per (step, state).

A state-action *pair* counts the outcomes that its draws have shown: next state (-1 where the episode ends) and cost.
Pairs of a state are consecutive, from ``first[step_kinds * handle + kind]``; 0 means that the state was never met at
such a step. Steps with the same step function are of one *kind*: all of a table's but the last, which charges the end;
the last step of a simulator, whose cost holds the terminal cost, is one of its own.

A *node* is a state at a step. Its actions have consecutive entries in ``q`` (the value) and ``taken`` (how often the
action was taken here). Nodes are found by an open hash table, and listed step by step for sweeps.

Index 0 of nodes, values, pairs and outcomes is never used: it ends lists and says "none".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import marked, ranges
from tailwise._jit import DISABLE_JIT, Kernel, borrowed, inlined, kernel
from tailwise.bindings.intern import float_bits, mix
from tailwise.search.options import LearnedRules

# Entries of TransitionCounts.used and of Nodes.used.
PAIRS, OUTCOMES, CHANGES = 0, 1, 2
NODES, Q_VALUES, MAX_NODES, DISMISSED, EPOCH, DEAD = range(6)
# Entries of Scratch.work and of Scratch.numbers.
ITERATIONS, STEPS, STATE, ACTION, STEPS_SINCE_SWEEP, SWEEP_COST, CHANGES_AT_EXPANSION, ARRIVED, MET, WALKED = range(10)
LOOKED, SHORT, WANTED_AT_SWEEP, CHANGES_AT_SWEEP, TREE, PLACES, PAST, STEPS_PAST = range(10, 18)
STAGE, AT_STEP, AT_NODE, SWEPT, JUDGED, REFUTED, IS_OPEN, SLICE = range(18, 26)
RESTING, EXPANDING, BACKING_UP = range(3)  # stages of a sweep
SHORT_OF_STATES, SHORT_OF_PAIRS, SHORT_OF_OUTCOMES, SHORT_OF_NODES, SHORT_OF_Q = 1, 2, 3, 4, 5
LEAST, GREATEST, RANGE, DEVIATION = range(4)
GAPS = 32  # costs-to-go less the leaf values that they followed, kept of each step
MOST_ENTRIES = 2**31  # of an array: links are 32-bit ints
AMPLE = 2**16  # entries that are kept free when others are
_FEWEST_SAMPLES, _MOST_SAMPLES = 64, 1024
_FEW = 4  # outcomes of a pair that are looked through one by one, and in no table
_MULTIPLIER, _32 = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_STEP_MULTIPLIER = np.uint64(0xC2B2AE3D27D4EB4F)
_MASK = 0xFFFFFFFFFFFFFFFF


class TransitionCounts(NamedTuple):
    """Outcome counts of every (state, action) met."""

    step_kinds: int
    first: NDArray[np.int32]  # (handles * step_kinds,) first pair of a state, 0 if never met
    arity: NDArray[np.int32]  # the same shape: its number of actions
    heads: NDArray[np.int32]  # (R,) newest outcome of a pair, 0 if none
    widths: NDArray[np.int32]  # (R,) different outcomes
    draws: NDArray[np.int64]  # (R,) outcomes drawn from the model
    visits: NDArray[np.int64]  # (R,) times taken: draws, and outcomes taken again by widening
    pairs: NDArray[np.int32]  # (O,)
    targets: NDArray[np.int32]  # (O,) handle of the next state, -1 where the episode ends
    links: NDArray[np.int32]  # (O,) next older outcome of the pair, 0 if none
    counts: NDArray[np.int64]  # (O,)
    costs: NDArray[np.float64]  # (O,)
    slots: NDArray[np.int32]  # (2**k,) outcome by (pair, target, cost), of pairs with many; at most half are taken
    used: NDArray[np.int64]  # (3,) pairs, outcomes; CHANGES grows with all that a sweep could reach anew


class Nodes(NamedTuple):
    """Values of every (step, state) met."""

    states: NDArray[np.int32]  # (N,)
    steps: NDArray[np.int32]  # (N,)
    first_q: NDArray[np.int32]  # (N,) where its values begin in ``q``
    first_pair: NDArray[np.int32]  # (N,) state-action pair of its first action
    arity: NDArray[np.int32]  # (N,) number of actions
    links: NDArray[np.int32]  # (N,) next node of the same step, 0 if none
    marks: NDArray[np.int32]  # (N,) the latest EPOCH in which known outcomes were seen to lead to it from the root
    visits: NDArray[np.int64]  # (N,) decisions taken here
    values: NDArray[np.float64]  # (N,) V; inf until known
    novelty: NDArray[np.float64]  # (N,) how surely, and how soon, it leads to an action tried too seldom
    lows: NDArray[np.float64]  # (N,) least and, directed iterations left out,
    highs: NDArray[np.float64]  # (N,) greatest cost-to-go seen from here
    leaves: NDArray[np.float64]  # (N,) what a leaf value said of it, inf where none did
    least: NDArray[np.float64]  # (N,) bounds of V that the user knows,
    most: NDArray[np.float64]  # (N,) (0,) where none are
    q: NDArray[np.float64]  # (U,) inf until known
    errors: NDArray[np.float64]  # (U,) of q, which leaf values and bounds are weighed against; (0,) without any
    taken: NDArray[np.int64]  # (U,)
    prior: NDArray[np.float64]  # (U,) weight of the action over the mean one, NaN until asked; (0,) without a prior
    slots: NDArray[np.int32]  # (2**k,) node by (step, state); at most half are taken
    heads: NDArray[np.int32]  # (H + 1,) newest node of each step
    shifts: NDArray[np.float64]  # (H + 1,) added to all leaf values of a step, which are too high: 0 or less
    used: NDArray[np.int64]  # (6,) DISMISSED: whether leaf values, or bounds, were found wrong more often than not;
    #   EPOCH: how many times it was looked for what the root leads to; DEAD: nodes not found then


class Scratch(NamedTuple):
    """What an iteration works with, and what it notes."""

    root: NDArray[np.int64]  # (1,) root node
    path: NDArray[np.int64]  # (H, 5) node, action, target or -1, whether it was drawn, whether it was met before
    costs: NDArray[np.float64]  # (H,) of the path, without offsets
    values: NDArray[np.float64]  # (BLOCK,) of a backup
    weights: NDArray[np.float64]  # (BLOCK,)
    work: NDArray[np.int64]  # (26,) iterations, simulator steps, state and action of a failure; steps since the last
    #   sweep, nodes it had, CHANGES when closed; new outcomes, those to known states; steps walked;
    #   outcomes that the last sweep looked at; what ran out; wanted draws and CHANGES at the last sweep;
    #   whether it was a tree; places needed; iterations that looked past leaf values, and their steps; of a sweep
    #   under way its stage, the step and node it has come to, nodes backed up, leaf values judged and refuted, whether
    #   novelty may have changed, outcomes it may yet look at
    numbers: NDArray[np.float64]  # (4,) least and greatest cost of a step, and by steps to go:
    #   range and standard deviation of the totals
    compared: NDArray[np.float64]  # (H, 38) leaf values to the costs-to-go that followed: of even iterations number,
    #   least and greatest leaf value, least and greatest cost-to-go; of greedy ones number and the last 32 differences
    sampled: NDArray[np.int64]  # (A,) totals sampled at the root since the last re-root
    moments: NDArray[np.float64]  # (A, 4) their mean, sum of squared deviations, minimum and maximum
    latest: NDArray[np.float64]  # (A, K) the last K of them, K a power of 2


class Parts(NamedTuple):
    """What kernels work on beside the model."""

    known: TransitionCounts
    nodes: Nodes
    rules: LearnedRules
    scratch: Scratch


def new_scratch(horizon: int, num_actions: int, block: int) -> Scratch:
    """Return working memory for a root with so many actions."""
    kept = min(_MOST_SAMPLES, max(_FEWEST_SAMPLES, 1 << (32_768 // num_actions).bit_length() - 1))
    return Scratch(
        np.zeros(1, np.int64), np.zeros((horizon, 5), np.int64), np.zeros(horizon), np.zeros(block), np.zeros(block),
        np.zeros(SLICE + 1, np.int64), np.array([math.inf, -math.inf, 0.0, 0.0]), np.zeros((horizon, 6 + GAPS)),
        np.zeros(num_actions, np.int64), np.tile([0.0, 0.0, math.inf, -math.inf], (num_actions, 1)),
        np.zeros((num_actions, kept)),
    )  # fmt: skip


def new_counts(step_kinds: int, handles: int = 64, pairs: int = 128, outcomes: int = 128) -> TransitionCounts:
    """Return empty knowledge with room for so many states, pairs and outcomes."""
    first, arity = (np.zeros(handles * step_kinds, np.int32) for _ in range(2))
    heads, widths = (np.zeros(pairs, np.int32) for _ in range(2))
    draws, visits = (np.zeros(pairs, np.int64) for _ in range(2))
    owners, targets, links = (np.zeros(outcomes, np.int32) for _ in range(3))
    counts, costs = np.zeros(outcomes, np.int64), np.zeros(outcomes)
    slots, used = np.zeros(_slots_for(outcomes), np.int32), np.array([1, 1, 0])
    return TransitionCounts(
        step_kinds, first, arity, heads, widths, draws, visits, owners, targets, links, counts, costs, slots, used
    )


def new_nodes(
    horizon: int, max_nodes: int, nodes: int = 64, actions: int = 256, *, bounded: bool = False, weighed: bool = False,
    guided: bool = False,
) -> Nodes:  # fmt: skip
    """Return no nodes, with room for so many nodes and actions of them; with bounds, errors, a prior, or without."""
    states, steps, first, pairs, arity, links, marks = (np.zeros(nodes, np.int32) for _ in range(7))
    visits, (values, novelty, lows, highs, leaves) = np.zeros(nodes, np.int64), (np.zeros(nodes) for _ in range(5))
    least, most = (np.zeros(nodes if bounded else 0) for _ in range(2))
    q, errors, taken = np.zeros(actions), np.zeros(actions if weighed else 0), np.zeros(actions, np.int64)
    prior = np.zeros(actions if guided else 0)
    values[0], novelty[0] = math.inf, 1.0  # where there is no node nothing is known, and nothing was tried
    slots, heads = np.zeros(_slots_for(nodes), np.int32), np.zeros(horizon + 1, np.int32)
    used = np.array([1, 1, max_nodes, 0, 0, 0])
    return Nodes(
        states, steps, first, pairs, arity, links, marks, visits, values, novelty, lows, highs, leaves, least, most, q,
        errors, taken, prior, slots, heads, np.zeros(horizon + 1), used,
    )  # fmt: skip


def _slots_for(items: int) -> int:
    return 1 << (2 * items - 1).bit_length()


def num_bytes(*parts: TransitionCounts | Nodes | Scratch) -> int:
    """Return the memory of all arrays of ``parts``."""
    return sum(item.nbytes for part in parts for item in part if isinstance(item, np.ndarray))


@inlined
def outcome_slot(pair, target, cost, mask):  # type: ignore[no-untyped-def]
    """Where an outcome is looked for first."""
    return np.int64(mix(mix(mix(np.uint64(0), pair), target), float_bits(cost + 0.0)) & np.uint64(mask))


def _slot_of(state, step, mask):  # type: ignore[no-untyped-def]
    return np.int64(((np.uint64(state) * _MULTIPLIER + np.uint64(step) * _STEP_MULTIPLIER) >> _32) & np.uint64(mask))


def _slot_of_interpreted(state: int, step: int, mask: int) -> int:
    """The same in Python's unbounded integers."""
    return (((int(state) * int(_MULTIPLIER) + int(step) * int(_STEP_MULTIPLIER)) & _MASK) >> 32) & mask


slot_of: Kernel = _slot_of_interpreted if DISABLE_JIT else inlined(_slot_of)


@inlined
def place_of(known, horizon, handle, h):  # type: ignore[no-untyped-def]
    """Index of a state in ``known.first``: its two step_kinds are the steps before the last, and the last."""
    if known.step_kinds == 2:
        return 2 * handle + (1 if h + 1 == horizon else 0)
    return known.step_kinds * handle + h


@inlined
def find_node(nodes, step, state):  # type: ignore[no-untyped-def]
    """The node of ``state`` at ``step``, or 0."""
    mask = nodes.slots.size - 1
    slot = slot_of(state, step, mask)
    while True:
        node = nodes.slots[slot]
        if node == 0 or (nodes.states[node] == state and nodes.steps[node] == step):
            return np.int64(node)
        slot = (slot + 1) & mask


@inlined
def lacks_room(nodes, num_actions):  # type: ignore[no-untyped-def]
    """Whether a node with so many actions has no room."""
    return nodes.used[NODES] == nodes.states.size or nodes.used[Q_VALUES] + num_actions > nodes.q.size


@inlined
def short_of(nodes):  # type: ignore[no-untyped-def]
    """What the latest :func:`add_node` had no room for."""
    return SHORT_OF_NODES if nodes.used[NODES] == nodes.states.size else SHORT_OF_Q


@inlined
def add_node(nodes, step, state, first_record, num_actions):  # type: ignore[no-untyped-def]
    """Make a node, its values unknown; 0 when there is no room."""
    node, at = nodes.used[NODES], nodes.used[Q_VALUES]
    if lacks_room(nodes, num_actions):
        return np.int64(0)
    mask = nodes.slots.size - 1
    slot = slot_of(state, step, mask)
    while nodes.slots[slot] != 0:
        slot = (slot + 1) & mask
    nodes.slots[slot] = node
    nodes.states[node], nodes.steps[node], nodes.first_q[node] = state, step, at
    nodes.first_pair[node], nodes.arity[node] = first_record, num_actions
    nodes.links[node], nodes.heads[step] = nodes.heads[step], node
    nodes.marks[node] = nodes.used[EPOCH]
    nodes.visits[node], nodes.values[node], nodes.novelty[node] = 0, math.inf, 0.0
    nodes.lows[node], nodes.highs[node], nodes.leaves[node] = math.inf, -math.inf, math.inf
    if nodes.least.size > 0:
        nodes.least[node], nodes.most[node] = -math.inf, math.inf
    for k in range(at, at + num_actions):
        nodes.q[k], nodes.taken[k] = math.inf, 0
        if nodes.errors.size > 0:
            nodes.errors[k] = math.inf
        if nodes.prior.size > 0:
            nodes.prior[k] = math.nan
    nodes.used[NODES], nodes.used[Q_VALUES] = node + 1, at + num_actions
    return node


@inlined
def remove_last_node(nodes, known, horizon, pairs):  # type: ignore[no-untyped-def]
    """Undo the latest :func:`add_node` (with linear probing, the newest entry ends its chain).

    Its state is forgotten if its pairs are not among the first ``pairs``.
    """
    node = nodes.used[NODES] - 1
    mask = nodes.slots.size - 1
    slot = slot_of(nodes.states[node], nodes.steps[node], mask)
    while nodes.slots[slot] != node:
        slot = (slot + 1) & mask
    nodes.slots[slot] = 0
    nodes.heads[nodes.steps[node]] = nodes.links[node]
    nodes.used[NODES], nodes.used[Q_VALUES] = node, nodes.first_q[node]
    if nodes.first_pair[node] >= pairs:
        known.first[place_of(known, horizon, np.int64(nodes.states[node]), np.int64(nodes.steps[node]))] = 0


@inlined
def add_state(known, place, num_actions):  # type: ignore[no-untyped-def]
    """Give a state its pairs, at ``place`` of ``first``; False when there is no room."""
    pair = known.used[PAIRS]
    if pair + num_actions > known.heads.size:
        return False
    known.first[place], known.arity[place] = pair, num_actions
    known.used[PAIRS] = pair + num_actions
    return True


@inlined
def enter_outcome(known, outcome):  # type: ignore[no-untyped-def]
    """Put an outcome into ``slots``."""
    mask = known.slots.size - 1
    slot = outcome_slot(known.pairs[outcome], known.targets[outcome], known.costs[outcome], mask)
    while known.slots[slot] != 0:
        slot = (slot + 1) & mask
    known.slots[slot] = outcome


@inlined
def count_outcome(known, pair, target, cost):  # type: ignore[no-untyped-def]
    """Count an outcome of ``pair``, for which there must be room; return whether it is new."""
    width = known.widths[pair]
    if width <= _FEW:
        outcome = known.heads[pair]
        while outcome != 0 and (known.targets[outcome] != target or known.costs[outcome] != cost):
            outcome = known.links[outcome]
    else:
        mask = known.slots.size - 1
        slot = outcome_slot(pair, target, cost, mask)
        outcome = known.slots[slot]
        while outcome != 0 and (
            known.pairs[outcome] != pair or known.targets[outcome] != target or known.costs[outcome] != cost
        ):
            slot = (slot + 1) & mask
            outcome = known.slots[slot]
    if outcome != 0:
        known.counts[outcome] += 1
        return False
    fresh = known.used[OUTCOMES]
    known.pairs[fresh], known.targets[fresh], known.costs[fresh] = pair, target, cost
    known.counts[fresh] = 1
    known.links[fresh], known.heads[pair] = known.heads[pair], fresh
    known.widths[pair] = width + 1
    known.used[OUTCOMES] = fresh + 1
    known.used[CHANGES] += 1
    outcome = np.int64(fresh if width >= _FEW else 0)
    while outcome != 0:  # one more than few: from now on all of them are in the table
        enter_outcome(known, outcome)
        outcome = np.int64(known.links[outcome] if width == _FEW else 0)
    return True


class Draws(NamedTuple):
    """Outcomes that were drawn one by one, in their order."""

    steps: NDArray[np.int64]
    handles: NDArray[np.int64]
    arity: NDArray[np.int64]  # of the state
    positions: NDArray[np.int64]  # of the action
    targets: NDArray[np.int64]  # handle of the next state, -1 where the episode ended
    costs: NDArray[np.float64]


@kernel
def note_draws(known, horizon, draws, begin):  # type: ignore[no-untyped-def]
    """Count outcomes from ``begin`` on; return how far it came, and what there is no room for (0: it is done)."""
    known = borrowed(known)
    for k in range(begin, draws.steps.size):
        place = place_of(known, horizon, draws.handles[k], draws.steps[k])
        if place >= known.first.size:
            return k, SHORT_OF_STATES
        if known.used[OUTCOMES] == known.costs.size:
            return k, SHORT_OF_OUTCOMES
        if known.first[place] == 0 and not add_state(known, place, draws.arity[k]):
            return k, SHORT_OF_PAIRS
        pair = known.first[place] + draws.positions[k]
        known.draws[pair] += 1
        known.visits[pair] += 1
        count_outcome(known, pair, draws.targets[k], draws.costs[k])
    return draws.steps.size, 0


@inlined
def plant(known, nodes, horizon, step, handle, num_actions):  # type: ignore[no-untyped-def]
    """Node of a state at a step, made if need be; negative: minus what there is no room for."""
    node = find_node(nodes, step, handle)
    if node != 0:
        return node
    place = place_of(known, horizon, handle, step)
    if place >= known.first.size:
        return -SHORT_OF_STATES
    if lacks_room(nodes, num_actions):
        return -short_of(nodes)
    if known.first[place] == 0 and not add_state(known, place, num_actions):
        return -SHORT_OF_PAIRS
    return add_node(nodes, step, handle, known.first[place], num_actions)


@kernel
def plant_root(known, nodes, horizon, step, handle, num_actions):  # type: ignore[no-untyped-def]
    """The same, called from Python."""
    return plant(borrowed(known), borrowed(nodes), horizon, step, handle, num_actions)


@kernel
def reached(known, nodes, root, horizon):  # type: ignore[no-untyped-def]
    """Which nodes known outcomes reach from ``root``, itself included: bool, shape (N,)."""
    known, nodes = borrowed(known), borrowed(nodes)
    kept = np.zeros(nodes.states.size, dtype=np.bool_)
    found, count, looked = np.empty(nodes.used[NODES], np.int32), 1, 0
    found[0], kept[root] = root, root != 0
    while looked < count:
        node = np.int64(found[looked])
        looked += 1
        h, first, arity = np.int64(nodes.steps[node]) + 1, np.int64(nodes.first_pair[node]), np.int64(nodes.arity[node])
        for pair in range(first, first + arity if h < horizon else first):
            outcome = np.int64(known.heads[pair])
            while outcome != 0:
                target = np.int64(known.targets[outcome])
                there = find_node(nodes, h, target) if target >= 0 else np.int64(0)
                if there != 0 and not kept[there]:
                    kept[there], found[count] = True, there
                    count += 1
                outcome = np.int64(known.links[outcome])
    return kept


@kernel
def enter_nodes(nodes):  # type: ignore[no-untyped-def]
    """Fill the empty ``slots`` and ``heads``, and the links, from the nodes."""
    nodes = borrowed(nodes)
    mask = nodes.slots.size - 1
    for node in range(1, nodes.used[NODES]):
        step = np.int64(nodes.steps[node])
        slot = slot_of(np.int64(nodes.states[node]), step, mask)
        while nodes.slots[slot] != 0:
            slot = (slot + 1) & mask
        nodes.slots[slot] = node
        nodes.links[node], nodes.heads[step] = nodes.heads[step], node


@kernel
def rehash_outcomes(known):  # type: ignore[no-untyped-def]
    """Fill the empty ``slots`` from the outcomes."""
    known = borrowed(known)
    for outcome in range(1, known.used[OUTCOMES]):
        if known.widths[known.pairs[outcome]] > _FEW:
            enter_outcome(known, outcome)


def kept_nodes(nodes: Nodes, kept: NDArray[np.bool_], spare: float = math.inf) -> Nodes:
    """Return the nodes ``kept``, in the same order and as much room, or with room for as much again and ``spare``."""
    old, kind = np.flatnonzero(kept[: nodes.used[NODES]]), {"bounded": nodes.least.size > 0}
    kind |= {"weighed": nodes.errors.size > 0, "guided": nodes.prior.size > 0}
    most, arity, first = int(nodes.used[MAX_NODES]), nodes.arity[old], nodes.first_q[old].astype(np.int64)
    rooms = (nodes.states.size, old.size), (nodes.q.size, int(arity.sum()))
    room, values_room = (int(min(room, 2 * size + spare)) for room, size in rooms)
    other = new_nodes(nodes.heads.size - 1, most, room, values_room, **kind)
    for name in _by_node(nodes):
        getattr(other, name)[1 : old.size + 1] = getattr(nodes, name)[old]
    _, _, values = ranges(first, first + arity)
    for name in _by_action(nodes):
        getattr(other, name)[1 : values.size + 1] = getattr(nodes, name)[values]
    other.first_q[1 : old.size + 1] = 1 + np.cumsum(arity) - arity
    other.shifts[:] = nodes.shifts
    other.used[:] = old.size + 1, values.size + 1, most, nodes.used[DISMISSED], nodes.used[EPOCH], 0
    enter_nodes(other)
    return other


class Remembered(NamedTuple):
    """What is kept of the counts when the rest is forgotten."""

    owners: NDArray[np.bool_]  # by handle: whether its draws are kept
    pairs: NDArray[np.int64]  # of these states, ascending
    outcomes: NDArray[np.int64]  # of these pairs, ascending
    handles: NDArray[np.int64]  # of these states and of those that follow, ascending


def remembered(known: TransitionCounts, states: NDArray[np.int32]) -> Remembered:
    """Return what is known of these states, the root's first, at any step."""
    first, arity = known.first.reshape(-1, known.step_kinds), known.arity.reshape(-1, known.step_kinds)
    owners = marked(first.shape[0], states[states < first.shape[0]])
    rows = np.flatnonzero(owners)
    begin, number = first[rows].ravel().astype(np.int64), arity[rows].ravel()
    pairs = np.sort(ranges(begin, np.where(begin > 0, begin + number, begin))[2])
    used = int(known.used[OUTCOMES])
    of_kept = marked(int(known.used[PAIRS]), pairs)[known.pairs[:used]]
    of_kept[0] = False
    outcomes = np.flatnonzero(of_kept)
    targets = known.targets[outcomes].astype(np.int64)
    handles = np.union1d(np.append(rows, states[0]), targets[targets >= 0])
    return Remembered(owners, pairs, outcomes, handles)


def forgotten(
    known: TransitionCounts, nodes: Nodes, kept: Remembered, fresh: NDArray[np.int64], spare: int
) -> tuple[TransitionCounts, Nodes]:
    """Return what is kept of the counts, and the nodes, of which all are; ``fresh`` are the handles' new names.

    There is room for as much again and ``spare`` more, if there was.
    """
    kinds, used = known.step_kinds, int(known.used[OUTCOMES])
    names = np.zeros(1 + int(kept.handles.max(initial=-1)), np.int32)
    names[kept.handles] = fresh
    pair_of, outcome_of = np.zeros(int(known.used[PAIRS]), np.int32), np.zeros(used, np.int32)
    pair_of[kept.pairs], outcome_of[kept.outcomes] = (
        np.arange(1, part.size + 1) for part in (kept.pairs, kept.outcomes)
    )
    old_rooms = known.first.size // kinds, known.heads.size, known.costs.size
    sizes = 1 + int(fresh.max(initial=0)), kept.pairs.size, kept.outcomes.size
    rooms = [min(room, 2 * size + spare) for room, size in zip(old_rooms, sizes, strict=True)]
    other, rows = new_counts(kinds, *rooms), np.flatnonzero(kept.owners)
    pairs, outcomes = slice(1, kept.pairs.size + 1), slice(1, kept.outcomes.size + 1)
    other.first.reshape(-1, kinds)[names[rows]] = pair_of[known.first.reshape(-1, kinds)[rows]]
    other.arity.reshape(-1, kinds)[names[rows]] = known.arity.reshape(-1, kinds)[rows]
    other.heads[pairs] = outcome_of[known.heads[kept.pairs]]
    for name in ("widths", "draws", "visits"):
        getattr(other, name)[pairs] = getattr(known, name)[kept.pairs]
    targets = known.targets[kept.outcomes]
    other.pairs[outcomes] = pair_of[known.pairs[kept.outcomes]]
    other.targets[outcomes] = np.where(targets >= 0, names[targets], -1)
    other.links[outcomes] = outcome_of[known.links[kept.outcomes]]
    for name in ("counts", "costs"):
        getattr(other, name)[outcomes] = getattr(known, name)[kept.outcomes]
    other.used[:] = kept.pairs.size + 1, kept.outcomes.size + 1, known.used[CHANGES]
    rehash_outcomes(other)
    size = int(nodes.used[NODES])
    nodes.states[1:size] = names[nodes.states[1:size]]
    nodes.first_pair[1:size] = pair_of[nodes.first_pair[1:size]]
    nodes.slots[:], nodes.heads[:] = 0, 0
    enter_nodes(nodes)
    return other, nodes


def _by_action(nodes: Nodes) -> tuple[str, ...]:
    """Return the names of the arrays that have an entry for each action of a node."""
    return tuple(name for name in ("q", "errors", "taken", "prior") if getattr(nodes, name).size)


def _by_node(nodes: Nodes) -> tuple[str, ...]:
    """Return the names of the arrays that have an entry for each node."""
    return Nodes._fields[: Nodes._fields.index("q" if nodes.least.size else "least")]


def grown_nodes(nodes: Nodes, short: int) -> Nodes:
    """Return the nodes with twice the room of what they are ``short`` of."""
    if short == SHORT_OF_Q:
        larger: Nodes = _enlarged(nodes, _by_action(nodes), 2 * nodes.q.size)
        return larger
    room = 2 * nodes.states.size
    slots, heads = np.zeros(_slots_for(room), np.int32), np.zeros_like(nodes.heads)
    larger = _enlarged(nodes, _by_node(nodes), room)._replace(slots=slots, heads=heads)
    enter_nodes(larger)
    return larger


def _enlarged(part: Any, names: Iterable[str], size: int) -> Any:
    """Return a part with more room in some of its arrays."""
    larger = {}
    for name in names:
        old = getattr(part, name)
        larger[name] = np.zeros(size, old.dtype)
        larger[name][: old.size] = old
    return part._replace(**larger)


def compile_growth() -> None:
    """Compile or load what growing and moving a root take, so that the first time is as quick as the others."""
    known, nodes = new_counts(1), new_nodes(1, 1)
    kept_nodes(nodes, reached(known, nodes, 0, 1))
    rehash_outcomes(known)


def grown_counts(known: TransitionCounts, short: int, places: int, extra: int) -> TransitionCounts:
    """Return the knowledge with twice the room of what it is ``short`` of: room for ``places``, ``extra`` outcomes."""
    if short == SHORT_OF_PAIRS:
        larger = _enlarged(known, ("heads", "widths", "draws", "visits"), 2 * known.heads.size)
    elif short == SHORT_OF_OUTCOMES:
        room = max(2 * known.costs.size, int(known.used[OUTCOMES]) + extra)
        larger = _enlarged(known, ("pairs", "targets", "links", "counts", "costs"), room)
        larger = larger._replace(slots=np.zeros(_slots_for(room), np.int32))
        rehash_outcomes(larger)
    else:
        room = known.first.size
        while room < places:
            room *= 2
        larger = _enlarged(known, ("first", "arity"), room)
    return larger  # type: ignore[no-any-return]
