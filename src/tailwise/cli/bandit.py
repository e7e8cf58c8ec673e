"""``tailwise bandit``: run the paper's bandits, measure rates, draw the checks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailwise._progress import after, followed
from tailwise._results import number
from tailwise.cli import options as given
from tailwise.cli.output import print_json, show_table

if TYPE_CHECKING:
    from tailwise.reproduction import ConvergenceRow

_NameArgument = Annotated[
    str, typer.Argument(metavar="BANDIT", help="stationary, drifting, non-deterministic or gamble.")
]
_PullsOption = Annotated[int, given.count("--pulls", "-n", help="Pulls of each replication.")]
_ReplicationsOption = Annotated[int, typer.Option("--replications", "-r", help="Independent repetitions.")]
_ConstantOption = Annotated[float | None, typer.Option(help="Bonus constant of erm-ucb; sqrt(2) if not given.")]


command = typer.Typer(no_args_is_help=True, help="Risk-aware bandits: run, compare, measure, draw.")


@given.command(command, "run")
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


@given.command(command, "compare")
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


@given.command(command, "rates")
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


@given.command(command, "figures")
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
    from tailwise._validate import choice
    from tailwise.reproduction.bandit_figures import save_all

    choice(kind, "format", ("png", "svg"))
    size: dict[str, Any] = {"pulls": pulls, "replications": replications, "threads": threads}
    paths = save_all(out, kind=kind, seed=seed, progress=True, **size)
    if json:
        print_json({"files": [str(path) for path in paths]})
        return
    for path in paths:
        print(path)
