"""Bounds of the optimal risk-to-go that the user knows, in searches."""

import numpy as np
import pytest

from conftest import random_mdp
from search.test_four_kinds import FromTable
from tailwise import AccMcts, CvarMcts, ErmMcts, LearnedModelSearch, backward_induction, make_planner
from tailwise.errors import OptionError, SimulatorError

BETA = 0.3


def problem(sense):
    table = random_mdp(2, states=30, actions=4, horizon=8, discount=0.95)
    exact = backward_induction(table, BETA)
    sign = 1.0 if sense == "cost" else -1.0
    model = FromTable(table) if sense == "reward" else table
    return (
        model,
        exact,
        lambda width: (
            lambda state, h: tuple(
                sorted((sign * (exact.values[h, state] - width), sign * (exact.values[h, state] + width)))
            )
        ),
    )


@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_close_bounds_leave_the_noise_of_the_first_step_alone(sense):
    model, exact, within = problem(sense)
    sign = 1.0 if sense == "cost" else -1.0
    wanted = exact.action_values(0)[exact.mdp.start]
    errors = []
    for bounds in (within(0.01), None):
        plan = LearnedModelSearch(model, BETA, seed=1, bounds=bounds).plan(iterations=60)
        errors.append(max(abs(sign * row.erm - wanted[row.action]) for row in plan.rows))
        assert not any("refute" in note for note in plan.notes)
    assert errors[0] < 0.5 * errors[1]


def test_a_new_leaf_of_the_tree_is_worth_what_is_within():
    class Guessing(FromTable):
        def rollout(self, state, h, rng):
            return 100.0

    model, exact, within = problem("reward")
    cut = ErmMcts(Guessing(model.table), BETA, seed=0, bounds=within(0.0)).plan(iterations=200)
    valued = ErmMcts(model, BETA, seed=0, leaf_value=lambda state, h: -float(exact.values[h, state])).plan(
        iterations=200
    )
    assert [row.erm for row in cut.rows] == [row.erm for row in valued.rows]


def test_wrong_bounds_are_left_out_and_named():
    model, exact, _ = problem("cost")
    wrong = lambda state, h: (exact.values[h, state] + 4.0, exact.values[h, state] + 5.0)  # noqa: E731
    plan = LearnedModelSearch(model, BETA, seed=0, bounds=wrong).plan(iterations=2500)
    assert any("refute what bounds says" in note for note in plan.notes)
    assert abs(plan.value - exact.value) < 0.5


def test_what_bounds_must_be():
    model, _, _ = problem("reward")
    with pytest.raises(SimulatorError, match=r"bounds\(.*low must not exceed high"):
        LearnedModelSearch(model, BETA, seed=0, bounds=lambda state, h: (1.0, 0.0)).plan(iterations=50)
    with pytest.raises(SimulatorError, match=r"expected \(low, high\)"):
        ErmMcts(model, BETA, seed=0, bounds=lambda state, h: 1.0).plan(iterations=50)
    with pytest.raises(OptionError, match="bounds must be a function"):
        LearnedModelSearch(model, BETA, bounds=(0.0, 1.0))
    for kind in (AccMcts, CvarMcts):
        with pytest.raises(OptionError, match="bounds are those of an ERM"):
            kind(model, 0.5, bounds=lambda state, h: (0.0, 1.0))
    with pytest.raises(OptionError, match="does not take the option bounds"):
        make_planner(model, BETA, kind="acc-mcts", bounds=lambda state, h: (0.0, 1.0))


def test_bounds_that_say_nothing_change_nothing():
    model, _, _ = problem("reward")
    plans = [
        LearnedModelSearch(model, BETA, seed=3, bounds=bounds).plan(iterations=40)
        for bounds in (None, lambda state, h: (-np.inf, np.inf))
    ]
    assert [row.erm for row in plans[0].rows] == [row.erm for row in plans[1].rows]
