r"""What backward induction over state and step solves exactly on tables: ERM, worst case, nested CVaR and EVaR.

*Entropic risk.* It is the one law-invariant risk measure with a dynamic programming decomposition (Hau et al., 2023;
paper, eq. ``erm_bellman_optimality equations``)::

    V_H(s) = c_H(s)
    Q_h(s, a) = ERM_{beta_h}(c_h(s, a, s') + discount V_{h+1}(s')),   beta_h = beta discount^h
    V_h(s) = min_a Q_h(s, a)

A deterministic Markov policy is optimal, but it depends on the step even where the model does not: ``beta_h`` fades
with depth. :mod:`tailwise.exact.sweeps` says how a sweep stays about as cheap as a risk-neutral one and
exact at every beta.

*Objectives that are taken again at every step*: the worst case, and nested (iterated) CVaR,

    V_h(s) = min over a of R(c_h(s, a, s') + discount V_{h+1}(s')),     R the largest outcome, or the CVaR at a level.

Nested CVaR is another objective than the CVaR of the total (:mod:`tailwise.exact.tails`). It is consistent over time:
the plan depends on state and step alone, and planning again later finds the same. The price is that a tail of tails is
hard to read. Of one plan it is at least the mean and at most the worst case, and grows with the horizon. It is often
above the static CVaR, but not always: if .1 of the outcomes cost 5, and .01 of the others 100, it is 10 at level .9 (of
the others alone), and the CVaR of the total 13.55 (of both together). What other risk-averse planners offer as
"risk-averse dynamic programming" is often this.

*EVaR*, by solving for the entropic risk at chosen betas. The entropic value at risk of a total X at a level is
``min over beta > 0 of ERM_beta(X) + L / beta`` with ``L = -ln(1 - level)``. The two minima, over plans and over beta,
can change places, so that

    EVaR* = min over beta > 0 of g(beta),        g(beta) = V*(beta) + L / beta,

where V* is the optimal ERM: one Markov policy, the ERM-optimal one at the best beta, is EVaR-optimal among *all*
policies (Hau, Petrik & Ghavamzadeh, 2023). g may have several minima. They sweep a grid of betas, dense enough for a
guarantee. Here, since V* does not fall as beta grows,

    g >= V*(a) + L / b   on [a, b]

between any two betas that were solved, and only the interval with the least bound is split, until no interval can
hide anything better than the tolerance. The bound at 0 is ``V*(0) + L / b``, the one at infinity ``V*(a)``; the plan of
the least worst total stands for an infinite beta, and bounds g from above. An EVaR-optimal plan is one for the whole
episode. Planning again for EVaR at a later step would choose another beta, and can lead elsewhere; the policy returned
here keeps to its own.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from tailwise._progress import Progress, Tick, followed, untold
from tailwise._validate import real, thread_count
from tailwise.errors import OptionError
from tailwise.exact.policy import Policy
from tailwise.exact.reachability import low_total, relevant_bounds
from tailwise.exact.sweeps import RowRisks, Sweeps, chosen_of, least_of, row_worst
from tailwise.exact.tails import ROUNDING, Limits, gap_of
from tailwise.models import TabularMDP
from tailwise.models.tabular import require_table
from tailwise.risk import ERM, EVaR, Objective, WorstCase


def backward_induction(mdp: TabularMDP, beta: float, *, threads: int = 1, progress: Progress = None) -> Policy:
    """Solve a table exactly for the entropic risk measure (the paper's ERM-BI).

    Parameters
    ----------
    mdp : TabularMDP
        The problem.
    beta : float
        Finite risk level at step 0, in 1/cost: positive averse, 0 risk-neutral, negative seeking.
    threads : int, default 1
        Threads that share the states of each step. The result does not depend on them.
    progress : bool or callable, optional
        True shows a bar; a function is called with (steps done, of how many).

    Returns
    -------
    Policy
        Values, policy and action values for every step and state.

    Raises
    ------
    OptionError
        If ``beta`` is not a finite number, ``threads`` is below 1, or the values need more than 64 GiB.
    ModelError
        If ``mdp`` is not a table, or :func:`tailwise.check_model` faults it.

    Notes
    -----
    O(H * outcomes) time, O(H * S) memory. Source: paper, eq. ``erm_bellman_optimality equations``.

    Examples
    --------
    >>> from tailwise import backward_induction, domains
    >>> solution = backward_induction(domains.make("mdp-4"), beta=0.5)
    >>> round(solution.value, 9), solution.action
    (1.779207373, 1)
    """
    require_table(mdp, "backward_induction", "plan on a simulator with ErmMcts, or solve one that lists its outcomes")
    level = real(beta, "beta", hint="for the worst case, use a large finite value")
    number = thread_count(threads)
    mdp.require_sound()
    horizon, size = mdp.horizon, mdp.num_states
    if (horizon + 1) * size * 12 > 2**36:
        raise OptionError(
            f"values for {horizon} steps x {size} states would need more than 64 GiB; shorten the horizon"
        )
    values, policy = np.empty((horizon + 1, size)), np.empty((horizon, size), np.int32)
    values[horizon] = mdp.terminal_losses
    none = np.empty(0)
    follow = followed(progress, "solving", horizon)
    with ThreadPoolExecutor(number) if number > 1 else nullcontext() as pool, follow as tick:
        sweep = Sweeps(mdp, level, pool, number)
        for h in range(horizon - 1, -1, -1):
            sweep(h, values[h + 1], none, values[h], policy[h])
            tick(horizon - h)
    if mdp.sense == "reward":
        np.subtract(0.0, values, out=values)  # and no -0.0
    values.setflags(write=False)
    policy.setflags(write=False)
    return Policy(ERM(level), mdp, float(values[0, mdp.start]), beta=level, values=values, policy=policy)


def worst_case(mdp: TabularMDP, progress: Progress = None) -> Policy:
    """Return the policy of the least worst total. O(H * outcomes)."""
    return replace(induced(mdp, WorstCase(), row_worst, progress), beta=math.inf)


def induced(mdp: TabularMDP, objective: Objective, rows: RowRisks, progress: Progress) -> Policy:
    """Return the policy of an objective that is taken again at every step, by the risk that ``rows`` gives each row."""
    mdp.require_sound()
    losses = np.empty((mdp.horizon + 1, mdp.num_states))
    policy = np.empty((mdp.horizon, mdp.num_states), np.int32)
    losses[-1] = mdp.terminal_losses
    sizes = np.abs(mdp.terminal_losses)
    with followed(progress, "solving", mdp.horizon) as tick:
        for h in range(mdp.horizon - 1, -1, -1):
            risks, added = rows(mdp, h, losses[h + 1], sizes)
            losses[h] = least_of(mdp, risks)
            policy[h], sizes = chosen_of(mdp, risks, losses[h], added)
            tick(mdp.horizon - h)
    values = np.asarray(mdp.signed(losses))
    return Policy(objective, mdp, float(values[0, mdp.start]), values=values, policy=policy, row_risks=rows)


_MOST = 20_000  # betas


def solve_evar(mdp: TabularMDP, objective: EVaR, limits: Limits) -> Policy:
    """Return the policy of least EVaR, at a level inside (0, 1); each beta costs O(H * outcomes)."""
    penalty = -math.log1p(-objective.level)
    allowed, limit = limits.tolerance, max(4, int(_MOST * limits.share**0.5))
    low, high = relevant_bounds(mdp)
    safest, neutral = worst_case(mdp), backward_induction(mdp, 0.0, threads=limits.threads)
    least = low_total(mdp)
    if high <= low:
        return replace(neutral, objective=objective)

    def erm(beta: float) -> float:
        return float(mdp.signed(backward_induction(mdp, beta, threads=limits.threads).value))

    def close(value: float) -> float:
        share = max(1e-4 / limits.share * (value - least), ROUNDING * abs(value))
        return share if allowed is None else allowed

    with followed(limits.progress, "solving for each beta", None) as tick:
        known = {0.0: float(mdp.signed(neutral.value)), math.inf: float(mdp.signed(safest.value))}
        first = max(penalty, 1.0) / (high - low)
        value, beta, bound = least_penalised(erm, known, penalty, first, close, limit, tick)
    policy = safest if beta == math.inf else backward_induction(mdp, beta, threads=limits.threads)
    return replace(
        policy, objective=objective, value=float(mdp.signed(value)), gap=gap_of(value, bound), beta=beta,
        solves=len(known) - 1,
    )  # fmt: skip


def least_penalised(
    erm: Callable[[float], float], known: dict[float, float], penalty: float, first: float,
    close: Callable[[float], float], most: int, tick: Tick = untold,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the least ``V(beta) + penalty / beta``, its beta (infinity: the worst case), and a bound on it.

    ``known`` has V at 0 and infinity, and gets what ``erm`` says at others: the interval of the least bound is split
    until the gap is at most ``close`` of the value, or ``most`` are known.
    """
    best, intervals = (known[math.inf], math.inf), list[tuple[float, float, float]]()
    low, beta, high = 0.0, first, math.inf
    while True:
        known[beta] = erm(beta)
        best = min(best, (known[beta] + penalty / beta, beta))
        for a, b in ((low, beta), (beta, high)):
            if known[a] < math.inf:  # else the value is infinite on all of it
                heapq.heappush(intervals, (known[a] + penalty / b, a, b))
        tick(len(known) - 1)
        if len(known) > most or (math.isfinite(best[0]) and best[0] - intervals[0][0] <= close(best[0])):
            return (*best, intervals[0][0])
        _, low, high = heapq.heappop(intervals)
        beta = high / 2.0 if low == 0.0 else 2.0 * low if high == math.inf else math.sqrt(low * high)
