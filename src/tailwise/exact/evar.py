r"""EVaR-optimal planning on tables, by solving for the entropic risk at chosen betas.

The entropic value at risk of a total X at a level is ``min over beta > 0 of ERM_beta(X) + L / beta`` with
``L = -ln(1 - level)``. The two minima, over plans and over beta, can change places, so that

    EVaR* = min over beta > 0 of g(beta),        g(beta) = V*(beta) + L / beta,

where V* is the optimal ERM from the exact solver: one Markov policy, the ERM-optimal one at the best beta, is
EVaR-optimal among *all* policies (Hau, Petrik & Ghavamzadeh, 2023). g may have several minima. They sweep a grid of
betas, dense enough for a guarantee. Here, since V* does not fall as beta grows,

    g >= V*(a) + L / b   on [a, b]

between any two betas that were solved, and only the interval with the least bound is split, until no interval can
hide anything better than the tolerance. The bound at 0 is ``V*(0) + L / b``, the one at infinity ``V*(a)``; the plan of
the least worst total stands for an infinite beta, and bounds g from above.

An EVaR-optimal plan is one for the whole episode. Planning again for EVaR at a later step would choose another beta,
and can lead elsewhere; the policy returned here keeps to its own.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

from tailwise._progress import followed
from tailwise.exact.entropic import backward_induction
from tailwise.exact.policy import Policy
from tailwise.exact.relevant import low_total, relevant_bounds
from tailwise.exact.stepwise import worst_case
from tailwise.exact.tails import ROUNDING, Limits, gap_of
from tailwise.models import TabularMDP
from tailwise.risk import EVaR

_MOST = 20_000  # betas


def solve_evar(mdp: TabularMDP, objective: EVaR, limits: Limits) -> Policy:
    """Return the policy of least EVaR, at a level inside (0, 1).

    One beta costs O(H * outcomes). For a tolerance of a share d of the range about ``2 / sqrt(d)`` are needed.
    """
    penalty = -math.log1p(-objective.level)
    allowed, limit = limits.tolerance, max(4, int(_MOST * limits.share**0.5))
    low, high = relevant_bounds(mdp)
    safest, neutral = worst_case(mdp), backward_induction(mdp, 0.0, threads=limits.threads)
    values = {0.0: float(mdp.signed(neutral.value))}
    least, best = low_total(mdp), (float(mdp.signed(safest.value)), math.inf)
    if high <= low:
        return replace(neutral, objective=objective)

    def solve(beta: float) -> None:
        nonlocal best
        values[beta] = float(mdp.signed(backward_induction(mdp, beta, threads=limits.threads).value))
        best = min(best, (values[beta] + penalty / beta, beta))

    def bounded(a: float, b: float) -> tuple[float, float, float]:
        return values[a] + (penalty / b if b < math.inf else 0.0), a, b

    first = max(penalty, 1.0) / (high - low)
    solve(first)
    intervals = [bounded(0.0, first), bounded(first, math.inf)]
    heapq.heapify(intervals)
    with followed(limits.progress, "solving for each beta", None) as tick:
        while len(values) < limit:
            gap = best[0] - intervals[0][0]
            close = max(1e-4 / limits.share * (best[0] - least), ROUNDING * abs(best[0]))
            if gap <= (close if allowed is None else allowed):
                break
            _, a, b = heapq.heappop(intervals)
            if a == 0.0:
                middle = b / 2.0
            elif b == math.inf:
                middle = a * 2.0
            else:
                middle = math.sqrt(a * b)
            solve(middle)
            heapq.heappush(intervals, bounded(a, middle))
            heapq.heappush(intervals, bounded(middle, b))
            if tick is not None:
                tick(len(values))
    policy = safest if best[1] == math.inf else backward_induction(mdp, best[1], threads=limits.threads)
    return replace(
        policy, objective=objective, value=float(mdp.signed(best[0])), gap=gap_of(best[0], intervals[0][0]),
        beta=best[1], solves=len(values),
    )  # fmt: skip
