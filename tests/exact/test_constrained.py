"""The least mean within a risk budget, against every history-dependent policy there is."""

import numpy as np
import pytest

from small_tables import all_laws, random_table
from tailwise import TabularMDP, backward_induction, constrained_planning, cvar_planning, domains, erm
from tailwise.errors import OptionError
from tailwise.exact import constrained
from tailwise.exact.grid_totals import GridTotals
from tailwise.risk import conditional_value_at_risk


def followed(mdp, plan, state=None, h=0, accrued=0.0):
    """Totals and probabilities when the plan's ``act`` is followed, history by history."""
    state = mdp.start if state is None else state
    if h == mdp.horizon:
        return [(accrued + mdp.discount**h * mdp.terminal_cost(state), 1.0)]
    law = []
    for probability, target, cost, done in mdp.outcomes(state, plan.act(state, h, accrued), h):
        paid = accrued + mdp.discount**h * cost
        law += [(x, probability * p) for x, p in ([(paid, 1.0)] if done else followed(mdp, plan, target, h + 1, paid))]
    return law


def measures(mdp, options):
    if "level" in options:
        return lambda costs, weights: conditional_value_at_risk(costs, options["level"], weights)
    return lambda costs, weights: erm(costs, options["beta"], weights)


@pytest.mark.parametrize("sense", ["cost", "reward"])
@pytest.mark.parametrize("options", [{"level": 0.7}, {"level": 0.3}, {"beta": 0.5}, {"beta": 2.0}])
def test_the_budget_is_kept_and_the_bound_holds(options, sense):
    binding = 0
    for seed in range(24):
        mdp = random_table(seed, sense=sense, ends=seed % 2 == 1)
        sign = 1.0 if sense == "cost" else -1.0
        risk = measures(mdp, options)
        laws = [(sign * np.array(law).T[0], np.array(law).T[1]) for law in all_laws(mdp)]
        risks = np.array([risk(*law) for law in laws])
        means = np.array([np.dot(*law) for law in laws])
        if risks[means.argmin()] - risks.min() < 0.1:
            continue  # the plan of least mean has the least risk, too: nothing to constrain
        for share in (0.05, 0.5, 1.2):
            budget = float(risks.min() + share * (risks[means.argmin()] - risks.min())) + 1e-7
            plan = constrained_planning(mdp, sign * budget, **options)
            least = means[risks <= budget].min()  # the best deterministic plan within the budget
            value = sign * plan.value
            assert value - plan.gap - 1e-7 <= least <= value + 1e-7
            totals, weights = np.array(followed(mdp, plan)).T
            assert risk(sign * totals, weights) <= budget + 1e-7
            assert risk(sign * totals, weights) == pytest.approx(sign * plan.risk, abs=1e-7)
            assert np.dot(totals, weights) == pytest.approx(plan.value, abs=1e-7)
            binding += least > means.min() + 1e-6
            with pytest.raises(OptionError, match="no plan was found that keeps the"):
                constrained_planning(mdp, sign * float(risks.min() - 0.1), **options)
    assert binding >= 2


def test_a_loose_budget_changes_nothing():
    mdp = random_table(1)
    for options in ({"level": 0.9}, {"beta": 1.0}):
        plan = constrained_planning(mdp, 1e3, **options)
        assert plan.value == pytest.approx(backward_induction(mdp, 0.0).value)
        assert (plan.gap, plan.multiplier) == (pytest.approx(0.0, abs=1e-9), 0.0)


@pytest.mark.compiled
def test_the_paper_s_problems():
    grid = domains.make("grid-mdp")
    for budget in (14.0, 20.0, 36.2):
        plan = constrained_planning(grid, budget, level=0.95)
        assert plan.risk <= budget + 1e-9
        assert backward_induction(grid, 0.0).value <= plan.value
    assert plan.value == pytest.approx(backward_induction(grid, 0.0).value)
    kept = constrained_planning(grid, 12.0, beta=0.1)
    assert kept.risk <= 12.0
    assert kept.value - kept.gap <= kept.value <= 9.712


@pytest.mark.compiled
@pytest.mark.parametrize("options", [{"level": 0.5}, {"beta": 1.0}])
def test_on_a_grid_the_bound_holds_and_the_budget_is_kept(options, monkeypatch):
    monkeypatch.setattr(constrained, "reach_totals", lambda table, **_: GridTotals.over(table))
    for seed in range(4):
        mdp = random_table(seed, horizon=3)
        risk = measures(mdp, options)
        laws = [np.array(law).T for law in all_laws(mdp)]
        risks, means = np.array([risk(*law) for law in laws]), np.array([np.dot(*law) for law in laws])
        budget = float((risks.min() + risks[means.argmin()]) / 2) + 0.05
        plan = constrained_planning(mdp, budget, **options)
        least = means[risks <= budget].min()
        assert plan.value - plan.gap - 1e-7 <= least <= plan.value + 0.02
        totals, weights = np.array(followed(mdp, plan)).T
        assert plan.risk <= budget + 1e-9
        assert risk(totals, weights) == pytest.approx(plan.risk, abs=1e-9)  # as it is followed
        assert np.dot(totals, weights) == pytest.approx(plan.value, abs=1e-9)


@pytest.mark.compiled
def test_a_plan_that_breaks_its_budget_as_it_is_followed_is_an_error(monkeypatch):
    """No grid was found that is so wrong: here the plans are made to cost 10 more than the grid says."""
    true_law = GridTotals.followed

    def dearer(self, chosen):
        totals, weights = true_law(self, chosen)
        return totals + 10.0, weights

    monkeypatch.setattr(constrained, "reach_totals", lambda table, **_: GridTotals.over(table))
    monkeypatch.setattr(GridTotals, "followed", dearer)
    mdp = random_table(0, horizon=3)
    budget = cvar_planning(mdp, 0.5).value + 0.5
    with pytest.raises(OptionError, match=r"keeps to the budget .* as it is followed: .* a risk of"):
        constrained_planning(mdp, budget, level=0.5)


def test_nonsense_is_explained():
    mdp = random_table(0)
    least = cvar_planning(mdp, 0.9).value
    with pytest.raises(OptionError, match=f"the least that any plan can have is {least:.6f}"[:44]):
        constrained_planning(mdp, least - 1.0, level=0.9)
    for options in ({}, {"level": 0.5, "beta": 1.0}):
        with pytest.raises(OptionError, match="one of the two"):
            constrained_planning(mdp, 1.0, **options)
    with pytest.raises(OptionError, match="beta"):
        constrained_planning(mdp, 1.0, beta=0.0)


@pytest.mark.parametrize(("unit", "offset"), [(1e-9, 0.0), (1e6, 0.0), (1.0, 1e6)])
def test_the_unit_of_the_costs_does_not_matter(unit, offset):
    """One lottery per action: the budget is the risk of the middle one, exactly."""
    costs = offset + unit * np.array([0.0, 4.0, 1.0, 3.0, 2.6])
    mdp = TabularMDP.from_outcomes(
        [0] * 5, [0, 0, 1, 1, 2], [0] * 5, [0.5, 0.5, 0.5, 0.5, 1.0], costs, horizon=1
    )  # means 2, 2, 2.6; risks in this order, falling
    for options in ({"level": 0.5}, {"beta": 1.0 / unit}):
        risk = measures(mdp, options)
        budget = risk(costs[2:4], np.array([0.5, 0.5]))
        plan = constrained_planning(mdp, budget, **options)
        assert plan.action == 1
        assert plan.value == pytest.approx(offset + 2.0 * unit, abs=1e-6 * unit)
        plan = constrained_planning(mdp, float(costs[4]), **options)
        assert plan.risk <= costs[4] + 1e-6 * unit
        with pytest.raises(OptionError, match="no plan was found"):
            constrained_planning(mdp, budget - 2.0 * unit, **options)
