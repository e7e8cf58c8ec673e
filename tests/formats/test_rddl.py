"""RDDL instances: the contract, saving and restoring, joint actions, against pyRDDLGym's environment."""

import itertools
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tailwise import ErmMcts, PartlyObserved, domains, make_planner, solve
from tailwise._random import generator
from tailwise.errors import FormatError, ModelError, OptionError, StateError, UnknownNameError
from tailwise.formats import load, summarize
from tailwise.formats.kinds.rddl import _count
from tailwise.formats.rddl_simulator import verify

pytest.importorskip("pyRDDLGym")
pytest.importorskip("rddlrepository")

# instance, joint actions, values of a state; counted by hand from the files
INSTANCES = [
    ("PushYourLuck_ippc2018/1", 4, 20),
    ("Navigation_MDP_ippc2011/1", 5, 12),
    ("TriangleTireworld_MDP_ippc2014/1", 44, 15),
    ("SysAdmin_MDP_ippc2011/1", 11, 10),
    ("Option_or/0", 2, 3),
    ("CrossingTraffic_MDP_ippc2014/1", 5, 18),
    ("GameOfLife_MDP_ippc2011/1", 10, 9),
    ("Elevators_MDP_ippc2011/1", 5, 13),
    ("Blackjack_arcade/0", 2, 3),
    ("SupplyChain_or/0?integer_bound=1", 16, None),
    ("RedFinnedBlueEye_ippc2018/1?max_concurrent=1", 22, None),
]


def episode(simulator, steps, seed):
    rng, picks, state, seen = generator(seed), np.random.default_rng(seed), simulator.start, []
    for _ in range(steps):
        allowed = simulator.actions(state)
        action = int(allowed[picks.integers(len(allowed))])
        following, reward, done = simulator.step(state, action, rng)
        seen.append((state, action, following, reward, done))
        if done:
            break
        state = following
    return seen


@pytest.mark.parametrize(("name", "num_actions", "size"), INSTANCES)
def test_instances_follow_the_contract(name, num_actions, size):
    simulator = load(f"rddl:{name}")
    assert simulator.num_actions == num_actions
    assert size is None or len(simulator.start) == size
    assert simulator.sense == "reward"
    assert 1 <= simulator.horizon <= 1000
    assert 0.0 < simulator.discount <= 1.0
    first = episode(simulator, 12, seed=4)
    assert episode(simulator, 12, seed=4) == first
    assert all(hash(row[2]) is not None and np.isfinite(row[3]) for row in first)
    assert all(isinstance(value, (bool, int, float)) for value in simulator.start)


@pytest.mark.parametrize("name", [name for name, _, _ in INSTANCES])
def test_the_search_plans_on_them(name):
    simulator = load(f"rddl:{name}", horizon=4)
    plan = ErmMcts(simulator, beta=0.1, seed=0).plan(iterations=30)
    assert plan.action in simulator.actions(simulator.start)
    assert plan.iterations == 30


@pytest.mark.parametrize("name", ["Navigation_MDP_ippc2011/1", "SysAdmin_MDP_ippc2011/1", "PushYourLuck_ippc2018/1"])
def test_steps_are_those_of_pyrddlgyms_own_environment(name):
    """The same actions from the same NumPy stream give the environment's states, rewards and ends."""
    import contextlib
    import io
    import warnings

    simulator = load(f"rddl:{name}")
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        import pyRDDLGym

        env = pyRDDLGym.make(*name.split("/"))
        env.reset(seed=3)
        env.sampler.rng = generator(11)
        mine, state = generator(11), simulator.start
        for index in range(15):
            allowed = simulator.actions(state)
            action = allowed[index % len(allowed)]
            _, joint = simulator._joint_actions[action]
            grounded = {
                key: value
                for fluent, values in joint.items()
                for key, value in env.model.ground_var_with_values(fluent, values)
            }
            _, reward, terminated, truncated, _ = env.step(grounded)
            state, found, done = simulator.step(state, action, mine)
            flat = [v for f in env.model.state_fluents for v in np.asarray(env.sampler.subs[f]).reshape(-1).tolist()]
            assert list(state) == flat
            assert found == reward
            assert done == (terminated or (truncated and index + 1 < simulator.horizon))
            if done:
                break


def test_a_step_depends_on_state_action_and_stream_only():
    simulator = load("rddl:CrossingTraffic_MDP_ippc2014/1")
    rows = episode(simulator, 20, seed=0)
    results = [simulator.step(row[0], row[1], generator(5)) for row in rows]
    shuffled = np.random.default_rng(1).permutation(len(rows))
    for index in shuffled:
        assert simulator.step(rows[index][0], rows[index][1], generator(5)) == results[index]


def test_hidden_memory_is_found_out():
    simulator = load("rddl:SysAdmin_MDP_ippc2011/1")
    plain = simulator._sampler.step
    calls = itertools.count()
    simulator._sampler.step = lambda actions: (plain(actions)[0], float(next(calls)), False)
    with pytest.raises(ModelError, match="a step repeated from a saved state came out differently"):
        verify(simulator)


TIGER = """domain tiger {
  requirements = { partially-observed, reward-deterministic };
  pvariables {
    begun : { state-fluent, bool, default = false };
    ready : { state-fluent, bool, default = false };
    left : { state-fluent, bool, default = false };
    hears-left : { observ-fluent, bool };
    listen : { action-fluent, bool, default = false };
    open-left : { action-fluent, bool, default = false };
    open-right : { action-fluent, bool, default = false };
  };
  cpfs {
    begun' = true;
    ready' = begun;
    left' = if (~begun | open-left | open-right) then Bernoulli(0.5) else left;
    hears-left = if (listen ^ ready') then (if (left') then Bernoulli(0.85) else Bernoulli(0.15)) else Bernoulli(0.5);
  };
  reward = if (~begun) then 0.0 else if (open-left) then (if (left) then -100.0 else 10.0)
    else if (open-right) then (if (left) then 10.0 else -100.0) else -1.0;
}
non-fluents nothing { domain = tiger; }
instance tiger1 {
  domain = tiger; non-fluents = nothing; init-state { begun = false; };
  max-nondef-actions = 1; horizon = 4; discount = 1.0;
}
"""


def test_an_instance_with_observations_is_planned_by_what_is_observed(tmp_path):
    path = tmp_path / "tiger.rddl"
    path.write_text(TIGER, encoding="utf-8")
    model = load(path)
    assert isinstance(model, PartlyObserved)
    want = -solve(domains.make("tiger", horizon=3, discount=1.0), 0.02).value
    search = make_planner(model, 0.02, seed=0)
    assert search.kind == "learned-beliefs"
    assert search.plan(iterations=1000).value == pytest.approx(want, abs=0.6)  # whoever saw the state would have 30
    search.advance(search.plan(iterations=10).action, (True,))
    assert search.plan(iterations=10).label == "listen"
    assert pickle.loads(pickle.dumps(model)).actions() == model.actions() == (0, 1, 2, 3)
    with pytest.raises(ModelError, match="drawn with the step"):
        model.observe(model.sample_start(generator(0)), 0, (), generator(0))


@pytest.mark.parametrize("name", ["Navigation_POMDP_ippc2011/1", "Tamarisk_POMDP_ippc2014/1"])
def test_instances_with_observations_are_planned_as_if_seen_only_where_that_is_said(name):
    assert isinstance(load(f"rddl:{name}", horizon=3), PartlyObserved)
    simulator = load(f"rddl:{name}?observe=state", horizon=3)
    assert simulator.notes[0].startswith(f"as if seen: rddl:{name} has observations")
    assert pickle.loads(pickle.dumps(simulator)).notes == simulator.notes
    plan = make_planner(simulator, 0.1, seed=0).plan(iterations=20)
    assert simulator.notes[0] in plan.notes
    with pytest.raises(OptionError, match="observe must be one of"):
        load(f"rddl:{name}", observe="all")


def test_preconditions_narrow_the_actions():
    simulator = load("rddl:PushYourLuck_ippc2018/1")
    allowed = simulator.actions(simulator.start)
    assert len(allowed) == 2 < simulator.num_actions
    assert {simulator.action_name(a) for a in allowed} == {"roll(d1)", "cash-out"}


def test_counts_of_joint_actions():
    for sizes, most in (([1, 1, 1], 1), ([1] * 6, 6), ([2, 3, 1], 2), ([4], 0)):
        by_hand = sum(int(np.prod(chosen)) for k in range(most + 1) for chosen in itertools.combinations(sizes, k))
        assert _count(sizes, most) == by_hand
    assert _count([1] * 200, 200) == 2**200


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("ChromaticDice_ippc2018/1", ModelError, "536870912 joint actions .*max_actions=1000"),
        ("HVAC/0", ModelError, "'.*' takes real values"),
        ("SupplyChain_or/0", ModelError, "is not bounded .*integer_bound="),
        ("Navigation/1", UnknownNameError, "did you mean Navigation_MDP_ippc2011"),
        ("Navigation_MDP_ippc2011/99", UnknownNameError, "no instance '99'"),
        ("Navigation_MDP_ippc2011", UnknownNameError, "expected rddl:DOMAIN/INSTANCE"),
        ("a.rddl,b.rddl", FormatError, "there is no file a.rddl"),
        ("Option_or/0?start=3", OptionError, "initial state"),
        ("Option_or/0?max_actions=0", OptionError, "max_actions"),
        ("Option_or/0?max_concurrent=-1", OptionError, "max_concurrent"),
        ("Option_or/0?bound=1", OptionError, "rddl models take .*max_concurrent"),
        ("SysAdmin_MDP_ippc2011/1?max_actions=10", ModelError, "11 joint actions"),
    ],
)
def test_what_is_refused(name, error, said):
    with pytest.raises(error, match=said):
        load(f"rddl:{name}")


def test_files_that_are_not_rddl(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.rddl").write_text("domain nonsense {")
    with pytest.raises(FormatError, match="pyRDDLGym cannot read it"):
        load(f"rddl:{tmp_path / 'a.rddl'},{tmp_path / 'b.rddl'}")


def test_horizon_discount_pickle_and_names(capfd):
    simulator = load("rddl:Navigation_MDP_ippc2011/1", horizon=7, discount=0.5)
    assert (simulator.horizon, simulator.discount) == (7, 0.5)
    again = pickle.loads(pickle.dumps(simulator))
    assert episode(again, 5, seed=1) == episode(simulator, 5, seed=1)
    assert again.horizon == 7
    assert simulator.action_labels[0] == "noop"
    assert "robot-at" in simulator.state_name(simulator.start)
    summary = summarize(simulator)
    assert (summary.kind, summary.actions, summary.start_actions, summary.states) == ("simulator", 5, 5, None)
    assert capfd.readouterr() == ("", "")


def test_wrong_states_and_actions():
    simulator = load("rddl:Option_or/0")
    with pytest.raises(StateError, match=r"action 9 is not one of 0\.\.1"):
        simulator.step(simulator.start, 9, generator(0))
    with pytest.raises(StateError, match="a state has 3 values, not 1"):
        simulator.step((1,), 0, generator(0))


def test_failures_of_an_instance_name_state_and_action():
    from tailwise.errors import SimulatorError

    simulator = load("rddl:Option_or/0")
    simulator._sampler = SimpleNamespace(
        rddl=simulator._sampler.rddl, init_values=simulator._sampler.init_values,
        step=lambda _: (None, float("nan"), False), check_state_invariants=lambda silent: True,
        subs=simulator._sampler.init_values,
    )  # fmt: skip
    with pytest.raises(SimulatorError, match="gave the reward nan"):
        simulator.step(simulator.start, 0, generator(0))
    simulator._sampler.step = lambda _: 1 / 0
    with pytest.raises(SimulatorError, match=r"action 'noop' in state .* failed: ZeroDivisionError"):
        simulator.step(simulator.start, 0, generator(0))


def test_domain_and_instance_may_stand_in_one_file(tmp_path):
    from rddlrepository.core.manager import RDDLRepoManager

    problem = RDDLRepoManager().get_problem("Navigation_MDP_ippc2011")
    parts = [Path(name).read_text() for name in (problem.get_domain(), problem.get_instance("1"))]
    path = tmp_path / "both.rddl"
    path.write_text("\n".join(parts))
    one, two = load(path), load("rddl:Navigation_MDP_ippc2011/1")
    assert episode(one, 8, seed=2) == episode(two, 8, seed=2)
    with pytest.raises(FormatError, match="there is no file"):
        load(tmp_path / "nothing.rddl")


def test_real_valued_actions_take_levels():
    with pytest.raises(ModelError, match=r"'air' takes real values.*say levels="):
        load("rddl:HVAC/0")
    simulator = load("rddl:HVAC/0?levels=2&max_concurrent=1")
    assert simulator.num_actions > 2
    assert any("take 2 values each" in note for note in simulator.notes)
    assert len(episode(simulator, 4, seed=0)) == 4
