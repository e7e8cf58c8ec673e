"""The figures of the reproduction: those of the paper, the same for the risk of the closed loop, and of the bandits.

The last check the theorems: convergence, tails, the two estimators, the effect of beta. matplotlib is imported when the
first is drawn (extra ``report``); the same data give the same bytes, as PNG and SVG.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tailwise._arrays import Floats
from tailwise._progress import Progress, followed
from tailwise._random import Seed, seed_sequence
from tailwise._validate import choice, integer
from tailwise.bandits.algorithms import ErmUcb, bandit_constants, make_algorithm
from tailwise.bandits.arms import BANDITS, Arm, Bandit, make_bandit
from tailwise.bandits.distributions import bernoulli, beta_distribution
from tailwise.bandits.simulate import ESTIMATORS, BanditRun, simulate
from tailwise.errors import RunError, require
from tailwise.report.charts import COLOURS
from tailwise.report.document import Image
from tailwise.reproduction.bandit_studies import STUDY_CONSTANT, runs_over_beta, theorem_exponent
from tailwise.reproduction.variants import ACC, DISTRIBUTIONAL, ERM, ORACLE
from tailwise.theory.estimators import AverageConstants, stream_constants

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tailwise.reproduction.summary import Row, Summary

ALGORITHMS = (ORACLE, ACC, ERM, DISTRIBUTIONAL)
"""The order in which they are shown."""
MARKERS = ("o", "s", "^", "D", "v", "P")
_HISTOGRAM_ITERATIONS = 1000
_DPI = 160


def draw_figures(summary: Summary, folder: Path) -> tuple[list[Image], list[Path]]:
    """Draw all figures into an existing folder; return them as blocks of the report above it, and their files."""
    images: list[Image] = []
    files: list[Path] = []

    def add(name: str, figure: Any, caption: str) -> None:
        files.extend(save_figure(figure, folder, name))
        images.append(Image(f"figures/{name}.png", caption))

    xlabel = "discounted cost of an episode"
    main = summary.settings.variants[0]
    for letter, problem in zip("ab", ("mdp-4", "grid-mdp"), strict=True):
        rows = _histogram_rows(summary, problem, main)
        if rows:
            samples = {f"beta {row.experiment.beta:g}": row.totals for row in rows}
            title = f"{problem}: ERM-MCTS, n = {rows[0].experiment.iterations}, variant {main}"
            caption = f"Figure ({letter}): discounted costs of {len(rows[0].totals)} episodes of ERM-MCTS on {problem}."
            figure = histogram_panels([Panel(title, samples)], xlabel=xlabel)
            add(f"{letter}_{problem}", figure, caption)
    for letter, problem in zip("cd", ("mdp-4", "grid-mdp"), strict=True):
        for beta in summary.betas(problem):
            rows = curve_rows(summary, problem, beta)
            if len({row.experiment.iterations for row in rows}) < 2:
                continue
            name, title = f"{letter}_{problem}_beta-{beta:g}", f"Figure ({letter}), {problem}, beta {beta:g}"
            against = "against the number of iterations."
            paper = f"{title}: empirical risk {against} Bars: 90 % percentile bootstrap, as in the paper."
            add(name, _empirical_curves(summary, rows), paper)
            how = "certain remainders integrated exactly" if problem == "grid-mdp" else "from all episodes there are"
            bars = f"The risk of the closed loop, {how}. Bars: 95 % percentile bootstrap."
            closed = f"{title}: closed-loop risk {against} {bars}"
            curves = _curves(rows, [(row.closed_loop, *row.closed_interval) for row in rows])
            add(f"{name}_closed-loop", _draw(rows[0], curves, "risk of the closed loop", None), closed)
    for problem in summary.settings.problems:
        panels = [
            Panel(f"{problem}, beta {beta:g}", _samples(rows, main), rows[0].exact)
            for beta in summary.betas(problem)
            for rows in (summary.table(problem, beta),)
        ]
        caption = f"Discounted costs of the three algorithms on {problem} (variant {main})."
        add(f"distributions_{problem}", histogram_panels(panels, xlabel=xlabel), caption)
    return images, files


def curve_rows(summary: Summary, problem: str, beta: float) -> list[Row]:
    """Return the rows of algorithms and variants that were run for several numbers of iterations."""
    rows = summary.select(problem, beta)
    kinds = [_kind(row) for row in rows]
    return [row for row, kind in zip(rows, kinds, strict=True) if kinds.count(kind) > 1]


def _kind(row: Row) -> tuple[str, str]:
    return row.experiment.algorithm, row.experiment.variant


def _histogram_rows(summary: Summary, problem: str, variant: str) -> list[Row]:
    betas = summary.betas(problem)
    most = max((row.experiment.iterations for beta in betas for row in summary.select(problem, beta)), default=0)
    size = min(_HISTOGRAM_ITERATIONS, most)
    return [row for beta in betas if (row := summary.find(problem, ERM, variant, beta, size)) is not None]


def _samples(rows: Sequence[Row], variant: str) -> dict[str, Floats]:
    shown = [row for row in rows if row.experiment.variant in ("exact", variant)]
    shown.sort(key=lambda row: ALGORITHMS.index(row.experiment.algorithm))
    return {row.experiment.algorithm: row.totals for row in shown}


def _empirical_curves(summary: Summary, rows: list[Row]) -> Any:
    experiment = rows[0].experiment
    oracle = summary.find(experiment.problem, ORACLE, "exact", experiment.beta)
    curves = _curves(rows, [(row.erm, *row.interval) for row in rows])
    title = f"empirical risk of {len(rows[0].totals)} episodes"
    return _draw(rows[0], curves, title, None if oracle is None else oracle.sampling_range)


def _curves(rows: list[Row], values: list[tuple[float, float, float]]) -> list[Curve]:
    """One curve for each algorithm and variant, over the number of iterations."""
    curves = []
    for kind in dict.fromkeys(map(_kind, rows)):
        own = [(row, value) for row, value in zip(rows, values, strict=True) if _kind(row) == kind]
        points = sorted((float(row.experiment.iterations), *value) for row, value in own)
        curves.append(Curve(", ".join(kind), *np.array(points).T))
    return curves


def _draw(row: Row, curves: list[Curve], title: str, band: tuple[float, float] | None) -> Any:
    experiment = row.experiment
    return risk_curves(
        curves,
        xlabel="iterations n of each decision",
        ylabel=f"ERM at beta {experiment.beta:g}",
        title=f"{experiment.problem}, beta {experiment.beta:g}: {title}",
        exact=row.exact,
        band=band,
        band_label="90 % of experiments with the optimal policy",
    )


@dataclass(frozen=True, eq=False)
class Curve:
    """Estimates with error bars over a parameter; all arrays of shape (k,)."""

    label: str
    x: Floats
    y: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Panel:
    """One histogram panel: a title, totals by name, and a value to mark (the exact risk) or None."""

    title: str
    samples: Mapping[str, Floats]
    mark: float | None = None


def histogram_panels(panels: Sequence[Panel], *, xlabel: str) -> Figure:
    """Draw panels of overlaid density histograms, one above the other, each on common bins."""
    figure = new_figure(5.2, 2.9 * len(panels) + 0.3)
    for index, panel in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, index + 1)
        edges = np.histogram_bin_edges(np.concatenate(list(panel.samples.values())), bins=20).tolist()
        for k, (name, totals) in enumerate(panel.samples.items()):
            colour, label = COLOURS[k % len(COLOURS)], f"{name} (mean {totals.mean():.2f}, max {totals.max():.2f})"
            axes.hist(totals, bins=edges, density=True, color=colour, alpha=0.35)
            axes.hist(totals, bins=edges, density=True, color=colour, histtype="step", linewidth=1.4, label=label)
        if panel.mark is not None:
            axes.axvline(panel.mark, color="#444444", linestyle=":", linewidth=1.2, label="exact optimal risk")
        axes.set_title(panel.title, fontsize=10)
        axes.set_ylabel("density")
        axes.legend(fontsize=7.5, frameon=False)
    axes.set_xlabel(xlabel)
    return figure


def risk_curves(
    curves: Sequence[Curve],
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    exact: float | None = None,
    band: tuple[float, float] | None = None,
    band_label: str = "",
) -> Figure:
    """Draw risk against a parameter on a logarithmic axis, with the exact optimum marked and a range shaded."""
    figure = new_figure(5.6, 4.3)
    axes = figure.add_subplot()
    if band is not None:
        axes.axhspan(*band, color="#999999", alpha=0.18, linewidth=0, label=band_label)
    for k, curve in enumerate(curves):
        colour, nudge = COLOURS[k % len(COLOURS)], 1.0 + 0.03 * (k - (len(curves) - 1) / 2)
        errors = np.maximum(0.0, np.stack((curve.y - curve.low, curve.high - curve.y)))
        axes.errorbar(
            curve.x * nudge, curve.y, yerr=errors, color=colour, marker=MARKERS[k % len(MARKERS)], markersize=5,
            linewidth=1.4, capsize=3, label=curve.label,
        )  # fmt: skip
    if exact is not None:
        axes.axhline(exact, color="#444444", linestyle=":", linewidth=1.2, label="exact optimum")
    axes.set_xscale("log")
    ticks = sorted({float(x) for curve in curves for x in curve.x})
    axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks], rotation=45 if len(ticks) > 5 else 0)
    axes.minorticks_off()
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_title(title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def save_figure(figure: Any, folder: Path, name: str) -> tuple[Path, Path]:
    """Write a figure as ``name.png`` and ``name.svg``; return both paths."""
    matplotlib = require("matplotlib", "report", "drawing a figure")
    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    with matplotlib.rc_context({"svg.hashsalt": "tailwise", "svg.fonttype": "path"}):
        figure.savefig(png, dpi=_DPI, metadata={"Software": None})
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return png, svg


def new_figure(width: float, height: float) -> Figure:
    """Return an empty matplotlib figure (sizes in inches), which touches no global state."""
    module = require("matplotlib.figure", "report", "drawing a figure")
    figure: Figure = module.Figure(figsize=(width, height), layout="constrained")
    return figure


def save_bandit_figures(
    folder: Path,
    *,
    kind: str = "png",
    pulls: int = 20_000,
    replications: int = 200,
    seed: Seed = 0,
    threads: int = 1,
    progress: Progress = None,
) -> tuple[Path, ...]:
    """Draw all figures into ``folder`` (made if need be), as ``png`` or ``svg``, each by its own child of ``seed``."""
    require("matplotlib", "report", "drawing a figure")
    choice(kind, "format", ("png", "svg"))
    integer(pulls, "pulls", low=3)
    whole = folder.absolute()
    there = next(path for path in (whole, *whole.parents) if path.exists())
    if not there.is_dir():  # before the work
        raise RunError(f"cannot write figures into {folder}: {there} is a file; choose another folder")
    children = iter(seed_sequence(seed).spawn(len(BANDITS) + 2))
    size: dict[str, Any] = {"pulls": pulls, "replications": replications, "threads": threads}
    few = {**size, "pulls": min(pulls, 5000), "replications": min(replications, 40)}

    def convergence(name: str) -> Figure:
        runs = runs_over_beta(name, constant=STUDY_CONSTANT, seed=next(children), **size)
        return _convergence(runs, f"{name} bandit, constant {STUDY_CONSTANT:g}, {replications} replications")

    def estimators() -> Figure:
        runs = runs_over_beta("stationary", constant=math.sqrt(2.0), seed=next(children), **size)
        return _estimators(runs, "stationary bandit, constant sqrt(2): range over replications")

    drawings: dict[str, Callable[[], Figure]] = {
        **{f"convergence-{name}": functools.partial(convergence, name) for name in BANDITS[:3]},
        "estimators": estimators,
        "tails": lambda: _tails(seed=next(children), **size),
        "beta": lambda: _effect_of_beta(seed=next(children), **few),
    }
    figures = {}
    with followed(progress, "drawing", len(drawings)) as tick:
        for name, draw in drawings.items():
            figures[name] = draw()
            tick(len(figures))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            figure.savefig(folder / f"{name}.{kind}", dpi=130)
    except OSError as error:
        raise RunError(f"cannot write figures into {folder}: {error}; choose another folder") from error
    return tuple(folder / f"{name}.{kind}" for name in figures)


def _convergence(runs: Sequence[BanditRun], title: str) -> Figure:
    """Mean absolute error of both estimators against n, one colour per beta, with the theorem's slope."""
    figure, axes = _panels(2, title, sharey=True)
    points = runs[0].checkpoints.astype(np.float64)
    slope = theorem_exponent(runs[0])
    least = math.inf
    for axis, estimator in zip(axes, ESTIMATORS, strict=True):
        top = 0.0
        for colour, run in zip(COLOURS, runs, strict=False):
            errors = np.abs(run.errors(estimator))
            number = errors.shape[0]
            mean, deviation = errors.mean(axis=0), errors.std(axis=0, ddof=min(1, number - 1)) / math.sqrt(number)
            axis.plot(run.checkpoints, mean, color=colour, label=f"beta = {run.algorithm.beta:g}")
            low, high = mean - 1.96 * deviation, mean + 1.96 * deviation
            axis.fill_between(run.checkpoints, np.maximum(low, 1e-12), high, color=colour, alpha=0.2, linewidth=0)
            top, least = max(top, float(mean[-1])), min(least, float(mean.min()))
        line = 1.6 * top * (points / points[-1]) ** slope
        axis.plot(points, line, "k--", linewidth=1, label=f"theorem: n^({slope:g})")
        axis.set(xscale="log", yscale="log", xlabel="pulls n", title=f"{estimator} estimator")
        axis.grid(visible=True, which="major", alpha=0.3)
    axes[0].set_ylim(bottom=0.5 * least)
    axes[0].set_ylabel("mean |estimate - mu*|")
    axes[1].legend(frameon=False)
    return figure


def _tails(*, pulls: int, replications: int, seed: Seed, threads: int) -> Figure:
    """Frequency of large errors against z under the theorems' bounds, where those say something within reach."""
    beta = 0.1
    bandit = Bandit((Arm.of(beta_distribution(2.0, 2.0, 0.0, 0.2)), Arm.of(bernoulli(0.8, 0.7, 0.95))))
    forms = [bandit_constants(bandit, beta, form=form) for form in ("tight", "corrected")]
    algorithm = ErmUcb.from_constants(forms[0])
    run = simulate(bandit, algorithm, pulls=pulls, replications=replications, seed=seed, threads=threads)
    title = f"two arms, beta = {beta:g}, constant theta^(1/xi) = {algorithm.constant:.3g}, {replications} replications"
    figure, axes = _panels(2, title, sharey=True)
    # Up to where the widest bound has fallen to 1 in 1000.
    ends = [(stream_constants(c).log_theta_second + math.log(1000.0)) / c.xi_prime for c in forms]
    grid = np.geomspace(0.05, math.exp(min(50.0, max(ends))), 400)
    for axis, estimator in zip(axes, ESTIMATORS, strict=True):
        _draw_tails(axis, run, forms, estimator, grid)
    axes[0].set_ylabel("P[ |n error| >= n^eta' z ]")
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=5)
    return figure


def _draw_tails(axis: Any, run: BanditRun, forms: Sequence[AverageConstants], estimator: str, grid: Any) -> None:
    """Draw one panel: the largest frequency over n and both sides, and each form's bound."""
    eta = forms[0].eta_prime
    tails = [run.tail_frequency(z, eta, estimator) for z in grid]
    worst = np.array([max(float(upper.max()), float(lower.max())) for upper, lower in tails])
    seen = worst > 0
    axis.plot(grid[seen], worst[seen], color=COLOURS[0], label="observed (largest over n)")
    for colour, form in zip(COLOURS[1:], forms, strict=False):
        tail = form.log_tail if estimator == "average" else stream_constants(form).log_tail
        bound = np.array([math.exp(min(0.0, tail(z))) if z >= 1 else 1.0 for z in grid])
        axis.plot(grid, bound, color=colour, label=f"bound, {form.form}")
    floor = 1.0 / run.stream.shape[0]
    axis.axhline(floor, color="grey", linewidth=0.8, linestyle=":", label="one replication")
    reach = (run.bandit.high - run.bandit.low) * float(run.checkpoints[-1]) ** (1.0 - eta)
    axis.axvline(reach, color="grey", linewidth=0.8, linestyle="--", label="largest z possible here")
    axis.set(xscale="log", yscale="log", xlabel="z", title=f"{estimator} estimator", ylim=(floor / 3, 2))
    axis.grid(visible=True, alpha=0.3)


def _estimators(runs: Sequence[BanditRun], title: str) -> Figure:
    """rho_stream - rho_bar against n: median and whole range; of beta's sign, by Jensen."""
    figure, (axis,) = _panels(1, title)
    for colour, run in zip(COLOURS, runs, strict=False):
        low, middle, high = np.quantile(run.stream - run.average, [0.0, 0.5, 1.0], axis=0)
        axis.plot(run.checkpoints, middle, color=colour, label=f"beta = {run.algorithm.beta:g}")
        axis.fill_between(run.checkpoints, low, high, color=colour, alpha=0.2, linewidth=0)
    axis.axhline(0.0, color="black", linewidth=0.8)
    axis.set(xscale="log", xlabel="pulls n", ylabel="rho_stream - rho_bar")
    axis.set_yscale("symlog", linthresh=1e-4)
    axis.grid(visible=True, alpha=0.3)
    figure.legend(frameon=False, loc="outside lower center", ncols=len(runs))
    return figure


def _effect_of_beta(*, pulls: int, replications: int, seed: Seed, threads: int) -> Figure:
    """On the ``gamble`` bandit: the arms' ERMs over beta, and how often each rule pulls the sure arm."""
    bandit = make_bandit("gamble")
    figure, axes = _panels(2, "")
    fine, coarse = np.linspace(-2.0, 5.0, 141), np.linspace(-2.0, 5.0, 15)
    risks = np.array([bandit.risks(float(beta)) for beta in fine])
    for colour, arm, curve in zip(COLOURS, bandit.arms, risks.T, strict=False):
        axes[0].plot(fine, curve, color=colour, label=f"{arm.name} arm")
    axes[0].set(xlabel="beta", ylabel="ERM of the arm", title="exact risk of the arms")
    rules = (("erm-ucb", 0.2), ("ucb1", None), ("thompson", None))
    children = iter(seed_sequence(seed).spawn(len(rules) * coarse.size))
    size: dict[str, Any] = {"pulls": pulls, "replications": replications, "threads": threads}
    for colour, (rule, constant) in zip(COLOURS[2:], rules, strict=False):
        algorithms = [make_algorithm(rule, float(beta), constant=constant) for beta in coarse]
        runs = [simulate(bandit, algorithm, seed=next(children), **size) for algorithm in algorithms]
        shares = [float(run.counts[:, -1, 0].mean()) / pulls for run in runs]
        label = rule if constant is None else f"{rule} (constant {constant:g})"
        axes[1].plot(coarse, shares, marker="o", markersize=3, color=colour, label=label)
    crossing = float(fine[np.argmax(risks[:, 0] < risks[:, 1])])
    for axis in axes:
        axis.axvline(crossing, color="grey", linewidth=0.8, linestyle=":")
        axis.grid(visible=True, alpha=0.3)
        axis.legend(frameon=False)
    axes[1].set(xlabel="beta", ylabel="share of pulls", title=f"sure arm, n = {pulls}", ylim=(-0.03, 1.03))
    return figure


def _panels(columns: int, title: str, **options: Any) -> tuple[Figure, Any]:
    """Return a figure of panels side by side, and a flat array of its axes."""
    figure = new_figure(10.0 if columns > 1 else 6.4, 4.2)
    if title:
        figure.suptitle(title)
    return figure, np.atleast_1d(figure.subplots(1, columns, **options))
