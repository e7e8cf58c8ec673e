"""The driver of the learned-model search: memory, re-rooting, and what a plan says."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import DISABLE_JIT, kernel_for, prepare
from tailwise._random import Seed, generator
from tailwise._values import leaves, refilled
from tailwise.bindings import BudgetSpentError, kernel_model
from tailwise.bindings.options import WEIGHED
from tailwise.errors import ModelError
from tailwise.models import AccruedView
from tailwise.models.table import TableData
from tailwise.search.action_rows import Findings, make_rows
from tailwise.search.anytime import Pace
from tailwise.search.anytime_search import AnytimeSearch
from tailwise.search.learned import answer, backups, counts, kernels, sweeps
from tailwise.search.learned.answering import SAMPLED, TOO_EARLY, WRONG_LEAVES, Answering
from tailwise.search.learned.backups import BLOCK, Ahead
from tailwise.search.learned.table import Learned, LearnedTable, learned_table
from tailwise.search.options import LearnedOptions, compile_rules
from tailwise.search.plan import Plan, StopReason
from tailwise.search.prior import Asked, NoPrior

_UNLIMITED = 2**62
_SLICE = 50_000  # outcomes that sweeps may look at in one go, some milliseconds
_FIRST_CHUNK = 8
_SMALL, _QUICK, _SLOWEST = 2**20, 1e-9, 1e-8  # bytes from which the time of growing is noted; guess and most, per byte
_AS_TREE = "its states come back too seldom, so that new ones are played to the end, as in a tree"
_AS_FIT = "its states come back too seldom, so that the cost-to-go is fitted to features of the states"
_MOST_FITS = 200  # of the steps of an episode times the actions of a state
_KEPT = (
    "root",
    "work",
    "numbers",
    "compared",
    "sampled",
    "moments",
    "latest",
)  # of the scratch, from one iteration to the next

_compiled_kinds: set[Any] = set()


class LearnedSearch(AnytimeSearch[Plan]):
    """A learned-model search of a model, rooted at a state and a step; see :class:`tailwise.LearnedModelSearch`.

    An iteration is an episode, from the root to the end or to a new state. ``advance`` keeps all that was learned, and
    moves nothing; nodes that the root no longer reaches are freed once their room is needed.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    options : LearnedOptions
        How to search.
    seed : None, int, SeedSequence or Generator
        Source of all randomness. Same seed, same versions of tailwise and numba: same result, bit for bit.
    """

    options: LearnedOptions
    bootstraps = True  # whether plans solve what was learned, and say how sure they are
    _report_share = 0.25
    _byte_pace = Pace(_QUICK, most=_SLOWEST)  # of each byte of what grows
    _ends: list[float]  # what the end costs, by handle, as far as the model was asked
    _is_loose = False  # whether there may be nodes that the root does not reach,
    _is_counted = False  # and whether these were counted, and were too few to be freed
    _began = 0  # iterations before the call

    def __init__(self, model: Any, options: LearnedOptions, *, seed: Seed = None) -> None:
        if isinstance(model, AccruedView):
            raise ModelError("a learned model is for the ERM of plain costs; this one has accrued costs: use NluMcts")
        self.model = model
        self.options = options
        self._answering = Answering(options, bootstraps=self.bootstraps)
        self._known: counts.TransitionCounts
        self._nodes: counts.Nodes
        self._scratch: counts.Scratch
        self._start(seed)  # which says what is no model
        self._horizon = int(model.horizon)
        self._is_fitted = self._fits()
        self._root_at(self._binding.handle(model.start), 0)

    def _start(self, seed: Seed) -> None:
        without = dataclasses.replace(self.options, widening=None)  # it takes outcomes again by its own counts
        self._bind(generator(seed), without)
        kind: Any = type(self._binding.data)
        prior = NoPrior if self._prior is None else Asked
        self._search = kernel_for(kernels.learned_chunk, kind, counts.Nodes, Ahead, prior)
        self._step_kernel = kernel_for(backups.play_step, kind)
        self._answer = kernel_for(answer.answer, kind, counts.Nodes, Ahead)

    def _set_rules(self) -> None:
        discount = float(self.model.discount)
        self._rules = compile_rules(self.options, self._horizon, discount, self._is_fitted, self._prior)

    def _new_nodes(self) -> counts.Nodes:
        most, rules = self.options.max_nodes or _UNLIMITED, self._rules
        weighed, guided = rules.bounded or rules.leaves, self._prior is not None
        return counts.new_nodes(self._horizon, most, bounded=rules.bounded, weighed=weighed, guided=guided)

    # -------------------------------------------------------------------- root

    def _root_at(self, handle: int, step: int) -> None:
        if self._binding.forgets:
            handle = int(self._binding.retain(np.array([handle], np.int64))[0])
        self._answering, self._ends = self._answering.anew(), []
        self._known = counts.new_counts(self._step_kinds())
        self._set_rules()
        self._nodes = self._new_nodes()
        self._settle(handle, step)

    def _step_kinds(self) -> int:
        """How many step functions the model has: two where the last step differs, else one for every step."""
        own_steps = getattr(self.model, "step_losses", np.empty(0)).size and not isinstance(
            self._binding.data, TableData
        )
        own_steps = own_steps or (self._binding.weighs and self.model.discount < 1.0)
        return max(3, self._horizon) if own_steps else 2

    def _move_root(self, position: int, handle: int, step: int) -> None:
        self._is_loose, self._is_counted = True, False
        self._settle(handle, step, self._scratch)
        self._scratch.work[counts.CHANGES_AT_EXPANSION] = -1  # the next sweep finds what the new root reaches

    def play(
        self, choose: Callable[[int, int, int, float], int], episodes: int, until: float = math.inf
    ) -> tuple[int, int]:
        """Play episodes from the root, count what happens for the learned model; return how many, and their steps.

        ``choose(handle, number of actions, step, paid)`` says the position of the action in a state after ``paid``
        inner cost from the root on. After ``until``, by ``time.perf_counter``, no episode begins but the first.
        """
        played = 0
        arity: dict[int, int] = {}
        draws: list[tuple[int, int, int, int, int, float]] = []  # step, handle, arity, position, target, cost
        with self._turn:
            while played < episodes and (not played or time.perf_counter() < until):
                played += 1
                handle, paid, factor = self._handle, 0.0, 1.0
                for h in range(self._step, self._horizon):
                    if handle not in arity:
                        arity[handle] = len(self._binding.actions(handle))
                    position = choose(handle, arity[handle], h, paid)
                    target, cost, offset = self._take(handle, position, h)
                    draws.append((h, handle, arity[handle], position, target, cost))
                    paid += factor * (cost + offset)
                    factor *= float(self.model.discount)
                    if target < 0:
                        break
                    handle = target
            if draws:
                self._note(draws)
        return played, len(draws)

    def _take(self, handle: int, position: int, h: int) -> tuple[int, float, float]:
        """Draw an outcome: handle or -1, cost, and what the step adds to it."""
        before = self._stream.copy()
        while True:
            with self._binding.running():
                target, cost, offset, status = self._step_kernel(*self._step_arguments(handle, position, h))
            if status >= 0:
                return int(target), float(cost), float(offset)
            if status != kernel_model.FULL:
                self._binding.fail(handle, position, h)
            self._stream[:] = before
            self._binding.make_room()

    def _step_arguments(self, handle: int, position: int, h: int) -> tuple[Any, ...]:
        return self._binding.data, handle, position, h, self._horizon, self._rules.discount, self._stream

    def _note(self, draws: list[tuple[int, int, int, int, int, float]]) -> None:
        columns = counts.Draws(*(np.array(column) for column in zip(*draws, strict=True)))
        work, begin = self._scratch.work, 0
        while begin < len(draws):
            begin, short = counts.note_draws(self._known, self._horizon, columns, begin)
            work[counts.SHORT], work[counts.PLACES] = short, self._known.step_kinds * (int(columns.handles.max()) + 1)
            if short and self._grow(forgetting=False) is not None:  # draws name states by their handles
                break
        work[counts.STEPS] += len(draws)

    def table(self, outcomes: float = math.inf) -> LearnedTable:
        """Return what was learned, from the root on, as a table; something must have been sampled there.

        After about so many ``outcomes`` it is cut: states of the next step have the ERM at the search's own beta.
        """
        last = copy.copy(self._binding)  # what an interface forgets it replaces, so the copy still has it
        return learned_table(dataclasses.replace(self._learned(), binding=last), outcomes)

    def _learned(self) -> Learned:
        return Learned(
            self.model, self._binding, self._known, self._nodes, self._rules, self._scratch, self._handle, self._step,
            self._ends, functools.partial(self._answer, *self._kernel_arguments(), self._step),
        )  # fmt: skip

    def retarget(self, beta: float) -> None:
        """Search for another risk level from here on; what was drawn is kept, what was concluded from it is not."""
        with self._turn:
            self.require_decision()
            self.options = dataclasses.replace(self.options, beta=beta)
            self._set_rules()
            self._nodes = self._new_nodes()
            self._scratch.work[[counts.SWEEP_COST, counts.STAGE]] = 0  # the next iteration begins with a sweep
            self._scratch.work[counts.CHANGES_AT_EXPANSION] = -1
            self._settle(self._handle, self._step, self._scratch)

    def _settle(self, handle: int, step: int, before: counts.Scratch | None = None) -> None:
        """Put the root at a state and a step; its node is made now, or, after what was ``before``, by the next plan."""
        num_actions = len(self._binding.actions(handle))
        if num_actions == 0:
            self._binding.fail(handle, -1, step)
        self._step, self._handle = step, handle
        self._scratch = counts.new_scratch(self._horizon, num_actions, BLOCK)
        if before is not None:
            self._scratch = self._scratch._replace(work=before.work, numbers=before.numbers, compared=before.compared)
            return
        self._plant()
        if self._is_too_large():
            self.refuse(StopReason.MAX_MEMORY)

    def _is_too_large(self) -> bool:
        return self.options.max_memory is not None and self._num_bytes() > self.options.max_memory

    def _plant(self) -> None:
        """Note the node of the root, made if need be."""
        work, actions = self._scratch.work, self._scratch.sampled.size
        where = self._horizon, self._step
        while (node := int(counts.plant_root(self._known, self._nodes, *where, self._handle, actions))) < 0:
            work[counts.SHORT], work[counts.PLACES] = -node, self._known.step_kinds * (self._handle + 1)
            if self._grow() is not None:
                self.refuse(StopReason.MAX_MEMORY)
        self._scratch.root[0] = node

    def _found(self) -> dict[str, Any]:
        kept = {name: getattr(self._scratch, name).copy() for name in _KEPT}
        kept["work"][counts.SLICE] = 0  # what is left of it is chance
        known, nodes = (tuple(map(copy.copy, leaves(part))) for part in (self._known, self._nodes))
        return {"binding": self._binding.state_dict(), "known": known, "nodes": nodes, "scratch": kept}

    def _load_found(self, found: dict[str, Any]) -> None:
        self._answering, self._ends, self._is_loose = self._answering.anew(), [], True  # as it may have been
        self._binding.load_state_dict(found["binding"])
        self._set_rules()
        self._nodes = self._new_nodes()
        self._known = refilled(self._known, iter(found["known"]))
        self._nodes = refilled(self._nodes, iter(found["nodes"]))
        scratch = counts.new_scratch(self._horizon, found["scratch"]["sampled"].size, BLOCK)
        self._scratch = scratch._replace(**found["scratch"])

    # ---------------------------------------------------------------- planning

    def counters(self) -> NDArray[np.int64]:
        """Return what has been counted so far."""
        return self._scratch.work

    def _kernel_arguments(self) -> tuple[Any, counts.Parts]:
        return self._binding.data, counts.Parts(self._known, self._nodes, self._rules, self._scratch)

    @property
    def _kernel_kind(self) -> tuple[Any, ...]:
        return type(self._binding.data), self._prior is None, self.bootstraps

    @property
    def is_compiled(self) -> bool:
        """Whether nothing is left to compile, or to load."""
        return DISABLE_JIT or self._kernel_kind in _compiled_kinds

    def prepare(self, iterations: int | None) -> None:
        """Compile or load the kernels for this kind of model, before the clock starts."""
        self._began = int(self._scratch.work[counts.ITERATIONS])
        self._plant()
        is_short = iterations is None and self._allowed < math.inf  # what is counted must not depend on the clock
        self._rules = self._rules._replace(hurries=is_short and self._binding.first_chunk > 1)
        if self.is_compiled:
            return
        with self._compiling():
            self._search(*self._kernel_arguments(), self._stream, self._step, 0)
            if self.bootstraps:
                learned = self._learned()
                reached = self._answering.reached(learned)
                learned.induct(reached, np.empty(0, np.uint64), 0, np.empty((0, 3, 1)))
                answer.untried(self._known, self._horizon, self._step, reached)
            else:  # for who plays episodes
                prepare(self._step_kernel, *self._step_arguments(self._handle, 0, self._step))
                none = counts.Draws(*(np.empty(0, np.int64),) * 5, np.empty(0))
                counts.note_draws(self._known, self._horizon, none, 0)
            counts.compile_growth()
        _compiled_kinds.add(self._kernel_kind)

    def _first_chunk(self) -> int:
        return min(_FIRST_CHUNK, super()._first_chunk())  # an iteration is longer than a tree's

    def _grow_by(self, iterations: int) -> StopReason | None:
        work, known = self._scratch.work, self._known
        target = int(work[counts.ITERATIONS]) + iterations
        is_new = 2 * work[counts.MET] < work[counts.ARRIVED] and work[counts.ARRIVED] >= kernels.EVIDENCE
        if is_new and not self._is_counted and 2 * known.used[counts.OUTCOMES] > known.costs.size:
            self._forget(0.5, 128 if self.options.max_memory else counts.AMPLE)  # states do not come back
        if self._is_too_large():  # by the state that was observed
            self._forget(1.0)
            if self._is_too_large():
                return StopReason.MAX_MEMORY
        while (left := target - int(work[counts.ITERATIONS])) > 0:
            if time.perf_counter() > self._stop_at and self._nodes.visits[self._scratch.root[0]] > 0:
                return StopReason.SECONDS
            if self.options.max_memory is not None:
                held = counts.num_bytes(self._known, self._nodes, self._scratch)
                self._binding.budget = self.options.max_memory - held
            work[counts.SLICE] = _SLICE
            with self._binding.running():
                _, status = self._search(*self._kernel_arguments(), self._stream, self._step, left)
            if status == kernels.NODE_LIMIT:
                if not self._is_loose:
                    return StopReason.MAX_NODES
                self._keep(self._kept(exactly=True))
                self._is_loose = False
            elif status == kernel_model.FULL:
                size, begun = self._size_to_grow(), time.perf_counter()
                if self._is_late_to_grow(size):
                    return StopReason.SECONDS
                stopped = self._grow()
                if size > _SMALL:
                    self._byte_pace = self._byte_pace.after((time.perf_counter() - begun) / size)
                if stopped is not None:
                    return stopped
            elif status < 0 and status != sweeps.PAUSED:
                self._fail(int(work[counts.STATE]), int(work[counts.ACTION]))
        return None

    def _size_to_grow(self) -> int:
        """Return the bytes of what ran out of room."""
        short = self._scratch.work[counts.SHORT]
        if short == 0:
            return int(self._binding.num_bytes)
        return counts.num_bytes(self._nodes if short >= counts.SHORT_OF_NODES else self._known)

    def _is_late_to_grow(self, size: int) -> bool:
        """Whether growing, which is one piece, would take longer than the call has: the next one begins with it."""
        if self._stop_at == math.inf or self._scratch.work[counts.ITERATIONS] == self._began:
            return False
        pace = self._byte_pace.seconds if size > _SMALL else _QUICK
        return bool(time.perf_counter() + pace * size > self._stop_at)

    def _grow(self, *, forgetting: bool = True) -> StopReason | None:
        """Double what ran out of room, unless that is more than ``max_memory``."""
        work, known, nodes = self._scratch.work, self._known, self._nodes
        short, work[counts.SHORT] = int(work[counts.SHORT]), 0
        if short == 0:
            try:
                self._binding.make_room()
            except BudgetSpentError:
                return None if forgetting and self._forget(1.0) else StopReason.MAX_MEMORY
            return None
        if short in (counts.SHORT_OF_NODES, counts.SHORT_OF_Q):
            kept = self._kept(exactly=self._is_tree()) if self._is_loose and not self._is_counted else None
            self._is_counted = self._is_tree()
            if kept is not None and 2 * np.count_nonzero(kept) < nodes.used[counts.NODES]:  # at least one is freed
                self._keep(kept)
                return None
            nodes = counts.grown_nodes(nodes, short)
        else:
            known = counts.grown_counts(known, short, int(work[counts.PLACES]), 2 * self._horizon)
        largest = max(known.first.size, known.heads.size, known.costs.size, nodes.states.size, nodes.q.size)
        taken = counts.num_bytes(known, nodes, self._scratch) + int(self._binding.num_bytes)
        if largest > counts.MOST_ENTRIES or taken > (self.options.max_memory or _UNLIMITED):
            return None if forgetting and self._forget(1.0) else StopReason.MAX_MEMORY
        self._known, self._nodes = known, nodes
        return None

    def _forget(self, most: float, spare: int = 128) -> bool:
        """Free what the root does not reach, if less than a part of what was learned is left; return whether it is."""
        if not self._is_loose:
            return False
        self._is_counted, known = True, self._known
        states, _, _ = answer.reach(known, self._horizon, self._handle, self._step, _UNLIMITED)
        kept = counts.remembered(known, states)
        is_planted = bool(self._scratch.root[0])
        held = self._kept(exactly=True) if is_planted else np.zeros(self._nodes.states.size, np.bool_)
        if kept.outcomes.size >= most * (known.used[counts.OUTCOMES] - 1):
            if most < 1.0 or np.count_nonzero(held) == self._nodes.used[counts.NODES] - 1:
                return False
            self._keep(held)  # nodes of steps that are over, at least
            self._is_loose = False
            return True
        nodes = counts.kept_nodes(self._nodes, held, spare)
        fresh = np.asarray(self._binding.retain(kept.handles), np.int64)
        self._known, self._nodes = counts.forgotten(known, nodes, kept, fresh, spare)
        if self._binding.forgets:
            self._handle = int(fresh[np.searchsorted(kept.handles, self._handle)])
            self._answering.rename(kept.handles)
            self._ends = [self._ends[handle] for handle in kept.handles if handle < len(self._ends)]
        self._scratch.work[counts.AT_NODE] = self._nodes.heads[self._scratch.work[counts.AT_STEP]]
        self._is_loose = False
        if is_planted:
            self._plant()
        return True

    def _kept(self, *, exactly: bool) -> NDArray[np.bool_]:
        """Return which nodes the root leads to, or, quicker, a few more: those that it did when a sweep last looked."""
        nodes, root = self._nodes, int(self._scratch.root[0])
        if exactly and root:
            return np.asarray(counts.reached(self._known, nodes, root, self._horizon))
        latest = nodes.used[counts.EPOCH] - (self._scratch.work[counts.STAGE] == counts.EXPANDING)
        kept: NDArray[np.bool_] = (nodes.marks >= latest) & (nodes.steps >= self._step)
        kept[nodes.used[counts.NODES] :] = False  # of nodes that were taken back the marks are still there
        kept[root], kept[0] = True, False
        return kept

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        """Free the other nodes; a sweep that has come to one of them goes through its step again."""
        self._nodes, work = counts.kept_nodes(self._nodes, kept), self._scratch.work
        work[counts.AT_NODE] = self._nodes.heads[work[counts.AT_STEP]]
        if self._scratch.root[0]:
            self._plant()

    def _num_bytes(self) -> int:
        return counts.num_bytes(self._known, self._nodes, self._scratch) + int(self._binding.num_bytes)

    # --------------------------------------------------------------- reporting

    def _is_tree(self) -> bool:
        """Whether the search is a tree by now; see :func:`tailwise.search.learned.kernels.is_tree`."""
        return bool(self._scratch.work[counts.TREE])

    def _fits(self) -> bool:
        """Whether the cost-to-go is fitted where states do not come back: their features are known, and fits few."""
        few = int(self.model.horizon) * len(self._binding.actions(self._binding.handle(self.model.start))) <= _MOST_FITS
        return self.bootstraps and few and self._answering.features_of(self.model.start) is not None

    def _report(self, before: list[NDArray[np.int64]], begun: float, stopped: StopReason) -> Plan:
        loose = functools.partial(self._kept, exactly=True) if self._is_loose else None
        self._answering.begin(self._allowed, self._report_by)
        found = self._answering.find(self._learned(), self._stream, loose)
        if not np.isfinite(found.values).any():
            self.refuse(stopped)
        scratch, nodes, sense = self._scratch, self._nodes, self.model.sense
        root, size, beta = int(scratch.root[0]), found.values.size, float(self._rules.betas[self._step])
        sign, first, pair = -1.0 if sense == "reward" else 1.0, int(nodes.first_q[root]), int(nodes.first_pair[root])
        taken, (old,) = nodes.taken[first : first + size].copy(), before
        highest, lowest = float(nodes.highs[root]), float(nodes.lows[root])
        actions = self._binding.actions(self._handle)
        labels = [self._binding.action_name(action, self._handle) for action in actions]
        rows = make_rows(
            Findings(
                actions, labels, taken, 0.0 + found.values, np.isfinite(found.values),
                scratch.sampled * (not self._binding.weighs), scratch.moments, found.intervals(highest - lowest), sense,
            ),
            found.further(self._known.draws[pair : pair + size], highest, beta, sign),
        )  # fmt: skip
        best, tree = found.recommended(taken), self._is_tree()
        chosen, notes = rows[best], found.notes(best, int(scratch.work[counts.ITERATIONS]))
        if self._binding.weighs:
            notes += (WEIGHED,)
        if nodes.used[counts.DISMISSED]:
            notes += (WRONG_LEAVES.format("leaf_value" if self._rules.leaves else "bounds"),)
        latest = tuple(0.0 + sign * costs[:count] for costs, count in zip(scratch.latest, scratch.sampled, strict=True))
        return Plan(
            action=chosen.action,
            label=chosen.label,
            value=chosen.erm,
            rows=rows,
            state=self.state,
            step=self._step,
            beta=self.options.beta,
            root_beta=beta,
            sense=sense,
            iterations=int(scratch.work[counts.ITERATIONS] - old[counts.ITERATIONS]),
            simulator_steps=int(scratch.work[counts.STEPS] - old[counts.STEPS]),
            nodes=int(np.count_nonzero(self._kept(exactly=False))),
            bytes=self._num_bytes(),
            seconds=time.perf_counter() - begun,
            stopped=stopped,
            notes=notes,
            method="learned-model search",
            totals=() if self._binding.weighs else latest,
            interval_meaning=found.meaning,
            states_recur=not tree,
            too_early=found.meaning == TOO_EARLY,
            reason="" if not tree else _AS_TREE if found.meaning == SAMPLED else _AS_FIT,
        )
