r"""The compiled search over histories: a tree of what was done and observed, by weighted samples.

The tree is flat arrays: nodes (histories), actions (A in a row, once a node was visited twice) and children (one for
each observation that followed an action, linked in a list). A sample carries the logarithm of its weight,
``beta * what it paid since the root``. A child keeps the sum W of the weights (in units of the action's SCALE), the
weighted mean U of the utility ``u(y) = expm1(beta y) / beta`` of the costs, and the TERM

    t = U + (1 + beta U) u(discount (V - v)),        Q(a) = r + discount v + ln(1 + beta mean of t) / beta,

with V the value of the node that follows; costs count from the action's r and values from its v, which move to where
most of the weight is. So a sample changes one term, and no logarithm is taken for each child.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tailwise._arrays import Floats, Ints
from tailwise._jit import borrowed, inlined, kernel
from tailwise._random import next_double
from tailwise.bindings.hidden import NEW, begin, draw, draw_place, fit, keep, play_out
from tailwise.bindings.kernel_model import DONE, FULL, GO_ON

NODE_LIMIT = -3
# Columns, of whole numbers and then of floats: a row's lie side by side in memory.
FIRST, VISITS, VALUE, LOW, HIGH = 0, 1, 2, 3, 4  # of a node: its first action or -1
COUNT, CHILD, KINDS = 0, 1, 2  # of an action: samples, first child or -1, number of children
SCALE, COST_BASE, VALUE_BASE, WORTH = 3, 4, 5, 6
KEY, NEXT, NODE, MASS, UTILITY, TERM = 0, 1, 2, 3, 4, 5  # of a child: observation (-1: the end), next or -1, node or -1
NODES, ACTIONS, CHILDREN, ROOT = 0, 1, 2, 3
_WIDTHS = 5, 8, 6
_FAR, _REBASE, _FADED, _LEAST = 600.0, 8.0, 1e-3, -1.0 + 1e-16
_END = -1


class Histories(NamedTuple):
    """The tree's memory: rows of nodes, actions and children, each seen as whole numbers and as floats."""

    nodes: Ints
    values: Floats
    actions: Ints
    sums: Floats
    children: Ints
    shares: Floats
    used: Ints  # (4,) nodes, actions, children; the root

    @property
    def num_bytes(self) -> int:
        """Memory that it takes."""
        return self.nodes.nbytes + self.actions.nbytes + self.children.nbytes


class Settings(NamedTuple):
    """What the kernel reads; H is the horizon."""

    betas: Floats  # (H,) risk level of each step
    discount: float
    num_actions: int
    step: int  # of the root
    exploration: float
    widening: Floats  # (2,)
    weighed: bool  # whether samples are weighed by how likely they are to be observed as what they are counted for
    repeated: int  # the action of roll-outs, -1: random ones
    sums: Floats  # (P,) running sums of the particles' weights at the root; empty where an episode begins
    max_nodes: int


class Trace(NamedTuple):
    """The path under way, and what was counted."""

    places: Ints  # (H, 3) node, action and child of each step
    numbers: Floats  # (H, 2) logarithm of the weight before, loss
    counts: Ints  # (2,) iterations, simulated steps


def new_histories(nodes: int, actions: int, children: int) -> Histories:
    """Return an empty tree with room for so much, and a root."""
    made = _viewed(
        [np.empty(pair) for pair in zip((nodes, actions, children), _WIDTHS, strict=True)], np.zeros(4, np.int64)
    )
    made.nodes[0, FIRST], made.nodes[0, VISITS] = -1, 0
    made.values[0, VALUE:] = 0.0, math.inf, -math.inf
    made.used[NODES] = 1
    return made


def joined(tree: Histories) -> Histories:
    """Return a copied tree whose views are of the same memory again."""
    return _viewed([tree.values, tree.sums, tree.shares], tree.used)


def _viewed(buffers: list[Floats], used: Ints) -> Histories:
    nodes, actions, children = buffers
    return Histories(
        nodes.view(np.int64), nodes, actions.view(np.int64), actions, children.view(np.int64), children, used
    )


def enlarged(tree: Histories, num_actions: int) -> Histories:
    """Return the same tree with twice the room, where little is left."""
    buffers = [tree.values, tree.sums, tree.shares]
    for kind, needed in ((NODES, 1), (ACTIONS, num_actions), (CHILDREN, 1)):
        old, used = buffers[kind], int(tree.used[kind])
        if used + needed > len(old):
            buffers[kind] = np.empty((2 * len(old) + needed, old.shape[1]))
            buffers[kind].view(np.int64)[:used] = old.view(np.int64)[:used]
    return _viewed(buffers, tree.used)


def subtree(tree: Histories, root: int, num_actions: int) -> Histories:
    """Return the tree below a node, on its own."""
    fresh = new_histories(*(len(part) for part in (tree.nodes, tree.actions, tree.children)))
    _copy_below(tree, fresh, root, num_actions, np.empty(len(tree.nodes), np.int64))
    return fresh


def child_at(tree: Histories, place: int, key: int) -> int:
    """Return the node that follows an action of the root with an observation, or -1."""
    first = int(tree.nodes[tree.used[ROOT], FIRST])
    child = -1 if first < 0 or key < 0 else int(tree.actions[first + place, CHILD])
    while child >= 0 and tree.children[child, KEY] != key:
        child = int(tree.children[child, NEXT])
    return -1 if child < 0 else int(tree.children[child, NODE])


def root_actions(tree: Histories, num_actions: int) -> tuple[Ints, Floats]:
    """Return how often each action of the root was taken, and its value (NaN where it was not)."""
    first = int(tree.nodes[tree.used[ROOT], FIRST])
    if first < 0:
        return np.zeros(num_actions, np.int64), np.full(num_actions, math.nan)
    visits = tree.actions[first : first + num_actions, COUNT].copy()
    return visits, np.where(visits > 0, tree.sums[first : first + num_actions, WORTH], math.nan)


@kernel
def _copy_below(tree, fresh, root, num_actions, moved):  # type: ignore[no-untyped-def]
    moved[0], count, new = root, 1, 0
    while new < count:
        old = moved[new]
        first, into = tree.nodes[old, FIRST], fresh.used[ACTIONS]
        fresh.nodes[new] = tree.nodes[old]
        fresh.nodes[new, FIRST] = -1 if first < 0 else into
        new += 1
        if first < 0:
            continue
        fresh.used[ACTIONS] += num_actions
        for k in range(num_actions):
            fresh.actions[into + k] = tree.actions[first + k]
            child, last = tree.actions[first + k, CHILD], np.int64(-1)
            while child >= 0:
                place, node = fresh.used[CHILDREN], tree.children[child, NODE]
                fresh.used[CHILDREN] += 1
                if last < 0:
                    fresh.actions[into + k, CHILD] = place
                else:
                    fresh.children[last, NEXT] = place
                fresh.children[place] = tree.children[child]
                if node >= 0:
                    moved[count], fresh.children[place, NODE] = node, count
                    count += 1
                child, last = tree.children[child, NEXT], place
    fresh.used[NODES] = count


# ------------------------------------------------------------------ going down


@inlined
def _chosen(tree, settings, node):  # type: ignore[no-untyped-def]
    """Place of the action to take: one not tried yet, else the least value less its bonus."""
    first = tree.nodes[node, FIRST]
    width = tree.values[node, HIGH] - tree.values[node, LOW]
    growth = settings.exploration * max(width, 0.0) * math.sqrt(math.sqrt(tree.nodes[node, VISITS]))
    best, least = 0, math.inf
    for place in range(settings.num_actions):
        count = tree.actions[first + place, COUNT]
        if count == 0:
            return place
        score = tree.sums[first + place, WORTH] - growth / math.sqrt(count)
        if score < least:
            best, least = place, score
    return best


@inlined
def _open(tree, settings, node):  # type: ignore[no-untyped-def]
    """Give a node its actions."""
    first = tree.used[ACTIONS]
    tree.nodes[node, FIRST] = first
    tree.used[ACTIONS] += settings.num_actions
    for unit in range(first, first + settings.num_actions):
        tree.actions[unit, COUNT], tree.actions[unit, CHILD], tree.actions[unit, KINDS] = 0, -1, 0
        tree.sums[unit, SCALE], tree.sums[unit, COST_BASE] = -math.inf, 0.0
        tree.sums[unit, VALUE_BASE], tree.sums[unit, WORTH] = 0.0, 0.0


@inlined
def _found_child(tree, unit, key):  # type: ignore[no-untyped-def]
    """The child of an observation, or -1."""
    child = tree.actions[unit, CHILD]
    while child >= 0 and tree.children[child, KEY] != key:
        child = tree.children[child, NEXT]
    return child


@inlined
def _new_child(tree, unit, key):  # type: ignore[no-untyped-def]
    """Add a child, with a node unless the episode ended."""
    child = tree.used[CHILDREN]
    tree.used[CHILDREN] += 1
    tree.children[child, KEY], tree.children[child, NEXT] = key, tree.actions[unit, CHILD]
    tree.actions[unit, CHILD] = child
    tree.actions[unit, KINDS] += 1
    tree.shares[child, MASS], tree.shares[child, UTILITY], tree.shares[child, TERM] = 0.0, 0.0, 0.0
    node = np.int64(-1)
    if key != _END:
        node = tree.used[NODES]
        tree.used[NODES] += 1
        tree.nodes[node, FIRST], tree.nodes[node, VISITS] = -1, 0
        tree.values[node, VALUE], tree.values[node, LOW], tree.values[node, HIGH] = 0.0, math.inf, -math.inf
    tree.children[child, NODE] = node
    return child


@inlined
def _any_child(tree, unit, stream):  # type: ignore[no-untyped-def]
    """A child that has a node, drawn by how often it was visited."""
    total = 0.0
    child = tree.actions[unit, CHILD]
    while child >= 0:
        node = tree.children[child, NODE]
        total += tree.nodes[node, VISITS] if node >= 0 else 0
        child = tree.children[child, NEXT]
    wanted = next_double(stream) * total
    child, found = tree.actions[unit, CHILD], np.int64(-1)
    while child >= 0:
        node = tree.children[child, NODE]
        if node >= 0:
            found = child
            wanted -= tree.nodes[node, VISITS]
            if wanted < 0.0:
                break
        child = tree.children[child, NEXT]
    return found


@inlined
def _child_of(model, tree, settings, unit, key, stream):  # type: ignore[no-untyped-def]
    """(child, status) for what was observed; where an action has enough of them, one that is there."""
    child = np.int64(-1)
    if key != NEW:
        child = _found_child(tree, unit, key)
    if child >= 0:
        return child, np.int64(GO_ON)
    held = tree.actions[unit, KINDS]
    most = settings.widening[0] * float(tree.actions[unit, COUNT] + 1) ** settings.widening[1]
    if held >= max(1.0, most):
        child = _any_child(tree, unit, stream)
        if child >= 0:
            return child, np.int64(GO_ON)
    key, status = keep(model, key)
    if status < 0:
        return np.int64(-1), status
    return _new_child(tree, unit, key), np.int64(GO_ON)


@inlined
def _descend(model, tree, settings, trace, stream):  # type: ignore[no-untyped-def]
    """Follow the rule to a new node or the end: (status, length, last node or -1, its loss to go)."""
    particle = np.int64(-1)
    if settings.sums.size:
        particle = np.int64(draw_place(settings.sums, stream))
    state, status = begin(model, particle, stream)
    node, root, h = tree.used[ROOT], tree.used[ROOT], settings.step
    log_weight, length = 0.0, 0
    while status >= 0:
        if tree.nodes[node, FIRST] < 0:
            if tree.nodes[node, VISITS] == 0 and node != root:
                tail, steps, status = play_out(model, state, settings.repeated, h, stream)
                trace.counts[1] += steps
                return status, length, node, tail
            _open(tree, settings, node)
        place = _chosen(tree, settings, node)
        unit = tree.nodes[node, FIRST] + place
        state, loss, status, key = draw(model, state, place, h, stream)
        if status < 0:
            break
        trace.counts[1] += 1
        trace.numbers[length, 0], trace.numbers[length, 1] = log_weight, loss
        log_weight += settings.betas[h] * loss
        if status == DONE:
            child = _found_child(tree, unit, _END)
            if child < 0:
                child = _new_child(tree, unit, _END)
        else:
            child, status = _child_of(model, tree, settings, unit, key, stream)
            if status >= 0 and settings.weighed:
                extra, status = fit(model, tree.children[child, KEY])
                log_weight += extra
            if status < 0:
                break
        trace.places[length, 0], trace.places[length, 1], trace.places[length, 2] = node, unit, child
        length += 1
        h += 1
        node = tree.children[child, NODE]
        if node < 0:
            return np.int64(GO_ON), length, node, 0.0
    return status, length, np.int64(-1), 0.0


# ------------------------------------------------------------------- going up


@inlined
def _utility(y, beta):  # type: ignore[no-untyped-def]
    if y == 0.0:
        return 0.0
    return math.expm1(beta * y) / beta if abs(beta * y) > 1e-16 else y


@inlined
def _term(tree, discount, child, base, beta):  # type: ignore[no-untyped-def]
    """What a child adds to the mean of its action."""
    node, u = tree.children[child, NODE], tree.shares[child, UTILITY]
    value = tree.values[node, VALUE] if node >= 0 else 0.0
    return u + (1.0 + beta * u) * _utility(discount * (value - base), beta)


@inlined
def _mean(tree, unit):  # type: ignore[no-untyped-def]
    """Weighted mean of the children's terms."""
    total, weight = 0.0, 0.0
    child = tree.actions[unit, CHILD]
    while child >= 0:
        weight += tree.shares[child, MASS]
        total += tree.shares[child, MASS] * tree.shares[child, TERM]
        child = tree.children[child, NEXT]
    return total / weight


@inlined
def _all_terms(tree, discount, unit, beta):  # type: ignore[no-untyped-def]
    child = tree.actions[unit, CHILD]
    while child >= 0:
        if tree.shares[child, MASS] > 0.0:
            tree.shares[child, TERM] = _term(tree, discount, child, tree.sums[unit, VALUE_BASE], beta)
        child = tree.children[child, NEXT]


@inlined
def _worth(mean, beta):  # type: ignore[no-untyped-def]
    return math.log1p(max(beta * mean, _LEAST)) / beta if beta != 0.0 else mean


@inlined
def _weightiest(tree, unit, beta):  # type: ignore[no-untyped-def]
    """The value that follows which weighs most by its risk, of the children of an action."""
    found, child = -math.inf, tree.actions[unit, CHILD]
    while child >= 0:
        node = tree.children[child, NODE]
        if tree.shares[child, MASS] > 0.0:
            found = max(found, beta * (tree.values[node, VALUE] if node >= 0 else 0.0))
        child = tree.children[child, NEXT]
    return found / beta


@inlined
def _add(tree, discount, unit, child, log_weight, loss, beta):  # type: ignore[no-untyped-def]
    """Take a sample into an action, and put the action's value together."""
    node = tree.children[child, NODE]
    value = tree.values[node, VALUE] if node >= 0 else 0.0
    if tree.actions[unit, COUNT] == 0:
        tree.sums[unit, SCALE], tree.sums[unit, COST_BASE] = log_weight, loss
        tree.sums[unit, VALUE_BASE] = value
    gap, anew = loss - tree.sums[unit, COST_BASE], False
    moves = beta * gap > _REBASE
    if log_weight > tree.sums[unit, SCALE] + 30.0:
        lighter = tree.sums[unit, SCALE] - log_weight
        moves = moves or (beta * gap < -_REBASE and lighter - beta * gap < 30.0)  # what was the base weighs nothing now
        factor, one = math.exp(max(lighter, -_FAR)), tree.actions[unit, CHILD]
        while one >= 0:
            tree.shares[one, MASS] *= factor
            one = tree.children[one, NEXT]
        tree.sums[unit, SCALE] = log_weight
    if moves:
        one, shrunk = tree.actions[unit, CHILD], math.exp(-beta * gap)
        while one >= 0:
            tree.shares[one, UTILITY] = _utility(-gap, beta) + shrunk * tree.shares[one, UTILITY]
            one = tree.children[one, NEXT]
        tree.sums[unit, COST_BASE], gap, anew = loss, 0.0, True
    if beta * discount * (value - tree.sums[unit, VALUE_BASE]) > _REBASE:
        tree.sums[unit, VALUE_BASE], anew = value, True
    weight = 1.0
    if log_weight != tree.sums[unit, SCALE]:
        weight = max(math.exp(max(log_weight - tree.sums[unit, SCALE], -_FAR)), 1e-250)
    tree.actions[unit, COUNT] += 1
    tree.shares[child, MASS] += weight
    u = tree.shares[child, UTILITY]
    tree.shares[child, UTILITY] = u + weight / tree.shares[child, MASS] * (_utility(gap, beta) - u)
    if anew:
        _all_terms(tree, discount, unit, beta)
    else:
        tree.shares[child, TERM] = _term(tree, discount, child, tree.sums[unit, VALUE_BASE], beta)
    mean = _mean(tree, unit)
    if 1.0 + beta * mean < _FADED:  # most of the weight lies far below
        tree.sums[unit, VALUE_BASE] = _weightiest(tree, unit, beta)
        _all_terms(tree, discount, unit, beta)
        mean = _mean(tree, unit)
    tree.sums[unit, WORTH] = tree.sums[unit, COST_BASE] + discount * tree.sums[unit, VALUE_BASE] + _worth(mean, beta)


@inlined
def _back_up(tree, settings, trace, length, last, tail):  # type: ignore[no-untyped-def]
    """Take a finished sample up the path."""
    if last >= 0:
        tree.nodes[last, VISITS] += 1
        tree.values[last, VALUE] = tail
    to_go = tail
    for k in range(length - 1, -1, -1):
        node, unit, child = trace.places[k, 0], trace.places[k, 1], trace.places[k, 2]
        loss = trace.numbers[k, 1]
        to_go = loss + settings.discount * to_go
        beta = settings.betas[settings.step + k]
        _add(tree, settings.discount, unit, child, trace.numbers[k, 0], loss, beta)
        tree.nodes[node, VISITS] += 1
        tree.values[node, LOW] = min(tree.values[node, LOW], to_go)
        tree.values[node, HIGH] = max(tree.values[node, HIGH], to_go)
        least, first = math.inf, tree.nodes[node, FIRST]
        for one in range(first, first + settings.num_actions):
            if tree.actions[one, COUNT] > 0:
                least = min(least, tree.sums[one, WORTH])
        tree.values[node, VALUE] = least


def search_histories(model, tree, settings, trace, stream, iterations):  # type: ignore[no-untyped-def]
    """Run up to so many iterations; return the status."""
    model, tree, settings = borrowed(model), borrowed(tree), borrowed(settings)
    trace, stream = borrowed(trace), borrowed(stream)
    for _ in range(iterations):
        if tree.used[NODES] >= settings.max_nodes:
            return NODE_LIMIT
        if (
            tree.used[NODES] + 1 > tree.nodes.shape[0]
            or tree.used[ACTIONS] + settings.num_actions > tree.actions.shape[0]
            or tree.used[CHILDREN] + 1 > tree.children.shape[0]
        ):
            return FULL
        status, length, last, tail = _descend(model, tree, settings, trace, stream)
        if status < 0:
            return status
        _back_up(tree, settings, trace, length, last, tail)
        trace.counts[0] += 1
    return GO_ON


def try_roll_outs(model, settings, trace, stream, trials):  # type: ignore[no-untyped-def]
    """Fill ``trials`` (ways, n) with the losses of ways to play on from the root: at random, or one action for ever."""
    model, settings, stream = borrowed(model), borrowed(settings), borrowed(stream)
    for way in range(trials.shape[0]):
        for k in range(trials.shape[1]):
            particle = np.int64(-1)
            if settings.sums.size:
                particle = np.int64(draw_place(settings.sums, stream))
            state, status = begin(model, particle, stream)
            if status < 0:
                return status
            total, steps, status = play_out(model, state, np.int64(way - 1), settings.step, stream)
            if status < 0:
                return status
            trace.counts[1] += steps
            trials[way, k] = total
    return GO_ON
