"""``check_simulator``: try a simulator out and report everything that breaks its contract.

Every rule is tested on random episodes: the actions and the step's answer have the right form, nothing is changed
in place, and the same draws give the same answer, also long after and in another order (randomness that does not
come from ``rng``, or a memory between calls, makes results that no seed can repeat). A Gymnasium environment goes
through the check that it passed when its simulator was made once more, on other episodes.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from tailwise._random import Seed, generator, seed_sequence
from tailwise._validate import integer
from tailwise.models.contract import SUM_TOLERANCE
from tailwise.models.gymnasium_simulator import GymnasiumSimulator
from tailwise.models.report import Report, Violation
from tailwise.models.simulator import (
    MAX_ACTIONS,
    contract_faults,
    cost_fault,
    listed_actions,
    model_name,
    outcome_fault,
    own_method,
    short,
    state_fault,
)

_LARGE_COST = 1e12
_FRESH_STATES = 50


def check_simulator(simulator: Any, seed: Seed = 0, *, episodes: int = 20, steps: int = 100) -> Report:
    """Try out a simulator on random episodes; made for users' own tests.

    Parameters
    ----------
    simulator : Simulator or object with its methods
        What to check. Nothing is raised: see ``report.raise_for_errors()``.
    seed : None, int, SeedSequence or Generator, default 0
        Source of the random actions and draws.
    episodes : int, default 20
        Number of episodes.
    steps : int, default 100
        Longest part of an episode that is played.

    Returns
    -------
    Report
        ``report.ok``, ``report.violations`` and ``report.warnings``; each kind of fault is reported at the
        first place where it was met.

    Examples
    --------
    >>> from tailwise import Simulator, check_simulator
    >>> class Leaky(Simulator):
    ...     start, horizon = 0, 5
    ...     def actions(self, state):
    ...         return 2
    ...     def step(self, state, action, rng):
    ...         return [state], float("nan"), False
    >>> print(check_simulator(Leaky()))
    Leaky: 1 violation
      error    step(0, 0) at step 0: the next state [0] of type list is not hashable; use a tuple
    """
    integer(episodes, "episodes", low=1)
    integer(steps, "steps", low=1)
    name = model_name(simulator)
    faults = contract_faults(simulator)
    if faults:
        return Report(name, tuple(Violation(name, fault, "see tailwise.Simulator") for fault in faults))
    trial = _Trial(simulator, seed)
    try:
        for _ in range(episodes):
            if not trial.play(min(steps, int(simulator.horizon))):
                break
        trial.repeat()
        if isinstance(simulator, GymnasiumSimulator):
            trial.restore()
    except Exception as error:  # whatever a user's objects raise when they are compared, or summed
        trial.surprise(error)
    return Report(name, tuple(trial.violations.values()), tuple(trial.warnings()))


class _Trial:
    """Plays episodes and collects the first fault of each kind."""

    def __init__(self, simulator: Any, seed: Seed) -> None:
        self.simulator = simulator
        self.sequence = seed_sequence(seed)
        self.picks = generator(self.sequence.spawn(1)[0])
        self.violations: dict[str, Violation] = {}
        self.largest = 0.0
        self.seen: set[Hashable] = set()
        self.drawn = 0
        self.place = model_name(simulator)  # of the last call
        self.steps: list[tuple[str, Any, Any, Any, Any]] = []

    def play(self, steps: int) -> bool:
        """Play one episode; False when going on makes no sense."""
        state = self.simulator.start
        for h in range(steps):
            action = self._pick(state, h)
            if action is None:
                return False
            result = self._step(state, action[0], h)
            if result is None:
                return False
            state, _, done = result
            if done:
                return True
            self.seen.add(state)
            self.drawn += 1
        if steps == self.simulator.horizon:
            self._number("terminal_cost", (state,), f"at step {steps}")
        return True

    def repeat(self) -> None:
        """Take the steps once more, the last first."""
        for where, state, action, child, once in reversed(self.steps):
            again = self._call("step", (state, action, generator(child)), where)
            if again is not None and tuple(again[0]) != tuple(once):
                self._fault(
                    "draws",
                    where,
                    "the same draws gave another outcome",
                    "take all randomness from rng, keep nothing between calls, and give states a proper __eq__",
                )

    def restore(self) -> None:
        """Have a Gymnasium environment's own check made again."""
        for violation in self.simulator.check(int(self.picks.integers(1, 2**20))):
            self.violations.setdefault("restore", violation)

    def surprise(self, error: Exception) -> None:
        """Note what using the simulator's answers raised."""
        problem = f"using what it returned raised {type(error).__name__}: {error}"
        self._fault("surprise", self.place, problem, "states must compare by content, and answers be of the right form")

    def _fault(self, kind: str, where: str, problem: str, fix: str) -> None:
        self.violations.setdefault(kind, Violation(where, problem, fix))

    def _call(self, method: str, arguments: tuple[Any, ...], where: str) -> tuple[Any] | None:
        self.place = where
        try:
            return (getattr(self.simulator, method)(*arguments),)
        except Exception as error:  # whatever a user's code raises is the finding
            self._fault(f"raises {method}", where, f"raised {type(error).__name__}: {error}", "it must not fail")
            return None

    def _pick(self, state: Any, h: int) -> tuple[Any] | None:
        where = f"actions({short(state, 60)}) at step {h}"
        first, second = self._call("actions", (state,), where), self._call("actions", (state,), where)
        if first is None or second is None:
            return None
        listed, fault = listed_actions(first[0])
        if fault:
            problem = fault.partition("; ")[0]
            self._fault("actions", where, problem, f"return a number from 1 to {MAX_ACTIONS} or a sequence of actions")
            return None
        if listed_actions(second[0])[0] != listed:
            self._fault("actions differ", where, "two calls gave different actions", "the state alone must decide")
        if len(set(map(repr, listed))) != len(listed):
            self._fault("twice", where, "an action is listed twice", "list every action once")
        return (listed[int(self.picks.integers(len(listed)))],)

    def _step(self, state: Any, action: Any, h: int) -> tuple[Any, float, bool] | None:
        where = f"step({short(state, 60)}, {short(action, 40)}) at step {h}"
        child = self.sequence.spawn(1)[0]
        before, code = _snapshot(state), hash(state)
        first = self._call("step", (state, action, generator(child)), where)
        if first is None:
            return None
        if hash(state) != code or _snapshot(state) != before:
            self._fault("mutation", where, "it changed the state in place", "return a new state instead")
            return None
        fault = outcome_fault(first[0])
        if fault:
            problem, _, fix = fault.partition("; ")
            self._fault("outcome", where, problem, fix)
            return None
        self.steps.append((where, state, action, child, first[0]))
        following, cost, done = first[0]
        self.largest = max(self.largest, abs(float(cost)))
        self._number("rollout", (state, h, generator(child)), where.replace("step(", "rollout from step(", 1))
        self._outcomes(state, action, (following, float(cost), bool(done)), where)
        return following, float(cost), bool(done)

    def _number(self, method: str, arguments: tuple[Any, ...], where: str) -> None:
        if own_method(self.simulator, method) is None:
            return
        answer = self._call(method, arguments, f"{method} {where}")
        if answer is None:
            return
        value = answer[0][0] if isinstance(answer[0], tuple) else answer[0]
        fault = cost_fault(value)
        if fault:
            self._fault(method, f"{method} {where}", f"its value {fault}", "return a finite number")

    def _outcomes(self, state: Any, action: Any, drawn: tuple[Any, float, bool], where: str) -> None:
        if own_method(self.simulator, "outcomes") is None:
            return
        place = where.replace("step(", "outcomes(", 1)
        answer = self._call("outcomes", (state, action), place)
        if answer is None:
            return
        listed = [tuple(entry) for entry in answer[0]]
        if any(len(entry) != 4 or outcome_fault(entry[1:]) for entry in listed):
            self._fault("outcomes", place, f"it holds {short(listed)}", "list (probability, next_state, cost, done)")
            return
        total = float(sum(entry[0] for entry in listed))
        if not abs(total - 1.0) <= SUM_TOLERANCE or min(entry[0] for entry in listed) < 0:
            self._fault("sum", place, f"probabilities sum to {total:.9g}", "they must be non-negative and sum to 1")
        target, cost, done = drawn
        if not any(
            (done or entry[1] == target)
            and np.isclose(float(entry[2]), cost, rtol=1e-9, atol=1e-12)
            and bool(entry[3]) == done
            and entry[0] > 0
            for entry in listed
        ):
            self._fault("unlisted", place, f"step drew {short(drawn)}, which is not listed", "list every outcome")

    def warnings(self) -> Iterable[Violation]:
        """What deserves a look, though no rule is broken."""
        name = model_name(self.simulator)
        if self.largest > _LARGE_COST:
            yield Violation(
                name,
                f"the largest {self.simulator.sense} is {self.largest:g}",
                "rescale: doubles have 16 digits",
            )
        if self.drawn >= _FRESH_STATES and len(self.seen) == self.drawn and not self.violations:
            yield Violation(
                name,
                f"no state came twice in {self.drawn} steps",
                "plan with widening=Widening(), or the tree will not grow deep",
            )


def _snapshot(state: Any) -> Any:
    """A copy of the state to compare with later; atoms are their own copy."""
    if state_fault(state):
        return repr(state)
    try:
        return copy.deepcopy(state)
    except Exception:  # states that cannot be copied are compared by their hash alone
        return state
