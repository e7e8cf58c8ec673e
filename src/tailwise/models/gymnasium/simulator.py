"""Gymnasium environments as simulators.

The planner works on a private environment, which it puts into any state and steps with its own random draws. How
a state is saved and restored is found out, and verified, when the simulator is made; see
:mod:`tailwise.models.gymnasium.choose_snapshot`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tailwise._validate import function_of, integer, truth
from tailwise.errors import ModelError, StateError, require
from tailwise.models.contract import Action, Sense, check_discount, check_horizon, short
from tailwise.models.gymnasium.actions import Discretized, FiniteActions
from tailwise.models.gymnasium.choose_snapshot import SpotCheck, choose_snapshot, find_change
from tailwise.models.gymnasium.copying import duplicate, freeze
from tailwise.models.gymnasium.leak_check import Leak, find_leak
from tailwise.models.gymnasium.private_env import (
    PrivateEnv,
    Snapshot,
    decisions_left,
    make_environment,
    number,
    require_fixed_scales,
    strip,
    wrappers,
)
from tailwise.models.gymnasium.snapshots import OwnFunctions, Replay, verify_snapshot
from tailwise.models.gymnasium.table import KNOWN_LABELS
from tailwise.models.simulator import Simulator
from tailwise.models.table import Violation

_log = logging.getLogger(__name__)


class EnvironmentState:
    """A state of a Gymnasium environment: all that its ``step`` depends on, besides the draws.

    Attributes
    ----------
    observation : object
        What the agent sees there.
    actions : tuple or None
        The legal ones, where not all are.
    is_end : bool
        Whether the episode has ended there.
    """

    __slots__ = ("_hash", "actions", "is_end", "observation", "snapshot")

    def __init__(
        self, observation: Any, snapshot: Snapshot, actions: tuple[Any, ...] | None = None, *, is_end: bool = False
    ) -> None:
        self.observation, self.snapshot, self.actions, self.is_end = observation, snapshot, actions, is_end
        self._hash = hash(snapshot.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, EnvironmentState)
            and self._hash == other._hash
            and self.snapshot.key == other.snapshot.key
        )

    def __repr__(self) -> str:
        return short(self.observation)

    def __getitem__(self, part: Any) -> Any:
        raise StateError(
            f"[{part!r}] was asked of a state of the planner, which is no observation: what the agent sees there is "
            "state.observation"
        )


class GymnasiumSimulator(Simulator):
    """A Gymnasium environment that can be planned on.

    Parameters
    ----------
    env_or_id : gymnasium.Env or str
        The environment or the id to make it from. An environment that was reset is planned on from where it
        stands, and is itself never stepped.
    horizon : int, optional
        Number of decisions; what is left of the environment's own time limit if not given, or 100 if it has none.
    discount : float in (0, 1], default 1.0
        Factor per step.
    actions : Discretized or sequence, optional
        Actions to choose from; needed where the action space is continuous.
    seed : int or None, default 0
        Seed of the ``reset`` that gives the start, if there is no other; None: another start every time.
    save, restore : callable, optional
        ``save(env) -> payload`` and ``restore(env, payload)``, instead of a way that is found. They are verified, too.
    foresight : bool, default False
        Plan even where a saved state tells the future (a shuffled deck, a price series drawn at the reset): as one
        who knows it. Otherwise such environments are refused.
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
        If no way to save and restore the environment works (with each way's reason), if the plan would foresee what
        chance decides, if the action space is continuous, or it is no single environment with one reward.
    UnknownNameError
        If Gymnasium knows no such id.
    MissingExtraError
        If Gymnasium is not installed.

    Notes
    -----
    An environment that truncates by itself ends the episode there: nothing more is charged. Where it gives an action
    mask, the actions are those of the mask; an action that raises while others do not is taken for illegal.

    A state holds everything that the environment knows, also what its observation hides: the plan is that of an agent
    who sees it. What is checked, and at which error rates, is on the page "What tailwise checks".

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
        foresight: bool = False,
        **options: Any,
    ) -> None:
        require("gymnasium", "gym", "a Gymnasium environment")
        if (save is None) != (restore is None):
            raise ModelError("give both save and restore, or neither")
        truth(foresight, "foresight")
        env = make_environment(env_or_id, **options)
        require_fixed_scales(env)
        spec_id = getattr(getattr(env, "spec", None), "id", None)
        self.name = f"gym:{spec_id or type(env.unwrapped).__name__}"
        if horizon is not None:
            self.horizon = check_horizon(horizon)
        self.discount = check_discount(discount)
        if seed is None:
            seed = int(np.random.default_rng().integers(2**31))
        integer(seed, "seed", low=0, hint="it seeds the environment's reset; the search has a seed of its own")
        self._finite = FiniteActions(env.action_space, actions, self.name)
        self._actions, self._natives = self._finite.shown, self._finite.natives
        self.action_labels = KNOWN_LABELS.get((spec_id or "").partition("-")[0], ())
        self._last: EnvironmentState | None = None
        self._accepts_foresight = foresight
        own = None
        if save is not None and restore is not None:
            own = OwnFunctions(function_of(save, "save", "env"), function_of(restore, "restore", "env", "payload"))
        is_users = not isinstance(env_or_id, str)
        self._private, leak = choose_snapshot(env, own, self._finite, self.name, is_users=is_users)
        leak_note = self._told(leak)
        left, limit_note = decisions_left(env, self._private, horizon)
        self.horizon = check_horizon(left)
        self.way = self._private.method.name
        self._spot = SpotCheck(self._private, self.name)
        self._count = 0
        if is_users and _was_reset(env):
            self.start = self.state_of(env)
            origin = "from where the environment stands"
        else:
            self.start = self._capture(self._private.reset(seed))
            origin = f"from its state after reset(seed={seed})"
        _log.info("%s: states are saved and restored by %s", self.name, self.way)
        found = f"states are saved and restored by {self.way}, verified; planning {origin}"
        rare = ("where steps are random, a replayed state never comes twice: plan with widening=Widening()",)
        self._notes = (found, leak_note, *limit_note, *(rare if isinstance(self._private.method, Replay) else ()))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know."""
        private, more = self._private, []
        if private.truncates:
            more.append("the environment truncates episodes by itself: they end there, and nothing more is charged")
        if private.is_masked:
            more.append("the actions of a state are those that the environment's mask allows")
        if private.refusal:
            more.append(f"an action that raises where others do not is taken for illegal ({private.refusal})")
        return (*self._notes, *more)

    def _told(self, leak: Leak) -> str:
        """What the user should know of the plan's foresight; it is refused unless the user accepts it."""
        if leak.fault and not self._accepts_foresight:
            raise ModelError(
                f"a plan for {self.name} (saved by {self._private.method.name}) would foresee what chance decides: "
                f"{leak.fault}. Draw from self.np_random in step, give your own save= and restore= that leave it out, "
                "or give foresight=True to plan as one who knows it"
            )
        return f"the plan knows the future: {leak.fault}" if leak.fault else leak.note

    def self_check(self, seed: int) -> list[Violation]:
        """Make the checks of its making once more, on other episodes; return what was found."""
        self._last = None
        fault = verify_snapshot(self._private, seed)
        if not fault and not self._accepts_foresight:
            fault = find_leak(self._private, seed).fault
        fix = "give your own save= and restore=, or write the problem as a Simulator"
        return [Violation(self.name, f"saved by {self.way}: {fault}", fix)] if fault else []

    def actions(self, state: Any) -> tuple[Action, ...]:
        """Return the actions that are legal in ``state``: all, unless a mask or an exception says otherwise."""
        if not isinstance(state, EnvironmentState):
            return self._actions
        if state.actions is None and self._private.refusal:
            state.actions = self._tried(state)
        return self._actions if state.actions is None else state.actions

    def step(
        self, state: EnvironmentState, action: Any, rng: np.random.Generator
    ) -> tuple[EnvironmentState, float, bool]:
        """Put the environment into ``state`` and step it, with draws from ``rng``; reward, not cost."""
        self._count += 1
        is_watched = False
        if self._count >= self._spot.due:
            self._last = self._last if self._spot.is_open else None  # it is about to be used for repeating
            is_watched = self._spot.wants(self._count, state)
        draws = rng.bit_generator.state if is_watched else None
        self._enter(state)
        try:
            native = self._natives[self._actions.index(action)]
        except ValueError:
            raise StateError(f"action {action!r} is not one of {short(self._actions)}") from None
        result = self._private.step(native, rng)
        following = self._capture(result.observation, is_end=result.is_end)
        if is_watched:
            self._spot.record(draws, native, result, following)
        return following, result.reward, result.is_end

    def rollout(self, state: EnvironmentState, h: int, rng: np.random.Generator) -> tuple[float, int]:
        """Play random actions from ``state`` to the end: (return, steps), with one restore for all of them."""
        self._enter(state)
        private = self._private
        private.lend(rng)
        self._last = None
        env, natives = private.env, self._natives
        is_plain = not private.is_masked and not private.refusal
        total, factor, first, size = 0.0, 1.0, h, len(natives)
        while h < self.horizon:
            if is_plain:
                action = natives[int(rng.random() * size)] if size > 1 else natives[0]
                _, reward, terminated, truncated, _ = env.step(action)
                is_end = terminated or truncated
            else:
                _, (_, reward, is_end, _) = private.try_step(rng, None)
            total += factor * (reward if type(reward) is float else number(reward))
            h += 1
            if is_end:
                break
            factor *= self.discount
        return total, h - first

    def action_name(self, action: Any) -> str:
        """Return the action's name, where it is known, or its text."""
        known = isinstance(action, int) and 0 <= action < len(self.action_labels)
        return self.action_labels[action] if known else str(action)

    def state_of(self, env: Any, info: Any = None) -> EnvironmentState:
        """Return the present state of a live environment of the same kind, for ``reset`` and ``advance``.

        Parameters
        ----------
        env : gymnasium.Env
            It is read, never stepped.
        info : dict, optional
            What ``step`` or ``reset`` gave last, where it holds an action mask; without it all actions are allowed.

        Returns
        -------
        EnvironmentState

        Raises
        ------
        StateError
            If its state cannot be brought into the planner's own environment.
        """
        live = PrivateEnv(strip(env), self._finite)
        live.method = self._private.method
        kinds = type(live.core), type(self._private.core)
        if kinds[0] is not kinds[1]:
            raise StateError(f"{env!r} is a {kinds[0].__name__}; {self.name} is a {kinds[1].__name__}")
        try:
            saved = live.save()
        except Exception as error:
            raise StateError(f"the state of {env!r} cannot be saved: {type(error).__name__}: {error}") from error
        self._last = None
        try:
            self._private.restore(saved)
            again = self._private.save()
        except Exception as error:
            raise StateError(f"the state of {env!r} does not fit {self.name}: {error}") from error
        change = find_change(live.env, self._private)
        if change:
            raise StateError(f"{env!r} differs from {self.name} ({change}): is it the same environment?")
        if self._private.method.is_plain and again.key != saved.key:
            raise StateError(f"the state of {env!r} cannot be brought into {self.name}: is it the same environment?")
        observation = _observe(live.core)
        return self._state(observation, saved._replace(allowed=self._finite.allowed(env, observation, info)))

    def canonical(self, state: Any) -> EnvironmentState:
        """Return ``state``, or raise ``StateError`` if it is not one of this simulator's (an observation is not)."""
        if not isinstance(state, EnvironmentState):
            raise StateError(
                f"{short(state)} is not a state of {self.name}: an observation does not tell it all; use "
                "simulator.state_of(env), or the next state that step returned"
            )
        return state

    def _enter(self, state: EnvironmentState) -> None:
        if state.is_end:
            raise StateError(f"the episode has ended in {state!r}; there is nothing to go on from")
        if self._last is None or state != self._last:
            self._private.restore(state.snapshot)
            self._last = None

    def _capture(self, observation: Any, *, is_end: bool = False) -> EnvironmentState:
        observation = duplicate(observation)  # the environment may write into it again
        if is_end:  # nobody will ask for more of it
            self._last = None
            return EnvironmentState(observation, Snapshot(("end", freeze(observation)), None), (), is_end=True)
        state = self._state(observation, self._private.save())
        self._last = state if self._private.method.keeps_keys else None
        return state

    def _state(self, observation: Any, snapshot: Snapshot) -> EnvironmentState:
        legal = None if snapshot.allowed is None else tuple(self._actions[i] for i in snapshot.allowed)
        return EnvironmentState(observation, snapshot, legal)

    def _tried(self, state: EnvironmentState) -> tuple[Any, ...]:
        """The actions that do not raise in ``state``."""
        legal = []
        for shown, native in zip(self._actions, self._natives, strict=True):
            self._last = None
            self._enter(state)
            try:
                self._private.step(native, np.random.default_rng(0))
            except Exception as error:
                self._private.refused(error)
            else:
                legal.append(shown)
        self._last = None
        return tuple(legal)

    def __repr__(self) -> str:
        return f"GymnasiumSimulator({self.name!r}, horizon={self.horizon}, discount={self.discount}, way={self.way!r})"


def _was_reset(env: Any) -> bool:
    told = [each.has_reset for each in wrappers(env) if type(each).__name__ == "OrderEnforcing"]
    return bool(told[0]) if told else getattr(env.unwrapped, "_np_random", None) is not None


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
