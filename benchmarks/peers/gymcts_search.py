"""gymcts on a table, through its own interface for environments whose state can be saved.

gymcts keeps one saved state for each sequence of actions: the one that was reached when it was first tried. Chance is
drawn once there, as in mctx. With its own ``DeepCopyMCTSGymEnvWrapper`` the copied random generator comes along, too:
every visit then meets the same luck again, and the search plans for a future that it knows; so that is not measured.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np


def build(mdp: Any, seed: int) -> tuple[Any, Any]:
    """Return gymcts's agent at the start of ``mdp``, and its environment."""
    import gymnasium
    from gymcts.gymcts_agent import GymctsAgent
    from gymcts.gymcts_env_abc import GymctsABC
    from plain_search import PlainSearch

    world = PlainSearch(mdp, 0.0, seed=seed)
    samples = [world.rollout(world.start, 0) for _ in range(200)]
    middle, wide = float(np.mean(samples)), float(np.ptp(samples)) or 1.0

    class Table(GymctsABC):  # type: ignore[misc]
        action_space = gymnasium.spaces.Discrete(mdp.num_actions)

        def __init__(self) -> None:
            self.load_state((world.start, 0, 0.0, 1.0, False))

        def get_state(self) -> Any:
            return (self.place, self.h, self.total, self.factor, self.done)

        def load_state(self, state: Any) -> None:
            self.place, self.h, self.total, self.factor, self.done = state

        def is_terminal(self) -> bool:
            return bool(self.done)

        def get_valid_actions(self) -> list[int]:
            return list(range(world.rows[self.place + 1] - world.rows[self.place]))

        def action_masks(self) -> None:
            return None

        def step(self, action: int) -> Any:
            self.place, cost, done = world.step(self.place, action)
            self.total += self.factor * cost
            self.factor *= world.discount
            self.h += 1
            if self.h == world.horizon and not done:
                self.total += self.factor * world.final[self.place]
            self.done = done or self.h == world.horizon
            return self.place, -cost, self.done, False, {}

        def rollout(self) -> float:
            total = self.total if self.done else self.total + self.factor * world.rollout(self.place, self.h)
            return max(-1.0, min(1.0, (middle - total) / wide))  # gymcts asks for values in [-1, 1]

    random.seed(seed)
    environment = Table()
    return GymctsAgent(environment, clear_mcts_tree_after_step=False), environment
