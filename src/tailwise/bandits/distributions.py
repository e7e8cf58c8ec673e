r"""Bounded cost distributions that one compiled loop can draw from, with their exact ERM.

Each is a mixture of uniform pieces ``[left_k, left_k + width_k]`` with probabilities p_k; an atom is a piece of
width 0. That is exact for Bernoulli, uniform and discrete costs. A continuous distribution is cut at its quantiles at
the probabilities ``sin(pi k / 2m)^2``, k = 0..m, which are dense at both ends. One uniform number draws one cost, and
the ERM of *what is drawn from* is known exactly, since the ERM of a mixture is the ERM of its parts' ERMs::

    ERM(piece)   = left + ln(expm1(b) / b) / beta,    b = beta width
    ERM(mixture) = ln sum_k p_k exp(beta ERM(piece_k)) / beta
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from tailwise._arrays import Floats
from tailwise._random import Seed, generator
from tailwise._validate import integer, real
from tailwise.errors import OptionError
from tailwise.risk.entropic import clean, weighted_erm

_PIECES = 512


@dataclass(frozen=True, eq=False)
class BoundedDistribution:
    """A bounded cost distribution made of uniform pieces and atoms.

    Build one with :func:`bernoulli`, :func:`uniform`, :func:`discrete`, :func:`beta_distribution`,
    :func:`truncated_normal` or :func:`from_quantile`.

    Attributes
    ----------
    name : str
        What it is, for tables and messages.
    left : ndarray of float64, shape (m,)
        Lower ends of the pieces, ascending.
    width : ndarray of float64, shape (m,)
        Widths, >= 0; 0 is an atom.
    probability : ndarray of float64, shape (m,)
        Positive, sum 1.
    """

    name: str
    left: Floats
    width: Floats
    probability: Floats

    def __repr__(self) -> str:
        return f"BoundedDistribution({self.name})"

    @property
    def low(self) -> float:
        """Smallest possible cost."""
        return float(self.left.min())

    @property
    def high(self) -> float:
        """Largest possible cost."""
        return float((self.left + self.width).max())

    @property
    def mean(self) -> float:
        """Mean cost."""
        return float(np.dot(self.probability, self.left + 0.5 * self.width))

    @property
    def cumulative(self) -> Floats:
        """Cumulative probabilities of the pieces, shape (m,); the last is exactly 1."""
        cumulative = np.cumsum(self.probability)
        cumulative[-1] = 1.0
        return cumulative

    def erm(self, beta: float) -> float:
        """Return the exact entropic risk at the finite risk level ``beta``.

        Examples
        --------
        >>> from tailwise.bandits import bernoulli
        >>> round(bernoulli(0.5).erm(1.0), 12)  # ln((1 + e) / 2)
        0.620114506958
        """
        level = real(beta, "beta")
        return weighted_erm(self.left + _piece_erm(self.width, level), level, self.probability)

    def sample(self, size: int, seed: Seed = None) -> Floats:
        """Draw independent costs, shape (size,)."""
        return self.quantile(generator(seed).random(integer(size, "size", low=0)))

    def quantile(self, probability: ArrayLike) -> Floats:
        """Return the cost at each cumulative probability in [0, 1), same shape."""
        levels, cumulative = np.asarray(probability, dtype=np.float64), self.cumulative
        index = np.minimum(np.searchsorted(cumulative, levels, side="right"), self.left.size - 1)
        before = np.where(index > 0, cumulative[index - 1], 0.0)
        share = (levels - before) / (cumulative[index] - before)
        return np.asarray(self.left[index] + self.width[index] * share)


def bernoulli(probability: float, low: float = 0.0, high: float = 1.0) -> BoundedDistribution:
    """Cost ``high`` with ``probability``, else ``low``.

    Examples
    --------
    >>> from tailwise.bandits import bernoulli
    >>> bernoulli(0.25, low=-1.0, high=3.0).mean
    0.0
    """
    share = real(probability, "probability", low=0.0, high=1.0)
    both = discrete([real(low, "low"), real(high, "high")], [1.0 - share, share])
    return replace(both, name=f"Bernoulli({share:g}) on {{{low:g}, {high:g}}}")


def uniform(low: float, high: float) -> BoundedDistribution:
    """Cost uniform on [low, high].

    Examples
    --------
    >>> from tailwise.bandits import uniform
    >>> uniform(0.0, 1.0).erm(0.0)
    0.5
    """
    start, end = _ends(low, high)
    return _assemble(f"Uniform[{start:g}, {end:g}]", [start], [end - start], [1.0])


def discrete(costs: ArrayLike, probabilities: ArrayLike | None = None) -> BoundedDistribution:
    """Finitely many costs with probabilities (normalised; equal if not given).

    Examples
    --------
    >>> from tailwise.bandits import discrete
    >>> discrete([0.0, 1.0, 4.0], [2, 1, 1]).mean
    1.25
    """
    atoms, shares = clean(costs, probabilities)
    if not np.isfinite(atoms).all():
        raise OptionError("costs of a bandit must be finite; the theorems are about bounded costs")
    return _assemble(f"Discrete({atoms.size} atoms)", atoms, np.zeros(atoms.size), shares)


def beta_distribution(a: float, b: float, low: float = 0.0, high: float = 1.0) -> BoundedDistribution:
    """Beta(a, b) cost stretched to [low, high], cut into 512 uniform pieces.

    Examples
    --------
    >>> from tailwise.bandits import beta_distribution
    >>> abs(beta_distribution(2.0, 6.0).mean - 0.25) < 1e-5
    True
    """
    from scipy.special import betaincinv

    first, second = real(a, "a", low=0.0, ends="(]"), real(b, "b", low=0.0, ends="(]")
    start, end = _ends(low, high)
    cut = from_quantile(lambda level: start + (end - start) * betaincinv(first, second, level))
    return replace(cut, name=f"Beta({first:g}, {second:g}) on [{start:g}, {end:g}]")


def truncated_normal(mean: float, std: float, low: float, high: float) -> BoundedDistribution:
    """Make a normal cost conditioned on [low, high], cut into 512 uniform pieces.

    Examples
    --------
    >>> from tailwise.bandits import truncated_normal
    >>> abs(truncated_normal(0.0, 1.0, -2.0, 2.0).mean) < 1e-12
    True
    """
    from scipy.special import ndtr, ndtri

    centre, scale = real(mean, "mean"), real(std, "std", low=0.0, ends="(]")
    start, end = _ends(low, high, low_open=True)
    bottom, top = ndtr((start - centre) / scale), ndtr((end - centre) / scale)
    if not top - bottom > 1e-9:
        raise OptionError(
            f"[{start:g}, {end:g}] holds almost nothing of Normal({centre:g}, {scale:g}); "
            "move the interval or widen the distribution"
        )
    cut = from_quantile(lambda level: np.clip(centre + scale * ndtri(bottom + level * (top - bottom)), start, end))
    return replace(cut, name=f"Normal({centre:g}, {scale:g}) on [{start:g}, {end:g}]")


def from_quantile(quantile: Callable[[Floats], ArrayLike], *, pieces: int = _PIECES) -> BoundedDistribution:
    """Make the distribution of a quantile function, cut into uniform pieces.

    Parameters
    ----------
    quantile : callable
        Maps probabilities, float64 array in [0, 1], to costs of the same shape: finite, not decreasing.
    pieces : int, default 512
        Number of pieces.

    Returns
    -------
    BoundedDistribution
        Exact at the cuts, linear between them.

    Raises
    ------
    OptionError
        If a quantile is not finite (the costs are unbounded) or the function decreases.

    Examples
    --------
    >>> from tailwise.bandits import from_quantile
    >>> abs(from_quantile(lambda p: p**2).mean - 1 / 3) < 1e-5
    True
    """
    number = integer(pieces, "pieces", low=1)
    levels = np.sin(np.linspace(0.0, 0.5 * math.pi, number + 1)) ** 2
    levels[0], levels[-1] = 0.0, 1.0
    cuts = np.asarray(quantile(levels), dtype=np.float64)
    if cuts.shape != levels.shape or not np.isfinite(cuts).all():
        raise OptionError("the quantile function must give one finite cost per probability, at 0 and 1 too")
    if (np.diff(cuts) < 0).any():
        raise OptionError("the quantile function decreases somewhere; quantiles must not")
    return _assemble(f"Quantile({number} pieces)", cuts[:-1], np.diff(cuts), np.diff(levels))


def _ends(low: float, high: float, *, low_open: bool = False) -> tuple[float, float]:
    """Return checked ends of an interval."""
    start = real(low, "low")
    return start, real(high, "high", low=start, ends="(]" if low_open else "[]")


def _assemble(name: str, left: ArrayLike, width: ArrayLike, probability: ArrayLike) -> BoundedDistribution:
    """Put the pieces in ascending order, in read-only arrays."""
    parts = [np.asarray(part, dtype=np.float64) for part in (left, width, probability)]
    order = np.argsort(parts[0], kind="stable")
    arrays = [np.ascontiguousarray(part[order]) for part in parts]
    for array in arrays:
        array.flags.writeable = False
    return BoundedDistribution(name, *arrays)


def _piece_erm(width: Floats, beta: float) -> Floats:
    """ERM of a cost uniform on [0, width], elementwise: ``ln(expm1(b) / b) / beta``, b = beta width."""
    scaled = beta * width
    size = np.abs(scaled)
    small = size < 1e-3
    safe = np.where(small, 1.0, size)
    # For |b|: ln(expm1(b)/b) = b + ln(1 - exp(-b)) - ln b; the sign follows by reflection about width/2.
    logs = safe + np.log(-np.expm1(-safe)) - np.log(safe)
    far = np.where(scaled > 0, logs, logs - safe)
    ratio = np.divide(far, beta, out=np.zeros_like(far), where=~small)
    return np.where(small, width * (0.5 + scaled / 24.0 - scaled**3 / 2880.0), ratio)
