r"""Every ERM-optimal policy of a table over a range of betas, with the betas at which it is optimal.

As beta grows, the optimal policy changes at a handful of betas. Where two ends of an interval have different policies,
it is bisected down to the tolerance. Where they have the same policy, another one could still be optimal in between
(two curves of risk can cross twice), and that is excluded by monotonicity: optimal risks do not fall as beta grows, so
that on [a, b]

    Q_beta(s, action) >= Q_a(s, action)   and   V_beta(s) <= V_b(s),

and if ``Q_a(s, action) > V_b(s)`` for every other action wherever the policy leads, it is optimal on the whole
interval. An interval without that certificate is split too. Policies are told apart by what they do where they lead;
actions that tie at both ends count as tied in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import marked
from tailwise._progress import Progress, followed
from tailwise._validate import integer, real
from tailwise.errors import OptionError
from tailwise.exact.induction import backward_induction
from tailwise.exact.policy import Policy
from tailwise.exact.sweeps import TIE_TOLERANCE
from tailwise.models import TabularMDP

_CHECKS, _LEAST_CHECKS = 0.1, 30  # of the betas to solve, for intervals whose ends have the same policy


@dataclass(frozen=True, eq=False)
class PolicyInterval:
    """A policy and the betas at which it is optimal.

    Attributes
    ----------
    low, high : float
        The betas; its neighbours take over within the tolerance of these.
    solution : Policy
        The solution at one of them, ``solution.beta``.
    certified : bool
        Whether no other policy can be optimal in between.
    """

    low: float
    high: float
    solution: Policy
    certified: bool


def policy_intervals(
    mdp: TabularMDP,
    low: float,
    high: float,
    *,
    tolerance: float = 1e-8,
    max_solves: int = 5000,
    threads: int = 1,
    progress: Progress = None,
) -> tuple[PolicyInterval, ...]:
    """Trace the ERM-optimal policies from one beta to another.

    Parameters
    ----------
    mdp : TabularMDP
        The problem.
    low, high : float
        First and last beta, finite, in order.
    tolerance : float, default 1e-8
        How exactly the betas of change are found, as a share of the beta. A policy that is optimal on a shorter
        interval can be missed.
    max_solves : int, default 5000
        Most betas to solve, a tenth of that (or 30) where both ends of an interval have the same policy; what is
        left uncertified then says so.
    threads : int, default 1
        Threads of each solve; they do not change the result.
    progress : bool or callable, optional
        True shows a bar; a function is called with (betas solved so far, None).

    Returns
    -------
    tuple of PolicyInterval
        In order of beta.

    Raises
    ------
    OptionError
        If the betas are not in order.

    Examples
    --------
    >>> from tailwise import domains
    >>> from tailwise.exact import policy_intervals
    >>> found = policy_intervals(domains.make("grid-mdp"), 0.0, 0.05)
    >>> [(round(one.low, 7), domains.make("grid-mdp").action_name(one.solution.action)) for one in found]
    [(0.0, 'up'), (0.0340236, 'right')]
    """
    first, last = real(low, "low"), real(high, "high")
    if first >= last:
        raise OptionError(f"betas must increase: {first:g} is not below {last:g}")
    share = real(tolerance, "tolerance", low=1e-14, high=0.5)
    limit = integer(max_solves, "max_solves", low=2)
    points = {beta: _Point.at(mdp, beta, threads) for beta in (first, last)}
    first_alike = points[first].key == points[last].key
    pending, pieces, checks = [(first_alike, 0.0, first, last)], [], 0
    doubtful: set[bytes] = set()
    with followed(progress, "solving for each beta", None) as tick:
        while pending:
            same, _, a, b = heappop(pending)
            left, right = points[a], points[b]
            narrow = b - a <= share * max(abs(a), abs(b))
            spent = len(points) >= limit or (same and checks >= max(_LEAST_CHECKS, _CHECKS * limit))
            doubted = spent and left.key in doubtful  # no certificate of a part makes its policy certain again
            sure = same and not narrow and not doubted and _is_certified(mdp, left, right)
            tick(len(points))
            if sure or narrow or spent:
                if same and not (sure or narrow):
                    doubtful.add(left.key)
                pieces.append((a, b, same, sure or narrow))
                continue
            checks += same
            middle = _between(a, b)
            points[middle] = _Point.at(mdp, middle, threads)
            for low_end, high_end in ((a, middle), (middle, b)):  # changes first, then what is least known
                alike = points[low_end].key == points[high_end].key
                heappush(pending, (alike, (low_end - high_end) / max(abs(low_end), abs(high_end)), low_end, high_end))
    found: list[PolicyInterval] = []
    for a, b, same, sure in sorted(pieces):
        left, right = points[a], points[b]
        if found and found[-1].high == a:
            before = found.pop()
            end = b if same else (a + b) / 2.0
            found.append(PolicyInterval(before.low, end, before.solution, before.certified and sure))
        else:
            found.append(PolicyInterval(a, b if same else (a + b) / 2.0, left.solution, sure))
        if not same:
            found.append(PolicyInterval((a + b) / 2.0, b, right.solution, sure))
    return tuple(found)


def _between(a: float, b: float) -> float:
    """Return the middle, in the logarithm where the two are far apart."""
    if a > 0.0 and b > 4.0 * a:
        return math.sqrt(a * b)
    if b < 0.0 and a < 4.0 * b:
        return -math.sqrt(a * b)
    return (a + b) / 2.0


@dataclass(frozen=True, eq=False)
class _Point:
    """A solution, the states its policy leads to (H, S), and what it does there."""

    solution: Policy
    reached: NDArray[np.bool_]
    key: bytes

    @classmethod
    def at(cls, mdp: TabularMDP, beta: float, threads: int) -> _Point:
        solution = backward_induction(mdp, beta, threads=threads)
        reached = _reached(mdp, solution.policy)
        return cls(solution, reached, np.where(reached, solution.policy, -1).tobytes())


def _reached(mdp: TabularMDP, policy: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return where a policy leads: bool, shape (H, S)."""
    owners = mdp.outcome_rows
    reached = np.zeros(policy.shape, dtype=np.bool_)
    here = marked(mdp.num_states, mdp.start)
    for h in range(mdp.horizon):
        reached[h] = here
        taken = here[mdp.row_states] & (policy[h][mdp.row_states] == mdp.action_ids)
        going = taken[owners] & ~mdp.done
        here = marked(mdp.num_states, mdp.next_states[going])
    return reached


def _is_certified(mdp: TabularMDP, left: _Point, right: _Point) -> bool:
    """Whether no action but the policy's (or one that ties with it) can be optimal between two betas."""
    sign = 1.0 if mdp.sense == "cost" else -1.0
    for h in range(mdp.horizon):
        states = np.flatnonzero(left.reached[h])
        if not states.size:
            break
        q_left = sign * left.solution.action_values(h)[states]
        v_right = sign * right.solution.values[h, states][:, np.newaxis]
        open_ = q_left <= v_right
        open_[np.arange(states.size), left.solution.policy[h, states]] = False
        if not open_.any():
            continue
        q_right = sign * right.solution.action_values(h)[states]
        v_left = sign * left.solution.values[h, states][:, np.newaxis]
        close = 10.0 * TIE_TOLERANCE
        sizes = [np.maximum(np.abs(v), abs(one.solution.value)) for v, one in ((v_left, left), (v_right, right))]
        tied = (np.abs(q_left - v_left) <= close * sizes[0]) & (np.abs(q_right - v_right) <= close * sizes[1])
        if (open_ & ~tied).any():
            return False
    return True
