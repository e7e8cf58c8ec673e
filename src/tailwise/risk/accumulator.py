"""A running ERM in constant memory, exact to merge: the accumulator of every chance node.

The paper keeps the list of all sampled costs and evaluates eq. ``entropic_risk_estimator`` on it.
Three numbers are enough: a count n, a reference r and the mean U of ``u_beta(x_t - r)``, since

    ERM = r + ln(1 + beta U) / beta          for any r        (r + U at beta = 0).

Precision asks that ``1 + beta U`` stay near 1, that is, that r stay near the ERM. After a push
that drives it out of [1/2, 2] the accumulator re-bases onto its own value (r = ERM, U = 0). A cost
far above r goes in through the log-domain form of the same identity, so that nothing overflows.
For r = ERM the update is ``ERM += ln(1 + expm1(y)/n) / beta`` with ``y = beta (x - ERM)``:
:func:`push_value`, which bandits use: it needs no U. The search does the same for eight nodes of a path at once
(:mod:`tailwise.search.backups`), with limits of its own on y, set by where its polynomials hold.

Two accumulators merge exactly, in any order and grouping: a commutative monoid. The running sum is
compensated (Neumaier), so that 10^6 pushes lose no digits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tailwise._jit import inlined, kernel
from tailwise._validate import real
from tailwise.errors import OptionError
from tailwise.risk.entropic import FAR, NEAR, SERIES, inverse_utility, utility

_utility, _inverse_utility = inlined(utility), inlined(inverse_utility)


@inlined
def merge_values(value, other, share, beta):  # type: ignore[no-untyped-def]
    """ERM of a mixture: ``value`` with weight 1 - share, ``other`` with weight ``share`` > 0, at ``beta``.

    Written relative to whichever side decides the result, so that it neither overflows nor
    rounds at the scale of the side that does not matter.
    """
    gap = other - value
    scaled = beta * gap
    if abs(scaled) < SERIES:
        return value + share * gap * (1.0 + 0.5 * (1.0 - share) * scaled)
    if scaled > NEAR:
        return other + (math.log(share) + math.log1p((1.0 - share) / share * math.exp(-scaled))) / beta
    return value + math.log1p(share * math.expm1(scaled)) / beta


@inlined
def push_value(value, count, cost, beta):  # type: ignore[no-untyped-def]
    """ERM after one more ``cost``, from the ERM ``value`` of ``count - 1`` costs (``count`` >= 1)."""
    if count == 1:
        return cost
    return merge_values(value, cost, 1.0 / count, beta)


@kernel
def _merged(value, other, share, beta):  # type: ignore[no-untyped-def]
    """:func:`merge_values`, for Python."""
    return merge_values(value, other, share, beta)


@kernel
def _push(state, costs, beta):  # type: ignore[no-untyped-def]
    """Push ``costs`` into ``state`` = [count, reference, sum of u, compensation]."""
    for cost in costs:
        if state[0] == 0.0:
            near = abs(beta * cost) <= 0.5  # reference 0 keeps the relative precision of a result near 0
            state[0], state[2], state[3] = 1.0, 0.0, 0.0
            state[1] = 0.0 if near else cost
            if near:
                state[2] = _utility(cost, beta)
            continue
        count = state[0] + 1.0
        gap = cost - state[1]
        scaled = beta * gap
        far = scaled > FAR
        if not far:
            term = _utility(gap, beta)
            total = state[2] + term
            far = scaled > NEAR and beta * total / count > 1.0
        if far:  # the cost decides the new value: re-base there
            value = merge_values(_value(state, beta), cost, 1.0 / count, beta)
            state[0], state[1], state[2], state[3] = count, value, 0.0, 0.0
            continue
        if abs(state[2]) >= abs(term):
            state[3] += (state[2] - total) + term
        else:
            state[3] += (term - total) + state[2]
        state[0], state[2] = count, total
        if not -0.5 <= beta * total / count <= 1.0:
            state[1] = _value(state, beta)
            state[2], state[3] = 0.0, 0.0


@kernel
def _value(state, beta):  # type: ignore[no-untyped-def]
    """ERM held by ``state`` (count > 0)."""
    return state[1] + _inverse_utility((state[2] + state[3]) / state[0], beta)


class EntropicAccumulator:
    """Running ERM of a stream of costs: O(1) memory, O(1) per cost, exact to merge.

    Parameters
    ----------
    beta : float
        Finite risk level (1/cost): positive averse, 0 the mean, negative seeking.

    Notes
    -----
    Relative error at most a few 1e-15 of the largest cost for every beta and scale, where
    ``log(mean(exp(beta x)))`` overflows or cancels. See the module's docstring for the method.

    Examples
    --------
    >>> from tailwise import EntropicAccumulator
    >>> left, right = EntropicAccumulator(beta=0.5), EntropicAccumulator(beta=0.5)
    >>> left.push(1.0).push(2.0).count
    2
    >>> right.extend([10.0]).value
    10.0
    >>> round(left.merge(right).value, 6)
    7.860776
    """

    __slots__ = ("_state", "beta")

    def __init__(self, beta: float) -> None:
        self.beta = real(beta, "beta")
        self._state = np.zeros(4)

    @property
    def count(self) -> int:
        """Number of costs pushed so far."""
        return int(self._state[0])

    @property
    def value(self) -> float:
        """ERM of the costs pushed so far; NaN while there are none."""
        return float(_value(self._state, self.beta)) if self._state[0] else math.nan

    def push(self, cost: float) -> EntropicAccumulator:
        """Add one finite cost and return the accumulator itself."""
        number = real(cost, "cost")
        _push(self._state, np.array([number]), self.beta)
        return self

    def extend(self, costs: ArrayLike) -> EntropicAccumulator:
        """Add all of ``costs`` (finite, any shape) and return the accumulator itself."""
        try:
            numbers = np.ascontiguousarray(costs, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError) as error:
            raise OptionError(f"costs must be numbers: {error}") from None
        bad = np.flatnonzero(~np.isfinite(numbers))
        if bad.size:
            raise OptionError(f"costs[{bad[0]}] is {numbers[bad[0]]}; an accumulator takes finite costs only")
        _push(self._state, numbers, self.beta)
        return self

    def merge(self, other: EntropicAccumulator) -> EntropicAccumulator:
        """Return a new accumulator that holds the costs of both; neither operand changes.

        Raises
        ------
        OptionError
            If ``other`` is no accumulator, or the two have different risk levels.
        """
        if not isinstance(other, EntropicAccumulator):
            raise OptionError(f"cannot merge a {type(other).__name__}; expected an EntropicAccumulator")
        if other.beta != self.beta:
            raise OptionError(f"cannot merge an accumulator at beta={other.beta} into one at beta={self.beta}")
        merged = EntropicAccumulator(self.beta)
        if not self.count or not other.count:
            merged._state[:] = self._state if self.count else other._state
            return merged
        total = self._state[0] + other._state[0]
        if self._state[1] == other._state[1]:  # one reference: the sums add up, with nothing re-based
            sums = math.fsum((self._state[2], other._state[2]))
            rest = math.fsum((self._state[2], other._state[2], -sums, self._state[3], other._state[3]))
            merged._state[:] = total, self._state[1], sums, rest
            return merged
        # The lighter side is folded into the heavier one, so that the operation is symmetric.
        first, second = sorted((self, other), key=lambda item: (item.count, item.value), reverse=True)
        value = _merged(first.value, second.value, second._state[0] / total, self.beta)
        merged._state[:] = total, value, 0.0, 0.0
        return merged

    def __repr__(self) -> str:
        return f"EntropicAccumulator(beta={self.beta!r}, count={self.count}, value={self.value!r})"
