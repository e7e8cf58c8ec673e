r"""The compiled search over histories: a tree of what was done and observed, by weighted samples.

The tree is flat arrays: nodes (a history each; those that followed an action are its children, linked in a list) and
actions (A in a row, once a node was visited twice). A sample carries the logarithm of its weight,
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
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints
from tailwise._jit import borrowed, inlined, kernel
from tailwise._random import next_double
from tailwise.bindings.hidden import NEW, begin, draw, draw_place, fit, keep, play_out
from tailwise.bindings.kernel_model import DONE, FULL, GO_ON

NODE_LIMIT = -3
MOST_ROWS = 2**31 - 1  # of nodes, or of actions: places in memory are numbers of 32 bits
# Columns, of whole numbers and then of floats: a row's lie side by side in memory. What a step of a large tree takes is
# the time to fetch its rows, so a node's is one line of the cache (64 bytes).
KEY, NEXT, FIRST, VISITS = 0, 1, 2, 3  # of a node: observation (-1: the end), next child or -1, first action or -1
MASS, UTILITY, TERM, VALUE, LOW, HIGH = 2, 3, 4, 5, 6, 7
CHILD, KINDS = 0, 1  # of an action: first child or -1, number of children
COUNT, SCALE, COST_BASE, VALUE_BASE, WORTH = 1, 2, 3, 4, 5
NODES, ACTIONS, ROOT = 0, 1, 2
_WIDTHS, _LINE = (8, 6), 8  # in numbers of 64 bits
_FAR, _REBASE, _FADED, _LEAST = 600.0, 8.0, 1e-3, -1.0 + 1e-16
_END = -1


class Histories(NamedTuple):
    """The tree's memory: rows of nodes and actions, each seen as whole numbers and as floats."""

    nodes: NDArray[np.int32]
    values: Floats
    actions: NDArray[np.int32]
    sums: Floats
    used: Ints  # (3,) nodes, actions; the root

    @property
    def num_bytes(self) -> int:
        """Memory that it takes."""
        return self.nodes.nbytes + self.actions.nbytes


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


def new_histories(nodes: int, actions: int) -> Histories:
    """Return an empty tree with room for so much, and a root."""
    made = viewed([_rows(nodes, _WIDTHS[NODES]), _rows(actions, _WIDTHS[ACTIONS])], np.zeros(3, np.int64))
    made.nodes[0, [KEY, NEXT, FIRST, VISITS]] = _END, -1, -1, 0
    made.values[0, MASS:] = 0.0, 0.0, 0.0, 0.0, math.inf, -math.inf
    made.used[NODES] = 1
    return made


def _rows(count: int, width: int) -> Floats:
    """Return room for rows that begin where a line of the cache does."""
    buffer = np.empty(count * width + _LINE)
    first = -(buffer.ctypes.data // 8) % _LINE
    return buffer[first : first + count * width].reshape(count, width)


def joined(tree: Histories) -> Histories:
    """Return a copied tree whose views are of the same memory again."""
    return viewed([tree.values, tree.sums], tree.used)


def viewed(buffers: list[Floats], used: Ints) -> Histories:
    """Return the tree whose memory, of nodes and of actions, is given."""
    nodes, actions = buffers
    return Histories(nodes.view(np.int32), nodes, actions.view(np.int32), actions, used)


def enlarged(tree: Histories, num_actions: int) -> Histories:
    """Return the same tree with twice the room, where little is left."""
    buffers = [tree.values, tree.sums]
    for kind, needed in ((NODES, 1), (ACTIONS, num_actions)):
        old, used = buffers[kind], int(tree.used[kind])
        if used + needed > len(old):
            buffers[kind] = _rows(2 * len(old) + needed, old.shape[1])
            buffers[kind].view(np.int64)[:used] = old.view(np.int64)[:used]
    return viewed(buffers, tree.used)


def subtree(tree: Histories, root: int, num_actions: int) -> Histories:
    """Return the tree below a node, on its own."""
    fresh = new_histories(len(tree.nodes), len(tree.actions))
    _copy_below(tree, fresh, root, num_actions, np.empty(len(tree.nodes), np.int64))
    return fresh


def child_at(tree: Histories, place: int, key: int) -> int:
    """Return the node that follows an action of the root with an observation, or -1."""
    first = int(tree.nodes[tree.used[ROOT], FIRST])
    child = -1 if first < 0 or key < 0 else int(tree.actions[first + place, CHILD])
    while child >= 0 and tree.nodes[child, KEY] != key:
        child = int(tree.nodes[child, NEXT])
    return child


def root_actions(tree: Histories, num_actions: int) -> tuple[Ints, Floats]:
    """Return how often each action of the root was taken, and its value (NaN where it was not)."""
    first = int(tree.nodes[tree.used[ROOT], FIRST])
    if first < 0:
        return np.zeros(num_actions, np.int64), np.full(num_actions, math.nan)
    visits = tree.sums[first : first + num_actions, COUNT].astype(np.int64)
    return visits, np.where(visits > 0, tree.sums[first : first + num_actions, WORTH], math.nan)


@kernel
def _copy_below(tree, fresh, root, num_actions, moved):  # type: ignore[no-untyped-def]
    moved[0], fresh.nodes[0], count, new = root, tree.nodes[root], 1, 0
    while new < count:
        first, into = tree.nodes[moved[new], FIRST], fresh.used[ACTIONS]
        if first >= 0:
            fresh.nodes[new, FIRST] = into
            fresh.used[ACTIONS] += num_actions
            for k in range(num_actions):
                fresh.actions[into + k] = tree.actions[first + k]
                child, last = tree.actions[first + k, CHILD], -1
                while child >= 0:
                    moved[count], fresh.nodes[count] = child, tree.nodes[child]
                    if last < 0:
                        fresh.actions[into + k, CHILD] = count
                    else:
                        fresh.nodes[last, NEXT] = count
                    child, last = tree.nodes[child, NEXT], count
                    count += 1
        new += 1
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
        count = tree.sums[first + place, COUNT]
        if count == 0.0:
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
        tree.actions[unit, CHILD], tree.actions[unit, KINDS] = -1, 0
        tree.sums[unit, COUNT], tree.sums[unit, SCALE], tree.sums[unit, COST_BASE] = 0.0, -math.inf, 0.0
        tree.sums[unit, VALUE_BASE], tree.sums[unit, WORTH] = 0.0, 0.0


@inlined
def _found_child(tree, unit, key):  # type: ignore[no-untyped-def]
    """The child of an observation, or -1."""
    child = tree.actions[unit, CHILD]
    while child >= 0 and tree.nodes[child, KEY] != key:
        child = tree.nodes[child, NEXT]
    return child


@inlined
def _new_child(tree, unit, key):  # type: ignore[no-untyped-def]
    """Add a child."""
    child = tree.used[NODES]
    tree.used[NODES] += 1
    tree.nodes[child, KEY], tree.nodes[child, NEXT] = key, tree.actions[unit, CHILD]
    tree.nodes[child, FIRST], tree.nodes[child, VISITS] = -1, 0
    tree.values[child, MASS], tree.values[child, UTILITY], tree.values[child, TERM] = 0.0, 0.0, 0.0
    tree.values[child, VALUE], tree.values[child, LOW], tree.values[child, HIGH] = 0.0, math.inf, -math.inf
    tree.actions[unit, CHILD] = child
    tree.actions[unit, KINDS] += 1
    return child


@inlined
def _any_child(tree, unit, stream):  # type: ignore[no-untyped-def]
    """A child that is no end, drawn by how often it was visited; -1 where there is none."""
    total = 0.0
    child = tree.actions[unit, CHILD]
    while child >= 0:
        if tree.nodes[child, KEY] != _END:
            total += tree.nodes[child, VISITS]
        child = tree.nodes[child, NEXT]
    wanted = next_double(stream) * total
    child, found = tree.actions[unit, CHILD], np.int64(-1)
    while child >= 0:
        if tree.nodes[child, KEY] != _END:
            found = child
            wanted -= tree.nodes[child, VISITS]
            if wanted < 0.0:
                break
        child = tree.nodes[child, NEXT]
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
    most = settings.widening[0] * (tree.sums[unit, COUNT] + 1.0) ** settings.widening[1]
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
                extra, status = fit(model, tree.nodes[child, KEY])
                log_weight += extra
            if status < 0:
                break
        trace.places[length, 0], trace.places[length, 1], trace.places[length, 2] = node, unit, child
        length += 1
        h += 1
        node = child
        if status == DONE:
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
    u = tree.values[child, UTILITY]
    return u + (1.0 + beta * u) * _utility(discount * (tree.values[child, VALUE] - base), beta)


@inlined
def _mean(tree, unit):  # type: ignore[no-untyped-def]
    """Weighted mean of the children's terms."""
    total, weight = 0.0, 0.0
    child = tree.actions[unit, CHILD]
    while child >= 0:
        weight += tree.values[child, MASS]
        total += tree.values[child, MASS] * tree.values[child, TERM]
        child = tree.nodes[child, NEXT]
    return total / weight


@inlined
def _all_terms(tree, discount, unit, beta):  # type: ignore[no-untyped-def]
    child = tree.actions[unit, CHILD]
    while child >= 0:
        if tree.values[child, MASS] > 0.0:
            tree.values[child, TERM] = _term(tree, discount, child, tree.sums[unit, VALUE_BASE], beta)
        child = tree.nodes[child, NEXT]


@inlined
def _worth(mean, beta):  # type: ignore[no-untyped-def]
    return math.log1p(max(beta * mean, _LEAST)) / beta if beta != 0.0 else mean


@inlined
def _weightiest(tree, unit, beta):  # type: ignore[no-untyped-def]
    """The value that follows which weighs most by its risk, of the children of an action."""
    found, child = -math.inf, tree.actions[unit, CHILD]
    while child >= 0:
        if tree.values[child, MASS] > 0.0:
            found = max(found, beta * tree.values[child, VALUE])
        child = tree.nodes[child, NEXT]
    return found / beta


@inlined
def _add(tree, discount, unit, child, log_weight, loss, beta):  # type: ignore[no-untyped-def]
    """Take a sample into an action, and put the action's value together."""
    value = tree.values[child, VALUE]
    if tree.sums[unit, COUNT] == 0.0:
        tree.sums[unit, SCALE], tree.sums[unit, COST_BASE] = log_weight, loss
        tree.sums[unit, VALUE_BASE] = value
    gap, anew = loss - tree.sums[unit, COST_BASE], False
    moves = beta * gap > _REBASE
    if log_weight > tree.sums[unit, SCALE] + 30.0:
        lighter = tree.sums[unit, SCALE] - log_weight
        moves = moves or (beta * gap < -_REBASE and lighter - beta * gap < 30.0)  # what was the base weighs nothing now
        factor, one = math.exp(max(lighter, -_FAR)), tree.actions[unit, CHILD]
        while one >= 0:
            tree.values[one, MASS] *= factor
            one = tree.nodes[one, NEXT]
        tree.sums[unit, SCALE] = log_weight
    if moves:
        one, shrunk = tree.actions[unit, CHILD], math.exp(-beta * gap)
        while one >= 0:
            tree.values[one, UTILITY] = _utility(-gap, beta) + shrunk * tree.values[one, UTILITY]
            one = tree.nodes[one, NEXT]
        tree.sums[unit, COST_BASE], gap, anew = loss, 0.0, True
    if beta * discount * (value - tree.sums[unit, VALUE_BASE]) > _REBASE:
        tree.sums[unit, VALUE_BASE], anew = value, True
    weight = 1.0
    if log_weight != tree.sums[unit, SCALE]:
        weight = max(math.exp(max(log_weight - tree.sums[unit, SCALE], -_FAR)), 1e-250)
    tree.sums[unit, COUNT] += 1.0
    tree.values[child, MASS] += weight
    u = tree.values[child, UTILITY]
    tree.values[child, UTILITY] = u + weight / tree.values[child, MASS] * (_utility(gap, beta) - u)
    if anew:
        _all_terms(tree, discount, unit, beta)
    else:
        tree.values[child, TERM] = _term(tree, discount, child, tree.sums[unit, VALUE_BASE], beta)
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
        tree.nodes[last, VISITS] = 1
        tree.values[last, VALUE] = tail
    to_go = tail
    for k in range(length - 1, -1, -1):
        node, unit, child = trace.places[k, 0], trace.places[k, 1], trace.places[k, 2]
        loss = trace.numbers[k, 1]
        to_go = loss + settings.discount * to_go
        beta = settings.betas[settings.step + k]
        _add(tree, settings.discount, unit, child, trace.numbers[k, 0], loss, beta)
        tree.nodes[node, VISITS] = min(tree.nodes[node, VISITS] + 1, MOST_ROWS)  # so many that one more is nothing
        tree.values[node, LOW] = min(tree.values[node, LOW], to_go)
        tree.values[node, HIGH] = max(tree.values[node, HIGH], to_go)
        least, first = math.inf, tree.nodes[node, FIRST]
        for one in range(first, first + settings.num_actions):
            if tree.sums[one, COUNT] > 0.0:
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
