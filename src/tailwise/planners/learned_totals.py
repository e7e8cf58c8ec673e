"""Search for an aim about the whole total, by a learned model: what CvarMcts and DistributionalMcts share.

What sampling knows of a model, outcome counts that all steps share (:mod:`tailwise.search.learned`), is a table. On it
the plan of least mean of any function of the total is found exactly, on pairs (state, accrued cost). A tree on
accrued cost would have to meet each pair often enough by itself; here it is enough to know each action of each state.
So the error that is left is that of the counts.

A part of the episodes is led by the entropic risk, in the compiled search, whose scouts see to it that no action is
forgotten. The rest is Thompson sampling by the bootstrap: the counts of each outcome are drawn again, from the
Dirichlet distribution that they leave possible, the aim is solved under what comes out, and a few episodes follow that
plan. So samples go to what may be the best plan and to nothing else.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tailwise._progress import PlanProgress, followed_plan
from tailwise._random import Seed, seed_sequence
from tailwise._validate import integer, real
from tailwise.errors import OptionError
from tailwise.exact import Policy
from tailwise.exact.totals import Floats, reach_totals
from tailwise.models import TabularMDP
from tailwise.models.accrued import known_cost
from tailwise.planners.learned_table import LearnedPolicy, LearnedTable, draw_outcome, learned_table, terminal_costs
from tailwise.risk import Expectation
from tailwise.risk.distribution import ReturnDistribution
from tailwise.risk.intervals import Interval
from tailwise.search import ActionRow, Plan, StopReason
from tailwise.search.anytime import Turn, one_thread
from tailwise.search.learned import LearnedOptions, LearnedSearch
from tailwise.search.policy_mixin import PolicyMixin

_PILOT = 256  # episodes at beta 0
_ROUNDS, _LATER, _SHARE = 12, 3, 16  # replicates that a first and a later plan follow; fewest episodes of each
_WORK, _SOLVES = 0.025, 30  # of what an exact plan may take, and of which number of solves
_ROUGH, _FEW_SOLVES = 0.0025, 10  # the same for a replicate
_TIE = 1e-6  # of plans that are equal in the aim, the one of least mean
_METHOD = "learned model, solved for the whole total"
_ANY = Interval(-math.inf, math.inf)
MEANING = (
    "none is given: what a plan is worth under what was learned is no sample, and somewhat too good; "
    "evaluate(model, plan, episodes=...) plays it on fresh episodes, with intervals ('tailwise evaluate' in the shell)"
)
NO_RETURN = (
    "states do not come back, so that what was learned is a tree of single samples: trust the action sooner than the "
    "value; make states coarser, or give widening="
)

Aim = Callable[[Floats], Floats]  # from totals of the whole episode, in the model's sense, to what is to be least


class LearnedTotals(PolicyMixin):
    """A planner for an aim about the total; its subclasses say which. One call at a time, as for every search.

    Numbers of its plans count the whole episode. ``value`` is what the plan is worth under what was learned: somewhat
    too good, as the best of many estimates is. The rows say the same of each action (as ``erm``), with the distribution
    of the total if the best is done for the same aim afterwards; ``visits`` are an action's draws here at any step.
    ``beta`` led the sampling; intervals are not given. ``Plan.act`` says later actions, from state, step and what was
    paid so far.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem, used as a black box: it is sampled and nothing else.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    options : LearnedOptions
        How to sample.
    """

    def __init__(self, model: Any, options: LearnedOptions, *, seed: Seed = None) -> None:
        self.model, self._turn = model, Turn()
        one, two = seed_sequence(seed).spawn(2)
        self._search = LearnedSearch(model, options, seed=one)
        self._search.bootstraps = False
        self._rng = np.random.default_rng(two)
        self._accrued, self._is_led = 0.0, False
        self._kept: Any = None

    @property
    def state(self) -> Any:
        """State of the root."""
        return self._search.state

    @property
    def step(self) -> int:
        """Step of the root."""
        return self._search.step

    @property
    def accrued(self) -> float:
        """Discounted cost (or reward) paid before the root."""
        return self._accrued

    def advance(self, action: Any, state: Any, *, cost: float | None = None) -> None:
        """Move on after a real step; the aim stays, and what was learned.

        Parameters
        ----------
        action, state
            What was done, and the state that was observed.
        cost : float, optional
            What the step cost (or earned), not discounted. On a table it is needed only where two outcomes of the
            action lead to this state at different costs, on a simulator always.
        """
        with self._turn:
            h = self.step
            paid = known_cost(self.model, self.state, action, state, h) if cost is None else real(cost, "cost")
            self._search.advance(action, state)
            self._accrued += float(self.model.discount) ** h * paid

    def reset(self, state: Any = None, step: int = 0, *, accrued: float = 0.0) -> None:
        """Start a new episode, anywhere, and forget what was learned; ``accrued`` was paid before (discounted)."""
        paid = real(accrued, "accrued")
        with self._turn:
            self._search.reset(state, step)
            self._search.retarget(0.0)
            self._accrued, self._is_led, self._kept = paid, False, None

    # ------------------------------------------------------------- the units of totals

    @property
    def _sign(self) -> float:
        return 1.0 if self.model.sense == "cost" else -1.0

    @property
    def _scale(self) -> float:
        """What an inner cost from the root on is to be multiplied with, to add to the whole total."""
        return self._sign * float(self.model.discount) ** self.step

    def _whole(self, totals: Any) -> Any:
        """Return totals of the whole episode, in the model's sense, from inner costs from the root on."""
        return self._accrued + self._scale * totals

    def _rest(self, totals: Any) -> Any:
        """Return inner costs from the root on, from totals of the whole episode."""
        return (totals - self._accrued) / self._scale

    # ------------------------------------------------------------- sampling and solving

    def _leading_beta(self, std: float) -> float:
        """Return the beta that is to lead the sampling, for a standard deviation of the totals from the root on."""
        raise NotImplementedError

    def _choose(self, graph: Any, solves: int) -> Aim:
        """Return the aim that is best under what was learned, where the episode has none yet, in so many solves."""
        raise NotImplementedError

    def _worth(self, aim: Any, totals: Floats, weights: Floats) -> float:
        """Return what a law of the whole total, in the model's own sense, is worth."""
        raise NotImplementedError

    def _said(self, aim: Any) -> dict[str, Any]:
        """Return what a plan says of its objective: fields of :class:`tailwise.Plan`."""
        raise NotImplementedError

    def plan(
        self,
        iterations: int | None = None,
        seconds: float | None = None,
        *,
        threads: int = 1,
        until: Callable[[Any], bool] | None = None,
        progress: PlanProgress = None,
    ) -> Any:
        """Sample episodes from the root, and solve what was learned; the first plan of an episode also fixes the aim.

        Parameters
        ----------
        iterations : int, optional
            Episodes to sample.
        seconds : float, optional
            Wall time for sampling; solving takes some more.
        threads : int, default 1
            It keeps to one thread; the plan's ``notes`` say so where more were wanted.
        until : callable, optional
            Called with the plan so far about every 50 ms of the first half of the sampling; a true result ends it.
        progress : callable, optional
            As for :meth:`tailwise.LearnedModelSearch.plan`.
        """
        if iterations is None and seconds is None and until is None:
            raise OptionError("plan needs a limit: iterations=, seconds= or until=")
        wanted = None if iterations is None else integer(iterations, "iterations", low=1)
        if seconds is not None:
            seconds = real(seconds, "seconds", low=0.0, low_open=True)
        more = one_thread(threads, f"{type(self).__name__} keeps to one")
        with self._turn, followed_plan(progress, wanted, seconds) as watch:
            begun = time.perf_counter()
            plan, stopped = self._sampled(wanted, seconds, until, watch, begun)
        used, notes = time.perf_counter() - begun, (*plan.notes, *more)
        return dataclasses.replace(plan, seconds=used, stopped=stopped, notes=notes)

    def _sampled(
        self,
        wanted: int | None,
        seconds: float | None,
        until: Callable[[Any], bool] | None,
        watch: Callable[[int, float], None] | None,
        begun: float,
    ) -> tuple[Any, StopReason]:
        """Sample and solve; return the plan, and why it stopped."""
        search = self._search
        done = steps = 0

        def told(played: int, _: float = 0.0) -> None:
            if watch is not None:
                watch(done + played, time.perf_counter() - begun)

        if not self._is_led and (wanted is None or wanted >= 8):
            pilot = search.plan(_PILOT if wanted is None else min(_PILOT, wanted // 8), _part(seconds, 8.0))
            std = float(np.std(np.concatenate([pilot.samples(row.action) for row in pilot.rows])))
            search.retarget(self._leading_beta(std) / abs(self._scale) if std > 0.0 else 0.0)
            done, steps, self._is_led = pilot.iterations, pilot.simulator_steps, True
        asked = None if until is None else lambda plan: until(self._report(plan)[0])
        half = None if wanted is None else max(1, wanted // 2 - done)
        found = search.plan(half, _part(seconds, 2.0), until=asked, progress=told)
        done, steps = done + found.iterations, steps + found.simulator_steps
        ended = begun + seconds if seconds is not None else math.inf
        if found.stopped in (StopReason.ITERATIONS, StopReason.SECONDS):
            left = math.inf if wanted is None else wanted - done
            played, more = self._follow_replicates(left, ended, told)
            done, steps = done + played, steps + more
        plan, self._kept = self._report(found)
        stopped = found.stopped
        if stopped == StopReason.SECONDS and wanted is not None and done >= wanted:
            stopped = StopReason.ITERATIONS
        elif stopped == StopReason.ITERATIONS and wanted is not None and done < wanted:
            stopped = StopReason.SECONDS
        return dataclasses.replace(plan, iterations=done, simulator_steps=steps), stopped

    def _graph(self, mdp: TabularMDP, work: float = _WORK) -> Any:
        return reach_totals(mdp, work=work, every_action=True)

    def _solved(self, graph: Any, aim: Aim) -> Any:
        """Return the choices of the plan of least mean of ``aim``."""
        points = graph.all_totals()
        unit = float(np.ptp(aim(self._whole(points)))) / (float(np.ptp(points)) or 1.0)
        return graph.minimise(lambda x: aim(self._whole(x)) + _TIE * unit * x)[1]

    def _follow_replicates(self, episodes: float, ended: float, told: Callable[[int], None]) -> tuple[int, int]:
        """Thompson sampling: play by the best plans under counts drawn again; return (episodes, steps)."""
        done = steps = 0
        rounds = _ROUNDS if self._kept is None else _LATER
        share = int(min(max(math.ceil(episodes / rounds), _SHARE) if episodes < math.inf else _SHARE, 64 * _SHARE))
        while done < episodes and time.perf_counter() < ended:
            table = learned_table(self._search)
            graph = self._graph(table.redrawn(self._rng), _ROUGH)
            aim = self._kept or self._choose(graph, _FEW_SOLVES)
            batch = int(min(share, episodes - done))
            steps += self._play(self._policy(table, graph, self._solved(graph, aim)), batch)
            done += batch
            told(done)
        return done, steps

    def _policy(self, table: LearnedTable, graph: Any, chosen: Any) -> LearnedPolicy:
        plan = Policy(Expectation(), table.mdp, 0.0, graph=graph, chosen=chosen)
        return LearnedPolicy(self._search, table, plan, self.step, self._accrued)

    def _play(self, policy: LearnedPolicy, episodes: int) -> int:
        """Play episodes from the root by a policy, count what happens, and return the steps taken."""
        search, model, rng = self._search, self.model, self._rng
        horizon, discount, end = int(model.horizon), float(model.discount), terminal_costs(search)
        arity: dict[int, int] = {}
        notes: list[tuple[int, int, int, int, int, float]] = []
        for _ in range(episodes):
            handle, paid, factor = search._handle, 0.0, 1.0
            for h in range(self.step, horizon):
                if handle not in arity:
                    arity[handle] = len(search._binding.actions(handle))
                position = policy.position(handle, h, paid)
                if position is None:
                    position = int(rng.integers(arity[handle]))
                target, cost, offset, done = draw_outcome(search, handle, position, h, rng)
                paid += factor * (cost + offset)
                factor *= discount
                if not done and h + 1 == horizon:  # as the compiled search counts it
                    cost, done = cost + discount * end(target), True
                notes.append((h, handle, arity[handle], position, -1 if done else target, cost))
                if done:
                    break
                handle = target
        search.note(notes)
        return len(notes)

    def _report(self, found: Any) -> tuple[Plan, Aim]:
        """Return the plan under what was learned, and its aim; ``found`` is the search's own."""
        table = learned_table(self._search)
        graph = self._graph(table.mdp)
        aim = self._kept or self._choose(graph, _SOLVES)
        chosen = self._solved(graph, aim)
        rows: list[ActionRow] = []
        known = {int(table.mdp.action_ids[row]): row for row in range(table.mdp.action_offsets[1])}
        draws = [table.draws(known[k]) if k in known else 0 for k in range(len(found.rows))]
        for k, row in enumerate(found.rows):
            start = row.action, row.label, draws[k], draws[k] / sum(draws)
            if k not in known:
                rows.append(ActionRow(*start, *(math.nan,) * 5, _ANY))
                continue
            totals, weights = graph.law([np.array([known[k]]), *chosen[1:]])
            totals = self._whole(totals)
            if self._scale < 0.0:
                totals, weights = totals[::-1], weights[::-1]
            mean = float(np.dot(weights, totals))
            std = math.sqrt(max(0.0, float(np.dot(weights, (totals - mean) ** 2))))
            low, high = float(totals[0]), float(totals[-1])
            value = self._worth(aim, totals, weights)
            found_law = ReturnDistribution(totals, weights, self.model.sense)
            rows.append(ActionRow(*start, value, mean, std, low, high, _ANY, distribution=found_law))
        first = rows[int(table.mdp.action_ids[int(chosen[0][0])])]
        plan = dataclasses.replace(
            found, action=first.action, label=first.label, value=first.erm, rows=tuple(rows), method=_METHOD,
            interval_meaning=MEANING, totals=(), notes=() if found.states_recur else (NO_RETURN,), pursued=str(aim),
            accrued=self._accrued, policy=self._policy(table, graph, chosen), **self._said(aim),
        )  # fmt: skip
        return plan, aim


def _part(seconds: float | None, of: float) -> float | None:
    return None if seconds is None else seconds / of
