"""Tables from arrays in every accepted shape; the contract of a table; its checks."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from conftest import random_mdp
from tailwise import ErmMcts, TabularMDP, backward_induction, check_model
from tailwise.errors import ModelError, StateError
from tailwise.models import Model

S, A, H = 4, 2, 3
RNG = np.random.default_rng(0)
SAS = RNG.dirichlet(np.ones(S), size=(S, A))
ASS = SAS.transpose(1, 0, 2)
SA_COSTS = RNG.normal(size=(S, A))
SAS_COSTS = RNG.normal(size=(S, A, S))


def build(transitions=SAS, costs=SA_COSTS, **options):
    return TabularMDP.from_arrays(transitions, costs, **{"horizon": H, **options})


def test_all_forms_of_the_same_table_agree():
    base = build()
    assert base.equals(build(ASS))
    assert base.equals(build(ASS, order="ASS"))
    assert base.equals(build([sparse.csr_matrix(m) for m in ASS]))
    assert base.equals(build([sparse.coo_array(m) for m in ASS], order="ASS"))
    wide = build(SAS, SAS_COSTS)
    assert wide.equals(build(ASS, SAS_COSTS.transpose(1, 0, 2), costs_order="ASS"))
    assert wide.equals(build(ASS, [sparse.csr_matrix(m) for m in SAS_COSTS.transpose(1, 0, 2)]))
    by_state = build(SAS, SA_COSTS[:, 0])
    assert by_state.equals(build(SAS, np.repeat(SA_COSTS[:, :1], A, axis=1)))


def test_per_step_costs():
    steps = RNG.normal(size=(H, S, A))
    mdp = build(costs=steps)
    assert mdp.outcomes(1, 1, 2)[0].cost == pytest.approx(steps[2, 1, 1])
    assert mdp.with_options(horizon=2).step_losses.shape == (2, mdp.num_rows)
    with pytest.raises(ModelError, match="longer"):
        mdp.with_options(horizon=H + 1)
    with pytest.raises(StateError, match="step 3"):
        mdp.outcomes(1, 1, 3)


def test_ragged_actions_by_infinity_and_by_mask():
    costs = SA_COSTS.copy()
    costs[2, 0] = math.inf
    by_cost = build(costs=costs)
    mask = np.ones((S, A), bool)
    mask[2, 0] = False
    assert by_cost.equals(build(mask=mask))
    assert by_cost.actions(2).tolist() == [1]
    with pytest.raises(StateError, match=r"action 0 is not allowed in state 2; allowed: 1"):
        by_cost.outcomes(2, 0)
    with pytest.raises(StateError, match="is not allowed in state 2"):
        by_cost.row(2, np.array([1]))
    assert by_cost.row(2, np.array(1)) == by_cost.row(2, 1)
    rewards = -costs
    assert build(costs=None, rewards=rewards).actions(2).tolist() == [1]


def test_zero_rows_of_masked_actions_are_fine():
    chances = SAS.copy()
    chances[2, 0] = 0
    costs = SA_COSTS.copy()
    costs[2, 0] = math.inf
    assert build(chances, costs).num_rows == S * A - 1
    with pytest.raises(ModelError, match=r"\(state 2, action 0\)"):
        build(chances)


def test_rewards_are_negated_once():
    mdp = build(costs=None, rewards=SA_COSTS, terminal_rewards=np.arange(S))
    assert mdp.sense == "reward"
    assert mdp.outcomes(0, 1)[0].cost == SA_COSTS[0, 1]
    assert mdp.losses[0] == -SA_COSTS[0, 0]
    assert mdp.terminal_cost(3) == 3.0
    assert mdp.terminal_losses[3] == -3.0


def test_ambiguous_shapes_are_refused():
    cube = RNG.dirichlet(np.ones(3), size=(3, 3))
    with pytest.raises(ModelError, match="say order"):
        TabularMDP.from_arrays(cube, costs=np.zeros((3, 3)), horizon=2)
    with pytest.raises(ModelError, match="costs_order"):
        TabularMDP.from_arrays(cube, costs=np.zeros((3, 3, 3)), order="SAS", horizon=3)
    ok = TabularMDP.from_arrays(cube, costs=np.zeros((3, 3, 3)), order="SAS", costs_order="HSA", horizon=3)
    assert ok.step_losses.shape == (3, 9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transitions": SAS * 0.9}, "state 0, action 0: probabilities sum to 0.9"),
        ({"transitions": np.where(SAS[1, 1, 1] == SAS, np.nan, SAS)}, "state 1, action 1"),
        ({"transitions": -SAS}, "probability"),
        ({"transitions": SAS[0]}, "shape"),
        ({"transitions": SAS[:3]}, "shape"),
        ({"transitions": "abc"}, "numeric"),
        ({"order": "SSA"}, "order"),
        ({"order": "ASS"}, "does not fit"),
        ({"costs": np.zeros((S, A + 1))}, "expected"),
        ({"costs": np.full((S, A), np.nan)}, "state 0, action 0"),
        ({"costs": None}, "neither"),
        ({"rewards": SA_COSTS}, "not both"),
        ({"horizon": -1}, "horizon must be at least 1, not -1"),
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.5}, "whole number"),
        ({"discount": 0.0}, "discount"),
        ({"discount": 1.5}, "discount"),
        ({"discount": math.nan}, "discount"),
        ({"start": 4}, "start 4 is not in the table"),
        ({"start": "s9"}, "start"),
        ({"terminal_costs": [1.0]}, "terminal_costs has 1 entries"),
        ({"terminal_costs": [np.nan] * S}, "terminal"),
        ({"state_labels": ["a"]}, "state_labels"),
        ({"state_labels": ["a", "a", "b", "c"]}, "more than once"),
        ({"mask": [True]}, "mask"),
        ({"mask": np.zeros((S, A), bool)}, "no outcomes"),
    ],
)
def test_wrong_arrays_say_what_and_where(change, message):
    with pytest.raises(ModelError, match=message):
        build(**change)


def test_wrong_outcome_rows():
    with pytest.raises(ModelError, match="negative"):
        TabularMDP.from_outcomes([0], [0], [-1], [1.0], [0.0], horizon=1)
    with pytest.raises(ModelError, match="whole"):
        TabularMDP.from_outcomes([0.5], [0], [0], [1.0], [0.0], horizon=1)
    with pytest.raises(ModelError, match="entries"):
        TabularMDP.from_outcomes([0, 0], [0], [0], [1.0], [0.0], horizon=1)
    with pytest.raises(ModelError, match="num_states"):
        TabularMDP.from_outcomes([0], [0], [5], [1.0], [0.0], num_states=3, horizon=1)
    with pytest.raises(ModelError, match="at most"):
        TabularMDP.from_outcomes([0], [0], [10**12], [1.0], [0.0], horizon=1)
    with pytest.raises(ModelError, match="no action is allowed"):
        TabularMDP.from_outcomes([0], [0], [1], [1.0], [0.0], horizon=2)
    last = TabularMDP.from_outcomes([0], [0], [1], [1.0], [0.0], horizon=1)  # the horizon comes first
    assert last.num_states == 2


def test_check_model_reports_every_violation():
    chances = SAS.copy()
    chances[0, 1] *= 0.5
    chances[3, 0] *= 2
    costs = SA_COSTS.copy()
    costs[1, 1] = math.nan
    report = check_model(build(chances, costs, validate=False))
    text = str(report)
    assert not report.ok
    for place in ("state 0, action 1", "state 3, action 0", "state 1, action 1"):
        assert place in text
    assert check_model(build()).ok
    with pytest.raises(ModelError, match="breaks its contract"):
        report.raise_for_errors()
    with pytest.raises(ModelError, match="not a model"):
        check_model(3)


def test_large_costs_are_a_warning():
    report = check_model(build(costs=SA_COSTS * 1e15))
    assert report.ok
    assert report.warnings


def test_rounded_probabilities_are_rescaled():
    third = [0.3333333, 0.3333333, 0.3333333]
    mdp = TabularMDP.from_outcomes([0] * 3, [0] * 3, [0] * 3, third, [0.0, 1.0, 2.0], horizon=1)
    assert mdp.probabilities.sum() == pytest.approx(1.0, abs=1e-15)


def test_contract_and_sampling():
    mdp = random_mdp(1, done=True)
    assert isinstance(mdp, Model)
    rng = np.random.default_rng(0)
    rows = mdp.outcomes(0, int(mdp.actions(0)[0]))
    draws = [mdp.step(0, int(mdp.actions(0)[0]), rng) for _ in range(20_000)]
    for row in rows:
        seen = np.mean([d == (row.next_state, row.cost, row.done) for d in draws])
        assert seen == pytest.approx(row.probability, abs=0.02)  # 5 sigma at most, so p < 1e-6 a row
    assert sum(r.probability for r in rows) == pytest.approx(1.0)


def test_labels_and_lookup():
    mdp = build(state_labels=list("wxyz"), action_labels=["stay", "go"], start="y")
    assert (mdp.start, mdp.find_state("z"), mdp.find_state("1")) == (2, 3, 1)
    assert mdp.action_name(1) == "go"
    with pytest.raises(StateError, match="labels are w, x, y, z"):
        mdp.find_state("q")
    assert "horizon=3" in repr(mdp)


def test_arrays_are_read_only():
    mdp = build()
    with pytest.raises(ValueError, match="read-only"):
        mdp.losses[0] = 1.0


def test_options_can_be_changed():
    mdp = build().with_options(horizon=9, discount=0.5, start=3)
    assert (mdp.horizon, mdp.discount, mdp.start) == (9, 0.5, 3)
    assert not mdp.equals(build())
    for bad in ({"horizon": 0}, {"discount": 2.0}):
        with pytest.raises(ModelError):
            mdp.with_options(**bad)


@pytest.mark.parametrize("seed", range(8))
def test_shared_losses_are_of_rows_that_go_on_at_one_loss(seed):
    mdp = random_mdp(seed, done=True, scale=0.0 if seed % 2 else 1.0)
    mdp = replace(mdp, losses=mdp.losses.round())  # some outcomes of a row cost the same, and neighbours of two rows
    for row in range(mdp.num_rows):
        kept = slice(mdp.outcome_offsets[row], mdp.outcome_offsets[row + 1])
        alike = len(set(mdp.losses[kept].tolist())) == 1 and not mdp.done[kept].any()
        assert np.array_equal(mdp.shared_losses[row], mdp.losses[kept][0] if alike else np.nan, equal_nan=True)


def test_cumulative_rows_end_in_one():
    mdp = random_mdp(3, states=6)
    data = mdp.data
    assert (data.cumulative[mdp.outcome_offsets[1:] - 1] == 1.0).all()
    long = TabularMDP.from_outcomes(
        np.zeros(150_000, int), np.arange(150_000) // 3, np.zeros(150_000, int), np.tile([0.2, 0.3, 0.5], 50_000),
        np.zeros(150_000), horizon=1,
    )  # fmt: skip
    assert long.data.cumulative.reshape(-1, 3) == pytest.approx(np.tile([0.2, 0.5, 1.0], (50_000, 1)), abs=1e-15)


def test_sizes_and_names_out_of_range():
    for options, message in (
        ({"horizon": 10**30}, "at most 10000000"),
        ({"state_labels": "wxyz"}, "sequence of names"),
        ({"action_labels": 2}, "sequence of names"),
    ):
        with pytest.raises(ModelError, match=message):
            build(**options)
    with pytest.raises(ModelError, match="actions, not"):
        TabularMDP.from_outcomes([0, 3], [2**62, 0], [0, 0], [1.0, 1.0], [0.0, 1.0], horizon=1)


def test_one_state_and_one_action_need_no_order():
    one = TabularMDP.from_arrays([[[1.0]]], [[[2.0]]], horizon=1)
    assert (one.num_states, one.num_actions, one.outcomes(0, 0)[0].cost) == (1, 1, 2.0)


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"horizon": -1}, "horizon"),
        ({"discount": 2.0}, "discount"),
        ({"start": 99}, "start 99"),
        ({"sense": "joy"}, "'joy'"),
        ({"losses": np.zeros(1)}, "losses has shape"),
        ({"probabilities": np.ones(3)}, "losses has shape"),
        ({"terminal_losses": np.zeros(1)}, "terminal_losses"),
        ({"step_losses": np.zeros((1, 1))}, "step_losses"),
        ({"next_states": np.full(S * A * S, 99, np.int32)}, "next_states[0] is 99"),
        ({"action_offsets": np.array([0, 2, 1, 4, 8])}, "action_offsets"),
        ({"outcome_offsets": np.zeros(S * A + 1, np.int64)}, "outcome_offsets"),
        ({"action_offsets": np.zeros(0, np.int64)}, "action_offsets"),
    ],
)
def test_tables_put_together_by_hand_are_checked(changed, place):
    broken = replace(build(), **changed)
    assert place in str(check_model(broken))
    with pytest.raises(ModelError):
        backward_induction(broken, 1.0)
    with pytest.raises(ModelError):
        ErmMcts(broken, 1.0)


def test_planners_refuse_what_check_model_faults():
    nan = build(np.where(SAS > 0.5, math.nan, SAS), validate=False)
    assert not check_model(nan).ok
    for plan in (backward_induction, ErmMcts):
        with pytest.raises(ModelError, match="probability nan"):
            plan(nan, 1.0)


def test_an_action_that_is_illegal_everywhere_still_counts():
    costs = SA_COSTS.copy()
    costs[:, 1] = math.inf
    mdp = build(costs=costs)
    assert (mdp.num_actions, mdp.actions(0).tolist(), mdp.action_name(0)) == (A, [0], "0")
    assert backward_induction(mdp, 1.0).q_values.shape == (H, S, A)
    assert build(costs=costs, action_labels=["stay", "go"]).action_labels == ("stay", "go")
