"""Every exact solver against enumeration in exact arithmetic, in any unit, shifted, and beside an action nobody takes.

Costs times a power of ten (and beta by it) change nothing but the value's unit; a sure cost moves what is translation
invariant by as much; an action that costs "never do this" changes nothing at all.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tailwise import (
    ERM,
    CVaR,
    EVaR,
    Exceedance,
    Expectation,
    NestedCVaR,
    TabularMDP,
    backward_induction,
    choose_beta,
    domains,
    frontier,
    solve,
)
from tailwise.risk import conditional_value_at_risk, erm, value_at_risk

UNITS = (1e-12, 1e-9, 1e-4, 1e3, 1e9)
NEVER = (1e6, 1e9, 1e12)
LEVEL = Fraction(9, 10)
HORIZON = 3


def outcomes(seed):
    """Rows (state, action, next state, probability, cost) in tenths and hundredths: ties and equal totals abound."""
    rng = np.random.default_rng(seed)
    rows = []
    for state, action in itertools.product(range(2), range(2)):
        share = Fraction(int(rng.integers(1, 10)), 10)
        for probability in (share, 1 - share):
            rows.append((state, action, int(rng.integers(2)), probability, Fraction(int(rng.integers(-1, 9)), 10)))
    return rows


def table(rows, *, unit=1.0, shift=0.0, never=None, sense="cost"):
    rows = [(*row[:4], unit * float(row[4] + Fraction(shift))) for row in rows]
    if never is not None:
        rows += [(state, 2, 0, 1.0, unit * never) for state in range(2)]
    states, actions, targets, chances, costs = zip(*rows, strict=True)
    sign = 1.0 if sense == "cost" else -1.0
    given = {f"{sense}s": sign * np.array(costs)}
    return TabularMDP.from_outcomes(states, actions, targets, np.array(chances, float), **given, horizon=HORIZON)


def laws(rows, state=0, h=0):
    """Return {total: probability} of every plan that may remember all that happened."""
    if h == HORIZON:
        return [{Fraction(0): Fraction(1)}]
    found = {}
    for action in range(2):
        here = [row for row in rows if row[:2] == (state, action)]
        for parts in itertools.product(*(laws(rows, row[2], h + 1) for row in here)):
            law = {}
            for row, part in zip(here, parts, strict=True):
                for total, probability in part.items():
                    law[row[4] + total] = law.get(row[4] + total, 0) + row[3] * probability
            found[tuple(sorted(law.items()))] = law
    return list(found.values())


def mean(law):
    return sum(total * probability for total, probability in law.items())


def cvar(law):
    left, value = 1 - LEVEL, Fraction(0)
    for total, probability in sorted(law.items(), reverse=True):
        part = min(left, probability)
        value, left = value + part * total, left - part
    return value / (1 - LEVEL)


def exceeds(law, limit):
    return sum((probability for total, probability in law.items() if total > limit), Fraction(0))


def entropic(law, beta):
    return erm([float(total) for total in law], beta, [float(probability) for probability in law.values()])


def variants(rows):
    """Return (table, unit, shift of one step's cost) of the same problem."""
    yield table(rows), 1.0, 0.0
    for unit in UNITS:
        yield table(rows, unit=unit), unit, 0.0
    for shift in (1.0, 32.0, -16.0):
        yield table(rows, shift=shift), 1.0, shift
    for never in NEVER:
        yield table(rows, never=never), 1.0, 0.0
    yield table(rows, unit=1e-9, never=1e9), 1e-9, 0.0
    yield table(rows, unit=1e3, sense="reward", never=1e12), 1e3, 0.0


def close(value, exact, unit, shift):
    """Whether a value is the exact one, to rounding: relative, or of the size of what was added up."""
    moved = unit * (float(exact) + HORIZON * shift)
    return abs(value - moved) <= 1e-11 * unit * (abs(float(exact)) + HORIZON * (1.0 + abs(shift)))


@pytest.mark.parametrize("seed", range(4))
def test_cvar_and_exceedance_are_those_of_enumeration_in_every_unit(seed):
    rows = outcomes(seed)
    every = laws(rows)
    tail = min(map(cvar, every))
    totals = sorted({total for law in every for total in law})
    limits = totals[1 : -1 : max(1, len(totals) // 3)]
    least_of = {limit: min(exceeds(law, limit) for law in every) for limit in limits}
    for mdp, unit, shift in variants(rows):
        sign = float(mdp.signed(1.0))
        plan = solve(mdp, CVaR(float(LEVEL)), tolerance=0.0)
        assert close(sign * plan.value, tail, unit, shift)
        assert plan.gap == 0.0
        for limit, least in least_of.items():
            if least == 1:
                continue
            plan = solve(mdp, Exceedance(sign * unit * (float(limit) + HORIZON * shift)))
            assert plan.value == pytest.approx(float(least), rel=1e-11, abs=1e-15)
            assert plan.gap == 0.0


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(4))
def test_a_budget_is_kept_and_its_bound_holds_in_every_unit(seed):
    rows = outcomes(seed)
    every = laws(rows)
    risks = sorted({cvar(law) for law in every})
    for budget in (risks[0], risks[len(risks) // 3]):  # the least that there is, and one that binds
        kept = min(mean(law) for law in every if cvar(law) <= budget)
        for mdp, unit, shift in variants(rows):
            sign = float(mdp.signed(1.0))
            limit = unit * (float(budget) + HORIZON * shift)
            plan = solve(mdp, Expectation().within(CVaR(float(LEVEL)), sign * limit))
            assert sign * plan.risk <= limit + 2e-9 * unit * (1.0 + abs(shift))
            value, size = sign * plan.value / unit - HORIZON * shift, 1e-8 * (1.0 + abs(shift))
            assert value - plan.gap / unit - size <= float(kept) <= value + size
    beta = 1.0
    known = sorted({entropic(law, beta) for law in every})
    budget = known[len(known) // 3]
    kept = min(mean(law) for law in every if entropic(law, beta) <= budget + 1e-12)
    for mdp, unit, shift in variants(rows):
        sign = float(mdp.signed(1.0))
        limit = unit * (budget + HORIZON * shift)
        plan = solve(mdp, Expectation().within(ERM(beta / unit), sign * limit))
        assert sign * plan.risk <= limit + 2e-9 * unit * (1.0 + abs(shift))
        value, size = sign * plan.value / unit - HORIZON * shift, 1e-8 * (1.0 + abs(shift))
        assert value - plan.gap / unit - size <= float(kept) <= value + size


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(4))
def test_erm_evar_and_nested_cvar_are_the_same_in_every_unit(seed):
    rows = outcomes(seed)
    every = laws(rows)
    base = table(rows)
    nested = solve(base, NestedCVaR(float(LEVEL)))
    tail = solve(base, EVaR(float(LEVEL)), tolerance=1e-6)
    for beta in (-2.0, 0.0, 0.3, 4.0):
        least = min(entropic(law, beta) for law in every)
        policy = backward_induction(base, beta).policy
        for mdp, unit, shift in variants(rows):
            solution = backward_induction(mdp, beta / unit)
            assert close(float(mdp.signed(solution.value)), least, unit, shift)
            assert np.array_equal(solution.policy, policy)
    for mdp, unit, shift in variants(rows):
        sign = float(mdp.signed(1.0))
        found = solve(mdp, NestedCVaR(float(LEVEL)))
        assert close(sign * found.value, nested.value, unit, shift)
        assert np.array_equal(found.policy, nested.policy)
        plan = solve(mdp, EVaR(float(LEVEL)), tolerance=1e-6 * unit)
        assert sign * plan.value / unit - HORIZON * shift == pytest.approx(tail.value, abs=2e-6)
        loose = solve(mdp, EVaR(float(LEVEL)))
        assert sign * loose.value - loose.gap <= sign * plan.value <= sign * loose.value
        assert loose.gap <= 2e-4 * unit * 3.0


@pytest.mark.compiled
@pytest.mark.parametrize("never", NEVER)
def test_an_action_that_nobody_takes_leaves_the_frontier_and_the_choice_of_beta(never):
    grid = domains.make("grid-mdp")
    sizes = np.diff(grid.outcome_offsets)
    added = np.arange(grid.num_states)
    more = TabularMDP.from_outcomes(
        np.append(np.repeat(grid.row_states, sizes), added),
        np.append(np.repeat(grid.action_ids, sizes), np.full(added.size, grid.num_actions)),
        np.append(grid.next_states, added), np.append(grid.probabilities, np.ones(added.size)),
        np.append(grid.losses, np.full(added.size, never)), horizon=grid.horizon, discount=grid.discount,
        start=grid.start, terminal_costs=grid.terminal_losses, done=np.append(grid.done, np.zeros(added.size, bool)),
    )  # fmt: skip
    known, found = frontier(grid), frontier(more)
    assert found.certified
    assert [point.low for point in found.points] == pytest.approx([point.low for point in known.points], rel=1e-7)
    assert [point.action for point in found.points] == [point.action for point in known.points]
    assert choose_beta(more, budget=45.0, probability=0.05).beta == pytest.approx(0.0835850, rel=1e-6)


@pytest.mark.compiled
def test_the_switches_of_a_frontier_scale_with_the_costs():
    rows = [(0, 0, 0, 0.9, 1.0), (0, 0, 0, 0.1, 3.0), (0, 1, 0, 1.0, 1.3), (1, 0, 1, 1.0, 0.0)]
    known = [point.low for point in frontier(table(rows), [0.0, 5.0]).points]
    assert len(known) > 1
    for unit in (1e-12, 1e-9, 1e6):
        found = frontier(table(rows, unit=unit), [0.0, 5.0 / unit])
        assert [unit * point.low for point in found.points] == pytest.approx(known, rel=1e-7)
        assert found.certified


def test_a_rare_disaster_that_no_bound_excludes_does_not_coarsen_what_is_near():
    """With one chance in a million of 1e9, totals that differ by 0.1 are still told apart."""
    rows = [
        (0, 0, 0, 0.7, 0.1),
        (0, 0, 0, 0.3, 1.37),
        (0, 1, 0, 1.0, 0.5),
        (0, 2, 0, 1e-6, 1e9),
        (0, 2, 0, 1 - 1e-6, 0.6),
    ]
    states, actions, targets, chances, costs = zip(*rows, strict=True)
    mdp = TabularMDP.from_outcomes(states, actions, targets, chances, costs, horizon=3)
    assert solve(mdp, Exceedance(1.45)).value == pytest.approx(0.3)
    assert solve(mdp, CVaR(0.9), tolerance=0.0).value == pytest.approx(1.5, rel=1e-12)
    assert solve(mdp, CVaR(0.9)).value == pytest.approx(1.5, rel=1e-6)
    plan = solve(mdp, Expectation().within(CVaR(0.9), 1.6))
    assert plan.risk <= 1.6 + 1e-9
    plan = solve(mdp, EVaR(0.9))
    assert plan.value - plan.gap <= 1.5 <= plan.value + 1e-12
    assert plan.gap < 1e-3


def test_nested_tails_of_many_equal_states():
    """The sum of one row knows nothing of the other 200,000."""
    size = 200_000
    states = np.repeat(np.arange(size), 2)
    mdp = TabularMDP.from_outcomes(
        states, np.zeros(2 * size, int), states, np.tile([0.1, 0.9], size), np.tile([0.9, 0.0], size), horizon=1
    )
    values = solve(mdp, NestedCVaR(1 - 1e-10)).values[0]
    assert np.abs(values - 0.9).max() <= 1e-12


def test_nested_cvar_is_no_bound_on_the_cvar_of_the_total():
    mdp = TabularMDP.from_outcomes(
        [0, 0, 1, 2, 2, 3], [0] * 6, [1, 2, 3, 3, 3, 3], [0.1, 0.9, 1.0, 0.01, 0.99, 1.0],
        [0.0, 0.0, 5.0, 100.0, 0.0, 0.0], horizon=2,
    )  # fmt: skip
    assert solve(mdp, NestedCVaR(0.9)).value == pytest.approx(10.0)
    assert solve(mdp, CVaR(0.9), tolerance=0.0).value == pytest.approx((0.9 + 0.091 * 5.0) / 0.1)


def test_a_budget_of_the_least_risk_is_kept():
    for seed in range(20):
        mdp = table(outcomes(seed))
        least = solve(mdp, CVaR(0.9), tolerance=0.0).value
        plan = solve(mdp, Expectation().within(CVaR(0.9), least), tolerance=0.0)
        assert plan.risk <= least + 1e-9
        least = backward_induction(mdp, 1.0).value
        assert solve(mdp, Expectation().within(ERM(1.0), least), tolerance=0.0).risk <= least + 1e-9


@pytest.mark.parametrize("number", [1_000, 2_000, 10_000, 100_000, 1_000_000])
def test_a_quantile_that_is_met_exactly_is_found_in_any_number_of_samples(number):
    costs = np.zeros(number)
    costs[number - number // 20 :] = 1000.0
    for weights in (None, np.full(number, 0.3)):
        assert value_at_risk(costs, 0.95, weights) == 0.0
    order = np.arange(1.0, number + 1.0)
    for level in (0.01, 0.05, 0.07, 0.3, 0.5, 0.9, 0.95, 0.99):
        wanted = math.ceil(Fraction(str(level)) * number)
        assert value_at_risk(order, level) == value_at_risk(order, level, np.ones(number)) == wanted


def test_the_quantile_at_one_is_the_largest():
    weights = [1 - 1e-13, 1e-13]
    assert value_at_risk([0.0, 5.0], 1.0, weights) == 5.0
    assert value_at_risk([0.0, 5.0], 1 - 5e-14, weights) == 5.0
    assert value_at_risk([0.0, 5.0], 1 - 2e-13, weights) == 0.0
    assert conditional_value_at_risk([0.0, 5.0], 1.0, weights) == 5.0
