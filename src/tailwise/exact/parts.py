r"""A table, or a part of it, as solvers without a horizon work on it. All values are losses.

The risk of a row is ``ERM_b(c + discount V(s'))`` over its outcomes, at one level b for every step. For one row of each
state its derivative is the *tilted* matrix

    Q(s, s') = p exp(b (c + discount V(s') - risk of the row)),

whose rows sum to the chance of going on; at b = 0 they are the probabilities themselves. Whether totals are finite,
how far a residual reaches, and what policies are worth are all linear equations in it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Bools, Floats, Ints, marked, ranges, runs
from tailwise._jit import kernel
from tailwise.models import TabularMDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array

PLACE = np.int32
OVER = -1  # in place of a next state: the episode is over
_MANY = 200_000  # outcomes from which on compiling pays
_DENSE = 100  # states up to which eigenvalues are found of dense matrices
LARGE = 20_000  # states up to which linear equations are factored at once
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a table, sorted by state, whose outcomes lead to states or out (``OVER``)."""

    size: int  # number of states
    states: Ints  # (rows,)
    ids: Ints  # (rows,): the table's row; -1 where there is none
    offsets: Ints  # (rows + 1,): first outcome of each row
    probabilities: Floats  # (outcomes,)
    costs: Floats  # (outcomes,)
    targets: NDArray[np.int32]  # (outcomes,): next state, or OVER

    @classmethod
    def of(cls, mdp: TabularMDP) -> Part:
        """Return the whole of a table without a horizon."""
        targets = mdp.next_states.astype(PLACE)
        targets[mdp.done] = OVER
        return cls(
            mdp.num_states, mdp.row_states, np.arange(mdp.num_rows), mdp.outcome_offsets, mdp.probabilities,
            mdp.losses, targets,
        )  # fmt: skip

    @cached_property
    def owners(self) -> Ints:
        """Row of each outcome."""
        return np.repeat(np.arange(self.states.size), np.diff(self.offsets))

    @cached_property
    def deciding(self) -> Ints:
        """States that have a row."""
        return self.states[self.first_rows]

    @cached_property
    def decides(self) -> Bools:
        """Whether each state has a row."""
        return marked(self.size, self.states)

    @cached_property
    def first_rows(self) -> Ints:
        """First row of each deciding state."""
        return runs(self.states)

    def taking(self, rows: Ints) -> Part:
        """Return some of the rows, in this order, of the same states."""
        offsets, _, outcomes = ranges(self.offsets[rows], self.offsets[rows + 1])
        return Part(
            self.size, self.states[rows], self.ids[rows], np.append(offsets, outcomes.size),
            self.probabilities[outcomes], self.costs[outcomes], self.targets[outcomes],
        )  # fmt: skip

    def where(self, kept: Bools) -> Part:
        """Return the rows for which ``kept`` is true."""
        return self if kept.all() else self.taking(np.flatnonzero(kept))

    def rows_within(self, inside: Bools) -> Bools:
        """Return which rows are of states inside and lead to no state outside."""
        stays = np.where(self.targets >= 0, inside[self.targets], True)
        return inside[self.states] & np.logical_and.reduceat(stays, self.offsets[:-1])

    def rows_into(self, aims: Bools) -> Bools:
        """Return which rows have an outcome that leads to one of the states."""
        hits = np.where(self.targets >= 0, aims[self.targets], False)
        return np.asarray(np.logical_or.reduceat(hits, self.offsets[:-1]))

    def held_in(self, labels: Ints) -> Part:
        """Return the same, over where an outcome leads to a state of another label."""
        stays = (self.targets >= 0) & (labels[self.targets] == labels[self.states[self.owners]])
        return replace(self, targets=np.where(stays, self.targets, OVER))

    def killed(self, share: float | Floats) -> Part:
        """Return the same, over after each step with probability ``1 - share``, which may be one of each row."""
        share = np.broadcast_to(share, self.states.shape)[self.owners]
        order = np.argsort(np.concatenate((self.owners, self.owners)), kind="stable")
        both = np.concatenate((share * self.probabilities, (1.0 - share) * self.probabilities))
        targets = np.concatenate((self.targets, np.full_like(self.targets, OVER)))
        costs = np.concatenate((self.costs, self.costs))
        return Part(self.size, self.states, self.ids, 2 * self.offsets, both[order], costs[order], targets[order])

    def at_mean_costs(self) -> Part:
        """Return the same, where each outcome costs what its row costs in the mean."""
        means = np.add.reduceat(self.probabilities * self.costs, self.offsets[:-1])
        return replace(self, costs=means[self.owners])

    @cached_property
    def mean_step(self) -> tuple[Floats, csr_array]:
        """The mean cost of each row, and its chances of each state (CSR, rows by states)."""
        from scipy.sparse import csr_array

        going, chances = self.targets >= 0, self.probabilities
        means = np.add.reduceat(chances * self.costs, self.offsets[:-1])
        if going.all():
            parts = chances, self.targets, self.offsets
        else:
            ends = np.cumsum(np.add.reduceat(going, self.offsets[:-1], dtype=np.int64))
            parts = chances[going], self.targets[going], np.append(0, ends)
        return means, csr_array(parts, shape=(self.states.size, self.size))

    def mean_of(self, rows: Ints, values: Floats) -> tuple[Floats, csr_array]:
        """Return the mean ahead of a row of each deciding state, and the chances of each state (CSR, square)."""
        from scipy.sparse import csr_array

        means, chances = self.mean_step
        mine = chances[rows]
        ends = np.zeros(self.size + 1, np.int64)
        ends[self.deciding + 1] = np.diff(mine.indptr)
        square = csr_array((mine.data, mine.indices, np.cumsum(ends)), shape=(self.size, self.size))
        return np.asarray(means[rows] + mine @ values), square

    def ahead(self, values: Floats, discount: float) -> Floats:
        """Return ``c + discount V(s')`` of each outcome."""
        return np.asarray(self.costs + np.append(discount * values, 0.0)[self.targets])  # that of OVER is the last

    def risks(self, values: Floats, beta: float, discount: float = 1.0) -> Floats:
        """Return the risk of each row; of infinite values those that stand for no weight are left out."""
        if beta == 0.0:
            means, chances = self.mean_step
            return np.asarray(means + chances @ (discount * values))
        if self.targets.size >= _MANY:
            found = np.empty(self.states.size)
            _fill_risks(found, self.offsets, self.probabilities, self.costs, self.targets, values, beta, discount)
            return found
        ahead, first = self.ahead(values, discount), self.offsets[:-1]
        top = np.maximum.reduceat(ahead, first) if beta > 0.0 else np.minimum.reduceat(ahead, first)
        shift = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(invalid="ignore", over="ignore"):
            far = beta * (ahead - shift[self.owners])
            sums = np.add.reduceat(self.probabilities * np.expm1(far), first)
        low = sums <= -0.5
        if low.any():
            plain = np.add.reduceat(self.probabilities * np.exp(far), first)
            with np.errstate(divide="ignore"):
                logs = np.where(low, np.log(plain), np.log1p(np.where(low, 0.0, sums)))
        else:
            logs = np.log1p(sums)
        return np.asarray(np.where(np.isfinite(top), shift + logs / beta, top))

    def least(self, rows: Floats) -> Floats:
        """Return the least over the rows of each state; +inf where there is none."""
        values = np.full(self.size, np.inf)
        values[self.deciding] = np.minimum.reduceat(rows, self.first_rows)
        return values

    def best_rows(self, rows: Floats, values: Floats) -> Ints:
        """Return, for each deciding state, its first row that has the state's value or less."""
        good = np.flatnonzero(rows <= values[self.states])
        return good[np.searchsorted(good, self.first_rows)]

    def rounding(self, values: Floats, discount: float = 1.0) -> float:
        """Return how far off the risk of a row may be, from rounding."""
        finite = np.abs(values[np.isfinite(values)])
        most = max(float(self.costs.max(initial=0.0)), -float(self.costs.min(initial=0.0)))
        return 3.0 * _EPS * (most + discount * float(finite.max(initial=0.0)))

    def tilted(self, values: Floats, beta: float, discount: float = 1.0) -> tuple[Floats, csr_array]:
        """Return risks and tilted matrix (CSR, of the states) of a part that has one row of each state, or none."""
        from scipy.sparse import csr_array

        risks = self.risks(values, beta, discount)
        weights = self.probabilities
        if beta != 0.0:
            with np.errstate(over="ignore", invalid="ignore"):
                weights = weights * np.exp(beta * (self.ahead(values, discount) - risks[self.owners]))
        going = self.targets >= 0
        places = self.states[self.owners[going]], self.targets[going]
        return risks, csr_array((weights[going], places), shape=(self.size, self.size))


@kernel
def _fill_risks(found, offsets, probabilities, costs, targets, values, beta, discount):  # type: ignore[no-untyped-def]
    """Fill in the risk of each row, beta not 0: what ``Part.risks`` does, without arrays in between."""
    for row in range(found.size):
        first, last = offsets[row], offsets[row + 1]
        top = -math.inf if beta > 0.0 else math.inf
        for k in range(first, last):
            ahead = costs[k] + (discount * values[targets[k]] if targets[k] >= 0 else 0.0)
            top = max(top, ahead) if beta > 0.0 else min(top, ahead)
        found[row] = top
        if not math.isfinite(top):
            continue
        total = 0.0
        for k in range(first, last):
            ahead = costs[k] + (discount * values[targets[k]] if targets[k] >= 0 else 0.0)
            total += probabilities[k] * math.expm1(beta * (ahead - top))
        if total > -0.5:
            found[row] = top + math.log1p(total) / beta
            continue
        total = 0.0
        for k in range(first, last):
            ahead = costs[k] + (discount * values[targets[k]] if targets[k] >= 0 else 0.0)
            total += probabilities[k] * math.exp(beta * (ahead - top))
        found[row] = top + math.log(total) / beta


def solved(
    matrix: Any, *sides: Floats, within: float = 1e-9, guesses: tuple[Floats | None, ...] = ()
) -> list[Floats] | None:
    """Solve sparse linear equations, ``within`` of the sides; None where the matrix is as good as singular."""
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import bicgstab, splu

    size = matrix.shape[0]
    if size > LARGE:  # few steps where states mix fast; else the matrix is nearly banded, and its factors are sparse
        found = []
        for side, first in itertools.zip_longest(sides, guesses):
            scale = float(np.abs(side).max(initial=0.0)) or 1.0
            start = None if first is None else first / scale
            answer, failed = bicgstab(matrix, side / scale, x0=start, rtol=within, atol=0.0, maxiter=150)
            if failed or not np.isfinite(answer).all():
                break
            found.append(scale * answer)
        if len(found) == len(sides):
            return found
    try:
        factors = splu(csc_array(matrix))
    except RuntimeError:
        return None
    found = [factors.solve(side) for side in sides]
    return found if all(np.isfinite(answer).all() for answer in found) else None


def words_of(mdp: TabularMDP, states: Any) -> str:
    """Name states, the first six of many."""
    names = [mdp.state_name(int(state)) for state in np.asarray(states).tolist()[:6]]
    more = f" and {len(states) - 6} more" if len(states) > 6 else ""
    return f"state{'s' * (len(states) != 1)} {', '.join(names)}{more}"


def is_positive(values: Floats) -> bool:
    """Whether all values are finite and positive."""
    return bool(np.isfinite(values).all() and (values > 0.0).all()) if values.size else True


def log_radius(matrix: Any, told: float | None = None) -> float:
    """Return ln of the spectral radius of an irreducible matrix >= 0, to 1e-9, or on which side of ``told``."""
    size = matrix.shape[0]
    if size <= _DENSE:
        dense = matrix.toarray()
        radius = float(np.abs(np.linalg.eigvals(dense)).max(initial=0.0))
        return math.log(radius) if radius > 0.0 else -math.inf
    limit = None if told is None else math.exp(told)
    vector, low, high = _perron(matrix, limit) if size <= LARGE else (np.ones(size), 0.0, math.inf)
    for _ in range(20_000):
        if _is_told(low, high, limit):
            break
        image = 0.5 * (vector + matrix @ vector)  # half of it stays: no period
        ratios = image / vector
        low, high = max(low, 2.0 * float(ratios.min()) - 1.0), min(high, 2.0 * float(ratios.max()) - 1.0)
        vector = image / image.max()
    radius = math.sqrt(max(low, 0.0) * high)
    return math.log(radius) if radius > 0.0 else -math.inf


def _is_told(low: float, high: float, limit: float | None) -> bool:
    """Whether bounds of a radius are close, or on one side of the limit."""
    return high < math.inf and (high - low <= 1e-10 * high or (limit is not None and not low < limit <= high))


def _perron(matrix: Any, limit: float | None) -> tuple[Floats, float, float]:
    """Return about the positive eigenvector of such a matrix, and bounds of its radius: Noda's iteration, halved."""
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import splu

    vector, unit = np.ones(matrix.shape[0]), eye_array(matrix.shape[0])
    low, high = 0.0, math.inf
    for _ in range(100):
        ratios = (matrix @ vector) / vector
        low, high = max(low, float(ratios.min())), min(high, float(ratios.max()))
        if _is_told(low, high, limit):
            break
        for shift in (math.sqrt(low * high), high):
            try:
                found = splu(csc_array(shift * unit - matrix)).solve(vector)
            except RuntimeError:  # singular
                continue
            if np.isfinite(found).all() and (found > 0.0).all():
                vector = found / found.max()
                break
            low = max(low, shift) if shift < high else low
        else:
            break
    return vector, low, high
