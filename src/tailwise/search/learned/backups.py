"""Entropic Bellman backups under counted frequencies.

    Q_h(s, a) = ERM_{beta_h}(cost + discount V_{h+1}(s')),   (cost, s') drawn as often as it was counted
    V_h(s) = min Q_h(s, a) over the actions of which an outcome is known

The risk of a record is taken in blocks of outcomes, each relative to its own decisive value, and the blocks are
merged as accumulators are: nothing overflows or cancels, at any beta.
"""

from __future__ import annotations

import math

from tailwise._jit import inlined
from tailwise.risk.accumulator import merge_values
from tailwise.search.learned.steps import cost_offset
from tailwise.search.learned.store import LEAST, find_node

BLOCK = 64


@inlined
def block_erm(values, weights, size, low, high, weight, beta):  # type: ignore[no-untyped-def]
    """ERM of ``size`` values between ``low`` and ``high`` with ``weights`` that sum to ``weight``."""
    if low == high:
        return low
    shift = high if beta >= 0.0 else low
    spread = abs(beta) * (high - low)
    total = 0.0
    if spread < 1e-13:
        for k in range(size):
            total += weights[k] * (values[k] - shift)
        return shift + total / weight
    if spread < 1.0:
        for k in range(size):
            total += weights[k] * math.expm1(beta * (values[k] - shift))
        return shift + math.log1p(total / weight) / beta
    for k in range(size):
        total += weights[k] * math.exp(beta * (values[k] - shift))
    return shift + math.log(total / weight) / beta


@inlined
def value_after(nodes, values, rules, scratch, target, h):  # type: ignore[no-untyped-def]
    """Cost-to-go of ``target``, reached at step ``h``; where it has no value yet, the least that it could be."""
    if target < 0:
        return 0.0
    node = find_node(nodes, h, target)
    if node != 0 and values[node] < math.inf:
        return values[node]
    return scratch.numbers[LEAST] * rules.togo[h]


@inlined
def record_erm(known, nodes, counts, values, rules, scratch, record, h):  # type: ignore[no-untyped-def]
    """ERM at step ``h`` of cost + discount V under the ``counts`` of a record's outcomes, of which one is not 0."""
    beta = rules.betas[h]
    outcome = known.heads[record]
    total, value = 0.0, 0.0
    while outcome != 0:
        size, weight, low, high = 0, 0.0, math.inf, -math.inf
        while outcome != 0 and size < BLOCK:
            share = float(counts[outcome])
            if share > 0.0:
                target = int(known.targets[outcome])
                x = known.costs[outcome] + rules.discount * value_after(nodes, values, rules, scratch, target, h + 1)
                low, high = min(low, x), max(high, x)
                scratch.values[size] = x
                scratch.weights[size] = share
                weight += share
                size += 1
            outcome = known.links[outcome]
        if size == 0:
            continue
        part = block_erm(scratch.values, scratch.weights, size, low, high, weight, beta)
        value = part if total == 0.0 else merge_values(value, part, weight / (total + weight), beta)
        total += weight
    return value


@inlined
def action_value(model, known, nodes, counts, values, rules, scratch, node, a, h):  # type: ignore[no-untyped-def]
    """Q of action ``a``, of which an outcome must be known."""
    offset = cost_offset(model, int(nodes.states[node]), a, h)
    return offset + record_erm(known, nodes, counts, values, rules, scratch, nodes.records[node] + a, h)


@inlined
def refresh_node(model, known, nodes, rules, scratch, node, h):  # type: ignore[no-untyped-def]
    """Recompute Q of every action of which an outcome is known, and V; return the outcomes looked at."""
    first, unit = nodes.records[node], nodes.units[node]
    best, looked = math.inf, 0
    for a in range(nodes.arity[node]):
        if known.visits[first + a] > 0:
            q = action_value(model, known, nodes, known.counts, nodes.values, rules, scratch, node, a, h)
            nodes.q[unit + a] = q
            best = min(best, q)
            looked += known.widths[first + a]
    if best < math.inf:
        nodes.values[node] = best
    return looked
