"""``tailwise compare``: several planners on one model, on common random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailwise.cli.evaluate import (
    WARNING,
    ConfidenceOption,
    EpisodesOption,
    ResamplesOption,
    ThreadsOption,
    check_bootstrap,
    exact_optimum,
)
from tailwise.cli.options import (
    BetaOption,
    DiscountOption,
    ExplorationOption,
    HorizonOption,
    JsonOption,
    ModelArgument,
    SeedOption,
)
from tailwise.cli.output import console, number, print_json, progress_bar, table
from tailwise.errors import OptionError

if TYPE_CHECKING:
    from tailwise.evaluation import Returns

DEFAULT_PLANNERS = "erm-mcts,acc-mcts,uct"


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("compare")
    def compare_command(
        model: ModelArgument,
        beta: BetaOption,
        planners: Annotated[str, typer.Option(help="Names, separated by commas.")] = DEFAULT_PLANNERS,
        iterations: Annotated[
            str, typer.Option("--iterations", "-n", help="Search iterations of each decision; several with commas.")
        ] = "1000",
        episodes: EpisodesOption = 100,
        seed: SeedOption = 0,
        threads: ThreadsOption = 1,
        exploration: ExplorationOption = None,
        horizon: HorizonOption = None,
        discount: DiscountOption = None,
        confidence: ConfidenceOption = 0.9,
        resamples: ResamplesOption = 10_000,
        integrate: Annotated[
            bool, typer.Option(help="Tables: also integrate exactly what no decision can change.")
        ] = False,
        json: JsonOption = False,
    ) -> None:
        """Play several planners against the same luck and compare their risks."""
        from tailwise.cli.models import build_planner, load_model
        from tailwise.evaluation import compare
        from tailwise.planners import Planner, find_planner

        names = [name.strip() for name in planners.split(",") if name.strip()]
        if not names:
            raise OptionError(f"--planners names no planner: {planners!r}")
        sizes = _sizes(iterations)
        check_bootstrap(confidence, resamples)
        kinds = {name: find_planner(name) for name in names if name != "auto"}
        problem = load_model(model, horizon=horizon, discount=discount)
        players = {}
        for name in names:
            takes_bonus = name not in kinds or kinds[name].bonus is not None
            players[name] = build_planner(problem, beta, name, bonus=exploration if takes_bonus else None)
        runs = [(name, n) for name in names for n in (sizes if isinstance(players[name], Planner) else [None])]
        results = []
        with progress_bar("playing", episodes * len(runs)) as tick:
            for index, (name, n) in enumerate(runs):
                told = None if tick is None else lambda done, base=index * episodes: tick(base + done)
                results.append(_play(problem, players[name], name, beta, n, episodes, seed, threads, integrate, told))
        wanted: dict[str, Any] = {"confidence": confidence, "resamples": resamples}
        first = results[0][0]
        content = [
            _row(name, n, returns, closed, compare(returns, first, beta, **wanted), beta, wanted)
            for (name, n), (returns, closed) in zip(runs, results, strict=True)
        ]
        optimum = exact_optimum(problem, beta)
        if json:
            print_json(
                {
                    "model": model, "beta": beta, "episodes": episodes, "seed": seed, "sense": first.sense,
                    "confidence": confidence, "optimum": optimum, "planners": content,
                }
            )  # fmt: skip
            return
        _show(model, beta, episodes, first, content, optimum, confidence)


def _sizes(text: str) -> list[int]:
    from tailwise._validate import integer

    try:
        sizes = [int(part) for part in text.replace("_", "").split(",")]
    except ValueError:
        raise OptionError(f"--iterations must be whole numbers separated by commas, not {text!r}") from None
    return [integer(size, "iterations", low=1) for size in sizes]


def _play(
    problem: Any,
    player: Any,
    name: str,
    beta: float,
    iterations: int | None,
    episodes: int,
    seed: int | None,
    threads: int,
    integrate: bool,
    progress: Any,
) -> tuple[Returns, float | None]:
    """Play one planner; return its sample and, where asked for, its integrated risk."""
    from tailwise.evaluation import evaluate, policy_risk
    from tailwise.reproduction import settled_returns

    label = name if iterations is None else f"{name}, n = {iterations}"
    common: dict[str, Any] = {"episodes": episodes, "seed": seed, "threads": threads, "label": label}
    if integrate and iterations is not None:
        settled = settled_returns(problem, player, iterations=iterations, progress=progress, **common)
        return settled.returns, settled.erm(beta)
    returns = evaluate(problem, player, iterations=iterations, progress=progress, **common)
    return returns, policy_risk(problem, player, beta) if integrate else None


def _row(
    name: str, n: int | None, returns: Returns, closed: float | None, versus: Any, beta: float, options: dict[str, Any]
) -> dict[str, Any]:
    low, high = returns.interval("erm", beta=beta, **options)
    return {
        "planner": name, "iterations": n, "erm": returns.erm(beta), "erm_low": low, "erm_high": high,
        "mean": returns.mean, "std": returns.std, "cvar_95": returns.cvar(0.95), "maximum": returns.maximum,
        "minimum": returns.minimum, "closed_loop_erm": closed, "difference": versus.difference,
        "difference_low": versus.interval.low, "difference_high": versus.interval.high,
        "better": versus.better, "equal": versus.equal, "worse": versus.worse,
    }  # fmt: skip


def _show(
    model: str,
    beta: float,
    episodes: int,
    first: Returns,
    content: list[dict[str, Any]],
    optimum: float | None,
    confidence: float,
) -> None:
    columns = ["planner", "n", f"ERM ({confidence:.0%})", "mean", "CVaR95", f"vs first ({confidence:.0%})", "+/=/-"]
    integrated = any(row["closed_loop_erm"] is not None for row in content)
    if integrated:
        columns.append("closed loop")
    rows = []
    for row in content:
        cells = [
            row["planner"],
            "-" if row["iterations"] is None else str(row["iterations"]),
            f"{row['erm']:.4g} ({row['erm_low']:.3g} to {row['erm_high']:.3g})",
            number(row["mean"], 4),
            number(row["cvar_95"], 4),
            f"{row['difference']:+.3g} ({row['difference_low']:+.2g} to {row['difference_high']:+.2g})",
            f"{row['better']}/{row['equal']}/{row['worse']}",
        ]
        if integrated:
            cells.append("-" if row["closed_loop_erm"] is None else number(row["closed_loop_erm"], 5))
        rows.append(cells)
    out = console()
    title = f"{model}: {episodes} episodes each, on common random numbers ({first.sense}s)"
    out.print(table(columns, rows, title=title))
    out.print(f"ERM at beta {beta:g}; vs first: its ERM minus that of the first row, episodes paired; +/=/-: better,")
    out.print("equal and worse episodes")
    if optimum is not None:
        out.print(f"exact optimum at beta {beta:g}: {number(optimum)}")
    out.print(f"[dim]{WARNING}[/dim]")
