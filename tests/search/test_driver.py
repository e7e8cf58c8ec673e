"""The anytime driver: limits, continuing, re-rooting, determinism."""

import math
import os
import signal
import threading
import time

import numpy as np
import pytest

from conftest import random_mdp
from tailwise import (
    ErmMcts,
    ExactPlanner,
    LearnedModelSearch,
    LogBonus,
    PolynomialBonus,
    SearchOptions,
    Simulator,
    TabularMDP,
    domains,
)
from tailwise.errors import ModelError, OptionError, StateError
from tailwise.search import StopReason, TreeSearch
from tailwise.search.learned.answering import Answering


def summary(plan):
    return (
        [(r.action, r.visits, r.erm, r.mean, r.minimum, r.maximum) for r in plan.rows],
        plan.value,
        plan.nodes,
    )


def test_same_seed_same_result_and_chunks_do_not_matter():
    mdp = domains.make("grid-mdp")
    whole = ErmMcts(mdp, 0.1, seed=4).plan(iterations=3000)
    again = ErmMcts(mdp, 0.1, seed=np.random.SeedSequence(4)).plan(iterations=3000)
    parts = ErmMcts(mdp, 0.1, seed=4)
    for n in (1, 7, 992, 2000):
        last = parts.plan(iterations=n)
    assert summary(whole) == summary(again) == summary(last)
    assert last.iterations == 2000
    assert summary(whole) != summary(ErmMcts(mdp, 0.1, seed=5).plan(iterations=3000))


def test_growing_the_arena_does_not_show(monkeypatch):
    """An iteration cut short by a full arena is done again on the same draws."""
    from tailwise.search import tree

    mdp = random_mdp(3, states=6, horizon=6)
    expected = summary(ErmMcts(mdp, 0.5, seed=1).plan(iterations=2000))
    monkeypatch.setattr(tree, "_FIRST_UNITS", 16)
    assert summary(ErmMcts(mdp, 0.5, seed=1).plan(iterations=2000)) == expected
    path = summary(ErmMcts(mdp, 0.5, seed=1, expansion="path").plan(iterations=500))
    monkeypatch.undo()
    assert summary(ErmMcts(mdp, 0.5, seed=1, expansion="path").plan(iterations=500)) == path


def test_stop_reasons():
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0)
    assert search.plan(iterations=10).stopped is StopReason.ITERATIONS
    timed = search.plan(seconds=0.1)
    assert timed.stopped is StopReason.SECONDS
    assert timed.seconds >= 0.05
    met = search.plan(until=lambda plan: plan.iterations >= 100)
    assert met.stopped is StopReason.UNTIL
    assert "condition" in met.stopped.message
    small = ErmMcts(domains.make("mdp-4"), 0.5, seed=0, max_nodes=50)
    full = small.plan(iterations=10_000)
    assert (full.stopped, full.nodes) == (StopReason.MAX_NODES, 50)
    tight = ErmMcts(domains.make("mdp-4"), 0.5, seed=0, max_memory=20_000).plan(iterations=10_000)
    assert tight.stopped is StopReason.MAX_MEMORY
    assert tight.bytes <= 20_000
    assert sum(r.visits for r in tight.rows) == tight.iterations > 100


def test_a_tree_without_room_for_one_iteration_says_so():
    with pytest.raises(OptionError, match="max_nodes=1 leaves no room"):
        ErmMcts(domains.make("mdp-4"), 0.5, seed=0, max_nodes=1).plan(iterations=10)
    one = TabularMDP.from_arrays([[[1.0]]], [[2.0]], order="SAS", horizon=1)
    assert ErmMcts(one, 0.5, seed=0, max_nodes=1).plan(iterations=10).value == 2.0  # no node is ever added
    wide = TabularMDP.from_arrays(np.ones((1, 300, 1)), np.ones((1, 300)), horizon=2)
    with pytest.raises(OptionError, match="300 actions"):
        ErmMcts(wide, 0.5, seed=0, max_memory=4096)


def test_max_memory_bounds_the_smallest_trees_too():
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0, max_memory=4096)
    plan = search.plan(iterations=10_000)
    assert (plan.stopped, plan.bytes) == (StopReason.MAX_MEMORY, 4096)
    search.advance(plan.action, 1)
    assert search.plan(iterations=10_000).bytes <= 4096


@pytest.mark.compiled
def test_ctrl_c_returns_what_is_known():
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0)
    search.plan(iterations=10)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    plan = search.plan(seconds=60)
    assert plan.stopped is StopReason.INTERRUPTED
    assert plan.iterations > 0
    assert sum(r.visits for r in plan.rows) == plan.iterations + 10


def test_progress_is_reported():
    seen = []
    ErmMcts(domains.make("mdp-4"), 0.5, seed=0).plan(
        iterations=500, progress=lambda done, used: seen.append((done, used))
    )
    assert seen[-1][0] == 500
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)


def test_advance_keeps_the_subtree_and_the_level():
    mdp = domains.make("mdp-4")
    search = ErmMcts(mdp, 0.5, seed=0)
    plan = search.plan(iterations=5000)
    child = search.root.action(plan.action).child(1)
    visits = [action.visits for action in child.actions]
    erms = [action.erm for action in child.actions]
    search.advance(plan.action, 1)
    assert (search.step, search.state) == (1, 1)
    later = search.plan(iterations=1)
    assert later.root_beta == pytest.approx(0.5 * 0.9)
    assert sum(r.visits for r in later.rows) == sum(visits) + 1
    untouched = [k for k in range(2) if later.rows[k].visits == visits[k]]
    assert untouched
    assert all(later.rows[k].erm == erms[k] for k in untouched)
    assert all(math.isnan(later.rows[k].mean) for k in untouched)  # no sample since the re-root


def test_the_kept_tree_is_whole():
    mdp = random_mdp(5, states=5, horizon=6)
    search = ErmMcts(mdp, 0.3, seed=2)
    plan = search.plan(iterations=4000)
    target = int(mdp.outcomes(mdp.start, plan.action)[0].next_state)
    below = search.root.action(plan.action).child(target)

    def visits_and_risks(node):
        return [
            (action.visits, action.erm if action.visits else None, [visits_and_risks(c) for c in action.children])
            for action in node.actions
        ]

    before, nodes = visits_and_risks(below), len(list(below.walk()))
    search.advance(plan.action, target)
    assert visits_and_risks(search.root) == before
    assert search.plan(iterations=1).nodes <= nodes + 1
    assert len(list(plan.root.walk())) == plan.nodes  # the plan still shows the whole tree


def test_a_state_never_sampled_starts_a_fresh_tree_at_the_right_level():
    mdp = domains.make("mdp-4")
    search = ErmMcts(mdp, 1.0, seed=0)
    search.plan(iterations=100)
    search.advance("safe", 3)  # safe never leads to s3
    plan = search.plan(iterations=50)
    assert (plan.step, plan.state, plan.root_beta) == (1, 3, 0.9)
    assert sum(r.visits for r in plan.rows) == 50


def test_the_end_of_the_horizon():
    mdp = domains.make("mdp-4", horizon=2)
    search = ErmMcts(mdp, 1.0, seed=0)
    search.plan(iterations=10)
    search.advance(1, 1)
    search.plan(iterations=10)
    search.advance(0, 1)
    assert search.step == 2
    with pytest.raises(OptionError, match="horizon"):
        search.plan(iterations=10)
    with pytest.raises(OptionError, match="horizon"):
        search.advance(0, 1)
    search.reset()
    assert search.plan(iterations=10).step == 0


def test_reset_at_a_later_step():
    plan_late = ErmMcts(domains.make("mdp-4"), 1.0, seed=0)
    plan_late.reset(state="s2", step=19)
    plan = plan_late.plan(iterations=5)
    assert plan.root_beta == pytest.approx(0.9**19)
    assert plan.value == pytest.approx(0.05)
    with pytest.raises(OptionError, match="step"):
        plan_late.reset(step=20)


def test_rewards_are_shown_as_rewards():
    costs = random_mdp(9)
    rewards = TabularMDP.from_outcomes(
        costs.row_states[np.repeat(np.arange(costs.num_rows), np.diff(costs.outcome_offsets))],
        np.repeat(costs.action_ids, np.diff(costs.outcome_offsets)), costs.next_states, costs.probabilities,
        rewards=-costs.losses, horizon=costs.horizon, discount=costs.discount, terminal_rewards=-costs.terminal_losses,
        num_states=costs.num_states,
    )  # fmt: skip
    a, b = (ErmMcts(m, 0.7, seed=3).plan(iterations=500) for m in (costs, rewards))
    assert (a.action, a.value) == (b.action, -b.value)
    for x, y in zip(a.rows, b.rows, strict=True):
        assert (x.visits, x.erm, x.mean, x.minimum, x.maximum) == (
            y.visits,
            -y.erm,
            -y.mean,
            -y.maximum,
            -y.minimum,
        )
        assert (x.interval.low, x.interval.high) == (-y.interval.high, -y.interval.low)


def test_recommending_by_value():
    plan = ErmMcts(domains.make("mdp-4"), 1.0, seed=0, recommend="value").plan(iterations=500)
    assert plan.action == min(plan.rows, key=lambda r: r.erm).action


def test_equal_visits_are_told_apart_by_risk():
    """An enormous bonus visits all actions equally often."""
    mdp = TabularMDP.from_arrays(np.ones((1, 3, 1)), costs=[[2.0, 1.0, 3.0]], order="SAS", horizon=1)
    plan = ErmMcts(mdp, 1.0, seed=0, bonus=PolynomialBonus(constant=1e9)).plan(iterations=300)
    assert {r.visits for r in plan.rows} == {100}
    assert plan.action == 1


def test_an_action_set_larger_than_the_first_arena():
    size = 3000
    mdp = TabularMDP.from_arrays(np.ones((1, size, 1)), costs=np.arange(size)[None, :] % 7, order="SAS", horizon=2)
    plan = ErmMcts(mdp, 1.0, seed=0).plan(iterations=2 * size)
    assert plan.row(plan.action).erm == pytest.approx(0.0, abs=7)
    assert all(r.visits >= 1 for r in plan.rows)


def test_a_tree_with_many_outcomes_per_action():
    """The trie finds each of 500 next states again."""
    size = 500
    chances = np.full((size, 1, size), 1 / size)
    mdp = TabularMDP.from_arrays(chances, costs=np.random.default_rng(0).random((size, 1)), order="SAS", horizon=3)
    search = ErmMcts(mdp, 0.5, seed=0)
    plan = search.plan(iterations=3000)
    assert plan.nodes == len(list(search.root.walk())) <= 3001
    reached = search.root.actions[0].children
    assert sorted(child.state for child in reached) == sorted({child.state for child in reached})


def test_plan_reads_well():
    plan = ErmMcts(domains.make("mdp-4"), 0.5, seed=0).plan(iterations=200)
    assert "Take safe" in str(plan)
    assert "beta 0.5" in str(plan)
    assert plan.row("safe") is plan.rows[1]
    with pytest.raises(LookupError, match="nowhere"):
        plan.row("nowhere")


class Pairs(Simulator):
    """Its actions are tuples that arrays would mix up, or could not hold."""

    start, horizon, costs = 0, 1, {((1, 2), 3): 1.0, ("a", 1): 2.0, ("a", "1"): 3.0}

    def actions(self, state):
        return list(self.costs)

    def outcomes(self, state, action):
        return [(1.0, 1, self.costs[action], True)]

    def step(self, state, action, rng):
        return 1, self.costs[action], True


@pytest.mark.parametrize("kind", [ErmMcts, ExactPlanner])
def test_actions_are_told_apart_by_what_they_are(kind):
    plan = kind(Pairs(), 0.5, seed=0).plan(iterations=50)
    for action, cost in Pairs.costs.items():
        assert plan.row(action).erm == pytest.approx(cost)
        kind(Pairs(), 0.5, seed=0).advance(action, 1)
    with pytest.raises(StateError, match="no action"):
        plan.row(("a", 2))
    with pytest.raises(StateError, match="is not allowed"):
        kind(Pairs(), 0.5, seed=0).advance(("a", "2"), 1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.plan(), OptionError, "limit"),
        (lambda s: s.plan(iterations=0), OptionError, "iterations must be at least 1"),
        (lambda s: s.plan(iterations=2.5), OptionError, "whole number"),
        (lambda s: s.plan(seconds=-1), OptionError, "seconds"),
        (lambda s: s.reset("nowhere"), StateError, "nowhere"),
        (lambda s: s.reset(99), StateError, "99"),
        (lambda s: s.advance(7, 0), StateError, "action 7"),
        (lambda s: s.advance(0, 99), StateError, "99"),
    ],
)
def test_wrong_calls_leave_the_search_usable(call, error, message):
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0)
    search.plan(iterations=10)
    with pytest.raises(error, match=message):
        call(search)
    assert sum(r.visits for r in search.plan(iterations=10).rows) == 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": math.nan}, "beta"),
        ({"beta": "1"}, "beta"),
        ({"beta": math.inf}, "beta"),
        ({"beta": 1.0, "bonus": 3.0}, "bonus"),
        ({"beta": 1.0, "expansion": "all"}, "expansion"),
        ({"beta": 1.0, "recommend": "luck"}, "recommend"),
        ({"beta": 1.0, "max_nodes": 0}, "max_nodes"),
        ({"beta": 1.0, "max_memory": 10}, "max_memory"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(OptionError, match=message):
        SearchOptions(**options)


def test_wrong_bonuses_models_and_seeds():
    with pytest.raises(OptionError, match="eta"):
        PolynomialBonus(eta=0.4)
    with pytest.raises(OptionError, match="constant"):
        LogBonus(constant=-1.0)
    with pytest.raises(OptionError, match="horizon"):
        ErmMcts(domains.make("mdp-4"), 1.0, bonus=PolynomialBonus(constant=[1.0, 2.0]))
    with pytest.raises(ModelError):
        ErmMcts(object(), 1.0)
    with pytest.raises(OptionError, match="seed"):
        ErmMcts(domains.make("mdp-4"), 1.0, seed=-1)


def test_time_limits_hold_roughly():
    search = TreeSearch(domains.make("mdp-4"), SearchOptions(beta=0.5), seed=0)
    search.plan(iterations=1)
    begun = time.perf_counter()
    search.plan(seconds=0.2)
    assert time.perf_counter() - begun < 5.0  # generous: machines are shared


def test_counts_stop_before_they_wrap(monkeypatch):
    """The bound is lowered here: 2^31 visits would take a minute."""
    from tailwise.search import arena

    monkeypatch.setattr(arena, "MOST_VISITS", 101)
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0)
    plan = search.plan(iterations=1000)
    assert (plan.stopped, plan.iterations) == (StopReason.MAX_VISITS, 100)
    assert search.plan(iterations=10).iterations == 0


def test_the_answer_after_ctrl_c_is_not_that_of_the_whole_call(monkeypatch):
    search, given = LearnedModelSearch(domains.make("mdp-4"), 0.5, seed=0), []
    begin = Answering.begin
    monkeypatch.setattr(Answering, "begin", lambda one, *times: given.append(times) or begin(one, *times))

    def interrupt(iterations, seconds):
        raise KeyboardInterrupt

    for limits in ({"seconds": 3600.0}, {"iterations": 10**9}):
        plan = search.plan(**limits, progress=interrupt)
        assert plan.stopped is StopReason.INTERRUPTED
        allowed, by = given.pop()
        assert allowed <= 3.0
        assert by <= time.perf_counter() + 3.0
