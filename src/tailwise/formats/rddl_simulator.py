"""An RDDL instance as a simulator.

pyRDDLGym's simulator keeps everything that changes in one dictionary, so saving and restoring a state
means reading and writing that dictionary. That this is so is verified for each instance when it is
loaded (:func:`verify`), not assumed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tailwise._random import generator
from tailwise.errors import ModelError, SimulatorError, StateError
from tailwise.models.contract import Sense
from tailwise.models.partly_observed import Draw, PartlyObserved
from tailwise.models.simulator import Simulator

State = tuple[Any, ...]
JointAction = tuple[str, dict[str, Any]]  # its name, and a value for every action fluent

_CACHED_STATES = 100_000
_EPISODES, _STEPS = 3, 20  # that tell whether all states allow the same


class RddlSimulator(Simulator):
    """A simulator of an RDDL instance; it follows the model contract. Get one from :func:`tailwise.load`.

    States are tuples of the state fluents' values (bool, int or float; objects by number), flattened.
    An action is the number of a joint action; those that break a precondition are not offered. The
    episode is over when a termination condition holds, or an invariant fails.

    Attributes
    ----------
    notes : tuple of str
        What the user should know.
    """

    sense: Sense = "reward"

    def __init__(
        self,
        sampler: Any,
        joint_actions: tuple[JointAction, ...],
        *,
        horizon: int,
        discount: float,
        name: str,
        reload: Callable[[], Any],
        notes: tuple[str, ...] = (),
    ) -> None:
        self.horizon = horizon
        self.discount = discount
        self.name = name
        self._sampler = sampler
        self._joint_actions = joint_actions
        self._reload = reload
        self._lock = threading.Lock()
        self._allowed: dict[State, tuple[int, ...]] = {}
        rddl = sampler.rddl
        carried = _carried(sampler)
        self._fluents = [*rddl.state_fluents, *carried]
        self._shown = list(rddl.observ_fluents)
        self.start: State = self._save(sampler.init_values)
        self.notes = notes
        if carried:
            self.notes += (f"the state holds {', '.join(carried)} as well: preconditions refer to them",)

    @property
    def num_actions(self) -> int:
        """Number of joint actions."""
        return len(self._joint_actions)

    @property
    def action_labels(self) -> tuple[str, ...]:
        """Names of the joint actions."""
        return tuple(name for name, _ in self._joint_actions)

    def action_name(self, action: int) -> str:
        """Return the name of a joint action."""
        return self._joint_actions[self._index(action)][0]

    def state_name(self, state: State) -> str:
        """Return the fluents of a state that are not false or 0, as text."""
        rddl, initial = self._sampler.rddl, self._sampler.init_values
        names = [name for fluent in self._fluents for name, _ in rddl.ground_var_with_values(fluent, initial[fluent])]
        shown = [
            name if value is True else f"{name}={value}"
            for name, value in zip(names, state, strict=True)
            if value not in (False, 0)
        ]
        return ", ".join(shown) or "all fluents false or 0"

    def actions(self, state: State) -> tuple[int, ...]:
        """Return the numbers of the joint actions whose preconditions hold in ``state``; raise if there are none."""
        if not self._sampler.rddl.preconditions:
            return tuple(range(self.num_actions))
        with self._lock:
            found = self._allowed.get(state)
            if found is None:
                found = tuple(k for k in range(self.num_actions) if self._is_legal(state, k))
                if len(self._allowed) >= _CACHED_STATES:
                    self._allowed.clear()
                self._allowed[state] = found
        if not found:
            raise ModelError(
                f"{self.name}: none of the {self.num_actions} joint actions satisfies the "
                f"preconditions in {self.state_name(state)}"
            )
        return found

    def step(self, state: State, action: int, rng: np.random.Generator) -> tuple[State, float, bool]:
        """Draw ``(next_state, reward, done)``; raise ``SimulatorError`` where the instance's equations fail."""
        return self.observed_step(state, action, rng)[:3]

    def observed_step(self, state: State, action: int, rng: np.random.Generator) -> tuple[State, float, bool, State]:
        """Draw what :meth:`step` does, and the values of the observ-fluents."""
        values = self._joint_actions[self._index(action)][1]
        with self._lock:
            self._restore(state)
            self._sampler.rng = rng
            try:
                _, reward, done = self._sampler.step(dict(values))
                done = bool(done) or not self._sampler.check_state_invariants(silent=True)
            except Exception as error:  # the instance's equations may fail in many ways
                raise SimulatorError(
                    f"{self.name}: action {self.action_name(action)!r} in state {self.state_name(state)} "
                    f"failed: {type(error).__name__}: {str(error)[:300]}"
                ) from error
            memory = self._sampler.subs
            following = self._save(memory)
            shown = tuple(v for fluent in self._shown for v in np.asarray(memory[fluent]).reshape(-1).tolist())
        if not math.isfinite(reward):
            raise SimulatorError(
                f"{self.name}: action {self.action_name(action)!r} in state {self.state_name(state)} gave "
                f"the reward {reward}; it must be finite"
            )
        return following, float(reward), done, shown

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return self._reload, ()

    def _is_legal(self, state: State, action: int) -> bool:
        self._restore(state)
        return bool(self._sampler.check_action_preconditions(dict(self._joint_actions[action][1]), silent=True))

    def _index(self, action: int) -> int:
        if isinstance(action, (bool, str, float)) or not 0 <= action < self.num_actions:
            raise StateError(f"{self.name}: action {action!r} is not one of 0..{self.num_actions - 1}")
        return int(action)

    def _save(self, memory: Any) -> State:
        return tuple(value for fluent in self._fluents for value in np.asarray(memory[fluent]).reshape(-1).tolist())

    def _restore(self, state: State) -> None:
        """Put ``state`` into a fresh copy of the simulator's memory."""
        initial = self._sampler.init_values
        memory = initial.copy()
        first = 0
        if len(state) != len(self.start):
            raise StateError(f"{self.name}: a state has {len(self.start)} values, not {len(state)}")
        for fluent in self._fluents:
            model = np.asarray(initial[fluent])
            flat = np.array(state[first : first + model.size], dtype=model.dtype)
            memory[fluent] = flat.reshape(model.shape) if model.shape else flat[0]
            first += model.size
        self._sampler.subs = memory
        self._sampler.state = None


class HiddenRddl(PartlyObserved):
    """An RDDL instance whose state is not seen: after each step its observ-fluents are, as a tuple of their values."""

    sense: Sense = "reward"

    def __init__(self, seen: RddlSimulator, reload: Callable[[], Any]) -> None:
        self.horizon, self.discount, self.name, self.notes = seen.horizon, seen.discount, seen.name, seen.notes
        self._seen, self._reload = seen, reload
        self._allowed = seen.actions(seen.start)

    def sample_start(self, rng: np.random.Generator) -> State:
        """Return the instance's initial state."""
        return self._seen.start

    def actions(self) -> tuple[int, ...]:
        """Return the numbers of the joint actions."""
        return self._allowed

    def action_name(self, action: int) -> str:
        """Return the name of a joint action."""
        return self._seen.action_name(action)

    def draw(self, state: State, action: int, rng: np.random.Generator) -> Draw:
        """Draw next state, reward, end and observation of a step together."""
        following, reward, done, shown = self._seen.observed_step(state, action, rng)
        return Draw(following, reward, done, None if done else shown)

    def step(self, state: State, action: int, rng: np.random.Generator) -> tuple[State, float, bool]:
        """Draw ``(next_state, reward, done)``; see :meth:`draw`."""
        return self.draw(state, action, rng)[:3]

    def observe(self, state: State, action: int, next_state: State, rng: np.random.Generator) -> State:
        """Raise ``ModelError``: what is observed is drawn with the step."""
        raise ModelError(f"{self.name}: what is observed is drawn with the step: use draw(state, action, rng)")

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return self._reload, ()


def allowed_alike(simulator: RddlSimulator) -> bool:
    """Whether the states of some random episodes all allow what the start allows."""
    rng, first = generator(1), simulator.actions(simulator.start)
    for _ in range(_EPISODES):
        state = simulator.start
        for _ in range(min(simulator.horizon, _STEPS)):
            state, _, done = simulator.step(state, first[int(rng.integers(len(first)))], rng)
            if done:
                break
            if simulator.actions(state) != first:
                return False
    return True


def verify(simulator: RddlSimulator) -> None:
    """Raise unless steps repeated from saved states, in reverse order and from fresh streams, come out the same."""
    taken: list[tuple[State, int, int, tuple[State, float, bool]]] = []
    picks, state = generator(0), simulator.start
    for seed in range(min(simulator.horizon, 8)):
        allowed = simulator.actions(state)
        action = int(allowed[int(picks.integers(len(allowed)))])
        result = simulator.step(state, action, generator(seed))
        taken.append((state, action, seed, result))
        if result[2]:
            break
        state = result[0]
    for state, action, seed, before in reversed(taken):
        if simulator.step(state, action, generator(seed)) != before:
            raise ModelError(
                f"{simulator.name}: a step repeated from a saved state came out differently; it cannot be planned on"
            )


def _carried(sampler: Any) -> list[str]:
    """Intermediate fluents that preconditions refer to: they are remembered from step to step."""
    rddl = sampler.rddl
    kinds = ("interm-fluent", "derived-fluent")
    derived = {name for name, kind in rddl.variable_types.items() if kind in kinds}
    used: set[str] = set()
    pending: list[Any] = list(rddl.preconditions)
    while pending:
        item = pending.pop()
        if hasattr(item, "etype"):
            if item.etype[0] == "pvar":
                used.add(item.args[0])
            pending.extend(item.args if isinstance(item.args, (tuple, list)) else [item.args])
        elif isinstance(item, (tuple, list)):
            pending.extend(item)
    return sorted(used & derived)
