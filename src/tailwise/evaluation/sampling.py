"""How far the empirical risk of a few episodes strays from the truth by luck alone."""

from __future__ import annotations

import numpy as np

from tailwise._random import Seed, generator
from tailwise._validate import integer, real
from tailwise.errors import OptionError
from tailwise.evaluation.measures import Measures
from tailwise.risk.entropic import row_erms
from tailwise.risk.intervals import Interval

_CELLS = 2**21


def sampling_interval(
    law: Measures,
    beta: float,
    *,
    episodes: int,
    confidence: float = 0.9,
    draws: int = 10_000,
    seed: Seed = 0,
) -> Interval:
    """Return the range in which the empirical ERM of some episodes of a law falls.

    Parameters
    ----------
    law : CostDistribution, ConditionalReturns or Returns
        The distribution of the total: exact, or estimated (a sample is taken for its own distribution).
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
        A reported value outside of it is unlikely to be luck.

    Examples
    --------
    >>> from tailwise import backward_induction, domains
    >>> from tailwise.evaluation import cost_distribution, sampling_interval
    >>> mdp = domains.make("grid-mdp")
    >>> law = cost_distribution(mdp, backward_induction(mdp, beta=0.1))
    >>> low, high = sampling_interval(law, 0.1, episodes=100)
    >>> round(low, 2), round(high, 2)  # the exact risk is 9.71
    (7.73, 12.79)
    """
    level = real(beta, "beta")
    size, number = integer(episodes, "episodes", low=1), integer(draws, "draws", low=100)
    wanted = real(confidence, "confidence", low=0.0, high=1.0, low_open=True, high_open=True)
    totals, weights = law._atoms()
    costs = np.asarray(law._signed(totals))
    shares = np.full(costs.size, 1.0 / costs.size) if weights is None else weights
    if not np.isfinite(costs).all():
        raise OptionError("the law has infinite totals; its empirical ERM has no sampling distribution")
    running, rng = np.cumsum(shares), generator(seed)
    running[-1] = np.inf  # rounding must not leave a draw without an atom
    values = np.empty(number)
    step = max(1, _CELLS // size)
    for first in range(0, number, step):
        rows = min(step, number - first)
        drawn = costs[np.searchsorted(running, rng.random((rows, size)), side="right")]
        values[first : first + rows] = row_erms(drawn, level)
    low, high = np.quantile(values, [(1.0 - wanted) / 2.0, (1.0 + wanted) / 2.0])
    ends = sorted((float(law._signed(low)), float(law._signed(high))))
    return Interval(*ends)
