"""CVaR-MCTS: against the exact plan, closed loop, and as a planner among planners."""

import numpy as np
import pytest

from small_tables import random_table
from tailwise import CvarMcts, Planner, cvar_planning, domains, evaluate, make_planner
from tailwise.errors import OptionError


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_it_finds_the_exact_value_and_first_action_of_small_tables(sense):
    """20,000 iterations: estimates within 10 % of the range of totals, and most first actions."""
    near = 0
    for seed in range(6):
        mdp = random_table(seed, sense=sense, whole=True, discount=1.0)
        for level in (0.5, 0.8):
            exact = cvar_planning(mdp, level)
            plan = CvarMcts(mdp, level, seed=seed).plan(iterations=20_000)
            spread = float(np.ptp(exact.graph.all_totals()))
            assert abs(plan.value - exact.value) <= 0.1 * spread
            near += plan.action == exact.action
    assert near >= 9  # of 12; ties and near ties are left


@pytest.mark.compiled
def test_closed_loop_it_comes_near_the_optimum_of_mdp_4():
    """40 episodes at 90 %: the optimum, 1.946, is nearly certain under the best plan, so that luck is small."""
    mdp = domains.make("mdp-4")
    returns = evaluate(mdp, CvarMcts(mdp, 0.9), episodes=40, iterations=2000, seed=1)
    assert returns.cvar(0.9) <= cvar_planning(mdp, 0.9, merge=0.02).value + 0.2
    neutral = evaluate(mdp, make_planner(mdp, 0.0, kind="neutral-bi"), episodes=40, seed=1)
    assert returns.cvar(0.9) < neutral.cvar(0.9) - 1.0


@pytest.mark.compiled
def test_the_threshold_is_kept_for_the_episode():
    mdp = domains.make("mdp-4")
    search = CvarMcts(mdp, 0.5, seed=2)
    assert isinstance(search, Planner)
    assert search.threshold is None
    first = search.plan(iterations=600)
    assert first.threshold == search.threshold
    assert len(first.tried) >= 6
    search.advance(first.action, 1 if first.label == "safe" else 2)
    assert search.step == 1
    later = search.plan(iterations=300)
    assert later.threshold == first.threshold
    assert later.tried == ()
    assert "CVaR at 0.5 about" in str(later)
    search.reset()
    assert (search.threshold, search.step, search.accrued) == (None, 0, 0.0)
    search.reset(2, 19, accrued=5.0)
    assert search.plan(iterations=100).value == pytest.approx(5.0 + 0.9**19 * 0.05, abs=1e-9)


@pytest.mark.compiled
def test_same_seed_same_plan_and_fresh_is_equal():
    mdp = domains.make("grid-mdp")
    one, two = (CvarMcts(mdp, 0.9, seed=5).plan(iterations=900) for _ in range(2))
    third = CvarMcts(mdp, 0.9, seed=1).fresh(5).plan(iterations=900)
    assert one.value == two.value == third.value
    assert one.tried == two.tried == third.tried
    by_name = make_planner(mdp, 0.1, kind="cvar-mcts", seed=5, level=0.9).plan(iterations=900)
    assert by_name.value == one.value


@pytest.mark.compiled
def test_a_simulator():
    model = domains.make("machine-maintenance")
    search = CvarMcts(model, 0.9, seed=0)
    plan = search.plan(iterations=300)
    assert plan.action in range(model.actions(model.start))
    returns = evaluate(model, CvarMcts(model, 0.9), episodes=3, iterations=60, seed=0)
    assert np.isfinite(returns.costs).all()


def test_nonsense_is_explained():
    mdp = domains.make("mdp-4")
    with pytest.raises(OptionError, match="worst 5 %"):
        CvarMcts(mdp, 95)
    with pytest.raises(OptionError, match="thresholds"):
        CvarMcts(mdp, 0.9, thresholds=1)
    with pytest.raises(OptionError, match="needs a limit"):
        CvarMcts(mdp, 0.9).plan()
