r"""Exact planning where the state is not seen: alpha vectors over the tilted belief (Baeuerle & Rieder 2017).

What is known of the state after a history is summed up, for the ERM, by the belief *tilted* by what was paid unseen::

    sigma'(s') = sum over s of sigma(s) exp(beta_h c(s, a, s')) P(s' | s, a) O(o | a, s'),     beta_h = beta discount**h

A *conditional plan* takes an action and goes on, for each thing that may be seen, with another conditional plan. Let
``g(s)`` be the ERM at ``beta_h`` of its cost-to-go from the hidden state s: its alpha vector is ``exp(beta_h g)``, and
its risk at ``sigma`` is the ERM of g under the weights sigma (scaled to sum to 1: what was paid for certain does not
matter). The optimum is the least over conditional plans, so that ``exp(beta_h V)`` is the least (for beta < 0 the
greatest) of linear functions of sigma. For beta = 0 this is the ordinary POMDP. A cost that is seen is one more thing
that is observed.

Vectors are kept as g, in the unit of costs, never as ``exp(beta g)``: nothing overflows at any beta, and nothing is
lost at tiny ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tailwise._arrays import Floats, Ints, log_of
from tailwise._progress import Tick, untold
from tailwise.errors import StateError
from tailwise.models.pomdp_table import PomdpTable

NEAR = 0.5  # up to |beta| * range of this, the mean is the reference of an ERM
_DIGITS = 12  # of log weights, in which two beliefs are one
_TIE = 1e-12  # relative to the mean size of what was compared


class Branch(NamedTuple):
    """The outcomes of one action, sorted by state: E entries, Z things that may be seen.

    Attributes
    ----------
    states, targets, signals : ndarray of int64, shape (E,)
        From-state, to-state, and what is seen (-1 where the episode ends).
    chances, losses : ndarray of float64, shape (E,)
        Probability and loss.
    starts : ndarray of int64, shape (S,)
        First entry of each state.
    seen : tuple
        Of each signal: the observation, and the loss where it is seen.
    """

    states: Ints
    targets: Ints
    signals: Ints
    chances: Floats
    losses: Floats
    starts: Ints
    seen: tuple[tuple[int, float | None], ...]


def branches_of(model: PomdpTable) -> list[Branch]:
    """Return the outcomes of each action."""
    table = model.table
    rows = table.outcome_rows
    states, ids = table.row_states[rows], table.action_ids[rows]
    found = []
    for action in range(model.num_actions):
        mine = np.flatnonzero(ids == action)
        losses, done = table.losses[mine], table.done[mine]
        keys: list[tuple[int, float | None]] = [
            (int(o), float(loss) if model.cost_seen else None)
            for o, loss in zip(model.observed[mine], losses, strict=True)
        ]
        seen = {key: k for k, key in enumerate(dict.fromkeys(k for k, end in zip(keys, done, strict=True) if not end))}
        signals = np.array([-1 if end else seen[key] for key, end in zip(keys, done, strict=True)], dtype=np.int64)
        found.append(Branch(
            states[mine], table.next_states[mine].astype(np.int64), signals, table.probabilities[mine], losses,
            np.searchsorted(states[mine], np.arange(model.num_states)), tuple(seen),
        ))  # fmt: skip
    return found


def grouped_erm(values: Floats, weights: Floats, starts: Ints, beta: float) -> Floats:
    """Return the ERM of each group of the last axis; ``weights`` are positive and need not sum to 1.

    Parameters
    ----------
    values : ndarray of float64, shape (..., E)
        What is paid.
    weights : ndarray of float64, shape (E,) or (..., E)
        Of each entry.
    starts : ndarray of int64, shape (G,)
        First entry of each group.
    beta : float
        Risk level.

    Returns
    -------
    ndarray of float64, shape (..., G)
    """
    mass = np.add.reduceat(weights, starts, axis=-1)
    mean = np.add.reduceat(weights * values, starts, axis=-1) / mass
    if beta == 0.0:
        return np.asarray(mean)
    high, low = np.maximum.reduceat(values, starts, axis=-1), np.minimum.reduceat(values, starts, axis=-1)
    lengths = np.diff(np.append(starts, values.shape[-1]))
    top = high if beta > 0.0 else low
    scaled = np.exp(beta * (values - np.repeat(top, lengths, axis=-1)))
    guess = top + np.log(np.add.reduceat(weights * scaled, starts, axis=-1) / mass) / beta
    guess = np.where(abs(beta) * (high - low) < NEAR, mean, guess)
    apart = values - np.repeat(guess, lengths, axis=-1)
    terms = np.expm1(np.minimum(beta * apart, 700.0)) / beta
    return np.asarray(guess + np.log1p(beta * (np.add.reduceat(weights * terms, starts, axis=-1) / mass)) / beta)


def belief_erm(values: Floats, log_weights: Floats, beta: float) -> Floats:
    """Return the ERM of values of states under tilted beliefs: both of shape (..., S), weights in logs."""
    top = log_weights.max(axis=-1, keepdims=True)
    weights = np.exp(log_weights - top)
    inside = np.isfinite(log_weights)
    fill = np.where(inside, values, -np.inf).max(axis=-1, keepdims=True)  # states that cannot be do not count
    kept = np.where(inside, values, fill)
    low, high = kept.min(axis=-1, keepdims=True), kept.max(axis=-1, keepdims=True)
    mass = weights.sum(axis=-1, keepdims=True)
    mean = (weights * kept).sum(axis=-1, keepdims=True) / mass
    if beta == 0.0:
        return np.asarray(mean[..., 0])
    logs = log_weights + beta * np.where(np.isfinite(log_weights), values, 0.0)
    peak = logs.max(axis=-1, keepdims=True)
    total = np.log(np.exp(logs - peak).sum(axis=-1, keepdims=True))
    norm = top + np.log(mass)
    far = (peak + total - norm) / beta
    with np.errstate(over="ignore", invalid="ignore"):
        near = (weights * np.expm1(beta * (kept - mean))).sum(axis=-1, keepdims=True) / mass
        near = mean + np.log1p(near) / beta
    return np.asarray(np.where(abs(beta) * (high - low) < NEAR, near, far)[..., 0])


def normalised(log_weights: Floats) -> Floats:
    """Return log weights whose weights sum to 1."""
    top = log_weights.max(axis=-1, keepdims=True)
    return np.asarray(log_weights - top - np.log(np.exp(log_weights - top).sum(axis=-1, keepdims=True)))


def tilted(branch: Branch, log_weights: Floats, beta: float) -> list[Floats]:
    """Return the tilted belief after each thing that may be seen: log weights, shape (N, S), all -inf where it cannot.

    ``beta`` is the risk level of the step at which the action was taken.
    """
    size, found = log_weights.shape[1], []
    tilt = log_of(branch.chances) + beta * branch.losses
    for signal in range(len(branch.seen)):
        mine = np.flatnonzero(branch.signals == signal)
        mine = mine[np.argsort(branch.targets[mine], kind="stable")]
        ends, starts = np.unique(branch.targets[mine], return_index=True)
        terms = log_weights[:, branch.states[mine]] + tilt[mine]
        top = np.maximum.reduceat(terms, starts, axis=1)
        base = np.where(np.isfinite(top), top, 0.0)
        lengths = np.diff(np.append(starts, mine.size))
        sums = np.add.reduceat(np.exp(terms - np.repeat(base, lengths, axis=1)), starts, axis=1)
        after = np.full((log_weights.shape[0], size), -np.inf)
        after[:, ends] = base + log_of(sums)
        found.append(after)
    return found


@dataclass(frozen=True, eq=False)
class Level:
    """Conditional plans from one step on: K of them.

    Attributes
    ----------
    values : ndarray of float64, shape (K, S)
        ERM of the cost-to-go from each state, in the step's own unit.
    actions : ndarray of int64, shape (K,)
        What each does first.
    children : ndarray of int64, shape (K, Z)
        With which plan of the next level it goes on after each signal of its action.
    keys : dict, optional
        Where there is a plan for each tilted belief that can be reached, its index by the belief.
    options : ndarray of float64, shape (K, A), optional
        There also the value of each action.
    """

    values: Floats
    actions: Ints
    children: Ints
    keys: dict[bytes, int] | None = None
    options: Floats | None = None


def key_of(log_weights: Floats) -> bytes:
    """Return what tells one tilted belief from another."""
    rounded = np.round(np.where(np.isfinite(log_weights), log_weights, -1e200), _DIGITS) + 0.0
    return rounded.tobytes()


def backed_up(branch: Branch, after: Floats, children: Ints, beta: float, discount: float) -> Floats:
    """Return the values of plans that begin with an action: (N, S) from the next level's (K, S) and (N, Z) indices."""
    goes_on = branch.signals >= 0
    values = np.broadcast_to(branch.losses, (children.shape[0], branch.losses.size)).copy()
    values[:, goes_on] += discount * after[children[:, branch.signals[goes_on]], branch.targets[goes_on]]
    return grouped_erm(values, branch.chances, branch.starts, beta)


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


def mean_size(values: Floats, log_weights: Floats) -> Floats:
    """Return the mean size of values of states under tilted beliefs: what sums of them are known to."""
    return np.asarray((np.exp(log_weights) * np.abs(values)).sum(axis=-1))


def best_actions(options: Floats, sizes: Floats | float) -> Ints:
    """Return the lowest action that ties with the best, (N,) of (N, A); ``sizes`` are of what the best adds up."""
    least = options.min(axis=1)
    limit = least + _TIE * np.maximum(np.abs(least), sizes)
    return np.asarray(np.argmax(options <= limit[:, None], axis=1))


def impossible(model: PomdpTable, action: int, seen: str) -> StateError:
    """Return the error of what cannot be observed."""
    return StateError(f"{seen} cannot be observed after {model.action_name(action)}: its probability is 0")
