"""``tailwise compare``: several planners on one model, on common random numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailwise._progress import followed
from tailwise._text import MISSING, number, span
from tailwise.cli import options as given
from tailwise.cli.evaluate import check_before_work, exact_optimum, say_optimum
from tailwise.cli.output import check_report, print_json, save_report, say, show_table
from tailwise.errors import OptionError

if TYPE_CHECKING:
    from tailwise.evaluation import Comparison, Returns, Summary

DEFAULT_PLANNERS = "auto,erm-mcts,acc-mcts,uct"


@dataclass(frozen=True)
class _Run:
    """One planner at one number of iterations, and what it did."""

    planner: str
    iterations: int | None
    returns: Returns
    closed_loop_erm: float | None


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("compare")
    def compare_command(
        model: given.Model,
        beta: given.Beta,
        planners: Annotated[
            str, typer.Option("--planners", "-p", help="Names, as of 'tailwise evaluate --planner', with commas.")
        ] = DEFAULT_PLANNERS,
        iterations: Annotated[
            str,
            typer.Option("--iterations", "-n", help="Iterations of each decision; several with commas, as 100,1e4."),
        ] = "1000",
        episodes: given.Episodes = 100,
        seed: given.Seed = 0,
        threads: given.Threads = 1,
        bonus: given.Bonus = None,
        level: given.Level = None,
        horizon: given.Horizon = None,
        discount: given.Discount = None,
        confidence: given.Confidence = 0.9,
        resamples: given.Resamples = 10_000,
        integrate: Annotated[
            bool, typer.Option(help="Tables: also integrate exactly what no decision can change.")
        ] = False,
        report: given.Report = None,
        json: given.Json = False,
    ) -> None:
        """Play several planners against the same luck and compare their risks."""
        from tailwise.cli.models import build_planner, load_model
        from tailwise.evaluation import compare
        from tailwise.models import TabularMDP
        from tailwise.planners import Planner, find_planner
        from tailwise.risk.objectives import CVaR

        check_report(report)
        names = [name.strip() for name in planners.split(",") if name.strip()]
        if not names:
            raise OptionError(f"--planners names no planner: {planners!r}")
        sizes = _sizes(iterations)
        check_before_work(tuple(names), confidence, resamples)
        problem = load_model(model, horizon=horizon, discount=discount)
        if integrate and not isinstance(problem, TabularMDP):
            raise OptionError(f"--integrate works on tables only; {model} is a simulator")
        players = {}
        for name in names:
            takes_bonus = name != "auto" and find_planner(name).bonus is not None
            takes_level = level is not None and name != "auto" and find_planner(name).pursues(CVaR(level))
            built = build_planner(
                problem, beta, name, bonus=bonus if takes_bonus else None, level=level if takes_level else None
            )
            shown = f"auto ({built.kind})" if name == "auto" else name
            players[shown] = getattr(built, "fixed_policy", built)
        wanted = [(name, n) for name, p in players.items() for n in (sizes if isinstance(p, Planner) else [None])]
        runs: list[_Run] = []
        with followed(True, "playing", episodes * len(wanted)) as tick:
            for index, (name, n) in enumerate(wanted):
                told = None if tick is None else lambda done, _, base=index * episodes: tick(base + done)
                limits: dict[str, Any] = {"episodes": episodes, "seed": seed, "threads": threads, "progress": told}
                try:
                    runs.append(_play(problem, players[name], name, beta, n, integrate, limits))
                except KeyboardInterrupt:
                    if not runs:
                        raise
                if len(runs) <= index or runs[-1].returns.episodes < episodes:
                    break
        first = runs[0].returns
        options: dict[str, Any] = {"confidence": confidence, "resamples": resamples}
        rows = [
            (
                run,
                run.returns.summary(beta, measures=("erm",), **options),
                compare(run.returns, first.head(run.returns.episodes), beta, **options),
            )
            for run in runs
        ]
        optimum = exact_optimum(problem, beta)
        if report is not None:
            from tailwise.report import comparison_report

            used = {"planners": ", ".join(names), "iterations": iterations, "episodes": episodes, "seed": seed}
            parts = [(run.returns, summary, versus) for run, summary, versus in rows]
            save_report(comparison_report(parts, model=problem, optimum=optimum, settings=used), report)
        if json:
            print_json(
                {
                    "model": model, "beta": beta, "episodes": episodes, "seed": seed, "sense": first.sense,
                    "confidence": confidence, "optimum": optimum, "planners": [_as_dict(*row) for row in rows],
                }
            )  # fmt: skip
        else:
            _show(f"{model}: {episodes} episodes each, on common random numbers ({first.sense}s)", rows, confidence)
            say(
                f"ERM at beta {beta:g}; vs first: its ERM minus that of the first row, episodes paired; +/=/-: better, "
                "equal and worse episodes"
            )
            say_optimum(optimum, beta)
            say(
                f"an outcome of a probability up to {rows[0][1].unseen:.2g} may be missing from {first.episodes} "
                "episodes: it would not show in these numbers, nor widen their intervals",
                "dim",
            )
            for note in dict.fromkeys(note for _, summary, _ in rows for note in summary.notes):
                say(f"note: {note}", "yellow")
        if len(runs) < len(wanted) or runs[-1].returns.episodes < episodes:
            if not json:
                say(f"interrupted: {len(runs)} of {len(wanted)} rows", "yellow")
            raise typer.Exit(130)


def _sizes(text: str) -> list[int]:
    from tailwise._validate import integer

    try:
        sizes = [given.whole(part) for part in text.split(",")]
    except (ValueError, OverflowError):
        raise OptionError(f"--iterations must be whole numbers separated by commas, not {text!r}") from None
    return [integer(size, "iterations", low=1) for size in sizes]


def _play(
    problem: Any, player: Any, name: str, beta: float, iterations: int | None, integrate: bool, options: dict[str, Any]
) -> _Run:
    """Play one planner, and where asked for integrate its risk."""
    from tailwise.evaluation import evaluate
    from tailwise.exact import policy_risk
    from tailwise.reproduction import conditional_returns

    label = name if iterations is None else f"{name}, n = {iterations}"
    if integrate and iterations is not None:
        found = conditional_returns(problem, player, iterations=iterations, label=label, **options)
        return _Run(name, iterations, found.returns, found.erm(beta))
    returns = evaluate(problem, player, iterations=iterations, label=label, partial=True, **options)
    return _Run(name, iterations, returns, policy_risk(problem, player, beta) if integrate else None)


def _as_dict(run: _Run, summary: Summary, versus: Comparison) -> dict[str, Any]:
    own = {"planner": run.planner, "iterations": run.iterations, "closed_loop_erm": run.closed_loop_erm}
    return {**own, **summary.to_dict(), **versus.to_dict()}


def _show(title: str, rows: list[tuple[_Run, Summary, Comparison]], confidence: float) -> None:
    columns = (
        "planner", "n", "ERM", f"{100 * confidence:g} % interval", "mean", "CVaR95", "vs first",
        f"{100 * confidence:g} % of the difference", "+/=/-", "closed loop",
    )  # fmt: skip
    cells = [
        (
            run.planner,
            MISSING if run.iterations is None else f"{run.iterations:,}",
            number(summary.erm, 5),
            span(summary.estimates[0].low, summary.estimates[0].high, digits=4, point=False),
            number(summary.mean, 5),
            number(summary.cvar_95, 5),
            f"{versus.difference:+.3g}",
            span(*versus.interval, digits=3, point=False),
            f"{versus.better}/{versus.equal}/{versus.worse}",
            MISSING if run.closed_loop_erm is None else number(run.closed_loop_erm, 5),
        )
        for run, summary, versus in rows
    ]
    spare = ("closed loop", "CVaR95", "mean", "+/=/-", columns[7], columns[3])
    show_table(columns, cells, title=title, spare=spare)
