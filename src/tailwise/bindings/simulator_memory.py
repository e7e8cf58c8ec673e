"""The memory that a simulator's functions and the kernel share, made, enlarged and pruned."""

from __future__ import annotations

import copy

import numpy as np
from numpy.typing import NDArray

from tailwise.bindings import simulator_world as shared
from tailwise.bindings.intern import InternStore, grown, intern_rows, new_store
from tailwise.bindings.options import Widening
from tailwise.bindings.simulator_world import Widened

_RECORDS = 1024


def new_integers(horizon: int) -> NDArray[np.int64]:
    """Return fresh shared integers."""
    integers = np.zeros(shared.INTEGERS_SIZE, np.int64)
    integers[shared.HORIZON] = horizon
    return integers


def new_numbers(discount: float) -> NDArray[np.float64]:
    """Return fresh shared numbers."""
    numbers = np.zeros(shared.NUMBERS_SIZE)
    numbers[shared.DISCOUNT] = discount
    return numbers


def new_widened(widening: Widening | None, horizon: int) -> Widened:
    """Return an empty memory of outcomes; of size 0 where there is no widening."""
    if widening is None:
        return _allocate(np.empty(0), new_store(2, 1), 0, np.zeros(2, np.int64))
    limits, journal = np.array([widening.k, widening.alpha]), np.zeros(2 + horizon, np.int64)
    return _allocate(limits, new_store(2, _RECORDS), 8 * _RECORDS, journal)


def undo(widened: Widened) -> None:
    """Take back what the iteration noted in the journal has counted: it will be done again."""
    for entry in widened.journal[2 : 2 + int(widened.journal[1])].tolist():
        widened.visits[entry >> 1] -= 1
        widened.held[entry >> 1] -= entry & 1
    widened.journal[1] = 0


def _allocate(limits: NDArray[np.float64], pairs: InternStore, slots: int, journal: NDArray[np.int64]) -> Widened:
    visits, held, room, first = (np.zeros(pairs.words.shape[0], np.int64) for _ in range(4))
    targets, costs, used = np.zeros(slots, np.int64), np.zeros(slots), np.zeros(1, np.int64)
    return Widened(limits, pairs, visits, held, room, first, targets, costs, used, journal)


def copied(widened: Widened) -> Widened:
    """Return an independent copy."""
    return copy.deepcopy(widened)


def num_bytes(widened: Widened) -> int:
    """Return the memory that the outcomes take."""
    own = (widened.visits, widened.held, widened.room, widened.first, widened.targets, widened.costs)
    return sum(array.nbytes for array in (*own, *widened.pairs))


def enlarged(widened: Widened) -> Widened | None:
    """Return the same outcomes with more room, or None where there was room left."""
    if not widened.limits.size:
        return None
    pairs, records = widened.pairs, int(widened.pairs.used[0])
    used = int(widened.used[0])
    slots = widened.targets.size
    short_of_records = records == pairs.words.shape[0]
    largest = int(widened.room[:records].max(initial=0))
    short_of_slots = used + max(4, 2 * largest) > slots
    if not short_of_records and not short_of_slots:
        return None
    larger = _allocate(
        widened.limits,
        grown(pairs) if short_of_records else pairs,
        2 * max(slots, used + 2 * largest) if short_of_slots else slots,
        widened.journal,
    )
    for new, old in zip(larger[2:6], widened[2:6], strict=True):
        new[:records] = old[:records]
    larger.targets[:used], larger.costs[:used] = widened.targets[:used], widened.costs[:used]
    larger.used[0] = used
    return larger


def pruned(widened: Widened, kept: NDArray[np.int64], fresh: NDArray[np.int64]) -> Widened:
    """Return the outcomes whose states are all among the handles ``kept``, now called ``fresh``.

    A record that leads to a forgotten state is dropped: its pair starts afresh.
    """
    if not widened.limits.size:
        return widened
    renamed = {int(old): int(new) for old, new in zip(kept, fresh, strict=True)}
    renamed[-1] = -1
    survivors: list[tuple[int, tuple[int, int], list[int]]] = []
    for record in range(int(widened.pairs.used[0])):
        state, action = widened.pairs.words[record].tolist()
        first, held = int(widened.first[record]), int(widened.held[record])
        targets = widened.targets[first : first + held].tolist()
        if state in renamed and all(target in renamed for target in targets):
            pair = (renamed[state], action)
            survivors.append((record, pair, [renamed[target] for target in targets]))
    pairs = new_store(2, max(_RECORDS, 2 * len(survivors)))
    if survivors:
        intern_rows(pairs, np.array([pair for _, pair, _ in survivors], dtype=np.int64))
    slots = int(sum(widened.room[record] for record, _, _ in survivors))
    smaller = _allocate(widened.limits, pairs, max(8 * _RECORDS, 2 * slots), widened.journal)
    smaller.journal[1] = 0
    for index, (record, _, targets) in enumerate(survivors):
        start, held, first = int(smaller.used[0]), len(targets), int(widened.first[record])
        smaller.visits[index], smaller.held[index] = widened.visits[record], held
        smaller.room[index], smaller.first[index] = widened.room[record], start
        smaller.targets[start : start + held] = targets
        smaller.costs[start : start + held] = widened.costs[first : first + held]
        smaller.used[0] = start + int(widened.room[record])
    return smaller
