"""What samples say of a worst case at large beta (docs, page "Choosing beta")."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailwise import erm


@given(
    st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=30),
    st.integers(1, 30),
    st.floats(0.01, 300.0),
)
def test_the_erm_stays_near_the_k_worst_samples(others, k, beta):
    """k samples of the largest cost among n keep it in [max - ln(n/k)/beta, max]."""
    worst = 5.0
    samples = [*others, *[worst] * k]
    value = erm(samples, beta)
    assert worst - math.log(len(samples) / k) / beta - 1e-9 <= value <= worst + 1e-9


@pytest.mark.parametrize(("count", "share"), [(2000, 0.05), (20_000, 0.01)])
def test_the_error_of_a_worst_case_once_seen(count, share):
    """Standard deviation 1 / (beta sqrt(n p)), up to sqrt(1 - p) and the curvature of ln; 4 standard errors."""
    beta, draws = 40.0, 3000
    seen = np.random.default_rng(0).binomial(count, share, size=draws)
    errors = np.array([erm([0.0, 1.0], beta, weights=[1 - k / count, k / count]) for k in seen])
    errors -= erm([0.0, 1.0], beta, weights=[1 - share, share])
    assert errors.std() * beta * math.sqrt(count * share) == pytest.approx(math.sqrt(1 - share), abs=0.06)


def test_when_a_disaster_counts_as_nearly_certain():
    """At p exp(beta D) = 220 the ERM is 54 of 100; it takes beta D well above ln(1/p)."""
    probability, disaster = 0.01, 100.0
    law = {"weights": [1 - probability, probability]}
    assert probability * math.exp(0.1 * disaster) == pytest.approx(220.26, abs=0.01)
    assert erm([0.0, disaster], 0.1, **law) == pytest.approx(53.99, abs=0.01)
    doubt = math.log(1 / probability)
    at_border = erm([0.0, disaster], doubt / disaster, **law)
    assert at_border == pytest.approx(math.log(2 - probability) * disaster / doubt)
    assert erm([0.0, disaster], 2 * doubt / disaster, **law) > disaster / 2
    assert erm([0.0, disaster], 20 * doubt / disaster, **law) > 0.94 * disaster
