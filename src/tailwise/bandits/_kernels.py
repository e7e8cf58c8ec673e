"""The compiled bandit loop.

Notation: arm i, outcome o (arm i owns those from ``outcome_start[i]`` on), distribution d, piece p. The guide table
finds a cost's piece in about one step where a binary search takes nine. ``known``: ``counts`` = T_i,
``values`` = rho_i at beta, ``means`` and ``squares`` = mean and sum of squared deviations.

A pull draws, in this order: a uniform for the outcome if the arm has several, then one for the cost.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import ChosenByKind, borrowed, inlined, kernel
from tailwise._random import next_double
from tailwise.bonuses import bonus_of, growth_of
from tailwise.risk.accumulator import push_value

GUIDES = 1024


class BonusIndex(NamedTuple):
    """Value minus bonus."""

    bonus: NamedTuple  # as a kernel reads it: what serves the tree search serves here
    statistics: NDArray[np.float64]  # (0, 0): a bandit keeps none
    of_mean: bool  # whether the value is the mean and not the ERM


class ThompsonIndex(NamedTuple):
    """A draw from the belief about an arm."""

    shape: float
    rate: float
    beta: float


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


@ChosenByKind
def growth_at(rule, time):  # type: ignore[no-untyped-def]
    """Part of the index that the arms share after ``time`` pulls."""
    return 0.0


@ChosenByKind
def index_of(rule, growth, arm, known, words):  # type: ignore[no-untyped-def]
    """Index of an arm: the least one is pulled."""
    raise NotImplementedError


def _bonus_growth(rule, time):  # type: ignore[no-untyped-def]
    return growth_of(rule.bonus, 0, time, rule.statistics, 0)


def _bonus_index(rule, growth, arm, known, words):  # type: ignore[no-untyped-def]
    counts, values, means, _ = known
    value = means[arm] if rule.of_mean else values[arm]
    return value - bonus_of(rule.bonus, growth, 0, counts[arm], rule.statistics, arm)


def _thompson_index(rule, growth, arm, known, words):  # type: ignore[no-untyped-def]
    counts, _, means, squares = known
    precision = next_gamma(rule.shape + 0.5 * counts[arm], words)
    precision /= rule.rate + 0.5 * squares[arm]
    return means[arm] + next_normal(words) / math.sqrt(counts[arm]) + 0.5 * rule.beta / precision


growth_at.register(BonusIndex, _bonus_growth)
index_of.register(BonusIndex, _bonus_index)
index_of.register(ThompsonIndex, _thompson_index)


@inlined
def choose(rule, time, known, words):  # type: ignore[no-untyped-def]
    """Arm of least index after ``time`` pulls; the first of equals."""
    best, least, growth = 0, math.inf, growth_at(rule, time)
    for arm in range(known[0].shape[0]):
        index = index_of(rule, growth, arm, known, words)
        if index < least:
            best, least = arm, index
    return best


@inlined
def run_one(tables, rule, beta, checkpoints, words, memory, outputs, r):  # type: ignore[no-untyped-def]
    """Replication r up to the last checkpoint; writes counts, rho_bar and rho_stream at each."""
    visits, known = memory
    counts, values, means, squares = known
    counts_out, average_out, stream_out = outputs
    counts[:] = 0
    visits[:] = 0
    values[:] = 0.0
    means[:] = 0.0
    squares[:] = 0.0
    arms, stream, row = counts.shape[0], 0.0, 0
    for time in range(checkpoints[-1]):
        arm = time
        if time >= arms:
            arm = choose(rule, time, known, words)
        cost = draw_cost(tables, arm, visits, words)
        counts[arm] += 1
        count = counts[arm]
        values[arm] = push_value(values[arm], count, cost, beta)
        gap = cost - means[arm]
        means[arm] += gap / count
        squares[arm] += gap * (cost - means[arm])
        stream = push_value(stream, time + 1, cost, beta)
        if time + 1 == checkpoints[row]:
            total = 0.0
            for one in range(arms):
                total += counts[one] * values[one]
                counts_out[r, row, one] = counts[one]
            average_out[r, row], stream_out[r, row] = total / (time + 1), stream
            row += 1


def run_many(tables, rule, beta, checkpoints, words, memory, outputs):  # type: ignore[no-untyped-def]
    """Replications r = 0..R-1, each with its own generator state ``words[r]``.

    ``memory`` holds arrays that the replications reuse: visits (int64, one per outcome), and what is known of each arm:
    counts (int64), values, means, squares. They come from outside because only an argument may be borrowed.
    """
    tables, (rule,), memory = borrowed(tables), borrowed((rule,)), borrowed(memory)  # a rule is still a tuple
    checkpoints, words, outputs = borrowed(checkpoints), borrowed(words), borrowed(outputs)
    for r in range(words.shape[0]):
        run_one(tables, rule, beta, checkpoints, words[r], memory, outputs, r)
