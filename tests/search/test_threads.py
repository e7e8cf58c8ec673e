"""Root parallelism: trees side by side, merged exactly."""

import copy
import os
import signal
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import random_mdp
from tailwise import AccMcts, BellmanBackup, CompiledSimulator, CvarMcts, ErmMcts, NluMcts, Simulator, domains, erm
from tailwise.errors import OptionError, SimulatorError
from tailwise.search import StopReason
from tailwise.search.action_rows import RootStatistics, merged


def numbers(plan):
    return [tuple(vars(row).values()) for row in plan.rows], plan.value, plan.nodes, plan.simulator_steps


def single_runs(make, seed, shares):
    """What each tree would do alone: tree 0 on the seed itself, tree k on its k-th child."""
    seeds = [seed, *np.random.SeedSequence(seed).spawn(len(shares) - 1)]
    return [make(one).plan(iterations=share) for one, share in zip(seeds, shares, strict=True)]


def visits_of(plans):
    return [sum(row.visits for row in rows) for rows in zip(*(plan.rows for plan in plans), strict=True)]


MAKERS = {
    "paper": lambda seed: ErmMcts(domains.make("grid-mdp"), 0.1, seed=seed),
    "auto": lambda seed: ErmMcts(random_mdp(3, states=6, horizon=6), -0.7, preset="auto", seed=seed),
    "accrued": lambda seed: AccMcts(domains.make("mdp-4"), 0.1, seed=seed),
}


@pytest.mark.parametrize("name", MAKERS)
def test_statistics_are_the_merge_of_the_single_runs_bit_for_bit(name):
    make = MAKERS[name]
    plan = make(7).plan(iterations=1001, threads=3)
    alone = single_runs(make, 7, (334, 334, 333))
    assert (plan.trees, plan.iterations, plan.notes) == (3, 1001, ())
    assert plan.nodes == sum(one.nodes for one in alone)
    assert plan.simulator_steps == sum(one.simulator_steps for one in alone)
    sign = 1.0 if plan.sense == "cost" else -1.0
    for k, row in enumerate(plan.rows):
        rows = [one.rows[k] for one in alone]
        tried = [one for one in rows if one.visits]
        assert row.visits == sum(one.visits for one in rows)
        values, visits = [sign * one.erm for one in tried], [one.visits for one in tried]
        assert row.erm == sign * erm(values, plan.root_beta, weights=visits)
        assert (row.minimum, row.maximum) == (min(r.minimum for r in tried), max(r.maximum for r in tried))
        together = np.concatenate([one.samples(row.action) for one in alone])
        assert plan.samples(row.action).tolist() == together.tolist()
        assert row.mean == pytest.approx(together.mean(), rel=1e-12)
        assert row.std == pytest.approx(together.std(ddof=1), rel=1e-12)
    tried = [row for row in plan.rows if row.visits]
    value = erm([sign * row.erm for row in tried], plan.root_beta, weights=[row.visits for row in tried])
    assert plan.value == sign * value


def test_merged_values_are_the_erm_of_all_that_was_sampled():
    plan = ErmMcts(domains.make("mdp-4"), 0.5, seed=1).plan(iterations=3000, threads=4)
    for row in plan.rows:
        samples = plan.samples(row.action)
        assert samples.size == row.visits
        assert row.erm == pytest.approx(erm(samples, plan.root_beta), rel=1e-12)


def test_one_thread_is_what_it_was():
    mdp = domains.make("grid-mdp")
    assert numbers(ErmMcts(mdp, 0.1, seed=4).plan(iterations=800)) == numbers(
        ErmMcts(mdp, 0.1, seed=4).plan(iterations=800, threads=1)
    )


def test_the_result_depends_on_seed_and_threads_alone():
    """Chunks of any size, conditions and progress leave no trace."""
    mdp = domains.make("grid-mdp")
    whole = ErmMcts(mdp, 0.1, seed=4).plan(iterations=3000, threads=3)
    parts = ErmMcts(mdp, 0.1, seed=4)
    for n in (300, 1200, 1500):  # multiples of three: each part is divided evenly
        last = parts.plan(iterations=n, threads=3, until=lambda plan: False, progress=lambda done, used: None)
    assert numbers(whole)[1:3] == numbers(last)[1:3]
    assert [(r.visits, r.erm, r.mean) for r in whole.rows] == [(r.visits, r.erm, r.mean) for r in last.rows]
    assert numbers(whole) == numbers(ErmMcts(mdp, 0.1, seed=np.random.SeedSequence(4)).plan(iterations=3000, threads=3))
    assert numbers(whole) != numbers(ErmMcts(mdp, 0.1, seed=4).plan(iterations=3000, threads=2))


def test_advance_moves_every_tree_and_later_plans_choose_how_many_go_on():
    mdp = domains.make("mdp-4")
    search = ErmMcts(mdp, 0.5, seed=2)
    plan = search.plan(iterations=2000, threads=2)
    seeds = [2, *np.random.SeedSequence(2).spawn(1)]
    alone = [ErmMcts(mdp, 0.5, seed=seed) for seed in seeds]
    for one in alone:
        one.plan(iterations=1000)
        one.advance(plan.action, 1)
    search.advance(plan.action, 1)
    both = search.plan(iterations=400, threads=2)
    apart = [one.plan(iterations=200) for one in alone]
    assert both.root_beta == apart[0].root_beta == pytest.approx(0.45)
    assert [r.visits for r in both.rows] == visits_of(apart)
    first = search.plan(iterations=100)  # the first tree goes on, and both are reported
    apart[0] = alone[0].plan(iterations=100)
    assert (first.trees, first.iterations) == (2, 100)
    assert [r.visits for r in first.rows] == visits_of(apart)
    more = search.plan(iterations=90, threads=3)  # a third is planted at the root
    assert (more.trees, sum(r.visits for r in more.rows)) == (3, sum(r.visits for r in first.rows) + 90)
    search.reset()
    assert search.plan(iterations=10).trees == 1


def test_new_trees_after_a_reset_have_new_streams():
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=2)
    first = search.plan(iterations=400, threads=2)
    search.reset()
    again = search.plan(iterations=400, threads=2)
    assert numbers(first) != numbers(again)
    search.reset()
    assert search.plan(iterations=200).samples("safe").tolist() not in (
        first.samples("safe").tolist(), again.samples("safe").tolist(),
    )  # fmt: skip


def test_a_copy_has_the_same_future():
    search = ErmMcts(domains.make("grid-mdp"), 0.1, seed=5)
    search.plan(iterations=300, threads=2)
    twin = copy.deepcopy(search)
    assert numbers(search.plan(iterations=300, threads=3)) == numbers(twin.plan(iterations=300, threads=3))


def test_limits_hold_for_all_trees_together():
    mdp = domains.make("mdp-4")
    full = ErmMcts(mdp, 0.5, seed=0, max_nodes=61).plan(iterations=10_000, threads=3)
    assert (full.stopped, full.nodes) == (StopReason.MAX_NODES, 60)
    assert numbers(full) == numbers(ErmMcts(mdp, 0.5, seed=0, max_nodes=61).plan(iterations=10_000, threads=3))
    search = ErmMcts(mdp, 0.5, seed=0, max_memory=80_000)
    tight = search.plan(iterations=10_000, threads=3)
    assert tight.stopped is StopReason.MAX_MEMORY
    assert 60_000 < tight.bytes <= 80_000
    search.advance(tight.action, 1)
    later = search.plan(iterations=10_000, threads=2)
    assert later.bytes <= 80_000
    with pytest.raises(OptionError, match="max_memory"):
        ErmMcts(mdp, 0.5, seed=0, max_memory=16_384 + 32).plan(iterations=10, threads=2)


def test_times_and_conditions_end_the_work():
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0)
    timed = search.plan(seconds=0.1, threads=2)
    assert timed.stopped is StopReason.SECONDS
    assert sum(row.visits for row in timed.rows) == timed.iterations > 0
    met = search.plan(until=lambda plan: plan.iterations >= 100, threads=2)
    assert met.stopped is StopReason.UNTIL
    seen = []
    search.plan(iterations=501, threads=2, progress=lambda done, used: seen.append(done))
    assert seen[-1] == 501
    assert seen == sorted(seen)
    for threads in (0, 1.5, True):
        with pytest.raises(OptionError, match="threads"):
            search.plan(iterations=10, threads=threads)


@pytest.mark.compiled
def test_ctrl_c_returns_what_all_trees_know():
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0)
    search.plan(iterations=10, threads=2)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    plan = search.plan(seconds=60, threads=2)
    assert plan.stopped is StopReason.INTERRUPTED
    assert sum(row.visits for row in plan.rows) == plan.iterations + 10


class Coin(Simulator):
    horizon, start = 3, 0

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        return state + 1, action + rng.random(), False


def test_python_code_keeps_to_one_thread_and_the_plan_says_so():
    alone, many = (ErmMcts(Coin(), 0.5, seed=1).plan(iterations=50, threads=n) for n in (1, 4))
    assert numbers(alone) == numbers(many)
    assert alone.notes == ()
    assert many.trees == 1
    (note,) = many.notes
    assert note.startswith("searched in one thread, not 4")
    called = []
    plan = NluMcts(domains.make("mdp-4"), lambda total: called.append(total) or total, seed=0).plan(
        iterations=20, threads=2
    )
    assert (plan.trees, len(plan.notes)) == (1, 1)


@pytest.mark.compiled  # it solves for a CVaR after its episodes
def test_a_search_for_the_cvar_keeps_to_one_thread_and_says_so():
    plan = CvarMcts(domains.make("mdp-4"), 0.9, seed=0).plan(iterations=4, threads=2)
    assert plan.notes[-1].endswith("not 2: CvarMcts keeps to one")


def shop_step(stock, order, rng):
    left = stock + order - rng.poisson(2.0)
    return min(max(left, 0), 9), order + 4.0 * max(-left, 0) + 0.5 * max(left, 0), False


@pytest.mark.compiled
def test_accrued_costs_of_a_compiled_simulator_are_plain_python_and_the_plan_says_so():
    model = CompiledSimulator(shop_step, start=3, horizon=8, actions=5)
    plan = AccMcts(model, 0.1, seed=0).plan(iterations=20, threads=2)
    assert plan.notes == (
        "searched in one thread, not 2: the view of a simulator with accrued costs is plain Python, which keeps to one",
    )


@pytest.mark.compiled
def test_compiled_simulators_are_searched_in_threads():
    def make(seed):
        return ErmMcts(CompiledSimulator(shop_step, start=3, horizon=8, actions=5), 0.2, seed=seed)

    plan = make(7).plan(iterations=1000, threads=2)
    alone = single_runs(make, 7, (500, 500))
    assert (plan.trees, plan.notes) == (2, ())
    assert [r.visits for r in plan.rows] == visits_of(alone)


def bad_step(state, action, rng):
    if rng.random() < 0.001:
        return 0, np.nan, False
    return state + action, 1.0, False


@pytest.mark.compiled
def test_a_failure_in_any_tree_is_raised_with_all_trees_at_rest():
    search = ErmMcts(CompiledSimulator(bad_step, start=0, horizon=4, actions=2), 0.2, seed=1)
    with pytest.raises(SimulatorError, match="step"):
        search.plan(iterations=200_000, threads=3)
    plan = search.plan(iterations=3, threads=3)
    assert sum(row.visits for row in plan.rows) == sum(plan.samples(row.action).size for row in plan.rows)


def test_a_backup_without_plain_samples_is_merged_too():
    plan = ErmMcts(domains.make("mdp-4"), 0.5, backup=BellmanBackup(), seed=0).plan(iterations=600, threads=2)
    assert plan.label == "safe"


def part(values, visits):
    visits = np.array(visits, dtype=np.int64)
    values = np.array(values)
    moments = np.column_stack((values, visits * 0.5, values - 1.0, values + 1.0))
    moments[visits == 0] = 0.0, 0.0, np.inf, -np.inf
    return RootStatistics(visits, values, visits, moments, (np.empty(0),) * visits.size, int(visits.sum()), 5, 2, 100)


def pairs(of):
    return st.lists(of, min_size=2, max_size=2)


parts = st.lists(st.tuples(pairs(st.floats(-50, 50)), pairs(st.integers(0, 1000))), min_size=2, max_size=6).map(
    lambda drawn: [part(*one) for one in drawn]
)


@given(parts, st.sampled_from([-2.0, -0.1, 0.0, 1e-9, 0.3, 4.0]), st.randoms())
def test_merging_is_associative_and_commutative(given_parts, beta, random):
    whole = merged(given_parts, beta)
    cut = random.randrange(1, len(given_parts))
    grouped = merged([merged(given_parts[:cut], beta), merged(given_parts[cut:], beta)], beta)
    shuffled = merged(random.sample(given_parts, len(given_parts)), beta)
    tried = whole.visits > 0
    for other in (grouped, shuffled):
        assert other.visits.tolist() == whole.visits.tolist()
        np.testing.assert_allclose(other.values[tried], whole.values[tried], rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(other.moments[tried], whole.moments[tried], rtol=1e-9, atol=1e-7)
        assert other[5:] == whole[5:]


def test_what_two_threads_write_at_every_iteration_lies_apart():
    """Writes of one thread to a cache line that another writes to would slow both down."""
    search = ErmMcts(domains.make("grid-mdp"), 0.1, preset="auto", seed=0)
    search.plan(iterations=200, threads=3)
    lines = []
    for tree in search._trees:
        arrays = [tree._stream, tree._tree.arena.counters, tree._rules.bonus.totals, *tree._trace]
        written = [array for array in arrays if array is not tree._trace.latest]  # but rarely at its ends
        ends = [(array.ctypes.data // 64, (array.ctypes.data + array.nbytes - 1) // 64) for array in written]
        lines.append({line for first, last in ends for line in range(first, last + 1)})
    assert not lines[0] & lines[1]
    assert not (lines[0] | lines[1]) & lines[2]
