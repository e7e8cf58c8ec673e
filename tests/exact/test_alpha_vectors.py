"""Exact planning on hidden states, against a brute force over histories that knows no beliefs."""

import itertools
from collections import deque

import mpmath
import numpy as np
import pytest

import tailwise
from tailwise import ERM, CVaR, Expectation, PomdpTable, domains, solve
from tailwise.errors import ModelError, OptionError, StateError
from tailwise.exact import alpha_vectors
from tailwise.exact.alpha_vectors import branches_of
from tailwise.exact.belief_levels import Level, levels_in_parts, pruned_levels
from tailwise.exact.belief_policy import BeliefPolicy
from tailwise.planners import BeliefSearch, HistoryMcts

STAY, ANEW = [[1, 0], [0, 1]], [[0.5, 0.5], [0.5, 0.5]]
HEARS, NOTHING = [[0.85, 0.15], [0.15, 0.85]], [[0.5, 0.5], [0.5, 0.5]]
COSTS = [[1, 100, -10], [1, -10, 100]]


def tiger(horizon, **options):
    return PomdpTable.from_arrays(
        [STAY, ANEW, ANEW], [HEARS, NOTHING, NOTHING], COSTS, horizon=horizon, discount=0.95, **options
    )


def random_pomdp(seed, *, horizon=3, cost_seen=False, observed_costs=False):
    rng = np.random.default_rng(seed)
    size, count, signals = 2 if horizon > 3 else int(rng.integers(2, 4)), 2, 2
    transitions = rng.dirichlet(np.ones(size), (size, count))
    transitions[0, 0] = np.eye(size)[0]
    observations = rng.dirichlet(np.full(signals, 0.7), (size, count))
    shape = (size, count, size, signals) if observed_costs else (size, count, size)
    return PomdpTable.from_arrays(
        transitions, observations, rng.integers(-2, 4, shape).astype(float), order="SAS",
        costs_order=None if observed_costs else "SAS",
        horizon=horizon, discount=float(rng.choice([1.0, 0.9])), start=rng.dirichlet(np.ones(size)),
        terminal_costs=rng.normal(size=size), cost_seen=cost_seen,
        end_states=[False] * (size - 1) + [seed % 3 == 0],
    )  # fmt: skip


def by_histories(model, beta):
    """The least risk over all maps from histories to actions, by listing paths: 40 digits, no beliefs."""
    table = model.table
    with mpmath.workdps(40):
        exact, factor = mpmath.mpf(beta), mpmath.mpf(model.discount)

        def worth(paths):  # sum over paths of probability times utility
            if exact == 0:
                return mpmath.fsum(p * x for _, p, x in paths)
            return mpmath.sign(exact) * mpmath.fsum(p * mpmath.exp(exact * x) for _, p, x in paths)

        def best(paths, h):
            if h == model.horizon:
                return worth([(s, p, x + factor**h * mpmath.mpf(table.terminal_losses[s])) for s, p, x in paths])
            found = []
            for action in range(model.num_actions):
                ended, seen = [], {}
                for s, p, x in paths:
                    row = table.row(s, action)
                    for k in range(table.outcome_offsets[row], table.outcome_offsets[row + 1]):
                        path = (
                            int(table.next_states[k]), p * mpmath.mpf(table.probabilities[k]),
                            x + factor**h * mpmath.mpf(table.losses[k]),
                        )  # fmt: skip
                        if table.done[k]:
                            ended.append(path)
                        else:
                            key = (int(model.observed[k]), table.losses[k] if model.cost_seen else None)
                            seen.setdefault(key, []).append(path)
                found.append(worth(ended) + mpmath.fsum(best(later, h + 1) for later in seen.values()))
            return min(found)

        start = [(s, mpmath.mpf(p), mpmath.mpf(0)) for s, p in enumerate(model.start_belief.tolist()) if p]
        value = best(start, 0)
        return float(value if exact == 0 else mpmath.log(abs(value)) / exact)


def test_tiger():
    expected = {
        (5, 0.01): -2.0654243771, (5, 0.05): 1.0263700211, (5, 0.1): 4.52438125,
        (20, 0.01): -9.289157709, (20, 0.05): -3.216140468, (20, 0.1): 1.566827367,
    }  # fmt: skip
    for (horizon, beta), value in expected.items():
        policy = solve(tiger(horizon), ERM(beta))
        assert policy.value == pytest.approx(value, abs=1e-9)
        assert policy.gap == 0.0
        assert policy.action == 0


PROBLEMS = [
    {"seed": 0}, {"seed": 1, "cost_seen": True}, {"seed": 2, "horizon": 4}, {"seed": 3},
    {"seed": 4, "observed_costs": True},
    {"seed": 5, "observed_costs": True, "cost_seen": True}, {"seed": 6, "cost_seen": True}, {"seed": 7},
    {"seed": 8, "horizon": 2},
    {"seed": 9, "cost_seen": True},
]  # fmt: skip


@pytest.mark.parametrize("problem", PROBLEMS)
def test_equal_to_brute_force_over_histories(problem):
    model = random_pomdp(**problem)
    for beta in (-1.0, 2.0) if model.horizon > 3 else (-1.0, 0.0, 0.3, 2.0):
        assert solve(model, beta).value == pytest.approx(by_histories(model, beta), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("beta", [-1.0, 0.0, 1e-9, 0.3, 2.0])
def test_pruned_plans_are_as_good(beta):
    for seed in (0, 4, 6):
        model = random_pomdp(seed, observed_costs=seed == 4, cost_seen=seed == 6)
        branches = alpha_vectors.branches_of(model)
        levels = pruned_levels(model, branches, beta, 10_000)
        value = alpha_vectors.belief_erm(levels[0].values, np.log(model.start_belief), beta).min()
        if beta != 1e-9:  # there rounding in the sums of probabilities decides, which the listing takes at their word
            assert value == pytest.approx(by_histories(model, beta), rel=1e-12, abs=1e-12)
        assert value == pytest.approx(solve(model, beta).value, rel=1e-12, abs=1e-12)


def in_unit(model, unit, never):
    """The same problem in another unit, with a first action that costs ``never`` units wherever it is taken."""
    table = model.table
    size, rows = table.num_states, np.repeat(np.arange(table.num_rows), np.diff(table.outcome_offsets))
    anywhere, nothing = np.arange(size), np.zeros(size, int)
    return PomdpTable.from_outcomes(
        np.append(table.row_states[rows], anywhere), np.append(table.action_ids[rows] + 1, nothing),
        np.append(table.next_states, anywhere), np.append(model.observed, nothing),
        np.append(table.probabilities, np.ones(size)), unit * np.append(table.losses, np.full(size, never)),
        done=np.append(table.done, nothing != 0), horizon=model.horizon, discount=model.discount,
        start=model.start_belief, terminal_costs=unit * table.terminal_losses, cost_seen=model.cost_seen,
    )  # fmt: skip


@pytest.mark.parametrize(("seed", "beta"), [(0, 0.0), (0, 2.0), (1, 0.3), (5, 0.0)])
def test_the_unit_and_an_action_that_nobody_takes_change_nothing(seed, beta):
    base = random_pomdp(seed, cost_seen=seed == 0)
    exact = by_histories(base, beta)
    for unit, never in ((1e-12, 1e12), (1e9, 1e9), (1.0, 1e15)):
        model = in_unit(base, unit, never)
        policy = solve(model, beta / unit)
        plan = policy.plan(distributions=False)
        assert policy.value / unit == pytest.approx(exact, rel=1e-10)
        assert [row.erm / unit for row in plan.rows if row.action in plan.optimal_actions] == pytest.approx(
            [exact] * len(plan.optimal_actions), rel=1e-10
        )
        assert float(policy.distribution().erm(beta / unit)) / unit == pytest.approx(exact, rel=1e-10)
        branches = alpha_vectors.branches_of(model)
        levels = pruned_levels(model, branches, beta / unit, 10_000)
        pruned = alpha_vectors.belief_erm(levels[0].values, np.log(model.start_belief), beta / unit).min()
        assert pruned / unit == pytest.approx(exact, rel=1e-10)
        found = BeliefSearch(model, beta / unit).plan(iterations=1000)
        assert found.proven
        assert found.value / unit == pytest.approx(exact, rel=1e-8)


def test_a_seen_cost_is_told_from_others_in_any_unit():
    """Two states, told apart by what waiting costs (1 or 2 units); then one of two doors is dear."""
    for unit in (1e-12, 1.0, 1e12):
        model = PomdpTable.from_arrays(
            [STAY] * 3, [[1.0], [1.0]], unit * np.array([[1, 9, 0], [2, 0, 9]]), horizon=2, cost_seen=True
        )
        policy, search = solve(model, 0.0), BeliefSearch(model, 0.0)
        assert policy.value == pytest.approx(1.5 * unit)
        assert [policy.act([(0, 0, unit)]), policy.act([(0, 0, 2 * unit)])] == [2, 1]
        search.advance(0, 0, cost=2 * unit)
        assert search.plan(iterations=10).action == 1
        particles = HistoryMcts(model, 0.0, seed=0)
        particles.plan(iterations=50)
        particles.advance(0, 0, cost=2 * unit)
        assert particles.belief.probabilities == {1: 1.0}


def test_large_tilts_do_not_overflow():
    """At beta 50 the worst that can happen decides; a cost of 1e4 is exp(500,000)."""
    model = PomdpTable.from_arrays([STAY, ANEW, ANEW], [HEARS, NOTHING, NOTHING], 100 * np.array(COSTS), horizon=3)
    with np.errstate(all="raise", under="ignore"):
        policy = solve(model, 50.0)
    assert policy.value == pytest.approx(300.0, abs=1e-6)
    assert solve(model, 1e-300).value == pytest.approx(solve(model, 0.0).value, abs=1e-9)


def test_rewards_are_negated_costs():
    costs = tiger(4)
    rewards = PomdpTable.from_arrays(
        [STAY, ANEW, ANEW], [HEARS, NOTHING, NOTHING], rewards=-np.array(COSTS), horizon=4, discount=0.95
    )
    assert solve(rewards, 0.1).value == pytest.approx(-solve(costs, 0.1).value, abs=1e-12)
    assert rewards.sense == "reward"


def test_distribution_is_that_of_the_policy():
    for seed, beta in itertools.product((1, 2, 3), (-0.5, 0.4)):
        model = random_pomdp(seed, cost_seen=seed == 1)
        policy = solve(model, beta)
        assert policy.distribution().erm(beta) == pytest.approx(policy.value, abs=1e-10)
        for row in policy.plan().rows:
            assert row.distribution.erm(beta) == pytest.approx(row.erm, abs=1e-10)


def test_acting_on_beliefs_and_histories():
    model = tiger(5, action_labels=("listen", "left", "right"), observation_labels=("hear-left", "hear-right"))
    policy = solve(model, 0.01)
    belief = policy.start
    for _ in range(2):
        belief = policy.update(belief, "listen", "hear-left")
    assert belief.step == 2
    assert belief.probabilities[0] == pytest.approx(0.85**2 / (0.85**2 + 0.15**2))
    assert policy.act(belief) == policy.act([("listen", 0), (0, "hear-left")]) == 0
    assert policy.act([(0, 0)] * 4) == 2
    assert "0.97" in str(belief)
    plan = policy.plan(belief)
    assert plan.label == "listen"
    assert plan.value == pytest.approx(policy.value_at(belief))
    assert policy.act([0.5, 0.5], 0) == 0
    assert policy.value_at([0.3, 0.7], 3) == pytest.approx(solve(tiger(2, start=[0.3, 0.7]), 0.01 * 0.95**3).value)
    with pytest.raises(StateError, match="no action 'jump'"):
        policy.update(belief, "jump", 0)
    with pytest.raises(OptionError, match="no decision is left"):
        policy.act([(0, 0)] * 5)
    with pytest.raises(OptionError, match="not seen"):
        policy.action_values(0)


def test_what_was_paid_unseen_tilts_the_belief():
    """Two states that pay 0 and 10: unseen, the tilted belief remembers; seen, the state is known."""
    kinds = {"horizon": 2, "costs_order": "SA", "order": "SAS"}
    stays = [[[1, 0]] * 2, [[0, 1]] * 2]
    nothing = np.ones((2, 1))
    hidden = solve(PomdpTable.from_arrays(stays, nothing, [[0, 0], [10, 10]], **kinds), 0.3)
    after = hidden.update(hidden.start, 0, 0)
    assert after.probabilities == pytest.approx([0.5, 0.5])
    assert after.tilted[1] == pytest.approx(1 / (1 + np.exp(-3.0)))
    seen = solve(PomdpTable.from_arrays(stays, nothing, [[0, 0], [10, 10]], **kinds, cost_seen=True), 0.3)
    assert seen.update(seen.start, 0, 0, cost=10.0).probabilities.tolist() == [0.0, 1.0]
    with pytest.raises(OptionError, match="give it"):
        seen.update(seen.start, 0, 0)
    with pytest.raises(StateError, match="cannot be observed"):
        seen.update(seen.start, 0, 0, cost=5.0)


def test_other_objectives_and_doors_refuse():
    model = tiger(3)
    with pytest.raises(OptionError, match="where the state is not seen"):
        solve(model, CVaR(0.9))
    assert isinstance(solve(model, Expectation()), BeliefPolicy)
    for door in (tailwise.ErmMcts, tailwise.LearnedModelSearch, tailwise.BoundedRtdp):
        with pytest.raises(ModelError, match="not seen"):
            door(model, 0.1)
    with pytest.raises(ModelError, match="needs a TabularMDP"):
        tailwise.backward_induction(model, 0.1)
    with pytest.raises(ModelError, match="too large"):
        solve(random_pomdp(1, horizon=12), 0.1, max_states=20)


@pytest.mark.parametrize("beta", [-0.05, 0.0, 0.1])
def test_plans_for_chosen_beliefs_can_be_followed_and_are_near_the_best(beta):
    for name in ("tiger", "hidden-wear", "test-and-treat"):
        model = domains.make(name, horizon=5)
        exact, branches = solve(model, beta), branches_of(model)
        levels = list[Level]()
        with np.errstate(divide="ignore"):
            deque(levels_in_parts(model, branches, beta, np.log(model.start_belief), 40, levels), 0)
        policy = BeliefPolicy(
            objective=ERM(beta), mdp=model.table, value=0.0, beta=beta, pomdp=model, branches=tuple(branches),
            levels=tuple(levels),
        )  # fmt: skip
        assert exact.value - 1e-9 <= policy.value_at() <= exact.value + 0.01 * max(1.0, abs(exact.value))
        assert policy.act() in exact.plan(distributions=False).optimal_actions


def test_a_belief_moves_on_unseen_as_the_mixture_of_what_may_be_seen():
    model = domains.make("hidden-wear", horizon=5)
    policy = solve(model, 0.3)
    belief = policy.update(policy.update(policy.start, "run", "bad"), "run", "good")
    after = policy.unseen(belief, "run")
    parts = [policy.update(belief, "run", seen) for seen in ("good", "bad")]
    shares = np.linalg.lstsq(np.array([part.probabilities for part in parts]).T, after.probabilities, rcond=None)[0]
    assert shares.sum() == pytest.approx(1.0)
    assert np.array([part.probabilities for part in parts]).T @ shares == pytest.approx(after.probabilities)
    tilted = np.array([part.tilted for part in parts]).T
    weights = np.linalg.lstsq(tilted, after.tilted, rcond=None)[0]
    assert tilted @ weights == pytest.approx(after.tilted)
    assert (after.step, weights.sum()) == (belief.step + 1, pytest.approx(1.0))


def test_an_exact_solution_tells_how_far_it_is():
    told = []
    solve(domains.make("tiger", horizon=4), 0.1, progress=lambda done, total: told.append((done, total)))
    assert len(told) > 3
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] <= told[-1][1]
