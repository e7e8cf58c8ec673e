"""EVaR-optimal plans against every policy there is, closed forms, and the stated gap."""

import math

import numpy as np
import pytest

from small_tables import best, random_table
from tailwise import CVaR, EVaR, NestedCVaR, TabularMDP, WorstCase, backward_induction, domains, solve
from tailwise.errors import OptionError
from tailwise.exact import return_distribution
from tailwise.risk import entropic_value_at_risk

LEVELS = (0.05, 0.5, 0.9, 0.99)


def own_evar(mdp, plan, level):
    """EVaR of the plan's exact law, in costs."""
    law = return_distribution(mdp, plan)
    return entropic_value_at_risk(mdp.signed(law.costs), level, law.probabilities)


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_it_equals_brute_force_over_all_history_dependent_policies(sense):
    for seed in range(8):
        mdp = random_table(seed, sense=sense, ends=seed % 2 == 1)
        for level in LEVELS:
            plan = solve(mdp, EVaR(level), tolerance=1e-4)
            least = best(mdp, lambda costs, weights, level=level: entropic_value_at_risk(costs, level, weights))
            value, least = (float(mdp.signed(x)) for x in (plan.value, least))
            assert plan.gap <= 1e-4
            assert least - 1e-9 <= value <= least + plan.gap + 1e-9
            assert value - plan.gap - 1e-9 <= own_evar(mdp, plan, level) <= value + 1e-9


@pytest.mark.compiled
def test_a_tighter_tolerance_stays_inside_the_looser_gap():
    mdp = domains.make("mdp-4")
    for level in LEVELS:
        loose, tight = solve(mdp, EVaR(level), tolerance=0.1), solve(mdp, EVaR(level), tolerance=1e-5)
        assert loose.solves < tight.solves
        assert loose.value - loose.gap <= tight.value <= loose.value + 1e-12
        hurried = solve(mdp, EVaR(level), tolerance=1e-13)  # what is left is said
        assert hurried.gap <= 1e-6
        assert hurried.value - hurried.gap <= tight.value + 1e-12
        assert tight.value - tight.gap <= hurried.value + 1e-12


@pytest.mark.compiled
def test_a_gaussian_total_has_the_textbook_value():
    """Sums of n fair coins are close to normal: EVaR = mean + std sqrt(2 ln(1/(1 - level))); here exactly binomial."""
    n = 40
    coin = TabularMDP.from_outcomes([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 1.0], horizon=n)
    for level in (0.5, 0.95):
        plan = solve(coin, EVaR(level), tolerance=1e-6)
        exact = min(
            (n * math.log1p(math.expm1(b) / 2) - math.log1p(-level)) / b for b in np.geomspace(1e-3, 50.0, 20_001)
        )
        assert plan.value == pytest.approx(exact, abs=2e-6)
        assert plan.value == pytest.approx(n / 2 + math.sqrt(n) / 2 * math.sqrt(-2 * math.log1p(-level)), rel=0.01)


@pytest.mark.compiled
def test_it_improves_evar_over_the_risk_neutral_plan_and_bounds_cvar():
    for name in ("mdp-4", "grid-mdp"):
        mdp = domains.make(name)
        neutral = own_evar(mdp, backward_induction(mdp, 0.0), 0.95)
        plan = solve(mdp, EVaR(0.95))
        law = return_distribution(mdp, plan)
        assert own_evar(mdp, plan, 0.95) < neutral
        assert law.quantile(0.95) <= law.cvar(0.95) <= plan.value + 1e-9
        assert law.mean >= backward_induction(mdp, 0.0).value - 1e-9


def test_a_certain_problem_needs_one_solve():
    sure = TabularMDP.from_outcomes([0], [0], [0], [1.0], [2.0], horizon=3)
    plan = solve(sure, EVaR(0.9))
    assert (plan.value, plan.gap, plan.solves, plan.action, plan.act(0, 2)) == (6.0, 0.0, 1, 0, 0)


def test_a_level_of_0_is_the_mean_and_of_1_the_worst_case():
    mdp = domains.make("grid-mdp")
    for kind in (EVaR, CVaR, NestedCVaR):
        assert solve(mdp, kind(0.0)).value == backward_induction(mdp, 0.0).value
        assert solve(mdp, kind(1.0)).value == solve(mdp, WorstCase()).value == pytest.approx(13.994164536)


@pytest.mark.compiled
def test_where_the_worst_case_is_the_best_it_is_said_and_certain():
    plan = solve(domains.make("grid-mdp"), EVaR(0.9999))
    assert (plan.beta, plan.gap) == (math.inf, 0.0)
    assert plan.value == solve(domains.make("grid-mdp"), WorstCase()).value == plan.plan().value


@pytest.mark.parametrize("level", [-0.1, 95, math.nan, "0.9"])
def test_nonsense_is_explained(level):
    with pytest.raises(OptionError, match="level must be"):
        solve(domains.make("mdp-4"), EVaR(level))
    with pytest.raises(OptionError, match="tolerance"):
        solve(domains.make("mdp-4"), EVaR(0.9), tolerance=0.0)
