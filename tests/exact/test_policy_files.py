"""Policies in files, drawn and reported: every kind comes back as it was."""

import dataclasses

import numpy as np
import pytest

from tailwise import (
    CVaR,
    EVaR,
    Exceedance,
    Expectation,
    ExpectedUtility,
    NestedCVaR,
    Plan,
    RobustKL,
    RobustL1,
    Simulator,
    WorstCase,
    domains,
    load_policy,
    solve,
)
from tailwise.errors import FormatError, ModelError, OptionError
from tailwise.report import plots

BUDGET = Expectation().within(CVaR(0.9), 30.0)
OBJECTIVES = (
    0.3, Expectation(), EVaR(0.9), EVaR(0.5), CVaR(0.9), CVaR(1.0), NestedCVaR(0.9), WorstCase(), Exceedance(5.0),
    BUDGET, RobustKL(0.1), RobustL1(0.2),
)  # fmt: skip


class Queue(Simulator):
    """Two ways to serve, states of a class of tuples, and a discount."""

    horizon, start, discount = 5, (1, "busy"), 0.9

    def actions(self, state):
        return ["slow", "fast"]

    def outcomes(self, state, action):
        waiting, _ = state
        served = 2 if action == "fast" else 1
        cost = waiting + (0.7 if action == "fast" else 0.0)
        for came, chance in ((0, 0.5), (1, 0.3), (4, 0.2)):
            left = min(max(waiting - served, 0) + came, 5)
            yield chance, (left, "busy" if left else "free"), float(cost), False

    def step(self, state, action, rng):
        found = list(self.outcomes(state, action))
        return found[rng.choice(3, p=[one[0] for one in found])][1:]


def check_same(policy, again):
    assert str(again) == str(policy)
    assert again.to_dict() == policy.to_dict()
    assert again.plan().rows == policy.plan().rows
    for name, column in policy.to_columns().items():
        assert list(map(str, again.to_columns()[name])) == list(map(str, column)), name
    for one, other in zip(policy.distribution().weighted(), again.distribution().weighted(), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
@pytest.mark.parametrize("name", ["mdp-4", "queue"])
def test_a_policy_comes_back(name, objective, tmp_path):
    model = Queue() if name == "queue" else domains.make(name)
    policy = solve(model, objective, effort=0.2)
    again = load_policy(policy.save(tmp_path / "it.policy"), model)
    check_same(policy, again)
    assert again.minds_the_past == policy.minds_the_past
    if policy.policy is not None:
        assert np.array_equal(again.q_values, policy.q_values)


def test_a_policy_without_a_horizon_comes_back(tmp_path):
    model = domains.make("mdp-4").with_options(horizon=None)
    policy = solve(model, 0.3)
    again = load_policy(policy.save(tmp_path / "it.policy"), model)
    check_same(policy, again)
    assert again.act(0, 1000) == policy.act(0, 1000)
    assert again.bracket == policy.bracket


def test_a_file_of_another_model_or_kind_or_damaged(tmp_path):
    model = domains.make("mdp-4")
    policy = solve(model, CVaR(0.9))
    path = policy.save(tmp_path / "it.policy")
    with pytest.raises(ModelError, match="another model"):
        load_policy(path, domains.make("mdp-4", epsilon=0.2))
    with pytest.raises(FormatError, match="holds a plan"):
        load_policy(policy.plan().save(tmp_path / "it.plan"), model)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(FormatError, match="checksum"):
        load_policy(path, model)


def test_what_no_file_can_hold_says_what_can_be_kept(tmp_path):
    with pytest.raises(OptionError, match="to_csv"):
        solve(domains.make("grid-mdp"), ExpectedUtility(lambda total: total**2)).save(tmp_path / "it")
    own = dataclasses.replace(solve(domains.make("mdp-4"), 0.1), row_risks=lambda *given: given)  # of a solver's own
    with pytest.raises(OptionError, match="cannot be kept"):
        own.save(tmp_path / "it")
    with pytest.raises(OptionError, match="a BeliefPolicy cannot be kept"):
        solve(domains.make("tiger", horizon=2), 0.1).save(tmp_path / "it")
    assert not (tmp_path / "it").exists()


def test_every_policy_and_plan_is_drawn_and_reported(tmp_path):
    model = domains.make("mdp-4")
    plain, minding = solve(model, 0.3), solve(model, CVaR(0.9))
    assert plain.plot() == plots.policy(plain)
    assert minding.plot() == minding.plan().plot() == plots.distribution(minding.plan())
    with pytest.raises(OptionError, match=r"policy\.plot\(\)"):
        plots.policy(minding)
    assert isinstance(minding.plan(), Plan)
    assert minding.plan().plot(level=0.5) != minding.plan().plot()
    assert "CVaR" in minding.report(tmp_path / "it.html").read_text()
    assert type(solve(domains.make("tiger", horizon=2), 0.1).plot()) is type(plain.plot())
