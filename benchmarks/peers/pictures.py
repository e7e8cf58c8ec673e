"""The pictures of the page."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter

mpl.rcParams.update({
    "svg.hashsalt": "peers", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.alpha": 0.25, "legend.frameon": False, "figure.facecolor": "white",
})  # fmt: skip
COLOURS = {
    "tailwise": "#00796b", "tailwise, beta 0.5": "#80cbc4", "QuantEcon": "#c2185b", "pymdptoolbox": "#f57c00",
    "Storm": "#5c6bc0", "tailwise, paper's rule": "#00796b", "tailwise, learned model": "#26a69a",
    "plain Python": "#757575", "gymcts": "#c2185b", "mctx": "#f57c00", "mctx, batch 64": "#8d6e63",
    "mctx, no rollout": "#ffb74d", "exact": "#5c6bc0", "paper's rule": "#00796b", "learned model": "#f57c00",
    "tailwise, auto": "#004d40", "tailwise, UCT": "#9e9d24", "optimal policy": "#212121",
}  # fmt: skip
MARKS = {"tailwise, beta 0.5": "v", "mctx, batch 64": "s", "mctx, no rollout": "^", "tailwise, learned model": "D"}


def save(figure: Any, file: Path) -> None:
    figure.savefig(file, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


def line(axis: Any, x: Any, y: Any, name: str) -> None:
    axis.loglog(x, y, marker=MARKS.get(name, "o"), ms=4, lw=1.4, color=COLOURS.get(name), label=name)


def exact(measured: Any, file: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.3))
    for solver in ("tailwise", "tailwise, beta 0.5", "QuantEcon", "pymdptoolbox", "Storm"):
        points = []
        for states in measured.values("exact", "states"):
            found = measured.results("exact", solver=solver, states=states)
            if found:
                seconds = [row["seconds_per_sweep"] for row in found]
                points.append((states, float(np.median(seconds)), max(max(row["megabytes"] for row in found), 0.1)))
        if points:
            x, seconds, memory = zip(*points, strict=True)
            line(left, x, seconds, solver)
            line(right, x, memory, solver)
    left.set(xlabel="states", ylabel="seconds a sweep")
    right.set(xlabel="states", ylabel="memory, MB")
    left.legend(fontsize=8)
    save(figure, file)


def search(measured: Any, file: Path) -> None:
    problems = measured.values("speed", "problem") or ["none"]
    figure, axes = plt.subplots(1, len(problems), figsize=(4.5 * len(problems) + 2.0, 3.3), squeeze=False, sharey=True)
    for axis, problem in zip(axes[0], problems, strict=True):
        for planner in measured.values("speed", "planner"):
            points = []
            for iterations in measured.values("speed", "iterations"):
                found = measured.results("speed", planner=planner, problem=problem, iterations=iterations)
                if found:
                    points.append((iterations, found[0]["per_second"][0]))
            if points:
                line(axis, *zip(*points, strict=True), planner)
        axis.set(title=problem, xlabel="iterations a decision (of each tree)")
    axes[0][0].set_ylabel("iterations a second")
    axes[0][-1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save(figure, file)


def growth(curves: dict[str, Any], file: Path) -> None:
    names = list(curves) or ["none"]
    figure, axes = plt.subplots(2, len(names), figsize=(2.6 * len(names), 5.0), squeeze=False, sharey="row")
    for column, name in enumerate(names):
        for planner, points in curves.get(name, []):
            if not points:
                continue
            x, seconds, memory = zip(*points, strict=True)
            line(axes[0][column], x, seconds, planner)
            line(axes[1][column], x, [max(m, 0.1) for m in memory], planner)
        axes[0][column].set_title(name)
        axes[1][column].set_xlabel(name)
        for axis in axes[:, column]:
            axis.xaxis.set_minor_formatter(NullFormatter())
    axes[0][0].set_ylabel("seconds")
    axes[1][0].set_ylabel("memory, MB")
    handles = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), fontsize=8, loc="lower center", bbox_to_anchor=(0.5, -0.06), ncols=3
    )
    save(figure, file)


def closed(dots: list[dict[str, Any]], file: Path) -> None:
    """What each player loses to the reference, in the units of the problem."""
    panels: dict[tuple[str, float], list[dict[str, Any]]] = defaultdict(list)
    for dot in dots:
        panels[(dot["problem"], dot["ms"])].append(dot)
    columns = 4
    rows = max(1, -(-len(panels) // columns))
    figure, axes = plt.subplots(rows, columns, figsize=(11.0, 1.9 * rows + 0.3), squeeze=False)
    order = ["tailwise, auto", "tailwise, learned model", "tailwise, paper's rule", "tailwise, UCT", "mctx"]
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for k, ((problem, ms), found) in enumerate(panels.items()):
        axis = axes.flat[k]
        sign = 1.0 if found[0]["sense"] == "cost" else -1.0
        for dot in found:
            if dot["name"] not in order:
                continue
            low, high = sorted((sign * dot["low"], sign * dot["high"]))
            y, x = order.index(dot["name"]), sign * dot["gap"]
            axis.plot([low, high], [y, y], color=COLOURS[dot["name"]], lw=2, alpha=0.5)
            axis.plot([x], [y], "o", ms=5, color=COLOURS[dot["name"]])
        axis.axvline(0.0, color="black", lw=0.8)
        axis.set_title(f"{problem.removeprefix('rddl:').split('/')[0]}, {ms:g} ms", fontsize=8)
        axis.set_yticks(
            range(len(order)), [name.removeprefix("tailwise, ") for name in order] if k % columns == 0 else []
        )
        axis.set_ylim(len(order) - 0.5, -0.5)
        axis.tick_params(labelsize=7)
    figure.supxlabel("risk above the reference, in the units of each problem", fontsize=9)
    figure.tight_layout()
    save(figure, file)
