"""Compiled sweeps of backward induction. All values are costs.

One sweep turns V_{h+1} into Q_h and V_h. With ``b = beta_{h+1} = beta discount^(h+1)``,

    Q_h(s, a) = c + discount * ERM_b(V_{h+1}(s'))                 (translation, then scaling),

so one transform per next *state* and one sparse product per row suffice. The transform is

    plain   V - m                      b = 0
    near    expm1(b (V - m)) / b       |b| * range(V) < 1: exact for tiny b, nothing cancels
    far     exp(b (V - m))             else: relative precision of a sum of positive terms

with m the value that makes every exponent <= 0. A row whose sum underflows in the far
form, or whose cost differs between outcomes, is done on its own with its own shift. This is
:func:`tailwise.risk.rows.mixture_erms`, with its cut-offs, over sparse rows and without temporary arrays.
"""

from __future__ import annotations

import math

import numpy as np

from tailwise._jit import inlined, kernel
from tailwise.risk import oce

PLAIN, NEAR, FAR = 0, 1, 2
_UNDERFLOW = 1e-280


_term, _risk = inlined(oce.shifted_term), inlined(oce.shifted_risk)


@kernel
def transform(values, level, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (S,) with the transform of ``values`` at risk ``level`` = b; return (mode, m)."""
    low, high = values.min(), values.max()
    shift = high if level >= 0.0 else low
    if abs(level) * (high - low) < oce.FLAT:
        for s in range(values.size):
            out[s] = values[s] - shift
        return PLAIN, shift
    if abs(level) * (high - low) < oce.NEAR:
        for s in range(values.size):
            out[s] = math.expm1(level * (values[s] - shift)) / level
        return NEAR, shift
    for s in range(values.size):
        out[s] = math.exp(level * (values[s] - shift))
    return FAR, shift


@inlined
def _outcome(k, next_states, costs, done, values, discount):  # type: ignore[no-untyped-def]
    """``c + discount V(s')`` of outcome ``k``."""
    return costs[k] if done[k] else costs[k] + discount * values[next_states[k]]


@inlined
def _row_erm(first, last, probabilities, next_states, costs, done, values, discount, level):  # type: ignore[no-untyped-def]
    """``ERM_level(c + discount V(s'))`` of the outcomes ``first`` to ``last``, with a shift of their own."""
    low, high = math.inf, -math.inf
    for k in range(first, last):
        cost = _outcome(k, next_states, costs, done, values, discount)
        low, high = min(low, cost), max(high, cost)
    shift = high if level >= 0.0 else low
    spread = abs(level) * (high - low)
    total = 0.0
    for k in range(first, last):
        gap = _outcome(k, next_states, costs, done, values, discount) - shift
        total += probabilities[k] * _term(gap, level, spread)
    return _risk(shift, total, level, spread)


@inlined
def _row_product(first, last, probabilities, next_states, transformed, values, level, mode, shift):  # type: ignore[no-untyped-def]
    """``ERM_level(V(s'))`` of a row from the transformed values; NaN asks for the row-wise form."""
    total = 0.0
    for k in range(first, last):
        total += probabilities[k] * transformed[next_states[k]]
    if mode == PLAIN:
        return shift + total
    if mode == NEAR:
        return shift + math.log1p(level * total) / level
    if total < _UNDERFLOW:
        return math.nan
    return shift + math.log(total) / level


@kernel
def sweep(  # type: ignore[no-untyped-def]
    table,
    uniform,
    step_cost,
    values,
    transformed,
    mode,
    shift,
    beta,
    discount,
    q_out,
    v_out,
    policy_out,
    tolerance,
):
    """One step of backward induction over all states.

    Parameters: ``table`` is (action_offsets, action_ids, outcome_offsets, probabilities, next_states,
    costs, done); ``uniform`` (rows,) whether a row's outcomes share one cost and go on;
    ``step_cost`` (rows,) or empty; ``values`` (S,) is V_{h+1} and ``transformed`` its transform at
    ``beta * discount``; ``beta`` is beta_h. Writes ``q_out`` (rows,) unless it is empty, ``v_out`` (S,)
    and ``policy_out`` (S,): the first action id whose Q is within ``tolerance`` of the best, -1 if none.
    """
    action_offsets, action_ids, outcome_offsets, probabilities, next_states, costs, done = table
    level = beta * discount
    row_q = np.empty(256)
    for s in range(v_out.size):
        base, end = action_offsets[s], action_offsets[s + 1]
        if end - base > row_q.size:
            row_q = np.empty(2 * (end - base))
        best = math.inf
        for row in range(base, end):
            first, last = outcome_offsets[row], outcome_offsets[row + 1]
            risk = math.nan
            if uniform[row]:
                future = _row_product(first, last, probabilities, next_states, transformed, values, level, mode, shift)
                risk = costs[first] + discount * future
            if math.isnan(risk):
                risk = _row_erm(first, last, probabilities, next_states, costs, done, values, discount, beta)
            if step_cost.size:
                risk += step_cost[row]
            row_q[row - base] = risk
            best = min(best, risk)
        v_out[s] = best
        policy_out[s] = -1
        limit = best + tolerance * max(1.0, abs(best))
        for row in range(base, end):
            if policy_out[s] < 0 and row_q[row - base] <= limit:
                policy_out[s] = action_ids[row]
            if q_out.size:
                q_out[row] = row_q[row - base]
