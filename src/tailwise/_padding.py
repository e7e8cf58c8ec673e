"""Small arrays that one thread writes to, away from those of others.

Two threads that write to one cache line, though to different arrays in it, wait for each other at every write. NumPy
packs small arrays closely; these have a line of their own on either side.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item", bound=np.generic)
_GUARD = 8  # items of 8 bytes: a line


def apart(dtype: type[Item], *sizes: int) -> list[NDArray[Item]]:
    """Return zeros of these sizes, of a type of 8 bytes: neighbours of each other, but of nothing else."""
    buffer = np.zeros(sum(sizes) + 2 * _GUARD, dtype)
    found, first = [], _GUARD
    for size in sizes:
        found.append(buffer[first : first + size])
        first += size
    return found
