"""Loops whose costs cancel: left where that is best for sure, refused where staying might be better."""

import numpy as np
import pytest
from tests.exact.test_no_horizon import exponential_total, mean_total, policies, reached, weighted

from tailwise import ERM, TabularMDP, solve
from tailwise.errors import InfiniteValueError, ModelError


def swing(exit_cost, *, start=0):
    """State 0 pays 1 to get to state 1, which pays 1 back; or leaves."""
    return TabularMDP.from_outcomes(
        [0, 0, 1], [0, 1, 0], [1, 0, 0], np.ones(3), [1.0, exit_cost, -1.0], done=[False, True, False], horizon=None,
        start=start,
    )  # fmt: skip


@pytest.mark.parametrize("beta", [0.0, 0.5, -0.5])
def test_leaving_at_a_gain_is_best(beta):
    for exit_cost, start in ((-3.0, 0), (-3.0, 1), (0.0, 0), (0.0, 1)):
        policy = solve(swing(exit_cost, start=start), ERM(beta))
        assert policy.value == pytest.approx(exit_cost - start, abs=1e-12)
        assert policy.bracket[0] <= exit_cost - start <= policy.bracket[1]
        assert policy.act(0, 0) == 1


@pytest.mark.parametrize("beta", [0.0, 0.5, -0.5])
def test_staying_may_be_better_than_a_dear_exit(beta):
    with pytest.raises(ModelError, match="states 0, 1 add up to nothing"):
        solve(swing(5.0), ERM(beta))


@pytest.mark.parametrize("beta", [0.0, 0.5, -0.5])
def test_loops_that_the_start_never_leads_to_are_no_reason_to_refuse_it(beta):
    """State 0 ends at 3, or at once at 4; states 1 and 2 pay 1 and get it back for ever; 3 leads there, or ends."""
    states, actions, targets = [0, 0, 1, 2, 3, 3], [0, 1, 0, 0, 0, 1], [0, 0, 2, 1, 1, 3]
    mdp = TabularMDP.from_outcomes(
        states, actions, targets, np.ones(6), [3.0, 4.0, 1.0, -1.0, 0.0, 5.0],
        done=[True, True, False, False, False, True], horizon=None,
    )  # fmt: skip
    policy = solve(mdp, ERM(beta))
    assert policy.value == pytest.approx(3.0, abs=1e-12)
    assert np.isnan(policy.values[0]).tolist() == [False, True, True, True]
    with pytest.raises(ModelError, match="states 1, 2 add up to nothing"):
        solve(mdp.with_options(start=3), ERM(beta))


def level_table(seed):
    """Steps of -1, 0 or 1, mostly sure, and exits of -2 to 1 that do not always work."""
    rng = np.random.default_rng(seed)
    size, rows = int(rng.integers(2, 5)), []
    for state in range(size):
        for action in range(2):
            cost = float(rng.integers(-1, 2))
            rows.append((state, action, rng.integers(size), 1.0, cost, False))
        for chance, over in ((0.75, True), (0.25, False)) if rng.random() < 0.6 else ():
            rows.append((state, 2, state, chance, float(rng.integers(-2, 2)), over))
    state, action, target, chance, cost, over = map(np.array, zip(*rows, strict=True))
    return TabularMDP.from_outcomes(state, action, target, chance, cost, done=over, num_states=size, horizon=None)


def has_limit(mdp, outcomes, beta):
    """Whether a policy stays in no loop, among states that the start leads to, whose costs cancel."""
    matrix, ends = weighted(mdp, outcomes, beta)
    reach = reached(matrix)
    for state in np.flatnonzero(reach[mdp.start]):
        loop = np.flatnonzero(reach[state])
        if ends[loop].any() or not reach[loop, state].all():
            continue
        inner = matrix[np.ix_(loop, loop)]
        if beta != 0.0:
            drift = np.log(np.abs(np.linalg.eigvals(inner)).max())
        else:
            equations = np.vstack([inner.T - np.eye(loop.size), np.ones(loop.size)])
            share = np.linalg.lstsq(equations, np.append(np.zeros(loop.size), 1.0), rcond=None)[0]
            drift = sum(
                share[k] * (mdp.probabilities[outcomes[s]] @ mdp.losses[outcomes[s]]) for k, s in enumerate(loop)
            )
        if abs(drift) < 1e-9:
            return False
    return True


def least_late_total(mdp, outcomes, beta):
    """Return the least risk of the total of 240 to 252 steps of a policy."""
    size = mdp.num_states
    step = np.zeros((size + 1, size + 1))  # totals, or their exp(beta total), and a 1
    step[size, size] = 1.0
    for state, some in enumerate(outcomes):
        weights, over = mdp.probabilities[some] * np.exp(beta * mdp.losses[some]), mdp.done[some]
        np.add.at(step[state], mdp.next_states[some][~over], weights[~over])
        step[state, size] = weights[over].sum() if beta != 0.0 else mdp.probabilities[some] @ mdp.losses[some]
    totals = np.linalg.matrix_power(step, 240) @ np.append(np.full(size, float(beta != 0.0)), 1.0)
    late = []
    for _ in range(13):
        late.append(totals[mdp.start] if beta == 0.0 else np.log(totals[mdp.start]) / beta)
        totals = step @ totals
    return float(min(late))


@pytest.mark.parametrize("beta", [0.0, 0.7, -0.4])
def test_against_all_stationary_policies(beta):
    answered, avoided, refused, infinite = 0, 0, 0, []
    for seed in range(40):
        mdp = level_table(seed)
        settled, loose = [np.inf], [np.inf]
        for each in policies(mdp):
            if has_limit(mdp, each, beta):
                found = mean_total(mdp, each) if beta == 0.0 else exponential_total(mdp, each, beta)
                settled.append(float(found[mdp.start]))
            else:
                loose.append(least_late_total(mdp, each, beta))
        best = min(settled)
        try:
            policy = solve(mdp, ERM(beta))
        except InfiniteValueError as error:
            infinite.append((error.value, best))
            continue
        except ModelError:
            assert loose != [np.inf]
            refused += 1
            continue
        assert policy.value == pytest.approx(best, rel=1e-9, abs=1e-9)
        assert policy.bracket[0] <= best + 1e-12
        assert policy.bracket[1] >= best - 1e-12
        assert policy.gap <= 1e-9
        assert min(loose) >= best - 1e-9  # no loop is better, whenever it is looked at
        answered, avoided = answered + 1, avoided + (loose != [np.inf])
    assert all(value == best for value, best in infinite)
    assert avoided >= 5
    assert answered > refused
