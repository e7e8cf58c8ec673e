"""Learning across states, against closed forms, the slow obvious version, and problems with an exact answer."""

import math

import numpy as np
import pytest

from tailwise import LearnedModelSearch, Simulator, TabularMDP, backward_induction, domains
from tailwise.models import tabulate
from tailwise.search.learned import pooled
from tailwise.search.learned.answering import Answering
from tailwise.search.learned.fitted import numbers_in
from tailwise.search.learned.pooled import Seen, outcomes_across_states, pooled_values


def seen_of(numbers, draws, actions=1):
    """``draws``: (owner, action, target, cost, count)."""
    owners, taken, targets, costs, counts = (np.array(column) for column in zip(*draws, strict=True))
    numbers = np.array(numbers, dtype=float).reshape(len(numbers), -1)
    allowed = np.ones((len(numbers), actions), bool)
    return Seen(owners, taken, targets, costs.astype(float), counts.astype(float), numbers, allowed)


def shares(outcomes, owner, action=0):
    """{(target, cost): share} of a state and action."""
    here = (outcomes.owners == owner) & (outcomes.actions == action)
    found = {}
    for target, cost, weight in zip(outcomes.targets[here], outcomes.costs[here], outcomes.weights[here], strict=True):
        key = int(target), round(float(cost), 6)
        found[key] = found.get(key, 0.0) + weight / outcomes.weights[here].sum()
    return found


def line(up=30, down=10, cost=lambda state: 1.0):
    """States 0..20 of a line; from each of 5..15, ``up`` draws went to the next and ``down`` to the one before."""
    draws = [(s, 0, s + 1, cost(s), up) for s in range(5, 16)] + [(s, 0, s - 1, cost(s), down) for s in range(5, 16)]
    return seen_of(range(21), draws)


@pytest.mark.parametrize("most", [0, 10**6])
@pytest.mark.parametrize("seed", range(5))
def test_a_state_is_the_one_that_a_look_at_all_finds(seed, most, monkeypatch):
    monkeypatch.setattr(pooled, "_MOST_NUMBERS", most)
    rng = np.random.default_rng(seed)
    numbers = np.unique(rng.integers(0, 6, (40, 3)) * [1.0, 0.5, 10.0], axis=0)
    asked = np.concatenate((numbers[::3], rng.integers(-2, 8, (50, 3)) * [1.0, 0.5, 10.0]))
    found, exact = pooled._States(numbers).find(asked)
    states = {tuple(row): k for k, row in enumerate(numbers.tolist())}
    inside = np.clip(asked, numbers.min(axis=0), numbers.max(axis=0))
    away = (((asked[:, None] - numbers) / numbers.std(axis=0)) ** 2).sum(axis=2)
    for row, at, near in zip(inside.tolist(), found.tolist(), away, strict=True):
        if tuple(row) in states:
            assert at == states[tuple(row)]
        elif most:
            assert near[at] == pytest.approx(near.min())
        else:
            assert at == -1
    assert exact.tolist() == [tuple(row) in states for row in asked.tolist()]


def test_a_number_that_all_states_share_is_no_hindrance():
    states = pooled._States(np.array([[0.0, 7.0], [1.0, 7.0], [4.0, 7.0]]))
    found, exact = states.find(np.array([[1.2, 7.0], [3.4, 8.0], [4.0, 7.0]]))
    assert found.tolist() == [1, 2, 2]
    assert exact.tolist() == [False, False, True]


def test_a_state_never_acted_in_has_the_changes_of_the_others():
    assert shares(outcomes_across_states(line()), 17) == pytest.approx({(18, 1.0): 0.75, (16, 1.0): 0.25})


def test_a_change_that_leads_beyond_all_states_is_cut_off():
    assert shares(outcomes_across_states(line()), 20) == pytest.approx({(20, 1.0): 0.75, (19, 1.0): 0.25})


def test_a_change_that_leads_to_a_state_not_known_is_left_out_where_many_do(monkeypatch):
    monkeypatch.setattr(pooled, "_MOST_NUMBERS", 0)
    gap = line()
    keep = np.arange(21) != 18
    seen = seen_of(np.arange(21)[keep], zip(*gap[:5], strict=True))
    assert shares(outcomes_across_states(seen), 17) == pytest.approx({(16, 1.0): 1.0})


def test_costs_of_a_change_are_linear_in_the_numbers_of_the_state():
    found = shares(outcomes_across_states(line(cost=lambda state: 2.0 + 0.5 * state)), 10)
    assert found == pytest.approx({(11, 7.0): 0.75, (9, 7.0): 0.25}, abs=1e-9)


def test_a_state_that_does_otherwise_keeps_to_its_own_draws():
    plain = line()
    other = (plain.owners == 9) & (plain.targets == 10)
    odd = plain._replace(targets=np.where(other, 3, plain.targets))
    assert shares(outcomes_across_states(odd), 9) == pytest.approx({(3, 1.0): 0.75, (8, 1.0): 0.25}, abs=1e-6)
    assert shares(outcomes_across_states(odd), 12) == pytest.approx({(13, 1.0): 0.75, (11, 1.0): 0.25}, abs=1e-2)


def test_a_state_whose_costs_are_others_keeps_to_its_own_draws():
    plain = line()
    dear = plain._replace(costs=np.where(plain.owners == 9, 30.0, plain.costs))
    assert shares(outcomes_across_states(dear), 9) == pytest.approx({(10, 30.0): 0.75, (8, 30.0): 0.25}, abs=1e-6)


def test_states_are_split_where_a_change_gets_more_probable():
    low = [(s, 0, s + 1, 1.0, 36) for s in range(10)] + [(s, 0, s, 1.0, 4) for s in range(10)]
    high = [(s, 0, s + 1, 1.0, 4) for s in range(10, 20)] + [(s, 0, s, 1.0, 36) for s in range(10, 20)]
    found = outcomes_across_states(seen_of(range(22), low + high))
    assert shares(found, 3)[4, 1.0] == pytest.approx(0.9, abs=0.02)
    assert shares(found, 15)[16, 1.0] == pytest.approx(0.1, abs=0.02)


def test_states_are_split_between_neighbours_among_floats():
    """Of two neighbours the mean is one of the two: no part may be without states."""
    near = np.nextafter(1.0, 2.0)
    for one, other in ((1.0, near), (near, np.nextafter(near, 2.0))):
        numbers = [(one, s) for s in range(11)] + [(other, s) for s in range(11)]
        draws = [(s, 0, s + 1, 1.0, 40) for s in range(10)] + [(s + 11, 0, s + 10, 1.0, 40) for s in range(1, 11)]
        found = outcomes_across_states(seen_of(numbers, draws))
        assert shares(found, 3)[4, 1.0] > 0.9
        assert shares(found, 15)[14, 1.0] > 0.9


def test_new_values_and_sums_are_told_as_such():
    """Stock and what comes: the next stock is their sum less a demand of 1, what comes next is always 2."""
    states = [(stock, coming) for stock in range(8) for coming in range(4)]
    numbers = {state: k for k, state in enumerate(states)}
    draws = [(numbers[s, c], 0, numbers[s + c - 1, 2], 0.0, 5) for s, c in states[::3] if (s + c - 1, 2) in numbers]
    found = outcomes_across_states(seen_of(states, draws))
    assert shares(found, numbers[4, 1]) == pytest.approx({(numbers[4, 2], 0.0): 1.0})


def test_states_that_are_not_alike_keep_to_their_counts():
    """Three random targets of each of 20 states: nothing that one does says what another one does."""
    rng = np.random.default_rng(0)
    draws = [
        (s, 0, int(t), float(c), 20)
        for s in range(20)
        for t, c in zip(rng.choice(20, 3), rng.uniform(0, 2, 3), strict=True)
    ]
    found = outcomes_across_states(seen_of(range(20), draws))
    for s in range(20):
        own = {}
        for owner, _, target, cost, _ in draws:
            if owner == s:
                own[target, round(cost, 6)] = own.get((target, round(cost, 6)), 0.0) + 1 / 3
        assert shares(found, s) == pytest.approx(own, abs=1e-6)


@pytest.mark.parametrize("beta", [-0.7, 0.0, 0.3])
def test_values_are_those_of_the_slow_recursion(beta):
    """Three states that are alike, so that what they do is known; slips as the recursion of the counts has them."""
    seen = line()
    horizon, discount = 4, 0.9
    ends = np.linspace(0.0, 4.0, 21)

    def value(state, h):
        if h == horizon:
            return ends[state]
        q = sum(
            p * (c + discount * value(t, h + 1) if beta == 0 else math.exp(betas[h] * (c + discount * value(t, h + 1))))
            for (t, c), p in model[state].items()
        )
        return q if beta == 0.0 else math.log(q) / betas[h]  # one action: nothing can slip

    betas = [beta * discount**h for h in range(horizon)]
    outcomes = outcomes_across_states(seen)
    model = {s: shares(outcomes, s) for s in range(21)}
    found, _ = pooled_values(seen, 10, np.array(betas), discount, ends)
    assert found[0] == pytest.approx([value(10, 0)], rel=1e-9)


def test_a_slip_costs_a_part_of_the_way_to_the_mean():
    """Two actions of every state, of cost 1 and 3: what follows is worth 1 + e (2 - 1), with e = (2 / 40)^(1/4) / 2."""
    draws = [(s, a, s, 1.0 + 2.0 * a, 20) for s in range(5) for a in range(2)]
    found, _ = pooled_values(seen_of(range(5), draws, actions=2), 0, np.zeros(2), 1.0, np.zeros(5))
    later = 1.0 + 0.5 * (2 / 40) ** 0.25
    assert found[0] == pytest.approx([1.0 + later, 3.0 + later])


def test_draws_leave_possible_what_they_would_say_if_they_were_drawn_again():
    """One step, cost 1 with a chance of .75 of 340 draws that are alike: a Beta law, whatever the state."""
    seen = line(cost=lambda state: 0.0)
    ends = np.arange(21.0)
    arguments = np.zeros(1), 1.0, ends
    plain, work = pooled_values(seen, 10, *arguments)
    found, _ = pooled_values(seen, 10, *arguments, rng=np.random.default_rng(0))
    assert (plain.shape, found.shape[1]) == ((1, 1), 1)
    assert found[0] == plain[0] == pytest.approx([10.5])
    number = seen.counts.sum()
    std = 2.0 * math.sqrt(0.75 * 0.25 / number)  # 1 up or 1 down
    assert found[1:].mean() == pytest.approx(10.5, abs=4.0 * std / math.sqrt(len(found) - 1))
    assert 0.5 * std < found[1:].std() < 2.0 * std
    few, _ = pooled_values(seen, 10, *arguments, most=work, rng=np.random.default_rng(0))
    assert len(few) == 1


class Stakes(Simulator):
    """Win a stake with probability .45; what is missing at the end costs the more, the more it is."""

    start, horizon, sense = 30, 12, "cost"

    def actions(self, money):
        return 3

    def outcomes(self, money, action):
        stake = min(2 * action, money, 60 - money)
        return [(0.45, money + stake, 0.0, False), (0.55, money - stake, 0.0, False)]

    def step(self, money, action, rng):
        outcomes = self.outcomes(money, action)
        return outcomes[0][1:] if rng.random() < 0.45 else outcomes[1][1:]

    def terminal_cost(self, money):
        return (60 - money) / 4


@pytest.mark.parametrize("search", ["simulator", "table"])
def test_where_states_are_alike_few_iterations_choose_as_well_as_many_counts(search):
    """Counts alone are wrong in a fifth of the searches. Of 20, each wrong with probability .05, 4 are in 1.6 %."""
    table = tabulate(Stakes())
    exact = backward_induction(table, 0.1).action_values(0)[table.start]
    model = Stakes() if search == "simulator" else table
    wrong = 0
    for seed in range(20):
        plan = LearnedModelSearch(model, 0.1, seed=seed).plan(iterations=200)
        wrong += exact[plan.rows.index(plan.chosen)] > exact.min() + 1e-9
    assert wrong <= 3


def test_states_without_numbers_are_compared_by_their_counts_alone(monkeypatch):
    states, actions, turn = (column.ravel() for column in np.meshgrid(range(4), range(2), range(2), indexing="ij"))
    named = TabularMDP.from_outcomes(
        states, actions, (states + turn) % 4, np.full(16, 0.5), costs=actions.astype(float),
        horizon=5, state_labels=("good", "fair", "poor", "out"),
    )  # fmt: skip
    asked, old = [], Answering._pooled
    monkeypatch.setattr(Answering, "_pooled", lambda *args: asked.append(old(*args)) or asked[-1])
    LearnedModelSearch(named, 0.1, seed=0).plan(iterations=50)
    assert asked == [None]


def test_the_same_seed_gives_the_same_plan():
    plans = [LearnedModelSearch(domains.make("grid-mdp"), 0.1, seed=3).plan(iterations=150) for _ in range(2)]
    assert plans[0].rows == plans[1].rows
    assert plans[0].action == plans[1].action


def test_of_a_large_table_only_the_states_that_were_met_are_read():
    size = 200_000
    states = np.repeat(np.arange(size), 2)
    turns = np.tile([1, -1], size)
    table = TabularMDP.from_outcomes(
        states, np.zeros(2 * size, int), (states + turns) % size, np.full(2 * size, 0.5), costs=np.ones(2 * size),
        horizon=4, start=size - 2, state_labels=tuple(map(str, range(size))),
    )  # fmt: skip
    search = LearnedModelSearch(table, 0.1, seed=0)
    assert search.plan(iterations=20).value == pytest.approx(4.0)
    assert 0 < len(search._answering._numbers) < 20


def test_the_gamma_function_is_that_of_the_library():
    x = np.concatenate((np.geomspace(1e-3, 1e9, 200), np.arange(1.0, 40.0)))
    np.testing.assert_allclose(pooled._log_gamma(x), [math.lgamma(value) for value in x], rtol=1e-8, atol=1e-9)


def test_states_that_alternate_are_split_into_a_few_parts():
    """Of 1,500 cells every other one moves the other way: no part is of one state, and nothing recurs too deep."""
    draws = [(s, 0, s + (1 if s % 2 else -1), 0.0, 40) for s in range(1, 1500)]
    found = outcomes_across_states(seen_of(range(1501), draws))
    assert shares(found, 700)[699, 0.0] > 0.99


@pytest.mark.parametrize(
    ("label", "numbers"),
    [
        ("3", (3.0,)),
        ("(1, -2.5)", (1.0, -2.5)),
        ("1e5", (1e5,)),
        ("poor", None),
        ("[1]", None),
        ("{[1]}", None),
        ("", None),
    ],
)
def test_a_label_is_numbers_or_it_is_not(label, numbers):
    assert numbers_in(label) == numbers


class Masks(Simulator):
    """A bit mask as the state, wider than a float is large; actions that cannot be hashed."""

    start, horizon, sense = 1 << 1100, 4, "cost"

    def actions(self, state):
        return [[0], [1]]

    def step(self, state, action, rng):
        return state ^ (1 << action[0]), float(action[0]), False


class Switches(Masks):
    start = 0


@pytest.mark.parametrize("model", [Masks(), Switches()])
def test_states_and_actions_that_are_no_numbers_are_searched_as_ever(model):
    assert LearnedModelSearch(model, 0.1, seed=0).plan(iterations=200).action == [0]


def test_too_much_work_is_not_begun():
    seen = line()
    found, work = pooled_values(seen, 10, np.zeros(4), 1.0, np.zeros(21), most=10.0)
    assert found is None
    assert work > 10.0
