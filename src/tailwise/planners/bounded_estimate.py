"""Point estimates between the bounds: what bounded RTDP recommends before a proof.

Bounds that begin with the range of all costs stay far apart until shortly before a proof, and which action has the
least of either says little. So a report makes one backward sweep over the pairs (step, state) that trials came through,
with one value each instead of two bounds. A pair that none came through is guessed: the costs-to-go of two
steps differ by about the same in every state, so that

    v_h(s) = level_h + r(s),

where r(s) is the value of s at the nearest later step at which it was seen, less the level of that step, or 0. The
level of a step is the mean of v(s) - r(s) over those of its states that were seen later, or of v(s) over all where
none was. Every value is kept within its bounds; nothing else is certain of it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import borrowed, inlined, kernel
from tailwise.bindings.intern import find, intern_rows, new_store
from tailwise.planners.bounded_kernels import (
    DISCOUNT,
    ROOT_STEP,
    Nodes,
    OutcomeTable,
    Trial,
    bounds_of,
    erm_of,
    is_open,
)


def estimate(
    table: OutcomeTable, nodes: Nodes, trial: Trial, order: NDArray[np.int64], most: int
) -> NDArray[np.float64]:
    """Return the estimated risk of each of the root's actions: float64, shape (A,), NaN before the first trial.

    Parameters
    ----------
    table, nodes, trial
        What the trials ran on; only scratch is written.
    order : int64, shape (n,)
        The nodes by step, from the root's on.
    most : int
        How many of them may be backed up: where they are more, those of the first steps, from the middle of the bounds
        of the nodes of the step that follows.
    """
    length = trial.betas.size + 1
    keys = nodes.store.words[order, 0]
    steps = keys % length
    last = int(steps[-1]) if keys.size else 0
    if keys.size > most:
        last = max(int(steps[0]), int(steps[most]) - 1)
    reached = int(np.searchsorted(steps, last + 1, "right"))
    states = new_store(1, max(1, reached))
    handles = intern_rows(states, (keys[:reached] // length)[:, None])
    values, relative = np.full(nodes.low.size, np.nan), np.full(max(1, reached), np.nan)
    found = np.full(trial.root_low.size, np.nan)
    sweep(table, nodes, trial, order[:reached], states, handles, values, relative, last, found)
    estimates: NDArray[np.float64] = np.clip(found, trial.root_low, trial.root_high)
    return estimates


@inlined
def guess(table, nodes, trial, h, state, values, states, relative, level):  # type: ignore[no-untyped-def]
    """Value of ``state`` at step ``h``: of its node, or what other steps of it let one expect."""
    if h == trial.betas.size:
        return table.terminal_losses[state]
    trial.key[0] = state * (trial.betas.size + 1) + h
    node, _ = find(nodes.store, trial.key)
    if node >= 0 and not math.isnan(values[node]):
        return values[node]
    trial.key[0] = state
    handle, _ = find(states, trial.key)
    value = level
    if handle >= 0 and not math.isnan(relative[handle]):
        value += relative[handle]
    low, high = bounds_of(table, nodes, trial, h, state)
    if math.isnan(value):
        value = low + (high - low) / 2
    return min(max(value, low), high)


@kernel
def sweep(table, nodes, trial, order, states, handles, values, relative, last, found):  # type: ignore[no-untyped-def]
    """Fill ``values`` of the nodes of ``order``, from their bounds after step ``last``, and the root's ``found``."""
    table, nodes, trial = borrowed(table), borrowed(nodes), borrowed(trial)
    length = trial.betas.size + 1
    root, level, end = trial.book[ROOT_STEP], math.nan, order.size
    while end > 0:
        h = nodes.store.words[order[end - 1], 0] % length
        first = end
        while first > 0 and nodes.store.words[order[first - 1], 0] % length == h:
            first -= 1
            node = order[first]
            state = nodes.store.words[node, 0] // length
            low, high = nodes.low[node], nodes.high[node]
            if h > last or (h > root and not is_open(low, high, trial)):
                values[node] = low + (high - low) / 2
                continue
            least = math.inf
            for row in range(table.first_rows[state], table.last_rows[state]):
                start = table.offsets[row]
                count = table.offsets[row + 1] - start
                for k in range(count):
                    trial.x_low[k] = table.losses[start + k]
                    if not table.done[start + k]:
                        target = table.next_states[start + k]
                        worth = guess(table, nodes, trial, h + 1, target, values, states, relative, level)
                        trial.x_low[k] += trial.limits[DISCOUNT] * worth
                value = erm_of(trial.x_low, table.probabilities, start, count, trial.betas[h])
                if table.step_losses.size:
                    value += table.step_losses[h, row]
                least = min(least, value)
                if nodes.store.words[node, 0] == trial.path[root]:
                    found[row - table.first_rows[state]] = value
            if table.first_rows[state] >= 0:  # else it is not listed yet
                values[node] = min(max(least, low), high)
        level = _level_of(order[first:end], handles[first:end], values, relative)
        end = first


@inlined
def _level_of(group, handles, values, relative):  # type: ignore[no-untyped-def]
    """Return the level of one step, and set the relative values of its states."""
    total, known, change, shared = 0.0, 0, 0.0, 0
    for k in range(group.size):
        value, before = values[group[k]], relative[handles[k]]
        if not math.isnan(value):
            total, known = total + value, known + 1
            if not math.isnan(before):
                change, shared = change + value - before, shared + 1
    if known == 0:
        return math.nan
    level = change / shared if shared else total / known
    for k in range(group.size):
        if not math.isnan(values[group[k]]):
            relative[handles[k]] = values[group[k]] - level
    return level
