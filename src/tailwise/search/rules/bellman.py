"""Bellman backup: an action's value is the ERM, under the frequencies seen, of cost plus the best value below.

    Q(s, a) = ERM_{beta_h} over the outcomes seen of  c + discount V(s'),    V(s') = min over tried actions of Q(s', .)

evaluated anew for every action on the path, from its end to the root (eq. ``erm_bellman_optimality``, with sampled
frequencies). Each node keeps how often its state was the outcome, and the ERM of the costs with which it was, so that
outcomes of different costs stay apart; each action the same for outcomes that ended the episode. The worth of a leaf is
its rollout's. Costs O(children) an action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tailwise._jit import inlined
from tailwise.bonuses import Slots
from tailwise.risk.accumulator import merge_values, push_value
from tailwise.search.arena import CHILD, COUNT, LEFT, NUM_ACTIONS, RIGHT, least_value
from tailwise.search.rules.backup import Backup, register_backup


@dataclass(frozen=True, kw_only=True)
class BellmanBackup(Backup):
    """ERM of cost plus the best value below, under the frequencies seen.

    Examples
    --------
    >>> from tailwise import BellmanBackup, ErmMcts, RangeBonus, domains
    >>> search = ErmMcts(domains.make("mdp-4"), beta=0.5, backup=BellmanBackup(), bonus=RangeBonus(), seed=0)
    >>> search.plan(iterations=500).label
    'safe'
    """

    node_statistics: ClassVar[dict[str, float]] = {"arrivals": 0.0, "arrival_cost": 0.0, "leaf_value": 0.0}
    action_statistics: ClassVar[dict[str, float]] = {"endings": 0.0, "ending_cost": 0.0}

    def compiled(self, slots: Slots) -> BellmanRule:
        """Return where the statistics are."""
        node, action = slots
        return BellmanRule(
            node["arrivals"], node["arrival_cost"], node["leaf_value"], action["endings"], action["ending_cost"]
        )


class BellmanRule(NamedTuple):
    """The backup as the kernel reads it: columns of the statistics."""

    arrivals: int
    arrival_cost: int
    leaf_value: int
    endings: int
    ending_cost: int


@inlined
def value_of(rule, arena, node):  # type: ignore[no-untyped-def]
    """Worth of a decision node: its best action's, or a leaf's own."""
    if arena.ints[4 * node + NUM_ACTIONS] == 0:
        return arena.statistics[node, rule.leaf_value]
    least = least_value(arena, node, 1)
    return arena.statistics[node, rule.leaf_value] if least == np.inf else least


@inlined
def action_value(rule, arena, unit, beta, discount, pending):  # type: ignore[no-untyped-def]
    """ERM of the outcomes seen of the action at ``unit``; ``pending`` is scratch for the walk over its children."""
    row = arena.statistics[unit]
    seen, value = row[rule.endings], row[rule.ending_cost]
    size = 0
    if arena.ints[4 * unit + CHILD] != 0:
        pending[0], size = arena.ints[4 * unit + CHILD], 1
    while size > 0:
        size -= 1
        node = pending[size]
        for side in (LEFT, RIGHT):
            if arena.ints[4 * node + side] != 0:
                pending[size] = arena.ints[4 * node + side]
                size += 1
        weight = arena.statistics[node, rule.arrivals]
        if weight > 0.0:
            cost = arena.statistics[node, rule.arrival_cost] + discount * value_of(rule, arena, node)
            seen += weight
            value = cost if weight == seen else merge_values(value, cost, weight / seen, beta)
    return value


def bellman_backup(rule, arena, settings, trace, depth, length, tail):  # type: ignore[no-untyped-def]
    """Evaluate the actions of the path anew, from its end; return the sampled total."""
    total = tail
    for k in range(length - 1, -1, -1):
        total = trace.path_costs[k] + settings.discount * total
        trace.costs_to_go[k] = total
        unit, child, beta = trace.path_units[k], trace.path_nodes[k + 1], settings.betas[depth + k]
        arena.ints[4 * unit + COUNT] += 1
        if child == 0:
            row, times, mean = unit, rule.endings, rule.ending_cost
            cost = trace.path_costs[k] + settings.discount * tail
        else:
            row, times, mean = child, rule.arrivals, rule.arrival_cost
            cost = trace.path_costs[k]
            if k == length - 1:
                arena.statistics[child, rule.leaf_value] = tail
        count = arena.statistics[row, times] + 1.0
        arena.statistics[row, times] = count
        arena.statistics[row, mean] = push_value(arena.statistics[row, mean], count, cost, beta)
        arena.floats[2 * unit] = action_value(rule, arena, unit, beta, settings.discount, trace.pending)
    return total


register_backup(BellmanRule, bellman_backup)
