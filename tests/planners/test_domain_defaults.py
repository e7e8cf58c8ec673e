"""What ``tailwise plan`` takes by itself finds the optimal first action of the built-in simulators.

The planner proves its action on models that list their outcomes, so that 20 of 20 are expected; 19 are asked for.
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
    found = [make_planner(model, beta, seed=seed).plan(iterations=DEFAULT_ITERATIONS).action for seed in range(20)]
    assert sum(action in optimal for action in found) >= 19
