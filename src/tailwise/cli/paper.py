"""What only a reader of the paper needs: ``tailwise reproduce``, ``bandit`` and ``theory``."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailwise._progress import activity, after, followed
from tailwise._results import number
from tailwise._validate import choice
from tailwise.cli import options as given
from tailwise.cli.app import command
from tailwise.cli.output import check_report, print_json, say, show_table
from tailwise.errors import OptionError, require

if TYPE_CHECKING:
    from tailwise.reproduction import ConvergenceRow


def reproduce(
    *,
    out: Annotated[Path, typer.Option(help="Folder for samples, figures and the report; new or empty.")],
    problem: Annotated[str, typer.Argument(metavar="[mdp-4|grid-mdp|all]")] = "all",
    seeds: Annotated[int, typer.Option(help="Episodes per entry; the paper has 100.")] = 100,
    seed: Annotated[int, typer.Option(help="Root of all randomness.")] = 0,
    threads: Annotated[
        int | None, typer.Option(help="Threads, all cores if not given; they do not change the result.")
    ] = None,
    cluster: given.Cluster,
    resume: Annotated[bool, typer.Option(help="Go on with the interrupted run in --out.")] = False,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            help="Reading of the algorithms: authors, repaired, text, rescaled, constant-5, constant-20, "
            "constant-60. May be repeated; the first is the one in figures. All of these if not given; laws is "
            "Distributional MCTS, which takes minutes."
        ),
    ] = None,
    most_iterations: Annotated[
        int, typer.Option(help="Cut all numbers of iterations down to this, for a quick trial.")
    ] = 10_000,
    report: given.Report = None,
    json: given.Json = False,
) -> None:
    """Repeat the paper's experiments; report every number beside the paper's and the exact one."""
    from tailwise.reproduction import DEFAULT_VARIANTS, PROBLEMS, Settings, reproduce, summarise, write_reproduction

    if problem != "all" and problem not in PROBLEMS:
        raise OptionError(f"problem must be one of {', '.join((*PROBLEMS, 'all'))}, not {problem!r}")
    settings = Settings(
        problems=PROBLEMS if problem == "all" else (problem,),
        seeds=seeds,
        seed=seed,
        variants=tuple(dict.fromkeys(variant)) if variant else DEFAULT_VARIANTS,
        most_iterations=most_iterations,
    )
    check_report(report)
    require("matplotlib", "report", "drawing the figures")  # before hours of work, not after
    cluster.check()
    if cluster.ray is not None:
        folder = cluster.run("reproduce", out, settings, resume=resume, progress=True)
    else:
        count = (os.cpu_count() or 1) if threads is None else threads
        folder = reproduce(out, settings, threads=count, resume=resume, progress=True)
    with activity("drawing and writing the report"):
        summary = summarise(folder)
        files = write_reproduction(summary, folder.path, page=report)
    if json:
        rows = [row.to_dict() for row in summary.rows]
        print_json({"out": str(out), "files": [str(path) for path in files], "rows": rows})
        return
    lines = [
        (
            row.experiment.problem, f"{row.experiment.beta:g}", row.experiment.algorithm, row.experiment.variant,
            number(row.paper.value), number(row.erm, 4), number(row.closed_loop, 4), number(row.exact, 4),
            "yes" if row.paper_inside else "no",
        )
        for row in summary.rows
        if row.paper is not None
    ]  # fmt: skip
    columns = ("problem", "beta", "algorithm", "variant", "paper", f"ERM of {seeds}", "closed loop", "exact")
    show_table((*columns, "paper inside"), lines, spare=("paper inside", "variant", "closed loop"))
    print(f"report: {folder.path / 'report.html'} (and report.md, results.csv, figures, samples)")


_NameArgument = Annotated[
    str, typer.Argument(metavar="BANDIT", help="stationary, drifting, non-deterministic or gamble.")
]
_PullsOption = Annotated[int, given.count("--pulls", "-n", help="Pulls of each replication.")]
_ReplicationsOption = Annotated[int, typer.Option("--replications", "-r", help="Independent repetitions.")]
_ConstantOption = Annotated[float | None, typer.Option(help="Bonus constant of erm-ucb; sqrt(2) if not given.")]


bandit = typer.Typer(no_args_is_help=True, help="Risk-aware bandits: run, compare, measure, draw.")


@command(bandit, "run")
def run_command(
    name: _NameArgument,
    beta: given.Beta,
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="erm-ucb, lipschitz, ucb1 or thompson.")
    ] = "erm-ucb",
    constant: _ConstantOption = None,
    pulls: _PullsOption = 10_000,
    replications: _ReplicationsOption = 200,
    seed: given.Seed = None,
    threads: given.Threads = 1,
    json: given.Json = False,
) -> None:
    """Run one rule on one bandit; show how both estimators approach mu*."""
    from tailwise.bandits import make_algorithm, make_bandit, simulate

    bandit, rule = make_bandit(name), make_algorithm(algorithm, beta, constant=constant)
    size: dict[str, Any] = {"pulls": pulls, "replications": replications, "threads": threads}
    run = simulate(bandit, rule, seed=seed, progress=True, **size)
    summary = run.to_dict()
    if json:
        print_json({"bandit": name, "algorithm": algorithm, **summary})
        return
    arms = [
        (arm.name or f"arm {i}", number(risk), number(share, 4))
        for i, (arm, risk, share) in enumerate(zip(bandit.arms, summary["risks"], summary["shares"], strict=True))
    ]
    title = f"{name}, {algorithm}, beta = {beta:g}"
    show_table(("arm", "exact ERM", "share of pulls"), arms, title=title, best=bandit.best(beta))
    rows = [
        (f"{n:,}", number(a, 4), number(sa, 2), number(s, 4), number(ss, 2), number(g, 5))
        for n, a, sa, s, ss, g in zip(
            summary["pulls"], summary["average_bias"], summary["average_error"],
            summary["stream_bias"], summary["stream_error"], summary["regret"], strict=True,
        )
    ]  # fmt: skip
    columns = ("pulls", "rho_bar - mu*", "s.e. of it", "rho_stream - mu*", "s.e.", "regret")
    show_table(columns, rows, spare=("s.e. of it", "s.e."))


@command(bandit, "compare")
def compare_command(
    name: _NameArgument,
    beta: given.Beta,
    constant: _ConstantOption = None,
    pulls: _PullsOption = 10_000,
    replications: _ReplicationsOption = 200,
    seed: given.Seed = None,
    threads: given.Threads = 1,
    json: given.Json = False,
) -> None:
    """Run all rules on one bandit and compare their regret in ERM."""
    from tailwise._random import seed_sequence
    from tailwise.bandits import ALGORITHMS, make_algorithm, make_bandit, simulate

    bandit, found = make_bandit(name), []
    children = seed_sequence(seed).spawn(len(ALGORITHMS))
    with followed(True, "pulling", len(ALGORITHMS) * replications) as tick:
        for done, (algorithm, child) in enumerate(zip(ALGORITHMS, children, strict=True)):
            rule = make_algorithm(algorithm, beta, constant=constant if algorithm == "erm-ucb" else None)
            told = after(done * replications, tick)
            size: dict[str, Any] = {"pulls": pulls, "replications": replications, "threads": threads}
            run = simulate(bandit, rule, seed=child, progress=told, **size)
            summary = run.to_dict()
            regret, error = summary["regret"][-1], summary["regret_error"][-1]
            found.append((algorithm, regret, error, summary["shares"][bandit.best(beta)]))
    if json:
        keys = ("algorithm", "regret", "regret_error", "share_of_best_arm")
        print_json(
            {
                "bandit": name,
                "beta": beta,
                "pulls": pulls,
                "replications": replications,
                "algorithms": [dict(zip(keys, row, strict=True)) for row in found],
            }
        )
        return
    rows = [(a, number(r, 5), number(e, 2), number(b, 4)) for a, r, e, b in found]
    winner = min(range(len(found)), key=lambda i: found[i][1])
    title = f"{name}, beta = {beta:g}, {pulls:,} pulls, {replications} replications"
    show_table(("rule", "regret", "s.e.", "share of best arm"), rows, title=title, best=winner, spare=("s.e.",))


@command(bandit, "rates")
def rates_command(
    *,
    pulls: _PullsOption = 100_000,
    replications: _ReplicationsOption = 100,
    constant: Annotated[float, typer.Option(help="Bonus constant of erm-ucb.")] = 0.1,
    seed: given.Seed = 0,
    threads: given.Threads = 1,
    cluster: given.Cluster,
    json: given.Json = False,
) -> None:
    """Measure with which power of n both estimators approach mu*, beside the theorem's exponent."""
    from tailwise.bandits import BANDITS
    from tailwise.reproduction import ConvergenceStudy, convergence_study
    from tailwise.reproduction.bandit_studies import STUDY_BETAS

    cluster.check()
    rows: list[ConvergenceRow] = []
    runs = len(STUDY_BETAS)
    with followed(True, "pulling", 3 * runs) as tick, cluster.connected():
        for done, name in enumerate(BANDITS[:3]):
            told = after(done * runs, tick)
            study = ConvergenceStudy((name,), STUDY_BETAS, constant, pulls, replications, seed)
            if cluster.ray is None:
                rows += convergence_study(study, threads=threads, progress=told)
            else:
                rows += cluster.run("convergence_study", study, progress=told)
    if json:
        content = [row.to_dict() for row in rows]
        print_json({"pulls": pulls, "replications": replications, "constant": constant, "rows": content})
        return
    cells = [
        (
            row.bandit,
            f"{row.beta:g}",
            row.estimator,
            f"{row.slope:.3f}",
            f"[{row.low:.3f}, {row.high:.3f}]",
            f"{row.theory + row.transient:.3f}",
            "yes" if row.is_no_slower else "NO",
        )
        for row in rows
        if row.measure == "absolute"
    ]
    columns = ("bandit", "beta", "estimator", "exponent", "95 % interval", "theorem + transient", "no slower")
    show_table(columns, cells, title=f"mean |error| ~ n^exponent up to n = {pulls:,}")


@command(bandit, "figures")
def figures_command(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the pictures.")],
    kind: Annotated[str, typer.Option("--format", "-f", help="png or svg.")] = "png",
    pulls: _PullsOption = 20_000,
    replications: _ReplicationsOption = 200,
    seed: given.Seed = 0,
    threads: given.Threads = 1,
    json: given.Json = False,
) -> None:
    """Draw the checks of the theorems: convergence, tails, the two estimators, the effect of beta."""
    from tailwise.reproduction.figures import save_bandit_figures

    choice(kind, "format", ("png", "svg"))
    size: dict[str, Any] = {"pulls": pulls, "replications": replications, "threads": threads}
    paths = save_bandit_figures(out, kind=kind, seed=seed, progress=True, **size)
    if json:
        print_json({"files": [str(path) for path in paths]})
        return
    for path in paths:
        print(path)


_FormOption = Annotated[str, typer.Option("--form", help="Which version of the formulas: printed, corrected or tight.")]
_EtaOption = Annotated[float, typer.Option("--eta", help="Exponent eta in [1/2, 1); the rate is n^(eta - 1).")]
_LABELS = {
    "log_c": "ln C",
    "log_theta": "ln theta",
    "log_bonus_constant": "ln theta^(1/xi), the bonus constant",
    "log_coefficient": "ln c, where A(t) = c t^eta'",
    "log_n_p": "ln N_p",
    "log_n_p_prime": "ln N_p'",
    "log_theta_prime": "ln theta', the average's",
    "log_theta_second": "ln theta'', the stream's",
}
_BetaOption = Annotated[float, typer.Option("--beta", "-b", help="Risk level per unit of cost, > 0.")]


theory = typer.Typer(no_args_is_help=True, help="The paper's constants and schedules, in logarithms.")


@command(theory, "schedule")
def schedule_command(
    horizon: Annotated[int, typer.Option("--horizon", "-H", help="Number of decisions H.")],
    beta: _BetaOption,
    eta: _EtaOption = 0.5,
    actions: Annotated[int, typer.Option(help="Actions at a node, K.")] = 2,
    states: Annotated[int, typer.Option(help="Most next states that an action can reach, |S|.")] = 2,
    gap: Annotated[float, typer.Option(help="Gap between the best and the second-best action.")] = 0.1,
    cost_bound: Annotated[float, typer.Option(help="R: each cost lies in [-R, R].")] = 1.0,
    discount: Annotated[float, typer.Option(help="Discount factor in (0, 1].")] = 1.0,
    xi: Annotated[float | None, typer.Option(help="xi_H; by default the one with xi_0 = 2.")] = None,
    terminal: Annotated[str, typer.Option(help="Terminal costs: random or deterministic.")] = "random",
    form: _FormOption = "corrected",
    json: given.Json = False,
) -> None:
    """Print the schedule of theorem mcts-result, and the bonus constant at each depth."""
    from tailwise.theory import schedule

    plan = schedule(
        horizon=horizon, beta=beta, eta=eta, actions=actions, states=states, gap=gap, cost_bound=cost_bound,
        discount=discount, xi=xi, terminal=terminal, form=form,
    )  # fmt: skip
    if json:
        print_json(
            {
                **{name: getattr(plan, name) for name in ("horizon", "form", "eta", "bonus_exponent", "xi_root")},
                "log_theta_root": plan.log_theta_root, "depths": plan.rows, "constants": plan.constants,
                "overflows": plan.overflows,
            }
        )  # fmt: skip
        return
    rows = [
        (
            str(row.depth), number(row.beta, 4), number(row.radius, 4), number(row.alpha), number(row.xi),
            number(row.log_theta), number(row.log_theta_arm), number(row.log_constant), _in_words(row.log_constant),
        )
        for row in plan.rows
    ]  # fmt: skip
    columns = ("depth h", "beta_h", "R_h", "alpha", "xi", "ln theta", "ln theta^L", "ln constant", "constant")
    title = f"schedule for H = {plan.horizon}, eta = {plan.eta:g}, {plan.form} constants (indices h + 1)"
    show_table(columns, rows, title=title, spare=("R_h", "alpha", "xi", "beta_h", "ln theta", "ln theta^L"))
    exponent = f"{plan.bonus_exponent:g}"
    say(f"bonus at depth h: constant N(s)^{exponent} / N(s, a)^{1 - plan.eta:g}")
    tail = f"xi_0 = {plan.xi_root:.6g}, ln theta_0 = {plan.log_theta_root:.6g}"
    say(f"at the root: error O(n^{plan.eta - 1:g}), tails theta_0 / z^xi_0 with {tail}")
    if plan.overflows.any():
        say(f"{int(plan.overflows.sum())} of {plan.horizon} constants are beyond the largest double.")
    say("The practical constant sqrt(2) = 1.414 is outside the theorem at every depth.")


@command(theory, "constants")
def constants_command(
    beta: _BetaOption,
    xi: Annotated[float, typer.Option(help="Exponent of the arms' tails, > 1.")] = 12.0,
    alpha: Annotated[float | None, typer.Option(help="alpha; xi eta (1 - eta) if not given.")] = None,
    eta: _EtaOption = 0.5,
    arms: Annotated[int, typer.Option(help="Number of arms K.")] = 2,
    gap: Annotated[float, typer.Option(help="Gap between the best and the second-best arm.")] = 0.1,
    radius: Annotated[float, typer.Option(help="R: costs lie in [-R, R].")] = 1.0,
    json: given.Json = False,
) -> None:
    """Print the bandit theorems' constants for independent costs, in all three forms."""
    from tailwise.theory import FORMS, average_constants, log_concentration_constant, log_theta, stream_constants

    power = xi * eta * (1.0 - eta) if alpha is None else alpha
    found: dict[str, dict[str, float]] = {}
    for form in FORMS:
        theta = log_theta(xi, beta, radius, form=form)
        average = average_constants(
            log_theta=theta, alpha=power, xi=xi, eta=eta, arms=arms, gap=gap, beta=beta, radius=radius, form=form
        )
        stream = stream_constants(average)
        found[form] = {
            "log_c": log_concentration_constant(beta, radius, form=form),
            **{key: getattr(average, key) for key in _LABELS if hasattr(average, key)},
            "log_theta_second": stream.log_theta_second,
        }
    if json:
        exponents = {"alpha": power, "xi": xi, "eta": eta, "eta_prime": power / (xi * (1 - eta)), "xi_prime": power - 1}
        print_json({**exponents, "forms": found})
        return
    rows = [(label, *(number(found[form][key], 8) for form in FORMS)) for key, label in _LABELS.items()]
    title = f"beta = {beta:g}, R = {radius:g}, gap = {gap:g}, K = {arms}: alpha = {power:g}, xi = {xi:g}, eta = {eta:g}"
    show_table(("constant", *FORMS), rows, title=title)


@command(theory, "xi")
def xi_command(
    horizon: Annotated[int, typer.Option("--horizon", "-H", help="Number of decisions H.")],
    eta: _EtaOption = 0.5,
    json: given.Json = False,
) -> None:
    """Print the infimum of the xi_H that a horizon admits."""
    from tailwise.theory import smallest_xi

    value = smallest_xi(horizon, eta)
    if json:
        print_json({"horizon": horizon, "eta": eta, "smallest_xi": value})
        return
    say(f"xi_H must be above {value:.12g} for horizon {horizon} at eta = {eta:g}")


def _in_words(log_constant: float) -> str:
    """Return the constant itself, as a power of ten where it is large."""
    if math.isinf(log_constant):
        return "inf"
    if log_constant < math.log(1e6):
        return f"{math.exp(log_constant):.6g}"
    return f"10^{log_constant / math.log(10.0):.6g}"
