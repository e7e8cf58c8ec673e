"""What no estimate from a log can see: each of the three ways in which a promise fails, as docs/logs.md says."""

import numpy as np

from tailwise import learn_model, load_episodes, solve


def one_decision(treated, survives):
    """Return a log of one decision a patient: reward 1 for survival."""
    count = treated.size
    return load_episodes({
        "patient": np.arange(count), "state": np.full(count, "ill"), "action": np.where(treated, "treat", "wait"),
        "next_state": np.where(survives, "well", "dead"), "reward": survives.astype(float), "done": np.ones(count),
    })  # fmt: skip


def test_confounding():
    """Doctors saw how ill somebody was, and the log does not hold it: treatment, which helps everybody, looks bad."""
    rng = np.random.default_rng(0)
    is_severe = rng.random(4_000) < 0.5
    treated = rng.random(4_000) < np.where(is_severe, 0.9, 0.1)
    chance = np.where(is_severe, np.where(treated, 0.5, 0.2), np.where(treated, 0.95, 0.9))
    policy = solve(learn_model(one_decision(treated, rng.random(4_000) < chance)), 0.0)
    promise = policy.promise
    assert policy.mdp.action_name(policy.action) == "wait"  # worth .55; treating all would be worth .725
    assert promise.interval.low > 0.78
    assert promise.off_policy.value > 0.78  # held-out episodes are of the same doctors


def test_drift():
    """What was true when most of the log was written is not true any more."""
    rng = np.random.default_rng(1)
    treated = rng.random(4_000) < 0.5
    is_now = np.arange(4_000) >= 3_200
    chance = np.where(treated, np.where(is_now, 0.3, 0.9), 0.6)
    survives = rng.random(4_000) < chance
    policy = solve(learn_model(one_decision(treated, survives)), 0.0)
    assert policy.mdp.action_name(policy.action) == "treat"  # worth .3 from now on, and waiting .6
    assert policy.promise.interval.low > 0.7
    recent = solve(learn_model(one_decision(treated[is_now], survives[is_now])), 0.0)  # the way out
    assert recent.mdp.action_name(recent.action) == "wait"


def machines(count, seed):
    """Return a log of machines that break in the third step after a repair, in which nobody wrote their age down."""
    rng = np.random.default_rng(seed)
    columns = {"machine": [], "week": [], "state": [], "action": [], "next_state": [], "cost": [], "done": []}
    for machine in range(count):
        age = 0
        for week in range(6):
            runs = rng.random() < 0.5
            breaks = runs and age == 2
            age = age + 1 if runs and not breaks else 0
            row = (machine, week, "works", "run" if runs else "repair", "works", 3 * breaks if runs else 1, 0)
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    return load_episodes(columns)


def test_states_that_are_not_enough():
    """How a machine goes on depends on its age, which is not part of the state; the model mixes all ages."""
    rest, held_out = machines(8_000, 2).split(0.5)
    model = learn_model(rest, horizon=6)
    policy = solve(model, 0.0)
    assert set(policy.policy[:, 0].tolist()) == {model.action_labels.index("run")}  # truly costs 6; 2 is possible
    promise = model.promise(policy, held_out=held_out)
    assert promise.interval.high < 4.0
    assert promise.off_policy.value == 6.0  # whole episodes show it, where there are enough of them
