"""Bounded RTDP against the exact solver, 60-digit arithmetic, and itself on other kinds of model."""

import copy
import math
import pickle
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from conftest import random_mdp
from tailwise import BoundedRtdp, CompiledSimulator, Simulator, TabularMDP, backward_induction, domains, erm, evaluate
from tailwise.errors import ModelError, OptionError, StateError
from tailwise.exact import return_distribution
from tailwise.models import tabulate
from tailwise.planners import bounded_rtdp
from tailwise.search import StopReason

BETAS = (-2.0, -0.5, -1e-9, 0.0, 1e-12, 0.1, 1.0, 5.0)


def problem(seed):
    """One of many random problems, every feature of tables in turn, and its risk level."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(
        seed, states=int(rng.integers(1, 7)), actions=int(rng.integers(1, 5)), horizon=int(rng.integers(1, 9)),
        discount=float(rng.choice([1.0, 0.9, 0.5])), per_step=seed % 3 == 0, done=seed % 2 == 0,
        scale=float(rng.choice([0.01, 1.0, 100.0])),
    )  # fmt: skip
    if seed % 5 == 0:
        mdp = replace(mdp, sense="reward")
    return mdp, BETAS[seed % len(BETAS)] if seed % 4 else float(rng.uniform(-2, 5))


def contained(plan, exact, scale):
    """Whether the exact values, themselves rounded, lie within the bounds."""
    slack = 1e-12 * scale
    return all(row.lower - slack <= q <= row.upper + slack for row, q in zip(plan.rows, exact, strict=True))


def check_a_random_problem(seed):
    mdp, beta = problem(seed)
    solution = backward_induction(mdp, beta)
    exact = solution.q_values[0, mdp.start, mdp.actions(mdp.start)]
    best = exact.min() if mdp.sense == "cost" else exact.max()
    scale = max(1.0, float(np.abs(exact).max()))
    planner = BoundedRtdp(mdp, beta, seed=seed, width=1e-6 * scale)
    before = None
    for _ in range(200):
        plan = planner.plan(iterations=1)
        assert contained(plan, exact, scale)
        assert plan.lower - 1e-12 * scale <= best <= plan.upper + 1e-12 * scale
        if before is not None:
            assert plan.lower >= before.lower
            assert plan.upper <= before.upper
            for now, then in zip(plan.rows, before.rows, strict=True):
                assert now.lower >= then.lower
                assert now.upper <= then.upper
        before = plan
        if plan.proven:
            break
    assert plan.proven
    assert plan.stopped is StopReason.PROVEN
    assert plan.action in solution.optimal_actions(0, mdp.start, tolerance=2e-9)


@pytest.mark.parametrize("block", range(6))
def test_bounds_hold_never_widen_and_prove_the_best_action(block):
    for seed in range(50 * block, 50 * (block + 1)):
        check_a_random_problem(seed)


@pytest.mark.slow
def test_bounds_hold_on_two_thousand_problems():
    for seed in range(2000):
        check_a_random_problem(seed)


def precise_value(mdp, beta):
    """The optimal risk in 60-digit arithmetic, of the very doubles in the table."""
    discount, level = mpmath.mpf(mdp.discount), mpmath.mpf(beta)
    values = [mpmath.mpf(float(cost)) for cost in mdp.terminal_losses]
    for h in range(mdp.horizon - 1, -1, -1):
        fresh = []
        for s in range(mdp.num_states):
            risks = []
            for row in range(mdp.action_offsets[s], mdp.action_offsets[s + 1]):
                total = mass = mpmath.mpf(0)
                extra = mpmath.mpf(float(mdp.step_losses[h, row])) if mdp.step_losses.size else mpmath.mpf(0)
                for k in range(mdp.outcome_offsets[row], mdp.outcome_offsets[row + 1]):
                    chance = mpmath.mpf(float(mdp.probabilities[k]))
                    x = mpmath.mpf(float(mdp.losses[k])) + extra
                    x += 0 if mdp.done[k] else discount * values[mdp.next_states[k]]
                    total += chance * (mpmath.exp(level * discount**h * x) if beta else x)
                    mass += chance
                risks.append(mpmath.log(total / mass) / (level * discount**h) if beta else total / mass)
            fresh.append(min(risks))
        values = fresh
    return values[mdp.start]


@pytest.mark.parametrize("beta", [-300.0, -1.0, 0.0, 1e-12, 1e-3, 1.0, 40.0])
def test_bounds_hold_for_real_numbers_not_only_up_to_rounding(beta):
    """Without any slack: closed bounds are about 1e-13 wide, and the exact value lies between them."""
    with mpmath.workdps(60):
        for seed in range(12):
            mdp = random_mdp(seed, horizon=5, per_step=seed % 3 == 0, done=seed % 2 == 0, scale=10.0)
            plan = BoundedRtdp(mdp, beta, seed=0, width=1e-10).plan(iterations=500)
            assert plan.upper - plan.lower <= 1e-10
            assert mpmath.mpf(plan.lower) < precise_value(mdp, beta) < mpmath.mpf(plan.upper)


KNOWN = [("mdp-4", beta) for beta in (-1.0, 0.0, 0.1, 0.2, 0.5, 1.0, 5.0)]
KNOWN += [("grid-mdp", beta) for beta in (-0.1, 0.0, 0.01, 0.03, 0.05, 0.1, 0.5, 5.0)]


@pytest.mark.parametrize(("name", "beta"), KNOWN)
def test_the_papers_problems_are_proven_within_two_hundred_trials(name, beta):
    mdp = domains.make(name)
    solution = backward_induction(mdp, beta)
    for seed in range(3):
        plan = BoundedRtdp(mdp, beta, seed=seed).plan(iterations=200)
        assert plan.proven
        assert plan.action in solution.optimal_actions(0, mdp.start)


@pytest.mark.parametrize("seed", range(10))
def test_every_trial_closes_a_pair(seed):
    """A trial goes on to pairs whose bounds differ, and the last one's meet: there are no more trials than pairs."""
    mdp, beta = problem(seed)
    plan = BoundedRtdp(mdp, beta, seed=seed, width=1e-7).plan()
    assert plan.stopped is StopReason.PROVEN
    assert plan.iterations <= mdp.num_states * mdp.horizon


def test_bounds_that_cannot_come_closer_end_the_search():
    mdp = domains.make("grid-mdp")
    plan = BoundedRtdp(mdp, 0.1, seed=0, width=0.0).plan()
    assert plan.stopped is StopReason.PROVEN
    assert 0.0 < plan.upper - plan.lower < 1e-9


@pytest.mark.compiled
def test_ties_know_how_far_rounding_adds_up():
    long = domains.make("mdp-4", horizon=5_000, discount=1.0)
    plan = BoundedRtdp(long, 1e-4, seed=0, width=0.0).plan(seconds=60)
    assert plan.stopped is StopReason.PROVEN
    assert plan.lower <= backward_induction(long, 1e-4).value <= plan.upper


def test_a_copy_goes_on_by_itself():
    mdp = domains.make("grid-mdp")
    planner = BoundedRtdp(mdp, 0.1, seed=3)
    planner.plan(iterations=4)
    twin = copy.deepcopy(planner)
    expected = numbers(planner.plan(iterations=4))
    assert numbers(twin.plan(iterations=4)) == expected


def test_a_large_sweep_is_done_in_slices(monkeypatch):
    """Between two slices the clock is looked at; the bounds are the same."""
    mdp = domains.make("grid-mdp")
    whole = BoundedRtdp(mdp, 0.1, seed=0).plan()
    monkeypatch.setattr(bounded_rtdp, "_SLICE", 7)
    assert numbers(BoundedRtdp(mdp, 0.1, seed=0).plan()) == numbers(whole)


def test_it_can_be_interrupted_while_a_simulator_is_asked():
    class Interrupting(Listed):
        def outcomes(self, state, action):
            if len(self.asked) == 7:
                self.asked.append(None)
                raise KeyboardInterrupt
            return super().outcomes(state, action)

    mdp = random_mdp(3, states=6, horizon=6)
    calm = BoundedRtdp(Listed(mdp), 0.5, seed=0, bounds=(-10.0, 10.0), terminal_bounds=(-10.0, 10.0)).plan()
    planner = BoundedRtdp(Interrupting(mdp), 0.5, seed=0, bounds=(-10.0, 10.0), terminal_bounds=(-10.0, 10.0))
    try:
        assert planner.plan().stopped is StopReason.INTERRUPTED
    except KeyboardInterrupt:  # nothing was known yet
        assert planner._search.counters[2] == 0
    assert numbers(planner.plan())[:3] == numbers(calm)[:3]


def test_a_callback_must_not_plan_with_the_same_planner():
    planner = BoundedRtdp(domains.make("grid-mdp"), 0.1, seed=0, width=0.0)
    with pytest.raises(OptionError, match="callback"):
        planner.plan(iterations=50, until=lambda plan: planner.plan(iterations=1))


def test_ties_are_proven_too():
    """At beta 0.5 three actions of grid-mdp are equally good: none can be proven better than the others."""
    mdp = domains.make("grid-mdp")
    plan = BoundedRtdp(mdp, 0.5, seed=0).plan()
    assert plan.proven
    assert plan.action in backward_induction(mdp, 0.5).optimal_actions(0, mdp.start)
    assert plan.upper - min(row.lower for row in plan.rows if row.action != plan.action) > 0


@pytest.mark.parametrize("never", [1e9, 1e12, 1e15])
def test_costs_that_no_good_plan_pays_make_no_ties(never):
    """From 0: dear, 1.6, 1 or 2 as likely, or free into a trap (state 1), dear from then on: the last step is free."""
    mdp = TabularMDP.from_outcomes(
        [0, 0, 0, 0, 0, 1], [0, 1, 2, 2, 3, 0], [0, 0, 0, 0, 1, 1], [1, 1, 0.5, 0.5, 1, 1],
        [never, 1.6, 1.0, 2.0, 0.0, never], horizon=3,
    )  # fmt: skip
    for beta, action, value in ((0.0, 2, 3.0), (0.5, 2, 2 * erm([1.0, 2.0], 0.5)), (4.0, 1, 3.2)):
        for model in (mdp, Listed(mdp)):
            plan = BoundedRtdp(model, beta, seed=0).plan(iterations=2000)
            assert plan.proven
            assert plan.action == action
            assert plan.value == pytest.approx(value, rel=1e-8)


def test_a_tolerance_ends_the_search_sooner_and_a_width_later():
    mdp = domains.make("grid-mdp")
    plain, coarse, fine = (
        BoundedRtdp(mdp, 0.1, seed=0, **options).plan() for options in ({}, {"tolerance": 8.0}, {"width": 1e-6})
    )
    assert coarse.iterations < plain.iterations <= fine.iterations
    assert fine.upper - fine.lower <= 1e-6
    others = [row.lower for row in coarse.rows if row.action != coarse.action]
    assert coarse.upper <= min(others) + 8.0 + 1e-6
    with pytest.raises(OptionError, match="tolerance"):
        BoundedRtdp(mdp, 0.1, tolerance=-1.0)


class Listed(Simulator):
    """A table as a simulator that lists its outcomes, and counts how often it is asked."""

    def __init__(self, mdp):
        self.mdp, self.asked = mdp, []
        self.horizon, self.discount, self.sense, self.start = mdp.horizon, mdp.discount, mdp.sense, mdp.start

    def actions(self, state):
        return self.mdp.actions(state).tolist()

    def step(self, state, action, rng):
        return self.mdp.step(state, action, rng)

    def terminal_cost(self, state):
        return self.mdp.terminal_cost(state)

    def outcomes(self, state, action):
        self.asked.append((state, action))
        return self.mdp.outcomes(state, action)


def numbers(plan):
    return plan.action, plan.lower, plan.upper, plan.iterations, [(r.lower, r.upper, r.visits) for r in plan.rows]


@pytest.mark.parametrize("seed", range(6))
def test_simulators_and_tables_agree_to_the_last_bit(seed):
    """Every state can be reached, so that both find the same range of costs to begin with."""
    mdp = random_mdp(seed, states=5, horizon=6, done=seed % 2 == 0)
    if seed == 3:
        mdp = replace(mdp, sense="reward")
    table, simulator = BoundedRtdp(mdp, 0.7, seed=1), BoundedRtdp(Listed(mdp), 0.7, seed=1)
    for _ in range(3):
        assert numbers(table.plan(iterations=3)) == numbers(simulator.plan(iterations=3))
    action = table.plan(iterations=1).action
    state = mdp.outcomes(mdp.start, action)[0].next_state
    for planner in (table, simulator):
        planner.advance(action, state)
    assert numbers(table.plan()) == numbers(simulator.plan())


def test_a_simulator_is_asked_once_and_only_for_what_trials_reach():
    """A walk whose first step decides: most of its states are never listed."""
    model = Walk(horizon=40)
    planner = BoundedRtdp(model, 0.5, seed=0, bounds=(0.0, 5.0))
    assert model.asked == []
    plan = planner.plan(iterations=300)
    assert plan.proven
    assert plan.action == "leave"
    assert len(model.asked) == len(set(model.asked)) < 10
    everything = BoundedRtdp(Walk(horizon=40), 0.5, seed=0)
    assert len(everything.model.asked) > 1000
    assert everything.plan().action == "leave"


class Walk(Simulator):
    """Walk on at a cost of 1 to 5 a step, or leave for 2."""

    start = (0, 0)

    def __init__(self, horizon):
        self.horizon, self.asked = horizon, []

    def actions(self, state):
        return ("walk", "leave")

    def outcomes(self, state, action):
        self.asked.append((state, action))
        if action == "leave":
            return [(1.0, state, 2.0, True)]
        x, y = state
        return [(0.5, (x + 1, y), 1.0, False), (0.5, (x, y + 1), 5.0, False)]

    def step(self, state, action, rng):
        listed = self.outcomes(state, action)
        return listed[int(rng.random() * len(listed))][1:]


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["american-put", "battery", "inventory", "machine-maintenance"])
def test_the_first_action_of_simulated_domains(name):
    model = domains.make(name)
    table = tabulate(model)
    solution = backward_induction(table, 0.1)
    listed = list(range(model.actions(model.start)))
    planner = BoundedRtdp(model, 0.1)
    for seed in range(20):
        plan = planner.fresh(seed).plan(iterations=2000)
        assert plan.proven
        assert listed.index(plan.action) in solution.optimal_actions(0, table.start)
        assert plan.lower <= solution.value + 1e-9
        assert solution.value <= plan.upper + 1e-9


@pytest.mark.slow
def test_the_first_action_of_sailing():
    model = domains.make("sailing")
    solution = backward_induction(tabulate(model), 0.1)
    planner = BoundedRtdp(model, 0.1)
    for seed in range(20):
        plan = planner.fresh(seed).plan(iterations=5000)
        assert plan.proven
        assert plan.action in solution.optimal_actions(0, 0)


def test_first_bounds_hold_for_a_root_that_reaches_further():
    """The start sees the costs of ten steps; a root further on sees dearer ones."""

    class Dearer(Walk):
        def outcomes(self, state, action):
            return [(p, target, cost * state[0], done) for p, target, cost, done in super().outcomes(state, action)]

        def actions(self, state):
            return ("walk",)

    planner = BoundedRtdp(Dearer(5), 0.5, seed=0)
    planner.plan()
    planner.reset((30, 0))
    plan = planner.plan(iterations=1)
    again = Dearer(5)
    again.start = (30, 0)
    value = backward_induction(tabulate(again), 0.5).value
    assert plan.lower <= value <= plan.upper


def test_rewards_mirror_costs():
    mdp = random_mdp(7, horizon=5)
    mirrored = replace(mdp, sense="reward")
    plan, mirror = BoundedRtdp(mdp, 0.8, seed=0).plan(), BoundedRtdp(mirrored, 0.8, seed=0).plan()
    assert mirror.action == plan.action
    assert (mirror.lower, mirror.upper) == (-plan.upper, -plan.lower)
    assert mirror.value == -plan.value
    walk = Walk(horizon=5)
    walk.sense = "reward"  # now 2 for leaving is poor
    assert BoundedRtdp(walk, 0.5, seed=0, bounds=(0.0, 5.0)).plan().action == "walk"


def test_one_call_or_many_is_the_same_and_a_seed_fixes_the_result():
    mdp = domains.make("grid-mdp")
    planner = BoundedRtdp(mdp, 0.1, seed=5)
    for _ in range(9):
        pieces = planner.plan(iterations=1)
    whole = BoundedRtdp(mdp, 0.1, seed=5).plan(iterations=9)
    assert numbers(whole)[0:3] == numbers(pieces)[0:3]
    assert numbers(whole)[4] == numbers(pieces)[4]
    assert numbers(planner.fresh(5).plan(iterations=9)) == numbers(whole)
    assert numbers(planner.fresh(6).plan(iterations=9)) != numbers(whole)


def test_what_was_learned_is_kept_when_the_root_moves_on():
    mdp = domains.make("grid-mdp")
    planner = BoundedRtdp(mdp, 0.1, seed=0, width=1e-6)
    solution = backward_induction(mdp, 0.1)
    state = mdp.start
    first = planner.plan()
    for h in range(6):
        plan = planner.plan()
        assert plan.proven
        assert plan.root_beta == pytest.approx(0.1 * mdp.discount**h)
        assert plan.lower - 1e-9 <= solution.values[h, state] <= plan.upper + 1e-9
        assert h == 0 or plan.iterations < first.iterations / 2
        state = max(mdp.outcomes(state, plan.action)).next_state
        planner.advance(plan.action, state)
        assert (planner.step, planner.state) == (h + 1, state)


def test_a_state_never_met_and_a_root_of_ones_own():
    mdp = domains.make("mdp-4")
    solution = backward_induction(mdp, 0.5)
    planner = BoundedRtdp(mdp, 0.5, seed=0)
    planner.advance("safe", 3)
    plan = planner.plan()
    assert plan.lower <= solution.values[1, 3] <= plan.upper
    planner.reset(2, step=19)
    plan = planner.plan()
    assert plan.iterations == 0  # the last step needs no trial
    assert plan.value == pytest.approx(0.05)
    assert plan.upper - plan.lower < 1e-14
    planner.advance(plan.action, 0)
    with pytest.raises(OptionError, match="horizon"):
        planner.plan()
    with pytest.raises(OptionError, match="horizon"):
        planner.advance(0, 0)
    with pytest.raises(StateError):
        planner.reset(9)
    with pytest.raises(StateError, match="jump"):
        planner.fresh().advance("jump", 1)


def test_limits_on_memory_are_outcomes_and_the_bounds_hold():
    mdp = domains.make("grid-mdp")
    solution = backward_induction(mdp, 0.1)
    for limit, reason in (({"max_nodes": 20}, StopReason.MAX_NODES), ({"max_memory": 2000}, StopReason.MAX_MEMORY)):
        planner = BoundedRtdp(mdp, 0.1, seed=0, **limit)
        plan = planner.plan()
        assert plan.stopped is reason
        assert plan.nodes <= 50
        assert not plan.proven
        assert plan.lower <= solution.value <= plan.upper
    small = BoundedRtdp(mdp, 0.1, seed=0, max_nodes=1).plan()
    assert small.stopped is StopReason.MAX_NODES
    assert small.lower <= solution.value <= small.upper


class Heavy(Simulator):
    """Every state is new and holds 50 kB."""

    horizon, discount, sense, start = 12, 1.0, "cost", bytes(50_000)

    def actions(self, state):
        return 2

    def outcomes(self, state, action):
        name = int.from_bytes(state[:4], "big")
        return [
            (0.5, (2 * name + move + 1).to_bytes(4, "big") + bytes(50_000), float(action), False) for move in (0, 1)
        ]

    def step(self, state, action, rng):
        return self.outcomes(state, action)[int(2.0 * rng.random())][1:]


def test_max_memory_counts_the_states_of_a_simulator():
    planner = BoundedRtdp(Heavy(), 0.1, bounds=(0.0, 1.0), seed=0, max_memory=4_000_000, width=1e-9)
    plan = planner.plan()
    assert plan.stopped is StopReason.MAX_MEMORY
    assert 3.8e6 < plan.bytes < 4.3e6  # the outcomes of one state are listed as a whole
    assert plan.lower <= 0.0 <= plan.upper
    again = planner.plan(iterations=1000)
    assert (again.stopped, again.bytes) == (StopReason.MAX_MEMORY, plan.bytes)


def test_what_a_new_root_does_not_reach_makes_room():
    """A walk that never returns: of the pairs that were stored at the first root, few are left at the tenth step."""
    model = Walk(horizon=14)
    model.actions = lambda state: ("walk",)
    planner = BoundedRtdp(model, 0.05, seed=0, max_nodes=60, width=1e-9)
    assert planner.plan().stopped is StopReason.MAX_NODES
    for h in range(10):
        assert planner.plan().nodes <= 60
        planner.advance("walk", (h + 1, 0))
    plan = planner.plan()
    assert plan.upper - plan.lower < 1e-9
    assert (planner._nodes.store.words[: plan.nodes, 0] % 15).min() > 0


def test_memory_grows_with_what_is_reached():
    mdp = domains.make("grid-mdp")
    planner = BoundedRtdp(mdp, 0.1, seed=0)
    planner._resize(4, None)  # so small that it must grow many times
    planner.reset()
    planner._resize(4, None)
    grown = planner.plan()
    assert grown.proven
    assert grown.nodes == BoundedRtdp(mdp, 0.1, seed=0).plan().nodes


def test_other_ways_to_stop():
    mdp = domains.make("grid-mdp")
    seen = []
    plan = BoundedRtdp(mdp, 0.1, seed=0).plan(
        until=lambda plan: plan.upper - plan.lower < 100.0, progress=lambda *now: seen.append(now)
    )
    assert plan.stopped is StopReason.UNTIL
    assert not plan.proven
    assert seen[-1][0] == plan.iterations
    plan = BoundedRtdp(mdp, 0.1, seed=0, width=0.0).plan(seconds=1e-9)
    assert plan.stopped is StopReason.SECONDS
    assert BoundedRtdp(mdp, 0.1, seed=0).plan(iterations=3).stopped is StopReason.ITERATIONS
    with pytest.raises(OptionError, match="iterations"):
        BoundedRtdp(mdp, 0.1).plan(iterations=0)


def test_a_plan_says_what_it_knows():
    plan = BoundedRtdp(domains.make("mdp-4"), 0.5, seed=0).plan()
    assert plan.is_bounded
    assert "Take safe (proven best): ERM at beta 0.5 is in " in str(plan)
    row = plan.row("safe")
    assert row.interval == (row.lower, row.upper)
    assert row.lower <= row.erm <= row.upper
    assert math.isnan(row.mean)
    assert plan.to_dict()["proven"] is True


@pytest.mark.compiled
def estimates(planner, mdp, beta):
    """The root's estimates as the definition says, with dictionaries; also the number of guesses."""
    nodes, length = planner._nodes, mdp.horizon + 1
    bounds = {}
    for key, low, high in zip(nodes.store.words[:, 0], nodes.low, nodes.high, strict=True):
        if len(bounds) < nodes.store.used[0]:
            bounds[key % length, key // length] = low, high
    level, relative, values, guesses = math.nan, {}, {}, 0
    for h in range(mdp.horizon - 1, -1, -1):
        new = {}
        for state in [s for step, s in bounds if step == h]:
            found = []
            for row in range(mdp.action_offsets[state], mdp.action_offsets[state + 1]):
                part = slice(mdp.outcome_offsets[row], mdp.outcome_offsets[row + 1])
                totals = mdp.losses[part].copy()
                for k, target in enumerate(mdp.next_states[part]):
                    if mdp.done[part][k]:
                        continue
                    ahead = mdp.terminal_losses[target]
                    if h + 1 < mdp.horizon and (h + 1, target) in bounds:
                        ahead = values[target]
                    elif h + 1 < mdp.horizon:
                        start = planner._search.low[h + 1], planner._search.high[h + 1]
                        ahead = sum(start) / 2 if math.isnan(level) else level + relative.get(target, 0.0)
                        ahead, guesses = np.clip(ahead, *start), guesses + 1
                    totals[k] += mdp.discount * ahead
                step = mdp.step_losses[h, row] if mdp.step_losses.size else 0.0
                chances = mdp.probabilities[part] / mdp.probabilities[part].sum()
                found.append(step + float(erm(totals, beta * mdp.discount**h, weights=chances)))
            new[state] = float(np.clip(min(found), *bounds[h, state]))
        values = new
        shared = [values[s] - relative[s] for s in values if s in relative]
        level = np.mean(shared or list(values.values())) if values else math.nan
        relative |= {s: value - level for s, value in values.items()}
    return np.clip(found, planner._search.root_low, planner._search.root_high), guesses


def test_estimates_are_what_their_definition_says():
    guesses = 0
    for seed in range(40):
        mdp, beta = problem(seed)
        planner = BoundedRtdp(mdp, beta, seed=seed)
        plan = planner.plan(iterations=1 + seed % 4)
        if plan.proven:
            continue
        sign = 1.0 if mdp.sense == "cost" else -1.0
        expected, number = estimates(planner, mdp, beta)
        found = sign * np.array([row.erm for row in plan.rows])
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert plan.action == plan.rows[int(np.argmin(found))].action
        assert plan.value == pytest.approx(min(max(plan.row(plan.action).erm, plan.lower), plan.upper))
        guesses += number
    assert guesses > 100


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "beta", "trials"), [("inventory", 0.02, 30), ("sailing", 0.02, 100)])
def test_a_plan_that_was_cut_short_is_worth_taking(name, beta, trials):
    mdp = tabulate(domains.make(name))
    exact = backward_induction(mdp, beta).q_values[0, mdp.start]
    ours, surest = [], []
    for seed in range(5):
        plan = BoundedRtdp(mdp, beta, seed=seed).plan(iterations=trials)
        assert not plan.proven
        assert "not proven" in str(plan)
        assert "estimate" in str(plan)
        ours.append(exact[plan.action] - exact.min())
        surest.append(exact[min(plan.rows, key=lambda row: row.upper).action] - exact.min())
    assert np.mean(ours) < 0.1  # a random action costs 1.1 and 1.7
    assert np.mean(surest) > 0.3  # that of the least upper bound


def test_estimates_of_many_pairs_begin_at_bounds(monkeypatch):
    monkeypatch.setattr(bounded_rtdp, "_SLICE", 40)
    mdp = tabulate(domains.make("battery"))
    planner = BoundedRtdp(mdp, 0.02, seed=0)
    plan = planner.plan(iterations=10, until=lambda plan: plan.iterations == 10)
    assert plan.nodes > 80
    assert all(row.lower <= row.erm <= row.upper for row in plan.rows)
    monkeypatch.setattr(bounded_rtdp, "_SLICE", 1)  # the root alone
    root = planner.plan(iterations=1, until=lambda plan: True)
    assert all(row.lower <= row.erm <= row.upper for row in root.rows)


@pytest.mark.compiled
def test_episodes_show_the_distribution_behind_the_risk():
    """The mean and the ERM of the totals against the exact law of the optimal policy; five standard errors."""
    mdp = domains.make("mdp-4")
    solution = backward_induction(mdp, 0.5)
    plan = BoundedRtdp(mdp, 0.5, seed=0, width=1e-6).plan()
    law = return_distribution(mdp, solution)
    totals = plan.samples("safe")
    assert totals.size == 4096
    mean, std = float(totals.mean()), float(totals.std())
    assert mean == pytest.approx(law.mean, abs=5 * std / 64)
    assert std == pytest.approx(law.std, rel=0.1)
    assert np.array_equal(plan.samples("safe"), totals)
    assert plan.samples("risky").mean() != mean
    early = BoundedRtdp(mdp, 0.5, seed=0).plan(iterations=2)
    assert early.row(early.action).lower <= early.samples(early.action).max()


def test_episodes_on_simulators_ask_for_what_they_need():
    model = Walk(horizon=12)
    plan = BoundedRtdp(model, 0.5, seed=0, bounds=(0.0, 5.0)).plan()
    assert np.all(plan.samples("leave") == 2.0)
    walked = plan.samples("walk")
    assert set(walked) <= {3.0, 7.0}  # once, and then leave
    assert walked.mean() == pytest.approx(5.0, abs=0.2)
    model.sense = "reward"
    rewarded = BoundedRtdp(model, 0.0, seed=0, bounds=(0.0, 5.0)).plan()
    totals = rewarded.samples("walk")  # 1 or 5 for each of 12 steps
    assert totals.mean() == pytest.approx(36.0, abs=5 * 2 * 12**0.5 / 64)
    assert pickle.loads(pickle.dumps(rewarded)).samples("walk").size == 0
    own = BoundedRtdp(domains.make("mdp-4"), 0.5, bounds=lambda state, h: (0.0, 20.0)).plan(iterations=1)
    assert own.samples("risky").size == 0


def test_bounds_of_the_users_own():
    mdp = domains.make("grid-mdp")
    solution = backward_induction(mdp, 0.1)
    exact = BoundedRtdp(mdp, 0.1, bounds=lambda s, h: (solution.values[h, s], solution.values[h, s])).plan()
    assert exact.proven
    assert exact.iterations == 0
    # the risk-neutral value is a lower bound where beta is positive
    neutral = backward_induction(mdp, 0.0)
    plan = BoundedRtdp(mdp, 0.1, bounds=lambda s, h: (neutral.values[h, s], 5.0 * (mdp.horizon - h))).plan()
    assert plan.proven
    assert plan.lower - 1e-12 <= solution.value <= plan.upper + 1e-12


def test_wrong_bounds_are_found_out():
    mdp = domains.make("grid-mdp")
    with pytest.raises(OptionError, match=r"contradict.*step"):
        BoundedRtdp(mdp, 0.1, bounds=lambda s, h: (30.0, 30.0)).plan()
    with pytest.raises(OptionError, match=r"bounds.*pair"):
        BoundedRtdp(mdp, 0.1, bounds=lambda s, h: 3.0).plan()
    with pytest.raises(OptionError, match="must not exceed"):
        BoundedRtdp(Walk(3), 0.1, bounds=(2.0, 1.0))
    with pytest.raises(OptionError, match="costs of a table are known"):
        BoundedRtdp(mdp, 0.1, bounds=(0.0, 1.0))
    with pytest.raises(OptionError, match=r"outcomes\(\(0, 0\), 'walk'\) of Walk holds 5, outside bounds=\(0, 4\)"):
        BoundedRtdp(Walk(3), 0.1, bounds=(0.0, 4.0)).plan()
    listed = Listed(domains.make("mdp-4"))
    with pytest.raises(OptionError, match="terminal_bounds"):
        BoundedRtdp(listed, 0.1, bounds=(0.0, 1.0))
    assert BoundedRtdp(listed, 0.1, bounds=(0.0, 1.0), terminal_bounds=(0.0, 0.0)).plan().proven
    with pytest.raises(OptionError, match=r"max_states=5.*give bounds"):
        BoundedRtdp(Walk(9), 0.1, max_states=5)


def test_models_that_cannot_be_listed_are_named():
    def step(state, action, rng):
        return state, rng.random(), False

    drawn = CompiledSimulator(step, start=0, horizon=3, actions=2)
    with pytest.raises(ModelError, match="no outcomes"):
        BoundedRtdp(drawn, 0.1)

    class Broken(Walk):
        def outcomes(self, state, action):
            return [(0.7, state, 1.0, False)]

    with pytest.raises(ModelError, match="sum to 1"):
        BoundedRtdp(Broken(3), 0.1, bounds=(0.0, 9.0)).plan()


def test_it_plays_episodes():
    mdp = domains.make("mdp-4")
    played = evaluate(mdp, BoundedRtdp(mdp, 0.5), episodes=40, iterations=200, seed=1)
    expected = evaluate(mdp, backward_induction(mdp, 0.5), episodes=40, seed=1)
    assert np.array_equal(played.costs, expected.costs)


def test_rows_of_equal_targets_are_two_outcomes():
    mdp = TabularMDP.from_outcomes([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 2.0], horizon=1)
    plan = BoundedRtdp(mdp, 1.0).plan(iterations=1)
    assert plan.value == pytest.approx(math.log((1 + math.e**2) / 2))
    assert plan.proven  # there is but one action
