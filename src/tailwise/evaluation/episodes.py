"""``evaluate``: play episodes, closed loop, and keep their totals.

A planner re-plans at every step at the risk level ``beta_h`` of that step, and keeps the part of its tree below the
step that was really taken. A fixed policy is just followed; on a table that is one compiled loop. Results do not depend
on the number of threads: every episode has streams of its own, for the environment and for the planner.

A fixed policy can also be played side by side, in batches, by a simulator's ``step_many``. A batch has one generator,
of the seed and the number of its first episode: seed and batch size fix the result. Its episodes are independent of
each other, and share their luck with no other sample.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import kernel
from tailwise._progress import Progress, followed
from tailwise._random import Seed, generator, next_double, seed_sequence
from tailwise._validate import integer, thread_count, truth
from tailwise.bindings.table import outcome_at
from tailwise.errors import ModelError, OptionError, SimulatorError, StateError
from tailwise.evaluation.closed_loop import (
    AnyPlayer,
    HiddenPlayer,
    HiddenPolicyPlayer,
    Player,
    PolicyPlayer,
    SimulatorEnvironment,
    checked_limits,
    child,
    environment_of,
    minds_the_past,
    play,
    run_key,
    start_stream,
    world_name,
)
from tailwise.evaluation.returns import Returns
from tailwise.exact.distributions import closed, stationary_actions
from tailwise.exact.fixed_policies import policy_rows
from tailwise.exact.policy import Policy
from tailwise.models import TabularMDP
from tailwise.models.check import require_model
from tailwise.models.compiled import listed_states, same_states, steps_of
from tailwise.models.contract import CUT_SHORT, needs_horizon
from tailwise.models.partly_observed import require_hidden
from tailwise.models.simulator import is_partly_observed, model_name, own_method
from tailwise.planners.protocol import Planner, is_shareable
from tailwise.search.anytime import in_threads

_BLOCK = 8192
_MOST_STEPS, MOST_EPISODES, _MOST_BATCH = 100_000, 10**9, 10**6
_NO_LIMITS = "iterations and seconds are limits of a planner; a fixed policy takes none"
_HIDDEN = "a model whose state is not seen"
_MOST_DECISIONS = 2**28  # that are kept: 2 GB


def evaluate(
    model: Any,
    planner_or_policy: Any,
    *,
    episodes: int,
    seed: Seed = None,
    threads: int = 1,
    iterations: int | None = None,
    seconds: float | None = None,
    reuse: bool = True,
    label: str | None = None,
    progress: Progress = None,
    partial: bool = False,
    max_steps: int | None = None,
    batch_size: int | None = None,
) -> Returns:
    """Play closed-loop episodes and return their discounted totals.

    Parameters
    ----------
    model : TabularMDP or simulator
        The world that the episodes are played in. The planner may have been given another model of it.
    planner_or_policy : planner, policy or array_like of int
        A planner, which re-plans at each step: any object with the members of :class:`tailwise.Planner`; or
        anything with ``act(state, h)``, such as a :class:`tailwise.Policy`, or ``act(state, h, accrued)``, such as
        those of :func:`tailwise.solve` for a CVaR, which are told what was paid so far (discounted); or a function of
        (state, h); or, on a table, action ids of shape (S,) or (H, S). The planner itself is left alone: each episode
        has a fresh copy.
    episodes : int
        Number of episodes, at least 1.
    seed : None, int, SeedSequence or Generator
        Of environment and planner. Under one seed every planner meets the same environment (common
        random numbers), for :func:`tailwise.evaluation.compare`.
    threads : int, default 1
        Threads; they do not change the result. Tables and compiled simulators are played in as many; models in plain
        Python in one, and a note of the result says so.
    iterations : int, optional
        Iterations of each decision of a planner; 1000 if neither limit is given.
    seconds : float, optional
        Wall time of each decision, instead; the result then depends on the machine.
    reuse : bool, default True
        Keep the tree from step to step. False plans each step from scratch.
    label : str, optional
        For display; the planner's kind or class if not given.
    progress : bool or callable, optional
        True shows a bar; a function is called with (episodes done, of how many).
    partial : bool, default False
        What Ctrl-C does: True ends the run and returns the episodes that are done (if there are any) with a note
        that says so; False raises ``KeyboardInterrupt``, so that a shorter sample is never taken for a whole one.
    max_steps : int, optional
        Most steps of an episode of a model without a horizon, which is played until it is done; 100,000 if not given,
        or as many as the discount leaves anything of. A note says how many episodes had not ended by then.
    batch_size : int, optional
        Play so many episodes of a fixed policy side by side, by the simulator's ``step_many``. They are independent of
        each other, and the same for the same seed and batch size; but they are other ones than those played one by one,
        and share no luck with any other sample: ``compare`` refuses them. A policy that has ``act_many(states, h)`` is
        asked for all at once. One thread plays.

    Returns
    -------
    tailwise.Returns
        The sample.

    Raises
    ------
    OptionError
        If an option is out of range, or a limit is given to a fixed policy.
    ModelError
        If ``planner_or_policy`` is neither, or the planner's horizon is not the model's. Where the model has none and a
        search looks up to one, episodes are as long, and a note says so.

    Examples
    --------
    >>> from tailwise import ErmMcts, domains, evaluate
    >>> mdp = domains.make("mdp-4")
    >>> returns = evaluate(mdp, ErmMcts(mdp, beta=1.0), episodes=20, iterations=500, seed=0)
    >>> returns.episodes, returns.costs.shape
    (20, (20,))
    """
    if is_partly_observed(model):
        require_hidden(model)
    else:
        require_model(model, endless=True)
    if model.horizon is not None and max_steps is not None:
        raise OptionError(f"max_steps is for models without a horizon; this one ends at step {model.horizon}")
    count = integer(episodes, "episodes", low=1, high=MOST_EPISODES)
    workers = thread_count(threads)
    for flag, name in ((reuse, "reuse"), (partial, "partial")):
        truth(flag, name)
    root = seed_sequence(seed)
    name = str(label if label is not None else getattr(planner_or_policy, "kind", type(planner_or_policy).__name__))
    played = Episodes(model, planner_or_policy, root, (iterations, seconds), reuse)
    if batch_size is not None:
        size = integer(batch_size, "batch_size", low=1, high=_MOST_BATCH)
        if is_partly_observed(model):
            raise OptionError(f"batch_size is for simulators with step_many; {_HIDDEN} has none: leave it out")
        played = replace(played, batch_size=size)
    if model.horizon is None:
        most = _MOST_STEPS if model.discount == 1.0 else math.ceil(math.log(1e-15) / math.log(model.discount))
        played = replace(played, most=most if max_steps is None else integer(max_steps, "max_steps", low=1))
    totals, decisions, notes = played.play(range(count), threads=workers, progress=progress, partial=partial)
    if totals.size < count:
        notes.append(f"interrupted: {totals.size} of {count} episodes were played")
        decisions = None if decisions is None else decisions[: totals.size]
    streams = world_name(root, model)
    if batch_size is not None:
        streams = (*streams, batch_size, zlib.crc32(totals.tobytes()))  # no other sample is its pair
    return Returns(totals, model.sense, name, streams, decisions, tuple(notes))


@dataclass(frozen=True, eq=False)
class Episodes:
    """The episodes of a sample: each has streams of its own, whichever others are played.

    ``root`` is the seed of the whole sample, ``limits`` are iterations and seconds of each decision, ``most`` the
    steps of an episode without a horizon, ``batch_size`` how many are played side by side (0: none).
    """

    model: Any
    planner_or_policy: Any
    root: np.random.SeedSequence
    limits: tuple[int | None, float | None] = (None, None)
    reuse: bool = True
    most: int = 0
    batch_size: int = 0

    def play(
        self, episodes: range, *, threads: int = 1, progress: Progress = None, partial: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.int32] | None, list[str]]:
        """Play some of them; return totals, decisions (see :class:`Returns`) and notes."""
        model, planner_or_policy, root, limits = self.model, self.planner_or_policy, self.root, self.limits
        if isinstance(planner_or_policy, type):
            kind = planner_or_policy.__name__
            raise ModelError(f"{kind} is a class, and no planner or policy yet: give one that is made, {kind}(...)")
        notes: list[str] = []
        options: dict[str, Any] = {"progress": progress, "partial": partial}
        decisions: NDArray[np.int32] | None = None
        player: AnyPlayer
        is_safe, is_hidden, is_table = False, is_partly_observed(model), environment_of(model).is_table
        if not is_hidden and hasattr(planner_or_policy, "fixed_policy"):
            checked_limits(*limits)
            planner_or_policy, limits = planner_or_policy.fixed_policy, (None, None)
        is_endless = model.horizon is None
        is_asked = callable(planner_or_policy) or hasattr(planner_or_policy, "act")  # step by step
        if self.batch_size:
            if limits != (None, None):
                raise OptionError(_NO_LIMITS)
            batches = Batches(model, planner_or_policy, root, self.most if is_endless else model.horizon)
            paid = _in_blocks(batches.play, episodes, self.batch_size, 1, options)
            return paid, None, self._cut(paid.size, batches.left if is_endless else 0)
        if is_table and is_endless:  # whatever leads to a state that absorbs at no cost ends there
            model = replace(closed(model, 1), horizon=None)
        if is_hidden and isinstance(planner_or_policy, Planner):
            player, why = HiddenPlayer(model, planner_or_policy, checked_limits(*limits)), _HIDDEN
        elif isinstance(planner_or_policy, Planner):
            if is_endless:
                model = getattr(planner_or_policy, "problem", planner_or_policy.model)
                if model.horizon is None:
                    raise ModelError(needs_horizon(model_name(model)))
                notes += [note for note in getattr(model, "notes", ()) if note.startswith(CUT_SHORT)]
            player = Player(model, planner_or_policy, checked_limits(*limits), reuse=self.reuse)
            why = "a model in plain Python"
            is_safe = is_shareable(model) and is_shareable(planner_or_policy.model)
            if is_table and len(episodes) * model.horizon <= _MOST_DECISIONS:
                decisions = np.full((len(episodes), model.horizon, 2), -1, dtype=np.int32)
        elif limits != (None, None):
            raise OptionError(_NO_LIMITS)
        elif is_hidden:
            player, why = HiddenPolicyPlayer(model, planner_or_policy), _HIDDEN
        elif is_table and not is_endless and not minds_the_past(planner_or_policy):
            course = _Course(policy_rows(model, planner_or_policy), model.start, model.discount, model.horizon)
            return _follow_rows(model, course, episodes, root, threads, options)[0], None, notes
        elif is_table and is_endless and (hasattr(planner_or_policy, "policy") or not is_asked):
            actions = stationary_actions(model, planner_or_policy)
            rows = policy_rows(replace(model, horizon=len(actions)), actions)
            course = _Course(rows, model.start, model.discount, self.most)
            paid, left = _follow_rows(model, course, episodes, root, threads, options)
            return paid, None, [*notes, *self._cut(paid.size, left)]
        else:
            player, why = PolicyPlayer(model, planner_or_policy, self.most), "a policy that is a function"
        if threads > 1 and not is_safe:
            notes.append(f"played in one thread, not {threads}: {why} keeps to one")
            threads = 1

        def one(k: int) -> float:
            return play(player, root, episodes[k], None if decisions is None else decisions[k])

        totals = in_threads(one, len(episodes), threads, stop=player.is_stopped.set, **options)
        if isinstance(player, PolicyPlayer) and is_endless:
            notes += self._cut(len(totals), len(player.unfinished))
        return np.array(totals), decisions, notes

    def _cut(self, count: int, left: int) -> list[str]:
        """Say how many episodes without a horizon were left before they ended."""
        if not left:
            return []
        rest = "" if self.model.discount == 1.0 else f", from where on costs count {self.model.discount**self.most:.1g}"
        begun = f"{left} of {count} episodes had not ended after {self.most} steps{rest}"
        return [f"{begun}: their totals are of what was paid by then"]


def _follow_rows(
    mdp: TabularMDP, course: _Course, episodes: range, root: np.random.SeedSequence, threads: int, how: dict[str, Any]
) -> tuple[NDArray[np.float64], int]:
    """Totals of a fixed policy in the model's own sense, in compiled blocks, and how many reached the horizon."""
    left = np.zeros(-(-len(episodes) // _BLOCK), np.int64)
    key = run_key(root)

    def block(first: int, part: NDArray[np.float64]) -> None:
        index = (first - episodes.start) // _BLOCK
        failed = _follow(mdp.data, course, key, first, part, left[index : index + 1])
        if failed >= 0:
            h, state = divmod(int(failed), mdp.num_states)
            raise StateError(f"the policy has no action in state {mdp.state_name(state)} at step {h}")

    return np.asarray(mdp.signed(_in_blocks(block, episodes, _BLOCK, threads, how))), int(left.sum())


def _in_blocks(
    block: Callable[[int, NDArray[np.float64]], None], episodes: range, size: int, threads: int, options: dict[str, Any]
) -> NDArray[np.float64]:
    """Return the totals of episodes, those of ``size`` at once by ``block(first episode, totals to fill)``."""
    count, totals = len(episodes), np.empty(len(episodes))

    def one(index: int) -> None:
        block(episodes.start + index * size, totals[index * size : (index + 1) * size])

    with followed(options["progress"], "playing", count) as tick:
        blocks = len(in_threads(
            one, -(-count // size), threads, lambda done, _: tick(min(count, done * size)), partial=options["partial"]
        ))  # fmt: skip
    return totals[: blocks * size]


class _Course(NamedTuple):
    """What a fixed policy takes in a table, and for how long."""

    rows: NDArray[np.int64]  # (steps, S), -1 where it has no action; the last are taken from there on
    start: int
    discount: float
    horizon: int


@kernel
def _follow(table, course, key, first_episode, totals, left):  # type: ignore[no-untyped-def]
    """Fill ``totals``, count in ``left`` (1,) what reaches the horizon; return -1, or h * S + state of a failure."""
    rows, words = course.rows, np.empty(4, np.uint64)
    for k in range(totals.size):
        start_stream(key, first_episode + k, words)
        state, total, factor = course.start, 0.0, 1.0
        over = False
        for h in range(course.horizon):
            row = rows[min(h, rows.shape[0] - 1), state]
            if row < 0:
                return h * rows.shape[1] + state
            first, last = table.outcome_offsets[row], table.outcome_offsets[row + 1] - 1
            outcome = outcome_at(table, first, last, next_double(words))
            cost = table.losses[outcome]
            if table.step_losses.size:
                cost += table.step_losses[h, row]
            total += factor * cost
            state = table.targets[outcome]
            if state < 0:
                over = True
                break
            factor *= course.discount
        if not over:
            left[0] += 1
            total += factor * table.terminal_losses[state]
        totals[k] = total
    return -1


class Batches:
    """A fixed policy in batches of episodes of a simulator; its totals are in the model's own sense."""

    def __init__(self, model: Any, policy: Any, root: np.random.SeedSequence, horizon: int) -> None:
        step_many = own_method(model, "step_many")
        if step_many is None:
            raise OptionError(
                f"{model_name(model)} has no step_many(states, actions, rng), which plays a batch; leave batch_size out"
            )
        if isinstance(policy, Planner):
            raise OptionError("batch_size is for fixed policies; a planner decides episode by episode: leave it out")
        self.model, self.horizon, self.left = model, horizon, 0
        self._step_many, self._root, self._world = step_many, root, SimulatorEnvironment(model, root)
        player = PolicyPlayer(model, policy)
        self._policy: Any = player.fresh(root)
        self._minds, self._is_fixed = player.minds, isinstance(policy, Policy)

    def play(self, first: int, totals: NDArray[np.float64]) -> None:
        """Fill ``totals`` with those of consecutive episodes; ``left`` counts those that reach the horizon."""
        rng, live, factor = generator(child(self._root, first, 0)), np.arange(totals.size), 1.0
        states = same_states(self.model, self.model.start, totals.size)
        totals[:] = 0.0
        for h in range(self.horizon):
            actions = self._decide(states, h, totals[live])
            states, costs, done = self._step(states, actions, rng, h)
            totals[live] += factor * costs
            live, states = live[~done], states[~done]
            if not live.size:
                return
            factor *= self.model.discount
        self.left += live.size
        if self.model.horizon is not None:
            totals[live] += factor * np.array([self._world.end_cost(state) for state in listed_states(states)])

    def _decide(self, states: NDArray[Any], h: int, paid: NDArray[np.float64]) -> NDArray[Any]:
        """Return the actions of a step; each pair of state and action is looked at once."""
        rows, act = listed_states(states), self._policy.act
        if hasattr(self._policy, "act_many"):
            actions = np.asarray(self._policy.act_many(states, h))
        elif self._minds:
            actions = np.array([act(row, h, accrued=total) for row, total in zip(rows, paid.tolist(), strict=True)])
        else:
            ask = cache(lambda row: act(row, h)) if self._is_fixed else lambda row: act(row, h)
            actions = np.array(list(map(ask, rows)))
        if len(actions) != len(rows):
            raise OptionError(f"act_many returned {len(actions)} actions for {len(rows)} states at step {h}")
        for state, action in set(zip(rows, listed_states(actions), strict=True)):
            self._world.allowed(self.model, action, state, h)
        return actions

    def _step(self, states: NDArray[Any], actions: NDArray[Any], rng: np.random.Generator, h: int) -> Any:
        where = f"step_many of {len(states)} states of {model_name(self.model)} at step {h}"
        try:
            answer = self._step_many(states, actions, rng)
        except Exception as error:
            raise SimulatorError(f"{where} raised {type(error).__name__}: {error}") from error
        found, fault = steps_of(states, answer)
        if fault:
            raise SimulatorError(f"{where}: {fault}")
        return found
