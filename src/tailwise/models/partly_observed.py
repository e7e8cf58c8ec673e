"""Models whose state is not seen: the contract of simulators, and what is asked of them.

At each step the decision maker takes an action, the hidden state moves on, and an *observation* is made of the new
state. Whether the cost is seen as well is part of the model (``cost_seen``): a cost that is seen is one more
observation, and tells of the state; one that is not seen may have been paid already without anybody knowing, which
under risk weighs on every later decision.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tailwise._random import generator
from tailwise.errors import ModelError, SimulatorError
from tailwise.models.contract import Sense, listed_actions, outcome_fault, scalar_faults, short, state_fault
from tailwise.models.simulator import model_name
from tailwise.models.table import Report, Violation

_REQUIRED = {
    "sample_start": "sample_start(rng) -> state",
    "actions": "actions() -> int | Sequence",
    "step": "step(state, action, rng) -> (next_state, cost, done)",
    "observe": "observe(state, action, next_state, rng) -> observation",
}
_TRIED_STEPS = 200
_PROBED, _FEW = 40, 500  # episodes that tell whether what is drawn comes back, and how much of it


class Draw(NamedTuple):
    """What one step of a partly observed model gave; ``observation`` is None where the episode ended."""

    next_state: Any
    cost: float
    done: bool
    observation: Any


class PartlyObserved:
    """Base class of simulators whose state is not seen.

    Override :meth:`sample_start`, :meth:`actions`, :meth:`step` and :meth:`observe`, and set ``horizon``. States and
    observations are hashable values; all randomness must come from ``rng``.

    Attributes
    ----------
    horizon : int
        Number of decisions H, at least 1.
    discount : float in (0, 1], default 1.0
        Factor per step.
    sense : "cost" or "reward", default "cost"
        Whether the numbers of ``step`` are costs (minimised) or rewards (maximised).
    cost_seen : bool, default False
        Whether the decision maker sees what each step cost. Under risk it matters even where the cost tells nothing of
        the state: what was paid unseen is still to come to light, and weighs on every later decision.
    name : str
        Name of the problem, for display.

    Notes
    -----
    Methods that are used where a subclass (or any object with the four methods) defines them:

    ``terminal_cost(state) -> float``
        Charged (in the model's sense) when step H is reached; not after ``done``.
    ``starts()``, ``outcomes(state, action)``, ``observations(state, action, next_state)``
        Lists of what may happen, for exact planning (:func:`tailwise.models.tabulate`): of (probability, state),
        (probability, next_state, cost, done) and (probability, observation).
    ``action_name(action) -> str``
        The action's name, for display.

    That an episode ended (``done``) is seen; it has no observation.

    Examples
    --------
    >>> from tailwise import PartlyObserved, make_planner
    >>> class Door(PartlyObserved):
    ...     horizon = 3
    ...     def sample_start(self, rng):
    ...         return "left" if rng.random() < 0.5 else "right"
    ...     def actions(self):
    ...         return ("listen", "left", "right")
    ...     def step(self, state, action, rng):
    ...         if action == "listen":
    ...             return state, 1.0, False
    ...         return state, 20.0 if action == state else 0.0, True
    ...     def observe(self, state, action, next_state, rng):
    ...         other = "left" if state == "right" else "right"
    ...         return state if rng.random() < 0.9 else other
    >>> make_planner(Door(), 0.05, seed=0).plan(iterations=3000).action
    'listen'
    """

    horizon: int
    discount: float = 1.0
    sense: Sense = "cost"
    cost_seen: bool = False
    name: str = ""

    def sample_start(self, rng: np.random.Generator) -> Hashable:
        """Draw the state in which an episode begins; it is not seen."""
        raise NotImplementedError

    def actions(self) -> int | Sequence[Any]:
        """Return the actions: their ids, or their number n for 0..n-1; the same in every state, for none is seen."""
        raise NotImplementedError

    def step(self, state: Any, action: Any, rng: np.random.Generator) -> tuple[Hashable, float, bool]:
        """Draw ``(next_state, cost, done)``; ``done`` ends the episode and nothing more is charged."""
        raise NotImplementedError

    def observe(self, state: Any, action: Any, next_state: Any, rng: np.random.Generator) -> Hashable:
        """Draw what is observed after ``action`` led from ``state`` to ``next_state``."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{model_name(self)}(horizon={getattr(self, 'horizon', '?')}, discount={self.discount})"


def hidden_actions(model: Any) -> list[Any]:
    """Return the actions of a partly observed model, or raise ``ModelError``."""
    try:
        listed, fault = listed_actions(model.actions())
    except TypeError as error:
        raise ModelError(
            f"{model_name(model)}: actions() failed: {error}; it takes no state, for none is seen"
        ) from None
    if fault:
        raise ModelError(f"{model_name(model)}: actions(): {fault}")
    return listed


def drawn(model: Any, state: Any, action: Any, rng: np.random.Generator) -> Draw:
    """Draw one step of a partly observed model: from its own ``draw`` where it has one, as tables do."""
    own = getattr(model, "draw", None)
    if own is not None:
        return own(state, action, rng)  # type: ignore[no-any-return]
    try:
        result = model.step(state, action, rng)
        fault = outcome_fault(result)
        if not fault:
            following, cost, done = result
            seen = None if done else model.observe(state, action, following, rng)
            fault = state_fault(seen)
            fault = fault and f"the observation {fault}"
    except Exception as error:
        where = f"{model_name(model)}, state {short(state)}, action {short(action)}"
        raise SimulatorError(f"{where}: {type(error).__name__}: {error}") from error
    if fault:
        raise SimulatorError(f"step of {model_name(model)} in state {short(state)}, action {short(action)}: {fault}")
    return Draw(following, float(cost), bool(done), seen)


def comes_back(model: Any) -> bool:
    """Whether the states and observations that random episodes show are few, and soon are none new."""
    require_hidden(model)
    rng, actions = generator(0), hidden_actions(model)
    met, new = set[Hashable](), 0
    for episode in range(_PROBED):
        state, before = model.sample_start(rng), len(met)
        for _ in range(int(model.horizon)):
            met.add((0, state))
            state, _, done, seen = drawn(model, state, actions[int(rng.random() * len(actions))], rng)
            if done:
                break
            met.add((1, seen))
            if len(met) > _FEW:
                return False
        new += len(met) - before if 2 * episode >= _PROBED else 0
    return 4 * new <= _PROBED


def require_hidden(model: Any) -> None:
    """Raise ``ModelError`` for what can be seen of a partly observed model without running it."""
    own = getattr(model, "require_sound", None)
    if own is not None:
        own()
        return
    faults = [f"{name} is missing; expected {form}" for name, form in _REQUIRED.items() if not hasattr(model, name)]
    faults += [f"{name} is missing" for name in ("horizon", "discount", "sense") if not hasattr(model, name)]
    faults += scalar_faults(model)
    if getattr(model, "horizon", 0) is None:
        faults.append("horizon is None; models whose state is not seen need a number of decisions")
    if not isinstance(getattr(model, "cost_seen", False), (bool, np.bool_)):
        faults.append(f"cost_seen is {model.cost_seen!r}; expected True or False")
    if faults:
        raise ModelError(f"{model_name(model)} cannot be planned on:\n  " + "\n  ".join(faults))
    hidden_actions(model)


def check_hidden(model: Any) -> Report:
    """Report what is wrong with a partly observed model; a simulator is tried out on some random steps."""
    if hasattr(model, "require_sound"):
        return model.check()  # type: ignore[no-any-return]
    name = model_name(model)
    try:
        require_hidden(model)
        rng = np.random.Generator(np.random.SFC64(0))
        state, h, listed = model.sample_start(rng), 0, hidden_actions(model)
        for _ in range(_TRIED_STEPS):
            fault = state_fault(state)
            if fault:
                return Report(name, (Violation("sample_start", fault, "states must be hashable"),))
            action = listed[int(rng.integers(len(listed)))]
            seed = int(rng.integers(2**31))
            once, again = (drawn(model, state, action, np.random.Generator(np.random.SFC64(seed))) for _ in range(2))
            if once != again:
                where = f"state {short(state)}, action {short(action)}"
                fix = "all randomness must come from rng, and nothing may be kept between calls"
                return Report(name, (Violation(where, "one seed gave two different steps", fix),))
            state, h = once.next_state, h + 1
            if once.done or h == int(model.horizon):
                state, h = model.sample_start(rng), 0
    except (ModelError, SimulatorError) as error:
        return Report(name, (Violation("contract", str(error), "see tailwise.PartlyObserved"),))
    return Report(name, ())
