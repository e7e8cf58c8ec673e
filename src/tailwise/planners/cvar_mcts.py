r"""CvarMcts: the tail mean of the total, by search with a learned model, for tables and any simulator.

``CVaR = min over b of b + E[(X - b)+] / tail`` (:mod:`tailwise.exact.tails`). On the learned model the best plan and
the best b are found exactly (:mod:`tailwise.planners.learned_totals`). Sampling is led by the entropic risk at
``sqrt(2 L) / std`` with ``L = -ln(1 - level)``, where a normal total of this standard deviation has its EVaR at the
level, the entropic bound on its CVaR.

The b of the first decision is kept to the end of the episode: later decisions learn on and solve again, from what was
paid so far, for the same b. A static aim is not chosen anew half-way (see "What such a plan means later" there).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from tailwise._random import Seed
from tailwise._validate import real
from tailwise.exact.tails import Limits, check_level, least_cvar
from tailwise.exact.totals import Floats
from tailwise.planners.learned_totals import LearnedTotals
from tailwise.risk.measures import value_at_risk
from tailwise.risk.objectives import CVaR
from tailwise.search.learned import LearnedKeywords, LearnedOptions


@dataclass(frozen=True)
class Shortfall:
    """How far totals are beyond a threshold, on the bad side."""

    threshold: float
    sign: float

    def __call__(self, totals: Floats) -> Floats:
        """Return ``(x - b)+`` for costs, ``(b - x)+`` for rewards."""
        return np.maximum(self.sign * (totals - self.threshold), 0.0)

    def __str__(self) -> str:
        return f"(x - {self.threshold:.6g})+" if self.sign > 0.0 else f"-({self.threshold:.6g} - x)+"


class CvarMcts(LearnedTotals):
    """Monte Carlo search for the least mean of the worst ``1 - level`` of the total.

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
        ``exploration``, ``max_nodes``, ``max_memory``, ``widening``, ``rollout_policy`` and ``leaf_value``, as for
        :class:`tailwise.LearnedModelSearch`.

    Notes
    -----
    A plan's ``value`` is ``threshold + mean shortfall / tail`` after the recommended action: the CVaR of the whole
    total in a first decision. Half of the episodes are sampled in compiled code, half in Python. Solving what was
    learned takes milliseconds where accrued costs are few, and up to a second or two in the first decision where they
    are put on a grid.

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
        super().__init__(model, LearnedOptions(beta=0.0, **keywords), seed=seed)
        self._keep_given()

    def _keep_given(self) -> None:
        self._kept = None if self._given is None else Shortfall(self._given, self._sign)

    @property
    def threshold(self) -> float | None:
        """The b of this episode; None before its first plan."""
        return None if self._kept is None else self._kept.threshold

    def reset(self, state: Any = None, step: int = 0, *, accrued: float = 0.0) -> None:
        """Start a new episode, anywhere, and forget what was learned; its first plan chooses a threshold.

        ``accrued`` is the discounted cost (or reward) paid before. A threshold that was given to the planner is kept.
        """
        super().reset(state, step, accrued=accrued)
        self._keep_given()

    def _leading_beta(self, std: float) -> float:
        return math.sqrt(-2.0 * math.log1p(-self.level)) / std

    def _choose(self, graph: Any, solves: int) -> Shortfall:
        return best_shortfall(self, graph, self.level, solves)

    def _worth(self, aim: Any, totals: Floats, weights: Floats) -> float:
        return float(aim.threshold + self._sign * np.dot(weights, aim(totals)) / (1.0 - self.level))

    def _said(self, aim: Any) -> dict[str, Any]:
        return {"objective": CVaR(self.level), "threshold": aim.threshold}

    def __repr__(self) -> str:
        return f"CvarMcts(level={self.level:g}, threshold={self.threshold})"


def best_shortfall(planner: LearnedTotals, graph: Any, level: float, solves: int) -> Shortfall:
    """Return the shortfall whose plan has the least CVaR on a learned table, as far as so many solves find it."""
    range_ = float(np.ptp(graph.all_totals()))
    found = least_cvar(graph, level, Limits(1e-3 * range_), most=solves)
    totals, masses = graph.law(found.chosen)
    b = value_at_risk(totals, level, masses)
    return Shortfall(float(planner._whole(b)), planner._sign)


def cvar_planner(model: Any, objective: CVaR, *, seed: Seed = None, **options: Any) -> CvarMcts:
    """Return the planner for an objective."""
    return CvarMcts(model, objective.level, seed=seed, **options)
