"""Checks of models: everything that is wrong with one, at once, with where and how to fix it.

Each rule is written once: what all kinds share in :mod:`tailwise.models.contract`, a table's in
:mod:`tailwise.models.table`, a simulator's shape and answers in :mod:`tailwise.models.simulator`, and what only
trying it out can show in :func:`check_simulator`. It plays random episodes: the actions and the step's answer have the
right form, nothing is changed in place, and the same draws give the same answer, also long after and in another order
(randomness that does not come from ``rng``, or a memory between calls, makes results that no seed can repeat). A
Gymnasium environment goes through the check that it passed when its simulator was made once more, on other episodes.

Whether two models are the same, as far as that can be told, their :func:`fingerprint` says.
"""

from __future__ import annotations

import copy
import hashlib
import math
from typing import Any, NamedTuple

import numpy as np

from tailwise._random import Seed, generator, seed_sequence
from tailwise._validate import integer
from tailwise.errors import ModelError
from tailwise.models.compiled import check_many
from tailwise.models.contract import (
    MAX_ACTIONS,
    SUM_TOLERANCE,
    Action,
    choices_of,
    cost_fault,
    listed_actions,
    outcome_fault,
    short,
    state_fault,
)
from tailwise.models.partly_observed import check_hidden
from tailwise.models.pomdp_table import PomdpTable
from tailwise.models.simulator import (
    contract_faults,
    is_partly_observed,
    model_name,
    own_method,
    refuse_hidden,
    validate_simulator,
)
from tailwise.models.table import Report, Violation
from tailwise.models.tabular import TabularMDP


def check_model(model: Any) -> Report:
    """Report every violation of the model contract.

    Parameters
    ----------
    model : TabularMDP or simulator
        The model to check. Nothing is raised: see ``report.raise_for_errors()``. A simulator is tried
        out on a few random episodes, as :func:`tailwise.check_simulator` does at more length.

    Returns
    -------
    Report
        ``report.ok``, ``report.violations`` and ``report.warnings``; prints as a list.

    Raises
    ------
    ModelError
        If ``model`` is no model at all.

    Examples
    --------
    >>> from tailwise import TabularMDP, check_model
    >>> broken = TabularMDP.from_arrays([[[0.5, 0.4], [1, 0]], [[0, 1], [0, 1]]], order="SAS",
    ...                                 costs=[[0, 1], [2, 2]], horizon=3, validate=False)
    >>> print(check_model(broken))
    table: 1 violation
      error    state 0, action 0: probabilities sum to 0.9; they must sum to 1
    """
    if is_partly_observed(model):
        return check_hidden(model)
    if hasattr(model, "require_sound"):
        return model.check()  # type: ignore[no-any-return]
    if not hasattr(model, "step") and not hasattr(model, "actions"):
        raise ModelError(f"{type(model).__name__} is not a model; expected a TabularMDP or a simulator")
    return check_simulator(model, 0, episodes=5)


def require_model(model: Any, *, endless: bool = False) -> None:
    """Raise ``ModelError`` for what can be seen without running anything; every entry point calls this.

    A table is looked through, once in its life; of a simulator the methods, their arguments and the attributes.
    """
    refuse_hidden(model)
    own = None if isinstance(model, type) else getattr(model, "require_sound", None)
    if own is not None:
        own(endless=endless)
        return
    validate_simulator(model, endless=endless)


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
            if not _play(trial, steps if simulator.horizon is None else min(steps, int(simulator.horizon))):
                break
        for check in (check_repeats, check_itself, check_size, check_states_recur):
            check(trial)
        if own_method(simulator, "step_many") is not None and not trial.violations:
            check_many(trial)
    except Exception as error:  # whatever a user's objects raise when they are compared, or summed
        problem = f"using what it returned raised {type(error).__name__}: {error}"
        trial.fault(
            "surprise", trial.place, problem, "states must compare by content, and answers be of the right form"
        )
    return Report(name, tuple(trial.violations.values()), tuple(trial.warnings))


class _Step(NamedTuple):
    """One step that was tried: of it ``where`` is told to the user."""

    where: str
    state: Any
    action: Any
    h: int
    draws: np.random.SeedSequence
    result: Any


class _Trial:
    """What was tried so far, and the first fault of each kind."""

    def __init__(self, simulator: Any, seed: Seed) -> None:
        self.simulator = simulator
        self.sequence = seed_sequence(seed)
        self.picks = generator(self.sequence.spawn(1)[0])
        self.violations: dict[str, Violation] = {}
        self.warnings: list[Violation] = []
        self.place = model_name(simulator)  # of the last call
        self.steps: list[_Step] = []

    def fault(self, kind: str, where: str, problem: str, fix: str) -> None:
        self.violations.setdefault(kind, Violation(where, problem, fix))

    def warn(self, problem: str, fix: str) -> None:
        self.warnings.append(Violation(model_name(self.simulator), problem, fix))

    def call(self, method: str, arguments: tuple[Any, ...], where: str) -> tuple[Any] | None:
        """What a method answers, in a tuple; None if it raises, which is a fault."""
        self.place = where
        try:
            return (getattr(self.simulator, method)(*arguments),)
        except Exception as error:  # whatever a user's code raises is the finding
            self.fault(f"raises {method}", where, f"raised {type(error).__name__}: {error}", "it must not fail")
            return None


def _play(trial: _Trial, steps: int) -> bool:
    """Play one episode with the checks of each step; False when going on makes no sense."""
    state = trial.simulator.start
    for h in range(steps):
        listed = check_actions(trial, state, h)
        step = None if listed is None else check_step(trial, state, listed[int(trial.picks.integers(len(listed)))], h)
        if step is None:
            return False
        check_rollout(trial, step)
        check_outcomes(trial, step)
        state, _, done = step.result
        if done:
            return True
    if steps == trial.simulator.horizon:
        check_terminal_cost(trial, state, steps)
    return True


def check_actions(trial: _Trial, state: Any, h: int) -> list[Action] | None:
    """``actions`` gives a list of different ones, twice the same."""
    where = f"actions({short(state, 60)}) at step {h}"
    first, second = trial.call("actions", (state,), where), trial.call("actions", (state,), where)
    if first is None or second is None:
        return None
    listed, fault = listed_actions(first[0])
    if fault:
        problem = fault.partition("; ")[0]
        fix = f"return a number from 1 to {MAX_ACTIONS}, or a sequence of different actions"
        trial.fault("actions", where, problem, fix)
        return None
    if listed_actions(second[0])[0] != listed:
        trial.fault("actions differ", where, "two calls gave different actions", "the state alone must decide")
    return listed


def check_step(trial: _Trial, state: Any, action: Any, h: int) -> _Step | None:
    """``step`` answers in the right form, and leaves the state as it was."""
    where = f"step({short(state, 60)}, {short(action, 40)}) at step {h}"
    draws = trial.sequence.spawn(1)[0]
    before, code = _snapshot(state), hash(state)
    answer = trial.call("step", (state, action, generator(draws)), where)
    if answer is None:
        return None
    if hash(state) != code or _snapshot(state) != before:
        trial.fault("mutation", where, "it changed the state in place", "return a new state instead")
        return None
    fault = outcome_fault(answer[0])
    if fault:
        problem, _, fix = fault.partition("; ")
        trial.fault("outcome", where, problem, fix)
        return None
    following, cost, done = answer[0]
    trial.steps.append(_Step(where, state, action, h, draws, (following, float(cost), bool(done))))
    return trial.steps[-1]


def check_rollout(trial: _Trial, step: _Step) -> None:
    """``rollout``, where there is one, gives a finite number."""
    where = step.where.replace("step(", "rollout from step(", 1)
    _check_number(trial, "rollout", (step.state, step.h, generator(step.draws)), where)


def check_terminal_cost(trial: _Trial, state: Any, h: int) -> None:
    """``terminal_cost``, where there is one, gives a finite number."""
    _check_number(trial, "terminal_cost", (state,), f"at step {h}")


def _check_number(trial: _Trial, method: str, arguments: tuple[Any, ...], where: str) -> None:
    if own_method(trial.simulator, method) is None:
        return
    answer = trial.call(method, arguments, f"{method} {where}")
    fault = "" if answer is None else cost_fault(answer[0][0] if isinstance(answer[0], tuple) else answer[0])
    if fault:
        trial.fault(method, f"{method} {where}", f"its value {fault}", "return a finite number")


def check_outcomes(trial: _Trial, step: _Step) -> None:
    """``outcomes``, where there is one, lists chances that sum to 1, and what ``step`` has drawn."""
    if own_method(trial.simulator, "outcomes") is None:
        return
    place = step.where.replace("step(", "outcomes(", 1)
    answer = trial.call("outcomes", (step.state, step.action), place)
    if answer is None:
        return
    listed = [tuple(entry) for entry in answer[0]]
    if any(len(entry) != 4 or outcome_fault(entry[1:]) for entry in listed):
        trial.fault("outcomes", place, f"it holds {short(listed)}", "list (probability, next_state, cost, done)")
        return
    total = float(sum(entry[0] for entry in listed))
    if not abs(total - 1.0) <= SUM_TOLERANCE or min(entry[0] for entry in listed) < 0:
        trial.fault("sum", place, f"probabilities sum to {total:.9g}", "they must be non-negative and sum to 1")
    target, cost, done = step.result
    if not any(
        (done or entry[1] == target)
        and math.isclose(float(entry[2]), cost, rel_tol=1e-9)
        and bool(entry[3]) == done
        and entry[0] > 0
        for entry in listed
    ):
        trial.fault("unlisted", place, f"step drew {short(step.result)}, which is not listed", "list every outcome")


def check_repeats(trial: _Trial) -> None:
    """Each step, taken once more with the same draws, the last first, gives the same."""
    fix = "take all randomness from rng, keep nothing between calls, and give states a proper __eq__"
    for step in reversed(trial.steps):
        again = trial.call("step", (step.state, step.action, generator(step.draws)), step.where)
        if again is not None and tuple(again[0]) != step.result:
            trial.fault("draws", step.where, "the same draws gave another outcome", fix)


def check_itself(trial: _Trial) -> None:
    """What a simulator checks by itself: of a Gymnasium environment, how it is restored."""
    own = getattr(trial.simulator, "self_check", None)
    for violation in () if own is None else own(int(trial.picks.integers(1, 2**20))):
        trial.violations.setdefault("itself", violation)


def check_size(trial: _Trial) -> None:
    """Costs are of a size that leaves digits."""
    largest = max((abs(step.result[1]) for step in trial.steps), default=0.0)
    if largest > _LARGE_COST:
        trial.warn(f"the largest {trial.simulator.sense} is {largest:g}", "rescale: doubles have 16 digits")


def check_states_recur(trial: _Trial) -> None:
    """Some state comes twice, as a tree needs it."""
    reached = [step.result[0] for step in trial.steps if not step.result[2]]
    if len(reached) >= _FRESH_STATES and len(set(reached)) == len(reached) and not trial.violations:
        trial.warn(
            f"no state came twice in {len(reached)} steps",
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


_EPISODES, _STEPS = 4, 25  # a hundred steps: little beside an evaluation, even of a slow simulator


def fingerprint(model: Any, size: int = 16) -> bytes:
    """Return what tells a model from others: ``size`` bytes.

    A table is known by its arrays. A simulator cannot be read: it is known by its class, its contract and what it does
    in a few random episodes from a fixed seed; those that differ only where none of these came are not told apart.
    """
    digest = hashlib.blake2b(digest_size=size)
    if isinstance(model, PomdpTable):
        for array in (model.observed, model.start_belief, np.array([model.cost_seen])):
            digest.update(np.ascontiguousarray(array).data)
        model = model.table
    digest.update(
        repr((model.sense, None if model.horizon is None else int(model.horizon), float(model.discount))).encode()
    )
    if isinstance(model, TabularMDP):
        digest.update(repr(model.start).encode())
        for array in (*model.data, model.action_ids):
            digest.update(str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).data)
    else:
        digest.update(f"{type(model).__qualname__} {model_name(model)}".encode())
        for episode in range(_EPISODES):
            _trace(model, episode, digest)
    return digest.digest()


def _trace(model: Any, episode: int, digest: Any) -> None:
    """Add the costs of a random episode to the digest; a model that fails ends it."""
    rng = generator(episode)
    end = own_method(model, "terminal_cost")
    hidden = is_partly_observed(model)
    state, done = model.sample_start(rng) if hidden else model.start, False
    for _ in range(_STEPS if model.horizon is None else min(_STEPS, int(model.horizon))):
        try:
            choices = choices_of(model.actions() if hidden else model.actions(state))
            state, cost, done = model.step(state, choices[int(rng.random() * len(choices))], rng)
            digest.update(np.float64(cost).tobytes() + len(choices).to_bytes(8, "big") + bytes([bool(done)]))
        except Exception:  # the evaluation itself meets and names what matters of it
            digest.update(b"failed")
            return
        if done:
            return
    if end is not None and not hidden:
        try:
            digest.update(np.float64(end(state)).tobytes())
        except Exception:
            digest.update(b"failed")
