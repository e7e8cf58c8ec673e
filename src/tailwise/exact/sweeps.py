"""One step of backward induction, for each objective that needs no more than state and step. All values are losses."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import kernel
from tailwise.exact import sweep_kernels
from tailwise.models import TabularMDP

Floats = NDArray[np.float64]

TIE_TOLERANCE = 1e-11  # of the size of the values compared


class Sweeps:
    """The sweeps for the ERM over one table at one risk level, by one thread or by several."""

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
        step = sweep_kernels.Step(step_loss, self._sizes, beta, mdp.discount, TIE_TOLERANCE)
        out = sweep_kernels.Swept(q_out, v_out, sizes, policy_out)

        def transform(part: tuple[int, int]) -> None:
            sweep_kernels.transform(future, level, *part)

        def sweep(part: tuple[int, int]) -> None:
            sweep_kernels.sweep(rows, future, step, out, *part)

        for work in (transform, sweep):
            list(self._map(work, self._parts))
        self._sizes = sizes


def row_ends(mdp: TabularMDP, h: int, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest total of each row at step ``h``, from those of each state after it."""
    first = mdp.outcome_offsets[:-1]
    ends = []
    for values, reduce in ((low, np.minimum), (high, np.maximum)):
        rows = reduce.reduceat(mdp.losses + _later(mdp, values), first)
        ends.append(rows + mdp.step_losses[h] if mdp.step_losses.size else rows)
    return ends[0], ends[1]


def row_tails(mdp: TabularMDP, h: int, values: Floats, sizes: Floats, tail: float) -> tuple[Floats, Floats]:
    """Return the mean of the worst ``tail`` of each row's outcomes, and the mean size of what that adds up."""
    owners = np.repeat(np.arange(mdp.num_rows), np.diff(mdp.outcome_offsets))
    later = _later(mdp, values)
    totals = mdp.losses + later
    if mdp.step_losses.size:
        totals = totals + mdp.step_losses[h, owners]
    added = np.abs(totals - later) + _later(mdp, sizes)
    order = np.lexsort((-totals, owners))  # rows stay together, the worst outcome of each first
    risks, row_sizes = np.empty(mdp.num_rows), np.empty(mdp.num_rows)
    _tail_means(totals[order], mdp.probabilities[order], added[order], mdp.outcome_offsets, tail, risks, row_sizes)
    return risks, row_sizes


def least_of(mdp: TabularMDP, rows: Floats) -> Floats:
    """Return the least over the actions of each state; +inf where there is none."""
    deciding = np.flatnonzero(np.diff(mdp.action_offsets))
    values = np.full(mdp.num_states, np.inf)
    values[deciding] = np.minimum.reduceat(rows, mdp.action_offsets[deciding])
    return values


def chosen_of(mdp: TabularMDP, rows: Floats, values: Floats, sizes: Floats) -> tuple[NDArray[np.int32], Floats]:
    """Return the action id of each state, the lowest of those that tie (-1: none), and the size of the best."""
    deciding = np.flatnonzero(np.diff(mdp.action_offsets))
    starts, best = mdp.action_offsets[deciding], values[mdp.row_states]
    at = np.flatnonzero(rows == best)
    size = np.zeros(mdp.num_states)
    finite = np.isfinite(values[deciding])
    size[deciding[finite]] = sizes[at[np.searchsorted(at, starts)]][finite]
    close = np.flatnonzero(rows <= best + TIE_TOLERANCE * size[mdp.row_states])
    policy = np.full(mdp.num_states, -1, np.int32)
    policy[deciding] = mdp.action_ids[close[np.searchsorted(close, starts)]]
    return policy, size


def _later(mdp: TabularMDP, values: Floats) -> Floats:
    """Return what each outcome leads to, discounted."""
    return np.where(mdp.done, 0.0, mdp.discount * values[mdp.next_states])


@kernel
def _tail_means(totals, probabilities, sizes, offsets, tail, risks, row_sizes):  # type: ignore[no-untyped-def]
    """Write the mean of the worst ``tail`` of each row's outcomes, worst first, and the mean of their sizes."""
    for row in range(risks.size):
        left, taken, total, size = tail, 0.0, 0.0, 0.0
        for k in range(offsets[row], offsets[row + 1]):
            part = min(left, probabilities[k])
            if part <= 0.0:
                break
            total += part * totals[k]
            size += part * sizes[k]
            taken += part
            left -= part
        risks[row], row_sizes[row] = total / taken, size / taken
