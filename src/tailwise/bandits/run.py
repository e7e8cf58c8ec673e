r"""What a simulation found: both estimators of the root, and how often each arm was pulled.

The estimators (paper, Sec. "Risk-aware multi-armed bandits")::

    rho_bar_n    = sum_i T_i(n)/n rho_i                           the average
    rho_stream_n = ln(sum_i T_i(n)/n exp(beta rho_i)) / beta      the ERM of all n costs

By Jensen's inequality rho_stream >= rho_bar for beta > 0, and <= for beta < 0; they agree at beta = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._results import JsonObject, Result, plain
from tailwise._validate import choice, integer, real
from tailwise.bandits.algorithms import BanditAlgorithm
from tailwise.bandits.arms import Bandit
from tailwise.theory.rates import ExponentFit, fit_exponent

Floats = NDArray[np.float64]
ESTIMATORS = ("average", "stream")


@dataclass(frozen=True, eq=False)
class BanditRun(Result):
    """What :func:`simulate` found; n ranges over the checkpoints.

    Attributes
    ----------
    bandit, algorithm : Bandit, BanditAlgorithm
        What was run.
    checkpoints : ndarray of int64, shape (m,)
        Numbers of pulls n at which the state was recorded.
    counts : ndarray of int64, shape (replications, m, K)
        T_i(n).
    average, stream : ndarray of float64, shape (replications, m)
        rho_bar_n and rho_stream_n.
    risks : ndarray of float64, shape (K,)
        Exact limit mu_i of each arm at the algorithm's beta.
    """

    bandit: Bandit
    algorithm: BanditAlgorithm
    checkpoints: NDArray[np.int64]
    counts: NDArray[np.int64]
    average: Floats
    stream: Floats
    risks: Floats

    @property
    def optimum(self) -> float:
        """mu*, the least of the arms' limits."""
        return float(self.risks.min())

    def errors(self, estimator: str = "stream") -> Floats:
        """Return estimate minus mu*, shape (replications, m)."""
        name = choice(estimator, "estimator", ESTIMATORS)
        return (self.average if name == "average" else self.stream) - self.optimum

    def bias(self, estimator: str = "stream") -> tuple[Floats, Floats]:
        """Return the mean error at each n and its standard error (NaN for one replication), each of shape (m,)."""
        return _mean_and_error(self.errors(estimator))

    def regret(self) -> Floats:
        """Return the mean of ``sum_i (mu_i - mu*) T_i(n)``, shape (m,)."""
        return self._regret()[0]

    def _regret(self) -> tuple[Floats, Floats]:
        return _mean_and_error(self.counts @ (self.risks - self.optimum))

    def exponent(
        self,
        estimator: str = "stream",
        *,
        measure: str = "absolute",
        start: int = 1,
        batches: int = 20,
        confidence: float = 0.95,
    ) -> ExponentFit:
        """Measure the power of n with which the error decays.

        Parameters
        ----------
        estimator : {"average", "stream"}
            Which estimator.
        measure : {"absolute", "bias"}
            The mean of the absolute error (what the proofs bound), or the absolute mean error.
        start : int
            First n that counts.
        batches : int
            Independent groups of replications, one line each.
        confidence : float in (0, 1)
            Coverage of the interval.

        Returns
        -------
        ExponentFit
            Slope of ln error against ln n, with its interval.
        """
        errors = self.errors(estimator)[:, self.checkpoints >= start]
        number = integer(batches, "batches", low=2, high=errors.shape[0])
        kind = choice(measure, "measure", ("absolute", "bias"))
        groups = np.array_split(errors, number)
        pooled = [np.abs(g).mean(axis=0) if kind == "absolute" else np.abs(g.mean(axis=0)) for g in groups]
        return fit_exponent(self.checkpoints[self.checkpoints >= start], pooled, confidence=confidence)

    def tail_frequency(self, deviation: float, eta: float, estimator: str = "stream") -> tuple[Floats, Floats]:
        """Return the share of replications with ``n error >= n^eta z`` and ``<= -n^eta z``, each of shape (m,).

        Parameters
        ----------
        deviation : float
            z >= 1 (any positive number is allowed).
        eta : float
            The exponent eta' of the bound.
        estimator : {"average", "stream"}
            Which estimator.

        Returns
        -------
        tuple of two ndarray of float64
            Upper and lower tail frequencies.
        """
        far = real(deviation, "deviation", low=0.0, ends="(]")
        scaled = self.errors(estimator) * self.checkpoints ** (1.0 - real(eta, "eta"))
        return (scaled >= far).mean(axis=0), (scaled <= -far).mean(axis=0)

    def to_dict(self) -> JsonObject:
        """Return the means over the replications at each checkpoint, as plain values ready for ``json.dumps``.

        Returns
        -------
        dict
            beta, replications, pulls (the checkpoints), risks and shares of the arms, and of both estimators
            the bias with its standard error, as of the regret.
        """
        (average, average_error), (stream, stream_error) = self.bias("average"), self.bias("stream")
        regret, regret_error = self._regret()
        content: Any = plain({
            "beta": self.algorithm.beta,
            "replications": self.counts.shape[0],
            "risks": self.risks,
            "shares": self.counts[:, -1].mean(axis=0) / self.checkpoints[-1],
            "pulls": self.checkpoints,
            "average_bias": average,
            "average_error": average_error,
            "stream_bias": stream,
            "stream_error": stream_error,
            "regret": regret,
            "regret_error": regret_error,
        })  # fmt: skip
        return dict(content)


def _mean_and_error(values: Floats) -> tuple[Floats, Floats]:
    """Mean over the replications (the first axis), and its standard error (NaN for a single one)."""
    number = values.shape[0]
    spread = values.std(axis=0, ddof=1) if number > 1 else np.full(values.shape[1:], np.nan)
    return np.asarray(values.mean(axis=0)), np.asarray(spread / np.sqrt(number))
