"""POMDPPlanners on a table that hidden.py wrote: whole episodes, in an environment of its own, without tailwise.

``POMDPPLANNERS=/path/to/python make peers``, of an environment with ``pip install POMDPPlanners==0.6.0``; without it
its rows say so.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

import numpy as np
from POMDPPlanners.core.belief import get_initial_belief
from POMDPPlanners.core.distributions import DiscreteDistribution
from POMDPPlanners.core.environment import DiscreteActionsEnvironment, SpaceInfo, SpaceType
from POMDPPlanners.planners.mcts_planners.pomcp import POMCP
from POMDPPlanners.planners.sparse_sampling_planners.icvar_sparse_sampling import ICVaRSparseSampling

PARTICLES, ALPHA, BRANCHING = 200, 0.2, 2


class Problem(DiscreteActionsEnvironment):  # type: ignore[misc]
    """A table of S states; S itself is where an episode has ended."""

    def __init__(self, file: str) -> None:
        self.a = dict(np.load(file).items())
        self.rng = np.random.default_rng(0)
        self.moves, self.shows, self.paid = self.a["moves"], self.a["shows"], self.a["paid"]
        self.over = self.moves.shape[1] - 1
        self.sums, self.seen = self.moves.cumsum(axis=2), self.shows.cumsum(axis=2)
        discrete = SpaceInfo(action_space=SpaceType.DISCRETE, observation_space=SpaceType.DISCRETE)
        ends = -float(self.paid.max()), -float(self.paid.min())
        super().__init__(
            discount_factor=float(self.a["discount"]), name="table", space_info=discrete, reward_range=ends
        )

    def _draw(self, sums: Any) -> int:
        return min(int(np.searchsorted(sums, self.rng.random(), side="right")), sums.size - 1)

    def sample_next_state(self, state: int, action: int, n_samples: int = 1) -> Any:
        drawn = [self._draw(self.sums[action, state]) for _ in range(n_samples)]
        return drawn[0] if n_samples == 1 else drawn

    def sample_observation(self, next_state: int, action: int, n_samples: int = 1) -> Any:
        drawn = [self._draw(self.seen[action, next_state]) for _ in range(n_samples)]
        return drawn[0] if n_samples == 1 else drawn

    def transition_log_probability(self, state: int, action: int, next_states: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(self.moves[action, state, np.asarray(next_states, int)])

    def observation_log_probability(self, next_state: int, action: int, observations: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(self.shows[action, next_state, np.asarray(observations, int)])

    def reward(self, state: int, action: int, next_state: Any = None) -> float:
        return -float(self.paid[action, state])

    def is_terminal(self, state: int) -> bool:
        return bool(state == self.over)

    def initial_state_dist(self) -> Any:
        start = self.a["start"]
        return DiscreteDistribution(values=np.flatnonzero(start).tolist(), probs=start[start > 0.0])

    def initial_observation_dist(self) -> Any:
        return DiscreteDistribution(values=[0], probs=np.ones(1))

    def get_actions(self) -> list[int]:
        return list(range(self.moves.shape[0]))

    def is_equal_observation(self, one: Any, other: Any) -> bool:
        return bool(one == other)

    def hash_observation(self, observation: Any) -> Any:
        return observation

    def hash_action(self, action: Any) -> Any:
        return action


def planner(problem: Problem, name: str, seconds: float, horizon: int) -> Any:
    """Return a planner that takes about so long for a decision: more work as long as it fits."""
    start, found = get_initial_belief(problem, PARTICLES), None
    for k in range(1, 12):
        if "POMCP" in name:
            tried = POMCP(
                problem, problem.discount_factor, horizon, float(np.ptp(problem.paid)) or 1.0, "POMCP",
                n_simulations=10 * 2**k,
            )  # fmt: skip
        else:
            tried = ICVaRSparseSampling(problem, BRANCHING, k, ALPHA)
        begun = time.perf_counter()
        tried.action(start)
        if found is not None and time.perf_counter() - begun > 1.2 * seconds:
            break
        found = tried
        if time.perf_counter() - begun > 0.6 * seconds:
            break
    return found


def play(file: str, name: str, milliseconds: float, episodes: int, horizon: int) -> dict[str, Any]:
    """Play; the luck is that of hidden.py."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  # what POMDPPlanners draws from
    problem = Problem(file)
    who = planner(problem, name, milliseconds / 1e3, horizon)
    totals, times, a = [], [], problem.a
    for episode in range(episodes):
        belief = get_initial_belief(problem, PARTICLES)
        luck = np.random.default_rng([episode, 999])
        sums = np.cumsum(a["start"])
        state = min(
            int(np.searchsorted(sums, luck.random() * sums[-1], side="right")), int(np.flatnonzero(a["start"])[-1])
        )
        total, factor = 0.0, 1.0
        for h in range(horizon):
            begun = time.perf_counter()
            action = int(who.action(belief)[0][0])
            times.append(time.perf_counter() - begun)
            row = state * problem.moves.shape[0] + action
            first, last = int(a["offsets"][row]), int(a["offsets"][row + 1])
            k = first
            if last - first > 1:
                draw = np.random.default_rng([episode, h]).random()
                k += int(np.searchsorted(a["cumulative"][first:last], draw, side="right"))
            total += factor * float(a["losses"][k])
            factor *= problem.discount_factor
            if a["done"][k]:
                break
            state = int(a["targets"][k])
            if h + 1 < horizon:
                belief = belief.update(action=action, observation=int(a["observed"][k]), pomdp=problem)
        totals.append(total)
    return {"totals": totals, "decision_ms": 1e3 * float(np.mean(times))}


if __name__ == "__main__":
    print(json.dumps(play(**json.loads(sys.argv[1]))))
