"""Bounded search over tilted beliefs, where everything that may happen is listed.

A node is a step and a tilted belief (:mod:`tailwise.exact.alpha_vectors`); two histories with the same tilted belief
are one node. Each node knows two bounds of its optimal risk: from above the best that one action for all steps is
worth, or its actions' bounds; from below the risk of one who were told the state, or its actions' bounds. A trial
goes down from the root by the action of the least lower bound, and by the observation that matters most to the gap
(weighed, as risk is, by the tilt), opens the nodes on its way and takes their bounds back up. The bounds are certain,
and never get worse; where they meet, the action is proven best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailwise._arrays import Floats
from tailwise._random import Seed
from tailwise._validate import integer, real
from tailwise.exact.alpha_vectors import (
    Branch,
    backed_up,
    belief_erm,
    best_actions,
    branches_of,
    key_of,
    mean_size,
    normalised,
    tilted,
)
from tailwise.exact.belief_policy import Belief, BeliefPolicy
from tailwise.models.pomdp_table import PomdpTable
from tailwise.models.tabulate import tabulate_hidden
from tailwise.planners.hidden import HiddenPlanner
from tailwise.risk import ERM
from tailwise.risk.measures import Interval
from tailwise.search.action_rows import ActionRow
from tailwise.search.plan import StopReason

_NODE_BYTES = 400  # beside its belief


@dataclass(eq=False, slots=True)
class _Ways:
    """What may follow an action at a node: probabilities (in logs) and losses of each child; one without is an end."""

    log_masses: Floats
    losses: Floats
    children: list[_Node | None]
    lower: float = -math.inf
    upper: float = math.inf


@dataclass(eq=False, slots=True)
class _Node:
    belief: Floats
    step: int
    lower: float
    upper: float
    told: float
    visits: list[int] = field(default_factory=list)
    ways: list[_Ways] | None = None


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
        self._tolerance = real(tolerance, "tolerance", low=0.0)
        self._room = integer(max_nodes, "max_nodes", low=1)
        self._branches: list[Branch] = branches_of(self.pomdp)
        self._level = real(beta, "beta")
        self._told, self._blind = _leaf_bounds(self.pomdp, self._branches, self._level)
        self._policy = BeliefPolicy(
            objective=ERM(self._level), mdp=self.pomdp.table, value=math.nan, beta=self._level, pomdp=self.pomdp,
            branches=tuple(self._branches), model=None if self.pomdp is model else model,
        )  # fmt: skip
        super().__init__(model, beta, seed=seed)

    @property
    def belief(self) -> Belief:
        """What is known at the root: ``probabilities``, and its twin that decides, ``tilted``."""
        return self._known

    def _begin(self) -> None:
        self._known = self._policy.start
        self._replant()

    def _replant(self) -> None:
        self._nodes: dict[tuple[int, bytes], _Node] = {}
        if self._known.step < self.pomdp.horizon:
            self._root = self._node(self._known.log_tilted, self._known.step)

    def _follow(self, action: Any, observation: Any, cost: float | None) -> None:
        self._known = self._policy.update(self._known, action, observation, cost)
        step = self._known.step
        found = self._nodes.get((step, key_of(self._known.log_tilted)))
        if found is None:
            self._replant()
        else:
            self._root = found
            self._nodes = {key: node for key, node in self._nodes.items() if key[0] >= step}

    def _node(self, log_belief: Floats, step: int) -> _Node:
        key = (step, key_of(log_belief))
        found = self._nodes.get(key)
        if found is None:
            beta = self._level * self.pomdp.discount**step
            lower = float(belief_erm(self._told[step], log_belief, beta))
            upper = float(belief_erm(self._blind[:, step], log_belief, beta).min())
            found = self._nodes[key] = _Node(
                log_belief, step, min(lower, upper), upper, float(mean_size(self._told[step], log_belief)),
                [0] * len(self._branches),
            )  # fmt: skip
        return found

    # ----------------------------------------------------------------- a trial

    def _run(self, count: int) -> StopReason | None:
        for _ in range(count):
            if self._root.ways is not None and self._gap(self._root) <= 0.0:
                return StopReason.PROVEN
            if len(self._nodes) >= self._room:
                return StopReason.MAX_NODES
            self._trial()
            self._done += 1
        return StopReason.PROVEN if self._gap(self._root) <= 0.0 else None

    def _gap(self, node: _Node) -> float:
        """Return by how much the bounds of a node are wider than is allowed."""
        return node.upper - node.lower - self._tolerance * self._size(node)

    @staticmethod
    def _size(node: _Node) -> float:
        return max(min(abs(node.upper), abs(node.lower)), node.told)

    def _trial(self) -> None:
        node, path = self._root, list[tuple[_Node, int]]()
        while True:
            if node.ways is None:
                self._open(node)
            self._back_up(node)
            assert node.ways is not None
            action = min(range(len(node.ways)), key=lambda a: (node.ways[a].lower, a))  # type: ignore[index]
            path.append((node, action))
            node.visits[action] += 1
            child = self._widest(node, action)
            if child is None:
                break
            node = child
        for one, _ in reversed(path):
            self._back_up(one)

    def _widest(self, node: _Node, action: int) -> _Node | None:
        """Return the child that matters most to the gap, or None where none does."""
        assert node.ways is not None
        ways, discount = node.ways[action], self.pomdp.discount
        beta = self._level * discount**node.step
        best, found = 0.0, None
        tops = [
            beta * (loss + (0.0 if child is None else discount * child.upper)) + mass
            for mass, loss, child in zip(ways.log_masses, ways.losses, ways.children, strict=True)
        ]
        peak = max(tops)
        for top, child in zip(tops, ways.children, strict=True):
            if child is not None and self._gap(child) > 0.0:
                weight = math.exp(max(top - peak, -600.0)) * (child.upper - child.lower)
                if weight > best:
                    best, found = weight, child
        return found

    def _open(self, node: _Node) -> None:
        step, beta = node.step, self._level * self.pomdp.discount**node.step
        node.ways = []
        last = step + 1 == self.pomdp.horizon
        for branch in self._branches:
            after = tilted(branch, node.belief[None, :], beta)
            masses, losses, children = [], [], list[_Node | None]()
            with np.errstate(divide="ignore"):
                logs = node.belief[branch.states] + np.log(branch.chances)
            values = branch.losses
            if last:  # what the end costs is paid with the step
                values = values + np.where(
                    branch.signals >= 0, self.pomdp.discount * self.pomdp.table.terminal_losses[branch.targets], 0.0
                )
            for signal in [0] if last else [-1, *range(len(branch.seen))]:
                mine = slice(None) if last else branch.signals == signal
                part = logs[mine]
                if not np.isfinite(part).any():
                    continue
                top = part.max()
                masses.append(float(top + np.log(np.exp(part - top).sum())))
                losses.append(float(belief_erm(values[mine], part, beta)))
                goes_on = not last and signal >= 0
                children.append(self._node(normalised(after[signal][0]), step + 1) if goes_on else None)
            node.ways.append(_Ways(np.array(masses), np.array(losses), children))

    def _back_up(self, node: _Node) -> None:
        assert node.ways is not None
        discount = self.pomdp.discount
        beta = self._level * discount**node.step
        for ways in node.ways:
            lows = np.array([0.0 if child is None else child.lower for child in ways.children])
            highs = np.array([0.0 if child is None else child.upper for child in ways.children])
            both = belief_erm(ways.losses + discount * np.stack([lows, highs]), ways.log_masses, beta)
            ways.lower, ways.upper = float(both[0]), float(both[1])
        node.lower = min(max(node.lower, min(ways.lower for ways in node.ways)), node.upper)
        node.upper = min(node.upper, min(ways.upper for ways in node.ways))

    # ---------------------------------------------------------------- the plan

    def _rows(self) -> tuple[tuple[ActionRow, ...], int, float, dict[str, Any]]:
        root, signed = self._root, self.pomdp.signed
        if root.ways is None:
            self._open(root)
        self._back_up(root)
        assert root.ways is not None
        uppers = np.array([ways.upper for ways in root.ways])
        best = int(best_actions(uppers[None, :], root.told)[0])
        total = max(1, sum(root.visits))
        rows = []
        for a, ways in enumerate(root.ways):
            ends = sorted((float(signed(ways.lower)), float(signed(ways.upper))))
            rows.append(ActionRow(
                self._actions[a], self.pomdp.action_name(a), root.visits[a], root.visits[a] / total,
                float(signed(ways.upper)), *(math.nan,) * 4, Interval(*ends), lower=ends[0], upper=ends[1],
            ))  # fmt: skip
        low = min(ways.lower for ways in root.ways)
        others = [ways.lower for a, ways in enumerate(root.ways) if a != best]
        slack = self._tolerance * self._size(root)
        lower, upper = sorted((float(signed(max(low, root.lower))), float(signed(uppers[best]))))
        more = {
            "lower": lower, "upper": upper, "proven": bool(min(others, default=math.inf) >= uppers[best] - slack),
            "objective": ERM(self.root_beta), "nodes": len(self._nodes), "simulator_steps": 0,
            "bytes": len(self._nodes) * (self.pomdp.num_states * 8 + _NODE_BYTES),
        }  # fmt: skip
        return tuple(rows), best, rows[best].erm, more


def _leaf_bounds(pomdp: PomdpTable, branches: list[Branch], beta: float) -> tuple[Floats, Floats]:
    """Return what optimal play costs who is told the state (H, S), what one action for all steps does (A, H, S)."""
    horizon, size, count = pomdp.horizon, pomdp.num_states, len(branches)
    told, blind = np.empty((horizon + 1, size)), np.empty((count, horizon + 1, size))
    told[horizon] = blind[:, horizon] = pomdp.table.terminal_losses
    ways = [np.zeros((1, max(1, len(branch.seen))), np.int64) for branch in branches]
    for h in range(horizon - 1, -1, -1):
        level = beta * pomdp.discount**h
        options = []
        for a, (branch, way) in enumerate(zip(branches, ways, strict=True)):
            options.append(backed_up(branch, told[None, h + 1], way, level, pomdp.discount)[0])
            blind[a, h] = backed_up(branch, blind[a, None, h + 1], way, level, pomdp.discount)[0]
        told[h] = np.min(options, axis=0)
    return told, blind
