"""The compiled learned-model search: select, descend, back up, sweep.

One iteration goes from the root to the end. At a node it takes an action of which nothing is known, in random
order, or else the one of least

    Q - exploration * scale * N^(1/4) / (n + 1)^(1/2),   ties at random,

N and n counted at this step and state, ``scale`` the range of the costs-to-go seen here but at least a hundredth of
what the range seen at the root comes to at this step. The outcome drawn is counted for all steps alike.
Back along the path the action taken is backed up; every so often all nodes are, from the last step to the root's.

Every other iteration takes the action tried least often in each state, at any step: each way of exploring alone stays
wrong on some kind of problem. Every eighth heads for an action that was tried too seldom (in its state, at any step:
less often than iterations have doubled, from 128 on), by the way that most surely leads to one: what a bonus that looks
at one node alone would be long in finding. Neither's costs count for the ranges.
With a ``rollout_policy`` every fourth, else an even one, follows it, but in the root's state, where it is even too.

Where states do not come back (fewer than half of the new outcomes lead to a state met before), or come back too
seldom for what there is to try in them (fewer steps walked than a quarter of the actions known), outcome counts know
nothing that a tree would not, and the least of many poor estimates is a poor one. There, a new state is valued by a
rollout, Q is the ERM of the sampled costs-to-go, as in a tree search, and the scale is ten times the standard
deviation of the totals sampled at the root, as that comes to at this step, or the range seen here if that is smaller:
one disaster must not make a round robin of many actions. Which of the two holds is asked before every iteration.

Nothing is counted before the whole iteration has succeeded. An iteration cut short by full memory takes back the
nodes that it made, puts the random stream back and is done again, draw for draw, once there is room.
"""

from __future__ import annotations

import math

import numpy as np

from tailwise._jit import borrowed, inlined
from tailwise._random import next_double
from tailwise.bindings.kernel_model import DONE, FAILED, FULL, GO_ON, count_actions, policy_action, roll_out
from tailwise.bindings.options import takes_again
from tailwise.risk.accumulator import merge_values
from tailwise.search.action_rows import SPREAD, note_total
from tailwise.search.learned.backups import (
    BLOCK,
    bound,
    cost_offset,
    draw_outcome,
    leaf_of,
    node_value,
    refresh_action,
    refresh_node,
    value_after,
    value_leaf,
)
from tailwise.search.learned.choice import knows_prior, least_tried, select
from tailwise.search.learned.counts import (
    ACTION,
    ARRIVED,
    CHANGES,
    DEVIATION,
    DISMISSED,
    GAPS,
    GREATEST,
    ITERATIONS,
    LEAST,
    MAX_NODES,
    MET,
    NODES,
    OUTCOMES,
    PAIRS,
    PAST,
    PLACES,
    RANGE,
    RESTING,
    SHORT,
    SHORT_OF_OUTCOMES,
    SHORT_OF_PAIRS,
    SHORT_OF_STATES,
    STAGE,
    STATE,
    STEPS,
    STEPS_PAST,
    STEPS_SINCE_SWEEP,
    TREE,
    WALKED,
    add_node,
    add_state,
    count_outcome,
    find_node,
    lacks_room,
    place_of,
    remove_last_node,
    short_of,
)
from tailwise.search.learned.sweeps import PAUSED, explore_unknown, refresh_novelty, sweep_if_due, wanted_draws

NODE_LIMIT = -3  # a status beside the kernel model's
NODE, TAKEN, TARGET, DRAWN, OLD = 0, 1, 2, 3, 4  # columns of Scratch.path
_FITTED = 8192  # visits of a tree's root, up to which every other iteration plays at random, for a fit to learn from
_UNTRIED = 4  # actions known for each step walked, beyond which it is a tree
EVIDENCE = 256  # new outcomes before it is asked whether states come back
_AT_ROOT = 32  # draws of every action of the root before iterations go beyond the first leaf value
_LOOKS_PAST = 4  # one step in 4 looks past leaf values
_DIRECTED = 8  # one iteration in 8 looks for what was tried too seldom
GREEDY, EVEN, DIRECTED, FOLLOW = 0, 1, 2, 3  # how an iteration explores
_FOLLOWS = 4  # one iteration in 4 follows a rollout policy


@inlined
def is_tree(known, scratch):  # type: ignore[no-untyped-def]
    """Whether states do not come back, or too seldom for what there is to try in them."""
    work = scratch.work
    if work[ARRIVED] < EVIDENCE:
        return False
    return 2 * work[MET] < work[ARRIVED] or known.used[PAIRS] - 1 > _UNTRIED * work[WALKED]


@inlined
def draw(model, known, rules, pair, handle, action, h, stream):  # type: ignore[no-untyped-def]
    """(target, cost, status, drawn): a fresh outcome, or with widening perhaps one seen before."""
    draws = known.draws[pair]
    visits = float(known.visits[pair] + 1)
    if rules.widening.size > 0 and takes_again(rules.widening, visits, draws):
        left = int(next_double(stream) * draws)
        outcome = known.heads[pair]
        while left >= known.counts[outcome]:
            left -= known.counts[outcome]
            outcome = known.links[outcome]
        target = np.int64(known.targets[outcome])
        return target, known.costs[outcome], np.int64(DONE if target < 0 else GO_ON), 0
    target, cost, status = draw_outcome(model, handle, action, h, rules.horizon, rules.discount, stream)
    return target, cost, status, 1


@inlined
def enter_new(model, known, nodes, rules, scratch, handle, h):  # type: ignore[no-untyped-def]
    """Make the node of a state at step ``h``; 0: no room, negative: a status."""
    if nodes.used[NODES] > nodes.used[MAX_NODES]:
        return np.int64(NODE_LIMIT)
    place = place_of(known, rules.horizon, handle, h)
    if place >= known.first.size:
        scratch.work[SHORT], scratch.work[PLACES] = SHORT_OF_STATES, place + 1
        return np.int64(0)
    num_actions, is_new = np.int64(known.arity[place]), known.first[place] == 0
    if is_new:
        num_actions = count_actions(model, handle)
        if num_actions <= 0:
            return np.int64(FAILED)
    if lacks_room(nodes, num_actions):
        scratch.work[SHORT] = short_of(nodes)
        return np.int64(0)
    if is_new and not add_state(known, place, num_actions):
        scratch.work[SHORT] = SHORT_OF_PAIRS
        return np.int64(0)
    node = add_node(nodes, h, handle, known.first[place], num_actions)
    status = bound(model, nodes, rules, node, handle, h)
    if status < 0:
        return status
    if not is_new:
        refresh_node(model, known, nodes, rules, scratch, node, h)
    known.used[CHANGES] += 1
    return node


@inlined
def is_met(known, horizon, handle, h):  # type: ignore[no-untyped-def]
    """Whether a state was met before, at this step or, where steps are alike, at another."""
    place = place_of(known, horizon, handle, h)
    if place < known.first.size and known.first[place] != 0:
        return True
    return known.step_kinds == 2 and 2 * handle < known.first.size and known.first[2 * handle] != 0


@inlined
def way_of(nodes, rules, scratch, tree, past):  # type: ignore[no-untyped-def]
    """How an iteration explores: every other one evenly, one in eight towards the unknown, the rest by optimism.

    Where there is a policy, two of three even ones follow it.
    """
    iteration = scratch.work[PAST] if past else scratch.work[ITERATIONS]
    if tree:
        teaches = rules.fits and iteration % 2 == 1 and nodes.visits[scratch.root[0]] < _FITTED
        return EVEN if teaches and nodes.values[scratch.root[0]] < math.inf else GREEDY
    if rules.follows and iteration % _FOLLOWS == 1:
        return FOLLOW
    if iteration % 2 == 1:
        return DIRECTED if iteration % _DIRECTED == _DIRECTED - 1 and nodes.novelty[scratch.root[0]] > 0.0 else EVEN
    return GREEDY


@inlined
def looks_past(nodes, rules, scratch, depth):  # type: ignore[no-untyped-def]
    """Whether an iteration goes on to the end, whatever ``leaf_value`` says: a fourth of all steps is for that."""
    work = scratch.work
    return (
        rules.leaves
        and nodes.used[DISMISSED] == 0
        and _LOOKS_PAST * (work[STEPS_PAST] + rules.horizon - depth) <= work[STEPS]
    )


@inlined
def stays_shallow(known, nodes, rules, scratch):  # type: ignore[no-untyped-def]
    """Whether an iteration ends at the first state that ``leaf_value`` valued: while the root knows little."""
    if not rules.leaves or nodes.used[DISMISSED] != 0:
        return False
    first, fewest = nodes.first_pair[scratch.root[0]], _AT_ROOT
    for pair in range(first, first + nodes.arity[scratch.root[0]]):
        fewest = min(fewest, known.draws[pair])
    return fewest < _AT_ROOT


@inlined
def descend(model, known, nodes, rules, scratch, depth, tree, way, past, stream):  # type: ignore[no-untyped-def]
    """Follow the rule from the root to the end or to a leaf; return (status, path length, tail cost)."""
    node, h, root_state = scratch.root[0], depth, nodes.states[scratch.root[0]]
    shallow = not tree and not past and stays_shallow(known, nodes, rules, scratch)
    while True:
        handle = np.int64(nodes.states[node])
        action = -1
        if not knows_prior(nodes, rules, node, h):
            scratch.work[STATE], scratch.work[ACTION] = handle, -1
            return np.int64(FAILED), h - depth, 0.0
        if way == FOLLOW and handle != root_state:
            action, status = policy_action(model, handle, h)
            if status < 0:
                scratch.work[STATE], scratch.work[ACTION] = handle, -1
                return np.int64(status), h - depth, 0.0
        elif way in (EVEN, FOLLOW):
            action = least_tried(known, nodes, rules, node, stream)
        elif way == DIRECTED and nodes.novelty[node] > 0.0:
            action = explore_unknown(known, nodes, scratch, node, h)
        if action < 0:
            action = select(model, known, nodes, rules, scratch, node, h, tree, stream)
        target, cost, status, drawn = draw(
            model, known, rules, nodes.first_pair[node] + action, handle, action, h, stream
        )
        k = h - depth
        if status < 0:
            scratch.work[STATE], scratch.work[ACTION] = handle, action
            return status, k, 0.0
        scratch.work[STEPS] += drawn
        path = scratch.path[k]
        path[NODE], path[TAKEN], path[TARGET], path[DRAWN], path[OLD] = node, action, target, drawn, 1
        scratch.costs[k] = cost
        h += 1
        if status == DONE:
            return np.int64(GO_ON), k + 1, 0.0
        node, met = find_node(nodes, h, target), True
        if node == 0:
            met = is_met(known, rules.horizon, target, h)
            path[OLD] = 1 if met else 0
            node = enter_new(model, known, nodes, rules, scratch, target, h)
        if node <= 0:
            scratch.work[STATE], scratch.work[ACTION] = target, -1
            return np.int64(FULL) if node == 0 else node, k + 1, 0.0
        if tree:
            is_leaf = not met and way != EVEN
        else:
            is_leaf = rules.leaves and nodes.leaves[node] == math.inf and nodes.used[DISMISSED] == 0
        if is_leaf:
            if not tree:
                status = value_leaf(model, nodes, rules, node, target, h, stream)
                tail, steps = leaf_of(nodes, node), 0
            else:
                tail, steps, status = roll_out(model, target, h, rules.horizon, rules.discount, stream)
                nodes.values[node] = tail
            scratch.work[STEPS] += steps
            if status < 0:
                scratch.work[STATE], scratch.work[ACTION] = target, -1
                return np.int64(status), k + 1, 0.0
            if not past:
                return np.int64(GO_ON), k + 1, tail
        if shallow and nodes.leaves[node] < math.inf:
            return np.int64(GO_ON), k + 1, nodes.values[node]


@inlined
def learn(known, scratch, pair, k):  # type: ignore[no-untyped-def]
    """Count the outcome of the path's step ``k``; return whether it is new."""
    path = scratch.path[k]
    known.visits[pair] += 1
    if path[DRAWN] == 0:
        return False
    known.draws[pair] += 1
    is_new = count_outcome(known, pair, path[TARGET], scratch.costs[k])
    if is_new and path[TARGET] >= 0:
        scratch.work[ARRIVED] += 1
        scratch.work[MET] += path[OLD]
    return is_new


@inlined
def update_action(model, known, nodes, rules, scratch, node, a, h, target, cost):  # type: ignore[no-untyped-def]
    """Back the action just taken up from its counts, if that can still make a difference; return whether it was."""
    at, pair = nodes.first_q[node] + a, nodes.first_pair[node] + a
    taken = nodes.taken[at]
    rest = rules.rests[min(taken, rules.rests.size - 1)]
    if taken & rest != 0 and nodes.q[at] < math.inf:
        return False
    if known.widths[pair] <= BLOCK or nodes.q[at] == math.inf:
        refresh_action(model, known, nodes, rules, scratch, node, a, h)
    else:  # too many outcomes to look at each time: the newest joins, a sweep sets it right
        x = cost + rules.discount * value_after(nodes, rules, scratch, target, h + 1)
        nodes.q[at] = merge_values(nodes.q[at], x, 1.0 / known.draws[pair], rules.betas[h])
    return True


@inlined
def compare_leaf(seen, leaf, cost_to_go):  # type: ignore[no-untyped-def]
    """Note a leaf value and what it cost to go on."""
    if seen[0] == 0.0:
        seen[1:3], seen[3:5] = leaf, cost_to_go
    seen[0] += 1.0
    seen[1], seen[2] = min(seen[1], leaf), max(seen[2], leaf)
    seen[3], seen[4] = min(seen[3], cost_to_go), max(seen[4], cost_to_go)


@inlined
def note_gap(seen, gap):  # type: ignore[no-untyped-def]
    """Note what it cost to go on less a leaf value."""
    seen[6 + int(seen[5]) % GAPS] = gap
    seen[5] += 1.0


@inlined
def backup(model, known, nodes, rules, scratch, depth, length, tail, tree, way, past):  # type: ignore[no-untyped-def]
    """Count the outcomes of the path and back its values up; return the root's cost-to-go."""
    numbers, cost_to_go, settled = scratch.numbers, tail, True
    least, greatest = numbers[LEAST], numbers[GREATEST]
    if depth + length < rules.horizon:
        least, greatest = min(least, 0.0), max(greatest, 0.0)
        numbers[LEAST], numbers[GREATEST] = least, greatest
    for k in range(length - 1, -1, -1):
        h, node, a, target = depth + k, scratch.path[k, NODE], scratch.path[k, TAKEN], scratch.path[k, TARGET]
        cost = scratch.costs[k] + cost_offset(model, np.int64(nodes.states[node]), a, h)
        if cost < least or cost > greatest:
            least, greatest = min(least, cost), max(greatest, cost)
            numbers[LEAST], numbers[GREATEST] = least, greatest
        cost_to_go = cost + rules.discount * cost_to_go
        if past and way in (EVEN, FOLLOW) and k > 0:
            compare_leaf(scratch.compared[h], nodes.leaves[node], cost_to_go)
        if past and way == GREEDY and k > 0:
            note_gap(scratch.compared[h], cost_to_go - nodes.leaves[node])
        if learn(known, scratch, nodes.first_pair[node] + a, k) or scratch.path[k, DRAWN] == 0:
            settled = False
        if tree and way == EVEN:
            continue  # it teaches the fit alone
        nodes.visits[node] += 1
        if way == GREEDY:
            nodes.lows[node] = min(nodes.lows[node], cost_to_go)
            nodes.highs[node] = max(nodes.highs[node], cost_to_go)
        at = nodes.first_q[node] + a
        nodes.taken[at] += 1
        if not tree:
            if not update_action(model, known, nodes, rules, scratch, node, a, h, target, cost):
                continue
        elif nodes.taken[at] == 1:
            nodes.q[at] = cost_to_go
        else:
            nodes.q[at] = merge_values(nodes.q[at], cost_to_go, 1.0 / nodes.taken[at], rules.betas[h])
        nodes.values[node] = node_value(nodes, node)
    if settled:  # a whole path of outcomes known before: states do come back
        scratch.work[ARRIVED] += 1
        scratch.work[MET] += 1
    if scratch.work[ARRIVED] >= 8 * EVIDENCE:  # what happened lately counts most
        scratch.work[ARRIVED] //= 2
        scratch.work[MET] //= 2
    return cost_to_go


@inlined
def note_deviation(rules, scratch, depth):  # type: ignore[no-untyped-def]
    """Note the standard deviation of the totals that one action leads to, pooled over the actions."""
    squares, freedom = 0.0, 0
    for a in range(scratch.sampled.size):
        if scratch.sampled[a] > 1:
            squares += scratch.moments[a, SPREAD]
            freedom += scratch.sampled[a] - 1
    if freedom > 0:
        scratch.numbers[DEVIATION] = math.sqrt(squares / freedom) / rules.horizon_left[depth]


@inlined
def note_range(nodes, rules, scratch, depth):  # type: ignore[no-untyped-def]
    """Note how far the totals sampled at the root are apart, for each step that was left."""
    root = scratch.root[0]
    if nodes.highs[root] > nodes.lows[root]:
        spread = (nodes.highs[root] - nodes.lows[root]) / rules.horizon_left[depth]
        scratch.numbers[RANGE] = max(scratch.numbers[RANGE], spread)


@inlined
def plant_tree(nodes, rules, scratch, depth):  # type: ignore[no-untyped-def]
    """Begin a tree: Q at the root becomes the ERM of the totals sampled there, as if it had been one before."""
    at, kept = nodes.first_q[scratch.root[0]], scratch.latest.shape[1]
    for a in range(scratch.sampled.size):
        for k in range(min(scratch.sampled[a], kept)):
            cost = scratch.latest[a, k]
            if k > 0:
                cost = merge_values(nodes.q[at + a], cost, 1.0 / (k + 1), rules.betas[depth])
            nodes.q[at + a] = cost


def learned_chunk(model, parts, stream, depth, iterations):  # type: ignore[no-untyped-def]
    """Run up to ``iterations`` iterations; return (number done, status)."""
    known, nodes, rules, scratch = parts
    model, known, nodes, rules = borrowed(model), borrowed(known), borrowed(nodes), borrowed(rules)
    scratch, stream, work = borrowed(scratch), borrowed(stream), scratch.work
    saved = np.empty(stream.size, dtype=np.uint64)
    for done in range(iterations):
        tree = is_tree(known, scratch)
        if tree and work[TREE] == 0:
            plant_tree(nodes, rules, scratch, depth)
        work[TREE] = 1 if tree else 0
        if tree:
            note_deviation(rules, scratch, depth)
        if not tree and (work[STAGE] == RESTING or nodes.visits[scratch.root[0]] > 0):
            status = sweep_if_due(model, known, nodes, rules, scratch, depth, stream)
            if status < 0 and not (rules.hurries and status == PAUSED):
                return done, status
        if known.used[OUTCOMES] + rules.horizon > known.costs.size:
            work[SHORT] = SHORT_OF_OUTCOMES
            return done, np.int64(FULL)
        for k in range(stream.size):
            saved[k] = stream[k]
        past = not tree and looks_past(nodes, rules, scratch, depth)
        way = way_of(nodes, rules, scratch, tree, past)
        steps, before = work[STEPS], nodes.used[NODES]
        told, pairs = known.used[CHANGES], known.used[PAIRS]
        status, length, tail = descend(model, known, nodes, rules, scratch, depth, tree, way, past, stream)
        if status < 0:
            work[STEPS] = steps
            while nodes.used[NODES] > before:
                remove_last_node(nodes, known, rules.horizon, pairs)
            known.used[CHANGES], known.used[PAIRS] = told, pairs
            if status == FULL:
                for k in range(stream.size):
                    stream[k] = saved[k]
            return done, status
        work[STEPS_SINCE_SWEEP] += length
        work[WALKED] += length
        total = backup(model, known, nodes, rules, scratch, depth, length, tail, tree, way, past)
        if not tree or way == GREEDY:
            note_total(scratch.sampled, scratch.moments, scratch.latest, scratch.path[0, TAKEN], total)
        note_range(nodes, rules, scratch, depth)
        work[ITERATIONS] += 1
        if past:
            work[PAST] += 1
            work[STEPS_PAST] += length
        if way == DIRECTED:
            for k in range(length - 1, -1, -1):
                refresh_novelty(known, nodes, scratch.path[k, NODE], depth + k, wanted_draws(scratch))
    return iterations, np.int64(GO_ON)
