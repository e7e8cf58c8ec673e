"""The tree searches for the entropic risk and for the mean, as planners.

*ERM-MCTS* is the paper's algorithm. At a decision node (s, h) the search keeps, for each action, the entropic risk of
the costs-to-go sampled through it, at ``beta_h = beta discount^h`` (eq. mcts_state_node_erm_estimator), and takes
(eq. mcts_action-selection)

    argmin_a  ERM(s, a) - constant N(s)^(eta (1 - eta)) / N(s, a)^(1 - eta).

Theorem ``mcts-result``: with suitable constants the ERM of the costs at the root converges to the
optimal risk, at the rate n^(eta - 1) in expectation. The defaults are those of the paper's
experiments: eta = 1/2, constant sqrt(2), one node added per iteration, then a uniform random
rollout, and the most visited action is recommended. sqrt(2) is small beside costs of 10 or 100:
where the search seems locked in (one action holds 99 % of the visits early), raise the constant to
the scale of the costs' differences, or take ``preset="auto"``.

*UCT* is risk-neutral, the baseline that every risk-averse planner is held against: that search at beta = 0. It takes
the action of least

    mean(s, a) - constant sqrt(ln N(s) / N(s, a))        ``LogBonus``, Kocsis & Szepesvári (2006)
    mean(s, a) - constant N(s)^(1/4) / N(s, a)^(1/2)     ``PolynomialBonus``, Shah et al. (2020)

The logarithmic bonus is the classic; the proof of convergence at a polynomial rate is for the
other, as the logarithm is too small for the means of a tree, which drift while they converge.
"""

from __future__ import annotations

from typing import Any, Unpack

from tailwise._random import Seed
from tailwise.bonuses import LogBonus, PolynomialBonus
from tailwise.search import SearchKeywords, TreeSearch, options_of


class ErmMcts(TreeSearch):
    """Monte Carlo tree search for the entropic risk measure.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    beta : float
        Finite risk level at step 0 (1/cost): positive averse, 0 the mean, negative seeking.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    preset : "paper" or "auto", default "paper"
        Rules for what is not given below. "paper": the algorithm as the paper's experiments run it. "auto": the
        rules that find the right action sooner and need no constant: a bonus in the scale of the costs seen
        (:class:`RangeBonus`), the off-policy backup (:class:`OffPolicyBackup`), untried actions in random order, and
        the action of least risk. Where states hardly come back (continuous ones), "paper" is as good or better.
    **keywords
        Fields of :class:`tailwise.SearchOptions`, such as ``bonus``, ``backup``, ``recommend``, ``max_nodes``.

    Examples
    --------
    >>> from tailwise import ErmMcts, domains
    >>> search = ErmMcts(domains.make("mdp-4"), beta=0.5, seed=0)
    >>> plan = search.plan(iterations=2000)
    >>> plan.label
    'safe'
    >>> search.advance(plan.action, state=1)
    >>> search.step, round(search.plan(iterations=100).root_beta, 3)
    (1, 0.45)
    >>> ErmMcts(domains.make("mdp-4"), beta=0.5, preset="auto", seed=0).plan(iterations=1000).label
    'safe'
    """

    def __init__(
        self,
        model: Any,
        beta: float,
        *,
        seed: Seed = None,
        preset: str = "paper",
        **keywords: Unpack[SearchKeywords],
    ) -> None:
        super().__init__(model, options_of(beta, keywords, preset=preset), seed=seed)


def auto_tree(model: Any, beta: float, *, seed: Seed = None, **keywords: Any) -> ErmMcts:
    """Return the search with the rules that need no constant."""
    return ErmMcts(model, beta, seed=seed, **{"preset": "auto", **keywords})


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
