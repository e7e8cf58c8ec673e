"""The tree for people: nodes and actions with states, visits and risks, in the model's own words and sense.

``search.root`` looks at the living tree: read it before the search goes on. ``plan.root`` is frozen: it shows the tree
as it was when the plan was made.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailwise.bindings import ModelInterface
from tailwise.errors import OptionError, StateError
from tailwise.models.contract import Sense
from tailwise.search.tree import Tree

_MOST_BYTES = 2**26  # of a tree that is copied so that a frozen view stays as it was


class TreeReader:
    """A tree with what turns its integers into a model's states and actions, and the sense of its numbers."""

    def __init__(self, tree: Tree, binding: ModelInterface, sense: Sense) -> None:
        self._tree = tree
        self.binding = binding
        self.sense = sense
        self._is_gone = False

    @property
    def tree(self) -> Tree:
        """The tree; an error once it was dropped."""
        if self._is_gone:
            raise OptionError(
                "this view was dropped when its search went on, since the tree is large; read it before planning on"
            )
        return self._tree

    def detach(self) -> None:
        """Part from the search, which is about to take another tree and to forget states."""
        self.binding = copy.copy(self.binding)  # what an interface forgets it replaces, so the copy still has it

    def settle(self) -> None:
        """Keep a copy, or nothing where the tree is large: the living tree is about to change."""
        self.detach()
        if self._tree.num_bytes > _MOST_BYTES:
            self._is_gone = True
        else:
            self._tree = self._tree.copy()


@dataclass(frozen=True)
class ActionView:
    """One action at a decision node.

    Attributes
    ----------
    node : NodeView
        Where it is taken.
    position : int
        Its place among the node's actions, 0..A-1.
    action : object
        The action as the model names it.
    label : str
        Its name.
    visits : int
        How often it was taken.
    erm : float
        Estimated ERM of the discounted total from the node on, in the model's sense; NaN where it was never taken.
    """

    node: NodeView = field(repr=False)
    position: int
    action: Any
    label: str
    visits: int
    erm: float

    @property
    def share(self) -> float:
        """Part of the visits to the node's actions that it took, in [0, 1]."""
        return self.visits / max(1, self.node.visits - 1)

    @property
    def children(self) -> tuple[NodeView, ...]:
        """Nodes of the next states seen, the most visited first. States at the horizon are not in the tree."""
        found = self.most_visited(2**31)[0]
        return tuple(sorted(found, key=lambda child: (-child.visits, child.state_name)))

    def most_visited(self, most: int) -> tuple[tuple[NodeView, ...], int, int]:
        """Return the first of :attr:`children`, with the number and the visits of the others; quick for many.

        Of children with equally many visits any may be among the first.
        """
        reader, tree = self.node._reader, self.node._reader.tree
        units, visits = tree.children_visits(self.node._unit, self.position)
        chosen = np.argsort(-visits, kind="stable")[:most]
        path = (*self.node.path, (self.action, None))
        nodes = tuple(NodeView(reader, int(units[k]), self.node.step + 1, path) for k in chosen)
        return nodes, visits.size - len(nodes), int(visits.sum() - visits[chosen].sum())

    def child(self, state: Any) -> NodeView:
        """Return the node of one next state.

        Raises
        ------
        StateError
            If the action has not led there.
        """
        for child in self.children:
            if bool(child.state == state) or child.state_name == state:
                return child
        raise StateError(f"action {self.label} at step {self.node.step} has not led to state {state!r}")


@dataclass(frozen=True)
class NodeView:
    """One decision node: a state at a step.

    Attributes
    ----------
    step : int
        Its step h.
    """

    _reader: TreeReader = field(repr=False)
    _unit: int = field(repr=False)
    step: int
    _way: tuple[tuple[object, Hashable], ...] = field(repr=False, default=())

    @property
    def state(self) -> Hashable:
        """Its state, as the model has it."""
        return self._reader.binding.state(self._reader.tree.handle(self._unit))

    @property
    def sense(self) -> Sense:
        """What the numbers are: "cost" or "reward"."""
        return self._reader.sense

    @property
    def tree_size(self) -> int:
        """Number of decision nodes in the whole tree."""
        return int(self._reader.tree.num_nodes)

    @property
    def state_name(self) -> str:
        """Name of its state."""
        return self._reader.binding.state_name(self.state)

    @property
    def path(self) -> tuple[tuple[object, Hashable], ...]:
        """How it was reached from the root: (action, next state) for each step."""
        if not self._way:
            return ()
        return (*self._way[:-1], (self._way[-1][0], self.state))

    @property
    def is_leaf(self) -> bool:
        """Whether it was visited once only, so that no action was taken in the tree."""
        return self._reader.tree.num_actions(self._unit) == 0

    @property
    def visits(self) -> int:
        """Number of visits: 1 for a leaf, 1 + those of its actions otherwise."""
        tree = self._reader.tree
        return 1 if self.is_leaf else 1 + int(tree.counts(self._unit).sum())

    @property
    def actions(self) -> tuple[ActionView, ...]:
        """Its actions in the model's order; none for a leaf."""
        reader, tree = self._reader, self._reader.tree
        if self.is_leaf:
            return ()
        handle = tree.handle(self._unit)
        named = reader.binding.actions(handle)
        counts, values = tree.counts(self._unit).tolist(), tree.values(self._unit).tolist()
        sign = 1.0 if reader.sense == "cost" else -1.0
        return tuple(
            ActionView(
                self, k, action, reader.binding.action_name(action, handle), counts[k],
                sign * values[k] + 0.0 if counts[k] else math.nan,
            )
            for k, action in enumerate(named)
        )  # fmt: skip

    def action(self, name: Any) -> ActionView:
        """Return one action, by the model's name or by label.

        Raises
        ------
        StateError
            If there is none of that name.
        """
        for action in self.actions:
            if bool(action.action == name) or action.label == name:
                return action
        known = ", ".join(action.label for action in self.actions) or "none: it is a leaf"
        raise StateError(f"no action {name!r} in state {self.state_name} at step {self.step}; there are {known}")

    def walk(self, *, max_depth: int | None = None, min_visits: int = 1) -> Iterator[NodeView]:
        """Iterate over this node and those below it, parents first.

        Parameters
        ----------
        max_depth : int, optional
            Steps below this node to go at most.
        min_visits : int, default 1
            Leave out nodes with fewer visits, and what is below them.

        Yields
        ------
        NodeView
            Depth first, the most visited children first.
        """
        if self.visits < min_visits:
            return
        yield self
        if max_depth is not None and max_depth <= 0:
            return
        for action in self.actions:
            for child in action.children:
                yield from child.walk(max_depth=None if max_depth is None else max_depth - 1, min_visits=min_visits)

    def to_dict(self, *, max_depth: int | None = None, min_visits: int = 1) -> dict[str, object]:
        """Return the tree from here on as nested dicts and lists, ready for JSON.

        Parameters
        ----------
        max_depth, min_visits
            As for :meth:`walk`; what is left out is counted in ``omitted`` of the action above it.

        Returns
        -------
        dict
            ``state``, ``step``, ``visits`` and ``actions``: a list of ``label``, ``visits``, ``share``, ``erm`` (None
            where never taken), ``children`` (a list of the same dicts, each with its ``probability``, the
            share of the action's sampled outcomes) and ``omitted``.
        """
        deeper = None if max_depth is None else max_depth - 1
        actions = []
        for action in self.actions:
            children = action.children
            shown = [c for c in children if c.visits >= min_visits] if max_depth is None or max_depth > 0 else []
            total = sum(child.visits for child in children)
            nested = [
                {"probability": c.visits / total, **c.to_dict(max_depth=deeper, min_visits=min_visits)} for c in shown
            ]
            own = {name: getattr(action, name) for name in ("label", "visits", "share")}
            own["erm"] = action.erm if action.visits else None
            actions.append({**own, "children": nested, "omitted": len(children) - len(shown)})
        return {"state": self.state_name, "step": self.step, "visits": self.visits, "actions": actions}

    def __str__(self) -> str:
        lines = [f"state {self.state_name} at step {self.step}, {self.visits} visits"]
        lines += [f"  {action.label:>12}  visits {action.visits:>9}  ERM {action.erm:.6g}" for action in self.actions]
        return "\n".join(lines)
