"""Gymnasium's transition tables."""

import pytest

from conftest import newest
from tailwise import ErmMcts, TabularMDP, backward_induction
from tailwise.errors import ModelError, UnknownNameError

gymnasium = pytest.importorskip("gymnasium")


def test_frozen_lake():
    mdp = TabularMDP.from_gymnasium("FrozenLake-v1", horizon=60)
    assert (mdp.num_states, mdp.num_actions, mdp.horizon, mdp.sense, mdp.start) == (16, 4, 60, "reward", 0)
    assert mdp.outcomes(14, 2)[1].done == mdp.outcomes(14, 2)[1].done
    slip = {(o.next_state, o.cost, o.done) for o in mdp.outcomes(14, 2)}
    assert (15, 1.0, True) in slip
    assert TabularMDP.from_gymnasium(gymnasium.make("FrozenLake-v1")).horizon == 100  # its own time limit


def test_frozen_lake_risk_neutral_success_is_the_known_one():
    """Undiscounted success of the optimal policy within 100 steps, by plain backward induction here."""
    env = gymnasium.make("FrozenLake-v1").unwrapped
    values = [0.0] * 16
    for _ in range(100):
        values = [
            max(sum(p * (r + (0 if t else values[s2])) for p, s2, r, t in env.P[s][a]) for a in range(4))
            for s in range(16)
        ]
    solution = backward_induction(TabularMDP.from_gymnasium(env, horizon=100), 0.0)
    assert solution.value == pytest.approx(values[0], abs=1e-12)


def test_cliff_walking_keeps_rewards_apart_and_ends():
    mdp = TabularMDP.from_gymnasium(gymnasium.make(newest("CliffWalking-v1"), is_slippery=True), horizon=50)
    rows = mdp.outcomes(36, 1)
    same_target = [o.cost for o in rows if o.next_state == 36]
    assert sorted(same_target) == [-100.0, -1.0]
    assert any(o.done for o in mdp.outcomes(35, 2))
    assert mdp.start == 36


def test_a_random_start_is_noted():
    mdp = TabularMDP.from_gymnasium(newest("Taxi-v4", "Taxi-v3"))
    assert "reset(seed=0)" in mdp.notes[0]
    assert TabularMDP.from_gymnasium(gymnasium.make(mdp.name.removeprefix("gym:")), start=7).start == 7


def test_planning_on_it_shows_rewards():
    plan = ErmMcts(TabularMDP.from_gymnasium("FrozenLake-v1", horizon=30), 1.0, seed=0).plan(iterations=2000)
    assert plan.sense == "reward"
    assert 0.0 <= plan.value <= 1.0


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        ("NoSuchThing-v0", {}, UnknownNameError, "NoSuchThing"),
        ("CartPole-v1", {}, ModelError, "no transition table"),
        (newest("CliffWalking-v1", "CliffWalking-v0"), {}, ModelError, "horizon"),
        (42, {}, ModelError, "environment or its id"),
        ("FrozenLake-v1", {"horizon": -3}, ModelError, "horizon"),
        ("FrozenLake-v1", {"map_name": "9x9"}, ModelError, "9x9"),
    ],
)
def test_wrong_environments(source, options, error, message):
    with pytest.raises(error, match=message):
        TabularMDP.from_gymnasium(source, **options)


class OwnTable(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(self, table):
        self.P = table

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        raise NotImplementedError


def test_tables_of_ones_own():
    listed = [[[(0.5, 1, 1.0, False), (0.5, 0, 0.0, False)]], [[(1.0, 1, 0.0, True)]]]
    keyed = {state: dict(enumerate(actions)) for state, actions in enumerate(listed)}
    lists, dicts = (TabularMDP.from_gymnasium(OwnTable(table), horizon=3) for table in (listed, keyed))
    assert lists.equals(dicts)
    assert lists.num_outcomes == 3
    for broken in ({}, {0: {0: [(1.0, 0, 1.0)]}}, {(0, 0): {0: [(1.0, 0, 1.0, True)]}}, len, 5.0):
        with pytest.raises(ModelError, match="table P of OwnTable cannot be read"):
            TabularMDP.from_gymnasium(OwnTable(broken), horizon=3)
