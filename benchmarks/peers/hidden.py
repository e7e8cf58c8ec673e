"""Hidden states: whole episodes of a player that acts on what it observes.

Each decision has a wall-clock limit, or a number of simulations: pomdp_py draws from a table in Python, which is too
slow for a comparison at equal time to say anything about its search.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import numpy as np

Act = Callable[[], int]
See = Callable[[int, int], None]


def tailwise(model: Any, beta: float, limit: dict[str, Any], seed: int, kind: str | None) -> tuple[Act, See]:
    """Return how a planner of ours decides, and how it is told what was observed."""
    from tailwise import make_planner

    planner = make_planner(model, beta, kind=kind or "auto", seed=seed)
    return lambda: int(planner.plan(**limit).action), lambda a, o: planner.advance(a, o)


def pomcp(model: Any, limit: dict[str, Any], seed: int) -> tuple[Act, See]:
    """Return the same of pomdp_py's POMCP: for the mean, with random roll-outs, exploring by the range of a cost."""
    import random

    import pomdp_py

    random.seed(seed)
    rng, over = np.random.default_rng(seed), -1
    table, sign = model.table, 1.0 if model.sense == "reward" else -1.0

    class State(pomdp_py.SimpleState):
        pass

    class Action(pomdp_py.SimpleAction):
        pass

    class Observation(pomdp_py.SimpleObservation):
        pass

    actions = [Action(str(a)) for a in range(model.num_actions)]
    drawn: dict[str, float] = {}

    class Transitions(pomdp_py.TransitionModel):  # type: ignore[misc]
        def sample(self, state: Any, action: Any) -> Any:
            if state.data == over:
                drawn["reward"], drawn["seen"] = 0.0, 0
                return state
            following, cost, done, observed = model.draw(state.data, int(action.name), rng)
            drawn["reward"], drawn["seen"] = sign * cost, 0 if done else observed
            return State(over if done else following)

    class Observations(pomdp_py.ObservationModel):  # type: ignore[misc]
        def sample(self, next_state: Any, action: Any) -> Any:  # drawn with the state, as they belong together
            return Observation(int(drawn["seen"]))

    class Rewards(pomdp_py.RewardModel):  # type: ignore[misc]
        def sample(self, state: Any, action: Any, next_state: Any) -> float:
            return drawn["reward"]

    class Rollouts(pomdp_py.RolloutPolicy):  # type: ignore[misc]
        def rollout(self, state: Any, history: Any = None) -> Any:
            return actions[int(rng.integers(len(actions)))]

        def get_all_actions(self, state: Any = None, history: Any = None) -> Any:
            return actions

    belief = pomdp_py.Particles([State(model.sample_start(rng)) for _ in range(1000)])
    agent = pomdp_py.Agent(belief, Rollouts(), Transitions(), Observations(), Rewards())
    spread = float(np.ptp(table.losses)) or 1.0
    last: list[Any] = []
    steps_left = int(model.horizon)

    def searcher() -> Any:
        return pomdp_py.POMCP(
            max_depth=steps_left, discount_factor=float(model.discount), planning_time=limit.get("seconds", -1.0),
            num_sims=limit.get("iterations", -1), exploration_const=spread, rollout_policy=agent.policy_model,
        )  # fmt: skip

    def act() -> int:
        last[:] = [searcher().plan(agent)]
        return int(last[0].name)

    def see(action: int, observation: int) -> None:
        nonlocal steps_left
        steps_left -= 1
        agent.update_history(last[0], Observation(observation))
        try:
            searcher().update(agent, last[0], Observation(observation))
        except ValueError:  # its particles ran out: it begins anew from what a random state would lead to
            agent.set_belief(pomdp_py.Particles([State(model.sample_start(rng)) for _ in range(1000)]))
            agent.tree = None

    return act, see


def elsewhere(model: Any, name: str, milliseconds: float, episodes: int) -> dict[str, Any]:
    """Let POMDPPlanners play, in its own environment: it cannot share one with tailwise."""
    python = os.environ.get("POMDPPLANNERS")
    if not python:
        raise SystemExit("POMDPPLANNERS names no python of an environment that has it")
    table, size, count = model.table, model.num_states, model.num_actions
    moves, paid = np.zeros((count, size + 1, size + 1)), np.zeros((count, size + 1))
    shows = np.zeros((count, size + 1, model.num_observations))
    rows = np.repeat(np.arange(table.num_rows), np.diff(table.outcome_offsets))
    states, ids = table.row_states[rows], table.action_ids[rows]
    np.add.at(moves, (ids, states, np.where(table.done, size, table.next_states)), table.probabilities)
    np.add.at(paid, (ids, states), table.probabilities * table.losses)
    on = ~table.done
    np.add.at(shows, (ids[on], table.next_states[on], model.observed[on]), table.probabilities[on])
    moves[:, size, size] = 1.0
    mass = shows.sum(axis=2, keepdims=True)
    shows = np.where(mass > 0.0, shows / np.where(mass > 0.0, mass, 1.0), np.eye(model.num_observations)[0])
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "table.npz")
        np.savez(
            file, moves=moves, shows=shows, paid=paid, start=model.start_belief, offsets=table.outcome_offsets,
            cumulative=table.data.cumulative, losses=table.losses, targets=table.next_states, done=table.done,
            observed=model.observed, discount=model.discount,
        )  # fmt: skip
        options = {
            "file": file, "name": name, "milliseconds": milliseconds, "episodes": episodes,
            "horizon": int(model.horizon),
        }  # fmt: skip
        script = str(Path(__file__).with_name("pomdp_planners.py"))
        bare = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            [python, script, json.dumps(options)], capture_output=True, text=True, env=bare, check=False
        )
    if done.returncode:
        raise SystemExit((done.stderr.strip().splitlines() or ["no word"])[-1])
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def measure(
    problem: str, name: str, beta: float, episodes: int, milliseconds: float = 0.0, simulations: int = 0
) -> dict[str, Any]:
    """Play, with a limit of milliseconds or of simulations; all meet the same luck, as far as they act the same."""
    from tailwise import domains

    model = domains.make(problem)
    if name.startswith("POMDPPlanners"):
        return elsewhere(model, name, milliseconds, episodes)
    limit: dict[str, Any] = {"iterations": simulations} if simulations else {"seconds": milliseconds / 1e3}

    def player(seed: int) -> tuple[Act, See]:
        if name == "pomdp_py, POMCP":
            return pomcp(model, limit, seed)
        return tailwise(model, beta, limit, seed, {"tailwise, histories": "histories"}.get(name))

    player(0)[0]()  # compiles, or loads what was
    totals, times = [], []
    for episode in range(episodes):
        act, see = player(episode)
        state, total, factor = model.sample_start(np.random.default_rng([episode, 999])), 0.0, 1.0
        for h in range(int(model.horizon)):
            begun = time.perf_counter()
            action = act()
            times.append(time.perf_counter() - begun)
            state, cost, done, observed = model.draw(state, action, np.random.default_rng([episode, h]))
            total += factor * cost
            factor *= model.discount
            if done:
                break
            if h + 1 < model.horizon:
                see(action, observed)
        totals.append(total if model.sense == "cost" else -total)
    return {"totals": totals, "decision_ms": 1e3 * float(np.mean(times))}  # totals are losses


if __name__ == "__main__":
    common.main(measure)
