"""Bounded RTDP: a decision that is proven, where the outcomes of a model are known.

Each pair (step, state) has a lower and an upper bound on its optimal entropic risk-to-go. A trial walks down from the
root, taking the action of least lower bound (the best one that is not ruled out; at the root the less certain of
the recommended one and its strongest rival) and a next state drawn by what it adds to the gap between the bounds:
with probability in proportion to

    p |exp(beta_h (c + discount U(s'))) - exp(beta_h (c + discount L(s')))|,

then carries exact Bellman backups of both bounds home. Now and then all stored pairs, those that a trial came through,
are backed up. The root's action is proven best once its upper bound is no greater than the lower bound of any other;
until then :mod:`tailwise.planners.bounded_report` says which one to take.

A trial goes on only to pairs whose bounds differ, and ends where those of all that the chosen action leads to have met:
there its last pair's bounds meet too. So every trial settles a pair, and the proof takes at most as many trials as
there are pairs to reach (in exact arithmetic; actions that tie up to rounding count as proven).

Source: bounded real-time dynamic programming (McMahan, Likhachev and Gordon, ICML 2005; Smith and Simmons, AAAI 2006),
here with the paper's entropic Bellman equation (eq. ``erm_bellman_optimality equations``): the ERM is
monotone in the costs-to-go at every level, so bounds of the next step's values give bounds of this step's.
:mod:`tailwise.planners.bounded_kernels` says how they are kept true in floating point.
"""

from __future__ import annotations

import copy
import functools
import math
import time
from typing import Any

import numpy as np

from tailwise._arrays import Floats, Ints
from tailwise._jit import DISABLE_JIT
from tailwise._random import Seed, generator, own_words, seed_text
from tailwise._validate import integer, real
from tailwise.bindings.intern import intern_rows, new_store, recalled_store, store_memory
from tailwise.errors import OptionError
from tailwise.models.contract import short
from tailwise.planners import bounded_kernels as kernels
from tailwise.planners.bounded_report import estimate, play_episodes
from tailwise.planners.outcome_model import (
    Bounds,
    OutcomeModel,
    SimulatorOutcomes,
    cost_range,
    ranges_of,
    size_of_totals,
    starting_point,
)
from tailwise.search.action_rows import bounded_row, in_sense
from tailwise.search.anytime import Turn, compile_notice
from tailwise.search.anytime_search import AnytimeSearch
from tailwise.search.plan import Plan, StopReason

_NODE_BYTES = 40  # key, two bounds, and up to four slots of 4 bytes
_FIRST_NODES = 1_024
_UNLIMITED = 2**62
_MOST_NODES = 2**31  # they are found by 32-bit ints
_SLICE = 10_000  # nodes that are backed up between two looks at the clock: some hundredths of a second
_KEPT = ("low", "high", "limits", "path", "counters", "root_low", "root_high", "root_visits")  # of the search's arrays

_is_compiled = bool(DISABLE_JIT)  # the kernels' types are the same for every model


class BoundedRtdp(AnytimeSearch[Plan]):
    """Certified bounds on the optimal entropic risk, and an action that is proven best.

    An iteration is a trial. Without a limit ``plan`` goes on until the action is proven best; a plan that was cut short
    (``plan.proven`` is False) recommends the action of the best estimate. ``advance`` keeps all bounds. See also
    :class:`tailwise.search.AnytimeSearch`.

    Parameters
    ----------
    model : TabularMDP or simulator with ``outcomes(state, action)``
        The problem.
    beta : float
        Finite risk level at step 0 (1/cost): positive averse, 0 the mean, negative seeking.
    seed : None, int, SeedSequence or Generator
        Source of all randomness. It decides where the trials go, never whether the bounds hold.
    bounds : (float, float) or callable, optional
        Where the bounds begin, in the model's sense: the least and greatest cost (or reward) of a step, or
        ``bounds(state, h) -> (low, high)``, bounds of the optimal risk-to-go from step h on (h < H). If not
        given they come from all outcomes of the table, or of the states that the simulator's root can reach.
        Bounds that turn out to be wrong raise an error where that shows; else what is proven rests on them.
    terminal_bounds : (float, float), optional
        Least and greatest terminal cost; needed where ``bounds`` is a pair and the simulator has terminal costs.
    tolerance : float, default 0.0
        Loss that is accepted in the recommended action, in the unit of the costs. Values that differ by less than
        1e-9 of themselves (or 1e-12 of the least total, or of the least worst one; of the greatest that ``bounds``
        allow where they are a pair) always count as ties; beyond some thousand steps by less than ten times what
        rounding can add up to.
    width : float, optional
        Go on after the proof until upper and lower bound at the root are as close as this.
    max_nodes, max_memory : int, optional
        Bounds on the number of stored pairs (step, state) and on their bytes (a simulator's states and listed
        outcomes included); reaching one ends the call of ``plan`` and is reported.
    max_states : int, default 100_000
        How many states of a simulator may be listed to find bounds, where none are given.

    Raises
    ------
    ModelError
        If the model does not list its outcomes, or lists wrong ones.
    OptionError
        If an option is out of range, or a simulator needs ``bounds``.

    Examples
    --------
    >>> from tailwise import BoundedRtdp, domains
    >>> planner = BoundedRtdp(domains.make("mdp-4"), beta=0.5, seed=0)
    >>> plan = planner.plan(iterations=1000)
    >>> plan.label, plan.proven, plan.lower <= 1.779207373 <= plan.upper
    ('safe', True, True)
    >>> planner.advance(plan.action, state=1)
    >>> planner.plan(iterations=1000).proven
    True
    """

    _binding: OutcomeModel
    _iterations_at = kernels.TRIALS
    _ends_by_itself = True

    def __init__(
        self,
        model: Any,
        beta: float,
        *,
        seed: Seed = None,
        bounds: Bounds | None = None,
        terminal_bounds: tuple[float, float] | None = None,
        tolerance: float = 0.0,
        width: float | None = None,
        max_nodes: int | None = None,
        max_memory: int | None = None,
        max_states: int = 100_000,
    ) -> None:
        self.model = model
        self.beta = real(beta, "beta")
        slack = real(tolerance, "tolerance", low=0.0)
        closeness = math.inf if width is None else real(width, "width", low=0.0)
        most_nodes = _MOST_NODES if max_nodes is None else integer(max_nodes, "max_nodes", low=1)
        self._most_nodes = min(most_nodes, _MOST_NODES)
        self._most_bytes = _UNLIMITED if max_memory is None else integer(max_memory, "max_memory", low=_NODE_BYTES)
        self._bounds = bounds if callable(bounds) else None
        self._max_states = integer(max_states, "max_states", low=1)
        self._binding, start = starting_point(model, bounds, terminal_bounds)
        self._has_bounds = bounds is not None
        self._looks_ahead = not self._has_bounds and isinstance(self._binding, SimulatorOutcomes)
        horizon = int(model.horizon)
        none = np.empty(0)
        self._search = kernels.SearchState(
            np.array([self.beta * float(model.discount) ** h for h in range(horizon)]), start.low, start.high,
            np.array([float(model.discount), slack, closeness, start.scale, 0.0]), np.zeros(horizon, np.int64),
            np.zeros(kernels.COUNTERS_SIZE, np.int64), np.zeros(1, np.int64),
            none, none, np.empty(0, np.int64), none, none, none, none,
        )  # fmt: skip
        self._nodes: kernels.Nodes
        self._start(seed)
        self._root_at(self._binding.handle(model.start), 0)

    def _start(self, seed: Seed) -> None:
        self._turn = Turn()
        self._others = []
        rng = generator(seed)
        self._stream, self._seed_text = own_words(rng), seed_text(rng)
        self._binding = self._binding.copy()
        self._search = copy.deepcopy(self._search)

    def _found(self) -> dict[str, Any]:
        used = int(self._nodes.store.used[0])
        search = {name: getattr(self._search, name).copy() for name in _KEPT}
        nodes = store_memory(self._nodes.store), self._nodes.low[:used].copy(), self._nodes.high[:used].copy()
        sweep = self._pending.copy(), self._is_pruned
        return {"binding": self._binding.state_dict(), "search": search, "nodes": nodes, "sweep": sweep}

    def _load_found(self, found: dict[str, Any]) -> None:
        self._binding.load_state_dict(found["binding"])
        self._search = kernels.fitted(self._search._replace(**found["search"]), *self._binding.max_branching)
        kept, low, high = found["nodes"]
        store = recalled_store(kept)
        capacity, used = store.words.shape[0], int(store.used[0])
        self._nodes = kernels.Nodes(store, np.empty(capacity), np.empty(capacity))
        self._nodes.low[:used], self._nodes.high[:used] = low, high
        self._pending, self._is_pruned = found["sweep"]

    def _root_at(self, handle: int, step: int) -> None:
        self._resize(min(_FIRST_NODES, self._room), None)
        self._root(handle, step)

    def _move_root(self, position: int, handle: int, step: int) -> None:
        self._root(handle, step)

    def _root(self, handle: int, step: int) -> None:
        if self._looks_ahead:
            self._look_ahead(handle, step)
        if not self._has_bounds:
            known, horizon = self._binding.known(), int(self.model.horizon)
            self._search.limits[kernels.SCALE] = size_of_totals(known, horizon, self.model.discount, handle, step)
        size = len(self._binding.actions(handle))
        if size == 0:
            self._binding.fail(handle, -1, step)
        self._step, self._handle, self._pending, self._is_pruned = step, handle, np.empty(0, np.int64), False
        self._search.counters[:] = 0
        self._search.counters[kernels.ROOT_STEP] = self._search.counters[kernels.STEP] = step
        self._search.counters[kernels.NEXT_SWEEP] = self._nodes.store.used[0]
        self._search.path[step] = self._key(handle, step)
        self._search = self._search._replace(
            root_low=np.full(size, -np.inf), root_high=np.full(size, np.inf), root_visits=np.zeros(size, np.int64)
        )
        self._search = kernels.fitted(self._search, *self._binding.max_branching)

    def _look_ahead(self, handle: int, step: int) -> None:
        """Let the first bounds hold for all that a new root can reach; those that were learned hold already."""
        assert isinstance(self._binding, SimulatorOutcomes)
        if self._binding.list_ahead(handle, int(self.model.horizon) - step, self._max_states):
            start = ranges_of(self._binding.known(), self.model.horizon, self.model.discount)
            self._search = self._search._replace(low=start.low, high=start.high)

    def counters(self) -> Ints:
        """Return what has been counted so far."""
        return self._search.counters

    def _first_chunk(self) -> int:
        return 1

    def prepare(self, iterations: int | None) -> None:
        """Compile or load the kernels before the clock starts."""
        global _is_compiled
        if not _is_compiled:
            if self._bounds is not None:
                self._asked_bounds(self._handle, self._step)
            with compile_notice():
                self._carry_back(self._pending, 0, 0)
                kernels.run_trials(self._binding.table, self._nodes, self._search, self._stream, 0, 0)
                estimate(self._binding.table, self._nodes, self._search, np.empty(0, np.int64), 1)
            _is_compiled = True

    def _run(self, trials: int) -> StopReason | None:
        """Run a chunk of trials, and fill in what it asks for; return a reason to stop, if there is one."""
        counters = self._search.counters
        target = counters[kernels.TRIALS] + trials
        while not self._pending.size or self._sweep():
            left = int(target - counters[kernels.TRIALS])
            status = kernels.run_trials(self._binding.table, self._nodes, self._search, self._stream, left, _SLICE)
            h, handle = int(counters[kernels.WHERE_STEP]), int(counters[kernels.WHERE_STATE])
            if status == kernels.PROVEN:
                return StopReason.PROVEN
            if status == kernels.ENOUGH:
                return None
            reason = None
            if status == kernels.NEEDS_OUTCOMES and self._room < self._nodes.low.size:
                reason = StopReason.MAX_MEMORY
            elif status == kernels.NEEDS_OUTCOMES:
                self._binding.list_outcomes(handle)
                self._search = kernels.fitted(self._search, *self._binding.max_branching)
            elif status == kernels.NEEDS_TERMINAL:
                self._binding.list_terminal_cost(handle)
            elif status == kernels.NEEDS_BOUNDS:
                status = self._ask_bounds(handle, h)
            elif status == kernels.SWEEP_DUE:
                self._pending = self._nodes.store.words[self._by_step(), 0]  # every node from the root's step on
                counters[kernels.NEXT_SWEEP] = counters[kernels.VISITED] + self._pending.size
            elif status == kernels.CONTRADICTION:
                where = f"state {self._binding.state_name(self._binding.state(handle))} at step {h}"
                raise OptionError(f"bounds contradict the outcomes: in {where} the lower bound exceeds the upper one")
            if status == kernels.FULL:
                reason = self._make_room()
            if reason is not None:
                self._carry_back(self._search.path, self._step + 1, int(counters[kernels.STEP]))
                counters[kernels.STEP] = self._step
                return reason
        return None

    def _sweep(self) -> bool:
        """Back up some of the nodes that are lined up, last steps first; return whether that was all."""
        last = self._pending.size
        first: int = max(0, last - _SLICE)
        self._carry_back(self._pending, first, last)
        self._pending = self._pending[:first]
        return first == 0

    def _carry_back(self, keys: Ints, first: int, last: int) -> None:
        kernels.carry_back(self._binding.table, self._nodes, self._search, keys, first, last)

    def _key(self, handle: int, step: int) -> int:
        return handle * (int(self.model.horizon) + 1) + step

    def _asked_bounds(self, handle: int, h: int) -> tuple[float, float]:
        """Return the bounds that the user's function gives, as costs."""
        assert self._bounds is not None
        state = self._binding.state(handle)
        return cost_range(self._bounds(state, h), f"bounds({short(state)}, {h})", self.model.sense)

    def _ask_bounds(self, handle: int, h: int) -> int:
        """Store the bounds that the user's function gives; return a status."""
        low, high = self._asked_bounds(handle, h)
        self._search.key[0] = self._key(handle, h)
        node = int(intern_rows(self._nodes.store, self._search.key[None, :])[0])
        if node < 0:
            return kernels.FULL
        self._nodes.low[node], self._nodes.high[node] = low, high
        return kernels.ENOUGH

    @property
    def _room(self) -> int:
        """How many nodes are allowed."""
        return max(1, min(self._most_nodes, (self._most_bytes - self._binding.num_bytes) // _NODE_BYTES))

    def _make_room(self) -> StopReason | None:
        """Forget what the root does not reach, once for each root, or grow; say why to stop where neither helps."""
        used, room, capacity = int(self._nodes.store.used[0]), self._room, self._nodes.low.size
        kept = np.arange(used)
        if not self._is_pruned:
            order = self._by_step()
            kept = np.flatnonzero(kernels.reachable(self._binding.table, self._nodes, self._search, order))
            self._is_pruned = True
        if kept.size > capacity // 2:
            capacity = min(2 * capacity, room)
        if capacity <= kept.size:
            return StopReason.MAX_NODES if room == self._most_nodes else StopReason.MAX_MEMORY
        self._resize(capacity, kept)
        return None

    def _by_step(self) -> Ints:
        """Return the nodes by step, from the root's step on."""
        steps = self._nodes.store.words[: self._nodes.store.used[0], 0] % (int(self.model.horizon) + 1)
        return np.argsort(steps, kind="stable")[np.count_nonzero(steps < self._step) :]

    def _resize(self, capacity: int, kept: Ints | None) -> None:
        """Move the nodes ``kept`` (none if not given) into new arrays of ``capacity``."""
        nodes = kernels.Nodes(new_store(1, capacity), np.empty(capacity), np.empty(capacity))
        if kept is not None:
            intern_rows(nodes.store, self._nodes.store.words[kept])
            nodes.low[: kept.size], nodes.high[: kept.size] = self._nodes.low[kept], self._nodes.high[kept]
        self._nodes = nodes

    def _report(self, before: list[Ints], begun: float, stopped: StopReason) -> Plan:
        (old,) = before
        search, nodes, model, sense = self._search, self._nodes, self._binding, self.model.sense
        low, high = search.root_low, np.maximum(search.root_low, search.root_high)
        proven = bool(kernels.is_proven(search))
        visited = int(search.counters[kernels.VISITED] - old[kernels.VISITED])
        if proven:
            points = low + (high - low) / 2
        else:  # a callback is told every 50 ms; else a sweep may cost what the trials did
            most = _SLICE if stopped is StopReason.UNTIL else max(_SLICE, visited)
            points = estimate(model.table, nodes, search, self._by_step(), most)
        # once proven the bounds decide, before that the estimates; of equals the lesser upper bound, and lower one
        best = int(np.lexsort((low, high) if proven else (low, high, points))[0])
        actions, visits = model.actions(self._handle), search.root_visits.tolist()
        shown = (points if sense == "cost" else 0.0 - points).tolist()
        rows = [
            bounded_row(
                action, model.action_name(action, self._handle), visits[k], sum(visits), shown[k],
                in_sense(low[k], high[k], sense),
            )
            for k, action in enumerate(actions)
        ]  # fmt: skip
        bounds = in_sense(low.min(), high.min(), sense)
        handle, step, seed = self._handle, self._step, int(self._stream[0]) >> 1

        @functools.cache
        def played(position: int) -> Floats:
            return play_episodes(model, nodes, search, (handle, position, step), seed)

        return Plan(
            action=rows[best].action,
            label=rows[best].label,
            value=min(max(rows[best].erm, bounds.low), bounds.high),
            rows=tuple(rows),
            state=self.state,
            step=self._step,
            beta=self.beta,
            root_beta=float(search.betas[self._step]),
            sense=sense,
            iterations=int(search.counters[kernels.TRIALS] - old[kernels.TRIALS]),
            simulator_steps=visited,
            nodes=int(nodes.store.used[0]),
            bytes=_NODE_BYTES * nodes.low.size + model.num_bytes,
            seconds=time.perf_counter() - begun,
            stopped=stopped,
            interval_meaning="the risk of the action, followed by optimal ones, is in it with certainty",
            totals=lambda position: played(position).copy() if sense == "cost" else 0.0 - played(position),
            method="bounded RTDP",
            unit="trials",
            lower=bounds.low,
            upper=bounds.high,
            proven=proven,
        )
