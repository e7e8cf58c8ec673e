"""The driver of the learned-model search: memory, re-rooting, and what a plan says."""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numba import config
from numpy.typing import NDArray

from tailwise._jit import kernel_for
from tailwise._random import Seed, generator, own_words, seed_text, stream_words
from tailwise._values import leaves, refilled
from tailwise.bindings import BudgetSpentError, bind, kernel_model
from tailwise.errors import ModelError, OptionError
from tailwise.models import AccruedView
from tailwise.models.table_data import TableData
from tailwise.search.anytime import Turn, compile_notice
from tailwise.search.anytime_search import AnytimeSearch
from tailwise.search.learned import kernels, posterior, store
from tailwise.search.learned.backups import BLOCK
from tailwise.search.learned.options import LearnedOptions, compile_rules
from tailwise.search.learned.rows import BOOTSTRAP, ROOT_BOOTSTRAP, SAMPLED, TIE, make_rows, sampling_errors
from tailwise.search.plan import Plan, StopReason

_UNLIMITED = 2**62
_REPLICATES, _FEWEST_REPLICATES = 200, 40
_SHORT, _LONG = 60_000, 4  # outcomes that a report may look at: 4 a step, but after so many steps one in 4 steps
_SPLITS, _ONE_SPLIT = 4, 16  # of all draws into halves; one of them may look at 16 outcomes a step
_FIRST_CHUNK = 8
_AS_TREE = "its states come back too seldom, so that new ones are played to the end, as in a tree"
_KEPT = ("root", "work", "numbers", "sampled", "moments", "latest")  # of the scratch, from one iteration to the next

_compiled_kinds: set[type] = set()


class LearnedSearch(AnytimeSearch[Plan]):
    """A learned-model search of a model, rooted at a state and a step; see :class:`tailwise.LearnedModelSearch`.

    An iteration is an episode, from the root to the end or to a new state. ``advance`` keeps all that was learned, and
    frees the nodes that the new root no longer reaches.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    options : LearnedOptions
        How to search.
    seed : None, int, SeedSequence or Generator
        Source of all randomness. Same seed, same version: same result, bit for bit.
    """

    options: LearnedOptions
    bootstraps = True  # whether plans say how sure they are

    def __init__(self, model: Any, options: LearnedOptions, *, seed: Seed = None) -> None:
        if isinstance(model, AccruedView):
            raise ModelError("a learned model is for the ERM of plain costs; this one has accrued costs: use NluMcts")
        self.model = model
        self.options = options
        self._known: store.Knowledge
        self._nodes: store.Nodes
        self._scratch: store.Scratch
        self._start(seed)
        self._rules = compile_rules(options, int(model.horizon), float(model.discount))
        self._horizon = self._rules.horizon
        self._root_at(self._binding.handle(model.start), 0)

    def _start(self, seed: Seed) -> None:
        self._rng = generator(seed)
        self._seed_text = seed_text(self._rng)
        self._binding = bind(self.model, self._rng, self.options.without_widening())
        self._stream = stream_words(self._rng) if self._binding.draws else own_words(self._rng)
        self._turn = Turn()
        self._others = []
        kind: Any = type(self._binding.data)
        self._search = kernel_for(kernels.learned_chunk, kind)
        self._resample = kernel_for(posterior.draw_root_values, kind)
        self._hold_out = kernel_for(posterior.draw_held_out_values, kind)

    # -------------------------------------------------------------------- root

    def _root_at(self, handle: int, step: int) -> None:
        if self._binding.forgets:
            handle = int(self._binding.retain(np.array([handle], np.int64))[0])
        self._known = store.new_knowledge(self._phases())
        self._nodes = store.new_nodes(self._horizon, self.options.max_nodes or _UNLIMITED)
        self._settle(handle, step)

    def _phases(self) -> int:
        """How many step functions the model has: two where the last step differs, else one for every step."""
        own_steps = getattr(self.model, "step_losses", np.empty(0)).size and not isinstance(
            self._binding.data, TableData
        )
        return self._horizon if own_steps else 2

    def _move_root(self, position: int, handle: int, step: int) -> None:
        self._settle(handle, step, self._scratch)
        kept = store.reached(self._known, self._nodes, int(self._scratch.root[0]), self._horizon)
        self._nodes = store.kept_nodes(self._nodes, kept)
        self._scratch.root[0] = self._root_node(self._scratch.sampled.size)

    def note(self, draws: Sequence[tuple[int, int, int, int, int, float]]) -> None:
        """Count outcomes that were drawn elsewhere: (step, handle, number of actions, position, target or -1, cost).

        Costs are inner ones, as the search draws them: without what a table's step adds, with the end's at the last.
        """
        if not draws:
            return
        columns = [np.array(column) for column in zip(*draws, strict=True)]
        with self._turn:
            work, begin = self._scratch.work, 0
            while begin < len(draws):
                begin, short = store.note_draws(self._known, self._horizon, *columns, begin)
                work[store.SHORT], work[store.PLACES] = short, self._known.phases * (int(columns[1].max()) + 1)
                if short and self._grow() is not None:
                    break
            work[store.STEPS] += len(draws)

    def retarget(self, beta: float) -> None:
        """Search for another risk level from here on; what was drawn is kept, what was concluded from it is not."""
        with self._turn:
            self.require_decision()
            self.options = dataclasses.replace(self.options, beta=beta)
            self._rules = compile_rules(self.options, self._horizon, float(self.model.discount))
            self._nodes = store.new_nodes(self._horizon, self.options.max_nodes or _UNLIMITED)
            self._scratch.work[store.SWEPT] = 0  # the next iteration begins with a sweep
            self._scratch.work[store.CLOSED] = -1
            self._settle(self._handle, self._step, self._scratch)

    def _settle(self, handle: int, step: int, before: store.Scratch | None = None) -> None:
        """Put the root at a state and a step, whose node is made if need be."""
        num_actions = len(self._binding.actions(handle))
        if num_actions == 0:
            self._binding.fail(handle, -1, step)
        self._step, self._handle = step, handle
        self._scratch = store.new_scratch(self._horizon, num_actions, BLOCK)
        if before is not None:
            self._scratch = self._scratch._replace(work=before.work, numbers=before.numbers)
        self._scratch.root[0] = self._root_node(num_actions)
        if self._num_bytes() > (self.options.max_memory or _UNLIMITED):
            self._refuse(StopReason.MAX_MEMORY)

    def _root_node(self, num_actions: int) -> int:
        """Return the node of the root, made if need be."""
        work, parts = self._scratch.work, (self._horizon, self._step, self._handle, num_actions)
        work[store.PLACES] = self._known.phases * (self._handle + 1)
        while (node := int(store.plant(self._known, self._nodes, *parts))) < 0:
            work[store.SHORT] = -node
            if self._grow() is not None:
                self._refuse(StopReason.MAX_MEMORY)
        return node

    def _refuse(self, stopped: StopReason) -> NoReturn:
        bound = f"{stopped.value}={getattr(self.options, stopped.value)}"
        raise OptionError(f"{bound} leaves no room for a first iteration; raise it")

    def _found(self) -> dict[str, Any]:
        kept = {name: getattr(self._scratch, name).copy() for name in _KEPT}
        known, nodes = (tuple(map(copy.copy, leaves(part))) for part in (self._known, self._nodes))
        return {"binding": self._binding.state_dict(), "known": known, "nodes": nodes, "scratch": kept}

    def _load_found(self, found: dict[str, Any]) -> None:
        self._binding.load_state_dict(found["binding"])
        self._known = refilled(self._known, iter(found["known"]))
        self._nodes = refilled(self._nodes, iter(found["nodes"]))
        scratch = store.new_scratch(self._horizon, found["scratch"]["sampled"].size, BLOCK)
        self._scratch = scratch._replace(**found["scratch"])

    # ---------------------------------------------------------------- planning

    def counters(self) -> NDArray[np.int64]:
        """Return what has been counted so far."""
        return self._scratch.work

    def _kernel_parts(self) -> tuple[Any, ...]:
        return self._binding.data, self._known, self._nodes, self._rules, self._scratch

    def prepare(self, iterations: int | None) -> None:
        """Compile or load the kernels for this kind of model, before the clock starts."""
        kind = type(self._binding.data)
        if kind in _compiled_kinds or config.DISABLE_JIT:
            return
        with compile_notice():
            self._search(*self._kernel_parts(), self._stream, self._step, 0)
            self._draw_root_values(np.empty((0, 1)), deep=True)
            self._draw_held_out_values(np.empty((0, 1)))
        _compiled_kinds.add(kind)

    def _first_chunk(self) -> int:
        return min(_FIRST_CHUNK, super()._first_chunk())  # an iteration is longer than a tree's

    def _run(self, iterations: int) -> StopReason | None:
        """Run one chunk; return a reason to stop, if there is one."""
        try:
            return self._learn(iterations)
        finally:
            self._binding.budget = math.inf  # a state that the search is rooted at is known whatever it takes

    def _learn(self, iterations: int) -> StopReason | None:
        """Run so many iterations; grow what ran out of room; return a reason to stop, if there is one."""
        work = self._scratch.work
        target = int(work[store.ITERATIONS]) + iterations
        while (left := target - int(work[store.ITERATIONS])) > 0:
            if self.options.max_memory is not None:
                held = store.num_bytes(self._known, self._nodes, self._scratch)
                self._binding.budget = self.options.max_memory - held
            with self._binding.running():
                _, status = self._search(*self._kernel_parts(), self._stream, self._step, left)
            if status == kernels.NODE_LIMIT:
                return StopReason.MAX_NODES
            if status == kernel_model.FULL:
                stopped = self._grow()
                if stopped is not None:
                    return stopped
            elif status < 0:
                self._binding.fail(int(work[store.STATE]), int(work[store.ACTION]), self._step)
        return None

    def _grow(self) -> StopReason | None:
        """Double what ran out of room, unless that is more than ``max_memory``."""
        work, known, nodes = self._scratch.work, self._known, self._nodes
        short, work[store.SHORT] = int(work[store.SHORT]), 0
        if short == 0:
            try:
                self._binding.make_room()
            except BudgetSpentError:
                return StopReason.MAX_MEMORY
            return None
        if short in (store.SHORT_OF_NODES, store.SHORT_OF_UNITS):
            nodes = store.kept_nodes(nodes, None, short)
        else:
            known = store.grown_knowledge(known, short, int(work[store.PLACES]), 2 * self._horizon)
        largest = max(known.first.size, known.heads.size, known.costs.size, nodes.states.size, nodes.q.size)
        taken = store.num_bytes(known, nodes, self._scratch) + int(self._binding.num_bytes)
        if largest > store.MOST_ENTRIES or taken > (self.options.max_memory or _UNLIMITED):
            return StopReason.MAX_MEMORY
        self._known, self._nodes = known, nodes
        return None

    def _num_bytes(self) -> int:
        return store.num_bytes(self._known, self._nodes, self._scratch) + int(self._binding.num_bytes)

    # --------------------------------------------------------------- reporting

    def _is_tree(self) -> bool:
        """Whether the search is a tree by now; see :func:`tailwise.search.learned.kernels.is_tree`."""
        return bool(self._scratch.work[store.TREE])

    def _root_values(self) -> tuple[NDArray[np.float64], NDArray[np.int64], slice]:
        root = int(self._scratch.root[0])
        unit, record, arity = (
            int(column[root]) for column in (self._nodes.units, self._nodes.records, self._nodes.arity)
        )
        values, taken = self._nodes.q[unit : unit + arity].copy(), self._nodes.taken[unit : unit + arity].copy()
        values[self._known.visits[record : record + arity] == 0] = math.inf
        return values, taken, slice(record, record + arity)

    def _draw_root_values(self, out: NDArray[np.float64], *, deep: bool) -> None:
        """Fill ``out`` from a stream of its own, so that reporting never changes what follows."""
        weights, values = np.empty(self._known.costs.size), np.empty(self._nodes.values.size)
        words = own_words(self._report_rng())
        self._resample(*self._kernel_parts(), words, self._step, deep, weights, values, out)

    def _draw_held_out_values(self, out: NDArray[np.float64]) -> None:
        """Fill ``out`` with values that one half of the draws chooses and the other half judges."""
        halves, drawn = np.zeros((3, self._known.costs.size)), np.zeros((3, self._known.heads.size))
        values, judged = np.empty((2, self._nodes.values.size)), np.empty((2, self._nodes.values.size))
        words = own_words(self._report_rng())
        self._hold_out(*self._kernel_parts(), words, self._step, halves, drawn, values, judged, out)

    def _report_rng(self) -> np.random.Generator:
        return generator(np.random.SeedSequence([int(self._scratch.work[store.WALKED]), 1981]))

    def _possible_values(
        self, values: NDArray[np.float64], taken: NDArray[np.int64], records: slice, walked: int
    ) -> tuple[NDArray[np.float64], str]:
        """Return root values that the samples leave possible, shape (B, A), and what they mean."""
        beta = float(self._rules.betas[self._step])
        if not self.bootstraps:
            return values[None], SAMPLED
        if self._is_tree():
            errors = sampling_errors(self._scratch.latest, self._scratch.sampled, values, taken, beta)
            errors[~np.isfinite(errors)] = 0.0
            return values + errors * self._report_rng().normal(size=(_REPLICATES, values.size)), SAMPLED
        affordable = self._affordable(walked) // self._sweep_work()
        deep = affordable >= _FEWEST_REPLICATES
        if not deep:
            affordable = max(_FEWEST_REPLICATES, self._affordable(walked) // int(self._known.widths[records].sum()))
        out = np.full((min(_REPLICATES, affordable), values.size), math.inf)
        self._draw_root_values(out, deep=deep)
        return out, BOOTSTRAP if deep else ROOT_BOOTSTRAP

    def _affordable(self, walked: int) -> int:
        """Outcomes that the report after a walk of so many steps may look at."""
        return max(min(_SHORT, _LONG * walked), walked // _LONG)

    def _sweep_work(self) -> int:
        """Outcomes that a sweep looks at."""
        return max(int(self._scratch.work[store.LOOKED]), int(self._known.used[store.OUTCOMES]))

    def _held_out_values(self, num_actions: int, walked: int) -> NDArray[np.float64]:
        """Return held-out root values, shape (2 S, A), under as many splits S as are affordable, perhaps none."""
        two_sweeps = 2 * self._sweep_work()
        splits = max(self._affordable(walked) // two_sweeps, int(two_sweeps <= _ONE_SPLIT * walked))
        splits = 0 if self._is_tree() else splits
        out = np.full((2 * min(_SPLITS, splits), num_actions), math.inf)
        if splits > 0:
            self._draw_held_out_values(out)
        return out

    def _recommended(self, values: NDArray[np.float64], taken: NDArray[np.int64], possible: NDArray[np.float64]) -> int:
        """Return the position of the action to recommend, of unbiased ``values``: see the documented rule's last step.

        A standard error is added, since of two actions that look alike the better known one disappoints less.
        """
        if self._is_tree():
            return int(np.lexsort((values, -taken))[0])
        judged, known = values.copy(), np.isfinite(values)
        judged[known] += possible[:, known].std(axis=0)
        least = judged.min()
        equal = np.flatnonzero(judged <= least + TIE * max(1.0, abs(least)))
        return int(equal[0] if equal.size == 1 else self._report_rng().choice(equal))

    def _report(self, before: list[NDArray[np.int64]], begun: float, stopped: StopReason) -> Plan:
        values, taken, records = self._root_values()
        if not np.isfinite(values).any():
            self._refuse(stopped)
        scratch, sense = self._scratch, self.model.sense
        sign, beta = -1.0 if sense == "reward" else 1.0, float(self._rules.betas[self._step])
        (old,) = before
        walked = int(scratch.sampled.sum()) * (self._horizon - self._step)  # from this root, at most
        possible, meaning = self._possible_values(values, taken, records, walked)
        held_out = self._held_out_values(values.size, walked)
        # The least of many estimates is too low, held-out values are too high.
        middle = 0.5 * (values + held_out.mean(axis=0)) if held_out.size else values
        draws, tree = self._known.draws[records], self._is_tree()
        actions = self._binding.actions(self._handle)
        rows = make_rows(
            actions,
            [self._binding.action_name(action, self._handle) for action in actions],
            visits=taken,
            draws=draws,
            values=values,
            middle=middle,
            possible=possible,
            held_out=held_out,
            sure=np.isfinite(values) & ((scratch.sampled >= 2) | (not tree)),
            moments=scratch.moments,
            counts=scratch.sampled,
            worst=float(self._nodes.highs[scratch.root[0]]),
            beta=beta,
            sign=sign,
        )
        best = self._recommended(middle, taken, possible)
        latest = tuple(0.0 + sign * costs[:count] for costs, count in zip(scratch.latest, scratch.sampled, strict=True))
        return Plan(
            action=rows[best].action,
            label=rows[best].label,
            value=rows[best].erm,
            rows=rows,
            state=self.state,
            step=self._step,
            beta=self.options.beta,
            root_beta=beta,
            sense=sense,
            iterations=int(scratch.work[store.ITERATIONS] - old[store.ITERATIONS]),
            simulator_steps=int(scratch.work[store.STEPS] - old[store.STEPS]),
            nodes=int(self._nodes.used[store.NODES]) - 1,
            bytes=self._num_bytes(),
            seconds=time.perf_counter() - begun,
            stopped=stopped,
            method="learned-model search",
            totals=latest,
            interval_meaning=meaning,
            states_recur=not tree,
            reason=_AS_TREE if tree else "",
        )
