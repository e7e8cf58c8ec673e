"""Planners of models whose state is not seen: bounds that are certain, sampling, and closed loop."""

import copy
import math
import subprocess
import sys
import time

import numpy as np
import pytest

from tailwise import PartlyObserved, PomdpTable, domains, evaluate, make_planner, solve
from tailwise.errors import ModelError, OptionError, SimulatorError, StateError
from tailwise.planners import BeliefSearch, HistoryMcts


class Unlisted(PartlyObserved):
    """A table as a simulator that lists nothing, in plain Python."""

    def __init__(self, table):
        self.horizon, self.discount, self.sense, self.cost_seen = (
            table.horizon, table.discount, table.sense, table.cost_seen,
        )  # fmt: skip
        self.sample_start, self.actions, self.draw = table.sample_start, table.actions, table.draw
        self.step, self.observe, self.terminal_cost = table.step, table.observe, table.terminal_cost


CASES = [
    ("tiger", {"horizon": 6}, 0.01), ("tiger", {"horizon": 6, "cost_seen": True}, 0.1),
    ("hidden-wear", {"horizon": 6}, 0.2),
    ("hidden-wear", {"horizon": 5}, -0.3), ("test-and-treat", {"horizon": 4}, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "beta"), CASES)
def test_bounds_hold_the_optimum_and_meet(name, options, beta):
    model = domains.make(name, **options)
    exact = solve(model, beta)
    search = make_planner(model, beta)
    assert search.kind == "beliefs"
    before = None
    for _ in range(3):
        plan = search.plan(iterations=3)
        assert plan.lower - 1e-9 <= exact.value <= plan.upper + 1e-9
        assert before is None or plan.value <= before + 1e-12
        before = plan.value
        if plan.stopped == "proven":
            break
    plan = search.plan(iterations=5000)
    assert plan.proven
    assert plan.value == pytest.approx(exact.value, rel=1e-7, abs=1e-7)
    assert plan.action in exact.plan(distributions=False).optimal_actions


def test_episodes_that_all_end_before_the_horizon():
    first, action, seen = (axis.reshape(-1) for axis in np.meshgrid(range(4), range(2), range(2), indexing="ij"))
    hears_right = np.where(first % 2 == seen, 0.8, 0.2)
    model = PomdpTable.from_outcomes(
        first, action, np.where(first < 2, first + 2, first), seen, hears_right, done=first >= 2,
        costs=1.0 + 5.0 * (action != first % 2), num_states=4, num_observations=2, horizon=5, discount=1.0,
        start=[0.5, 0.5, 0.0, 0.0],
    )  # fmt: skip
    plan = make_planner(model, 0.1, kind="beliefs").plan(iterations=20)
    assert plan.lower == pytest.approx(solve(model, 0.1).value, rel=1e-12)
    assert plan.upper == pytest.approx(plan.lower, rel=1e-12)


@pytest.mark.parametrize("kind", ["histories", "learned-beliefs"])
def test_where_there_is_no_interval_none_is_spoken_of(kind):
    plan = make_planner(Unlisted(domains.make("tiger", horizon=3)), 0.05, kind=kind, seed=1).plan(iterations=50)
    assert plan.how_sure == (f"{plan.label} looks best so far. No interval is given: {plan.interval_meaning[9:]}.",)


def test_a_report_that_failed_leaves_nothing_for_the_next():
    def stop(iterations, seconds):
        raise RuntimeError("enough")

    search = make_planner(Unlisted(domains.make("tiger", horizon=4)), 0.05, kind="learned-beliefs", seed=1)
    search.plan(iterations=30)
    with pytest.raises(RuntimeError, match="enough"):
        search.plan(iterations=100, seconds=1e-3, progress=stop)
    search.plan(iterations=30)
    assert search._report_by == math.inf  # no hurry of the call before


def test_the_first_trial_has_a_policy_to_better():
    """Driving home at once earns 8.57; what a planner is made with serves those made afresh."""
    search = make_planner(domains.make("rock-sample"), 0.05)
    plan = search.plan(iterations=1)
    assert plan.label == "check-1"
    assert 17.5 < plan.lower < plan.upper < 22.4
    again = search.fresh().plan(iterations=1)
    assert (again.lower, again.upper, again.action) == (plan.lower, plan.upper, plan.action)
    assert search.plan(iterations=1).lower >= plan.lower


def test_advancing_follows_the_tilted_belief():
    model = domains.make("hidden-wear", horizon=5)
    policy, search = solve(model, 0.3), make_planner(model, 0.3)
    belief = policy.start
    for action, seen in (("run", "good"), ("run", "bad"), ("inspect", "looks-worn")):
        search.plan(iterations=30)
        search.advance(action, seen)
        belief = policy.update(belief, action, seen)
        assert search.belief.tilted == pytest.approx(belief.tilted)
        assert search.plan(iterations=2000).value == pytest.approx(policy.value_at(belief), abs=1e-6)
    with pytest.raises(StateError, match="cannot be observed"):
        search.advance("replace", "looks-worn-out")
    search.reset()
    assert search.step == 0


def test_sampling_finds_the_optimum_of_small_problems():
    model = domains.make("test-and-treat", horizon=3)
    exact = solve(model, 0.02)
    plan = HistoryMcts(model, 0.02, seed=1).plan(iterations=16000)
    assert plan.value == pytest.approx(exact.value, abs=0.1 * abs(exact.value))
    assert plan.iterations == sum(row.visits for row in plan.rows) == 16000
    again = HistoryMcts(model, 0.02, seed=1).plan(iterations=16000)
    assert again.value == plan.value


@pytest.mark.parametrize(("name", "beta"), [("tiger", 0.1), ("test-and-treat", -0.05), ("rock-sample", 0.0)])
def test_a_table_and_its_simulator_are_searched_draw_for_draw(name, beta):
    model = domains.make(name, horizon=6)
    table, simulator = (HistoryMcts(one, beta, seed=3) for one in (model, Unlisted(model)))
    plans = table.plan(iterations=400), simulator.plan(iterations=400)
    assert [row.visits for row in plans[0].rows] == [row.visits for row in plans[1].rows]
    assert plans[0].value == plans[1].value
    for search in (table, simulator):
        search.advance(0, 0)
    known = table.belief.tilted, simulator.belief.tilted
    assert all(known[0].get(state, 0.0) == pytest.approx(known[1].get(state, 0.0), abs=0.05) for state in range(4))


def test_costs_far_apart_are_weighed_by_their_risk():
    """A hidden disaster of one in four: exp(40) times the weight of the rest, whichever is drawn first."""
    model = PomdpTable.from_arrays(
        np.broadcast_to(np.eye(2), (2, 2, 2)), np.broadcast_to([[1.0]], (2, 2, 1)), [[0.0, 12.0], [40.0, 12.0]],
        order="ASS", horizon=2, start=[0.75, 0.25],
    )  # fmt: skip
    for beta, value in ((1.0, 24.0), (-1.0, -np.log(0.75 + 0.25 * np.exp(-80.0)))):
        plan = HistoryMcts(model, beta, seed=0).plan(iterations=20_000)
        assert plan.value == pytest.approx(value, abs=0.05)
        assert all(np.isfinite(row.erm) for row in plan.rows)
    policy = solve(model, 0.05)
    assert HistoryMcts(model, 0.05, seed=0).plan(iterations=8000).value == pytest.approx(policy.value, rel=0.03)


def test_a_search_is_copied_and_a_failing_simulator_is_named():
    model = Unlisted(domains.make("hidden-wear", horizon=4))
    search = HistoryMcts(model, 0.1, seed=0)
    search.plan(iterations=100)
    twin = copy.deepcopy(search)
    assert twin.plan(iterations=100).value == search.plan(iterations=100).value
    assert HistoryMcts(model, 0.1, seed=0, max_nodes=20).plan(iterations=1000).stopped == "max_nodes"
    model.draw = lambda state, action, rng: 1 / 0
    with pytest.raises(SimulatorError, match=r"step\(0, \d\).*ZeroDivisionError"):
        HistoryMcts(model, 0.1, seed=0).plan(iterations=10)


def test_what_is_drawn_is_learned_where_it_comes_back():
    model = domains.make("hidden-wear", horizon=6)
    exact, search = solve(model, 0.1), make_planner(Unlisted(model), 0.1, seed=0)
    assert search.kind == "learned-beliefs"
    plan = search.plan(iterations=3000)
    assert plan.value == pytest.approx(exact.value, rel=0.02)
    assert plan.iterations == 3000
    assert plan.label == "0"
    policy, belief = exact, exact.start
    for action, seen in ((0, 0), (0, 1), (1, 4)):
        search.advance(action, seen)
        belief = policy.update(belief, action, seen)
    assert search.belief.tilted.sum() == pytest.approx(1.0)
    assert search.plan(iterations=10).value == pytest.approx(policy.value_at(belief), rel=0.05)
    search.advance(2, 5)
    assert any("was never drawn" in note for note in search.plan(iterations=10).notes)


class Tiger(PartlyObserved):
    """The tiger, as somebody would write it."""

    horizon, discount = 5, 0.95

    def sample_start(self, rng):
        return str(rng.choice(["left", "right"]))

    def actions(self):
        return ("listen", "left", "right")

    def step(self, state, action, rng):
        if action == "listen":
            return state, 1.0, False
        return ("left", "right")[rng.integers(2)], 100.0 if action == state else -10.0, False

    def observe(self, state, action, next_state, rng):
        heard = rng.random() < (0.85 if action == "listen" else 0.5)
        return next_state if heard else {"left": "right", "right": "left"}[next_state]


@pytest.mark.parametrize("seed", range(2))
def test_a_tiger_that_is_only_drawn_is_learned_closely(seed):
    plan = make_planner(Tiger(), 0.05, seed=seed).plan(iterations=3000)
    assert plan.label == "listen"
    assert plan.value == pytest.approx(1.0263700211, rel=0.03)


def test_a_trial_over_beliefs_is_cut_short_in_time_and_its_bounds_hold():
    model = domains.make("tiger", horizon=9)
    exact, search = solve(model, 0.05), make_planner(model, 0.05)
    plan = search.plan(seconds=1e-9)
    assert plan.lower <= exact.value <= plan.upper
    assert plan.iterations == 1
    assert plan.nodes < 10  # no more than what follows the root
    assert search.plan(iterations=2000).value == pytest.approx(exact.value, rel=1e-7)


def test_what_does_not_come_back_is_not_learned():
    assert make_planner(domains.make("light-dark"), 0.1).kind == "histories"
    search = make_planner(domains.make("light-dark"), 0.1, kind="learned-beliefs", max_distinct=50, seed=0)
    with pytest.raises(ModelError, match=r"more than 50 different (states|observations)"):
        search.plan(iterations=100)


def test_what_was_learned_is_solved_in_parts_where_time_is_short():
    model = domains.make("tiger", horizon=3)
    slow = make_planner(model, 0.05, kind="learned-beliefs", seed=1)
    first = slow.plan(seconds=1e-9)
    assert "as if the state were seen after this step" in first.notes[-1]
    assert copy.deepcopy(slow).plan(iterations=9).notes == ()
    told = 0
    for _ in range(200):
        plan = slow.plan(seconds=1e-9)
        told += any("in parts" in note for note in plan.notes)
    assert told > 100
    whole = slow.plan(iterations=200)
    assert whole.notes == ()
    assert whole.value == pytest.approx(solve(model, 0.05).value, rel=0.1)
    slow.reset()
    slow.advance(whole.action, "hear-left")  # what was solved is kept
    assert slow.plan(seconds=1e-9).notes[-1].startswith("what was learned is solved in parts")


def test_hurried_answers_and_what_is_solved_in_parts_follow_what_is_drawn(monkeypatch):
    begun = []

    def endless(table, *others):
        begun.append(table)
        while True:
            time.sleep(0.001)
            yield

    monkeypatch.setattr("tailwise.planners.learned_beliefs.levels_in_parts", endless)
    search = make_planner(domains.make("tiger", horizon=3), 0.05, kind="learned-beliefs", seed=1)
    for drawn in (10, 20, 30, 40, 50):
        plan = search.plan(iterations=10, seconds=0.3)
        assert plan.notes[-1].endswith(f"by {drawn} of {drawn} episodes")
    assert len(begun) == 2  # after 10 episodes, and after four times as many


def test_what_was_drawn_and_is_not_solved_yet_is_not_said_to_be_undrawn():
    search = make_planner(Unlisted(domains.make("hidden-wear", horizon=6)), 0.1, kind="learned-beliefs", seed=0)
    search.plan(iterations=1)
    search._run(3000)
    seen = next(o for o in range(6) if o not in search._policy.pomdp.observation_values)
    search.advance(0, seen)
    assert [note.split(";")[0] for note in search._notes] == [
        f"step 1: {seen} is not after what was done, in what is solved so far"
    ]
    assert search.plan(iterations=1).notes == ()  # the newest counts know it


def test_what_is_known_moves_on_before_a_first_plan_without_asserts():
    script = (
        "from tailwise import domains, make_planner; s = make_planner(domains.make('tiger', horizon=3), 0.05, "
        "kind='learned-beliefs', seed=1); s.advance('listen', 'hear-left'); print(s.step, s.belief.step)"
    )
    ran = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["1", "1"], ran.stderr


def test_particles_follow_the_tilted_belief():
    model = domains.make("hidden-wear", horizon=6)
    policy, search = solve(model, 0.3), HistoryMcts(model, 0.3, seed=2, particles=4000)
    belief = policy.start
    for action, seen in (("run", "good"), ("run", "bad"), ("run", "bad")):
        search.plan(iterations=50)
        search.advance(action, seen)
        belief = policy.update(belief, action, seen)
    found = [search.belief.tilted.get(state, 0.0) for state in range(4)]
    assert found == pytest.approx(belief.tilted, abs=0.04)
    plain = [search.belief.probabilities.get(state, 0.0) for state in range(4)]
    assert plain == pytest.approx(belief.probabilities, abs=0.04)
    assert len(search.belief) == 4000


def test_continuous_observations():
    model = domains.make("light-dark", horizon=5)
    search = make_planner(model, 0.05, seed=0)
    plan = search.plan(iterations=400)
    assert plan.iterations == 400
    search.advance(1, 3.0)
    assert np.mean(search.belief.particles) == pytest.approx(3.0, abs=0.5)
    assert search.plan(iterations=100).step == 1


def test_particles_that_run_out_are_said():
    class Sure(PartlyObserved):
        horizon = 3

        def sample_start(self, rng):
            return 0

        def actions(self):
            return 2

        def step(self, state, action, rng):
            return state, 1.0 + action, False

        def observe(self, state, action, next_state, rng):
            return "usual"

    search = make_planner(Sure(), 0.1, kind="histories", seed=0, particles=20)
    assert search.plan(iterations=50).value == pytest.approx(3.0, abs=0.3)
    search.advance(0, "never")
    assert any("drawn anew" in note for note in search.plan(iterations=10).notes)


def test_closed_loop():
    model = domains.make("test-and-treat", horizon=4)
    policy = solve(model, 0.02)
    planned = evaluate(model, make_planner(model, 0.02), episodes=8, iterations=200, seed=0)
    followed = evaluate(model, policy, episodes=8, seed=0)
    assert planned.costs.tolist() == followed.costs.tolist()
    many = evaluate(model, policy, episodes=1500, seed=1)
    assert many.mean == pytest.approx(policy.distribution().mean, rel=0.15)
    always = evaluate(model, lambda history, h: 0, episodes=5, seed=0)
    assert always.episodes == 5


def test_kinds_refuse_what_they_are_not_for():
    tiger, seen = domains.make("tiger"), domains.make("mdp-4")
    with pytest.raises(ModelError, match=r"takes the state as seen.*: use beliefs, learned-beliefs, histories"):
        make_planner(tiger, 0.1, kind="erm-mcts")
    with pytest.raises(ModelError, match="whose state is not seen"):
        make_planner(seen, 0.1, kind="histories")
    with pytest.raises(
        ModelError, match=r"with starts\(\), outcomes\(\) and observations\(\); this LightDark does not"
    ):
        make_planner(domains.make("light-dark"), 0.1, kind="beliefs")
    with pytest.raises(ModelError, match="is seen"):
        BeliefSearch(seen, 0.1)
    with pytest.raises(ModelError, match="does not act on what was observed"):
        evaluate(tiger, [0, 0], episodes=2)
    with pytest.raises(OptionError, match="give it"):
        make_planner(domains.make("tiger", cost_seen=True), 0.1).advance(0, 0)


def test_rock_sample_is_bounded():
    plan = make_planner(domains.make("rock-sample", size=3, rocks=2, horizon=6), 0.05).plan(iterations=20)
    assert plan.lower <= plan.upper
    assert plan.sense == "reward"


def test_many_actions_are_not_all_played_out_at_length_first():
    class Many(PartlyObserved):
        horizon, steps = 1, 0

        def sample_start(self, rng):
            return 0

        def actions(self):
            return 500

        def step(self, state, action, rng):
            Many.steps += 1
            return 0, float(action), True

        def observe(self, state, action, next_state, rng):
            return 0

    assert make_planner(Many(), 0.1, seed=0).plan(iterations=10).iterations == 10
    assert Many.steps < 5_000


@pytest.mark.parametrize(("wrong", "told"), [("bright", "is 'bright' an observation"), ([1.0], "not hashable")])
def test_an_observation_that_is_none_is_told_and_moves_nothing(wrong, told):
    search = HistoryMcts(domains.make("light-dark"), 0.1, seed=0, particles=10)
    with pytest.raises(StateError, match=told):
        search.advance(1, wrong)
    assert search.step == 0
