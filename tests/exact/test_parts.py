"""Rows of a table as solvers without a horizon see them: large ones are compiled, small ones are not."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tailwise.exact.parts import OVER, Part, log_radius


@pytest.mark.compiled
@pytest.mark.parametrize("beta", [1e-9, 0.3, 40.0, -0.3, -40.0])
def test_large_parts_have_the_risks_of_their_pieces(beta):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 60_000)
    offsets = np.append(0, np.cumsum(lengths))
    chances = rng.random(offsets[-1])
    chances /= np.repeat(np.add.reduceat(chances, offsets[:-1]), lengths)
    targets = rng.integers(OVER, 100, offsets[-1])
    whole = Part(100, np.sort(rng.integers(0, 100, lengths.size)), np.arange(lengths.size), offsets, chances,
                 rng.normal(size=offsets[-1]), targets)  # fmt: skip
    values = rng.normal(size=100)
    values[[3, 4]] = np.inf
    found = whole.risks(values, beta, 0.9)
    pieces = [whole.taking(rows).risks(values, beta, 0.9) for rows in np.array_split(np.arange(lengths.size), 7)]
    np.testing.assert_allclose(found, np.concatenate(pieces), rtol=1e-13, atol=1e-13)


def test_the_radius_of_a_ring_is_the_geometric_mean():
    """Periodic, and its eigenvector spans forty orders of magnitude."""
    logs = np.random.default_rng(0).normal(size=150) * 4.0
    states = np.arange(150)
    ring = csr_array((np.exp(logs), (states, np.roll(states, -1))), shape=(150, 150))
    assert log_radius(ring) == pytest.approx(logs.mean(), abs=1e-9)


def test_the_radius_of_a_sparse_matrix_is_that_of_a_dense_one():
    rng = np.random.default_rng(1)
    states = np.arange(200)
    places = np.append(states, rng.integers(200, size=400)), np.append(np.roll(states, 1), rng.integers(200, size=400))
    sparse = csr_array((rng.random(600), places), shape=(200, 200))
    assert log_radius(sparse) == pytest.approx(np.log(np.abs(np.linalg.eigvals(sparse.toarray())).max()), abs=1e-9)
