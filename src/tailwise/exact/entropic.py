"""ERM-BI: the exact solver for tables.

The entropic risk measure is the one law-invariant risk measure with a dynamic programming
decomposition (Hau et al., 2023; paper, eq. ``erm_bellman_optimality equations``)::

    V_H(s) = c_H(s)
    Q_h(s, a) = ERM_{beta_h}(c_h(s, a, s') + discount V_{h+1}(s')),   beta_h = beta discount^h
    V_h(s) = min_a Q_h(s, a)

A deterministic Markov policy is optimal, but it depends on the step even where the model does
not: ``beta_h`` fades with depth. :mod:`tailwise.exact.sweep_kernels` says how a sweep stays about
as cheap as a risk-neutral one and exact at every beta.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np

from tailwise._progress import Progress, followed
from tailwise._validate import real, thread_count
from tailwise.errors import OptionError
from tailwise.exact.policy import Policy
from tailwise.exact.sweeps import Sweeps
from tailwise.models import TabularMDP
from tailwise.models.tabular import require_table
from tailwise.risk import ERM


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
            if tick is not None:
                tick(horizon - h)
    if mdp.sense == "reward":
        np.subtract(0.0, values, out=values)  # and no -0.0
    values.setflags(write=False)
    policy.setflags(write=False)
    return Policy(ERM(level), mdp, float(values[0, mdp.start]), beta=level, values=values, policy=policy)
