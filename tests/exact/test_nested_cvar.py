"""Nested CVaR: against plain recursion, its neighbours (static CVaR, worst case), and its limits."""

import numpy as np
import pytest

from small_tables import random_table
from tailwise import TabularMDP, backward_induction, cvar_planning, domains, nested_cvar_planning
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
            solution = nested_cvar_planning(mdp, level)
            assert float(mdp.signed(solution.value)) == pytest.approx(plain(mdp, level), abs=1e-12)
            assert solution.act(mdp.start, 0) == solution.action


def test_it_lies_between_static_cvar_and_the_worst_case():
    for seed in range(8):
        mdp = random_table(seed)
        worst = backward_induction(mdp, 1e7).value
        for level in (0.3, 0.9):
            nested = nested_cvar_planning(mdp, level).value
            assert cvar_planning(mdp, level).value <= nested + 1e-9 <= worst + 1e-5


@pytest.mark.compiled
def test_its_limits_are_the_mean_and_the_worst_case():
    mdp = domains.make("mdp-4")
    assert nested_cvar_planning(mdp, 1e-12).value == pytest.approx(backward_induction(mdp, 0.0).value, abs=1e-9)
    assert nested_cvar_planning(mdp, 1 - 1e-9).value == pytest.approx(backward_induction(mdp, 1e9).value, abs=1e-6)


def test_planning_again_later_changes_nothing():
    mdp = random_table(2, horizon=4)
    solution = nested_cvar_planning(mdp, 0.7)
    for state in range(mdp.num_states):
        for h in range(1, 4):
            again = nested_cvar_planning(mdp.with_options(start=state, horizon=4 - h), 0.7)
            assert again.value == pytest.approx(solution.values[h, state], abs=1e-12)


def test_one_coin():
    """P(1) = 1/2: CVaR at 75 % is 1, at 25 % it is 2/3."""
    coin = TabularMDP.from_outcomes([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 1.0], horizon=2)
    assert nested_cvar_planning(coin, 0.75).value == 2.0
    assert nested_cvar_planning(coin, 0.25).value == pytest.approx(4 / 3)
    assert np.isfinite(nested_cvar_planning(coin, 0.25).values).all()


def test_nonsense_is_explained():
    mdp = random_table(0)
    with pytest.raises(OptionError, match="worst 5 %"):
        nested_cvar_planning(mdp, 1.0)
    with pytest.raises(StateError, match="outside the table"):
        nested_cvar_planning(mdp, 0.5).act(99, 0)
