"""The searches for the entropic risk and for the mean, as planners.

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

*Learned-model search*: the right action for a fraction of the simulator calls, with nothing to tune. A tree search
forgets: what it saw of a state at one step it does not use at another. Here every outcome (next
state, cost) that was drawn is counted for its state and action, whatever the step, and the entropic Bellman equation

    Q_h(s, a) = ERM_{beta_h}(cost + discount V_{h+1}(s')),   V_h(s) = min_a Q_h(s, a),   beta_h = beta discount^h,

is kept solved under the counted frequencies for every (step, state) that the root reaches. Actions are chosen by
optimism at each (step, state): see :mod:`tailwise.search.learned.kernels` for the rule.

Relatives: UCBVI (Azar, Osband and Munos, 2017) has the same optimism about a counted model; RSVI2 (Fei, Yang, Chen and
Wang, 2021) brings it to the entropic risk by the exponential Bellman equation; UCT with full Bellman backups
and transpositions (Keller and Helmert, 2013) is its planning form. What is proved of this rule, and what
is not, stands in the documentation ("Learned-model search").
"""

from __future__ import annotations

from typing import Any, Unpack

from tailwise._random import Seed
from tailwise.bonuses import LogBonus, PolynomialBonus
from tailwise.search import SearchKeywords, TreeSearch, options_of
from tailwise.search.learned import LearnedKeywords, LearnedOptions, LearnedSearch


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


class LearnedModelSearch(LearnedSearch):
    """Search for the entropic risk that keeps what it draws as a model of the problem.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem, used as a black box: it is sampled and nothing else.
    beta : float
        Finite risk level at step 0 (1/cost): positive averse, 0 the mean, negative seeking.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    **keywords
        ``exploration`` (the bonus in units of the observed range of costs-to-go, 0.1; as a tree, ten times that), and
        ``max_nodes``, ``max_memory``, ``widening``, ``rollout_policy``, ``prior_policy``, ``leaf_value``, ``features``
        (of a state, where states do not come back): fields of :class:`tailwise.search.learned.LearnedOptions`.

    Notes
    -----
    A node takes 80 to 88 bytes and 16 for each action (24 with ``leaf_value`` or ``bounds``), an action of a state 24,
    each of its outcomes 36 to 44, whatever the number of iterations. An iteration walks to the end of the episode,
    unless states come back too seldom (``plan.states_recur`` is False): then it ends at the first new state,
    as a tree search does, and so it does where ``leaf_value`` is given; what that says is believed as far as the draws
    leave it possible. A quarter of the iterations follows a ``rollout_policy``. ``max_nodes`` also holds back the nodes
    that were reached in the learned model alone, which take half of them at most.

    Examples
    --------
    >>> from tailwise import LearnedModelSearch, domains
    >>> search = LearnedModelSearch(domains.make("grid-mdp"), beta=0.1, seed=0)
    >>> plan = search.plan(iterations=5000)
    >>> plan.label, abs(plan.value - 9.71) < 1, plan.probability_best > 0.5
    ('right', True, True)
    >>> search.advance(plan.action, state=13)
    >>> search.step, search.plan(iterations=10).rows[0].draws > 10  # what was learned is kept
    (1, True)
    """

    def __init__(self, model: Any, beta: float, *, seed: Seed = None, **keywords: Unpack[LearnedKeywords]) -> None:
        super().__init__(model, LearnedOptions(beta=beta, **keywords), seed=seed)
