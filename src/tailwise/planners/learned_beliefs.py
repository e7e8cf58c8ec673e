"""Search on a learned model where the state is not seen: what was drawn is counted, and solved over tilted beliefs.

A simulator shows its hidden states to whoever samples it. So counts of what followed each state and action (the next
state, the observation, the cost, the end) are a :class:`tailwise.PomdpTable`, at the frequencies seen, which is solved
for chosen tilted beliefs (:mod:`tailwise.exact.belief_levels`) whenever somebody asks for a plan.
All histories share what was learned, which a tree of histories does not: of a problem whose states come back it needs
far fewer samples, at long horizons above all.

Every second episode acts at random, the others take what was tried least in the (hidden) state. The luck of what
follows a state and an action is stratified (:class:`tailwise._random.StratifiedStream`): where a step takes one or two
draws from the generator that it is given, frequencies come near the probabilities much sooner than by plain luck.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tailwise._arrays import log_of
from tailwise._random import Seed, StratifiedStream
from tailwise._validate import integer
from tailwise.errors import ModelError, StateError
from tailwise.exact.alpha_vectors import Belief, Branch, branches_of, grouped_erm
from tailwise.exact.belief_levels import Level, levels_in_parts
from tailwise.exact.belief_policy import BeliefPolicy
from tailwise.models.contract import short
from tailwise.models.partly_observed import drawn
from tailwise.models.pomdp_table import PomdpTable
from tailwise.models.simulator import action_label, model_name
from tailwise.planners.hidden import HiddenPlanner
from tailwise.risk import ERM
from tailwise.risk.measures import Interval
from tailwise.search.action_rows import ActionRow
from tailwise.search.anytime import Pace
from tailwise.search.plan import StopReason

_FEWEST_POINTS, _MOST_POINTS, _WORK = 10, 100, 3e8  # beliefs of a step, and terms of a solution in all
_FAR = 4  # times as many episodes (half the error): what is solved in parts is begun anew
_SLACK = 1.25  # of the time that rows took, kept for the next ones


class LearnedBeliefs(HiddenPlanner):
    """Search on a learned model, for simulators whose hidden states and observations come back.

    Parameters
    ----------
    model : PartlyObserved or PomdpTable
        The problem.
    beta : float
        Risk level at step 0.
    seed : optional
        Source of all randomness.
    max_distinct : int, default 2,000
        Most different states, and most different observations.

    Raises
    ------
    ModelError
        In ``plan``, where more come up.

    Examples
    --------
    >>> from tailwise import domains
    >>> from tailwise.planners import LearnedBeliefs
    >>> plan = LearnedBeliefs(domains.make("tiger", horizon=5), 0.1, seed=0).plan(iterations=3000)
    >>> plan.label, abs(plan.value - 4.52438125) < 0.2
    ('listen', True)
    """

    method = "search on a learned model over tilted beliefs"
    meaning = "nothing: none is known for a model of hidden states that was learned"
    _report_pace = Pace(1.0, 0.99)
    _term_seconds = math.inf  # that a solution took for each of its terms
    _rows_pace = Pace(0.005, 0.98)  # of the rest of a report
    _newest_pace = Pace()  # of a table of what was learned, and its hurried solution

    def __init__(self, model: Any, beta: float, *, seed: Seed = None, max_distinct: int = 2000) -> None:
        self._most = integer(max_distinct, "max_distinct", low=1)
        super().__init__(model, beta, seed=seed)

    def _begin(self) -> None:
        self._history: list[tuple[int, Hashable, float | None]] = []
        if not hasattr(self, "_counts"):  # what was learned of the model holds wherever the root is
            self._counts: dict[tuple[int, int, int, int, float, bool], int] = {}
            self._states: dict[Hashable, int] = {}
            self._observations: dict[Hashable, int] = {}
            self._tries: list[list[int]] = []
            self._starts: dict[int, int] = {}
            self._luck = StratifiedStream(self._rng)
            self._sampled = self._steps = 0
            self._policy: BeliefPolicy | None = None
            self._parts: Iterator[None] | None = None  # of a solution that is under way
            self._solved = self._whole = self._begun = 0  # episodes: of the answer, of whole solutions, under way
            self._spent = 0.0
        if self._policy is not None:
            self._known = self._policy.start

    def _run(self, count: int) -> StopReason | None:
        for _ in range(count):
            self._sample(at_random=self._sampled % 2 == 0)
            self._done += 1
        return None

    def _state(self, state: Hashable) -> int:
        found = self._states.get(state)
        if found is None:
            found = self._states[state] = len(self._states)
            self._tries.append([0] * len(self._actions))
            if found >= self._most:
                raise self._too_many("states")
        return found

    def _too_many(self, what: str) -> ModelError:
        return ModelError(
            f"{model_name(self.model)} showed more than {self._most:,} different {what}; to learn it is of use where "
            "they come back: take kind='histories', or a larger max_distinct"
        )

    def _sample(self, *, at_random: bool) -> None:
        model, rng, actions, horizon = self.model, self._rng, self._actions, int(self.model.horizon)
        counts, observations, size, turn_to = self._counts, self._observations, len(actions), self._luck.turn_to
        state = model.sample_start(turn_to(-1))
        here = self._state(state)
        self._starts[here] = self._starts.get(here, 0) + 1
        self._sampled += 1
        for _ in range(horizon):
            tries = self._tries[here]
            place = int(rng.random() * size) if at_random else tries.index(min(tries))
            tries[place] += 1
            following, cost, done, seen = drawn(model, state, actions[place], turn_to(here * size + place))
            self._steps += 1
            there = here if done else self._state(following)
            shown = 0 if done else observations.setdefault(seen, len(observations))
            key = here, place, there, shown, cost, done
            counts[key] = counts.get(key, 0) + 1
            if done:
                break
            state, here = following, there
        if len(observations) > self._most:
            raise self._too_many("observations")

    def _learned(self) -> PomdpTable:
        """Return the table at the frequencies seen; what was never tried stays where it is, at the dearest cost."""
        if not self._counts:
            self._sample(at_random=True)
        rows = [(*key, count / self._tries[key[0]][key[1]]) for key, count in self._counts.items()]
        costs = [row[4] for row in rows]
        dearest = max(costs) if self.model.sense == "cost" else min(costs)
        rows += [
            (state, place, state, 0, dearest, False, 1.0)
            for state, tries in enumerate(self._tries) for place, count in enumerate(tries) if count == 0
        ]  # fmt: skip
        states, places, following, shown, paid, ends, shares = zip(*rows, strict=True)
        sense, end = ("cost" if self.model.sense == "cost" else "reward"), getattr(self.model, "terminal_cost", None)
        belief = np.zeros(len(self._states))
        belief[list(self._starts)] = list(self._starts.values())
        values: dict[str, Any] = {f"{sense}s": paid}
        if end is not None:
            values[f"terminal_{sense}s"] = [float(end(state)) for state in self._states]
        seen = list(self._observations) or [None]
        return PomdpTable.from_outcomes(
            states, places, following, shown, shares, done=ends, num_states=len(self._states),
            num_observations=len(seen), horizon=int(self.model.horizon), discount=float(self.model.discount),
            start=belief / belief.sum(), cost_seen=bool(getattr(self.model, "cost_seen", False)),
            state_labels=_labels(self._states), observation_labels=_labels(seen), observation_values=seen,
            action_labels=_labels(action_label(self.model, action, None) for action in self._actions),
            name=model_name(self.model), **values,
        )  # fmt: skip

    def _solution(self) -> BeliefPolicy:
        """Return plans on what was learned, or with a deadline on what had been when there was time to solve it."""
        by, longest = self._report_by - _SLACK * self._rows_pace.seconds, 0.0
        if by == math.inf:
            self._parts = None
        elif self._parts is not None:
            anew, old = self._sampled >= _FAR * self._begun, self._far_behind and self._solved < 0.9 * self._sampled
            if (anew or old) and time.perf_counter() + _SLACK * self._newest_pace.seconds > by:
                self._newest_pace = self._newest_pace.faded(0.95)
            elif anew:
                self._parts = None
            elif old:
                self._newest()
        while self._policy is None or self._whole != self._sampled:
            begun = time.perf_counter()
            if longest and self._policy is not None and begun + self._newest_pace.seconds > by:
                break
            parts, self._parts = self._parts or self._solve(), None
            for _ in parts:
                now = time.perf_counter()
                longest, self._spent, begun = max(longest, now - begun), self._spent + now - begun, now
                if now + longest > by and self._policy is not None:
                    self._parts = parts
                    return self._policy
        return self._policy

    @property
    def _far_behind(self) -> bool:
        """Whether the last whole solution rests on so few episodes that a hurried one by all of them is better."""
        return _FAR**2 * self._whole < self._sampled  # with four times the error

    def _newest(self) -> tuple[PomdpTable, list[Branch]]:
        """Return what was learned; where time is short and solutions far behind, go by it as if states were seen."""
        begun, table = time.perf_counter(), self._learned()
        branches = branches_of(table)
        if self._report_by < math.inf and self._far_behind:
            self._take(table, branches, _levels_if_seen(table, self.beta), self._sampled)
        self._newest_pace = self._newest_pace.after(time.perf_counter() - begun)
        return table, branches

    def _solve(self) -> Iterator[None]:
        """Solve what was learned, and pause often."""
        table, branches = self._newest()
        sampled = self._begun = self._sampled
        in_time, self._spent = self._report_by < math.inf, 0.0
        yield
        begun = time.perf_counter()
        work = table.num_outcomes * table.num_observations * table.num_actions * int(table.horizon)
        points = int(np.clip(math.sqrt(_WORK / work), _FEWEST_POINTS, _MOST_POINTS))
        if in_time and not self._term_seconds * work * points**2 <= (left := max(self._report_by - begun, 0.0)):
            points = max(_FEWEST_POINTS, int(math.sqrt(left / (self._term_seconds * work))))
        levels = list[Level]()
        yield from levels_in_parts(table, branches, self.beta, log_of(table.start_belief), points, levels)
        self._report_pace = replace(self._report_pace, seconds=self._spent)
        self._term_seconds = self._spent / (work * points**2)
        self._whole = sampled
        self._take(table, branches, levels, sampled)

    def _take(self, table: PomdpTable, branches: list[Branch], levels: list[Level], sampled: int) -> None:
        """Go on with a solution, and move what is known to the root."""
        self._policy = BeliefPolicy(
            objective=ERM(self.beta), mdp=table.table, value=math.nan, beta=self.beta, pomdp=table,
            branches=tuple(branches), levels=tuple(levels),
        )  # fmt: skip
        self._solved, self._known, self._notes = sampled, self._policy.start, []
        for step in self._history:
            self._move(*step)

    def __getstate__(self) -> dict[str, Any]:
        """Leave what is half solved out of copies."""
        return self.__dict__ | {"_parts": None}

    def _move(self, place: int, observation: Any, cost: float | None) -> None:
        """Move what is known on, and say so where what is solved has no such observation after the action."""
        assert self._policy is not None
        try:
            self._known = self._policy.update(self._known, place, observation, cost)
        except StateError:
            what = "was never drawn after what was done"
            if self._solved != self._sampled:
                what = "is not after what was done, in what is solved so far"
            self._known = self._policy.unseen(self._known, place)
            self._notes.append(
                f"step {self._known.step}: {short(observation, 40)} {what}; it goes on as if nothing had been observed"
            )

    @property
    def belief(self) -> Belief:
        """What is known at the root, by what was learned: ``probabilities``, and the twin that decides, ``tilted``."""
        if self._policy is None:
            self._solution()
        return self._known

    def _follow(self, action: Any, observation: Any, cost: float | None) -> None:
        place, _, observation = self._placed(action, observation)
        if self._policy is None:
            self._solution()
        self._move(place, observation, cost)
        self._history.append((place, observation, cost))

    def _rows(self) -> tuple[tuple[ActionRow, ...], int, float, dict[str, Any]]:
        policy, begun = self._solution(), time.perf_counter()
        found = policy.plan(self._known, distributions=False)
        visits = np.sum(self._tries, axis=0)
        nothing = Interval(-math.inf, math.inf)
        rows = tuple(
            replace(row, action=action, visits=int(count), share=float(count / max(1, visits.sum())), interval=nothing,
                    lower=None, upper=None)
            for row, action, count in zip(found.rows, self._actions, visits, strict=True)
        )  # fmt: skip
        best = next(k for k, row in enumerate(found.rows) if row.action == found.action)
        more = {
            "objective": found.objective, "nodes": found.nodes, "bytes": found.bytes + 200 * len(self._counts),
            "simulator_steps": self._steps, "notes": self._hurried(),
        }  # fmt: skip
        self._rows_pace = self._rows_pace.after(time.perf_counter() - begun)
        self._steps = 0
        return rows, best, rows[best].erm, more

    def _hurried(self) -> tuple[str, ...]:
        """Say what an answer goes by, if not by all that was learned."""
        if self._whole == self._sampled:
            return ()
        if self._whole != self._solved:
            return (
                "there was no time to solve what was learned: values are as if the state were seen after this step, by "
                f"{self._solved:,} of {self._sampled:,} episodes",
            )
        return (
            f"what was learned is solved in parts, as there is time: this answer goes by {self._solved:,} of "
            f"{self._sampled:,} episodes",
        )


def _levels_if_seen(model: PomdpTable, beta: float) -> list[Level]:
    """Return the ERM from each step on if the state is seen from there (QMDP: Littman, Cassandra & Kaelbling 1995)."""
    table, after, none = model.table, model.table.terminal_losses, np.zeros(1, np.int64)
    levels: list[Level] = []
    for h in range(model.horizon - 1, -1, -1):
        paid = table.losses + np.where(table.done, 0.0, model.discount * after[table.next_states])
        rows = grouped_erm(paid, table.probabilities, table.outcome_offsets[:-1], beta * model.discount**h)
        after = np.minimum.reduceat(rows, table.action_offsets[:-1])
        levels.insert(0, Level(after[None, :], none, none[None, :]))
    return levels


def _labels(values: Any) -> tuple[str, ...]:
    """Return the names of values, or none where two are the same."""
    names = tuple(str(value) for value in values)
    return names if len(set(names)) == len(names) else ()
