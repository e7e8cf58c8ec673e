"""Nested CVaR: against plain recursion, its neighbours (static CVaR, worst case), and its limits."""

import numpy as np
import pytest

from small_tables import random_table
from tailwise import NestedCVaR, TabularMDP, backward_induction, domains, solve
from tailwise.errors import OptionError, StateError
from tailwise.risk import conditional_value_at_risk


def plain(mdp, level, state=None, h=0):
    """The definition, one state at a time, in costs."""
    state = mdp.start if state is None else state
    sign = 1.0 if mdp.sense == "cost" else -1.0
    if h == mdp.horizon:
        return sign * mdp.terminal_cost(state)
    values = []
    for action in mdp.actions(state).tolist():
        outcomes = mdp.outcomes(state, action, h)
        totals = [
            sign * o.cost + (0.0 if o.done else mdp.discount * plain(mdp, level, o.next_state, h + 1)) for o in outcomes
        ]
        values.append(conditional_value_at_risk(totals, level, [o.probability for o in outcomes]))
    return min(values)


@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_it_equals_the_plain_recursion(sense):
    for seed in range(8):
        mdp = random_table(seed, outcomes=3, sense=sense, ends=seed % 2 == 1)
        for level in (0.05, 0.5, 0.9, 0.99):
            solution = solve(mdp, NestedCVaR(level))
            assert float(mdp.signed(solution.value)) == pytest.approx(plain(mdp, level), abs=1e-12)
            assert solution.act(mdp.start, 0) == solution.action


def test_it_lies_between_the_mean_and_the_worst_case():
    for seed in range(8):
        mdp = random_table(seed)
        worst = backward_induction(mdp, 1e7).value
        for level in (0.3, 0.9):
            nested = solve(mdp, NestedCVaR(level)).value
            assert backward_induction(mdp, 0.0).value <= nested + 1e-9 <= worst + 1e-5


@pytest.mark.compiled
def test_its_limits_are_the_mean_and_the_worst_case():
    mdp = domains.make("mdp-4")
    assert solve(mdp, NestedCVaR(1e-12)).value == pytest.approx(backward_induction(mdp, 0.0).value, abs=1e-9)
    assert solve(mdp, NestedCVaR(1 - 1e-9)).value == pytest.approx(backward_induction(mdp, 1e9).value, abs=1e-6)


def test_planning_again_later_changes_nothing():
    mdp = random_table(2, horizon=4)
    solution = solve(mdp, NestedCVaR(0.7))
    for state in range(mdp.num_states):
        for h in range(1, 4):
            again = solve(mdp.with_options(start=state, horizon=4 - h), NestedCVaR(0.7))
            assert again.value == pytest.approx(solution.values[h, state], abs=1e-12)


def test_one_coin():
    """P(1) = 1/2: CVaR at 75 % is 1, at 25 % it is 2/3."""
    coin = TabularMDP.from_outcomes([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 1.0], horizon=2)
    assert solve(coin, NestedCVaR(0.75)).value == 2.0
    assert solve(coin, NestedCVaR(0.25)).value == pytest.approx(4 / 3)
    assert np.isfinite(solve(coin, NestedCVaR(0.25)).values).all()


def test_nonsense_is_explained():
    mdp = random_table(0)
    with pytest.raises(OptionError, match="level"):
        solve(mdp, NestedCVaR(1.5))
    with pytest.raises(StateError, match=r"state 99 is outside 0\.\.2"):
        solve(mdp, NestedCVaR(0.5)).act(99, 0)
