"""Powers of counts, looked up while the counts are small."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import inlined

TABLE = 1024  # counts below this are looked up: the tables stay in the first-level cache


class PowerTable(NamedTuple):
    """Powers ``count ** exponent``, with one exponent per step; E of them differ."""

    exponents: NDArray[np.float64]  # (H,)
    first: NDArray[np.int64]  # (H,) where the powers of the step's exponent begin
    powers: NDArray[np.float64]  # (E * 1024,) those of the counts 0 (as if it were 1), 1, 2, ...


def power_table(exponents: NDArray[np.float64]) -> PowerTable:
    """Return the table of one exponent per step: float64, shape (H,)."""
    different, row = np.unique(exponents, return_inverse=True)
    counts = np.arange(TABLE, dtype=np.float64)
    counts[0] = 1.0
    return PowerTable(exponents, row.astype(np.int64) * TABLE, (counts ** different[:, None]).ravel())


@inlined
def power(table, h, count):  # type: ignore[no-untyped-def]
    """``count ** exponents[h]`` for ``count`` >= 1."""
    if count < TABLE:
        return table.powers[table.first[h] + count]
    number, exponent = float(count), table.exponents[h]
    if exponent == 0.25:
        return math.sqrt(math.sqrt(number))
    if exponent == -0.5:
        return 1.0 / math.sqrt(number)
    return number**exponent
