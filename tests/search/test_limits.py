"""Counts near the end of what they can hold, and counts of very long runs."""

import gc
import math
from types import SimpleNamespace

import numpy as np
import pytest

from tailwise import BoundedRtdp, ErmMcts, LearnedModelSearch, domains, make_planner
from tailwise.errors import OptionError
from tailwise.search import StopReason, anytime, anytime_search
from tailwise.search import arena as units
from tailwise.search.learned import driver

MOST = 2**31 - 1


def check_counts(search):
    """Every node was visited once and then once for each action taken there; nothing is negative."""
    tree, last = search._tree, search.model.horizon - 1
    pending = [(tree.root, tree.step)]
    while pending:
        node, h = pending.pop()
        counts = tree.counts(node)
        assert (counts >= 0).all()
        for position, count in enumerate(counts.tolist()):
            children = tree.children(node, position)
            visits = [1 + int(tree.counts(child).sum()) for child in children]
            assert sum(visits) == (0 if h == last else count)
            pending += [(child, h + 1) for child in children if tree.num_actions(child)]


def test_counts_stop_at_two_billion_and_wrap_nowhere():
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0)
    search.plan(iterations=100)
    before, root = search._tree.counts(search._tree.root), search._tree.root
    often = int(np.argmax(before))
    search._tree.arena.ints[4 * (root + 1 + often) + units.COUNT] += MOST - 2000  # as after a day of iterations
    plan = search.plan(iterations=1000)
    assert plan.iterations == 1000
    assert sum(row.visits for row in plan.rows) == MOST - 2000 + 1100
    last = search.plan(iterations=5000)
    assert last.stopped is StopReason.MAX_VISITS
    assert sum(row.visits for row in last.rows) == MOST - 1
    assert search.root.visits == MOST
    assert all(row.visits >= before[k] for k, row in enumerate(last.rows))
    assert sum(row.share for row in last.rows) == pytest.approx(1.0)
    assert all(np.isfinite(row.erm) for row in last.rows)
    assert search.plan(iterations=10).iterations == 0


def test_links_of_the_learned_model_and_of_bounded_trials_stop_before_they_wrap(monkeypatch):
    """The bounds are lowered here: real ones are met beyond fifty gigabytes."""
    from tailwise.planners import bounded_rtdp
    from tailwise.search.learned import counts

    monkeypatch.setattr(counts, "MOST_ENTRIES", 512)
    plan = LearnedModelSearch(domains.make("grid-mdp"), 0.1, seed=0).plan(iterations=3000)
    assert plan.stopped is StopReason.MAX_MEMORY
    assert 0 < plan.iterations < 3000
    monkeypatch.setattr(bounded_rtdp, "_MOST_NODES", 20)
    assert BoundedRtdp(domains.make("grid-mdp"), 0.1, seed=0).plan(iterations=50).stopped is StopReason.MAX_NODES


def test_the_counts_of_a_run():
    search = ErmMcts(domains.make("grid-mdp"), 0.1, seed=0)
    assert sum(row.visits for row in search.plan(iterations=500).rows) == 500
    check_counts(search)


@pytest.mark.slow
@pytest.mark.compiled
def test_the_counts_of_a_billion_iterations():
    """Ten minutes or more: the paper's search of grid-mdp, whose tree stays small."""
    search = ErmMcts(domains.make("grid-mdp"), 0.1, seed=0, max_memory=2**30)
    plan = search.plan(iterations=10**9)
    assert (plan.stopped, plan.iterations) == (StopReason.ITERATIONS, 10**9)
    assert sum(row.visits for row in plan.rows) == 10**9
    assert plan.simulator_steps == 15 * 10**9
    check_counts(search)


def test_limits_are_checked_before_anything_is_compiled(monkeypatch):
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0)
    monkeypatch.setattr(search, "prepare", lambda iterations: pytest.fail("compiled first"))
    for limits in ({"seconds": math.nan}, {"seconds": 0.0}, {"iterations": 0}, {}):
        with pytest.raises(OptionError):
            search.plan(**limits)


def test_the_report_is_part_of_the_time(monkeypatch):
    search, now = ErmMcts(domains.make("mdp-4"), 0.5, seed=0), [0.0]
    grow_by, report = search._grow_by, search._report

    def grown(iterations):
        now[0] += 0.001 * iterations
        return grow_by(iterations)

    def reported(*arguments):
        now[0] += 0.02
        return report(*arguments)

    monkeypatch.setattr(search, "_grow_by", grown)
    monkeypatch.setattr(search, "_report", reported)
    clock = SimpleNamespace(perf_counter=lambda: now[0])
    for module in (anytime, anytime_search):
        monkeypatch.setattr(module, "time", clock)
    search.plan(iterations=1)  # what a report takes is known from the one before
    for _ in range(3):
        begun = now[0]
        plan = search.plan(seconds=0.1)
        assert 0.085 <= now[0] - begun <= 0.1
        assert plan.iterations >= 65


def test_a_long_first_call_keeps_little_for_its_answer(monkeypatch):
    search, now = LearnedModelSearch(domains.make("mdp-4"), 0.5, seed=0), [0.0]
    grow_by = search._grow_by

    def grown(iterations):
        now[0] += 0.01 * iterations
        return grow_by(iterations)

    monkeypatch.setattr(search, "_grow_by", grown)
    clock = SimpleNamespace(perf_counter=lambda: now[0])
    for module in (anytime, anytime_search, driver):
        monkeypatch.setattr(module, "time", clock)
    for seconds, least in ((1.0, 0.65), (10.0, 8.8)):
        begun = now[0]
        search.plan(seconds=seconds)
        assert now[0] - begun >= least


def test_of_a_short_call_little_is_left_unused(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(anytime, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def run(chunk):
        calls.append(chunk)
        now[0] += 1e-6 * chunk

    for seconds in (0.003, 0.01, 0.05):
        calls.clear()
        begun = now[0]
        anytime.run_anytime(
            run,
            lambda: sum(calls),
            iterations=None,
            seconds=seconds,
            progress=lambda *_: None,
        )
        assert sum(calls) >= 0.99 * seconds / 1e-6
        assert now[0] - begun <= 1.001 * seconds
        assert len(calls) < 40  # of which each takes some time of its own


def test_old_garbage_is_left_alone_in_a_short_call():
    usual, seen = gc.get_threshold(), set()
    search, within = (make_planner(domains.make("mdp-4"), 0.3, kind="erm-mcts", seed=k) for k in (0, 1))
    for one in (search, within):
        one.plan(iterations=1)

    def tell(iterations, seconds):
        seen.add(gc.get_threshold()[2] > 10**9)
        within.plan(seconds=0.01)

    search.plan(seconds=0.2, progress=tell)
    assert (seen, gc.get_threshold(), gc.isenabled()) == ({True}, usual, True)
    seen.clear()
    search.plan(seconds=1.1, progress=tell)
    assert (seen, gc.get_threshold()) == ({False}, usual)
