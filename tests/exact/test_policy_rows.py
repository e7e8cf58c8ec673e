"""Policies and plans as tables: every row is what the policy does and promises there."""

import pandas as pd
import pytest

from tailwise import CVaR, domains, make_planner, solve
from tailwise.exact.grid_totals import GridTotals


def test_a_row_for_each_state_and_step_says_action_and_value():
    mdp = domains.make("mdp-4")
    policy = solve(mdp, 0.5)
    frame = policy.to_frame()
    assert list(frame.columns) == ["step", "state", "action", "value"]
    assert len(frame) == mdp.horizon * mdp.num_states
    for row in frame.itertuples():
        index = mdp.find_state(row.state)
        assert mdp.action_name(policy.act(row.state, row.step)) == row.action
        assert row.value == policy.values[row.step, index]


def test_states_of_a_simulator_are_listed_from_when_they_can_be_met():
    machine = domains.make("machine-maintenance")
    policy = solve(machine, 0.1)
    frame = policy.to_frame()
    first = frame[frame.step == 0]
    assert first.state.tolist() == [str(machine.start)]
    assert first.action.tolist() == [machine.action_name(policy.action)]


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "is_grid"), [("mdp-4", True), ("grid-mdp", False), ("battery", True)])
def test_where_the_past_matters_ranges_of_what_was_paid_have_rows(name, is_grid):
    model = domains.make(name)
    policy = solve(model, CVaR(0.95))
    assert isinstance(policy.graph, GridTotals) == is_grid
    frame = policy.to_frame()
    assert list(frame.columns) == ["step", "state", "action", "paid_from", "paid_to"]
    assert (frame.paid_from <= frame.paid_to).all()
    begun = frame.iloc[0]
    assert (begun.step, begun.paid_from, begun.paid_to) == (0, 0.0, 0.0)
    for row in frame.sample(40, random_state=0).itertuples():
        state = row.state if name != "battery" else tuple(map(int, row.state.strip("()").split(",")))
        for paid in (row.paid_from, row.paid_to):
            action = policy.act(state, row.step, paid)
            assert (policy.mdp if name != "battery" else model).action_name(action) == row.action
    assert not frame.duplicated(["step", "state", "paid_from"]).any()


def test_tables_are_written_as_csv_and_excel(tmp_path):
    policy = solve(domains.make("mdp-4"), 0.5)
    pd.testing.assert_frame_equal(pd.read_csv(policy.to_csv(tmp_path / "policy.csv")), policy.to_frame())
    pytest.importorskip("openpyxl")
    pd.testing.assert_frame_equal(pd.read_excel(policy.to_excel(tmp_path / "policy.xlsx")), policy.to_frame())


def test_a_plan_has_a_row_for_each_action():
    mdp = domains.make("mdp-4")
    plan = make_planner(mdp, 0.5, kind="exact").plan()
    frame = plan.to_frame()
    assert frame.action.tolist() == ["risky", "safe"]
    assert frame.recommended.tolist() == [False, True]
    assert frame.value.tolist() == [row.value for row in plan.rows]
    assert "unseen_erm" not in frame.columns  # nothing fills it
