"""The accrued-cost view: a utility of the total cost as a model of its own.

A utility u of the whole discounted total, ``min E[u(sum_h discount^h c_h)]``, has no dynamic
programming over states, since what is past still matters. It has one over pairs (state, cost
accrued so far), where each step is free and the end charges u of the total (Hayes et al., 2023; paper,
appendix "Risk-aware MCTS"). :class:`AccruedView` is that view of a model; a planner for the mean on
the view is a planner for u on the model.

For ``u(x) = exp(beta x)`` this is the entropic risk. The raw form overflows once ``beta x > 709``, and its
scale says nothing about costs, so that no exploration constant fits. The rescaled form

    u(x) = (exp(beta (x - m)) - 1) / beta

is an increasing affine map of it: the same decisions, but u has the unit of the costs and
slope 1 at the reference m. For rewards the sign of beta turns over and u is maximised: -u(-x) of the costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import numpy as np

from tailwise._validate import choice, real
from tailwise.errors import OptionError, SimulatorError, StateError
from tailwise.models.check import check_model, require_model
from tailwise.models.contract import LARGEST_COST, Action, Sense, State, cost_fault, done_fault, short
from tailwise.models.simulator import Simulator, action_label, model_name, own_method, state_label, validate_simulator
from tailwise.models.table import Report
from tailwise.models.tabular import TabularMDP
from tailwise.risk.entropic import inverse_utility, utility

EXP_LIMIT = 709.0  # exp overflows a little above


@dataclass(frozen=True, kw_only=True)
class ExponentialUtility:
    """The utility whose certainty equivalent is the entropic risk; minimised for costs, maximised for rewards.

    Parameters
    ----------
    beta : float
        Finite risk level: positive averse, negative seeking.
    reference : float, optional
        The point m of the rescaled form ``(exp(b (x - m)) - 1) / b``, a total in the model's own sense, with
        ``b = beta`` for costs and ``-beta`` for rewards. None is the raw form ``exp(b x)`` (``-exp(b x)`` for a
        negative b).
    sense : "cost" or "reward", default "cost"
        Whether x is a total cost or a total reward.

    Examples
    --------
    >>> from tailwise.models import ExponentialUtility
    >>> ExponentialUtility(beta=0.5, reference=2.0)(2.0)
    0.0
    >>> round(ExponentialUtility(beta=0.5).inverse(ExponentialUtility(beta=0.5)(3.0)), 12)
    3.0
    """

    beta: float
    reference: float | None = None
    sense: Sense = "cost"

    def __post_init__(self) -> None:
        real(self.beta, "beta")
        choice(self.sense, "sense", get_args(Sense))
        if self.reference is not None:
            real(self.reference, "reference", hint="it is a total at which the utility has slope 1")
        elif self.beta == 0.0:
            raise OptionError("the raw utility exp(beta x) is constant at beta = 0; use the rescaled form")

    @property
    def form(self) -> str:
        """``"raw"`` or ``"rescaled"``."""
        return "raw" if self.reference is None else "rescaled"

    @property
    def rate(self) -> float:
        """``b`` of the formulas: beta for costs, minus beta for rewards."""
        return self.beta if self.sense == "cost" else 0.0 - self.beta

    def __call__(self, total: float) -> float:
        """Return the utility of a total in the model's sense; infinite where it overflows."""
        rate = self.rate
        if self.reference is None:
            exponent = rate * total
            return math.copysign(math.exp(exponent) if exponent <= EXP_LIMIT else math.inf, rate)
        gap = total - self.reference
        if rate * gap > EXP_LIMIT:
            return math.copysign(math.inf, rate)
        return utility(gap, rate)

    def inverse(self, value: float) -> float:
        """Return the certainty equivalent: the total whose utility is ``value``.

        NaN if there is none; infinite, on the harmless side, where rounding has lost it, which happens to
        totals further than ``37 / |beta|`` from the reference.
        """
        rate = self.rate
        if self.reference is None:
            size = value if rate > 0 else -value
            return math.log(size) / rate if size > 0 else math.nan
        if rate * value <= -1.0:
            return math.copysign(math.inf, -rate) if rate * value == -1.0 else math.nan
        return self.reference + inverse_utility(value, rate)

    def overflow(self, where: str) -> OptionError:
        """Return the error for a total, named by ``where``, whose utility is too large for a number."""
        side = "larger" if self.rate > 0 else "smaller"
        way_out = 'use form="rescaled"' if self.reference is None else f"give a {side} reference"
        return OptionError(f"the utility {self} overflows on a total {where}; {way_out}")

    def __str__(self) -> str:
        rate = self.rate
        if self.reference is None:
            return f"exp({rate:g} x), raw" if rate > 0 else f"-exp({rate:g} x), raw"
        return f"(exp({rate:g} (x - {self.reference:.6g})) - 1) / {rate:g}, rescaled"


Utility: TypeAlias = "ExponentialUtility | Callable[[float], float]"


def check_utility(utility: Any, sense: Sense) -> None:
    """Raise ``OptionError`` unless ``utility`` is a function of totals in that sense."""
    if not callable(utility):
        raise OptionError(f"utility must be a function of the total, not {utility!r}")
    if isinstance(utility, ExponentialUtility) and utility.sense != sense:
        raise OptionError(f"the utility is of {utility.sense}s, the model has {sense}s; give it sense={sense!r}")


class AccruedView:
    """A model seen as (state, accrued discounted cost), with a utility of the total at the end.

    Parameters
    ----------
    model : TabularMDP or simulator
        The model. The view of a table is compiled; that of a simulator runs in Python.
    utility : callable float -> float
        Of the total in the model's own sense, as an :class:`ExponentialUtility` of that sense: minimised for
        costs, maximised for rewards.

    Raises
    ------
    ModelError
        If ``model`` is neither a table nor a simulator.
    OptionError
        If ``utility`` cannot be called, or is an exponential one of the other sense.

    Examples
    --------
    >>> from tailwise import domains
    >>> from tailwise.models import AccruedView, ExponentialUtility
    >>> view = AccruedView(domains.make("mdp-4"), ExponentialUtility(beta=0.5, reference=2.0))
    >>> view.start, view.discount
    ((0, 0.0), 1.0)
    """

    discount = 1.0  # it is inside the accrued cost already
    labels_by_state = True
    takes_step = True  # ``step`` wants to know which one it is

    def __init__(self, model: Any, utility: Utility) -> None:
        self.is_table = self.is_shareable = isinstance(model, TabularMDP)
        if self.is_table:
            model.require_sound()
        else:
            validate_simulator(model)
        check_utility(utility, model.sense)
        self.model, self.utility = model, utility
        self.horizon, self.sense, self.name = int(model.horizon), model.sense, model_name(model)
        self.start = model.start, 0.0
        self.patience = getattr(model, "patience", Simulator.patience)
        self.powers = float(model.discount) ** np.arange(self.horizon + 1, dtype=np.float64)
        self._end = own_method(model, "terminal_cost")

    def check(self) -> Report:
        """Report everything that is wrong with the model (see :func:`tailwise.check_model`)."""
        return check_model(self.model)

    def require_sound(self) -> None:
        """Raise ``ModelError`` for what can be seen to be wrong with the model without running it."""
        require_model(self.model)

    def actions(self, state: tuple[State, float]) -> int | Sequence[Action]:
        """Return the actions that the model allows in a (state, accrued) pair."""
        allowed: int | Sequence[Action] = self.model.actions(state[0])
        return allowed

    def step(
        self, state: tuple[Any, float], action: Any, rng: np.random.Generator, h: int
    ) -> tuple[tuple[State, float], float, bool]:
        """Draw ((next state, accrued), cost, done) of step ``h``; the accrued part is in the model's own sense.

        The cost is 0 but for the last step, which charges the utility of the total.
        """
        at: tuple[int, ...] = (h,) if getattr(self.model, "takes_step", False) else ()
        target, cost, done = self.model.step(state[0], action, rng, *at)
        if not abs(cost) <= LARGEST_COST:
            raise SimulatorError(f"the cost {cost_fault(cost)}")
        if done is not False and done is not True and done_fault(done):
            raise SimulatorError(done_fault(done))
        accrued = state[1] + float(self.powers[h]) * float(cost)
        if not done and h + 1 < self.horizon:
            return (target, accrued), 0.0, False
        end = 0.0 if done or self._end is None else float(self.powers[h + 1]) * float(self._end(target))
        return (target, accrued), self.utility_of(accrued + end), bool(done)

    def action_name(self, action: Any, state: tuple[Any, float] | None = None) -> str:
        """Return the model's name of an action, in a state of the view."""
        return action_label(self.model, action, None if state is None else state[0])

    def state_name(self, state: tuple[Any, float]) -> str:
        """Return the model's name of a state, with the accrued cost."""
        return f"{state_label(self.model, state[0])} (accrued {state[1]:.6g})"

    def signed(self, loss: float) -> float:
        """Turn a loss into the model's own sense, or back."""
        return loss if self.sense == "cost" else 0.0 - loss

    def root(self, state: Any, accrued: float) -> tuple[State, float]:
        """Return the view's state for a state of the model and what was paid before it."""
        given = self.model.start if state is None else state
        return (self.model.find_state(given) if self.is_table else given), accrued

    def utility_of(self, total: float) -> float:
        """Return the utility of a total, both in the model's own sense; raise ``OptionError`` if it overflows."""
        if isinstance(self.utility, ExponentialUtility):
            value = self.utility(total)
            if math.isinf(value):
                raise self.utility.overflow(f"of {total:g}")
            return value
        try:
            value = float(self.utility(total))
        except Exception as error:
            raise SimulatorError(
                f"the utility of the total {total:g} raised {type(error).__name__}: {error}; expected a number"
            ) from error
        if not math.isfinite(value):
            raise SimulatorError(
                f"the utility of the total {total:g} is {value}; it must be finite on all totals that can occur"
            )
        return value


def known_cost(model: Any, origin: Any, action: Any, target: Any, step: int) -> float:
    """Return the one cost at which ``action`` leads from ``origin`` to ``target``, in the model's own sense.

    Raises
    ------
    StateError
        If there is no such outcome.
    OptionError
        If there are several, or only the caller can know, as of a simulator.
    """
    if not isinstance(model, TabularMDP):
        raise OptionError(
            f"what action {action!r} in state {short(origin)} cost must be said: advance(action, state, cost=...)"
        )
    index = model.find_state(target)
    ids = [int(known) for known in model.actions(origin)]
    if isinstance(action, str):
        action = next((known for known in ids if model.action_name(known) == action), action)
    found = {o.cost for o in model.outcomes(origin, action, step) if o.next_state == index}
    if len(found) == 1:
        return found.pop()
    where = f"action {action!r} in state {model.state_name(origin)} to state {model.state_name(index)}"
    if not found:
        raise StateError(f"{where}: no such outcome in the table; if it did happen, pass its cost=")
    raise OptionError(
        f"{where} has {len(found)} possible costs ({', '.join(f'{c:g}' for c in sorted(found))}); say which was "
        "paid: advance(action, state, cost=...)"
    )


def total_bounds(mdp: TabularMDP) -> tuple[float, float]:
    """Return bounds (low, high) on the discounted total loss of every episode of a table."""
    mdp.require_sound()
    least, most = np.full(mdp.horizon, mdp.losses.min()), np.full(mdp.horizon, mdp.losses.max())
    for h in range(len(mdp.step_losses)):
        losses = mdp.losses_at(h)
        least[h], most[h] = losses.min(), losses.max()
    factors = float(mdp.discount) ** np.arange(mdp.horizon)
    last = mdp.discount**mdp.horizon
    ends = last * float(mdp.terminal_losses.min()), last * float(mdp.terminal_losses.max())
    if mdp.done.any():  # an episode that is over costs nothing more
        least, most = np.minimum(least, 0.0), np.maximum(most, 0.0)
        ends = min(ends[0], 0.0), max(ends[1], 0.0)
    return float(least @ factors) + ends[0], float(most @ factors) + ends[1]
