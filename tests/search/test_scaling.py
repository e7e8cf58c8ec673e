"""Costs in another unit, and beta in its inverse, change nothing but the unit: for every search."""

import dataclasses

import numpy as np
import pytest

from conftest import random_mdp
from tailwise import (
    BoundedRtdp,
    CVaR,
    CvarMcts,
    DistributionalMcts,
    ErmMcts,
    LearnedModelSearch,
    PolynomialBonus,
    Uct,
    make_planner,
)

UNITS = [2.0**-60, 2.0**-33, 2.0**40]


def scaled(table, unit):
    return dataclasses.replace(
        table,
        losses=table.losses * unit,
        terminal_losses=table.terminal_losses * unit,
        step_losses=table.step_losses * unit,
    )


SEARCHES = {
    "learned": lambda model, beta, unit: LearnedModelSearch(model, beta / unit, seed=3),
    "tree": lambda model, beta, unit: ErmMcts(model, beta / unit, preset="auto", seed=3),
    "paper": lambda model, beta, unit: ErmMcts(model, beta / unit, bonus=PolynomialBonus(constant=1.4 * unit), seed=3),
    "bounded": lambda model, beta, unit: BoundedRtdp(model, beta / unit, seed=3),
    "auto": lambda model, beta, unit: make_planner(model, beta / unit, seed=3),
    "uct": lambda model, beta, unit: Uct(model, bonus=PolynomialBonus(constant=1.4 * unit), seed=3),
    "cvar": lambda model, beta, unit: CvarMcts(model, 0.9, seed=3),
    "distributional": lambda model, beta, unit: DistributionalMcts(
        model, lambda total: (total / unit) ** 2 if total > 0 else total / unit, seed=3
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("unit", UNITS)
def test_every_search_is_equivariant(name, unit):
    table = random_mdp(3, states=6, actions=3, horizon=5, done=True)
    plan = SEARCHES[name](table, 0.7, 1.0).plan(iterations=200)
    other = SEARCHES[name](scaled(table, unit), 0.7, unit).plan(iterations=200)
    assert other.action == plan.action
    assert [row.visits for row in other.rows] == [row.visits for row in plan.rows]
    of_costs = 1.0 if name == "distributional" else unit
    np.testing.assert_allclose(other.value, of_costs * plan.value, rtol=1e-12)
    np.testing.assert_allclose([row.erm for row in other.rows], [of_costs * row.erm for row in plan.rows], rtol=1e-12)
    chances = [getattr(row, "probability_best", None) for row in plan.rows]
    assert [getattr(row, "probability_best", None) for row in other.rows] == chances


def moved(table, unit, shift):
    """Every step costs ``shift`` more, in another unit."""
    return dataclasses.replace(
        table,
        losses=unit * (table.losses + shift),
        terminal_losses=unit * table.terminal_losses,
        step_losses=unit * table.step_losses,
    )


@pytest.mark.compiled
@pytest.mark.parametrize("name", [*(name for name in SEARCHES if name != "distributional"), "tails"])
def test_every_search_takes_units_that_are_no_power_of_two_and_a_sure_cost(name):
    """Nothing is the same to the last bit: what is close enough to be a tie must be so in every unit."""
    search = SEARCHES.get(name, lambda model, beta, unit: DistributionalMcts(model, CVaR(0.9), seed=3))
    for seed, beta in ((0, 0.05), (1, 0.7), (2, 3.0)):
        table = random_mdp(seed, states=5, actions=3, horizon=3 + seed)
        plan = search(table, beta, 1.0).plan(iterations=100)
        for unit, shift in ((1e-9, 0.0), (1e9, 0.0), (1.0, 8.0), (1e-3, -3.0)):
            other = search(moved(table, unit, shift), beta, unit).plan(iterations=100)
            assert other.action == plan.action
            sure = shift * sum(table.discount**h for h in range(table.horizon))
            close = {"rtol": 0.0, "atol": 1e-9 * unit * (1.0 + abs(sure))}
            np.testing.assert_allclose(other.value, unit * (plan.value + sure), **close)
            rows = [unit * (row.erm + sure) for row in plan.rows]
            np.testing.assert_allclose([row.erm for row in other.rows], rows, **close)
            if name == "learned":  # the bootstrap draws no end where there is none
                spans = [[unit * (end + sure) for end in row.interval] for row in plan.rows]
                np.testing.assert_allclose([row.interval for row in other.rows], spans, **close)
                chances = [row.probability_best for row in plan.rows]
                assert [row.probability_best for row in other.rows] == chances


def test_tiny_costs_do_not_all_look_best():
    table = random_mdp(5, states=5, actions=3, horizon=4)
    plan, plain = (LearnedModelSearch(scaled(table, c), 0.3 / c, seed=0).plan(iterations=2000) for c in (2.0**-40, 1.0))
    chances = [row.probability_best for row in plan.rows]
    assert chances == [row.probability_best for row in plain.rows]
    assert sum(chance > 0.8 for chance in chances) == 1
