"""Models of which one is true: fixed plans against brute force, and plans that learn."""

import itertools
import math

import numpy as np
import pytest

import tailwise
from tailwise import Alternatives, Expectation, TabularMDP, evaluate, make_planner, solve
from tailwise.errors import ModelError, OptionError
from tailwise.exact import policy_risk, return_distribution


def tables(seed, count=3, sense="costs", horizon=3, discount=0.9, states=2):
    rng = np.random.default_rng(seed)
    return [
        TabularMDP.from_arrays(
            rng.dirichlet(np.full(states, 0.5), size=(states, 2)), **{sense: 3.0 * rng.normal(size=(states, 2))},
            order="SAS", horizon=horizon, discount=discount,
        )
        for _ in range(count)
    ]  # fmt: skip


def in_one(mdp, policy, beta):
    """ERM of a plan in one model, by listing all paths."""
    totals, chances = [], []
    for path in itertools.product(range(mdp.num_states), repeat=mdp.horizon):
        state, total, chance = mdp.start, 0.0, 1.0
        for h, after in enumerate(path):
            match = [o for o in mdp.outcomes(state, int(policy[h][state])) if o.next_state == after]
            chance *= match[0].probability if match else 0.0
            if not chance:
                break
            total += mdp.discount**h * float(mdp.signed(match[0].cost))
            state = after
        totals.append(total)
        chances.append(chance)
    kept = np.array(chances) > 0
    totals, chances = np.array(totals)[kept], np.array(chances)[kept]
    return math.log(chances @ np.exp(beta * totals)) / beta if beta else float(chances @ totals)


@pytest.mark.parametrize("sense", ["costs", "rewards"])
@pytest.mark.parametrize("beta", [0.0, 0.8, -0.5])
def test_a_fixed_plan_is_valued_exactly_and_near_the_best(beta, sense):
    weights = np.array([0.5, 0.2, 0.3])
    for seed in range(3):
        models = tables(seed, sense=sense)
        unknown = Alternatives.of(models, weights)
        plan = solve(unknown, beta)
        sign = 1.0 if sense == "costs" else -1.0

        def over(policy, models=models):
            each = np.array([in_one(mdp, policy, beta) for mdp in models])
            return math.log(weights @ np.exp(beta * each)) / beta if beta else float(weights @ each)

        assert sign * plan.value == pytest.approx(over(plan.policy), rel=1e-10)
        assert policy_risk(unknown, plan, beta) == pytest.approx(plan.value, rel=1e-10)
        assert plan.distribution().risk(beta) == pytest.approx(plan.value, rel=1e-9)
        every = [np.reshape(choice, (3, 2)) for choice in itertools.product(range(2), repeat=6)]
        best = min(over(policy) for policy in every)
        assert sign * plan.value >= best - 1e-9
        assert sign * plan.value == pytest.approx(best, rel=0.02)
        learning = solve(unknown.hidden(), beta).value * sign
        assert sign * plan.value - plan.gap - 1e-9 <= learning <= best + 1e-9
        assert plan.q_values[0, 0, plan.action] == pytest.approx(plan.value, rel=1e-10)
        assert return_distribution(unknown, plan).mean == pytest.approx(plan.distribution().mean)


def test_not_knowing_is_worse_than_a_new_model_at_each_step():
    models = [TabularMDP.from_arrays([[[1.0]]], [[cost]], order="SAS", horizon=10) for cost in (0.0, 1.0)]
    unknown = Alternatives.of(models)
    truth, mixed = solve(unknown, 5.0), solve(unknown.mixed(), 5.0)
    assert truth.value == pytest.approx(math.log(0.5 + 0.5 * math.exp(50.0)) / 5.0)
    assert mixed.value == pytest.approx(10 * math.log(0.5 + 0.5 * math.exp(5.0)) / 5.0)
    assert truth.gap == 0.0
    assert truth.feared_weights[1] == pytest.approx(1.0)
    assert solve(unknown.hidden(), 5.0).value == pytest.approx(truth.value)
    assert any("fixed" in note for note in truth.plan().notes)


def test_planners_and_episodes_take_them_as_hidden_constants():
    unknown = Alternatives.of(tables(4, horizon=4))
    search = make_planner(unknown, 0.5, seed=0)
    assert search.kind in ("histories", "beliefs")
    learning, fixed = solve(unknown.hidden(), 0.5), solve(unknown, 0.5)
    assert search.plan(iterations=300).value == pytest.approx(learning.value, abs=0.3)
    assert learning.value <= fixed.value + 1e-9
    played = evaluate(unknown, fixed, episodes=400, seed=0)
    assert played.mean == pytest.approx(fixed.distribution().mean, abs=4 * played.std / 400**0.5)


def test_costs_far_apart_do_not_lose_a_model():
    first, second = tables(1, count=2)
    far = TabularMDP.from_arrays(
        np.full((2, 2, 2), 0.5), [[0.0, 900.0], [900.0, 0.0]], order="SAS", horizon=3, discount=0.9
    )
    unknown = Alternatives.of([first, second, far], [0.4, 0.6, 1e-9])
    plan = solve(unknown, 2.0)
    assert plan.value == pytest.approx(policy_risk(unknown, plan.policy, 2.0), rel=1e-12)
    assert plan.value < 30


def test_what_does_not_match_is_refused():
    one, other = tables(0, count=1), tables(0, count=1, horizon=4)
    with pytest.raises(ModelError, match="another horizon"):
        Alternatives.of([*one, *other])
    with pytest.raises(ModelError, match="weights must be 1 numbers"):
        Alternatives.of(one, [1.0, 2.0])
    with pytest.raises(OptionError, match="ERM"):
        solve(Alternatives.of(one), tailwise.CVaR(0.9))
    assert solve(Alternatives.of(one), Expectation()).value == pytest.approx(solve(one[0], 0.0).value)


def test_model_files_as_alternatives(tmp_path):
    names = []
    for k, table in enumerate(tables(2, count=2)):
        names.append(str(tailwise.save(table, tmp_path / f"{k}.npz")))
    unknown = tailwise.load(f"alternatives:{','.join(names)}?weights=(0.9,0.1)&horizon=2")
    assert (unknown.horizon, unknown.weights.tolist()) == (2, pytest.approx([0.9, 0.1]))
