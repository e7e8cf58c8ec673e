"""Four large problems, played closed loop: ``make study-large``, or this file with --help.

Each has more than a million reachable (step, state) pairs, or a continuum. They are played as black boxes, by every
planner with the same number of simulator steps a decision, and then with the same time a decision; every planner meets
the same luck (common random numbers). Reported: the entropic risk of the totals, its standard error, their mean, that
of the worst tenth, and the difference to the best tree rule with a 90 % interval from the paired bootstrap. Acc-MCTS,
whose view of a simulator runs in Python, is played at equal steps only where the simulator does too. Finished games
are kept for a second call.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spread_bonus import SpreadSearch
from tailwise import (
    AccMcts,
    CompiledSimulator,
    ErmMcts,
    GymnasiumSimulator,
    LearnedModelSearch,
    PolynomialBonus,
    Uct,
    domains,
    erm,
    evaluate,
)

MACHINES = 22


def sysadmin(horizon: int = 15) -> CompiledSimulator:
    """Keep a ring of 22 machines running (Guestrin, Koller, Parr and Venkataraman, 2003): 4 million states.

    State: one bit a machine. A machine that runs stays up with probability .97, less .12 for each neighbour that is
    down; one that is down comes back with probability .04, one that is rebooted (cost 1.5) with .95. A machine
    that is down costs 1 a step, and eight of them bring the service down: 20 a step. Two machines fail together
    now and then: a failing machine takes its neighbour along with probability .3.
    """

    def step(state: int, action: int, rng: Any) -> tuple[int, float, bool]:
        following, down = 0, 0
        for k in range(MACHINES):
            left, right = (state >> ((k - 1) % MACHINES)) & 1, (state >> ((k + 1) % MACHINES)) & 1
            runs = (state >> k) & 1
            chance = 0.98 - 0.06 * (2 - left - right) if runs else 0.04
            if action == k + 1:
                chance = 0.95
            if rng.random() < chance:
                following |= 1 << k
            elif runs and rng.random() < 0.15:
                following &= ~(1 << ((k + 1) % MACHINES))
        for k in range(MACHINES):
            down += 1 - ((following >> k) & 1)
        cost = 1.0 * down + (20.0 if down >= 5 else 0.0) + (1.5 if action > 0 else 0.0)
        return following, cost, False

    return CompiledSimulator(
        step, start=(1 << MACHINES) - 1 - 0b101, horizon=horizon, actions=MACHINES + 1, name="sysadmin"
    )


def continuous_inventory(horizon: int = 15) -> CompiledSimulator:
    """Order up to six lots for a continuous demand whose supplier rarely fails: no state comes back."""

    def step(state: tuple[float, int], order: int, rng: Any) -> tuple[tuple[float, int], float, bool]:
        stock, down = state
        arrived = 0.0 if down == 1 else 1.5 * order
        left = stock + arrived - min(rng.gamma(2.0, 1.5), 9.0)
        cost = arrived + 0.3 * max(left, 0.0) + 6.0 * max(-left, 0.0)
        following = int(rng.random() < (0.7 if down == 1 else 0.04))
        return (min(max(left, 0.0), 12.0), following), cost, False

    return CompiledSimulator(step, start=(3.0, 0), horizon=horizon, actions=7, name="continuous inventory")


def pushed_cart_pole(horizon: int = 40) -> GymnasiumSimulator:
    """Gymnasium's CartPole, pushed at random; the reward is the number of steps that the pole stands."""
    import gymnasium

    class Pushed(gymnasium.Wrapper):  # type: ignore[type-arg]
        def step(self, action: Any) -> Any:
            cart: Any = self.env.unwrapped
            x, speed, angle, turn = cart.state
            push = cart.np_random.normal(0.0, 0.25) + (1.5 if cart.np_random.random() < 0.06 else 0.0)
            cart.state = (x, speed, angle, turn + push)
            return self.env.step(action)

    return GymnasiumSimulator(Pushed(gymnasium.make("CartPole-v1")), horizon=horizon, seed=0)


@dataclass(frozen=True)
class Problem:
    """A problem, a risk level, what a decision may use, and episodes to play."""

    build: Callable[[], Any]
    beta: float
    steps: int
    seconds: float
    episodes: int


PROBLEMS = {
    "sysadmin": Problem(sysadmin, 0.05, 5_000, 0.005, 200),
    "continuous inventory": Problem(continuous_inventory, 0.1, 2_000, 0.003, 200),
    "pushed CartPole": Problem(pushed_cart_pole, 0.3, 500, 0.01, 60),
    "sailing 20 x 20": Problem(lambda: domains.make("sailing", size=20, horizon=60), 0.05, 5_000, 0.005, 40),
}


def _paper(constant: float) -> Callable[..., Any]:
    return lambda model, beta, seed: ErmMcts(model, beta, seed=seed, bonus=PolynomialBonus(constant=constant))


PLANNERS: dict[str, Callable[..., Any]] = {
    "learned model": lambda model, beta, seed: LearnedModelSearch(model, beta, seed=seed),
    "tree, preset auto": lambda model, beta, seed: ErmMcts(model, beta, seed=seed, preset="auto"),
    "paper, constant sqrt(2)": _paper(2**0.5),
    "paper, constant 10": _paper(10.0),
    "log bonus, 2 std of all Q": lambda model, beta, seed: SpreadSearch(model, beta, seed=seed),
    "Acc-MCTS": lambda model, beta, seed: AccMcts(model, beta, seed=seed),
    "UCT": lambda model, beta, seed: Uct(model, seed=seed),
}


class Budgeted:
    """A planner whose every decision uses about so many simulator steps, or so many seconds."""

    def __init__(self, planner: Any, *, steps: float = np.inf, seconds: float | None = None) -> None:
        self.planner, self.steps, self.seconds = planner, steps, seconds
        self.model = planner.model
        self._pace = 4.0  # iterations that come close to the budget, by the last decision

    def fresh(self, seed: Any = None) -> Budgeted:
        """Return a copy at the start."""
        return Budgeted(self.planner.fresh(seed), steps=self.steps, seconds=self.seconds)

    def plan(self, iterations: Any = None, seconds: Any = None, **rest: Any) -> Any:
        """Plan for so long, or in a few pieces until the steps are used."""
        if self.seconds is not None:
            return self.planner.plan(seconds=self.seconds)
        used, done, taken, plan = 0.0, 0, 0, None
        while used < 0.8:
            piece = max(1, int(self._pace if done == 0 else min(4.0 * done, done * (1.0 - used) / used)))
            plan = self.planner.plan(iterations=piece)
            done, taken = done + piece, taken + plan.simulator_steps
            used = taken / self.steps
        self._pace = max(1.0, 0.95 * done / used)
        return plan

    def __getattr__(self, name: str) -> Any:
        if name == "planner":
            raise AttributeError(name)
        return getattr(self.planner, name)


def risk(totals: Any, beta: float, sense: str) -> float:
    """Entropic risk as a cost."""
    return float(erm(-totals if sense == "reward" else totals, beta))


def _worst_tenth(totals: Any, sense: str) -> float:
    """Mean of the worst tenth: the ERM at these levels is decided by two or three games of some hundred."""
    worst = np.sort(-totals if sense == "reward" else totals)[-max(1, len(totals) // 10) :]
    return float(-worst.mean() if sense == "reward" else worst.mean())


def compared(totals: dict[str, Any], beta: float, sense: str) -> dict[str, dict[str, float]]:
    """Risk of every planner, its standard error, and the difference to the best tree with its 90 % interval."""
    rng, size = np.random.default_rng(0), len(next(iter(totals.values())))
    draws = rng.integers(size, size=(1000, size))
    resampled = {name: np.array([risk(values[rows], beta, sense) for rows in draws]) for name, values in totals.items()}
    plain = {name: risk(values, beta, sense) for name, values in totals.items()}
    best = min((name for name in totals if name != "learned model"), key=plain.__getitem__)
    rows = {}
    for name in totals:
        low, high = np.quantile(resampled[name] - resampled[best], [0.05, 0.95])
        rows[name] = {
            "risk": plain[name], "error": float(resampled[name].std()), "difference": plain[name] - plain[best],
            "low": float(low), "high": float(high), "mean": float(totals[name].mean()),
            "worst": _worst_tenth(totals[name], sense),
        }  # fmt: skip
    return rows


def main() -> None:
    """Play, print the tables and keep all totals as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, help="of every problem; each has its own number")
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--budgets", nargs="*", default=["steps", "seconds"], choices=["steps", "seconds"])
    parser.add_argument("--out", type=Path, default=Path(".cache/large.json"))
    options = parser.parse_args()
    kept = json.loads(options.out.read_text()) if options.out.exists() else {}
    for title in options.problems:
        problem = PROBLEMS[title]
        model, episodes = problem.build(), options.episodes or problem.episodes
        for budget in options.budgets:
            totals = {}
            for name, build in PLANNERS.items():
                if name == "Acc-MCTS" and budget == "steps" and isinstance(model, CompiledSimulator):
                    continue
                key = f"{title}|{budget}|{name}|{episodes}"
                if key not in kept:
                    build(model, problem.beta, 0).plan(iterations=2)  # compiles
                    player = Budgeted(build(model, problem.beta, 0), **{budget: getattr(problem, budget)})
                    returns = evaluate(model, player, episodes=episodes, seed=1)
                    kept[key] = returns.costs.tolist()
                    options.out.parent.mkdir(parents=True, exist_ok=True)
                    options.out.write_text(json.dumps(kept))
                totals[name] = np.array(kept[key])
            allowed = f"{getattr(problem, budget):,} {budget} a decision"
            print(f"\n{title}, beta {problem.beta:g}: {allowed}, {episodes} episodes\n")
            print("| planner | ERM | standard error | mean | worst tenth | to the best tree | 90 % |")
            print("| --- | --- | --- | --- | --- | --- | --- |")
            for name, row in compared(totals, problem.beta, model.sense).items():
                own = f"{row['risk']:.2f} | {row['error']:.2f} | {row['mean']:.2f} | {row['worst']:.2f}"
                print(f"| {name} | {own} | {row['difference']:+.2f} | {row['low']:+.2f} to {row['high']:+.2f} |")


if __name__ == "__main__":
    main()
