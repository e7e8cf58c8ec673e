"""Conditional Monte Carlo: exact where it can be, without bias elsewhere, and the totals of ``evaluate`` besides."""

from dataclasses import replace

import numpy as np
import pytest

from tailwise.domains import make
from tailwise.errors import ModelError
from tailwise.evaluation import evaluate
from tailwise.exact import backward_induction, policy_risk, return_distribution
from tailwise.planners import AccMcts, ErmMcts
from tailwise.reproduction import certain_states, conditional_returns
from tailwise.risk import erm

pytestmark = pytest.mark.compiled  # interpreted, a search of this length takes half a minute


def test_only_tables_can_be_integrated():
    with pytest.raises(ModelError, match="TabularMDP"):
        conditional_returns(object(), None, episodes=1)


def test_certain_states_of_the_grid():
    mdp = make("grid-mdp")
    certain, tails = certain_states(mdp)
    pit, target = 15, 0
    assert certain[:, pit].all()
    assert certain[:, target].all()
    assert certain[-1].all()
    assert not certain[0, mdp.start]
    assert not certain[13, 3]  # beside the target, one step to spare: up and stay differ
    assert tails[5, pit] == pytest.approx(5 * (1 - 0.99**10) / (1 - 0.99))


class Scripted(ErmMcts):
    """A planner that does what a fixed policy says: its law is known exactly."""

    policy = None

    def plan(self, iterations=None, seconds=None, **options):
        plan = super().plan(iterations=1)
        return replace(plan, action=int(self.policy[self.step, self.state]))


@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_integrated_law_of_a_scripted_planner_is_exact(sense):
    mdp = replace(make("grid-mdp"), sense=sense)
    for beta in (0.01, 0.1):
        planner = Scripted(mdp, beta)
        planner.policy = backward_induction(mdp, beta).policy
        found = conditional_returns(mdp, planner, episodes=3, seed=0)
        assert found.erm(beta) == pytest.approx(backward_induction(mdp, beta).value, rel=1e-12)
        law = return_distribution(mdp, planner.policy)
        assert (found.mean, found.std) == pytest.approx((law.mean, law.std), rel=1e-9)
        assert np.ptp(found.conditional_erms(beta)) < 1e-12  # all luck in this grid is integrated
        assert found.interval(beta=beta).low == pytest.approx(found.erm(beta))


@pytest.mark.parametrize(("name", "kind"), [("grid-mdp", ErmMcts), ("grid-mdp", AccMcts), ("mdp-4", ErmMcts)])
def test_the_totals_drawn_are_those_of_evaluate(name, kind):
    mdp = make(name).with_options(horizon=8)
    if name == "grid-mdp":  # make falls common, so that both kinds of draw happen
        mdp = replace(mdp, probabilities=np.where(mdp.probabilities == 0.01, 0.4, mdp.probabilities))
        mdp = replace(mdp, probabilities=np.where(mdp.probabilities == 0.99, 0.6, mdp.probabilities))
        mdp = mdp.with_options(start="(2,0)")
    runs = [
        function(mdp, kind(mdp, 0.1), episodes=40, iterations=30, seed=5)
        for function in (evaluate, conditional_returns)
    ]
    assert np.array_equal(runs[0].costs, runs[1].returns.costs)
    assert runs[0].streams == runs[1].returns.streams
    assert np.unique(runs[0].costs).size > 3


def test_integrated_law_is_unbiased_where_not_all_luck_is_integrated():
    mdp = make("mdp-4").with_options(horizon=4)
    planner = Scripted(mdp, 1.0)
    planner.policy = backward_induction(mdp, 0.1).policy
    found = conditional_returns(mdp, planner, episodes=400, seed=0)
    exact = policy_risk(mdp, planner.policy, 1.0)
    moments = np.exp(found.conditional_erms(1.0))
    # Error rate 1 in 10^4: 4 standard errors.
    assert abs(moments.mean() - np.exp(exact)) < 4 * moments.std() / 20
    assert found.erm(1.0) == pytest.approx(erm(found.conditional_erms(1.0), 1.0))
