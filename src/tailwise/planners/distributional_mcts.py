r"""Distributional MCTS: the distribution of the whole total at each action, by search with a learned model.

After Hayes, Reymond, Roijers, Howley & Mannion (2023), the other algorithm that the paper compares itself to in words:
keep distributions of the total rather than means, take any utility or measure of them, and explore by following
bootstrap replicates. What differs: theirs keeps sampled totals in a tree over (state, accrued cost), where each node
learns by itself, and exploration stays in its averages; here what sampling knows of a model, transition counts that all
steps share (:mod:`tailwise.search.learned`), is a table. On it the plan of least mean of any function of the total is
found exactly, on pairs (state, accrued cost); :mod:`tailwise.planners.pursued` says which one an objective pursues. So
the error that is left is that of the counts.

A part of the episodes is led by the entropic risk, in the compiled search, which sees to it that no action is
forgotten. The rest is Thompson sampling by the bootstrap: the counts of each outcome are drawn again, from the
Dirichlet distribution that they leave possible, the objective is solved under what comes out, and a few episodes follow
that plan. So samples go to what may be the best plan and to nothing else.

The function that the first decision pursues is kept to the end of the episode, so that later decisions do not follow a
new aim.

For the CVaR, ``min over b of b + E[(X - b)+] / (1 - level)``, the best b is found with the plan. That of the first
decision is kept: a static objective is not chosen anew half-way.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np

from tailwise._arrays import Floats, inner
from tailwise._progress import PlanProgress, PlanTick, followed_plan
from tailwise._random import Seed, generator, seed_sequence
from tailwise._validate import real
from tailwise.bindings import SimulationOptions
from tailwise.bindings.python import PythonInterface
from tailwise.errors import OptionError
from tailwise.exact.grid_totals import Choices, GridTotals
from tailwise.exact.tails import Graph, check_level
from tailwise.exact.totals import reach_totals
from tailwise.models import TabularMDP
from tailwise.models.accrued import AccruedView, known_cost
from tailwise.planners.pursued import Episode, Pursued, Shortfall, asked, choose_pursued, worth
from tailwise.risk.distribution import ReturnDistribution
from tailwise.risk.objectives import (
    ERM,
    Budgeted,
    CVaR,
    EVaR,
    ExpectedUtility,
    NestedCVaR,
    Objective,
    Robust,
    as_objective,
)
from tailwise.search import ActionRow, Plan, StopReason
from tailwise.search.action_rows import UNBOUNDED
from tailwise.search.anytime import Pace, Turn, compile_notice, one_thread, plan_limits
from tailwise.search.learned import LearnedKeywords, LearnedOptions, LearnedPolicy, LearnedSearch, LearnedTable
from tailwise.search.policy_mixin import PolicyMixin

_PILOT = 256  # episodes at beta 0
_ROUNDS, _LATER, _SHARE = 12, 3, 16  # replicates that a first and a later plan follow; fewest episodes of each
_WORK, _SOLVES = 0.025, 30  # of what an exact plan may take, and of which number of solves
_ROUGH, _FEW_SOLVES = 0.0025, 10  # the same for a replicate
_SLACK, _REPORTS, _FEWEST_SOLVES = 1.3, 3.0, 3  # of the time of a report, kept; the part of a call that one may take
_MOST_KEPT, _GUESS, _WHOLE = 0.7, 0.1, 1.25  # the most that is kept; seconds of the first; a call without haste
_LEAST = 1e-3  # share, below which no grid is coarser
_AN_OUTCOME = 3e-6  # seconds, before any was timed
_METHOD = "learned model, solved for the whole total"
MEANING = (
    "none is given: what a plan is worth under what was learned is no sample, and somewhat too good; "
    "evaluate(model, plan, episodes=...) plays it on fresh episodes, with intervals ('tailwise evaluate' in the shell)"
)
NO_RETURN = (
    "states do not come back, so that what was learned is a tree of single samples: trust the action sooner than the "
    "value; make states coarser, or give widening="
)


_CUT = (
    "there was no time to solve all that was learned: what follows step {} counts with its ERM at the beta that leads "
    "the sampling, and how it may vary is left out of the totals; with more seconds a plan is more than that"
)


class _Sampler(LearnedSearch):
    """What draws for another objective: its own plans are not asked what they are worth, nor how sure they are."""

    bootstraps = False

    def __reduce__(self) -> Any:
        raise TypeError(
            "a search for the whole distribution cannot be pickled: it holds compiled code and a live random stream; "
            "copy.deepcopy(search) gives an independent copy in this process, and its plans last: plan.save(path)"
        )


@dataclass
class _Pace:
    """What the parts of a call took lately, and how much of the usual work they do."""

    report: float = 0.0  # seconds; 0 if none was timed
    solve: float = _GUESS  # of a replicate
    share: float = 1.0
    outcome: Pace = field(default=Pace(_AN_OUTCOME))  # of each outcome that was learned, in a report
    seconds: float = 0.0  # of the latest call

    def hurry(self, seconds: float) -> None:
        """Before anything was timed, go by the time of the call; then work as much less, or more, as it is shorter."""
        if not self.report:
            self.report, self.share = _GUESS, min(1.0, seconds / _WHOLE)
        elif self.seconds:
            self.report *= seconds / self.seconds
            self.share = min(1.0, max(_LEAST, self.share * seconds / self.seconds))
        self.seconds = seconds

    def outcomes(self, seconds: float | None) -> float:
        """Return the most outcomes that the report of a call of so many seconds may look at."""
        return math.inf if seconds is None else seconds / _REPORTS / self.outcome.seconds

    def note(self, took: float, seconds: float, outcomes: int) -> None:
        """Note what the report of a call of so many seconds took, and work less for the next where that is too long."""
        self.report = max(0.9 * self.report, took) if self.report != _GUESS else took
        self.outcome = self.outcome.after(took / outcomes)
        self.solve = min(self.solve, took)
        factor = seconds / _REPORTS / took
        growth = max(0.1, factor) if factor < 1.0 else min(1.1, factor)
        self.share = min(1.0, max(_LEAST, self.share * growth))


class DistributionalMcts(PolicyMixin):
    """Monte Carlo search with distributions of the total and Thompson sampling, for any objective of the total.

    Numbers of its plans count the whole episode. ``value`` is what the plan is worth under what was learned: somewhat
    too good, as the best of many estimates is. The rows say the same of each action (as ``erm``), with the distribution
    of the total if the best is done for the same objective afterwards; ``visits`` are an action's draws here at any
    step. ``beta`` led the sampling; intervals are not given. ``Plan.act`` says later actions, from state, step and what
    was paid so far. One call at a time, as for every search.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem, used as a black box: it is sampled and nothing else.
    objective : Objective, float or callable
        What is wanted of the total: any objective that is a function of its distribution, also one of your own; a
        number is the beta of an ERM, a function is the utility of an :class:`tailwise.ExpectedUtility`.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    **keywords
        ``exploration``, ``max_nodes``, ``max_memory``, ``widening``, ``rollout_policy``, ``prior_policy`` and
        ``leaf_value``, as for :class:`tailwise.LearnedModelSearch`.

    Notes
    -----
    Half of the episodes are sampled in compiled code, half step by step. Solving what was learned takes milliseconds
    where accrued costs are few, and up to a second or two in the first decision where they are put on a grid.

    Examples
    --------
    >>> from tailwise import DistributionalMcts, domains
    >>> search = DistributionalMcts(domains.make("mdp-4"), lambda total: total * total, seed=0)
    >>> plan = search.plan(iterations=500)
    >>> plan.label, plan.row("risky").distribution.weighted()[0].size > 1
    ('safe', True)
    """

    def __init__(
        self,
        model: Any,
        objective: Objective | float | Callable[[float], float],
        *,
        seed: Seed = None,
        **keywords: Unpack[LearnedKeywords],
    ) -> None:
        is_function = callable(objective) and not isinstance(objective, Objective)
        self.objective = ExpectedUtility(objective) if is_function else as_objective(objective)  # type: ignore[arg-type]
        if isinstance(self.objective, (Budgeted, NestedCVaR, Robust)):
            raise OptionError(
                f"{self.objective.words} is no function of the total alone: use solve where outcomes are listed"
                + ("" if isinstance(self.objective, Robust) else ", or sampled_planning")
            )
        if keywords.get("bounds") is not None:
            raise OptionError(
                "bounds are those of an ERM at one beta: a search for the whole distribution does not take them"
            )
        self.model, self._turn = model, Turn()
        one, two = seed_sequence(seed).spawn(2)
        self.search = _Sampler(model, LearnedOptions(beta=0.0, **keywords), seed=one)
        self._rng = np.random.default_rng(two)
        self._accrued, self._is_led = 0.0, False
        self._paces: dict[tuple[bool, int], _Pace] = {}  # of later decisions and first ones, by the root's step
        self._kept: Pursued | None = None

    @property
    def state(self) -> Hashable:
        """State of the root."""
        return self.search.state

    @property
    def step(self) -> int:
        """Step of the root."""
        return self.search.step

    @property
    def accrued(self) -> float:
        """Discounted cost (or reward) paid before the root."""
        return self._accrued

    def advance(self, action: Any, state: Any, *, cost: float | None = None) -> None:
        """Move on after a real step; what is pursued stays, and what was learned.

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
            self.search.advance(action, state)
            self._accrued += float(self.model.discount) ** h * paid

    def reset(self, state: Any = None, step: int = 0, *, accrued: float = 0.0) -> None:
        """Start a new episode, anywhere, and forget what was learned; ``accrued`` was paid before (discounted)."""
        paid = real(accrued, "accrued")
        with self._turn:
            self.search.reset(state, step)
            self.search.retarget(0.0)
            self._accrued, self._is_led, self._kept = paid, False, None

    @property
    def _episode(self) -> Episode:
        sign = 1.0 if self.model.sense == "cost" else -1.0
        return Episode(sign, sign * float(self.model.discount) ** self.step, self._accrued)

    def _leading_beta(self, std: float) -> float:
        """Return the beta that is to lead the sampling, for a standard deviation of the totals from the root on.

        For a level it is ``sqrt(2 L) / std``, ``L = -ln(1 - level)``, where a normal total has its EVaR, the bound on
        its CVaR.
        """
        if isinstance(self.objective, ERM):
            return self.objective.beta
        if isinstance(self.objective, (CVaR, EVaR)) and self.objective.level < 1.0:
            return math.sqrt(-2.0 * math.log1p(-self.objective.level)) / std
        return 1.0 / std

    def _worth(self, pursued: Pursued, totals: Floats, weights: Floats) -> float:
        """Return what a distribution of the whole total is worth: of a CVaR, for the threshold that is kept."""
        sign = self._episode.sign
        if isinstance(self.objective, CVaR) and isinstance(pursued, Shortfall):
            mean = inner(weights, pursued(totals))
            return pursued.threshold + sign * mean / (1.0 - self.objective.level)
        return worth(self.objective, totals, weights, sign)

    def plan(
        self,
        iterations: int | None = None,
        seconds: float | None = None,
        *,
        threads: int = 1,
        until: Callable[[Any], bool] | None = None,
        progress: PlanProgress = None,
    ) -> Plan:
        """Sample episodes from the root, and solve what was learned; the first plan of an episode fixes what to pursue.

        Parameters
        ----------
        iterations : int, optional
            Episodes to sample.
        seconds : float, optional
            Wall time of the call, but not of what is compiled first. What was learned is solved more roughly where it
            would take longer, and where that does not do, for the first steps alone; the plan's ``notes`` say so.
        threads : int, default 1
            It keeps to one thread; the plan's ``notes`` say so where more were wanted.
        until : callable, optional
            Called with the plan so far about every 50 ms of the first half of the sampling; a true result ends it.
        progress : callable, optional
            As for :meth:`tailwise.LearnedModelSearch.plan`.
        """
        wanted, seconds = plan_limits(iterations, seconds, until)
        more = one_thread(threads, f"{type(self).__name__} keeps to one")
        with self._turn.within(seconds), followed_plan(progress, wanted, seconds) as watch:
            self._prepare(wanted, seconds)
            begun = time.perf_counter()
            plan, stopped = self._sampled(wanted, seconds, until, watch, begun)
        used, notes = time.perf_counter() - begun, (*plan.notes, *more)
        return dataclasses.replace(plan, seconds=used, stopped=stopped, notes=notes)

    def _prepare(self, wanted: int | None, seconds: float | None) -> None:
        """Compile or load what the call may need, before the clock starts."""
        self.search.require_decision()
        if isinstance(self.objective, ExpectedUtility) and not self.search.is_compiled:  # asked before
            totals, utility = list[float](), self.objective.utility
            view = AccruedView(self.model, lambda total: totals.append(total) or 0.0)  # type: ignore[func-returns-value]
            episode = PythonInterface(view, generator(0), SimulationOptions())
            episode.try_out(episode.handle((self.state, self._accrued)), self.step)
            for total in totals:
                asked(functools.partial(utility, total), f"the utility of the total {total:g}")
        self.search.prepare(wanted)
        if seconds is not None:
            _prepare_grid()

    def _sampled(
        self,
        wanted: int | None,
        seconds: float | None,
        until: Callable[[Any], bool] | None,
        watch: PlanTick,
        begun: float,
    ) -> tuple[Plan, StopReason]:
        """Sample and solve; return the plan, and why it stopped."""
        search = self.search
        done = steps = 0

        def told(played: int, _: float = 0.0) -> None:
            watch(done + played, time.perf_counter() - begun)

        if not self._is_led and (wanted is None or wanted >= 8):
            pilot = search.plan(_PILOT if wanted is None else min(_PILOT, wanted // 8), _part(seconds, 8.0))
            std = float(np.std(np.concatenate([pilot.samples(row.action) for row in pilot.rows])))
            search.retarget(self._leading_beta(std) / abs(self._episode.scale) if std > 0.0 else 0.0)
            done, steps, self._is_led = pilot.iterations, pilot.simulator_steps, True
        asked = None if until is None else lambda plan: until(self._report(plan, self._pace.outcomes(seconds))[0])
        half = None if wanted is None else max(1, wanted // 2 - done)
        pace, ended, part = self._pace, math.inf, None
        if seconds is not None:
            pace.hurry(seconds)
            ended = begun + seconds - min(_SLACK * pace.report, _MOST_KEPT * seconds)
            left = max(ended - time.perf_counter(), 1e-9)
            part = left if 2.0 * pace.solve > left else min(left / 2.0, left - 1.5 * pace.solve)
        found = search.plan(half, part, until=asked, progress=told)
        done, steps = done + found.iterations, steps + found.simulator_steps
        if found.stopped in (StopReason.ITERATIONS, StopReason.SECONDS):
            left = math.inf if wanted is None else wanted - done
            played, more = self._follow_replicates(left, ended, told, pace.outcomes(seconds))
            done, steps = done + played, steps + more
        reported = time.perf_counter()
        plan, self._kept, size = self._report(found, pace.outcomes(seconds))
        if seconds is not None:
            pace.note(time.perf_counter() - reported, seconds, size)
        stopped = found.stopped
        if stopped == StopReason.SECONDS and wanted is not None and done >= wanted:
            stopped = StopReason.ITERATIONS
        elif stopped == StopReason.ITERATIONS and wanted is not None and done < wanted:
            stopped = StopReason.SECONDS
        return dataclasses.replace(plan, iterations=done, simulator_steps=steps), stopped

    def _follow_replicates(
        self, episodes: float, ended: float, told: Callable[[int], None], outcomes: float
    ) -> tuple[int, int]:
        """Thompson sampling: play by the best plans under counts drawn again; return (episodes, steps)."""
        done, steps, pace = 0, 0, self._pace
        rounds = _ROUNDS if self._kept is None else _LATER
        share = int(min(max(math.ceil(episodes / rounds), _SHARE) if episodes < math.inf else _SHARE, 64 * _SHARE))
        while done < episodes and (begun := time.perf_counter()) + 1.2 * pace.solve < ended:
            table = self.search.table(outcomes)
            graph = reach_totals(table.redrawn(self._rng), work=_ROUGH * pace.share, every_action=True)
            pursued = self._kept or choose_pursued(self.objective, graph, self._episode, _FEW_SOLVES)
            batch = int(min(share, episodes - done))
            policy = self._policy(table, graph, self._episode.solved(graph, pursued))
            pace.solve = time.perf_counter() - begun
            played, more = self._play(policy, batch, ended)
            done, steps = done + played, steps + more
            told(done)
        return done, steps

    @property
    def _pace(self) -> _Pace:
        """How long decisions like the one at the root take; where there was none, as the nearest before it."""
        is_later, step = self._kept is not None, self.step
        before = max((h for later, h in self._paces if later == is_later and h <= step), default=None)
        known = _Pace() if before is None else self._paces[is_later, before]
        return self._paces.setdefault((is_later, step), dataclasses.replace(known))

    def _policy(self, table: LearnedTable, graph: Graph, chosen: Choices) -> LearnedPolicy:
        def decide(state: int, step: int, paid: float) -> int:
            return int(graph.action(chosen, state, step, paid))

        return LearnedPolicy(table, decide, self.step, self._accrued)

    def _play(self, policy: LearnedPolicy, episodes: int, ended: float) -> tuple[int, int]:
        """Play episodes from the root by a policy, count what happens, and return (episodes, steps)."""

        def choose(handle: int, num_actions: int, step: int, paid: float) -> int:
            position = policy.position(handle, step, paid)
            return int(self._rng.integers(num_actions)) if position is None else position

        return self.search.play(choose, episodes, ended)

    def _report(self, found: Plan, outcomes: float) -> tuple[Plan, Pursued, int]:
        """Return the plan under what was learned, what it pursues, and how many outcomes were looked at.

        ``found`` is the search's own; what was learned is cut after about so many ``outcomes``.
        """
        table, episode = self.search.table(outcomes), self._episode
        share = self._pace.share
        graph = reach_totals(table.mdp, work=_WORK * share, every_action=True)
        solves = max(_FEWEST_SOLVES, int(_SOLVES * share))
        pursued = self._kept or choose_pursued(self.objective, graph, episode, solves)
        chosen = episode.solved(graph, pursued)
        rows: list[ActionRow] = []
        known = {int(table.mdp.action_ids[row]): row for row in range(table.mdp.action_offsets[1])}
        draws = [table.draws(known[k]) if k in known else 0 for k in range(len(found.rows))]
        for k, row in enumerate(found.rows):
            start = row.action, row.label, draws[k], draws[k] / sum(draws)
            if k not in known:
                rows.append(ActionRow(*start, *(math.nan,) * 5, UNBOUNDED))
                continue
            totals, weights = episode.distribution(graph, graph.begun_with(chosen, known[k]))
            mean = inner(weights, totals)
            std = math.sqrt(max(0.0, inner(weights, (totals - mean) ** 2)))
            low, high = float(totals[0]), float(totals[-1])
            value, law = self._worth(pursued, totals, weights), ReturnDistribution(totals, weights, self.model.sense)
            rows.append(ActionRow(*start, value, mean, std, low, high, UNBOUNDED, distribution=law))
        notes: tuple[str, ...] = () if found.states_recur else (NO_RETURN,)
        if table.is_cut:
            notes += (_CUT.format(self.step + table.mdp.horizon - 1),)
        first = rows[int(table.mdp.action_ids[int(chosen[0][0])])]
        plan = dataclasses.replace(
            found, action=first.action, label=first.label, value=first.erm, rows=tuple(rows), method=_METHOD,
            interval_meaning=MEANING, totals=(), notes=notes, pursued=str(pursued),
            accrued=self._accrued, policy=self._policy(table, graph, chosen), objective=self.objective,
            threshold=getattr(pursued, "threshold", None),
        )  # fmt: skip
        return plan, pursued, table.counts.size

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.objective.words})"


@functools.cache
def _prepare_grid() -> None:
    """Compile or load what solves for totals on a grid."""
    with compile_notice():
        graph = GridTotals.spaced(TabularMDP.from_outcomes([0], [0], [0], [1.0], [1.0], horizon=1), 1.0)
        graph.law(graph.minimise(lambda totals: totals)[1])


def _part(seconds: float | None, of: float) -> float | None:
    return None if seconds is None else seconds / of


class CvarMcts(DistributionalMcts):
    """Monte Carlo search for the least mean of the worst ``1 - level`` of the total.

    A plan's ``value`` is ``threshold + mean shortfall / (1 - level)`` after the recommended action: the CVaR of the
    whole total in a first decision.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem, used as a black box: it is sampled and nothing else.
    level : float in (0, 1)
        Share of outcomes that are not the tail: 0.95 for the worst 5 %.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    threshold : float, optional
        The b to keep to, of an episode whose first decision was planned elsewhere.
    **keywords
        As for :class:`DistributionalMcts`.

    Examples
    --------
    >>> from tailwise import CvarMcts, domains
    >>> plan = CvarMcts(domains.make("grid-mdp"), 0.9, seed=0).plan(iterations=2000)
    >>> plan.label, abs(plan.value - 10.86) < 2  # the optimum is 10.86
    ('right', True)
    >>> plan.act(13, step=1, accrued=0.62)  # the plan for later, from state, step and what was paid
    3
    """

    def __init__(
        self,
        model: Any,
        level: float,
        *,
        seed: Seed = None,
        threshold: float | None = None,
        **keywords: Unpack[LearnedKeywords],
    ) -> None:
        self.level = check_level(level)
        self._given = None if threshold is None else real(threshold, "threshold")
        super().__init__(model, CVaR(self.level), seed=seed, **keywords)
        self._keep_given()

    def _keep_given(self) -> None:
        self._kept = None if self._given is None else Shortfall(self._given, self._episode.sign)

    @property
    def threshold(self) -> float | None:
        """The b of this episode; None before its first plan."""
        return self._kept.threshold if isinstance(self._kept, Shortfall) else None

    def reset(self, state: Any = None, step: int = 0, *, accrued: float = 0.0) -> None:
        """Start a new episode, anywhere, and forget what was learned; its first plan chooses a threshold.

        ``accrued`` is the discounted cost (or reward) paid before. A threshold that was given to the planner is kept.
        """
        super().reset(state, step, accrued=accrued)
        self._keep_given()

    def __repr__(self) -> str:
        return f"CvarMcts(level={self.level:g}, threshold={self.threshold})"


def cvar_planner(model: Any, objective: CVaR, *, seed: Seed = None, **options: Any) -> CvarMcts:
    """Return the planner for an objective."""
    return CvarMcts(model, objective.level, seed=seed, **options)
