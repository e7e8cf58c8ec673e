"""The least mean within a risk budget, against every history-dependent policy there is."""

import numpy as np
import pytest

from small_tables import all_laws, random_table
from tailwise import ERM, CVaR, EVaR, Expectation, TabularMDP, WorstCase, backward_induction, domains, erm, solve
from tailwise.errors import OptionError
from tailwise.exact import budgets
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


def risk_of(options):
    return CVaR(options["level"]) if "level" in options else ERM(options["beta"])


def measures(mdp, options):
    if "level" in options:
        return lambda costs, weights: conditional_value_at_risk(costs, options["level"], weights)
    return lambda costs, weights: erm(costs, options["beta"], weights)


@pytest.mark.compiled
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
            plan = solve(mdp, Expectation().within(risk_of(options), sign * budget))
            least = means[risks <= budget].min()  # the best deterministic plan within the budget
            value = sign * plan.value
            assert value - plan.gap - 1e-7 <= least <= value + 1e-7
            totals, weights = np.array(followed(mdp, plan)).T
            assert risk(sign * totals, weights) <= budget + 1e-7
            assert risk(sign * totals, weights) == pytest.approx(sign * plan.risk, abs=1e-7)
            assert np.dot(totals, weights) == pytest.approx(plan.value, abs=1e-7)
            binding += least > means.min() + 1e-6
            with pytest.raises(OptionError, match="no plan was found that keeps the"):
                solve(mdp, Expectation().within(risk_of(options), sign * float(risks.min() - 0.1)))
    assert binding >= 2


def test_a_loose_budget_changes_nothing():
    mdp = random_table(1)
    for options in ({"level": 0.9}, {"beta": 1.0}):
        plan = solve(mdp, Expectation().within(risk_of(options), 1e3))
        assert plan.value == pytest.approx(backward_induction(mdp, 0.0).value)
        assert (plan.gap, plan.multiplier) == (pytest.approx(0.0, abs=1e-9), 0.0)


@pytest.mark.compiled
def test_the_paper_s_problems():
    grid = domains.make("grid-mdp")
    for budget in (14.0, 20.0, 36.2):
        plan = solve(grid, Expectation().within(CVaR(0.95), budget))
        assert plan.risk <= budget + 1e-9
        assert backward_induction(grid, 0.0).value <= plan.value
    assert plan.value == pytest.approx(backward_induction(grid, 0.0).value)
    kept = solve(grid, Expectation().within(ERM(0.1), 12.0))
    assert kept.risk <= 12.0
    assert kept.value - kept.gap <= kept.value <= 9.712


@pytest.mark.compiled
@pytest.mark.parametrize("options", [{"level": 0.5}, {"beta": 1.0}])
def test_on_a_grid_the_bound_holds_and_the_budget_is_kept(options, monkeypatch):
    monkeypatch.setattr(budgets, "reach_totals", lambda table, **_: GridTotals.over(table))
    for seed in range(4):
        mdp = random_table(seed, horizon=3)
        risk = measures(mdp, options)
        laws = [np.array(law).T for law in all_laws(mdp)]
        risks, means = np.array([risk(*law) for law in laws]), np.array([np.dot(*law) for law in laws])
        budget = float((risks.min() + risks[means.argmin()]) / 2) + 0.05
        plan = solve(mdp, Expectation().within(risk_of(options), budget))
        least = means[risks <= budget].min()
        assert plan.value - plan.gap - 1e-7 <= least <= plan.value + 0.02
        totals, weights = np.array(followed(mdp, plan)).T
        assert plan.risk <= budget + 1e-9
        assert risk(totals, weights) == pytest.approx(plan.risk, abs=1e-9)  # as it is followed
        assert np.dot(totals, weights) == pytest.approx(plan.value, abs=1e-9)


@pytest.mark.compiled
@pytest.mark.parametrize(("options", "sense"), [({"level": 0.7}, "cost"), ({"beta": 1.0}, "reward")])
def test_on_a_grid_the_budget_is_kept_by_a_plan_whose_law_is_too_long(options, sense, monkeypatch):
    """What is shown bounds the plan as it is followed, by all its histories."""
    spent = 0
    for seed in range(30):
        mdp = random_table(seed, horizon=5, sense=sense, ends=seed % 2 == 1)
        sign, risk = float(mdp.signed(1.0)), risk_of(options)
        neutral, safest = solve(mdp, Expectation()), solve(mdp, risk)
        highest = float(mdp.signed(neutral.distribution().risk(risk)))
        lowest = float(mdp.signed(safest.value))
        if highest - lowest < 0.3:
            continue
        budget = (lowest + highest) / 2.0
        graph = GridTotals.spaced(mdp, 0.008)
        with monkeypatch.context() as patch:
            patch.setattr(budgets, "reach_totals", lambda *_, graph=graph, **__: graph)
            patch.setattr(budgets, "followed", lambda *_: None)
            try:
                plan = solve(mdp, Expectation().within(risk, sign * budget))
            except OptionError:  # the bound is of the worse action wherever the grid cannot tell
                continue
        exact = solve(mdp, Expectation().within(risk, sign * budget), tolerance=0.0)
        totals, weights = np.array(followed(mdp, plan)).T
        attained, mean = risk.of_costs(sign * totals, weights), float(np.dot(sign * totals, weights))
        assert attained <= sign * plan.risk + 1e-9 <= budget + 1e-7
        assert mean <= sign * plan.value + 1e-9
        assert sign * plan.value - plan.gap - 1e-9 <= sign * exact.value
        assert sign * exact.value - exact.gap <= mean + 1e-7
        assert sign * plan.value <= mean + 2.0 * graph.tolerance
        spent += not graph.is_blind(plan.chosen)
        if spent == 2:
            break
    assert spent == 2


@pytest.mark.compiled
def test_a_plan_that_breaks_its_budget_as_it_is_followed_is_an_error(monkeypatch):
    """No grid was found that is so wrong: here the plans are made to cost 10 more than the grid says."""
    true_law = budgets.followed

    def dearer(graph, chosen):
        totals, weights = true_law(graph, chosen)
        return totals + 10.0, weights

    monkeypatch.setattr(budgets, "reach_totals", lambda table, **_: GridTotals.over(table))
    monkeypatch.setattr(budgets, "followed", dearer)
    mdp = random_table(0, horizon=3)
    budget = solve(mdp, CVaR(0.5)).value + 0.5
    with pytest.raises(OptionError, match=r"keeps to the budget .* as it is followed: .* a risk of"):
        solve(mdp, Expectation().within(CVaR(0.5), budget))


def test_nonsense_is_explained():
    mdp = random_table(0)
    least = solve(mdp, CVaR(0.9)).value
    with pytest.raises(OptionError, match=f"the least that any plan can have is {least:.6f}"[:44]):
        solve(mdp, Expectation().within(CVaR(0.9), least - 1.0))
    for risk in (ERM(0.0), EVaR(0.9), CVaR(1.0), WorstCase()):
        with pytest.raises(OptionError, match=r"no exact solver for: mean, with .*; there are for .*CVaR"):
            solve(mdp, Expectation().within(risk, 1.0))
    with pytest.raises(OptionError, match="no exact solver for: ERM at beta 1, with"):
        solve(mdp, ERM(1.0).within(CVaR(0.9), 1.0))


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
        plan = solve(mdp, Expectation().within(risk_of(options), budget))
        assert plan.action == 1
        assert plan.value == pytest.approx(offset + 2.0 * unit, abs=1e-6 * unit)
        plan = solve(mdp, Expectation().within(risk_of(options), float(costs[4])))
        assert plan.risk <= costs[4] + 1e-6 * unit
        with pytest.raises(OptionError, match="no plan was found"):
            solve(mdp, Expectation().within(risk_of(options), budget - 2.0 * unit))
