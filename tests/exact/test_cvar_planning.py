"""Plans for the tail of the total, against every history-dependent policy there is."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from small_tables import best, random_table
from tailwise import (
    CVaR,
    EVaR,
    Exceedance,
    Expectation,
    NestedCVaR,
    TabularMDP,
    backward_induction,
    domains,
    solve,
)
from tailwise.errors import ModelError, OptionError, StateError
from tailwise.exact import grid_totals, return_distribution, tails
from tailwise.exact.distributions import followed as on_the_way
from tailwise.exact.grid_totals import GridTotals
from tailwise.exact.totals import ReachableTotals, reach_totals
from tailwise.risk import conditional_value_at_risk

LEVELS = (0.05, 0.3, 0.5, 0.9, 0.99)


def followed(mdp, plan, state=None, h=0, accrued=0.0):
    """Law of the total (total -> probability) when the plan's ``act`` is followed, history by history."""
    state = mdp.start if state is None else state
    if h == mdp.horizon:
        return {accrued + mdp.discount**h * mdp.terminal_cost(state): 1.0}
    law = {}
    for probability, target, cost, done in mdp.outcomes(state, plan.act(state, h, accrued), h):
        paid = accrued + mdp.discount**h * cost
        for total, p in ({paid: 1.0} if done else followed(mdp, plan, target, h + 1, paid)).items():
            law[total] = law.get(total, 0.0) + probability * p
    return law


def cvar_in_costs(mdp, law, level):
    totals, weights = np.array(list(law.items())).T
    return conditional_value_at_risk(mdp.signed(totals), level, weights)


@pytest.mark.parametrize("sense", ["cost", "reward"])
@pytest.mark.parametrize("whole", [False, True])
def test_cvar_equals_brute_force_and_the_plan_attains_it(sense, whole):
    for seed in range(6):
        mdp = random_table(seed, sense=sense, whole=whole, ends=seed % 2 == 1, discount=1.0 if whole else 0.9)
        for level in LEVELS:
            plan = solve(mdp, CVaR(level), tolerance=0.0)
            least = best(mdp, lambda costs, weights, level=level: conditional_value_at_risk(costs, level, weights))
            assert plan.gap == 0.0
            assert plan.value == pytest.approx(least, abs=1e-9)
            law = followed(mdp, plan)
            assert float(mdp.signed(cvar_in_costs(mdp, law, level))) == pytest.approx(plan.value, abs=1e-9)
            found = plan.distribution()
            assert math.fsum(found.probabilities) == pytest.approx(1.0, abs=1e-12)
            assert plan.distribution().mean == pytest.approx(sum(x * p for x, p in law.items()))
            assert (np.diff(found.costs) > 0).all()


@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_exceedance_equals_brute_force(sense):
    for seed in range(6):
        mdp = random_table(seed, sense=sense, whole=True, discount=1.0, ends=seed % 2 == 1)
        points = mdp.signed(ReachableTotals.unfold(mdp).all_totals())
        for budget in (*points[1::3].tolist(), float(points.mean())):
            limit = float(mdp.signed(budget))
            plan = solve(mdp, Exceedance(budget))
            exact = float(mdp.signed(best(mdp, lambda costs, weights, x=limit: weights[costs > x + 1e-9].sum())))
            assert plan.value == pytest.approx(exact, abs=1e-12)
            assert plan.gap == 0.0
            reached = sum(p for x, p in followed(mdp, plan).items() if float(mdp.signed(x)) > limit + 1e-9)
            assert reached == pytest.approx(plan.value, abs=1e-12)


@pytest.mark.compiled
@pytest.mark.parametrize("spacing", [0.05, 0.5])
def test_totals_on_a_grid_keep_the_stated_gap(spacing, monkeypatch):
    """A plan made on moved totals is known as it is followed, and no plan is better by more than the gap."""
    informative = 0
    for seed in range(6):
        mdp = random_table(seed, horizon=4)
        exact = {level: solve(mdp, CVaR(level), tolerance=0.0) for level in (0.5, 0.9)}
        budget = float(np.median(exact[0.5].distribution().costs)) + 0.1
        least = solve(mdp, Exceedance(budget))
        monkeypatch.setattr(tails, "reach_totals", lambda table, **_: GridTotals.spaced(table, spacing))
        for level, known in exact.items():
            rough = solve(mdp, CVaR(level))
            attained = cvar_in_costs(mdp, followed(mdp, rough), level)
            assert attained == pytest.approx(rough.value, abs=1e-9)
            assert rough.value - rough.gap - 1e-9 <= known.value <= rough.value + 1e-9
            informative += rough.gap > 0
        bound = solve(mdp, Exceedance(budget))
        assert bound.value - bound.gap - 1e-12 <= least.value <= bound.value + 1e-12
        attained = sum(p for x, p in followed(mdp, bound).items() if x > budget)
        assert attained == pytest.approx(bound.value, abs=1e-12)
        monkeypatch.undo()
    assert informative > 5


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_on_a_grid_exceedance_is_bounded_for_the_plan_as_it_is_followed(sense):
    """Without its law, too: costs are rounded up, and the plan acts on what was paid, rounded up once."""
    below = 0
    for seed in range(8):
        mdp = random_table(seed, horizon=5, sense=sense, ends=seed % 2 == 1)
        budget = float(np.median(solve(mdp, CVaR(0.5)).distribution().costs))
        limit = float(mdp.signed(budget))
        graph = GridTotals.spaced(mdp, 0.6)
        bound, chosen = graph.minimise_upward(lambda totals, x=limit: (totals > x + 1e-9).astype(float))
        totals, weights = on_the_way(graph, chosen)
        attained = weights[totals > limit + 1e-9].sum()
        assert attained <= bound + 1e-12
        below += attained < bound - 1e-6
        assert solve(mdp, Exceedance(budget)).value <= attained + 1e-12
    assert below > 2


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_on_a_grid_cvar_is_bounded_for_a_plan_whose_law_is_too_long(sense, monkeypatch):
    """What is shown is what the plan keeps to as it is followed, not what a plan keeps to that rounds at random."""
    for seed in range(6):
        mdp = random_table(seed, horizon=5, sense=sense, ends=seed % 2 == 1)
        least = float(mdp.signed(solve(mdp, CVaR(0.8), tolerance=0.0).value))
        graph = GridTotals.spaced(mdp, 0.3)
        with monkeypatch.context() as patch:
            patch.setattr(tails, "reach_totals", lambda *_, graph=graph, **__: graph)
            patch.setattr(tails, "followed", lambda *_: None)
            found = solve(mdp, CVaR(0.8))
        shown = float(mdp.signed(found.value))
        attained = CVaR(0.8).of_costs(*on_the_way(graph, found.chosen))
        assert shown - found.gap - 1e-9 <= least <= attained + 1e-9
        assert attained <= shown + 1e-9
        assert shown <= least + 1.5 * graph.tolerance


@pytest.mark.parametrize("spacing", [0.5, 0.31])
def test_rounding_up_reads_nothing_beyond_the_last_point(monkeypatch, spacing):
    """Interpreted, an index beyond an array is an error; compiled it was whatever stood there, times 0."""
    monkeypatch.setattr(grid_totals, "sweep_back", getattr(grid_totals.sweep_back, "py_func", grid_totals.sweep_back))
    mdp = random_table(3, states=4, horizon=4)
    worst, _ = GridTotals.spaced(mdp, spacing).minimise_upward(lambda totals: totals)
    assert solve(mdp, Expectation()).value <= worst <= solve(mdp, Expectation()).value + 5 * spacing


def test_too_many_totals_are_an_error_that_says_so():
    with pytest.raises(OptionError, match="over 3000 outcomes of pairs"):
        ReachableTotals.unfold(random_table(3, states=4, horizon=8), max_outcomes=3000)


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_a_grid_bounds_every_risk_from_both_sides(sense):
    """The mean exactly, CVaR and ERM from above, and by no more than is stated."""
    for seed in range(6):
        mdp = random_table(seed, horizon=5, sense=sense, ends=seed % 2 == 1)
        exact = ReachableTotals.unfold(mdp)
        grid = GridTotals.spaced(mdp, 0.4)
        mean, chosen = grid.minimise(lambda x: x)
        assert mean == pytest.approx(exact.minimise(lambda x: x)[0], abs=1e-9)
        totals, weights = grid.law(chosen)
        assert np.dot(totals, weights) == pytest.approx(mean, abs=1e-9)
        for b in (-3.0, 0.0, 2.0):
            above = grid.minimise(lambda x, b=b: np.maximum(x - b, 0.0))[0]
            assert above >= exact.minimise(lambda x, b=b: np.maximum(x - b, 0.0))[0] - 1e-9
        for beta in (0.1, 1.0):
            risks = [math.log(one.minimise(lambda x, b=beta: np.exp(b * x))[0]) / beta for one in (exact, grid)]
            assert -1e-9 <= risks[1] - risks[0] <= grid.overstated(beta=beta) + 1e-9


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_planning_on_a_grid_keeps_the_stated_gap(sense, monkeypatch):
    for seed in range(5):
        mdp = random_table(seed, horizon=5, sense=sense)
        exact = {level: solve(mdp, CVaR(level), tolerance=0.0) for level in (0.3, 0.9)}
        budget = float(np.median(exact[0.3].distribution().costs))
        least = solve(mdp, Exceedance(budget))
        monkeypatch.setattr(tails, "reach_totals", lambda table, **_: GridTotals.over(table))
        for level, known in exact.items():
            rough = solve(mdp, CVaR(level))
            sign = 1.0 if sense == "cost" else -1.0
            assert known.gap < rough.gap < 0.05
            assert sign * rough.value - rough.gap - 1e-9 <= sign * known.value <= sign * rough.value + 1e-9
            attained = sign * float(mdp.signed(cvar_in_costs(mdp, followed(mdp, rough), level)))
            assert sign * known.value - 1e-9 <= attained <= sign * known.value + 2 * rough.gap
        bound = solve(mdp, Exceedance(budget))
        assert bound.value - bound.gap - 1e-9 <= least.value <= bound.value + 1e-9
        with pytest.raises(OptionError, match="missed with certainty"):
            solve(mdp, Exceedance(-60.0 if sense == "cost" else 60.0))
        monkeypatch.undo()


@pytest.mark.compiled
def test_the_unfolded_mean_is_that_of_the_exact_solver():
    for name in ("grid-mdp", "machine-maintenance"):
        mdp = domains.make(name)
        if not isinstance(mdp, TabularMDP):
            from tailwise.models import tabulate

            mdp = tabulate(mdp)
        graph = reach_totals(mdp)
        value, chosen = graph.minimise(lambda totals: totals)
        assert float(mdp.signed(value)) == pytest.approx(
            backward_induction(mdp, 0.0).value, abs=2 * graph.tolerance + 1e-9
        )
        totals, weights = graph.law(chosen)
        assert np.dot(totals, weights) == pytest.approx(value, rel=1e-12, abs=1e-12)


@pytest.mark.compiled
def test_it_improves_cvar_over_the_risk_neutral_and_every_erm_plan():
    mdp = domains.make("grid-mdp")
    for level in (0.5, 0.9, 0.95):
        plan = solve(mdp, CVaR(level))
        for beta in (0.0, 0.01, 0.05, 0.1, 0.5):
            law = return_distribution(mdp, backward_induction(mdp, beta))
            assert plan.value <= law.cvar(level) + 1e-9
    assert plan.value < return_distribution(mdp, backward_induction(mdp, 0.0)).cvar(0.95)


def test_a_static_plan_and_planning_again_can_disagree():
    """A first lottery, then a choice. Seen from the start, losing it means the tail whatever one does: gamble on.

    Seen from there, the gamble's own tail is what counts.
    """
    mdp = TabularMDP.from_outcomes(
        [0, 0, 1, 1, 1, 2], [0, 0, 0, 1, 1, 0], [1, 2, 1, 1, 1, 2], [0.1, 0.9, 1.0, 0.6, 0.4, 1.0],
        [0.0, 0.0, 10.0, 5.0, 14.0, 0.0], horizon=2,
    )  # fmt: skip
    first = solve(mdp, CVaR(0.9))
    assert first.act(1, 1, 0.0) == 1  # mean of the tail: 0.6 * 5 + 0.4 * 14 = 8.6 < 10
    again = solve(mdp.with_options(start=1, horizon=1), CVaR(0.9))
    assert again.action == 0  # 10 < 14


def test_nonsense_is_explained():
    mdp = random_table(0)
    with pytest.raises(OptionError, match="level"):
        CVaR(95)
    with pytest.raises(OptionError, match="below the least total that any plan can have"):
        solve(mdp, Exceedance(-1e6))
    with pytest.raises(OptionError, match="above the largest total"):
        solve(random_table(0, sense="reward"), Exceedance(1e6))
    with pytest.raises(StateError, match="cannot be reached at step 0"):
        solve(mdp, CVaR(0.9)).act(2, 0, 0.0)


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_on_a_grid_the_law_is_that_of_the_plan_as_it_is_followed(sense, monkeypatch):
    monkeypatch.setattr(tails, "reach_totals", lambda table, **_: GridTotals.spaced(table, 0.7))
    for seed in range(4):
        mdp = random_table(seed, sense=sense, ends=seed % 2 == 1)
        plan = solve(mdp, CVaR(0.8), tolerance=0.0)
        assert plan.distribution().tolerance == 0.0
        law = followed(mdp, plan)
        assert float(mdp.signed(cvar_in_costs(mdp, law, 0.8))) == pytest.approx(plan.value, abs=1e-9)
        assert plan.distribution().mean == pytest.approx(sum(x * p for x, p in law.items()))
        least = best(mdp, lambda costs, weights: conditional_value_at_risk(costs, 0.8, weights))
        assert -1e-9 <= float(mdp.signed(plan.value - least)) <= plan.gap + 1e-9
    monkeypatch.undo()
    mdp = random_table(1, states=4, horizon=8, sense=sense)
    exact, rough = solve(mdp, CVaR(0.8)), solve(mdp, CVaR(0.8), effort=1e-3)
    assert exact.gap < rough.gap
    assert -1e-9 <= float(mdp.signed(rough.value - exact.value)) <= rough.gap
    graph = GridTotals.spaced(random_table(0, sense=sense), 0.7)
    assert on_the_way(graph, graph.minimise(lambda x: x)[1], max_pairs=0) is None  # too many: the law stays the grid's


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e6])
def test_the_unit_of_the_costs_does_not_matter(unit):
    """Ties and rounding are told by the range of the totals, not by a number of the module's own."""
    mdp = random_table(3)
    sizes = np.diff(mdp.outcome_offsets)
    scaled = TabularMDP.from_outcomes(
        np.repeat(mdp.row_states, sizes), np.repeat(mdp.action_ids, sizes),
        mdp.next_states, mdp.probabilities, unit * mdp.losses, horizon=mdp.horizon, discount=mdp.discount,
        terminal_costs=unit * mdp.terminal_losses, done=mdp.done,
    )  # fmt: skip
    points = ReachableTotals.unfold(mdp).all_totals()
    for budget in np.quantile(points, [0.2, 0.4, 0.6]).tolist():
        one, two = solve(mdp, Exceedance(budget)), solve(scaled, Exceedance(unit * budget))
        assert two.value == pytest.approx(one.value, abs=1e-9)
    for level in (0.3, 0.9):
        assert solve(scaled, CVaR(level)).value == pytest.approx(unit * solve(mdp, CVaR(level)).value, rel=1e-9)


def test_a_total_that_is_the_budget_but_for_rounding_does_not_exceed_it():
    mdp = TabularMDP.from_outcomes([0], [0], [0], [1.0], [0.1], horizon=3)  # 0.30000000000000004
    plan = solve(mdp, Exceedance(0.3))
    assert plan.value == 0.0
    assert return_distribution(mdp, np.zeros(1, int)).exceedance(0.3) == 0.0


@pytest.mark.parametrize(
    "objective",
    [CVaR(0.9), Exceedance(1.0), EVaR(0.9), NestedCVaR(0.9), Expectation().within(CVaR(0.9), 1.0)],
    ids=str,
)
def test_who_lists_no_outcomes_is_shown_the_way(objective):
    black_box = SimpleNamespace(
        horizon=2,
        discount=1.0,
        sense="cost",
        start=0,
        actions=lambda state: 2,
        step=lambda state, action, rng: (0, 1.0, True),
    )
    with pytest.raises(ModelError, match=r"has no outcomes.*sampled_planning"):
        solve(black_box, objective)
    with pytest.raises(ModelError, match="cannot be planned on"):
        solve(3, objective)
