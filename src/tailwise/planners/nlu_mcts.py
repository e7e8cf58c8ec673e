"""NLU-MCTS: the mean of any utility of the total (Hayes et al., 2023).

    min over policies of  E[u(sum_h discount^h c_h)]

for any function u of the whole episode's discounted total: an S-shaped one, a target to stay below,
a power. Such a problem has no dynamic programming over states, since what was paid so far still
matters; on pairs (state, accrued cost) it has, and the search runs there. As in the source the bonus
is UCT's. The constant is in the unit of u: scale it to the differences that matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from tailwise._random import Seed
from tailwise.bonuses import LogBonus
from tailwise.errors import OptionError
from tailwise.models import AccruedView
from tailwise.planners.utility_search import UtilitySearch
from tailwise.risk.objectives import ExpectedUtility
from tailwise.search import SearchKeywords, options_of


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
    **keywords
        Fields of :class:`tailwise.SearchOptions`, such as ``bonus``: ``LogBonus()`` if not given, its constant in
        the unit of the utility. ``widening``, ``rollout_policy`` and ``leaf_value`` are for simulators: both functions
        are of the model's own states, and a leaf's value is a cost-to-go, not a utility.

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
        **keywords: Unpack[SearchKeywords],
    ) -> None:
        if not callable(utility):
            raise OptionError(f"utility must be a function of the total, not {utility!r}; for exp(beta x) use AccMcts")
        if keywords.get("bonus") is None:
            keywords["bonus"] = LogBonus()
        super().__init__(AccruedView(model, utility), options_of(0.0, keywords), seed=seed)


def utility_planner(model: Any, objective: ExpectedUtility, *, seed: Seed = None, **options: Any) -> NluMcts:
    """Return the search for an objective."""
    return NluMcts(model, objective.utility, seed=seed, **options)
