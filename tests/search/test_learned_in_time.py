"""What the learned search does to be in time: pauses, roots that move in place, answers that are cut."""

import copy
import math

import numpy as np
import pytest

from conftest import random_mdp
from tailwise import LearnedModelSearch, Simulator, erm, solve
from tailwise.search import anytime
from tailwise.search.anytime import Pace
from tailwise.search.learned import answering, counts, driver
from tailwise.search.learned.answering import Answer
from tailwise.search.plan import StopReason

pytestmark = pytest.mark.compiled  # hundreds of bootstraps


def after(table, state, action):
    """A state that an action leads to."""
    return int(table.next_states[table.outcome_offsets[table.row(state, action)]])


def same(one, other):
    """Whether two plans say the same, but for time and memory."""
    apart = {"seconds": 0.0, "bytes": 0, "nodes": 0}
    return one.to_dict() | apart == other.to_dict() | apart


@pytest.mark.parametrize("seed", range(3))
def test_a_sweep_that_pauses_does_the_same(seed, monkeypatch):
    table = random_mdp(seed, states=6, actions=3, horizon=6, discount=0.95)
    whole, paused = LearnedModelSearch(table, 0.4, seed=seed), LearnedModelSearch(table, 0.4, seed=seed)
    for _ in range(4):
        monkeypatch.setattr(driver, "_SLICE", 50_000)
        plan = whole.plan(iterations=100)
        monkeypatch.setattr(driver, "_SLICE", 7)
        assert same(plan, paused.plan(iterations=100))
        state = after(table, whole.state, plan.action)
        whole.advance(plan.action, state)
        paused.advance(plan.action, state)


def test_a_call_may_end_in_the_middle_of_a_sweep_which_the_next_one_finishes(monkeypatch):
    table = random_mdp(1, states=8, actions=3, horizon=8)
    search = LearnedModelSearch(table, 0.4, seed=0)
    search.plan(iterations=200)
    work = search._scratch.work
    monkeypatch.setattr(driver, "_SLICE", 5)
    work[counts.SWEEP_COST], work[counts.STEPS_SINCE_SWEEP] = 0, 10**6  # one is due
    plan, left = search.plan(seconds=1e-9), 0
    assert plan.stopped == StopReason.SECONDS
    assert plan.label
    while work[counts.STAGE] == counts.RESTING and left < 10:  # late already, it did not even begin
        work[counts.SLICE], left = 5, left + 1
        search._search(*search._kernel_arguments(), search._stream, search.step, 1)
    assert work[counts.STAGE] != counts.RESTING
    before = int(work[counts.ITERATIONS])
    assert search.plan(iterations=1).iterations == 1
    assert int(work[counts.ITERATIONS]) == before + 1
    assert work[counts.STAGE] == counts.RESTING


@pytest.mark.parametrize("seed", range(3))
def test_sweeps_of_a_call_in_time_go_on_between_its_iterations(seed, monkeypatch):
    prepare = driver.LearnedSearch.prepare
    monkeypatch.setattr(driver.LearnedSearch, "prepare", lambda search, _: prepare(search, None))  # as in time alone
    monkeypatch.setattr(answering, "_AFFORDABLE", 0)  # no bootstraps
    table = random_mdp(seed, states=25, actions=3, horizon=10)
    search, exact = LearnedModelSearch(table, 0.4, seed=seed), solve(table, 0.4)
    work, ends, pauses = search._scratch.work, 0, 0
    for _ in range(60):
        before = int(work[counts.STEPS_SINCE_SWEEP])
        assert search.plan(iterations=10, seconds=1e6).iterations == 10  # whatever a sweep has left to do
        ends += work[counts.STEPS_SINCE_SWEEP] < before
        pauses += work[counts.STAGE] != counts.RESTING
    assert ends >= 2
    assert pauses > 5
    plan, value = search.plan(iterations=20_000, seconds=1e6), exact.value
    assert abs(search._nodes.values[search._scratch.root[0]] - value) < 0.02 * abs(value)
    assert plan.action == exact.act(table.start, 0)
    assert search._scratch.work[counts.STEPS_SINCE_SWEEP] < search._scratch.work[counts.WALKED] // 4


@pytest.mark.parametrize("seed", range(3))
def test_seconds_that_end_nothing_change_nothing(seed, monkeypatch):
    table = random_mdp(seed, states=12, actions=3, horizon=8)
    plan = LearnedModelSearch(table, 0.4, seed=seed).plan(iterations=3000)
    for chunk in (0.05, 0.002):  # seconds
        monkeypatch.setattr(anytime, "CHUNK_SECONDS", chunk)
        assert same(plan, LearnedModelSearch(table, 0.4, seed=seed).plan(iterations=3000, seconds=1e6))


@pytest.mark.parametrize("seed", range(3))
def test_freeing_what_the_root_left_behind_changes_nothing(seed):
    table = random_mdp(seed, states=5, actions=2, horizon=7)
    moved, freed = LearnedModelSearch(table, -0.5, seed=seed), LearnedModelSearch(table, -0.5, seed=seed)
    for _ in range(6):
        plan = moved.plan(iterations=150)
        assert same(plan, freed.plan(iterations=150))
        state = after(table, moved.state, plan.action)
        for search in (moved, freed):
            search.advance(plan.action, state)
        freed._plant()
        freed._keep(freed._kept(exactly=True))
    assert freed._nodes.used[counts.NODES] < moved._nodes.used[counts.NODES]


class Onwards(Simulator):
    """States that are never come back to, but are few at each step: (step, place)."""

    horizon, start = 40, (0, 0)

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        h, place = state
        return (h + 1, (place + action + int(rng.integers(2))) % 3), float(place), False


def test_room_of_nodes_left_behind_is_used_again():
    search, rng = LearnedModelSearch(Onwards(), 0.1, seed=0), np.random.default_rng(0)
    search.plan(iterations=300)
    state, room = search.state, search._nodes.states.size
    for _ in range(30):
        plan = search.plan(iterations=100)
        state, _, _ = search.model.step(state, plan.action, rng)
        search.advance(plan.action, state)
    assert search._nodes.states.size == room
    limited = LearnedModelSearch(Onwards(), 0.1, seed=0, max_nodes=200)
    stops = []
    for _ in range(30):
        plan = limited.plan(iterations=100)
        stops.append(plan.stopped)
        limited.advance(plan.action, limited.model.step(limited.state, plan.action, rng)[0])
    assert plan.nodes <= 200
    assert stops[-1] == StopReason.ITERATIONS


@pytest.mark.parametrize("beta", [-0.7, 0.0, 0.7])
def test_an_answer_that_is_cut_takes_what_the_search_holds_states_for(beta):
    table = random_mdp(4, states=6, actions=3, horizon=6, discount=0.9)
    search = LearnedModelSearch(table, beta, seed=0)
    whole = search.plan(iterations=400)
    learned, out = search._learned(), np.full((2, 3, 3), math.inf)
    reached = search._answering.reached(learned, 0.0)
    assert reached.cut == 1
    learned.induct(reached, np.empty(0, np.uint64), 0, out)
    known, nodes, discount = search._known, search._nodes, table.discount
    for a in range(3):
        outcome, costs, weights = known.heads[nodes.first_pair[search._scratch.root[0]] + a], [], []
        while outcome:
            target = int(known.targets[outcome])
            after = 0.0 if target < 0 else nodes.values[counts.find_node(nodes, 1, target)]
            costs.append(known.costs[outcome] + discount * after)
            weights.append(known.counts[outcome])
            outcome = known.links[outcome]
        assert math.isclose(out[0, 0, a], erm(np.repeat(costs, weights), beta), rel_tol=1e-9)
    search._answering.look_pace = Pace(1e9)
    cut = search.plan(iterations=1, seconds=60.0)
    assert cut.interval_meaning.startswith("there was no time")
    assert math.isinf(cut.chosen.interval.high)
    assert abs(cut.value - whole.value) < 0.1 * abs(whole.value)
    search._answering.look_pace = Pace(1e-8)
    assert not search.plan(iterations=1).interval_meaning.startswith("there was no time")


def test_an_answer_is_not_cut_where_nothing_would_be_left():
    search = LearnedModelSearch(random_mdp(4, states=6, actions=3, horizon=6, discount=0.9), 0.5, seed=0)
    whole = search.plan(iterations=400)
    search._nodes.values[:] = math.inf
    search._answering.look_pace = Pace(1e9)
    search._answering.begin(60.0, math.inf)
    found = search._answering.find(search._learned(), search._stream, None)
    assert found.values.min() == pytest.approx(whole.value, rel=1e-12)


@pytest.mark.parametrize("beta", [-5.0, 0.0, 5.0])
def test_what_one_draw_leaves_possible_is_the_worst_total_itself(beta):
    """With one draw it may come with certainty; in floats the ERM of the mixture would be infinite."""
    nothing = np.empty((0, 2))
    found = Answer(np.array([1.0, 2.0]), np.zeros(2), np.zeros(2), "", nothing, nothing)
    once, often = found.further(np.array([1, 300]), 1000.0, beta, 1.0)
    assert once["unseen_erm"] == 1000.0
    assert math.isclose(often["unseen_erm"], erm(np.repeat([2.0, 1000.0], [99, 1]), beta), rel_tol=1e-9)


class Wandering(Simulator):
    """Sixteen steps over sixty places, each with two actions."""

    horizon, discount, sense, start = 16, 1.0, "cost", (0, 0)

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        return (state[0] + 1, (3 * state[1] + action + int(rng.integers(2))) % 60), float(rng.random()), False


def test_nodes_of_iterations_that_were_taken_back_stay_away_when_others_are_freed():
    """An iteration that runs out of room takes its nodes back; no two states may share an entry of the counts then."""
    search, rng, state = LearnedModelSearch(Wandering(), 0.1, seed=0), np.random.default_rng(0), (0, 0)
    for _ in range(14):
        plan = search.plan(iterations=20)
        state, _, _ = Wandering().step(state, plan.action, rng)
        search.advance(plan.action, state)
    owners = {}
    for node in range(1, int(search._nodes.used[counts.NODES])):
        first = int(search._nodes.first_pair[node])
        assert owners.setdefault(first, int(search._nodes.states[node])) == search._nodes.states[node]


class Scattered(Simulator):
    """Anywhere after each step; the cost is all at the end, and grows with the place."""

    horizon, discount, sense, start = 4, 1.0, "cost", 0

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        return int(rng.integers(40)), 0.0, False

    def terminal_cost(self, state):
        return float(state**2)


def test_what_ends_cost_is_not_shared_with_a_copy_that_meets_states_in_another_order():
    found = []
    for is_copied in (False, True):
        search = LearnedModelSearch(Scattered(), 0.01, seed=0)
        search.plan(iterations=2)
        if is_copied:
            other, search = search, copy.deepcopy(search)
            other.advance(0, 7)
            other.plan(iterations=100)
        search.advance(1, 30)
        found.append([row.erm for row in search.plan(iterations=200).rows])
    assert found[0] == found[1]


def test_room_is_made_where_there_is_nothing_to_free(monkeypatch):
    """A walk that is taken back for want of room leaves the root alone: freeing the rest of nothing would never end."""

    class Wide(Simulator):
        start, horizon = 0, 40

        def actions(self, state):
            return 9

        def step(self, state, action, rng):
            return int(rng.integers(1000)), float(action), False

    search, grown = LearnedModelSearch(Wide(), 0.1, seed=0), []
    grow = type(search)._grow

    def counted(self):
        grown.append(self)
        assert len(grown) < 100, "it frees nothing, again and again"
        return grow(self)

    monkeypatch.setattr(type(search), "_grow", counted)
    for _ in range(4):
        search.advance(search.plan(iterations=1).action, 7)
        search.plan(iterations=1)
        search.reset()
    assert search.plan(iterations=1).iterations > 0
