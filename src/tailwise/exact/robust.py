"""Rectangular robust problems: nature may redraw each row of the table within a ball, against the decision maker.

    V_h(s) = min over a of max over q in ball(s, a) of sum over outcomes of q (c + discount V_{h+1}(s'))

The ball holds distributions over the outcomes that the row lists: within an L1 distance, or a KL divergence
``KL(q || p)``, of the row's own. In an L1 ball the worst q moves half the radius from the best outcomes to the worst;
in a KL ball it is tilted, ``p exp(t x)``, until the radius is used up (so that each step takes an EVaR).
"""

from __future__ import annotations

import math

import numpy as np

from tailwise._arrays import Floats
from tailwise._jit import kernel
from tailwise.errors import OptionError
from tailwise.exact.sweeps import outcome_totals
from tailwise.models import TabularMDP
from tailwise.risk.objectives import Robust, RobustKL


def radii_of(mdp: TabularMDP, objective: Robust) -> Floats:
    """Return the radius of each row's ball: the objective's, or what holds its share of the row's posterior."""
    if objective.radius is not None:
        return np.full(mdp.num_rows, objective.radius)
    credible = getattr(mdp, "credible_radii", None)
    if credible is None:
        raise OptionError(
            f"{type(objective).__name__}(confidence=) asks what a log leaves possible, and {mdp.name} was not made by "
            "learn_model(); give a radius"
        )
    found: Floats = credible(objective)
    return found


def worst_chances(mdp: TabularMDP, objective: Robust, radii: Floats, h: int, after: Floats) -> Floats:
    """Return the probabilities of all outcomes at a step that are worst in the balls, from the values after it."""
    totals, _ = outcome_totals(mdp, h, after, np.zeros(mdp.num_states))
    return ball_chances(mdp, totals, isinstance(objective, RobustKL), radii)


def ball_rows(
    mdp: TabularMDP, h: int, values: Floats, sizes: Floats, *, is_kl: bool, radii: Floats
) -> tuple[Floats, Floats]:
    """Return the worst mean of each row's ball, and the mean size of what that adds up."""
    totals, added = outcome_totals(mdp, h, values, sizes)
    chance = ball_chances(mdp, totals, is_kl, radii)
    first = mdp.outcome_offsets[:-1]
    with np.errstate(invalid="ignore"):
        risks = np.add.reduceat(np.where(chance > 0.0, chance * totals, 0.0), first)
        return risks, np.add.reduceat(np.where(chance > 0.0, chance * added, 0.0), first)


def ball_chances(mdp: TabularMDP, totals: Floats, is_kl: bool, radii: Floats) -> Floats:
    """Return the probabilities of all outcomes that are worst in the balls, for such totals of them."""
    owners = mdp.outcome_rows
    order = np.lexsort((-totals, owners))
    worst, found = np.empty(totals.size), np.empty(totals.size)
    (_kl_worst if is_kl else _l1_worst)(totals[order], mdp.probabilities[order], mdp.outcome_offsets, radii, worst)
    found[order] = worst
    return found


@kernel
def _l1_worst(totals, probabilities, offsets, radii, out):  # type: ignore[no-untyped-def]
    """Fill the worst weights of each row's L1 ball; its outcomes are in order, the worst first."""
    for row in range(radii.size):
        first, last = offsets[row], offsets[row + 1]
        for k in range(first, last):
            out[k] = probabilities[k]
        moved = min(radii[row] / 2.0, 1.0 - out[first])
        out[first] += moved
        k = last - 1
        while moved > 0.0 and k > first:
            taken = min(moved, out[k])
            out[k] -= taken
            moved -= taken
            k -= 1


@kernel
def _kl_worst(totals, probabilities, offsets, radii, out):  # type: ignore[no-untyped-def]
    """Fill the worst weights of each row's KL ball; its outcomes are in order, the worst first."""
    for row in range(radii.size):
        first, last, radius = offsets[row], offsets[row + 1], radii[row]
        top, spread, mass = totals[first], totals[first] - totals[last - 1], 0.0
        for k in range(first, last):
            out[k] = probabilities[k]
            mass += probabilities[k] if totals[k] == top else 0.0
        if radius == 0.0 or not 0.0 < spread < math.inf:
            continue
        if mass > 0.0 and radius >= -math.log(mass):
            for k in range(first, last):
                out[k] = probabilities[k] / mass if totals[k] == top else 0.0
            continue
        low, high, tilt = 0.0, math.inf, math.sqrt(2.0 * radius)
        for _ in range(200):  # KL grows with the tilt: Newton's steps, or halves where one leaves the bracket
            weight, mean, square = 0.0, 0.0, 0.0
            for k in range(first, last):
                y = (totals[k] - top) / spread
                one = math.expm1(tilt * y)
                out[k] = probabilities[k] * (one + 1.0)
                weight += probabilities[k] * one
                mean += out[k] * y
                square += out[k] * y * y
            mean, square = mean / (1.0 + weight), square / (1.0 + weight)
            gap = tilt * mean - math.log1p(weight) - radius
            if abs(gap) <= 1e-13 * radius:
                break
            low, high = (tilt, high) if gap < 0.0 else (low, tilt)
            slope = tilt * (square - mean * mean)
            after = tilt - gap / slope if slope > 0.0 else math.inf
            if not low < after < high:
                after = 2.0 * tilt if high == math.inf else 0.5 * (low + high)
            if after == tilt or after > 1e300:
                break
            tilt = after
        for k in range(first, last):
            out[k] /= 1.0 + weight
