"""Compiled trials: exact backups of a lower and an upper bound along a sampled path. All values are costs.

Notation: ``V_h(s)`` is the optimal risk-to-go; L and U bound it from below and above; x_L and x_U are the
totals ``c + discount L`` and ``c + discount U`` of an outcome. The risk is monotone in the totals, so the ERM
of the x_L of an action is a lower bound of Q_h(s, a), that of the x_U an upper one, and their
minima over the actions bound V_h(s). A node is a pair (step, state) that a trial came through; nothing else is stored.
A trial tells the nodes on its own path what it learned. Once the trials since the last sweep have come through as many
nodes as there are, all are backed up, which costs no more than those trials and proves actions in a fraction of them.

Rounding: the ERM of n totals up to M in size is computed to within ``(6 n + 24) 2^-52 M``; bounds are
moved outward by that much, so that they hold for the real numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import borrowed, inlined, kernel
from tailwise._random import next_double
from tailwise.bindings.intern import InternStore, find, intern
from tailwise.risk.entropic import shifted_risk, shifted_term

# What a call of ``run_trials`` ends with; below 0 it waits for something, and then goes on where it stood.
ENOUGH, PROVEN, FULL, NEEDS_OUTCOMES, NEEDS_TERMINAL, NEEDS_BOUNDS = 0, 1, -1, -2, -3, -4
SWEEP_DUE, CONTRADICTION = -5, -6

# Entries of ``counters``: the root's step; the step where the running trial stands; counts since the root was set;
# the step and state that the status speaks of; the count of VISITED at which a sweep is due.
ROOT_STEP, STEP, TRIALS, VISITED, WHERE_STEP, WHERE_STATE, NEXT_SWEEP = 0, 1, 2, 3, 4, 5, 6
COUNTERS_SIZE = 7

# Entries of ``limits``: discount; slack of a proof; width asked of the root's bounds; largest cost of a step;
# relative rounding of the root's bounds once they have met.
DISCOUNT, TOLERANCE, WIDTH, SCALE, ROUNDING = 0, 1, 2, 3, 4

_EPSILON = 2.0**-52
_TIE, _CLOSED, _TIE_OF_SCALE = 1e-9, 1e-11, 1e-12  # relative to the values, and to the largest cost of a step


class Nodes(NamedTuple):
    """Bounds of the pairs (step, state) that were visited; ``store`` holds ``state * (H + 1) + step``."""

    store: InternStore
    low: NDArray[np.float64]  # (capacity,)
    high: NDArray[np.float64]  # (capacity,)


class SearchState(NamedTuple):
    """What trials read and write besides the nodes."""

    betas: NDArray[np.float64]  # (H,)
    low: NDArray[np.float64]  # (H + 1,) lower bound of every state at a step; empty: ask
    high: NDArray[np.float64]  # (H + 1,)
    limits: NDArray[np.float64]  # (5,)
    path: NDArray[np.int64]  # (H,) keys of the nodes of the running search, by step
    counters: NDArray[np.int64]  # (COUNTERS_SIZE,)
    key: NDArray[np.int64]  # (1,) scratch
    root_low: NDArray[np.float64]  # (A,) bounds of the root's actions; they never widen
    root_high: NDArray[np.float64]  # (A,)
    root_visits: NDArray[np.int64]  # (A,)
    q_low: NDArray[np.float64]  # scratch, one per action of a state
    q_high: NDArray[np.float64]
    x_low: NDArray[np.float64]  # scratch, one per outcome of an action
    x_high: NDArray[np.float64]


_term, _risk = inlined(shifted_term), inlined(shifted_risk)


def fitted(search: SearchState, actions: int, outcomes: int) -> SearchState:
    """Return the search fitted to so many actions of a state and outcomes of an action: scratch, and rounding."""
    search.limits[ROUNDING] = 4 * search.betas.size * (6 * outcomes + 24) * _EPSILON
    if search.q_low.size < actions:
        search = search._replace(q_low=np.empty(2 * actions), q_high=np.empty(2 * actions))
    if search.x_low.size < outcomes:
        search = search._replace(x_low=np.empty(2 * outcomes), x_high=np.empty(2 * outcomes))
    return search


@inlined
def erm_of(totals, probabilities, first, count, level):  # type: ignore[no-untyped-def]
    """ERM at ``level`` of ``totals[:count]`` whose probabilities, up to a factor, start at ``first``."""
    low, high = math.inf, -math.inf
    for k in range(count):
        low, high = min(low, totals[k]), max(high, totals[k])
    shift = high if level >= 0.0 else low
    spread = abs(level) * (high - low)
    mass, total = 0.0, 0.0
    for k in range(count):
        chance, gap = probabilities[first + k], totals[k] - shift
        mass += chance
        total += chance * _term(gap, level, spread)
    return _risk(shift, total / mass, level, spread)


@inlined
def bounds_of(table, nodes, search, h, state):  # type: ignore[no-untyped-def]
    """Return (lower, upper) bound of ``V_h(state)``; NaN where they must be asked for."""
    if h == search.betas.size:
        value = table.terminal_losses[state]
        return value, value
    search.key[0] = state * (search.betas.size + 1) + h
    node, _ = find(nodes.store, search.key)
    if node >= 0:
        return nodes.low[node], nodes.high[node]
    if search.low.size == 0:
        return math.nan, math.nan
    return search.low[h], search.high[h]


@inlined
def fill_totals(table, nodes, search, h, row):  # type: ignore[no-untyped-def]
    """Fill x_L and x_U of the outcomes of ``row`` at step ``h``; return the largest of them in size."""
    largest = 0.0
    first = table.offsets[row]
    for k in range(first, table.offsets[row + 1]):
        low = high = table.losses[k]
        if not table.done[k]:
            target = table.next_states[k]
            below, above = bounds_of(table, nodes, search, h + 1, target)
            if math.isnan(below):
                search.counters[WHERE_STEP], search.counters[WHERE_STATE] = h + 1, target
                return math.nan
            low += search.limits[DISCOUNT] * below
            high += search.limits[DISCOUNT] * above
        search.x_low[k - first], search.x_high[k - first] = low, high
        largest = max(largest, abs(low), abs(high))
    return largest


@inlined
def back_up(table, nodes, search, h, state):  # type: ignore[no-untyped-def]
    """Fill ``q_low`` and ``q_high`` of the actions of ``state`` at step ``h``; return a status."""
    first_row = table.first_rows[state]
    if first_row < 0:
        search.counters[WHERE_STEP], search.counters[WHERE_STATE] = h, state
        return NEEDS_OUTCOMES
    for row in range(first_row, table.last_rows[state]):
        largest = fill_totals(table, nodes, search, h, row)
        if math.isnan(largest):
            return NEEDS_TERMINAL if h + 1 == search.betas.size else NEEDS_BOUNDS
        first = table.offsets[row]
        count = table.offsets[row + 1] - first
        low = erm_of(search.x_low, table.probabilities, first, count, search.betas[h])
        high = erm_of(search.x_high, table.probabilities, first, count, search.betas[h])
        if table.step_losses.size:
            low += table.step_losses[h, row]
            high += table.step_losses[h, row]
            largest += abs(table.step_losses[h, row])
        margin = (6 * count + 24) * _EPSILON * largest
        search.q_low[row - first_row], search.q_high[row - first_row] = low - margin, high + margin
    return ENOUGH


@inlined
def settle(table, nodes, search, h, state):  # type: ignore[no-untyped-def]
    """Store the bounds of a node that was just backed up; return a status."""
    low, high = bounds_of(table, nodes, search, h, state)  # leaves the node's key in ``search.key``
    search.counters[WHERE_STEP], search.counters[WHERE_STATE] = h, state
    if math.isnan(low):
        return NEEDS_BOUNDS
    least_low, least_high = math.inf, math.inf
    for a in range(table.last_rows[state] - table.first_rows[state]):
        least_low, least_high = min(least_low, search.q_low[a]), min(least_high, search.q_high[a])
    low, high = max(low, least_low), min(high, least_high)
    if low > high + ties(low, high, search):
        return CONTRADICTION
    node = intern(nodes.store, search.key)
    if node < 0:
        return FULL
    nodes.low[node], nodes.high[node] = low, high
    return ENOUGH


@inlined
def ties(one, other, search):  # type: ignore[no-untyped-def]
    """Values that differ by less than this are equal up to rounding."""
    relative = max(_TIE, 10.0 * search.limits[ROUNDING])
    return relative * max(abs(one), abs(other)) + _TIE_OF_SCALE * search.limits[SCALE]


@inlined
def is_open(low, high, search):  # type: ignore[no-untyped-def]
    """Whether two bounds differ by more than rounding."""
    relative = max(_CLOSED, search.limits[ROUNDING])
    return high - low > relative * max(abs(low), abs(high)) + 0.01 * _TIE_OF_SCALE * search.limits[SCALE]


@inlined
def least_row(lows, highs, count, skip):  # type: ignore[no-untyped-def]
    """Index of the least of ``lows[:count]``, the lesser of ``highs`` where two tie; ``skip`` is left out."""
    best = -1
    for a in range(count):
        if a != skip and (best < 0 or lows[a] < lows[best] or (lows[a] == lows[best] and highs[a] < highs[best])):
            best = a
    return best


@inlined
def draw_target(table, nodes, search, h, row, stream):  # type: ignore[no-untyped-def]
    """Draw the next state of ``row`` in proportion to ``p |exp(beta x_U) - exp(beta x_L)|``; -1: none is left."""
    first = table.offsets[row]
    count = table.offsets[row + 1] - first
    fill_totals(table, nodes, search, h, row)
    level, low, high = search.betas[h], math.inf, -math.inf
    for k in range(count):
        low, high = min(low, search.x_low[k]), max(high, search.x_high[k])
    shift = high if level >= 0.0 else low
    is_linear = abs(level) * (high - low) < 1e-9
    total = 0.0
    for k in range(count):  # weights relative to the largest term
        gap = search.x_high[k] - search.x_low[k]
        weight = 0.0
        if is_open(search.x_low[k], search.x_high[k], search):
            weight = table.probabilities[first + k]
            if is_linear:
                weight *= gap
            elif level > 0.0:
                weight *= math.exp(level * (search.x_high[k] - shift)) * -math.expm1(-level * gap)
            else:
                weight *= math.exp(level * (search.x_low[k] - shift)) * -math.expm1(level * gap)
        total += weight
        search.x_low[k] = total  # from here on, running sums of the weights
    if not total > 0.0:
        return -1
    draw = next_double(stream) * total
    k = 0
    while k + 1 < count and search.x_low[k] <= draw:
        k += 1
    return np.int64(table.next_states[first + k])


@kernel
def is_proven(search):  # type: ignore[no-untyped-def]
    """Whether no action of the root can be better by more than the tolerance than the one of least upper bound."""
    size = search.root_low.size
    best = least_row(search.root_high, search.root_low, size, -1)
    other = least_row(search.root_low, search.root_high, size, best)
    high = search.root_high[best]
    if other >= 0 and high > search.root_low[other] + search.limits[TOLERANCE] + ties(
        high, search.root_low[other], search
    ):
        return False
    low = search.root_low[best] if other < 0 else min(search.root_low[best], search.root_low[other])
    return high - low <= search.limits[WIDTH] or not is_open(low, high, search)


@inlined
def choose_at_root(search):  # type: ignore[no-untyped-def]
    """The action to try at the root: of the best and its strongest rival the less certain one."""
    size = search.root_low.size
    best = least_row(search.root_high, search.root_low, size, -1)
    other = least_row(search.root_low, search.root_high, size, best)
    if other < 0 or search.root_high[best] <= search.root_low[other]:
        return best
    gap, other_gap = search.root_high[best] - search.root_low[best], search.root_high[other] - search.root_low[other]
    return best if gap >= other_gap else other


@kernel
def carry_back(table, nodes, search, keys, first, last):  # type: ignore[no-untyped-def]
    """Back up the nodes of ``keys[first:last]``, sorted by step, from the last to the first."""
    table, nodes, search = borrowed(table), borrowed(nodes), borrowed(search)
    steps = search.betas.size + 1
    for k in range(last - 1, first - 1, -1):
        h, state = keys[k] % steps, keys[k] // steps
        low, high = bounds_of(table, nodes, search, h, state)
        if is_open(low, high, search) and back_up(table, nodes, search, h, state) == ENOUGH:
            settle(table, nodes, search, h, state)


@kernel
def reachable(table, nodes, search, order):  # type: ignore[no-untyped-def]
    """Whether the root reaches each node: bool, shape (nodes,). ``order`` has the nodes by step, from the root's on."""
    table, nodes, search = borrowed(table), borrowed(nodes), borrowed(search)
    steps = search.betas.size + 1
    is_reached = np.zeros(nodes.store.used[0], np.bool_)
    for node in order:
        key = nodes.store.words[node, 0]
        h, state = key % steps, key // steps
        is_reached[node] |= key == search.path[search.counters[ROOT_STEP]]
        if not is_reached[node] or table.first_rows[state] < 0:
            continue
        for k in range(table.offsets[table.first_rows[state]], table.offsets[table.last_rows[state]]):
            search.key[0] = table.next_states[k] * steps + h + 1
            child, _ = find(nodes.store, search.key)
            if child >= 0 and not table.done[k]:
                is_reached[child] = True
    return is_reached


@kernel
def run_trials(table, nodes, search, stream, trials, visits):  # type: ignore[no-untyped-def]
    """Run ``trials`` more trials, or fewer that visit ``visits`` nodes, from where one waited; return a status."""
    table, nodes, search, stream = borrowed(table), borrowed(nodes), borrowed(search), borrowed(stream)
    counters = search.counters
    last, latest = counters[TRIALS] + trials, counters[VISITED] + visits
    while True:
        h = counters[STEP]
        state = search.path[h] // (search.betas.size + 1)
        status = back_up(table, nodes, search, h, state)
        if status == ENOUGH:
            status = settle(table, nodes, search, h, state)
        if status != ENOUGH:
            return status
        first_row = table.first_rows[state]
        if h == counters[ROOT_STEP]:
            for a in range(search.root_low.size):
                search.root_low[a] = max(search.root_low[a], search.q_low[a])
                search.root_high[a] = min(search.root_high[a], search.q_high[a])
            if is_proven(search):
                return PROVEN
            if counters[TRIALS] >= last or counters[VISITED] >= latest:
                return ENOUGH
            action = choose_at_root(search)
            search.root_visits[action] += 1
        else:
            action = least_row(search.q_low, search.q_high, table.last_rows[state] - first_row, -1)
        counters[VISITED] += 1
        target = -1
        if h + 1 < search.betas.size:
            target = draw_target(table, nodes, search, h, first_row + action, stream)
        if target >= 0:
            search.path[h + 1] = target * (search.betas.size + 1) + h + 1
            counters[STEP] = h + 1
        else:
            counters[TRIALS] += 1
            carry_back(table, nodes, search, search.path, counters[ROOT_STEP] + 1, h)
            counters[STEP] = counters[ROOT_STEP]
            if counters[VISITED] >= counters[NEXT_SWEEP]:
                return SWEEP_DUE
