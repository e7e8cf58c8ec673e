"""Rows of a table as solvers without a horizon see them: large ones are compiled, small ones are not."""

import numpy as np
import pytest

from tailwise.exact.parts import OVER, Part


@pytest.mark.compiled
@pytest.mark.parametrize("beta", [1e-9, 0.3, 40.0, -0.3, -40.0])
def test_large_parts_have_the_risks_of_their_pieces(beta):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 15_000)
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
    assert (np.isinf(found).any()) == (beta > 0.0)
