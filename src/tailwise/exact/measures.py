"""The measures that samples and exact distributions of the total share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._validate import real
from tailwise.models.contract import Sense
from tailwise.risk import (
    Exceedance,
    Objective,
    as_objective,
    conditional_value_at_risk,
    entropic_value_at_risk,
    erm,
    value_at_risk,
)

Floats = NDArray[np.float64]


class Measures:
    """Risk measures of totals in the model's own sense, for subclasses that give ``_atoms``.

    For costs the upper tail is the bad one; for rewards it is the lower, and every measure is that of the
    negated rewards, negated back.
    """

    sense: Sense

    def _atoms(self) -> tuple[Floats, Floats | None]:
        """Return (totals, weights or None)."""
        raise NotImplementedError

    def _signed(self, values: Any) -> Any:
        return values if self.sense == "cost" else 0.0 - values

    def erm(self, beta: float) -> float:
        """Return the entropic risk at ``beta`` (1/cost); for rewards ``-ERM(-X)``."""
        totals, weights = self._atoms()
        return float(self._signed(erm(self._signed(totals), beta, weights)))

    def cvar(self, level: float) -> float:
        """Return the mean of the worst ``1 - level`` of the totals, ``level`` in [0, 1]."""
        totals, weights = self._atoms()
        return float(self._signed(conditional_value_at_risk(self._signed(totals), level, weights)))

    def var(self, level: float) -> float:
        """Return the value at risk: the least cost x with ``P(X <= x) >= level``, of negated rewards, negated back."""
        totals, weights = self._atoms()
        return float(self._signed(value_at_risk(self._signed(totals), level, weights)))

    def evar(self, level: float) -> float:
        """Return the entropic value at risk, the least of ``ERM_beta - ln(1 - level) / beta``; ``level`` in [0, 1]."""
        totals, weights = self._atoms()
        return float(self._signed(entropic_value_at_risk(self._signed(totals), level, weights)))

    def exceedance(self, total: float) -> float:
        """Return the probability of a total worse than ``total``: above it for costs, below it for rewards.

        A total that differs in its last digits alone (by 1e-11, relative) is not worse: 0.1 + 0.2 does not exceed 0.3.
        """
        totals, weights = self._atoms()
        return Exceedance(total).of(totals, weights, sense=self.sense)

    def risk(self, objective: Objective | float) -> float:
        """Return any objective of the totals, as ``ERM(0.5)`` or ``CVaR(0.95)``; a number is ``ERM(number)``."""
        totals, weights = self._atoms()
        return as_objective(objective).of(totals, weights, sense=self.sense)

    def quantile(self, level: float) -> float:
        """Return the least total x with ``P(X <= x) >= level``, ``level`` in [0, 1]."""
        totals, weights = self._atoms()
        return value_at_risk(totals, real(level, "level", low=0.0, high=1.0), weights)

    @property
    def mean(self) -> float:
        """Mean total."""
        totals, weights = self._atoms()
        return erm(totals, 0.0, weights)

    @property
    def minimum(self) -> float:
        """Least total."""
        return float(self._atoms()[0].min())

    @property
    def maximum(self) -> float:
        """Largest total."""
        return float(self._atoms()[0].max())

    @property
    def std(self) -> float:
        """Standard deviation: with n - 1 for a sample (NaN for a single one), exact for a distribution."""
        totals, weights = self._atoms()
        if weights is not None:
            return math.sqrt(max(0.0, float(np.dot(weights, (totals - self.mean) ** 2))))
        return float(np.std(totals, ddof=1)) if totals.size > 1 else math.nan
