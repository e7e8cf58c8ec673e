"""Arms and bandits: stationary, drifting, and with random next states.

One description covers the paper's three settings. An arm has an immediate cost c and *outcomes* (next
states) s' with probabilities P(s'); pulling it draws an outcome and pays ``c + discount x``, with x the next
cost of that outcome's own stream. A stationary arm has one outcome, c = 0 and discount 1.

A stream drifts: its t-th cost comes from ``start`` with probability ``amplitude t^-decay`` and
from its limit otherwise. Its estimator's limit is the ERM of that limit, and its bias decays like n^-decay,
so assumption ``non-stationary-bandit-assumption`` holds for every eta >= 1 - decay.

The limits are exact: ``mu_i = ERM_beta(c_i + discount mu_i^s')`` with ``mu_i^s'`` the ERM at beta discount of
the outcome's limit (lemma ``non-deterministic-bandit-convergence-and-concentration``).

Of the named examples, one per setting of the paper's section 3, the best arm is the same, and clearly so, for every
beta from -1 to 3, so that runs at different risk levels can be compared; ``gamble`` is the exception: there the best
arm changes with beta.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailwise._validate import listing, real
from tailwise.bandits.distributions import (
    BoundedDistribution,
    bernoulli,
    beta_distribution,
    discrete,
    truncated_normal,
    uniform,
)
from tailwise.errors import OptionError, UnknownNameError
from tailwise.risk.entropic import clean, weighted_erm


@dataclass(frozen=True)
class Drift:
    """A stream's start: its t-th cost comes from ``start`` with probability ``amplitude t^-decay``.

    Attributes
    ----------
    start : BoundedDistribution
        The distribution that fades out.
    decay : float
        Positive; at least 1 - eta for the theorems at eta.
    amplitude : float
        In [0, 1].
    """

    start: BoundedDistribution
    decay: float = 0.5
    amplitude: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.start, BoundedDistribution):
            raise OptionError(
                f"a drift starts as a BoundedDistribution, not {self.start!r}; see tailwise.bandits.uniform"
            )
        real(self.decay, "decay", low=0.0, ends="(]")
        real(self.amplitude, "amplitude", low=0.0, high=1.0)


@dataclass(frozen=True)
class Outcome:
    """A next state of an arm: how likely, and the costs from there on."""

    probability: float
    distribution: BoundedDistribution
    drift: Drift | None = None

    def __post_init__(self) -> None:
        real(self.probability, "probability", low=0.0, high=1.0)
        if not isinstance(self.distribution, BoundedDistribution):
            raise OptionError(f"outcomes need a BoundedDistribution, not {self.distribution!r}; see bandits.uniform")
        if self.drift is not None and not isinstance(self.drift, Drift):
            raise OptionError(f"an outcome's drift must be a Drift, not {self.drift!r}; wrap it: Drift(distribution)")


@dataclass(frozen=True)
class Arm:
    """An arm: an immediate cost and outcomes whose probabilities sum to 1.

    Examples
    --------
    >>> from tailwise.bandits import Arm, Drift, Outcome, bernoulli, uniform
    >>> stationary = Arm.of(bernoulli(0.3))
    >>> drifting = Arm.of(bernoulli(0.3), drift=Drift(uniform(0.0, 1.0)))
    >>> branching = Arm((Outcome(0.9, uniform(0.0, 0.5)), Outcome(0.1, bernoulli(0.5))), cost=0.1)
    >>> round(branching.erm(1.0, discount=0.9), 6)
    0.369725
    """

    outcomes: tuple[Outcome, ...]
    cost: float = 0.0
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        real(self.cost, "cost")
        if not self.outcomes:
            raise OptionError("an arm needs at least one outcome")
        if not all(isinstance(outcome, Outcome) for outcome in self.outcomes):
            raise OptionError(
                "outcomes must be Outcome objects: Arm((Outcome(probability, distribution), ...)); or use Arm.of"
            )
        total = math.fsum(outcome.probability for outcome in self.outcomes)
        if abs(total - 1.0) > 1e-9:
            raise OptionError(f"an arm's outcome probabilities must sum to 1, not {total!r}")

    @classmethod
    def of(cls, distribution: BoundedDistribution, *, drift: Drift | None = None, name: str = "") -> Arm:
        """Make an arm with one cost stream and no immediate cost."""
        return cls((Outcome(1.0, distribution, drift),), name=name or distribution.name)

    def erm(self, beta: float, discount: float = 1.0) -> float:
        """Limit mu_i of the arm's estimator, at the finite risk level ``beta``."""
        level = real(beta, "beta")
        values = [self.cost + discount * outcome.distribution.erm(level * discount) for outcome in self.outcomes]
        costs, shares = clean(values, [outcome.probability for outcome in self.outcomes])
        return weighted_erm(costs, level, shares)


@dataclass(frozen=True)
class Bandit:
    """Two or more arms, and the discount of what follows an immediate cost.

    Parameters
    ----------
    arms : tuple of Arm
        At least two.
    discount : float in (0, 1], default 1
        Multiplies the cost that an outcome gives.

    Examples
    --------
    >>> from tailwise.bandits import Arm, Bandit, bernoulli, uniform
    >>> bandit = Bandit((Arm.of(uniform(0.4, 0.6)), Arm.of(bernoulli(0.4))))
    >>> bandit.risks(0.0).round(3).tolist()  # risk-neutral: the gamble
    [0.5, 0.4]
    >>> bandit.best(3.0)  # risk-averse: the safe arm
    0
    """

    arms: tuple[Arm, ...]
    discount: float = 1.0

    def __post_init__(self) -> None:
        listing(self.arms, "arms", "Arm objects")
        if len(self.arms) < 2:
            raise OptionError(f"a bandit needs at least two arms, not {len(self.arms)}")
        if not all(isinstance(arm, Arm) for arm in self.arms):
            raise OptionError("arms must be Arm objects; wrap a distribution with Arm.of(distribution)")
        real(self.discount, "discount", low=0.0, high=1.0, ends="(]")

    @property
    def low(self) -> float:
        """Smallest possible cost of a pull."""
        return min(self._costs("low"))

    @property
    def high(self) -> float:
        """Largest possible cost of a pull."""
        return max(self._costs("high"))

    @property
    def radius(self) -> float:
        """R of the theorems: half the range of the costs.

        The theorems speak of [-R, R]. ERM is translation invariant, so costs may be centred first.
        """
        return 0.5 * (self.high - self.low)

    def risks(self, beta: float) -> NDArray[np.float64]:
        """Limit mu_i of every arm's estimator, shape (K,)."""
        return np.array([arm.erm(beta, self.discount) for arm in self.arms])

    def best(self, beta: float) -> int:
        """Index of the optimal arm (the first, if several)."""
        return int(np.argmin(self.risks(beta)))

    def gap(self, beta: float) -> float:
        """Delta_min: how much worse the second-best arm is; 0 if the best is not unique."""
        first, second = np.sort(self.risks(beta))[:2]
        return float(second - first)

    def _costs(self, end: str) -> Iterator[float]:
        """Yield the ``low`` or ``high`` end of a pull's cost for every distribution that an arm may draw from."""
        for arm in self.arms:
            for outcome in arm.outcomes:
                yield arm.cost + self.discount * float(getattr(outcome.distribution, end))
                if outcome.drift is not None and outcome.drift.amplitude > 0.0:
                    yield arm.cost + self.discount * float(getattr(outcome.drift.start, end))


def make_bandit(name: str) -> Bandit:
    """Return the example bandit ``name``.

    Parameters
    ----------
    name : {"stationary", "drifting", "non-deterministic", "gamble"}
        ``stationary``: Beta, Bernoulli and uniform costs in [0, 1]. ``drifting``: three arms whose costs
        start elsewhere and fade like t^-1/2 or faster. ``non-deterministic``: immediate costs, random next
        states with drifting cost streams, discount 0.9. ``gamble``: a sure cost against a cheaper gamble.

    Returns
    -------
    Bandit
        A fresh bandit.

    Raises
    ------
    UnknownNameError
        If there is no such bandit.

    Examples
    --------
    >>> from tailwise.bandits import make_bandit
    >>> bandit = make_bandit("gamble")
    >>> [bandit.best(beta) for beta in (-1.0, 0.0, 3.0)]
    [1, 1, 0]
    """
    if name not in _MAKERS:
        raise UnknownNameError(f"no bandit is called {name!r}; there are {', '.join(BANDITS)}")
    return _MAKERS[name]()


def _stationary() -> Bandit:
    sure = Arm.of(uniform(0.5, 0.9), name="uniform")
    return Bandit((Arm.of(beta_distribution(2.0, 6.0), name="Beta"), Arm.of(bernoulli(0.7), name="Bernoulli"), sure))


def _drifting() -> Bandit:
    settling = Drift(bernoulli(0.5), decay=1.0, amplitude=0.5)
    return Bandit((
        Arm.of(beta_distribution(2.0, 6.0), drift=Drift(uniform(0.5, 1.0), decay=0.5), name="improves"),
        Arm.of(uniform(0.5, 0.9), drift=Drift(uniform(0.0, 0.2), decay=0.75), name="worsens"),
        Arm.of(truncated_normal(0.7, 0.2, 0.0, 1.0), drift=settling, name="settles"),
    ))  # fmt: skip


def _non_deterministic() -> Bandit:
    low = Outcome(0.8, beta_distribution(2.0, 6.0), Drift(uniform(0.0, 1.0), decay=0.5))
    even = Outcome(0.5, bernoulli(0.6), Drift(bernoulli(0.2), decay=0.75))
    high = Outcome(0.9, truncated_normal(0.6, 0.2, 0.0, 1.0))
    arms = (
        Arm((low, Outcome(0.2, uniform(0.2, 0.6))), cost=0.05, name="mostly low"),
        Arm((even, Outcome(0.5, uniform(0.5, 1.0))), cost=0.1, name="even"),
        Arm((Outcome(0.1, discrete([0.0, 1.0])), high), cost=0.2, name="mostly high"),
    )
    return Bandit(arms, discount=0.9)


def _gamble() -> Bandit:
    return Bandit((Arm.of(uniform(0.45, 0.55), name="sure"), Arm.of(bernoulli(0.4), name="gamble")))


_MAKERS = {
    "stationary": _stationary,
    "drifting": _drifting,
    "non-deterministic": _non_deterministic,
    "gamble": _gamble,
}
BANDITS = tuple(_MAKERS)
