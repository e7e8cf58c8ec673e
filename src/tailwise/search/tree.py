"""The tree as Python sees it: roots, counts, values and children, with the arena's integers kept inside.

Everything above this module speaks of *nodes* and *positions* of actions; a node is named by its unit in the arena,
which stays the same until the node is opened (its second visit) or the tree is re-rooted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import OptionError
from tailwise.search import arena as units
from tailwise.search.arena import UNIT_BYTES, Arena, Row

_FIRST_UNITS = 1_024
_UNLIMITED = 2**62
_MOST_COPIED = 16_384  # units that a move of the root copies; a larger tree stays where it is


@dataclass(frozen=True)
class Limits:
    """Bounds on a tree, None where there is none, and the first rows of its statistics."""

    max_nodes: int | None
    max_memory: int | None
    node_start: Row
    action_start: Row

    @property
    def most_units(self) -> int:
        """Units that fit into ``max_memory``."""
        return self.most_units_beside(0)

    def most_units_beside(self, reserved: int) -> int:
        """Units that fit into ``max_memory`` beside ``reserved`` bytes."""
        width = UNIT_BYTES + 8 * self.node_start.size
        room = _UNLIMITED if self.max_memory is None else self.max_memory
        return min(max(0, room - reserved) // width, units.MOST_UNITS)

    def plus(self, nodes: int, taken: int) -> Limits:
        """Return bounds moved by so many nodes and bytes; where there is none there stays none."""
        most = None if self.max_nodes is None else max(0, self.max_nodes + nodes)
        room = None if self.max_memory is None else max(0, self.max_memory + taken)
        return replace(self, max_nodes=most, max_memory=room)

    def part(self, parts: int) -> Limits:
        """Return one of so many equal parts."""
        most = None if self.max_nodes is None else self.max_nodes // parts
        room = None if self.max_memory is None else self.max_memory // parts
        return replace(self, max_nodes=most, max_memory=room)


class Tree:
    """A search tree in an arena, rooted at a state's handle and a step."""

    __slots__ = ("arena", "limits")

    def __init__(self, handle: int, num_actions: int, step: int, limits: Limits) -> None:
        capacity = min(max(_FIRST_UNITS, 4 * num_actions), limits.most_units)
        if capacity < 2 + num_actions:
            raise OptionError(
                f"max_memory={limits.max_memory} does not hold the root and its {num_actions} actions; "
                f"give at least {8 * (UNIT_BYTES + 8 * limits.node_start.size) * (1 + num_actions)} bytes"
            )
        self.limits = limits
        most_nodes = _UNLIMITED if limits.max_nodes is None else limits.max_nodes
        self.arena = units.allocate(capacity, most_nodes, limits.node_start, limits.action_start)
        units.plant(self.arena, handle, num_actions, step)

    @classmethod
    def _of(cls, arena: Arena, limits: Limits) -> Tree:
        tree = cls.__new__(cls)
        tree.arena, tree.limits = arena, limits
        return tree

    # -------------------------------------------------------------------- size

    @property
    def num_nodes(self) -> int:
        """Decision nodes in the tree."""
        return int(self.arena.counters[units.NODES])

    @property
    def num_bytes(self) -> int:
        """Memory held, spare room included."""
        return int(self.arena.floats.nbytes + self.arena.statistics.nbytes)

    def limit(self, limits: Limits) -> None:
        """Set other bounds; what the tree holds already it keeps."""
        self.limits = limits
        self.arena.counters[units.MAX_NODES] = _UNLIMITED if limits.max_nodes is None else limits.max_nodes

    def grow(self, reserved: int = 0) -> bool:
        """Make room for more nodes; False where ``max_memory``, less ``reserved`` bytes for states, forbids it."""
        now, most = units.capacity(self.arena), self.limits.most_units_beside(reserved)
        if now >= most:
            return False
        larger = 2 * now if now < 65_536 else now + now // 4
        self.arena = units.resized(self.arena, min(larger, max(most, now + 1)))
        return True

    @classmethod
    def compile(cls, limits: Limits) -> None:
        """Compile or load what moving a root takes, so that the first move is as quick as the others."""
        tree = cls(0, 1, 0, limits)
        tree.child(tree.root, 0, 0)
        tree.compacted().handles()
        units.leave_old_root(tree.arena)
        tree.sweep()

    # ------------------------------------------------------------------- nodes

    @property
    def root(self) -> int:
        """The root node."""
        return int(self.arena.counters[units.ROOT])

    @property
    def step(self) -> int:
        """Step of the root."""
        return int(self.arena.counters[units.DEPTH])

    def handle(self, node: int) -> int:
        """Handle of a node's state."""
        return int(self.arena.ints[4 * node])

    def num_actions(self, node: int) -> int:
        """Number of actions of a node; 0 while it is a leaf."""
        return int(self.arena.ints[4 * node + units.NUM_ACTIONS])

    def counts(self, node: int) -> NDArray[np.int64]:
        """How often each action of a node was taken: int64, shape (A,)."""
        first = 4 * (node + 1) + units.COUNT
        return np.asarray(self.arena.ints[first : first + 4 * self.num_actions(node) : 4], dtype=np.int64)

    def values(self, node: int) -> NDArray[np.float64]:
        """Estimated ERM of each action of a node, as costs: float64, shape (A,); 0 where it was never taken."""
        first = 2 * (node + 1)
        return self.arena.floats[first : first + 2 * self.num_actions(node) : 2].copy()

    def children(self, node: int, position: int) -> list[int]:
        """Nodes of the next states that an action has led to, in no particular order."""
        return [int(child) for child in units.children(self.arena, node + 1 + position)]

    def children_visits(self, node: int, position: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the same nodes and how often each was visited: int64, shape (k,) each."""
        found = np.array(self.children(node, position), dtype=np.int64)
        visits = np.ones(found.size, dtype=np.int64)  # of leaves
        for k in np.flatnonzero(self.arena.ints[4 * found + units.NUM_ACTIONS]):
            visits[k] += int(self.counts(int(found[k])).sum())
        return found, visits

    @property
    def visits_left(self) -> int:
        """How many more visits of the root can be counted."""
        return units.MOST_VISITS - 1 - int(self.counts(self.root).sum())

    def child(self, node: int, position: int, handle: int) -> int | None:
        """Node of one next state, or None if the action has not led there."""
        return int(units.child_of(self.arena, node + 1 + position, handle)[0]) or None

    # ----------------------------------------------------------------- changes

    def below(self, position: int, handle: int) -> Tree:
        """Return the tree below a child of the root; this one stays as it is until :meth:`leave_old_root`.

        It has memory of its own, where it is small, or else the same: copying it would take long.
        """
        child, link = units.child_of(self.arena, self.root + 1 + position, handle)
        kept = self._copied(int(child), self.step + 1, min(_MOST_COPIED, int(self.arena.counters[units.USED])))
        if kept is not None:
            return kept
        counters = self.arena.counters.copy()
        counters[[units.ROOT, units.DEPTH, units.OLD_LINK, units.IS_LOOSE]] = child, self.step + 1, link, 1
        if counters[units.OLD_ROOT] == 0:
            counters[units.OLD_ROOT] = self.root
        return self._of(self.arena._replace(counters=counters), self.limits)

    def leave_old_root(self) -> None:
        """Let what is not below the root be freed, bit by bit; trees that shared the memory are no more."""
        if self.arena.counters[units.OLD_ROOT]:
            units.leave_old_root(self.arena)

    def sweep(self) -> bool:
        """Free all nodes that are not below the root; return whether there were any."""
        has_dead = bool(self.arena.counters[units.DEAD])
        units.sweep_all(self.arena)
        return has_dead

    @property
    def is_loose(self) -> bool:
        """Whether :meth:`compacted` may be smaller."""
        return bool(self.arena.counters[units.IS_LOOSE])

    def compacted(self) -> Tree:
        """Return the same tree in memory of its own, without what is not below its root."""
        return self._copied(self.root, self.step, int(self.arena.counters[units.USED])) or self

    def _copied(self, node: int, step: int, capacity: int) -> Tree | None:
        """Return the tree below a node, which is at ``step``; None where it takes more units than ``capacity``."""
        most_nodes = int(self.arena.counters[units.MAX_NODES])
        kept = units.allocate(capacity, most_nodes, self.limits.node_start, self.limits.action_start)
        if units.copy_subtree(self.arena, node, kept) == 0:
            return None
        kept.counters[units.DEPTH] = step
        used, most = int(kept.counters[units.USED]), self.limits.most_units
        return self._of(units.resized(kept, max(used, min(max(_FIRST_UNITS, used + 1), most))), self.limits)

    def handles(self) -> NDArray[np.int64]:
        """Handles of the states of all nodes: int64, shape (nodes,), in the order of :meth:`rename`."""
        return np.asarray(self.arena.ints[4 * units.headers(self.arena)], dtype=np.int64)

    def rename(self, handles: NDArray[Any]) -> None:
        """Give the states of all nodes new handles, in the order of :meth:`handles`."""
        self.arena.ints[4 * units.headers(self.arena)] = handles

    def state_dict(self) -> dict[str, object]:
        """Return all that makes the tree, without spare room: what a file keeps."""
        arena = self.arena
        used = int(arena.counters[units.USED])
        ints, statistics = arena.ints[: 4 * used].copy(), arena.statistics[:used].copy()
        ints[:4], statistics[:1] = 0, 0.0  # the null link's own memory is never written
        sizes = {"capacity": units.capacity(arena), "counters": arena.counters.copy()}
        return {**sizes, "units": ints, "statistics": statistics}

    @classmethod
    def loaded(cls, state: dict[str, Any], limits: Limits) -> Tree:
        """Return the tree that :meth:`state_dict` described, or raise ``ValueError``."""
        counters, ints, statistics = state["counters"], state["units"], state["statistics"]
        arena = units.allocate(
            state["capacity"], int(counters[units.MAX_NODES]), limits.node_start, limits.action_start
        )
        used, width = int(counters[units.USED]), limits.node_start.size
        if not (ints.size == 4 * used <= arena.ints.size and statistics.shape == (used if width else 0, width)):
            raise ValueError("the parts of the tree do not fit together")
        arena.counters[: counters.size] = counters  # fewer in a file of before
        arena.ints[: 4 * used] = ints
        arena.statistics[:used] = statistics
        return cls._of(arena, limits)

    def copy(self) -> Tree:
        """Return an independent copy."""
        return self._of(units.resized(self.arena, units.capacity(self.arena)), self.limits)
