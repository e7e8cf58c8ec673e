"""Gymnasium environments as simulators: equal to their tables, no foresight, and honest refusals."""

import json
import math
import random
import threading
import warnings

import numpy as np
import pytest

from conftest import newest
from tailwise import (
    Discretized,
    ErmMcts,
    GymnasiumSimulator,
    Simulator,
    TabularMDP,
    Widening,
    backward_induction,
    check_simulator,
    evaluate,
    load,
    make_planner,
)
from tailwise.errors import ModelError, OptionError, StateError, UnknownNameError
from tailwise.models.gymnasium.private_env import strip

gymnasium = pytest.importorskip("gymnasium")


def numbers(plan):
    return [(row.visits, row.erm, row.mean, row.minimum, row.maximum) for row in plan.rows]


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalkingSlippery-v1"])
def test_an_environment_and_its_table_grow_the_same_tree(name):
    newest(name)
    table = TabularMDP.from_gymnasium(name, horizon=30, discount=0.97)
    env = GymnasiumSimulator(name, horizon=30, discount=0.97)
    searches = [ErmMcts(model, 0.05, seed=4) for model in (table, env)]
    plans = [search.plan(iterations=600) for search in searches]
    assert numbers(plans[0]) == numbers(plans[1])
    assert plans[0].nodes == plans[1].nodes
    assert plans[0].label == plans[1].label


def test_draws_do_not_tell_the_future():
    # A planner whose copy kept the generator would foresee every slip. The real next state agrees with a
    # simulated one by chance alone: with probability 1/3 (three outcomes of 1/3 from state 14, action 1).
    # 600 trials: standard error 0.019; 4 standard errors = an error rate of 6e-5.
    env = gymnasium.make("FrozenLake-v1")
    same = 0
    rng = np.random.default_rng(5)
    env.reset(seed=0)
    simulator = GymnasiumSimulator("FrozenLake-v1")
    for trial in range(600):
        env.reset(seed=trial)
        env.unwrapped.s = 14
        foreseen, _, _ = simulator.step(simulator.state_of(env), 1, rng)
        real, *_ = env.step(1)
        same += foreseen.observation == real
    assert abs(same / 600 - 1 / 3) < 4 * math.sqrt(2 / 9 / 600)


class Coins(gymnasium.Env):
    """Guess eight coins, drawn from a generator that the environment makes for itself."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(9)

    def __init__(self, make):
        self.make = make

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.source, self.tossed = self.make(seed), 0
        return 0, {}

    def step(self, action):
        self.tossed += 1
        return self.tossed, float(int(self.source.random() < 0.5) == action), self.tossed == 8, False, {}


class Bag:
    """A generator inside a part of the environment."""

    def __init__(self, seed):
        self.inside = [np.random.default_rng(seed)]

    def random(self):
        return self.inside[0].random()


class Legacy(np.random.RandomState):
    """NumPy's old generator."""


@pytest.mark.parametrize("make", [np.random.default_rng, random.Random, Legacy, Bag])
def test_generators_of_the_environment_itself_do_not_tell_the_future(make):
    # Honest guesses get 4 of 8; whoever knew the draws would get 8.
    model = GymnasiumSimulator(Coins(make))
    assert ErmMcts(model, 0.0, seed=0).plan(iterations=2000).value < 5
    plans = [ErmMcts(model, 0.0, seed=1).plan(iterations=300) for _ in range(2)]
    assert numbers(plans[0]) == numbers(plans[1])


class Everybodys:
    """Python's global generator."""

    def __init__(self, seed):
        random.seed(seed)

    def random(self):
        return random.random()


def test_global_generators_are_refused_with_the_reason():
    with pytest.raises(ModelError, match="draws from NumPy's or Python's global generator"):
        GymnasiumSimulator(Coins(Everybodys))


@pytest.mark.parametrize("seed", ["a", -1, 0.5, np.random.default_rng(0)])
def test_the_seed_of_the_reset_is_checked(seed):
    with pytest.raises(OptionError, match="it seeds the environment's reset"):
        GymnasiumSimulator("CartPole-v1", seed=seed)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("actions", ["ab", 2, []])
def test_lists_of_actions_are_checked(name, actions):
    with pytest.raises(ModelError, match="must be a sequence of at least one action"):
        GymnasiumSimulator(name, actions=actions)


def lunge(observation, h):
    return int(observation[2] > 0.0)


@pytest.mark.parametrize(
    ("work", "error", "message"),
    [
        (lambda: GymnasiumSimulator("CartPole-v1", foresight="no"), OptionError, "foresight must be True or False"),
        (lambda: GymnasiumSimulator("CartPole-v1", save=1, restore=2), OptionError, "save must be a function of"),
        (lambda: make_planner(gymnasium.make_vec("CartPole-v1"), 0.1), ModelError, "a vector environment, which steps"),
        (lambda: make_planner(gymnasium.make("CartPole-v1"), 0.1), ModelError, "wrap it: GymnasiumSimulator"),
        (lambda: load("CartPole-v1"), UnknownNameError, "an environment of Gymnasium is 'gym:CartPole-v1'"),
        (lambda: load(gymnasium.make("CartPole-v1")), OptionError, "GymnasiumSimulator"),
        (
            lambda: evaluate(cart_pole(), lunge, episodes=1),
            StateError,
            r"what the agent sees there is state\.observation",
        ),
        (lambda: ErmMcts(cart_pole(), 0.1).advance(0, np.zeros(4)), StateError, r"use simulator\.state_of\(env\)"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(work, error, message):
    with pytest.raises(error, match=message) as caught:
        work()
    assert "\n" not in str(caught.value)


def cart_pole():
    return GymnasiumSimulator("CartPole-v1", horizon=5)


class Shown(gymnasium.Env):
    """Draws itself at every step where it was made to, and holds what cannot be copied, if told so."""

    observation_space = gymnasium.spaces.Discrete(50)
    action_space = gymnasium.spaces.Discrete(2)
    drawn = 0

    def __init__(self, *, render_mode=None, lock=None):
        self.render_mode, self.lock = render_mode, lock

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return 0, {}

    def step(self, action):
        self.count += 1
        Shown.drawn += self.render_mode == "human"
        return self.count, float(action), False, False, {}


def test_what_is_simulated_is_not_shown():
    env = Shown(render_mode="human")
    env.reset(seed=0)
    model = GymnasiumSimulator(env, horizon=5)
    ErmMcts(model, 0.1, seed=0).plan(iterations=50)
    assert Shown.drawn == 0
    env.step(1)
    assert Shown.drawn == 1
    assert model.step(model.state_of(env), 1, np.random.default_rng(0))[0].observation == 2
    assert Shown.drawn == 1
    assert env.render_mode == "human"
    watched = gymnasium.wrappers.RecordEpisodeStatistics(env)
    assert strip(watched) is env


def test_what_cannot_be_copied_is_made_by_its_id():
    with pytest.raises(ModelError, match=r"(?s)pickle.*give its id, by which it is made anew") as caught:
        GymnasiumSimulator(Shown(lock=threading.Lock()), horizon=5, save=id, restore=lambda env, payload: None)
    assert "give your own save=" not in str(caught.value)  # those were given
    gymnasium.register("ShownLocked-v0", lambda: Shown(lock=threading.Lock()))
    try:
        assert GymnasiumSimulator("ShownLocked-v0", horizon=5).way == "attributes"
    finally:
        del gymnasium.registry["ShownLocked-v0"]


def test_warnings_of_gymnasium_are_passed_on_without_an_error_alone():
    for version in (2, 3):
        gymnasium.register(f"Shown-v{version}", Shown)
    try:
        with pytest.warns(DeprecationWarning, match="out of date"):
            GymnasiumSimulator("Shown-v2", horizon=5)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            with pytest.raises(ModelError, match=r"deprecated\. Please use `Shown-v3`"):
                GymnasiumSimulator("Shown-v1", horizon=5)
    finally:
        for version in (2, 3):
            del gymnasium.registry[f"Shown-v{version}"]


def test_a_list_of_actions_may_be_an_array():
    plan = ErmMcts(GymnasiumSimulator("CartPole-v1", horizon=3, actions=np.array([1, 0])), 0.0).plan(iterations=4)
    assert [type(row.action) for row in plan.rows] == [int, int]


class OneWay(Simulator):
    """An environment in which a stationary policy leaves one action per state."""

    def __init__(self, model, policy):
        self.start, self.horizon, self.discount, self.sense = model.start, model.horizon, 1.0, model.sense
        self.step = model.step
        self.actions = lambda state: (policy(int(state.observation)),)


@pytest.mark.compiled
def test_the_predicted_success_rate_is_that_of_fresh_episodes():
    # The best policy of 100 steps reaches the goal in about 0.74 of all episodes. Two proportions of 1500 and 800
    # episodes agree within 4 standard errors of their difference (error rate 6e-5). A planner that saw the
    # future would win every time, and a copy that kept its generator would always win or always lose.
    solution = backward_induction(TabularMDP.from_gymnasium("FrozenLake-v1"), 0.0)
    model = GymnasiumSimulator("FrozenLake-v1")

    def policy(state):
        return solution.act(state, 0)

    predicted = ErmMcts(OneWay(model, policy), 0.0, seed=3).plan(iterations=1500).value
    guided = ErmMcts(model, 0.0, seed=3, rollout_policy=lambda state, h, rng: policy(int(state.observation)))
    hoped = guided.plan(iterations=1500).row(policy(0)).mean
    env = gymnasium.make("FrozenLake-v1")
    wins = sum(play(env, policy, 10_000 + seed) for seed in range(800))
    rate = wins / 800
    spread = math.sqrt(rate * (1 - rate) * (1 / 1500 + 1 / 800))
    assert abs(predicted - rate) < 4 * spread
    assert hoped < rate + 4 * spread  # a search that explores promises no more than it can keep
    assert 0.6 < rate < 0.85


def play(env, policy, seed):
    """Return of one episode of at most 100 steps."""
    state, _ = env.reset(seed=seed)
    for _ in range(100):
        state, reward, terminated, _, _ = env.step(policy(int(state)))
        if terminated:
            return reward
    return 0.0


@pytest.mark.parametrize(
    "name",
    ["CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Blackjack-v1", "FrozenLake8x8-v1", newest("Taxi-v4", "Taxi-v3")],
)
def test_plain_environments_work_by_their_attributes(name):
    model = GymnasiumSimulator(name, horizon=25)
    assert model.way == "attributes"
    first, second = (ErmMcts(model, 0.01, seed=2).plan(iterations=40) for _ in range(2))
    assert numbers(first) == numbers(second)
    assert first.iterations == 40
    assert first.sense == "reward"


def test_time_limits_and_notes():
    assert GymnasiumSimulator("CartPole-v1").horizon == 500
    endless = GymnasiumSimulator("Blackjack-v1")
    assert endless.horizon == 100
    assert any("no time limit" in note for note in endless.notes)
    assert any("verified" in note for note in endless.notes)


def test_rewards_are_negated_once():
    # CartPole pays 1 a step; 5 steps cannot fail from its start.
    plan = ErmMcts(GymnasiumSimulator("CartPole-v1", horizon=5), 0.3, seed=0).plan(iterations=50)
    assert plan.value == pytest.approx(5.0)


def test_tree_reuse_in_a_live_loop():
    env = gymnasium.make("FrozenLake-v1")
    env.reset(seed=1)
    generator = env.unwrapped._np_random
    model = GymnasiumSimulator(env)
    assert model.start.observation == 0
    search = ErmMcts(model, 0.1, seed=0)
    for h in range(6):
        plan = search.plan(iterations=60)
        assert plan.step == h
        before = env.unwrapped.s
        assert model.state_of(env).observation == before  # reading does not step it
        assert env.unwrapped._np_random is generator
        observation, _, terminated, _, _ = env.step(plan.action)
        if terminated:
            break
        search.advance(plan.action, model.state_of(env))
        assert search.state.observation == observation
    with pytest.raises(StateError, match="is not a state of"):
        search.reset([0])
    with pytest.raises(StateError, match=r"5 is not a state of gym:FrozenLake-v1.*simulator.state_of\(env\)"):
        search.reset(5)


def test_an_environment_under_way_is_planned_from_where_it_stands():
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=3)
    for _ in range(4):
        observation, *_ = env.step(1)
    model = GymnasiumSimulator(env, horizon=10)
    assert np.array_equal(np.asarray(model.start.observation, dtype=np.float32), observation)
    ErmMcts(model, 0.1, seed=0).plan(iterations=20)
    assert np.array_equal(np.array(env.unwrapped.state, dtype=np.float32), observation)


class Counter(gymnasium.Env):
    """Counts where no attribute shows it."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(1000)
    step_of_all = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.steps = 0, (number for number in range(1, 1000))
        return 0, {}

    def step(self, action):
        self.count = next(self.steps)
        return self.count, 0.0, False, False, {}


class Odometer(Counter):
    """Counts the steps of all episodes, in its class."""

    def step(self, action):
        Odometer.step_of_all += 1
        return Odometer.step_of_all, 0.0, False, False, {}


def test_environments_that_cannot_be_restored_are_refused_with_the_reasons():
    with pytest.raises(ModelError, match="no way to save and restore") as caught:
        GymnasiumSimulator(Odometer(), horizon=10)
    assert "replay (a copy of the given one): after restoring, the same draws gave another observation" in str(
        caught.value
    )
    assert "save= and restore=" in str(caught.value)


def test_hidden_state_that_reset_brings_back_is_replayed():
    model = GymnasiumSimulator(Counter(), horizon=10)
    assert model.way == "replay"
    rng = np.random.default_rng(0)
    first, _, _ = model.step(model.start, 0, rng)
    second, _, _ = model.step(first, 1, rng)
    other, _, _ = model.step(first, 0, rng)
    third, _, _ = model.step(second, 0, rng)
    assert [state.observation for state in (first, second, other, third)] == [1, 2, 2, 3]
    assert second != other
    again, _, _ = model.step(first, 1, rng)
    assert again == second  # nothing was drawn
    with pytest.raises(StateError, match="only states that the planner itself has reached"):
        model.state_of(Counter())


class Plain(Counter):
    """Counts in an attribute that only its own functions save."""

    def step(self, action):
        self.count += 1
        return self.count, 0.0, False, False, {}


def test_a_custom_environment_with_its_own_save_and_restore():
    def restore(env, payload):
        env.unwrapped.count = payload

    model = GymnasiumSimulator(Plain(), horizon=10, save=lambda env: env.unwrapped.count, restore=restore)
    assert model.way == "own save and restore"
    assert ErmMcts(model, 0.1, seed=0).plan(iterations=20).iterations == 20
    with pytest.raises(ModelError, match=r"own save and restore .*after restoring, the same draws gave another"):
        GymnasiumSimulator(Plain(), horizon=10, save=lambda env: 0, restore=lambda env, payload: None)
    with pytest.raises(ModelError, match="both save and restore"):
        GymnasiumSimulator(Plain(), horizon=10, save=lambda env: 0)


class Shifty(gymnasium.Env):
    """Its attributes come, go and change their kind."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(1000)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.trail, self.mark = 0, [], None
        self.__dict__.pop("late", None)
        return 0, {}

    def step(self, action):
        self.count += 1
        self.trail.append(action)
        self.mark = float(self.count) if self.count % 3 else None
        if self.count == 4:
            self.late = True
        if self.count == 6:
            del self.late
        value = 100 * hasattr(self, "late") + 10 * (self.mark is None) + sum(self.trail)
        return value, float(value), self.count > 8, False, {}


def test_attributes_that_come_and_go_are_kept_right():
    model = GymnasiumSimulator(Shifty(), horizon=9)
    assert model.way == "attributes"
    rng = np.random.default_rng(0)
    path, totals = [model.start], []
    for action in (1, 0, 1, 1, 0, 1, 1, 0):
        state, reward, _ = model.step(path[-1], action, rng)
        path.append(state)
        totals.append(reward)
    for h in (7, 2, 5, 0, 4, 3, 6, 1):  # from any state again, in any order
        state, reward, _ = model.step(path[h], (1, 0, 1, 1, 0, 1, 1, 0)[h], rng)
        assert reward == totals[h]
        assert state == path[h + 1]
    assert len(set(path)) == len(path)


def test_continuous_actions_are_refused_and_discretized():
    with pytest.raises(ModelError, match=r"continuous action space.*Discretized\(levels=3\)"):
        GymnasiumSimulator("Pendulum-v1")
    model = GymnasiumSimulator("Pendulum-v1", horizon=8, actions=Discretized(levels=3))
    assert model.actions(model.start) == ((-2.0,), (0.0,), (2.0,))
    assert ErmMcts(model, 0.01, seed=0).plan(iterations=30).action in model.actions(model.start)
    listed = GymnasiumSimulator("Pendulum-v1", horizon=8, actions=[-1.0, 1.0])
    assert listed.actions(None) == ((-1.0,), (1.0,))
    with pytest.raises(OptionError, match="lies outside"):
        GymnasiumSimulator("Pendulum-v1", actions=[5.0])
    with pytest.raises(OptionError, match="over 10000"):
        Discretized(levels=10).grid([0.0] * 5, [1.0] * 5)
    with pytest.raises(OptionError, match="finite bounds"):
        Discretized().grid([-np.inf], [1.0])
    with pytest.raises(ModelError, match="needs no Discretized"):
        GymnasiumSimulator("CartPole-v1", actions=Discretized())
    with pytest.raises(ModelError, match="action 7 is not in the action space"):
        GymnasiumSimulator("CartPole-v1", actions=[0, 7])


@pytest.mark.filterwarnings("ignore")
def test_lunar_lander_is_replayed():
    pytest.importorskip("Box2D")
    model = GymnasiumSimulator("LunarLander-v3", horizon=15)
    assert model.way == "replay"
    assert any("widening" in note for note in model.notes)
    options = {"seed": 2, "widening": Widening(k=1.0, alpha=0.3)}
    first, second = (ErmMcts(model, 0.01, **options).plan(iterations=25) for _ in range(2))
    assert numbers(first) == numbers(second)
    assert check_simulator(model, 0, episodes=2).ok


@pytest.mark.filterwarnings("ignore")
def test_bipedal_walker_is_refused_with_the_reasons():
    pytest.importorskip("Box2D")
    with pytest.raises(ModelError) as caught:
        GymnasiumSimulator("BipedalWalker-v3", actions=Discretized(levels=2))
    for reason in (
        "attributes (made from its id): after restoring, the same draws gave another reward",
        "copy (made from its id): TypeError",
        "replay (made from its id): after restoring",
    ):
        assert reason in str(caught.value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["HalfCheetah-v5", "Ant-v5"])
def test_mujoco_works_by_its_own_state(name):
    pytest.importorskip("mujoco")
    size = {"HalfCheetah-v5": 6, "Ant-v5": 8}[name]
    model = GymnasiumSimulator(name, horizon=12, actions=[(-0.5,) * size, (0.5,) * size])
    assert model.way == "MuJoCo state"
    first, second = (ErmMcts(model, 0.01, seed=2).plan(iterations=15) for _ in range(2))
    assert numbers(first) == numbers(second)


@pytest.mark.parametrize(
    "name",
    ["CartPole-v1", "MountainCar-v0", "Blackjack-v1", "FrozenLake8x8-v1", newest("Taxi-v4", "Taxi-v3"), "Acrobot-v1"],
)
def test_the_command_line_plans_on_environments(name):
    typer_testing = pytest.importorskip("typer.testing")
    from tailwise.cli.app import app

    arguments = ["plan", f"gym:{name}", "--beta", "0.05", "--iterations", "30", "--seed", "0", "--json"]
    done = typer_testing.CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    assert plan["iterations"] == (0 if plan["planner"] == "exact" else 30)
