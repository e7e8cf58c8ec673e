"""Plain arrays: their names; logarithms; ranges and runs of numbers as lists; small arrays for threads, apart."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_IN_ONE_THREAD = 8192  # numbers of a vector product,
_MATRIX_IN_ONE_THREAD = 2**17  # and products of one of matrices


def ranges(starts: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """For ranges ``starts[i]..ends[i]`` return where each begins in the list of all, and (i, element) of each."""
    lengths = ends - starts
    begins = np.cumsum(lengths) - lengths
    owners = np.repeat(np.arange(lengths.size), lengths)
    return begins, owners, starts[owners] + np.arange(owners.size) - begins[owners]


def inner(a: Floats, b: Floats) -> float:
    """Return the sum of products; BLAS shares long ones among threads, and may wait for a core."""
    return float(np.dot(a, b) if a.size <= _IN_ONE_THREAD else np.sum(a * b))


def product(a: Floats, b: Floats) -> Floats:
    """Return ``a @ b`` of a tall ``a``, as :func:`inner` in one thread: in pieces that BLAS does not share out."""
    rows = max(1, (_IN_ONE_THREAD if b.ndim == 1 else _MATRIX_IN_ONE_THREAD) // max(1, b.size))
    if len(a) <= rows:
        return np.asarray(a @ b)
    return np.concatenate([a[begin : begin + rows] @ b for begin in range(0, len(a), rows)])


def gram(a: Floats) -> Floats:
    """Return ``a.T @ a`` of a tall ``a``, in one thread too."""
    rows = max(1, _MATRIX_IN_ONE_THREAD // max(1, a.shape[1] ** 2))
    pieces = (a[begin : begin + rows] for begin in range(0, len(a), rows))
    return np.asarray(sum((piece.T @ piece for piece in pieces), np.zeros((a.shape[1],) * 2)))


def log_of(weights: Floats) -> Floats:
    """Return logarithms, -inf of zeros."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights))


def marked(size: int, places: Any) -> Bools:
    """Return which of ``size`` things are among some places."""
    found = np.zeros(size, np.bool_)
    found[places] = True
    return found


def runs(*keys: NDArray[Any]) -> Ints:
    """Return where each run of equal keys begins, of columns of keys that stand together: int64, shape (runs,)."""
    new = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return np.flatnonzero(np.append(True, new)[: keys[0].size])


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
