"""How sure the learned model can be: its outcome counts, drawn again.

The Bayesian bootstrap (Rubin, 1981) gives the outcomes of every action weights from the Dirichlet distribution
of their counts: independent Gamma(count) draws, up to a factor. Backed up through all nodes, each draw is a
possible optimum. Two things it cannot know: an outcome never seen has no weight, and nodes that were never reached
keep the value they have.
"""

from __future__ import annotations

import math

import numpy as np

from tailwise._jit import borrowed, inlined
from tailwise._random import next_double
from tailwise.search.learned.backups import action_value
from tailwise.search.learned.store import OUTCOMES


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


def draw_root_values(model, known, nodes, rules, scratch, stream, depth, deep, weights, values, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (B, A) with root values under B draws of all outcomes; not ``deep``: of the root's outcomes only.

    ``weights`` (O,) and ``values`` (N,) are scratch.
    """
    model, known, nodes, rules = borrowed(model), borrowed(known), borrowed(nodes), borrowed(rules)
    scratch, stream, weights, values = borrowed(scratch), borrowed(stream), borrowed(weights), borrowed(values)
    root = np.int64(scratch.root[0])
    values[:] = nodes.values
    for b in range(out.shape[0]):
        for k in range(1, known.used[OUTCOMES]):
            weights[k] = draw_gamma(float(known.counts[k]), stream)
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
