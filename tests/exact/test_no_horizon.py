"""Models without a horizon: closed forms, all stationary policies one by one, and what has no answer."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tailwise import (
    ERM,
    Average,
    CVaR,
    EVaR,
    Expectation,
    Recursive,
    TabularMDP,
    WorstCase,
    solve,
    truncate,
)
from tailwise.errors import InfiniteValueError, ModelError, OptionError
from tailwise.exact import limit_beta
from tailwise.exact.undiscounted import solve_total


def until_repaired(chance=0.3, *, sense="cost", discount=1.0):
    """Pay 1 at each try until one works."""
    paid = {"costs": [1.0, 1.0]} if sense == "cost" else {"rewards": [1.0, 1.0]}
    return TabularMDP.from_outcomes(
        [0, 0], [0, 0], [0, 0], [1.0 - chance, chance], **paid, done=[False, True], horizon=None, discount=discount
    )


def geometric(chance, beta):
    """Return the ERM of a geometric total."""
    return math.log(chance * math.exp(beta) / (1.0 - (1.0 - chance) * math.exp(beta))) / beta


def random_table(seed, *, done=(0.1, 0.3, 0.5), states=(2, 5), discount=1.0, whole=False):
    """A small table of ragged actions whose outcomes sometimes end; costs of one sign, or of both.

    ``whole`` ones are of one sign, and often 0, so that there are loops that cost nothing.
    """
    rng = np.random.default_rng(seed)
    size, ends = int(rng.integers(*states)), done[seed % len(done)]
    draw = [lambda: rng.normal(), lambda: abs(rng.normal()), lambda: -abs(rng.normal()), lambda: rng.normal() + 0.5]
    if whole:
        draw = [lambda: (1 - 2 * (seed % 2)) * max(0, rng.integers(-2, 3))] * 4
    rows = []
    for state in range(size):
        for action in range(rng.integers(1, 4)):
            count = rng.integers(1, 4)
            for target, chance in zip(rng.choice(size, size=count), rng.dirichlet(np.ones(count)), strict=True):
                rows.append((state, action, target, chance, draw[seed % 4](), rng.random() < ends))
    state, action, target, chance, cost, over = map(np.array, zip(*rows, strict=True))
    return TabularMDP.from_outcomes(
        state, action, target, chance, cost, done=over, num_states=size, horizon=None, discount=discount
    )


def policies(mdp):
    """Yield every stationary policy, as what goes on, chance and cost: dense matrices."""
    choices = [range(mdp.action_offsets[s], mdp.action_offsets[s + 1]) for s in range(mdp.num_states)]
    for rows in itertools.product(*choices):
        yield [slice(mdp.outcome_offsets[row], mdp.outcome_offsets[row + 1]) for row in rows]


def weighted(mdp, outcomes, beta):
    """Return the matrix of exp(beta cost) of what goes on, and the sums of it over what ends.

    States that a policy stays among for ever at no cost are ends.
    """
    matrix, ends = np.zeros((mdp.num_states,) * 2), np.zeros(mdp.num_states)
    for state, some in enumerate(outcomes):
        weights = mdp.probabilities[some] * np.exp(beta * mdp.losses[some])
        over = mdp.done[some]
        np.add.at(matrix[state], mdp.next_states[some][~over], weights[~over])
        ends[state] = weights[over].sum()
    reach = reached(matrix)
    dear = (ends > 0.0) | [mdp.losses[some].any() for some in outcomes]
    free = ~(reach & dear).any(axis=1)
    matrix[free], ends[free] = 0.0, 1.0
    return matrix, ends


def reached(matrix):
    """Return from where to where a chain can get."""
    return np.linalg.matrix_power(np.eye(len(matrix)) + (matrix > 0.0), len(matrix)) > 0.0


def exponential_total(mdp, outcomes, beta):
    matrix, ends = weighted(mdp, outcomes, beta)
    reach = reached(matrix)
    grows = np.zeros(len(matrix), bool)
    for state in range(len(matrix)):
        loop = np.flatnonzero(reach[state] & reach[:, state])
        grows[state] = np.abs(np.linalg.eigvals(matrix[np.ix_(loop, loop)])).max() >= 1.0
    found, finite = np.full(len(matrix), np.inf), np.flatnonzero(~(reach & grows).any(axis=1))
    found[finite] = np.linalg.solve(np.eye(finite.size) - matrix[np.ix_(finite, finite)], ends[finite])
    found[finite[~(reach & (ends > 0.0)).any(axis=1)[finite]]] = 0.0
    with np.errstate(divide="ignore"):
        return np.log(found) / beta


def mean_total(mdp, outcomes):
    chances, over = weighted(mdp, outcomes, 0.0)
    cost = np.array([mdp.probabilities[some] @ mdp.losses[some] for some in outcomes])
    reach = reached(chances)
    never = ~(reach & (over > 0.0)).any(axis=1)
    rising, falling = np.zeros(len(cost), bool), np.zeros(len(cost), bool)
    for state in np.flatnonzero(never):
        loop = np.flatnonzero(reach[state])
        if all(reach[other, state] for other in loop):
            equations = np.vstack([chances[np.ix_(loop, loop)].T - np.eye(loop.size), np.ones(loop.size)])
            share = np.linalg.lstsq(equations, np.append(np.zeros(loop.size), 1.0), rcond=None)[0]
            (rising if share @ cost[loop] > 0.0 else falling)[state] = True
    found = np.where((reach & falling).any(axis=1), -np.inf, 0.0)
    found[(reach & rising).any(axis=1)] = np.inf
    finite = np.flatnonzero(found == 0.0)
    found[finite] = np.linalg.solve(np.eye(finite.size) - chances[np.ix_(finite, finite)], cost[finite])
    return found


def best_total(mdp, beta):
    """Return the least total from each state over all stationary policies."""
    every = policies(mdp)
    return np.min([mean_total(mdp, each) if beta == 0.0 else exponential_total(mdp, each, beta) for each in every], 0)


def side_by_side(tables):
    """One table of many, which do not meet."""
    firsts = np.cumsum([0, *(mdp.num_states for mdp in tables[:-1])])
    owners = [np.repeat(np.arange(mdp.num_rows), np.diff(mdp.outcome_offsets)) for mdp in tables]
    columns = [
        (mdp.row_states[own] + first, mdp.action_ids[own], mdp.next_states + first, mdp.probabilities, mdp.losses,
         mdp.done)
        for mdp, own, first in zip(tables, owners, firsts, strict=True)
    ]  # fmt: skip
    state, action, target, chance, cost, over = map(np.concatenate, zip(*columns, strict=True))
    return TabularMDP.from_outcomes(state, action, target, chance, cost, done=over, horizon=None)


BETAS = (0.0, 0.1, 0.5, 1.0, 2.0, -0.1, -0.5, -1.0, -2.0, 3.7)


class TestTotals:
    @pytest.mark.parametrize("beta", BETAS)
    def test_all_stationary_policies(self, beta):
        """Of a thousand tables no finite total is refused, and no infinite one is answered."""
        first = 100 * BETAS.index(beta)
        tables = [random_table(seed) for seed in range(first, first + 70)]
        tables += [random_table(seed, whole=True) for seed in range(first, first + 30)]
        want = np.concatenate([best_total(mdp, beta) for mdp in tables])
        found = solve_total(side_by_side(tables), beta)
        known = np.isfinite(want)
        assert 50 < known.sum() < known.size - 50
        for values in (found.values, found.lower, found.upper):
            np.testing.assert_array_equal(values[~known], want[~known])
        size = np.maximum(1.0, np.abs(want[known]))
        assert (np.abs(found.values[known] - want[known]) <= 1e-12 * size).all()
        assert (found.upper[known] - found.lower[known] <= 1e-9 * size).all()
        assert (found.lower[known] <= found.values[known]).all()
        assert (found.values[known] <= found.upper[known]).all()

    @pytest.mark.parametrize("seed", [*range(440, 450), *range(20)])
    def test_solve_answers_or_names_states(self, seed):
        mdp, beta = random_table(seed), BETAS[(7 * seed + seed // 10) % len(BETAS)]
        want = best_total(mdp, beta)[mdp.start]
        if np.isfinite(want):
            policy = solve(mdp, ERM(beta))
            assert policy.value == pytest.approx(want, rel=1e-12, abs=1e-12)
            assert policy.bracket[0] <= policy.value <= policy.bracket[1]
        else:
            with pytest.raises(InfiniteValueError, match="state") as caught:
                solve(mdp, ERM(beta))
            assert caught.value.value == want

    @pytest.mark.parametrize("seed", range(20))
    def test_the_policy_is_worth_what_it_says(self, seed):
        mdp, beta = random_table(seed), BETAS[seed % len(BETAS)]
        try:
            policy = solve(mdp, ERM(beta))
        except InfiniteValueError:
            return
        ids = policy.policy[0]
        taken = [np.flatnonzero((mdp.row_states == s) & (mdp.action_ids == ids[s]))[0] for s in range(mdp.num_states)]
        outcomes = [slice(mdp.outcome_offsets[row], mdp.outcome_offsets[row + 1]) for row in taken]
        worth = mean_total(mdp, outcomes) if beta == 0.0 else exponential_total(mdp, outcomes, beta)
        assert worth[mdp.start] == pytest.approx(policy.value, rel=1e-9, abs=1e-9)

    def test_published_tables(self):
        """Tables of the code of "Entropic risk, total reward" (MonkieDein/entropic-TRC): twoS, threeS, ruin7."""
        two = TabularMDP.from_outcomes(
            [0, 0, 1], [0, 0, 0], [0, 1, 1], [0.9, 0.1, 1.0], rewards=[-0.2, -0.2, 0.0], horizon=None
        )
        assert solve(two, ERM(0.01)).value == pytest.approx(-2.018231, abs=1e-6)
        with pytest.raises(InfiniteValueError, match="-inf from state 0: the loop of state 0 is left too seldom"):
            solve(two, ERM(1.0))
        three = TabularMDP.from_outcomes(
            [0, 0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 0, 0, 0], [0, 2, 1, 2, 1, 2, 2], [0.8, 0.2, 0.9, 0.1, 0.85, 0.15, 1.0],
            rewards=[-0.1, -0.1, 0.2, 0.2, 0.05, 0.05, 0.0], horizon=None,
        )  # fmt: skip
        assert solve(three, ERM(0.01)).value == pytest.approx(0.499526, abs=1e-6)
        assert solve(three, ERM(1.0)).value == pytest.approx(0.460408, abs=1e-6)
        rows = [(0, 0, 0, 1.0, 0.0)]  # broke; else stop with what there is, or stake some of it, up to 7
        for capital in range(1, 8):
            rows.append((capital, 0, 0, 1.0, capital))
            for stake in range(1, capital + 1 if capital < 7 else 1):
                rows += [
                    (capital, stake, capital - stake, 0.32, 0.0),
                    (capital, stake, min(7, capital + stake), 0.68, 0.0),
                ]
        state, action, target, chance, reward = map(np.array, zip(*rows, strict=True))
        ruin = TabularMDP.from_outcomes(state, action, target, chance, rewards=reward, horizon=None, start=1)
        assert solve(ruin, ERM(0.01)).values[0, 1:4] == pytest.approx([3.663843, 5.435583, 6.28033], abs=1e-6)

    @pytest.mark.parametrize("beta", [-3.0, -1.0, -1e-3, 0.1, 0.2, 0.3, 0.35, 0.3566])
    def test_a_geometric_total(self, beta):
        policy = solve(until_repaired(), ERM(beta))
        assert policy.value == pytest.approx(geometric(0.3, beta), rel=1e-10)
        assert policy.gap <= 1e-9 * policy.value
        assert policy.bracket[0] <= policy.value <= policy.bracket[1]

    def test_rewards_are_costs_of_the_other_sign(self):
        policy = solve(until_repaired(sense="reward"), ERM(-0.2))
        assert policy.value == pytest.approx(-solve(_negated(until_repaired(sense="reward")), ERM(-0.2)).value)
        assert policy.bracket[0] <= policy.value <= policy.bracket[1]

    @pytest.mark.parametrize("beta", [0.3567, 1.0, 50.0])
    def test_beyond_its_limit_it_is_infinite(self, beta):
        with pytest.raises(InfiniteValueError, match="the loop of state 0 is left too seldom") as caught:
            solve(until_repaired(), ERM(beta))
        assert caught.value.value == math.inf

    def test_limit_beta(self):
        chance = 0.3
        limit = limit_beta(until_repaired(chance))
        assert limit == pytest.approx(-math.log1p(-chance), rel=1e-9)
        assert limit.states == (0,)
        assert "left too seldom" in limit.reason

    def test_a_worst_total_that_is_finite_has_no_limit(self):
        chain = TabularMDP.from_outcomes(
            [0, 1], [0, 0], [1, 1], [1.0, 1.0], [1.0, 2.0], done=[False, True], horizon=None
        )
        assert limit_beta(chain) == math.inf
        assert solve(chain, WorstCase()).value == 3.0

    def test_a_worst_total_that_many_cheap_steps_come_near(self):
        """Patching may go on for ever; calling costs 600."""
        calls = TabularMDP.from_outcomes(
            [0, 0, 0], [0, 0, 1], [0, 0, 0], [0.7, 0.3, 1.0], [1.0, 1.0, 600.0], done=[False, True, True], horizon=None
        )
        assert solve(calls, WorstCase()).value == 600.0
        assert limit_beta(calls) == math.inf

    def test_evar(self):
        penalty = -math.log(0.1)
        best = minimize_scalar(
            lambda beta: geometric(0.3, beta) + penalty / beta, bounds=(1e-6, 0.35667), method="bounded",
            options={"xatol": 1e-12},
        )  # fmt: skip
        policy = solve(until_repaired(), EVaR(0.9), tolerance=0.02)
        assert policy.gap <= 0.02
        assert policy.bracket[0] <= best.fun <= policy.bracket[1] + 1e-9
        assert policy.value == policy.bracket[1]
        assert solve(until_repaired(), EVaR(0.0)).value == pytest.approx(10.0 / 3.0)

    def test_a_free_loop_is_an_end(self):
        """The exit costs 3; waiting at no cost for ever is a total of 0, and absorbing states are ends."""
        wait = TabularMDP.from_outcomes(
            [0, 0, 1, 2], [0, 1, 0, 0], [1, 2, 0, 2], np.ones(4), [0.0, 3.0, 0.0, 0.0], horizon=None
        )
        for beta in (0.0, 1.0, -1.0):
            policy = solve(wait, ERM(beta))
            assert policy.value == 0.0
            assert policy.action == 0

    @pytest.mark.parametrize("beta", [0.0, 1.0, -1.0])
    def test_loops_that_add_up_to_nothing_have_no_limit(self, beta):
        swing = TabularMDP.from_outcomes(
            [0, 0, 1], [0, 1, 0], [1, 0, 0], np.ones(3), [1.0, 5.0, -1.0], done=[False, True, False], horizon=None
        )
        with pytest.raises(ModelError, match="states 0, 1 add up to nothing"):
            solve(swing, ERM(beta))
        with pytest.raises(ModelError, match="states 0, 1 add up to nothing"):
            solve(swing, WorstCase())

    @pytest.mark.parametrize(("beta", "match"), [(0.0, "no way to end for sure"), (1.0, "left too seldom")])
    def test_no_way_to_end(self, beta, match):
        stuck = TabularMDP.from_outcomes([0, 1], [0, 0], [1, 0], [1.0, 1.0], [1.0, 1.0], horizon=None)
        with pytest.raises(InfiniteValueError, match=match) as caught:
            solve(stuck, ERM(beta))
        assert "state" in str(caught.value)
        assert "0" in str(caught.value)

    @pytest.mark.parametrize("exits", ["anywhere", "one way"])
    def test_a_large_grid_is_infinite_at_once(self, exits):
        """40 by 40, of moves that may slip; from its last corner one leaves always, or by one move alone."""
        size, costs = 40, np.random.default_rng(0).uniform(0.5, 1.5, (1600, 4))
        steps = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
        state, action, move = (each.ravel() for each in np.indices((size * size, 4, 4)))
        place = np.clip(np.stack(np.divmod(state, size)).T + steps[move], 0, size - 1)
        target, last = place @ [size, 1], size * size - 1
        done = target == last if exits == "anywhere" else (state == last) & (action == 0)
        grid = TabularMDP.from_outcomes(
            state, action, target, np.where(move == action, 0.85, 0.05), costs[state, action], done=done, horizon=None
        )
        with pytest.raises(InfiniteValueError, match="is left too seldom for beta 2"):
            solve(grid, ERM(2.0))

    def test_a_loop_that_earns_for_ever(self):
        mint = TabularMDP.from_outcomes(
            [0, 0, 1], [0, 1, 0], [1, 0, 0], np.ones(3), [-1.0, 5.0, 0.5], done=[False, True, False], horizon=None
        )
        for beta in (0.0, 1.0, -1.0):
            with pytest.raises(InfiniteValueError, match="-inf") as caught:
                solve(mint, ERM(beta))
            assert caught.value.value == -math.inf

    def test_others_need_a_horizon(self):
        with pytest.raises(OptionError, match="needs a horizon"):
            solve(until_repaired(), CVaR(0.9))
        with pytest.raises(OptionError, match="needs a horizon"):
            solve(until_repaired(discount=0.9), EVaR(0.9))


def _negated(mdp):
    from dataclasses import replace

    return replace(mdp, sense="cost")


def by_sweeps(mdp, step, count=4000):
    """Return the fixed point of a step by plain sweeps: ``step(probabilities, costs, values of what follows)``."""
    values = np.zeros(mdp.num_states)
    for _ in range(count):
        after = np.where(mdp.done, 0.0, mdp.discount * values[mdp.next_states])
        rows = []
        for row in range(mdp.num_rows):
            some = slice(mdp.outcome_offsets[row], mdp.outcome_offsets[row + 1])
            rows.append(step(mdp.probabilities[some], mdp.losses[some], after[some]))
        values = np.array([min(rows[mdp.action_offsets[s] : mdp.action_offsets[s + 1]]) for s in range(mdp.num_states)])
    return values


class TestRecursive:
    @pytest.mark.parametrize("beta", [0.0, 0.7, -0.7])
    def test_fixed_point(self, beta):
        mdp = random_table(3, discount=0.8)

        def step(chances, costs, after):
            ahead = costs + after
            return chances @ ahead if beta == 0.0 else math.log(chances @ np.exp(beta * ahead)) / beta

        want = by_sweeps(mdp, step, 150)
        policy = solve(mdp, ERM(beta), criterion="recursive")
        np.testing.assert_allclose(policy.values[0], want, rtol=1e-10, atol=1e-10)
        assert policy.bracket[0] <= want[mdp.start] + 1e-12
        assert want[mdp.start] - 1e-12 <= policy.bracket[1]
        assert policy.gap <= 1e-9 * max(1.0, abs(policy.value))

    @pytest.mark.parametrize(
        ("gamma", "value", "order"), [(0.01, 12.971549462, 14), (1.0, 7.783191063, 8), (2.0, 5.182447884, 6)]
    )
    def test_inventory(self, gamma, value, order):
        """Risk-sensitive inventories of QuantEcon's lectures: demand is geometric, c .2, kappa .8, discount .98."""
        policy = solve(inventory(), Recursive(ERM(gamma)))
        assert policy.value == pytest.approx(value, abs=1e-7)  # theirs are sweeps, stopped at 1e-8 or so
        assert policy.action == order
        assert policy.gap <= 1e-9 * policy.value

    def test_no_end_at_discount_1(self):
        stuck = TabularMDP.from_outcomes([0, 1], [0, 0], [1, 0], [1.0, 1.0], [1.0, 1.0], horizon=None)
        with pytest.raises(ModelError, match="state"):
            solve(stuck, Recursive(ERM(0.5)))
        with pytest.raises(ModelError, match="discount below 1"):
            solve(stuck, Recursive(ERM(0.5), apart=True))

    def test_decides_otherwise_than_the_fading_one(self):
        """A fee now, or a gamble in ten steps: a level that fades forgets to fear it."""
        mdp = late_gamble()
        chosen = [solve(mdp, wanted).action for wanted in (ERM(1.0), Recursive(ERM(1.0)))]
        assert chosen == [0, 1]


def late_gamble():
    """State 0: wait ten steps for a gamble (0), or pay 1 now (1)."""
    rows = [(0, 0, 1, 1.0, 0.0, False), (0, 1, 0, 1.0, 1.0, True)]
    rows += [(s, 0, s + 1, 1.0, 0.0, False) for s in range(1, 10)]
    rows += [(10, 0, 0, 0.5, 0.0, True), (10, 0, 0, 0.5, 4.0, True)]
    state, action, target, chance, cost, over = map(np.array, zip(*rows, strict=True))
    return TabularMDP.from_outcomes(state, action, target, chance, cost, done=over, horizon=None, discount=0.9)


def inventory(most=20, chance=0.7):
    """Order up to 20 at .2 each and .8 per order; what is sold earns 1, demand is geometric."""
    demands = np.arange(101)
    chances = (1.0 - chance) ** demands * chance
    stock, order, demand = (each.ravel() for each in np.meshgrid(range(most + 1), range(most + 1), demands))
    kept = stock + order <= most
    by_row = np.lexsort((demand[kept], order[kept], stock[kept]))
    stock, order, demand = (each[kept][by_row] for each in (stock, order, demand))
    earned = np.minimum(stock, demand) - 0.2 * order - 0.8 * (order > 0)
    return TabularMDP.from_outcomes(
        stock, order, np.maximum(stock - demand, 0) + order, chances[demand] / chances.sum(), rewards=earned,
        horizon=None, discount=0.98,
    )  # fmt: skip


class TestAverage:
    @pytest.mark.parametrize("beta", [0.0, 0.5, -0.5])
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_spectral_radius(self, seed, beta):
        rng = np.random.default_rng(seed)
        chances, costs = rng.dirichlet(np.ones(4), size=(4, 2)), rng.normal(size=(4, 2, 4))
        mdp = TabularMDP.from_arrays(chances, costs, order="SAS", horizon=None)
        rates = []
        for each in policies(mdp):
            if beta == 0.0:
                chain, _ = weighted(mdp, each, 0.0)
                share = np.linalg.matrix_power(chain, 2000)[0]
                rates.append(share @ [mdp.probabilities[some] @ mdp.losses[some] for some in each])
            else:
                matrix, _ = weighted(mdp, each, beta)
                rates.append(math.log(np.abs(np.linalg.eigvals(matrix)).max()) / beta)
        policy = solve(mdp, ERM(beta), criterion="average")
        assert policy.value == pytest.approx(min(rates), rel=1e-9, abs=1e-10)
        assert policy.gap <= 1e-9
        assert policy.values[0, mdp.start] == 0.0

    def test_what_ends_and_what_has_several_rates_is_refused(self):
        with pytest.raises(ModelError, match="state 0"):
            solve(until_repaired(), Average(0.5))
        with pytest.raises(ModelError, match="discount"):
            solve(until_repaired(discount=0.9), Average(0.5))
        apart = TabularMDP.from_outcomes(
            [0, 0, 1, 2], [0, 0, 0, 0], [1, 2, 1, 2], [0.5, 0.5, 1.0, 1.0], [0.0, 0.0, 1.0, 2.0], horizon=None
        )
        with pytest.raises(ModelError, match="2 chains"):
            solve(apart, Average(0.5))


class TestFading:
    @pytest.mark.parametrize("beta", [1.5, -1.5])
    def test_a_long_horizon(self, beta):
        mdp = random_table(7, discount=0.8)
        policy = solve(mdp, ERM(beta))
        long = solve(mdp.with_options(horizon=200), ERM(beta))
        assert policy.value == pytest.approx(long.value, rel=1e-9)
        assert policy.bracket[0] - 1e-12 <= long.value <= policy.bracket[1] + 1e-12
        assert policy.gap <= 1e-9 * max(1.0, abs(policy.value))
        assert 0 <= policy.stationary_from < len(policy.policy)
        assert (policy.policy[policy.stationary_from :] == policy.policy[-1]).all()
        assert policy.act(mdp.start, 1000) == policy.policy[-1, mdp.start]

    def test_the_mean_is_that_of_a_truncation(self):
        mdp = random_table(11, discount=0.9)
        assert solve(mdp, Expectation()).value == pytest.approx(
            solve(truncate(mdp, 1e-10), Expectation()).value, abs=1e-9
        )


class TestPolicies:
    def test_plan_and_distribution(self):
        policy = solve(until_repaired(), ERM(0.2))
        law = policy.distribution()
        assert law.unfinished < 1e-11
        assert law.mean == pytest.approx(10.0 / 3.0, rel=1e-9)
        plan = policy.plan()
        assert plan.value == policy.value
        assert "without a horizon" in str(plan)


class TestStorm:
    def test_twenty_goal_models(self):
        """``Rmin=?[F goal]``: the least mean cost to a goal."""
        stormpy = pytest.importorskip("stormpy")
        (question,) = stormpy.parse_properties('R{"cost"}min=? [F "goal"]')
        for seed in range(20):
            goals = random_goal(seed)
            want = np.array(stormpy.model_checking(storm_model(stormpy, goals), question).get_value_vector())
            want[goals.num_states - 1] = 0.0
            found = solve_total(goals, 0.0).values
            np.testing.assert_array_equal(np.isinf(found), np.isinf(want))
            known = np.isfinite(want)
            np.testing.assert_allclose(found[known], want[known], rtol=1e-4)


def random_goal(seed, size=12):
    """Ragged actions, costs above 0, and a goal, the last state."""
    rng = np.random.default_rng(seed)
    rows = [(size - 1, 0, size - 1, 1.0, 0.0)]
    for state in range(size - 1):
        for action in range(rng.integers(1, 4)):
            targets = rng.choice(size, size=rng.integers(1, 4), replace=False)
            chances = rng.dirichlet(np.ones(targets.size))
            cost = 0.1 + rng.random()
            rows += [(state, action, target, chance, cost) for target, chance in zip(targets, chances, strict=True)]
    state, action, target, chance, cost = map(np.array, zip(*rows, strict=True))
    return TabularMDP.from_outcomes(state, action, target, chance, cost, num_states=size, horizon=None)


def storm_model(stormpy, mdp):
    from stormpy.datastructures import SparseMatrixBuilder
    from stormpy.models import SparseMdp, SparseModelComponents, SparseRewardModel, StateLabeling

    builder = SparseMatrixBuilder[float](mdp.num_rows, mdp.num_states, mdp.num_outcomes, True, True, mdp.num_states)
    for row, state in enumerate(mdp.row_states.tolist()):
        if row == mdp.action_offsets[state]:
            builder.new_row_group(row)
        some = slice(mdp.outcome_offsets[row], mdp.outcome_offsets[row + 1])
        for target, chance in sorted(
            zip(mdp.next_states[some].tolist(), mdp.probabilities[some].tolist(), strict=True)
        ):
            builder.add_next_value(row, target, chance)
    labels = StateLabeling(mdp.num_states)
    for name, state in (("init", 0), ("goal", mdp.num_states - 1)):
        labels.add_label(name)
        labels.add_label_to_state(name, state)
    paid = mdp.losses[mdp.outcome_offsets[:-1]].tolist()
    rewards = {"cost": SparseRewardModel[float](optional_state_action_reward_vector=paid)}
    return SparseMdp[float](SparseModelComponents[float](builder.build(), labels, rewards))
