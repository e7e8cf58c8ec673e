"""Gymnasium environments as simulators.

The planner works on a private environment, which it puts into any state and steps with its own random draws. How
a state is saved and restored is found out, and verified, when the simulator is made; see
:mod:`tailwise.models.gymnasium_saving`.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from tailwise._validate import integer
from tailwise.errors import ModelError, StateError, require
from tailwise.models.contract import Sense
from tailwise.models.discretized import Discretized
from tailwise.models.gymnasium_saving import (
    Attributes,
    DeepCopy,
    Machine,
    OwnFunctions,
    Replay,
    Way,
    find_fault,
)
from tailwise.models.gymnasium_table import _KNOWN_LABELS, make_environment, time_limit
from tailwise.models.mujoco_saving import MujocoData, MujocoState
from tailwise.models.simulator import Simulator, short
from tailwise.models.tabular_build import check_discount, check_horizon

DEFAULT_HORIZON = 100
_MOST_ACTIONS = 10_000
_HARMLESS = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker")


class EnvironmentState:
    """A state of a Gymnasium environment: all that its ``step`` depends on, besides the draws.

    Attributes
    ----------
    observation : object
        What the agent sees there.
    """

    __slots__ = ("_hash", "_key", "observation", "payload")

    def __init__(self, observation: Any, key: Hashable, payload: Any) -> None:
        self.observation, self.payload, self._key = observation, payload, key
        self._hash = hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EnvironmentState) and self._hash == other._hash and self._key == other._key

    def __repr__(self) -> str:
        return short(self.observation)


class GymnasiumSimulator(Simulator):
    """A Gymnasium environment that can be planned on.

    Parameters
    ----------
    env_or_id : gymnasium.Env or str
        The environment or the id to make it from. An environment that was reset is planned on from where it
        stands, and is itself never stepped.
    horizon : int, optional
        Number of decisions; the environment's own time limit if not given, or 100 if it has none. Truncation is
        the horizon.
    discount : float in (0, 1], default 1.0
        Factor per step.
    actions : Discretized or sequence, optional
        Actions to choose from; needed where the action space is continuous.
    seed : int or None, default 0
        Seed of the ``reset`` that gives the start, if there is no other; None: another start every time.
    save, restore : callable, optional
        ``save(env) -> payload`` and ``restore(env, payload)``, instead of a way that is found. They are verified, too.
    **options
        Options for ``gymnasium.make``.

    Attributes
    ----------
    way : str
        How states are saved and restored.
    notes : tuple of str
        What the user should know.

    Raises
    ------
    ModelError
        If no way to save and restore the environment works (with each way's reason), or the action
        space is continuous.
    UnknownNameError
        If Gymnasium knows no such id.
    MissingExtraError
        If Gymnasium is not installed.

    Notes
    -----
    A state holds everything that the environment knows, also what its observation hides (Blackjack's
    hidden card): where observations hide something that matters, the plan is that of an agent who sees it.

    Examples
    --------
    >>> from tailwise import ErmMcts, GymnasiumSimulator
    >>> model = GymnasiumSimulator("CartPole-v1", horizon=20)  # doctest: +SKIP
    >>> model.way  # doctest: +SKIP
    'attributes'
    >>> ErmMcts(model, beta=0.1, seed=0).plan(iterations=200).label in ("0", "1")  # doctest: +SKIP
    True
    """

    sense: Sense = "reward"

    def __init__(
        self,
        env_or_id: Any,
        horizon: int | None = None,
        discount: float = 1.0,
        *,
        actions: Discretized | Sequence[Any] | None = None,
        seed: int | None = 0,
        save: Callable[[Any], Any] | None = None,
        restore: Callable[[Any, Any], None] | None = None,
        **options: Any,
    ) -> None:
        require("gymnasium", "gym", "a Gymnasium environment")
        if (save is None) != (restore is None):
            raise ModelError("give both save and restore, or neither")
        env = make_environment(env_or_id, **options)
        spec_id = getattr(getattr(env, "spec", None), "id", None)
        self.name = f"gym:{spec_id or type(env.unwrapped).__name__}"
        steps, limit_note = _horizon(env, horizon)
        self.horizon, self.discount = check_horizon(steps), check_discount(discount)
        if seed is None:
            seed = int(np.random.default_rng().integers(2**31))
        integer(seed, "seed", low=0, hint="it seeds the environment's reset; the search has a seed of its own")
        self._actions, self._natives = _finite_actions(env.action_space, actions, self.name)
        self.action_labels = _KNOWN_LABELS.get((spec_id or "").partition("-")[0], ())
        self._last: EnvironmentState | None = None
        own = OwnFunctions(save, restore) if save is not None and restore is not None else None
        self._machine, self._way = self._find_way(env, own, is_users=not isinstance(env_or_id, str))
        self.way = self._way.name
        if not isinstance(env_or_id, str) and _was_reset(env):
            self.start = self.state_of(env)
            origin = "from where the environment stands"
        else:
            self.start = self._capture(self._machine.reset(seed))
            origin = f"from its state after reset(seed={seed})"
        found = f"states are saved and restored by {self.way}, verified; planning {origin}"
        rare = ("a replayed state never comes twice: plan with widening=Widening()",)
        self.notes = (found, *limit_note, *(rare if isinstance(self._way, Replay) else ()))

    # ----------------------------------------------------------------- finding

    def _find_way(self, env: Any, own: OwnFunctions | None, *, is_users: bool) -> tuple[Machine, Way]:
        reasons = []
        for source, made in _private_environments(env, is_users):
            try:
                machine = Machine(made())
                machine.env.reset(seed=0)
            except Exception as error:
                reasons.append(f"{source}: {type(error).__name__}: {error}")
                continue
            for name, build in _ways(machine, own, self._choose):
                try:
                    way = build()
                    fault = find_fault(machine, way, self._choose)
                except Exception as error:  # environments raise anything when they are broken
                    fault = f"{type(error).__name__}: {short(str(error))}"
                if not fault:
                    return machine, way
                reasons.append(f"{name} ({source}): {fault}")
        listed = "\n  ".join(dict.fromkeys(reasons))
        raise ModelError(
            f"{self.name} cannot be planned on: no way to save and restore it works.\n  {listed}\n"
            "Give your own save= and restore=, or write the problem as a Simulator"
        )

    def _choose(self, rng: np.random.Generator) -> Any:
        return self._natives[int(rng.integers(len(self._natives)))]

    # ---------------------------------------------------------------- contract

    def actions(self, state: Any) -> tuple[Any, ...]:
        """Return the actions: the same in every state."""
        return self._actions

    def step(
        self, state: EnvironmentState, action: Any, rng: np.random.Generator
    ) -> tuple[EnvironmentState, float, bool]:
        """Put the environment into ``state`` and step it, with draws from ``rng``; reward, not cost."""
        self._enter(state)
        observation, reward, terminated = self._machine.step(self._native(action), rng)
        return self._capture(observation), reward, terminated

    def rollout(self, state: EnvironmentState, h: int, rng: np.random.Generator) -> tuple[float, int]:
        """Play random actions from ``state`` to the end: (return, steps), with one restore for all of them."""
        self._enter(state)
        self._machine.lend(rng)
        self._last = None
        env, natives = self._machine.env, self._natives
        total, factor, first, size = 0.0, 1.0, h, len(natives)
        while h < self.horizon:
            action = natives[int(rng.random() * size)] if size > 1 else natives[0]
            _, reward, terminated, _, _ = env.step(action)
            total += factor * float(reward)
            h += 1
            if terminated:
                break
            factor *= self.discount
        return total, h - first

    def action_name(self, action: Any) -> str:
        """Return the action's name, where it is known, or its text."""
        known = isinstance(action, int) and 0 <= action < len(self.action_labels)
        return self.action_labels[action] if known else str(action)

    def state_of(self, env: Any) -> EnvironmentState:
        """Return the present state of a live environment of the same kind, for ``reset`` and ``advance``.

        Parameters
        ----------
        env : gymnasium.Env
            It is read, never stepped.

        Returns
        -------
        EnvironmentState

        Raises
        ------
        StateError
            If its state cannot be brought into the planner's own environment.
        """
        live = Machine(env)
        generator = getattr(live.core, "_np_random", None)
        try:
            saved = self._way.save(live)
        except Exception as error:
            raise StateError(f"the state of {env!r} cannot be saved: {type(error).__name__}: {error}") from error
        finally:
            live.core._np_random = generator
        self._last = None
        try:
            self._way.restore(self._machine, saved.payload)
            again = self._way.save(self._machine)
        except Exception as error:
            raise StateError(f"the state of {env!r} does not fit {self.name}: {error}") from error
        if again.key != saved.key:
            raise StateError(f"the state of {env!r} cannot be brought into {self.name}: is it the same environment?")
        return EnvironmentState(_observe(live.core), saved.key, saved.payload)

    def canonical(self, state: Any) -> EnvironmentState:
        """Return ``state``, or raise ``StateError`` if it is not one of this simulator's (an observation is not)."""
        if not isinstance(state, EnvironmentState):
            raise StateError(
                f"{short(state)} is not a state of {self.name}: an observation does not tell it all; use "
                "simulator.state_of(env), or the next state that step returned"
            )
        return state

    def _enter(self, state: EnvironmentState) -> None:
        if self._last is None or state != self._last:
            self._way.restore(self._machine, state.payload)
            self._last = None

    def _capture(self, observation: Any) -> EnvironmentState:
        saved = self._way.save(self._machine)
        if isinstance(observation, np.ndarray):
            observation = observation.copy()
        self._last = EnvironmentState(observation, saved.key, saved.payload)
        return self._last

    def _native(self, action: Any) -> Any:
        try:
            return self._natives[self._actions.index(action)]
        except ValueError:
            raise StateError(f"action {action!r} is not one of {short(self._actions)}") from None

    def __repr__(self) -> str:
        return f"GymnasiumSimulator({self.name!r}, horizon={self.horizon}, discount={self.discount}, way={self.way!r})"


def _horizon(env: Any, horizon: int | None) -> tuple[int, tuple[str, ...]]:
    """The number of decisions, and what to say of it."""
    steps = horizon if horizon is not None else time_limit(env)
    if steps is not None:
        return steps, ()
    return DEFAULT_HORIZON, (
        f"the environment has no time limit; planning {DEFAULT_HORIZON} decisions: give horizon= for another number",
    )


def _private_environments(env: Any, is_users: bool) -> list[tuple[str, Callable[[], Any]]]:
    """Where the planner's own environment can come from, in order of preference."""
    stripped = _strip(env)
    if not is_users:
        return [("made from its id", lambda: stripped)]
    sources: list[tuple[str, Callable[[], Any]]] = [("a copy of the given one", lambda: copy.deepcopy(stripped))]
    if getattr(env, "spec", None) is not None:
        sources.append(("made from its spec", lambda: _strip(make_environment(env.spec.id, **env.spec.kwargs))))
    return sources


def _strip(env: Any) -> Any:
    """Remove the outer wrappers that only count steps or check the caller."""
    while env is not env.unwrapped and type(env).__name__ in _HARMLESS:
        env = env.env
    return env


def _ways(
    machine: Machine, own: OwnFunctions | None, choose: Callable[[np.random.Generator], Any]
) -> list[tuple[str, Callable[[], Way]]]:
    if own is not None:
        return [(own.name, lambda: own)]
    replay = (Replay.name, lambda: Replay(machine))
    core = machine.core
    if type(getattr(core, "data", None)).__name__ == "MjData":
        return [
            (MujocoState.name, lambda: MujocoState(Attributes(machine, choose))),
            (MujocoData.name, lambda: MujocoData(Attributes(machine, choose))),
            replay,
        ]
    return [(Attributes.name, lambda: Attributes(machine, choose)), (DeepCopy.name, DeepCopy), replay]


def _was_reset(env: Any) -> bool:
    while env is not env.unwrapped:
        if type(env).__name__ == "OrderEnforcing":
            return bool(env.has_reset)
        env = env.env
    return getattr(env, "_np_random", None) is not None


def _observe(core: Any) -> Any:
    """The observation of an environment that was not just stepped, where it can be had."""
    for name in ("_get_obs", "_get_ob"):
        if hasattr(core, name):
            try:
                return getattr(core, name)()
            except Exception:  # a private method that wants arguments: show the state instead
                break
    for name in ("s", "state"):
        if hasattr(core, name):
            return getattr(core, name)
    return "a live state"


def _finite_actions(space: Any, given: Any, name: str) -> tuple[tuple[Any, ...], list[Any]]:
    """The actions as the user sees them (hashable), and as the environment takes them."""
    kind = type(space).__name__
    if kind == "Box":
        if given is None:
            raise ModelError(
                f"{name} has the continuous action space {space}; the search needs finitely many actions: choose them "
                f"with actions=Discretized(levels=3) or actions=Discretized(choices=[...]), or load {name}?levels=3"
            )
        chosen = given if isinstance(given, Discretized) else Discretized(choices=tuple(given))
        points = chosen.grid(space.low, space.high)
        return points, [np.array(point, dtype=space.dtype).reshape(space.shape) for point in points]
    if given is not None:
        if isinstance(given, Discretized):
            raise ModelError(f"{name} has the action space {space}, which needs no Discretized")
        if isinstance(given, str) or not hasattr(given, "__len__") or len(given) == 0:
            raise ModelError(f"actions of {name} must be a sequence of at least one action, not {short(given)}")
        given = tuple(given.tolist() if isinstance(given, np.ndarray) and kind == "Discrete" else given)
        natives = [int(a) if kind == "Discrete" and isinstance(a, (int, np.integer)) else a for a in given]
        outside = next((action for action in natives if not space.contains(action)), None)
        if outside is not None:
            raise ModelError(f"action {outside!r} is not in the action space {space} of {name}")
        return given, natives
    if kind == "Discrete":
        ids = tuple(range(int(space.start), int(space.start) + int(space.n)))
        return ids, list(ids)
    axes: list[range] | None = None
    if kind == "MultiDiscrete" and space.nvec.ndim == 1:
        axes = [range(int(a), int(a) + int(n)) for a, n in zip(space.start, space.nvec, strict=True)]
    elif kind == "MultiBinary" and isinstance(space.n, (int, np.integer)):
        axes = [range(2)] * int(space.n)
    if axes is None:
        raise ModelError(f"{name} has the action space {space}; give the actions to choose from as actions=[...]")
    count = int(np.prod([float(len(axis)) for axis in axes]))
    if count > _MOST_ACTIONS:
        raise ModelError(f"{name} has {count} actions, over {_MOST_ACTIONS}; choose some as actions=[...]")
    points = tuple(itertools.product(*axes))
    return points, [np.array(point, dtype=space.dtype) for point in points]
