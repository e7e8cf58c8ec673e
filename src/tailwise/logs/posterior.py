"""A fixed policy on models drawn from the posterior of a learned table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints, ranges, runs
from tailwise._jit import kernel
from tailwise.errors import OptionError
from tailwise.exact.fixed_policies import action_id, policy_rows
from tailwise.exact.sweeps import row_ends, row_erm, row_tails
from tailwise.logs.counts import normalized
from tailwise.logs.table import LearnedTable
from tailwise.models import TabularMDP
from tailwise.risk import ERM, Expectation, NestedCVaR, Objective, WorstCase
from tailwise.risk.measures import Interval

Value = Callable[[Floats], float]
_MOST_PAIRS = 200_000


class Posterior:
    """Draws the probabilities of some rows of a learned table; those of the others stay at their mean."""

    def __init__(self, mdp: LearnedTable, rows: Ints, seed: int) -> None:
        self._mdp, found = mdp, mdp.evidence
        self._weights, self._likely = found.weights.T
        self._chosen = getattr(found.prior, "weight", 1.0)
        self._rng = np.random.default_rng(seed)
        _, self._owner, self._kept = ranges(mdp.outcome_offsets[rows], mdp.outcome_offsets[rows + 1])
        kept = self._kept
        self._first = runs(self._owner)
        self._counts, self._pseudo = found.counts[kept], found.pseudo[kept]
        pooled = found.pool[kept]
        groups, self._group = np.unique(pooled[pooled >= 0], return_inverse=True)
        self._pooled = pooled >= 0
        states = np.unique(found.pool_states[groups])
        self._groups = np.flatnonzero(np.isin(found.pool_states, states))
        self._pool_counts = found.pool_counts[self._groups]
        owners = found.pool_states[self._groups]
        self._pool_first = runs(owners)
        self._pool_sizes = np.diff(np.append(self._pool_first, owners.size))
        self._in_pool = np.searchsorted(self._groups, groups)[self._group] if groups.size else self._group
        mean = normalized(found.pool_counts, found.pool_states) if groups.size else np.zeros(0)
        share = mean[pooled[self._pooled]] * found.within[kept][self._pooled]
        self._weight = np.divide(self._pseudo[self._pooled], share, out=np.zeros_like(share), where=share > 0.0)
        self._within = found.within[kept]
        self._guessed = found.guessed[kept]
        self._begins = np.append(0.0, np.cumsum(self._within))[:-1]
        target = 2 * mdp.next_states[kept].astype(np.int64) + mdp.done[kept]
        starts = runs(target, self._owner)
        self._begins -= np.repeat(self._begins[starts], np.diff(np.append(starts, target.size)))

    def draw(self) -> Floats:
        """Return the probabilities of all outcomes of the table, those of the rows drawn anew."""
        mdp, rng = self._mdp, self._rng
        pseudo = self._pseudo.copy()
        within = self._within
        if self._guessed.any():  # one cost, which is not known, and not another one at each step
            pick = rng.random(int(self._owner[-1]) + 1)[self._owner]
            chosen = (self._begins <= pick) & (pick < self._begins + within)
            within = np.where(self._guessed, chosen.astype(np.float64), within)
            scale = np.divide(within, self._within, out=np.zeros_like(within), where=self._within > 0.0)
            pseudo *= scale
        if self._pool_first.size:
            shared = rng.gamma(self._pool_counts)
            sums = np.add.reduceat(shared, self._pool_first)
            shared /= np.repeat(np.where(sums > 0.0, sums, 1.0), self._pool_sizes)
            ratio = rng.choice(self._weights, p=self._likely) / self._chosen if self._weights.size else 1.0
            pseudo[self._pooled] = ratio * self._weight * shared[self._in_pool] * within[self._pooled]
        alpha = self._counts + pseudo
        masses = np.where(alpha > 0.0, rng.gamma(np.where(alpha > 0.0, alpha, 1.0)), 0.0)
        sizes = np.diff(np.append(self._first, masses.size))
        sums = np.repeat(np.add.reduceat(masses, self._first), sizes)
        drawn = mdp.probabilities.copy()
        drawn[self._kept] = np.where(
            sums > 0.0, masses / np.where(sums > 0.0, sums, 1.0), mdp.probabilities[self._kept]
        )
        return drawn


def objective_of(mdp: TabularMDP, policy: Any, objective: Objective) -> tuple[Value, Ints]:
    """Return the objective of a fixed policy as a function of the table's probabilities, and the rows it takes."""
    is_erm = isinstance(objective, (ERM, Expectation))
    if getattr(policy, "minds_the_past", False) or not (is_erm or isinstance(objective, (WorstCase, NestedCVaR))):
        return _by_totals(mdp, policy, objective)
    rows = policy_rows(mdp, policy)
    used = np.unique(rows[rows >= 0])
    if is_erm:
        beta = objective.beta if isinstance(objective, ERM) else 0.0
        level = float(beta)
        return lambda chance: float(mdp.signed(fixed_values(mdp, rows, level, chance)[0, mdp.start])), used
    return lambda chance: _stepwise(mdp, rows, objective, chance), used


def fixed_values(mdp: TabularMDP, rows: Ints, beta: float, chance: Floats | None = None) -> Floats:
    """Return the ERM of a fixed policy from each step and state on, as losses: float64, shape (H + 1, S)."""
    values = np.empty((mdp.horizon + 1, mdp.num_states))
    values[-1] = mdp.terminal_losses
    steps = mdp.step_losses if mdp.step_losses.size else np.zeros((0, 0))
    chance = mdp.probabilities if chance is None else chance
    table = _Outcomes(mdp.outcome_offsets, chance, mdp.next_states, mdp.losses, mdp.done, steps)
    _follow(rows, table, beta, mdp.discount, values)
    return values


class _Outcomes(NamedTuple):
    """A table's outcomes with drawn probabilities, which may be 0; R rows."""

    outcome_offsets: Ints  # (R + 1,)
    probabilities: Floats
    next_states: NDArray[np.int32]
    losses: Floats
    done: NDArray[np.bool_]
    step_losses: Floats  # (H, R), or (0, 0)


@kernel
def _follow(rows, table, beta, discount, values):  # type: ignore[no-untyped-def]
    """Fill ``values`` backwards; a state without a row is worth infinity, as where no action is allowed."""
    for h in range(rows.shape[0] - 1, -1, -1):
        for s in range(rows.shape[1]):
            row = rows[h, s]
            values[h, s] = np.inf
            if row >= 0:
                first, last = table.outcome_offsets[row], table.outcome_offsets[row + 1]
                values[h, s] = row_erm(first, last, table, values[h + 1], discount, beta * discount**h)
                if table.step_losses.size > 0:
                    values[h, s] += table.step_losses[h, row]


def _stepwise(mdp: TabularMDP, rows: Ints, objective: Objective, chance: Floats) -> float:
    """Return the worst case or the nested CVaR of a fixed policy."""
    table = replace(mdp, probabilities=chance)
    values = mdp.terminal_losses.copy()
    for h in range(mdp.horizon - 1, -1, -1):
        if isinstance(objective, NestedCVaR) and objective.level < 1.0:
            found = row_tails(table, h, values, np.abs(values), 1.0 - objective.level)[0]
        else:
            found = row_ends(table, h, values, values)[1]
        values = np.where(rows[h] >= 0, found[rows[h]], np.inf)
    return float(mdp.signed(values[mdp.start]))


def _by_totals(mdp: TabularMDP, policy: Any, objective: Objective) -> tuple[Value, Ints]:
    """Lay out the pairs of state and accrued cost that the policy reaches, once for all models."""
    minds = getattr(policy, "minds_the_past", False)
    fixed = None if minds else policy_rows(mdp, policy)
    states, accrued, factor = np.array([mdp.start]), np.zeros(1), 1.0
    layers: list[tuple[Ints, Ints, Ints, NDArray[np.bool_], int]] = []
    totals: list[Floats] = []
    used: list[Ints] = []
    count = 1
    for h in range(mdp.horizon):
        if fixed is None:
            paid = mdp.signed(accrued).tolist()
            actions = [action_id(mdp, policy.act(s, h, x), s, h) for s, x in zip(states.tolist(), paid, strict=True)]
            rows = np.array([mdp.row(s, a) for s, a in zip(states.tolist(), actions, strict=True)], dtype=np.int64)
        else:
            rows = fixed[h, states]
            if (rows < 0).any():
                raise OptionError(f"the policy has no action in a state that it reaches at step {h}")
        used.append(np.unique(rows))
        _, owner, outcomes = ranges(mdp.outcome_offsets[rows], mdp.outcome_offsets[rows + 1])
        losses = mdp.losses_at(h, outcomes, rows[owner])
        paid = accrued[owner] + factor * losses
        over = mdp.done[outcomes]
        totals.append(paid[over])
        digits, exponent = np.frexp(paid[~over])  # sums that differ in their last digits are one
        rounded = np.ldexp(np.round(digits * 2.0**40), exponent - 40)
        keys = np.stack([mdp.next_states[outcomes][~over].astype(np.float64), rounded], axis=1)
        distinct, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        layers.append((owner, outcomes, inverse.reshape(-1), over, distinct.shape[0]))
        states, accrued = distinct[:, 0].astype(np.int64), paid[~over][first]
        factor *= mdp.discount
        count += states.size
        if count > _MOST_PAIRS:
            raise OptionError(
                f"the {objective.words} needs the distribution of the total, and the policy reaches more than "
                f"{_MOST_PAIRS:,} pairs of state and accrued cost; promise ERM or the mean, or round the costs"
            )
        if not states.size:
            break
    totals.append(accrued + factor * mdp.terminal_losses[states])
    whole = np.asarray(mdp.signed(np.concatenate(totals)))

    def value(chance: Floats) -> float:
        mass: Floats = np.ones(1)
        masses: list[Floats] = []
        for owner, outcomes, inverse, over, size in layers:
            flow = mass[owner] * chance[outcomes]
            masses.append(flow[over])
            mass = np.asarray(np.bincount(inverse, weights=flow[~over], minlength=size), dtype=np.float64)
        masses.append(mass)
        weights = np.concatenate(masses)
        return objective.of(whole, weights / weights.sum(), sense=mdp.sense)

    return value, np.unique(np.concatenate(used))


def interval_of(draws: Floats, confidence: float) -> Interval:
    """Return the quantiles of draws that hold so much between them."""
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(draws, [tail, 1.0 - tail])
    return Interval(float(low), float(high))
