"""Exact distributions of totals, and how far samples stray from them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from small_tables import random_table
from tailwise.domains import make
from tailwise.errors import ModelError, OptionError, StateError
from tailwise.evaluation import evaluate, sampling_interval
from tailwise.exact import action_frequencies, backward_induction, policy_risk, return_distribution
from tailwise.exact.distributions import grid_distribution
from tailwise.models import TabularMDP
from tailwise.planners import ErmMcts
from tailwise.risk.distribution import ReturnDistribution

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted


def enumerated(mdp, policy):
    """The law by walking every path: {total: probability}."""
    law = {}

    def walk(state, h, total, chance):
        if h == mdp.horizon:
            end = total + mdp.discount**h * mdp.terminal_cost(state)
            law[end] = law.get(end, 0.0) + chance
            return
        for probability, target, cost, done in mdp.outcomes(state, int(policy[h, state]), h):
            paid = total + mdp.discount**h * cost
            if done:
                law[paid] = law.get(paid, 0.0) + chance * probability
            else:
                walk(target, h + 1, paid, chance * probability)

    walk(mdp.start, 0, 0.0, 1.0)
    return law


@pytest.fixture(scope="module")
def knotty():
    """Duplicate transitions with different costs, endings, terminal costs."""
    return TabularMDP.from_outcomes(
        [0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 0, 1, 1], [0, 1, 1, 1, 0, 1, 0],
        [0.5, 0.25, 0.25, 1.0, 1.0, 0.6, 0.4], [0.0, 1.0, 4.0, 1.5, 0.5, 0.0, 3.0],
        done=[False, False, False, False, False, False, True], horizon=5, discount=0.8,
        terminal_costs=[0.25, 1.0],
    )  # fmt: skip


@pytest.mark.parametrize("beta", [-0.5, 0.0, 0.7])
def test_law_is_the_enumerated_one(knotty, beta):
    solution = backward_induction(knotty, beta)
    law, paths = return_distribution(knotty, solution), enumerated(knotty, solution.policy)
    totals = np.array(sorted(paths))
    assert law.cdf(totals + 1e-9) == pytest.approx(np.cumsum([paths[t] for t in totals]), abs=1e-12)
    assert law.erm(beta) == pytest.approx(solution.value, rel=1e-13)
    assert policy_risk(knotty, solution, beta) == pytest.approx(solution.value, rel=1e-13)


KNOWN = [  # beta, mean, standard deviation, least, largest total: computed independently
    ("mdp-4", 0.1, 1.376690, 1.985840, 0.208048, 7.784233),
    ("mdp-4", 0.5, 1.753463, 0.307036, 0.825089, 3.300643),
    ("mdp-4", 1.0, 1.777041, 0.166686, 0.938689, 2.521225),
    ("grid-mdp", 0.01, 5.549873, 9.215587, 3.940399, 62.010823),
    ("grid-mdp", 0.1, 8.038962, 3.118606, 7.725531, 39.068700),
]


@pytest.mark.parametrize(("name", "beta", "mean", "std", "least", "largest"), KNOWN)
def test_laws_of_the_papers_problems(name, beta, mean, std, least, largest):
    mdp = make(name)
    solution = backward_induction(mdp, beta)
    law = return_distribution(mdp, solution)
    assert (law.mean, law.std, law.minimum, law.maximum) == pytest.approx((mean, std, least, largest), abs=1e-6)
    assert law.erm(beta) == pytest.approx(solution.value, rel=1e-12)


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "beta"), [row[:2] for row in KNOWN])
def test_a_million_episodes_follow_the_exact_law(name, beta):
    # Kolmogorov-Smirnov at level 0.1 % per problem (conservative: the laws are discrete); seed fixed.
    mdp = make(name)
    solution = backward_induction(mdp, beta)
    law = return_distribution(mdp, solution)
    sample = evaluate(mdp, solution, episodes=1_000_000, seed=2026).costs
    _, p_value = law.kolmogorov_smirnov(sample)
    assert p_value > 0.001
    # The test can fail: the law of another policy is found out.
    other = return_distribution(mdp, backward_induction(mdp, 5.0))
    assert other.kolmogorov_smirnov(sample)[1] < 1e-6


def test_tolerance_bounds_every_move():
    mdp = make("mdp-4")
    solution = backward_induction(mdp, 0.1)
    exact = return_distribution(mdp, solution)
    rough = return_distribution(mdp, solution, tolerance=1e-3)
    assert rough.atoms < exact.atoms / 4
    assert rough.tolerance == 1e-3
    points = np.linspace(0, 8, 200)
    assert (rough.cdf(points + 1e-3) >= exact.cdf(points) - 1e-10).all()
    assert (rough.cdf(points - 1e-3) <= exact.cdf(points) + 1e-10).all()
    assert rough.mean == pytest.approx(exact.mean, abs=1e-12)  # cells keep their mean


def test_stochastic_policies_are_mixtures(knotty):
    half = np.zeros((5, 2, 2))
    half[:] = 0.5
    half[0, 0] = [1.0, 0.0]
    law = return_distribution(knotty, half)
    paths = {}
    for choice in itertools.product((0, 1), repeat=8):
        policy = np.zeros((5, 2), dtype=int)
        policy[1:] = np.reshape(choice, (4, 2))
        for total, chance in enumerated(knotty, policy).items():
            paths[round(total, 12)] = paths.get(round(total, 12), 0.0) + chance / 2**8
    totals = np.array(sorted(paths))
    assert law.cdf(totals + 1e-9) == pytest.approx(np.cumsum([paths[t] for t in totals]), abs=1e-12)
    assert policy_risk(knotty, half, 0.6) == pytest.approx(law.erm(0.6), rel=1e-12)


def test_rewards_have_the_mirrored_law(knotty):
    mirrored = replace(knotty, sense="reward")
    solution = backward_induction(knotty, 0.4)
    law, reward_law = return_distribution(knotty, solution), return_distribution(mirrored, solution.policy)
    assert np.array_equal(reward_law.costs, -law.costs[::-1])
    assert reward_law.erm(0.4) == -law.erm(0.4)


def test_limits_and_gaps_are_named(knotty):
    solution = backward_induction(knotty, 0.4)
    with pytest.raises(OptionError, match="tolerance="):
        return_distribution(knotty, [0, 0], max_atoms=3)
    with pytest.raises(StateError, match="no action in state 1"):
        return_distribution(knotty, [0, -1])
    with pytest.raises(OptionError, match="sum to 1"):
        return_distribution(knotty, np.full((5, 2, 2), 0.3))
    with pytest.raises(OptionError, match="sample is empty"):
        return_distribution(knotty, solution).kolmogorov_smirnov([])


def test_sampling_interval_is_that_of_repeated_experiments():
    # Known for 100 optimal episodes (5 % and 95 %): see the reference values in the names.
    for name, beta, low, high in (("mdp-4", 0.5, 1.72, 1.84), ("grid-mdp", 0.01, 4.59, 8.17)):
        mdp = make(name)
        law = return_distribution(mdp, backward_induction(mdp, beta))
        assert sampling_interval(law, beta, episodes=100) == pytest.approx((low, high), abs=0.03)
    mirrored = replace(make("mdp-4"), sense="reward")
    reward_law = return_distribution(mirrored, backward_induction(make("mdp-4"), 0.5).policy)
    low, high = sampling_interval(reward_law, 0.5, episodes=100)
    assert -1.9 < low < -1.75 < high < -1.7


@pytest.mark.compiled
def test_frequencies_of_recorded_decisions():
    mdp = make("mdp-4")
    returns = evaluate(mdp, ErmMcts(mdp, 1.0), episodes=30, iterations=100, seed=0)
    shares = action_frequencies(mdp, returns.decisions)
    assert shares.shape == (20, 4, 2)
    sums = shares.sum(axis=2)
    assert set(np.round(sums, 12).ravel()) == {0.0, 1.0}
    assert sums[0].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert policy_risk(mdp, shares, 1.0) >= backward_induction(mdp, 1.0).value


def test_totals_that_differ_in_rounding_alone_are_one_atom_to_the_test():
    """0.1 + 0.2 and 0.3 are neighbouring doubles: no room for a cut between them."""
    near = np.array([0.3, 0.1 + 0.2, 1.0])
    law = ReturnDistribution(near.copy(), np.array([0.25, 0.25, 0.5]))
    for sample in (near[[0, 0, 2, 2]], near[[1, 1, 2, 2]]):
        assert law.kolmogorov_smirnov(sample)[0] == 0.0
    assert law.kolmogorov_smirnov(near[[2, 2, 2, 2]])[0] == 0.5
    for unit in (1e-12, 1e12):
        law = ReturnDistribution(unit * np.array([0.0, 1.0, 1e9]), np.array([0.5, 0.25, 0.25]))
        assert law.kolmogorov_smirnov(unit * np.array([1e-17, 0.0, 1.0, 1e9]))[0] == 0.0
        assert law.kolmogorov_smirnov(unit * np.array([0.0, 1.0, 1.0, 1e9]))[0] == 0.25


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_the_law_on_a_grid_keeps_to_its_bounds(sense):
    mdp = random_table(3, horizon=6, sense=sense, ends=True)
    solution = backward_induction(mdp, 0.3)
    law, near = return_distribution(mdp, solution), grid_distribution(mdp, solution)
    spacing = near.tolerance / (mdp.horizon + 1)
    sign = 1.0 if sense == "cost" else -1.0
    assert near.mean == pytest.approx(law.mean, abs=1e-9)
    assert near.probabilities.sum() == pytest.approx(1.0)
    assert law.minimum - near.tolerance <= near.minimum <= near.maximum <= law.maximum + near.tolerance
    for measure, slack in (("erm", 0.3 * (mdp.horizon + 1) * spacing**2 / 8), ("cvar", near.tolerance)):
        level = 0.3 if measure == "erm" else 0.9
        more = sign * (getattr(near, measure)(level) - getattr(law, measure)(level))
        assert -1e-9 <= more <= slack + 1e-9


def test_what_is_of_tables_says_so_of_simulators():
    battery = make("battery")
    with pytest.raises(ModelError, match="policy_risk needs a TabularMDP"):
        policy_risk(battery, [], 0.1)
    with pytest.raises(ModelError, match="action_frequencies needs a TabularMDP"):
        action_frequencies(battery, np.zeros((1, 1), np.int32))


def test_an_exact_distribution_is_a_table():
    law = ReturnDistribution(np.array([1.0, 2.0]), np.array([0.25, 0.75]))
    assert law.to_columns() == {"total": [1.0, 2.0], "probability": [0.25, 0.75]}
