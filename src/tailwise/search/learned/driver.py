"""The driver of the learned-model search: memory, re-rooting, and what a plan says."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from typing import Any, NoReturn, Self

import numpy as np
from numba import config
from numpy.typing import NDArray

from tailwise._jit import kernel_for
from tailwise._random import Seed, generator, own_words, stream_words
from tailwise._validate import integer
from tailwise.bindings import bind, position_of, world
from tailwise.errors import ModelError, OptionError
from tailwise.models import AccruedTable
from tailwise.models.table_data import TableData
from tailwise.risk.entropic import oce_utility
from tailwise.risk.intervals import Interval
from tailwise.search.acting import ActsByPlanning
from tailwise.search.anytime import Progress, Turn, compile_notice, run_anytime
from tailwise.search.learned import kernels, posterior, store
from tailwise.search.learned.backups import BLOCK
from tailwise.search.learned.options import LearnedOptions, compile_rules
from tailwise.search.learned.plan import BOOTSTRAP, ROOT_BOOTSTRAP, SAMPLED, LearnedPlan, LearnedRow, make_learned_row
from tailwise.search.plan import Plan, StopReason

_UNLIMITED = 2**62
_REPLICATES, _FEWEST_REPLICATES = 200, 40
_LEAST_WORK = 60_000  # outcomes that the bootstrap may look at even after a short search
_TIE = 1e-9

_compiled_kinds: set[type] = set()


class LearnedSearch(ActsByPlanning):
    """A learned-model search of a model, rooted at a state and a step; see :class:`tailwise.LearnedModelSearch`.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    options : LearnedOptions
        How to search.
    seed : None, int, SeedSequence or Generator
        Source of all randomness. Same seed, same version: same result, bit for bit.
    """

    def __init__(self, model: Any, options: LearnedOptions, *, seed: Seed = None) -> None:
        if isinstance(model, AccruedTable):
            raise ModelError("a learned model is for the ERM of plain costs; this one has accrued costs: use NluMcts")
        self.model = model
        self.options = options
        self._step: int
        self._handle: int
        self._known: store.Knowledge
        self._nodes: store.Nodes
        self._scratch: store.Scratch
        self._seat(seed)
        self._rules = compile_rules(options, int(model.horizon), float(model.discount))
        self._horizon = self._rules.horizon
        self.reset()

    def _seat(self, seed: Seed) -> None:
        self._rng = generator(seed)
        self._binding = bind(self.model, self._rng, self.options.without_widening())
        self._stream = stream_words(self._rng) if self._binding.draws else own_words(self._rng)
        self._turn = Turn()
        kind: Any = type(self._binding.data)
        self._search = kernel_for(kernels.learned_chunk, kind)
        self._resample = kernel_for(posterior.draw_root_values, kind)

    # -------------------------------------------------------------------- root

    @property
    def step(self) -> int:
        """Step h of the root; equal to the horizon when no decision is left."""
        return self._step

    @property
    def state(self) -> Any:
        """State of the root."""
        return self._binding.state(self._handle)

    def fresh(self, seed: Seed = None) -> Self:
        """Return another search of the same model with the same options, a new seed and nothing learned."""
        other = self._twin()
        other._seat(seed)
        other.reset()
        return other

    def _twin(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return an independent search with the same future."""
        other = self._twin()
        memo[id(self)] = other
        with self._turn:
            other._seat(0)
            other._stream[:] = self._stream
            other._binding.adopt(self._binding)
            parts = self._known, self._nodes, self._scratch
            other._known, other._nodes, other._scratch = copy.deepcopy(parts, memo)
        return other

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled: it holds compiled code and a live random stream; "
            "copy.deepcopy(search) gives an independent copy in this process"
        )

    def reset(self, state: Any = None, step: int = 0) -> None:
        """Forget all that was learned and start afresh.

        Parameters
        ----------
        state : optional
            Root state; the model's start if not given.
        step : int, default 0
            Step of the root, 0 to H - 1; the risk level there is ``beta * discount**step``.

        Raises
        ------
        StateError
            If the model has no such state.
        OptionError
            If ``step`` is out of range, or ``max_memory`` is too little to begin with.
        """
        h = integer(step, "step", low=0, high=self._horizon - 1)
        with self._turn:
            handle = self._binding.handle(self.model.start if state is None else state)
            if self._binding.forgets:
                handle = int(self._binding.retain(np.array([handle], np.int64))[0])
            self._known = store.new_knowledge(self._phases())
            self._nodes = store.new_nodes(self._horizon, self.options.max_nodes or _UNLIMITED)
            numbers = np.array([math.inf, -math.inf, 0.0])
            self._settle(handle, h, np.zeros(store.PLACES + 1, np.int64), numbers)

    def _phases(self) -> int:
        """How many step functions the model has: two where the last step differs, else one for every step."""
        own_steps = getattr(self.model, "step_losses", np.empty(0)).size and not isinstance(
            self._binding.data, TableData
        )
        return self._horizon if own_steps else 2

    def advance(self, action: Any, state: Any) -> None:
        """Re-root after ``action`` was taken and ``state`` was observed.

        What was learned is kept whole; nodes that it no longer reaches are freed.

        Raises
        ------
        StateError
            If the action is not allowed here, or the model has no such state.
        OptionError
            If the horizon was reached already.
        """
        with self._turn:
            self._require_decision()
            position_of(self._binding, self._handle, action)
            handle, h = self._binding.handle(state), self._step + 1
            if h == self._horizon:
                self._step, self._handle = h, handle
                return
            self._settle(handle, h, self._scratch.work, self._scratch.numbers)
            kept = store.reached(self._known, self._nodes, int(self._scratch.root[0]), self._horizon)
            self._nodes = store.kept_nodes(self._nodes, kept)
            self._scratch.root[0] = self._root_node(self._scratch.sampled.size)

    def _settle(self, handle: int, step: int, work: NDArray[np.int64], numbers: NDArray[np.float64]) -> None:
        """Put the root at a state and a step, whose node is made if need be."""
        num_actions = len(self._binding.actions(handle))
        if num_actions == 0:
            self._binding.fail(handle, -1, step)
        self._step, self._handle = step, handle
        scratch = store.new_scratch(self._horizon, num_actions, BLOCK)
        self._scratch = scratch._replace(work=work, numbers=numbers)
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

    def _require_decision(self) -> None:
        if self._step >= self._horizon:
            raise OptionError(f"no decision is left: step {self._step} is the horizon; call reset() to start again")

    # ---------------------------------------------------------------- planning

    def plan(
        self,
        iterations: int | None = None,
        seconds: float | None = None,
        *,
        until: Callable[[Plan], bool] | None = None,
        progress: Progress | None = None,
    ) -> LearnedPlan:
        """Search on from what is known, and report. May be called again to continue.

        Parameters
        ----------
        iterations : int, optional
            Number of iterations to run: episodes from the root to the end, or to a new state.
        seconds : float, optional
            Wall time to use; whichever limit comes first ends the call.
        until : callable, optional
            Called with the plan so far about every 50 ms; a true result ends the call.
        progress : callable, optional
            Called with (iterations done, seconds used) about every 50 ms.

        Returns
        -------
        LearnedPlan
            Ctrl-C ends the call early and still returns what is known.

        Raises
        ------
        OptionError
            If no limit is given, a limit is not positive, the horizon is reached, or ``max_nodes`` or
            ``max_memory`` leaves no room for a first iteration.
        SimulatorError
            If the model fails; all is as it was before the failing iteration.
        """
        if iterations is not None:
            integer(iterations, "iterations", low=1)
        with self._turn:
            self._require_decision()
            self._compile()
            begun, before = time.perf_counter(), self._scratch.work.copy()
            stopped = run_anytime(
                self._run,
                lambda: int(self._scratch.work[store.ITERATIONS] - before[store.ITERATIONS]),
                iterations=iterations,
                seconds=seconds,
                until=None if until is None else lambda: until(self._report(before, begun, StopReason.UNTIL)),
                progress=progress,
                first_chunk=self._binding.first_chunk,
            )
            return self._report(before, begun, stopped)

    def _kernel_parts(self) -> tuple[Any, ...]:
        return self._binding.data, self._known, self._nodes, self._rules, self._scratch

    def _compile(self) -> None:
        """Compile or load the kernels for this kind of model, before the clock starts."""
        kind = type(self._binding.data)
        if kind in _compiled_kinds or config.DISABLE_JIT:
            return
        with compile_notice():
            self._search(*self._kernel_parts(), self._stream, self._step, 0)
            self._draw_root_values(np.empty((0, 1)), deep=True)
        _compiled_kinds.add(kind)

    def _run(self, iterations: int) -> StopReason | None:
        """Run one chunk; grow what ran out of room; return a reason to stop, if there is one."""
        work = self._scratch.work
        target = int(work[store.ITERATIONS]) + iterations
        while (left := target - int(work[store.ITERATIONS])) > 0:
            with self._binding.running():
                _, status = self._search(*self._kernel_parts(), self._stream, self._step, left)
            if status == kernels.NODE_LIMIT:
                return StopReason.MAX_NODES
            if status == world.FULL:
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
            self._binding.make_room()
            return None
        if short in (store.SHORT_OF_NODES, store.SHORT_OF_UNITS):
            nodes = store.kept_nodes(nodes, None, short)
        else:
            known = store.grown_knowledge(known, short, int(work[store.PLACES]), 2 * self._horizon)
        if store.num_bytes(known, nodes, self._scratch) > (self.options.max_memory or _UNLIMITED):
            return StopReason.MAX_MEMORY
        self._known, self._nodes = known, nodes
        return None

    def _num_bytes(self) -> int:
        return store.num_bytes(self._known, self._nodes, self._scratch) + self._binding.num_bytes

    # --------------------------------------------------------------- reporting

    def _is_tree(self) -> bool:
        """Whether states do not come back; see :func:`tailwise.search.learned.kernels.is_tree`."""
        arrived, met = (int(self._scratch.work[k]) for k in (store.ARRIVED, store.MET))
        return arrived >= kernels.EVIDENCE and 2 * met < arrived

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
        rng = generator(np.random.SeedSequence([int(self._scratch.work[store.WALKED]), 1981]))
        weights, values = np.empty(self._known.costs.size), np.empty(self._nodes.values.size)
        self._resample(*self._kernel_parts(), own_words(rng), self._step, deep, weights, values, out)

    def _possible_values(
        self, values: NDArray[np.float64], taken: NDArray[np.int64], walked: int
    ) -> tuple[NDArray[np.float64], str]:
        """Return root values that the samples leave possible, shape (B, A), and what they mean."""
        beta = float(self._rules.betas[self._step])
        if self._is_tree():
            rng = generator(np.random.SeedSequence([int(self._scratch.work[store.WALKED]), 1981]))
            errors = np.array([self._sampling_error(k, values[k], beta, taken[k]) for k in range(values.size)])
            return values + np.where(np.isfinite(errors), errors, 0.0) * rng.normal(
                size=(_REPLICATES, values.size)
            ), SAMPLED
        terms = max(int(self._scratch.work[store.LOOKED]), int(self._known.used[store.OUTCOMES]))
        affordable = max(_LEAST_WORK, walked // 4) // terms
        deep = affordable >= _FEWEST_REPLICATES
        out = np.full((min(_REPLICATES, affordable) if deep else _REPLICATES, values.size), math.inf)
        self._draw_root_values(out, deep=deep)
        return out, BOOTSTRAP if deep else ROOT_BOOTSTRAP

    def _sampling_error(self, k: int, value: float, beta: float, taken: int) -> float:
        """Return the standard error of the ERM of the totals sampled through action ``k``."""
        count = int(self._scratch.sampled[k])
        samples = self._scratch.latest[k, :count]
        if samples.size < 2 or not math.isfinite(value):
            return math.inf
        return float(np.std(oce_utility(samples - value, beta), ddof=1)) / math.sqrt(max(taken, samples.size))

    def _report(self, before: NDArray[np.int64], begun: float, stopped: StopReason) -> LearnedPlan:
        values, taken, records = self._root_values()
        if not np.isfinite(values).any():
            self._refuse(stopped)
        scratch, sense = self._scratch, self.model.sense
        sign, beta = -1.0 if sense == "reward" else 1.0, float(self._rules.betas[self._step])
        walked = int(scratch.work[store.WALKED] - before[store.WALKED])
        possible, meaning = self._possible_values(values, taken, walked)
        rows = self._rows(values, taken, self._known.draws[records], possible, sign, beta)
        best = int(np.argmin(values))
        latest = tuple(0.0 + sign * costs[:count] for costs, count in zip(scratch.latest, scratch.sampled, strict=True))
        return LearnedPlan(
            action=rows[best].action,
            label=rows[best].label,
            value=rows[best].erm,
            rows=rows,
            state=self.state,
            step=self._step,
            beta=self.options.beta,
            root_beta=beta,
            sense=sense,
            iterations=int(scratch.work[store.ITERATIONS] - before[store.ITERATIONS]),
            simulator_steps=int(scratch.work[store.STEPS] - before[store.STEPS]),
            nodes=int(self._nodes.used[store.NODES]) - 1,
            bytes=self._num_bytes(),
            seconds=time.perf_counter() - begun,
            stopped=stopped,
            _samples=latest,
            interval_meaning=meaning,
            states_recur=not self._is_tree(),
        )

    def _rows(
        self,
        values: NDArray[np.float64],
        taken: NDArray[np.int64],
        draws: NDArray[np.int64],
        possible: NDArray[np.float64],
        sign: float,
        beta: float,
    ) -> tuple[LearnedRow, ...]:
        scratch, binding = self._scratch, self._binding
        known = np.isfinite(values)
        least = possible[:, known].min(axis=1)
        limit = least + _TIE * np.maximum(1.0, np.abs(least))
        worst = float(self._nodes.highs[scratch.root[0]])
        rows = []
        for k, action in enumerate(binding.actions(self._handle)):
            is_sure = known[k] and not (self._is_tree() and scratch.sampled[k] < 2)
            bounds = np.quantile(possible[:, k], [0.05, 0.95]) if is_sure else (-math.inf, math.inf)
            rows.append(
                make_learned_row(
                    action,
                    binding.action_name(action, self._handle),
                    visits=int(taken[k]),
                    total_visits=int(taken.sum()),
                    draws=int(draws[k]),
                    erm=float(values[k]),
                    beta=beta,
                    moments=scratch.moments[k],
                    count=int(scratch.sampled[k]),
                    interval=Interval(float(bounds[0]), float(bounds[1])),
                    probability_best=float(np.mean(possible[:, k] <= limit)) if known[k] else 0.0,
                    worst=worst,
                    sign=sign,
                )
            )
        return tuple(rows)
