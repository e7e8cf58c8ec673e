"""Which search finds the right action with the fewest simulator calls: ``make study``, or this file with --help.

Forty pairs (problem, beta) with exact answers. A planner sees a problem as a black box that it can only
sample. Reported at each number of iterations: the normalised simple regret of the recommended root action,
``(Q*(s0, a) - V*) / (max Q* - V*)``, and the error of the root value over the range of the possible totals; then the
simulator steps and the seconds (of processor time) that were used. Means over pairs are geometric, regrets with a floor
of .002, with the arithmetic mean in brackets. What the learned model does was chosen on the pairs marked ``chosen``;
the other half was fixed before any of its results were seen. Finished pairs are kept: a second call goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spread_bonus import SpreadSearch
from tailwise import (
    AccMcts,
    ErmMcts,
    LearnedModelSearch,
    PolynomialBonus,
    TabularMDP,
    Uct,
    backward_induction,
    domains,
    load,
)
from tailwise.models import tabulate
from tailwise.models.accrued import total_bounds

CHECKPOINTS = (100, 300, 1_000, 3_000, 10_000)
FLOOR = 0.002


def disasters(seed: int, *, states: int = 30, actions: int = 3, horizon: int = 15) -> TabularMDP:
    """A random problem in which some cheap actions rarely turn out dear."""
    rng = np.random.default_rng(seed)
    rows = []
    for state in range(states):
        for action in range(actions):
            targets = rng.choice(states, size=3, replace=False)
            chances, costs = rng.dirichlet(np.ones(3)), rng.uniform(0.0, 2.0, size=3)
            if rng.random() < 0.5:
                costs *= 0.5
                chances = np.append(0.98 * chances, 0.02)
                targets, costs = np.append(targets, rng.integers(states)), np.append(costs, rng.uniform(10.0, 30.0))
            rows += [(state, action, *row) for row in zip(targets, chances, costs, strict=True)]
    state_, action_, target, chance, cost = map(np.array, zip(*rows, strict=True))
    return TabularMDP.from_outcomes(state_, action_, target, chance, cost, horizon=horizon, discount=0.95)


def garnet(seed: int, *, states: int = 40, actions: int = 4, horizon: int = 12) -> TabularMDP:
    """A random problem with four outcomes an action (Archibald, McKinnon and Thomas, 1995)."""
    rng = np.random.default_rng(seed)
    rows = [
        (state, action, target, chance, cost)
        for state in range(states)
        for action in range(actions)
        for target, chance, cost in zip(
            rng.choice(states, size=4, replace=False), rng.dirichlet(np.ones(4)), rng.uniform(0.0, 3.0, 4), strict=True
        )
    ]
    state_, action_, target, chance, cost = map(np.array, zip(*rows, strict=True))
    return TabularMDP.from_outcomes(state_, action_, target, chance, cost, horizon=horizon, discount=0.97)


def lock(*, length: int = 8, actions: int = 3, horizon: int = 20) -> TabularMDP:
    """Open a combination lock: in each state one action goes on, the others fall back to the start."""
    rng = np.random.default_rng(0)
    rows = []
    for state in range(length):
        right = rng.integers(actions)
        for action in range(actions):
            if action == right:
                rows += [(state, action, state + 1, 0.95, 1.0), (state, action, 0, 0.05, 1.0)]
            else:
                rows.append((state, action, 0, 1.0, 0.9))
    rows += [(length, action, length, 1.0, 0.0) for action in range(actions)]
    state_, action_, target, chance, cost = map(np.array, zip(*rows, strict=True))
    return TabularMDP.from_outcomes(state_, action_, target, chance, cost, horizon=horizon)


def _file(name: str, horizon: int) -> Callable[[Path], TabularMDP]:
    return lambda data: load(data / name, horizon=horizon)


def _gym(name: str, horizon: int, **options: Any) -> Callable[[Path], TabularMDP]:
    def build(data: Path) -> TabularMDP:
        import gymnasium

        return TabularMDP.from_gymnasium(gymnasium.make(name, **options), horizon=horizon)

    return build


def _domain(name: str, **options: Any) -> Callable[[Path], TabularMDP]:
    def build(data: Path) -> TabularMDP:
        model = domains.make(name, **options)
        return model if isinstance(model, TabularMDP) else tabulate(model)

    return build


@dataclass(frozen=True)
class Pair:
    """A problem and a risk level; ``chosen`` if constants were chosen while looking at it."""

    name: str
    beta: float
    chosen: bool
    build: Callable[[Path], TabularMDP]


PAIRS = (
    Pair("mdp-4", 0.1, True, _domain("mdp-4")),
    Pair("mdp-4", 0.5, True, _domain("mdp-4")),
    Pair("mdp-4", 1.0, True, _domain("mdp-4")),
    Pair("grid-mdp", 0.01, True, _domain("grid-mdp")),
    Pair("grid-mdp", 0.1, True, _domain("grid-mdp")),
    Pair("machine", 0.1, True, _file("machine.csv", 30)),
    Pair("FrozenLake 4x4", 1.0, True, _gym("FrozenLake-v1", 30)),
    Pair("sailing 5x5", 0.1, True, _domain("sailing", size=5, horizon=25)),
    Pair("disasters 1", 0.2, True, lambda data: disasters(1)),
    Pair("disasters 2", 0.5, True, lambda data: disasters(2)),
    Pair("sailing 5x5", 0.02, True, _domain("sailing", size=5, horizon=25)),
    Pair("riverswim", 0.02, True, _file("riverswim.csv", 30)),
    Pair("inventory1", 0.05, True, _file("inventory1.csv", 20)),
    Pair("ruin", 1.0, True, _file("ruin.csv", 20)),
    Pair("FrozenLake 8x8", 2.0, True, _gym("FrozenLake8x8-v1", 60)),
    Pair("CliffWalking", 0.02, True, _gym("CliffWalking-v1", 40, is_slippery=True)),
    Pair("disasters 3", 0.2, True, lambda data: disasters(3)),
    Pair("disasters 4", 0.5, True, lambda data: disasters(4)),
    Pair("lock", 0.1, True, lambda data: lock()),
    Pair("american-put", 0.2, True, _domain("american-put", horizon=25)),
    Pair("cliff", 0.05, False, _file("cliff.csv", 40)),
    Pair("gridworld", 0.1, False, _file("gridworld_transient.csv", 30)),
    Pair("machine replacement", 0.05, False, _file("machine_replacement_zero_based.csv", 30)),
    Pair("population", 0.01, False, _file("population.csv", 10)),
    Pair("inventory2", 0.05, False, _file("inventory.arrow", 20)),
    Pair("battery", 0.03, False, _domain("battery")),
    Pair("maintenance", 0.5, False, _domain("machine-maintenance")),
    Pair("stock-trading", 0.05, False, _domain("stock-trading")),
    Pair("Taxi", 0.1, True, _gym("Taxi-v4", 20)),
    Pair("disasters 5", 0.2, False, lambda data: disasters(5)),
    Pair("disasters 6", 0.5, False, lambda data: disasters(6)),
    Pair("disasters 7", 0.2, False, lambda data: disasters(7)),
    Pair("disasters 8", 0.5, False, lambda data: disasters(8)),
    Pair("lock 6x4", 0.1, False, lambda data: lock(length=6, actions=4)),
    Pair("sailing 8x8", 0.05, False, _domain("sailing", size=8, horizon=30)),
    Pair("supplier", 0.05, False, _domain("inventory", capacity=8, horizon=10)),
    Pair("american-put 15", 1.0, False, _domain("american-put", horizon=15)),
    Pair("garnet 1", 0.3, False, lambda data: garnet(1)),
    Pair("garnet 2", 1.0, False, lambda data: garnet(2)),
    Pair("ruin", 0.3, False, _file("ruin.csv", 20)),
)


def _paper(constant: float) -> Callable[..., Any]:
    return lambda model, beta, seed: ErmMcts(model, beta, seed=seed, bonus=PolynomialBonus(constant=constant))


PLANNERS: dict[str, Callable[..., Any]] = {
    "learned model": lambda model, beta, seed: LearnedModelSearch(model, beta, seed=seed),
    "tree, preset auto": lambda model, beta, seed: ErmMcts(model, beta, seed=seed, preset="auto"),
    "paper, constant sqrt(2)": _paper(2**0.5),
    **{f"paper, constant {constant:g}": _paper(constant) for constant in (0.1, 0.5, 5.0, 20.0, 60.0)},
    "log bonus, 2 std of all Q": lambda model, beta, seed: SpreadSearch(model, beta, seed=seed),
    "Acc-MCTS": lambda model, beta, seed: AccMcts(model, beta, seed=seed),
    "UCT": lambda model, beta, seed: Uct(model, seed=seed),
}
BEST = "paper, best constant per problem"


def measure(pair: Pair, model: TabularMDP, build: Callable[..., Any], seeds: int) -> dict[str, list[list[float]]]:
    """Regret, value error, steps and seconds of one planner on one pair: lists over seeds of lists over checkpoints."""
    exact = backward_induction(model, pair.beta)
    q = np.asarray(model.signed(exact.action_values(0)[model.start]))
    least, most = np.nanmin(q), q[np.isfinite(q)].max()
    low, high = total_bounds(model)
    columns: dict[str, list[list[float]]] = {"regret": [], "error": [], "steps": [], "seconds": []}
    for seed in range(seeds):
        search, done, steps, seconds = build(model, pair.beta, seed), 0, 0, 0.0
        for column in columns.values():
            column.append([])
        for wanted in CHECKPOINTS:
            begun = time.process_time()
            plan = search.plan(iterations=wanted - done)
            seconds += time.process_time() - begun
            done, steps = wanted, steps + plan.simulator_steps
            columns["regret"][-1].append(float((q[plan.action] - least) / (most - least)))
            value = getattr(plan, "certainty_equivalent", plan.value)
            columns["error"][-1].append(float(abs(value - exact.value) / (high - low)))
            columns["steps"][-1].append(steps)
            columns["seconds"][-1].append(seconds)
    return columns


def run(data: Path, seeds: int, out: Path) -> dict[str, dict[str, Any]]:
    """Measure all planners on all pairs whose files are there; means over seeds, by planner and pair."""
    done = json.loads(out.read_text()) if out.exists() else {}
    if done.get("seeds", seeds) != seeds:
        done = {}
    results: dict[str, dict[str, Any]] = {name: done.get("results", {}).get(name, {}) for name in PLANNERS}
    for pair in PAIRS:
        try:
            model = pair.build(data)
        except Exception as error:  # a file or an extra that is not here
            print(f"{pair.name}: left out ({error})")
            continue
        for name, build in PLANNERS.items():
            title = f"{pair.name}, beta {pair.beta:g}"
            if title in results[name]:
                continue
            build(model, pair.beta, 0).plan(iterations=1)  # compiles
            columns = measure(pair, model, build, seeds)
            means = {column: np.mean(rows, axis=0).tolist() for column, rows in columns.items()}
            means["sd"] = (np.std(columns["regret"], axis=0) / max(seeds, 1) ** 0.5).tolist()
            results[name][title] = {"chosen": pair.chosen, **means}
        out.parent.mkdir(parents=True, exist_ok=True)
        fresh = out.with_suffix(".new")
        fresh.write_text(json.dumps({"seeds": seeds, "results": results}, indent=1))
        fresh.replace(out)
    return results


def best_constant(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The paper's rule at the constant that is best, pair by pair and checkpoint by checkpoint."""
    papers = [rows for name, rows in results.items() if name.startswith("paper")]
    return {
        pair: {
            **row,
            **{key: np.min([rows[pair][key] for rows in papers], axis=0).tolist() for key in ("regret", "error")},
        }
        for pair, row in papers[0].items()
    }


def table(results: dict[str, dict[str, Any]], half: bool | None = None) -> str:
    """The means over pairs as a Markdown table."""
    lines = ["| | " + " | ".join(f"{n:,}" for n in CHECKPOINTS) + " |", "| --- |" + " --- |" * len(CHECKPOINTS)]
    for key, floor in (("regret", FLOOR), ("error", 1e-6)):
        for name, rows in results.items():
            values = np.array([row[key] for row in rows.values() if half in (None, row["chosen"])])
            geometric, mean = np.exp(np.log(np.maximum(values, floor)).mean(axis=0)), values.mean(axis=0)
            cells = [f"{g:.4f} ({m:.3f})" for g, m in zip(geometric, mean, strict=True)]
            lines.append(f"| {name}, {key} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdicts(results: dict[str, dict[str, Any]]) -> str:
    """What the learned model is held to, pair by pair: against the paper's rule and its best constant."""
    ours, paper, best = results["learned model"], results["paper, constant sqrt(2)"], results[BEST]
    lines = []
    for k, n in enumerate(CHECKPOINTS):
        near = np.mean([ours[pair]["regret"][k] <= best[pair]["regret"][k] + 0.01 for pair in ours])
        worse = [
            f"{pair} ({ours[pair]['regret'][k]:.3f} > {paper[pair]['regret'][k]:.3f})"
            for pair in ours
            if ours[pair]["regret"][k] - paper[pair]["regret"][k]
            > 2.0 * float(np.hypot(ours[pair]["sd"][k], paper[pair]["sd"][k]))
        ]
        lines.append(
            f"{n}: within .01 of the best constant on {near:.0%}; worse than sqrt(2): {', '.join(worse) or '-'}"
        )
    return "\n".join(lines)


def draw(results: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw mean regret over simulator steps and over seconds, one line a planner."""
    from tailwise.report.charts import COLOURS
    from tailwise.reproduction.figures import MARKERS, new_figure

    shown = ["learned model", "tree, preset auto", "log bonus, 2 std of all Q", BEST, "paper, constant sqrt(2)", "UCT"]
    figure = new_figure(9.0, 3.9)
    for place, key in enumerate(("steps", "seconds")):
        axes = figure.add_subplot(1, 2, place + 1)
        for k, name in enumerate(shown):
            rows = list(results[name].values())
            regret = np.maximum([row["regret"] for row in rows], FLOOR)
            used = np.array([row[key] for row in rows])
            x, y = (np.exp(np.log(values).mean(axis=0)) for values in (used, regret))
            axes.plot(x, y, color=COLOURS[k], marker=MARKERS[k], markersize=4, label=name if place == 0 else None)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel({"steps": "simulator steps", "seconds": "seconds"}[key])
        axes.set_ylabel("normalised regret of the first action")
        axes.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    """Run the study, print its tables and write all means as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the model files")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--picture", type=Path, help="where to draw regret over steps and seconds (.svg or .png)")
    parser.add_argument("--out", type=Path, default=Path(".cache/study.json"))
    options = parser.parse_args()
    results = run(options.data, options.seeds, options.out)
    results[BEST] = best_constant(results)
    for title, half in (("All pairs", None), ("Looked at while choosing", True), ("Not looked at", False)):
        print(f"{title}\n\n{table(results, half)}\n")
    print(verdicts(results))
    if options.picture is not None:
        draw(results, options.picture)


if __name__ == "__main__":
    main()
