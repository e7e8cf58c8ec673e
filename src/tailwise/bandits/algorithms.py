r"""Arm-selection rules: the paper's, and three baselines.

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
from dataclasses import dataclass
from typing import ClassVar

from tailwise._validate import real
from tailwise.errors import OptionError, UnknownNameError
from tailwise.theory.average import AverageConstants
from tailwise.theory.conditions import check_eta

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
    kind: ClassVar[int] = -1

    def __post_init__(self) -> None:
        real(self.beta, "beta")

    def parameters(self, width: float) -> tuple[float, float, float]:
        """Three numbers for the compiled loop; ``width`` is the range of the bandit's costs."""
        raise NotImplementedError


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
    kind: ClassVar[int] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        real(self.constant, "constant", low=0.0, low_open=True)
        eta = check_eta(self.eta)
        if self.exponent is None:
            object.__setattr__(self, "exponent", eta * (1.0 - eta))
        real(self.exponent, "exponent", low=0.0, high=1.0 - eta, high_open=True)

    @classmethod
    def from_constants(cls, constants: AverageConstants) -> ErmUcb:
        """Make the algorithm that the theorem is about, from the theorem's constants."""
        constant = math.exp(min(constants.log_bonus_constant, 709.0))
        exponent = constants.alpha / constants.xi
        return cls(float(constants.exact.inputs.beta), constant, constants.eta, exponent)

    def parameters(self, width: float) -> tuple[float, float, float]:
        """Return ``constant``, ``exponent`` and 1 - ``eta``."""
        assert self.exponent is not None
        return self.constant, self.exponent, 1.0 - self.eta


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
    >>> LipschitzUcb(beta=0.5).parameters(width=2.0)[0] == 2.0 * 2.718281828459045
    True
    """

    lipschitz: float | None = None
    kind: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lipschitz is not None:
            real(self.lipschitz, "lipschitz", low=1.0)

    def parameters(self, width: float) -> tuple[float, float, float]:
        """Return ``L (high - low)``, and two zeros."""
        exponent = abs(self.beta) * width
        if self.lipschitz is None and exponent > 700.0:
            raise OptionError(
                f"the Lipschitz constant exp(|beta| width) = exp({exponent:.0f}) overflows; give lipschitz"
            )
        factor = math.exp(exponent) if self.lipschitz is None else self.lipschitz
        return factor * width, 0.0, 0.0


@dataclass(frozen=True)
class Ucb1(BanditAlgorithm):
    """Risk-neutral UCB1: lowest mean minus a logarithmic bonus; ``beta`` only says how it is judged.

    Examples
    --------
    >>> from tailwise.bandits import Ucb1
    >>> Ucb1(beta=1.0).parameters(width=2.0)
    (2.0, 0.0, 0.0)
    """

    kind: ClassVar[int] = 2

    def parameters(self, width: float) -> tuple[float, float, float]:
        """Return the range of the costs, and two zeros."""
        return width, 0.0, 0.0


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
    >>> EntropicThompson(beta=1.0).parameters(width=1.0)
    (0.5, 0.5, 1.0)
    """

    shape: float = 0.5
    rate: float = 0.5
    kind: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        real(self.shape, "shape", low=0.0, low_open=True)
        real(self.rate, "rate", low=0.0, low_open=True)

    def parameters(self, width: float) -> tuple[float, float, float]:
        """Return ``shape``, ``rate`` and ``beta``."""
        return self.shape, self.rate, self.beta


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

    Examples
    --------
    >>> from tailwise.bandits import make_algorithm
    >>> make_algorithm("ucb1", 0.5)
    Ucb1(beta=0.5)
    """
    if name == "erm-ucb":
        return ErmUcb(beta) if constant is None else ErmUcb(beta, constant)
    if name == "lipschitz":
        return LipschitzUcb(beta)
    if name == "ucb1":
        return Ucb1(beta)
    if name == "thompson":
        return EntropicThompson(beta)
    raise UnknownNameError(f"no bandit algorithm is called {name!r}; there are {', '.join(ALGORITHMS)}")
