"""Named example bandits, one per setting of the paper's section 3.

In each, the best arm is the same, and clearly so, for every beta from -1 to 3, so that runs at
different risk levels can be compared; ``gamble`` is the exception: there the best arm changes with beta.
"""

from __future__ import annotations

from tailwise.bandits.arms import Arm, Bandit, Drift, Outcome
from tailwise.bandits.distributions import bernoulli, beta_distribution, discrete, truncated_normal, uniform
from tailwise.errors import UnknownNameError


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
