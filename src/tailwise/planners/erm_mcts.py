"""ERM-MCTS: the paper's algorithm.

At a decision node (s, h) the search keeps, for each action, the entropic risk of the costs-to-go
sampled through it, at ``beta_h = beta discount^h`` (eq. mcts_state_node_erm_estimator), and takes
(eq. mcts_action-selection)

    argmin_a  ERM(s, a) - constant N(s)^(eta (1 - eta)) / N(s, a)^(1 - eta).

Theorem ``mcts-result``: with suitable constants the ERM of the costs at the root converges to the
optimal risk, at the rate n^(eta - 1) in expectation. The defaults are those of the paper's
experiments: eta = 1/2, constant sqrt(2), one node added per iteration, then a uniform random
rollout, and the most visited action is recommended. sqrt(2) is small beside costs of 10 or 100:
where the search seems locked in (one action holds 99 % of the visits early), raise the constant to
the scale of the costs' differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tailwise._random import Seed
from tailwise.bindings import Widening
from tailwise.planners.registry import register_planner
from tailwise.search import Bonus, PolynomialBonus, SearchOptions, TreeSearch


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
    bonus : PolynomialBonus or LogBonus, optional
        Exploration; ``PolynomialBonus()`` if not given.
    expansion : "leaf" or "path", default "leaf"
        See :class:`tailwise.SearchOptions`.
    recommend : "visits" or "value", default "visits"
        See :class:`tailwise.SearchOptions`.
    max_nodes, max_memory : int, optional
        Bounds on the tree; reaching one ends the call of ``plan`` and is reported.
    widening, rollout_policy, leaf_value : optional
        For simulators; see :class:`tailwise.SearchOptions`.

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
    """

    def __init__(
        self,
        model: Any,
        beta: float,
        *,
        seed: Seed = None,
        bonus: Bonus | None = None,
        expansion: str = "leaf",
        recommend: str = "visits",
        max_nodes: int | None = None,
        max_memory: int | None = None,
        widening: Widening | None = None,
        rollout_policy: Callable[[Any, int, np.random.Generator], Any] | None = None,
        leaf_value: Callable[[Any, int], float] | None = None,
    ) -> None:
        options = SearchOptions(
            beta=beta,
            bonus=PolynomialBonus() if bonus is None else bonus,
            expansion=expansion,
            recommend=recommend,
            max_nodes=max_nodes,
            max_memory=max_memory,
            widening=widening,
            rollout_policy=rollout_policy,
            leaf_value=leaf_value,
        )
        super().__init__(model, options, seed=seed)


register_planner("erm-mcts", ErmMcts, summary="the paper's search for the entropic risk", bonus=PolynomialBonus)
