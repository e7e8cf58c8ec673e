"""Which action an iteration of the learned-model search takes: one never tried, the least bound, or the least tried."""

from __future__ import annotations

import math

import numpy as np

from tailwise._jit import inlined
from tailwise.bindings.kernel_model import draw_index
from tailwise.search.learned.backups import refresh_action
from tailwise.search.learned.counts import DEVIATION, GREATEST, LEAST, RANGE
from tailwise.search.prior import asked, is_guided, leaning

_FLOOR = 0.01
_TREE = 10.0  # times the exploration where states do not come back: of a deviation, not of a range


@inlined
def inverse_root(rules, count):  # type: ignore[no-untyped-def]
    """``count ** -0.5``, looked up where it can be."""
    return rules.inverse_roots[np.uint64(count)] if count < rules.inverse_roots.size else 1.0 / math.sqrt(float(count))


@inlined
def bonus_factor(nodes, rules, scratch, node, h, tree):  # type: ignore[no-untyped-def]
    """The part of the bonus that the actions of a node share."""
    numbers, visits = scratch.numbers, nodes.visits[node]
    span = numbers[RANGE] if numbers[RANGE] > 0.0 else numbers[GREATEST] - numbers[LEAST]
    scale = span * rules.horizon_left[h] if span > 0.0 else 0.0
    if visits >= 2 and nodes.highs[node] >= nodes.lows[node]:
        scale = max(nodes.highs[node] - nodes.lows[node], _FLOOR * scale)
    exploration = rules.exploration
    if tree:
        exploration *= _TREE
        if numbers[DEVIATION] > 0.0:
            scale = min(scale, numbers[DEVIATION] * rules.horizon_left[h])
    if visits + 1 < rules.fourth_roots.size:
        return exploration * scale * rules.fourth_roots[visits + 1]
    return exploration * scale * math.sqrt(math.sqrt(float(visits + 1)))


@inlined
def score_of(nodes, rules, k, factor, guided):  # type: ignore[no-untyped-def]
    """Lower bound of the action at ``k``."""
    bonus = factor * inverse_root(rules, nodes.taken[k] + 1)
    if guided:
        bonus *= leaning(nodes.prior[k])
    return nodes.q[k] - bonus


@inlined
def knows_prior(nodes, rules, node, h):  # type: ignore[no-untyped-def]
    """Ask ``prior_policy`` of a node, if it is given and was not asked; False where that failed."""
    if not is_guided(rules.prior) or not math.isnan(nodes.prior[nodes.first_q[node]]):
        return True
    weights = asked(rules.prior.function, np.int64(nodes.states[node]), np.int64(nodes.arity[node]), h)
    for k in range(weights.size):
        nodes.prior[nodes.first_q[node] + k] = weights[k]
    return not math.isnan(weights[0])


@inlined
def select(model, known, nodes, rules, scratch, node, h, tree, stream):  # type: ignore[no-untyped-def]
    """Position of the action to take: one never tried, of most weight and in random order, else the least bound."""
    first, at, num_actions = nodes.first_pair[node], nodes.first_q[node], nodes.arity[node]
    factor = bonus_factor(nodes, rules, scratch, node, h, tree)
    best, least, ties, untried, most, guided = 0, math.inf, 0, 0, 0.0, is_guided(rules.prior)
    for k in range(np.uint64(at), np.uint64(at + num_actions)):  # without a sign, indices are read as they are
        a = np.int64(k) - at
        if nodes.q[k] == math.inf:
            if known.heads[first + a] == 0:
                if guided and (untried == 0 or nodes.prior[k] > most):
                    untried, most = 0, nodes.prior[k]
                untried += not guided or nodes.prior[k] == most
                continue
            refresh_action(model, known, nodes, rules, scratch, node, a, h)
        if untried > 0:
            continue  # bounds are for where all were tried
        score = score_of(nodes, rules, k, factor, guided)
        if score < least:
            best, least, ties = a, score, 1
        elif score == least:
            ties += 1
    if untried > 0:
        pick = draw_index(stream, untried)
        for a in range(num_actions):
            if known.heads[first + a] == 0 and (not guided or nodes.prior[at + a] == most):
                if pick == 0:
                    return a
                pick -= 1
    if ties > 1:
        pick = draw_index(stream, ties)
        for a in range(best, num_actions):
            if score_of(nodes, rules, at + a, factor, guided) == least:
                if pick == 0:
                    return a
                pick -= 1
    return best


@inlined
def least_tried(known, nodes, rules, node, stream):  # type: ignore[no-untyped-def]
    """Position of the action that was tried least often in the node's state, at any step; ties as in :func:`select`."""
    first, at, num_actions, guided = (
        nodes.first_pair[node],
        nodes.first_q[node],
        nodes.arity[node],
        is_guided(rules.prior),
    )
    least, ties, most = known.visits[first], 0, 0.0
    for a in range(num_actions):
        visits = known.visits[first + a]
        if visits > least:
            continue
        if visits < least or (guided and (ties == 0 or nodes.prior[at + a] > most)):
            least, ties = visits, 0
            most = nodes.prior[at + a] if guided else 0.0
        ties += not guided or nodes.prior[at + a] == most
    pick = draw_index(stream, ties)
    for a in range(num_actions):
        if known.visits[first + a] == least and (not guided or nodes.prior[at + a] == most):
            if pick == 0:
                return a
            pick -= 1
    return 0
