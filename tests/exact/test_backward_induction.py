"""ERM-BI against enumeration of all policies, the paper's problems, and numbers known to be true."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import random_mdp
from small_tables import random_table
from tailwise import TabularMDP, backward_induction, domains, erm
from tailwise.errors import ModelError, OptionError, StateError
from tailwise.exact import sweeps

# (problem, beta): V* and the action values at the start, to 9 decimals, from an independent solver.
KNOWN = {
    ("mdp-4", -1.0): (0.658789482, [0.658789482, 1.361908045]),
    ("mdp-4", 0.0): (1.376690396, [1.376690396, 1.644088637]),
    ("mdp-4", 0.1): (1.602143551, [1.602143551, 1.690427053]),
    ("mdp-4", 0.5): (1.779207373, [2.953535342, 1.779207373]),
    ("mdp-4", 5.0): (1.819976733, [7.050192714, 1.819976733]),
    ("grid-mdp", -0.1): (4.240482829, [4.240482829, 5.200192805, 5.200192805, 6.149764521]),
    ("grid-mdp", 0.01): (6.056702119, [6.056702119, 6.780535841, 6.780535841, 7.507644638]),
    ("grid-mdp", 0.1): (9.711820843, [20.436900955, 9.913064409, 9.913064409, 9.711820843]),
    ("grid-mdp", 5.0): (13.994164536, [61.089788642, 13.994164536, 13.994164536, 13.994164536]),
}


@pytest.mark.parametrize(("problem", "beta"), KNOWN)
def test_known_values(problem, beta):
    solution = backward_induction(domains.make(problem), beta)
    value, row = KNOWN[problem, beta]
    assert solution.value == pytest.approx(value, abs=1e-9)
    assert solution.q_values[0, solution.mdp.start] == pytest.approx(row, abs=1e-9)


@pytest.mark.parametrize(
    ("problem", "low", "before", "after"), [("mdp-4", 0.14059759, 0, 1), ("grid-mdp", 0.03402361, 0, 3)]
)
def test_the_decision_switches_where_it_should(problem, low, before, after):
    mdp = domains.make(problem)
    assert backward_induction(mdp, low - 1e-7).action == before
    assert backward_induction(mdp, low + 1e-7).action == after


def test_ties_are_visible_and_do_not_depend_on_rounding():
    solution = backward_induction(domains.make("grid-mdp"), 0.5)
    assert solution.optimal_actions(0, solution.mdp.start).tolist() == [1, 2, 3]
    assert solution.action == 1


def law_of_policy(mdp, policy):
    """All (probability, discounted total) pairs of a policy {(h, s): action}."""

    def follow(state, h):
        if h == mdp.horizon:
            return [(1.0, float(mdp.terminal_losses[state]))]
        out = []
        for p, target, cost, done in mdp.outcomes(state, policy[h, state], h):
            tails = [(1.0, 0.0)] if done else follow(target, h + 1)
            out += [(p * q, cost + mdp.discount * tail) for q, tail in tails]
        return out

    return follow(mdp.start, 0)


@pytest.mark.parametrize("beta", [-1.0, 0.0, 0.1, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_no_policy_is_better(seed, beta):
    """Every deterministic Markov policy of a tiny table, its whole law enumerated."""
    mdp = random_mdp(seed, states=2, actions=2, horizon=3, discount=0.8, per_step=seed % 2 == 1, done=seed > 1)
    spots = list(itertools.product(range(3), range(2)))
    best = math.inf
    for choice in itertools.product(*(mdp.actions(s).tolist() for _, s in spots)):
        law = law_of_policy(mdp, dict(zip(spots, choice, strict=True)))
        best = min(best, erm([x for _, x in law], beta, [p for p, _ in law]))
    solution = backward_induction(mdp, beta)
    assert solution.value == pytest.approx(best, abs=1e-12)
    own = law_of_policy(mdp, {(h, s): solution.act(s, h) for h, s in spots})
    assert erm([x for _, x in own], beta, [p for p, _ in own]) == pytest.approx(best, abs=1e-12)


def slow_solution(mdp, beta):
    """Backward induction with erm() of each row."""
    values = mdp.terminal_losses.copy()
    for h in range(mdp.horizon - 1, -1, -1):
        fresh = np.empty(mdp.num_states)
        for s in range(mdp.num_states):
            options = []
            for a in mdp.actions(s).tolist():
                rows = mdp.outcomes(s, a, h)
                totals = [o.cost + (0.0 if o.done else mdp.discount * values[o.next_state]) for o in rows]
                options.append(erm(totals, beta * mdp.discount**h, [o.probability for o in rows]))
            fresh[s] = min(options)
        values = fresh
    return values


@given(
    st.integers(0, 50),
    st.sampled_from([-50.0, -1.0, 0.0, 1e-300, 1e-9, 0.1, 3.0, 1e3]),
    st.sampled_from([1e-6, 1.0, 1e4]),
)
def test_agrees_with_the_slow_form_at_every_scale(seed, beta, scale):
    mdp = random_mdp(seed, horizon=5, per_step=seed % 3 == 0, done=seed % 2 == 0, scale=scale)
    assert backward_induction(mdp, beta).values[0] == pytest.approx(slow_solution(mdp, beta), abs=1e-11 * scale)


def test_the_product_form_and_its_fallback():
    """Costs equal within rows take the sparse product; far-apart values make some rows underflow."""
    rng = np.random.default_rng(0)
    mdp = TabularMDP.from_arrays(
        rng.dirichlet(np.ones(6), size=(6, 3)), costs=rng.random((6, 3)) * np.array([1, 1, 1, 1, 1, 900.0])[:, None],
        order="SAS", horizon=12, discount=0.95,
    )  # fmt: skip
    for beta in (-3.0, 1e-12, 0.01, 3.0, 50.0):
        assert backward_induction(mdp, beta).values[0] == pytest.approx(slow_solution(mdp, beta), rel=1e-12)


def test_risk_neutral_is_the_plain_recursion():
    mdp = random_mdp(2, horizon=6, discount=1.0)
    assert backward_induction(mdp, 0.0).values[0] == pytest.approx(slow_solution(mdp, 0.0), abs=1e-12)
    assert backward_induction(mdp, 1e-9).value == pytest.approx(backward_induction(mdp, 0.0).value, abs=1e-7)


def test_value_rises_with_beta():
    mdp = random_mdp(4, horizon=5)
    values = [backward_induction(mdp, beta).value for beta in (-5.0, -1.0, 0.0, 0.5, 2.0, 20.0)]
    assert values == sorted(values)


def test_illegal_actions_are_infinite_and_rewards_are_rewards():
    chances = np.tile(np.eye(2)[:, None, :], (1, 2, 1))
    costs = np.array([[1.0, np.inf], [2.0, 0.5]])
    solution = backward_induction(TabularMDP.from_arrays(chances, costs=costs, order="SAS", horizon=2), 1.0)
    assert solution.q_values.shape == (2, 2, 2)
    assert solution.q_values[0, 0].tolist() == [2.0, math.inf]
    mirrored = backward_induction(TabularMDP.from_arrays(chances, rewards=-costs, order="SAS", horizon=2), 1.0)
    assert mirrored.q_values[0, 0].tolist() == [-2.0, -math.inf]
    assert mirrored.value == -solution.value
    assert (mirrored.policy == solution.policy).all()


def test_duplicate_rows_are_two_outcomes():
    """Merging (0.5, cost 0) and (0.5, cost 2) into (1, cost 1) would keep the mean only."""
    mdp = TabularMDP.from_outcomes([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 2.0], horizon=1)
    assert backward_induction(mdp, 1.0).value == pytest.approx(math.log((1 + math.e**2) / 2))
    assert backward_induction(mdp, 0.0).value == 1.0


def test_wrong_input():
    with pytest.raises(OptionError, match="beta"):
        backward_induction(domains.make("mdp-4"), math.nan)
    with pytest.raises(OptionError, match="beta"):
        backward_induction(domains.make("mdp-4"), "0.1")
    with pytest.raises(ModelError, match="TabularMDP"):
        backward_induction("mdp-4", 0.1)
    solution = backward_induction(domains.make("mdp-4"), 0.1)
    with pytest.raises(StateError, match="step 20"):
        solution.action_values(20)
    with pytest.raises(StateError):
        solution.act(9, 0)
    for h, state, message in ((0, -1, "state -1"), (0, 9, "state 9"), (0, 1.5, "state 1.5"), ("x", 0, "step 'x'")):
        with pytest.raises(StateError, match=message):
            solution.optimal_actions(h, state)


@pytest.mark.parametrize("beta", [0.0, 1e-12, 0.3, -2.0, 40.0])
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_share_the_states_and_change_nothing(beta, threads):
    # Ragged actions and outcomes, over several blocks of the sweep; one with many actions.
    rng = np.random.default_rng(5)
    size, wide = 700, 3000
    pairs = [(s, a) for s in range(size) for a in range(1 + s % 4)] + [(3, a) for a in range(4, wide)]
    entries = [(s, a, int(rng.integers(size))) for s, a in pairs for _ in range(1 + (s + a) % 3)]
    chances = [1.0 / (1 + (s + a) % 3) for s, a, _ in entries]
    origin, action, target = (np.array(column) for column in zip(*entries, strict=True))
    mdp = TabularMDP.from_outcomes(
        origin, action, target, chances, rng.normal(size=len(entries)).round(1), horizon=5, discount=0.9,
        done=rng.random(len(entries)) < 0.05, terminal_costs=rng.normal(size=size),
    )  # fmt: skip
    one, many = backward_induction(mdp, beta), backward_induction(mdp, beta, threads=threads)
    assert np.array_equal(one.values, many.values)
    assert np.array_equal(one.policy, many.policy)
    for h in (0, 4):
        risks = one.action_values(h)
        assert np.array_equal(risks.min(axis=1), one.values[h])
        limit = one.values[h] + 1e-11 * np.maximum(1.0, np.abs(one.values[h]))
        assert np.array_equal(one.policy[h], (risks <= limit[:, None]).argmax(axis=1))


def test_threads_out_of_range():
    with pytest.raises(OptionError, match="threads must be from 1 to 1024"):
        backward_induction(domains.make("mdp-4"), 0.5, threads=0)
    few = domains.make("mdp-4")
    assert backward_induction(few, 0.5, threads=64).value == backward_induction(few, 0.5).value


@pytest.mark.compiled
@pytest.mark.parametrize("beta", [0.0, 1e-9, 0.3, -2.0, 100.0])
def test_uncompiled_kernels_give_the_same_numbers(beta, monkeypatch):
    for seed in range(8):
        mdp = random_table(seed, states=5, outcomes=4, horizon=6, ends=seed % 2 == 1, whole=seed % 3 == 0)
        found = []
        for outcomes in (10**9, 0):
            monkeypatch.setattr(sweeps, "_compiling", sweeps._Compiling(outcomes))
            found.append(backward_induction(mdp, beta))
        assert np.array_equal(found[0].values, found[1].values)
        assert np.array_equal(found[0].policy, found[1].policy)
