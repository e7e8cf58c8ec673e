"""Acc-MCTS, NLU-MCTS and UCT against exact enumeration and against each other."""

import functools
import itertools
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

from tailwise import LogBonus, PolynomialBonus, Widening
from tailwise.domains import make
from tailwise.errors import ModelError, OptionError, SimulatorError, StateError
from tailwise.exact import backward_induction
from tailwise.models import AccruedView, ExponentialUtility, Simulator, TabularMDP
from tailwise.models.accrued import total_bounds
from tailwise.planners import AccMcts, ErmMcts, NluMcts, Uct
from tailwise.planners.utility_search import pilot_reference

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted


@pytest.fixture(scope="module")
def small():
    """Two states, two actions, three steps, two costs on one transition, an ending outcome."""
    return TabularMDP.from_outcomes(
        [0, 0, 0, 0, 1, 1, 1],
        [0, 0, 0, 1, 0, 1, 1],
        [0, 1, 1, 1, 0, 1, 0],
        [0.5, 0.25, 0.25, 1.0, 1.0, 0.6, 0.4],
        [0.0, 1.0, 4.0, 1.5, 0.5, 0.0, 3.0],
        done=[False, False, False, False, False, False, True],
        horizon=3,
        discount=0.8,
        terminal_costs=[0.25, 1.0],
    )


def best_utility(mdp, utility, state, accrued, h):
    """min over actions of E[u(total)] by plain recursion: the slow, obvious oracle."""
    return min(action_utility(mdp, utility, state, accrued, h, a) for a in mdp.actions(state))


def action_utility(mdp, utility, state, accrued, h, action):
    total = 0.0
    for probability, target, cost, done in mdp.outcomes(state, int(action), h):
        paid = accrued + mdp.discount**h * cost
        if done:
            value = utility(paid)
        elif h + 1 == mdp.horizon:
            value = utility(paid + mdp.discount ** (h + 1) * mdp.terminal_cost(target))
        else:
            value = best_utility(mdp, utility, target, paid, h + 1)
        total += probability * value
    return total


def square(total):
    return total * total


def uncompilable(total):
    return math.fsum([total]) ** 2


@pytest.mark.compiled
@pytest.mark.parametrize("utility", [square, uncompilable])
def test_nlu_converges_to_the_enumerated_optimum(small, utility):
    plan = NluMcts(small, utility, seed=1, bonus=PolynomialBonus(constant=4.0)).plan(iterations=60_000)
    exact = [action_utility(small, square, 0, 0.0, 0, a) for a in (0, 1)]
    assert plan.action == int(np.argmin(exact))
    # The tree mixes exploration into its means: close from above, not equal.
    assert min(exact) - 0.05 < plan.row(plan.action).erm < min(exact) * 1.05


def test_compiled_and_called_back_utilities_give_the_same_search(small):
    first = NluMcts(small, square, seed=3).plan(iterations=500)
    second = NluMcts(small, uncompilable, seed=3).plan(iterations=500)
    assert [row.visits for row in first.rows] == [row.visits for row in second.rows]
    assert first.value == second.value


@pytest.mark.compiled
@pytest.mark.parametrize("beta", [-0.7, 0.0, 0.4, 1.0])
def test_acc_mcts_finds_the_optimal_risk(small, beta):
    search = AccMcts(small, beta, seed=0)
    plan = search.plan(iterations=200_000)
    solution = backward_induction(small, beta)
    utility = ExponentialUtility(beta=beta, reference=0.5)
    assert utility.inverse(best_utility(small, utility, 0, 0.0, 0)) == pytest.approx(solution.value, rel=1e-12)
    assert plan.action == solution.action
    # Exploration below the root stays in the means: near, and from above but for the noise.
    assert plan.chosen.certainty_equivalent == pytest.approx(solution.value, rel=0.05)


@pytest.mark.compiled
def test_raw_and_rescaled_forms_rank_alike_with_scaled_constants():
    # u_rescaled = scale * (u_raw - shift): with the constants in that ratio the searches coincide.
    mdp, beta, reference = make("mdp-4"), 0.5, 1.7
    scale = math.exp(-beta * reference) / beta
    raw = AccMcts(mdp, beta, form="raw", seed=5, bonus=PolynomialBonus(constant=1.0))
    rescaled = AccMcts(mdp, beta, reference=reference, seed=5, bonus=PolynomialBonus(constant=scale))
    first, second = raw.plan(iterations=3000), rescaled.plan(iterations=3000)
    assert [row.visits for row in first.rows] == [row.visits for row in second.rows]
    assert first.certainty_equivalent == pytest.approx(second.certainty_equivalent, rel=1e-9)
    assert first.aim.endswith("raw")
    assert second.aim.endswith("rescaled")


def test_advance_keeps_the_tree_the_accrued_cost_and_the_step():
    search = AccMcts(make("grid-mdp"), 0.1, seed=0)
    first = search.plan(iterations=2000)
    search.advance(first.action, {"right": "(4,1)", "up": "(3,0)"}.get(first.label, "(4,0)"))
    assert search.step == 1
    assert search.accrued == 1.0
    assert sum(row.visits for row in search.plan(iterations=1).rows) > 500
    search.advance("up", search.state, cost=2.0)
    assert search.accrued == 1.0 + 0.99 * 2.0


def test_advance_asks_for_the_cost_where_it_is_ambiguous(small):
    search = AccMcts(small, 0.5, seed=0)
    with pytest.raises(OptionError, match="2 possible costs"):
        search.advance(0, 1)
    with pytest.raises(StateError, match="no such outcome"):
        search.advance(1, 0)
    search.advance(0, 1, cost=4.0)
    assert (search.state, search.accrued) == (1, 4.0)


@pytest.mark.compiled
def test_the_same_pair_is_one_state_even_after_the_store_has_grown():
    search = NluMcts(make("mdp-4"), square, seed=0, expansion="path")
    plan = search.plan(iterations=20_000)
    assert int(search._binding.data.store.used[0]) > 1024
    words = search._binding.data.store.words[: int(search._binding.data.store.used[0])]
    assert np.unique(words, axis=0).shape == words.shape
    assert plan.iterations == 20_000


def test_rewards_are_shown_as_rewards(small):
    rewards = TabularMDP.from_outcomes(
        [0, 0, 0], [0, 0, 1], [0, 0, 0], [0.5, 0.5, 1.0], rewards=[0.0, 4.0, 1.5], horizon=1
    )
    plan = AccMcts(rewards, 1.0, seed=0).plan(iterations=4000)
    assert plan.action == backward_induction(rewards, 1.0).action == 1
    assert plan.rows[1].certainty_equivalent == pytest.approx(1.5)
    seeking = NluMcts(rewards, square, seed=0).plan(iterations=4000)
    assert seeking.action == 0  # E[R^2] = 8 against 2.25, maximised
    assert seeking.rows[1].erm == pytest.approx(2.25)


def test_same_seed_same_plan():
    plans = [AccMcts(make("mdp-4"), 0.5, seed=9).plan(iterations=500) for _ in range(2)]
    assert plans[0].value == plans[1].value
    search = AccMcts(make("mdp-4"), 0.5, seed=1)
    search.plan(iterations=50)
    assert search.fresh(9).plan(iterations=500).value == plans[0].value


def test_interned_world_draws_the_stream_of_the_plain_one():
    # At beta 0 with a discount of 1 the accrued view is the same problem: same draws, same counts.
    mdp = make("mdp-4").with_options(discount=1.0)
    view = AccMcts(mdp, 0.0, reference=0.0, seed=4).plan(iterations=40)
    plain = Uct(mdp, bonus=PolynomialBonus(), seed=4).plan(iterations=40)
    assert [row.visits for row in view.rows] == [row.visits for row in plain.rows]
    assert view.value == pytest.approx(plain.value, rel=1e-12)


@pytest.mark.compiled
@pytest.mark.parametrize("bonus", [LogBonus(), PolynomialBonus()])
def test_uct_is_the_risk_neutral_search(bonus):
    mdp = make("mdp-4")
    plan = Uct(mdp, bonus=bonus, seed=0).plan(iterations=20_000)
    assert plan.action == backward_induction(mdp, 0.0).action
    assert plan.value == ErmMcts(mdp, 0.0, bonus=bonus, seed=0).plan(iterations=20_000).value
    assert plan.value == pytest.approx(backward_induction(mdp, 0.0).value, abs=0.1)


def test_overflow_is_an_error_in_the_raw_form_and_ruled_out_in_the_other():
    mdp = make("grid-mdp")
    with pytest.raises(OptionError, match=r"overflows.*rescaled"):
        AccMcts(mdp, 50.0, form="raw", seed=0).plan(iterations=1000)
    assert math.isfinite(AccMcts(mdp, 50.0, seed=0).plan(iterations=1000).value)
    assert math.isfinite(AccMcts(mdp, -200.0, seed=0).plan(iterations=1000).value)


@pytest.mark.parametrize("utility", [lambda total: 1.0 / (total - total), lambda total: {}[total]])
def test_a_failing_utility_is_reported_and_leaves_the_tree_empty(small, utility):
    search = NluMcts(small, utility, seed=0)
    with pytest.raises(SimulatorError, match="utility"):
        search.plan(iterations=10)
    assert len(list(search.root.walk())) == 1  # what the failed iteration added is gone


def test_bad_arguments_are_named():
    mdp = make("mdp-4")
    with pytest.raises(OptionError, match="form"):
        AccMcts(mdp, 0.5, form="scaled")
    with pytest.raises(OptionError, match="reference belongs"):
        AccMcts(mdp, 0.5, form="raw", reference=1.0)
    with pytest.raises(OptionError, match="constant at beta = 0"):
        AccMcts(mdp, 0.0, form="raw")
    with pytest.raises(OptionError, match="function of the total"):
        NluMcts(mdp, 3.0)
    with pytest.raises(ModelError, match="cannot be planned on"):
        AccMcts(object(), 0.5)


class Walk(Simulator):
    """The table ``small`` behind the bare simulator's contract."""

    def __init__(self, mdp, sense="cost"):
        self.mdp, self.start, self.horizon, self.discount = mdp, mdp.start, mdp.horizon, mdp.discount
        self.sense, self.sign = sense, 1.0 if sense == "cost" else -1.0

    def actions(self, state):
        return [int(action) for action in self.mdp.actions(state)]

    def step(self, state, action, rng):
        target, cost, done = self.mdp.step(state, action, rng)
        return target, self.sign * cost, done

    def terminal_cost(self, state):
        return self.sign * self.mdp.terminal_cost(state)


@pytest.mark.compiled
@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_simulators_give_the_very_search_of_their_table(small, sense):
    def reward_square(total):
        return -(total**2)

    utility = square if sense == "cost" else reward_square
    table = NluMcts(small, square, seed=2).plan(iterations=400)
    walk = NluMcts(Walk(small, sense), utility, seed=2).plan(iterations=400)
    assert [row.visits for row in walk.rows] == [row.visits for row in table.rows]
    assert abs(walk.value) == pytest.approx(table.value, rel=1e-12)
    sign = 1.0 if sense == "cost" else -1.0
    planners = [AccMcts(m, 0.4, reference=r, seed=2) for m, r in ((small, 2.0), (Walk(small, sense), sign * 2.0))]
    plans = [planner.plan(iterations=400) for planner in planners]
    assert [row.visits for row in plans[0].rows] == [row.visits for row in plans[1].rows]
    assert plans[1].certainty_equivalent == pytest.approx(sign * plans[0].certainty_equivalent)
    planners[1].advance(0, 1, cost=sign * 4.0)
    assert (planners[1].state, planners[1].accrued) == (1, sign * 4.0)
    assert planners[1].plan(iterations=50).step == 1
    with pytest.raises(OptionError, match="cost must be said"):
        planners[1].advance(0, 0)


def test_references_of_simulators_come_from_simulated_episodes(small):
    found = AccMcts(Walk(small), 0.4, seed=0).model.utility.reference
    exact = pilot_reference(small, 0.4)
    assert found == pytest.approx(exact, abs=1.5)  # 64 against 256 random episodes
    assert AccMcts(Walk(small), 0.4, seed=1).model.utility.reference == found
    with pytest.raises(SimulatorError, match="overflows"):
        AccMcts(Walk(small), 500.0, form="raw", seed=0).plan(iterations=50)


@pytest.mark.parametrize("beta", [-3.0, -1e-9, 1e-9, 0.3, 2.0])
def test_inverse_undoes_the_utility(beta):
    for reference, sense in itertools.product((None, -2.0, 5.0), ("cost", "reward")):
        utility = ExponentialUtility(beta=beta, reference=reference, sense=sense)
        for total in (0.5, 1.0, 4.0):
            assert utility.inverse(utility(total)) == pytest.approx(total, rel=1e-6)
    assert ExponentialUtility(beta=20.0, reference=5.0).inverse(-1 / 20) == -math.inf  # lost to rounding


@pytest.mark.parametrize("beta", [-0.7, 0.4])
@pytest.mark.parametrize("form", ["raw", "rescaled"])
def test_rewards_are_minus_costs_in_every_number_that_is_passed_or_shown(small, beta, form):
    terminal = -small.terminal_losses
    rewards = replace(small, sense="reward")  # the same losses, spoken of as rewards
    assert [rewards.terminal_cost(s) for s in range(small.num_states)] == terminal.tolist()
    point = {"reference": 1.5} if form == "rescaled" else {}
    mirrored = {name: -value for name, value in point.items()}
    plans = [
        AccMcts(model, beta, form=form, seed=3, **options).plan(iterations=300)
        for model, options in ((small, point), (rewards, mirrored))
    ]
    assert [row.visits for row in plans[0].rows] == [row.visits for row in plans[1].rows]
    assert plans[1].value == -plans[0].value
    assert plans[1].certainty_equivalent == pytest.approx(-plans[0].certainty_equivalent, rel=1e-12)
    assert pilot_reference(rewards, beta) == -pilot_reference(small, beta)
    costs, earned = (ExponentialUtility(beta=beta, sense=s, **p) for s, p in (("cost", point), ("reward", mirrored)))
    assert earned(-2.5) == -costs(2.5)
    with pytest.raises(OptionError, match="the utility is of costs, the model has rewards"):
        AccruedView(rewards, costs)


def test_bounds_hold_every_total(small):
    low, high = total_bounds(small)
    view = AccruedView(small, ExponentialUtility(beta=0.3, reference=0.0))
    rng = np.random.default_rng(0)
    for _ in range(300):
        state, done, h, charged = view.start, False, 0, 0.0
        while not done and h < view.horizon:
            state, charged, done = view.step(state, int(rng.choice(view.actions(state))), rng, h)
            h += 1
        assert low - 1e-12 <= view.utility.inverse(charged) <= high + 1e-12
    assert low <= pilot_reference(small, 0.3) <= high


class Steps(Simulator):
    """Action a costs a + 1; the state is what was drawn last, and never comes twice."""

    horizon, discount, start = 3, 0.5, 0.0

    def __init__(self, sense="cost"):
        self.sense, self.draws_at_start = sense, 0

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        self.draws_at_start += state == self.start
        return float(rng.random()), (action + 1.0) * (1.0 if self.sense == "cost" else -1.0), False


@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_leaf_values_and_rollout_policies_reach_the_search_on_accrued_costs(sense):
    sign = 1.0 if sense == "cost" else -1.0

    def always_first(state, h, rng):
        assert isinstance(state, float)
        return 0

    def remaining(state, h):  # what always taking the first action costs from step h on
        assert isinstance(state, float)
        return sign * sum(0.5**k for k in range(3 - h))

    for options in ({"rollout_policy": always_first}, {"leaf_value": remaining}):
        search = NluMcts(Steps(sense), lambda total: sign * total**2, seed=0, **options)
        rows = search.plan(iterations=2).rows
        assert [row.erm for row in rows] == pytest.approx([sign * 1.75**2, sign * 2.75**2], rel=1e-15)
        search.advance(1, 0.25, cost=sign * 2.0)
        rows = search.plan(iterations=2).rows
        assert [row.erm for row in rows] == pytest.approx([sign * 2.75**2, sign * 3.25**2], rel=1e-15)
        plan = AccMcts(Steps(sense), 0.5, seed=0, **options).plan(iterations=2)
        assert [row.certainty_equivalent for row in plan.rows] == pytest.approx([sign * 1.75, sign * 2.75], rel=1e-12)
        neutral = ErmMcts(Steps(sense), 0.0, bonus=LogBonus(), seed=0, **options).plan(iterations=50)
        assert Uct(Steps(sense), seed=0, **options).plan(iterations=50).value == neutral.value


def test_widening_bounds_the_outcomes_of_every_planner():
    def identity(total):
        return total

    for make_planner in (
        lambda model, **options: AccMcts(model, 0.5, reference=2.0, seed=0, **options),
        lambda model, **options: NluMcts(model, identity, seed=0, **options),
        lambda model, **options: Uct(model, seed=0, **options),
    ):
        plain, widened = Steps(), Steps()
        make_planner(plain).plan(iterations=200)
        make_planner(widened, widening=Widening(k=1.0, alpha=0.25)).plan(iterations=200)
        assert plain.draws_at_start == 200
        assert widened.draws_at_start <= 2 * math.ceil(200**0.25)


def test_functions_for_simulators_are_refused_on_accrued_costs_of_tables(small):
    with pytest.raises(OptionError, match="leaf_value work for simulators only"):
        AccMcts(small, 0.5, leaf_value=lambda state, h: 0.0)
    with pytest.raises(OptionError, match="widening must be a Widening"):
        NluMcts(small, square, widening=2)
    with pytest.raises(OptionError, match="not both"):
        Uct(small, rollout_policy=lambda state, h, rng: 0, leaf_value=lambda state, h: 0.0)


LIMIT = 2.0


def above_limit(total):
    return 1.0 if total > LIMIT else 0.0


def test_any_callable_is_a_utility():
    mdp = make("mdp-4")

    class Doubled:
        __hash__ = None

        def __call__(self, total):
            return 2.0 * total

    for utility, plain in (
        (np.exp, lambda total: math.exp(total)),
        (math.exp, lambda total: math.exp(total)),
        (functools.partial(pow, 2.0), lambda total: 2.0**total),
        (Doubled(), lambda total: 2.0 * total),
    ):
        found, expected = (NluMcts(mdp, one, seed=0).plan(iterations=100).value for one in (utility, plain))
        assert found == pytest.approx(expected, rel=1e-12)


def test_a_utility_is_compiled_anew_when_a_value_that_it_uses_changes(monkeypatch):
    mdp = make("mdp-4")
    before = NluMcts(mdp, above_limit, seed=0).plan(iterations=100).value
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 1000.0)
    assert before > 0.0
    assert NluMcts(mdp, above_limit, seed=0).plan(iterations=100).value == 0.0


def test_accrued_simulators_refuse_costs_that_overflow_and_show_labels_of_the_state():
    class Huge(Steps):
        def step(self, state, action, rng):
            return state, 1e200, False

    with pytest.raises(SimulatorError, match=r"the cost is 1e\+200; it must be a finite number of at most 1e\+140"):
        NluMcts(Huge(), lambda total: total, seed=0).plan(iterations=10)
    labels = [row.label for row in AccMcts(make("sailing"), 0.1, seed=0).plan(iterations=20).rows]
    assert set(labels) <= {"north", "north-east", "east"}
