"""Bounded search over tilted beliefs, where everything that may happen is listed.

A node is a step and a tilted belief (:mod:`tailwise.exact.alpha_vectors`); two histories with the same tilted belief
are one node. Each node knows two bounds of its optimal risk: from above what the best of some plans is worth, or its
actions' bounds; from below the risk of one who were told the state, or its actions' bounds. The plans are made with the
planner, once: one action for all steps, and, where that is little work, conditional plans for a few likely beliefs
(:mod:`tailwise.exact.belief_levels`), so that there is a policy to better from the first moment. A trial
goes down from the root by the action of the least lower bound, and by the observation that matters most to the gap
(weighed, as risk is, by the tilt), opens the nodes on its way and takes their bounds back up. The bounds are certain,
and never get worse; where they meet, the action is proven best.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from tailwise._arrays import Floats, Ints, log_of, runs
from tailwise._random import Seed, generator, seed_text
from tailwise._validate import integer, real
from tailwise.exact.alpha_vectors import (
    NEAR,
    Belief,
    Branch,
    backed_up,
    belief_erm,
    best_actions,
    branches_of,
    key_of,
    mean_size,
    normalised,
)
from tailwise.exact.belief_levels import Level, levels_in_parts
from tailwise.exact.belief_policy import BeliefPolicy
from tailwise.models.pomdp_table import PomdpTable
from tailwise.models.tabulate import tabulate_hidden
from tailwise.planners.hidden import HiddenPlanner
from tailwise.risk import ERM
from tailwise.search.action_rows import ActionRow, bounded_row, in_sense
from tailwise.search.anytime import Turn
from tailwise.search.plan import StopReason


class Step(NamedTuple):
    """What may follow a belief: A actions, each with at most K things that may be seen, the end among them."""

    log_masses: Floats  # (A, K): ln of the probability of each; -inf where there are fewer
    losses: Floats  # (A, K): ERM of what is paid with it
    places: Ints  # (N,): where in these, flattened, the episode goes on
    beliefs: Floats  # (N, S): the tilted beliefs that follow there, in logs


class BeliefSteps:
    """The outcomes of a table, as steps from belief to belief, sorted: what is summed up is summed over neighbours."""

    def __init__(self, model: PomdpTable, branches: Sequence[Branch]) -> None:
        self._size, self._num_actions = model.num_states, len(branches)
        self._width = 1 + max(len(branch.seen) for branch in branches)
        signals, targets = (np.concatenate([getattr(b, name) for b in branches]) for name in ("signals", "targets"))
        actions = np.repeat(np.arange(len(branches)), [branch.states.size for branch in branches])
        order = np.lexsort((targets, signals, actions))
        self._actions, self._targets, signals = actions[order], targets[order], signals[order]
        self._groups = self._actions * self._width + 1 + signals
        self._states, self._losses, chances = (
            np.concatenate([getattr(b, name) for b in branches])[order] for name in ("states", "losses", "chances")
        )
        self._logs = log_of(chances)
        ends = np.where(signals >= 0, model.discount * model.table.terminal_losses[self._targets], 0.0)
        self._last_losses = self._losses + ends  # what the end costs is paid with the step

    def after(self, log_belief: Floats, beta: float, *, last: bool) -> Step:
        """Return what may follow a belief, at the risk level of its step; after the ``last`` nothing does."""
        logs = log_belief[self._states] + self._logs  # of states that are possible alone
        can = np.flatnonzero(logs > -np.inf)
        logs, owners = logs[can], (self._actions if last else self._groups)[can]
        starts = runs(owners)
        masses, losses = _summed_up((self._last_losses if last else self._losses)[can], logs, starts, beta)
        owners = owners[starts]
        actions = owners if last else owners // self._width
        column = np.arange(owners.size) - np.searchsorted(actions, actions)
        shape = self._num_actions, int(column.max()) + 1
        log_masses, paid = np.full(shape, -np.inf), np.zeros(shape)
        log_masses[actions, column], paid[actions, column] = masses, losses
        if last:
            return Step(log_masses, paid, np.empty(0, np.int64), np.empty((0, self._size)))
        goes_on = owners % self._width > 0
        targets = self._targets[can]
        firsts = runs(self._groups[can] * self._size + targets)
        rows = np.searchsorted(starts, firsts, side="right") - 1
        beliefs = np.full((owners.size, self._size), -np.inf)
        beliefs[rows, targets[firsts]] = _log_sums(logs + beta * self._losses[can], firsts)
        places = actions * shape[1] + column
        return Step(log_masses, paid, places[goes_on], normalised(beliefs[goes_on]))


def _log_sums(logs: Floats, starts: Ints) -> Floats:
    """Return the logarithm of the sum of each group's weights."""
    top = np.maximum.reduceat(logs, starts)
    lengths = np.diff(starts, append=logs.size)
    return np.asarray(top + np.log(np.add.reduceat(np.exp(logs - np.repeat(top, lengths)), starts)))


def _summed_up(values: Floats, logs: Floats, starts: Ints, beta: float) -> tuple[Floats, Floats]:
    """Return the logarithm of each group's mass, and the ERM of its values under weights in logs."""
    norm = _log_sums(logs, starts)
    lengths = np.diff(starts, append=logs.size)
    shares = np.exp(logs - np.repeat(norm, lengths))
    means = np.add.reduceat(shares * values, starts)
    if beta == 0.0:
        return norm, means
    spread = np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts)
    far = (_log_sums(logs + beta * values, starts) - norm) / beta
    with np.errstate(over="ignore", invalid="ignore"):
        gains = np.add.reduceat(shares * np.expm1(beta * (values - np.repeat(means, lengths))), starts)
        near = means + np.log1p(gains) / beta
    return norm, np.where(abs(beta) * spread < NEAR, near, far)


_NODE_BYTES = 400  # beside its belief
_POINTS, _FEWEST_POINTS = 30, 3  # beliefs of a step that get a plan
_WORK = 7e5  # outcomes times steps times points: 0.5 to 0.7 s of processor time


@dataclass(eq=False, slots=True)
class _Ways:
    """What may follow a node: its step, the child at each place of it (None: an end), and bounds of each action."""

    step: Step
    children: list[_Node | None]
    lowers: Floats
    uppers: Floats


@dataclass(eq=False, slots=True)
class _Node:
    belief: Floats
    step: int
    lower: float
    upper: float
    told: float
    visits: list[int]
    ways: _Ways | None = None


class BeliefSearch(HiddenPlanner):
    """Certified bounds of the entropic risk where the state is not seen, from trials over tilted beliefs.

    Parameters
    ----------
    model : PomdpTable or PartlyObserved
        A table, or a simulator that lists its starts, outcomes and observations.
    beta : float
        Risk level at step 0.
    seed : optional
        Taken as every planner takes one; nothing here is random.
    tolerance : float, default 1e-9
        The search stops where the bounds at the root are as close, in units of their own size, or of what it costs
        who is told the state.
    max_nodes : int, default 1,000,000
        Most tilted beliefs that are kept.
    max_states : int, default 100,000
        Most states of a simulator.

    Examples
    --------
    >>> from tailwise import domains
    >>> from tailwise.planners import BeliefSearch
    >>> plan = BeliefSearch(domains.make("tiger", horizon=5), 0.1).plan(iterations=1000)
    >>> plan.label, round(plan.value, 8), plan.proven
    ('listen', 4.52438125, True)
    """

    method = "trials over tilted beliefs"
    unit = "trials"
    meaning = "bounds of the risk of the action, followed by optimal ones, that are certain"

    def __init__(
        self,
        model: Any,
        beta: float,
        *,
        seed: Seed = None,
        tolerance: float = 1e-9,
        max_nodes: int = 1_000_000,
        max_states: int = 100_000,
    ) -> None:
        self.require_unseen(model)
        self.pomdp: PomdpTable = tabulate_hidden(model, max_states=integer(max_states, "max_states", low=1))
        self._tolerance, self._room = real(tolerance, "tolerance", low=0.0), integer(max_nodes, "max_nodes", low=1)
        self._branches: list[Branch] = branches_of(self.pomdp)
        self._steps = BeliefSteps(self.pomdp, self._branches)
        self._level = real(beta, "beta")
        self._told, self._plans = _leaf_bounds(self.pomdp, self._branches, self._level)
        self._policy = BeliefPolicy(
            objective=ERM(self._level), mdp=self.pomdp.table, value=math.nan, beta=self._level, pomdp=self.pomdp,
            branches=tuple(self._branches), model=None if self.pomdp is model else model,
        )  # fmt: skip
        super().__init__(model, beta, seed=seed)

    def fresh(self, seed: Seed = None) -> Self:
        """Return an equal planner at the start; the bounds made with this one, of which nothing is random, serve it."""
        other, other_rng = copy(self), generator(seed)
        other._rng, other._turn, other._seed = other_rng, Turn(), seed_text(other_rng)
        other.reset()
        return other

    @property
    def belief(self) -> Belief:
        """What is known at the root: ``probabilities``, and its twin that decides, ``tilted``."""
        return self._known

    def _begin(self) -> None:
        self._known = self._policy.start
        self._replant()

    def _replant(self) -> None:
        self._nodes = [dict[bytes, _Node]() for _ in range(self.pomdp.horizon + 1)]  # by step
        if self._known.step < self.pomdp.horizon:
            (self._root,) = self._nodes_of(self._known.log_tilted[None, :], self._known.step)

    def _follow(self, action: Any, observation: Any, cost: float | None) -> None:
        self._known = self._policy.update(self._known, action, observation, cost)
        step = self._known.step
        found = self._nodes[step].get(key_of(self._known.log_tilted))
        if found is None:
            self._replant()
        else:
            self._root = found
            for past in self._nodes[:step]:
                past.clear()

    def _nodes_of(self, beliefs: Floats, step: int) -> list[_Node]:
        """Return the nodes of tilted beliefs (N, S), with bounds where they are new."""
        keys, known = [key_of(belief) for belief in beliefs], self._nodes[step]
        new = [k for k, key in enumerate(keys) if key not in known]
        if new:
            fresh = beliefs[new]
            can = np.flatnonzero((fresh > -np.inf).any(axis=0))
            logs, told, plans = fresh[:, can], self._told[step, can], self._plans[step][:, can]
            beta = self._level * self.pomdp.discount**step
            lowers, sizes = belief_erm(told, logs, beta).tolist(), mean_size(told, logs).tolist()
            uppers = belief_erm(plans, logs[:, None, :], beta).min(axis=1).tolist()
            for k, belief, lower, upper, size in zip(new, fresh, lowers, uppers, sizes, strict=True):
                known[keys[k]] = _Node(belief, step, min(lower, upper), upper, size, [0] * len(self._branches))
        return [known[key] for key in keys]

    @property
    def _kept(self) -> int:
        return sum(map(len, self._nodes))

    def _run(self, count: int) -> StopReason | None:
        for _ in range(count):
            if self._root.ways is not None and self._gap(self._root) <= 0.0:
                return StopReason.PROVEN
            if self._kept >= self._room:
                return StopReason.MAX_NODES
            self._trial()
            self._done += 1
            if time.perf_counter() > self._deadline:
                break
        return StopReason.PROVEN if self._gap(self._root) <= 0.0 else None

    def _gap(self, node: _Node) -> float:
        """Return by how much the bounds of a node are wider than is allowed."""
        return node.upper - node.lower - self._tolerance * self._size(node)

    @staticmethod
    def _size(node: _Node) -> float:
        return max(min(abs(node.upper), abs(node.lower)), node.told)

    def _trial(self) -> None:
        node, path = self._root, list[_Node]()
        while True:
            if node.ways is None:
                if path and time.perf_counter() > self._deadline:
                    break
                node.ways = self._opened(node)
            self._back_up(node)
            action = int(node.ways.lowers.argmin())
            path.append(node)
            node.visits[action] += 1
            child = self._widest(node, node.ways, action)
            if child is None:
                break
            node = child
        for one in reversed(path):
            self._back_up(one)

    def _widest(self, node: _Node, ways: _Ways, action: int) -> _Node | None:
        """Return the child that matters most to the gap, or None where none does."""
        discount, width = self.pomdp.discount, ways.step.losses.shape[1]
        beta = self._level * discount**node.step
        children = ways.children[action * width : (action + 1) * width]
        best, found = 0.0, None
        tops = [
            beta * (loss + (0.0 if child is None else discount * child.upper)) + mass
            for mass, loss, child in zip(
                ways.step.log_masses[action].tolist(), ways.step.losses[action].tolist(), children, strict=True
            )
        ]
        peak = max(tops)
        for top, child in zip(tops, children, strict=True):
            if child is not None and self._gap(child) > 0.0:
                weight = math.exp(max(top - peak, -600.0)) * (child.upper - child.lower)
                if weight > best:
                    best, found = weight, child
        return found

    def _opened(self, node: _Node) -> _Ways:
        """Return what may follow a node, whose children are looked up, or are new."""
        beta = self._level * self.pomdp.discount**node.step
        step = self._steps.after(node.belief, beta, last=node.step + 1 == self.pomdp.horizon)
        children: list[_Node | None] = [None] * step.losses.size
        if step.places.size:
            for place, child in zip(step.places.tolist(), self._nodes_of(step.beliefs, node.step + 1), strict=True):
                children[place] = child
        nothing = np.empty(0)
        return _Ways(step._replace(places=nothing.astype(np.int64), beliefs=nothing), children, nothing, nothing)

    def _back_up(self, node: _Node) -> None:
        ways, discount = node.ways, self.pomdp.discount
        assert ways is not None
        beta = self._level * discount**node.step
        ends = [
            [0.0 if child is None else child.lower for child in ways.children],
            [0.0 if child is None else child.upper for child in ways.children],
        ]
        later = np.array(ends).reshape(2, *ways.step.losses.shape)
        ways.lowers, ways.uppers = belief_erm(ways.step.losses + discount * later, ways.step.log_masses, beta)
        node.lower = min(max(node.lower, float(ways.lowers.min())), node.upper)
        node.upper = min(node.upper, float(ways.uppers.min()))

    def _rows(self) -> tuple[tuple[ActionRow, ...], int, float, dict[str, Any]]:
        root, signed = self._root, self.pomdp.signed
        if root.ways is None:
            root.ways = self._opened(root)
        self._back_up(root)
        lowers, uppers = root.ways.lowers.tolist(), root.ways.uppers
        best = int(best_actions(uppers[None, :], root.told)[0])
        rows = [
            bounded_row(
                self._actions[a], self.pomdp.action_name(a), root.visits[a], sum(root.visits), float(signed(high)),
                in_sense(low, high, self.pomdp.sense),
            )
            for a, (low, high) in enumerate(zip(lowers, uppers.tolist(), strict=True))
        ]  # fmt: skip
        next_best = min((low for a, low in enumerate(lowers) if a != best), default=math.inf)
        slack = self._tolerance * self._size(root)
        lower, upper = in_sense(max(min(lowers), root.lower), uppers[best], self.pomdp.sense)
        more = {
            "lower": lower, "upper": upper, "proven": bool(next_best >= uppers[best] - slack),
            "objective": ERM(self.root_beta), "nodes": self._kept, "simulator_steps": 0,
            "bytes": self._kept * (self.pomdp.num_states * 8 + _NODE_BYTES),
        }  # fmt: skip
        return tuple(rows), best, rows[best].erm, more


def _leaf_bounds(pomdp: PomdpTable, branches: list[Branch], beta: float) -> tuple[Floats, list[Floats]]:
    """Return what optimal play costs who is told the state (H + 1, S), and what some plans do, of each step (K, S)."""
    horizon, size, count = pomdp.horizon, pomdp.num_states, len(branches)
    told, blind = np.empty((horizon + 1, size)), np.empty((horizon + 1, count, size))
    told[horizon] = blind[horizon] = pomdp.table.terminal_losses
    ways = [np.zeros((1, max(1, len(branch.seen))), np.int64) for branch in branches]
    for h in range(horizon - 1, -1, -1):
        level = beta * pomdp.discount**h
        options = []
        for a, (branch, way) in enumerate(zip(branches, ways, strict=True)):
            options.append(backed_up(branch, told[None, h + 1], way, level, pomdp.discount)[0])
            blind[h, a] = backed_up(branch, blind[h + 1, a, None], way, level, pomdp.discount)[0]
        told[h] = np.min(options, axis=0)
    plans = list(blind)
    points = min(_POINTS, int(_WORK / (pomdp.table.num_outcomes * horizon)))
    if points >= _FEWEST_POINTS:
        levels = list[Level]()
        deque(levels_in_parts(pomdp, branches, beta, log_of(pomdp.start_belief), points, levels), 0)
        for h, found in enumerate(levels):
            plans[h] = np.concatenate([plans[h], found.values])
    return told, plans
