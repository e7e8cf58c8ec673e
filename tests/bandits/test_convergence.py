"""Both estimators reach mu* no slower than the theorem's exponent, in every setting and for every beta.

A line through (ln n, ln mean |error|) over 1.5 decades of n in each of 20 batches, and Student's t interval over
their slopes. If the decay had exactly the predicted exponent, a 95 % interval would lie wholly above it in
2.5 % of the cases; the seeds are fixed, so a case that passes keeps passing.
"""

import math

import pytest

from tailwise.bandits import ErmUcb, make_bandit, simulate
from tailwise.reproduction import ConvergenceStudy, convergence_rows, convergence_study, transient

BETAS = (-1.0, 0.1, 1.0, 3.0)
pytestmark = pytest.mark.compiled
SETTINGS = ("stationary", "drifting", "non-deterministic")


def check(rows, width):
    assert {row.theory for row in rows} == {-0.5}
    measured = [row for row in rows if row.measure == "absolute"]
    assert len(measured) == 2 * len(BETAS)
    for row in measured:
        assert row.transient < 0.016, row
        assert row.is_no_slower, row
        assert row.high - row.low < width, row  # narrow enough to mean something
        assert row.high < -0.35, row  # and far from no decay
        assert abs(row.bias) < 0.01, row


@pytest.mark.parametrize("name", SETTINGS)
def test_measured_exponents(name):
    check(
        convergence_study(ConvergenceStudy((name,), betas=BETAS, pulls=100_000, replications=100, seed=11)), width=0.2
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_measured_exponents_over_a_later_decade(name):
    rows = convergence_study(
        ConvergenceStudy((name,), betas=BETAS, pulls=1_000_000, replications=200, seed=12), threads=2
    )
    check(rows, width=0.15)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_practical_constant_shows_the_transient_that_is_predicted(name):
    """With sqrt(2) the bias of bad arms dominates and its local exponent is -1/2 plus a tenth or so."""
    algorithm = ErmUcb(0.1)
    run = simulate(make_bandit(name), algorithm, pulls=100_000, replications=40, seed=4)
    for row in convergence_rows(name, run, start=10_000):
        if row.measure == "bias":
            assert row.transient == pytest.approx(transient(algorithm, run.bandit.gap(0.1), math.sqrt(1e9)))
            assert 0.08 < row.transient < 0.13
            # Drift decays at exactly -1/2 and pulls the sum towards it; the two arms' gaps differ a little.
            assert -0.5 < row.slope < -0.5 + 1.1 * row.transient
            assert row.high - row.low < 0.03
            assert row.is_no_slower
