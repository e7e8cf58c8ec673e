"""The same results on a cluster as in one process, also where workers are killed: a real Ray, several processes."""

import contextlib
import dataclasses
import json
import os
import signal
import threading

import numpy as np
import pytest
from typer.testing import CliRunner

ray = pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")

import small_tables  # noqa: E402
from tailwise import AccMcts, CVaR, ErmMcts, Simulator, domains, evaluate, make_planner, scale  # noqa: E402
from tailwise.cli.app import app  # noqa: E402
from tailwise.errors import ModelError, OptionError, SimulatorError, WorkersLostError  # noqa: E402
from tailwise.reproduction import ConvergenceStudy, Settings, convergence_study, reproduce  # noqa: E402
from tailwise.scale.cluster import packed, unpacked  # noqa: E402
from tailwise.search import StopReason  # noqa: E402

pytestmark = pytest.mark.compiled  # workers are killed in the middle of many iterations


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nonsense"])
def test_no_cluster_at_the_address(address):
    with pytest.raises(OptionError, match=f"no Ray cluster answers at '{address}'.*ray start --head"):
        scale.plan(ErmMcts(domains.make("mdp-4"), 0.5), 10, address=address)


def test_a_cluster_of_ours_listens_to_this_machine_alone():
    from tailwise.scale.cluster import connected

    with connected("local", 1) as workers:
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        listening = {
            end.laddr.ip.removeprefix("::ffff:")
            for process in processes
            for end in process.net_connections(kind="inet")
            if end.status == psutil.CONN_LISTEN
        }
    assert workers == 1
    assert "127.0.0.1" in listening
    assert listening <= {"127.0.0.1", "::1"}
    assert ray._private.ray_constants.ENABLE_RAY_CLUSTER  # of others as before


@pytest.fixture(scope="module")
def cluster():
    """Three worker processes on this machine; scale uses the connection that is there."""
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


def worker_pids():
    """The processes of the workers that this test's own cluster has."""
    mine = psutil.Process().children(recursive=True)
    pids = []
    for process in mine:
        with contextlib.suppress(psutil.NoSuchProcess):  # also of those that were killed a moment ago
            if (process.cmdline() or [""])[0].startswith("ray::Worker"):
                pids.append(process.pid)
    return pids


def killer(most):
    """Return (a progress callback that kills workers, ``most`` of them, and the list of those killed).

    It kills those that there are at each report: one may be up long before another.
    """
    killed = []

    def progress(*seen):
        if seen[0]:
            for pid in [pid for pid in worker_pids() if pid not in killed][: most - len(killed)]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    return progress, killed


def numbers(plan):
    rows = [dataclasses.replace(row, interval=None) for row in plan.rows]  # the interval is from fewer samples
    return str(rows), plan.value, plan.nodes, plan.simulator_steps, plan.iterations, plan.trees, plan.state, plan.step


@pytest.mark.parametrize(
    "make",
    [
        lambda: ErmMcts(domains.make("grid-mdp"), 0.1, seed=4),
        lambda: AccMcts(domains.make("mdp-4"), 0.1, seed=np.random.SeedSequence(4)),
    ],
)
def test_the_plan_is_that_of_as_many_threads(cluster, make):
    local, remote = make(), make()
    for search in (local, remote):
        search.reset(1, 1)
    found = scale.plan(remote, 2000, trees=4, workers=2, report_every=0.01)
    assert numbers(found) == numbers(local.plan(iterations=2000, threads=4))
    assert found.notes == ()
    assert found.stopped is StopReason.ITERATIONS
    assert remote.plan(iterations=10).trees == 1  # the search is as it was


def test_a_killed_worker_leaves_no_trace_but_a_note(cluster):
    mdp = domains.make("grid-mdp")
    progress, killed = killer(1)
    found = scale.plan(ErmMcts(mdp, 0.1, seed=5), 200_000, trees=4, workers=3, report_every=0.01, progress=progress)
    assert len(killed) == 1
    assert numbers(found) == numbers(ErmMcts(mdp, 0.1, seed=5).plan(iterations=200_000, threads=4))
    assert sum(row.visits for row in found.rows) == 200_000  # each tree counts once
    assert found.notes[0].startswith("workers lost on the way: 1")


def test_all_workers_lost_is_an_error_with_what_was_gathered(cluster):
    progress, killed = killer(2)
    with pytest.raises(WorkersLostError, match="all workers were lost") as caught:
        scale.plan(
            ErmMcts(domains.make("grid-mdp"), 0.1, seed=5), 10**9, seconds=120, trees=2, report_every=0.05, restarts=0,
            progress=progress,
        )  # fmt: skip
    assert len(killed) == 2
    gathered = caught.value.gathered
    assert 0 < sum(row.visits for row in gathered.rows) == gathered.iterations < 10**9
    assert "workers lost on the way: 2" in gathered.notes


def test_time_and_conditions_end_the_search(cluster):
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=5)
    timed = scale.plan(search, seconds=0.5, workers=2)
    assert (timed.stopped, timed.trees) == (StopReason.SECONDS, 2)
    assert 0.4 < timed.seconds < 5.0
    met = scale.plan(search, seconds=60, workers=2, report_every=0.05, until=lambda plan: plan.iterations >= 1000)
    assert met.stopped is StopReason.UNTIL
    assert met.samples(met.action).size <= 4096 + 2
    with pytest.raises(OptionError, match="no search of trees"):
        scale.plan(make_planner(domains.make("mdp-4"), 0.5), 10)


def test_evaluations_are_those_of_one_process(cluster):
    mdp = domains.make("mdp-4")
    options = {"episodes": 30, "iterations": 50, "seed": 3}
    progress, killed = killer(1)
    local = evaluate(mdp, ErmMcts(mdp, 0.5), **options)
    remote = scale.evaluate(mdp, ErmMcts(mdp, 0.5), workers=3, progress=progress, **options)
    assert len(killed) == 1
    assert remote.costs.tolist() == local.costs.tolist()
    assert remote.streams == local.streams
    assert np.array_equal(remote.decisions, local.decisions)


def test_planners_of_every_kind_travel():
    mdp = domains.make("mdp-4")
    for kind in ("auto", "bounded", "learned", "acc-mcts", "cvar-mcts", "distributional"):
        planner = make_planner(mdp, CVaR(0.9) if kind == "cvar-mcts" else 0.5, kind=kind)
        limits = {} if kind == "auto" else {"iterations": 40}
        local = evaluate(mdp, planner, episodes=3, seed=3, **limits)
        assert evaluate(mdp, unpacked(packed(planner)), episodes=3, seed=3, **limits).costs.tolist() == (
            local.costs.tolist()
        )


def test_the_reproduction_is_the_same_byte_for_byte(cluster, tmp_path):
    settings = Settings(problems=("mdp-4",), seeds=2, variants=("repaired",), most_iterations=2)
    reproduce(tmp_path / "local", settings)
    scale.reproduce(tmp_path / "remote", settings, workers=2)
    names = sorted(path.relative_to(tmp_path / "local") for path in (tmp_path / "local").rglob("*.*"))
    assert len(names) > 5
    for name in names:
        if name.name != "timing.log":
            assert (tmp_path / "remote" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
    scale.reproduce(tmp_path / "remote", settings, resume=True)  # nothing is left to do


def test_the_study_is_the_same(cluster):
    study = ConvergenceStudy(("stationary",), betas=(0.1, 1.0), pulls=300, replications=4, seed=7)
    assert scale.convergence_study(study, workers=2) == convergence_study(study)


def test_the_command_line_takes_a_cluster(cluster, tmp_path):
    def run(*words):
        return json.loads(CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).stdout)

    plan = ["plan", "grid-mdp", "--beta", "0.1", "--planner", "tree", "-n", "900", "--seed", "3", "--threads", "3"]
    local, remote = run(*plan), run(*plan, "--ray", "local")
    assert [row["visits"] for row in remote["rows"]] == [row["visits"] for row in local["rows"]]
    sample = ["evaluate", "mdp-4", "--beta", "1", "-e", "8", "-n", "20", "--planner", "tree", "--seed", "3"]
    assert run(*sample, "--ray", "auto")["totals"] == run(*sample)["totals"]
    with pytest.raises(OptionError, match="give --ray"):
        run(*sample, "--workers", "2")


def make_walk(fault=0.0):
    class Walk(Simulator):  # of no module: it travels by value
        horizon, start = 4, 0

        def actions(self, state):
            return 2

        def step(self, state, action, rng):
            if rng.random() < fault:
                raise ValueError("mine")
            return state + action, 1.0 - action * rng.random(), False

    return Walk()


def test_python_simulators_travel(cluster):
    search = ErmMcts(make_walk(), 0.5, seed=1)
    assert scale.plan(search, 300, trees=1).rows == ErmMcts(make_walk(), 0.5, seed=1).plan(iterations=300).rows
    with pytest.raises(SimulatorError, match="mine"):
        scale.plan(ErmMcts(make_walk(0.01), 0.5, seed=1), 3000, trees=2, workers=2)


class Locked(Simulator):
    horizon, start = 2, 0

    def __init__(self):
        self.lock = threading.Lock()

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        return 0, float(action), False


def test_what_cannot_travel_is_named_and_has_a_way_out(cluster):
    search = ErmMcts(Locked(), 0.5, seed=1)
    with pytest.raises(ModelError, match=r"Locked or its planner cannot travel.*lock.*model_path"):
        scale.plan(search, 10)
    with pytest.raises(OptionError, match=r"package\.module:function"):
        scale.plan(search, 10, model_path="no_such_module:make")


def test_a_model_can_travel_by_import_path(monkeypatch):
    monkeypatch.setattr(small_tables, "make_locked", Locked, raising=False)
    mine = Locked()
    content = packed((ErmMcts(mine, 0.5, max_nodes=7), [mine]), mine, "small_tables:make_locked")
    assert len(content) < 2000
    search, (model,) = unpacked(content)
    assert isinstance(model, Locked)
    assert model is not mine
    assert search.plan(iterations=50).nodes == 3
