"""UCT: risk-neutral tree search, the baseline that every risk-averse planner is held against.

At each decision node it takes the action of least

    mean(s, a) - constant sqrt(ln N(s) / N(s, a))        ``LogBonus``, Kocsis & Szepesvári (2006)
    mean(s, a) - constant N(s)^(1/4) / N(s, a)^(1/2)     ``PolynomialBonus``, Shah et al. (2020)

The logarithmic bonus is the classic; the proof of convergence at a polynomial rate is for the
other, as the logarithm is too small for the means of a tree, which drift while they converge. It is
the search of :class:`tailwise.ErmMcts` at beta = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tailwise._random import Seed
from tailwise.bindings import Widening
from tailwise.planners.registry import register_planner
from tailwise.search import Bonus, LogBonus, PolynomialBonus, SearchOptions, TreeSearch


class Uct(TreeSearch):
    """Monte Carlo tree search for the mean.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    bonus : LogBonus or PolynomialBonus, optional
        Exploration; ``LogBonus()`` if not given. The constant is in the unit of the costs.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    expansion, recommend, max_nodes, max_memory, widening, rollout_policy, leaf_value
        As for :class:`tailwise.ErmMcts`.

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
        bonus: Bonus | None = None,
        seed: Seed = None,
        expansion: str = "leaf",
        recommend: str = "visits",
        max_nodes: int | None = None,
        max_memory: int | None = None,
        widening: Widening | None = None,
        rollout_policy: Callable[[Any, int, np.random.Generator], Any] | None = None,
        leaf_value: Callable[[Any, int], float] | None = None,
    ) -> None:
        options = SearchOptions(
            beta=0.0,
            bonus=LogBonus() if bonus is None else bonus,
            expansion=expansion,
            recommend=recommend,
            max_nodes=max_nodes,
            max_memory=max_memory,
            widening=widening,
            rollout_policy=rollout_policy,
            leaf_value=leaf_value,
        )
        super().__init__(model, options, seed=seed)


def _uct(model: Any, beta: float, *, seed: Seed = None, **options: Any) -> Uct:
    return Uct(model, seed=seed, **options)


def _uct_polynomial(model: Any, beta: float, *, seed: Seed = None, **options: Any) -> Uct:
    return Uct(model, seed=seed, **{"bonus": PolynomialBonus(), **options})


register_planner("uct", _uct, summary="risk-neutral search, logarithmic bonus", bonus=LogBonus)
register_planner(
    "uct-polynomial", _uct_polynomial, summary="risk-neutral search, polynomial bonus", bonus=PolynomialBonus
)
