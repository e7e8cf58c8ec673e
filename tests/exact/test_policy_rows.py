"""Policies and plans as tables: every row is what the policy does and promises there."""

import numpy as np
import pandas as pd
import pytest

from tailwise import CVaR, TabularMDP, domains, make_planner, solve
from tailwise._results import write_table
from tailwise.errors import FormatError, OptionError
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
    pytest.importorskip("pyarrow")
    pd.testing.assert_frame_equal(pd.read_parquet(policy.to_parquet(tmp_path / "policy.parquet")), policy.to_frame())
    pytest.importorskip("openpyxl")
    pd.testing.assert_frame_equal(pd.read_excel(policy.to_excel(tmp_path / "policy.xlsx")), policy.to_frame())


@pytest.mark.parametrize("suffix", [".csv", ".xlsx", ".parquet"])
def test_tables_hold_what_is_missing_infinite_or_mixed(suffix, tmp_path):
    columns = {"state": ["poor, or so", (0, 1), None], "value": np.array([1.5, np.nan, np.inf]), "n": [1, None, 3]}
    read = {".csv": pd.read_csv, ".xlsx": pd.read_excel, ".parquet": pd.read_parquet}[suffix]
    frame = read(write_table(columns, tmp_path / f"a{suffix}"))
    assert frame.state.tolist()[:2] == ["poor, or so", "(0, 1)"]
    assert frame.state.isna().tolist() == [False, False, True]
    np.testing.assert_array_equal(frame.value.astype(float), columns["value"])
    assert frame.n.isna().tolist() == [False, True, False]


def test_a_table_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(FormatError, match="cannot be written"):
        write_table({"a": [1]}, tmp_path / "no" / "a.csv")
    with pytest.raises(OptionError, match=r"must end with \.csv, \.xlsx, \.parquet"):
        write_table({"a": [1]}, tmp_path / "a.foo")
    assert not list(tmp_path.iterdir())


def test_a_plan_has_a_row_for_each_action():
    mdp = domains.make("mdp-4")
    plan = make_planner(mdp, 0.5, kind="exact").plan()
    frame = plan.to_frame()
    assert frame.action.tolist() == ["risky", "safe"]
    assert frame.recommended.tolist() == [False, True]
    assert frame.value.tolist() == [row.value for row in plan.rows]
    assert "unseen_erm" not in frame.columns  # nothing fills it


def test_a_plan_says_what_is_dominated_by_shape():
    rows = [0, 0, 0, 0], [0, 1, 2, 2], [0, 0, 0, 0], [1.0, 1.0, 0.5, 0.5], [2.0, 3.0, 1.0, 3.0]
    plan = solve(TabularMDP.from_outcomes(*rows, horizon=1, action_labels=("sure", "dear", "gamble")), 0.5).plan()
    assert plan.label == "sure"
    assert plan.dominance == (
        "sure dominates gamble: nobody averse to risk prefers gamble.",
        "sure dominates dear: no total is more likely to be kept to with dear.",
    )
    assert plan.in_words[-2:] == plan.dominance
    assert str(plan).splitlines()[-2:] == list(plan.dominance)
