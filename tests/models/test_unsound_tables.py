"""Tables that break their contract reach no compiled code, and dead ends count only where an episode can get to."""

from dataclasses import replace

import numpy as np
import pytest

import tailwise
from tailwise import (
    AccMcts,
    CVaR,
    ErmMcts,
    EVaR,
    ExactPlanner,
    Exceedance,
    Expectation,
    NestedCVaR,
    NluMcts,
    TabularMDP,
    Uct,
    backward_induction,
    check_model,
    evaluate,
)
from tailwise.errors import ModelError, SimulatorError
from tailwise.exact import policy_risk
from tailwise.models.contract import LARGEST_COST
from tailwise.planners.utility_search import pilot_reference
from tailwise.risk import erm

ENTRIES = {
    "erm": lambda mdp: ErmMcts(mdp, 0.5, seed=0).plan(iterations=50),
    "uct": lambda mdp: Uct(mdp, seed=0).plan(iterations=50),
    "acc": lambda mdp: AccMcts(mdp, 0.5, seed=0).plan(iterations=50),
    "acc-raw": lambda mdp: AccMcts(mdp, 0.5, form="raw", seed=0).plan(iterations=50),
    "reference": lambda mdp: pilot_reference(mdp, 0.5),
    "nlu": lambda mdp: NluMcts(mdp, lambda total: total * total, seed=0).plan(iterations=50),
    "exact": lambda mdp: backward_induction(mdp, 0.5),
    "planner": lambda mdp: ExactPlanner(mdp, 0.5, seed=0).plan(iterations=50),
    "evaluate": lambda mdp: evaluate(mdp, np.zeros((3, 3), int), episodes=5, seed=0),
    "data": lambda mdp: mdp.data,
    "learned": lambda mdp: tailwise.LearnedModelSearch(mdp, 0.5, seed=0),
    "bounded": lambda mdp: tailwise.BoundedRtdp(mdp, 0.5, seed=0).plan(iterations=5),
    "cvar-mcts": lambda mdp: tailwise.CvarMcts(mdp, 0.5, seed=0).plan(iterations=5),
    "distributional": lambda mdp: tailwise.DistributionalMcts(mdp, lambda total: total, seed=0).plan(iterations=5),
    "auto": lambda mdp: tailwise.make_planner(mdp, 0.5, seed=0).plan(iterations=5),
    "evar": lambda mdp: tailwise.solve(mdp, EVaR(0.9)),
    "cvar": lambda mdp: tailwise.solve(mdp, CVaR(0.9)),
    "exceedance": lambda mdp: tailwise.solve(mdp, Exceedance(2.0)),
    "nested": lambda mdp: tailwise.solve(mdp, NestedCVaR(0.9)),
    "constrained": lambda mdp: tailwise.solve(mdp, Expectation().within(CVaR(0.9), 3.0)),
    "frontier": tailwise.frontier,
    "policy": lambda mdp: policy_risk(mdp, np.zeros((3, 3), int), 0.5),
    "chances": lambda mdp: policy_risk(mdp, np.zeros((3, 3, 1)), 0.5),
}


def chain(**changed):
    """0 -> 1 -> 2 -> 2 ..., in three steps."""
    built = TabularMDP.from_outcomes([0, 1, 2], [0, 0, 0], [1, 2, 2], [1.0] * 3, [1.0, 1.0, 0.0], horizon=3)
    return replace(built, **changed)


UNSOUND = {
    "no action": TabularMDP.from_outcomes(
        [0, 0], [0, 0], [1, 0], [0.5, 0.5], [1.0, 1.0], num_states=2, horizon=5, validate=False
    ),
    "far target": chain(next_states=np.array([1, 2, 2**30])),
    "negative target": chain(next_states=np.array([1, -7, 2])),
    "wild rows": chain(action_offsets=np.array([0, 1, 10**9, 3])),
    "wild outcomes": chain(outcome_offsets=np.array([0, 1, 10**12, 3])),
    "short losses": chain(losses=np.zeros(1)),
    "short ends": chain(terminal_losses=np.zeros(1)),
    "short steps": chain(step_losses=np.zeros((1, 3))),
    "wild start": chain(start=10**9),
    "no chance": chain(probabilities=np.array([1.0, 0.0, 1.0])),
    "wild ids": chain(action_ids=np.array([0, 2**40, 0])),
    "wild horizon": chain(horizon=-4),
    "huge": chain(losses=np.array([1.0, 1e308, 0.0])),
    "huge end": chain(terminal_losses=np.array([0.0, 0.0, -1e200])),
    "nan": chain(losses=np.array([np.nan, 0.0, 0.0])),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("case", UNSOUND)
def test_every_entry_refuses_an_unsound_table(case, entry):
    assert not check_model(UNSOUND[case]).ok
    with pytest.raises(ModelError, match="breaks its contract"):
        ENTRIES[entry](UNSOUND[case])


def test_a_table_owns_its_arrays():
    given = np.array([1.0, 2.0, 3.0])
    frozen = given.view()
    frozen.setflags(write=False)
    built = TabularMDP.from_outcomes([0, 1, 2], [0, 0, 0], [1, 2, 2], [1.0] * 3, given, horizon=3)
    others = chain(losses=given), chain(losses=frozen)
    given[:] = np.nan
    for table in (built, *others):
        assert table.losses.tolist() == [1.0, 2.0, 3.0]
        assert not table.losses.flags.writeable


def dead_end(horizon, **options):
    """State 2 has no action; from 0 it is two steps away."""
    return TabularMDP.from_outcomes([0, 1], [0, 0], [1, 2], [1, 1], [1, 1], num_states=3, horizon=horizon, **options)


def test_dead_ends_count_only_before_the_horizon():
    sound = dead_end(2)
    assert backward_induction(sound, 0.7).value == 2.0
    assert ErmMcts(sound, 0.7, seed=0).plan(iterations=20).value == 2.0
    with pytest.raises(ModelError, match="state 2: no action is allowed here"):
        dead_end(3)
    assert dead_end(3, start=1, validate=False).check().ok is False
    assert check_model(dead_end(1)).ok
    loop = TabularMDP.from_outcomes(
        [0, 0, 1], [0, 0, 0], [0, 1, 2], [0.5, 0.5, 1.0], [1.0] * 3, done=[False, False, True], num_states=3, horizon=9
    )
    assert loop.check().ok  # state 2 is only where an episode ended


@pytest.mark.parametrize("beta", [-2.0, 0.0, 1e-9, 0.8])
def test_a_state_that_can_lead_to_a_dead_end_has_no_finite_value(beta):
    # 0 -> 1; in 1, action 0 stays, action 1 may lead to 2, which has no action; 3 only leads to 2.
    mdp = TabularMDP.from_outcomes(
        [0, 1, 1, 1, 3], [0, 0, 1, 1, 0], [1, 1, 1, 2, 2], [1.0, 1.0, 0.9, 0.1, 1.0], [0.0, 5.0, 0.0, 0.0, 0.0],
        num_states=4, horizon=2,
    )  # fmt: skip
    solution = backward_induction(mdp, beta)
    assert solution.values[0, 0] == 0.0  # at step 1 the dead end comes too late to matter
    assert solution.values[1].tolist() == [0.0, 0.0, np.inf, 0.0]
    assert solution.values[0].tolist() == [0.0, 5.0, np.inf, np.inf]
    assert solution.policy[0].tolist()[:3] == [0, 0, -1]
    assert solution.q_values[0, 1].tolist() == [5.0, np.inf]


@pytest.mark.parametrize("planner", [ErmMcts, AccMcts])
def test_a_search_that_is_sent_near_a_dead_end_says_so(planner):
    search = planner(dead_end(2), 0.3, seed=0)
    search.reset(1, 0)
    with pytest.raises(SimulatorError, match="no action is allowed in state 2, which can be reached"):
        search.plan(iterations=20)
    exact = ExactPlanner(dead_end(2), 0.3, seed=0)
    exact.reset(1, 0)
    assert exact.plan(iterations=10).value == np.inf


def test_the_largest_costs_still_have_finite_totals():
    edge = chain(losses=np.array([LARGEST_COST, LARGEST_COST, LARGEST_COST]))
    assert backward_induction(edge, 0.0).value == pytest.approx(3 * LARGEST_COST)
    plan = ErmMcts(edge, 1.0, seed=0).plan(iterations=30)
    assert plan.value == pytest.approx(3 * LARGEST_COST)
    assert plan.rows[0].std == 0.0
    returns = evaluate(edge, [0, 0, 0], episodes=3, seed=0)
    assert returns.erm(1.0) == pytest.approx(erm(returns.costs, 1.0))
    with pytest.raises(ModelError, match="finite number of at most 1e\\+140"):
        TabularMDP.from_outcomes([0], [0], [0], [1.0], [1e308], horizon=10)
