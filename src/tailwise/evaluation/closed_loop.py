"""One episode, closed loop: plan, act, see what happens, tell the planner; and what an episode is played in.

Random numbers: one key per run, one stream per episode. In a table the environment uses one uniform draw per step,
whatever happens: draw h of episode e is the same number for every planner under one seed. These are *common random
numbers*: two planners that act alike meet the same luck, so their difference is seen without it. The stream of an
episode is SFC64, seeded by the run's key and the episode's number and stirred 12 times.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import inlined, kernel
from tailwise._random import Seed, generator, next_double, seed_sequence
from tailwise.errors import ModelError, SimulatorError, StateError
from tailwise.exact.belief_policy import BeliefPolicy
from tailwise.exact.fixed_policies import action_id, as_policy
from tailwise.exact.policy import Policy
from tailwise.models import TabularMDP
from tailwise.models.check import fingerprint
from tailwise.models.contract import Model, choices_of, cost_fault, outcome_fault, short
from tailwise.models.partly_observed import drawn
from tailwise.models.simulator import is_partly_observed, model_name, own_method
from tailwise.planners.protocol import Planner, takes
from tailwise.search.anytime import plan_limits
from tailwise.search.policy_mixin import DEFAULT_ITERATIONS

_STIR = 12
_FIRST_DRAWS = 64  # of an episode without a horizon


def run_key(root: np.random.SeedSequence) -> NDArray[np.uint64]:
    """Return the key of a run: uint64, shape (2,)."""
    return np.asarray(root.generate_state(2, np.uint64), dtype=np.uint64)


def child(root: np.random.SeedSequence, *path: int) -> np.random.SeedSequence:
    """Return a descendant of ``root`` by its path; unlike ``spawn`` it leaves ``root`` as it was."""
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, *path), pool_size=root.pool_size)


def world_name(seed: Seed, model: Any) -> tuple[int, ...]:
    """Return three ints that tell the seed and the model: two samples are pairs only if both were the same."""
    return (*(int(word) for word in run_key(seed_sequence(seed))), int.from_bytes(fingerprint(model, 8), "big"))


@inlined
def start_stream(key, episode, words):  # type: ignore[no-untyped-def]
    """Set ``words`` (uint64, shape (4,)) to the beginning of an episode's stream."""
    words[0], words[1], words[2], words[3] = key[0], key[1], np.uint64(episode), np.uint64(1)
    for _ in range(_STIR):
        next_double(words)


@kernel
def fill_uniforms(key, episode, words, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (H,) with the uniform draws of an episode."""
    start_stream(key, episode, words)
    for h in range(out.size):
        out[h] = next_double(words)


def episode_uniforms(key: NDArray[np.uint64], episode: int, horizon: int) -> NDArray[np.float64]:
    """Return the draws of an episode, one per step: float64 in [0, 1), shape (H,)."""
    out = np.empty(horizon)
    fill_uniforms(key, episode, np.empty(4, np.uint64), out)
    return out


class TableEnvironment:
    """A table, many episodes, on common random numbers; as in the others costs are in the model's own sense."""

    is_table: ClassVar[bool] = True

    def __init__(self, mdp: TabularMDP, root: np.random.SeedSequence) -> None:
        self.mdp = mdp
        self._key = run_key(root)
        self._uniforms, self._episode = np.empty(0), 0

    def begin(self, episode: int) -> int:
        """Start an episode; return its first state."""
        self._episode = episode
        self._uniforms = episode_uniforms(self._key, episode, self.mdp.horizon or _FIRST_DRAWS)
        return self.mdp.start

    def step(self, state: Any, action: Any, h: int) -> tuple[int, float, bool]:
        """Return (next state, cost, done) by inverting the row's distribution at the step's draw."""
        mdp = self.mdp
        if h >= self._uniforms.size:  # without a horizon: more of the same stream
            self._uniforms = episode_uniforms(self._key, self._episode, 2 * h)
        row = mdp.row(state, action)
        k = mdp.data.drawn(row, lambda: float(self._uniforms[h]))
        cost = float(mdp.signed(mdp.losses_at(h, k, row)))
        return int(mdp.next_states[k]), cost, bool(mdp.done[k])

    def end_cost(self, state: Any) -> float:
        """Return what reaching step H in ``state`` costs."""
        return self.mdp.terminal_cost(state)

    @staticmethod
    def allowed(mdp: TabularMDP, action: Any, state: int, h: int) -> int:
        """Return the id of an action, or raise ``StateError``."""
        return action_id(mdp, action, state, h)


class SimulatorEnvironment:
    """Any other model: each episode has a generator of its own, the same for every planner."""

    is_table: ClassVar[bool] = False

    def __init__(self, model: Model, root: np.random.SeedSequence) -> None:
        self.model = model
        self._root = root
        self._rng = generator(root)
        self._end = own_method(model, "terminal_cost")

    def begin(self, episode: int) -> Hashable:
        """Start an episode; return its first state."""
        self._rng = generator(child(self._root, episode, 0))
        start: Hashable = self.model.start
        return start

    def step(self, state: Any, action: Any, h: int) -> tuple[Hashable, float, bool]:
        """Return (next state, cost, done); a failure names state, action and step."""
        try:
            outcome = self.model.step(state, action, self._rng)
        except Exception as error:
            where = self._at(state, action, h)
            raise SimulatorError(f"{where} raised {type(error).__name__}: {error}") from error
        fault = outcome_fault(outcome)
        if fault:
            raise SimulatorError(f"{self._at(state, action, h)}: {fault}")
        target, cost, done = outcome
        return target, float(cost), bool(done)

    def _at(self, state: Any, action: Any, h: int) -> str:
        return f"step({short(state)}, {short(action)}) of {model_name(self.model)} at step {h} of an evaluated episode"

    def end_cost(self, state: Any) -> float:
        """Return what reaching step H in ``state`` costs."""
        if self._end is None:
            return 0.0
        where = f"terminal_cost({short(state)}) of {model_name(self.model)}"
        try:
            cost = self._end(state)
        except Exception as error:
            raise SimulatorError(f"{where} raised {type(error).__name__}: {error}") from error
        fault = cost_fault(cost)
        if fault:
            raise SimulatorError(f"{where}: the terminal cost {fault}")
        return float(cost)

    @staticmethod
    def allowed(model: Model, action: Any, state: Any, h: int) -> object:
        """Return an action that is allowed, or raise ``StateError``."""
        if action not in choices_of(model.actions(state)):
            raise StateError(
                f"the policy takes action {action!r} in state {state!r} at step {h}, where it is not allowed"
            )
        return action


class HiddenEnvironment(SimulatorEnvironment):
    """A model whose state is not seen: what its players meet as the next state is what was observed."""

    def begin(self, episode: int) -> Hashable:
        """Start an episode; nothing is observed yet."""
        self._rng = generator(child(self._root, episode, 0))
        hidden: Any = self.model
        self._state = hidden.sample_start(self._rng)
        return None

    def step(self, state: Any, action: Any, h: int) -> tuple[Hashable, float, bool]:
        """Return (observation, cost, done)."""
        self._state, cost, done, seen = drawn(self.model, self._state, action, self._rng)
        return seen, cost, done

    def end_cost(self, state: Any) -> float:
        """Return what reaching step H costs."""
        return super().end_cost(self._state)

    @staticmethod
    def allowed(model: Model, action: Any, state: Any, h: int) -> object:
        """Return the action: whether it is allowed the model says."""
        return action


def environment_of(model: Any) -> type[TableEnvironment | SimulatorEnvironment]:
    """Return the kind of environment of a model, to be made with it and a seed."""
    if is_partly_observed(model):
        return HiddenEnvironment
    return TableEnvironment if isinstance(model, TabularMDP) else SimulatorEnvironment


def checked_limits(iterations: int | None, seconds: float | None) -> tuple[int | None, float | None]:
    """Return the limits of each decision, 1000 iterations if none is given, or raise ``OptionError``."""
    if iterations is None and seconds is None:
        return DEFAULT_ITERATIONS, None
    return plan_limits(iterations, seconds)


class Player:
    """A planner in the episodes of a model, perhaps not its own: a fresh copy in each; ``reuse`` keeps its tree."""

    def __init__(
        self, model: Any, planner: Planner, limits: tuple[int | None, float | None], *, reuse: bool = True
    ) -> None:
        if planner.model.horizon != model.horizon:
            raise ModelError(
                f"the planner's model has horizon {planner.model.horizon}, the model to play {model.horizon}"
            )
        self.model, self.world = model, environment_of(model)
        self.planner = planner
        self.is_stopped = threading.Event()
        self._iterations, self._seconds = limits
        self._reuse = reuse
        self._told_cost, self._told_accrued = takes(planner.advance, "cost"), takes(planner.reset, "accrued")

    def fresh(self, seed: np.random.SeedSequence) -> Planner:
        """Return a copy of the planner at the start of the model that is played."""
        planner = self.planner.fresh(seed)
        if self.planner.model is not self.model:
            planner.reset(self.model.start)
        return planner

    def decide(self, planner: Any, state: Any, h: int, accrued: float) -> object:
        """Return an action that is allowed; Ctrl-C during a plan, which may end it early, ends the evaluation."""
        watch = self._watch if threading.current_thread() is not threading.main_thread() else None
        plan = planner.plan(self._iterations, self._seconds, progress=watch)
        if getattr(plan, "stopped", None) == "interrupted":
            raise KeyboardInterrupt
        return self.world.allowed(self.model, plan.action, state, h)

    def _watch(self, iterations: int, seconds: float) -> None:
        if self.is_stopped.is_set():
            raise KeyboardInterrupt

    def follow(self, planner: Any, action: Any, state: Any, cost: float, h: int, accrued: float) -> None:
        """Tell a planner what happened at step ``h``; ``accrued`` is the discounted total up to and with it."""
        if self._reuse:
            planner.advance(action, state, **({"cost": cost} if self._told_cost else {}))
        else:
            planner.reset(state, h + 1, **({"accrued": accrued} if self._told_accrued else {}))


class HiddenPlayer(Player):
    """A planner where the state is not seen: it is told what was observed, and the cost where that is seen."""

    def fresh(self, seed: np.random.SeedSequence) -> Planner:
        """Return a copy of the planner at the start."""
        return self.planner.fresh(seed)

    def follow(self, planner: Any, action: Any, state: Any, cost: float, h: int, accrued: float) -> None:
        """Tell a planner what was observed."""
        planner.advance(action, state, **({"cost": cost} if getattr(self.model, "cost_seen", False) else {}))


class PolicyPlayer:
    """A fixed policy, a function or what has ``act``; without a horizon ``unfinished`` ones end at step ``most``."""

    def __init__(self, model: Any, policy: Any, most: int = 0) -> None:
        self.model, self.world = model, environment_of(model)
        self.is_stopped = threading.Event()
        self.most, self.unfinished = most, set[int]()
        self._policy: Any = as_policy(policy)
        self.minds = minds_the_past(policy)
        if not hasattr(self._policy, "act"):
            raise ModelError(
                f"{policy!r} is neither a planner nor a policy; expected a tailwise.Planner such as "
                "ErmMcts, a function of (state, h), or an object with act(state, h)"
            )

    def fresh(self, seed: np.random.SeedSequence) -> object:
        """Return the policy: it keeps nothing."""
        return self._policy

    def decide(self, policy: Any, state: Any, h: int, accrued: float) -> object:
        """Return an action that is allowed."""
        action = policy.act(state, h, accrued=accrued) if self.minds else policy.act(state, h)
        return self.world.allowed(self.model, action, state, h)

    def follow(self, policy: Any, action: Any, state: Any, cost: float, h: int, accrued: float) -> None:
        """Nothing has to be told."""


class HiddenPolicyPlayer:
    """A fixed policy where the state is not seen: of beliefs, or a function of the history and h."""

    def __init__(self, model: Any, policy: Any) -> None:
        self.model, self.world = model, environment_of(model)
        self.is_stopped = threading.Event()
        self._policy = policy
        if not isinstance(policy, BeliefPolicy) and (not callable(policy) or isinstance(policy, Planner)):
            raise ModelError(
                f"{type(policy).__name__} does not act on what was observed, and the state of {model_name(model)} is "
                "not seen; expected make_planner(model, beta), solve(model, beta), or a function of (history, h)"
            )

    def fresh(self, seed: np.random.SeedSequence) -> object:
        """Return what holds the belief, or the history."""
        return [self._policy.start if isinstance(self._policy, BeliefPolicy) else []]

    def decide(self, known: Any, state: Any, h: int, accrued: float) -> object:
        """Return the action."""
        if isinstance(self._policy, BeliefPolicy):
            return self._policy.act(known[0])
        action: object = self._policy(known[0], h)
        return action

    def follow(self, known: Any, action: Any, state: Any, cost: float, h: int, accrued: float) -> None:
        """Note what was done and observed."""
        if isinstance(self._policy, BeliefPolicy):
            known[0] = self._policy.update(known[0], action, state, cost)
        else:
            known[0] = [*known[0], (action, state)]


AnyPlayer: TypeAlias = Player | PolicyPlayer | HiddenPolicyPlayer


def minds_the_past(policy: Any) -> bool:
    """Return whether a policy's ``act`` wants to know what was paid so far."""
    if isinstance(policy, Policy):
        return policy.minds_the_past
    return hasattr(policy, "act") and takes(policy.act, "accrued")


def play(player: AnyPlayer, root: np.random.SeedSequence, episode: int, decisions: Any = None) -> float:
    """Play one episode and return its total; ``decisions`` (H, 2), if given, gets state and action of each step."""
    model = player.model
    # An environment per episode (it holds the episode's draws), so that threads share nothing.
    environment = player.world(model, root)
    mine, state = player.fresh(child(root, episode, 1)), environment.begin(episode)
    total, factor = 0.0, 1.0
    is_endless = isinstance(player, PolicyPlayer) and model.horizon is None
    horizon = player.most if isinstance(player, PolicyPlayer) and is_endless else model.horizon
    for h in range(horizon):
        action = player.decide(mine, state, h, total)
        if decisions is not None:
            decisions[h] = state, action
        state, cost, done = environment.step(state, action, h)
        total += factor * cost
        if done:
            return total
        factor *= model.discount
        if h + 1 < horizon:
            player.follow(mine, action, state, cost, h, total)
    if isinstance(player, PolicyPlayer) and is_endless:
        player.unfinished.add(episode)
        return total
    return total + factor * environment.end_cost(state)
