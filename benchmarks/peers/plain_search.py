"""The obvious program: Monte Carlo tree search for the entropic risk in plain Python.

What one would write in an afternoon from the paper: a dictionary of nodes, the list of sampled costs summed up as
it comes, polynomial bonus, random rollouts, the most visited action. It plans on tables.
"""

from __future__ import annotations

import bisect
import math
import random
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Action:
    """A chance node: how often it was taken, and the entropic risk of what followed."""

    visits: int = 0
    risk: float = 0.0


@dataclass
class Node:
    """A decision node."""

    visits: int = 0
    actions: list[Action] = field(default_factory=list)


class PlainSearch:
    """Search from the start of a table (a ``tailwise.TabularMDP``, read once into lists)."""

    def __init__(self, mdp: Any, beta: float, *, seed: int = 0, constant: float = math.sqrt(2.0)) -> None:
        data = mdp.data
        self.rows = data.action_offsets.tolist()
        self.outcomes = data.outcome_offsets.tolist()
        self.cumulative, self.targets = data.cumulative.tolist(), data.targets.tolist()
        self.costs, self.final = data.losses.tolist(), data.terminal_losses.tolist()
        self.start, self.horizon, self.discount = mdp.start, mdp.horizon, mdp.discount
        self.beta, self.constant = beta, constant
        self.random = random.Random(seed)
        self.nodes: dict[tuple[int, ...], Node] = {}

    def step(self, state: int, action: int) -> tuple[int, float, bool]:
        """Draw what follows."""
        row = self.rows[state] + action
        first, last = self.outcomes[row], self.outcomes[row + 1]
        k = bisect.bisect_right(self.cumulative, self.random.random(), first, last - 1)
        target = self.targets[k]
        return (target, self.costs[k], False) if target >= 0 else (-1 - target, self.costs[k], True)

    def rollout(self, state: int, h: int) -> float:
        """Total cost of random actions from here to the horizon."""
        total, factor = 0.0, 1.0
        while h < self.horizon:
            count = self.rows[state + 1] - self.rows[state]
            state, cost, done = self.step(state, int(self.random.random() * count))
            total += factor * cost
            if done:
                return total
            factor *= self.discount
            h += 1
        return total + factor * self.final[state]

    def select(self, node: Node) -> int:
        """Take an action never taken, or the least risk less the bonus sqrt(visits) / visits of the action."""
        for k, action in enumerate(node.actions):
            if action.visits == 0:
                return k
        wide = self.constant * node.visits**0.25
        return min(
            range(len(node.actions)), key=lambda k: node.actions[k].risk - wide / math.sqrt(node.actions[k].visits)
        )

    def update(self, action: Action, cost: float, beta: float) -> None:
        """Add one total to the entropic risk of an action."""
        action.visits += 1
        if action.visits == 1:
            action.risk = cost
        elif beta == 0.0:
            action.risk += (cost - action.risk) / action.visits
        else:
            least, most = sorted((beta * action.risk, beta * cost))
            old, new = (action.visits - 1, 1) if beta * action.risk <= beta * cost else (1, action.visits - 1)
            share = (old * math.exp(least - most) + new) / action.visits
            action.risk = (most + math.log(share)) / beta

    def iterate(self, path: tuple[int, ...], state: int, h: int) -> float:
        """One iteration below a node; return the total cost from there."""
        if h == self.horizon:
            return float(self.final[state])
        node = self.nodes.get(path)
        if node is None:
            self.nodes[path] = Node(0, [Action() for _ in range(self.rows[state + 1] - self.rows[state])])
            return self.rollout(state, h)
        k = self.select(node)
        following, cost, done = self.step(state, k)
        rest = 0.0 if done else self.iterate((*path, k, following), following, h + 1)
        total = cost + self.discount * rest
        node.visits += 1
        self.update(node.actions[k], total, self.beta * self.discount**h)
        return total

    def plan(self, iterations: int) -> int:
        """Search, and return the most visited action."""
        self.nodes.setdefault((), Node(0, [Action() for _ in range(self.rows[self.start + 1] - self.rows[self.start])]))
        for _ in range(iterations):
            self.iterate((), self.start, 0)
        root = self.nodes[()].actions
        return max(range(len(root)), key=lambda k: root[k].visits)
