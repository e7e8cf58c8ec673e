"""What the learned-model search forgets of states that do not come back, once the root has left them behind."""

import numpy as np
import pytest

from tailwise import CompiledSimulator, CVaR, Simulator, load_search, make_planner
from tailwise.errors import OptionError
from tailwise.search.learned.driver import LearnedSearch


def drift(state, action, rng):
    """A place and a speed as real numbers."""
    place, speed = state
    speed = 0.9 * speed + 0.2 * (action - 1) + 0.3 * (rng.random() - 0.5)
    return (place + speed, speed), abs(place), False


class Drift(Simulator):
    horizon, start, discount = 12, (1.0, 0.0), 0.95

    def actions(self, state):
        return 3

    def step(self, state, action, rng):
        return drift(state, action, rng)

    def terminal_cost(self, state):
        return abs(state[0])


MODELS = {
    "compiled": (lambda: CompiledSimulator(drift, start=(1.0, 0.0), horizon=12, actions=3), 3000),
    "Python": (Drift, 200),
}
OPTIONS = {
    "plain": {},
    "features": {"features": lambda state: (state[0], state[1], state[0] ** 2)},
    "prior": {"prior_policy": lambda state, h: [0.5, 0.3, 0.2]},
}


def loop(search, model, iterations, steps=11, seed=1):
    """Plan, act, and move on; return the plans."""
    rng, state, plans = np.random.default_rng(seed), model.start, []
    for _ in range(steps):
        plans.append(search.plan(iterations=iterations))
        state = model.step(state, plans[-1].action, rng)[0]
        search.advance(plans[-1].action, state)
    return plans


@pytest.mark.compiled
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_forgotten_changes_no_plan(name, options, monkeypatch):
    model, iterations = MODELS[name][0](), MODELS[name][1]
    forgetful, forget, times = (
        make_planner(model, 0.3, kind="learned", seed=3, **OPTIONS[options]), LearnedSearch._forget, []
    )  # fmt: skip
    monkeypatch.setattr(LearnedSearch, "_forget", lambda self, *given: times.append(forget(self, *given)) or times[-1])
    plans = loop(forgetful, model, iterations)
    assert sum(times) >= 2
    monkeypatch.setattr(LearnedSearch, "_forget", lambda self, *given: False)
    remembering = make_planner(model, 0.3, kind="learned", seed=3, **OPTIONS[options])
    for one, other in zip(plans, loop(remembering, model, iterations), strict=True):
        assert one.rows == other.rows
        assert (one.action, one.value, one.iterations) == (other.action, other.value, other.iterations)


@pytest.mark.compiled
def test_a_loop_goes_on_within_a_limit_of_memory():
    model = MODELS["compiled"][0]()
    search = make_planner(model, 0.3, kind="learned", seed=0, max_memory=12_000_000)
    plans = loop(search, model, 4000)
    assert max(plan.bytes for plan in plans) <= 12_000_000
    assert min(plan.iterations for plan in plans) > 1000


def counter(state, action, rng):
    """States that come back: two counters."""
    here, there = state
    return ((here + 1 + int(rng.random() * 3)) % 40, (there + action) % 40), 1.0 if here == there else 0.0, False


@pytest.mark.compiled
@pytest.mark.parametrize("memory", [700_000, 1_000_000, 1_100_000])
def test_what_the_root_leaves_behind_makes_room(memory):
    model = CompiledSimulator(counter, start=(0, 0), horizon=30, actions=3)
    search = make_planner(model, 0.3, kind="learned", seed=0, max_memory=memory)
    assert search.plan(iterations=20_000).stopped == "max_memory"
    plans = loop(search, model, 500, steps=29)  # which ended in an error at the second step
    assert plans[-1].iterations == 500
    with pytest.raises(OptionError, match="max_memory"):
        make_planner(model, 0.3, kind="learned", seed=0, max_memory=2_000).plan(iterations=10)


def test_a_search_that_forgot_is_saved_and_goes_on_as_it_would_have(tmp_path):
    model = Drift()
    search = make_planner(model, 0.3, kind="learned", seed=3)
    loop(search, model, 200, steps=5)
    search.save(tmp_path / "search.npz")
    other = load_search(tmp_path / "search.npz", model)
    assert search.plan(iterations=300).rows == other.plan(iterations=300).rows


@pytest.mark.compiled
def test_policies_of_earlier_plans_act_as_before_once_states_are_forgotten(monkeypatch):
    forget, times = LearnedSearch._forget, []
    monkeypatch.setattr(LearnedSearch, "_forget", lambda self, *given: times.append(forget(self, *given)) or times[-1])
    model = MODELS["compiled"][0]()
    search = make_planner(model, 0.3, kind="distributional", seed=0)
    rng, state, paid, acts = np.random.default_rng(1), model.start, 0.0, []
    for h in range(6):
        plan = search.plan(iterations=4000)
        assert plan.act(state, h, paid) == plan.action
        for k in range(3000):  # new states: the copy of the interface that the plan has grows
            plan.act((0.001 * k, float(h)), h, paid)
        acts.append((plan, state, h, paid))
        state, cost, _ = model.step(state, plan.action, rng)
        search.advance(plan.action, state, cost=cost)
        paid += cost
    assert any(times)
    for plan, then, h, before in acts:
        assert plan.act(then, h, before) == plan.action


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["distributional", "cvar-mcts"])
def test_to_ask_an_earlier_plan_changes_no_later_one(kind):
    model, values = MODELS["compiled"][0](), []
    for asks in (False, True):
        search = make_planner(model, CVaR(0.9) if kind == "cvar-mcts" else 0.3, kind=kind, seed=0)
        first = search.plan(iterations=300)
        search.plan(iterations=3000)
        for k in range(5000 if asks else 0):
            first.act((0.001 * k, 0.0), 0, 0.0)
        values.append([row.erm for row in search.plan(iterations=300).rows])
    assert values[0] == values[1]


@pytest.mark.compiled
def test_a_later_root_has_draws_of_what_follows():
    model = MODELS["compiled"][0]()
    search, rng, state = make_planner(model, 0.3, kind="learned", seed=0), np.random.default_rng(1), model.start
    for h in range(model.horizon):
        plan = search.plan(iterations=3000)  # from the third on there were 8192 iterations before
        fresh = make_planner(model, 0.3, kind="learned", seed=1)
        fresh.reset(state, h)
        other = fresh.plan(iterations=3000).value
        assert abs(plan.value - other) < 0.5 * other, h  # it was the cost of the first step alone, a tenth
        state = model.step(state, plan.action, rng)[0]
        search.advance(plan.action, state)


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["learned", "distributional"])
@pytest.mark.parametrize("limit", [300_000, 1_000_000, 4_000_000])
def test_a_loop_on_new_states_ends_within_any_limit_of_memory(kind, limit):
    model = CompiledSimulator(drift, start=(1.0, 0.0), horizon=20, actions=3)
    search, rng, state = (
        make_planner(model, 0.1, kind=kind, seed=0, max_memory=limit),
        np.random.default_rng(0),
        model.start,
    )
    for _ in range(model.horizon):
        plan = search.plan(iterations=1500)
        assert plan.bytes <= limit
        state, cost, _ = model.step(state, plan.action, rng)
        search.advance(plan.action, state, **({} if kind == "learned" else {"cost": cost}))
