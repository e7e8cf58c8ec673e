"""The contract that every model answers, whatever its kind.

A model is a decision problem. At step ``h`` (0 to ``horizon - 1``, or without end where ``horizon`` is None) the
decision maker sees the state, picks one of ``actions(state)``, pays a cost and moves on. The total is
``sum_h discount**h * cost_h``, plus ``discount**horizon * terminal_cost(state)`` when step
``horizon`` is reached. ``done=True`` ends the episode: nothing more is charged, no terminal cost.

The limits below, and the checks of what all kinds of models have and of every answer that user code gives, are written
here and nowhere else; :mod:`tailwise.models.check` says which check is whose.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Hashable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np

from tailwise._validate import integer, real
from tailwise.errors import ModelError, OptionError

Sense: TypeAlias = Literal["cost", "reward"]


class Own(Enum):
    """What stands for "not given" where None means something of its own: that there is no horizon."""

    OWN = "own"


OWN: Final = Own.OWN
State: TypeAlias = Hashable
Action: TypeAlias = Hashable

MAX_HORIZON = 10_000_000  # decisions; a search keeps a few numbers for each
MAX_ACTIONS = 1_000_000  # in one state, of a simulator
LARGEST_COST = 1e140  # of one step: totals over the longest horizon, and their squares, are finite
SUM_TOLERANCE = 1e-6  # probabilities that miss 1 by less are rounding of the source, and are rescaled

AS_IF_SEEN = "as if seen"  # how a note starts that says that a hidden state is planned on as if it were seen
CUT_SHORT = "an infinite horizon was cut"  # how a note starts that says how far plans look


class Outcome(NamedTuple):
    """One outcome of an action. Two outcomes may share ``next_state`` and differ in cost."""

    probability: float
    next_state: Any
    cost: float
    done: bool


@runtime_checkable
class Model(Protocol):
    """What planners ask of a model. Costs are in the model's own ``sense``.

    Attributes
    ----------
    horizon : int or None
        Number of decisions H, at least 1; None where there is none, and the episode goes on until it is done.
    discount : float in (0, 1]
        Factor per step.
    sense : "cost" or "reward"
        Whether the numbers of ``step`` are costs (minimised) or rewards (maximised).
    start : hashable
        Initial state.
    """

    horizon: Any
    discount: float
    sense: Sense
    start: Any

    def actions(self, state: Any) -> int | Sequence[Action]:
        """Return the actions allowed in ``state``: their ids, or their number n for 0..n-1."""
        ...

    def step(self, state: Any, action: Any, rng: np.random.Generator) -> tuple[Hashable, float, bool]:
        """Draw ``(next_state, cost, done)``."""
        ...


def check_horizon(horizon: Any) -> int:
    """Return ``horizon`` as an int from 1 to 10,000,000, or raise ``ModelError``."""
    try:
        steps = integer(horizon, "horizon", low=1, hint="it is the number of decisions")
    except OptionError as error:
        raise ModelError(str(error)) from None
    if steps > MAX_HORIZON:
        raise ModelError(f"horizon must be at most {MAX_HORIZON}, not {steps}; None stands for no horizon")
    return steps


def check_any_horizon(horizon: Any) -> int | None:
    """Return ``horizon`` as :func:`check_horizon` does, or None as it is: no horizon."""
    return None if horizon is None else check_horizon(horizon)


def needs_horizon(name: str) -> str:
    """Say that a model has no horizon where one is needed, and what to do."""
    return (
        f"{name} has no horizon, and this needs one: give it one (model.with_options(horizon=...), or horizon=), "
        "truncate(model, tolerance) where it discounts, or find its stationary policy by solve(model, objective)"
    )


def check_discount(discount: Any) -> float:
    """Return ``discount`` as a float in (0, 1], or raise ``ModelError``."""
    try:
        return real(discount, "discount", low=0.0, high=1.0, ends="(]")
    except OptionError as error:
        raise ModelError(str(error)) from None


def check_sense(sense: Any) -> Sense:
    """Return ``sense`` if it is one of the two, or raise ``ModelError``."""
    if sense not in get_args(Sense):
        raise ModelError(f"sense must be 'cost' or 'reward', not {sense!r}")
    return sense  # type: ignore[no-any-return]


def scalar_faults(model: Any) -> list[str]:
    """Say what is wrong with the horizon, discount and sense that a model has."""
    faults = []
    for name, check in (("horizon", check_any_horizon), ("discount", check_discount), ("sense", check_sense)):
        if hasattr(model, name):
            try:
                check(getattr(model, name))
            except ModelError as error:
                faults.append(str(error))
    return faults


_HASHABLE_FORMS = {"list": "use a tuple", "dict": "use a tuple of its items", "set": "use a frozenset"}


def state_fault(state: Any) -> str:
    """Say why ``state`` cannot serve as a state; empty if it can."""
    try:
        hash(state)
    except Exception as error:
        if not isinstance(error, TypeError):
            return f"{short(state)} of type {type(state).__name__} has a __hash__ that raises {type(error).__name__}"
        if isinstance(state, np.ndarray):
            return f"{short(state)} is an array, which is not hashable; use tuple(array.tolist()) or array.tobytes()"
        fix = _HASHABLE_FORMS.get(type(state).__name__)
        return f"{short(state)} of type {type(state).__name__} is not hashable; " + (
            fix or "use a tuple or a frozen dataclass"
        )
    if compared_by_identity(state):
        return (
            f"{short(state)} of type {type(state).__name__} is compared by identity, so no two states would ever be "
            "equal; define __eq__ and __hash__, or use a tuple or a frozen dataclass"
        )
    if holds_nan(state):
        return f"{short(state)} is or holds NaN, which equals not even itself; use None, or a number of its own"
    return ""


def compared_by_identity(state: Any) -> bool:
    """Whether two states of this type are equal only if they are one object."""
    by_default: Any = object.__hash__
    return type(state).__hash__ is by_default and state is not None  # of None there is only one


@functools.lru_cache
def _compared_fields(kind: Any) -> tuple[str, ...]:
    """The fields by which states of a dataclass are compared, where it compares none in a way of its own."""
    code = getattr(kind.__eq__, "__code__", None)
    if not is_dataclass(kind) or code is None or code.co_filename != "<string>":  # generated code
        return ()
    return tuple(one.name for one in fields(kind) if one.compare)


def holds_nan(state: Any) -> bool:
    """Whether a state, or a part of it that counts where states are compared, is NaN."""
    if isinstance(state, (int, str, bytes)):
        return False
    if isinstance(state, (tuple, frozenset)):
        return any(map(holds_nan, state))
    kind: Any = type(state)
    if any(holds_nan(getattr(state, name)) for name in _compared_fields(kind)):
        return True
    try:
        return bool(state != state)  # of what is NaN, or compares such numbers
    except Exception:  # whoever compares such states says so
        return False


def choices_of(answer: Any) -> Sequence[Any]:
    """Return the actions that ``actions`` gave, where that is known to be sound: those of a number n are 0..n-1."""
    return range(int(answer)) if isinstance(answer, (int, np.integer)) else list(answer)


def listed_actions(answer: Any) -> tuple[list[Action], str]:
    """Return what ``actions`` gave as a list, and what is wrong with it; empty if nothing is."""
    if hasattr(answer, "low") and hasattr(answer, "high"):
        return [], (
            f"it returned a continuous space, {short(answer)}; the search needs finitely many actions: "
            "choose them with tailwise.Discretized"
        )
    is_number = isinstance(answer, (int, np.integer)) and not isinstance(answer, bool)
    is_array = isinstance(answer, np.ndarray)
    is_sequence = hasattr(answer, "__len__") and hasattr(answer, "__getitem__") and not isinstance(answer, (str, dict))
    if not is_number and not (answer.ndim == 1 if is_array else is_sequence):
        return [], f"it returned {short(answer)}; expected a number of actions or a sequence of them"
    number = answer if is_number else len(answer)
    if number > MAX_ACTIONS:
        return [], f"it returned {short(number)} actions; the search takes at most {MAX_ACTIONS}: choose some"
    if number < 1:
        return [], "no action is allowed; give the state one, or end the episode with done=True"
    if is_number:
        return list(range(int(answer))), ""
    listed = answer.tolist() if is_array else list(answer)
    twice = _listed_twice(listed)
    return ([], f"action {short(twice[0])} is listed twice; list every action once") if twice else (listed, "")


def _listed_twice(actions: list[Any]) -> list[Any]:
    """Return the first action that equals an earlier one, in a list, or an empty one."""
    with contextlib.suppress(TypeError):  # of actions that cannot be hashed
        if len(set(actions)) == len(actions):
            return []
        return next([action] for k, action in enumerate(actions) if action in actions[:k])
    return []


def outcome_fault(result: Any) -> str:
    """Say what is wrong with what ``step`` returned; empty if nothing is."""
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        return f"it returned {short(result)}; expected (next_state, cost, done)"
    state, cost, done = result
    for what, fault in (("next state", state_fault(state)), ("cost", cost_fault(cost))):
        if fault:
            return f"the {what} {fault}"
    return done_fault(done)


def done_fault(done: Any) -> str:
    """Say what is wrong with a ``done``, which is a bool, or 0 or 1; empty if nothing is."""
    value = done[()] if isinstance(done, np.ndarray) and done.ndim == 0 else done
    is_whole = isinstance(value, (bool, np.bool_, int, np.integer))
    return "" if is_whole and value in (0, 1) else f"done is {short(done)}; expected a bool"


def cost_fault(cost: Any) -> str:
    """Say what is wrong with a cost; empty if nothing is."""
    if isinstance(cost, np.ndarray) and cost.ndim == 0:
        cost = cost[()]
    if not isinstance(cost, (bool, np.bool_, int, float, np.integer, np.floating)):
        return f"is {short(cost)} of type {type(cost).__name__}; it must be a number"
    size: Any = abs(cost)
    if not size <= LARGEST_COST:  # or NaN, or an int beyond the range of a double
        return f"is {short(cost, 40)}; it must be a finite number of at most {LARGEST_COST:g}"
    return ""


def short(value: Any, limit: int = 120) -> str:
    """Return ``repr(value)``, cut to ``limit`` characters."""
    try:
        text = repr(value)
    except Exception as error:  # a user's own __repr__ may fail while we report another failure
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."
