"""Entropic Bellman backups under counted frequencies.

    Q_h(s, a) = ERM_{beta_h}(cost + discount V_{h+1}(s')),   (cost, s') drawn as often as it was counted
    V_h(s) = min Q_h(s, a) over the actions of which an outcome is known

The risk of a pair is taken in blocks of outcomes, each relative to its own decisive value, and the blocks are
merged as accumulators are: nothing overflows or cancels, at any beta.

One step of a model, free of what depends on the step: what outcome counts may be shared across steps.

A table with costs per step draws an outcome at its row's constant cost; what the step adds is an
offset, known exactly. Everything else takes the step as the kernel model gives it.

Sweeps over all nodes, and directed iterations: where the learned model knows too little, and the way there.

A sweep adds the nodes that known outcomes reach from the root, then backs every node up, from the last step to the
root's. It comes once enough was walked since the last one, so that its work stays in proportion to the walk's. It also
finds, for each node, how surely it leads to an action that was tried too seldom (in its state, at any step), or to a
(step, state) that was never met; directed iterations follow that.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import ChosenByKind, borrowed, inlined
from tailwise.bindings.kernel_model import DONE, FULL, GO_ON, end_cost, roll_out, take_step, value_bounds
from tailwise.bindings.table import draw_outcome as draw_of_table
from tailwise.models.table import TableData
from tailwise.risk.accumulator import merge_values
from tailwise.search.learned.counts import (
    ACTION,
    CHANGES,
    CHANGES_AT_EXPANSION,
    CHANGES_AT_SWEEP,
    DISMISSED,
    ITERATIONS,
    LEAST,
    LOOKED,
    MAX_NODES,
    NODES,
    RANGE,
    SHORT,
    STATE,
    STEPS_SINCE_SWEEP,
    SWEEP_COST,
    WALKED,
    WANTED_AT_SWEEP,
    Nodes,
    find_node,
    place_of,
    plant,
)


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
_ERRORS, _FEWEST = 2.5, 16.0  # standard errors that a leaf value may be off; draws from which those are known
_EPISODES = 4  # that went past the leaf values of a step, before it is asked whether they are far off
_JUDGED = 8  # leaf values that were judged before all of them may be dismissed


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
            away = x - value
            if abs(beta * away) > 1e-13:
                away = math.expm1(beta * away) / beta
            total += counts[outcome]
            squares += counts[outcome] * away * away
        outcome = known.links[outcome]
    return _ERRORS * math.sqrt(squares / (total * (total - 1.0))) if total >= _FEWEST else math.inf


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
def node_value(nodes, node):  # type: ignore[no-untyped-def]
    """V of a node: the least Q, or what a leaf value said of it, between the bounds of what was seen."""
    at, least = nodes.first_q[node], math.inf
    if nodes.leaves[node] < math.inf and nodes.used[DISMISSED] == 0:
        low, high = node_span(nodes, node)
        return between(nodes.leaves[node], low, high)
    for k in range(at, at + nodes.arity[node]):
        least = min(least, nodes.q[k])
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
        if known.visits[first + a] > 0:
            best = min(best, refresh_action(model, known, nodes, rules, scratch, node, a, h))
            looked += known.widths[first + a]
    if best < math.inf:
        nodes.values[node] = node_value(nodes, node)
    return looked


_SWEEP, _GROWTH = 4, 8  # a sweep comes after 4 steps per node, and after growth by an eighth
_LATE = 3  # or after growth by a half, and half a step per node
_SAME = 1.0 + 1e-9  # chances of a smaller ratio count as equal
_HURRY = 0.05  # part of a chance that a step's delay is worth: of equally sure ways the shortest is taken


@inlined
def wanted_draws(scratch):  # type: ignore[no-untyped-def]
    """How often every action of every state should have been tried by now: once more each time iterations double."""
    wanted, left = 1, scratch.work[ITERATIONS] // 128 + 1
    while left > 1:
        wanted, left = wanted + 1, left // 2
    return wanted


@inlined
def chance_of_new(known, nodes, pair, h):  # type: ignore[no-untyped-def]
    """Known probability of coming from ``pair`` to an action tried too seldom, less a little for every step."""
    total = 0.0
    outcome = known.heads[pair]
    while outcome != 0:
        if known.targets[outcome] >= 0:
            total += known.counts[outcome] * nodes.novelty[find_node(nodes, h + 1, np.int64(known.targets[outcome]))]
        outcome = known.links[outcome]
    return (1.0 - min(_HURRY, 5.0 / nodes.heads.size)) * total / known.draws[pair]


@inlined
def explore_unknown(known, nodes, scratch, node, h):  # type: ignore[no-untyped-def]
    """Position of an action tried too seldom, or of the one that most surely leads to one; -1: none is known."""
    first, best, most, wanted = nodes.first_pair[node], -1, 0.0, wanted_draws(scratch)
    seldom = -1
    for a in range(nodes.arity[node]):
        if known.draws[first + a] == 0:
            return -1  # left to the order of chance
        if seldom < 0 and known.draws[first + a] < wanted:
            seldom = a
    if seldom >= 0:
        return seldom
    for a in range(nodes.arity[node]):
        chance = chance_of_new(known, nodes, first + a, h)
        if chance > most * _SAME:
            best, most = a, chance
    return best


@inlined
def refresh_novelty(known, nodes, node, h, wanted):  # type: ignore[no-untyped-def]
    """Recompute how surely a node leads to an action tried too seldom."""
    first, most = nodes.first_pair[node], 0.0
    for pair in range(first, first + nodes.arity[node]):
        if known.draws[pair] < wanted:
            most = 1.0
            break
        most = max(most, chance_of_new(known, nodes, pair, h))
    nodes.novelty[node] = most


@inlined
def value_leaf(model, nodes, rules, node, state, h, stream):  # type: ignore[no-untyped-def]
    """Ask ``leaf_value`` of a node; return the status."""
    leaf, _, status = roll_out(model, state, h, rules.horizon, rules.discount, stream)
    if status >= 0:
        nodes.leaves[node] = leaf
        nodes.values[node] = node_value(nodes, node)
    return np.int64(status)


@inlined
def add_reached(model, known, nodes, rules, scratch, depth, limit, stream):  # type: ignore[no-untyped-def]
    """Add the nodes that known outcomes reach from the root, up to ``limit`` nodes; return a status.

    Of a last step that was not come to nothing is known but what ``leaf_value`` says.
    """
    asked = rules.leaves and nodes.used[DISMISSED] == 0
    for h in range(depth, rules.horizon - 1):
        node = np.int64(nodes.heads[h])
        while node != 0:
            first = np.int64(nodes.first_pair[node])
            for pair in range(first, first + nodes.arity[node]):
                outcome = known.heads[pair]
                while outcome != 0:
                    target = np.int64(known.targets[outcome])
                    outcome = known.links[outcome]
                    if target < 0:
                        continue
                    place = place_of(known, rules.horizon, target, h + 1)
                    if place >= known.first.size:
                        continue
                    if known.first[place] == 0 and asked and known.step_kinds == 2 and h + 2 == rules.horizon:
                        place -= 1
                    if known.first[place] == 0:
                        continue
                    if find_node(nodes, h + 1, target) == 0:
                        if nodes.used[NODES] > limit:
                            return np.int64(GO_ON)
                        new = plant(known, nodes, rules.horizon, h + 1, target, np.int64(known.arity[place]))
                        if new < 0:
                            scratch.work[SHORT] = -new
                            return np.int64(FULL)
                        status = (
                            value_leaf(model, nodes, rules, new, target, h + 1, stream) if asked else np.int64(GO_ON)
                        )
                        if status >= 0:
                            status = bound(model, nodes, rules, new, target, h + 1)
                        if status < 0:
                            scratch.work[STATE], scratch.work[ACTION] = target, -1
                            return status
            node = np.int64(nodes.links[node])
    return np.int64(GO_ON)


@inlined
def is_far_off(rules, scratch):  # type: ignore[no-untyped-def]
    """Whether leaf values lie beyond all costs-to-go that followed in even iterations, at more than half of the steps.

    Above them all; or below, if they are one number everywhere. The best may well be better than all that was seen.
    """
    steps, above, below, least, greatest = 0, 0, 0, math.inf, -math.inf
    for h in range(rules.horizon):
        seen = scratch.compared[h]
        if rules.leaves and seen[0] >= _EPISODES:
            steps += 1
            above += seen[1] > seen[4]
            below += seen[2] < seen[3]
            least, greatest = min(least, seen[1]), max(greatest, seen[2])
    return 2 * above > steps or (least == greatest and 2 * below > steps)


@inlined
def sweep(model, known, nodes, rules, scratch, depth):  # type: ignore[no-untyped-def]
    """Back every node up, from the last step to the root's; return the outcomes looked at."""
    looked, wanted, work, judged, refuted = 0, wanted_draws(scratch), scratch.work, 0, 0
    is_open = (
        wanted > work[WANTED_AT_SWEEP]
        or known.used[CHANGES] != work[CHANGES_AT_SWEEP]
        or nodes.novelty[scratch.root[0]] > 0.0
    )
    work[WANTED_AT_SWEEP], work[CHANGES_AT_SWEEP] = wanted, known.used[CHANGES]
    for h in range(rules.horizon - 1, depth - 1, -1):
        node = np.int64(nodes.heads[h])
        while node != 0:
            looked += refresh_node(model, known, nodes, rules, scratch, node, h)
            if is_open:
                refresh_novelty(known, nodes, node, h, wanted)
            if nodes.leaves[node] < math.inf:
                low, high = node_span(nodes, node)
                if low > -math.inf:
                    judged += 1
                    refuted += nodes.leaves[node] < low or nodes.leaves[node] > high
            elif rules.bounded:
                low, high = node_span(nodes, node)
                if low > -math.inf:
                    judged += 1
                    refuted += nodes.most[node] < low or nodes.least[node] > high
            node = np.int64(nodes.links[node])
    nodes.used[DISMISSED] = 1 if (judged >= _JUDGED and 2 * refuted > judged) or is_far_off(rules, scratch) else 0
    return looked


@inlined
def sweep_if_due(model, known, nodes, rules, scratch, depth, stream):  # type: ignore[no-untyped-def]
    """Sweep once enough was walked since the last time: its work is then a part of the walk's; return a status."""
    work = scratch.work
    is_late = _LATE * work[STEPS_SINCE_SWEEP] >= work[WALKED] and 2 * work[STEPS_SINCE_SWEEP] >= work[SWEEP_COST]
    if not is_late and (
        work[STEPS_SINCE_SWEEP] < _SWEEP * work[SWEEP_COST] or _GROWTH * work[STEPS_SINCE_SWEEP] < work[WALKED]
    ):
        return np.int64(GO_ON)
    if known.used[CHANGES] != work[CHANGES_AT_EXPANSION]:
        limit = min(2 * work[WALKED] + 1024, nodes.used[MAX_NODES] // 2)
        status = add_reached(model, known, nodes, rules, scratch, depth, limit, stream)
        if status < 0:
            return status
        work[CHANGES_AT_EXPANSION] = known.used[CHANGES]
    work[LOOKED] = sweep(model, known, nodes, rules, scratch, depth)
    work[STEPS_SINCE_SWEEP], work[SWEEP_COST] = 0, max(nodes.used[NODES], work[LOOKED] // 64)
    return np.int64(GO_ON)
