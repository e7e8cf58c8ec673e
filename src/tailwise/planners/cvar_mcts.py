"""CvarMcts: the tail mean of the total, by search with a learned model, for tables and any simulator.

On the learned model the best plan for ``CVaR = min over b of b + E[(X - b)+] / (1 - level)`` and the best b are found
exactly (:mod:`tailwise.planners.distributional_mcts`). The b of the first decision is kept to the end of the episode:
later decisions learn on and solve again, from what was paid so far, for the same b. A static objective is not chosen
anew half-way.
"""

from __future__ import annotations

from typing import Any, Unpack

from tailwise._random import Seed
from tailwise._validate import real
from tailwise.exact.tails import check_level
from tailwise.planners.distributional_mcts import DistributionalMcts
from tailwise.planners.pursued import Shortfall
from tailwise.risk.objectives import CVaR
from tailwise.search.learned import LearnedKeywords


class CvarMcts(DistributionalMcts):
    """Monte Carlo search for the least mean of the worst ``1 - level`` of the total.

    A plan's ``value`` is ``threshold + mean shortfall / (1 - level)`` after the recommended action: the CVaR of the
    whole total in a first decision.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem, used as a black box: it is sampled and nothing else.
    level : float in (0, 1)
        Share of outcomes that are not the tail: 0.95 for the worst 5 %.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    threshold : float, optional
        The b to keep to, of an episode whose first decision was planned elsewhere.
    **keywords
        As for :class:`DistributionalMcts`.

    Examples
    --------
    >>> from tailwise import CvarMcts, domains
    >>> plan = CvarMcts(domains.make("grid-mdp"), 0.9, seed=0).plan(iterations=2000)
    >>> plan.label, abs(plan.value - 10.86) < 2  # the optimum is 10.86
    ('right', True)
    >>> plan.act(13, step=1, accrued=0.62)  # the plan for later, from state, step and what was paid
    3
    """

    def __init__(
        self,
        model: Any,
        level: float,
        *,
        seed: Seed = None,
        threshold: float | None = None,
        **keywords: Unpack[LearnedKeywords],
    ) -> None:
        self.level = check_level(level)
        self._given = None if threshold is None else real(threshold, "threshold")
        super().__init__(model, CVaR(self.level), seed=seed, **keywords)
        self._keep_given()

    def _keep_given(self) -> None:
        self._kept = None if self._given is None else Shortfall(self._given, self._episode.sign)

    @property
    def threshold(self) -> float | None:
        """The b of this episode; None before its first plan."""
        return self._kept.threshold if isinstance(self._kept, Shortfall) else None

    def reset(self, state: Any = None, step: int = 0, *, accrued: float = 0.0) -> None:
        """Start a new episode, anywhere, and forget what was learned; its first plan chooses a threshold.

        ``accrued`` is the discounted cost (or reward) paid before. A threshold that was given to the planner is kept.
        """
        super().reset(state, step, accrued=accrued)
        self._keep_given()

    def __repr__(self) -> str:
        return f"CvarMcts(level={self.level:g}, threshold={self.threshold})"


def cvar_planner(model: Any, objective: CVaR, *, seed: Seed = None, **options: Any) -> CvarMcts:
    """Return the planner for an objective."""
    return CvarMcts(model, objective.level, seed=seed, **options)
