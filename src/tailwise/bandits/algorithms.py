r"""Arm-selection rules: the paper's, and three baselines; and the constants of the theorems for a bandit.

All pull each arm once and then, with t pulls made so far and T_i of arm i, take the arm of least index:

=================  ==============================================================================
ErmUcb             ``rho_i - constant t^exponent / T_i^(1-eta)``   eqs. ucb_erm_algorithm, _2
LipschitzUcb       ``rho_i - L (high - low) sqrt(2 ln t / T_i)``   in the sense of Tan et al. (2022)
Ucb1               ``mean_i - (high - low) sqrt(2 ln t / T_i)``    Auer et al. (2002)
EntropicThompson   ``m_i + beta / (2 tau_i)``, m_i and tau_i drawn   after Liang et al. (2021)
=================  ==============================================================================

The paper writes T_i(t) "up to (including) timestep t" into the choice at t, which would be circular; its
proof uses t as the number of pulls made, as here and in the tree, where t is N(s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailwise._validate import real
from tailwise.bandits._kernels import BonusIndex, ThompsonIndex
from tailwise.bandits.arms import Bandit
from tailwise.bonuses import Bonus, LogBonus, PolynomialBonus, Slots
from tailwise.errors import ConditionError, OptionError, UnknownNameError
from tailwise.theory.concentration import log_theta, log_theta_nondeterministic
from tailwise.theory.estimators import AverageConstants, average_constants
from tailwise.theory.rates import check_beta, check_eta, check_xi

_SQRT_TWO = math.sqrt(2.0)


@dataclass(frozen=True)
class BanditAlgorithm:
    """Base of the arm-selection rules.

    Attributes
    ----------
    beta : float
        Finite risk level at which results are reported (and arms are judged, but for Ucb1).
    """

    beta: float

    def __post_init__(self) -> None:
        real(self.beta, "beta")

    def rule(self, width: float) -> Any:
        """Return what the compiled loop reads: a NamedTuple; ``width`` is the range of the bandit's costs."""
        raise NotImplementedError


def _index(bonus: Bonus, *, of_mean: bool = False) -> BonusIndex:
    if bonus.node_statistics or bonus.action_statistics:
        raise OptionError(f"{type(bonus).__name__} needs statistics that only a tree search keeps; take another bonus")
    return BonusIndex(bonus.compiled(1, 1.0, Slots({}, {})), np.empty((0, 0)), of_mean)


@dataclass(frozen=True)
class BonusUcb(BanditAlgorithm):
    """Lowest ERM minus any bonus of :mod:`tailwise.bonuses`, or of your own: the one that a search takes as well.

    Parameters
    ----------
    beta : float
        Finite risk level.
    bonus : Bonus
        One that needs no statistics.

    Examples
    --------
    >>> from tailwise import LogBonus
    >>> from tailwise.bandits import BonusUcb, make_bandit, simulate
    >>> run = simulate(make_bandit("gamble"), BonusUcb(0.5, LogBonus(constant=1.0)), pulls=500, replications=3, seed=0)
    >>> int(run.counts[:, -1].sum())
    1500
    """

    bonus: Bonus = field(default_factory=PolynomialBonus)

    def rule(self, width: float) -> BonusIndex:
        """Return the bonus for the compiled loop."""
        return _index(self.bonus)


@dataclass(frozen=True)
class ErmUcb(BanditAlgorithm):
    """Lowest ERM minus a polynomial bonus (paper, eqs. ``ucb_erm_algorithm``, ``ucb_erm_algorithm_2``).

    Parameters
    ----------
    beta : float
        Finite risk level.
    constant : float, default sqrt(2)
        theta^(1/xi) > 0, in the unit of the costs. sqrt(2) is the practical choice. Where costs are independent and
        beta times their range is small, it is within the theorem (:func:`bandit_constants`: 1.276 on "stationary" at
        beta = 0.1 by the tight constants); with random next states, as in a tree, it never is.
    eta : float in [1/2, 1), default 1/2
        The bonus falls like T_i^-(1-eta).
    exponent : float, optional
        alpha/xi, the bonus grows like t^exponent; eta (1 - eta) by default.

    Examples
    --------
    >>> from tailwise.bandits import ErmUcb
    >>> ErmUcb(beta=1.0).exponent
    0.25
    """

    constant: float = _SQRT_TWO
    eta: float = 0.5
    exponent: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        real(self.constant, "constant", low=0.0, ends="(]")
        eta = check_eta(self.eta)
        if self.exponent is None:
            object.__setattr__(self, "exponent", eta * (1.0 - eta))
        real(self.exponent, "exponent", low=0.0, high=1.0 - eta, ends="[)")

    @classmethod
    def from_constants(cls, constants: AverageConstants) -> ErmUcb:
        """Make the algorithm that the theorem is about, from the theorem's constants."""
        constant = math.exp(min(constants.log_bonus_constant, 709.0))
        exponent = constants.alpha / constants.xi
        return cls(float(constants.exact.beta), constant, constants.eta, exponent)

    def rule(self, width: float) -> BonusIndex:
        """Return the bonus for the compiled loop."""
        return _index(PolynomialBonus(constant=self.constant, eta=self.eta, exponent=self.exponent))


@dataclass(frozen=True)
class LipschitzUcb(BanditAlgorithm):
    """Lowest ERM minus a logarithmic bonus, for risk measures that are Lipschitz in the cost distribution.

    On costs in [low, high] the ERM is Lipschitz in Wasserstein-1 distance with constant
    ``L = exp(|beta| (high - low))``, since moving a cost x by d moves it by at most
    ``exp(beta (x - ERM)) d``. The empirical distribution is within ``(high - low) sqrt(2 ln t / T_i)`` of the
    true one but for probability 2 t^-4 (Dvoretzky, Kiefer, Wolfowitz). Tan et al. treat sub-Gaussian costs with larger
    constants; this is their rule for bounded costs. At beta = 0 it is Ucb1.

    Parameters
    ----------
    beta : float
        Finite risk level.
    lipschitz : float, optional
        L >= 1; the bound above by default.

    Examples
    --------
    >>> from tailwise.bandits import LipschitzUcb
    >>> LipschitzUcb(beta=0.5, lipschitz=3.0)
    LipschitzUcb(beta=0.5, lipschitz=3.0)
    """

    lipschitz: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lipschitz is not None:
            real(self.lipschitz, "lipschitz", low=1.0)

    def rule(self, width: float) -> BonusIndex:
        """Return the bonus for the compiled loop: ``L (high - low) sqrt(2 ln t / T_i)``."""
        exponent = abs(self.beta) * width
        if self.lipschitz is None and exponent > 700.0:
            raise OptionError(
                f"the Lipschitz constant exp(|beta| width) = exp({exponent:.0f}) overflows; give lipschitz"
            )
        factor = math.exp(exponent) if self.lipschitz is None else self.lipschitz
        return _index(LogBonus(constant=_SQRT_TWO * factor * width))


@dataclass(frozen=True)
class Ucb1(BanditAlgorithm):
    """Risk-neutral UCB1: lowest mean minus a logarithmic bonus; ``beta`` only says how it is judged.

    Examples
    --------
    >>> from tailwise.bandits import Ucb1
    >>> Ucb1(beta=1.0)
    Ucb1(beta=1.0)
    """

    def rule(self, width: float) -> BonusIndex:
        """Return the bonus for the compiled loop: ``(high - low) sqrt(2 ln t / T_i)``, off the mean."""
        return _index(LogBonus(constant=_SQRT_TWO * width), of_mean=True)


@dataclass(frozen=True)
class EntropicThompson(BanditAlgorithm):
    """Thompson sampling for the ERM under a Gaussian belief (after Liang et al., 2021).

    A Gaussian cost has ERM ``m + beta sigma^2 / 2``. For each arm a precision tau is drawn from
    Gamma(shape + T/2, rate + S/2), S the sum of squared deviations from the mean, and a mean m from
    Normal(mean, 1/T); the arm with the least ``m + beta / (2 tau)`` is pulled. On costs that are not
    Gaussian it learns to minimise ``mean + beta variance / 2``, which need not be the ERM: it can settle on a
    wrong arm.

    Parameters
    ----------
    beta : float
        Finite risk level.
    shape, rate : float, default 1/2
        Prior of the precision, > 0; ``rate`` is in cost^2.

    Examples
    --------
    >>> from tailwise.bandits import EntropicThompson
    >>> EntropicThompson(beta=1.0)
    EntropicThompson(beta=1.0, shape=0.5, rate=0.5)
    """

    shape: float = 0.5
    rate: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        real(self.shape, "shape", low=0.0, ends="(]")
        real(self.rate, "rate", low=0.0, ends="(]")

    def rule(self, width: float) -> ThompsonIndex:
        """Return ``shape``, ``rate`` and ``beta`` for the compiled loop."""
        return ThompsonIndex(float(self.shape), float(self.rate), float(self.beta))


ALGORITHMS = ("erm-ucb", "lipschitz", "ucb1", "thompson")


def make_algorithm(name: str, beta: float, *, constant: float | None = None) -> BanditAlgorithm:
    """Return the rule ``name`` at a risk level.

    Parameters
    ----------
    name : {"erm-ucb", "lipschitz", "ucb1", "thompson"}
        Which rule.
    beta : float
        Finite risk level.
    constant : float, optional
        Bonus constant of ``erm-ucb``; sqrt(2) if not given.

    Returns
    -------
    BanditAlgorithm
        The rule.

    Raises
    ------
    UnknownNameError
        If there is no such rule.
    OptionError
        If the rule has no ``constant``.

    Examples
    --------
    >>> from tailwise.bandits import make_algorithm
    >>> make_algorithm("ucb1", 0.5)
    Ucb1(beta=0.5)
    """
    if name == "erm-ucb":
        return ErmUcb(beta) if constant is None else ErmUcb(beta, constant)
    if constant is not None and name in ALGORITHMS:
        raise OptionError(f"{name} has no constant= to choose; erm-ucb does")
    if name == "lipschitz":
        return LipschitzUcb(beta)
    if name == "ucb1":
        return Ucb1(beta)
    if name == "thompson":
        return EntropicThompson(beta)
    raise UnknownNameError(f"no bandit algorithm is called {name!r}; there are {', '.join(ALGORITHMS)}")


def bandit_constants(
    bandit: Bandit,
    beta: float,
    *,
    xi: float = 16.0,
    alpha: float | None = None,
    eta: float = 0.5,
    form: str = "corrected",
) -> AverageConstants:
    """Constants of the bandit theorems for ``bandit``, from the ranges of its costs.

    Parameters
    ----------
    bandit : Bandit
        Arms without drift, one of them better than all others.
    beta : float
        Risk level, > 0.
    xi : float, default 16
        Exponent of the arms' tails; free to choose for independent costs.
    alpha : float, optional
        ``xi eta (1 - eta)`` if not given; above 2.
    eta : float in [1/2, 1), default 1/2
        Exponent of the arms' fluctuations.
    form : {"printed", "corrected", "tight"}, default "corrected"
        Which version of the constants.

    Returns
    -------
    AverageConstants
        For :func:`tailwise.theory.stream_constants` and :meth:`ErmUcb.from_constants`.

    Raises
    ------
    ConditionError
        If a condition of the theorems fails, the best arm is not unique, or an arm drifts (its theta depends on how).

    Examples
    --------
    >>> from tailwise.bandits import ErmUcb, bandit_constants, make_bandit
    >>> constants = bandit_constants(make_bandit("stationary"), 0.1, form="tight")
    >>> round(constants.log_bonus_constant, 3)
    0.244
    >>> round(ErmUcb.from_constants(constants).constant, 3)
    1.276
    """
    level, exponent, share = check_beta(beta), check_xi(xi), check_eta(eta)
    outcomes = [outcome for arm in bandit.arms for outcome in arm.outcomes]
    if any(outcome.drift is not None and outcome.drift.amplitude > 0 for outcome in outcomes):
        raise ConditionError(
            "theta of a drifting arm depends on its drift; bound it yourself and call tailwise.theory.average_constants"
        )
    most = max(len(arm.outcomes) for arm in bandit.arms)
    if most == 1:
        theta = log_theta(exponent, level, bandit.radius, form=form)
    else:
        inner = level * bandit.discount
        low, high = (f(getattr(o.distribution, end) for o in outcomes) for f, end in ((min, "low"), (max, "high")))
        radius = 0.5 * (high - low)
        theta = log_theta_nondeterministic(
            log_theta=log_theta(exponent, inner, radius, form=form),
            xi=exponent,
            beta=inner,
            radius=radius,
            states=most,
            form=form,
        )
    return average_constants(
        log_theta=theta,
        alpha=exponent * share * (1.0 - share) if alpha is None else alpha,
        xi=exponent,
        eta=share,
        arms=len(bandit.arms),
        gap=bandit.gap(level),
        beta=level,
        radius=bandit.radius,
        form=form,
    )
