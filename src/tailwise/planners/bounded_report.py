"""What a report reads out of the bounds: point estimates, and totals of episodes.

*Estimates.* Bounds that begin with the range of all costs stay far apart until shortly before a proof, and which action
has the least of either says little. So a report makes one backward sweep over the pairs (step, state) that trials came
through, with one value each instead of two bounds. A pair that none came through is guessed: the costs-to-go of two
steps differ by about the same in every state, so that

    v_h(s) = level_h + r(s),

where r(s) is the value of s at the nearest later step at which it was seen, less the level of that step, or 0. The
level of a step is the mean of v(s) - r(s) over those of its states that were seen later, or of v(s) over all where
none was. Every value is kept within its bounds; nothing else is certain of it.

*Episodes* take the action of least upper bound everywhere. Upper bounds that begin with the largest costs exceed their
own backups, now and later, so the risk of this policy is at most the upper bound of the action that it begins with.
"""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import borrowed, inlined, kernel
from tailwise._random import generator, next_double, own_words
from tailwise.bindings.intern import find
from tailwise.planners.bounded_kernels import (
    DISCOUNT,
    ENOUGH,
    NEEDS_BOUNDS,
    NEEDS_OUTCOMES,
    NEEDS_TERMINAL,
    ROOT_STEP,
    WHERE_STATE,
    WHERE_STEP,
    Nodes,
    SearchState,
    back_up,
    bounds_of,
    erm_of,
    fitted,
    is_open,
    least_row,
)
from tailwise.planners.outcome_model import OutcomeModel, OutcomeTable

_MOST_EPISODES, _FEWEST_EPISODES, _STEPS = 4_096, 64, 2**18


class Guesses(NamedTuple):
    """What the sweep fills in; NaN where nothing is known."""

    values: NDArray[np.float64]  # (capacity,) of the nodes
    relative: NDArray[np.float64]  # (S,) r of the states
    found: NDArray[np.float64]  # (A,) of the root's actions


def estimate(
    table: OutcomeTable, nodes: Nodes, search: SearchState, order: NDArray[np.int64], most: int
) -> NDArray[np.float64]:
    """Return the estimated risk (A,) of each of the root's actions; NaN before the first trial. Fills scratch alone."""
    steps = nodes.store.words[order, 0] % (search.betas.size + 1)  # in order, the root's first
    last = int(steps[-1]) if steps.size else 0
    if steps.size > most:  # those of the first steps, from the middle of the bounds of the next
        last = max(int(steps[0]), int(steps[most]) - 1)
    reached = int(np.searchsorted(steps, last + 1, "right"))
    sizes = nodes.low.size, table.first_rows.size, search.root_low.size
    guesses = Guesses(*(np.full(size, np.nan) for size in sizes))
    sweep(table, nodes, search, guesses, order[:reached], last)
    estimates: NDArray[np.float64] = np.clip(guesses.found, search.root_low, search.root_high)
    return estimates


@inlined
def guess(table, nodes, search, guesses, h, state, level):  # type: ignore[no-untyped-def]
    """Value of ``state`` at step ``h``: of its node, or what other steps of it let one expect."""
    if h == search.betas.size:
        return table.terminal_losses[state]
    search.key[0] = state * (search.betas.size + 1) + h
    node, _ = find(nodes.store, search.key)
    if node >= 0 and not math.isnan(guesses.values[node]):
        return guesses.values[node]
    value = level
    if not math.isnan(guesses.relative[state]):
        value += guesses.relative[state]
    low, high = bounds_of(table, nodes, search, h, state)
    if math.isnan(value):
        value = low + (high - low) / 2
    return min(max(value, low), high)


@kernel
def sweep(table, nodes, search, guesses, order, last):  # type: ignore[no-untyped-def]
    """Fill the values of the nodes of ``order``, from their bounds after step ``last``, and what the root found."""
    table, nodes, search, guesses = borrowed(table), borrowed(nodes), borrowed(search), borrowed(guesses)
    length = search.betas.size + 1
    root, level, end = search.counters[ROOT_STEP], math.nan, order.size
    while end > 0:
        h = nodes.store.words[order[end - 1], 0] % length
        first = end
        while first > 0 and nodes.store.words[order[first - 1], 0] % length == h:
            first -= 1
            node = order[first]
            state = nodes.store.words[node, 0] // length
            low, high = nodes.low[node], nodes.high[node]
            if h > last or (h > root and not is_open(low, high, search)):
                guesses.values[node] = low + (high - low) / 2
                continue
            least = math.inf
            for row in range(table.first_rows[state], table.last_rows[state]):
                start = table.offsets[row]
                count = table.offsets[row + 1] - start
                for k in range(count):
                    search.x_low[k] = table.losses[start + k]
                    if not table.done[start + k]:
                        target = table.next_states[start + k]
                        worth = guess(table, nodes, search, guesses, h + 1, target, level)
                        search.x_low[k] += search.limits[DISCOUNT] * worth
                value = erm_of(search.x_low, table.probabilities, start, count, search.betas[h])
                if table.step_losses.size:
                    value += table.step_losses[h, row]
                least = min(least, value)
                if nodes.store.words[node, 0] == search.path[root]:
                    guesses.found[row - table.first_rows[state]] = value
            if table.first_rows[state] >= 0:  # else it is not listed yet
                guesses.values[node] = min(max(least, low), high)
        level = _level_of(nodes, order[first:end], length, guesses.values, guesses.relative)
        end = first


@inlined
def _level_of(nodes, group, length, values, relative):  # type: ignore[no-untyped-def]
    """Return the level of one step, and set the relative values of its states."""
    total, known, change, shared = 0.0, 0, 0.0, 0
    for node in group:
        value, before = values[node], relative[nodes.store.words[node, 0] // length]
        if not math.isnan(value):
            total, known = total + value, known + 1
            if not math.isnan(before):
                change, shared = change + value - before, shared + 1
    if known == 0:
        return math.nan
    level = change / shared if shared else total / known
    for node in group:
        if not math.isnan(values[node]):
            relative[nodes.store.words[node, 0] // length] = values[node] - level
    return level


def play_episodes(
    model: OutcomeModel, nodes: Nodes, search: SearchState, root: tuple[int, int, int], seed: int
) -> NDArray[np.float64]:
    """Return total costs of at most 4,096 episodes from (state, position, step); none if ``bounds`` is a function."""
    search = copy.deepcopy(search)  # scratch of its own
    stream: Any = own_words(generator(seed + root[1]))
    totals = np.empty(min(_MOST_EPISODES, max(_FEWEST_EPISODES, _STEPS // (search.betas.size - root[2]))))
    done, status = 0, NEEDS_OUTCOMES
    while status != ENOUGH:
        done, status = play(model.table, nodes, search, stream, root, totals, done)
        if status == NEEDS_OUTCOMES:
            model.list_outcomes(int(search.counters[WHERE_STATE]))
            search = fitted(search, *model.max_branching)
        elif status == NEEDS_TERMINAL:
            model.list_terminal_cost(int(search.counters[WHERE_STATE]))
        elif status == NEEDS_BOUNDS:
            return totals[:0]
    return totals


@kernel
def play(table, nodes, search, stream, root, totals, done):  # type: ignore[no-untyped-def]
    """Fill ``totals[done:]``; return (episodes done, status). An episode that must wait begins again."""
    table, nodes, search, stream = borrowed(table), borrowed(nodes), borrowed(search), borrowed(stream)
    begun = np.empty_like(stream)
    for k in range(done, totals.size):
        begun[:] = stream
        total, status = _episode(table, nodes, search, stream, *root)
        if status != ENOUGH:
            stream[:] = begun
            return k, status
        totals[k] = total
    return totals.size, ENOUGH


@inlined
def _episode(table, nodes, search, stream, state, action, h):  # type: ignore[no-untyped-def]
    """Play one episode from ``state`` at step ``h``; return (total, status)."""
    total, factor = 0.0, 1.0
    while True:
        row = table.first_rows[state] + action
        k, last = table.offsets[row], table.offsets[row + 1] - 1
        left = next_double(stream)
        while k < last and left >= table.probabilities[k]:
            left -= table.probabilities[k]
            k += 1
        total += factor * table.losses[k]
        if table.step_losses.size:
            total += factor * table.step_losses[h, row]
        if table.done[k]:
            return total, ENOUGH
        state, factor, h = np.int64(table.next_states[k]), factor * search.limits[DISCOUNT], h + 1
        if h == search.betas.size:
            search.counters[WHERE_STEP], search.counters[WHERE_STATE] = h, state
            value = table.terminal_losses[state]
            return total + factor * value, NEEDS_TERMINAL if np.isnan(value) else ENOUGH
        status = back_up(table, nodes, search, h, state)
        if status != ENOUGH:
            return total, status
        action = least_row(search.q_high, search.q_low, table.last_rows[state] - table.first_rows[state], -1)
