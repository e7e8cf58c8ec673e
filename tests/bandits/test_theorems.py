"""The bounds hold where they are claimed, exactly or in simulation; and the printed slips are real."""

import math

import numpy as np
import pytest
from scipy import special, stats

from tailwise.bandits import (
    Arm,
    Bandit,
    ErmUcb,
    Outcome,
    bandit_constants,
    bernoulli,
    beta_distribution,
    make_bandit,
    simulate,
    uniform,
)
from tailwise.errors import ConditionError
from tailwise.theory import (
    average_constants,
    log_concentration_constant,
    log_exponential_tail,
    log_theta,
    log_theta_nondeterministic,
    log_theta_transitions,
    stream_constants,
)


def two_point_tails(count, share, low, high, beta):
    """Exact law of the estimator of Bernoulli costs: errors by number of high costs, and both tails."""
    k = np.arange(count + 1)
    values = np.log((1 - k / count) * math.exp(beta * low) + k / count * math.exp(beta * high)) / beta
    exact = math.log((1 - share) * math.exp(beta * low) + share * math.exp(beta * high)) / beta
    upper = stats.binom.sf(k - 1, count, share)
    lower = stats.binom.cdf(k, count, share)
    return values - exact, upper, lower


@pytest.mark.parametrize("form", ["corrected", "tight"])
@pytest.mark.parametrize("radius", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("beta", [0.01, 0.3, 1.0, 3.0])
def test_the_exponential_bound_holds_exactly_for_two_point_costs(form, radius, beta):
    informative = 0
    for share in (0.02, 0.3, 0.5, 0.9):
        for count in (1, 2, 10, 100, 2000):
            errors, upper, lower = two_point_tails(count, share, -radius, radius, beta)
            constant = math.exp(log_concentration_constant(beta, radius, form=form))
            bound = (1 if form == "tight" else 2) * np.exp(-constant * count * errors**2)
            tail = np.where(errors > 0, upper, lower)
            assert (tail <= bound * (1 + 1e-9))[errors != 0].all()
            informative += int((bound < 0.5).sum())
            last = math.exp(log_exponential_tail(count, abs(errors[-1]), beta, radius, form=form))
            assert last == pytest.approx(bound[-1], rel=1e-9)
    assert informative > 50 or beta * radius > 1


def test_the_printed_constant_is_false_for_small_costs():
    """One cost of +-R with R = 0.1: |rho_1 - rho| is about R surely, the printed bound says 2 exp(-12.3)."""
    beta, radius = 0.01, 0.1
    errors, upper, _ = two_point_tails(1, 0.5, -radius, radius, beta)
    assert upper[1] == 0.5
    assert math.exp(log_exponential_tail(1, errors[1], beta, radius, form="printed")) < 1e-5
    assert math.exp(log_exponential_tail(1, errors[1], beta, radius, form="corrected")) > 0.5


def test_the_printed_constant_is_false_just_below_one_half_for_small_beta():
    """10^4 fair coins of +-0.48: 6199 heads are e^15.9 times as likely as the print allows."""
    beta, radius, count, heads = 0.001, 0.48, 10_000, 6199
    errors, _, _ = two_point_tails(count, 0.5, -radius, radius, beta)
    truth = stats.binom.logsf(heads - 1, count, 0.5)
    excess = {
        form: truth - log_exponential_tail(count, errors[heads], beta, radius, form=form)
        for form in ("printed", "corrected", "tight")
    }
    assert excess["printed"] == pytest.approx(15.86, abs=0.01)
    assert max(excess["corrected"], excess["tight"]) < 0


def test_the_printed_constant_holds_wherever_the_tight_one_implies_it():
    """From R = 1/2 on for every beta; below that where R >= (exp(-2b) - exp(-4b)) / (4b), b = beta R."""
    for radius in (0.3, 0.48, 0.5, 0.7, 1.0, 5.0):
        for beta in (1e-9, 1e-3, 0.1, 1.0, 3.0, 30.0):
            b = beta * radius
            border = math.exp(-4 * b) * math.expm1(2 * b) / (4 * b)
            printed, tight = (log_concentration_constant(beta, radius, form=form) for form in ("printed", "tight"))
            if abs(radius - border) > 1e-6:
                assert (printed < tight) == (radius > border)
            assert radius < 0.5 or printed <= tight + 1e-9
            assert log_concentration_constant(beta, radius) <= tight + 1e-9
    assert log_concentration_constant(1.0, 0.3, form="printed") < log_concentration_constant(1.0, 0.3, form="tight")


@pytest.mark.parametrize("form", ["corrected", "tight"])
def test_the_polynomial_bound_holds_exactly_for_two_point_costs(form):
    beta, radius = 0.2, 1.0
    for xi in (2.0, 8.0, 16.0):
        log_constant = log_theta(xi, beta, radius, form=form)
        for count in (1, 10, 100, 3000):
            for share in (0.05, 0.5):
                errors, upper, lower = two_point_tails(count, share, -radius, radius, beta)
                z = np.abs(errors) * math.sqrt(count)
                tail = np.where(errors > 0, upper, lower)
                bound = np.exp(np.minimum(0.0, log_constant - xi * np.log(np.maximum(z, 1.0))))
                assert (tail <= bound * (1 + 1e-9))[z >= 1].all()
                assert (bound[z >= 1] < 1).any() or count < 3000


def test_the_count_bound_holds_exactly():
    for xi in (1.5, 4.0, 12.0):
        constant = math.exp(log_theta_transitions(xi))
        for count in (1, 7, 100, 5000):
            for share in (0.01, 0.5, 0.8):
                k = np.arange(count + 1)
                z = np.abs(k - count * share) / math.sqrt(count)
                tail = np.where(
                    k > count * share, stats.binom.sf(k - 1, count, share), stats.binom.cdf(k, count, share)
                )
                assert (tail <= constant / np.maximum(z, 1.0) ** xi * (1 + 1e-9))[z >= 1].all()


@pytest.mark.parametrize("form", ["corrected", "tight"])
@pytest.mark.parametrize("beta", [1e-4, 0.3, 1.0])
def test_the_bound_for_random_next_states_holds_exactly(form, beta):
    """Two next states with fixed costs: the arm's estimator depends on a binomial count alone."""
    xi, radius = 4.0, 0.5
    log_constant = log_theta_nondeterministic(log_theta=0.0, xi=xi, beta=beta, radius=radius, states=2, form=form)
    for count in (10, 1000, 1_000_000):
        for share in (0.1, 0.5):
            k = np.unique(np.linspace(0, count, 1001).round())
            low, high = math.exp(-beta * radius), math.exp(beta * radius)
            errors = np.log((1 - k / count) * low + k / count * high) / beta
            errors -= math.log((1 - share) * low + share * high) / beta
            tail = np.where(errors > 0, stats.binom.sf(k - 1, count, share), stats.binom.cdf(k, count, share))
            z = np.abs(errors) * math.sqrt(count)
            bound = np.exp(np.minimum(0.0, log_constant - xi * np.log(np.maximum(z, 1.0))))
            assert (tail <= bound * (1 + 1e-9))[z >= 1].all()
            # The printed bracket holds exp(2 beta R) / beta: at beta = 1e-4 it says nothing.
            assert count < 1_000_000 or (bound < 0.1).any() or (form == "corrected" and beta < 0.01)


SURE = {
    "log_theta": math.log(1.0001),  # the paper asks for theta > 1
    "alpha": 3.0,
    "xi": 12.0,
    "eta": 0.5,
    "arms": 2,
    "gap": 0.2,
    "beta": 1.0,
    "radius": 0.1,
}


def sure_run():
    """Two arms of constant cost: no estimation error at all, so any theta > 1 is a valid constant."""
    bandit = Bandit((Arm.of(uniform(0.0, 0.0)), Arm.of(uniform(0.2, 0.2))))
    algorithm = ErmUcb.from_constants(average_constants(**SURE))
    assert (algorithm.constant, algorithm.exponent) == (pytest.approx(1.0001 ** (1 / 12)), 0.25)
    return simulate(bandit, algorithm, pulls=300_000, replications=1, seed=0)


@pytest.mark.compiled
def test_the_printed_lemma_on_bad_arms_is_false_and_the_corrected_one_holds():
    run = sure_run()
    late = run.checkpoints >= math.exp(average_constants(**SURE).log_n_p) - 0.5
    assert late.sum() >= 5
    share = run.counts[0, late, 1] / run.checkpoints[late] ** 0.5  # T_2(n) >= n^eta' x surely for this x
    bounds = {}
    for form in ("printed", "corrected", "tight"):
        stream = stream_constants(average_constants(**SURE, form=form))
        bounds[form] = np.array([stream.log_arm_tail(x) for x in share])
    assert (bounds["printed"] < 0.0).all()  # a probability of 1 "bounded" by less
    assert bounds["printed"].min() < math.log(0.5)
    assert (bounds["corrected"] >= 0.0).all()
    assert (bounds["tight"] >= 0.0).all()


def test_the_printed_sum_fails_just_below_whole_numbers_and_the_corrected_one_does_not():
    """sum_{t > y} t^-alpha <= y^(1-alpha)/(alpha-1) at y = (1 + A) x is the step; A x repairs it."""
    alpha, broken = 3.0, 0
    for pulls in (1, 2, 10):
        for x in np.linspace(1.0, 4.0, 301):
            y = (1 + pulls) * x
            left = special.zeta(alpha, math.floor(y) + 1)
            broken += left > y ** (1 - alpha) / (alpha - 1)
            assert left <= (pulls * x) ** (1 - alpha) / (alpha - 1)
    assert broken > 50


def test_the_printed_theta_prime_is_below_what_small_n_needs():
    """For n < N_p' the proof needs theta' / z^(alpha-1) >= 1 up to z = c_2."""
    case = {
        "log_theta": math.log(1.0001),
        "alpha": 3.0,
        "xi": 12.0,
        "eta": 0.5,
        "arms": 50,
        "gap": 1.99,
        "beta": 1e-3,
        "radius": 1.0,
    }
    printed, corrected = (average_constants(**case, form=form) for form in ("printed", "corrected"))
    z = math.exp(printed.log_c2)
    assert printed.log_tail(z) < -1.0
    assert corrected.log_tail(z) >= -1e-9


@pytest.mark.compiled
@pytest.mark.parametrize("form", ["corrected", "tight"])
def test_tails_and_bias_stay_under_the_theorems_bounds(form):
    """1000 replications; a frequency may exceed its bound by 4 standard errors (3e-5 each, one-sided)."""
    beta = 0.1
    bandit = Bandit((Arm.of(beta_distribution(2, 2, 0.0, 0.2)), Arm.of(bernoulli(0.8, 0.7, 0.95))))
    constants = bandit_constants(bandit, beta, form=form)
    stream = stream_constants(constants)
    points = [2, 5, 20, 100, 1000, 10_000]
    run = simulate(
        bandit,
        ErmUcb.from_constants(constants),
        pulls=10_000,
        replications=1000,
        seed=3,
        checkpoints=points,
        threads=2,
    )
    informative = 0
    for name, tail in (("average", constants.log_tail), ("stream", stream.log_tail)):
        for z in (1.0, 2.0, 5.0, 10.0, 30.0, 90.0):
            bound = math.exp(min(0.0, tail(z)))
            informative += bound < 1.0
            for frequency in run.tail_frequency(z, constants.eta_prime, name):
                error = np.sqrt(frequency * (1 - frequency) / 1000)
                assert (frequency <= bound + 4 * error).all()
    assert informative >= 1 or form == "corrected"  # whose theta is too large to say anything here
    late = run.checkpoints >= math.exp(constants.log_n_p)
    for x in (1.0, 3.0, 10.0, 30.0):
        frequency = (run.counts[:, :, 1] >= run.checkpoints**0.5 * x).mean(axis=0)
        assert (frequency <= math.exp(min(0.0, stream.log_arm_tail(x))) + 1e-12)[late].all()
    bias, error = run.bias("average")
    bounds = np.exp([constants.log_bias_bound(int(n)) for n in run.checkpoints])
    assert (np.abs(bias) <= bounds + 4 * error).all()
    assert bounds[-1] < 1.0 or form == "corrected"  # the tight one says something at the end
    absolute = np.abs(run.errors("stream")).mean(axis=0)
    assert (absolute <= np.exp([min(700.0, stream.log_error_bound(int(n))) for n in run.checkpoints])).all()


@pytest.mark.compiled
def test_drift_satisfies_the_assumption_it_is_meant_to():
    """The first arm alone: ``n |E rho_n - mu|`` grows like n^(1/2), the assumption's scale at eta = 1/2."""
    bandit = make_bandit("drifting")
    only = Bandit((bandit.arms[0], Arm.of(uniform(50.0, 50.0))))
    run = simulate(
        only,
        ErmUcb(1.0, constant=1e-6),
        pulls=20_000,
        replications=200,
        seed=5,
        checkpoints=[100, 1000, 20_000],
    )
    assert (run.counts[:, -1, 1] == 1).all()
    pulls = run.checkpoints - 1
    estimate = (run.average * run.checkpoints - 50.0) / pulls
    scaled = (estimate.mean(axis=0) - bandit.arms[0].erm(1.0)) * pulls**0.5
    assert (scaled > 0).all()
    assert scaled.max() < 2.0
    assert scaled[2] < 1.3 * scaled[1]


def branching_bandit():
    """Two arms with an immediate cost and two next states each, stationary costs, discount 0.9."""
    low = Arm((Outcome(0.7, uniform(0.0, 0.1)), Outcome(0.3, beta_distribution(2, 2, 0.05, 0.15))), cost=0.0)
    high = Arm((Outcome(0.5, uniform(0.3, 0.4)), Outcome(0.5, bernoulli(0.5, 0.35, 0.45))), cost=0.5)
    return Bandit((low, high), discount=0.9)


@pytest.mark.compiled
@pytest.mark.parametrize("form", ["corrected", "tight"])
def test_random_next_states_stay_under_their_bounds(form):
    """From next states to arm to bandit; a frequency may exceed its bound by 4 standard errors."""
    beta, discount, xi = 0.2, 0.9, 16.0
    bandit = branching_bandit()
    inner = 0.225  # the next states' costs lie in [0, 0.45]
    theta = log_theta(xi, beta * discount, inner, form=form)
    theta_arm = log_theta_nondeterministic(
        log_theta=theta, xi=xi, beta=beta * discount, radius=inner, states=2, form=form
    )
    # One arm alone, the other priced out: its estimator against theta^L.
    alone = Bandit((bandit.arms[0], Arm.of(uniform(50.0, 50.0))), discount=discount)
    points = [2, 11, 101, 2001]
    run = simulate(alone, ErmUcb(beta, constant=1e-6), pulls=2001, replications=1000, seed=6, checkpoints=points)
    pulls = run.checkpoints - 1
    errors = (run.average * run.checkpoints - 50.0 * discount) / pulls - bandit.arms[0].erm(beta, discount)
    for z in (1.0, 2.0, 10.0):
        frequency = (np.abs(errors) * pulls**0.5 >= z).mean(axis=0)
        assert (frequency <= 2 * math.exp(min(0.0, theta_arm - xi * math.log(z)))).all()
    assert np.abs(errors[:, -1]).max() * 2000**0.5 < math.exp((theta_arm + math.log(1e4)) / xi)
    constants = bandit_constants(bandit, beta, xi=xi, form=form)
    assert constants.log_theta == pytest.approx(theta_arm, rel=1e-12)
    stream = stream_constants(constants)
    both = simulate(bandit, ErmUcb.from_constants(constants), pulls=5000, replications=300, seed=7)
    for name, tail in (("average", constants.log_tail), ("stream", stream.log_tail)):
        for z in (1.0, 3.0, 20.0, 60.0):
            for frequency in both.tail_frequency(z, constants.eta_prime, name):
                error = np.sqrt(frequency * (1 - frequency) / 300)
                assert (frequency <= math.exp(min(0.0, tail(z))) + 4 * error).all()
    bias, error = both.bias("average")
    bounds = [math.exp(min(700.0, constants.log_bias_bound(int(n)))) for n in both.checkpoints]
    assert (np.abs(bias) <= np.array(bounds) + 4 * error).all()


def test_constants_of_a_bandit_refuse_what_the_theorems_do_not_cover():
    same = Arm.of(uniform(0.0, 1.0))
    for bandit, beta, message in (
        (make_bandit("drifting"), 1.0, "drift"),
        (Bandit((same, same)), 1.0, "one optimal arm"),
        (make_bandit("stationary"), -1.0, "beta > 0"),
    ):
        with pytest.raises(ConditionError, match=message):
            bandit_constants(bandit, beta)
