"""What ``tailwise plan`` takes by itself finds the optimal first action of the built-in simulators.

These models list their outcomes, and so the planner proves its action: no seed can make it another.
"""

import pytest

from tailwise import backward_induction, domains, make_planner
from tailwise.cli.plan import DEFAULT_ITERATIONS
from tailwise.models import tabulate


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("name", "beta"),
    [("inventory", 0.02), ("battery", 0.02), ("american-put", 0.1), ("machine-maintenance", 0.1), ("sailing", 0.1)],
)
def test_domain_defaults_find_the_optimal_first_action(name, beta):
    model = domains.make(name)
    table = tabulate(model)
    best = backward_induction(table, beta).optimal_actions(0, table.start).tolist()
    listed = model.actions(model.start)
    names = list(range(listed)) if isinstance(listed, int) else list(listed)
    optimal = {names[k] for k in best}
    plan = make_planner(model, beta, seed=0).plan(iterations=DEFAULT_ITERATIONS)
    assert plan.proven
    assert plan.action in optimal
