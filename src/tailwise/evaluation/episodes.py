"""``evaluate``: play episodes, closed loop, and keep their totals.

A planner re-plans at every step at the risk level ``beta_h`` of that step, and keeps the part of its
tree below the step that was really taken. A fixed policy is just followed; on a table that is
one compiled loop. Results do not depend on the number of threads: every episode has streams
of its own, for the environment and for the planner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import kernel
from tailwise._progress import Progress, followed
from tailwise._random import Seed, next_double, seed_sequence
from tailwise._validate import integer, thread_count
from tailwise.bindings.table import outcome_at
from tailwise.errors import OptionError, StateError
from tailwise.evaluation.closed_loop import (
    Player,
    PolicyPlayer,
    checked_limits,
    environment_of,
    minds_the_past,
    play,
    run_key,
    start_stream,
    world_name,
)
from tailwise.evaluation.hidden_episodes import HiddenEpisodes
from tailwise.evaluation.returns import Returns
from tailwise.exact.fixed_policies import policy_rows
from tailwise.models import TabularMDP
from tailwise.models.check import require_model
from tailwise.models.partly_observed import require_hidden
from tailwise.models.simulator import is_partly_observed
from tailwise.planners.protocol import Planner, is_shareable
from tailwise.search.anytime import in_threads

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
    progress: Progress = None,
    partial: bool = False,
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
    hidden = is_partly_observed(model)
    (require_hidden if hidden else require_model)(model)
    count = integer(episodes, "episodes", low=1)
    workers = thread_count(threads)
    root = seed_sequence(seed)
    name = str(label if label is not None else getattr(planner_or_policy, "kind", type(planner_or_policy).__name__))
    kind = HiddenEpisodes if hidden else Episodes
    played = kind(model, planner_or_policy, root, (iterations, seconds), reuse)
    totals, decisions, notes = played.play(range(count), threads=workers, progress=progress, partial=partial)
    if totals.size < count:
        notes.append(f"interrupted: {totals.size} of {count} episodes were played")
        decisions = None if decisions is None else decisions[: totals.size]
    return Returns(totals, model.sense, name, world_name(root, model), decisions, tuple(notes))


@dataclass(frozen=True, eq=False)
class Episodes:
    """The episodes of a sample: each has streams of its own, whichever others are played.

    ``root`` is the seed of the whole sample, ``limits`` are iterations and seconds of each decision.
    """

    model: Any
    planner_or_policy: Any
    root: np.random.SeedSequence
    limits: tuple[int | None, float | None] = (None, None)
    reuse: bool = True

    def play(
        self, episodes: range, *, threads: int = 1, progress: Progress = None, partial: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.int32] | None, list[str]]:
        """Play some of them; return totals, decisions (see :class:`Returns`) and notes."""
        model, planner_or_policy, root, limits = self.model, self.planner_or_policy, self.root, self.limits
        notes: list[str] = []
        options: dict[str, Any] = {"progress": progress, "partial": partial}
        decisions: NDArray[np.int32] | None = None
        player: Player | PolicyPlayer
        is_table = environment_of(model).is_table
        if hasattr(planner_or_policy, "fixed_policy"):
            checked_limits(*limits)
            planner_or_policy, limits = planner_or_policy.fixed_policy, (None, None)
        if isinstance(planner_or_policy, Planner):
            player, why = (
                Player(model, planner_or_policy, checked_limits(*limits), reuse=self.reuse),
                "a model in plain Python",
            )
            is_safe = is_shareable(model) and is_shareable(planner_or_policy.model)
            if is_table:
                decisions = np.full((len(episodes), model.horizon, 2), -1, dtype=np.int32)
        elif limits != (None, None):
            raise OptionError("iterations and seconds are limits of a planner; a fixed policy takes none")
        elif is_table and not minds_the_past(planner_or_policy):
            rows = policy_rows(model, planner_or_policy)
            return _follow_rows(model, rows, episodes, root, threads, options), None, notes
        else:
            player, why, is_safe = PolicyPlayer(model, planner_or_policy), "a policy that is a function", False
        if threads > 1 and not is_safe:
            notes.append(f"played in one thread, not {threads}: {why} keeps to one")
            threads = 1

        def one(k: int) -> float:
            return play(player, root, episodes[k], None if decisions is None else decisions[k])

        totals = in_threads(one, len(episodes), threads, stop=player.is_stopped.set, **options)
        return np.array(totals), decisions, notes


def _follow_rows(
    mdp: TabularMDP,
    rows: NDArray[np.int64],
    episodes: range,
    root: np.random.SeedSequence,
    threads: int,
    options: dict[str, Any],
) -> NDArray[np.float64]:
    """Totals of a fixed policy in the model's own sense, in compiled blocks."""
    count = len(episodes)
    totals = np.empty(count)
    key = run_key(root)

    def block(index: int) -> float:
        part = totals[index * _BLOCK : (index + 1) * _BLOCK]
        failed = _follow(mdp.data, rows, mdp.start, mdp.discount, key, episodes.start + index * _BLOCK, part)
        if failed >= 0:
            h, state = divmod(int(failed), mdp.num_states)
            raise StateError(f"the policy has no action in state {mdp.state_name(state)} at step {h}")
        return 0.0

    with followed(options["progress"], "playing", count) as tick:
        told = None if tick is None else lambda blocks, _: tick(min(count, blocks * _BLOCK))
        blocks = len(in_threads(block, -(-count // _BLOCK), threads, told, partial=options["partial"]))
    return np.asarray(mdp.signed(totals[: blocks * _BLOCK]))


@kernel
def _follow(table, rows, start, discount, key, first_episode, totals):  # type: ignore[no-untyped-def]
    """Fill ``totals`` with the costs of consecutive episodes; return -1, or h * S + state of a failure."""
    words = np.empty(4, np.uint64)
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
            cost = table.losses[outcome]
            if table.step_losses.size:
                cost += table.step_losses[h, row]
            total += factor * cost
            state = table.targets[outcome]
            if state < 0:
                over = True
                break
            factor *= discount
        totals[k] = total if over else total + factor * table.terminal_losses[state]
    return -1
