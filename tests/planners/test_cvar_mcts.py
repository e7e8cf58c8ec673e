"""CvarMcts: the exact optimum, with luck taken out; and as a planner among planners."""

import json

import numpy as np
import pytest

from small_tables import random_table
from tailwise import CVaR, CvarMcts, Planner, TabularMDP, domains, evaluate, make_planner, solve
from tailwise.errors import OptionError
from tailwise.exact import grid_totals, return_distribution
from tailwise.exact.grid_totals import GridTotals
from tailwise.models import Simulator
from tailwise.models.tabulate import tabulate_states
from tailwise.risk import conditional_value_at_risk
from tailwise.search.learned import LearnedOptions, LearnedSearch
from tailwise.search.learned import table as learned_tables

pytestmark = pytest.mark.compiled  # interpreted, how sure a plan is takes many seconds


def exact_law(mdp, act):
    """Totals and probabilities, in the model's sense, of a policy ``act(state, step, accrued)``: pair by pair."""
    pairs, ended = {(mdp.start, 0.0): 1.0}, {}
    for h in range(mdp.horizon):
        after = {}
        for (state, accrued), mass in pairs.items():
            for probability, target, cost, done in mdp.outcomes(state, act(state, h, accrued), h):
                total = round(accrued + mdp.discount**h * cost, 9)
                into, key = (ended, total) if done else (after, (target, total))
                into[key] = into.get(key, 0.0) + mass * probability
        pairs = after
    for (state, accrued), mass in pairs.items():
        total = accrued + mdp.discount**mdp.horizon * mdp.terminal_cost(state)
        ended[total] = ended.get(total, 0.0) + mass
    return np.array(list(ended)), np.array(list(ended.values()))


def exact_cvar(mdp, act, level):
    totals, weights = exact_law(mdp, act)
    return float(mdp.signed(conditional_value_at_risk(mdp.signed(totals), level, weights)))


@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_what_was_learned_becomes_the_table_itself(sense):
    """Costs per step, terminal costs and ends: with counts in the true proportion, the learned table is the table."""
    mdp = random_table(3, sense=sense, ends=True)
    search = LearnedSearch(mdp, LearnedOptions(beta=0.1), seed=0)
    search.plan(iterations=3000)
    learned = search.table()
    assert learned.mdp.sense == sense
    assert learned.counts.sum() > 3000
    found, exact = (solve(one, CVaR(0.5), tolerance=0.0) for one in (learned.mdp, mdp))
    spread = float(np.ptp(exact.graph.all_totals()))
    assert abs(found.value - exact.value) < 0.05 * spread
    assert not learned.is_cut
    where = [(h, k) for h in range(mdp.horizon) for k in range(mdp.num_states) if learned.find(k, h) >= 0]
    for step, handle in where:  # each row's outcomes have the costs of the model's
        index = learned.find(handle, step)
        for action in learned.mdp.actions(index).tolist():
            for _, _, cost, done in learned.mdp.outcomes(index, action, 0):
                known = {o.cost for o in mdp.outcomes(handle, action, step)}
                if step + 1 == mdp.horizon:
                    known |= {
                        o.cost + mdp.discount * mdp.terminal_cost(o.next_state)
                        for o in mdp.outcomes(handle, action, step)
                    }
                assert min(abs(cost - one) for one in known) < 1e-12
                assert done or step + 1 < mdp.horizon


@pytest.mark.parametrize("beta", [-0.4, 0.0, 0.4])
@pytest.mark.parametrize(("sense", "discount"), [("cost", 0.9), ("reward", 1.0)])
def test_a_learned_table_that_is_cut_is_worth_as_much_to_who_leads_the_search(sense, discount, beta, monkeypatch):
    """States after the cut have the ERM under all that was learned: to the ERM at that beta nothing is missing."""
    monkeypatch.setattr(learned_tables, "_LOOKS", 1e9)
    mdp = random_table(3, states=5, horizon=6, sense=sense, ends=True, discount=discount)
    search = LearnedSearch(mdp, LearnedOptions(beta=beta), seed=0)
    search.plan(iterations=800)
    whole, depths = search.table(), set()
    for outcomes in range(1, whole.counts.size, 5):
        table = search.table(outcomes)
        depths.add(table.mdp.horizon)
        assert table.is_cut
        assert table.mdp.horizon == 2 or table.counts.size <= outcomes + mdp.num_states
        assert solve(table.mdp, beta).value == pytest.approx(solve(whole.mdp, beta).value, rel=1e-9)
    assert depths == {2, 3, 4, 5, 6}  # the last step stands for those left out
    assert not search.table(whole.counts.size).is_cut


def test_steps_that_there_is_no_time_to_look_at_cost_what_a_draw_did_on_average(monkeypatch):
    mdp = TabularMDP.from_outcomes([0, 0], [0, 1], [0, 0], [1.0, 1.0], [2.0, 2.0], horizon=9, discount=0.5)
    search = LearnedSearch(mdp, LearnedOptions(beta=0.3), seed=0)
    search.plan(iterations=20)
    for looks in (0.0, 2.0, 1e9):
        monkeypatch.setattr(learned_tables, "_LOOKS", looks)
        assert solve(search.table(2).mdp, 0.3).value == pytest.approx(4.0 * (1.0 - 0.5**9))


def test_states_that_are_of_one_step_each_move_on_a_grid_as_others_do():
    mdp = random_table(3, ends=True)
    search = LearnedSearch(mdp, LearnedOptions(beta=0.1), seed=0)
    search.plan(iterations=500)
    for table, is_shared in ((search.table().mdp, True), (mdp, False)):
        graph = GridTotals.spaced(table, 0.013, every_action=True)
        assert (graph._moves[0] is graph._moves[-1]) == is_shared
        for h, (moves, layer) in enumerate(zip(graph._moves, graph.layers, strict=False)):
            whole, part = grid_totals._moved(table, h, 0.013)
            of_layer = np.isin(table.row_states[table.outcome_rows], layer.states)
            assert np.array_equal(moves[0][of_layer], whole[of_layer])
            assert np.array_equal(moves[1][of_layer], part[of_layer])


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_it_reaches_the_exact_optimum_of_small_tables(sense):
    """4000 episodes: the plan, evaluated exactly, is within 2 % of the range of totals of the optimum."""
    for seed in range(4):
        mdp = random_table(seed, sense=sense, whole=True, discount=1.0, ends=seed % 2 == 1)
        for level in (0.5, 0.8):
            exact = solve(mdp, CVaR(level), tolerance=0.0)
            plan = CvarMcts(mdp, level, seed=seed).plan(iterations=4000)
            spread = float(np.ptp(exact.graph.all_totals()))
            attained = exact_cvar(mdp, plan.act, level)
            sign = 1.0 if sense == "cost" else -1.0
            assert -1e-9 <= sign * (attained - exact.value) <= 0.02 * spread
            assert abs(plan.value - exact.value) <= 0.1 * spread


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "level"), [("mdp-4", 0.5), ("mdp-4", 0.9), ("grid-mdp", 0.5), ("grid-mdp", 0.9)])
def test_it_reaches_the_optimum_of_the_papers_problems(name, level):
    """5000 episodes in the first decision; the plan's exact law, so that luck is in the sampling alone. Within 1 %."""
    mdp = domains.make(name)
    exact = solve(mdp, CVaR(level))
    for seed in range(2):
        plan = CvarMcts(mdp, level, seed=seed).plan(iterations=5000)
        totals, weights = exact_law(mdp, plan.act)
        assert conditional_value_at_risk(totals, level, weights) <= 1.01 * exact.value


@pytest.mark.compiled
def test_it_reaches_the_optimum_of_a_simulator():
    """American put, rewards: the plan of 3000 episodes on the simulator, evaluated exactly on its table. Within 1 %."""
    model = domains.make("american-put")
    table, index = tabulate_states(model)
    states = {k: state for state, (k, _) in index.items()}
    best = solve(table, CVaR(0.3))
    plan = CvarMcts(model, 0.3, seed=0).plan(iterations=3000)
    attained = exact_cvar(table, lambda state, h, paid: plan.act(states[state], h, paid), 0.3)
    assert 0.99 * best.value <= attained <= best.value + best.gap + 1e-9


@pytest.mark.compiled
def test_closed_loop_it_keeps_its_aim():
    """Planning again at each step with the same b: grid-mdp, 12 episodes; the safe way has 13.99 for certain."""
    mdp = domains.make("grid-mdp")
    returns = evaluate(mdp, CvarMcts(mdp, 0.9), episodes=12, iterations=400, seed=1)
    assert np.median(returns.costs) < 8.0  # the optimum's way, which is worse one time in a hundred
    lottery = TabularMDP.from_outcomes(
        [0, 0, 1, 1, 1, 2], [0, 0, 0, 1, 1, 0], [1, 2, 1, 1, 1, 2], [0.1, 0.9, 1.0, 0.6, 0.4, 1.0],
        [0.0, 0.0, 10.0, 5.0, 14.0, 0.0], horizon=2,
    )  # fmt: skip
    search = CvarMcts(lottery, 0.8, seed=0)
    search.plan(iterations=2000)
    search.advance(0, 1, cost=0.0)
    assert search.plan(iterations=500).action == 1  # as planned at the start; planned anew there it is 0:
    assert CvarMcts(lottery.with_options(start=1, horizon=1), 0.9, seed=0).plan(iterations=500).action == 0


@pytest.mark.compiled
def test_the_threshold_is_kept_for_the_episode():
    mdp = domains.make("mdp-4")
    search = CvarMcts(mdp, 0.5, seed=2)
    assert isinstance(search, Planner)
    assert search.threshold is None
    first = search.plan(iterations=600)
    assert first.threshold == search.threshold
    assert first.iterations == 600
    search.advance(first.action, 1 if first.label == "safe" else 2)
    assert search.step == 1
    later = search.plan(iterations=300)
    assert later.threshold == pytest.approx(first.threshold, abs=1e-12)
    assert "CVaR" in str(later)
    search.reset()
    assert (search.threshold, search.step, search.accrued) == (None, 0, 0.0)
    search.reset(2, 19, accrued=5.0)
    assert search.plan(iterations=100).value == pytest.approx(5.0 + 0.9**19 * 0.05, abs=1e-9)
    kept = CvarMcts(mdp, 0.5, seed=2, threshold=3.0)
    assert kept.plan(iterations=200).threshold == 3.0
    assert kept.fresh(1).plan(iterations=200).threshold == 3.0


@pytest.mark.compiled
def test_same_seed_same_plan_and_it_is_a_plan_like_every_other():
    mdp = domains.make("grid-mdp")
    one, two = (CvarMcts(mdp, 0.9, seed=5).plan(iterations=900) for _ in range(2))
    third = CvarMcts(mdp, 0.9, seed=1).fresh(5).plan(iterations=900)
    assert one.rows == two.rows == third.rows
    assert make_planner(mdp, CVaR(0.9), kind="cvar-mcts", seed=5).plan(iterations=900).value == one.value
    content = json.loads(json.dumps(one.to_dict()))
    assert (content["label"], content["aim"], content["threshold"]) == (one.label, "CVaR at level 0.9", one.threshold)
    assert one.row("right").erm == one.value == min(row.erm for row in one.rows)
    assert one.samples("right").mean() == pytest.approx(one.row("right").mean, rel=0.05)
    search = CvarMcts(mdp, 0.9, seed=5)
    search.reset()
    assert search.act(mdp.start, 0, iterations=900) in range(4)
    with pytest.raises(OptionError, match="give accrued="):
        search.act(13, 1)


@pytest.mark.compiled
def test_until_and_a_limit_of_time():
    mdp = domains.make("grid-mdp")
    seen = []
    plan = CvarMcts(mdp, 0.9, seed=0).plan(until=lambda plan: seen.append(plan.value) or len(seen) == 2)
    assert (plan.stopped, len(seen)) == ("until", 2)
    assert CvarMcts(mdp, 0.9, seed=0).plan(seconds=0.02).stopped == "seconds"


@pytest.mark.compiled
def test_where_states_do_not_come_back_the_plan_says_so():
    """A random walk whose second action has three times the spread, and costs half less a step."""

    class Walk(Simulator):
        horizon, start, discount, sense = 6, 0.0, 1.0, "cost"

        def actions(self, state):
            return 2

        def step(self, state, action, rng):
            after = state + rng.normal() * (1 + 2 * action)
            return after, abs(after) - 0.5 * action, False

    plan = CvarMcts(Walk(), 0.9, seed=0).plan(iterations=1000)
    assert (plan.action, plan.states_recur) == (0, False)
    assert "do not come back" in plan.notes[0]


def test_nonsense_is_explained():
    mdp = domains.make("mdp-4")
    with pytest.raises(OptionError, match="worst 5 %"):
        CvarMcts(mdp, 95)
    with pytest.raises(OptionError, match="needs a limit"):
        CvarMcts(mdp, 0.9).plan()
    search = CvarMcts(domains.make("american-put"), 0.9, seed=0)
    plan = search.plan(iterations=8)
    with pytest.raises(OptionError, match="cost="):
        search.advance(plan.action, search.state)


def test_the_law_of_the_test_is_the_librarys():
    mdp = random_table(0, ends=True)
    policy = np.zeros((mdp.horizon, mdp.num_states), int)
    totals, weights = exact_law(mdp, lambda state, h, accrued: 0)
    assert np.dot(totals, weights) == pytest.approx(return_distribution(mdp, policy).mean)
