"""Entropic Bellman backups under counted frequencies.

    Q_h(s, a) = ERM_{beta_h}(cost + discount V_{h+1}(s')),   (cost, s') drawn as often as it was counted
    V_h(s) = min Q_h(s, a) over the actions of which an outcome is known

The risk of a pair is taken in blocks of outcomes, each relative to its own decisive value, and the blocks are
merged as accumulators are: nothing overflows or cancels, at any beta.

One step of a model, free of what depends on the step: what outcome counts may be shared across steps.

A table with costs per step draws an outcome at its row's constant cost; what the step adds is an
offset, known exactly. Everything else takes the step as the kernel model gives it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import ChosenByKind, borrowed, inlined
from tailwise.bindings.kernel_model import DONE, GO_ON, end_cost, roll_out, take_step, value_bounds
from tailwise.bindings.table import draw_outcome as draw_of_table
from tailwise.models.table import TableData
from tailwise.risk.accumulator import merge_values
from tailwise.search.learned.counts import DISMISSED, LEAST, RANGE, Nodes, find_node


@ChosenByKind
def draw_step(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    """Draw (next state, cost without the step's offset, status)."""
    return take_step(model, state, action, h, stream)


@ChosenByKind
def cost_offset(model, state, action, h):  # type: ignore[no-untyped-def]
    """What step ``h`` adds to every cost of an action."""
    return 0.0


def _table_draw(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    k = draw_of_table(model, model.action_offsets[state] + action, stream)
    target = model.targets[k]
    if target < 0:
        return -1 - target, model.losses[k], DONE
    return target, model.losses[k], GO_ON


def _table_offset(model, state, action, h):  # type: ignore[no-untyped-def]
    if model.step_losses.size:
        return model.step_losses[h, model.action_offsets[state] + action]
    return 0.0


@inlined
def draw_outcome(model, state, action, h, horizon, discount, stream):  # type: ignore[no-untyped-def]
    """Draw (next state, -1 where the episode ends; cost without the step's offset, with what the end costs; status)."""
    target, cost, status = draw_step(model, state, action, h, stream)
    if status == GO_ON and h + 1 == horizon:
        return np.int64(-1), cost + discount * end_cost(model, target), np.int64(DONE)
    return np.int64(-1 if status == DONE else target), cost, np.int64(status)


def play_step(model, state, action, h, horizon, discount, stream):  # type: ignore[no-untyped-def]
    """The same with the step's offset: (next state or -1, cost without it, offset, status)."""
    model, stream = borrowed(model), borrowed(stream)
    target, cost, status = draw_outcome(model, state, action, h, horizon, discount, stream)
    return target, cost, cost_offset(model, state, action, h), status


draw_step.register(TableData, _table_draw)
cost_offset.register(TableData, _table_offset)

BLOCK = 64
ERRORS, _FEWEST = 2.5, 16.0  # standard errors that a leaf value may be off; draws from which those are known


@inlined
def block_erm(values, weights, size, low, high, weight, beta):  # type: ignore[no-untyped-def]
    """ERM of ``size`` values between ``low`` and ``high`` with ``weights`` that sum to ``weight``."""
    if low == high:
        return low
    shift = high if beta >= 0.0 else low
    spread = abs(beta) * (high - low)
    total = 0.0
    if spread < 1e-13:
        for k in range(size):
            total += weights[k] * (values[k] - shift)
        return shift + total / weight
    if spread < 1.0:
        for k in range(size):
            total += weights[k] * math.expm1(beta * (values[k] - shift))
        return shift + math.log1p(total / weight) / beta
    for k in range(size):
        total += weights[k] * math.exp(beta * (values[k] - shift))
    return shift + math.log(total / weight) / beta


class Ahead(NamedTuple):
    """Values at the next step, by the handle of the state; at the horizon, by what the end costs."""

    values: NDArray[np.float64]  # (S,) inf where nothing is known
    ends: NDArray[np.float64]  # (S,) terminal costs, (0,) where there are none


@ChosenByKind
def value_after(after, rules, scratch, target, h):  # type: ignore[no-untyped-def]
    """Cost-to-go of ``target``, reached at step ``h``, by what is known ``after``; inf where nothing is."""
    raise NotImplementedError


def _optimistic_value(nodes, rules, scratch, target, h):  # type: ignore[no-untyped-def]
    """For exploring: where a state has no value yet, the least that it could be."""
    if target < 0:
        return 0.0
    node = find_node(nodes, h, target)
    if node != 0 and nodes.values[node] < math.inf:
        return nodes.values[node]
    return within_bounds(nodes, node, scratch.numbers[LEAST] * rules.horizon_left[h])


def _supported_value(ahead, rules, scratch, target, h):  # type: ignore[no-untyped-def]
    if target < 0:
        return 0.0
    if h == rules.horizon:
        return ahead.ends[target] if ahead.ends.size else 0.0
    return ahead.values[target]


value_after.register(Nodes, _optimistic_value)
value_after.register(Ahead, _supported_value)


@inlined
def pair_erm(known, after, counts, rules, scratch, pair, h):  # type: ignore[no-untyped-def]
    """ERM at step ``h`` of cost + discount V under the ``counts`` of those outcomes whose V is known; inf without."""
    beta = rules.betas[h]
    outcome = known.heads[pair]
    total, value = 0.0, math.inf
    while outcome != 0:
        size, weight, low, high = 0, 0.0, math.inf, -math.inf
        while outcome != 0 and size < BLOCK:
            share = float(counts[outcome])
            target = np.int64(known.targets[outcome])
            x = known.costs[outcome] + rules.discount * value_after(after, rules, scratch, target, h + 1)
            outcome = known.links[outcome]
            if share > 0.0 and x < math.inf:
                low, high = min(low, x), max(high, x)
                scratch.values[size] = x
                scratch.weights[size] = share
                weight += share
                size += 1
        if size == 0:
            continue
        part = block_erm(scratch.values, scratch.weights, size, low, high, weight, beta)
        value = part if total == 0.0 else merge_values(value, part, weight / (total + weight), beta)
        total += weight
    return value


@inlined
def square_away(away, beta):  # type: ignore[no-untyped-def]
    """What a draw so far from the ERM adds to its variance (delta method)."""
    if abs(beta * away) > 1e-13:
        away = math.expm1(min(beta * away, 300.0)) / beta
    return away * away


@inlined
def pair_error(known, after, counts, rules, scratch, pair, h, value):  # type: ignore[no-untyped-def]
    """Error of :func:`pair_erm`, of which ``value`` came: standard errors (delta method); inf of too few draws.

    Draws that are all alike are no proof: one more, as far away as the totals at the root are apart, counts too.
    """
    beta, outcome, total = rules.betas[h], known.heads[pair], 0.0
    squares = (scratch.numbers[RANGE] * rules.horizon_left[h]) ** 2
    while outcome != 0:
        x = known.costs[outcome] + rules.discount * value_after(
            after, rules, scratch, np.int64(known.targets[outcome]), h + 1
        )
        if x < math.inf:
            total += counts[outcome]
            squares += counts[outcome] * square_away(x - value, beta)
        outcome = known.links[outcome]
    return ERRORS * math.sqrt(squares / (total * (total - 1.0))) if total >= _FEWEST else math.inf


@inlined
def between(leaf, low, high):  # type: ignore[no-untyped-def]
    """A leaf value as far as what was seen leaves it possible: it helps where little was, and cannot harm for long."""
    return min(max(leaf, low), high)


@inlined
def within_bounds(nodes, node, value):  # type: ignore[no-untyped-def]
    """A value between the bounds that the user knows, if there are any; ``node`` may be 0."""
    if nodes.least.size == 0 or node == 0 or nodes.used[DISMISSED] != 0:
        return value
    return min(max(value, nodes.least[node]), nodes.most[node])


@inlined
def bound(model, nodes, rules, node, state, h):  # type: ignore[no-untyped-def]
    """Ask ``bounds`` of a node, if it is given; return the status."""
    if not rules.bounded:
        return np.int64(GO_ON)
    low, high, status = value_bounds(model, state, h)
    if status >= 0:
        nodes.least[node], nodes.most[node] = low, high
    return np.int64(status)


@inlined
def node_span(nodes, node):  # type: ignore[no-untyped-def]
    """Between what the errors leave the least Q of a node."""
    at, low, high = nodes.first_q[node], math.inf, math.inf
    for k in range(at, at + nodes.arity[node]):
        low = min(low, nodes.q[k] - nodes.errors[k] if nodes.q[k] < math.inf else -math.inf)
        high = min(high, nodes.q[k] + nodes.errors[k])
    return low, high


@inlined
def leaf_of(nodes, node):  # type: ignore[no-untyped-def]
    """What a leaf value says of a node, less what those of its step are too high by; infinite where none did."""
    return nodes.leaves[node] + nodes.shifts[nodes.steps[node]]


@inlined
def node_value(nodes, node):  # type: ignore[no-untyped-def]
    """V of a node: the least Q, or what a leaf value said of it, between the bounds of what was seen."""
    at, least = nodes.first_q[node], math.inf
    if nodes.leaves[node] < math.inf and nodes.used[DISMISSED] == 0:
        low, high = node_span(nodes, node)
        return between(leaf_of(nodes, node), low, high)
    for k in range(np.uint64(at), np.uint64(at + nodes.arity[node])):
        if nodes.q[k] < least:
            least = nodes.q[k]
    return within_bounds(nodes, node, least)


@inlined
def refresh_action(model, known, nodes, rules, scratch, node, a, h):  # type: ignore[no-untyped-def]
    """Recompute Q of action ``a``, of which an outcome must be known; return it."""
    at, pair = nodes.first_q[node] + a, nodes.first_pair[node] + a
    value = pair_erm(known, nodes, known.counts, rules, scratch, pair, h)
    if rules.bounded or nodes.leaves[node] < math.inf:
        nodes.errors[at] = pair_error(known, nodes, known.counts, rules, scratch, pair, h, value)
    nodes.q[at] = cost_offset(model, int(nodes.states[node]), a, h) + value
    return nodes.q[at]


@inlined
def refresh_node(model, known, nodes, rules, scratch, node, h):  # type: ignore[no-untyped-def]
    """Recompute Q of every action of which an outcome is known, and V; return the outcomes looked at."""
    first, best, looked = nodes.first_pair[node], math.inf, 0
    for a in range(nodes.arity[node]):
        if known.heads[first + a] != 0:
            best = min(best, refresh_action(model, known, nodes, rules, scratch, node, a, h))
            looked += known.widths[first + a]
    if best < math.inf or (nodes.leaves[node] < math.inf and nodes.used[DISMISSED] == 0):
        nodes.values[node] = node_value(nodes, node)
    return looked


@inlined
def value_leaf(model, nodes, rules, node, state, h, stream):  # type: ignore[no-untyped-def]
    """Ask ``leaf_value`` of a node; return the status."""
    leaf, _, status = roll_out(model, state, h, rules.horizon, rules.discount, stream)
    if status >= 0:
        nodes.leaves[node] = leaf
        nodes.values[node] = node_value(nodes, node)
    return np.int64(status)
