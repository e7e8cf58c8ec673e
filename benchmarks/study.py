"""Which search finds the right action with the fewest simulator calls: ``make study``, or this file with --help.

Problems are drawn anew from the families of ``families.py``, each with an exact answer; a planner sees a problem as a
black box that it can only sample. Reported at each number of iterations, on the half of the families that nothing was
chosen on and on the other: the normalised simple regret of the recommended first action (0 the best, 1 the mean
action), geometric mean with a floor of .002 and arithmetic mean in brackets; how often the true value of the
recommended action lies in its stated interval; and how often an action said to be best with probability p is. Finished
draws are kept: a second call goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from families import CHOOSING, REPORTING, draw
from spread_bonus import SpreadSearch
from study_rules import BONUS, POSTERIOR, UNIFORM, CountedSearch, RegressedSearch
from tailwise import ErmMcts, LearnedModelSearch, Uct

CHECKPOINTS = (100, 300, 1_000, 3_000, 10_000)
FLOOR = 0.002
OURS, STUDENT, REGRESSION = "learned model", "uniform, one induction", "uniform, one regression"

PLANNERS: dict[str, Callable[..., Any]] = {
    OURS: lambda model, beta, seed: LearnedModelSearch(model, beta, seed=seed),
    STUDENT: lambda model, beta, seed: CountedSearch(model, beta, rule=UNIFORM, seed=seed),
    REGRESSION: lambda model, beta, seed: RegressedSearch(model, beta, seed=seed),
    "bonus of UCBVI": lambda model, beta, seed: CountedSearch(model, beta, rule=BONUS, seed=seed),
    "posterior draws (PSRL)": lambda model, beta, seed: CountedSearch(model, beta, rule=POSTERIOR, seed=seed),
    "tree, preset auto": lambda model, beta, seed: ErmMcts(model, beta, seed=seed, preset="auto"),
    "paper, constant sqrt(2)": lambda model, beta, seed: ErmMcts(model, beta, seed=seed),
    "log bonus, 2 std of all Q": lambda model, beta, seed: SpreadSearch(model, beta, seed=seed),
    "UCT": lambda model, beta, seed: Uct(model, seed=seed),
}


def measure(family: str, index: int, planner: str, seeds: int, checkpoints: tuple[int, ...]) -> dict[str, Any]:
    """Measure one planner on one draw: lists over seeds of lists over checkpoints."""
    problem = draw(family, index)
    sees_states = "*" in family and planner in (OURS, REGRESSION)  # a table's states are but numbers
    columns: dict[str, list[list[float]]] = {name: [] for name in ("regret", "covered", "sure", "right", "seconds")}
    ids = problem.table.actions(problem.table.start)
    model = problem.simulator if sees_states else problem.table
    for seed in range(seeds):
        search, done, seconds = PLANNERS[planner](model, problem.beta, seed), 0, 0.0
        for column in columns.values():
            column.append([])
        for wanted in checkpoints:
            begun = time.process_time()
            plan = search.plan(iterations=wanted - done)
            seconds, done = seconds + time.process_time() - begun, wanted
            best = int(np.flatnonzero(ids == plan.action)[0])
            row = plan.rows[best] if hasattr(plan, "rows") else None
            interval = getattr(row, "interval", (np.nan, np.nan))
            sure = getattr(plan, "probability_best", None)  # equal actions share it, and are all right
            columns["regret"][-1].append(problem.regret(best))
            columns["covered"][-1].append(float(interval[0] <= problem.q[best] <= interval[1]))
            columns["sure"][-1].append(np.nan if sure is None else float(sure))
            columns["right"][-1].append(float(problem.q[best] <= problem.q.min() + 1e-9 * abs(problem.q.min())))
            columns["seconds"][-1].append(seconds)
    return columns


def run(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Measure all planners on all draws: by planner and "family index"."""
    names = [name for name in PLANNERS if not options.planners or any(part in name for part in options.planners)]
    families = [name for name in (*CHOOSING, *REPORTING) if not options.families or name in options.families]
    results: dict[str, dict[str, Any]] = json.loads(options.out.read_text()) if options.out.exists() else {}
    with ProcessPoolExecutor(options.processes) as pool:
        jobs = {
            (name, f"{family} {index}"): pool.submit(
                measure, family, index, name, options.seeds, CHECKPOINTS[: options.last]
            )
            for family in families
            for index in range(options.first_draw, options.first_draw + options.draws)
            for name in names
            if f"{family} {index}" not in results.get(name, {}) and ("*" in family or name != REGRESSION)
        }
        for (name, title), job in jobs.items():
            results.setdefault(name, {})[title] = job.result()
            options.out.parent.mkdir(parents=True, exist_ok=True)
            fresh = options.out.with_suffix(".new")
            fresh.write_text(json.dumps(results))
            fresh.replace(options.out)
    return results


def family_of(title: str) -> str:
    return title.rsplit(" ", 1)[0]


def table(results: dict[str, dict[str, Any]], keep: Callable[[str], bool]) -> str:
    """Mean regrets over the draws of the families that are kept, as a Markdown table."""
    lines = ["| | " + " | ".join(f"{n:,}" for n in CHECKPOINTS) + " |", "| --- |" + " --- |" * len(CHECKPOINTS)]
    for name, rows in results.items():
        values = np.array([np.mean(row["regret"], axis=0) for title, row in rows.items() if keep(family_of(title))])
        if values.size:
            geometric = np.exp(np.log(np.maximum(values, FLOOR)).mean(axis=0))
            cells = [f"{g:.3f} ({m:.2f})" for g, m in zip(geometric, values.mean(axis=0), strict=True)]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def by_family(results: dict[str, dict[str, Any]]) -> str:
    """Arithmetic mean regret of ours and of the student's loop, family by family, and which are behind."""
    lines = ["| family | " + " | ".join(f"{n:,}" for n in CHECKPOINTS) + " |", "| --- |" + " --- |" * len(CHECKPOINTS)]
    for family in (*CHOOSING, *REPORTING):
        titles = [t for t in results.get(OURS, {}) if family_of(t) == family and t in results.get(STUDENT, {})]
        if not titles:
            continue
        ours, theirs = (
            np.array([np.mean(results[name][title]["regret"], axis=0) for title in titles]) for name in (OURS, STUDENT)
        )
        error = (ours - theirs).std(axis=0, ddof=1) / len(titles) ** 0.5 if len(titles) > 1 else np.zeros(ours.shape[1])
        cells = [
            f"{a:.3f} / {b:.3f}" + (" *behind*" if a - b > 2 * e + 0.002 else "")
            for a, b, e in zip(ours.mean(axis=0), theirs.mean(axis=0), error, strict=True)
        ]
        lines.append(f"| {family}{'' if family in CHOOSING else ' (reported)'} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def calibration(results: dict[str, dict[str, Any]], keep: Callable[[str], bool]) -> str:
    """How often intervals cover and how often the sure are right, family by family."""
    lines = ["| family | covered | said .85 to .95: right | said over .95: right | runs |", "| --- |" + " --- |" * 4]
    for family in (*CHOOSING, *REPORTING):
        rows = [row for title, row in results.get(OURS, {}).items() if family_of(title) == family and keep(family)]
        if not rows:
            continue
        covered, sure, right = (
            np.concatenate([np.ravel(row[key]) for row in rows]) for key in ("covered", "sure", "right")
        )
        parts = []
        for low, high in ((0.85, 0.95), (0.95, 1.01)):
            said = (sure >= low) & (sure < high)
            parts.append(f"{right[said].mean():.2f} of {said.sum()}" if said.any() else "-")
        lines.append(f"| {family} | {covered.mean():.2f} | {' | '.join(parts)} | {covered.size} |")
    return "\n".join(lines)


def draw_picture(results: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw mean regret over iterations and over seconds on the reported families, one line a planner."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.9), layout="constrained")
    for place, key in enumerate(("iterations", "seconds of processor time")):
        axes = figure.add_subplot(1, 2, place + 1)
        for name, rows in results.items():
            kept = [row for title, row in rows.items() if family_of(title) in REPORTING]
            regret = np.maximum([np.mean(row["regret"], axis=0) for row in kept], FLOOR)
            used = CHECKPOINTS[: regret.shape[1]]
            if place:
                used = np.exp(np.log([np.mean(row["seconds"], axis=0) for row in kept]).mean(axis=0))
            axes.plot(
                used, np.exp(np.log(regret).mean(axis=0)), marker="o", markersize=4, label=None if place else name
            )
        axes.set(xscale="log", yscale="log", xlabel=key, ylabel="normalised regret of the first action")
        axes.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def draw_reliability(results: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw how often the action is right over how probable that was said to be, on the reported families."""
    from matplotlib.figure import Figure

    rows = [row for title, row in results[OURS].items() if family_of(title) in REPORTING]
    said, right = (np.concatenate([np.ravel(row[key]) for row in rows]) for key in ("sure", "right"))
    figure = Figure(figsize=(4.6, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    edges = [0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0 + 1e-9]
    for low, high in itertools.pairwise(edges):
        inside = (said >= low) & (said < high)
        if inside.any():
            share, size = right[inside].mean(), inside.sum()
            error = 1.64 * (share * (1.0 - share) / size + 0.7 / size**2) ** 0.5  # as if runs were independent
            axes.errorbar(said[inside].mean(), share, error, marker="o", markersize=5, color="C0", capsize=3)
            axes.annotate(
                f"{size}",
                (said[inside].mean(), share),
                (5, -12 if said[inside].mean() < 0.985 else 4),
                textcoords="offset points",
                fontsize=8,
            )
    axes.set(xlim=(0, 1.12), ylim=(0, 1.06), xlabel="said probability of being best", ylabel="share that is best")
    axes.grid(alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    """Run the study and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=12, help="problems of each family")
    parser.add_argument("--first-draw", type=int, default=0, help="draws from this number on: others than before")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--last", type=int, default=len(CHECKPOINTS), help="how many checkpoints")
    parser.add_argument("--families", nargs="*", help="these alone")
    parser.add_argument("--planners", nargs="*", help="planners whose names have one of these words in them")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="where to draw regret over iterations and seconds")
    parser.add_argument("--out", type=Path, default=Path(".cache/study.json"))
    parser.add_argument("--reliability", type=Path, help="where to draw how often what is said to be best is")
    options = parser.parse_args()
    results = run(options)
    for title, keep in (
        ("Reported: families that nothing was chosen on, states that recur", lambda f: f in REPORTING and "*" not in f),
        ("Reported, states that do not recur", lambda f: f in REPORTING and "*" in f),
        ("Families for choosing, states that recur", lambda f: f in CHOOSING and "*" not in f),
        ("Families for choosing, states that do not recur", lambda f: f in CHOOSING and "*" in f),
    ):
        print(f"## {title}\n\n{table(results, keep)}\n")
    print(f"## Ours / {STUDENT}\n\n{by_family(results)}\n\n## Calibration\n\n{calibration(results, lambda f: True)}")
    if options.picture is not None:
        draw_picture(results, options.picture)
    if options.reliability is not None:
        draw_reliability(results, options.reliability)


if __name__ == "__main__":
    main()
