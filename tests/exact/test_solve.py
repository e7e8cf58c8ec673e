"""One way to solve and one result: every objective on tables and simulators, against enumeration and its own plan."""

import json
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from small_tables import best, random_table
from tailwise import (
    ERM,
    CVaR,
    EVaR,
    Exceedance,
    Expectation,
    ExpectedUtility,
    NestedCVaR,
    Simulator,
    TabularMDP,
    WorstCase,
    backward_induction,
    domains,
    evaluate,
    solve,
)
from tailwise.errors import OptionError, StateError
from tailwise.exact import Policy, register_solver
from tailwise.models import tabulate
from tailwise.risk import Objective

OBJECTIVES = (
    Expectation(), ERM(0.3), WorstCase(), NestedCVaR(0.7), EVaR(0.8), CVaR(0.8), Exceedance(7.0),
    ExpectedUtility(lambda total: total * abs(total)), Expectation().within(CVaR(0.5), 30.0),
)  # fmt: skip


class Corridor(Simulator):
    """Walk right, fast or slow; actions have names, and states are tuples."""

    start, horizon, discount, name = ("at", 0), 4, 0.9, "corridor"

    def actions(self, state):
        return ("slow", "fast") if state[1] < 3 else ("slow",)

    def outcomes(self, state, action):
        if action == "slow":
            return [(1.0, ("at", state[1] + 1), 1.0 + state[1], False)]
        return [(0.8, ("at", state[1] + 2), 0.5, False), (0.2, ("at", state[1]), 6.0, True)]

    def step(self, state, action, rng):
        draw = rng.random()
        for probability, target, cost, done in self.outcomes(state, action):
            draw -= probability
            if draw < 0:
                return target, cost, done
        return target, cost, done


@pytest.mark.parametrize("sense", ["cost", "reward"])
@pytest.mark.parametrize("objective", [WorstCase(), Expectation(), ERM(0.4), CVaR(0.6)], ids=str)
def test_the_value_is_that_of_enumeration(objective, sense):
    for seed in range(6):
        mdp = random_table(seed, sense=sense, ends=seed % 2 == 1)
        policy = solve(mdp, objective, tolerance=0.0)
        assert policy.value == pytest.approx(best(mdp, objective.of_costs), abs=1e-9)
        assert policy.gap == 0.0


@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_expected_utility_is_that_of_enumeration_and_need_not_be_monotone(sense):
    for seed in range(6):
        mdp = random_table(seed, sense=sense)
        sign = float(mdp.signed(1.0))
        for utility in (lambda x: (x - 2.0) ** 2, lambda x: -math.exp(-0.3 * x), abs):
            policy = solve(mdp, ExpectedUtility(utility))
            exact = best(
                mdp,
                lambda costs, weights, f=utility, s=sign: s * float(np.dot([f(x) for x in s * costs], weights)),
            )
            assert policy.value == pytest.approx(exact, abs=1e-9)
            assert policy.distribution().risk(policy.objective) == pytest.approx(policy.value, abs=1e-9)
    with pytest.raises(OptionError, match="not finite on a total"):
        solve(mdp, ExpectedUtility(lambda total: math.inf))


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_a_policy_says_what_it_does_and_what_may_come_of_it(objective):
    mdp = random_table(4, states=4, actions=3)
    policy = solve(mdp, objective)
    plan = policy.plan()
    assert isinstance(policy, Policy)
    assert plan.action == policy.action == policy.act(mdp.start, 0) == policy.act(str(mdp.start), 0)
    law = policy.distribution()
    assert law.probabilities.sum() == pytest.approx(1.0)
    row = plan.row(plan.action)
    assert np.allclose(row.distribution.costs, law.costs)
    assert row.mean == pytest.approx(law.mean)
    assert plan.proven == (policy.gap == 0.0)
    if objective != NestedCVaR(0.7):  # of which a distribution knows nothing
        assert law.risk(objective) == pytest.approx(policy.value, abs=policy.gap + 1e-9)
    assert row.erm == pytest.approx(plan.value, abs=1e-9)
    assert all(plan.value <= other.erm + policy.gap + 1e-9 or objective.name == "budget" for other in plan.rows)
    assert len(str(policy).splitlines()) <= 25
    content = json.loads(json.dumps(policy.to_dict()))
    assert (content["value"], content["action"], content["objective"]) == (policy.value, policy.action, objective.words)
    assert "<table" in policy._repr_html_()
    returns = evaluate(mdp, policy, episodes=4000, seed=0)
    assert returns.mean == pytest.approx(law.mean, abs=5 * law.std / 4000**0.5 + 1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_a_simulator_that_lists_its_outcomes_is_solved_in_its_own_states(objective):
    model = Corridor()
    table, policy = solve(tabulate(model), objective), solve(model, objective)
    assert (policy.value, policy.gap) == (table.value, table.gap)
    assert policy.action in model.actions(model.start)
    assert policy.plan().label == policy.plan().action == policy.action
    assert policy.act(("at", 4), 2, accrued=1.0) == "slow"
    with pytest.raises(StateError, match="cannot be reached from the start by step 1"):
        policy.act(("at", 4), 1)
    assert evaluate(model, policy, episodes=20, seed=1).episodes == 20


def test_later_decisions_are_planned_where_the_policy_needs_no_past():
    mdp = random_table(3, horizon=4, discount=0.8)
    policy = solve(mdp, ERM(0.5))
    for state in range(mdp.num_states):
        plan = policy.plan(state, 2)
        again = solve(mdp.with_options(start=state, horizon=2), ERM(0.5 * 0.8**2)).plan()
        assert plan.value == pytest.approx(again.value)
        assert [row.erm for row in plan.rows] == pytest.approx([row.erm for row in again.rows])
        assert [row.mean for row in plan.rows] == pytest.approx([row.mean for row in again.rows])
    kept = solve(mdp, EVaR(0.6)).plan(1, 2)
    assert kept.measure in ("ERM", "EVaR")
    tail = solve(mdp, CVaR(0.6))
    with pytest.raises(OptionError, match="plans from the start"):
        tail.plan(1, 2)
    for wrong in (lambda: tail.act(0, -1), lambda: tail.act(0, 4), lambda: policy.act(0, 4), lambda: policy.act(9, 0)):
        with pytest.raises(StateError, match="is outside 0"):
            wrong()
    with pytest.raises(OptionError, match="acts on what was paid so far"):
        tail.action_values(0)


def test_an_action_that_is_worse_whatever_happens_is_named_and_left_out():
    mdp = TabularMDP.from_outcomes([0, 0, 0], [0, 0, 1], [0] * 3, [0.5, 0.5, 1.0], [1.0, 2.0, 1e9], horizon=2)
    policy = solve(mdp, CVaR(0.5))
    rows = policy.plan().rows
    assert rows[0].erm == pytest.approx(policy.value)
    assert math.isnan(rows[1].erm)
    assert rows[1].distribution is None
    with pytest.raises(OptionError, match="1 is worse than this policy, whatever happens"):
        policy.distribution(1)


def test_what_cannot_be_solved_is_said_with_what_can():
    mdp = domains.make("mdp-4")
    with pytest.raises(OptionError, match=r"no exact solver for: mean, with EVaR.*CVaR\(level\).*ERM\(beta\)"):
        solve(mdp, Expectation().within(EVaR(0.9), 3.0))
    with pytest.raises(OptionError, match="objective must be one of"):
        solve(mdp, "CVaR")
    with pytest.raises(OptionError, match="effort"):
        solve(mdp, 0.5, effort=0.0)


@dataclass(frozen=True)
class MeanSquare(Objective):
    """The mean of the squared total: a new objective is a class and a solver."""

    name: ClassVar[str] = "mean square"
    needs_accrued: ClassVar[bool] = True

    def of_costs(self, costs, weights=None):
        return float(np.average(np.square(costs), weights=weights))


def test_a_new_objective_is_one_class_and_one_solver():
    def solver(mdp, objective, limits):
        found = solve(mdp, ExpectedUtility(lambda total: total**2), effort=limits.effort)
        return Policy(objective, mdp, found.value, graph=found.graph, chosen=found.chosen)

    with pytest.raises(OptionError, match="no exact solver for: mean square"):
        solve(random_table(0), MeanSquare())
    register_solver(MeanSquare, solver)
    mdp = random_table(0)
    policy = solve(mdp, MeanSquare())
    assert policy.value == pytest.approx(best(mdp, MeanSquare().of_costs), abs=1e-9)
    assert policy.plan().measure == "mean square"


def test_numbers_are_betas_and_effort_widens_the_gap():
    mdp = domains.make("mdp-4")
    assert solve(mdp, 0.5).value == backward_induction(mdp, 0.5).value == pytest.approx(1.779207373)
    close, rough = solve(mdp, EVaR(0.9)), solve(mdp, EVaR(0.9), effort=0.01)
    assert rough.solves <= close.solves
    assert rough.value - rough.gap <= close.value <= rough.value + 1e-12
