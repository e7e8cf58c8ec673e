"""Search: iterations a second, time to the first decision, and the regret of the first action at equal budgets."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import common
import numpy as np

RISK = {"mdp-4": 1.0, "grid-mdp": 0.1, "inventory": 0.02, "sailing": 0.1}
PLANNERS = (
    "tailwise, paper's rule", "tailwise, learned model", "plain Python", "mctx", "mctx, no rollout", "mctx, batch 64",
    "gymcts",
)  # fmt: skip


def table(problem: str) -> Any:
    from tailwise import TabularMDP, domains
    from tailwise.models import tabulate

    model = domains.make(problem)
    return model if isinstance(model, TabularMDP) else tabulate(model)


def decider(planner: str, mdp: Any, beta: float, iterations: int) -> Callable[[int], Any]:
    """Return a function of a seed that makes one decision; peers without risk ignore beta."""
    if planner.startswith("tailwise"):
        from tailwise import ErmMcts, LearnedModelSearch

        kind: Any = LearnedModelSearch if "learned" in planner else ErmMcts
        return lambda seed: kind(mdp, beta, seed=seed).plan(iterations=iterations).action
    if planner == "plain Python":
        from plain_search import PlainSearch

        return lambda seed: PlainSearch(mdp, beta, seed=seed).plan(iterations)
    if planner == "gymcts":
        from gymcts_search import build

        return lambda seed: build(mdp, seed)[0].vanilla_mcts_search(num_simulations=iterations)
    from mctx_search import build as build_mctx

    run = build_mctx(
        mdp, iterations, batch=64 if "64" in planner else 1, rollout="no rollout" not in planner,
        kind="gumbel" if "gumbel" in planner else "muzero",
    )  # fmt: skip
    return lambda seed: run(seed, mdp.start)


def speed(planner: str, problem: str, iterations: int, beta: float = 0.0, repeats: int = 3) -> dict[str, Any]:
    """Iterations a second of one planner, after a warm-up of the same size (mctx compiles for each)."""
    mdp = table(problem)
    before = common.resident()
    decide = decider(planner, mdp, beta, iterations)
    if planner.startswith("mctx"):
        decide(0)
    else:
        decider(planner, mdp, beta, 10)(0)
    times = [common.seconds(lambda: decide(1)) for _ in range(repeats)]
    count = iterations * (64 if "64" in planner else 1)
    return {
        "per_second": common.spread([count / each for each in times]), "iterations": count,
        "megabytes": max(0.0, common.peak() - before),
    }  # fmt: skip


def first_decision(planner: str, problem: str, iterations: int) -> dict[str, Any]:
    """Seconds from a process that has imported nothing of it to the first decision, and of the next one.

    Every planner takes the table from tailwise: its import is in all of them.
    """
    begun = time.perf_counter()
    mdp = table(problem)
    decide = decider(planner, mdp, 0.0, iterations)
    imported = time.perf_counter() - begun
    decide(0)
    first = time.perf_counter() - begun
    return {"imported": imported, "first": first, "next": common.seconds(lambda: decide(1))}


def quality(problem: str, iterations: int, seeds: int, planners: list[str]) -> dict[str, Any]:
    """Regret of the first action at beta = 0: its exact value less the best one's; mean, and its standard error."""
    from tailwise import ErmMcts, LearnedModelSearch, Uct, backward_induction
    from tailwise.bonuses import PolynomialBonus

    mdp = table(problem)
    values = np.asarray(backward_induction(mdp, 0.0).action_values(0))[mdp.start]
    values = -values if mdp.sense == "reward" else values
    random = float(np.mean(values[np.isfinite(values)] - np.nanmin(values)))
    ours: dict[str, Any] = {
        "tailwise, learned model": lambda seed: LearnedModelSearch(mdp, 0.0, seed=seed),
        "tailwise, tree, preset auto": lambda seed: ErmMcts(mdp, 0.0, seed=seed, preset="auto"),
        "tailwise, paper's rule": lambda seed: ErmMcts(mdp, 0.0, seed=seed),
        "paper's rule, constant 10": lambda seed: ErmMcts(mdp, 0.0, seed=seed, bonus=PolynomialBonus(constant=10.0)),
        "tailwise, UCT": lambda seed: Uct(mdp, seed=seed),
    }
    rows: dict[str, Any] = {}
    for planner in planners:
        if planner in ours:
            actions = [ours[planner](seed).plan(iterations=iterations).action for seed in range(seeds)]
        elif planner.startswith("mctx"):
            from mctx_search import build

            run = build(mdp, iterations, batch=seeds, kind="gumbel" if "gumbel" in planner else "muzero")
            actions = run(0, mdp.start).tolist()
        else:
            decide = decider(planner, mdp, 0.0, iterations)
            actions = [decide(seed) for seed in range(seeds)]
        ids = [int(a) for a in actions]
        regrets = values[ids] - np.nanmin(values)
        rows[planner] = {
            "regret": float(regrets.mean()), "error": float(regrets.std(ddof=1) / np.sqrt(seeds)),
            "optimal": int((regrets < 1e-9).sum()), "seeds": seeds,
        }  # fmt: skip
    return {"problem": problem, "iterations": iterations, "random": random, "rows": rows}


def domain_defaults(seeds: int, iterations: int) -> dict[str, Any]:
    """How often what `tailwise plan` takes by itself finds the optimal first action."""
    from tailwise import backward_induction, domains, make_planner
    from tailwise.models import tabulate

    rows = {}
    for name, beta in DEFAULTS.items():
        model = domains.make(name)
        mdp = tabulate(model)
        exact = backward_induction(mdp, beta)
        listed = model.actions(model.start)
        names = list(range(listed)) if isinstance(listed, int) else list(listed)
        best = {names[k] for k in exact.optimal_actions(0, mdp.start).tolist()}
        values = exact.action_values(0)[mdp.start]
        times, lost, hits, blind = [], [], 0, 0
        for seed in range(seeds):
            begun = time.perf_counter()
            plan = make_planner(model, beta, seed=seed).plan(iterations=iterations)
            times.append(time.perf_counter() - begun)
            hits += plan.action in best
            action = make_planner(model, beta, kind="learned", seed=seed).plan(iterations=iterations).action
            blind += action in best
            lost.append(abs(values[names.index(action)] - exact.value) / abs(exact.value))
        rows[name] = {
            "beta": beta, "hits": hits, "seeds": seeds, "as_black_box": blind, "lost": float(np.mean(lost)),
            "planner": plan.planner, "seconds": common.spread(times),
        }  # fmt: skip
    return {"iterations": iterations, "rows": rows}


DEFAULTS = {"inventory": 0.02, "battery": 0.02, "american-put": 0.1, "machine-maintenance": 0.1, "sailing": 0.1}


def measure(what: str, **options: Any) -> dict[str, Any]:
    """Run one of the measurements of this file."""
    sys.setrecursionlimit(100_000)
    found: dict[str, Any] = globals()[what](**options)
    return found


if __name__ == "__main__":
    common.main(measure)
