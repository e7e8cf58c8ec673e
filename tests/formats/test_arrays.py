"""MDP toolbox arrays and QuantEcon's DiscreteDP, against those libraries themselves."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from tailwise import TabularMDP, backward_induction
from tailwise.errors import ModelError
from tailwise.formats import from_discrete_dp, from_mdptoolbox, load

STEPS, DISCOUNT = 12, 0.9


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(7)
    transitions = rng.dirichlet(np.ones(5), size=(3, 5))
    transitions[rng.random(transitions.shape) < 0.4] = 0.0
    transitions[:, :, 0] += 0.1
    transitions /= transitions.sum(axis=2, keepdims=True)
    return transitions, rng.normal(size=5), rng.normal(size=(5, 3)), rng.normal(size=(3, 5, 5))


def values(mdp):
    return np.asarray(backward_induction(mdp, 0.0).values)[0]


@pytest.mark.parametrize("shape", ["S", "SA", "ASS"])
@pytest.mark.parametrize("kind", ["dense", "list", "sparse", "object"])
def test_three_rewards_in_four_guises_agree_with_mdptoolbox(arrays, shape, kind):
    transitions, rewards = arrays[0], arrays[{"S": 1, "SA": 2, "ASS": 3}[shape]]
    given, given_rewards = transitions, rewards
    if kind == "list":
        given = [m.tolist() for m in transitions]
    elif kind == "sparse":
        given = [sparse.csr_matrix(m) for m in transitions]
        given_rewards = [sparse.coo_array(m) for m in rewards] if shape == "ASS" else rewards
    elif kind == "object":
        given = np.empty(3, dtype=object)
        given[:] = [sparse.csc_matrix(m) for m in transitions]
        if shape == "ASS":
            given_rewards = np.empty(3, dtype=object)
            given_rewards[:] = [sparse.csr_matrix(m) for m in rewards]
    mdp = from_mdptoolbox(given, given_rewards, horizon=STEPS, discount=DISCOUNT)
    assert mdp.sense == "reward"
    assert mdp.num_outcomes == np.count_nonzero(transitions)
    toolbox = pytest.importorskip("mdptoolbox.mdp")
    theirs = toolbox.FiniteHorizon(transitions, rewards, DISCOUNT, STEPS)
    theirs.run()
    assert np.allclose(values(mdp), theirs.V[:, 0], rtol=0, atol=1e-8)


def test_rewards_of_transitions_keep_their_spread(arrays):
    """The toolbox averages R over next states; the table must not, or no risk is left."""
    transitions, _, _, rewards = arrays
    mdp = from_mdptoolbox(transitions, rewards, horizon=1)
    costs = {o.next_state: o.cost for o in mdp.outcomes(2, 1)}
    assert costs == {t: rewards[1, 2, t] for t in np.flatnonzero(transitions[1, 2])}


def test_sparse_stays_sparse():
    size = 100_000  # one dense (S, S) matrix would be 80 GB
    shift = sparse.eye_array(size, format="csr")
    mdp = from_mdptoolbox([shift, shift], [shift, shift * 2.0], horizon=3)
    assert mdp.num_outcomes == 2 * size
    assert mdp.outcomes(7, 1)[0].cost == 2.0


@pytest.mark.parametrize(
    ("transitions", "rewards", "said"),
    [
        (np.eye(2)[None], np.zeros(3), r"rewards has shape \(3,\)"),
        (np.eye(2)[None], np.zeros((2, 2)), r"rewards has shape \(2, 2\)"),
        (np.eye(2), np.zeros(2), r"transitions has shape \(2, 2\); expected"),
        (np.ones((1, 2, 3)), np.zeros(2), r"transitions has shape \(1, 2, 3\), which does not fit"),
        ([np.eye(2), np.eye(3)], np.zeros(2), r"transitions must hold one"),
        (np.zeros((1, 2, 2)), np.zeros(2), r"all probabilities are 0 for \(state 0, action 0\)"),
        (0.4 * np.eye(2)[None], np.zeros(2), "probabilities sum to 0.4"),
        (sparse.eye_array(2), np.zeros(2), "one sparse matrix"),
        ("abc", np.zeros(2), "transitions must hold"),
        (np.eye(2)[None], np.zeros((2, 2, 2)), r"rewards has shape \(2, 2, 2\), which does not fit"),
    ],
)
def test_wrong_toolbox_arrays(transitions, rewards, said):
    with pytest.raises(ModelError, match=said):
        from_mdptoolbox(transitions, rewards, horizon=2)


def pairs(transitions, rewards, illegal):
    """The state-action form of (A, S, S) probabilities and (S, A) rewards, some pairs left out."""
    states, actions = np.nonzero(~illegal)
    return rewards[states, actions], transitions[actions, states], states, actions


@pytest.mark.compiled  # QuantEcon itself needs its kernels compiled
@pytest.mark.parametrize("form", ["product", "pairs", "sparse pairs", "shuffled pairs"])
def test_the_forms_of_discrete_dp_agree_with_quantecon(arrays, form):
    markov = pytest.importorskip("quantecon.markov")
    transitions, _, rewards, _ = arrays
    illegal = np.zeros(rewards.shape, dtype=bool)
    illegal[1, 2] = illegal[4, 0] = True
    if form == "product":
        problem = markov.DiscreteDP(np.where(illegal, -np.inf, rewards), transitions.transpose(1, 0, 2), DISCOUNT)
    else:
        r, q, s, a = pairs(transitions, rewards, illegal)
        order = np.random.default_rng(0).permutation(r.size) if form == "shuffled pairs" else slice(None)
        q = sparse.csr_matrix(q[order]) if "sparse" in form else q[order]
        problem = markov.DiscreteDP(r[order], q, DISCOUNT, s[order], a[order])
    mdp = from_discrete_dp(problem, horizon=STEPS)
    assert (mdp.discount, mdp.sense, mdp.num_rows) == (DISCOUNT, "reward", 13)
    assert mdp.actions(1).tolist() == [0, 1]
    theirs, _ = markov.backward_induction(problem, STEPS)
    assert np.allclose(values(mdp), theirs[0], rtol=0, atol=1e-8)


def test_a_pair_with_reward_minus_infinity_is_left_out_of_the_pair_form():
    problem = SimpleNamespace(
        R=[1.0, -np.inf, 2.0], Q=np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]), beta=1.0,
        s_indices=[0, 0, 1], a_indices=[0, 1, 0],
    )  # fmt: skip
    assert from_discrete_dp(problem, horizon=2).num_rows == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"R": [1.0]}, "R, s_indices and a_indices have shapes"),
        ({"s_indices": None}, "s_indices and a_indices are needed"),
        ({"Q": [[0.5, 0.4], [1.0, 0.0]]}, "probabilities sum to 0.9"),
        ({"Q": [[0.0, 0.0], [1.0, 0.0]]}, "all probabilities are 0 for state 0, action 0"),
        ({"Q": [1.0, 2.0]}, "Q has shape"),
        ({"R": ["x", "y"]}, "R must be a numeric array"),
        ({"beta": 0.0}, "discount"),
    ],
)
def test_wrong_discrete_dps(changes, said):
    good = {
        "R": [1.0, 2.0],
        "Q": [[0.5, 0.5], [1.0, 0.0]],
        "beta": 0.5,
        "s_indices": [0, 1],
        "a_indices": [0, 0],
    }
    given = {key: np.array(v) if isinstance(v, list) else v for key, v in {**good, **changes}.items()}
    with pytest.raises(ModelError, match=said):
        from_discrete_dp(SimpleNamespace(**given), horizon=2)
    with pytest.raises(ModelError, match="no attribute 'R'"):
        from_discrete_dp(object(), horizon=2)


def test_gymnasium_tables_by_specification():
    pytest.importorskip("gymnasium")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mdp = load("gym:FrozenLake-v1?is_slippery=false&map_name=8x8", horizon=30, discount=0.9)
        assert mdp.equals(TabularMDP.from_gymnasium(_frozen_lake(), horizon=30, discount=0.9))
    assert (mdp.num_states, mdp.num_outcomes, mdp.discount) == (64, 256, 0.9)


def _frozen_lake():
    import gymnasium

    return gymnasium.make("FrozenLake-v1", is_slippery=False, map_name="8x8")
