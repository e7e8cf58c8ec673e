"""The compiled search: select, expand, value the leaf, back up.

One iteration goes down from the root. At a decision node it takes an action never tried, or else the one of
least ``value - bonus`` (eq. mcts_action-selection). The model draws the outcome; the next state's node is found or
added. A new leaf is valued (or, with ``expansion="path"``, the rule goes on to the horizon). The backup then changes
the values of the actions on the path. Bonus, leaf and backup are chosen by the types of their options
(:mod:`tailwise.bonuses`, :mod:`tailwise.search.backups`, :mod:`tailwise.search.leaves`); this file knows none of them.

Nothing is written to an action before the whole iteration has succeeded: a failing simulator or
a full arena leaves every estimate as it was, and the tree without the leaf that failed. An iteration cut short
by a full arena puts the random stream back and is done again, draw for draw, after the arena has grown.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import apart
from tailwise._jit import borrowed, inlined
from tailwise.bindings.kernel_model import DONE, FAILED, FULL, GO_ON, count_actions, draw_index, end_cost, take_step
from tailwise.bonuses import bonus_of, growth_of, observe
from tailwise.search.action_rows import HIGH, LOW, note_total
from tailwise.search.arena import (
    COUNT,
    DEPTH,
    MAX_NODES,
    NODES,
    NUM_ACTIONS,
    ROOT,
    find_child,
    new_leaf,
    open_leaf,
    sweep,
)
from tailwise.search.backups import LANES, back_up
from tailwise.search.leaves import goes_on, value_leaf
from tailwise.search.prior import NONE, UNKNOWN, first_try

NODE_LIMIT = -3  # a status beside the kernel model's
_DEEPEST_TRIE = 64  # siblings form a trie over at most 47 bits


class Rules(NamedTuple):
    """The rules of a search as the kernel reads them."""

    bonus: NamedTuple
    backup: NamedTuple
    leaf: NamedTuple


class Trace(NamedTuple):
    """What the kernel records: the current path, and the costs sampled at the root."""

    path_nodes: NDArray[np.int64]  # (H + 1,) decision nodes on the path, then the new leaf, 0 where the episode ended
    path_units: NDArray[np.int64]  # (H,) actions on the path
    path_costs: NDArray[np.float64]  # (H,)
    costs_to_go: NDArray[np.float64]  # (H,)
    scaled: NDArray[np.float64]  # (H + 7,) scratch of the backup: beta times (cost minus value)
    shares: NDArray[np.float64]  # (H + 7,) 1 / count
    logs: NDArray[np.float64]  # (H + 7,) ln(1 - share + share exp(scaled))
    pending: NDArray[np.int64]  # (64,) scratch of walks over siblings
    counts: NDArray[np.int64]  # (A,) samples at the root since the last re-root
    actions: NDArray[np.float64]  # (A, 4) their mean, sum of squared deviations, minimum and maximum
    latest: NDArray[np.float64]  # (A, K) the last K costs sampled through each action, K a power of 2
    totals: NDArray[np.int64]  # (4,) iterations, simulator steps, state and action of a failure


def new_trace(horizon: int, num_actions: int, kept: int) -> Trace:
    """Return an empty trace that keeps the last ``kept`` costs of each action."""
    size = horizon + LANES - 1
    nodes, units, pending, counts, totals = apart(np.int64, horizon + 1, horizon, _DEEPEST_TRIE, num_actions, 4)
    costs, costs_to_go, scaled, shares, logs, moments = apart(
        np.float64, horizon, horizon, size, size, size, 4 * num_actions
    )
    actions = moments.reshape(num_actions, 4)
    actions[:, LOW], actions[:, HIGH] = math.inf, -math.inf
    latest = np.empty((num_actions, kept))
    return Trace(nodes, units, costs, costs_to_go, scaled, shares, logs, pending, counts, actions, latest, totals)


@inlined
def _score(arena, bonus, growth, unit, h):  # type: ignore[no-untyped-def]
    """Lower confidence bound of the action at ``unit``; ``growth`` is the bonus's part that actions share."""
    count = arena.ints[4 * unit + COUNT]
    return arena.floats[2 * unit] - bonus_of(bonus, growth, h, count, arena.statistics, unit)


@inlined
def _least(arena, bonus, growth, node, num_actions, h):  # type: ignore[no-untyped-def]
    """Position of the least score, the first of equals."""
    best, best_score = 0, math.inf
    for unit in range(node + 1, node + 1 + num_actions):
        score = _score(arena, bonus, growth, unit, h)
        if score < best_score:
            best, best_score = unit - node - 1, score
    return best


@inlined
def _untried(arena, node, num_actions, stream):  # type: ignore[no-untyped-def]
    """Position of one of the actions never tried, drawn evenly."""
    untried = 0
    for unit in range(node + 1, node + 1 + num_actions):
        untried += arena.ints[4 * unit + COUNT] == 0
    skip = draw_index(stream, untried)
    for unit in range(node + 1, node + 1 + num_actions):
        if arena.ints[4 * unit + COUNT] == 0:
            if skip == 0:
                return unit - node - 1
            skip -= 1
    return 0


@inlined
def select(arena, bonus, settings, node, num_actions, h, stream):  # type: ignore[no-untyped-def]
    """Position of the action to take at ``node``: lower confidence bound, untried ones before.

    Where one action has nearly all visits it usually wins again. Asking first whether another beats it
    makes the answer a branch that the processor predicts, and so lets it walk on before the last
    update is done. Elsewhere such a branch would mostly be mispredicted.
    """
    visits, favourite, most = np.int64(1), node + 1, np.int64(0)
    for unit in range(node + 1, node + 1 + num_actions):
        count = np.int64(arena.ints[4 * unit + COUNT])  # sums of 32 bits would wrap
        if count == 0:
            return _untried(arena, node, num_actions, stream) if settings.tries_at_random else unit - node - 1
        visits += count
        if count > most:
            favourite, most = unit, count
    growth = growth_of(bonus, h, visits, arena.statistics, node)
    if 8 * most < 7 * visits:
        return _least(arena, bonus, growth, node, num_actions, h)
    bound = _score(arena, bonus, growth, favourite, h)
    for unit in range(node + 1, node + 1 + num_actions):
        if unit != favourite and _score(arena, bonus, growth, unit, h) <= bound:
            return _least(arena, bonus, growth, node, num_actions, h)
    return favourite - node - 1


@inlined
def _failure(trace, state, action):  # type: ignore[no-untyped-def]
    """Note where an iteration failed; action -1: none was involved."""
    trace.totals[2], trace.totals[3] = state, action


@inlined
def descend(model, arena, settings, rules, trace, stream):  # type: ignore[no-untyped-def]
    """Follow the rule from the root to a new leaf or the end.

    Returns (status, path length, tail cost, index of the int that links to the first node added or 0).
    """
    depth = arena.counters[DEPTH]
    h = depth
    node = arena.counters[ROOT]
    first_link = np.int64(0)
    num_actions = arena.ints[4 * node + NUM_ACTIONS]
    while True:
        action = first_try(rules.bonus, arena, node, num_actions, h, settings.tries_at_random, stream)
        if action == UNKNOWN:
            _failure(trace, arena.ints[4 * node], -1)
            return FAILED, h - depth, 0.0, first_link
        if action == NONE:
            action = select(arena, rules.bonus, settings, node, num_actions, h, stream)
        unit = node + 1 + action
        state, cost, status = take_step(model, np.int64(arena.ints[4 * node]), action, h, stream)
        trace.path_nodes[h - depth] = node
        trace.path_units[h - depth] = unit
        trace.path_costs[h - depth] = cost
        h += 1
        if status < 0:
            _failure(trace, arena.ints[4 * node], action)
            return status, h - depth, 0.0, first_link
        if status == DONE or h == settings.horizon:
            trace.path_nodes[h - depth] = 0
            return GO_ON, h - depth, 0.0 if status == DONE else end_cost(model, state), first_link
        node, link = find_child(arena.ints, unit, state)
        if node == 0:
            if arena.counters[NODES] >= arena.counters[MAX_NODES]:
                return NODE_LIMIT, h - depth, 0.0, first_link
            node = new_leaf(arena, state, link)
            if node == 0:
                return FULL, h - depth, 0.0, first_link
            if first_link == 0:
                first_link = link
            if not goes_on(rules.leaf):
                tail, steps, status = value_leaf(rules.leaf, model, state, h, settings, stream)
                trace.totals[1] += steps
                if status < 0:
                    _failure(trace, state, -1)
                    return status, h - depth, 0.0, first_link
                trace.path_nodes[h - depth] = node
                return GO_ON, h - depth, tail, first_link
        num_actions = arena.ints[4 * node + NUM_ACTIONS]
        if num_actions == 0:
            num_actions = count_actions(model, state)
            if num_actions <= 0:
                _failure(trace, state, -1)
                return FAILED, h - depth, 0.0, first_link
            node = open_leaf(arena, node, num_actions, link)
            if node == 0:
                return FULL, h - depth, 0.0, first_link


def search_chunk(model, arena, settings, rules, trace, stream, iterations):  # type: ignore[no-untyped-def]
    """Run up to ``iterations`` iterations; return (number done, status)."""
    model, arena, settings = borrowed(model), borrowed(arena), borrowed(settings)
    rules, trace, stream = borrowed(rules), borrowed(trace), borrowed(stream)
    depth = arena.counters[DEPTH]
    root = arena.counters[ROOT]
    saved = np.empty(stream.size, dtype=np.uint64)
    for done in range(iterations):
        sweep(arena)
        steps, nodes = trace.totals[1], arena.counters[NODES]
        for k in range(stream.size):
            saved[k] = stream[k]
        status, length, tail, first_link = descend(model, arena, settings, rules, trace, stream)
        if status < 0:
            trace.totals[1] = steps
            if status == FULL:
                for k in range(stream.size):
                    stream[k] = saved[k]
            elif status == FAILED and first_link != 0:  # what it added leaves the tree
                arena.ints[first_link] = 0
                arena.counters[NODES] = nodes
            return done, status
        trace.totals[1] += length
        cost = back_up(rules.backup, arena, settings, trace, depth, length, tail)
        observe(rules.bonus, arena.statistics, trace.path_nodes, trace.path_units, trace.costs_to_go, length)
        note_total(trace.counts, trace.actions, trace.latest, trace.path_units[0] - root - 1, cost)
        trace.totals[0] += 1
    return iterations, GO_ON
