"""Closed-loop play: the entropic risk of whole episodes at a wall-clock limit for each decision.

Every player of a problem meets the same luck (common random numbers). The limit is given as a user would give it,
``seconds=``; what a decision really took is reported. mctx plays with as many simulations as fit the limit, measured
beforehand; it has no risk measure and plays for the mean.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import common
import numpy as np

# name: (risk level, horizon or None for the model's own)
PROBLEMS: dict[str, tuple[float, int | None]] = {
    "inventory": (0.02, None),
    "machine-maintenance": (0.1, None),
    "battery": (0.02, None),
    "american-put": (0.1, None),
    "sailing": (0.1, None),
    "rddl:Navigation_MDP_ippc2011/1": (0.2, 15),
    "rddl:SysAdmin_MDP_ippc2011/1": (0.1, 15),
    "gym:gymnasium_2048/TwentyFortyEight-v0": (0.02, 15),
    "gym:ClassicGridworld-v1": (1.0, 20),
}
MODULES = {"gym:gymnasium_2048/TwentyFortyEight-v0": "gymnasium_2048", "gym:ClassicGridworld-v1": "gym_classics2"}
PLAYERS = (
    "tailwise, auto",
    "tailwise, learned model",
    "tailwise, paper's rule",
    "tailwise, UCT",
    "mctx",
    "optimal policy",
)


class Watched:
    """A planner whose decisions are timed."""

    def __init__(self, planner: Any, times: list[float]) -> None:
        self.planner, self.times = planner, times

    def fresh(self, seed: Any = None) -> Watched:
        """Return a copy at the start, which goes on with the same list."""
        return Watched(self.planner.fresh(seed), self.times)

    def plan(self, *limits: Any, **options: Any) -> Any:
        """Plan, and note how long it took."""
        begun = time.perf_counter()
        found = self.planner.plan(*limits, **options)
        self.times.append(time.perf_counter() - begun)
        return found

    def __getattr__(self, name: str) -> Any:
        if name in ("planner", "times"):
            raise AttributeError(name)
        return getattr(self.planner, name)


class Timed:
    """A policy whose decisions are timed."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self.times: list[float] = []

    def __call__(self, state: Any, h: int) -> Any:
        begun = time.perf_counter()
        action = self.policy(state, h)
        self.times.append(time.perf_counter() - begun)
        return action


def load(problem: str, horizon: int | None) -> Any:
    import tailwise

    if problem.startswith("gym:"):
        import importlib

        import gymnasium

        module = importlib.import_module(MODULES[problem])  # registers its environments, or is told to
        if module.__name__ == "gym_classics2":
            module.register()
        return tailwise.GymnasiumSimulator(gymnasium.make(problem[4:]), horizon=horizon, seed=0)
    if problem.startswith("rddl:"):
        return tailwise.load(problem, horizon=horizon)
    return tailwise.domains.make(problem)


def player(name: str, model: Any, beta: float, limit: float) -> tuple[Any, str]:
    """Return a planner or a policy, and a word about it."""
    from tailwise import ErmMcts, LearnedModelSearch, Uct, backward_induction, make_planner
    from tailwise.models.tabulate import tabulate_states

    if name == "tailwise, auto":
        planner = make_planner(model, beta, seed=0)
        return planner, planner.kind
    if name.startswith("tailwise"):
        if "UCT" in name:
            return Uct(model, seed=0), ""
        return (LearnedModelSearch if "learned" in name else ErmMcts)(model, beta, seed=0), ""
    mdp, index = tabulate_states(model)
    choices = {
        state: list(model.actions(state)) if not isinstance(model.actions(state), int) else None for state in index
    }

    def named(state: Any, k: int) -> Any:
        return k if choices[state] is None else choices[state][k]

    if name == "optimal policy":
        solution = backward_induction(mdp, beta)
        return (lambda state, h: named(state, solution.act(index[state][0], h))), ""
    from mctx_search import build

    probe = build(mdp, 64)
    probe(0, mdp.start)
    base = min(common.seconds(lambda: probe(1, mdp.start)) for _ in range(5))
    simulations = int(np.clip(0.9 * 64 * limit / base, 2, 20_000))
    run = build(mdp, simulations)
    run(0, mdp.start)
    calls = iter(range(10**9))
    return (lambda state, h: named(state, int(run(next(calls), index[state][0], h)[0]))), f"{simulations} simulations"


def measure(problem: str, name: str, milliseconds: float, episodes: int) -> dict[str, Any]:
    """Play one combination."""
    from tailwise import evaluate

    warnings.simplefilter("ignore")
    beta, horizon = PROBLEMS[problem]
    model = load(problem, horizon)
    who, note = player(name, model, beta, milliseconds / 1e3)
    if hasattr(who, "fixed_policy"):  # solved once, and looked up from then on
        who = who.fixed_policy.act
    plans = hasattr(who, "plan")
    limits: Any = {"seconds": milliseconds / 1e3} if plans else {}
    evaluate(model, who, episodes=1, seed=2, **limits)  # compiles, or loads what was
    watched: Any = Watched(who, []) if plans else Timed(who)
    begun = time.perf_counter()
    returns = evaluate(model, watched, episodes=episodes, seed=1, **limits)
    used = time.perf_counter() - begun
    return {
        "totals": returns.costs.tolist(), "sense": model.sense, "horizon": model.horizon, "note": note,
        "decision_ms": 1e3 * float(np.mean(watched.times)), "episode_ms": 1e3 * used / episodes,
        "exact": exact_value(problem, model, beta) if "optimal" in name else None,
    }  # fmt: skip


def exact_value(problem: str, model: Any, beta: float) -> float:
    from tailwise import backward_induction
    from tailwise.models import tabulate

    return float(backward_induction(tabulate(model), beta).value)


def learner(steps: int, episodes: int) -> dict[str, Any]:
    """Stable-Baselines3's PPO on a slippery cliff, against tailwise at as many simulator steps for a whole episode."""
    import gymnasium

    from tailwise import LearnedModelSearch, TabularMDP, backward_induction, evaluate

    beta, horizon = 0.05, 50
    raw = gymnasium.make("CliffWalking-v1", is_slippery=True, max_episode_steps=horizon)
    mdp = TabularMDP.from_gymnasium(raw, horizon=horizon)
    solution = backward_induction(mdp, beta)
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    begun = time.perf_counter()
    model = PPO("MlpPolicy", raw, seed=0, n_steps=1000, batch_size=100, verbose=0, device="cpu")
    model.learn(steps)
    trained = time.perf_counter() - begun
    rows = np.array([int(model.predict(state, deterministic=True)[0]) for state in range(mdp.num_states)])
    each = max(1, steps // (horizon * horizon))
    begun = time.perf_counter()
    players = {
        "PPO, Stable-Baselines3": evaluate(mdp, rows, episodes=episodes, seed=1),
        "tailwise, learned model": evaluate(
            mdp, LearnedModelSearch(mdp, beta, seed=0), episodes=episodes, seed=1, iterations=each
        ),
        "optimal policy": evaluate(mdp, solution, episodes=episodes, seed=1),
    }
    return {
        "beta": beta, "steps": steps, "iterations": each, "exact": float(solution.value), "train_seconds": trained,
        "play_seconds": (time.perf_counter() - begun) / episodes, "sense": mdp.sense,
        "totals": {name: returns.costs.tolist() for name, returns in players.items()},
    }  # fmt: skip


def run(what: str = "measure", **options: Any) -> dict[str, Any]:
    """Play, or train a learner and play."""
    return learner(**options) if what == "learner" else measure(**options)


if __name__ == "__main__":
    common.main(run)
