"""The compiled search: select, expand, roll out, back up.

One iteration goes down from the root. At a decision node it takes an action never tried,
the first in order, or else the one of least ``value - bonus`` (eq. mcts_action-selection). The model
draws the outcome; the next state's node is found or added. At a new leaf a rollout estimates the
cost-to-go (or, with ``whole_path``, the rule goes on to the horizon). Back up the path,
``x_h = c_h + discount x_{h+1}`` enters the accumulator of each action at ``beta_h``.

Nothing is written to an accumulator before the whole iteration has succeeded: a failing simulator or
a full arena leaves every estimate as it was. An iteration cut short by a full arena puts
the random stream back and is done again, draw for draw, after the arena has grown.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import borrowed, inlined, kernel
from tailwise.bindings.world import DONE, FAILED, FULL, GO_ON, count_actions, end_cost, roll_out, take_step
from tailwise.risk.accumulator import merge_values
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
)
from tailwise.search.log_mean import LANES, log_means

MEAN, SPREAD, LOW, HIGH = 0, 1, 2, 3  # columns of Trace.actions; SPREAD is the sum of squared deviations
_TINY, _LOWEST, _HIGHEST = 1e-9, -700.0, 30.0  # of beta times gap: series below, log domain above
NODE_LIMIT = -3  # a status beside the world's


class Trace(NamedTuple):
    """What the kernel records: the current path, and the costs sampled at the root."""

    path_units: NDArray[np.int64]  # (H,) action units on the path
    path_costs: NDArray[np.float64]  # (H,)
    gaps: NDArray[np.float64]  # (H + 7,) scratch of backup: cost minus value
    scaled: NDArray[np.float64]  # (H + 7,) beta times that
    shares: NDArray[np.float64]  # (H + 7,) 1 / count
    logs: NDArray[np.float64]  # (H + 7,) ln(1 - share + share exp(scaled))
    counts: NDArray[np.int64]  # (A,) samples at the root since the last re-root
    actions: NDArray[np.float64]  # (A, 4) their mean, sum of squared deviations, minimum and maximum
    latest: NDArray[np.float64]  # (A, K) the last K costs sampled through each action, K a power of 2
    totals: NDArray[np.int64]  # (4,) iterations, simulator steps, state and action of a failure


@inlined
def _power(table, count, exponent):  # type: ignore[no-untyped-def]
    """``count ** exponent``, looked up where it can be; exponent -1 asks for sqrt(ln count)."""
    if count < table.size:
        return table[count]
    number = float(count)
    if exponent == 0.25:
        return math.sqrt(math.sqrt(number))
    if exponent == -0.5:
        return 1.0 / math.sqrt(number)
    if exponent == -1.0:
        return math.sqrt(math.log(number))
    return number**exponent


@inlined
def _score(arena, rules, unit, scale):  # type: ignore[no-untyped-def]
    """Lower confidence bound of the action at ``unit``; ``scale`` is the bonus's part that actions share."""
    count = arena.ints[4 * unit + COUNT]
    return arena.floats[2 * unit] - scale * _power(rules.count_factors, count, rules.count_exponent)


@inlined
def _least(arena, rules, node, num_actions, scale):  # type: ignore[no-untyped-def]
    """Position of the least score, the first of equals."""
    best, best_score = 0, math.inf
    for unit in range(node + 1, node + 1 + num_actions):
        score = _score(arena, rules, unit, scale)
        if score < best_score:
            best, best_score = unit - node - 1, score
    return best


@inlined
def select(arena, rules, node, num_actions, h):  # type: ignore[no-untyped-def]
    """Position of the action to take at ``node``: lower confidence bound, untried ones first.

    Where one action has nearly all visits it usually wins again. Asking first whether another beats it
    makes the answer a branch that the processor predicts, and so lets it walk on before the last
    update is done. Elsewhere such a branch would mostly be mispredicted.
    """
    visits, favourite, most = 1, node + 1, 0
    for unit in range(node + 1, node + 1 + num_actions):
        count = arena.ints[4 * unit + COUNT]
        if count == 0:
            return unit - node - 1
        visits += count
        if count > most:
            favourite, most = unit, count
    scale = rules.constants[h] * _power(rules.visit_factors, visits, rules.visit_exponent)
    if 8 * most < 7 * visits:
        return _least(arena, rules, node, num_actions, scale)
    bound = _score(arena, rules, favourite, scale)
    for unit in range(node + 1, node + 1 + num_actions):
        if unit != favourite and _score(arena, rules, unit, scale) <= bound:
            return _least(arena, rules, node, num_actions, scale)
    return favourite - node - 1


@inlined
def backup(arena, rules, trace, depth, length, tail):  # type: ignore[no-untyped-def]
    """Push the costs-to-go along the path of ``length`` steps from ``depth``; return the root's.

    The same as :func:`tailwise.risk.accumulator.push_value` at each step, in three passes so that the
    exponentials and logarithms of eight steps are taken at once.
    """
    cost_to_go = tail
    for k in range(length - 1, -1, -1):
        cost_to_go = trace.path_costs[k] + rules.discount * cost_to_go
        unit = trace.path_units[k]
        count = arena.ints[4 * unit + COUNT] + 1
        arena.ints[4 * unit + COUNT] = count
        if count == 1:
            arena.floats[2 * unit] = cost_to_go
        gap = cost_to_go - arena.floats[2 * unit]
        trace.gaps[k] = gap
        trace.scaled[k] = max(rules.betas[depth + k] * gap, _LOWEST)
        trace.shares[k] = 1.0 / count
    for k in range(0, length, LANES):
        log_means(trace.scaled, trace.shares, trace.logs, k)
    for k in range(length):
        unit = trace.path_units[k]
        scaled = trace.scaled[k]
        if abs(scaled) < _TINY:
            share = trace.shares[k]
            arena.floats[2 * unit] += share * trace.gaps[k] * (1.0 + 0.5 * (1.0 - share) * scaled)
        elif scaled > _HIGHEST:
            value, beta = arena.floats[2 * unit], rules.betas[depth + k]
            arena.floats[2 * unit] = merge_values(value, value + trace.gaps[k], trace.shares[k], beta)
        else:
            arena.floats[2 * unit] += trace.logs[k] / rules.betas[depth + k]
    return cost_to_go


@inlined
def record(trace, action, cost):  # type: ignore[no-untyped-def]
    """Note a cost sampled at the root."""
    count = trace.counts[action]
    trace.latest[action, count & (trace.latest.shape[1] - 1)] = cost
    trace.counts[action] = count + 1
    trace.totals[0] += 1
    gap = cost - trace.actions[action, MEAN]
    trace.actions[action, MEAN] += gap / (count + 1)
    trace.actions[action, SPREAD] += gap * (cost - trace.actions[action, MEAN])
    trace.actions[action, LOW] = min(trace.actions[action, LOW], cost)
    trace.actions[action, HIGH] = max(trace.actions[action, HIGH], cost)


@inlined
def descend(model, arena, rules, trace, stream):  # type: ignore[no-untyped-def]
    """Follow the rule from the root to a new leaf or the end; return (status, path length, tail cost)."""
    depth = arena.book[DEPTH]
    h = depth
    node = arena.book[ROOT]
    num_actions = arena.ints[4 * node + NUM_ACTIONS]
    while True:
        action = select(arena, rules, node, num_actions, h)
        unit = node + 1 + action
        state, cost, status = take_step(model, np.int64(arena.ints[4 * node]), action, h, stream)
        trace.path_units[h - depth] = unit
        trace.path_costs[h - depth] = cost
        h += 1
        if status < 0:
            trace.totals[2], trace.totals[3] = arena.ints[4 * node], action
            return status, h - depth, 0.0
        if status == DONE:
            return GO_ON, h - depth, 0.0
        if h == rules.horizon:
            return GO_ON, h - depth, end_cost(model, state)
        node, link = find_child(arena.ints, unit, state)
        fresh = node == 0
        if fresh:
            if arena.book[NODES] >= arena.book[MAX_NODES]:
                return NODE_LIMIT, h - depth, 0.0
            node = new_leaf(arena, state, link)
            if node == 0:
                return FULL, h - depth, 0.0
            if not rules.whole_path:
                tail, steps, status = roll_out(model, state, h, rules.horizon, rules.discount, stream)
                trace.totals[1] += steps
                if status < 0:
                    trace.totals[2], trace.totals[3] = state, -1
                    return status, h - depth, 0.0
                return GO_ON, h - depth, tail
        num_actions = arena.ints[4 * node + NUM_ACTIONS]
        if num_actions == 0:
            num_actions = count_actions(model, state)
            if num_actions <= 0:
                trace.totals[2], trace.totals[3] = state, -1
                return FAILED, h - depth, 0.0
            node = open_leaf(arena, node, num_actions, link)
            if node == 0:
                return FULL, h - depth, 0.0


@kernel
def search_chunk(model, arena, rules, trace, stream, iterations):  # type: ignore[no-untyped-def]
    """Run up to ``iterations`` iterations; return (number done, status)."""
    model, arena, rules = borrowed(model), borrowed(arena), borrowed(rules)
    trace, stream = borrowed(trace), borrowed(stream)
    depth = arena.book[DEPTH]
    root = arena.book[ROOT]
    saved = np.empty(stream.size, dtype=np.uint64)
    for done in range(iterations):
        steps = trace.totals[1]
        for k in range(stream.size):
            saved[k] = stream[k]
        status, length, tail = descend(model, arena, rules, trace, stream)
        if status < 0:
            trace.totals[1] = steps
            if status == FULL:
                for k in range(stream.size):
                    stream[k] = saved[k]
            return done, status
        trace.totals[1] += length
        cost = backup(arena, rules, trace, depth, length, tail)
        record(trace, trace.path_units[0] - root - 1, cost)
    return iterations, GO_ON
