"""UCT: risk-neutral tree search, the baseline that every risk-averse planner is held against.

At each decision node it takes the action of least

    mean(s, a) - constant sqrt(ln N(s) / N(s, a))        ``LogBonus``, Kocsis & Szepesvári (2006)
    mean(s, a) - constant N(s)^(1/4) / N(s, a)^(1/2)     ``PolynomialBonus``, Shah et al. (2020)

The logarithmic bonus is the classic; the proof of convergence at a polynomial rate is for the
other, as the logarithm is too small for the means of a tree, which drift while they converge. It is
the search of :class:`tailwise.ErmMcts` at beta = 0.
"""

from __future__ import annotations

from typing import Any, Unpack

from tailwise._random import Seed
from tailwise.bonuses import LogBonus, PolynomialBonus
from tailwise.search import SearchKeywords, TreeSearch, options_of


class Uct(TreeSearch):
    """Monte Carlo tree search for the mean.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    **keywords
        Fields of :class:`tailwise.SearchOptions`, such as ``bonus``: ``LogBonus()`` if not given, its constant in
        the unit of the costs.

    Examples
    --------
    >>> from tailwise import PolynomialBonus, Uct, domains
    >>> Uct(domains.make("mdp-4"), seed=0).plan(iterations=2000).label
    'risky'
    >>> Uct(domains.make("mdp-4"), bonus=PolynomialBonus(), seed=0).plan(iterations=2000).label
    'risky'
    """

    def __init__(
        self,
        model: Any,
        *,
        seed: Seed = None,
        **keywords: Unpack[SearchKeywords],
    ) -> None:
        if keywords.get("bonus") is None:
            keywords["bonus"] = LogBonus()
        super().__init__(model, options_of(0.0, keywords), seed=seed)


def uct_planner(model: Any, beta: float, *, seed: Seed = None, **options: Any) -> Uct:
    """Return the search by name; the beta does not matter to it."""
    return Uct(model, seed=seed, **options)


def polynomial_planner(model: Any, beta: float, *, seed: Seed = None, **options: Any) -> Uct:
    """Return the search with the polynomial bonus."""
    return Uct(model, seed=seed, **{"bonus": PolynomialBonus(), **options})
