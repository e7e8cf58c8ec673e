"""Learning across states: what an action did elsewhere, as changes of the numbers that a state consists of.

Stakes are won as often with much money as with little, and a task is done as fast on Monday as on Tuesday. Where states
are numbers, an outcome can be told as a *change* of each of them, or as a new value, another's old one, or a sum, by
which it was seen from most states; the end of the episode is one more. All draws of an action then serve one
distribution of changes, or several, where the states are split in two as one of their numbers makes a change more
probable (a tree; Chipman, George and McCulloch, 1998). Each state may follow it, or a distribution of its own: how
probably it does is what its own draws say (a spike and a slab; Ishwaran and Rao, 2005), over a share of states that is
estimated from all. A change that leads beyond the numbers of all known states is cut off, as at a boundary; one to a
state not known leads to the nearest, or, where there are many, is left out. Costs of a change are linear in the numbers
of the state; where they are others, a state has a distribution of its own.

Backward induction under what follows gives values of which few draws can say much; where states are not alike at all it
is an induction under the counts, and so it is in the limit: a state's own draws outweigh everything that differs.
Later decisions slip as they do there.
"""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple

import numpy as np

from tailwise._arrays import Bools, Floats, Ints, marked, runs
from tailwise.search.learned.answer import SLIPS, SLIPS_FADE

_ROUNDS = 4  # of estimates which states are alike, and by which base a change is told
_MOST_CHANGES, _FEWEST_STATES = 100, 3  # of an action, for others to be learned from
_CLEAR = 4.0  # logarithm of how much more probable draws must be for states to be alike, or to be in two parts
_RARE = 0.01  # of the draws, below which a change may lead to no known state
_MOST_CUT_OFF = 0.9  # of the draws, that may be at a boundary for the others to say how probable changes are
_UNSEEN = 0.5  # draws that all changes together count for, beside those seen elsewhere
_OFF, _IMPOSSIBLE = 0.01, 1e-6  # of the range of costs, that one may be off; probability of a draw with another cost
_MOST_NUMBERS = 6_000_000  # looked at for the nearest states of an answer
_A_CELL = 20  # of work for a state and a change, and 1 for each step
_MOST_PARTS = 16  # of the states of an action
_LINEAR = 1e-12  # beta times a range, below which the ERM is the mean
_REPLICATES, _FEWEST_DRAWS = 24, 0.1  # of the values that draws leave possible; by which a change is redrawn
_SAME, _MULTIPLIER = 1e-9, 6_364_136_223_846_793_005


class Seen(NamedTuple):
    """Everything that was drawn; R is the number of different outcomes, S of states, N of actions."""

    owners: Ints  # (R,) states
    actions: Ints  # (R,)
    targets: Ints  # (R,) states, -1 where the episode ended
    costs: Floats  # (R,)
    counts: Floats  # (R,) whole numbers
    numbers: Floats  # (S, D) what a state consists of, all different
    allowed: Bools  # (S, N); all, where a state was never acted in


class Outcomes(NamedTuple):
    """Outcomes with weights."""

    owners: Ints  # (W,)
    actions: Ints  # (W,)
    targets: Ints  # (W,)
    costs: Floats  # (W,)
    weights: Floats  # (W,)
    kinds: Ints  # (W,) alike where the weights rest on the same draws
    draws: Floats  # (W,) how many that are

    def redrawn(self, rng: np.random.Generator) -> Floats:
        """Return the weights, and then some that the draws leave possible (1 + B, W), by the Bayesian bootstrap."""
        _, first, inverse = np.unique(self.kinds, return_index=True, return_inverse=True)
        factors, draws = np.ones((1 + _REPLICATES, first.size)), np.maximum(self.draws[first], _FEWEST_DRAWS)
        factors[1:] = rng.standard_gamma(draws, (_REPLICATES, first.size)) / draws
        return np.asarray(self.weights * factors[:, inverse])


def pooled_values(
    seen: Seen,
    root: int,
    betas: Floats,
    discount: float,
    ends: Floats,
    most: float = math.inf,
    rng: np.random.Generator | None = None,
) -> tuple[Floats | None, float]:
    """Return the risk of each action (1 + B, N) at the ``root``, inf where nothing is known, and how much work that is.

    ``betas`` are those of the steps from the root's on; ``ends`` (S,) what the end costs, inf where that is not known;
    later decisions slip as in :func:`tailwise.search.learned.answer.induct`. None where it is more work than
    ``most``. After the first row come B that the draws leave possible: none without an ``rng``, or where that is more.
    """
    changes = _changes_of(seen)
    work = float(sum(entry.size * (to.size + entry.owners.size) for entry, to in changes) * (_A_CELL + betas.size))
    if work > most:
        return None, work
    outcomes = _spread(changes, seen.numbers)
    shape = seen.allowed.shape
    cells = outcomes.owners * shape[1] + outcomes.actions
    order = np.argsort(cells, kind="stable")
    targets, costs, cells = outcomes.targets[order], outcomes.costs[order], cells[order]
    going, first = targets >= 0, runs(cells)
    more = float(_REPLICATES * cells.size * betas.size)
    weights = (outcomes.weights[None] if rng is None or work + more > most else outcomes.redrawn(rng))[:, order]
    work += (len(weights) > 1) * more
    draws = np.zeros(shape)
    np.add.at(draws, (seen.owners, seen.actions), seen.counts)
    found = np.full((len(weights), *shape), math.inf)
    values, flat = np.tile(ends, (len(weights), 1)), found.reshape(len(weights), -1)
    for beta in betas[::-1].tolist():
        totals = costs + np.where(going, discount * values[:, targets], 0.0)
        flat[:, cells[first]] = _risks(totals, weights, first, beta)
        values = _with_slips(found, draws)
    return found[:, root], work


def _risks(totals: Floats, weights: Floats, first: Ints, beta: float) -> Floats:
    """Return the ERM of each run of weighted totals, of those that are finite; inf where there is none."""
    known = np.isfinite(totals)
    totals, weights = np.where(known, totals, 0.0), np.where(known, weights, 0.0)
    mass, sizes = np.add.reduceat(weights, first, axis=1), np.diff(np.append(first, weights.shape[1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        if abs(beta) * np.ptp(totals) < _LINEAR:
            found = np.add.reduceat(weights * totals, first, axis=1) / mass
        else:
            x = np.where(known, beta * totals, -math.inf)
            top = np.maximum.reduceat(x, first, axis=1)
            tilted = weights * np.exp(x - np.repeat(top, sizes, axis=1))
            found = (top + np.log(np.add.reduceat(np.where(known, tilted, 0.0), first, axis=1) / mass)) / beta
    return np.where(mass > 0.0, found, math.inf)


def _with_slips(q: Floats, draws: Floats) -> Floats:
    """Return what states are worth (B, S) whose actions are worth ``q`` (B, S, N) and were drawn so often."""
    known = np.isfinite(q)
    weights, tried, least = np.where(known, draws + 0.1, 0.0), known.sum(axis=2), q.min(axis=2)
    mean = (np.where(known, q, 0.0) * weights).sum(axis=2) / np.maximum(weights.sum(axis=2), 0.1)
    part = np.minimum(1.0, SLIPS * (tried / np.maximum(draws.sum(axis=1), 1.0)) ** SLIPS_FADE)
    several = tried > 1
    least[several] += part[several] * (mean[several] - least[several])
    return np.asarray(least)


def outcomes_across_states(seen: Seen) -> Outcomes:
    """Return the outcomes of each state and action: its own, and those that its likeness to other states suggests."""
    return _spread(_changes_of(seen), seen.numbers)


def _changes_of(seen: Seen) -> list[tuple[_Changes, Ints]]:
    """The outcomes of each action as changes, and the states in which it is allowed."""
    rows = [(int(action), np.flatnonzero(seen.actions == action)) for action in np.unique(seen.actions)]
    return [(_Changes(seen, some), np.flatnonzero(seen.allowed[:, action])) for action, some in rows]


def _spread(changes: list[tuple[_Changes, Ints]], numbers: Floats) -> Outcomes:
    states, found = _States(numbers), []
    for entry, to in changes:
        if entry.size > _MOST_CHANGES or entry.states.size < _FEWEST_STATES:
            found.append(entry.own(entry.counts))
        else:
            for part, within in entry.parts(to):
                found += part.spread(within, states)
    begins = np.cumsum([0, *(int(part.kinds.max(initial=-1)) + 1 for part in found)])
    apart = [part._replace(kinds=part.kinds + begin) for part, begin in zip(found, begins[:-1].tolist(), strict=True)]
    return Outcomes(*map(np.concatenate, zip(*apart, strict=True)))


class _States:
    """Finds states by their numbers."""

    def __init__(self, numbers: Floats) -> None:
        self._numbers, self._low, self._high = numbers, numbers.min(axis=0), numbers.max(axis=0)
        spread = numbers.std(axis=0)
        self._scale, self._left = np.where(spread > 0.0, spread, 1.0), _MOST_NUMBERS
        self._levels = [np.unique(column) for column in numbers.T]
        codes = self._codes(numbers)
        self._order = np.argsort(codes)
        self._sorted = codes[self._order]

    def _codes(self, numbers: Floats) -> Ints:
        """A number for each row; that of one that is no state may be any."""
        codes = np.zeros(len(numbers), np.int64)
        for levels, column in zip(self._levels, numbers.T, strict=True):
            codes = codes * _MULTIPLIER + np.searchsorted(levels, column - _SAME)  # may overflow, as hashes do
        return codes

    def find(self, numbers: Floats) -> tuple[Ints, Bools]:
        """Return the state of each row (P, D), -1 where none is found, and whether it is that very one.

        Numbers beyond those of all states are cut off first. The nearest state does, where few have to be looked at.
        """
        found = self._find(numbers)
        exact = found >= 0
        found[~exact] = self._find(np.clip(numbers[~exact], self._low, self._high))
        lost = np.flatnonzero(found < 0)
        places, rows = np.unique(np.round(numbers[lost], 9), axis=0, return_inverse=True)
        self._left -= places.size * len(self._numbers)
        if self._left >= 0:
            away = ((places[:, None] - self._numbers) / self._scale) ** 2
            found[lost] = away.sum(axis=2).argmin(axis=1)[rows.ravel()]
        return found, exact

    def _find(self, numbers: Floats) -> Ints:
        at = np.minimum(np.searchsorted(self._sorted, self._codes(numbers)), self._sorted.size - 1)
        found = self._order[at]
        same = (np.abs(self._numbers[found] - numbers) <= _SAME).all(axis=1)
        return np.where(same, found, -1)


class _Changes:
    """The outcomes of one action, as changes of the numbers of a state; M changes are different."""

    def __init__(self, seen: Seen, rows: Ints) -> None:
        self.numbers, self.action = seen.numbers, seen.actions[rows[:1]]
        self.owners, self.targets = seen.owners[rows], seen.targets[rows]
        self.costs, self.counts = seen.costs[rows], seen.counts[rows]
        self.states, self.places = np.unique(self.owners, return_inverse=True)
        self.bases = _bases(self.numbers.shape[1])
        before, after, going = self.numbers[self.owners], self.numbers[self.targets], self.targets >= 0
        told = np.full((rows.size, 2, len(self.bases)), math.inf)  # by which base, and what comes to that
        for d, bases in enumerate(self.bases):
            left = np.where(going, np.round(after[:, d] - bases @ before.T, 9), math.inf)
            told[:, 0, d] = chosen = self._most_seen(left)
            told[:, 1, d] = left[chosen, np.arange(rows.size)]
        told[~going] = math.inf
        kinds, keys = _unique(told.reshape(rows.size, -1))
        _, first = np.unique(keys * self.states.size + self.places, return_index=True)
        several = np.bincount(keys, ~marked(rows.size, first), len(kinds)) > 0  # at more than one cost in one state
        kinds, self.keys = _unique(np.column_stack((kinds[keys], np.where(several[keys], self.costs.round(9), 0.0))))
        self.kinds, self.size = kinds[:, :-1].reshape(len(kinds), 2, -1), len(kinds)

    def _most_seen(self, left: Floats) -> Ints:
        """Say for each row by which base it is seen from most states, of ``left`` (B, R); the first where none is."""
        support = np.stack([self._support(row) for row in left])
        chosen = support.argmax(axis=0)
        for _ in range(_ROUNDS):  # what the first base explains lends no support to another
            for k in range(1, len(left)):
                rows = np.flatnonzero(chosen == k)
                chosen[rows[self._support(left[k], rows) <= support[0, rows]]] = 0
        return np.asarray(chosen)

    def _support(self, values: Floats, among: Any = slice(None)) -> Ints:
        """From how many states each of the values was seen, ``among`` some rows."""
        _, kinds = np.unique(values[among], return_inverse=True)
        pairs = np.unique(kinds * self.states.size + self.places[among])
        return np.bincount(pairs // self.states.size)[kinds]

    def own(self, weights: Floats) -> Outcomes:
        """The outcomes that were drawn, with some weights."""
        action, rows = np.repeat(self.action, weights.size), np.arange(weights.size)
        return Outcomes(self.owners, action, self.targets, self.costs, weights, rows, self.counts)

    def parts(self, to: Ints) -> list[tuple[_Changes, Ints]]:
        """Split the states, and those ``to`` which it matters, where one of their numbers makes a change likelier."""
        found: list[tuple[_Changes, Ints]] = []
        left = [(self, to)]
        while left:
            part, to = left.pop()
            cut = part.cut() if len(found) + len(left) + 1 < _MOST_PARTS else None
            if cut is None:
                found.append((part, to))
                continue
            low, there = part.numbers[part.owners, cut[0]] <= cut[1], part.numbers[to, cut[0]] <= cut[1]
            left += [(part._of(~low), to[~there]), (part._of(low), to[there])]
        return found

    def cut(self) -> tuple[int, float] | None:
        """Return which number of a state makes a change likelier from where on; None where that is not clear."""
        own = np.zeros((self.states.size, self.size))
        np.add.at(own, (self.places, self.keys), self.counts)
        total, best, found = own.sum(axis=0), _CLEAR, None
        number = float(total.sum())
        whole = _evidence(total, number)
        for k, column in enumerate(self.numbers[self.states].T):
            order = np.argsort(column, kind="stable")
            x = column[order]
            cuts = np.flatnonzero(x[1:] > x[:-1])
            if cuts.size:
                low = np.cumsum(own[order], axis=0)[cuts]
                below = low.sum(axis=1, keepdims=True)
                gain = _evidence(low, below) + _evidence(total - low, number - below) - whole
                gain = gain.max(axis=1) - math.log(cuts.size * self.size)
                if gain.max() > best:
                    best, at = float(gain.max()), cuts[gain.argmax()]
                    left, right = float(x[at]), float(x[at + 1])
                    middle = 0.5 * (left + right)
                    found = k, middle if middle < right else left  # between neighbours among floats there is nothing
        return found

    def _of(self, rows: Bools) -> _Changes:
        part = copy.copy(self)
        for name in ("owners", "targets", "costs", "counts", "keys"):
            setattr(part, name, getattr(self, name)[rows])
        part.states, part.places = np.unique(part.owners, return_inverse=True)
        return part

    def spread(self, to: Ints, states: _States) -> list[Outcomes]:
        """Return outcomes for the states ``to``, those of the draws among them."""
        numbers, ends = self.numbers[to], np.isinf(self.kinds[:, 0, 0])
        which, value = np.where(ends[:, None], 0, self.kinds[:, 0]).astype(np.int64), self.kinds[:, 1]
        places = np.stack([numbers @ base[which[:, d]].T for d, base in enumerate(self.bases)], axis=2)
        places += np.where(ends[:, None], 0.0, value)
        found_at, is_state = states.find(places.reshape(-1, value.shape[1]))
        targets = np.asarray(np.where(ends, -1, found_at.reshape(to.size, self.size)), np.int64)
        exact = np.asarray(is_state.reshape(to.size, self.size) | ends, np.bool_)
        known = (targets >= 0) | ends
        here = np.asarray(np.searchsorted(to, self.states), np.int64)
        number: Floats = np.bincount(self.places, self.counts).astype(np.float64)
        same = known[here][self.places] & (targets[here][self.places] == self.targets[:, None])
        own, nearly = self._own_evidence(number), _OFF * max(float(np.ptp(self.costs)), 1e-12)
        alike, share = np.ones(self.states.size), np.full(2, 0.5)  # of states at a boundary, and inside
        for _ in range(_ROUNDS):
            weights = self.counts * alike[self.places]
            often = np.bincount(self.keys, weights, self.size)
            inside = np.asarray(exact[:, often > _RARE * often.sum()].all(axis=1), np.int64)
            if (alike * number * inside[here]).sum() > (1.0 - _MOST_CUT_OFF) * often.sum():
                weights = weights * inside[here][self.places]  # what is cut off says little of a change
            often = np.bincount(self.keys, weights, self.size)
            others = np.tile(often + _UNSEEN / self.size, (self.states.size, 1))
            np.subtract.at(others, (self.places, self.keys), weights)
            others = np.maximum(others, 1e-12)
            costs = self._costs(weights, numbers)
            fits = same & (np.abs(costs[here][self.places] - self.costs[:, None]) <= nearly)
            likely = ((others / others.sum(axis=1, keepdims=True))[self.places] * fits).sum(axis=1)
            gain = np.bincount(self.places, self.counts * np.log(np.maximum(likely, _IMPOSSIBLE))) - own
            shares = share[inside[here]]
            odds = np.log(shares / (1.0 - shares)) + gain
            evidence = float(np.logaddexp(np.log(shares) + gain, np.log(1.0 - shares)).sum())
            alike = 1.0 / (1.0 + np.exp(-np.clip(odds, -700.0, 50.0)))
            sums, sizes = np.bincount(inside[here], alike, 2), np.bincount(inside[here], minlength=2)
            share = np.clip((sums + 0.5) / (sizes + 1.0), 0.01, 0.99)
        if evidence < _CLEAR:
            alike, share = np.zeros(self.states.size), np.zeros(2)
        drawn = self.counts / number[self.places] * np.maximum(1.0 - alike[self.places], 1e-12)
        found = [self.own(drawn)]
        follows = (share[inside] >= 0.5).astype(np.float64)
        follows[here] = alike
        total = float(often.sum())
        costs = self._with_own_costs(costs, here)
        rows, changes = np.nonzero(known & (follows[:, None] * often > 1e-9 * total))
        likely = follows[rows] * often[changes] / max(total, 1e-12)
        action = np.repeat(self.action, rows.size)
        seen = np.asarray(often[changes], dtype=np.float64)
        found.append(Outcomes(to[rows], action, targets[rows, changes], costs[rows, changes], likely, changes, seen))
        return found

    def _costs(self, weights: Floats, numbers: Floats) -> Floats:
        """Return what changes cost (S, M) in states of some ``numbers``: one slope, and a level of each change."""
        weights = np.maximum(weights, 1e-9)
        total = np.maximum(np.bincount(self.keys, weights, self.size), 1e-300)
        level = np.bincount(self.keys, weights * self.costs, self.size) / total
        left = self.costs - level[self.keys]
        if np.abs(left).max() <= 1e-12 * max(1.0, float(np.abs(self.costs).max())):
            return np.broadcast_to(level, (len(numbers), self.size))
        before = self.numbers[self.owners]
        middle = np.stack([np.bincount(self.keys, weights * x, self.size) / total for x in before.T], axis=1)
        away, roots = before - middle[self.keys], np.sqrt(weights)
        slope = np.linalg.lstsq(roots[:, None] * away, roots * left, rcond=1e-9)[0]
        found = level + numbers @ slope[:, None] - middle @ slope
        return np.asarray(np.clip(found, self.costs.min(), self.costs.max()))

    def _with_own_costs(self, costs: Floats, here: Ints) -> Floats:
        """Return the same costs, but for those that a state's own draws show."""
        cells = here[self.places] * self.size + self.keys
        number = np.bincount(cells, self.counts, costs.size)
        own = np.bincount(cells, self.counts * self.costs, costs.size) / np.maximum(number, 1.0)
        return np.where(number > 0.0, own, costs.ravel()).reshape(costs.shape)

    def _own_evidence(self, number: Floats) -> Floats:
        """Logarithm of the probability of each state's draws, from a distribution of its own that is not known."""
        each = 1.0 / (self.size + 1.0)
        chances = np.bincount(self.places, _log_gamma(each + self.counts) - math.lgamma(each))
        return np.asarray(chances - _log_gamma(number + 1.0))


def _bases(size: int) -> list[Floats]:
    """Return, for each number of a state, what its next value may be told from (B, D).

    Itself, nothing, another number, and, as in a pipeline of orders, the sum of itself and another.
    """
    own = np.eye(size)
    others = [np.delete(own, d, axis=0) for d in range(size)]
    return [np.concatenate((own[d : d + 1], np.zeros((1, size)), others[d], others[d] + own[d])) for d in range(size)]


def _unique(rows: Floats) -> tuple[Floats, Ints]:
    found, at = np.unique(rows, axis=0, return_inverse=True)
    return found, at.ravel()


def _log_gamma(x: Floats) -> Floats:
    """Logarithm of the Gamma function of positive numbers: Stirling's series from 10 on, to 8 digits."""
    small = x < 10.0
    z = np.where(small, x + 10.0, x)
    series = (
        (z - 0.5) * np.log(z) - z + 0.5 * math.log(2 * math.pi) + (1 / 12 - (1 / 360 - 1 / (1260 * z**2)) / z**2) / z
    )
    rising = np.where(small, x, 1.0)
    for k in range(1, 10):
        rising = rising * np.where(small, x + k, 1.0)
    return np.asarray(series - np.log(rising))


def _evidence(counts: Floats, number: Any) -> Floats:
    """Logarithm of the probability of so many among a ``number`` of draws, in order, all probabilities being likely."""
    whole = np.asarray(number, dtype=np.float64)
    return np.asarray(_log_gamma(counts + 1.0) + _log_gamma(whole - counts + 1.0) - _log_gamma(whole + 2.0))
