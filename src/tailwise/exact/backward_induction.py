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

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tailwise._progress import Progress, followed
from tailwise._shown import Shown
from tailwise._validate import real, thread_count
from tailwise.errors import OptionError, StateError
from tailwise.exact import sweep_kernels
from tailwise.models import TabularMDP
from tailwise.models.tabular import require_table

Floats = NDArray[np.float64]

TIE_TOLERANCE = 1e-11  # of the size of the values compared


@dataclass(frozen=True, eq=False)
class Solution(Shown):
    """The exact optimum of a table at one risk level. All numbers are in the model's own sense.

    Attributes
    ----------
    mdp : TabularMDP
        The problem.
    beta : float
        Risk level at step 0.
    values : ndarray of float64, shape (H + 1, S)
        Optimal risk-to-go ``V_h(s)``; +inf (costs) or -inf (rewards) where no action is allowed, and where every
        action can lead to such a state before the horizon.
    policy : ndarray of int32, shape (H, S)
        Optimal action id: the lowest of those that tie; -1 where no action is allowed.
    """

    mdp: TabularMDP
    beta: float
    values: Floats
    policy: NDArray[np.int32]

    @property
    def value(self) -> float:
        """Optimal risk of the whole episode, from the start state."""
        return float(self.values[0, self.mdp.start])

    @property
    def action(self) -> int:
        """Optimal first action, from the start state."""
        return int(self.policy[0, self.mdp.start])

    def action_values(self, h: int) -> Floats:
        """Return ``Q_h``, shape (S, A), in the model's sense; inf (-inf for rewards) = illegal."""
        self._check(h)
        values = np.array(self.mdp.signed(self.values[h + 1]))
        flat, spare = np.empty(self.mdp.num_rows), np.empty(self.mdp.num_states)
        Sweeps(self.mdp, self.beta)(h, values, flat, spare, np.empty(spare.size, np.int32))
        full = np.full((self.mdp.num_states, self.mdp.num_actions), math.inf)
        full[self.mdp.row_states, self.mdp.action_ids] = flat
        return np.asarray(self.mdp.signed(full))

    @cached_property
    def q_values(self) -> Floats:
        """All action values, shape (H, S, A); inf (-inf for rewards) = illegal. Computed at first use."""
        return np.stack([self.action_values(h) for h in range(self.mdp.horizon)])

    def optimal_actions(self, h: int, state: int, *, tolerance: float = TIE_TOLERANCE) -> NDArray[np.int64]:
        """Return every action id whose value ties with the best: int64, shape (k,)."""
        self._check(h, state)
        row = self.mdp.signed(self.action_values(h)[state])
        best = row.min()
        if best == math.inf:
            return np.empty(0, np.int64)
        chosen = row[self.policy[h, state]]  # it ties by the sizes of what was added up
        return np.flatnonzero(row <= max(best + tolerance * abs(best), chosen))

    def act(self, state: int, h: int) -> int:
        """Return the optimal action id in ``state`` at step ``h``."""
        self._check(h, state)
        return int(self.policy[h, state])

    def _check(self, h: int, state: int = 0) -> None:
        """Raise ``StateError`` unless ``h`` is a step with a decision and ``state`` an index of the table."""
        for what, index, size in (("step", h, self.mdp.horizon), ("state", state, self.mdp.num_states)):
            if not isinstance(index, (int, np.integer)) or not 0 <= index < size:
                raise StateError(f"{what} {index!r} is outside 0..{size - 1}")


def backward_induction(mdp: TabularMDP, beta: float, *, threads: int = 1, progress: Progress = None) -> Solution:
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
    Solution
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
    require_table(mdp, "backward_induction", "plan on a simulator with ErmMcts")
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
    return Solution(mdp, level, values, policy)


class Sweeps:
    """The sweeps over one table at one risk level, by one thread or by several."""

    def __init__(self, mdp: TabularMDP, beta: float, pool: ThreadPoolExecutor | None = None, threads: int = 1) -> None:
        self.mdp, self.beta = mdp, beta
        self.rows = rows = sweep_kernels.Rows(
            mdp.action_offsets, mdp.action_ids, mdp.outcome_offsets, mdp.probabilities,
            mdp.next_states.view(np.uint32), mdp.losses, mdp.done, mdp.shared_losses,
        )  # fmt: skip
        self._map = map if pool is None else pool.map
        before = rows.outcome_offsets[rows.action_offsets]  # of each state: the parts have equally many outcomes
        edges = np.searchsorted(before, np.linspace(0, before[-1], threads + 1)[1:-1])
        self._parts = list(itertools.pairwise((0, *edges.tolist(), mdp.num_states)))
        self._transformed = np.empty(mdp.num_states)
        losses = (mdp.losses, mdp.step_losses, mdp.terminal_losses)
        may_cancel = min(part.min(initial=0.0) for part in losses) < 0.0 < max(part.max(initial=0.0) for part in losses)
        self._sizes = np.abs(mdp.terminal_losses) if may_cancel else np.empty(0)

    def __call__(self, h: int, values: Floats, q_out: Floats, v_out: Floats, policy_out: NDArray[np.int32]) -> None:
        """Turn V_{h+1} (losses) into V_h, the policy of step h, and Q_h unless its array is empty."""
        mdp, rows, beta = self.mdp, self.rows, self.beta * self.mdp.discount**h
        level = beta * mdp.discount
        step_loss = mdp.step_losses[h] if mdp.step_losses.size else mdp.step_losses.reshape(-1)
        future = sweep_kernels.future_of(values, self._transformed, level)
        sizes = np.empty(self._sizes.size)

        def transform(part: tuple[int, int]) -> None:
            sweep_kernels.transform(future, level, *part)

        def sweep(part: tuple[int, int]) -> None:
            sweep_kernels.sweep(
                rows, future, self._sizes, step_loss, beta, mdp.discount, TIE_TOLERANCE, *part, q_out, v_out, sizes,
                policy_out,
            )  # fmt: skip

        for step in (transform, sweep):
            list(self._map(step, self._parts))
        self._sizes = sizes
