"""What any student would write, for the study of searches: counts of what was seen, and inductions on them.

Three rules act while they learn: uniformly at random; by the bonus of UCBVI (Azar, Osband and Munos, 2017), the form
for the entropic risk taken from Fei, Yang, Chen and Wang (2021); by a draw from the posterior (PSRL: Osband, Russo and
Van Roy, 2013). All answer with the least value of one backward induction on the counts.
Where states are numbers there is one more: uniformly random actions, and backward induction by regression.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from tailwise import Simulator, TabularMDP
from tailwise.search.learned.fitted import Draws, fitted_values

UNIFORM, BONUS, POSTERIOR = 0, 1, 2


@numba.njit
def entropic(weights: Any, values: Any, beta: float) -> float:
    """The ERM of weighted values; infinite without weight."""
    total, top = 0.0, -math.inf
    for k in range(weights.size):
        if weights[k] > 0.0:
            total += weights[k]
            top = max(top, beta * values[k] if beta != 0.0 else 0.0)
    if total == 0.0:
        return math.inf
    if beta == 0.0:
        mean = 0.0
        for k in range(weights.size):
            mean += weights[k] / total * values[k]
        return mean
    spread = 0.0
    for k in range(weights.size):
        if weights[k] > 0.0:
            spread += weights[k] / total * math.exp(beta * values[k] - top)
    return (top + math.log(spread)) / beta


@numba.njit
def induction(first, rows, targets, costs, ends, terminal, weights, visits, betas, discount, floor, scale, q, v):  # type: ignore[no-untyped-def]
    """Fill q (H, rows) and v (H + 1, S) by the weights of outcomes; never tried rows are infinite.

    With a ``scale``, values are optimistic: less ``scale * steps left / sqrt(visits)``.
    """
    horizon, states = q.shape[0], v.shape[1]
    v[horizon] = terminal
    values = np.empty(weights.size)
    for h in range(horizon - 1, -1, -1):
        for k in range(weights.size):
            values[k] = costs[k] + (0.0 if ends[k] else discount * v[h + 1, targets[k]])
        for s in range(states):
            best = math.inf
            for r in range(first[s], first[s + 1]):
                span = slice(rows[r], rows[r + 1])
                q[h, r] = entropic(weights[span], values[span], betas[h])
                if scale > 0.0 and visits[r] > 0:
                    q[h, r] -= scale * (horizon - h) / math.sqrt(visits[r])
                best = min(best, q[h, r])
            v[h, s] = best if best < math.inf else floor * (horizon - h)


@numba.njit
def play(first, rows, targets, costs, ends, chances, start, q, visits, counts, rule, rng):  # type: ignore[no-untyped-def]
    """Play one episode, and count its outcomes; return (steps, least cost of a step)."""
    s, steps, least = start, 0, math.inf
    for h in range(q.shape[0]):
        begin, end = first[s], first[s + 1]
        taken, number = begin, 0
        if rule == UNIFORM:
            taken = begin + rng.integers(0, end - begin)
        else:
            best = math.inf
            for r in range(begin, end):  # a row never tried first, in random order; else the least value
                value = -math.inf if visits[r] == 0 else q[h, r]
                number = number + 1 if value == best else (1 if value < best else number)
                if value < best or (value == best and rng.random() * number < 1.0):
                    best, taken = value, r
        k, left = rows[taken], rng.random()
        while k < rows[taken + 1] - 1 and left >= chances[k]:
            left -= chances[k]
            k += 1
        visits[taken] += 1
        counts[k] += 1.0
        steps += 1
        least = min(least, costs[k])
        if ends[k]:
            break
        s = targets[k]
    return steps, least


class CountedSearch:
    """A search that counts, and answers by one induction on its counts.

    Parameters
    ----------
    table : TabularMDP
        Sampled as a black box: what was not drawn has no weight.
    beta : float
        Risk level.
    rule : UNIFORM, BONUS or POSTERIOR
        How it acts while it learns.
    """

    def __init__(self, table: TabularMDP, beta: float, *, rule: int, seed: int) -> None:
        self.table, self.rule, self.rng = table, rule, np.random.default_rng(seed)
        self.betas = beta * table.discount ** np.arange(table.horizon)
        self.visits = np.zeros(table.outcome_offsets.size - 1, dtype=np.int64)
        self.counts = np.zeros(table.probabilities.size)
        self.q = np.full((table.horizon, self.visits.size), math.inf)
        self.v = np.zeros((table.horizon + 1, table.num_states))
        self.least, self.done, self.next = math.inf, 0, 1.0

    def _sweep(self, weights: NDArray[np.float64], scale: float) -> None:
        t, floor = self.table, 0.0 if math.isinf(self.least) else self.least
        induction(
            t.action_offsets, t.outcome_offsets, t.next_states, t.losses, t.done, t.terminal_losses, weights,
            self.visits, self.betas, t.discount, floor, scale, self.q, self.v,
        )  # fmt: skip

    def plan(self, iterations: int) -> Any:
        """Play so many episodes, and answer."""
        t, steps = self.table, 0
        for _ in range(iterations):
            if self.done >= self.next and self.rule != UNIFORM:
                if self.rule == POSTERIOR:
                    seen = self.counts > 0
                    weights = np.where(seen, self.rng.standard_gamma(np.where(seen, self.counts, 1.0)), 0.0)
                    self._sweep(weights, 0.0)
                    self.next = max(self.done + 1.0, 1.03 * self.done)
                else:
                    span = 0.1 * float(np.ptp(t.losses[self.counts > 0])) if self.done else 0.0
                    self._sweep(self.counts, span)
                    self.next = max(self.done + 1.0, 1.5 * self.done)
            taken, least = play(
                t.action_offsets, t.outcome_offsets, t.next_states, t.losses, t.done, t.probabilities, t.start, self.q,
                self.visits, self.counts, self.rule, self.rng,
            )  # fmt: skip
            steps, self.least, self.done = steps + taken, min(self.least, least), self.done + 1
        kept = self.q.copy(), self.v.copy()
        self._sweep(self.counts, 0.0)
        root = slice(t.action_offsets[t.start], t.action_offsets[t.start + 1])
        values = self.q[0, root]
        self.q, self.v = kept
        return SimpleNamespace(action=int(np.argmin(values)), value=float(values.min()), simulator_steps=steps)


class RegressedSearch:
    """Uniformly random actions, and backward induction by regression of the cost-to-go on the states' own numbers."""

    def __init__(self, simulator: Simulator, beta: float, *, seed: int) -> None:
        self.simulator, self.rng = simulator, np.random.default_rng(seed)
        self.betas = beta * simulator.discount ** np.arange(simulator.horizon)
        self.handles: dict[Any, int] = {simulator.start: 0}
        self.rows: list[list[tuple[int, int, float, int]]] = [[] for _ in range(simulator.horizon)]

    def plan(self, iterations: int) -> Any:
        """Play so many episodes, and answer."""
        model = self.simulator
        for _ in range(iterations):
            state = model.start
            for h in range(model.horizon):
                action = int(self.rng.integers(model.actions(state)))
                target, cost, done = model.step(state, action, self.rng)
                if h + 1 == model.horizon and not done:
                    cost, done = cost + model.discount * model.terminal_cost(target), True
                after = -1 if done else self.handles.setdefault(target, len(self.handles))
                self.rows[h].append((self.handles[state], action, cost, after))
                if done:
                    break
                state = target
        columns = [[np.array(column) for column in zip(*rows, strict=True)] for rows in self.rows]
        steps = [Draws(o, a, c.astype(np.float64), t, np.ones(o.size)) for o, a, c, t in columns]
        number = len(self.handles)  # the fit alone: that a state is met again counts for nothing
        steps[1:] = [draws._replace(owners=draws.owners + number) for draws in steps[1:]]
        features = [tuple(map(float, state)) for state in self.handles] * 2
        arity = np.array([model.actions(state) for state in self.handles] * 2)
        values = fitted_values(steps, features, arity, self.betas, model.discount, 0)
        assert values is not None
        return SimpleNamespace(action=int(np.argmin(values)), value=float(values.min()))
