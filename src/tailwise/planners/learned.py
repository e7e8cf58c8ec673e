"""Learned-model search: the right action for a fraction of the simulator calls, with nothing to tune.

A tree search forgets: what it saw of a state at one step it does not use at another. Here every outcome (next
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
from tailwise.search.learned import LearnedKeywords, LearnedOptions, LearnedSearch


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
        ``max_nodes``, ``max_memory``, ``widening``, ``rollout_policy``, ``leaf_value``: fields of
        :class:`tailwise.search.learned.LearnedOptions`.

    Notes
    -----
    A node takes 72 to 80 bytes and 16 for each action, an action of a state 24, each of its outcomes 36 to 44, whatever
    the number of iterations. An iteration walks to the end of the episode, unless states come back too seldom
    (``plan.states_recur`` is False): then it ends at the first new state, as a tree search does, and so it does
    where ``rollout_policy`` or ``leaf_value`` is given. ``max_nodes`` also holds back the nodes that were reached in
    the learned model alone, which take half of them at most.

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
