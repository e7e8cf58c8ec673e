"""Closed-loop episodes: equivalences, independence of threads, errors."""

import dataclasses

import numpy as np
import pytest

from tailwise.domains import make
from tailwise.errors import ModelError, OptionError, SimulatorError, StateError
from tailwise.evaluation import compare, evaluate
from tailwise.evaluation.closed_loop import child, episode_uniforms, run_key
from tailwise.exact import backward_induction
from tailwise.models import Simulator, TabularMDP
from tailwise.planners import AccMcts, ErmMcts, NluMcts, Uct
from tailwise.reproduction import conditional_returns
from tailwise.search import StopReason, TreeSearch

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted


class Follower:
    """A policy by hand, and so on the slow path of a model that is not a table."""

    def __init__(self, solution):
        self.solution = solution

    def act(self, state, h):
        return self.solution.act(state, h)


class Duck:
    """A table behind the bare contract: not a TabularMDP."""

    def __init__(self, mdp):
        self.mdp = mdp
        self.horizon, self.discount, self.sense, self.start = mdp.horizon, mdp.discount, mdp.sense, mdp.start

    def actions(self, state):
        return self.mdp.actions(state)

    def step(self, state, action, rng):
        return self.mdp.step(state, action, rng)

    def terminal_cost(self, state):
        return self.mdp.terminal_cost(state)


@pytest.fixture(scope="module")
def chain():
    """Ending outcomes, terminal costs, a discount: everything that a total may hold."""
    return TabularMDP.from_outcomes(
        [0, 0, 0, 1, 1], [0, 0, 1, 0, 0], [0, 1, 1, 1, 0], [0.6, 0.4, 1.0, 0.7, 0.3],
        [1.0, 2.0, 1.8, 0.5, 4.0],
        done=[False, False, False, False, True], horizon=4, discount=0.5, terminal_costs=[8.0, 16.0],
    )  # fmt: skip


def played_by_hand(mdp, policy, seed, episode):
    """One episode from its uniforms, by the definition of the total."""
    draws = episode_uniforms(run_key(np.random.SeedSequence(seed)), episode, mdp.horizon)
    state, total = mdp.start, 0.0
    for h in range(mdp.horizon):
        outcomes = mdp.outcomes(state, policy.act(state, h), h)
        index = int(np.searchsorted(np.cumsum([o.probability for o in outcomes]), draws[h], side="right"))
        state, done = outcomes[index].next_state, outcomes[index].done
        total += mdp.discount**h * outcomes[index].cost
        if done:
            return total
    return total + mdp.discount**mdp.horizon * mdp.terminal_cost(state)


def test_compiled_episodes_are_those_played_by_hand(chain):
    solution = backward_induction(chain, 0.3)
    totals = evaluate(chain, solution, episodes=200, seed=4).costs
    assert totals == pytest.approx([played_by_hand(chain, solution, 4, e) for e in range(200)], rel=1e-14)
    assert np.unique(totals).size > 5


def test_policies_in_every_form_give_the_same_totals(chain):
    solution = backward_induction(chain, 0.3)
    expected = evaluate(chain, solution, episodes=50, seed=1).costs
    for form in (solution.policy, Follower(solution), solution.policy.tolist(), solution.act):
        assert np.array_equal(evaluate(chain, form, episodes=50, seed=1).costs, expected)
    ducks = [evaluate(Duck(chain), form, episodes=50, seed=1).costs for form in (Follower(solution), solution.act)]
    assert np.array_equal(*ducks)


@pytest.mark.compiled
def test_a_planner_that_acts_optimally_meets_the_luck_of_the_policy():
    # In mdp-4 at beta 5 the search is never in doubt early on: most episodes coincide with the policy's.
    mdp = make("mdp-4").with_options(horizon=3)
    solution = backward_induction(mdp, 0.0)
    planner = evaluate(mdp, Uct(mdp), episodes=40, iterations=2000, seed=2)
    policy = evaluate(mdp, solution, episodes=40, seed=2)
    assert planner.streams == policy.streams
    assert np.mean(planner.costs == policy.costs) > 0.9


@pytest.mark.compiled
@pytest.mark.parametrize("kind", [ErmMcts, AccMcts])
def test_threads_do_not_change_the_result(kind):
    mdp = make("mdp-4")
    runs = [evaluate(mdp, kind(mdp, 0.5), episodes=12, iterations=60, seed=3, threads=n) for n in (1, 3)]
    assert np.array_equal(runs[0].costs, runs[1].costs)
    assert np.array_equal(runs[0].decisions, runs[1].decisions)
    blocks = [evaluate(mdp, backward_induction(mdp, 0.5), episodes=30_000, seed=3, threads=n) for n in (1, 2)]
    assert np.array_equal(blocks[0].costs, blocks[1].costs)


@pytest.mark.compiled
def test_streams_of_episodes_are_uniform_and_independent():
    # Kolmogorov-Smirnov and correlations over 100,000 episodes, each at level 0.1 %; keys fixed.
    from scipy.stats import kstest

    key = run_key(np.random.SeedSequence(3))
    other = run_key(np.random.SeedSequence(4))
    draws = np.array([episode_uniforms(key, episode, 3) for episode in range(100_000)])
    assert kstest(draws[:, 0], "uniform").pvalue > 0.001
    assert kstest(draws[:, 2], "uniform").pvalue > 0.001
    limit = 3.3 / 100_000**0.5
    assert abs(np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]) < limit  # neighbouring episodes
    assert abs(np.corrcoef(draws[:, 0], draws[:, 1])[0, 1]) < limit  # neighbouring steps
    again = np.array([episode_uniforms(other, episode, 1)[0] for episode in range(100_000)])
    assert abs(np.corrcoef(draws[:, 0], again)[0, 1]) < limit  # neighbouring seeds


def test_a_seed_sequence_is_not_used_up(chain):
    root = np.random.SeedSequence(7)
    runs = [evaluate(chain, [0, 0], episodes=5, seed=root).costs for _ in range(2)]
    assert np.array_equal(*runs)
    assert np.array_equal(runs[0], evaluate(chain, [0, 0], episodes=5, seed=7).costs)
    assert child(root, 3, 1).generate_state(1) != child(root, 3, 0).generate_state(1)


def test_more_episodes_extend_fewer(chain):
    few, many = (evaluate(chain, [0, 0], episodes=n, seed=0).costs for n in (10, 25))
    assert np.array_equal(few, many[:10])


def test_decisions_are_recorded(chain):
    returns = evaluate(chain, ErmMcts(chain, 0.3), episodes=6, iterations=50, seed=0)
    assert returns.decisions.shape == (6, 4, 2)
    assert (returns.decisions[:, 0, 0] == chain.start).all()
    ended = returns.decisions[:, :, 0] < 0
    assert ended.any()
    assert (np.diff(ended.astype(int), axis=1) >= 0).all()  # once over, an episode stays over


@pytest.mark.parametrize("reuse", [True, False])
def test_utility_planners_are_told_what_was_paid(chain, reuse):
    # u(x) = x: minimising the mean. Every planner must then do about as well as the exact solution.
    exact = backward_induction(chain, 0.0).value
    for planner in (
        NluMcts(chain, lambda total: total),
        AccMcts(chain, 1e-6),
        Uct(chain),
    ):
        returns = evaluate(chain, planner, episodes=60, iterations=150, seed=1, reuse=reuse)
        assert abs(returns.mean - exact) < 4 * returns.std / 60**0.5 + 0.2


def test_rewards_stay_rewards():
    mdp = TabularMDP.from_outcomes([0, 0], [0, 1], [0, 0], [1, 1], rewards=[1.0, 3.0], horizon=2)
    for planner in (ErmMcts(mdp, 0.5), AccMcts(mdp, 0.5), NluMcts(mdp, lambda reward: reward)):
        returns = evaluate(mdp, planner, episodes=3, iterations=40, seed=0)
        assert returns.costs.tolist() == [6.0] * 3
        assert returns.sense == "reward"


def test_models_that_are_not_tables_are_played_too(chain):
    solution = backward_induction(chain, 0.0)
    returns = evaluate(Duck(chain), Follower(solution), episodes=300, seed=0)
    assert abs(returns.mean - solution.value) < 4 * returns.std / 300**0.5


def test_utility_planners_play_simulators(chain):
    returns = evaluate(Duck(chain), AccMcts(Duck(chain), 0.3, reference=5.0), episodes=30, iterations=60, seed=0)
    exact = backward_induction(chain, 0.3).value
    assert returns.decisions is None
    assert abs(returns.erm(0.3) - exact) < 1.5
    again = evaluate(
        Duck(chain), AccMcts(Duck(chain), 0.3, reference=5.0), episodes=30, iterations=60, seed=0, threads=2
    )
    assert np.array_equal(returns.costs, again.costs)


def test_the_planner_given_is_left_alone(chain):
    planner = ErmMcts(chain, 0.5, seed=1)
    planner.plan(iterations=10)
    evaluate(chain, planner, episodes=2, iterations=10, seed=0)
    after = planner.plan(iterations=10)
    untouched = ErmMcts(chain, 0.5, seed=1)
    untouched.plan(iterations=10)
    assert after.value == untouched.plan(iterations=10).value


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"episodes": 0}, OptionError, "episodes must be from 1 to"),
        ({"threads": 0}, OptionError, "threads must be from 1 to 1024"),
        ({"threads": 10**8}, OptionError, "threads must be from 1 to 1024"),
        ({"iterations": 10}, OptionError, "limits of a planner"),
        ({"planner_or_policy": [0]}, OptionError, "shape"),
        ({"planner_or_policy": [1, 1]}, StateError, "not allowed"),
        ({"planner_or_policy": [0, -1]}, StateError, "no action in state 1 at step"),
        ({"planner_or_policy": [0.5, 0.5]}, OptionError, "whole numbers"),
    ],
)
def test_bad_input_is_named(chain, change, error, message):
    arguments = {"planner_or_policy": [0, 0], "episodes": 50, "seed": 0, **change}
    with pytest.raises(error, match=message):
        evaluate(chain, arguments.pop("planner_or_policy"), **arguments)


def test_planners_and_objects_that_do_not_fit_are_refused(chain):
    with pytest.raises(ModelError, match="horizon 20"):
        evaluate(chain, ErmMcts(make("mdp-4"), 0.5), episodes=1)
    with pytest.raises(ModelError, match="neither a planner nor a policy"):
        evaluate(Duck(chain), 3, episodes=1)
    with pytest.raises(OptionError, match="iterations"):
        evaluate(chain, ErmMcts(chain, 0.5), episodes=1, iterations=0)


@pytest.mark.parametrize("play", [evaluate, conditional_returns])
def test_an_interrupted_search_ends_the_evaluation(chain, play, monkeypatch):
    """A plan that Ctrl-C cut short must not count as a decision, or samples would depend on when it was pressed."""
    whole = TreeSearch.plan

    def cut(self, *args, **options):
        return dataclasses.replace(whole(self, *args, **options), stopped=StopReason.INTERRUPTED)

    monkeypatch.setattr(TreeSearch, "plan", cut)
    with pytest.raises(KeyboardInterrupt):
        play(chain, ErmMcts(chain, 0.5, seed=0), episodes=2, iterations=5, seed=0)


def test_policies_may_name_actions_by_their_labels():
    mdp = make("mdp-4")
    by_label = evaluate(mdp, lambda state, h: "safe" if state == 0 else mdp.action_labels[0], episodes=20, seed=0)
    assert by_label.costs.tolist() == evaluate(mdp, [1, 0, 0, 0], episodes=20, seed=0).costs.tolist()
    for action in ("unsafe", 0.5, None):
        with pytest.raises(StateError, match="in state s0 at step 0: it is no action's id"):
            evaluate(mdp, lambda state, h, action=action: action, episodes=1)


class Faulty(Simulator):
    """Fails in one way or another."""

    horizon, discount, start = 2, 0.5, 0

    def __init__(self, outcome=(1, 1.0, False), end=0.0):
        self.outcome, self.end = outcome, end

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def terminal_cost(self, state):
        if isinstance(self.end, Exception):
            raise self.end
        return self.end


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ({"outcome": (1, float("nan"), False)}, "step 0.* is nan"),
        ({"outcome": (1, 1.0)}, "step 0"),
        ({"outcome": RuntimeError("boom")}, "step 0.*RuntimeError: boom"),
        ({"end": float("inf")}, " is .*inf"),
        ({"end": RuntimeError("boom")}, "RuntimeError: boom"),
    ],
)
def test_a_faulty_simulator_is_an_error_and_no_total(faults, message):
    model = Faulty(**faults)
    with pytest.raises(SimulatorError, match=message):
        evaluate(model, lambda state, h: 0, episodes=1, seed=0)
    for planner in (lambda: AccMcts(model, 0.5), lambda: NluMcts(model, lambda total: total)):
        with pytest.raises(SimulatorError, match=message):
            evaluate(model, planner(), episodes=1, iterations=5, seed=0)


def test_a_policy_may_not_take_what_a_simulator_does_not_allow():
    with pytest.raises(StateError, match="takes action 2 in state 0 at step 0"):
        evaluate(Faulty(), lambda state, h: 2, episodes=1)


def test_ctrl_c_keeps_the_episodes_that_are_done_where_asked_to(chain):
    whole = evaluate(chain, ErmMcts(chain, 0.5), episodes=6, iterations=20, seed=0)

    def stop(done, total):
        if done == 4:
            raise KeyboardInterrupt

    arguments = {"episodes": 6, "iterations": 20, "seed": 0, "progress": stop}
    with pytest.raises(KeyboardInterrupt):
        evaluate(chain, ErmMcts(chain, 0.5), **arguments)
    for threads in (1, 2):
        part = evaluate(chain, ErmMcts(chain, 0.5), **arguments, threads=threads, partial=True)
        assert np.array_equal(part.costs, whole.costs[:4])
        assert part.decisions.shape == (4, 4, 2)
        assert part.notes == ("interrupted: 4 of 6 episodes were played",)


@pytest.mark.compiled
def test_compiled_simulators_are_played_in_threads_and_python_ones_say_that_they_are_not(chain):
    model = make("inventory")
    runs = [evaluate(model, ErmMcts(model, 0.1), episodes=6, iterations=40, seed=3, threads=n) for n in (1, 3)]
    assert np.array_equal(runs[0].costs, runs[1].costs)
    assert runs[0].notes == runs[1].notes == ()
    duck = Duck(chain)
    (note,) = evaluate(duck, ErmMcts(duck, 0.5), episodes=2, iterations=5, seed=0, threads=2).notes
    assert note == "played in one thread, not 2: a model in plain Python keeps to one"


def test_samples_of_different_models_are_no_pairs(chain):
    other = TabularMDP.from_outcomes([0], [0], [0], [1.0], [1.0], horizon=4)
    shorter = chain.with_options(horizon=3)
    first = evaluate(chain, [0, 0], episodes=5, seed=0)
    for model, policy in ((other, [0]), (shorter, [0, 0]), (Duck(chain), lambda state, h: 0)):
        second = evaluate(model, policy, episodes=5, seed=0)
        with pytest.raises(OptionError, match="5 and 5 episodes of different models"):
            compare(first, second, 0.5)
    with pytest.raises(OptionError, match="under different seeds"):
        compare(first, evaluate(chain, [0, 0], episodes=5, seed=1), 0.5)
    assert compare(first, evaluate(chain.with_options(horizon=4), [0, 0], episodes=5, seed=0), 0.5).equal == 5


def test_simulators_are_told_apart_by_what_they_do():
    def priced(price):
        return evaluate(Faulty(outcome=(1, price, False)), lambda state, h: 0, episodes=3, seed=0)

    assert compare(priced(1.0), priced(1.0), 0.5).equal == 3
    with pytest.raises(OptionError, match="different models"):
        compare(priced(1.0), priced(2.0), 0.5)
