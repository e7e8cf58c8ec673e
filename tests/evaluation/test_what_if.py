"""Changed models: what a change does to the table, to values, and where decisions turn."""

import dataclasses
import re

import numpy as np
import pytest

from tailwise import CVaR, Expectation, TabularMDP, domains, sensitivity, solve, what_if
from tailwise.errors import ModelError, OptionError
from tailwise.models.table_changes import changed


def machine(cost=300.0, chance=0.1):
    """Run a machine that may fail, or service it for sure."""
    return TabularMDP.from_outcomes(
        [0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0], [1 - chance, chance, 1.0, 1.0], [0.0, 0.0, 20.0, cost],
        horizon=5, state_labels=("good", "failed"), action_labels=("run", "service"), name="machine",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "other"),
    [
        ("cost[failed,run]=500", machine(500.0)),
        ("cost[run, failed] *= 2", machine(600.0)),
        ("cost[1,0,0] -= 50", machine(250.0)),
        ("cost[failed]+=1.5", machine(301.5)),
        ("p[good,run,failed]=.3", machine(chance=0.3)),
        ("p[run,good,failed]*=3", machine(chance=0.3)),
        ("horizon=9", machine().with_options(horizon=9)),
        ("discount*=.9", machine().with_options(discount=0.9)),
    ],
)
def test_a_change_is_the_table_that_was_built_with_it(change, other):
    found = changed(machine(), change)
    for name in ("probabilities", "losses"):
        np.testing.assert_allclose(getattr(found, name), getattr(other, name), atol=1e-15)
    assert (found.horizon, found.discount) == (other.horizon, other.discount)
    assert solve(found, 0.01).value == pytest.approx(solve(other, 0.01).value, rel=1e-12)


def test_names_may_have_commas_and_what_can_be_read_twice_is_refused():
    def named(*states):
        return TabularMDP.from_outcomes(
            [0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0], [0.9, 0.1, 1.0, 1.0], [0.0, 0.0, 20.0, 300.0],
            horizon=5, state_labels=states, action_labels=("run", "service, full"),
        )  # fmt: skip

    table = named("good", "failed, at last")
    for change in ("cost[service, full]=50", "cost[good,service, full]=50", "cost[good,service, full,*]=50"):
        assert changed(table, change).losses.tolist() == [0.0, 0.0, 50.0, 300.0]
    assert changed(table, "p[good,run,failed, at last]=.2").probabilities.tolist() == [0.8, 0.2, 1.0, 1.0]
    assert changed(table, "end[failed, at last]=7").terminal_losses.tolist() == [0.0, 7.0]
    table = named("good", "good, run")
    with pytest.raises(
        OptionError, match=r"in two ways; say .* for good; run; \*, or .* for good, run; \*; "
    ) as raised:
        changed(table, "cost[good, run]=3")
    spelt = re.findall(r"(cost\S+) for", str(raised.value))
    assert [changed(table, one).losses.tolist() for one in spelt] == [[3.0, 3.0, 20.0, 300.0], [0.0, 0.0, 20.0, 3.0]]


def test_a_probability_that_falls_to_zero_is_no_outcome_any_more():
    found = changed(machine(), "p[good,run,failed]=0")
    assert found.num_outcomes == machine().num_outcomes - 1
    assert solve(found, 0.1).value == 0.0


def test_rewards_are_changed_as_rewards():
    mdp = TabularMDP.from_outcomes([0, 0], [0, 1], [0, 0], [1.0, 1.0], rewards=[2.0, 3.0], horizon=4)
    assert what_if(mdp, Expectation(), ["reward[0,1]*=2"]).scenarios[1].value == pytest.approx(24.0)
    with pytest.raises(OptionError, match="which has rewards"):
        what_if(mdp, Expectation(), ["cost[0,1]*=2"])


@pytest.mark.parametrize("objective", [0.01, CVaR(0.9)])
def test_scenarios_stand_side_by_side(objective):
    changes = {"dear": ["cost[failed]=3000"], "dear and frail": ["cost[failed]=3000", "p[run,good,failed]*=5"]}
    found = what_if(machine(), objective, changes)
    others = [machine(), machine(3000.0), machine(3000.0, 0.5)]
    assert [one.name for one in found.scenarios] == ["as it is", "dear", "dear and frail"]
    for scenario, other in zip(found.scenarios, others, strict=True):
        plan = solve(other, objective).plan()
        assert (scenario.label, scenario.value) == (plan.label, pytest.approx(plan.value, rel=1e-12))
    rows = {row.action: row.value for row in solve(others[1], objective).plan().rows}
    assert found.scenarios[1].kept == pytest.approx(rows[found.scenarios[0].action], rel=1e-12, nan_ok=True)
    assert found.to_frame()["change"][0] == 0.0
    assert "dear and frail" in str(found)


@pytest.mark.compiled
def test_totals_that_cannot_be_listed_are_compared_on_a_grid(monkeypatch):
    """The values of a grid are near the exact ones, by more than the gap never; the decisions and turns the same."""
    mdp = machine()
    exact = what_if(mdp, CVaR(0.9), ["cost[failed]*=3"]), sensitivity(mdp, CVaR(0.9), ["cost[failed]"])
    monkeypatch.setattr("tailwise.exact.totals.MAX_OUTCOMES", 1)
    monkeypatch.setattr("tailwise.exact.totals.WORK", 200_000)
    rough = what_if(mdp, CVaR(0.9), ["cost[failed]*=3"]), sensitivity(mdp, CVaR(0.9), ["cost[failed]"])
    for one, other in zip(exact[0].scenarios, rough[0].scenarios, strict=True):
        assert (one.gap, one.label) == (0.0, other.label)
        assert other.gap > 0.0
        assert other.value - 1.000001 * other.gap <= one.value <= other.value * (1.0 + 1e-9)  # a plan's own value
    (one,), (other,) = exact[1].influences, rough[1].influences
    assert (one.below is None, one.above is None) == (other.below is None, other.above is None)
    for a, b in ((one.below, other.below), (one.above, other.above)):
        assert a is None or (a.label == b.label and a.factor == pytest.approx(b.factor, rel=0.1))
    assert "totals on a grid" in str(rough[0])
    assert "totals on a grid" in str(rough[1])
    assert "may be elsewhere, or none" in rough[1].headline
    assert "grid" not in str(exact[0]) + str(exact[1])


def test_where_the_decision_turns_is_where_both_actions_are_worth_the_same():
    """With one step before the end: run costs chance * cost, service 20."""
    mdp = TabularMDP.from_outcomes(
        [0, 0, 0], [0, 0, 1], [0, 1, 0], [0.9, 0.1, 1.0], [0.0, 300.0, 20.0], horizon=1, num_states=2,
        state_labels=("good", "failed"), action_labels=("run", "service"),
    )  # fmt: skip
    assert solve(mdp, Expectation()).plan().label == "service"
    found = sensitivity(mdp, Expectation(), ["cost[good,run,failed]", "p[good,run,failed]", "cost[good,service]"])
    by_name = {one.name: one for one in found.influences}
    for name in ("cost[good,run,failed]", "p[good,run,failed]"):
        assert by_name[name].below.label == "run"
        assert by_name[name].below.factor == pytest.approx(2 / 3, rel=1e-7)
        assert by_name[name].above is None
    assert by_name["cost[good,service]"].above.factor == pytest.approx(1.5, rel=1e-7)
    assert by_name["cost[good,service]"].high.value == pytest.approx(24.0)
    assert found.influences[0].name == "cost[good,service]"  # the others leave the value as it is
    assert "1.5" in str(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("cost[failed]", "is no change: say it as cost"),
        ("cost[failed]=dear", "is no change"),
        ("price[failed]=3", "names no number of this model, which has costs"),
        ("cost[lost]=3", "no state 'lost'; there are good, failed"),
        ("cost[good,sell]=3", "no action 'sell'; there are run, service"),
        ("cost[failed,service]=3", "matches nothing"),
        ("horizon=2.5", r"'horizon=2.5': horizon must be a whole number"),
        ("discount=2", r"'discount=2': discount must be"),
        ("cost[a,b,c,d]=3", "no state or action has a name of these 4 parts"),
        ("p[good,run,failed]*=20", "the probability would be 2 in state good, run"),
        ("p[good,service,good]=.5", "nothing else can happen in state good, service"),
    ],
)
def test_changes_that_cannot_be(change, message):
    with pytest.raises(OptionError, match=message):
        what_if(machine(), 0.01, [change])


def test_states_with_commas_in_their_names():
    grid = domains.make("grid-mdp")
    assert what_if(grid, 0.1, ["cost[(0,1),up]+=5"]).scenarios[1].value >= solve(grid, 0.1).value


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("cost[good,run]", "is 0, which no factor changes"),
        ("p[good,service,good]", "nothing else can happen"),
        ("cost[lost]", r"^'cost\[lost\]': there is no state 'lost'"),
        ("cost[lost]=3", r"^'cost\[lost\]=3' is no number of a model: say it as cost\[state,action\], "),
        ("price[good]", r"^'price\[good\]' names no number of this model"),
    ],
)
def test_numbers_that_no_factor_changes(number, message):
    with pytest.raises(OptionError, match=message):
        sensitivity(machine(), 0.01, [number])


def test_a_cost_out_of_range_names_its_scenario():
    with pytest.raises(ModelError, match=r"^too much: the model 'machine' breaks its contract"):
        what_if(machine(), 0.01, {"too much": ["cost[failed]=1e200"]})


def test_the_tornado_has_the_widest_bar_first_and_a_diamond_where_the_decision_turns():
    pytest.importorskip("plotly")
    found = sensitivity(domains.make("mdp-4"), 0.5, ["cost[s3]", "cost[s1]", "p[s0,risky,s3]"], spread=0.95)
    figure = found.plot()
    less, more, turned = figure.data
    base = found.base.value
    widths = [np.ptp([base, base + a, base + b]) for a, b in zip(less.x, more.x, strict=True)]
    assert widths == sorted(widths, reverse=True)
    ends = {one.name: (one.low, one.high) for one in found.influences}
    for name, a, b in zip(less.y, less.x, more.x, strict=True):
        low, high = ends[name.split("<br>")[0]]
        assert base + a == pytest.approx(low.value)
        assert base + b == pytest.approx(high.value)
    wanted = [end.value for one in found.influences for end in (one.low, one.high) if end.label != found.base.label]
    assert wanted
    assert list(turned.x) == wanted


def test_what_changes_nothing_changes_by_nothing():
    """A cost that no plan of the best pays: values that differ in the last digit are said to be equal."""
    found = what_if(machine(), 0.05, ["cost[good,service]=21", "cost[failed]*=2"])
    assert found.to_columns()["change"][:1] == [0.0]
    base = found.scenarios[0]
    near = dataclasses.replace(base, value=base.value * (1.0 + 1e-15))
    assert dataclasses.replace(found, scenarios=(base, near)).to_columns()["change"] == [0.0, 0.0]


def test_a_horizon_is_set_and_not_varied():
    endless = machine().with_options(horizon=None)
    assert changed(endless, "horizon=5").horizon == 5
    with pytest.raises(OptionError, match="no horizon to change"):
        changed(endless, "horizon+=1")
    with pytest.raises(OptionError, match="which factors do not keep one"):
        sensitivity(machine(), 0.01, ["horizon"])
