"""The exact risk of fixed policies, stochastic ones included."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._validate import real
from tailwise.exact.policies import policy_chances
from tailwise.models import TabularMDP
from tailwise.risk.distribution import Floats
from tailwise.risk.entropic import weighted_erm


def policy_risk(mdp: TabularMDP, policy: Any, beta: float) -> float:
    """Return the exact entropic risk of a fixed policy, which may be stochastic.

    Parameters
    ----------
    mdp : TabularMDP
        The table.
    policy : Policy, object with ``act(state, h)``, or array_like
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
    >>> from tailwise.exact import policy_risk
    >>> mdp = domains.make("mdp-4")
    >>> round(policy_risk(mdp, backward_induction(mdp, 0.5), 0.5), 9)
    1.779207373
    """
    chances = policy_chances(mdp, policy)
    level = real(beta, "beta")
    values = mdp.terminal_losses.copy()
    for h in range(mdp.horizon - 1, -1, -1):
        tails = np.where(mdp.done, 0.0, mdp.discount * values[mdp.next_states]) + mdp.losses
        if mdp.step_losses.size:
            tails = tails + np.repeat(mdp.step_losses[h], np.diff(mdp.outcome_offsets))
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
    """Return how often a planner took each action where it came: its decisions as a stochastic policy.

    Parameters
    ----------
    mdp : TabularMDP
        The table that was played.
    decisions : ndarray of int32, shape (n, H, 2)
        ``Returns.decisions`` of a planner: state and action id of each step, -1 after the end of an episode.

    Returns
    -------
    ndarray of float64, shape (H, S, A)
        Shares that sum to 1 in each (step, state) that was visited, and to 0 elsewhere: what :func:`policy_risk` and
        :func:`return_distribution` take. The risk of this policy is close to that of the planner where the states
        visited rarely are few; it takes the planner's decisions at one state for independent of each other.

    Examples
    --------
    >>> from tailwise import ErmMcts, domains, evaluate
    >>> from tailwise.exact import action_frequencies, policy_risk
    >>> mdp = domains.make("mdp-4")
    >>> returns = evaluate(mdp, ErmMcts(mdp, 0.5), episodes=20, iterations=300, seed=0)
    >>> shares = action_frequencies(mdp, returns.decisions)
    >>> shares.shape, float(shares[0, mdp.start].sum())
    ((20, 4, 2), 1.0)
    >>> policy_risk(mdp, shares, 0.5) >= 1.779207373  # no policy is better than the optimum
    True
    """
    counts = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    for h in range(mdp.horizon):
        taken = decisions[decisions[:, h, 0] >= 0, h]
        np.add.at(counts[h], (taken[:, 0], taken[:, 1]), 1.0)
    sums = counts.sum(axis=2, keepdims=True)
    return np.asarray(counts / np.where(sums > 0, sums, 1.0))
