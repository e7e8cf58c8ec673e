"""How sure the learned model can be: its outcome counts, drawn again.

The Bayesian bootstrap (Rubin, 1981) gives the outcomes of every action weights from the Dirichlet distribution
of their counts: independent Gamma(count) draws, up to a factor. Backed up through all nodes, each draw is a
possible optimum. Two things it cannot know: an outcome never seen has no weight, and nodes that were never reached
keep the value they have.

The least of many estimates is too low, at every step anew. Held-out values are not: the draws are split into two halves
at random, one chooses the actions and the other says what they come to (cross-fitting; van Hasselt, "Double
Q-learning", 2010). They are too high where half of the draws choose badly.
"""

from __future__ import annotations

import math

import numpy as np

from tailwise._jit import borrowed, inlined
from tailwise._random import next_double
from tailwise.search.learned.backups import action_value
from tailwise.search.learned.store import OUTCOMES, RECORDS

_EXACT = 64  # draws of an outcome that are split one by one; more are split by the normal approximation


@inlined
def draw_normal(stream):  # type: ignore[no-untyped-def]
    """A standard normal draw (Box and Muller)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - next_double(stream)))
    return radius * math.cos(2.0 * math.pi * next_double(stream))


@inlined
def draw_gamma(shape, stream):  # type: ignore[no-untyped-def]
    """A Gamma draw of ``shape`` >= 1 (Marsaglia and Tsang, 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = draw_normal(stream)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        if math.log(1.0 - next_double(stream)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v


@inlined
def draw_weights_of_node(known, nodes, node, stream, weights):  # type: ignore[no-untyped-def]
    """Draw the weights of the outcomes of a node's actions."""
    first = np.int64(nodes.records[node])
    for record in range(first, first + nodes.arity[node]):
        outcome = known.heads[record]
        while outcome != 0:
            weights[outcome] = draw_gamma(float(known.counts[outcome]), stream)
            outcome = known.links[outcome]


def draw_root_values(model, known, nodes, rules, scratch, stream, depth, deep, weights, values, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (B, A) with root values under B draws of all outcomes; not ``deep``: of the root's outcomes only.

    ``weights`` (O,) and ``values`` (N,) are scratch.
    """
    model, known, nodes, rules = borrowed(model), borrowed(known), borrowed(nodes), borrowed(rules)
    scratch, stream, weights, values = borrowed(scratch), borrowed(stream), borrowed(weights), borrowed(values)
    root = np.int64(scratch.root[0])
    values[:] = nodes.values
    for b in range(out.shape[0]):
        if deep:
            for k in range(1, known.used[OUTCOMES]):
                weights[k] = draw_gamma(float(known.counts[k]), stream)
        else:
            draw_weights_of_node(known, nodes, root, stream, weights)
        for h in range(rules.horizon - 1 if deep else depth, depth - 1, -1):
            node = np.int64(nodes.heads[h]) if deep else root
            while node != 0:
                first, best = np.int64(nodes.records[node]), math.inf
                for a in range(nodes.arity[node]):
                    if known.visits[first + a] > 0:
                        q = action_value(model, known, nodes, weights, values, rules, scratch, node, a, h)
                        best = min(best, q)
                        if node == root:
                            out[b, a] = q
                if best < math.inf:
                    values[node] = best
                node = np.int64(nodes.links[node]) if deep else np.int64(0)


@inlined
def split_count(count, stream):  # type: ignore[no-untyped-def]
    """How many of ``count`` draws fall into the first half: binomial with probability 1/2."""
    if count > _EXACT:
        first = round(0.5 * count + 0.5 * math.sqrt(float(count)) * draw_normal(stream))
        return min(max(first, 0), count)
    first = 0
    for _ in range(count):
        first += 1 if next_double(stream) < 0.5 else 0
    return first


@inlined
def split_draws(known, stream, halves, drawn):  # type: ignore[no-untyped-def]
    """Split all draws at random into rows 0 and 1: ``halves`` (3, O) of outcomes, ``drawn`` (3, R) of records.

    Row 2 holds all of them.
    """
    drawn[:, : known.used[RECORDS]] = 0.0
    for k in range(1, known.used[OUTCOMES]):
        first = split_count(known.counts[k], stream)
        halves[0, k], halves[1, k], halves[2, k] = first, known.counts[k] - first, known.counts[k]
        for part in range(3):
            drawn[part, known.records[k]] += halves[part, k]


@inlined
def best_known(model, known, nodes, rules, scratch, halves, drawn, values, node, h):  # type: ignore[no-untyped-def]
    """(value, position) of the best action of which these draws show an outcome; position -1: there is none."""
    best, chosen = math.inf, -1
    for a in range(nodes.arity[node]):
        if drawn[nodes.records[node] + a] > 0.0:
            q = action_value(model, known, nodes, halves, values, rules, scratch, node, a, h)
            if q < best:
                best, chosen = q, a
    return best, chosen


def draw_held_out_values(model, known, nodes, rules, scratch, stream, depth, halves, drawn, values, judged, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (2 B, A) with held-out root values under B splits of all draws.

    ``halves`` (3, O), ``drawn`` (3, R), ``values`` (2, N) and ``judged`` (2, N) are scratch.
    """
    model, known, nodes, rules = borrowed(model), borrowed(known), borrowed(nodes), borrowed(rules)
    scratch, stream, halves, drawn = borrowed(scratch), borrowed(stream), borrowed(halves), borrowed(drawn)
    values, judged = borrowed(values), borrowed(judged)
    root = np.int64(scratch.root[0])
    for b in range(0, out.shape[0], 2):
        split_draws(known, stream, halves, drawn)
        values[:], judged[:] = nodes.values, nodes.values
        for h in range(rules.horizon - 1, depth - 1, -1):
            node = np.int64(nodes.heads[h])
            while node != 0:
                first = np.int64(nodes.records[node])
                for side in range(2):
                    other, part = 1 - side, side
                    best, chosen = best_known(
                        model, known, nodes, rules, scratch, halves[side], drawn[side], values[side], node, h
                    )
                    if chosen < 0:  # nothing of this node is in the half
                        other, part = 2, 2
                        best, chosen = best_known(
                            model, known, nodes, rules, scratch, halves[2], drawn[2], values[side], node, h
                        )
                    for a in range(nodes.arity[node]):
                        if a != chosen and (node != root or known.visits[first + a] == 0):
                            continue
                        judge = other if drawn[other, first + a] > 0.0 else part
                        q = action_value(model, known, nodes, halves[judge], judged[side], rules, scratch, node, a, h)
                        if a == chosen:
                            values[side, node], judged[side, node] = best, q
                        if node == root:
                            out[b + side, a] = q
                node = np.int64(nodes.links[node])
