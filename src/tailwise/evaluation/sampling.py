"""How far the empirical risk of a few episodes strays from the truth by sampling error alone."""

from __future__ import annotations

import numpy as np

from tailwise._random import Seed, generator
from tailwise._validate import integer, real
from tailwise.errors import OptionError
from tailwise.risk.distribution import Measures
from tailwise.risk.intervals import Interval
from tailwise.risk.rows import row_erms

_NUMBERS = 2**21  # totals held at a time


def sampling_interval(
    distribution: Measures,
    beta: float,
    *,
    episodes: int,
    confidence: float = 0.9,
    draws: int = 10_000,
    seed: Seed = 0,
) -> Interval:
    """Return the range in which the empirical ERM of some independent episodes falls.

    Parameters
    ----------
    distribution : ReturnDistribution, ConditionalReturns or Returns
        Distribution of the total of one: exact, or estimated (a sample is taken for its own distribution).
    beta : float
        Finite risk level.
    episodes : int
        Number of episodes in an experiment.
    confidence : float in (0, 1), default 0.9
        Part of all experiments that fall inside, between the outer quantiles.
    draws : int, default 10,000
        Number of simulated experiments, at least 100.
    seed : None, int, SeedSequence or Generator, default 0
        Of the simulation.

    Returns
    -------
    Interval
        In the model's own sense. A reported value outside of it is unlikely to be luck.

    Raises
    ------
    OptionError
        If an option is out of range, or a total is infinite.

    Examples
    --------
    >>> from tailwise import backward_induction, domains
    >>> from tailwise.exact import return_distribution
    >>> from tailwise.evaluation import sampling_interval
    >>> mdp = domains.make("grid-mdp")
    >>> exact = return_distribution(mdp, backward_induction(mdp, beta=0.1))
    >>> low, high = sampling_interval(exact, 0.1, episodes=100)
    >>> round(low, 2), round(high, 2)  # the exact risk is 9.71
    (7.73, 12.79)
    """
    level = real(beta, "beta")
    size, number = integer(episodes, "episodes", low=1), integer(draws, "draws", low=100)
    wanted = real(confidence, "confidence", low=0.0, high=1.0, low_open=True, high_open=True)
    totals, weights = distribution.weighted()
    costs = np.asarray(distribution.signed(totals))
    if not np.isfinite(costs).all():
        raise OptionError("there are infinite totals; their empirical ERM has no sampling distribution")
    running = np.cumsum(np.full(costs.size, 1.0 / costs.size) if weights is None else weights)
    running[-1] = np.inf  # rounding must not leave a draw without an atom
    rng, step = generator(seed), max(1, _NUMBERS // size)
    values = []
    for first in range(0, number, step):
        draws_of_chunk = rng.random((min(step, number - first), size))
        values.append(row_erms(costs[np.searchsorted(running, draws_of_chunk, side="right")], level))
    low, high = np.quantile(np.concatenate(values), [(1.0 - wanted) / 2.0, (1.0 + wanted) / 2.0])
    return Interval(*sorted((float(distribution.signed(low)), float(distribution.signed(high)))))
