"""The exact optimum as a planner.

Backward induction answers every decision of a table at once, so that a planner has nothing left to search for: it
looks its action up. With its iterations it plays episodes under the optimal policy, for the distribution of the
total. The policy alone is :class:`tailwise.planners.ExactPolicy`.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import borrowed, kernel
from tailwise._progress import PlanProgress, Progress, followed_plan
from tailwise._random import Seed, generator, seed_text, stream_words
from tailwise._validate import integer, real, thread_count
from tailwise.bindings.table import draw_outcome
from tailwise.errors import OptionError, StateError
from tailwise.exact.backward_induction import Solution
from tailwise.models import TabularMDP
from tailwise.models.simulator import action_label
from tailwise.planners.exact_policy import ExactPolicy
from tailwise.risk.intervals import Interval
from tailwise.search import ActionRow
from tailwise.search.anytime import Turn
from tailwise.search.plan import Origin, Plan, StopReason
from tailwise.search.policy_mixin import PolicyMixin

_MOST_SAMPLES = 65_536
_CHUNK_STEPS = 2**21  # played between two looks at the clock
_FIRST_STEPS = 2**13  # the same where seconds are given, to begin with


class ExactPlanner(PolicyMixin):
    """Backward induction as a planner: exact values, and the distribution of the total by playing.

    Parameters
    ----------
    model : TabularMDP or simulator with ``outcomes(state, action)``
        The problem.
    beta : float
        Finite risk level at step 0 (1/cost): positive averse, 0 the mean, negative seeking.
    seed : None, int, SeedSequence or Generator
        Of the episodes that are played; the values and the action do not depend on it.
    max_states : int, default 100_000
        Most states of a simulator.
    threads : int, default 1
        Threads of the solution, which they do not change.

    Raises
    ------
    ModelError
        If the model does not list its outcomes, lists wrong ones, or has too many states.

    Notes
    -----
    O(H * outcomes) time and O(H * S) memory, once; copies by ``fresh`` share them. An iteration of ``plan`` is one
    episode that begins with one of the root's actions, each in turn, and goes on optimally.

    Examples
    --------
    >>> from tailwise import ExactPlanner, domains
    >>> plan = ExactPlanner(domains.make("mdp-4"), beta=0.5, seed=0).plan(iterations=1000)
    >>> plan.label, round(plan.value, 9), plan.row("safe").visits
    ('safe', 1.779207373, 500)
    """

    def __init__(
        self, model: Any, beta: float, *, seed: Seed = None, max_states: int = 100_000, threads: int = 1
    ) -> None:
        self.model = model
        self._whole = self._policy = ExactPolicy(model, beta, max_states=max_states, threads=threads)
        self.beta = self._whole.beta
        self._rng, self._turn = generator(seed), Turn()
        self.reset()

    @property
    def state(self) -> Any:
        """State of the root."""
        return self._state

    @property
    def step(self) -> int:
        """Step h of the root; equal to the horizon when no decision is left."""
        return self._step

    @property
    def table(self) -> TabularMDP:
        """The table that is solved: the model, or what a simulator's start can reach."""
        return self._policy.table

    @property
    def fixed_policy(self) -> Solution | ExactPolicy:
        """The optimal policy: what evaluation follows, without a plan at each step."""
        return self._whole.solution if isinstance(self.model, TabularMDP) else self._whole

    def fresh(self, seed: Seed = None) -> Self:
        """Return another planner at the model's start, with a new seed; it shares the solution."""
        other = copy.copy(self)
        other._rng, other._turn = generator(seed), Turn()
        other.reset()
        return other

    def reset(self, state: Any = None, step: int = 0) -> None:
        """Move the root to ``state`` (the model's start if not given) at ``step``, 0 to H - 1."""
        h = integer(step, "step", low=0, high=int(self.model.horizon) - 1)
        with self._turn:
            self._move(self.model.start if state is None else state, h)

    def advance(self, action: Any, state: Any) -> None:
        """Move the root to ``state``, which was observed after ``action`` was taken."""
        with self._turn:
            if self._step >= self.model.horizon:
                raise OptionError(f"the horizon ({self.model.horizon} steps) is reached; call reset() to start again")
            self._move(state, self._step + 1)

    def _move(self, state: Any, h: int) -> None:
        self._state, self._step, self._policy = state, h, self._whole
        if h == self.model.horizon:
            return
        try:
            self._root = self._policy.index(state, h)
        except StateError:
            if isinstance(self.model, TabularMDP):
                raise
            self._policy, self._root = self._whole.rooted(state), 0
        if isinstance(self.model, TabularMDP):
            self._state = self._root
        if not self._policy.table.actions(self._root).size:
            name = self.model.state_name(self._root)
            raise StateError(f"no action is allowed in state {name}; there is nothing to decide")

    def plan(
        self,
        iterations: int | None = None,
        seconds: float | None = None,
        *,
        threads: int = 1,
        until: Callable[[Plan], bool] | None = None,
        progress: PlanProgress = None,
    ) -> Plan:
        """Look the optimal action up, and play episodes for the distributions.

        Parameters
        ----------
        iterations : int, optional
            Number of episodes to play, over all actions: 65,536 if not given, and at most.
        threads : int, default 1
            Threads of the solution, where it has not been found yet; they do not change the result.
        seconds, until, progress : optional
            As for every planner. The answer does not depend on them: it is exact before the first episode.

        Returns
        -------
        Plan
            ``erm`` of each row is exact, and its interval a point; the other columns are of the episodes played.
        """
        number = min(_MOST_SAMPLES, integer(_MOST_SAMPLES if iterations is None else iterations, "iterations", low=1))
        allowed = math.inf if seconds is None else real(seconds, "seconds", low=0.0, low_open=True)
        with self._turn:
            if self._step >= self.model.horizon:
                raise OptionError(f"no decision is left: step {self._step} is the horizon; call reset() to start again")
            self._policy.threads = max(self._policy.threads, thread_count(threads))
            size = self._policy.table.actions(self._root).size
            totals = [np.empty((number - position + size - 1) // size) for position in range(size)]
            most = max(1, _CHUNK_STEPS // (size * int(self.model.horizon)))
            chunk = most if seconds is None else max(1, _FIRST_STEPS // (size * int(self.model.horizon)))
            self._play([part[:0] for part in totals])  # compile, and solve, before the clock is looked at
            begun, played, steps = time.perf_counter(), 0, 0
            stopped = StopReason.PROVEN
            try:
                with followed_plan(progress, number, None) as told:
                    while played < totals[0].size and stopped is StopReason.PROVEN:
                        steps += self._play([part[played : played + chunk] for part in totals])
                        played, chunk = played + chunk, min(most, 2 * chunk)
                        used = time.perf_counter() - begun
                        if told is not None:
                            told(min(number, played * size), used)
                        if used >= allowed:
                            stopped = StopReason.SECONDS
                        elif until is not None and until(
                            self._report([t[:played] for t in totals], steps, begun, stopped)
                        ):
                            stopped = StopReason.UNTIL
            except KeyboardInterrupt:
                stopped = StopReason.INTERRUPTED
            return self._report([part[:played] for part in totals], steps, begun, stopped)

    def _play(self, totals: list[NDArray[np.float64]]) -> int:
        """Fill the totals of some episodes through each action of the root; return the number of steps."""
        table, policy, steps = self._policy.table, self._policy.solution.policy, 0
        stream = stream_words(self._rng)
        for position, part in enumerate(totals):
            steps += play_policy(
                table.data, table.action_ids, policy, self._root, position, self._step, table.discount, stream, part
            )
        return steps

    def _report(self, totals: list[NDArray[np.float64]], steps: int, begun: float, stopped: StopReason) -> Plan:
        table, solution, h = self._policy.table, self._policy.solution, self._step
        values, ids = solution.action_values(h)[self._root], table.actions(self._root)
        samples = tuple(np.asarray(table.signed(part)) for part in totals)
        number = sum(part.size for part in samples)
        rows = tuple(
            self._row(int(action), float(values[action]), part, number)
            for action, part in zip(ids, samples, strict=True)
        )
        best = ids.tolist().index(solution.act(self._root, h))
        tied = solution.optimal_actions(h, self._root)
        return Plan(
            action=rows[best].action,
            label=rows[best].label,
            value=float(solution.values[h, self._root]),
            rows=rows,
            state=self._state,
            step=h,
            beta=self.beta,
            root_beta=self.beta * float(self.model.discount) ** h,
            sense=self.model.sense,
            iterations=number,
            simulator_steps=steps,
            nodes=int(solution.policy.size),
            bytes=int(solution.values.nbytes + solution.policy.nbytes),
            seconds=time.perf_counter() - begun,
            stopped=stopped,
            interval_meaning="the exact risk of the action, followed by optimal ones",
            totals=samples,
            method="backward induction",
            unit="episodes",
            lower=float(solution.values[h, self._root]),
            upper=float(solution.values[h, self._root]),
            proven=True,
            origin=Origin(
                self.model, {"beta": self.beta}, seed_text(self._rng), table=self._policy.table, root=self._root
            ),
            planner=self.kind if self.reason else "",
            reason=self.reason,
            optimal_actions=tuple(row.action for row, action in zip(rows, ids, strict=True) if action in tied),
        )

    def decision(self, progress: Progress = None) -> Plan:
        """Return the exact optimum of the root's decision without playing any episode.

        ``progress`` is as for :func:`tailwise.backward_induction`; it follows the solution, where that is found first.
        """
        self._policy.solve(progress)
        nothing = [np.empty(0)] * self._policy.table.actions(self._root).size
        return self._report(nothing, 0, time.perf_counter(), StopReason.PROVEN)

    def _row(self, action: int, value: float, totals: NDArray[np.float64], number: int) -> ActionRow:
        table = self._policy.table
        moments = (math.nan,) * 3 if not totals.size else (totals.mean(), totals.min(), totals.max())
        mean, low, high = (float(moment) for moment in moments)
        std = float(totals.std(ddof=1)) if totals.size > 1 and math.isfinite(mean) else math.nan
        named = self._policy.action(self._state, action)
        is_table = isinstance(self.model, TabularMDP)
        label = table.action_name(action) if is_table else action_label(self.model, named, self._state)
        return ActionRow(
            named, label, totals.size, totals.size / max(1, number), value, mean, std, low, high,
            Interval(value, value), lower=value, upper=value,
        )  # fmt: skip


@kernel
def play_policy(table, action_ids, policy, root, position, first_step, discount, stream, totals):  # type: ignore[no-untyped-def]
    """Fill ``totals`` with the costs of episodes that take the root's action ``position``, then ``policy`` (H, S).

    Return the number of steps. Totals are discounted to the root.
    """
    table = borrowed(table)
    steps = 0
    for k in range(totals.size):
        state, total, factor = root, 0.0, 1.0
        row = table.action_offsets[root] + position
        for h in range(first_step, policy.shape[0]):
            if h > first_step:
                if policy[h, state] < 0:  # no action is allowed: the root's value is infinite
                    state, total = -1, math.inf
                    break
                row = table.action_offsets[state]
                while action_ids[row] != policy[h, state]:
                    row += 1
            outcome = draw_outcome(table, row, stream)
            cost = table.losses[outcome]
            if table.step_losses.size:
                cost += table.step_losses[h, row]
            total += factor * cost
            factor *= discount
            steps += 1
            state = table.targets[outcome]
            if state < 0:
                break
        totals[k] = total if state < 0 else total + factor * table.terminal_losses[state]
    return steps


def neutral_planner(model: Any, beta: float, *, seed: Seed = None, **options: Any) -> ExactPlanner:
    """Return the exact planner for the mean, whatever the beta: what a planner that minds risk is held against."""
    return ExactPlanner(model, 0.0, seed=seed, **options)
