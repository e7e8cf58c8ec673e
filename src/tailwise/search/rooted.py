"""What all searches share: a root that moves with the episode, and planning at any time from there."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tailwise._progress import PlanProgress, followed_plan
from tailwise._random import Seed
from tailwise._validate import integer, thread_count
from tailwise.bindings import position_of
from tailwise.errors import OptionError
from tailwise.search.acting import ActsByPlanning
from tailwise.search.anytime import Turn, one_thread, run_anytime
from tailwise.search.checkpoint import Checkpoint
from tailwise.search.plan import Origin, Plan, StopReason
from tailwise.search.saved import save_search
from tailwise.search.side_by_side import SideBySide

Found = TypeVar("Found", bound=Plan)

_UNLIMITED = 2**62


class RootedSearch(ActsByPlanning, Generic[Found]):
    """A search of a model, rooted at a state and a step: :class:`tailwise.TreeSearch` and its relatives.

    One call at a time: a second thread that uses the same search waits for its turn.

    Attributes
    ----------
    model : TabularMDP or simulator
        The problem, or a view of it.
    """

    model: Any
    _binding: Any  # of the model: what its states and actions are
    _stream: NDArray[np.uint64]  # the words of the random stream
    _turn: Turn
    _step: int
    _handle: int  # of the root's state
    _iterations_at = 0  # where the counts have the iterations
    _seed_text = ""  # the seed, in words
    _ends_by_itself = False  # whether a call without a limit has an end

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
        """Return another search of the same model with the same options, a new seed and nothing found."""
        other = self._twin()
        other._seat(seed)
        other.reset()
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
            self._begin(self._binding.handle(self.model.start if state is None else state), h)

    def advance(self, action: Any, state: Any) -> None:
        """Re-root after ``action`` was taken and ``state`` was observed.

        What was found and still matters is kept, at the right risk level; the rest is freed.

        Raises
        ------
        StateError
            If the action is not allowed here, or the model has no such state.
        OptionError
            If the horizon was reached already.
        """
        with self._turn:
            self._require_decision()
            for one in self._members():
                one._follow(action, state)

    def _follow(self, action: Any, state: Any) -> None:
        position = position_of(self._binding, self._handle, action)
        handle, h = self._binding.handle(state), self._step + 1
        if h == int(self.model.horizon):
            self._step, self._handle = h, handle
        else:
            self._move(position, handle, h)

    def _require_decision(self) -> None:
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
            Wall time to use; whichever limit comes first ends the call.
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
        if iterations is not None:
            integer(iterations, "iterations", low=1)
        elif self._ends_by_itself and seconds is None and until is None:
            iterations = _UNLIMITED
        alone = self._why_one_thread()
        notes = one_thread(threads, alone) if alone else ()
        count = 1 if alone else thread_count(threads)
        with self._turn:
            self._require_decision()
            keeper = None if checkpoint is None else Checkpoint(self, checkpoint, every)
            before = [] if keeper is None else keeper.resume(count, iterations)
            team = self._members()[:count] if before else self._team(count)
            before = before or [one._counts().copy() for one in self._members()]
            counts = [functools.partial(one._done_since, old) for one, old in zip(team, before, strict=False)]
            for k, one in enumerate(team):
                one._prepare(None if iterations is None else (iterations + count - 1 - k) // count - counts[k]())
            begun = time.perf_counter()

            def so_far(stopped: StopReason = StopReason.UNTIL) -> Found:
                return self._report(before, begun, stopped)

            with SideBySide([one._run for one in team], counts) as work, follow as told:
                if keeper is not None:
                    told = keeper.begin(work, before, told)
                stopped = run_anytime(
                    work.run,
                    work.done,
                    iterations=iterations,
                    seconds=seconds,
                    until=None if until is None else lambda: until(so_far()),
                    progress=told,
                    first_chunk=self._first_chunk() * count,
                )
            if keeper is not None:
                keeper.save()
            plan = so_far(work.reason or stopped if stopped is StopReason.ITERATIONS else stopped)
            object.__setattr__(plan, "origin", Origin(self.model, self._recipe(), self._seed_text))  # it is new
            return dataclasses.replace(plan, notes=notes) if notes else plan

    def _done_since(self, before: NDArray[np.int64]) -> int:
        return int(self._counts()[self._iterations_at] - before[self._iterations_at])

    # ------------------------------------------------------ copying and saving

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
        target = Path(path).expanduser()
        with self._turn:
            save_search(self, target)
        return target

    def _twin(self) -> Self:
        """Return an object with the same attributes, which must then be seated and get memory of its own."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return an independent search with the same future; the model is shared."""
        other = self._twin()
        memo[id(self)] = other
        with self._turn:
            other._seat(0)
            other._stream[:] = self._stream
            other._inherit(self, memo)
            other._seed_text = self._seed_text
        return other

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied in part: it holds compiled code and a live random "
            "stream; copy.deepcopy(search) gives an independent copy in this process, search.save(path) one that lasts"
        )

    # ------------------------------------------------ what a kind of search adds

    def _why_one_thread(self) -> str:
        """Return why the search keeps to one thread; empty where it does not."""
        return f"{type(self).__name__} keeps to one"

    def _members(self) -> list[Self]:
        """Return the trees of the search, this one first."""
        return [self]

    def _enrol(self, count: int) -> list[Self]:
        """Return as many trees as a file says there are, which must then recall theirs."""
        if count != 1:
            raise ValueError(f"a {type(self).__name__} of {count} trees")
        return [self]

    def _team(self, count: int) -> list[Self]:
        """Return the first ``count`` trees, made where they are missing: those that work in a call."""
        return [self]

    def _seat(self, seed: Seed) -> None:
        """Take a turn, a random stream and a model interface of its own."""
        raise NotImplementedError

    @property
    def _problem(self) -> Any:
        """The user's model, of which ``model`` may be a view."""
        return self.model

    def _recipe(self) -> dict[str, Any]:
        """Return the options that the search was made with, by name."""
        raise NotImplementedError

    @classmethod
    def _remade(cls, model: Any, recipe: dict[str, Any]) -> Self:
        """Return a search of the user's model that has found nothing, with the options of a recipe."""
        raise NotImplementedError

    def _memory(self) -> dict[str, Any]:
        """Return all that was found, as values for :mod:`tailwise._values`."""
        raise NotImplementedError

    def _recall(self, memory: dict[str, Any]) -> None:
        """Know what another search of the same recipe knew: what :meth:`_memory` returned."""
        raise NotImplementedError

    def _begin(self, handle: int, step: int) -> None:
        """Forget everything and root the search at a state and a step."""
        raise NotImplementedError

    def _move(self, position: int, handle: int, step: int) -> None:
        """Root the search at the state to which the action at ``position`` led."""
        raise NotImplementedError

    def _inherit(self, other: Self, memo: dict[int, Any]) -> None:
        """Take copies of what ``other`` found."""
        raise NotImplementedError

    def _prepare(self, iterations: int | None) -> None:
        """Compile and make room, before the clock starts."""
        raise NotImplementedError

    def _counts(self) -> NDArray[np.int64]:
        """Return what has been counted so far, iterations among it."""
        raise NotImplementedError

    def _first_chunk(self) -> int:
        """Return the number of iterations to begin with: few where one may be slow."""
        return int(self._binding.first_chunk)

    def _run(self, iterations: int) -> StopReason | None:
        """Run one chunk; return a reason to stop, if there is one."""
        raise NotImplementedError

    def _report(self, before: list[NDArray[np.int64]], begun: float, stopped: StopReason) -> Found:
        """Say what was found since the counts were ``before``: those of each member."""
        raise NotImplementedError
