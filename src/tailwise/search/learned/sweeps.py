"""Sweeps over all nodes, and directed iterations: where the learned model knows too little, and the way there.

A sweep adds the nodes that known outcomes reach from the root, then backs every node up that they reach, from the last
step to the root's. It comes once enough was walked since the last one, so that its work stays in proportion to the
walk's. What an earlier root alone led to is passed over, so that a root moves at no cost. A sweep also finds, for each
node, how surely it leads to an action that was tried too seldom (in its state, at any step), or to a (step, state) that
was never met; directed iterations follow that.
"""

from __future__ import annotations

import math

import numpy as np

from tailwise._jit import inlined
from tailwise.bindings.kernel_model import FULL, GO_ON
from tailwise.risk.accumulator import merge_values
from tailwise.search.learned.backups import ERRORS, bound, leaf_of, node_span, refresh_node, square_away, value_leaf
from tailwise.search.learned.counts import (
    ACTION,
    AT_NODE,
    AT_STEP,
    BACKING_UP,
    CHANGES,
    CHANGES_AT_EXPANSION,
    CHANGES_AT_SWEEP,
    DEAD,
    DISMISSED,
    EPOCH,
    EXPANDING,
    GAPS,
    IS_OPEN,
    ITERATIONS,
    JUDGED,
    LOOKED,
    MAX_NODES,
    NODES,
    RANGE,
    REFUTED,
    RESTING,
    SHORT,
    SLICE,
    STAGE,
    STATE,
    STEPS_SINCE_SWEEP,
    SWEEP_COST,
    SWEPT,
    WALKED,
    WANTED_AT_SWEEP,
    find_node,
    place_of,
    plant,
)  # fmt: skip

_EPISODES = 4  # that went past the leaf values of a step, before it is asked whether they are far off
_FEWEST_GAPS = 16  # differences between costs-to-go and leaf values, before these are corrected
_JUDGED = 8  # leaf values that were judged before all of them may be dismissed
PAUSED = -4  # a status beside the kernel model's
_SWEEP, _GROWTH = 4, 8  # a sweep comes after 4 steps per node, and after growth by an eighth
_LATE = 3  # or after growth by a half, and half a step per node
_SELDOM, _A_STEP = 16, 4  # where time is short: steps per node, and outcomes for each step that is left
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
def add_reached(model, known, nodes, rules, scratch, depth, stream):  # type: ignore[no-untyped-def]
    """Mark the nodes that known outcomes reach from the root, and add those that are missing; return a status.

    Of a last step that was not come to nothing is known but what ``leaf_value`` says.
    """
    work, epoch = scratch.work, nodes.used[EPOCH]
    limit = min(2 * work[WALKED] + 1024, nodes.used[MAX_NODES] // 2) + nodes.used[DEAD]
    asked = rules.leaves and nodes.used[DISMISSED] == 0
    if work[AT_STEP] < depth:  # the root moved on
        work[AT_STEP], work[AT_NODE] = depth, nodes.heads[depth]
    while work[AT_STEP] + 1 < rules.horizon:
        h = work[AT_STEP]
        while work[AT_NODE] != 0:
            node = work[AT_NODE]
            first, arity = np.int64(nodes.first_pair[node]), np.int64(nodes.arity[node])
            for pair in range(first, first + arity if nodes.marks[node] == epoch else first):
                outcome = known.heads[pair]
                work[SLICE] -= known.widths[pair]
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
                    there = find_node(nodes, h + 1, target)
                    nodes.marks[there] = epoch
                    if there == 0 and nodes.used[NODES] <= limit:
                        new = plant(known, nodes, rules.horizon, h + 1, target, np.int64(known.arity[place]))
                        if new < 0:
                            work[SHORT] = -new
                            return np.int64(FULL)
                        status = (
                            value_leaf(model, nodes, rules, new, target, h + 1, stream) if asked else np.int64(GO_ON)
                        )
                        if status >= 0:
                            status = bound(model, nodes, rules, new, target, h + 1)
                        if status < 0:
                            work[STATE], work[ACTION] = target, -1
                            return status
            work[AT_NODE] = nodes.links[node]
            work[SLICE] -= 1
            if work[SLICE] < 0:
                return np.int64(PAUSED)
        work[AT_STEP] = h + 1
        work[AT_NODE] = nodes.heads[h + 1]
    return np.int64(GO_ON)


@inlined
def is_far_off(rules, scratch):  # type: ignore[no-untyped-def]
    """Whether leaf values are one number everywhere, beyond all costs-to-go of even iterations at most of the steps.

    Others may be right nonetheless: the best may be better than all that was seen, and the worst may be rare.
    """
    steps, above, below, least, greatest = 0, 0, 0, math.inf, -math.inf
    for h in range(rules.horizon):
        seen = scratch.compared[h]
        if rules.leaves and seen[0] >= _EPISODES:
            steps += 1
            above += seen[1] > seen[4]
            below += seen[2] < seen[3]
            least, greatest = min(least, seen[1]), max(greatest, seen[2])
    return least == greatest and 2 * max(above, below) > steps


@inlined
def set_shifts(nodes, rules, scratch):  # type: ignore[no-untyped-def]
    """Take out of the leaf values of each step what they are too high by, as far as what followed leaves no doubt.

    Whatever is done has the optimal risk at least: where the ERM of costs-to-go less leaf values is below 0, these are
    too high. That they are too low is not seen so, since what was done may be poor. Where all are too high by as much,
    actions after which the episode may end look better than they are.
    """
    for h in range(rules.horizon):
        gaps, beta, value = scratch.compared[h, 6:], rules.betas[h], scratch.compared[h, 6]
        number = min(int(scratch.compared[h, 5]), GAPS)
        if number < _FEWEST_GAPS:
            continue
        squares = square_away(scratch.numbers[RANGE] * rules.horizon_left[h], beta)
        for k in range(1, number):
            value = merge_values(value, gaps[k], 1.0 / (k + 1), beta)
        for k in range(number):
            squares += square_away(gaps[k] - value, beta)
        error = ERRORS * math.sqrt(squares / (number - 1) / number)
        nodes.shifts[h] = value if value + error < 0.0 else 0.0


@inlined
def back_up_all(model, known, nodes, rules, scratch, depth):  # type: ignore[no-untyped-def]
    """Back every node up that the root reaches, from the last step to the root's; return a status."""
    work, wanted, is_open = scratch.work, wanted_draws(scratch), scratch.work[IS_OPEN] != 0
    h, node, left, epoch = work[AT_STEP], work[AT_NODE], work[SLICE], nodes.used[EPOCH]
    swept, looked, judged, refuted = work[SWEPT], work[LOOKED], work[JUDGED], work[REFUTED]
    while h >= depth and left >= 0:
        while node != 0 and left >= 0:
            left -= 1
            if nodes.marks[node] == epoch:
                seen = refresh_node(model, known, nodes, rules, scratch, node, h)
                swept, looked, left = swept + 1, looked + seen, left - seen
                if is_open:
                    refresh_novelty(known, nodes, node, h, wanted)
                is_leaf = nodes.leaves[node] < math.inf
                if is_leaf or rules.bounded:
                    low, high = node_span(nodes, node)
                    most, least = leaf_of(nodes, node), leaf_of(nodes, node)
                    if not is_leaf:
                        most, least = nodes.most[node], nodes.least[node]
                    if low > -math.inf:
                        judged += 1
                        refuted += most < low or least > high
            node = np.int64(nodes.links[node])
        if node == 0:
            h -= 1
            if h >= depth:
                node = np.int64(nodes.heads[h])
    work[AT_STEP], work[AT_NODE], work[SLICE] = h, node, left
    work[SWEPT], work[LOOKED], work[JUDGED], work[REFUTED] = swept, looked, judged, refuted
    return np.int64(PAUSED if h >= depth else GO_ON)


@inlined
def sweep_if_due(model, known, nodes, rules, scratch, depth, stream):  # type: ignore[no-untyped-def]
    """Sweep once enough was walked since the last time: its work is then a part of the walk's; return a status.

    After every so many outcomes it pauses, so that somebody may look at the clock; the next call goes on with it. Where
    steps are cheap and time is short it comes more seldom, and goes on a little before each iteration.
    """
    work = scratch.work
    if rules.hurries:
        work[SLICE] = min(np.int64(0), work[SLICE]) + _A_STEP * (rules.horizon - depth)
    if work[STAGE] == RESTING:
        since = work[STEPS_SINCE_SWEEP]
        is_late = not rules.hurries and _LATE * since >= work[WALKED] and 2 * since >= work[SWEEP_COST]
        often = _SELDOM if rules.hurries else _SWEEP
        if not is_late and (since < often * work[SWEEP_COST] or _GROWTH * since < work[WALKED]):
            return np.int64(GO_ON)
        if known.used[CHANGES] != work[CHANGES_AT_EXPANSION]:
            work[STAGE], work[AT_STEP], work[AT_NODE] = EXPANDING, depth, nodes.heads[depth]
            work[CHANGES_AT_EXPANSION] = known.used[CHANGES]
            nodes.used[EPOCH] += 1
            nodes.marks[scratch.root[0]] = nodes.used[EPOCH]
    if work[STAGE] == EXPANDING:
        status = add_reached(model, known, nodes, rules, scratch, depth, stream)
        if status < 0:
            return status
        work[STAGE] = RESTING
    if work[STAGE] == RESTING:
        wanted = wanted_draws(scratch)
        work[IS_OPEN] = (
            wanted > work[WANTED_AT_SWEEP]
            or known.used[CHANGES] != work[CHANGES_AT_SWEEP]
            or nodes.novelty[scratch.root[0]] > 0.0
        )
        if rules.leaves:
            set_shifts(nodes, rules, scratch)
        work[WANTED_AT_SWEEP], work[CHANGES_AT_SWEEP] = wanted, known.used[CHANGES]
        work[STAGE], work[AT_STEP] = BACKING_UP, rules.horizon - 1
        work[AT_NODE] = nodes.heads[rules.horizon - 1]
        work[SWEPT], work[LOOKED], work[JUDGED], work[REFUTED] = 0, 0, 0, 0
    status = back_up_all(model, known, nodes, rules, scratch, depth)
    if status < 0:
        return status
    work[STAGE] = RESTING
    nodes.used[DEAD] = nodes.used[NODES] - 1 - work[SWEPT]
    is_refuted = (work[JUDGED] >= _JUDGED and 2 * work[REFUTED] > work[JUDGED]) or is_far_off(rules, scratch)
    nodes.used[DISMISSED] = 1 if is_refuted else 0
    work[STEPS_SINCE_SWEEP], work[SWEEP_COST] = 0, max(work[SWEPT] + 1, work[LOOKED] // 64)
    return np.int64(GO_ON)
