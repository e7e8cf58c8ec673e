"""Simulators driven by finite noise: one law, two views.

A domain says which noise k can occur (a row of probabilities, chosen by the state) and where the k-th noise leads.
From that follow a ``step`` that draws, which compiles, and an ``outcomes`` that lists, for exact planning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tailwise.errors import ModelError
from tailwise.models import Outcome

S = TypeVar("S")
Move: TypeAlias = Callable[[S, int, int], tuple[S, float, bool]]
Step: TypeAlias = Callable[[S, int, np.random.Generator], tuple[S, float, bool]]


def from_noise(
    laws: ArrayLike, row_of: Callable[[S], int], move: Move[S]
) -> tuple[Step[S], Callable[[S, int], list[Outcome]]]:
    """Return ``(step, outcomes)`` of a simulator with finite noise.

    Parameters
    ----------
    laws : array_like of float, shape (rows, K)
        Probabilities of the noises 0..K-1; each row sums to 1.
    row_of : callable
        ``row_of(state) -> int``, the row that holds in a state.
    move : callable
        ``move(state, action, noise) -> (next_state, cost, done)``.

    Returns
    -------
    step : callable
        ``step(state, action, rng)``; draws one ``rng.random()``.
    outcomes : callable
        ``outcomes(state, action)``; noises of probability 0 are left out.
    """
    table = np.atleast_2d(np.asarray(laws, dtype=np.float64))
    if not np.allclose(table.sum(axis=1), 1.0, rtol=0, atol=1e-9) or (table < 0).any():
        raise ModelError("every row of probabilities must be non-negative and sum to 1")
    cumulative = np.cumsum(table, axis=1)
    for row in range(table.shape[0]):  # the last noise that can occur takes what rounding leaves over
        cumulative[row, np.flatnonzero(table[row])[-1] :] = 1.0

    def step(state: S, action: int, rng: np.random.Generator) -> tuple[S, float, bool]:
        draw = rng.random()
        row = row_of(state)
        noise = 0
        while cumulative[row, noise] <= draw:
            noise += 1
        return move(state, action, noise)

    def outcomes(state: S, action: int) -> list[Outcome]:
        chances = table[row_of(state)]
        return [Outcome(float(chances[k]), *move(state, action, int(k))) for k in np.flatnonzero(chances)]

    return step, outcomes


def poisson_law(mean: float, largest: int) -> list[float]:
    """Return the Poisson law on 0..``largest``; the last entry takes the tail."""
    law = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(largest)]
    return [*law, 1.0 - sum(law)]
