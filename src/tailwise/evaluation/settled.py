"""Luck taken out: the risk of a closed-loop planner with what no decision can change integrated exactly.

In the plain evaluation of a planner, rare disasters decide the entropic risk: 100 episodes of
grid-mdp meet the pit about once, or not. But once in the pit nothing that the planner does
matters, and its risk from there is known. Call a state *settled* at step h if the best and the worst
policy have the same risk from it. An episode then follows the planner through the other states alone:
at each step the outcomes that end in a settled state (or end the episode) are put down with their
probability and their exact risk-to-go, and one of the rest is drawn, conditionally.

Per episode this gives the exact entropic risk e given the unsettled path; the risk of the
planner is ``ERM(e_1, e_2, ...)``, without bias in ``E[exp(beta X)]`` and with a small fraction of the
noise (none beside the planner's own where everything random is settled).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._random import Seed, seed_sequence
from tailwise._validate import integer, real
from tailwise.errors import ModelError
from tailwise.evaluation.bootstrap import bootstrap_interval
from tailwise.evaluation.episodes import DEFAULT_ITERATIONS, check_planner, follow, in_threads
from tailwise.evaluation.policies import policy_chances
from tailwise.evaluation.streams import child, episode_uniforms, run_key
from tailwise.models import TabularMDP
from tailwise.models.contract import Sense
from tailwise.planners import backward_induction
from tailwise.risk import erm
from tailwise.risk.entropic import weighted_erm
from tailwise.risk.intervals import Interval
from tailwise.search import TreeSearch

Floats = NDArray[np.float64]
_SETTLED = 1e-10


@dataclass(frozen=True, eq=False)
class SettledRisk:
    """The risk of a planner, with settled outcomes integrated exactly.

    Attributes
    ----------
    risks : ndarray of float64, shape (n,)
        Exact entropic risk of each episode given its unsettled path, in the model's own sense.
    beta : float
        The risk level; the risks mean nothing at another.
    sense : "cost" or "reward"
        What they are.
    label : str
        What was evaluated.
    """

    risks: Floats
    beta: float
    sense: Sense
    label: str

    @property
    def erm(self) -> float:
        """Entropic risk of the closed-loop planner."""
        sign = 1.0 if self.sense == "cost" else -1.0
        return sign * erm(sign * self.risks, self.beta)

    def interval(
        self, *, confidence: float = 0.95, method: str = "percentile", resamples: int = 10_000, seed: Seed = 0
    ) -> Interval:
        """Return a bootstrap interval of :attr:`erm` over the planner's randomness."""
        sign = 1.0 if self.sense == "cost" else -1.0
        found = bootstrap_interval(
            sign * self.risks, "erm", beta=self.beta, confidence=confidence, method=method,
            resamples=resamples, seed=seed,
        )  # fmt: skip
        return found if sign > 0 else Interval(-found.high, -found.low)


def settled_states(mdp: TabularMDP, beta: float) -> tuple[NDArray[np.bool_], Floats]:
    """Return which (step, state) are settled, and the best risk-to-go in costs; both (H + 1, S).

    The worst policy at ``beta`` is the best one of the negated costs at ``-beta``.
    """
    best = np.asarray(mdp.signed(backward_induction(mdp, beta).values))
    negated = replace(
        mdp,
        costs=-mdp.costs,
        step_costs=-mdp.step_costs,
        terminal_costs=-mdp.terminal_costs,
        sense="cost",
    )
    worst = -backward_induction(negated, -beta).values
    with np.errstate(invalid="ignore"):
        settled = np.abs(worst - best) <= _SETTLED * np.maximum(1.0, np.abs(best))
    return settled, best


def settled_risk(
    mdp: TabularMDP,
    planner: TreeSearch,
    beta: float,
    *,
    episodes: int,
    iterations: int = DEFAULT_ITERATIONS,
    seed: Seed = None,
    threads: int = 1,
    label: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> SettledRisk:
    """Evaluate a planner's risk with settled outcomes integrated exactly.

    Parameters
    ----------
    mdp : TabularMDP
        The table to play.
    planner : TreeSearch
        A planner such as :class:`tailwise.ErmMcts`; its own tree and stream are left alone.
    beta : float
        Finite risk level of the evaluation.
    episodes : int
        Number of episodes, at least 1.
    iterations : int, default 1000
        Iterations of each decision.
    seed, threads, label, progress
        As for :func:`tailwise.evaluate`. The planner's stream in episode e is the one it has there.

    Returns
    -------
    SettledRisk

    Raises
    ------
    ModelError
        If ``mdp`` is not a table or the horizons differ.

    Examples
    --------
    >>> from tailwise import ErmMcts, domains
    >>> from tailwise.evaluation import settled_risk
    >>> mdp = domains.make("grid-mdp")
    >>> result = settled_risk(mdp, ErmMcts(mdp, 0.1), 0.1, episodes=10, iterations=300, seed=0)
    >>> result.erm > 9.711820  # no planner beats the optimum, and here luck cannot either
    True
    """
    if not isinstance(mdp, TabularMDP):
        raise ModelError(f"settled_risk needs a TabularMDP, not {type(mdp).__name__}; use evaluate")
    level = real(beta, "beta")
    count = integer(episodes, "episodes", low=1)
    root = seed_sequence(seed)
    check_planner(mdp, planner)
    settled, values = settled_states(mdp, level)
    key = run_key(root)

    def one(episode: int) -> float:
        mine = planner.fresh(child(root, episode, 1))
        draws = episode_uniforms(key, episode, mdp.horizon)
        return _integrate(mdp, mine, level, iterations, settled, values, draws)

    mdp.data  # noqa: B018 - built once, before threads ask for it
    risks = in_threads(one, count, integer(threads, "threads", low=1), progress)
    name = label if label is not None else type(planner).__name__
    return SettledRisk(np.asarray(mdp.signed(risks)), level, mdp.sense, name)


def _integrate(
    mdp: TabularMDP,
    planner: TreeSearch,
    beta: float,
    iterations: int,
    settled: NDArray[np.bool_],
    values: Floats,
    draws: Floats,
) -> float:
    """Risk (of costs) of one episode given its unsettled path."""
    state, accrued, alive, factor = mdp.start, 0.0, 1.0, 1.0
    risks: list[float] = []
    weights: list[float] = []
    for h in range(mdp.horizon):
        action = planner.plan(iterations).action
        open_outcomes = []
        for chance, target, cost, done in mdp.outcomes(state, action, h):
            paid = accrued + factor * float(mdp.signed(cost))
            if done or settled[h + 1, target]:
                risks.append(paid if done else paid + factor * mdp.discount * float(values[h + 1, target]))
                weights.append(alive * chance)
            else:
                open_outcomes.append((chance, target, cost, paid))
        if not open_outcomes:
            break
        chances = np.array([outcome[0] for outcome in open_outcomes])
        total = float(chances.sum())
        index = int(np.searchsorted(np.cumsum(chances) / total, draws[h], side="right"))
        _, state, cost, accrued = open_outcomes[min(index, chances.size - 1)]
        alive *= total
        factor *= mdp.discount
        follow(planner, action, state, cost, h, True)
    mass = np.array(weights)
    return weighted_erm(np.array(risks), beta, mass / mass.sum())


def policy_risk(mdp: TabularMDP, policy: Any, beta: float) -> float:
    """Return the exact entropic risk of a fixed policy, which may be stochastic.

    Parameters
    ----------
    mdp : TabularMDP
        The table.
    policy : Solution, object with ``act(state, h)``, or array_like
        Action ids of shape (S,) or (H, S), or probabilities of shape (H, S, A).
    beta : float
        Finite risk level at step 0.

    Returns
    -------
    float
        In the model's own sense.

    Notes
    -----
    Backward, O(H * outcomes) in Python: for tables of up to some thousand states.

    Examples
    --------
    >>> from tailwise import backward_induction, domains
    >>> from tailwise.evaluation import policy_risk
    >>> mdp = domains.make("mdp-4")
    >>> round(policy_risk(mdp, backward_induction(mdp, 0.5), 0.5), 9)
    1.779207373
    """
    chances = policy_chances(mdp, policy)
    level = real(beta, "beta")
    values = mdp.terminal_costs.copy()
    for h in range(mdp.horizon - 1, -1, -1):
        tails = np.where(mdp.done, 0.0, mdp.discount * values[mdp.next_states]) + mdp.costs
        if mdp.step_costs.size:
            tails = tails + np.repeat(mdp.step_costs[h], np.diff(mdp.outcome_offsets))
        weights = mdp.probabilities * np.repeat(chances[h], np.diff(mdp.outcome_offsets))
        values = np.full(mdp.num_states, np.nan)
        for state in range(mdp.num_states):
            rows = mdp.action_offsets[state : state + 2]
            kept = slice(*mdp.outcome_offsets[rows])
            used = weights[kept] > 0.0
            if used.any():
                mass = weights[kept][used]
                values[state] = weighted_erm(tails[kept][used], level * mdp.discount**h, mass / mass.sum())
    return float(mdp.signed(values[mdp.start]))


def action_frequencies(mdp: TabularMDP, decisions: NDArray[np.int32]) -> Floats:
    """Return how often each action was taken: float64, shape (H, S, A), each (step, state) summing to 1 or 0.

    Parameters
    ----------
    mdp : TabularMDP
        The table.
    decisions : ndarray of int32, shape (n, H, 2)
        ``Returns.decisions`` of a planner.
    """
    counts = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    for h in range(mdp.horizon):
        taken = decisions[decisions[:, h, 0] >= 0, h]
        np.add.at(counts[h], (taken[:, 0], taken[:, 1]), 1.0)
    sums = counts.sum(axis=2, keepdims=True)
    return np.asarray(counts / np.where(sums > 0, sums, 1.0))
