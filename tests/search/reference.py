"""The search, slow and obvious: lists of costs, their ERM recomputed at every look.

Draws from the same stream in the same order as the compiled search: a rollout draws its action as
``int(u * n)`` (nothing if n = 1), an outcome by inverse CDF (nothing if certain).
"""

import math
from dataclasses import dataclass, field

from tailwise._random import generator


def list_erm(costs, beta):
    if abs(beta) < 1e-9:  # the first two cumulants say it all
        mean = math.fsum(costs) / len(costs)
        return mean + beta / 2 * math.fsum((c - mean) ** 2 for c in costs) / len(costs)
    top = max(costs, key=lambda c: beta * c)
    return top + math.log(math.fsum(math.exp(beta * (c - top)) for c in costs) / len(costs)) / beta


@dataclass
class Node:
    state: int
    h: int
    costs: dict = field(default_factory=dict)  # action -> list of sampled costs-to-go
    children: dict = field(default_factory=dict)  # (action, next state) -> Node

    @property
    def visits(self):
        return 1 + sum(map(len, self.costs.values()))


class ReferenceSearch:
    """``bonus(h, visits, count)`` is the exploration bonus; ``prior(state, h)`` weighs the actions."""

    def __init__(self, mdp, beta, bonus, seed, *, whole_path=False, prior=None):
        self.mdp, self.beta, self.bonus, self.whole_path = mdp, beta, bonus, whole_path
        self.prior = prior or (lambda state, h: [1.0] * len(mdp.actions(state)))
        self.rng = generator(seed)
        self.root = Node(mdp.start, 0)
        self.num_nodes = 1

    def level(self, h):
        return self.beta * self.mdp.discount**h

    def select(self, node):
        actions = self.mdp.actions(node.state).tolist()
        said = self.prior(node.state, node.h)
        weights = {a: weight * len(actions) / sum(said) for a, weight in zip(actions, said, strict=True)}
        untried = [action for action in actions if not node.costs.get(action)]
        if untried:
            return max(untried, key=weights.get)
        scores = [
            list_erm(node.costs[a], self.level(node.h))
            - min(max(weights[a], 1.0), 2.0) * self.bonus(node.h, node.visits, len(node.costs[a]))
            for a in actions
        ]
        return actions[scores.index(min(scores))]

    def step(self, state, action, h):
        target, cost, done = self.mdp.step(state, action, self.rng, h)
        return target, self.mdp.signed(cost), done

    def rollout(self, state, h):
        if h == self.mdp.horizon:
            return float(self.mdp.terminal_losses[state])
        actions = self.mdp.actions(state).tolist()
        action = actions[int(self.rng.random() * len(actions))] if len(actions) > 1 else actions[0]
        target, cost, done = self.step(state, action, h)
        return cost if done else cost + self.mdp.discount * self.rollout(target, h + 1)

    def visit(self, node):
        action = self.select(node)
        target, cost, done = self.step(node.state, action, node.h)
        if done:
            tail = 0.0
        elif node.h + 1 == self.mdp.horizon:
            tail = float(self.mdp.terminal_losses[target])
        elif (action, target) in node.children:
            tail = self.visit(node.children[action, target])
        else:
            child = node.children[action, target] = Node(target, node.h + 1)
            self.num_nodes += 1
            tail = self.visit(child) if self.whole_path else self.rollout(target, node.h + 1)
        total = cost + self.mdp.discount * tail
        node.costs.setdefault(action, []).append(total)
        return total

    def run(self, iterations):
        return [self.visit(self.root) for _ in range(iterations)]
