r"""What is known where the state is not seen, the tilted belief, and alpha vectors over it (Baeuerle & Rieder 2017).

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

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tailwise._arrays import Floats, Ints, log_of
from tailwise.errors import OptionError, StateError
from tailwise.models.pomdp_table import PomdpTable

NEAR = 0.5  # up to |beta| * range of this, the mean is the reference of an ERM
_SHOWN = 4  # states of a belief, as a text
_DIGITS = 12  # of log weights, in which two beliefs are one
_TIE = 1e-12  # relative to the mean size of what was compared


class Branch(NamedTuple):
    """The outcomes of one action, sorted by state: E entries, Z things that may be seen."""

    states: Ints  # (E,): from-state
    targets: Ints  # (E,): to-state
    signals: Ints  # (E,): what is seen; -1 where the episode ends
    chances: Floats  # (E,)
    losses: Floats  # (E,)
    starts: Ints  # (S,): first entry of each state
    seen: tuple[tuple[int, float | None], ...]  # (Z,): the observation, and the loss where it is seen


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
    """Return the ERM (..., G) of groups of the last axis of values (..., E); weights > 0 need not sum to 1."""
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
    """Return the tilted belief after each thing that may be seen: log weights (N, S), all -inf where it cannot."""
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


@dataclass(frozen=True, eq=False, repr=False)
class Belief:
    """What is known of the hidden state at a step.

    Attributes
    ----------
    log_tilted : ndarray of float64, shape (S,)
        Logarithms of the tilted belief, which decides: it sums to 1.
    probabilities : ndarray of float64, shape (S,)
        The belief in the usual sense: the probability of each state.
    step : int
        Step h at which it holds.
    names : tuple of str
        Names of the states, for display.
    """

    log_tilted: Floats
    probabilities: Floats
    step: int = 0
    names: tuple[str, ...] = field(default=(), repr=False)

    @property
    def tilted(self) -> Floats:
        """The belief, tilted by what was paid unseen: float64, shape (S,); it sums to 1."""
        return np.exp(self.log_tilted)

    def to_dict(self) -> dict[str, object]:
        """Return it as plain values, ready for ``json.dumps``."""
        found = {"step": self.step, "probabilities": self.probabilities.tolist(), "tilted": self.tilted.tolist()}
        return found | ({"states": list(self.names)} if self.names else {})

    def __repr__(self) -> str:
        order = np.argsort(-self.probabilities, kind="stable")[:_SHOWN]
        likely = [k for k in order.tolist() if self.probabilities[k] > 0.0]
        said = ", ".join(f"{self.names[k] if self.names else k}: {self.probabilities[k]:.3g}" for k in likely)
        more = int((self.probabilities > 0.0).sum()) - len(likely)
        return f"belief ({said}{f' and {more} more' if more else ''})"


def signal_of(model: PomdpTable, branch: Branch, action: int, seen: int, cost: float | None) -> int:
    """Return which of the things that may be seen after an action was seen."""
    if not model.cost_seen:
        keys = [k for k, (o, _) in enumerate(branch.seen) if o == seen]
    else:
        if cost is None:
            raise OptionError(
                f"{model.name}: what a step costs is seen; give it: update(belief, action, observation, cost)"
            )
        loss = float(model.signed(float(cost)))
        unit = min((abs(paid) for _, paid in branch.seen if paid), default=0.0)
        off = {k: abs(paid - loss) for k, (o, paid) in enumerate(branch.seen) if o == seen and paid is not None}
        keys = [k for k in sorted(off, key=off.__getitem__) if off[k] <= 1e-9 * max(unit, abs(loss))]
    if not keys:
        raise impossible(model, action, seen, f" at {model.sense} {cost}" if model.cost_seen else "")
    return keys[0]


def belief_after(
    model: PomdpTable, branch: Branch, known: Belief, action: int, beta: float, seen: int, cost: float | None
) -> Belief:
    """Return what is known after an action and what was observed; ``beta`` is the risk level of the step."""
    signal = signal_of(model, branch, action, seen, cost)
    after = tilted(branch, known.log_tilted[None, :], beta)[signal][0]
    plain = np.exp(tilted(branch, log_of(known.probabilities)[None, :], 0.0)[signal][0])
    if not np.isfinite(after).any() or not plain.sum() > 0.0:
        raise impossible(model, action, seen)
    return Belief(normalised(after), plain / plain.sum(), known.step + 1, model.table.state_labels)


def belief_unseen(model: PomdpTable, branch: Branch, known: Belief, action: int, beta: float) -> Belief:
    """Return the same where nobody knows what was observed."""
    if not branch.seen:
        raise StateError(f"every episode ends with {model.action_name(action)}; nothing is observed after")
    after, plain = (
        normalised(np.logaddexp.reduce(tilted(branch, logs[None, :], risk))[0])
        for logs, risk in ((known.log_tilted, beta), (log_of(known.probabilities), 0.0))
    )
    return Belief(after, np.exp(plain), known.step + 1, model.table.state_labels)


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


def mean_size(values: Floats, log_weights: Floats) -> Floats:
    """Return the mean size of values of states under tilted beliefs: what sums of them are known to."""
    return np.asarray((np.exp(log_weights) * np.abs(values)).sum(axis=-1))


def best_actions(options: Floats, sizes: Floats | float) -> Ints:
    """Return the lowest action that ties with the best, (N,) of (N, A); ``sizes`` are of what the best adds up."""
    least = options.min(axis=1)
    limit = least + _TIE * np.maximum(np.abs(least), sizes)
    return np.asarray(np.argmax(options <= limit[:, None], axis=1))


def impossible(model: PomdpTable, action: int, seen: int, at: str = "") -> StateError:
    """Return the error of what cannot be observed."""
    name, after = model.observation_labels[seen], model.action_name(action)
    return StateError(f"{name}{at} cannot be observed after {after}: its probability is 0")
