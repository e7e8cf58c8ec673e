"""Many ranges of whole numbers as one list: the rows of states, the outcomes of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def ranges(starts: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """For ranges ``starts[i]..ends[i]`` return where each begins in the list of all, and (i, element) of each."""
    lengths = ends - starts
    begins = np.cumsum(lengths) - lengths
    owners = np.repeat(np.arange(lengths.size), lengths)
    return begins, owners, starts[owners] + np.arange(owners.size) - begins[owners]
