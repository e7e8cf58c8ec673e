"""``prior_policy``: what it changes, what it cannot spoil, and what it may say."""

import copy
import math

import numpy as np
import pytest

from conftest import random_mdp
from planners.test_learned import Safe, digit
from search.reference import ReferenceSearch
from search.test_against_reference import compare_nodes
from search.test_four_kinds import FromTable, TableEnv, compiled_from
from search.test_learned_against_reference import _FoldingEnd, agree
from tailwise import (
    AccMcts,
    CvarMcts,
    ErmMcts,
    GymnasiumSimulator,
    LearnedModelSearch,
    NluMcts,
    PolynomialBonus,
    SearchOptions,
    Uct,
    backward_induction,
    domains,
    make_planner,
)
from tailwise.errors import OptionError, SimulatorError

BETA = 0.3
SEARCHES = {
    "paper": lambda model, **options: ErmMcts(model, BETA, **options),
    "auto": lambda model, **options: ErmMcts(model, BETA, preset="auto", **options),
    "uct": lambda model, **options: Uct(model, **options),
    "learned": lambda model, **options: LearnedModelSearch(model, BETA, **options),
}


def tilted(table):
    """Weights of each state at each step, all different."""
    return lambda state, h: [1.0 + (7 * a + 3 * state + h) % 5 for a in range(len(table.actions(state)))]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("whole_path", [False, True])
def test_the_tree_is_the_references(seed, whole_path):
    mdp = random_mdp(seed, horizon=5, done=seed == 1)
    bonus = PolynomialBonus(constant=0.7, eta=0.6)
    expansion = "path" if whole_path else "leaf"
    search = ErmMcts(mdp, BETA, seed=seed, bonus=bonus, expansion=expansion, prior_policy=tilted(mdp))
    slow = ReferenceSearch(
        mdp, BETA, lambda h, n, k: 0.7 * n**0.24 / k**0.4, seed, whole_path=whole_path, prior=tilted(mdp)
    )
    plan = search.plan(iterations=400)
    slow.run(400)
    assert compare_nodes(search.root, slow.root, slow.level) == slow.num_nodes == plan.nodes


@pytest.mark.parametrize("beta", [0.0, 0.7])
@pytest.mark.parametrize("seed", range(3))
def test_the_learned_search_is_the_references(seed, beta):
    table = random_mdp(seed, states=6, actions=3, horizon=5, done=seed == 1, per_step=seed == 2)
    agree(table, beta, seed, 250, prior_policy=tilted(table))


def test_where_states_do_not_come_back_too():
    agree(_FoldingEnd(), 0.4, 3, 400, prior_policy=lambda state, h: [3.0, 1.0, 2.0][: 2 if len(state) % 2 else 3])


@pytest.mark.parametrize("kind", SEARCHES)
def test_even_weights_are_none_to_the_bit(kind):
    table = random_mdp(4, states=6, horizon=6)
    found = []
    for prior in (None, lambda state, h: [0.5] * len(table.actions(state))):
        found.append(SEARCHES[kind](table, seed=2, prior_policy=prior).plan(iterations=600))
    assert found[0].rows == found[1].rows
    assert found[0].value == found[1].value


@pytest.mark.parametrize("kind", SEARCHES)
def test_four_kinds_of_models_ask_alike(kind):
    table = domains.make("grid-mdp")
    liked = lambda state: (3 * int(state)) % len(table.actions(int(state)))  # noqa: E731
    env = GymnasiumSimulator(TableEnv(table), horizon=table.horizon, discount=table.discount)
    plans = [
        SEARCHES[kind](model, seed=1, prior_policy=prior).plan(iterations=200)
        for model, prior in (
            (table, lambda state, h: liked(state)),
            (compiled_from(table), lambda state, h: liked(state)),
            (FromTable(table), lambda state, h: liked(state)),
            (env, lambda state, h: liked(state.observation)),
        )
    ]
    without = SEARCHES[kind](table, seed=1).plan(iterations=200)
    visits = [[row.visits for row in plan.rows] for plan in (*plans, without)]
    assert visits[0] == visits[1] == visits[2] == visits[3] != visits[4]


@pytest.mark.parametrize("kind", ["paper", "uct"])
def test_a_right_prior_helps_a_short_search(kind):
    # 40 random tables, the same seeds with and without: were there no difference, the mean difference would lie 2.3 of
    # its standard errors below 0 once in a hundred.
    gains = []
    for seed in range(40):
        table = random_mdp(seed, states=30, actions=12, horizon=8)
        exact = backward_induction(table, BETA if kind == "paper" else 0.0)
        right = lambda state, h, exact=exact: int(np.nanargmin(exact.action_values(h)[state]))  # noqa: E731
        values = exact.action_values(0)[table.start]
        plans = [SEARCHES[kind](table, seed=seed, prior_policy=one).plan(iterations=60) for one in (None, right)]
        gains.append(values[plans[0].action] - values[plans[1].action])
    assert np.mean(gains) > 2.3 * np.std(gains) / len(gains) ** 0.5


@pytest.mark.parametrize(
    ("prior", "iterations", "fewest", "most"),
    [
        (lambda state, h: digit(state), 60, 7, 8),
        (None, 60, 0, 1),
        (lambda state, h: 3, 600, 6, 8),  # leaves at once: no lasting harm
    ],
    ids=["right", "none", "wrong"],
)
def test_a_prior_shows_the_learned_search_what_it_would_not_find(prior, iterations, fewest, most):
    found = 0  # of 8 seeds, on a safe of ten digits of three each
    for seed in range(8):
        search = LearnedModelSearch(Safe(10), 0.1, seed=seed, prior_policy=prior)
        search.bootstraps = False
        found += search.plan(iterations=iterations).action == digit(0)
    assert fewest <= found <= most


@pytest.mark.parametrize("kind", ["paper", "auto", "learned"])
def test_a_wrong_prior_is_overcome(kind):
    table, beta = domains.make("mdp-4"), 0.5
    exact = backward_induction(table, beta)
    worst = lambda state, h: int(np.nanargmax(exact.action_values(h)[state]))  # noqa: E731
    make = {
        "paper": lambda seed: ErmMcts(table, beta, seed=seed, prior_policy=worst),
        "auto": lambda seed: ErmMcts(table, beta, seed=seed, preset="auto", prior_policy=worst),
        "learned": lambda seed: LearnedModelSearch(table, beta, seed=seed, prior_policy=worst),
    }[kind]
    plans = [make(seed).plan(iterations=4_000) for seed in range(5)]  # fixed seeds: right in 5 of 5
    assert [plan.action for plan in plans] == [exact.action] * 5
    assert np.mean([plan.value for plan in plans]) == pytest.approx(exact.value, abs=0.25)


@pytest.mark.parametrize("make", [LearnedModelSearch, ErmMcts])
@pytest.mark.parametrize(
    ("said", "message"),
    [
        (lambda n: 9, r"prior_policy\(\d+\) of .* at step 0: action 9 is not allowed .*weights are a list or an array"),
        (lambda n: [1.0], "expected an action, or 3 finite weights"),
        (lambda n: np.ones((n, 1)), "expected an action, or 3 finite weights"),
        (lambda n: [1.0] * (n - 1) + [-1.0], "none negative"),
        (lambda n: np.full(n, np.nan), "finite weights"),
        (lambda n: [math.inf] + [1.0] * (n - 1), "finite weights"),
        (lambda n: [0.0] * n, "not all 0"),
        (lambda n: ["one"] * n, "expected an action"),
        (lambda n: ["1"] * n, "expected an action"),
        (lambda n: None, "action None is not allowed"),
        (lambda n: 1 // 0, "raised ZeroDivisionError"),
    ],
)
def test_what_it_says_is_checked(make, said, message):
    table = random_mdp(1)
    table = next(mdp for mdp in map(random_mdp, range(9)) if len(mdp.actions(mdp.start)) == 3)
    search = make(table, BETA, seed=0, prior_policy=lambda state, h: said(len(table.actions(state))))
    with pytest.raises(SimulatorError, match=message):
        search.plan(iterations=10)


@pytest.mark.parametrize("kind", SEARCHES)
def test_a_failure_loses_nothing(kind):
    table, fails = random_mdp(4, states=6, horizon=6), set()

    def prior(state, h):
        if (state, h) == (2, 3) and not fails:
            fails.add((state, h))
            raise ValueError("once")
        return table.actions(state)[0]

    search = SEARCHES[kind](table, seed=0, prior_policy=prior)
    with pytest.raises(SimulatorError, match=r"prior_policy\(2\) of .* at step 3 raised ValueError: once"):
        search.plan(iterations=2_000)
    plan = search.plan(iterations=500)
    assert fails
    assert sum(row.visits for row in plan.rows) >= 500


def test_ctrl_c_inside_it_ends_the_call_with_what_is_known():
    table, calls = random_mdp(4, states=6, horizon=6), []

    def prior(state, h):
        calls.append(state)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return table.actions(state)[0]

    plan = ErmMcts(table, BETA, seed=0, prior_policy=prior).plan(iterations=2_000)
    assert 0 < plan.iterations < 2_000
    assert "interrupt" in plan.stopped.value.lower()


def test_it_is_an_option_like_the_others():
    table = domains.make("mdp-4")
    with pytest.raises(OptionError, match=r"prior_policy must be a function \(state, h\)"):
        SearchOptions(prior_policy=[1.0, 2.0])
    for kind in ("learned", "tree", "erm-mcts", "uct", "uct-polynomial", "acc-mcts"):
        make_planner(table, BETA, kind=kind, seed=0, prior_policy=lambda state, h: "safe").plan(iterations=20)
    with pytest.raises(OptionError, match="does not take the option prior_policy"):
        make_planner(table, BETA, kind="exact", prior_policy=lambda state, h: 0)
    plan = ErmMcts(table, BETA, seed=0, prior_policy=lambda state, h: 0).plan(iterations=50, threads=2)
    assert plan.trees == 1
    assert any("prior_policy" in note for note in plan.notes)


def test_searches_on_accrued_costs_ask_of_the_models_own_states():
    table, seen = domains.make("mdp-4"), set()

    def prior(state, h):
        seen.add(state)
        return 0

    for search in (
        AccMcts(table, BETA, seed=0, prior_policy=prior),
        NluMcts(table, lambda total: total * total, seed=0, prior_policy=prior),
        AccMcts(FromTable(table), BETA, seed=0, prior_policy=prior),
        CvarMcts(table, 0.9, seed=0, prior_policy=prior),
    ):
        search.plan(iterations=60)
    assert seen <= set(range(table.num_states))


@pytest.mark.parametrize("kind", SEARCHES)
def test_copies_and_fresh_searches_ask_by_themselves(kind):
    table = random_mdp(4, states=6, horizon=6)
    search = SEARCHES[kind](FromTable(table), seed=3, prior_policy=tilted(table))
    search.plan(iterations=200)
    twin = copy.deepcopy(search)
    assert search.fresh(7).plan(iterations=100).rows == search.fresh(7).plan(iterations=100).rows
    assert twin.plan(iterations=200).rows == search.plan(iterations=200).rows
    target = FromTable(table).step(table.start, search.plan(iterations=1).action, np.random.default_rng(0))[0]
    search.advance(search.plan(iterations=1).action, target)
    assert search.plan(iterations=100).step == 1


def test_weights_may_be_a_series():
    pandas = pytest.importorskip("pandas")
    table = random_mdp(1)
    plain, series = (
        LearnedModelSearch(table, BETA, seed=0, prior_policy=lambda state, h, kind=kind: kind(_rising(table, state)))
        for kind in (list, pandas.Series)
    )
    assert plain.plan(iterations=50).value == series.plan(iterations=50).value


def _rising(table, state):
    return [1.0 + k for k in range(len(table.actions(state)))]
