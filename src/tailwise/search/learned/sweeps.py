"""Sweeps over all nodes, and directed iterations: where the learned model knows too little, and the way there.

A sweep adds the nodes that known outcomes reach from the root, then backs every node up, from the last step to the
root's. It comes once enough was walked since the last one, so that its work stays in proportion to the walk's. It also
finds, for each node, how surely it leads to an action that was tried too seldom (in its state, at any step), or to a
(step, state) that was never met; directed iterations follow that.
"""

from __future__ import annotations

import numpy as np

from tailwise._jit import inlined, kernel
from tailwise.search.learned.backups import refresh_node
from tailwise.search.learned.counts import (
    CHANGES,
    CHANGES_AT_EXPANSION,
    CHANGES_AT_SWEEP,
    ITERATIONS,
    LOOKED,
    MAX_NODES,
    NODES,
    SHORT,
    STEPS_SINCE_SWEEP,
    SWEEP_COST,
    WALKED,
    WANTED_AT_SWEEP,
    add_node,
    find_node,
    place_of,
    short_of,
)

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


@kernel
def add_reached(known, nodes, rules, depth, limit):  # type: ignore[no-untyped-def]
    """Add the nodes that known outcomes reach from the root, up to ``limit`` nodes; False: no room."""
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
                    if place >= known.first.size or known.first[place] == 0:
                        continue
                    if find_node(nodes, h + 1, target) == 0:
                        if nodes.used[NODES] > limit:
                            return True
                        if add_node(nodes, h + 1, target, known.first[place], known.arity[place]) == 0:
                            return False
            node = np.int64(nodes.links[node])
    return True


@inlined
def sweep(model, known, nodes, rules, scratch, depth):  # type: ignore[no-untyped-def]
    """Back every node up, from the last step to the root's; return the outcomes looked at."""
    looked, wanted, work = 0, wanted_draws(scratch), scratch.work
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
            node = np.int64(nodes.links[node])
    return looked


@inlined
def sweep_if_due(model, known, nodes, rules, scratch, depth):  # type: ignore[no-untyped-def]
    """Sweep once enough was walked since the last time: its work is then a part of the walk's; False: no room."""
    work = scratch.work
    is_late = _LATE * work[STEPS_SINCE_SWEEP] >= work[WALKED] and 2 * work[STEPS_SINCE_SWEEP] >= work[SWEEP_COST]
    if not is_late and (
        work[STEPS_SINCE_SWEEP] < _SWEEP * work[SWEEP_COST] or _GROWTH * work[STEPS_SINCE_SWEEP] < work[WALKED]
    ):
        return True
    if known.used[CHANGES] != work[CHANGES_AT_EXPANSION]:
        if not add_reached(known, nodes, rules, depth, min(2 * work[WALKED] + 1024, nodes.used[MAX_NODES] // 2)):
            work[SHORT] = short_of(nodes)
            return False
        work[CHANGES_AT_EXPANSION] = known.used[CHANGES]
    work[LOOKED] = sweep(model, known, nodes, rules, scratch, depth)
    work[STEPS_SINCE_SWEEP], work[SWEEP_COST] = 0, max(nodes.used[NODES], work[LOOKED] // 64)
    return True
