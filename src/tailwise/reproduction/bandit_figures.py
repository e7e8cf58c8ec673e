"""Four pictures that check the bandit theorems: convergence, tails, the two estimators, the effect of beta.

Each function takes finished runs (or makes the small ones it needs) and returns a matplotlib figure; saving is up
to the caller. matplotlib comes with the extra ``report``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tailwise._random import Seed, seed_sequence
from tailwise.bandits.algorithms import ErmUcb, make_algorithm
from tailwise.bandits.arms import Arm, Bandit
from tailwise.bandits.distributions import bernoulli, beta_distribution
from tailwise.bandits.examples import BANDITS, make_bandit
from tailwise.bandits.run import ESTIMATORS, BanditRun
from tailwise.bandits.simulate import simulate
from tailwise.bandits.theorem_constants import bandit_constants
from tailwise.errors import RunError, require
from tailwise.reproduction.bandit_studies import STUDY_CONSTANT, runs_over_beta
from tailwise.theory.average import AverageConstants
from tailwise.theory.stream import stream_constants

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")  # safe for colour-blind readers
_LABELS = {"average": "average", "stream": "stream"}


def convergence_figure(runs: Sequence[BanditRun], *, title: str = "") -> Any:
    """Mean absolute error of both estimators against n, one colour per beta, with the n^(eta'-1) line.

    Parameters
    ----------
    runs : sequence of BanditRun
        Runs of :class:`ErmUcb` on one bandit at different beta.
    title : str, optional
        Heading.

    Returns
    -------
    matplotlib.figure.Figure
        Two panels, one per estimator.
    """
    figure, axes = _subplots(1, 2, (10.0, 4.2), sharey=True)
    for axis, estimator in zip(axes, ESTIMATORS, strict=True):
        for colour, run in zip(_COLOURS, runs, strict=False):
            errors = np.abs(run.errors(estimator))
            number = errors.shape[0]
            mean, deviation = errors.mean(axis=0), errors.std(axis=0, ddof=min(1, number - 1)) / math.sqrt(number)
            axis.plot(run.checkpoints, mean, color=colour, label=f"beta = {run.algorithm.beta:g}")
            low, high = mean - 1.96 * deviation, mean + 1.96 * deviation
            axis.fill_between(run.checkpoints, np.maximum(low, 1e-12), high, color=colour, alpha=0.2, linewidth=0)
        algorithm = runs[0].algorithm
        assert isinstance(algorithm, ErmUcb)
        assert algorithm.exponent is not None
        slope = algorithm.exponent / (1.0 - algorithm.eta) - 1.0
        points = runs[0].checkpoints.astype(np.float64)
        top = max(float(np.abs(run.errors(estimator)).mean(axis=0)[-1]) for run in runs)
        line = 1.6 * top * (points / points[-1]) ** slope
        axis.plot(points, line, "k--", linewidth=1, label=f"theorem: n^({slope:g})")
        axis.set(xscale="log", yscale="log", xlabel="pulls n", title=f"{_LABELS[estimator]} estimator")
        axis.set_ylim(
            bottom=0.5 * min(float(np.abs(run.errors(e)).mean(axis=0).min()) for run in runs for e in ESTIMATORS)
        )
        axis.grid(visible=True, which="major", alpha=0.3)
    axes[0].set_ylabel("mean |estimate - mu*|")
    axes[1].legend(frameon=False)
    return _finish(figure, title)


def tail_figure(run: BanditRun, constants: Sequence[AverageConstants], *, title: str = "") -> Any:
    """Frequency of large errors against z, under the theorems' bounds.

    Parameters
    ----------
    run : BanditRun
        Run of :class:`ErmUcb` with the constant of the theorem.
    constants : sequence of AverageConstants
        Constants of the same bandit, in the forms to draw.
    title : str, optional
        Heading.

    Returns
    -------
    matplotlib.figure.Figure
        Two panels, one per estimator; the frequency shown is the largest over the checkpoints and sides.
    """
    figure, axes = _subplots(1, 2, (10.0, 4.2), sharey=True)
    # Up to where the widest bound has fallen to 1 in 1000.
    ends = [(stream_constants(c).log_theta_second + math.log(1000.0)) / c.xi_prime for c in constants]
    grid = np.geomspace(0.05, math.exp(min(50.0, max(ends))), 400)
    reach = (run.bandit.high - run.bandit.low) * float(run.checkpoints[-1]) ** (1.0 - constants[0].eta_prime)
    for axis, estimator in zip(axes, ESTIMATORS, strict=True):
        tails = [run.tail_frequency(z, constants[0].eta_prime, estimator) for z in grid]
        worst = np.array([max(float(upper.max()), float(lower.max())) for upper, lower in tails])
        seen = worst > 0
        axis.plot(grid[seen], worst[seen], color=_COLOURS[0], label="observed (largest over n)")
        for colour, one in zip(_COLOURS[1:], constants, strict=False):
            tail = one.log_tail if estimator == "average" else stream_constants(one).log_tail
            bound = np.array([math.exp(min(0.0, tail(z))) if z >= 1 else 1.0 for z in grid])
            axis.plot(grid, bound, color=colour, label=f"bound, {one.form}")
        floor = 1.0 / run.stream.shape[0]
        axis.axhline(floor, color="grey", linewidth=0.8, linestyle=":", label="one replication")
        axis.axvline(reach, color="grey", linewidth=0.8, linestyle="--", label="largest z possible here")
        axis.set(xscale="log", yscale="log", xlabel="z", title=f"{_LABELS[estimator]} estimator", ylim=(floor / 3, 2))
        axis.grid(visible=True, alpha=0.3)
    axes[0].set_ylabel("P[ |n error| >= n^eta' z ]")
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=5)
    return _finish(figure, title)


def estimator_figure(runs: Sequence[BanditRun], *, title: str = "") -> Any:
    """rho_stream - rho_bar against n: median and whole range over replications, one colour per beta.

    Parameters
    ----------
    runs : sequence of BanditRun
        Runs on one bandit at different beta.
    title : str, optional
        Heading.

    Returns
    -------
    matplotlib.figure.Figure
        One panel; positive for beta > 0, negative for beta < 0 (Jensen).
    """
    figure, axes = _subplots(1, 1, (6.4, 4.2))
    axis = axes[0]
    for colour, run in zip(_COLOURS, runs, strict=False):
        difference = run.stream - run.average
        low, middle, high = np.quantile(difference, [0.0, 0.5, 1.0], axis=0)
        axis.plot(run.checkpoints, middle, color=colour, label=f"beta = {run.algorithm.beta:g}")
        axis.fill_between(run.checkpoints, low, high, color=colour, alpha=0.2, linewidth=0)
    axis.axhline(0.0, color="black", linewidth=0.8)
    axis.set(xscale="log", xlabel="pulls n", ylabel="rho_stream - rho_bar")
    axis.set_yscale("symlog", linthresh=1e-4)
    axis.grid(visible=True, alpha=0.3)
    figure.legend(frameon=False, loc="outside lower center", ncols=len(runs))
    return _finish(figure, title)


def beta_figure(*, pulls: int = 5000, replications: int = 40, seed: Seed = 0, threads: int = 1) -> Any:
    """Effect of beta on the ``gamble`` bandit: the arms' ERMs, and how often each rule pulls the sure arm.

    Parameters
    ----------
    pulls, replications : int
        Size of each run.
    seed : None, int, SeedSequence or Generator
        Every (rule, beta) gets its own child.
    threads : int, default 1
        Does not change the result.

    Returns
    -------
    matplotlib.figure.Figure
        Two panels.
    """
    bandit = make_bandit("gamble")
    figure, axes = _subplots(1, 2, (10.0, 4.2))
    fine = np.linspace(-2.0, 5.0, 141)
    risks = np.array([bandit.risks(float(beta)) for beta in fine])
    for colour, arm, curve in zip(_COLOURS, bandit.arms, risks.T, strict=False):
        axes[0].plot(fine, curve, color=colour, label=f"{arm.name} arm")
    axes[0].set(xlabel="beta", ylabel="ERM of the arm", title="exact risk of the arms")
    coarse = np.linspace(-2.0, 5.0, 15)
    rules = (("erm-ucb", 0.2), ("ucb1", None), ("thompson", None))
    children = iter(seed_sequence(seed).spawn(len(rules) * coarse.size))
    for colour, (rule, constant) in zip(_COLOURS[2:], rules, strict=False):
        shares = []
        for beta in coarse:
            algorithm = make_algorithm(rule, float(beta), constant=constant)
            run = simulate(
                bandit,
                algorithm,
                pulls=pulls,
                replications=replications,
                seed=next(children),
                threads=threads,
            )
            shares.append(float(run.counts[:, -1, 0].mean()) / pulls)
        label = rule if constant is None else f"{rule} (constant {constant:g})"
        axes[1].plot(coarse, shares, marker="o", markersize=3, color=colour, label=label)
    crossing = float(fine[np.argmax(risks[:, 0] < risks[:, 1])])
    for axis in axes:
        axis.axvline(crossing, color="grey", linewidth=0.8, linestyle=":")
        axis.grid(visible=True, alpha=0.3)
        axis.legend(frameon=False)
    axes[1].set(xlabel="beta", ylabel="share of pulls", title=f"sure arm, n = {pulls}", ylim=(-0.03, 1.03))
    return _finish(figure, "")


def save_all(
    folder: Path,
    *,
    kind: str = "png",
    pulls: int = 20_000,
    replications: int = 200,
    seed: Seed = 0,
    threads: int = 1,
) -> tuple[Path, ...]:
    """Draw all figures into ``folder`` (made if need be) and return the files' paths.

    Parameters
    ----------
    folder : Path
        Where to write; existing files of the same name are replaced.
    kind : {"png", "svg"}
        File format.
    pulls, replications : int
        Size of each run.
    seed : None, int, SeedSequence or Generator
        Each figure gets its own child.
    threads : int, default 1
        Does not change the result.

    Returns
    -------
    tuple of Path
        The files.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    RunError
        If the folder cannot be written.
    """
    require("matplotlib", "report", "drawing a figure")
    children = iter(seed_sequence(seed).spawn(len(BANDITS) + 2))
    figures = []

    def over_beta(name: str, constant: float) -> tuple[BanditRun, ...]:
        return runs_over_beta(
            name,
            constant=constant,
            pulls=pulls,
            replications=replications,
            seed=next(children),
            threads=threads,
        )

    for name in BANDITS[:3]:
        runs = over_beta(name, STUDY_CONSTANT)
        title = f"{name} bandit, constant {STUDY_CONSTANT:g}, {replications} replications"
        figures.append((f"convergence-{name}", convergence_figure(runs, title=title)))
    wide = over_beta("stationary", math.sqrt(2.0))
    heading = "stationary bandit, constant sqrt(2): range over replications"
    figures.append(("estimators", estimator_figure(wide, title=heading)))
    tails = _tails(pulls=pulls, replications=replications, seed=next(children), threads=threads)
    figures.append(("tails", tails))
    beta = beta_figure(pulls=min(pulls, 5000), replications=min(replications, 40), seed=next(children), threads=threads)
    figures.append(("beta", beta))
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in figures:
            paths.append(folder / f"{name}.{kind}")
            figure.savefig(paths[-1], dpi=130)
    except OSError as error:
        raise RunError(f"cannot write figures into {folder}: {error}; choose another folder") from error
    return tuple(paths)


def _tails(*, pulls: int, replications: int, seed: Seed, threads: int) -> Any:
    """Tail figure of a two-armed bandit for which the bounds say something within reach."""
    beta = 0.1
    bandit = Bandit((Arm.of(beta_distribution(2.0, 2.0, 0.0, 0.2)), Arm.of(bernoulli(0.8, 0.7, 0.95))))
    forms = [bandit_constants(bandit, beta, form=form) for form in ("tight", "corrected")]
    algorithm = ErmUcb.from_constants(forms[0])
    run = simulate(bandit, algorithm, pulls=pulls, replications=replications, seed=seed, threads=threads)
    title = f"two arms, beta = {beta:g}, constant theta^(1/xi) = {algorithm.constant:.3g}, {replications} replications"
    return tail_figure(run, forms, title=title)


def _subplots(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """Make a figure without touching global state, and a flat list of its axes."""
    module = require("matplotlib.figure", "report", "drawing a figure")
    figure = module.Figure(figsize=size, layout="constrained")
    return figure, np.atleast_1d(figure.subplots(rows, columns, **options)).ravel()


def _finish(figure: Any, title: str) -> Any:
    """Set the heading, if any."""
    if title:
        figure.suptitle(title)
    return figure
