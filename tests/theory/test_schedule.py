"""The schedule of theorem ``mcts-result``: recursion, conditions, and an independent computation."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from tailwise.errors import ConditionError, OptionError
from tailwise.theory import schedule, smallest_xi

OPTIONS = {"horizon": 4, "beta": 0.5, "actions": 3, "states": 2, "gap": 0.25, "discount": 0.9}


def slow_log_constants(horizon, beta, eta, actions, states, gap, bound, discount, xi_leaf, form):
    """The recursion written from the leaves up with plain numbers; N_p' = N_p is asserted, not assumed."""
    beta, eta, gap, bound, discount = map(mpf, (beta, eta, gap, bound, discount))
    tight, printed = form == "tight", form == "printed"
    xi, theta, logs = mpf(xi_leaf), None, []
    for h in reversed(range(horizon)):
        inner = sum((discount**k * bound for k in range(horizon - h)), mpf(0))
        outer = sum((discount**k * bound for k in range(horizon - h + 1)), mpf(0))
        b, b_next = beta * discount**h, beta * discount ** (h + 1)
        if theta is None:
            if tight:
                c = 2 * b_next**2 / (mp.exp(2 * b_next * bound) - 1) ** 2
            else:
                c = mp.exp(-8 * b_next * bound) / (8 * bound ** (4 if printed else 2))
            theta = max(mpf(1), (1 if tight else 2) * (xi / (2 * c)) ** (xi / 2) * mp.exp(-xi / 2))
        theta = max(theta, (xi / 4) ** (xi / 2) * mp.exp(-xi / 2))
        r = inner if tight else outer
        if tight:
            grow = mp.exp(2 * b_next * r) - 1
            bracket = (mp.exp(2 * b_next * r) * grow / (2 * b_next * r)) ** xi + (grow / b_next) ** xi
        else:
            bracket = r**xi + mp.exp(4 * b_next * r * xi) + (mp.exp(2 * b_next * r) / b_next) ** xi
        theta = 2 ** (xi + 1) * mpf(states) ** (xi + 1) * theta * bracket
        theta = max(theta, (gap / 2) ** xi)
        logs.append(mp.log(theta) / xi)
        alpha = eta * (1 - eta) * xi
        c = (2 / gap * theta ** (1 / xi)) ** (1 / (1 - eta))
        n_p = c ** (1 / (1 - eta))
        grown = (mp.exp(2 * b * outer) - 1) / (2 * b)
        r_prime = grown if tight else outer + grown
        assert 2 * r_prime * n_p >= n_p**eta + 2 * r_prime * (4 * actions - 3)
        both = theta if tight else 2 * theta
        theta1 = max(
            (2 * outer * n_p ** (1 - eta)) ** (1 if printed else alpha - 1),
            (2 * r_prime * actions * c) ** (alpha - 1) * both,
        )
        sums = (c + (4 / n_p**eta if tight else 4)) ** (1 if printed else alpha - 1)
        g = mp.exp(2 * b * outer) - 2 * b * outer - 1
        c2 = (actions - 1) * max(sums, 2**alpha / (alpha - 1)) * (2 * (actions - 1) * g / b) ** (alpha - 1)
        c3 = (4 * outer * n_p ** (1 - eta)) ** (1 if printed else alpha - 1)
        theta = theta1 * 2 ** (alpha - 1) + max(c2, c3)
        xi = alpha - 1
    return logs[::-1], mp.log(theta), xi


@pytest.mark.parametrize("form", ["printed", "corrected", "tight"])
@pytest.mark.parametrize(("beta", "discount"), [(0.5, 0.9), (3.0, 1.0), (0.01, 0.5)])
def test_the_schedule_matches_an_independent_recursion(form, beta, discount):
    ours = schedule(
        horizon=4,
        beta=beta,
        eta=0.5,
        actions=3,
        states=2,
        gap=0.25,
        cost_bound=1.0,
        discount=discount,
        xi=900.0,
        form=form,
    )
    with mp.workdps(60):
        logs, root, xi_root = slow_log_constants(4, beta, 0.5, 3, 2, 0.25, 1.0, discount, 900.0, form)
        for value, expected in zip(ours.log_constants, logs, strict=True):
            assert abs(mpf(float(value)) - expected) <= mpf(10) ** -12 * abs(expected)
        assert abs(mpf(ours.log_theta_root) - root) <= mpf(10) ** -12 * abs(root)
        assert abs(mpf(ours.xi_root) - xi_root) <= mpf(10) ** -12


@pytest.mark.parametrize("eta", [0.5, 0.6, 0.8])
def test_the_theorems_conditions_hold_at_every_depth(eta):
    plan = schedule(**OPTIONS, eta=eta)
    assert np.allclose(plan.alpha, eta * (1 - eta) * plan.xi, rtol=1e-14)
    assert np.allclose(plan.xi[:-1], plan.alpha[1:] - 1, rtol=1e-12)
    assert (plan.alpha > 2).all()
    assert (plan.xi > 1).all()
    assert plan.xi_root == pytest.approx(2.0)
    assert plan.bonus_exponent == pytest.approx(eta * (1 - eta))
    assert (plan.alpha < plan.xi * (1 - eta)).all()
    assert (plan.log_theta > 0).all()


def test_the_smallest_xi_is_the_border_of_what_is_admitted():
    for horizon, eta in ((1, 0.5), (3, 0.5), (3, 0.7), (8, 0.5)):
        border = smallest_xi(horizon, eta)
        above = schedule(**{**OPTIONS, "horizon": horizon}, eta=eta, xi=border * (1 + 1e-9))
        assert above.alpha[0] > 2
        assert above.xi_root > 1
        with pytest.raises(ConditionError, match=r"too small for horizon .* alpha_1 > 2 needs xi_H >"):
            schedule(**{**OPTIONS, "horizon": horizon}, eta=eta, xi=border * (1 - 1e-9))


def test_overflow_is_said_and_the_logarithms_stay():
    plan = schedule(**{**OPTIONS, "horizon": 20})
    assert plan.overflows.tolist() == [bool(np.isinf(value)) for value in plan.constants]
    assert plan.overflows[0]
    assert not plan.overflows[-1]
    assert np.isfinite(plan.log_constants).all()
    assert plan.constants[-1] == pytest.approx(math.exp(plan.log_constants[-1]))
    assert (np.diff(plan.log_constants) < 0).all()
    deep = schedule(**{**OPTIONS, "horizon": 600})
    assert np.isinf(deep.xi[-1])
    assert np.isfinite(deep.log_xi).all()
    assert np.isfinite(deep.log_constants[-380:]).all()
    assert deep.log_constants[0] == np.inf


def test_rows_repeat_the_arrays():
    plan = schedule(**OPTIONS)
    row = plan.rows[2]
    assert row.depth == 2
    assert (row.alpha, row.log_constant) == (plan.alpha[2], plan.log_constants[2])
    assert row.beta == pytest.approx(0.5 * 0.81)
    assert plan.radius.tolist() == pytest.approx([4.0951, 3.439, 2.71, 1.9])


def test_no_admissible_constant_is_as_small_as_the_practical_one():
    """theta^L > 2^xi, so (theta^L)^(1/xi) > 2 > sqrt(2): the practical constant is outside the theorem."""
    for form in ("printed", "corrected", "tight"):
        plan = schedule(horizon=2, beta=1e-6, gap=1.9, form=form, states=1, terminal="deterministic")
        assert (plan.log_constants > math.log(2.0)).all()


def test_deterministic_terminal_costs_only_help():
    random, fixed = schedule(**OPTIONS), schedule(**OPTIONS, terminal="deterministic")
    assert fixed.log_theta[-1] == 0.0
    assert (fixed.log_constants < random.log_constants).all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"beta": 0.0}, ConditionError, "beta > 0"),
        ({"eta": 0.3}, ConditionError, "1/2 <= eta < 1"),
        ({"gap": 0.0}, ConditionError, "gap at depth 0"),
        ({"gap": [0.1, 0.1, 0.1, 9.0]}, ConditionError, "gap at depth 3"),
        ({"gap": [0.1]}, OptionError, "1 entries for horizon 4"),
        ({"xi": 30.0}, ConditionError, r"xi_H > 596 at eta = 0.5 \(smallest_xi\(4, 0.5\)\)"),
        ({"horizon": 0}, OptionError, "horizon"),
        ({"discount": 0.0}, OptionError, "discount"),
        ({"terminal": "none"}, OptionError, "terminal"),
        ({"actions": 1}, OptionError, "actions"),
    ],
)
def test_errors_name_the_condition(change, error, message):
    with pytest.raises(error, match=message):
        schedule(**{**OPTIONS, **change})
