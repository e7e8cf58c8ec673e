"""The simulation around the loop: reproducible, thread-invariant, and right about its estimators."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tailwise import ErmMcts, LogBonus, PolynomialBonus, RangeBonus, TabularMDP
from tailwise.bandits import (
    Arm,
    Bandit,
    BonusUcb,
    Drift,
    EntropicThompson,
    ErmUcb,
    LipschitzUcb,
    Outcome,
    Ucb1,
    bernoulli,
    beta_distribution,
    discrete,
    simulate,
    uniform,
)
from tailwise.errors import ConditionError, OptionError
from tailwise.risk import erm

BANDIT = Bandit((Arm.of(beta_distribution(2, 6)), Arm.of(bernoulli(0.7)), Arm.of(uniform(0.5, 0.9))))
ALGORITHMS = [ErmUcb(1.0), LipschitzUcb(1.0), Ucb1(1.0), EntropicThompson(1.0)]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: type(one).__name__)
def test_threads_and_replications_beside_do_not_matter(algorithm):
    one = simulate(BANDIT, algorithm, pulls=400, replications=7, seed=5)
    two = simulate(BANDIT, algorithm, pulls=400, replications=7, seed=5, threads=3)
    few = simulate(BANDIT, algorithm, pulls=400, replications=3, seed=5)
    for name in ("counts", "average", "stream"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        np.testing.assert_array_equal(getattr(one, name)[:3], getattr(few, name))
    assert (one.counts.sum(axis=2) == one.checkpoints).all()
    other = simulate(BANDIT, algorithm, pulls=400, replications=7, seed=6)
    assert not np.array_equal(one.stream, other.stream)


@pytest.mark.parametrize("beta", [-3.0, -1.0, 0.0, 0.1, 1.0, 3.0])
def test_the_stream_is_on_its_side_of_the_average(beta):
    """Jensen: rho_stream >= rho_bar for beta > 0, <= for beta < 0, equal at 0."""
    run = simulate(BANDIT, ErmUcb(beta), pulls=2000, replications=50, seed=2)
    difference = run.stream - run.average
    if beta == 0.0:
        assert np.abs(difference).max() < 1e-12
    else:
        assert (np.sign(beta) * difference > -1e-12).all()
        assert np.abs(difference[:, -1]).min() > 1e-9


def test_the_stream_estimator_is_the_erm_of_the_arms_erms():
    run = simulate(BANDIT, ErmUcb(1.5), pulls=500, replications=3, seed=2, checkpoints=[3])
    assert run.stream.shape == (3, 1)
    assert (run.counts[:, 0] == 1).all()
    first = simulate(BANDIT, ErmUcb(1.5), pulls=3, replications=3, seed=2, checkpoints=[1, 2, 3])
    costs = np.column_stack([first.average[:, 0], 2 * first.average[:, 1] - first.average[:, 0]])
    for row, pair in zip(first.stream[:, 1], costs, strict=True):
        assert row == pytest.approx(erm(pair, 1.5), abs=1e-12)


@pytest.mark.compiled
def test_compiled_equals_interpreted():
    code = (
        "from tailwise.bandits import *\n"
        "b = Bandit((Arm.of(beta_distribution(2, 6)), Arm.of(uniform(.1, .7), drift=Drift(bernoulli(.5)))))\n"
        "for a in (ErmUcb(1.0), LipschitzUcb(1.0), Ucb1(1.0), EntropicThompson(1.0)):\n"
        "    r = simulate(b, a, pulls=150, replications=2, seed=9)\n"
        "    print(r.counts.sum(axis=(0, 1)).tolist(), [round(float(x), 11) for x in r.stream[:, -1]])\n"
    )
    texts = []
    for disabled in ("0", "1"):
        env = {**os.environ, "NUMBA_DISABLE_JIT": disabled}
        found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        texts.append(found.stdout)
    assert texts[0] == texts[1]
    assert texts[0].count("\n") == 4


@pytest.mark.compiled
def test_only_the_risk_aware_rules_find_the_risk_averse_arm():
    """A sure 0.5 against a Bernoulli(0.4): the means favour the gamble, ERM at 3 the sure cost.

    Shares of the safe arm are 0.9 against 0.1 or so; 40 replications leave no room for chance.
    """
    bandit = Bandit((Arm.of(uniform(0.45, 0.55)), Arm.of(bernoulli(0.4))))
    assert (bandit.best(0.0), bandit.best(3.0)) == (1, 0)
    share = {}
    for algorithm in (ErmUcb(3.0, constant=0.3), LipschitzUcb(3.0, lipschitz=1.0), Ucb1(3.0)):
        run = simulate(bandit, algorithm, pulls=20_000, replications=40, seed=4)
        share[type(algorithm).__name__] = run.counts[:, -1, 0].mean() / 20_000
    assert share["ErmUcb"] > 0.9
    assert share["LipschitzUcb"] > 0.9
    assert share["Ucb1"] < 0.2


def test_regret_and_tails_are_what_they_say():
    run = simulate(BANDIT, ErmUcb(1.0), pulls=300, replications=40, seed=1, checkpoints=[30, 300])
    by_hand = (run.counts[:, 1] * (run.risks - run.risks.min())).sum(axis=1).mean()
    assert run.regret()[1] == pytest.approx(by_hand)
    upper, lower = run.tail_frequency(0.7, 0.5, "average")
    scaled = 300 * (run.average[:, 1] - run.optimum) / 300**0.5
    assert (upper[1], lower[1]) == ((scaled >= 0.7).mean(), (scaled <= -0.7).mean())
    mean, error = run.bias("average")
    assert mean[1] == pytest.approx(run.average[:, 1].mean() - run.optimum)
    assert error[1] == pytest.approx(run.average[:, 1].std(ddof=1) / 40**0.5)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: ErmUcb(1.0, eta=0.4), ConditionError),
        (lambda: ErmUcb(1.0, constant=0.0), OptionError),
        (lambda: ErmUcb(1.0, exponent=0.5), OptionError),
        (lambda: ErmUcb(float("nan")), OptionError),
        (lambda: LipschitzUcb(1.0, lipschitz=0.5), OptionError),
        (lambda: LipschitzUcb(1e4).rule(1.0), OptionError),
        (lambda: EntropicThompson(1.0, shape=0.0), OptionError),
        (lambda: simulate(BANDIT, ErmUcb(1.0), pulls=2), OptionError),
        (lambda: simulate(BANDIT, ErmUcb(1.0), pulls=20, replications=0), OptionError),
        (lambda: simulate(BANDIT, ErmUcb(1.0), pulls=20, checkpoints=[5, 5]), OptionError),
        (lambda: simulate(BANDIT, ErmUcb(1.0), pulls=20, checkpoints=[21]), OptionError),
        (lambda: simulate(BANDIT, "ucb", pulls=20), OptionError),
        (lambda: Drift(0.5), OptionError),
        (lambda: Arm.of(bernoulli(0.5), drift=uniform(0.0, 1.0)), OptionError),
        (lambda: Arm((bernoulli(0.5),)), OptionError),
        (lambda: simulate(BANDIT, ErmUcb(1.0), pulls=20, seed=-1), OptionError),
    ],
)
def test_bad_options_are_refused(make, error):
    with pytest.raises(error):
        make()


def test_non_deterministic_arms_visit_next_states_as_often_as_they_should():
    """Costs tell the next state apart; a binomial count stays within 5 sd (error rate 6e-7)."""
    arms = (Arm((Outcome(0.25, uniform(5, 6)), Outcome(0.75, uniform(0, 1)))), Arm.of(uniform(50, 51)))
    run = simulate(Bandit(arms), ErmUcb(0.0), pulls=4000, replications=1, seed=8)
    pulls = run.counts[0, -1, 0]
    mean_cost = (run.average[0, -1] * 4000 - run.counts[0, -1, 1] * 50.5) / pulls
    assert mean_cost == pytest.approx(0.25 * 5.5 + 0.75 * 0.5, abs=5 * 2.2 / pulls**0.5 + 0.02)


def test_a_seed_sequence_is_not_used_up():
    seed = np.random.SeedSequence(4)
    first, second = (simulate(BANDIT, ErmUcb(1.0), pulls=50, replications=2, seed=seed).stream for _ in range(2))
    assert first.tolist() == second.tolist()
    assert seed.n_children_spawned == 0


def test_a_run_says_itself_what_it_is_in_json():
    run = simulate(BANDIT, ErmUcb(1.0), pulls=200, replications=6, checkpoints=[10, 200], seed=4)
    content = json.loads(json.dumps(run.to_dict(), allow_nan=False))
    assert (content["beta"], content["replications"], content["pulls"]) == (1.0, 6, [10, 200])
    assert content["risks"] == BANDIT.risks(1.0).tolist()
    assert sum(content["shares"]) == pytest.approx(1.0)
    for name in ("average", "stream"):
        bias, error = run.bias(name)
        assert (content[f"{name}_bias"], content[f"{name}_error"]) == (bias.tolist(), error.tolist())
    regrets = run.counts[:, -1] @ (run.risks - run.optimum)
    assert content["regret"][-1] == pytest.approx(regrets.mean())
    assert content["regret_error"][-1] == pytest.approx(regrets.std(ddof=1) / np.sqrt(6))
    single = simulate(BANDIT, ErmUcb(1.0), pulls=200, replications=1, seed=4).to_dict()
    assert set(single["regret_error"]) == {None}  # one replication has no standard error, and JSON no NaN


def test_a_bonus_serves_a_bandit_as_it_serves_a_search():
    """Arms with a sure cost, and a table of one step with the same: the same bonus makes the same pulls."""
    costs = [0.3, 0.2, 0.6]
    bandit = Bandit(tuple(Arm.of(discrete([cost], [1.0])) for cost in costs))
    mdp = TabularMDP.from_arrays(np.ones((1, 3, 1)), costs=[costs], order="SAS", horizon=1)
    for bonus in (PolynomialBonus(constant=0.4, eta=0.7), LogBonus(constant=0.3), PolynomialBonus(exponent=0.1)):
        run = simulate(bandit, BonusUcb(0.5, bonus), pulls=1500, replications=1, seed=0)
        # a search counts the visit at work: N(s) is one more than the pulls made, so the bonuses differ a little
        rows = ErmMcts(mdp, 0.5, bonus=bonus, seed=0).plan(iterations=1500).rows
        assert run.counts[0, -1] == pytest.approx([row.visits for row in rows], abs=3)
    with pytest.raises(OptionError, match="statistics"):
        simulate(bandit, BonusUcb(0.5, RangeBonus()), pulls=20)
