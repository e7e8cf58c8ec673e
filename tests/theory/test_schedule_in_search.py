"""The schedule handed to the search: it runs, and acts as constants of its size must."""

import numpy as np
import pytest

from tailwise import ErmMcts, PolynomialBonus, backward_induction, domains
from tailwise.theory import schedule

MODEL = {"horizon": 20, "discount": 0.9, "actions": 2, "states": 3, "gap": 0.1, "cost_bound": 1.0}


@pytest.mark.compiled
@pytest.mark.parametrize("expansion", ["leaf", "path"])
def test_the_search_runs_with_the_theorems_constants(expansion):
    """The bonus dwarfs every cost, so the visits are spread evenly; the practical constant concentrates them."""
    mdp, beta = domains.make("mdp-4"), 0.5
    plan = schedule(beta=beta, form="tight", terminal="deterministic", **MODEL)
    constants = plan.clipped()
    assert np.isfinite(constants).all()
    assert plan.overflows.any()
    best = backward_induction(mdp, beta).value
    theory = ErmMcts(mdp, beta, seed=3, expansion=expansion, bonus=PolynomialBonus(constant=constants, eta=0.5))
    found = theory.plan(iterations=1000)
    assert [row.visits for row in found.rows] == [500, 500]
    lower = ErmMcts(mdp, beta, seed=3, expansion=expansion, bonus=PolynomialBonus(constant=plan.clipped(1e20), eta=0.5))
    assert lower.plan(iterations=1000).value == found.value  # where the cut lies does not matter
    practical = ErmMcts(mdp, beta, seed=3, expansion=expansion).plan(iterations=1000)
    assert max(row.visits for row in practical.rows) > 900
    assert abs(practical.value - best) < abs(found.value - best)


def test_a_cut_keeps_what_is_below_it():
    plan = schedule(beta=0.5, **MODEL)
    assert (plan.clipped(1e100)[plan.constants <= 1e100] == plan.constants[plan.constants <= 1e100]).all()
    assert plan.clipped(1e100).max() == 1e100
