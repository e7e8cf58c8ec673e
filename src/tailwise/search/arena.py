"""The tree as flat arrays.

The arena is one buffer of 16-byte units, seen as two doubles or as four 32-bit ints each. Unit 0
is the null link. A *decision node* is a header, followed, once it is visited a second time, by one
unit per action (its *chance nodes*); until then it is a leaf and the header is all there is.

    header   ints: [state, left, right, num_actions]     num_actions = 0 while a leaf
    action   floats: [value, -]   ints: [-, -, count, child]

``value`` is the ERM of the ``count`` costs-to-go sampled through the action. ``child`` is the root of
a binary trie over the next states seen: a node's ``left`` and ``right`` lead to its
siblings, by the bits of the state's hash. So a step down the tree reads one or two cache lines, and
a node costs 16 bytes as a leaf and 16 (1 + A) in full.

``statistics`` holds, one row a unit, what rules ask for beyond that (see :mod:`tailwise.bonuses`): a header's row
belongs to the node, an action's to the action. It has no columns while no rule asks.

When the root moves below a large tree nothing is copied: the nodes left behind are *dead*, linked by their states'
place, and :func:`sweep` frees a few of them an iteration. A freed leaf is linked by ``left`` to others, a freed full
node to others of its kind; both are taken again before the arena's end is.

Invariants: a node's visits are 1 + the sum of its actions' counts; a full node has been visited at
least twice (or is the root); a state occurs at most once below an action.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import apart
from tailwise._jit import inlined, kernel

UNIT_BYTES = 16
LEFT, RIGHT, NUM_ACTIONS = 1, 2, 3  # header, after the state at 0
COUNT, CHILD = 2, 3  # action unit, after the value

# Entries of ``counters``.
USED, NODES, FREE_LEAF, ROOT, DEPTH, MAX_NODES = 0, 1, 2, 3, 4, 5
FREE_NODE, DEAD, OLD_ROOT, OLD_LINK, IS_LOOSE = 6, 7, 8, 9, 10
_NUM_COUNTERS = 11
_SWEPT = 4  # dead nodes freed in an iteration: more than it adds, mostly

MOST_UNITS = MOST_VISITS = 2**31 - 1  # links and counts are 32-bit ints

_GOLDEN = 0x4F1BBCDD  # 2**31 / golden ratio: spreads consecutive handles over the trie


Row: TypeAlias = NDArray[np.float64]


class Arena(NamedTuple):
    """The tree's memory; ``floats`` and ``ints`` are views of one buffer."""

    floats: NDArray[np.float64]  # (2 * capacity,)
    ints: NDArray[np.int32]  # (4 * capacity,)
    counters: NDArray[np.int64]  # (11,) see above
    statistics: NDArray[np.float64]  # (capacity, K), or (0, 0) where no rule asks for any
    node_start: NDArray[np.float64]  # (K,) the row of a new node
    action_start: NDArray[np.float64]  # (K,) the row of a new action


def allocate(capacity: int, max_nodes: int, node_start: Row, action_start: Row) -> Arena:
    """Return an empty arena of ``capacity`` units, whose statistics start from the given rows."""
    buffer = np.empty(2 * capacity, dtype=np.float64)
    (counters,) = apart(np.int64, _NUM_COUNTERS)
    counters[USED], counters[MAX_NODES] = 1, min(max_nodes, 2**62)
    width = node_start.size
    statistics = np.empty((capacity if width else 0, width))
    return Arena(buffer, buffer.view(np.int32), counters, statistics, node_start, action_start)


def resized(arena: Arena, capacity: int) -> Arena:
    """Return an arena of ``capacity`` units that holds the same tree."""
    other = allocate(capacity, int(arena.counters[MAX_NODES]), arena.node_start, arena.action_start)
    used = int(arena.counters[USED])
    other.floats[: 2 * used] = arena.floats[: 2 * used]
    other.statistics[:used] = arena.statistics[:used]
    other.counters[:] = arena.counters
    return other


def plant(arena: Arena, handle: int, num_actions: int, step: int) -> None:
    """Make the root of an empty arena, with its actions."""
    root = int(arena.counters[USED])
    last = root + 1 + num_actions
    arena.counters[USED], arena.counters[ROOT], arena.counters[NODES], arena.counters[DEPTH] = last, root, 1, step
    arena.floats[2 * root : 2 * last] = 0.0  # also all links and counts: zeros in either view
    arena.ints[4 * root], arena.ints[4 * root + NUM_ACTIONS] = handle, num_actions
    if arena.node_start.size:
        arena.statistics[root], arena.statistics[root + 1 : last] = arena.node_start, arena.action_start


def capacity(arena: Arena) -> int:
    """Number of units the arena can hold."""
    return arena.floats.size // 2


@inlined
def reserve(arena, units):  # type: ignore[no-untyped-def]
    """Take ``units`` from the end of the arena; 0 when it is full."""
    first = arena.counters[USED]
    if 2 * (first + units) > arena.floats.size:
        return 0
    arena.counters[USED] = first + units
    return first


@inlined
def break_up(arena, unit, kept):  # type: ignore[no-untyped-def]
    """Make leaves of a free node's units, less the first ``kept``."""
    for part in range(unit + kept, unit + 1 + arena.ints[4 * unit + NUM_ACTIONS]):
        arena.ints[4 * part + LEFT] = arena.counters[FREE_LEAF]
        arena.counters[FREE_LEAF] = part


@inlined
def reserve_node(arena, num_actions):  # type: ignore[no-untyped-def]
    """Take the units of a free node that has room for so many actions, or some from the end; 0 when it is full."""
    while arena.counters[FREE_NODE] != 0:
        unit = arena.counters[FREE_NODE]
        arena.counters[FREE_NODE] = arena.ints[4 * unit + LEFT]
        if arena.ints[4 * unit + NUM_ACTIONS] >= num_actions:
            break_up(arena, unit, 1 + num_actions)
            return unit
        break_up(arena, unit, 0)
    return reserve(arena, 1 + num_actions)


@inlined
def new_leaf(arena, state, link):  # type: ignore[no-untyped-def]
    """Make a leaf for ``state`` and hang it at the int at ``link``; 0 when the arena is full."""
    unit = arena.counters[FREE_LEAF]
    if unit != 0:
        arena.counters[FREE_LEAF] = arena.ints[4 * unit + LEFT]
    else:
        unit = reserve(arena, 1)
        if unit == 0:
            return unit
    header = 4 * unit
    arena.ints[header] = state
    arena.ints[header + LEFT] = 0
    arena.ints[header + RIGHT] = 0
    arena.ints[header + NUM_ACTIONS] = 0
    arena.ints[link] = unit
    arena.counters[NODES] += 1
    for k in range(arena.node_start.size):
        arena.statistics[unit, k] = arena.node_start[k]
    return unit


@inlined
def open_leaf(arena, leaf, num_actions, link):  # type: ignore[no-untyped-def]
    """Give a leaf its action units, which moves it; returns its new unit, 0 when the arena is full."""
    unit = reserve_node(arena, num_actions)
    if unit == 0:
        return unit
    for k in range(3):
        arena.ints[4 * unit + k] = arena.ints[4 * leaf + k]
    arena.ints[4 * unit + NUM_ACTIONS] = num_actions
    for a in range(num_actions):
        arena.floats[2 * (unit + 1 + a)] = 0.0
        arena.ints[4 * (unit + 1 + a) + COUNT] = 0
        arena.ints[4 * (unit + 1 + a) + CHILD] = 0
    for k in range(arena.node_start.size):
        arena.statistics[unit, k] = arena.statistics[leaf, k]
        for a in range(num_actions):
            arena.statistics[unit + 1 + a, k] = arena.action_start[k]
    arena.ints[link] = unit
    arena.ints[4 * leaf + LEFT] = arena.counters[FREE_LEAF]
    arena.counters[FREE_LEAF] = leaf
    return unit


@inlined
def find_child(ints, action_unit, state):  # type: ignore[no-untyped-def]
    """Return (unit of the child for ``state`` or 0, index of the int that holds or would hold it)."""
    link = 4 * action_unit + CHILD
    child = ints[link]
    if child == 0 or ints[4 * child] == state:
        return child, link
    bits = (np.int64(state) * _GOLDEN) >> 15  # below 2**62: handles and the factor have 31 bits
    while child != 0 and ints[4 * child] != state:
        link = 4 * child + LEFT + (bits & 1)
        bits >>= 1
        child = ints[link]
    return child, link


@kernel
def child_of(arena, action_unit, state):  # type: ignore[no-untyped-def]
    """Return the unit of the child for ``state`` or 0, and the index of the int that links to it."""
    return find_child(arena.ints, action_unit, state)


@inlined
def least_value(arena, node, visits):  # type: ignore[no-untyped-def]
    """Least value among the actions of ``node`` that were taken ``visits`` times or more; infinite where none was."""
    least = np.inf
    for unit in range(node + 1, node + 1 + arena.ints[4 * node + NUM_ACTIONS]):
        if arena.ints[4 * unit + COUNT] >= visits:
            least = min(least, arena.floats[2 * unit])
    return least


@kernel
def children(arena, action_unit):  # type: ignore[no-untyped-def]
    """Return the units of the nodes that an action has led to: int64, shape (children,)."""
    found = [np.int64(arena.ints[4 * action_unit + CHILD])]
    if found[0] == 0:
        return np.empty(0, dtype=np.int64)
    at = 0
    while at < len(found):
        for side in (LEFT, RIGHT):
            sibling = np.int64(arena.ints[4 * found[at] + side])
            if sibling != 0:
                found.append(sibling)
        at += 1
    return np.array(found)


@kernel
def headers(arena):  # type: ignore[no-untyped-def]
    """Return the units of all decision nodes in the tree: int64, shape (nodes,)."""
    found = np.empty(arena.counters[NODES], dtype=np.int64)
    pending = [arena.counters[ROOT]]
    count = 0
    while len(pending) > 0:
        unit = pending.pop()
        found[count] = unit
        count += 1
        for side in (LEFT, RIGHT):
            if unit != arena.counters[ROOT] and arena.ints[4 * unit + side] != 0:  # the root may have been moved here
                pending.append(np.int64(arena.ints[4 * unit + side]))
        for a in range(arena.ints[4 * unit + NUM_ACTIONS]):
            child = arena.ints[4 * (unit + 1 + a) + CHILD]
            if child != 0:
                pending.append(np.int64(child))
    return found[:count]


@inlined
def bury(arena, unit):  # type: ignore[no-untyped-def]
    """Put a node, and so all that hangs below it, among the dead; 0 is none."""
    if unit != 0:
        arena.ints[4 * unit] = arena.counters[DEAD]
        arena.counters[DEAD] = unit


@kernel
def leave_old_root(arena):  # type: ignore[no-untyped-def]
    """Cut the root off from the tree above it, which is dead from here on."""
    root = arena.counters[ROOT]
    arena.ints[arena.counters[OLD_LINK]] = 0
    for side in (LEFT, RIGHT):
        bury(arena, np.int64(arena.ints[4 * root + side]))
        arena.ints[4 * root + side] = 0
    bury(arena, arena.counters[OLD_ROOT])
    arena.counters[OLD_ROOT] = 0


@inlined
def sweep_some(arena, most):  # type: ignore[no-untyped-def]
    """Free up to ``most`` dead nodes."""
    for _ in range(most):
        unit = arena.counters[DEAD]
        if unit == 0:
            return
        arena.counters[DEAD] = arena.ints[4 * unit]
        arena.counters[NODES] -= 1
        bury(arena, np.int64(arena.ints[4 * unit + LEFT]))
        bury(arena, np.int64(arena.ints[4 * unit + RIGHT]))
        num_actions = arena.ints[4 * unit + NUM_ACTIONS]
        for action in range(unit + 1, unit + 1 + num_actions):
            bury(arena, np.int64(arena.ints[4 * action + CHILD]))
        free = FREE_LEAF if num_actions == 0 else FREE_NODE
        arena.ints[4 * unit + LEFT] = arena.counters[free]
        arena.counters[free] = unit


@inlined
def sweep(arena):  # type: ignore[no-untyped-def]
    """Free a few dead nodes, if there are any."""
    if arena.counters[DEAD] != 0:
        sweep_some(arena, _SWEPT)


@kernel
def sweep_all(arena):  # type: ignore[no-untyped-def]
    """Free all dead nodes."""
    sweep_some(arena, arena.counters[NODES])


@kernel
def copy_subtree(source, root, target):  # type: ignore[no-untyped-def]
    """Copy the tree below ``root`` into the empty arena ``target``.

    Siblings of ``root`` (the other states of its chance node) stay behind. Returns the new root, 0 where ``target`` is
    too small.
    """
    pending = [(root, np.int64(0))]  # (unit in source, index of the int in target that links to it)
    new_root = np.int64(0)
    while len(pending) > 0:
        unit, link = pending.pop()
        num_actions = source.ints[4 * unit + NUM_ACTIONS]
        copy = reserve(target, 1 + num_actions)
        if copy == 0:
            return copy
        for k in range(2 * (1 + num_actions)):
            target.floats[2 * copy + k] = source.floats[2 * unit + k]
        for k in range(source.node_start.size):
            for a in range(1 + num_actions):
                target.statistics[copy + a, k] = source.statistics[unit + a, k]
        target.counters[NODES] += 1
        if link == 0:
            new_root = copy
            target.ints[4 * copy + LEFT] = 0
            target.ints[4 * copy + RIGHT] = 0
        else:
            target.ints[link] = copy
            for side in (LEFT, RIGHT):
                if source.ints[4 * unit + side] != 0:
                    pending.append((np.int64(source.ints[4 * unit + side]), 4 * copy + side))
        for a in range(num_actions):
            child = source.ints[4 * (unit + 1 + a) + CHILD]
            if child != 0:
                pending.append((np.int64(child), 4 * (copy + 1 + a) + CHILD))
    target.counters[ROOT] = new_root
    return new_root
