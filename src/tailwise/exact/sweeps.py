"""One step of backward induction, for each objective that needs no more than state and step. All values are losses.

A sweep for the ERM turns V_{h+1} into Q_h and V_h. With ``b = beta_{h+1} = beta discount^(h+1)``,

    Q_h(s, a) = c + discount * ERM_b(V_{h+1}(s'))                 (translation, then scaling),

so one transform per next *state* and one sparse product per row suffice. The transform is

    plain   V - m                      b = 0
    near    expm1(b (V - m)) / b       |b| * range(V) < 1: exact for tiny b, nothing cancels
    far     exp(b (V - m))             else: relative precision of a sum of positive terms

with m the value that makes every exponent <= 0. A row whose sum underflows in the far
form, whose loss differs between outcomes, or whose risk is small beside m (it would be known only to m's rounding) is
done on its own with its own shift. An infinite value (no action is
allowed there, or on the way) makes every row that can lead to it infinite, whatever the sign of b. This is
:func:`tailwise.risk.entropic.mixture_erms`, with its cut-offs, over sparse rows and without temporary arrays.

Ties are told by the size of a state's value, or, where losses of both signs may cancel, by the mean size of what was
added up in it, which is swept along.

Each state is done from V_{h+1} alone: parts of the states can be swept at once, with the same result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats
from tailwise._jit import Kernel, borrowed, inlined, interpreted, kernel
from tailwise.models import TabularMDP
from tailwise.risk.entropic import FLAT, shifted_risk, shifted_term
from tailwise.risk.entropic import NEAR as NEAR_SPREAD

PLAIN, NEAR, FAR = 0, 1, 2
_UNDERFLOW = 1e-280
_BLOCK = 128  # states
_SMALL = 1e-4  # of the shift: a risk below it is done on its own


_term, _risk = inlined(shifted_term), inlined(shifted_risk)


class Rows(NamedTuple):
    """A table as the sweep reads it; S states, R rows, O outcomes."""

    action_offsets: NDArray[np.int64]  # (S + 1,)
    action_ids: NDArray[np.int64]  # (R,)
    outcome_offsets: NDArray[np.int64]  # (R + 1,)
    probabilities: NDArray[np.float64]  # (O,)
    next_states: NDArray[np.uint32]  # (O,) unsigned: numba then has no negative index to think of
    losses: NDArray[np.float64]  # (O,)
    done: NDArray[np.bool_]  # (O,)
    shared_losses: NDArray[np.float64]  # (R,) of rows whose outcomes all go on at one loss; NaN: on their own


class Future(NamedTuple):
    """V_{h+1} and its transform at ``beta * discount``."""

    values: NDArray[np.float64]  # (S,)
    transformed: NDArray[np.float64]  # (S,)
    mode: int
    shift: float  # m


@kernel
def transform(future, level, first, last):  # type: ignore[no-untyped-def]
    """Fill ``future.transformed`` of the states ``first`` to ``last`` with the transform at risk ``level`` = b."""
    values, out, mode, shift = future
    for s in range(first, last):
        if mode == PLAIN or values[s] == math.inf:
            out[s] = values[s] - shift
        elif mode == NEAR:
            out[s] = math.expm1(level * (values[s] - shift)) / level
        else:
            out[s] = math.exp(level * (values[s] - shift))


def future_of(values: NDArray[np.float64], transformed: NDArray[np.float64], level: float) -> Future:
    """Choose the form of the transform and its shift; ``transformed`` is yet to be filled."""
    low, high = float(values.min()), float(values.max())
    if high == math.inf:
        finite = values[values < math.inf]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    spread = abs(level) * (high - low)
    mode = PLAIN if spread < FLAT else NEAR if spread < NEAR_SPREAD else FAR
    return Future(values, transformed, mode, high if level >= 0.0 else low)


@inlined
def _outcome(k, rows, values, discount):  # type: ignore[no-untyped-def]
    """``c + discount V(s')`` of outcome ``k``."""
    return rows.losses[k] if rows.done[k] else rows.losses[k] + discount * values[rows.next_states[k]]


@inlined
def row_erm(first, last, rows, values, discount, level):  # type: ignore[no-untyped-def]
    """``ERM_level(c + discount V(s'))`` of the outcomes ``first`` to ``last``, with a shift of their own."""
    low, high = math.inf, -math.inf
    for k in range(first, last):
        if rows.probabilities[k] > 0.0:
            cost = _outcome(k, rows, values, discount)
            low, high = min(low, cost), max(high, cost)
    if high == math.inf:
        return high
    shift = high if level >= 0.0 else low
    spread = abs(level) * (high - low)
    total = 0.0
    for k in range(first, last):
        if rows.probabilities[k] > 0.0:
            gap = _outcome(k, rows, values, discount) - shift
            total += rows.probabilities[k] * _term(gap, level, spread)
    return _risk(shift, total, level, spread)


@inlined
def _fill_risks(rows, future, beta, discount, base, out):  # type: ignore[no-untyped-def]
    """``Q_h`` of the rows from ``base`` on, without the part of a loss that depends on the step."""
    shift, level, losses = future.shift, beta * discount, rows.shared_losses[base : base + out.size]
    offsets = rows.outcome_offsets[base : base + out.size + 1]
    for k in range(out.size):
        total = 0.0
        for outcome in range(np.uint64(offsets[k]), np.uint64(offsets[k + 1])):
            total += rows.probabilities[outcome] * future.transformed[rows.next_states[outcome]]
        out[k] = total
    small = _SMALL * abs(shift)
    if future.mode == PLAIN:
        for k in range(out.size):
            risk = shift + out[k]
            out[k] = math.nan if abs(risk) < small else losses[k] + discount * risk
    elif future.mode == NEAR:
        for k in range(out.size):
            risk = math.nan if out[k] == math.inf else shift + math.log1p(level * out[k]) / level
            out[k] = math.nan if abs(risk) < small else losses[k] + discount * risk
    else:
        for k in range(out.size):
            is_lost = out[k] < _UNDERFLOW or out[k] == math.inf
            risk = math.nan if is_lost else shift + math.log(out[k]) / level
            out[k] = math.nan if abs(risk) < small else losses[k] + discount * risk
    for k in range(out.size):
        if math.isnan(out[k]):  # on its own; so also what can lead to an infinite value
            out[k] = row_erm(offsets[k], offsets[k + 1], rows, future.values, discount, beta)


class Step(NamedTuple):
    """What a sweep of one step is told beside the future."""

    losses: NDArray[np.float64]  # (R,) of this step, or empty
    sizes: NDArray[np.float64]  # (S,) of V_{h+1}; empty where no losses cancel
    beta: float  # beta_h
    discount: float
    tolerance: float  # relative to its size, within which a Q ties with the best


class Swept(NamedTuple):
    """What a sweep fills in."""

    q: NDArray[np.float64]  # (R,) or empty
    values: NDArray[np.float64]  # (S,)
    sizes: NDArray[np.float64]  # (S,), or empty as those of the step
    policy: NDArray[np.int32]  # (S,) the first action id that ties with the best, -1 if none is allowed


@kernel
def sweep(rows, future, step, out, first_state, last_state):  # type: ignore[no-untyped-def]
    """One step of backward induction over some states, in blocks: loops that do one thing each run faster."""
    rows, future, step, out = borrowed(rows), borrowed(future), borrowed(step), borrowed(out)
    step_loss, sizes, q_out = step.losses, step.sizes, out.q
    v_out, size_out, policy_out = out.values, out.sizes, out.policy
    room = np.empty(8 * _BLOCK)
    for block in range(first_state, last_state, _BLOCK):
        block_end = min(block + _BLOCK, last_state)
        base, end = rows.action_offsets[block], rows.action_offsets[block_end]
        if end - base > room.size:
            room = np.empty(2 * (end - base))
        risks = room[: end - base]
        _fill_risks(rows, future, step.beta, step.discount, base, risks)
        if step_loss.size:
            for k in range(risks.size):
                risks[k] += step_loss[base + k]
        if q_out.size:  # by a loop: the assignment of a slice takes two seconds to compile
            for k in range(risks.size):
                q_out[base + k] = risks[k]
        for s in range(block, block_end):
            first, last = rows.action_offsets[s] - base, rows.action_offsets[s + 1] - base
            best, at = math.inf, first
            for k in range(first, last):
                at = k if risks[k] < best else at
                best = min(best, risks[k])
            v_out[s] = best
            size = abs(best)
            if sizes.size:
                size_out[s] = 0.0
            if sizes.size and best < math.inf:
                added = 0.0 if step_loss.size == 0 else abs(step_loss[base + at])
                for k in range(rows.outcome_offsets[base + at], rows.outcome_offsets[base + at + 1]):
                    later = 0.0 if rows.done[k] else step.discount * sizes[rows.next_states[k]]
                    added += rows.probabilities[k] * (abs(rows.losses[k]) + later)
                size = max(size, added)
                size_out[s] = size
            limit = best + step.tolerance * size
            chosen = last
            for k in range(last - 1, first - 1, -1):  # no branch to predict
                chosen = k if risks[k] <= limit else chosen
            policy_out[s] = rows.action_ids[base + chosen] if chosen < last else -1


class _Compiling:
    """The two kernels; uncompiled, with the same numbers, until so many outcomes were swept that loading them pays."""

    def __init__(self, most: int) -> None:
        self._left = most

    def kernels(self, outcomes: int) -> tuple[Kernel, Kernel]:
        self._left -= outcomes
        return (transform, sweep) if self._left < 0 else (interpreted(transform), interpreted(sweep))


_compiling = _Compiling(10_000)
TIE_TOLERANCE = 1e-11  # of the size of the values compared


class Sweeps:
    """The sweeps for the ERM over one table at one risk level, by one thread or by several."""

    def __init__(self, mdp: TabularMDP, beta: float, pool: ThreadPoolExecutor | None = None, threads: int = 1) -> None:
        self.mdp, self.beta = mdp, beta
        self.rows = rows = Rows(
            mdp.action_offsets, mdp.action_ids, mdp.outcome_offsets, mdp.probabilities,
            mdp.next_states.view(np.uint32), mdp.losses, mdp.done, mdp.shared_losses,
        )  # fmt: skip
        self._map = map if pool is None else pool.map
        before = rows.outcome_offsets[rows.action_offsets]  # of each state: the parts have equally many outcomes
        edges = np.searchsorted(before, np.linspace(0, before[-1], threads + 1)[1:-1])
        self._parts = list(itertools.pairwise((0, *edges.tolist(), mdp.num_states)))
        self._transformed = np.empty(mdp.num_states)
        losses = (mdp.losses, mdp.step_losses, mdp.terminal_losses)
        may_cancel = min(part.min(initial=0.0) for part in losses) < 0.0 < max(part.max(initial=0.0) for part in losses)
        self._sizes = np.abs(mdp.terminal_losses) if may_cancel else np.empty(0)

    def __call__(self, h: int, values: Floats, q_out: Floats, v_out: Floats, policy_out: NDArray[np.int32]) -> None:
        """Turn V_{h+1} (losses) into V_h, the policy of step h, and Q_h unless its array is empty."""
        mdp, rows, beta = self.mdp, self.rows, self.beta * self.mdp.discount**h
        level = beta * mdp.discount
        step_loss = mdp.step_losses[h] if mdp.step_losses.size else mdp.step_losses.reshape(-1)
        future = future_of(values, self._transformed, level)
        sizes = np.empty(self._sizes.size)
        step = Step(step_loss, self._sizes, beta, mdp.discount, TIE_TOLERANCE)
        out = Swept(q_out, v_out, sizes, policy_out)

        transforming, sweeping = _compiling.kernels(rows.losses.size)

        def transform_part(part: tuple[int, int]) -> None:
            with np.errstate(all="ignore"):  # infinities are meant; compiled code does not warn
                transforming(future, level, *part)

        def sweep_part(part: tuple[int, int]) -> None:
            with np.errstate(all="ignore"):
                sweeping(rows, future, step, out, *part)

        for work in (transform_part, sweep_part):
            list(self._map(work, self._parts))
        self._sizes = sizes


def row_ends(mdp: TabularMDP, h: int, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest total of each row at step ``h``, from those of each state after it."""
    first = mdp.outcome_offsets[:-1]
    ends = []
    for values, reduce in ((low, np.minimum), (high, np.maximum)):
        rows = reduce.reduceat(mdp.losses + _later(mdp, values), first)
        ends.append(rows + mdp.step_losses[h] if mdp.step_losses.size else rows)
    return ends[0], ends[1]


RowRisks = Callable[[TabularMDP, int, Floats, Floats], tuple[Floats, Floats]]
"""From a table, a step, the values after it and their sizes: the risk of each row, and the size of what it adds up."""


def row_worst(mdp: TabularMDP, h: int, values: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return the largest total of each row."""
    largest = row_ends(mdp, h, values, values)[1]
    return largest, np.abs(largest)


def outcome_totals(mdp: TabularMDP, h: int, values: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return the total of each outcome at step ``h``, from the values after it, and the size of what that adds up."""
    losses = mdp.losses_at(h)
    return losses + _later(mdp, values), np.abs(losses) + _later(mdp, sizes)


def row_tails(mdp: TabularMDP, h: int, values: Floats, sizes: Floats, tail: float) -> tuple[Floats, Floats]:
    """Return the mean of the worst ``tail`` of each row's outcomes, and the mean size of what that adds up."""
    owners = mdp.outcome_rows
    totals, added = outcome_totals(mdp, h, values, sizes)
    order = np.lexsort((-totals, owners))  # rows stay together, the worst outcome of each first
    risks, row_sizes = np.empty(mdp.num_rows), np.empty(mdp.num_rows)
    _tail_means(totals[order], mdp.probabilities[order], added[order], mdp.outcome_offsets, tail, risks, row_sizes)
    return risks, row_sizes


def least_of(mdp: TabularMDP, rows: Floats) -> Floats:
    """Return the least over the actions of each state; +inf where there is none."""
    deciding = np.flatnonzero(np.diff(mdp.action_offsets))
    values = np.full(mdp.num_states, np.inf)
    values[deciding] = np.minimum.reduceat(rows, mdp.action_offsets[deciding])
    return values


def chosen_of(mdp: TabularMDP, rows: Floats, values: Floats, sizes: Floats) -> tuple[NDArray[np.int32], Floats]:
    """Return the action id of each state, the lowest of those that tie (-1: none), and the size of the best."""
    deciding = np.flatnonzero(np.diff(mdp.action_offsets))
    starts, best = mdp.action_offsets[deciding], values[mdp.row_states]
    at = np.flatnonzero(rows == best)
    size = np.zeros(mdp.num_states)
    finite = np.isfinite(values[deciding])
    size[deciding[finite]] = sizes[at[np.searchsorted(at, starts)]][finite]
    close = np.flatnonzero(rows <= best + TIE_TOLERANCE * size[mdp.row_states])
    policy = np.full(mdp.num_states, -1, np.int32)
    policy[deciding] = mdp.action_ids[close[np.searchsorted(close, starts)]]
    return policy, size


def _later(mdp: TabularMDP, values: Floats) -> Floats:
    """Return what each outcome leads to, discounted."""
    return np.where(mdp.done, 0.0, mdp.discount * values[mdp.next_states])


@kernel
def _tail_means(totals, probabilities, sizes, offsets, tail, risks, row_sizes):  # type: ignore[no-untyped-def]
    """Write the mean of the worst ``tail`` of each row's outcomes, worst first, and the mean of their sizes."""
    for row in range(risks.size):
        left, taken, total, size = tail, 0.0, 0.0, 0.0
        for k in range(offsets[row], offsets[row + 1]):
            part = min(left, probabilities[k])
            if part <= 0.0:
                break
            total += part * totals[k]
            size += part * sizes[k]
            taken += part
            left -= part
        risks[row], row_sizes[row] = total / taken, size / taken
