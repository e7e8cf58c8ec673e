"""The domains that are simulators: their laws, exact and known values, compiled and interpreted alike."""

import copy
import math
import pickle

import numpy as np
import pytest

from tailwise import (
    CompiledSimulator,
    ErmMcts,
    Simulator,
    Widening,
    backward_induction,
    check_simulator,
    domains,
)
from tailwise.domains.noise import from_noise, poisson_law
from tailwise.errors import ModelError, OptionError, UnknownNameError
from tailwise.models import tabulate

NAMES = ["american-put", "battery", "inventory", "machine-maintenance", "sailing", "stock-trading"]


class Interpreted(Simulator):
    def __init__(self, model):
        self.start, self.horizon, self.discount = model.start, model.horizon, model.discount
        self.sense, self.step, self.actions = model.sense, model.step, model.actions
        if hasattr(model, "terminal_cost"):
            self.terminal_cost = model.terminal_cost


@pytest.mark.parametrize("name", NAMES)
def test_the_contract_holds_and_outcomes_list_what_step_draws(name):
    report = check_simulator(domains.make(name), 1, episodes=15)
    assert report.ok, str(report)
    assert not report.warnings


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("name", [domain.name for domain in domains.list_domains()])
def test_every_domain_is_pickled_and_copied_with_what_was_changed_since(name, again):
    model = domains.make(name, horizon=7)
    if name in NAMES:
        model.name, model.actions = "mine", all_alike
    twin = again(again(model))
    assert type(twin) is type(model)
    assert (twin.name, twin.horizon) == (model.name, 7)
    if name in NAMES:
        assert twin.actions is all_alike
        drawn = [one.step(one.start, 0, np.random.default_rng(3)) for one in (model, twin)]
        assert drawn[0] == drawn[1]
        assert twin.outcomes(twin.start, 0) == model.outcomes(model.start, 0)


def all_alike(state):
    return 1


@pytest.mark.parametrize("name", NAMES)
def test_compiled_equals_interpreted(name):
    plans = [
        ErmMcts(model, 0.05, seed=2).plan(iterations=300)
        for model in (domains.make(name), Interpreted(domains.make(name)))
    ]
    for one, two in zip(plans[0].rows, plans[1].rows, strict=True):
        assert (one.visits, one.mean, one.erm) == (two.visits, two.mean, two.erm)
    assert plans[0].nodes == plans[1].nodes


@pytest.mark.parametrize("name", NAMES)
def test_step_follows_the_listed_law(name):
    # Chi-square with k - 1 degrees of freedom stays below k - 1 + 5 sqrt(2 (k - 1)) + 10 but once in 10,000 cases.
    model = domains.make(name)
    rng = np.random.default_rng(7)
    state = model.start
    for _ in range(3):
        action = int(rng.integers(model.actions(state)))
        listed = model.outcomes(state, action)
        counts = dict.fromkeys([entry[1:] for entry in listed], 0)
        chances = dict.fromkeys(counts, 0.0)
        for entry in listed:
            chances[entry[1:]] += entry.probability
        draws = 4000
        for _ in range(draws):
            counts[model.step(state, action, rng)] += 1
        keep = [key for key in counts if draws * chances[key] >= 5]
        expected = np.array([draws * chances[key] for key in keep])
        found = np.array([counts[key] for key in keep])
        freedom = len(keep)
        assert ((found - expected) ** 2 / expected).sum() < freedom + 5 * math.sqrt(2 * freedom) + 10
        state = listed[0].next_state


def test_the_american_put_has_its_textbook_price():
    table = tabulate(domains.make("american-put"))
    price = backward_induction(table, 0.0).value
    assert price == pytest.approx(binomial_put(36, 40, 0.06, 0.2, 1.0, 50), abs=1e-12)
    assert price == pytest.approx(4.478, abs=0.01)  # finite differences: Longstaff and Schwartz, table 1
    # Fear of the payoff's spread exercises early: at beta 0.3 at once, for the sure 4.
    averse = backward_induction(table, 0.3)
    assert (averse.action, averse.value) == (1, pytest.approx(4.0))


def binomial_put(asset, strike, rate, volatility, years, periods):
    """Cox, Ross and Rubinstein's recursion, written anew."""
    dt = years / periods
    up = math.exp(volatility * math.sqrt(dt))
    q = (math.exp(rate * dt) - 1 / up) / (up - 1 / up)
    values = np.maximum(strike - asset * up ** np.arange(-periods, periods + 1, 2.0), 0)
    for n in range(periods - 1, -1, -1):
        values = math.exp(-rate * dt) * ((1 - q) * values[:-1] + q * values[1:])
        values = np.maximum(values, strike - asset * up ** np.arange(-n, n + 1, 2.0))
    return values[0]


def test_the_put_without_a_lattice_is_planned_with_widening():
    model = domains.make("american-put", lattice=False, horizon=4)
    assert model.start == 36.0
    plan = ErmMcts(model, 0.0, seed=0, widening=Widening(k=4.0, alpha=0.5)).plan(iterations=20_000)
    # Holding once is worth at least the sure 4, and at most the price with any number of dates.
    assert plan.row("exercise").erm == pytest.approx(4.0)
    assert 3.9 < plan.row("hold").erm < 4.6
    assert any("widening" in str(item) for item in check_simulator(model, 0, episodes=60).warnings)


def test_inventory_matches_the_newsvendor():
    # One step, no disruptions: order up to the critical fractile (p - c) / (p + h) of the demand.
    model = domains.make("inventory", horizon=1, disruption=0.0)
    solution = backward_induction(tabulate(model), 0.0)
    law = np.cumsum(poisson_law(2.5, 8))
    level = int(np.searchsorted(law, (8.0 - 1.0) / (8.0 + 0.2)))
    assert 4 + solution.action == max(level, 4)


def test_the_fear_of_a_disruption_builds_stock():
    table = tabulate(domains.make("inventory"))
    assert backward_induction(table, 0.0).action < backward_induction(table, 0.05).action


def test_maintenance_without_failures_or_wear_is_free():
    model = domains.make("machine-maintenance", wear=0.0, failure=0.0)
    assert backward_induction(tabulate(model), 0.0).value == 0.0
    costly = tabulate(domains.make("machine-maintenance"))
    neutral, averse = backward_induction(costly, 0.0), backward_induction(costly, 0.2)
    assert not np.array_equal(neutral.policy, averse.policy)
    assert averse.value > neutral.value


def test_battery_is_hedged_against_the_spike():
    table = tabulate(domains.make("battery"))
    neutral, averse = backward_induction(table, 0.0), backward_induction(table, 0.1)
    assert not np.array_equal(neutral.policy, averse.policy)
    calm = tabulate(domains.make("battery", spike=0.0, capacity=0))
    # Without a battery every step buys one unit; the price level starts in the middle and stays there on average.
    assert backward_induction(calm, 0.0).value == pytest.approx(24 * 3.0)


def test_trading_stops_where_the_crash_is_feared():
    table = tabulate(domains.make("stock-trading"))
    assert backward_induction(table, 0.0).value > 0
    assert table.action_labels == ("sell", "hold", "buy")
    assert backward_induction(table, 0.0).action == 2
    assert backward_induction(table, 0.3).action == 0


def test_sailing_with_a_steady_wind_is_a_shortest_path():
    # The wind blows north; with no turns north-east legs cost 2 each: 5 of them, one tack at most.
    table = tabulate(domains.make("sailing", turn=0.0))
    assert backward_induction(table, 0.0).value == pytest.approx(10.0)
    assert backward_induction(table, 1.0).value == pytest.approx(10.0)


def test_sailing_never_heads_into_the_wind_nor_off_the_lake():
    model = domains.make("sailing", size=4)
    rng = np.random.default_rng(0)
    for _ in range(30):
        state = model.start
        for _ in range(30):
            before = state
            state, cost, done = model.step(state, int(rng.integers(model.actions(state))), rng)
            move = (state[0] - before[0], state[1] - before[1])
            assert move != (0, 0)
            assert 0 <= state[0] < 4 > state[1] >= 0
            heading = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)].index(move)
            assert abs(heading - before[2]) != 4
            assert 1 <= cost <= 7
            if done:
                break


@pytest.mark.parametrize("name", ["machine-maintenance", "stock-trading"])
def test_search_and_exact_solver_agree(name):
    # Exact values at the leaves: one iteration of one search is an unbiased draw of the first action's value (beta 0).
    model = domains.make(name)
    table = tabulate(model)
    exact = backward_induction(table, 0.0)
    labels = {label: k for k, label in enumerate(table.state_labels)}
    draws = [
        ErmMcts(Interpreted(model), 0.0, seed=seed, leaf_value=lambda s, h: exact.values[h, labels[repr(s)]])
        .plan(iterations=1)
        .rows[0]
        .erm
        for seed in range(400)
    ]
    error = np.std(draws) / 20
    assert abs(np.mean(draws) - exact.q_values[0, 0, 0]) <= 5 * error + 1e-9  # error rate 6e-7


def test_options_are_checked():
    with pytest.raises(OptionError, match="option horizon of domain 'inventory' must be at least 1"):
        domains.make("inventory", horizon=0)
    with pytest.raises(OptionError, match="option demand of domain 'inventory' must be a number"):
        domains.make("inventory", demand="high")
    with pytest.raises(OptionError, match="must be True or False"):
        domains.make("american-put", lattice=3)
    with pytest.raises(OptionError, match="has no option 'speed'"):
        domains.make("sailing", speed=3)
    with pytest.raises(UnknownNameError, match="did you mean 'sailing'"):
        domains.make("sailng")
    with pytest.raises(ModelError, match=r"built with disruption=1.5: every row .* must be non-negative and sum to 1"):
        domains.make("inventory", disruption=1.5)
    for options in ({"volatility": 0}, {"years": -1}):
        with pytest.raises(ModelError, match="domain 'american-put' cannot be built with"):
            domains.make("american-put", **options)
    with pytest.raises(OptionError, match="size must be at least 2"):
        domains.make("sailing", size=1)


def test_noise_laws_are_checked_and_never_draw_the_impossible():
    with pytest.raises(ModelError):
        from_noise([[0.5, 0.4]], lambda s: 0, lambda s, a, k: (s, 0.0, False))
    step, outcomes = from_noise([[0.3, 0.7, 0.0]], lambda s: 0, lambda s, a, k: (k, 0.0, False))
    assert [entry.next_state for entry in outcomes(0, 0)] == [0, 1]

    class Highest:
        def random(self):
            return math.nextafter(1.0, 0.0)

    assert step(0, 0, Highest())[0] == 1


def test_tabulate_says_what_it_cannot_do():
    model = domains.make("inventory")
    with pytest.raises(ModelError, match="over 5 states"):
        tabulate(model, max_states=5)
    bare = CompiledSimulator(model.step, start=(1, 0), horizon=3, actions=2)
    with pytest.raises(ModelError, match="has no outcomes"):
        tabulate(bare)
