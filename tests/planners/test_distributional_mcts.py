"""Distributional MCTS: laws, exact optima of small tables, any utility or measure, and as a planner among planners."""

import json
import math

import numpy as np
import pytest

from small_tables import all_laws, random_table
from tailwise import (
    CVaR,
    DistributionalMcts,
    Exceedance,
    NestedCVaR,
    Planner,
    TabularMDP,
    WorstCase,
    backward_induction,
    domains,
    evaluate,
    make_planner,
)
from tailwise.errors import OptionError, SimulatorError
from tailwise.models import Simulator
from tailwise.risk import Objective, erm
from tailwise.search.anytime import Pace

pytestmark = pytest.mark.compiled  # interpreted, how sure a plan is takes many seconds


def square(total):
    return total * total


class MeanAndDeviation(Objective):
    """Mean plus one standard deviation of costs: a measure of a user's own."""

    name = "mean and deviation"

    def of_costs(self, costs, weights=None):
        mean = np.average(costs, weights=weights)
        return mean + np.sqrt(np.average((np.asarray(costs) - mean) ** 2, weights=weights))


def test_one_decision_is_the_law_of_its_actions():
    """No tree below: 2000 draws, 5 standard errors."""
    lottery = TabularMDP.from_outcomes([0, 0, 0], [0, 0, 1], [0, 0, 0], [0.3, 0.7, 1.0], [4.0, 1.0, 1.8], horizon=1)
    plan = DistributionalMcts(lottery, square, seed=0).plan(iterations=2000)
    assert plan.label == "1"  # 1.8^2 = 3.24 against 0.3 * 16 + 0.7 = 5.5
    assert plan.value == pytest.approx(3.24)
    assert [part.tolist() for part in plan.row("1").distribution.weighted()] == [[1.8], [1.0]]
    totals, weights = plan.row("0").distribution.weighted()
    assert totals.tolist() == [1.0, 4.0]
    draws = plan.row("0").visits
    assert abs(weights[1] - 0.3) < 5 * np.sqrt(0.21 / draws)
    assert plan.samples("1").tolist() == [1.8] * 1024


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_it_reaches_the_best_mean_utility_of_all_policies(sense):
    """3000 episodes on small tables: within 5 % of the way from the best policy to the worst."""

    def utility(total):
        return np.sign(total) * abs(total) ** 1.5

    for seed in range(4):
        mdp = random_table(seed, sense=sense, whole=True, discount=1.0)
        means = [sum(p * utility(x) for x, p in law) for law in all_laws(mdp)]
        least, most = (min(means), max(means)) if sense == "cost" else (max(means), min(means))
        plan = DistributionalMcts(mdp, utility, seed=seed).plan(iterations=3000)
        assert abs(plan.value - least) <= 0.05 * abs(most - least)


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_a_measure_of_the_users_comes_near_the_best_of_all_policies(sense):
    """Mean plus one standard deviation of costs: no function of the total, so that only the near optimum is sought."""
    sign = 1.0 if sense == "cost" else -1.0
    for seed in range(3):
        mdp = random_table(seed, sense=sense, whole=True, discount=1.0)
        risks = []
        for law in all_laws(mdp):
            totals, weights = np.array(law).T
            mean = np.dot(weights, totals)
            risks.append(mean + sign * np.sqrt(max(0.0, np.dot(weights, (totals - mean) ** 2))))
        least, most = (min(risks), max(risks)) if sense == "cost" else (max(risks), min(risks))
        plan = DistributionalMcts(mdp, MeanAndDeviation(), seed=seed).plan(iterations=3000)
        assert abs(plan.value - least) <= 0.1 * abs(most - least)


def test_a_measure_at_the_root():
    """CVaR at 75 %: 1.8 for certain beats 2.5 with probability 0.3; and the function found is kept."""
    lottery = TabularMDP.from_outcomes([0, 0, 0], [0, 0, 1], [0, 0, 0], [0.3, 0.7, 1.0], [2.5, 1.0, 1.8], horizon=1)
    mean = DistributionalMcts(lottery, lambda total: total, seed=0).plan(iterations=400)
    search = DistributionalMcts(lottery, CVaR(0.75), seed=0)
    tail = search.plan(iterations=400)
    assert (mean.label, tail.label) == ("0", "1")
    assert tail.value == pytest.approx(1.8)
    assert search.plan(iterations=50).pursued == tail.pursued


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "beta"), [("mdp-4", 0.5), ("mdp-4", 1.0)])
def test_it_reaches_the_entropic_optimum(name, beta):
    mdp = domains.make(name)
    search = make_planner(mdp, beta, kind="distributional", seed=0)
    assert isinstance(search, Planner)
    plan = search.plan(iterations=2000)
    assert (plan.label, plan.aim, plan.pursued) == ("safe", f"ERM at beta {beta:g}", f"exp({beta:g} x)")
    optimum = backward_induction(mdp, beta).value
    assert plan.value == pytest.approx(optimum, rel=0.02)
    found = evaluate(mdp, search, episodes=5, iterations=100, seed=0)  # closed loop
    assert found.erm(beta) < optimum + 0.3
    search.advance(plan.action, 1)
    assert (search.step, search.state, search.accrued) == (1, 1, 0.0)
    later = search.plan(iterations=20)
    assert later.pursued == plan.pursued
    search.reset(2, 19, accrued=5.0)
    assert search.plan(iterations=10).value == pytest.approx(5.0 + 0.9**19 * 0.05)


@pytest.mark.compiled
def test_a_simulator_and_a_plan_like_every_other():
    model = domains.make("american-put")
    search = make_planner(model, 0.5, kind="distributional", seed=0)
    plan = search.plan(iterations=1000)
    totals, weights = plan.row("exercise").distribution.weighted()
    assert -erm(-totals, 0.5, weights) == pytest.approx(plan.row("exercise").erm)
    content = json.loads(json.dumps(plan.to_dict()))
    assert (content["label"], content["sense"]) == (plan.label, "reward")
    assert np.isfinite(evaluate(model, search, episodes=2, iterations=20, seed=0).costs).all()


def test_a_simulator_that_fails_says_where():
    class Faulty(Simulator):
        horizon, start, sense = 3, 0, "cost"

        def actions(self, state):
            return 2

        def step(self, state, action, rng):
            self.calls = getattr(self, "calls", 0) + 1
            return state + 1, float("nan") if self.calls > 300 else 1.0, False

    with pytest.raises(SimulatorError, match="finite number"):
        DistributionalMcts(Faulty(), square, seed=0).plan(iterations=400)


def test_same_seed_same_plan():
    mdp = random_table(1)
    one, two = (DistributionalMcts(mdp, square, seed=3).plan(iterations=200) for _ in range(2))
    third = DistributionalMcts(mdp, square, seed=0).fresh(3).plan(iterations=200)
    assert one.rows == two.rows == third.rows


def test_an_exceedance_and_the_worst_case():
    """More than 2 never: 1.8 for sure; at least 1.5 as a reward with the least chance of less."""
    lottery = TabularMDP.from_outcomes([0, 0, 0], [0, 0, 1], [0, 0, 0], [0.3, 0.7, 1.0], [2.5, 1.0, 1.8], horizon=1)
    plan = DistributionalMcts(lottery, Exceedance(2.0), seed=0).plan(iterations=400)
    assert (plan.label, plan.value, plan.pursued) == ("1", 0.0, "x > 2")
    assert abs(plan.row("0").erm - 0.3) < 0.15
    worst = DistributionalMcts(lottery, WorstCase(), seed=0).plan(iterations=400)
    assert (worst.label, worst.value) == ("1", 1.8)


def test_nonsense_is_explained():
    mdp = random_table(0)
    with pytest.raises(OptionError, match="the objective must be one of"):
        DistributionalMcts(mdp, "mean")
    with pytest.raises(
        OptionError, match="no function of the total alone: use solve where outcomes are listed, or sampled_planning"
    ):
        DistributionalMcts(mdp, NestedCVaR(0.9))
    with pytest.raises(OptionError, match="needs a limit"):
        DistributionalMcts(mdp, square).plan()
    with pytest.raises(OptionError, match="must be finite"):
        DistributionalMcts(mdp, lambda total: float("nan"), seed=0).plan(iterations=5)


class Said(Objective):
    """A measure that says whatever it was given."""

    name = "say"

    def __init__(self, said):
        self.said = said

    def of_costs(self, costs, weights=None):
        return self.said


def test_a_users_function_that_fails_is_named():
    mdp = random_table(0)
    with pytest.raises(OptionError, match=r"the utility of the total .* failed with ZeroDivisionError"):
        DistributionalMcts(mdp, lambda total: 1 / 0, seed=0).plan(iterations=5)
    for measure, said in ((float("nan"), "must be finite"), ("much", "failed with ValueError")):
        with pytest.raises(OptionError, match=f"the say of a distribution of totals .*{said}"):
            DistributionalMcts(mdp, Said(measure), seed=0).plan(iterations=5)


def test_short_calls_solve_as_roughly_as_their_time_asks_and_others_do_not():
    search = DistributionalMcts(domains.make("mdp-4"), 0.1, seed=0)
    assert search._pace.share == 1.0
    pace = search._pace
    pace.hurry(60.0)
    pace.note(1.0, seconds=0.3, outcomes=500)  # ten times a third of it
    assert (pace.share, pace.report) == (pytest.approx(0.1), 1.0)
    assert pace.outcomes(0.3) == pytest.approx(50)  # as many as that third allows
    assert pace.outcomes(None) == math.inf
    pace.note(1e-6, seconds=0.3, outcomes=500)
    assert (pace.share, pace.report) == (pytest.approx(0.11), pytest.approx(0.9))
    pace.hurry(60.0)
    assert (pace.share, pace.report) == (pytest.approx(0.11), pytest.approx(0.9))
    pace.hurry(0.6)  # a hundredth of the last call's time: so much of the work, at once
    assert (pace.share, pace.report) == (pytest.approx(0.0011), pytest.approx(0.009))
    pace.hurry(60.0)  # and back
    assert (pace.share, pace.report) == (pytest.approx(0.11), pytest.approx(0.9))
    assert search.plan(seconds=0.05).label
    assert search._pace is not pace  # later decisions have their own
    whole, hasty = (DistributionalMcts(domains.make("mdp-4"), 0.1, seed=0) for _ in range(2))
    hasty.plan(seconds=0.05)
    assert hasty._paces[False, 0].share < 1.0
    whole.plan(iterations=40)
    assert {pace.share for pace in whole._paces.values()} == {1.0}


def test_where_not_all_that_was_learned_can_be_solved_in_time_a_plan_is_cut_and_says_so():
    mdp = random_table(4, whole=True, discount=1.0)
    search = DistributionalMcts(mdp, CVaR(0.8), seed=0)
    whole = search.plan(iterations=800)
    search._pace.outcome = Pace(1e9)
    cut = search.plan(iterations=1, seconds=60.0)
    assert any(note.startswith("there was no time") and "step 1 " in note for note in cut.notes)
    assert abs(cut.value - whole.value) < 0.2 * float(np.ptp(whole.chosen.distribution.weighted()[0]))
    state = int(mdp.next_states[mdp.outcome_offsets[mdp.row(0, cut.action)]])
    assert cut.act(state, 1) in mdp.actions(state)  # where nothing was solved, too
    search._pace.outcome = Pace(1e-12)
    assert search.plan(iterations=1, seconds=60.0).notes == whole.notes == ()
    search._pace.outcome = Pace(1e9)
    assert search.plan(iterations=1).notes == ()  # nobody waits


def test_what_only_samples_is_not_asked_what_plans_are_worth():
    search = DistributionalMcts(domains.make("mdp-4"), 0.1, seed=0)
    search.search._answer = pytest.fail
    assert search.plan(iterations=400).iterations == 400


def test_a_short_call_leaves_out_replicates_that_it_has_no_time_for_and_ends_their_episodes():
    search, played = DistributionalMcts(domains.make("mdp-4"), 0.1, seed=0), []
    search.plan(iterations=40)
    play = search.search.play
    search.search.play = lambda choose, episodes, until: played.append(play(choose, episodes, until)) or played[-1]
    search._pace.solve = 60.0
    assert search.plan(seconds=0.05).label
    assert played == []
    assert search._follow_replicates(100, -math.inf, lambda done: None, math.inf) == (0, 0)
    search._pace.solve = 0.0
    assert search._follow_replicates(16, math.inf, lambda done: None, math.inf)[0] == 16
    late = [search.search.play(lambda *where: 0, 16, -math.inf), search.search.play(lambda *where: 0, 16, math.inf)]
    assert [episodes for episodes, _ in late] == [1, 16]
