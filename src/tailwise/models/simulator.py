"""Models written as plain Python: the ``Simulator`` contract and its cheap checks.

A simulator draws outcomes; it never has to list them. Any object with the right methods will do
(a *duck type*); :class:`Simulator` only spares writing the defaults. The search drives it from
its compiled kernel through a callback, with states interned in a dict.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import difflib
import inspect
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np

from tailwise.errors import ModelError, StateError
from tailwise.models.contract import (
    MAX_HORIZON,
    Action,
    Sense,
    State,
    needs_horizon,
    scalar_faults,
    short,
    state_fault,
)

_REQUIRED = {
    "actions": (1, "actions(self, state) -> int | Sequence"),
    "step": (3, "step(self, state, action, rng) -> (next_state, cost, done)"),
}
_OPTIONAL = {
    "terminal_cost": (1, "terminal_cost(self, state) -> float"),
    "rollout": (3, "rollout(self, state, h, rng) -> float"),
    "step_many": (3, "step_many(self, states, actions, rng) -> (next_states, costs, done)"),
    "outcomes": (2, "outcomes(self, state, action) -> list of (probability, next_state, cost, done)"),
    "action_name": (1, "action_name(self, action) -> str"),
    "state_name": (1, "state_name(self, state) -> str"),
}
_SYNONYMS = dict.fromkeys(("terminal_reward", "terminal_value", "final_cost", "final_reward"), "terminal_cost")
_ATTRIBUTES = {
    "horizon": f"an int from 1 to {MAX_HORIZON}",
    "discount": "a number in (0, 1]",
    "sense": "'cost' or 'reward'",
    "start": "a hashable initial state",
}
_HIDDEN = ("sample_start", "observe")

Begun = TypeVar("Begun")


class Simulator:
    """Base class of models that draw outcomes in Python.

    Override :meth:`step`, :meth:`actions` and set ``start`` and ``horizon``. States may be any
    hashable value, and must not be changed in place. All randomness must come from ``rng``: the
    search's own stream, so that a seed fixes the result.

    Attributes
    ----------
    horizon : int
        Number of decisions H, at least 1. No simulated episode is longer.
    discount : float in (0, 1], default 1.0
        Factor per step.
    sense : "cost" or "reward", default "cost"
        Whether the numbers of ``step`` are costs (minimised) or rewards (maximised).
    start : hashable
        Initial state.
    name : str
        Name of the problem, for display; the class's name if not set.

    patience : float, default 60.0
        Seconds after which a call (of ``step``, or a whole rollout) counts as endless and becomes an error.
    likelihood_ratios : bool, default False
        Whether ``step`` returns a fourth item: how much more probable the draw is in truth than as it was drawn. For
        searches for the ERM alone.

    Notes
    -----
    Four optional methods are used where a subclass (or duck type) defines them:

    ``terminal_cost(state) -> float``
        Charged (in the model's sense) when step H is reached; not after ``done``.
    ``rollout(state, h, rng) -> float``
        A sampled cost-to-go from step ``h``, discounted to ``h``, in the model's sense, instead of
        the uniform random rollout; it may return ``(total, number of steps)`` to have its steps counted.
    ``step_many(states, actions, rng) -> (next_states, costs, done)``
        A step of n states at once, in NumPy, for ``evaluate(..., batch_size=)``. ``states`` has shape (n,) where a
        state is a number, (n, d) where it is a tuple of d numbers; ``actions`` has shape (n,), or (n, k) of tuples.
        What returns: numbers of the shape of ``states``, finite numbers (n,), and bools (n,); each row is drawn by
        itself.
    ``outcomes(state, action) -> list of (probability, next_state, cost, done)``
        For exact planning: see :func:`tailwise.models.tabulate`.

    Examples
    --------
    >>> from tailwise import ErmMcts, PolynomialBonus, Simulator
    >>> class Walk(Simulator):
    ...     start, horizon = 0, 4
    ...     def actions(self, state):
    ...         return ("slow", "fast")
    ...     def step(self, state, action, rng):
    ...         if action == "slow":
    ...             return state + 1, 2.0, False
    ...         return state + 1, 10.0 if rng.random() < 0.1 else 1.0, False
    >>> ErmMcts(Walk(), beta=0.5, seed=0, bonus=PolynomialBonus(constant=10.0)).plan(iterations=500).action
    'slow'
    """

    horizon: int
    discount: float = 1.0
    sense: Sense = "cost"
    start: Any
    name: str = ""
    patience: float = 60.0
    likelihood_ratios: bool = False

    def actions(self, state: Any) -> int | Sequence[Action]:
        """Return the actions allowed in ``state``: their ids, or their number n for 0..n-1."""
        raise NotImplementedError

    def step(self, state: Any, action: Any, rng: np.random.Generator) -> tuple[Hashable, float, bool]:
        """Draw ``(next_state, cost, done)``; ``done`` ends the episode and nothing more is charged."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{model_name(self)}(horizon={getattr(self, 'horizon', '?')}, discount={self.discount})"


def model_name(model: Any) -> str:
    """Return the name of a model for display."""
    return str(getattr(model, "name", "") or type(model).__name__)


def is_partly_observed(model: Any) -> bool:
    """Return whether the state of a model is hidden: it has ``sample_start`` and ``observe``."""
    return not isinstance(model, type) and all(callable(getattr(model, name, None)) for name in _HIDDEN)


def refuse_hidden(model: Any) -> None:
    """Raise ``ModelError`` where a partly observed model is given to what takes its state as seen."""
    if is_partly_observed(model):
        raise ModelError(
            f"the state of {model_name(model)} is not seen, and this method plans as if it were; use tailwise.solve or "
            "make_planner(model, beta), which decide from what was observed"
            + (
                "; of alternatives, outcomes=ID or 'uniform' and .mixed() make a table"
                if hasattr(model, "mixed")
                else ""
            )
        )


def own_method(model: Any, name: str) -> Callable[..., Any] | None:
    """Return the method of that name if the model really defines it, else None."""
    method: Callable[..., Any] | None = getattr(model, name, None)
    default = getattr(Simulator, name, None)
    if default is not None and getattr(method, "__func__", None) is default:
        return None
    return method


def lists_outcomes(model: Any) -> bool:
    """Return whether a model, a table or a simulator, can say every outcome of an action, with its probability."""
    return own_method(model, "outcomes") is not None


def action_label(model: Any, action: Any, state: Any) -> str:
    """Return the name to show for an action in a state; only compiled simulators may name theirs by the state."""
    name = own_method(model, "action_name")
    if name is None:
        return str(action)
    return str(name(action, state) if getattr(model, "labels_by_state", False) else name(action))


_NUMPY = re.compile(r"\bnp\.\w+\(([^()]*)\)")  # np.int64(2) is 2 to whoever reads it, and can be typed


def state_label(model: Any, state: Any) -> str:
    """Return the simulator's own name of a state, or its text."""
    name = own_method(model, "state_name")
    return _NUMPY.sub(r"\1", short(state)) if name is None else str(name(state))


def read_state(model: Any, text: str) -> State:
    """Return the state that a text means, a name of the model's or a Python literal, or raise ``StateError``."""
    try:
        state: State = model.find_state(text) if hasattr(model, "find_state") else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise StateError(f"state {short(text)} is not a Python literal such as 3 or (0, 1.5)") from None
    return state


def begun_in(model: Begun, state: Any) -> Begun:
    """Return a copy of a model that begins in another state."""
    begun: Any = model
    if hasattr(begun, "with_options") and type(begun).with_options.__module__.startswith("tailwise."):  # of a table
        return begun.with_options(start=state)  # type: ignore[no-any-return]
    begun = copy.copy(begun)
    begun.start = state
    return begun  # type: ignore[no-any-return]


def contract_faults(model: Any) -> list[str]:
    """Everything that keeps ``model`` from being a simulator, without running it; cheap."""
    if isinstance(model, type):
        return [f"it is a class, not an object; pass an instance, as {model.__name__}()"]
    if hasattr(model, "num_envs") and hasattr(model, "single_action_space"):
        return [
            "it is a vector environment, which steps many copies at once; plan on a single one: GymnasiumSimulator(ID)"
        ]
    if hasattr(model, "action_space"):
        return ["it is a Gymnasium environment; wrap it: GymnasiumSimulator(env, horizon=...)"]
    if isinstance(model, str):
        return [f"it is a text; a model is loaded first: tailwise.load({model!r})"]
    faults = []
    for name, (count, signature) in (_REQUIRED | _OPTIONAL).items():
        method = own_method(model, name)
        if method is not None:
            faults += _signature_faults(method, name, count, signature)
        elif name in _REQUIRED:
            faults.append(f"{name} is missing; expected {signature}")
    faults += _misspelt(model)
    for name, expected in _ATTRIBUTES.items():
        if not hasattr(model, name):
            faults.append(f"{name} is missing; expected {expected}")
    faults += scalar_faults(model)
    patience = getattr(model, "patience", Simulator.patience)
    if isinstance(patience, bool) or not isinstance(patience, (int, float)) or not patience > 0:
        faults.append(f"patience is {patience!r}; expected a number of seconds above 0")
    if hasattr(model, "start"):
        fault = state_fault(model.start)
        if fault:
            faults.append(f"start: {fault}")
    return faults


def _misspelt(model: Any) -> list[str]:
    """Public methods that look like an optional one that the model does not have, and would be ignored in silence."""
    absent = [name for name in _OPTIONAL if own_method(model, name) is None]
    own: set[str] = {name for name, value in getattr(model, "__dict__", {}).items() if callable(value)}
    for kind in type(model).__mro__[:-1]:
        if not kind.__module__.startswith("tailwise."):
            own |= {name for name, value in vars(kind).items() if callable(value)}
    faults = []
    for name in sorted(own - _REQUIRED.keys() - _OPTIONAL.keys()):
        near = difflib.get_close_matches(name, absent, n=1, cutoff=0.85)
        meant = _SYNONYMS.get(name, near[0] if near and not name.startswith("_") else None)
        if meant in absent:
            faults.append(
                f"{name} is no method that a search would call; did you mean {_OPTIONAL[meant][1]}? If it is your own, "
                f"call it _{name}"
            )
    return faults


def _signature_faults(method: Any, name: str, count: int, signature: str) -> list[str]:
    if not callable(method):
        return [f"{name} is {method!r}, not a method; expected {signature}"]
    with contextlib.suppress(ValueError):  # builtins without a signature
        try:
            inspect.signature(method).bind(*range(count))
        except TypeError:
            return [f"{name}{inspect.signature(method)} does not fit; expected {signature}"]
    return []


def validate_simulator(model: Any, *, endless: bool = False) -> None:
    """Raise one ``ModelError`` that names everything wrong with a simulator's shape.

    Without a horizon it passes where ``endless``.

    Raises
    ------
    ModelError
        Naming every missing or wrong method and attribute, with the signature expected.
    """
    refuse_hidden(model)
    faults = contract_faults(model)
    if faults:
        name, kind = model_name(model), type(model).__name__
        listed = faults[0] if len(faults) == 1 else "\n  " + "\n  ".join(faults)
        raise ModelError(f"{name}{'' if name == kind else f' (of type {kind})'} cannot be planned on: {listed}")
    if model.horizon is None and not endless:
        raise ModelError(needs_horizon(model_name(model)))
