"""Where each ERM-optimal policy is optimal: known switch points, a dense grid of betas, and every policy there is."""

import itertools

import numpy as np
import pytest

from small_tables import all_laws, random_table
from tailwise import TabularMDP, backward_induction, domains, erm
from tailwise.errors import OptionError
from tailwise.exact import policy_intervals, return_distribution


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("name", "high", "switch", "labels"),
    [
        ("mdp-4", 0.17, 0.14059759, ["risky", "safe"]),
        ("grid-mdp", 0.05, 0.03402361, ["up", "right"]),
    ],
)
def test_the_known_switch_points(name, high, switch, labels):
    mdp = domains.make(name)
    found = policy_intervals(mdp, 0.0, high)
    assert [mdp.action_name(piece.solution.action) for piece in found] == labels
    assert found[0].high == found[1].low == pytest.approx(switch, abs=6e-9)
    assert all(piece.certified for piece in found)


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_no_beta_of_a_dense_grid_finds_better_than_its_interval(sense):
    """At 400 betas the optimum is the ERM of the interval's policy: none was missed, each is optimal all over."""
    for seed in range(6):
        mdp = random_table(seed, states=4, horizon=5, sense=sense, ends=seed % 2 == 1)
        low, high = (-1.0, 3.0) if seed % 2 else (0.0, 3.0)
        found = policy_intervals(mdp, low, high)
        assert all(piece.certified for piece in found)
        assert (found[0].low, found[-1].high) == (low, high)
        assert all(before.high == after.low for before, after in itertools.pairwise(found))
        laws = [return_distribution(mdp, piece.solution) for piece in found]
        edges = np.array([piece.high for piece in found])
        for beta in np.linspace(low, high, 400):
            piece = min(int(np.searchsorted(edges, beta)), len(found) - 1)
            optimum = backward_induction(mdp, float(beta)).value
            assert laws[piece].erm(float(beta)) == pytest.approx(optimum, rel=1e-6, abs=1e-6)


@pytest.mark.compiled
def test_each_interval_is_best_among_all_history_dependent_policies():
    for seed in range(4):
        mdp = random_table(seed)
        laws = [np.array(law).T for law in all_laws(mdp)]
        for piece in policy_intervals(mdp, 0.0, 2.0):
            law = return_distribution(mdp, piece.solution)
            for beta in (piece.low, (piece.low + piece.high) / 2, piece.high):
                least = min(erm(totals, beta, weights) for totals, weights in laws)
                assert law.erm(beta) == pytest.approx(least, rel=1e-7, abs=1e-9)


@pytest.mark.compiled
def test_a_limit_on_solves_is_said_and_betas_must_increase():
    mdp = domains.make("mdp-4")
    assert not all(piece.certified for piece in policy_intervals(mdp, 0.0, 5.0, max_solves=10))
    with pytest.raises(OptionError, match="betas must increase: 1 is not below 0"):
        policy_intervals(mdp, 1.0, 0.0)


def test_a_policy_that_cannot_be_certified_takes_a_part_of_the_solves_and_says_so():
    lottery = [[0.5, 0.5]]
    table = TabularMDP.from_arrays(
        np.array([lottery * 2, [[0, 1]] * 2]), [[[0, 10], [1e-7, 10 + 1e-7]], [[0, 0], [0, 0]]], horizon=1, order="SAS"
    )
    solved = []
    (one,) = policy_intervals(table, 0.0, 1.0, max_solves=300, progress=lambda done, _: solved.append(done))
    assert not one.certified
    assert one.solution.action == 0
    assert 20 <= max(solved) <= 40
