"""From statements to betas: closed forms, certificates checked on exact laws, and clear errors."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from small_tables import random_table
from tailwise import EVaR, TabularMDP, backward_induction, choose_beta, domains, erm, solve
from tailwise.cli.app import app
from tailwise.errors import ModelError, OptionError
from tailwise.exact import return_distribution


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(0.1, 1e4))
def test_indifference_is_where_the_lottery_is_worth_the_sure_cost(chance, share, amount):
    sure = share * amount
    choice = choose_beta(indifference=(sure, chance, amount))
    assert erm([0.0, amount], choice.beta, weights=[1 - chance, chance]) == pytest.approx(sure, rel=1e-9)
    assert (choice.beta > 0) == (sure > chance * amount) or sure == pytest.approx(chance * amount, rel=1e-9)


def test_a_half_chance_has_a_closed_form():
    """p = 1/2, k = 2: ln cosh(beta) / beta + 1 = c."""
    for beta in (0.3, 2.0):
        sure = 1 + math.log(math.cosh(beta)) / beta
        assert choose_beta(indifference=(sure, 0.5, 2.0)).beta == pytest.approx(beta, rel=1e-10)
    assert choose_beta(indifference=(1.0, 0.5, 2.0)).beta == pytest.approx(0.0, abs=1e-12)


def test_a_disaster():
    assert choose_beta(disaster=200.0).beta == 1 / 200
    choice = choose_beta(disaster=100.0, probability=0.01)
    assert choice.beta == pytest.approx(math.log(100) / 100)
    assert "counts as a sure 14.94" in choice.sentence


@pytest.mark.compiled
def test_the_worst_part_is_the_beta_of_least_evar():
    for name in ("mdp-4", "grid-mdp"):
        mdp = domains.make(name)
        choice, plan = choose_beta(mdp, level=0.9), solve(mdp, EVaR(0.9))
        if plan.beta < math.inf:
            assert (choice.beta, choice.bound) == (plan.beta, plan.value)
        else:  # the worst case is best: a beta is chosen whose bound is all but that
            assert choice.beta < 1000.0
            assert plan.value <= choice.bound <= 1.02 * plan.value
        assert return_distribution(mdp, backward_induction(mdp, choice.beta)).cvar(0.9) <= choice.bound + 1e-9


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_a_budget_is_kept_and_no_smaller_beta_certifies_it(sense):
    met = 0
    for seed in range(8):
        mdp = random_table(seed, sense=sense)
        sign = 1.0 if sense == "cost" else -1.0
        for share in (0.05, 0.3):
            least = solve(mdp, EVaR(1 - share))
            budget = least.value + sign * 0.2
            choice = choose_beta(mdp, budget=budget, probability=share)
            law = return_distribution(mdp, backward_induction(mdp, choice.beta))
            assert law.exceedance(budget) <= share
            bound = sign * backward_induction(mdp, choice.beta).value - math.log(share) / choice.beta
            assert bound <= sign * budget + 1e-7
            for smaller in (0.2, 0.6, 0.9, 0.99):
                beta = smaller * choice.beta
                assert sign * backward_induction(mdp, beta).value - math.log(share) / beta > sign * budget
            met += 1
            with pytest.raises(OptionError, match="no beta certifies"):
                choose_beta(mdp, budget=least.value - sign * 0.2, probability=share)
    assert met == 16


@pytest.mark.compiled
def test_one_coin_has_the_chernoff_bound_of_the_textbook():
    """n coins: the smallest beta with n ln((1 + e^beta)/2) + ln(1/p) <= beta x."""
    coins = TabularMDP.from_outcomes([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 1.0], horizon=20)
    beta = choose_beta(coins, budget=17.0, probability=0.05).beta
    assert 20 * math.log((1 + math.exp(beta)) / 2) + math.log(20) == pytest.approx(17 * beta, rel=1e-9)
    below = 0.999 * beta
    assert 20 * math.log((1 + math.exp(below)) / 2) + math.log(20) > 17 * below


@pytest.mark.compiled
def test_the_effect_on_the_decision_is_said():
    grid = domains.make("grid-mdp")
    assert "Take right; the risk-neutral plan takes up." in choose_beta(grid, disaster=10.0).effect
    assert "as the risk-neutral plan does" in choose_beta(grid, disaster=1000.0).effect
    assert "8.03896 instead of 5.54987" in choose_beta(grid, disaster=10.0).effect


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "say one thing.*none"),
        ({"level": 0.9, "disaster": 1.0}, "level= and disaster="),
        ({"level": 0.9}, "level= needs the model"),
        ({"budget": 1.0, "probability": 0.1}, "budget= needs the model"),
        ({"indifference": (30.0, 0.1, 20.0)}, "between 0 and 20"),
        ({"indifference": (30.0, 1.0, 100.0)}, "chance"),
        ({"indifference": 3}, r"\(sure, chance, amount\)"),
        ({"disaster": -1.0}, "disaster"),
        ({"disaster": 1.0, "probability": 0.0}, "probability"),
        ({"indifference": (1.0, 0.5, 2.0), "probability": 0.1}, "goes with budget="),
    ],
)
def test_nonsense_is_explained(options, message):
    with pytest.raises(OptionError, match=message):
        choose_beta(**options)


def test_more_nonsense():
    with pytest.raises(OptionError, match="needs probability="):
        choose_beta(domains.make("mdp-4"), budget=1.0)
    with pytest.raises(OptionError, match="worst 5 %"):
        choose_beta(domains.make("mdp-4"), level=95)
    with pytest.raises(ModelError, match="TabularMDP"):
        choose_beta(domains.make("sailing"), disaster=1.0)


@pytest.mark.compiled
def test_the_command():
    runner = CliRunner()
    content = json.loads(runner.invoke(app, ["beta", "--indifference", "30,0.1,100", "--json"]).stdout)
    assert content["beta"] == pytest.approx(choose_beta(indifference=(30.0, 0.1, 100.0)).beta)
    text = runner.invoke(app, ["beta", "grid-mdp", "--disaster", "10"]).output
    assert "beta = 0.1" in text
    assert "the risk-neutral plan takes up" in text
    with pytest.raises(OptionError, match="SURE,CHANCE,AMOUNT"):
        runner.invoke(app, ["beta", "--indifference", "30"], catch_exceptions=False)


@pytest.mark.compiled
def test_a_certificate_that_is_out_of_reach_by_a_little_is_refused():
    """Two coins, budget 2, their worst case: ``2 ln((1 + e^b) / 2) + ln(1/p) > 2 b`` at every b if p < 1/4."""
    coins = TabularMDP.from_outcomes([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 1.0], horizon=2)
    with pytest.raises(OptionError, match="no beta certifies"):
        choose_beta(coins, budget=2.0, probability=0.05)
    kept = choose_beta(coins, budget=2.0, probability=0.3)
    assert backward_induction(coins, kept.beta).value + math.log(1 / 0.3) / kept.beta <= 2.0 + 1e-9
