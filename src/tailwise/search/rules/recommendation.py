"""Which action a search recommends, from the visits and values of the actions at the root.

A rule of your own derives from :class:`Recommendation` and has one method; it runs in Python.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


class Recommendation:
    """Base class of recommendation rules; derive a frozen dataclass from it."""

    def choose(self, visits: NDArray[np.int64], values: NDArray[np.float64]) -> int:
        """Return the position of the recommended action.

        Parameters
        ----------
        visits : ndarray of int64, shape (A,)
            How often each action was taken; at least one is positive.
        values : ndarray of float64, shape (A,)
            Its estimated ERM, as a cost; of no meaning where ``visits`` is 0.

        Returns
        -------
        int
            In 0..A-1, of an action with ``visits > 0``.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say which action it recommends: give it choose()")


@dataclass(frozen=True)
class MostVisited(Recommendation):
    """The most visited action; of equals, the one of least risk."""

    def choose(self, visits: NDArray[np.int64], values: NDArray[np.float64]) -> int:
        """Return its position."""
        return _least_of(visits == visits.max(), values)


@dataclass(frozen=True)
class LeastValue(Recommendation):
    """The action of least estimated risk."""

    def choose(self, visits: NDArray[np.int64], values: NDArray[np.float64]) -> int:
        """Return its position."""
        return _least_of(visits > 0, values)


def _least_of(candidates: NDArray[np.bool_], values: NDArray[np.float64]) -> int:
    positions = np.flatnonzero(candidates)
    return int(positions[np.argmin(values[positions])])
