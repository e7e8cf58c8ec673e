"""Episodes of a model whose state is not seen: plan, act, observe, tell the planner."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._progress import Progress
from tailwise._random import generator
from tailwise.errors import ModelError, OptionError
from tailwise.evaluation.closed_loop import checked_limits, child
from tailwise.exact.belief_policy import BeliefPolicy
from tailwise.models.partly_observed import drawn
from tailwise.models.simulator import model_name
from tailwise.planners.protocol import Planner
from tailwise.search.anytime import in_threads


@dataclass(frozen=True, eq=False)
class HiddenEpisodes:
    """The episodes of a sample, as :class:`tailwise.evaluation.episodes.Episodes`, of a partly observed model."""

    model: Any
    planner_or_policy: Any
    root: np.random.SeedSequence
    limits: tuple[int | None, float | None] = (None, None)
    reuse: bool = True

    def play(
        self, episodes: range, *, threads: int = 1, progress: Progress = None, partial: bool = False
    ) -> tuple[NDArray[np.float64], None, list[str]]:
        """Play some of them; return totals, None and notes."""
        player, notes, stopped = self.planner_or_policy, list[str](), threading.Event()
        limits = self.limits
        if isinstance(player, BeliefPolicy) or (callable(player) and not isinstance(player, Planner)):
            if limits != (None, None):
                raise OptionError("iterations and seconds are limits of a planner; a fixed policy takes none")
        elif isinstance(player, Planner):
            limits = checked_limits(*limits)
            if player.model.horizon != self.model.horizon:
                raise ModelError(
                    f"the planner's model has horizon {player.model.horizon}, the model to play {self.model.horizon}"
                )
        else:
            raise ModelError(
                f"{type(player).__name__} does not act on what was observed, and the state of "
                f"{model_name(self.model)} is not seen; expected "
                "make_planner(model, beta), solve(model, beta), or a function of (history, h)"
            )
        if threads > 1:
            notes.append(f"played in one thread, not {threads}: a model whose state is not seen keeps to one")
        totals = in_threads(
            lambda k: self._one(episodes[k], limits),
            len(episodes),
            1,
            stop=stopped.set,
            progress=progress,
            partial=partial,
        )
        return np.array(totals), None, notes

    def _one(self, episode: int, limits: tuple[int | None, float | None]) -> float:
        model, rng = self.model, generator(child(self.root, episode, 0))
        mine: Any = self.planner_or_policy
        planner = mine.fresh(child(self.root, episode, 1)) if isinstance(mine, Planner) else None
        known: Any = mine.start if isinstance(mine, BeliefPolicy) else []
        state, total, factor = model.sample_start(rng), 0.0, 1.0
        for h in range(int(model.horizon)):
            if planner is not None:
                plan = planner.plan(*limits)
                if getattr(plan, "stopped", None) == "interrupted":
                    raise KeyboardInterrupt
                action = plan.action
            else:
                action = mine.act(known) if isinstance(mine, BeliefPolicy) else mine(known, h)
            state, cost, done, seen = drawn(model, state, action, rng)
            total += factor * cost
            if done:
                return total
            factor *= float(model.discount)
            if h + 1 == int(model.horizon):
                break
            if planner is not None:
                told: dict[str, float] = {"cost": cost} if getattr(model, "cost_seen", False) else {}
                planner.advance(action, seen, **told)
            elif isinstance(mine, BeliefPolicy):
                known = mine.update(known, action, seen, cost)
            else:
                known = [*known, (action, seen)]
        end = getattr(model, "terminal_cost", None)
        return total + (factor * float(end(state)) if end is not None else 0.0)
