"""Objectives: formula on samples and distributions, sign rule, words, and what they become later."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailwise import (
    ERM,
    CVaR,
    EVaR,
    Exceedance,
    Expectation,
    ExpectedUtility,
    NestedCVaR,
    WorstCase,
    erm,
)
from tailwise.errors import OptionError
from tailwise.risk import Objective, as_objective, conditional_value_at_risk, entropic_value_at_risk
from tailwise.risk.objectives import OBJECTIVES, Budgeted

TOTALS = np.array([1.0, 2.0, 4.0, 10.0])
CHANCES = np.array([0.4, 0.3, 0.2, 0.1])


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        (Expectation(), 2.8),
        (ERM(0.5), math.log(float(CHANCES @ np.exp(0.5 * TOTALS))) / 0.5),
        (CVaR(0.8), (0.1 * 10 + 0.1 * 4) / 0.2),
        (EVaR(0.8), entropic_value_at_risk(TOTALS, 0.8, CHANCES)),
        (WorstCase(), 10.0),
        (Exceedance(2.0), 0.3),
        (ExpectedUtility(lambda total: total**2), 0.4 + 1.2 + 3.2 + 10.0),
    ],
)
def test_formula_on_a_distribution(objective, expected):
    assert objective.of(TOTALS, CHANCES) == pytest.approx(expected, rel=1e-12)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8), st.floats(0.0, 0.99))
def test_rewards_are_negated_costs(totals, level):
    """The sign rule, for every objective but the two whose arguments are in the model's own sense."""
    negated = [0.0 - total for total in totals]
    for objective in (Expectation(), ERM(level), CVaR(level), EVaR(level), WorstCase()):
        assert objective.of(totals, sense="reward") == 0.0 - objective.of(negated)
    assert Exceedance(level).of(totals, sense="reward") == Exceedance(-level).of(negated)


def test_arguments_of_rewards_are_rewards():
    assert Exceedance(2.0).of(TOTALS, CHANCES, sense="reward") == pytest.approx(0.4)
    assert ExpectedUtility(math.sqrt).of(TOTALS, CHANCES, sense="reward") == pytest.approx(
        float(CHANCES @ np.sqrt(TOTALS))
    )


@given(st.floats(1e-9, 1e9))
def test_a_threshold_is_compared_with_each_total_and_not_with_the_largest(scale):
    totals = np.array([1.0, 1.0 + 1e-6, 1e12]) * scale
    assert Exceedance(scale).of(totals) == pytest.approx(2 / 3)


def test_a_total_that_differs_in_its_last_digits_is_not_worse():
    assert Exceedance(0.3).of([0.1 + 0.2]) == 0.0
    assert Exceedance(0.3).of([math.inf]) == 1.0


def test_a_budget_measures_its_objective():
    budgeted = Expectation().within(CVaR(0.8), 7.5)
    assert budgeted.of(TOTALS, CHANCES) == Expectation().of(TOTALS, CHANCES)
    assert budgeted.words == "mean, with CVaR at level 0.8 within 7.5"
    assert budgeted.needs_accrued


def test_later_the_level_of_an_erm_is_discounted_and_others_stay():
    assert ERM(2.0).later(0.25) == ERM(0.5)
    assert CVaR(0.9).later(0.25) == CVaR(0.9)
    assert Expectation().within(ERM(2.0), 5.0).later(0.5) == Expectation().within(ERM(1.0), 5.0)


def test_a_number_is_an_erm():
    assert as_objective(3) == ERM(3.0)
    assert as_objective(np.float64(0.5)) == ERM(0.5)
    assert as_objective(CVaR(0.5)) == CVaR(0.5)
    assert Expectation().within(0.5, 3).risk == ERM(0.5)


@pytest.mark.parametrize("wrong", ["cvar", None, True, [0.5]])
def test_what_is_no_objective_is_refused(wrong):
    with pytest.raises(OptionError, match="Expectation, ERM, EVaR, CVaR"):
        as_objective(wrong)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ERM(math.inf),
        lambda: ERM(math.nan),
        lambda: CVaR(1.5),
        lambda: EVaR("0.9"),
        lambda: NestedCVaR(-0.1),
        lambda: Exceedance(math.inf),
        lambda: ExpectedUtility(3.0),
        lambda: Expectation().within(CVaR(0.9), math.nan),
        lambda: Expectation().within(CVaR(0.9), 3).within(CVaR(0.5), 2),
    ],
)
def test_nonsense_is_refused(make):
    with pytest.raises(OptionError):
        make()


def test_nested_cvar_is_no_function_of_the_total():
    with pytest.raises(OptionError, match="nested CVaR"):
        NestedCVaR(0.9).of(TOTALS)


def test_objectives_are_values_with_words():
    given_words = {str(made) for made in (ERM(0.5), CVaR(0.95), EVaR(0.9), NestedCVaR(0.9), Exceedance(1e6))}
    assert given_words == {
        "ERM at beta 0.5", "CVaR at level 0.95", "EVaR at level 0.9", "nested CVaR at level 0.9",
        "probability of a total worse than 1000000",
    }  # fmt: skip
    assert hash(CVaR(0.95)) == hash(CVaR(0.95))
    assert {kind for kind in OBJECTIVES if kind.needs_accrued} == {CVaR, Exceedance, ExpectedUtility, Budgeted}
    assert all(issubclass(kind, Objective) for kind in OBJECTIVES)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6), st.floats(-2, 2), st.floats(0, 1))
def test_the_functions_of_samples_are_the_same(totals, beta, level):
    assert ERM(beta).of(totals) == erm(totals, beta)
    assert CVaR(level).of(totals) == conditional_value_at_risk(totals, level)
