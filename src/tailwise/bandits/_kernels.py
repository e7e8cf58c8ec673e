"""The compiled bandit loop.

Notation: arm i, outcome o (arm i owns those from ``outcome_start[i]`` on), distribution d, piece p. The guide table
finds a cost's piece in about one step where a binary search takes nine. ``counts`` = T_i, ``values`` = rho_i
at beta, ``means`` and ``squares`` = mean and sum of squared deviations, ``scales`` = T_i^-(1-eta).

A pull draws, in this order: a uniform for the outcome if the arm has several, then one for the cost.
"""

from __future__ import annotations

import math

from tailwise._jit import borrowed, inlined, kernel
from tailwise._random import next_double
from tailwise.bandits._tables import GUIDES
from tailwise.risk.accumulator import push_value

POLYNOMIAL, LOGARITHMIC, NEUTRAL, THOMPSON = 0, 1, 2, 3


@inlined
def quantile(guide, pieces, index, level):  # type: ignore[no-untyped-def]
    """Cost of distribution ``index`` at the cumulative probability ``level`` in [0, 1)."""
    piece = guide[index * GUIDES + int(level * GUIDES)]
    while level >= pieces[piece, 1]:
        piece += 1
    return pieces[piece, 2] + pieces[piece, 3] * (level - pieces[piece, 0])


@inlined
def draw_cost(tables, arm, visits, words):  # type: ignore[no-untyped-def]
    """Pull ``arm``: draw its outcome and cost; ``visits`` (O,) counts the costs drawn per outcome."""
    outcomes = tables.outcomes
    outcome, last = tables.outcome_start[arm], tables.outcome_start[arm + 1] - 1
    if outcome < last:
        level = next_double(words)
        while outcome < last and level >= outcomes[outcome, 0]:
            outcome += 1
    visits[outcome] += 1
    drawn, level = outcomes[outcome, 1], next_double(words)
    if outcomes[outcome, 3] > 0.0:
        share = outcomes[outcome, 3] * float(visits[outcome]) ** -outcomes[outcome, 4]
        if level < share:
            drawn, level = outcomes[outcome, 2], level / share
        else:
            level = (level - share) / (1.0 - share)
    return tables.cost[arm] + tables.discount * quantile(tables.guide, tables.pieces, int(drawn), level)


@inlined
def next_normal(words):  # type: ignore[no-untyped-def]
    """Draw a standard normal by Box and Muller's transform (two uniforms)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - next_double(words)))
    return radius * math.cos(2.0 * math.pi * next_double(words))


@kernel
def next_gamma(shape, words):  # type: ignore[no-untyped-def]
    """Gamma(shape, 1) by Marsaglia and Tsang's method; shape < 1 by the boost with a uniform power."""
    boost = 1.0
    if shape < 1.0:
        boost = (1.0 - next_double(words)) ** (1.0 / shape)
        shape = shape + 1.0
    scale = shape - 1.0 / 3.0
    slope = 1.0 / math.sqrt(9.0 * scale)
    while True:
        normal = next_normal(words)
        cube = (1.0 + slope * normal) ** 3
        if cube <= 0.0:
            continue
        level = 1.0 - next_double(words)
        if math.log(level) < 0.5 * normal * normal + scale * (1.0 - cube + math.log(cube)):
            return boost * scale * cube


@inlined
def polynomial_bonus(growth, scale):  # type: ignore[no-untyped-def]
    """``constant t^exponent / T_i^(1-eta)`` from its two factors (ErmUcb)."""
    return growth * scale


@inlined
def logarithmic_bonus(growth, count):  # type: ignore[no-untyped-def]
    """``constant sqrt(2 ln t / T_i)``, ``growth`` its part that arms share (LipschitzUcb, Ucb1)."""
    return growth / math.sqrt(count)


@inlined
def thompson_index(parameters, mean, squares, count, words):  # type: ignore[no-untyped-def]
    """``m + beta / (2 tau)`` with tau and m drawn from the belief about an arm (EntropicThompson)."""
    precision = next_gamma(parameters[0] + 0.5 * count, words)
    precision /= parameters[1] + 0.5 * squares
    return mean + next_normal(words) / math.sqrt(count) + 0.5 * parameters[2] / precision


@kernel
def choose(kind, parameters, time, counts, values, means, squares, scales, words):  # type: ignore[no-untyped-def]
    """Arm of least index after ``time`` pulls; the first of equals."""
    best, least = 0, math.inf
    if kind == POLYNOMIAL:
        growth = parameters[0] * float(time) ** parameters[1]
    else:
        growth = parameters[0] * math.sqrt(2.0 * math.log(float(time)))
    for arm in range(counts.shape[0]):
        if kind == POLYNOMIAL:
            index = values[arm] - polynomial_bonus(growth, scales[arm])
        elif kind == LOGARITHMIC:
            index = values[arm] - logarithmic_bonus(growth, counts[arm])
        elif kind == NEUTRAL:
            index = means[arm] - logarithmic_bonus(growth, counts[arm])
        else:
            index = thompson_index(parameters, means[arm], squares[arm], counts[arm], words)
        if index < least:
            best, least = arm, index
    return best


@kernel
def run_one(tables, kind, parameters, beta, checkpoints, words, memory, counts_out, average_out, stream_out):  # type: ignore[no-untyped-def]
    """One replication up to the last checkpoint; writes counts, rho_bar and rho_stream at each."""
    counts, visits, values, means, squares, scales = memory
    for array in memory:
        array[:] = 0.0
    arms, stream, row = counts.shape[0], 0.0, 0
    for time in range(checkpoints[-1]):
        arm = time
        if time >= arms:
            arm = choose(kind, parameters, time, counts, values, means, squares, scales, words)
        cost = draw_cost(tables, arm, visits, words)
        counts[arm] += 1.0
        count = counts[arm]
        values[arm] = push_value(values[arm], count, cost, beta)
        gap = cost - means[arm]
        means[arm] += gap / count
        squares[arm] += gap * (cost - means[arm])
        if kind == POLYNOMIAL:
            scales[arm] = count ** -parameters[2]
        stream = push_value(stream, time + 1, cost, beta)
        if time + 1 == checkpoints[row]:
            total = 0.0
            for one in range(arms):
                total += counts[one] * values[one]
                counts_out[row, one] = int(counts[one])
            average_out[row], stream_out[row] = total / (time + 1), stream
            row += 1


@kernel
def run_many(tables, kind, parameters, beta, checkpoints, words, memory, counts_out, average_out, stream_out):  # type: ignore[no-untyped-def]
    """Replications r = 0..R-1, each with its own generator state ``words[r]``.

    ``memory`` holds six float64 arrays that the replications reuse: counts, visits (one per outcome), values,
    means, squares, scales. They come from outside because only an argument may be borrowed.
    """
    tables, parameters, memory = borrowed(tables), borrowed(parameters), borrowed(memory)
    checkpoints, words, counts_out = borrowed(checkpoints), borrowed(words), borrowed(counts_out)
    average_out, stream_out = borrowed(average_out), borrowed(stream_out)
    for r in range(words.shape[0]):
        outputs = counts_out[r], average_out[r], stream_out[r]
        run_one(tables, kind, parameters, beta, checkpoints, words[r], memory, *outputs)
