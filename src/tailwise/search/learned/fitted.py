"""Where states do not come back: backward induction by regression on features of the states.

    Q_h(s, a) = ERM_{beta_h}(cost + discount V_{h+1}(s')),   V_h(s) = min_a Q_h(s, a)

as in an answer by counts, but the ERM after an action is a function of the state that is fitted to all draws of that
step (fitted Q iteration: Ernst, Geurts and Wehenkel, 2005; for the entropic risk in two parts: the mean, then the mean
of the exponential of what is left). Polynomials of a degree that predicts best what it was not fitted to. To the draws
of a state that was met before the fit is added as if it were one draw more: where states do come back, counts win.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints, gram, inner, product, ranges
from tailwise.search.learned.counts import NODES, OUTCOMES, PAIRS, Nodes, TransitionCounts

_DEGREES, _MOST_TERMS = 3, 60
_PENALTIES = 10.0 ** np.arange(-6.0, 2.0, 2.0)
_ROUNDING = 1e-13  # of all squares, that a penalty is above
_GAIN = 0.99  # of the squared error, that a higher degree must bring
_STEEPEST = 30.0  # of beta times what the mean leaves


class Draws(NamedTuple):
    """Outcomes of one step's states; D is their number."""

    owners: Ints  # (D,) handles
    actions: Ints  # (D,) positions
    costs: Floats  # (D,)
    targets: Ints  # (D,) handles, -1 where the episode ends
    counts: Floats  # (D,)


def standard_features(state: Any) -> tuple[float, ...] | None:
    """Return a state's own numbers, where it is a float or a tuple of numbers; None where it is anything else."""
    return numbers_of(state) if isinstance(state, tuple | float | np.floating) else None


def numbers_of(state: Any) -> tuple[float, ...] | None:
    """Return the numbers that a state consists of, a single one included; None where it is anything else."""
    parts = state if isinstance(state, tuple) else (state,)
    if not parts or not all(isinstance(part, int | float | np.integer | np.floating) for part in parts):
        return None
    try:
        return tuple(float(part) for part in parts)
    except OverflowError:
        return None


def numbers_in(label: str) -> tuple[float, ...] | None:
    """Return the numbers that the label of a state is, one or some between brackets; None where it is anything else."""
    parts = label.strip().removeprefix("(").removesuffix(")").removesuffix(",").split(",")
    try:
        return tuple(map(float, parts))
    except ValueError:
        return None


def draws_by_step(
    known: TransitionCounts,
    nodes: Nodes,
    depth: int,
    horizon: int,
    offsets: Callable[[Ints, Ints, int], Floats],
    kept: NDArray[np.bool_] | None,
) -> list[Draws]:
    """Return what was drawn of the states met at each step from the root's on, at any step; of nodes ``kept`` alone."""
    order = np.argsort(known.pairs[1 : known.used[OUTCOMES]], kind="stable") + 1
    starts = np.searchsorted(known.pairs[order], np.arange(known.used[PAIRS] + 1))
    used, found = int(nodes.used[NODES]), []
    at = nodes.steps[:used] if kept is None else np.where(kept[:used], nodes.steps[:used], -1)
    for h in range(depth, horizon):
        here = 1 + np.flatnonzero(at[1:] == h)
        first = nodes.first_pair[here].astype(np.int64)
        _, places, pairs = ranges(first, first + nodes.arity[here])
        _, rows, entries = ranges(starts[pairs], starts[pairs + 1])
        outcomes, places = order[entries], places[rows]
        owners, actions = nodes.states[here[places]].astype(np.int64), pairs[rows] - first[places]
        costs = known.costs[outcomes] + offsets(owners, actions, h)
        targets = known.targets[outcomes].astype(np.int64)
        found.append(Draws(owners, actions, costs, targets, known.counts[outcomes].astype(np.float64)))
    return found


def fitted_values(
    steps: list[Draws],
    features: Sequence[tuple[float, ...] | None],
    arity: Ints,
    betas: Floats,
    discount: float,
    root: int,
) -> Floats | None:
    """Return the risk of each action at the ``root``, inf where nothing was drawn.

    ``steps`` begin at the root's, ``features`` and ``arity`` (0 where it is not known) are by handle; None where
    features differ in number or are not finite, or nothing was drawn at a step to which draws lead.
    """
    widths = {-1 if row is None else len(row) for row in features}
    if len(widths) != 1 or -1 in widths:
        return None
    inputs = np.array(features, dtype=np.float64)
    if not np.isfinite(inputs).all():
        return None
    value: Callable[[Ints], Floats] | None = None
    after: Draws | None = None
    for draws, beta in zip(steps[:0:-1], betas[:0:-1].tolist(), strict=True):
        if _lacks(draws, after):
            return None
        after = draws
        if draws.owners.size:
            value = _least(draws, _targets(draws, value, discount), inputs, arity, beta)
    if _lacks(steps[0], after):
        return None
    first, found = steps[0], np.full(int(arity[root]), math.inf)
    costs = _targets(first, value, discount)
    for a in np.unique(first.actions[first.owners == root]).tolist():
        here = (first.actions == a) & (first.owners == root)
        found[a] = _erm(costs[here], first.counts[here], float(betas[0]))
    return found


def _lacks(draws: Draws, after: Draws | None) -> bool:
    """Whether nothing was drawn at the step ``after`` one whose draws lead there."""
    return after is not None and not after.owners.size and bool((draws.targets >= 0).any())


def _targets(draws: Draws, value: Callable[[Ints], Floats] | None, discount: float) -> Floats:
    costs, going = draws.costs.copy(), draws.targets >= 0
    if value is not None and going.any():
        costs[going] += discount * value(draws.targets[going])
    return costs


def _erm(costs: Floats, weights: Floats, beta: float) -> float:
    weights = weights / weights.sum()
    if beta == 0.0:
        return inner(weights, costs)
    top = float((beta * costs).max())
    return float((top + np.log(inner(weights, np.exp(beta * costs - top)))) / beta)


def _least(draws: Draws, costs: Floats, features: Floats, arity: Ints, beta: float) -> Callable[[Ints], Floats]:
    """Return V of the step by handles: the least of the fits to the draws of each action."""
    risks = {}
    for a in np.unique(draws.actions).tolist():
        here = draws.actions == a
        risks[a] = _risk(draws.owners[here], costs[here], draws.counts[here], features, beta)

    def value(handles: Ints) -> Floats:
        least, number = np.full(handles.size, math.inf), arity[handles]
        for a, risk in risks.items():
            allowed = (number > a) | (number == 0)
            least[allowed] = np.minimum(least[allowed], risk(handles[allowed]))
        return np.where(least < math.inf, least, costs.mean())

    return value


def _risk(owners: Ints, costs: Floats, weights: Floats, features: Floats, beta: float) -> Callable[[Ints], Floats]:
    """Return the ERM after an action by handles: of a state's own draws, and of one more that is as the fit says."""
    fit = _fit(features[owners], costs, weights, beta)
    states, places = np.unique(owners, return_inverse=True)
    counts = np.bincount(places, weights)
    if beta == 0.0:
        sums = np.bincount(places, weights * costs)
    else:
        sums = np.full(states.size, -math.inf)  # logarithms
        np.logaddexp.at(sums, places, beta * costs + np.log(weights))

    def risk(handles: Ints) -> Floats:
        found = fit(features[handles])
        at = np.minimum(np.searchsorted(states, handles), states.size - 1)
        met = states[at] == handles
        at = at[met]
        if beta == 0.0:
            found[met] = (found[met] + sums[at]) / (1.0 + counts[at])
        else:
            found[met] = (np.logaddexp(beta * found[met], sums[at]) - np.log1p(counts[at])) / beta
        return found

    return risk


def _fit(states: Floats, costs: Floats, weights: Floats, beta: float) -> Callable[[Floats], Floats]:
    """Fit the ERM of ``costs`` at ``beta`` as a function of the states' features."""
    low, high, middle = states.min(axis=0), states.max(axis=0), states.mean(axis=0)
    kept = high - low > 1e-12 * np.maximum(np.abs(high), 1.0)
    spread = np.where(kept, states.std(axis=0), 1.0)

    def scaled(some: Floats) -> Floats:
        inside: Floats = ((np.clip(some, low, high) - middle) / spread)[:, kept]
        return inside

    inputs = scaled(states)
    mean = _regression(inputs, costs, weights)
    if beta == 0.0:
        return lambda some: mean(scaled(some))
    left = np.exp(np.clip(beta * (costs - mean(inputs)), -_STEEPEST, _STEEPEST))
    factor = _regression(inputs, left, weights)
    least = 0.05 * float(np.average(left, weights=weights))
    return lambda some: mean(scaled(some)) + np.log(np.maximum(factor(scaled(some)), least)) / beta


def _regression(inputs: Floats, outputs: Floats, weights: Floats) -> Callable[[Floats], Floats]:
    """Least squares by a polynomial whose degree and penalty have the least error on rows left out one by one."""
    lowest, highest, roots = outputs.min(), outputs.max(), np.sqrt(weights)
    least, best, terms = math.inf, np.zeros(1), _terms(inputs.shape[1], 0)
    for degree in range(_DEGREES + 1 if inputs.shape[1] else 1):
        tried = _terms(inputs.shape[1], degree)
        if degree and 2 * len(tried) > min(outputs.size, 2 * _MOST_TERMS):
            break
        columns, aims = roots[:, None] * _powers(inputs, tried), roots * outputs
        squares, along = gram(columns), np.sum(columns * aims[:, None], axis=0)
        for penalty in np.maximum(_PENALTIES, _ROUNDING * np.trace(squares)):
            inverse = np.linalg.inv(squares + penalty * np.eye(len(tried)))
            solution = inverse @ along
            leverage = np.sum(product(columns, inverse) * columns, axis=1)
            away = (aims - product(columns, solution)) / np.maximum(1.0 - leverage, 1e-3)
            error = inner(away, away)
            if error < _GAIN * least:
                least, terms, best = error, tried, solution
    return lambda some: np.clip(product(_powers(some, terms), best), lowest, highest)


def _terms(width: int, degree: int) -> list[tuple[int, ...]]:
    return [term for size in range(degree + 1) for term in itertools.combinations_with_replacement(range(width), size)]


def _powers(inputs: Floats, terms: list[tuple[int, ...]]) -> Floats:
    columns = [np.prod(inputs[:, term], axis=1) if term else np.ones(len(inputs)) for term in terms]
    return np.stack(columns, axis=1)
