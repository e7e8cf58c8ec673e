"""Every constant against the paper's formulas in linear space, in 80-digit binary arithmetic."""

import itertools
import math

import pytest
from mpmath import mp, mpf

from tailwise.errors import ConditionError, OptionError
from tailwise.theory import (
    average_constants,
    log_concentration_constant,
    log_exponential_tail,
    log_theta,
    log_theta_nondeterministic,
    log_theta_transitions,
    stream_constants,
)

BETAS = (1e-6, 0.1, 1.0, 3.0, 40.0)
RADII = (0.05, 0.5, 1.0, 20.0)
CASES = [  # log_theta, alpha, xi, eta, arms, gap, beta, radius
    (0.0, 3.0, 12.0, 0.5, 2, 0.2, 1.0, 0.5),
    (0.0, 2.5, 10.0, 0.5, 10, 1.9, 0.1, 1.0),
    (2.0, 3.0, 12.0, 0.5, 4, 3.7, 0.01, 2.0),
    (0.0, 3.0, 12.0, 0.5, 50, 1.99, 1e-3, 1.0),
    (0.5, 2.5, 10.0, 0.6, 40, 0.9, 0.5, 0.5),
    (0.0, 4.0, 12.0, 0.5, 30, 2.0, 1e-4, 1.0),
    (0.25, 2.4, 12.0, 0.75, 7, 1.5, 0.3, 1.0),
    (12.0, 5.0, 14.0, 0.55, 3, 0.3, 2.0, 1.0),
    (300.0, 6.0, 24.0, 0.5, 5, 0.05, 3.0, 4.0),
]


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(80):
        yield


def close(ours, theirs):
    """Agreement to 1e-12 relative in log space (absolute for logarithms below 1)."""
    return abs(mpf(ours) - theirs) <= mpf(10) ** -12 * max(mpf(1), abs(theirs))


def slow_c(beta, radius, form):
    beta, radius = mpf(beta), mpf(radius)
    if form == "tight":
        return beta**2 * mp.exp(-2 * beta * radius) / (2 * mp.sinh(beta * radius) ** 2)
    omega, smooth = beta * mp.exp(-2 * beta * radius), beta * mp.exp(2 * beta * radius)
    sigma = radius**2 if form == "printed" else radius
    return omega**2 / (8 * smooth**2 * sigma**2)


def slow_theta(xi, beta, radius, form):
    c, xi = slow_c(beta, radius, form), mpf(xi)
    return max(mpf(1), (1 if form == "tight" else 2) * (xi / (2 * c)) ** (xi / 2) * mp.exp(-xi / 2))


def slow_average(*case_and_form):
    """The theorem in one form; "tight" is the better of the tight and the corrected formulas."""
    *case, form = case_and_form
    found = slow_formulas(*case, form)
    if form != "tight":
        return found
    return min(found, slow_formulas(*case, "corrected"), key=lambda parts: parts["theta1"])


def slow_formulas(log_theta_value, alpha, xi, eta, arms, gap, beta, radius, form):
    """Theorem ``non-stationary-bandit-results``, by search over t = 1, 2, ... where the theorem says min."""
    alpha, xi, eta, gap, beta, radius = map(mpf, (alpha, xi, eta, gap, beta, radius))
    theta = max(mp.exp(mpf(log_theta_value)), (gap / 2) ** xi)
    growth = (mp.exp(2 * beta * radius) - 1) / (2 * beta)
    r_prime = growth if form == "tight" else radius + growth
    eta1 = alpha / (xi * (1 - eta))
    c = (2 / gap * theta ** (1 / xi)) ** (1 / (1 - eta))

    def pulls(t):
        # A value that is whole in exact arithmetic must not be lifted by the last of 80 digits.
        return mp.ceil(c * mpf(t) ** eta1 * (1 - mpf(10) ** -70))

    def late_enough(t):
        if form == "tight":
            return 2 * r_prime * c * mpf(t) ** eta1 >= mpf(t) ** eta + 2 * r_prime * (4 * arms - 4)
        return 2 * r_prime * pulls(t) >= mpf(t) ** eta + 2 * r_prime * (4 * arms - 3)

    start = c ** (1 / (1 - eta1))
    if start < 20_000:
        n_p = next(mpf(t) for t in itertools.count(1) if t >= pulls(t))
        n_p1 = next(mpf(t) for t in itertools.count(int(n_p)) if late_enough(t))
    else:
        n_p = mp.ceil(start * (1 - mpf(10) ** -70))
        assert late_enough(n_p)
        n_p1 = n_p
    c1, c2 = 2 * r_prime * arms * c, 2 * radius * (n_p1 - 1) ** (1 - eta1)
    base = 1 + pulls(n_p1) if form == "printed" else pulls(n_p1)
    rest = mpf(2 * (arms - 1)) / ((alpha - 1) * base ** (alpha - 1))
    both = theta + rest if form == "tight" else 2 * max(theta, rest)
    theta1 = max(c2 if form == "printed" else c2 ** (alpha - 1), c1 ** (alpha - 1) * both)
    return {
        "theta": theta,
        "c": c,
        "eta1": eta1,
        "n_p": n_p,
        "n_p1": n_p1,
        "c1": c1,
        "c2": c2,
        "theta1": theta1,
    }


def slow_stream(parts, alpha, arms, beta, radius, form):
    """Theorem ``non-stationary-bandit-results-stream-estimator``."""
    alpha, beta, radius = mpf(alpha), mpf(beta), mpf(radius)
    c1 = parts["theta1"] * 2 ** (alpha - 1)
    four = 4 / parts["n_p"] ** parts["eta1"] if form == "tight" else 4
    first = parts["c"] + four
    bracket = max(first if form == "printed" else first ** (alpha - 1), 2**alpha / (alpha - 1))
    growth = mp.exp(2 * beta * radius) - 2 * beta * radius - 1
    c2 = (arms - 1) * bracket * (beta / (2 * (arms - 1) * growth)) ** (1 - alpha)
    c3 = 4 * radius * (parts["n_p"] - 1) ** (1 - parts["eta1"])
    small = c3 if form == "printed" else c3 ** (alpha - 1)
    return bracket, c1, c2, c3, max(c1 + max(c2, small), parts["theta1"])


@pytest.mark.parametrize("form", ["printed", "corrected", "tight"])
def test_concentration_and_theta_match_high_precision(form):
    for beta, radius in itertools.product(BETAS, RADII):
        c = slow_c(beta, radius, form)
        assert close(log_concentration_constant(beta, radius, form=form), mp.log(c))
        bound = (1 if form == "tight" else 2) * mp.exp(-c * 700 * mpf(0.3) ** 2)
        assert close(log_exponential_tail(700, 0.3, beta, radius, form=form), mp.log(bound))
        for xi in (1.5, 16.0, 1e6):
            assert close(log_theta(xi, beta, radius, form=form), mp.log(slow_theta(xi, beta, radius, form)))


def test_theta_of_transitions_matches_high_precision():
    for xi in (1.5, 4.0, 12.0, 1e5):
        expected = max(mpf(1), (mpf(xi) / 4) ** (mpf(xi) / 2) * mp.exp(-mpf(xi) / 2))
        assert close(log_theta_transitions(xi), mp.log(expected))


@pytest.mark.parametrize("form", ["printed", "corrected", "tight"])
@pytest.mark.parametrize("case", CASES)
def test_average_and_stream_constants_match_high_precision(case, form):
    names = ("log_theta", "alpha", "xi", "eta", "arms", "gap", "beta", "radius")
    options = dict(zip(names, case, strict=True))
    ours = average_constants(**options, form=form)
    theirs = slow_average(*case, form)
    pairs = [
        (ours.log_theta, "theta"),
        (ours.log_coefficient, "c"),
        (ours.log_n_p, "n_p"),
        (ours.log_n_p_prime, "n_p1"),
        (ours.log_c1, "c1"),
        (ours.log_theta_prime, "theta1"),
    ]
    for value, name in pairs:
        assert close(value, mp.log(theirs[name])), name
    assert ours.log_c2 == -math.inf if theirs["c2"] == 0 else close(ours.log_c2, mp.log(theirs["c2"]))
    assert close(ours.eta_prime, theirs["eta1"])
    stream = stream_constants(ours)
    bracket, c1, c2, c3, theta = slow_stream(theirs, case[1], case[4], case[6], case[7], form)
    assert close(stream.log_arm_bracket, mp.log(bracket))
    assert close(stream.log_c1, mp.log(c1))
    assert close(stream.log_c2, mp.log(c2))
    assert stream.log_c3 == -math.inf if c3 == 0 else close(stream.log_c3, mp.log(c3))
    assert close(stream.log_theta_second, mp.log(theta))
    assert stream.log_tail(2.0) == pytest.approx(float(mp.log(theta) - (case[1] - 1) * mp.log(2)), rel=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_tight_is_never_larger_and_printed_never_larger_than_corrected(case):
    names = ("log_theta", "alpha", "xi", "eta", "arms", "gap", "beta", "radius")
    printed, corrected, tight = (
        average_constants(**dict(zip(names, case, strict=True)), form=form)
        for form in ("printed", "corrected", "tight")
    )
    assert tight.log_theta_prime <= corrected.log_theta_prime
    assert printed.log_theta_prime <= corrected.log_theta_prime
    streams = [stream_constants(one).log_theta_second for one in (printed, corrected, tight)]
    assert streams[0] <= streams[1]
    assert streams[2] <= streams[1]


def test_the_cases_reach_a_late_start():
    """Some cases have N_p' > N_p, or the search for it would go untested."""
    names = ("log_theta", "alpha", "xi", "eta", "arms", "gap", "beta", "radius")
    found = [average_constants(**dict(zip(names, case, strict=True))) for case in CASES]
    assert sum(one.log_n_p_prime > one.log_n_p + 0.01 for one in found) >= 3


def test_bias_bounds_match_the_formulas():
    case = CASES[0]
    _, alpha, xi, eta, arms, gap, beta, radius = map(mpf, case)
    constants = average_constants(log_theta=0.0, alpha=3.0, xi=12.0, eta=0.5, arms=2, gap=0.2, beta=1.0, radius=0.5)
    n = mpf(5000)
    own = n ** (eta - 1) * (1 + 2 / (xi - 1))
    growth = 2 * radius + (mp.exp(2 * beta * radius) - 1) / beta
    count = (2 / gap) ** (1 / (1 - eta)) * n ** (alpha / (xi * (1 - eta))) + 2 / (alpha - 2) + 1
    assert close(constants.log_bias_bound(5000), mp.log(own + growth * (arms - 1) * count / n))
    stream = stream_constants(constants)
    theta = mp.exp(mpf(stream.log_theta_second))
    assert close(stream.log_error_bound(5000), mp.log((1 + 2 * theta / (alpha - 2)) * n ** (mpf(0.5) - 1)))
    assert math.exp(constants.log_a(5000)) == pytest.approx(float(mp.ceil(100 * mp.sqrt(n))), rel=1e-12)


def test_the_tight_errors_integrate_the_tail_cut_at_one():
    """``E|Z|`` from ``P[|Z| >= z] <= min(1, 2 theta / z^xi)``, by quadrature."""
    options = {
        "log_theta": 5.0,
        "alpha": 3.0,
        "xi": 12.0,
        "eta": 0.5,
        "arms": 2,
        "gap": 0.2,
        "beta": 1.0,
        "radius": 0.5,
    }
    constants = average_constants(**options, form="tight")
    n, theta = mpf(5000), mp.exp(5)

    def mean(log_theta_value, exponent):
        factor, exponent = 2 * mp.exp(mpf(log_theta_value)), mpf(exponent)
        cut = factor ** (1 / exponent)
        return cut + mp.quad(lambda z: factor / z**exponent, [cut, mp.inf])

    own = mean(5, 12) / mp.sqrt(n)
    count = (2 * theta ** (mpf(1) / 12) / mpf(options["gap"])) ** 2 * mp.sqrt(n) + 3
    assert close(
        constants.log_bias_bound(5000), mp.log(own + 2 * mp.exp(mpf(str(constants.exact.log_radius_prime))) * count / n)
    )
    stream = stream_constants(constants)
    assert close(stream.log_error_bound(5000), mp.log(mean(stream.log_theta_second, 2) / mp.sqrt(n)))


@pytest.mark.parametrize(("form", "slope"), [("printed", 48.0), ("corrected", 48.0), ("tight", 6.0)])
def test_what_beta_does_to_the_bias_bound(form, slope):
    """Own error: exp(4 beta R xi), or its xi-th root; bad pulls: exp(10 beta R), or exp(6 beta R) by the tight C."""

    def bound(beta):
        theta = log_theta(12.0, beta, 1.0, form=form)
        options = {"alpha": 3.0, "xi": 12.0, "eta": 0.5, "arms": 2, "gap": 0.1, "beta": beta, "radius": 1.0}
        return average_constants(log_theta=theta, form=form, **options).log_bias_bound(10**6)

    assert bound(401.0) - bound(400.0) == pytest.approx(slope, abs=0.02)


@pytest.mark.parametrize("form", ["printed", "corrected", "tight"])
def test_theta_of_an_arm_matches_high_precision(form):
    for beta, radius, xi, states in itertools.product((1e-6, 0.1, 3.0), (0.3, 2.0), (2.0, 36.0), (1, 5)):
        b, r, x = mpf(beta), mpf(radius), mpf(xi)
        theta = max(mp.exp(mpf(4)), (x / 4) ** (x / 2) * mp.exp(-x / 2))
        if form == "tight":
            growth = mp.expm1(2 * b * r)
            bracket = (mp.exp(2 * b * r) * growth / (2 * b * r)) ** x + (growth / b) ** x
        else:
            bracket = r**x + mp.exp(4 * b * r) ** x + mp.exp(2 * b * r) ** x / b**x
        expected = 2 ** (x + 1) * mpf(states) ** (x + 1) * theta * bracket
        ours = log_theta_nondeterministic(log_theta=4.0, xi=xi, beta=beta, radius=radius, states=states, form=form)
        assert close(ours, mp.log(expected))


GOOD = {
    "log_theta": 0.0,
    "alpha": 3.0,
    "xi": 12.0,
    "eta": 0.5,
    "arms": 2,
    "gap": 0.2,
    "beta": 1.0,
    "radius": 0.5,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eta": 0.49}, r"1/2 <= eta < 1, not eta = 0.49"),
        ({"eta": 1.0}, r"1/2 <= eta < 1"),
        ({"alpha": 2.0}, r"alpha > 2, not alpha = 2"),
        ({"alpha": 2.9}, r"xi eta \(1 - eta\) <= alpha < xi \(1 - eta\), here 3 <= alpha < 6"),
        ({"alpha": 6.0}, r"here 3 <= alpha < 6"),
        ({"xi": 1.0}, r"xi > 1"),
        ({"xi": 5.0}, r"alpha < xi \(1 - eta\)"),
        ({"beta": 0.0}, r"need beta > 0.*mean"),
        ({"beta": -1.0}, r"need beta > 0.*reflect"),
        ({"gap": 0.0}, r"one optimal arm"),
        ({"gap": 1.1}, r"\(0, 2 R\] = \(0, 1\]"),
    ],
)
def test_a_broken_condition_is_named(change, message):
    average_constants(**GOOD)
    with pytest.raises(ConditionError, match=message):
        average_constants(**{**GOOD, **change})


@pytest.mark.parametrize(
    "change", [{"form": "right"}, {"arms": 1}, {"radius": 0.0}, {"log_theta": -1.0}, {"alpha": "3"}]
)
def test_a_bad_argument_is_an_option_error(change):
    with pytest.raises(OptionError):
        average_constants(**{**GOOD, **change})


@pytest.mark.parametrize(("form", "arms", "gap", "expected"), [("corrected", 3, 10.0, 11), ("tight", 6, 1.0, 26)])
def test_the_late_start_is_exact_where_the_slope_drowns_the_other_term(form, arms, gap, expected):
    """2R' is about 1e130: t^eta is beyond the last digit of 2R' A(t), and still it decides at A(t) = m."""
    alpha, xi, eta, beta = (2.140885043537255, 9, 0.75, 3.0) if form == "corrected" else (3.0, 12, 0.5, 10.0)
    ours = average_constants(
        log_theta=4.0 if form == "corrected" else 0.0, alpha=alpha, xi=xi, eta=eta, arms=arms, gap=gap, beta=beta,
        radius=50.0, form=form,
    )  # fmt: skip
    assert close(ours.log_n_p_prime, mp.log(expected))
