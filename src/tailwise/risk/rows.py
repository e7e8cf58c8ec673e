"""The entropic risk of many rows at once: samples of equal size, or mixtures of the same atoms.

The vector form of :func:`tailwise.risk.entropic.weighted_erm`, for simulations and resampling; good to some 1e-15.
"""

from __future__ import annotations

import math

import numpy as np

from tailwise.risk.entropic import Floats, oce_utility, weighted_erm
from tailwise.risk.oce import FLAT, LOST, NEAR, NEGLIGIBLE


def row_erms(costs: Floats, beta: float, weights: Floats | None = None) -> Floats:
    """Return the ERM of each row of ``costs``, whose costs may differ from row to row.

    Parameters
    ----------
    costs : ndarray of float64, shape (k, n) or (n,)
        Finite costs; of shape (n,) all rows share them.
    beta : float
        Finite risk level.
    weights : ndarray of float64, shape (k, n), optional
        Not negative, some positive in each row; equal if not given.

    Returns
    -------
    ndarray of float64, shape (k,)
        Each row is shifted by its own worst cost or, for a small beta, its mean: nothing overflows.
    """

    def mean(terms: Floats) -> Floats:
        if weights is None:
            return np.asarray(terms.mean(axis=1))
        return np.asarray((weights * terms).sum(axis=1) / weights.sum(axis=1))

    spread = abs(beta) * float(np.ptp(costs))
    if spread < FLAT:
        return mean(costs)
    if spread < NEAR:
        centre = mean(costs)
        return np.asarray(centre + np.log1p(mean(np.expm1(beta * (costs - centre[:, None])))) / beta)
    counted = costs if weights is None else np.where(weights > 0.0, costs, -math.copysign(math.inf, beta))
    top = (counted.max if beta > 0 else counted.min)(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(mean(np.exp(beta * (counted - top)))) / beta)


def mixture_erms(weights: Floats, atoms: Floats, beta: float) -> Floats:
    """Return the ERM of many distributions on the same atoms: one matrix product.

    Parameters
    ----------
    weights : ndarray of float64, shape (k, n)
        Not negative, some positive in each row; the rows need not sum to 1.
    atoms : ndarray of float64, shape (n,)
        Finite costs, not necessarily distinct or in order.
    beta : float
        Finite risk level.

    Returns
    -------
    ndarray of float64, shape (k,)
        A row that lacks the atoms that decide the others is done on its own (:func:`row_erms`).
    """
    centre = weighted_erm(atoms, beta, np.full(atoms.size, 1.0 / atoms.size))
    means = (weights @ oce_utility(atoms - centre, beta)) / weights.sum(axis=1)
    scaled = beta * means
    lost, small = scaled < LOST, np.abs(scaled) < NEGLIGIBLE
    values = np.asarray(centre + np.where(small, means, np.log1p(np.where(lost, 0.0, scaled)) / (beta or 1.0)))
    if lost.any():
        values[lost] = row_erms(atoms, beta, weights[lost])
    return values
