"""The frontier: each point reproduced by an independent solve, exact measures, and clear errors."""

import dataclasses
import itertools
import json
import math
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from small_tables import random_table
from tailwise import (
    EVaR,
    ExactPlanner,
    Simulator,
    TabularMDP,
    WorstCase,
    backward_induction,
    domains,
    frontier,
    solve,
)
from tailwise.cli.app import app
from tailwise.errors import OptionError, UnknownNameError
from tailwise.evaluation import evaluate, risk_frontier
from tailwise.exact import return_distribution
from tailwise.models import tabulate


@pytest.mark.compiled
def test_every_point_of_grid_mdp_is_reproduced_by_an_independent_solve():
    grid = domains.make("grid-mdp")
    found = frontier(grid, budget=8.0)
    assert found.exact
    assert found.certified
    assert found.switches == pytest.approx((0.03402361, 0.11028820), abs=6e-9)
    for point in found.points:
        inside = (point.low + point.high) / 2
        solution = backward_induction(grid, inside)
        law = return_distribution(grid, solution)
        assert grid.action_name(solution.action) == point.label
        assert (law.mean, law.std, law.maximum) == pytest.approx((point.mean, point.std, point.worst), abs=1e-9)
        assert tuple(law.cvar(level) for level in (0.9, 0.95, 0.99)) == pytest.approx(point.cvar)
        assert tuple(law.var(level) for level in (0.9, 0.95, 0.99)) == pytest.approx(point.var)
        assert point.exceedance == pytest.approx(law.probabilities[law.costs > 8.0].sum())
        assert point.erm == pytest.approx(backward_induction(grid, point.beta).value, abs=1e-9)
        assert found.at(inside) is point
    means = [point.mean for point in found.points]
    assert means == sorted(means)  # more aversion costs mean, never saves it


@pytest.mark.compiled
@pytest.mark.parametrize("sign", [1, -1])
def test_the_last_plan_is_that_of_the_worst_case(sign):
    """Where a rare 65 is within 1 % of the worst case by its risk, and a sure 52 is the worst case."""
    costs = np.array([[38.0, 65.0, 0.0], [52.0, 0.0, 0.0]])[None]
    chances = np.array([[[0.9, 0.1], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    paid = np.where(chances[:1] > 0.0, sign * costs[:, :, :2], 0.0)
    given = {"costs" if sign == 1 else "rewards": np.concatenate((paid, np.zeros((1, 2, 2))))}
    found = frontier(TabularMDP.from_arrays(chances, order="SAS", horizon=1, **given))
    assert [(point.action, point.worst) for point in found.points] == [(0, 65.0 * sign), (1, 52.0 * sign)]
    for seed in range(5):
        table = random_table(seed, sense="cost" if sign == 1 else "reward")
        last, worst = frontier(table).points[-1].worst, solve(table, WorstCase()).value
        assert last == pytest.approx(worst, abs=0.011 * abs(worst - backward_induction(table, 0.0).value))


@pytest.mark.compiled
def test_prices_and_dominated_points():
    found = frontier(domains.make("grid-mdp"))
    assert math.isnan(found.points[0].price)
    before, after = found.points[:2]
    assert after.price == pytest.approx((after.mean - before.mean) / (before.cvar[1] - after.cvar[1]))
    assert [point.dominated for point in found.points[:3]] == [False, False, True]  # waiting saves no 95 % tail
    for point in found.points:
        better = [
            q for q in found.points if q.mean <= point.mean and q.cvar[1] <= point.cvar[1] + 1e-9 and q is not point
        ]
        assert point.dominated == any(q.mean < point.mean - 1e-9 or q.cvar[1] < point.cvar[1] - 1e-9 for q in better)


@pytest.mark.compiled
def test_rewards_are_shown_as_rewards():
    costs, rewards = random_table(3), random_table(3, sense="reward")
    mirrored = TabularMDP.from_outcomes(
        rewards.row_states.repeat(np.diff(rewards.outcome_offsets)),
        rewards.action_ids.repeat(np.diff(rewards.outcome_offsets)),
        rewards.next_states, rewards.probabilities, rewards.losses, horizon=3, discount=0.9,
        terminal_costs=rewards.terminal_losses,
    )  # fmt: skip
    shown, inner = frontier(rewards, [0.0, 2.0], budget=1.0), frontier(mirrored, [0.0, 2.0], budget=-1.0)
    assert len(shown.points) == len(inner.points)
    for point, other in zip(shown.points, inner.points, strict=True):
        assert point.mean == pytest.approx(-other.mean)
        assert point.cvar == pytest.approx([-x for x in other.cvar])
        assert point.exceedance == pytest.approx(other.exceedance)
        assert point.worst == pytest.approx(-other.worst)
    assert costs.sense == "cost"


@pytest.mark.compiled
def test_a_simulator_is_searched_closed_loop_on_common_random_numbers():
    model = domains.make("sailing")
    found = frontier(model, [0.0, 0.05], kind="erm-mcts", episodes=6, iterations=50, seed=3)
    again = frontier(model, [0.0, 0.05], kind="erm-mcts", episodes=6, iterations=50, seed=3)
    assert not found.exact
    assert [point.mean for point in found.points] == [point.mean for point in again.points]
    from tailwise import make_planner

    returns = evaluate(model, make_planner(model, 0.05, kind="erm-mcts", seed=3), episodes=6, iterations=50, seed=3)
    assert found.points[1].law.costs.tolist() == returns.costs.tolist()
    low, high = found.points[1].interval
    assert low <= found.points[1].erm <= high


class Slow(Simulator):
    """A gamble or a sure cost, at a simulator that takes its time."""

    horizon, start = 2, 0

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        time.sleep(2e-4)
        return state + 1, 1.0 if action else 2.0 * (rng.random() < 0.5), False


def test_a_simulator_that_plans_solve_exactly_is_laid_out_exactly():
    """As the table that it is; named planners that search still search."""
    model = domains.make("inventory", horizon=3)
    found, table = frontier(model, [0.0, 0.05, 0.2]), frontier(tabulate(model), [0.0, 0.05, 0.2])
    assert found.exact
    assert found.to_dict() == table.to_dict()
    assert {point.label for point in found.points} <= {f"order {k}" for k in range(9)}
    assert frontier(model, [0.0, 0.05, 0.2], kind="exact").to_dict() == found.to_dict()
    assert not frontier(model, [0.0], kind="uct", episodes=2, iterations=5).exact


def test_a_slow_simulator_is_played_as_often_as_a_minute_allows(monkeypatch):
    monkeypatch.setattr(risk_frontier, "_SECONDS", 0.01)
    monkeypatch.setattr(risk_frontier, "_LEAST_EPISODES", 3)
    found = frontier(Slow(), [0.0, 1.0], kind="erm-mcts")
    assert found.iterations == 50
    assert found.points[0].law.episodes == 3
    assert "3 episodes of each beta were played in closed loop, with 50 iterations a decision" in found.in_words[-1]
    asked = frontier(Slow(), [0.0], kind="erm-mcts", episodes=2, iterations=7)
    assert (asked.points[0].law.episodes, asked.iterations) == (2, 7)
    with pytest.raises(OptionError, match="iterations"):
        frontier(Slow(), [0.0], kind="erm-mcts", iterations=0)


@pytest.mark.compiled
def test_few_plans_have_laws_whose_worst_total_can_happen_and_what_is_merged_is_said(monkeypatch):
    """The worst total is one that the plan can come to, not a point of a grid above it."""
    rng = np.random.default_rng(0)
    rows = [
        (s, a, int(rng.integers(4)), p, round(float(rng.uniform(0, 60) * (1 + a)), 1) + 300 * (k == 2 and a == 0))
        for s in range(4)
        for a in range(2)
        for k, p in enumerate((0.6, 0.38, 0.02))
    ]
    mdp = TabularMDP.from_outcomes(*map(list, zip(*rows, strict=True)), horizon=20)
    found = frontier(mdp, [0.0, 0.002])
    first, said = found.points[0], "Worst and VaR are exact to within "
    assert first.worst == pytest.approx(6976.0, abs=1e-9)
    assert first.law.tolerance == pytest.approx(0.006972)
    assert found.in_words[-1].startswith(f"{said}0.006972:")
    monkeypatch.setattr(risk_frontier, "_ALL_ATOMS", 1)  # what is left to each of very many plans
    coarse = frontier(mdp, [0.0, 0.002])
    assert coarse.points[0].worst > 6976.1
    assert coarse.points[0].law.tolerance > coarse.points[0].worst - 6976.0
    assert said in coarse.in_words[-1]
    assert not any(said in one for one in frontier(domains.make("grid-mdp"), [0.0]).in_words)


def test_what_is_dominated_by_shape_is_said():
    rows = [0, 0, 0], [0, 1, 1], [0, 0, 0], [1.0, 0.5, 0.5], [1.0, 0.0, 2.0]
    table = TabularMDP.from_outcomes(*rows, horizon=1, action_labels=("sure", "gamble"))
    found = frontier(table, [-1.0, 1.0])
    assert [(point.label, point.dominated_by) for point in found.points] == [
        ("gamble", f"sure at beta {found.points[1].beta:.4g}"), ("sure", ""),
    ]  # fmt: skip
    assert any(said.startswith("By shape sure at beta") for said in found.in_words)
    assert found.columns["first action"] == ("gamble (dominated)", "sure")


def test_one_sure_plan_is_one_point():
    sure = TabularMDP.from_outcomes([0], [0], [0], [1.0], [2.0], horizon=3)
    found = frontier(sure)
    assert len(found.points) == 1
    assert (found.points[0].mean, found.points[0].std, found.switches) == (6.0, 0.0, ())


def test_nonsense_is_explained():
    mdp = random_table(0)
    with pytest.raises(OptionError, match=r"betas must increase: betas\[1\] = 0 comes after 1"):
        frontier(mdp, [1.0, 0.0])
    with pytest.raises(OptionError, match="betas is empty"):
        frontier(mdp, [])
    with pytest.raises(OptionError, match="'auto' or increasing"):
        frontier(mdp, "all")
    with pytest.raises(OptionError, match="episodes must be at least 1"):
        frontier(mdp, episodes=0)
    with pytest.raises(UnknownNameError, match="nobody"):
        frontier(mdp, kind="nobody")


@pytest.mark.compiled
def test_the_command():
    runner = CliRunner()
    result = runner.invoke(app, ["frontier", "grid-mdp", "--betas", "0,0.2", "--exceed", "8", "--json"])
    content = json.loads(result.stdout)
    assert content["switches"][0] == pytest.approx(0.03402361, abs=6e-9)
    assert content["points"][0]["label"] == "up"
    assert content["points"][1]["exceedance"] == pytest.approx(0.01)
    text = runner.invoke(app, ["frontier", "grid-mdp", "--betas", "0,0.2"]).output
    assert "The first action changes at beta = 0.034023" in text
    assert "(dominated)" in text
    with pytest.raises(OptionError, match="--betas must be"):
        runner.invoke(app, ["frontier", "grid-mdp", "--betas", "low"], catch_exceptions=False)


def test_threads_do_not_change_what_is_exact():
    mdp = domains.make("grid-mdp")
    one, two = (frontier(mdp, [0.0, 0.05], threads=threads) for threads in (1, 2))
    assert [(p.low, p.high, p.label, p.erm) for p in one.points] == [
        (p.low, p.high, p.label, p.erm) for p in two.points
    ]
    assert solve(mdp, EVaR(0.9), threads=2).value == solve(mdp, EVaR(0.9)).value
    assert ExactPlanner(mdp, 0.1, seed=0).plan(iterations=8, threads=2).rows == (
        ExactPlanner(mdp, 0.1, seed=0, threads=3).plan(iterations=8).rows
    )
    with pytest.raises(OptionError, match="threads"):
        frontier(mdp, [0.0, 0.05], threads=0)


@pytest.mark.parametrize("betas", [None, 3.0])
def test_betas_that_are_no_sequence_are_named(betas):
    with pytest.raises(OptionError, match=f"'auto' or increasing numbers, not {betas}"):
        frontier(random_table(0), betas)


def test_plans_say_where_they_differ_first():
    """By hand: the first place, of those that the plan before comes to, where the decisions differ."""
    mdp = random_table(6, states=4, horizon=4)
    points = frontier(mdp, [-2.0, 0.0, 2.0]).points
    assert len(points) > 1
    assert points[0].change == ""
    names = mdp.action_name, mdp.state_name
    for first, second in itertools.pairwise(points):
        before, after = (backward_induction(mdp, point.beta).policy for point in (first, second))
        reached, places = {mdp.start}, []
        for h in range(mdp.horizon):
            acting = sorted(s for s in reached if before[h, s] >= 0)
            places += [(h, s) for s in acting if before[h, s] != after[h, s]]
            outcomes = [one for s in acting for one in mdp.outcomes(s, before[h, s], h)]
            reached = {one.next_state for one in outcomes if not one.done}
        h, s = places[0]
        said = f"step {h}, {names[1](s)}: {names[0](int(after[h, s]))}, not {names[0](int(before[h, s]))}"
        more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
        assert second.change == said + more


def test_a_frontier_prints_in_a_page_and_is_a_table():
    found = frontier(domains.make("grid-mdp"))
    lines = str(found).splitlines()
    assert (len(lines), lines[0].split()[:2]) == (len(found.points) + 3, ["first", "action"])
    columns = found.to_columns()
    assert columns["cvar_95"] == [point.cvar[1] for point in found.points]
    assert columns["label"][:2] == ["up", "right"]
    many = dataclasses.replace(found, points=found.points * 5)
    assert len(str(many).splitlines()) <= 25


def test_of_many_plans_the_ends_new_first_actions_and_some_between_are_shown():
    one = frontier(domains.make("mdp-4"), [0.0, 1.0])
    labels = ["a"] * 30 + ["b"] * 40 + ["a"] * 30
    points = tuple(dataclasses.replace(one.points[0], label=label) for label in labels)
    many = dataclasses.replace(one, points=points)
    assert len(many.shown) == 15
    assert {0, 30, 70, 99} <= set(many.shown)
    assert max(np.diff(many.shown)) <= 12
    assert "85 more plans" in str(many)
    assert len(str(many).splitlines()) <= 25
    changing = dataclasses.replace(
        one, points=tuple(dataclasses.replace(p, label=str(k)) for k, p in enumerate(points))
    )
    assert len(changing.shown) == 15
    assert {0, 99} <= set(changing.shown)
    assert one.shown == tuple(range(len(one.points)))
