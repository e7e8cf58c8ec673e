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
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._progress import Progress, followed
from tailwise._validate import integer, real
from tailwise.errors import OptionError
from tailwise.exact.backward_induction import Solution, backward_induction
from tailwise.exact.relevant import low_total, relevant_bounds, worst_case
from tailwise.models import TabularMDP
from tailwise.models.tabular import require_table

_ROUNDING = 1e-12  # of the values compared


@dataclass(frozen=True, eq=False)
class EvarSolution:
    """An EVaR-optimal plan. All numbers are in the model's own sense.

    Attributes
    ----------
    level : float
        Share of outcomes that are not the tail.
    value : float
        EVaR of the plan, at most (rewards: at least): ``g(beta)``.
    gap : float
        No plan is better than ``value`` by more than this, >= 0.
    beta : float
        The best beta that was solved; infinity stands for the worst case.
    solution : Solution
        The ERM-optimal solution there.
    solves : int
        How many betas were solved.
    """

    level: float
    value: float
    gap: float
    beta: float
    solution: Solution
    solves: int

    @property
    def policy(self) -> NDArray[np.int32]:
        """Action ids, shape (H, S); -1 where no action is allowed."""
        return self.solution.policy

    @property
    def action(self) -> int:
        """First action, from the start state."""
        return self.solution.action

    def act(self, state: int, h: int) -> int:
        """Return the action id in ``state`` at step ``h``."""
        return self.solution.act(state, h)


def evar_planning(
    mdp: TabularMDP,
    level: float,
    *,
    tolerance: float | None = None,
    max_solves: int = 20_000,
    threads: int = 1,
    progress: Progress = None,
) -> EvarSolution:
    """Find the plan with the least entropic value at risk.

    Parameters
    ----------
    mdp : TabularMDP
        The problem.
    level : float in (0, 1)
        Share of outcomes that are not the tail: 0.95 for the worst 5 %.
    tolerance : float, optional
        Largest gap that is allowed, > 0, in the unit of the costs; if not given, 1e-4 of what the best plan's EVaR is
        above the least total that there can be.
    max_solves : int, default 20,000
        Stop there, with the gap that is left.
    threads : int, default 1
        Threads of each solve; they do not change the result.
    progress : bool or callable, optional
        True shows a bar; a function is called with (betas solved, None).

    Returns
    -------
    EvarSolution
        The plan, its EVaR, and how much better any plan can be at most.

    Raises
    ------
    OptionError
        If ``level`` is not inside (0, 1), or ``tolerance`` is not positive.
    ModelError
        If ``mdp`` is no table.

    Notes
    -----
    One solve costs O(H * outcomes). For a tolerance of a share d of the range about ``2 / sqrt(d)`` solves are needed.

    Examples
    --------
    >>> from tailwise import domains, evar_planning
    >>> mdp = domains.make("grid-mdp")
    >>> plan = evar_planning(mdp, 0.95)
    >>> mdp.action_name(plan.action), round(plan.value, 2), plan.gap < 0.01
    ('down', 14.0, True)
    """
    check_table(mdp, "evar_planning")
    penalty = -math.log1p(-check_level(level))
    allowed = None if tolerance is None else real(tolerance, "tolerance", low=0.0, low_open=True)
    limit = integer(max_solves, "max_solves", low=4)
    low, high = relevant_bounds(mdp)
    sure, safest = worst_case(mdp)
    neutral = backward_induction(mdp, 0.0, threads=threads)
    values = {0.0: float(mdp.signed(neutral.value))}
    least, best = float(low_total(mdp)), (float(sure[0, mdp.start]), math.inf)
    if high <= low:
        return EvarSolution(level, neutral.value, 0.0, 0.0, neutral, 1)

    def solve(beta: float) -> None:
        nonlocal best
        values[beta] = float(mdp.signed(backward_induction(mdp, beta, threads=threads).value))
        best = min(best, (values[beta] + penalty / beta, beta))

    def bounded(a: float, b: float) -> tuple[float, float, float]:
        return values[a] + (penalty / b if b < math.inf else 0.0), a, b

    first = max(penalty, 1.0) / (high - low)
    solve(first)
    intervals = [bounded(0.0, first), bounded(first, math.inf)]
    heapq.heapify(intervals)
    with followed(progress, "solving for each beta", None) as tick:
        while len(values) < limit:
            gap = best[0] - intervals[0][0]
            if gap <= (max(1e-4 * (best[0] - least), _ROUNDING * abs(best[0])) if allowed is None else allowed):
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
    gap = max(0.0, best[0] - intervals[0][0])
    gap = 0.0 if gap <= _ROUNDING * abs(best[0]) else gap
    if best[1] == math.inf:
        solution = Solution(mdp, math.inf, np.asarray(mdp.signed(sure)), safest)
    else:
        solution = backward_induction(mdp, best[1], threads=threads)
    return EvarSolution(level, float(mdp.signed(best[0])), gap, best[1], solution, len(values))


def check_table(model: Any, name: str) -> None:
    """Raise ``ModelError`` where an exact planner is given anything but a table."""
    require_table(
        model,
        name,
        "a simulator that lists its outcomes becomes one with tailwise.models.tabulate; for any other there are "
        "sampled_planning, CvarMcts and DistributionalMcts",
    )


def check_level(level: float) -> float:
    """Return a level inside (0, 1), or raise ``OptionError``."""
    try:
        return real(level, "level", low=0.0, high=1.0, low_open=True, high_open=True)
    except OptionError as error:
        raise OptionError(
            f"{error}; it is the share of outcomes that are not the tail, 0.95 for the worst 5 % (0 would be the mean, "
            "1 the worst case: a very large beta)"
        ) from None
