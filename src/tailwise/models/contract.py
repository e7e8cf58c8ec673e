"""The contract that every model answers, whatever its kind.

A model is a decision problem. At step ``h`` (0 to ``horizon - 1``, or without end where ``horizon`` is None) the
decision maker sees the state, picks one of ``actions(state)``, pays a cost and moves on. The total is
``sum_h discount**h * cost_h``, plus ``discount**horizon * terminal_cost(state)`` when step
``horizon`` is reached. ``done=True`` ends the episode: nothing more is charged, no terminal cost.

The limits below, and the checks of what all kinds of models have, are written here and nowhere else;
:mod:`tailwise.models.check` says which check is whose.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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
