"""The anytime driver: runs the compiled kernel in chunks, grows the arena, keeps the tree.

Chunks of about 50 ms let time limits, progress, callbacks and Ctrl-C work; they do not change
the result. The tree survives between calls of ``plan``, and ``advance`` keeps the part below the
step that was really taken, at the right depth and so at the right risk level ``beta_h``.
"""

from __future__ import annotations

import copy
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Self

import numpy as np
from numba import config

from tailwise._random import Seed, generator, stream_words
from tailwise._validate import integer, real
from tailwise.bindings import bind, position_of, world
from tailwise.errors import OptionError
from tailwise.risk.entropic import weighted_erm
from tailwise.search import arena as tree
from tailwise.search import kernels, log_mean
from tailwise.search.options import SearchOptions, compile_rules
from tailwise.search.plan import Plan, StopReason, make_row

_MOST_SAMPLES, _ALL_SAMPLES, _FEWEST_SAMPLES = 16_384, 65_536, 64  # kept per action, in all, per action
_FIRST_UNITS = 1_024
_CHUNK_SECONDS = 0.05
_UNLIMITED = 2**62

_compiled_kinds: set[type] = set()


class TreeSearch:
    """A search tree over a model, rooted at a state and a step.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    options : SearchOptions
        How to search.
    seed : None, int, SeedSequence or Generator
        Source of all randomness. Same seed, same version: same result, bit for bit.
    """

    def __init__(self, model: Any, options: SearchOptions, *, seed: Seed = None) -> None:
        self.model = model
        self.options = options
        self._rng = generator(seed)
        self._stream = stream_words(self._rng)
        self._binding = bind(model, self._rng, options)
        self._rules = compile_rules(options, model.horizon, model.discount)
        self._step: int
        self._handle: int
        self._arena: tree.Arena
        self._trace: kernels.Trace
        self._max_units = (options.max_memory or _UNLIMITED) // tree.UNIT_BYTES
        self.reset()

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
        """Return another search of the same model with the same options, a new seed and an empty tree."""
        other = copy.copy(self)
        other._rng = generator(seed)
        other._stream = stream_words(other._rng)
        other._binding = bind(self.model, other._rng, self.options)
        other.reset()
        return other

    def reset(self, state: Any = None, step: int = 0) -> None:
        """Forget the tree and start a fresh one.

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
            If ``step`` is out of range.
        """
        h = integer(step, "step", low=0, high=self._rules.horizon - 1)
        self._plant(self._binding.handle(self.model.start if state is None else state), h)

    def advance(self, action: Any, state: Any) -> None:
        """Re-root after ``action`` was taken and ``state`` was observed; the rest is freed.

        The subtree below is kept where there is one; a state never sampled starts a fresh
        tree, at the right step either way.

        Raises
        ------
        StateError
            If the action is not allowed here, or the model has no such state.
        OptionError
            If the horizon was reached already.
        """
        if self._step >= self._rules.horizon:
            raise OptionError(f"the horizon ({self._rules.horizon} steps) is reached; call reset() to start again")
        position = position_of(self._binding, self._handle, action)
        handle = self._binding.handle(state)
        if self._step + 1 == self._rules.horizon:
            self._step, self._handle = self._step + 1, handle
            return
        unit = int(self._arena.book[tree.ROOT]) + 1 + position
        child, _ = tree.find_child(self._arena.ints, unit, handle)
        if child == 0 or self._arena.ints[4 * child + tree.NUM_ACTIONS] == 0:
            self._plant(handle, self._step + 1)
            return
        kept = tree.allocate(int(self._arena.book[tree.USED]), int(self._arena.book[tree.MAX_NODES]))
        tree.copy_subtree(self._arena, child, kept)
        kept.book[tree.DEPTH] = self._step + 1
        used = int(kept.book[tree.USED])
        self._arena = tree.grow(kept, max(used, min(max(_FIRST_UNITS, used + 1), self._max_units)))
        self._step, self._handle = self._step + 1, handle
        self._forget_states()
        self._start_trace(int(self._arena.ints[4 * self._arena.book[tree.ROOT] + tree.NUM_ACTIONS]))

    def _plant(self, handle: int, step: int) -> None:
        """Start a fresh tree."""
        self._step, self._handle = step, handle
        num_actions = len(self._binding.actions(handle))
        if num_actions == 0:
            self._binding.fail(handle, -1, step)
        units = min(max(_FIRST_UNITS, 4 * num_actions), self._max_units)
        if units < 2 + num_actions:
            raise OptionError(
                f"max_memory={self.options.max_memory} does not hold the root and its {num_actions} actions; "
                f"give at least {8 * tree.UNIT_BYTES * (1 + num_actions)} bytes"
            )
        self._arena = tree.allocate(units, self.options.max_nodes or _UNLIMITED)
        root = tree.reserve(self._arena, 1 + num_actions)
        block = self._arena.ints[4 * root : 4 * (root + 1 + num_actions)]
        block[:] = 0
        block[0], block[tree.NUM_ACTIONS] = handle, num_actions
        self._arena.floats[2 * (root + 1) : 2 * (root + 1 + num_actions)] = 0.0
        self._arena.ints[4 * (root + 1) : 4 * (root + 1 + num_actions)] = 0
        self._arena.book[tree.ROOT], self._arena.book[tree.NODES], self._arena.book[tree.DEPTH] = (
            root,
            1,
            step,
        )
        self._forget_states()
        self._start_trace(num_actions)

    def _forget_states(self) -> None:
        """Let the model drop the states that are no longer in the tree."""
        headers = tree.headers(self._arena)
        fresh = self._binding.retain(self._arena.ints[4 * headers])
        if fresh is not None:
            self._arena.ints[4 * headers] = fresh
            self._handle = int(self._arena.ints[4 * self._arena.book[tree.ROOT]])

    def _start_trace(self, num_actions: int) -> None:
        horizon = self._rules.horizon
        padded = horizon + log_mean.LANES - 1
        kept = min(_MOST_SAMPLES, max(_FEWEST_SAMPLES, 1 << (_ALL_SAMPLES // num_actions).bit_length() - 1))
        self._trace = kernels.Trace(
            np.zeros(horizon, np.int64),
            np.zeros(horizon),
            np.zeros(padded),
            np.zeros(padded),
            np.zeros(padded),
            np.zeros(padded),
            np.zeros(num_actions, np.int64),
            np.tile([0.0, 0.0, np.inf, -np.inf], (num_actions, 1)),
            np.empty((num_actions, kept)),
            np.zeros(4, np.int64),
        )

    # ---------------------------------------------------------------- planning

    def plan(
        self,
        iterations: int | None = None,
        seconds: float | None = None,
        *,
        until: Callable[[Plan], bool] | None = None,
        progress: Callable[[int, float], None] | None = None,
    ) -> Plan:
        """Search on from where the tree stands, and report. May be called again to continue.

        Parameters
        ----------
        iterations : int, optional
            Number of iterations to run.
        seconds : float, optional
            Wall time to use; whichever limit comes first ends the call.
        until : callable, optional
            Called with the plan so far about every 50 ms; a true result ends the call.
        progress : callable, optional
            Called with (iterations done, seconds used) about every 50 ms.

        Returns
        -------
        Plan
            Ctrl-C ends the call early and still returns what is known.

        Raises
        ------
        OptionError
            If no limit is given, a limit is not positive, the horizon is reached, or ``max_nodes`` or
            ``max_memory`` leaves no room for a first iteration.
        SimulatorError
            If the model fails; the tree stays as it was before the failing iteration.
        """
        if iterations is None and seconds is None and until is None:
            raise OptionError("plan needs a limit: iterations=, seconds= or until=")
        wanted = _UNLIMITED if iterations is None else integer(iterations, "iterations", low=1)
        allowed = float("inf") if seconds is None else real(seconds, "seconds", low=0.0, low_open=True)
        if self._step >= self._rules.horizon:
            raise OptionError(f"no decision is left: step {self._step} is the horizon; call reset() to start again")
        self._compile()
        begun = time.perf_counter()
        before = self._trace.totals.copy()
        stopped = StopReason.ITERATIONS
        chunk = min(getattr(self._binding, "first_chunk", 64), wanted)
        try:
            while True:
                done = int(self._trace.totals[0] - before[0])
                used = time.perf_counter() - begun
                if progress is not None and done:
                    progress(done, used)
                if done >= wanted:
                    break
                if used >= allowed and done:
                    stopped = StopReason.SECONDS
                    break
                if until is not None and done and until(self._report(before, begun, StopReason.UNTIL)):
                    stopped = StopReason.UNTIL
                    break
                limit = self._run(min(chunk, wanted - done))
                if limit is not None:
                    stopped = limit
                    break
                lasted = time.perf_counter() - begun - used
                chunk = int(min(max(1, chunk * min(4.0, _CHUNK_SECONDS / max(lasted, 1e-9))), 2**30))
                if allowed - used < 2 * _CHUNK_SECONDS:
                    chunk = max(1, min(chunk, int(chunk * max(0.0, allowed - used) / (2 * _CHUNK_SECONDS))))
        except KeyboardInterrupt:
            stopped = StopReason.INTERRUPTED
            if self._trace.totals[0] == 0:
                raise
        return self._report(before, begun, stopped)

    def _compile(self) -> None:
        """Compile or load the kernel for this kind of model, before the clock starts."""
        kind = type(self._binding.data)
        if kind in _compiled_kinds or config.DISABLE_JIT:
            return
        with _compile_notice():
            kernels.search_chunk(self._binding.data, self._arena, self._rules, self._trace, self._stream, 0)
        _compiled_kinds.add(kind)

    def _run(self, iterations: int) -> StopReason | None:
        """Run one chunk; grow what ran out of room; return a reason to stop, if there is one."""
        target = self._trace.totals[0] + iterations
        while self._trace.totals[0] < target:
            left = int(target - self._trace.totals[0])
            guard = getattr(self._binding, "running", nullcontext)
            with guard():
                _, status = kernels.search_chunk(
                    self._binding.data, self._arena, self._rules, self._trace, self._stream, left
                )
            if status == kernels.NODE_LIMIT:
                return StopReason.MAX_NODES
            if status == world.FULL:
                if self._binding.make_room():
                    continue
                units = tree.capacity(self._arena)
                if units >= self._max_units:
                    return StopReason.MAX_MEMORY
                larger = 2 * units if units < 65_536 else units + units // 4
                self._arena = tree.grow(self._arena, min(larger, max(self._max_units, units + 1)))
            elif status < 0:
                handle, position = int(self._trace.totals[2]), int(self._trace.totals[3])
                self._binding.fail(handle, position, self._step)
        return None

    def _report(self, before: np.ndarray[Any, Any], begun: float, stopped: StopReason) -> Plan:
        root = int(self._arena.book[tree.ROOT])
        actions = self._binding.actions(self._handle)
        units = np.arange(root + 1, root + 1 + len(actions))
        counts, erms = self._arena.ints[4 * units + tree.COUNT], self._arena.floats[2 * units]
        total = int(counts.sum())
        beta = float(self._rules.betas[self._step])
        trace, sense = self._trace, self.model.sense
        by_action = [latest[: trace.counts[k]].copy() for k, latest in enumerate(trace.latest)]
        rows = tuple(
            make_row(
                action, self._binding.action_name(action), int(counts[k]), total, float(erms[k]), beta,
                int(trace.counts[k]), trace.actions[k], by_action[k], sense,
            )
            for k, action in enumerate(actions)
        )  # fmt: skip
        if total == 0:
            bound = f"{stopped.value}={getattr(self.options, stopped.value)}"
            raise OptionError(f"{bound} leaves no room for a first iteration; raise it")
        tried = np.flatnonzero(counts)
        value = weighted_erm(erms[tried], beta, counts[tried] / total)
        if self.options.recommend == "visits":
            tried = np.flatnonzero(counts == counts.max())  # equal visits are told apart by risk
        best = int(tried[np.argmin(erms[tried])])
        samples = tuple(0.0 - costs if sense == "reward" else costs for costs in by_action)
        return Plan(
            action=rows[best].action,
            label=rows[best].label,
            value=value if sense == "cost" else 0.0 - value,
            rows=rows,
            state=self.state,
            step=self._step,
            beta=self.options.beta,
            root_beta=beta,
            sense=sense,
            iterations=int(trace.totals[0] - before[0]),
            simulator_steps=int(trace.totals[1] - before[1]),
            nodes=int(self._arena.book[tree.NODES]),
            bytes=int(self._arena.floats.nbytes),
            seconds=time.perf_counter() - begun,
            stopped=stopped,
            _samples=samples,
        )


@contextmanager
def _compile_notice() -> Iterator[None]:
    """Say that a kernel is being compiled, if that takes over a second."""
    message = "tailwise: compiling the search kernel (once; later runs load it from the cache) ..."
    timer = threading.Timer(1.0, lambda: print(message, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
