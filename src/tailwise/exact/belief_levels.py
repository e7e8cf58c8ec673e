"""Conditional plans, level by level: all of those that matter, or those that are best at chosen tilted beliefs.

Two ways are exact:

* where the start reaches few different tilted beliefs, one conditional plan, the best, for each of them;
* else all conditional plans that are best at some tilted belief, the others pruned. That one is nowhere best is proven
  by a mixture of others that is no worse in any state (a linear program finds it, and it is checked without its
  tolerances); what cannot be proven is kept.

Where all of those that matter are too many, beliefs are chosen. Backward over the steps, each gets its best action,
each of whose observations goes on with the plan of the next step that is best there (Pineau, Gordon & Thrun 2003, for
the tilted belief). So every plan is one that can be followed, and its value is certain: the optimum is no dearer. How
near it is depends on the beliefs. They are those that the start leads to by any action, the likely ones first; then,
once plans are known, by the best action and by others.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tailwise._arrays import Floats, Ints, log_of
from tailwise._progress import Progress, Tick, followed, untold
from tailwise._random import generator
from tailwise.errors import ModelError
from tailwise.exact.alpha_vectors import (
    NEAR,
    Branch,
    backed_up,
    belief_erm,
    best_actions,
    grouped_erm,
    key_of,
    mean_size,
    normalised,
    tilted,
)
from tailwise.models.pomdp_table import PomdpTable

_MOST_NUMBERS = 20_000_000  # of tilted beliefs
_MOST_CANDIDATES = 4_000  # conditional plans of an action that are pruned at once: a linear program for each
_DOMINATED = 1e-14  # relative to the size of the safest plan: rounding
_PROVEN = 1e-13  # the same, of mixtures
_CELLS, _LEAST = 10.0, -30.0  # two beliefs are one here where the logarithms of all their weights, by tenths, are
_EVEN = 0.2  # chance of actions that are not the best


@dataclass(frozen=True, eq=False)
class Level:
    """Conditional plans from one step on: K of them."""

    values: Floats  # (K, S): ERM of the cost-to-go from each state, in the step's own unit
    actions: Ints  # (K,): what each does first
    children: Ints  # (K, Z): with which plan of the next level it goes on after each signal of its action
    keys: dict[bytes, int] | None = None  # if there is a plan for each tilted belief that can be reached: its index
    options: Floats | None = None  # (K, A): there also the value of each action


def solved_levels(
    model: PomdpTable, branches: Sequence[Branch], beta: float, log_start: Floats, *, most: int,
    progress: Progress = None,
) -> list[Level]:  # fmt: skip
    """Return the levels of the exact solution, or raise ``ModelError`` where it is too large."""
    limit = min(most, _MOST_NUMBERS // model.num_states)
    with followed(progress, "looking for tilted beliefs", limit) as tick:
        levels = reachable_levels(model, branches, beta, log_start, limit, tick)
    if levels is None:
        with followed(progress, "pruning plans", model.horizon * len(branches)) as tick:
            levels = pruned_levels(model, branches, beta, min(most, _MOST_CANDIDATES), tick)
    if levels is None:
        raise ModelError(
            f"{model.name} is too large to be solved exactly: over {most:,} tilted beliefs can be reached, and "
            "there are too many conditional plans; raise max_states, shorten the horizon, or search with "
            "make_planner(model, beta)"
        )
    return levels


def reachable_levels(
    model: PomdpTable, branches: Sequence[Branch], beta: float, log_start: Floats, most: int, tick: Tick = untold
) -> list[Level] | None:
    """Return the best plan for each tilted belief that the start reaches; None where there are more than ``most``."""
    horizon, discount = model.horizon, model.discount
    beliefs, indices = [normalised(log_start[None, :])], [{key_of(normalised(log_start)): 0}]
    moves: list[list[Ints]] = []
    total = 1
    for h in range(horizon - 1):
        found: list[Floats] = []
        index: dict[bytes, int] = {}
        ways = []
        for branch in branches:
            way = np.zeros((beliefs[h].shape[0], max(1, len(branch.seen))), np.int64)
            for signal, after in enumerate(tilted(branch, beliefs[h], beta * discount**h)):
                possible = np.flatnonzero(np.isfinite(after).any(axis=1))
                after = normalised(after[possible])
                for n, row in zip(possible.tolist(), after, strict=True):
                    key = key_of(row)
                    place = index.get(key)
                    if place is None:
                        place = index[key] = len(found)
                        found.append(row)
                    way[n, signal] = place
                tick(total + len(found))
                if total + len(found) > most:
                    return None
            ways.append(way)
        moves.append(ways)
        beliefs.append(np.array(found).reshape(-1, model.num_states))
        indices.append(index)
        total += len(found)
        if not found:
            break
    levels: list[Level] = []
    after = model.table.terminal_losses[None, :]
    for h in range(len(beliefs) - 1, -1, -1):
        if not beliefs[h].shape[0]:  # every episode has ended
            after = np.zeros((1, model.num_states))
            continue
        count = beliefs[h].shape[0]
        last = h == len(beliefs) - 1
        ways = [np.zeros((count, max(1, len(b.seen))), np.int64) for b in branches] if last else moves[h]
        rows = [
            backed_up(branch, after, way, beta * discount**h, discount)
            for branch, way in zip(branches, ways, strict=True)
        ]
        options = np.stack([belief_erm(row, beliefs[h], beta * discount**h) for row in rows], axis=1)
        sizes = np.stack([mean_size(row, beliefs[h]) for row in rows], axis=1)
        actions = best_actions(options, sizes[np.arange(count), options.argmin(axis=1)])
        width = max(way.shape[1] for way in ways)
        children = np.zeros((count, width), np.int64)
        values = np.empty((count, model.num_states))
        for a, (row, way) in enumerate(zip(rows, ways, strict=True)):
            mine = actions == a
            values[mine], children[mine, : way.shape[1]] = row[mine], way[mine]
        levels.insert(0, Level(values, actions, children, indices[h], options))
        after = values
    return levels


def pruned_levels(
    model: PomdpTable, branches: Sequence[Branch], beta: float, most: int, tick: Tick = untold
) -> list[Level] | None:
    """Return every conditional plan that is best somewhere; None where there are more than ``most`` to look at."""
    discount, levels = model.discount, list[Level]()
    after = model.table.terminal_losses[None, :]
    for h in range(model.horizon - 1, -1, -1):
        level = beta * discount**h
        width = max(1, *(len(branch.seen) for branch in branches))
        values, actions, children = [], [], []
        for a, branch in enumerate(branches):
            found = _crossed(branch, after, level, discount, most)
            if found is None:
                return None
            rows, ways = found
            values.append(rows)
            actions.append(np.full(rows.shape[0], a))
            children.append(np.pad(ways, ((0, 0), (0, width - ways.shape[1]))))
            tick((model.horizon - 1 - h) * len(branches) + a + 1)
        g = np.concatenate(values)
        kept = undominated(g, level)
        levels.insert(0, Level(g[kept], np.concatenate(actions)[kept], np.concatenate(children)[kept]))
        after = levels[0].values
        if after.shape[0] > most:
            return None
    return levels


def _crossed(branch: Branch, after: Floats, beta: float, discount: float, most: int) -> tuple[Floats, Ints] | None:
    """Return the undominated plans that begin with an action, and their children: incremental pruning."""
    size = branch.starts.size
    mass, rows, ways = np.zeros(size), np.zeros((1, size)), np.zeros((1, 0), np.int64)
    for signal in [-1, *range(len(branch.seen))]:
        mine = np.flatnonzero(branch.signals == signal)
        if not mine.size:
            continue
        ends = signal < 0
        states, starts = np.unique(branch.states[mine], return_index=True)
        paid = np.broadcast_to(branch.losses[mine], (1 if ends else after.shape[0], mine.size))
        if not ends:
            paid = paid + discount * after[:, branch.targets[mine]]
        part_mass = np.zeros(size)
        part_mass[states] = np.add.reduceat(branch.chances[mine], starts)
        part = np.zeros((paid.shape[0], size))
        part[:, states] = grouped_erm(paid, branch.chances[mine], starts, beta)
        kept = undominated(part[:, states], beta)
        part = part[kept]
        if rows.shape[0] * part.shape[0] > most:
            return None
        rows, ways = (
            _two_point(rows[:, None, :], mass, part[None, :, :], part_mass, beta).reshape(-1, size),
            np.column_stack([
                np.repeat(ways, part.shape[0], axis=0),
                *([] if ends else [np.tile(kept, ways.shape[0])]),
            ]),
        )  # fmt: skip
        mass = mass + part_mass
        kept = undominated(rows[:, mass > 0.0], beta)
        rows, ways = rows[kept], ways[kept]
    return rows, ways


def _two_point(x: Floats, x_mass: Floats, y: Floats, y_mass: Floats, beta: float) -> Floats:
    """Return the ERM of two parts, each an ERM itself, by their masses."""
    total = x_mass + y_mass
    empty = total == 0.0  # states that the action leads nowhere from, among the outcomes looked at
    total = np.where(empty, 1.0, total)
    p, q = np.where(empty, 1.0, x_mass / total), y_mass / total
    x, y = np.broadcast_arrays(x, y)
    x, y = np.where(x_mass > 0.0, x, y), np.where(y_mass > 0.0, y, x)
    mean = p * x + q * y
    if beta == 0.0:
        return np.asarray(mean)
    top = np.maximum(x, y) if beta > 0.0 else np.minimum(x, y)
    far = top + np.log(p * np.exp(beta * (x - top)) + q * np.exp(beta * (y - top))) / beta
    guess = np.where(abs(beta) * np.abs(x - y) < NEAR, mean, far)
    terms = p * np.expm1(np.minimum(beta * (x - guess), 700.0)) + q * np.expm1(np.minimum(beta * (y - guess), 700.0))
    return np.asarray(guess + np.log1p(terms) / beta)


def undominated(g: Floats, beta: float) -> Ints:
    """Return the indices of the plans that are best at some tilted belief; g has shape (K, S)."""
    size = float(np.abs(g).max(axis=1).min())  # of the safest: large costs of others say nothing about rounding
    order = np.argsort(g.sum(axis=1), kind="stable")
    left: list[int] = []
    for k in order.tolist():  # pointwise
        if not left or not (g[left] <= g[k] + _DOMINATED * size).all(axis=1).any():
            left.append(k)
    if len(left) == 1 or g.shape[1] == 1:
        return np.array(left[:1] if g.shape[1] == 1 else left)
    candidates = np.array(sorted(left))
    kept = set(_best_at_samples(g, candidates, beta))
    for k in candidates.tolist():
        while k not in kept:
            mixed, witness = _mixture(g, k, np.array(sorted(kept)), beta, size)
            if mixed:
                break
            rest = np.array([j for j in candidates.tolist() if j not in kept])
            kept.add(int(rest[np.argmin(_relative(g[rest] - g[k], beta) @ witness)]) if witness.any() else k)
            if len(kept) == candidates.size:
                break
    return np.array(sorted(kept))


def _relative(apart: Floats, beta: float) -> Floats:
    """Return u_beta of differences; those beyond the doubles are as large as can be."""
    return np.asarray(apart if beta == 0.0 else np.expm1(np.clip(beta * apart, -700.0, 700.0)) / beta)


def _best_at_samples(g: Floats, candidates: Ints, beta: float) -> set[int]:
    rng = np.random.Generator(np.random.SFC64(0))
    weights = np.concatenate([np.eye(g.shape[1]), rng.dirichlet(np.full(g.shape[1], 0.5), 16 * g.shape[1])])
    return {int(candidates[np.argmin(belief_erm(g[candidates], log[None, :], beta))]) for log in log_of(weights)}


def _mixture(g: Floats, k: int, others: Ints, beta: float, size: float) -> tuple[bool, Floats]:
    """Return whether a mixture of others is proven no worse than plan k in any state; if not, a belief to look at."""
    from scipy.optimize import linprog  # slow to import

    gains = _relative(g[others] - g[k], beta)  # (K, S): how much worse the others are, k's own value as the unit
    unit = float(np.median(np.abs(gains))) or 1.0
    shown = np.clip(gains / unit, -1e7, 1e7)
    count = others.size
    found = linprog(
        np.append(np.zeros(count), 1.0),
        A_ub=np.column_stack([shown.T, -np.ones(g.shape[1])]), b_ub=np.zeros(g.shape[1]),
        A_eq=np.append(np.ones(count), 0.0)[None, :], b_eq=[1.0], bounds=[(0.0, None)] * count + [(None, None)],
    )  # fmt: skip
    if found.x is None:
        return False, np.zeros(g.shape[1])
    shares = np.maximum(found.x[:-1], 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        worst = float(np.max(shares / shares.sum() @ gains))
    witness = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    return worst <= _PROVEN * size, witness


def levels_in_parts(
    model: PomdpTable, branches: Sequence[Branch], beta: float, log_start: Floats, points: int, levels: list[Level]
) -> Iterator[None]:
    """Fill in plans of each step, best at some ``points`` tilted beliefs of it; pause after each action at each."""
    rng = generator(0)
    for _ in range(2):
        chosen = yield from _beliefs(model, branches, beta, log_start, points, levels, rng)
        levels[:] = yield from _backward(model, branches, beta, chosen)


def _backward(
    model: PomdpTable, branches: Sequence[Branch], beta: float, chosen: list[Floats]
) -> Generator[None, None, list[Level]]:
    discount, levels = model.discount, list[Level]()
    after = model.table.terminal_losses[None, :]
    width = max(1, *(len(branch.seen) for branch in branches))
    for h in range(len(chosen) - 1, -1, -1):
        here, level = chosen[h], beta * discount**h
        rows, ways, options = [], [], []
        for branch in branches:
            way = np.zeros((len(here), width), np.int64)
            for signal, logs in enumerate(tilted(branch, here, level)):
                can = np.flatnonzero(np.isfinite(logs).any(axis=1))
                if can.size and len(after) > 1:
                    reached = normalised(logs[can])
                    way[can, signal] = belief_erm(after[None], reached[:, None, :], level * discount).argmin(axis=1)
            row = backed_up(branch, after, way, level, discount)
            rows.append(row)
            ways.append(way)
            options.append(belief_erm(row, here, level))
            yield
        actions = np.argmin(options, axis=0)
        own = np.arange(len(here))
        values, children = np.stack(rows)[actions, own], np.stack(ways)[actions, own]
        _, kept = np.unique(values, axis=0, return_index=True)
        levels.insert(0, Level(values[kept], actions[kept], children[kept]))
        after = levels[0].values
    return levels


def _beliefs(
    model: PomdpTable, branches: Sequence[Branch], beta: float, log_start: Floats, points: int,
    levels: list[Level], rng: np.random.Generator,
) -> Generator[None, None, list[Floats]]:  # fmt: skip
    """Return tilted beliefs of each step (N, S), in logs, that are likely to be reached."""
    here, weights = normalised(log_start[None, :]), np.ones(1)
    found = [here]
    for h in range(model.horizon - 1):
        level = beta * model.discount**h
        shares = np.full((len(here), len(branches)), 1.0 / len(branches))
        if levels:
            worths = belief_erm(levels[h].values[None], here[:, None, :], level)
            shares *= _EVEN
            shares[np.arange(len(here)), levels[h].actions[worths.argmin(axis=1)]] += 1.0 - _EVEN
        beliefs, masses = [], []
        for action, branch in enumerate(branches):
            if not branch.seen:
                continue
            after = np.array(tilted(branch, here, level))
            tops = after.max(axis=(0, 2))
            with np.errstate(invalid="ignore"):
                parts = np.exp(after - tops[None, :, None]).sum(axis=2)  # what each observation weighs
                parts *= weights * shares[:, action] / parts.sum(axis=0)
            can = np.isfinite(after).any(axis=2)
            beliefs.append(normalised(after[can]))
            masses.append(parts[can])
            yield
        if any(len(some) for some in beliefs):
            here, weights = _sifted(np.concatenate(beliefs), np.concatenate(masses), points, rng)
        else:  # all of these have ended; plans must still say what they do in every state
            here, weights = normalised(np.zeros((1, log_start.size))), np.ones(1)
        found.append(here)
    return found


def _sifted(beliefs: Floats, weights: Floats, points: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return at most so many beliefs, each for those near it: half of them the likeliest, the others by luck."""
    cells = np.round(_CELLS * np.maximum(beliefs, _LEAST)).astype(np.int64)
    _, first, owners = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    summed = np.bincount(owners.reshape(-1), weights, len(first))
    order = np.argsort(-summed, kind="stable")
    if order.size > points:
        order = np.append(order[: points // 2], rng.permutation(order[points // 2 :])[: points - points // 2])
    return beliefs[first[order]], summed[order] / summed[order].sum()
