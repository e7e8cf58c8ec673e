"""Distributional MCTS: laws, exact optima of small tables, closed loop, and as a planner among planners."""

import numpy as np
import pytest

from small_tables import all_laws, random_table
from tailwise import DistributionalMcts, Planner, TabularMDP, backward_induction, domains, evaluate, make_planner
from tailwise.errors import OptionError
from tailwise.risk import conditional_value_at_risk


def square(total):
    return total * total


def test_one_decision_is_the_law_of_its_actions():
    """No tree below: each row's totals are independent draws; 2000 draws, 5 standard errors."""
    lottery = TabularMDP.from_outcomes([0, 0, 0], [0, 0, 1], [0, 0, 0], [0.3, 0.7, 1.0], [4.0, 1.0, 1.8], horizon=1)
    plan = DistributionalMcts(lottery, square, seed=0).plan(iterations=2000)
    first, second = plan.rows
    assert set(second.totals.tolist()) == {1.8}
    assert plan.label == "1"  # 1.8^2 = 3.24 against 0.3 * 16 + 0.7 = 5.5
    assert plan.value == pytest.approx(3.24)
    assert first.visits < 400 < second.visits  # exploration dies out
    wide = DistributionalMcts(lottery, lambda total: -total, seed=1).plan(iterations=2000).rows[0].totals
    assert abs((wide == 4.0).mean() - 0.3) < 5 * np.sqrt(0.21 / wide.size)


@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_it_comes_near_the_best_mean_utility_of_all_policies(sense):
    """3000 episodes on small tables: within 15 % of the way from the best policy to the worst."""

    def utility(total):
        return np.sign(total) * abs(total) ** 1.5

    for seed in range(6):
        mdp = random_table(seed, sense=sense, whole=True, discount=1.0)
        means = [sum(p * utility(x) for x, p in law) for law in all_laws(mdp)]
        least, most = (min(means), max(means)) if sense == "cost" else (max(means), min(means))
        plan = DistributionalMcts(mdp, utility, seed=seed).plan(iterations=3000)
        assert abs(plan.value - least) <= 0.15 * abs(most - least)


def test_a_measure_at_the_root():
    """CVaR at 75 %: 1.8 for certain beats 4 with probability 0.3."""
    lottery = TabularMDP.from_outcomes([0, 0, 0], [0, 0, 1], [0, 0, 0], [0.3, 0.7, 1.0], [2.5, 1.0, 1.8], horizon=1)
    mean = DistributionalMcts(lottery, lambda total: total, seed=0).plan(iterations=400)
    tail = DistributionalMcts(lottery, measure=lambda x: conditional_value_at_risk(x, 0.75), seed=0).plan(
        iterations=400
    )
    assert (mean.label, tail.label) == ("0", "1")
    assert tail.value == pytest.approx(1.8)


@pytest.mark.compiled
def test_it_finds_the_safe_action_of_mdp_4_and_keeps_what_it_knows():
    mdp = domains.make("mdp-4")
    search = make_planner(mdp, 0.5, kind="distributional", seed=0)
    assert isinstance(search, Planner)
    plan = search.plan(iterations=400)
    assert plan.label == "safe"
    search.advance(plan.action, 1)
    assert (search.step, search.state, search.accrued) == (1, 1, 0.0)
    later = search.plan(iterations=20)
    assert sum(row.visits for row in later.rows) > 20  # episodes of before that came this way
    search.reset(2, 19, accrued=5.0)
    assert search.plan(iterations=10).value == pytest.approx(5.0 + 0.9**19 * 0.05)


@pytest.mark.compiled
def test_closed_loop_on_a_table_and_on_a_simulator():
    mdp = domains.make("mdp-4")
    found = evaluate(mdp, make_planner(mdp, 1.0, kind="distributional"), episodes=10, iterations=60, seed=0)
    assert found.erm(1.0) < backward_induction(mdp, 1.0).value + 1.5
    model = domains.make("machine-maintenance")
    assert np.isfinite(
        evaluate(model, DistributionalMcts(model, square), episodes=2, iterations=20, seed=0).costs
    ).all()


def test_same_seed_same_plan():
    mdp = random_table(1)
    one, two = (DistributionalMcts(mdp, square, seed=3).plan(iterations=200) for _ in range(2))
    third = DistributionalMcts(mdp, square, seed=0).fresh(3).plan(iterations=200)
    assert one.value == two.value == third.value


def test_nonsense_is_explained():
    mdp = random_table(0)
    for options in ({}, {"utility": square, "measure": np.mean}):
        with pytest.raises(OptionError, match="a utility of the total or a measure="):
            DistributionalMcts(mdp, options.get("utility"), measure=options.get("measure"))
    with pytest.raises(OptionError, match="needs a limit"):
        DistributionalMcts(mdp, square).plan()
    with pytest.raises(OptionError, match="must be finite"):
        DistributionalMcts(mdp, lambda total: float("nan"), seed=0).plan(iterations=5)
    with pytest.raises(OptionError, match="replicates"):
        DistributionalMcts(mdp, square, replicates=1)
