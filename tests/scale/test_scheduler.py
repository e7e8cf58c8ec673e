"""The rules of handing out tasks, in a simulated clock: lost workers, slow ones, limits of time."""

import math

import numpy as np
import pytest

from simulated_pool import SimulatedPool
from tailwise.errors import WorkersLostError
from tailwise.scale.cluster import Event, Report
from tailwise.scale.scheduler import Scheduler
from tailwise.search import StopReason


def gather(pool, tasks, **options):
    return Scheduler(pool, tasks, **options).run()


def finals(found):
    return sorted(task for task, report in found.reports.items() if report.is_final)


def test_all_tasks_are_done_once_however_workers_die():
    """A hundred random pools: some are lost, some slow; every task ends up with one whole report."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        lives, speeds = rng.exponential(20.0, 1000), rng.lognormal(0.0, 0.7, 1000)
        pool = SimulatedPool(
            8, work=5.0, speed=lambda worker, s=speeds: s[worker], lives=lambda worker, s=lives: s[worker],
            ready_after=lambda worker: 0.1 * (worker % 3),
        )  # fmt: skip
        kept = []
        found = gather(pool, 40, restarts=900, keep=lambda report, kept=kept: kept.append(report.task))
        assert finals(found) == sorted(kept) == list(range(40))
        assert all(report.work == 5.0 for report in found.reports.values())
        assert found.stopped is StopReason.ITERATIONS
        assert found.notes(40, "tasks") == () or "lost" in found.notes(40, "tasks")[0]


def test_what_a_lost_worker_reported_counts_until_its_task_is_further():
    seen = []
    pool = SimulatedPool(1, work=4.0, lives=lambda worker: 2.5 if worker == 0 else math.inf)
    found = gather(pool, 1, watch=lambda found, used: seen.append(sum(r.work for r in found.reports.values())))
    assert seen == sorted(seen)  # the second worker begins at 0, but what the first reported stays
    assert seen.count(1.5) > 2
    assert (found.reports[0].work, found.again, len(found.lost)) == (4.0, {0}, 1)
    assert found.notes(1, "tasks") == ("workers lost on the way: 1; tasks begun again: 1",)


def test_a_slow_worker_is_overtaken():
    pool = SimulatedPool(4, work=2.0, speed=lambda worker: 0.01 if worker == 0 else 1.0)
    found = gather(pool, 8)
    assert finals(found) == list(range(8))
    assert found.seconds < 15.0  # alone the slow one would need 200
    assert found.lost == []


def test_time_is_up():
    pool = SimulatedPool(
        3, work=math.inf, ready_after=lambda worker: 2.0 * worker, lives=lambda worker: 9.5 if worker == 1 else math.inf
    )
    found = gather(pool, 3, seconds=10.0, restarts=0)
    assert found.stopped is StopReason.SECONDS
    assert 10.0 <= found.seconds < 10.6
    assert [found.reports[task].work for task in range(3)] == pytest.approx([10.0, 5.0, 10.0], abs=0.5)
    late = SimulatedPool(2, work=math.inf, ready_after=lambda worker: 1.0 + 60.0 * worker)
    found = gather(late, 2, seconds=5.0)
    assert list(found.reports) == [0]
    assert found.notes(2, "trees") == ("1 of 2 trees reported nothing",)


def test_a_condition_ends_the_work():
    pool = SimulatedPool(2, work=100.0)
    found = gather(pool, 2, watch=lambda found, used: sum(r.work for r in found.reports.values()) >= 10.0)
    assert found.stopped is StopReason.UNTIL
    assert 5.0 <= found.seconds < 6.0


def test_no_worker_left_is_an_error_with_what_was_gathered():
    pool = SimulatedPool(2, work=10.0, lives=lambda worker: 3.5 + worker)
    with pytest.raises(WorkersLostError, match=r"all workers were lost.*its machine died.*2 of 4 tasks had") as caught:
        gather(pool, 4, restarts=0)
    works = [report.work for report in caught.value.gathered.reports.values()]
    assert works == pytest.approx([3.0, 4.0], abs=0.6)
    with pytest.raises(WorkersLostError, match="no worker was ready"):
        gather(SimulatedPool(2, work=1.0, ready_after=lambda worker: math.inf), 2)


class Scripted:
    """A pool of one that sends what it was told to send."""

    size = 1

    def __init__(self, answers):
        self.answers, self.time, self.due = list(answers), 0.0, []

    def now(self):
        self.time += 0.125
        return self.time

    def start(self, worker):
        self.due.append(Event(worker, None))

    def send(self, worker, task, seconds):
        answer = self.answers.pop(0)
        if answer is KeyboardInterrupt:
            raise KeyboardInterrupt
        self.due.append(Event(worker, answer))

    def events(self, timeout):
        found, self.due = self.due, []
        return found


def test_an_error_of_the_users_code_is_raised():
    with pytest.raises(ZeroDivisionError, match="mine"):
        gather(Scripted([ZeroDivisionError("mine")]), 1)


def test_ctrl_c_returns_what_was_reported():
    with pytest.raises(KeyboardInterrupt):
        gather(Scripted([KeyboardInterrupt]), 1)
    found = gather(Scripted([Report(0, "half", 1.0, False), KeyboardInterrupt]), 1)
    assert (found.stopped, found.reports[0].content) == (StopReason.INTERRUPTED, "half")
    assert found.notes(1, "trees") == ("1 of 1 trees count as far as they had reported",)
