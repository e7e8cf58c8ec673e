"""``evaluate``: play episodes, closed loop, and keep their totals.

A planner re-plans at every step at the risk level ``beta_h`` of that step, and keeps the part of its
tree below the step that was really taken. A fixed policy is just followed; on a table that is
one compiled loop. Results do not depend on the number of threads: every episode has streams
of its own, for the environment and for the planner.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import kernel
from tailwise._random import Seed, next_double, seed_sequence
from tailwise._validate import integer, real
from tailwise.bindings.world import outcome_at
from tailwise.errors import ModelError, OptionError, StateError
from tailwise.evaluation.environment import Environment, SimulatorEnvironment, TableEnvironment
from tailwise.evaluation.policies import as_policy, policy_rows
from tailwise.evaluation.returns import Returns
from tailwise.evaluation.streams import child, run_key, start_stream
from tailwise.models import TabularMDP
from tailwise.models.contract import Model
from tailwise.planners import UtilitySearch
from tailwise.search import StopReason, TreeSearch

DEFAULT_ITERATIONS = 1000
_BLOCK = 8192


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
    progress: Callable[[int], None] | None = None,
) -> Returns:
    """Play closed-loop episodes and return their discounted totals.

    Parameters
    ----------
    model : TabularMDP or simulator
        The world that the episodes are played in. The planner may have been given another model of it.
    planner_or_policy : planner, policy or array_like of int
        A planner (:class:`tailwise.ErmMcts`, ...), which re-plans at each step; or anything with
        ``act(state, h)``, such as a :class:`tailwise.Solution`; or a function of (state, h); or, on a table,
        action ids of shape (S,) or (H, S). The planner's own tree and stream are left alone: each episode has
        a fresh copy.
    episodes : int
        Number of episodes, at least 1.
    seed : None, int, SeedSequence or Generator
        Of environment and planner. Under one seed every planner meets the same environment (common
        random numbers), for :func:`tailwise.evaluation.compare`.
    threads : int, default 1
        Threads for planners on tables; they do not change the result. Python simulators run in one.
    iterations : int, optional
        Iterations of each decision of a planner; 1000 if neither limit is given.
    seconds : float, optional
        Wall time of each decision, instead; the result then depends on the machine.
    reuse : bool, default True
        Keep the tree from step to step. False plans each step from scratch.
    label : str, optional
        For display; the planner's class if not given.
    progress : callable, optional
        Called with the number of episodes done so far.

    Returns
    -------
    tailwise.Returns
        The sample.

    Raises
    ------
    OptionError
        If an option is out of range, or a limit is given to a fixed policy.
    ModelError
        If ``planner_or_policy`` is neither, or the planner's horizon is not the model's.

    Examples
    --------
    >>> from tailwise import ErmMcts, domains, evaluate
    >>> mdp = domains.make("mdp-4")
    >>> returns = evaluate(mdp, ErmMcts(mdp, beta=1.0), episodes=20, iterations=500, seed=0)
    >>> returns.episodes, returns.costs.shape
    (20, (20,))
    """
    count = integer(episodes, "episodes", low=1)
    workers = integer(threads, "threads", low=1)
    root = seed_sequence(seed)
    name = label if label is not None else type(planner_or_policy).__name__
    streams = tuple(int(word) for word in run_key(root))
    if isinstance(planner_or_policy, TreeSearch):
        limits = _limits(iterations, seconds)
        check_planner(model, planner_or_policy)
        totals, decisions = _play_planner(model, planner_or_policy, count, root, workers, limits, reuse, progress)
        return Returns(totals, model.sense, name, streams, decisions)
    if iterations is not None or seconds is not None:
        raise OptionError("iterations and seconds are limits of a planner; a fixed policy takes none")
    if isinstance(model, TabularMDP):
        totals = _follow_rows(model, policy_rows(model, planner_or_policy), count, root, workers, progress)
        return Returns(np.asarray(model.signed(totals)), model.sense, name, streams)
    act = getattr(as_policy(planner_or_policy), "act", None)
    if act is None:
        raise ModelError(
            f"{planner_or_policy!r} is neither a planner nor a policy; expected a search such as ErmMcts, "
            "a function of (state, h), or an object with act(state, h)"
        )
    environment = SimulatorEnvironment(model, root)
    totals = np.empty(count)
    for episode in range(count):
        totals[episode] = play(environment, model, lambda state, h: _allowed(model, state, act(state, h), h), episode)
        if progress is not None:
            progress(episode + 1)
    return Returns(totals, model.sense, name, streams)


def _allowed(model: Model, state: Any, action: Any, h: int) -> Any:
    """Return a fixed policy's action, or raise ``StateError`` if the model does not allow it."""
    actions = model.actions(state)
    choices = range(int(actions)) if isinstance(actions, (int, np.integer)) else list(actions)
    if action not in choices:
        raise StateError(f"the policy takes action {action!r} in state {state!r} at step {h}, where it is not allowed")
    return action


def check_planner(model: Any, planner: TreeSearch) -> None:
    """Raise ``ModelError`` if the planner cannot play the model."""
    if planner.model.horizon != model.horizon:
        raise ModelError(f"the planner's model has horizon {planner.model.horizon}, the model to play {model.horizon}")


def play(
    environment: Environment,
    model: Model,
    act: Callable[[Any, int], Any],
    episode: int,
    observe: Callable[[Any, Any, float, int], None] | None = None,
) -> float:
    """Play one episode and return its total; ``observe`` is told (action, next state, cost, step)."""
    state = environment.begin(episode)
    total, factor = 0.0, 1.0
    for h in range(model.horizon):
        action = act(state, h)
        state, cost, done = environment.step(state, action, h)
        total += factor * cost
        if done:
            return total
        factor *= model.discount
        if observe is not None and h + 1 < model.horizon:
            observe(action, state, cost, h)
    return total + factor * environment.end_cost(state)


def _limits(iterations: int | None, seconds: float | None) -> tuple[int | None, float | None]:
    if iterations is None and seconds is None:
        return DEFAULT_ITERATIONS, None
    wanted = None if iterations is None else integer(iterations, "iterations", low=1)
    return wanted, None if seconds is None else real(seconds, "seconds", low=0.0, low_open=True)


def decide(planner: TreeSearch, iterations: int | None, seconds: float | None = None) -> Any:
    """Return the planner's action; Ctrl-C during the search, which ends a plan early, ends the evaluation."""
    plan = planner.plan(iterations, seconds)
    if plan.stopped is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    return plan.action


def follow(planner: TreeSearch, action: Any, state: Any, cost: float, h: int, reuse: bool) -> None:
    """Tell a planner what happened at step ``h``."""
    if isinstance(planner, UtilitySearch):
        if reuse:
            planner.advance(action, state, cost=cost)
        else:
            paid = planner.accrued + float(planner.model.powers[h]) * cost
            planner.reset(state, h + 1, accrued=paid)
    elif reuse:
        planner.advance(action, state)
    else:
        planner.reset(state, h + 1)


def _play_planner(
    model: Any,
    planner: TreeSearch,
    count: int,
    root: np.random.SeedSequence,
    threads: int,
    limits: tuple[int | None, float | None],
    reuse: bool,
    progress: Callable[[int], None] | None,
) -> tuple[NDArray[np.float64], NDArray[np.int32] | None]:
    is_table = isinstance(model, TabularMDP)
    decisions = np.full((count, model.horizon, 2), -1, dtype=np.int32) if is_table else None

    def one(episode: int) -> float:
        # Tables: an environment per episode (they hold its draws), so that threads share nothing.
        environment: Environment = TableEnvironment(model, root) if is_table else shared
        mine = planner.fresh(child(root, episode, 1))
        if (mine.state[0] if isinstance(mine, UtilitySearch) else mine.state) != model.start:
            mine.reset(model.start)

        def act(state: Any, h: int) -> Any:
            action = decide(mine, *limits)
            if decisions is not None:
                decisions[episode, h] = state, action
            return action

        return play(environment, model, act, episode, lambda a, s, c, h: follow(mine, a, s, c, h, reuse))

    shared = SimulatorEnvironment(model, root) if not is_table else TableEnvironment(model, root)
    return in_threads(one, count, threads if is_table else 1, progress), decisions


def in_threads(
    one: Callable[[int], float], count: int, threads: int, progress: Callable[[int], None] | None
) -> NDArray[np.float64]:
    """Return ``one(0) ... one(count - 1)``, computed by some threads; an error stops them all."""
    values = np.empty(count)
    if threads == 1:
        for index in range(count):
            values[index] = one(index)
            if progress is not None:
                progress(index + 1)
        return values
    with ThreadPoolExecutor(threads) as pool:
        try:
            for index, value in enumerate(pool.map(one, range(count))):
                values[index] = value
                if progress is not None:
                    progress(index + 1)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return values


def _follow_rows(
    mdp: TabularMDP,
    rows: NDArray[np.int64],
    count: int,
    root: np.random.SeedSequence,
    threads: int,
    progress: Callable[[int], None] | None,
) -> NDArray[np.float64]:
    """Totals (costs) of a fixed policy, in compiled blocks."""
    totals = np.empty(count)
    key = run_key(root)

    def block(index: int) -> float:
        part = totals[index * _BLOCK : (index + 1) * _BLOCK]
        words = np.empty(4, np.uint64)
        failed = _follow(mdp.data, rows, mdp.start, mdp.discount, key, index * _BLOCK, words, part)
        if failed >= 0:
            h, state = divmod(int(failed), mdp.num_states)
            raise StateError(f"the policy has no action in state {mdp.state_name(state)} at step {h}")
        return 0.0

    told = None if progress is None else lambda blocks: progress(min(count, blocks * _BLOCK))
    in_threads(block, -(-count // _BLOCK), threads, told)
    return totals


@kernel
def _follow(table, rows, start, discount, key, first_episode, words, totals):  # type: ignore[no-untyped-def]
    """Fill ``totals`` with the costs of consecutive episodes; return -1, or h * S + state of a failure."""
    for k in range(totals.size):
        start_stream(key, first_episode + k, words)
        state, total, factor = start, 0.0, 1.0
        over = False
        for h in range(rows.shape[0]):
            row = rows[h, state]
            if row < 0:
                return h * rows.shape[1] + state
            first, last = table.outcome_offsets[row], table.outcome_offsets[row + 1] - 1
            outcome = outcome_at(table, first, last, next_double(words))
            cost = table.costs[outcome]
            if table.step_costs.size:
                cost += table.step_costs[h, row]
            total += factor * cost
            state = table.targets[outcome]
            if state < 0:
                over = True
                break
            factor *= discount
        totals[k] = total if over else total + factor * table.terminal_costs[state]
    return -1
