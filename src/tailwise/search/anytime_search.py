"""What all searches share: a root that moves with the episode, and planning at any time from there.

A search is its parameters (:meth:`AnytimeSearch.get_params`) and its state (:meth:`AnytimeSearch.state_dict`). Copies,
threads, files, checkpoints and clusters stand on these two.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tailwise._progress import PlanProgress, followed_plan
from tailwise._random import Seed, own_words, seed_text, stream_words
from tailwise._validate import file_path, integer, thread_count
from tailwise.bindings import ModelInterface, SimulationOptions, bind, position_of
from tailwise.errors import OptionError
from tailwise.models.contract import AS_IF_SEEN
from tailwise.search.anytime import (
    Pace,
    SideBySide,
    Turn,
    compile_notice,
    compiling,
    one_thread,
    plan_limits,
    run_anytime,
)
from tailwise.search.plan import Origin, Plan, StopReason
from tailwise.search.policy_mixin import PolicyMixin
from tailwise.search.prior import Prior
from tailwise.search.saving import Checkpoint, save_search

Found = TypeVar("Found", bound=Plan)

_UNLIMITED = 2**62
_SLACK = 1.3  # of the time that a report took before, kept for the next
_FIRST_REPORT = 0.5  # seconds, that are kept for one whose time is not known, at most
_ALIKE = 2.0  # calls so many times as long are of another length: their reports do more
_AFTER_INTERRUPT = 3.0  # seconds, that a report may take after Ctrl-C
_SPARE = 0.04  # of the time of a call: growing trees are copied now and then


class AnytimeSearch(PolicyMixin, Generic[Found]):
    """A search of a model, rooted at a state and a step: :class:`tailwise.TreeSearch` and its relatives.

    One call at a time: a second thread that uses the same search waits for its turn.

    Attributes
    ----------
    model : TabularMDP or simulator
        The problem, or a view of it.
    """

    model: Any
    options: Any = None  # a frozen value, of searches that are made with one
    _binding: ModelInterface  # of the model: what its states and actions are
    _prior: Prior | None = None
    _stream: NDArray[np.uint64]  # the words of the random stream
    _turn: Turn
    _step: int
    _handle: int  # of the root's state
    _others: list[Any]  # trees that grow beside this one, from plan(threads=)
    _seed_text = ""  # the seed, in words
    _iterations_at = 0  # where the counters have the iterations
    _report_pace, _longest = Pace(memory=0.98), math.inf  # of reports in calls up to about so many seconds
    _report_share = 0.0  # of the time of a call, for its report, where none in a call of its length is known
    _allowed = math.inf  # seconds of the call
    _stop_at, _report_by = math.inf, math.inf  # when its iterations are to end, and when its report is to be there
    _ends_by_itself = False  # whether a call without a limit has an end

    # -------------------------------------------------------------------- root

    @property
    def step(self) -> int:
        """Step h of the root; equal to the horizon when no decision is left."""
        return self._step

    @property
    def state(self) -> Hashable:
        """State of the root."""
        return self._binding.state(self._handle)

    def fresh(self, seed: Seed = None) -> Self:
        """Return another search of the same model with the same options, a new seed and nothing found."""
        other = self._started(seed)
        other.reset()
        return other

    def _started(self, seed: Seed) -> Self:
        """Return an equal search with a random stream and a binding of its own, which must then be rooted."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._start(seed)
        return other

    def reset(self, state: Any = None, step: int = 0) -> None:
        """Forget what was found and start afresh.

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
        h = integer(step, "step", low=0, high=int(self.model.horizon) - 1)
        with self._turn:
            self._root_at(self._binding.handle(self.model.start if state is None else state), h)

    def advance(self, action: Any, state: Any) -> None:
        """Re-root after ``action`` was taken and ``state`` was observed.

        What was found and still matters is kept, at the right risk level; the rest is freed, below a large tree bit by
        bit as the search goes on.

        Raises
        ------
        StateError
            If the action is not allowed here, or the model has no such state.
        OptionError
            If the horizon was reached already.
        """
        with self._turn:
            self.require_decision()
            for one in self._trees:
                one._follow(action, state)

    def _follow(self, action: Any, state: Any) -> None:
        position = position_of(self._binding, self._handle, action)
        handle, h = self._binding.handle(state), self._step + 1
        if h == int(self.model.horizon):
            self._step, self._handle = h, handle
        else:
            self._move_root(position, handle, h)

    def require_decision(self) -> None:
        """Raise ``OptionError`` if the horizon is reached."""
        if self._step >= self.model.horizon:
            raise OptionError(f"no decision is left: step {self._step} is the horizon; call reset() to start again")

    # ---------------------------------------------------------------- planning

    def plan(
        self,
        iterations: int | None = None,
        seconds: float | None = None,
        *,
        threads: int = 1,
        until: Callable[[Any], bool] | None = None,
        progress: PlanProgress = None,
        checkpoint: str | Path | None = None,
        every: float = 60.0,
    ) -> Found:
        """Search on from what is known, and report. May be called again to continue.

        Parameters
        ----------
        iterations : int, optional
            Number of iterations to run, in all; what one is, the search says.
        seconds : float, optional
            Wall time of the call, its report included (but not what is compiled first); whichever limit comes first
            ends it.
        threads : int, default 1
            Trees to grow side by side, a thread for each, whose root statistics are merged exactly. The first is the
            one that one thread would grow, the k-th after it has the k-th child of the search's seed, and the
            iterations are divided evenly: the result depends on seed and ``threads``, never on timing. The trees stay
            with the search: ``advance`` re-roots each; a later plan with fewer threads goes on with the first of them
            and reports all, one with more plants new ones at the root. Searches of other kinds, and of models in plain
            Python, keep to one thread; the plan's ``notes`` say so.
        until : callable, optional
            Called with the plan so far about every 50 ms; a true result ends the call.
        progress : bool or callable, optional
            True shows a bar; a function is called with (iterations done, seconds used) about every 50 ms.
        checkpoint : str or Path, optional
            File to which the search is saved as it goes on, and at the end. Where it holds this very call already, the
            call goes on from there, to the result of one that was never interrupted: a script that was killed is run
            again as it is. Iterations count from the call's beginning, ``seconds`` anew. A file that holds anything
            else is refused and left alone. It needs a seed.
        every : float, default 60.0
            Seconds between two writings of the checkpoint.

        Returns
        -------
        Plan
            Ctrl-C ends the call early and still returns what is known.

        Raises
        ------
        OptionError
            If no limit is given, a limit is not positive, the horizon is reached, ``max_nodes`` or ``max_memory``
            leaves no room for a first iteration, or ``checkpoint`` holds another search.
        SimulatorError
            If the model fails; all is as it was before the failing iteration.
        FormatError
            If ``checkpoint`` holds something else, is damaged or cannot be written.
        """
        follow = followed_plan(progress, iterations, seconds)
        plan_limits(iterations, seconds, until, ends=self._ends_by_itself)
        if iterations is None and self._ends_by_itself and seconds is None and until is None:
            iterations = _UNLIMITED
        alone = self._single_thread_reason()
        notes = one_thread(threads, alone) if alone else ()
        count = 1 if alone else thread_count(threads)
        with self._turn.within(seconds):
            self.require_decision()
            begun, compiled = time.perf_counter(), compiling.seconds
            self._allowed = math.inf if seconds is None else seconds
            keeper = None if checkpoint is None else Checkpoint(self, checkpoint, every)
            before = [] if keeper is None else keeper.resume(count, iterations)
            trees = self._trees[:count] if before else self._working_trees(count)
            before = before or [one.counters().copy() for one in self._trees]
            counts = [functools.partial(one.done_since, old) for one, old in zip(trees, before, strict=False)]
            for k, one in enumerate(trees):
                one.prepare(None if iterations is None else (iterations + count - 1 - k) // count - counts[k]())
            begun += compiling.seconds - compiled

            def so_far(stopped: StopReason = StopReason.UNTIL) -> Found:
                return self._report(before, begun, stopped)

            left = None if seconds is None else self._left(seconds, begun)
            self._stop_at = math.inf if left is None else time.perf_counter() + left
            self._report_by = begun + self._allowed
            with SideBySide([one._run for one in trees], counts) as work, follow as told:
                if keeper is not None:
                    told = keeper.begin(work, before, told)
                stopped = run_anytime(
                    work.run,
                    work.done,
                    iterations=iterations,
                    seconds=left,
                    until=None if until is None else lambda: until(so_far()),
                    progress=told,
                    first_chunk=self._first_chunk() * count,
                )
            if keeper is not None:
                keeper.save()
            ended = time.perf_counter()
            if stopped is StopReason.INTERRUPTED:  # whoever pressed Ctrl-C waits
                self._allowed = min(self._allowed, _AFTER_INTERRUPT)
                self._report_by = ended + self._allowed
            plan = so_far(work.reason or stopped if stopped is StopReason.ITERATIONS else stopped)
            why = f"{self.reason}; {plan.reason}" if self.reason and plan.reason else self.reason
            if self.reason:  # who chose should hear of it
                notes += tuple(note for note in getattr(self.model, "notes", ()) if note.startswith(AS_IF_SEEN))
            found: dict[str, Any] = {"planner": self.kind if self.reason else "", "reason": why}
            self._note_report(seconds, time.perf_counter() - ended)
            return dataclasses.replace(plan, notes=plan.notes + notes, origin=self.plan_origin(), **found)

    def _left(self, seconds: float, begun: float) -> float:
        """Return the time that is left for iterations: a plan is reported within ``seconds`` too."""
        used = time.perf_counter() - begun
        is_known = seconds <= _ALIKE * self._longest and self._report_pace.seconds > 0.0
        share = min(self._report_share * seconds, _FIRST_REPORT)
        kept = min(_SLACK * self._report_pace.seconds, seconds / 2.0) if is_known else share
        return max((1.0 - _SPARE) * seconds - used - kept, 1e-9)

    def _note_report(self, seconds: float | None, took: float) -> None:
        if seconds is None and self._longest < math.inf:
            return  # in its own time a report may take longer
        if seconds is not None and not seconds <= _ALIKE * self._longest < math.inf:
            self._report_pace, self._longest = dataclasses.replace(self._report_pace, seconds=0.0), seconds
        self._report_pace = self._report_pace.after(took)

    def done_since(self, before: NDArray[np.int64]) -> int:
        """Return the iterations done since the counters were ``before``."""
        return int(self.counters()[self._iterations_at] - before[self._iterations_at])

    def plan_origin(self) -> Origin:
        """Return what a plan's report says of where it comes from: all options, those that were not given too."""
        settings = self.get_params() | (vars(self.options) if self.options is not None else {})
        settings.pop("options", None)
        return Origin(self.problem, settings, self._seed_text)

    # ------------------------------------------------------ copying and saving

    def state_dict(self) -> dict[str, object]:
        """Return all that was found, and where the random stream stands: plain values, and arrays of their own.

        With the model and :meth:`get_params` it is all that makes a search: one of the same parameters that loads it
        (:meth:`load_state_dict`) has the same future, bit for bit. A subclass with a state of its own extends both.
        """
        with self._turn.or_mine():
            return {
                "made_as": (self.kind, self.reason),
                "trees": [
                    {
                        "stream": one._stream.copy(), "seed": one._seed_text, "step": one._step, "handle": one._handle,
                        **one._found(),
                    }
                    for one in self._trees
                ]
            }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Know what another search of the same parameters knew: what its :meth:`state_dict` returned, taken over.

        Raises
        ------
        ValueError, TypeError, LookupError, AttributeError
            If it is of another kind of search.
        """
        with self._turn.or_mine():
            self.kind, self.reason = state["made_as"]
            self._others = [self._started(0) for _ in state["trees"][1:]]
            for one, found in zip(self._trees, state["trees"], strict=True):
                stream = found["stream"]
                if stream.dtype != np.uint64 or stream.shape != one._stream.shape:
                    raise ValueError("the random stream has another form")
                one._load_found(found)
                one._stream[:], one._seed_text = stream, found["seed"]
                one._step, one._handle = found["step"], found["handle"]

    def require_portable(self) -> None:
        """Raise ``SimulatorError`` if a file cannot hold one of the states that are known; names it."""
        for one in self._trees:
            one._binding.require_portable()

    def save(self, path: str | Path) -> Path:
        """Write the search to a file, for :func:`tailwise.load_search`; it is there as a whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file; one that is there is replaced, when its successor is complete.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        FormatError
            If it cannot be written.
        SimulatorError
            If a state of the simulator cannot be kept in a file; names it.
        OptionError
            If an option cannot be kept in a file and is no function.
        """
        target = file_path(path)
        with self._turn:
            save_search(self, target)
        return target

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return an independent search with the same future; the model is shared."""
        other = self._started(0)
        memo[id(self)] = other
        other.load_state_dict(self.state_dict())
        return other

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied in part: it holds compiled code and a live random "
            "stream; copy.deepcopy(search) gives an independent copy in this process, search.save(path) one that lasts"
        )

    # ------------------------------------------------ what a kind of search adds

    def _single_thread_reason(self) -> str:
        """Return why the search keeps to one thread; empty where it does not."""
        return f"{type(self).__name__} keeps to one"

    @property
    def _trees(self) -> list[Self]:
        """The trees of the search, this one first."""
        return [self, *self._others]

    def _working_trees(self, count: int) -> list[Self]:
        """Return the first ``count`` trees, made where they are missing: those that work in a call."""
        return [self]

    def _bind(self, rng: np.random.Generator, options: SimulationOptions) -> None:
        """Take the parts of :meth:`_start`, of a search that samples."""
        self._rng, self._seed_text = rng, seed_text(rng)
        self._binding = bind(self.model, rng, options)
        self._prior = None if options.prior_policy is None else Prior(options.prior_policy, self.model, self._binding)
        self._stream = stream_words(rng) if self._binding.draws else own_words(rng)
        self._turn, self._others = Turn(), []

    @contextmanager
    def _compiling(self) -> Iterator[None]:
        """Around what compiles kernels; before, the user's functions are tried at the root: their errors come first."""
        if self._prior is not None:
            self._prior.weights(self._handle, self._step)
        self._binding.try_out(self._handle, self._step)
        with compile_notice():
            yield

    def _fail(self, handle: int, position: int) -> NoReturn:
        """Raise the error behind a failed iteration; position -1: no action was involved."""
        if self._prior is not None:
            self._prior.fail()
        self._binding.fail(handle, position, self._step)

    def refuse(self, stopped: StopReason) -> NoReturn:
        """Say that a bound leaves no room to begin."""
        bound = f"{stopped.value}={getattr(self.options, stopped.value)}"
        raise OptionError(f"{bound} leaves no room for a first iteration; raise it")

    def _start(self, seed: Seed) -> None:
        """Take a turn, a random stream and a model interface of its own, and no other trees."""
        raise NotImplementedError

    def _found(self) -> dict[str, Any]:
        """Return all that was found: plain values for :mod:`tailwise._values`, and copies of arrays."""
        raise NotImplementedError

    def _load_found(self, found: dict[str, Any]) -> None:
        """Know what :meth:`_found` of an equal search returned, and keep its arrays."""
        raise NotImplementedError

    def _root_at(self, handle: int, step: int) -> None:
        """Forget everything and root the search at a state and a step."""
        raise NotImplementedError

    def _move_root(self, position: int, handle: int, step: int) -> None:
        """Root the search at the state to which the action at ``position`` led."""
        raise NotImplementedError

    def prepare(self, iterations: int | None) -> None:
        """Compile and make room, before the clock starts."""
        raise NotImplementedError

    def counters(self) -> NDArray[np.int64]:
        """Return what has been counted so far, iterations among it."""
        raise NotImplementedError

    def _first_chunk(self) -> int:
        """Return the number of iterations to begin with: few where one may be slow."""
        return int(self._binding.first_chunk)

    def _run(self, iterations: int) -> StopReason | None:
        """Run one chunk; return a reason to stop, if there is one."""
        try:
            return self._grow_by(iterations)
        finally:
            self._binding.budget = math.inf  # a state that the search is rooted at is known whatever it takes

    def _grow_by(self, iterations: int) -> StopReason | None:
        """Run so many iterations; grow what ran out of room; return a reason to stop, if there is one."""
        raise NotImplementedError

    def _report(self, before: list[NDArray[np.int64]], begun: float, stopped: StopReason) -> Found:
        """Say what was found since the counters were ``before``: those of each tree."""
        raise NotImplementedError
