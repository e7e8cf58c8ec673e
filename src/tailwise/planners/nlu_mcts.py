"""NLU-MCTS: the mean of any utility of the total (Hayes et al., 2023).

    min over policies of  E[u(sum_h discount^h c_h)]

for any function u of the whole episode's discounted total: an S-shaped one, a target to stay below,
a power. Such a problem has no dynamic programming over states, since what was paid so far still
matters; on pairs (state, accrued cost) it has, and the search runs there. As in the source the bonus
is UCT's. The constant is in the unit of u: scale it to the differences that matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tailwise._random import Seed
from tailwise.bindings import Widening
from tailwise.errors import OptionError
from tailwise.planners.utility_search import UtilitySearch, accrued_view, lifted
from tailwise.search import Bonus, LogBonus, SearchOptions


class NluMcts(UtilitySearch):
    """Monte Carlo tree search for the mean of a nonlinear utility of the total.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem. The view of a simulator runs in Python.
    utility : callable float -> float
        Utility of the discounted total, in the model's own sense: of the total *cost*, and minimised; or,
        for a model with rewards, of the total *reward*, and maximised. It must be finite on every total
        that can occur. Compiled where numba can, else called back (about a microsecond an episode).
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    bonus : PolynomialBonus or LogBonus, optional
        Exploration; ``LogBonus()`` if not given, in the unit of the utility.
    expansion, recommend, max_nodes, max_memory
        As for :class:`tailwise.ErmMcts`.
    widening, rollout_policy, leaf_value : optional
        For simulators, as for :class:`tailwise.ErmMcts`: both functions are of the model's own states, and a leaf's
        value is a cost-to-go, not a utility.

    Raises
    ------
    ModelError
        If ``model`` is neither a table nor a simulator.
    OptionError
        If ``utility`` cannot be called.

    Examples
    --------
    Probability that the total exceeds 2, made as small as can be:

    >>> from tailwise import NluMcts, domains
    >>> def above_two(total):
    ...     return 1.0 if total > 2.0 else 0.0
    >>> search = NluMcts(domains.make("mdp-4"), above_two, seed=0)
    >>> search.plan(iterations=3000).label
    'safe'
    """

    def __init__(
        self,
        model: Any,
        utility: Callable[[float], float],
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
        if not callable(utility):
            raise OptionError(f"utility must be a function of the total, not {utility!r}; for exp(beta x) use AccMcts")
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
        view = accrued_view(model, utility)
        super().__init__(view, lifted(options, view), seed=seed)
