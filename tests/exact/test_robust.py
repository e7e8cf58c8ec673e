"""Rectangular balls, against convex programs that scipy solves, and their ends: the mean and the worst case."""

import itertools

import numpy as np
import pytest
from scipy.optimize import brentq, linprog

import tailwise
from tailwise import Expectation, RobustKL, RobustL1, WorstCase, solve
from tailwise.errors import OptionError


def random_table(seed, sense="costs", horizon=3, discount=0.9):
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(4, 0.6), size=(4, 2))
    values = rng.normal(size=(horizon, 4, 2)) * 10.0
    return tailwise.TabularMDP.from_arrays(
        chances, **{sense: values}, order="SAS", horizon=horizon, discount=discount, start=1
    )


def worst_l1(p, x, radius):
    """The linear program over (q, moved) with |q - p| <= moved, as scipy solves it."""
    n, eye = p.size, np.eye(p.size)
    found = linprog(
        np.append(-x, np.zeros(n)), A_ub=np.vstack([np.hstack([eye, -eye]), np.hstack([-eye, -eye]),
        np.append(np.zeros(n), np.ones(n))[None]]), b_ub=np.concatenate([p, -p, [radius]]),
        A_eq=np.append(np.ones(n), np.zeros(n))[None], b_eq=[1.0],
    )  # fmt: skip
    return -found.fun


def worst_kl(p, x, radius):
    """The tilted q on the edge of the ball: it is worth what the dual program is, so that no other q is worse."""

    def tilted(t):
        q = p * np.exp(t * (x - x.max()))
        return q / q.sum()

    def beyond(t):
        q = tilted(t)
        return float(np.sum(q * np.log(np.maximum(q, 1e-300) / p))) - radius

    if beyond(1e3) < 0:  # the ball has the worst outcome alone
        return float(x.max())
    t = brentq(beyond, 0.0, 1e3, xtol=1e-14)
    dual = x.max() + (np.log(p @ np.exp(t * (x - x.max()))) + radius) / t
    assert float(tilted(t) @ x) == pytest.approx(dual, abs=1e-9)
    return float(dual)


def by_hand(mdp, worst, radius):
    values = mdp.terminal_losses
    for h in range(mdp.horizon - 1, -1, -1):
        rows = []
        for r, (first, last) in enumerate(itertools.pairwise(mdp.outcome_offsets)):
            x = mdp.losses[first:last] + mdp.discount * values[mdp.next_states[first:last]]
            rows.append(mdp.step_losses[h, r] + worst(mdp.probabilities[first:last], x, radius))
        values = np.array([min(rows[a:b]) for a, b in itertools.pairwise(mdp.action_offsets)])
    return float(mdp.signed(values[mdp.start]))


@pytest.mark.parametrize("sense", ["costs", "rewards"])
@pytest.mark.parametrize("radius", [0.05, 0.7])
@pytest.mark.parametrize(("kind", "worst", "close"), [(RobustL1, worst_l1, 1e-9), (RobustKL, worst_kl, 1e-9)])
def test_values_are_those_of_convex_programs(kind, worst, close, radius, sense):
    mdp = random_table(3, sense)
    policy = solve(mdp, kind(radius))
    assert policy.value == pytest.approx(by_hand(mdp, worst, radius), abs=10 * close)
    assert policy.q_values[0, mdp.start].tolist() == pytest.approx(
        [policy.action_values(0)[mdp.start, a] for a in (0, 1)]
    )
    best = min if sense == "costs" else max
    assert best(policy.q_values[0, mdp.start]) == pytest.approx(policy.value, rel=1e-12)


@pytest.mark.parametrize("kind", [RobustL1, RobustKL])
def test_from_the_mean_to_the_worst_case(kind):
    mdp = random_table(5)
    mean, worst = solve(mdp, Expectation()), solve(mdp, WorstCase())
    values = [solve(mdp, kind(radius)).value for radius in (0.0, 1e-9, 1e-3, 0.1, 1.0, 5.0, 2000.0)]
    assert values[0] == pytest.approx(mean.value, rel=1e-12)
    assert values[1] == pytest.approx(mean.value, abs=1e-2)
    assert values[-1] == pytest.approx(worst.value, rel=1e-12)
    assert all(a <= b for a, b in itertools.pairwise(values))
    np.testing.assert_array_equal(solve(mdp, kind(0.0)).policy, mean.policy)
    assert str(solve(mdp, kind(0.1))).count("balls of radius 0.1") == 1


def test_a_radius_is_a_number_that_is_not_negative():
    for make in (lambda: RobustKL(-1.0), lambda: RobustL1(), lambda: RobustL1(0.1, 0.9), lambda: RobustKL(None, 1.0)):
        with pytest.raises(OptionError):
            make()
    with pytest.raises(OptionError, match="not made by learn_model"):
        solve(random_table(1), RobustL1(confidence=0.9))
