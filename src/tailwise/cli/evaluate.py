"""``tailwise evaluate``: play a planner in closed loop and measure the risk of what happens."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tailwise.cli.options import (
    BetaOption,
    DiscountOption,
    ExplorationOption,
    HorizonOption,
    JsonOption,
    ModelArgument,
    SeedOption,
)
from tailwise.cli.output import console, number, print_json, progress_bar, sparkline, table

EpisodesOption = Annotated[int, typer.Option("--episodes", "-e", help="Episodes to play.")]
ThreadsOption = Annotated[int, typer.Option(help="Threads; they do not change the result.")]
ConfidenceOption = Annotated[float, typer.Option(help="Nominal coverage of the intervals.")]
ResamplesOption = Annotated[int, typer.Option(help="Bootstrap resamples.")]
WARNING = "a rare disaster that no episode met cannot show in any of these numbers, nor widen their intervals"


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("evaluate")
    def evaluate_command(
        model: ModelArgument,
        beta: BetaOption,
        planner: Annotated[
            str,
            typer.Option(help="erm-mcts, acc-mcts, acc-mcts-raw, uct, uct-polynomial, erm-bi or neutral-bi."),
        ] = "erm-mcts",
        episodes: EpisodesOption = 100,
        iterations: Annotated[
            int | None, typer.Option("--iterations", "-n", help="Search iterations of each decision.")
        ] = None,
        seed: SeedOption = None,
        threads: ThreadsOption = 1,
        exploration: ExplorationOption = None,
        horizon: HorizonOption = None,
        discount: DiscountOption = None,
        confidence: ConfidenceOption = 0.9,
        resamples: ResamplesOption = 10_000,
        json: JsonOption = False,
    ) -> None:
        """Play episodes, re-planning at every step, and measure the risk of their totals."""
        from tailwise.cli.models import build_planner, load_model
        from tailwise.evaluation import evaluate
        from tailwise.evaluation.closed_loop import DEFAULT_ITERATIONS
        from tailwise.planners import Planner, find_planner

        # What is wrong is found before a large model is loaded and played.
        if planner != "auto":
            find_planner(planner)
        check_bootstrap(confidence, resamples)
        problem = load_model(model, horizon=horizon, discount=discount)
        player = build_planner(problem, beta, planner, bonus=exploration)
        limit = DEFAULT_ITERATIONS if iterations is None and isinstance(player, Planner) else iterations
        with progress_bar("playing", episodes) as tick:
            returns = evaluate(
                problem, player, episodes=episodes, iterations=limit, seed=seed, threads=threads,
                label=planner, progress=tick,
            )  # fmt: skip
        wanted: dict[str, Any] = {"confidence": confidence, "resamples": resamples}
        rows = [
            (f"ERM at beta {beta:g}", returns.erm(beta), returns.interval("erm", beta=beta, **wanted)),
            ("mean", returns.mean, returns.interval("mean", **wanted)),
            ("standard deviation", returns.std, returns.interval("std", **wanted)),
            ("CVaR 95 %", returns.cvar(0.95), returns.interval("cvar", level=0.95, **wanted)),
            ("median", returns.quantile(0.5), returns.interval("quantile", level=0.5, **wanted)),
        ]
        if json:
            print_json(
                {
                    "model": model, "planner": planner, "beta": beta, "episodes": episodes, "iterations": limit,
                    "seed": seed, "sense": returns.sense, "confidence": confidence, "erm": rows[0][1],
                    "measures": [
                        {"name": name, "value": value, "low": interval.low, "high": interval.high}
                        for name, value, interval in rows
                    ],
                    "optimum": exact_optimum(problem, beta), "minimum": returns.minimum, "maximum": returns.maximum,
                    "totals": returns.costs,
                }
            )  # fmt: skip
            return
        out = console()
        cells = [(name, number(v), f"{number(i.low, 5)} to {number(i.high, 5)}") for name, v, i in rows]
        title = f"{planner} on {model}: {episodes} episodes ({returns.sense}s)"
        out.print(table(("measure", "value", f"{confidence:.0%} interval (BCa)"), cells, title=title))
        out.print(f"{number(returns.minimum)} {sparkline(returns.costs)} {number(returns.maximum)}")
        optimum = exact_optimum(problem, beta)
        if optimum is not None:
            out.print(f"exact optimum at beta {beta:g}: {number(optimum)}")
        out.print(f"[dim]{WARNING}[/dim]")


def check_bootstrap(confidence: float, resamples: int) -> None:
    """Raise ``OptionError`` if the options of the intervals are out of range."""
    from tailwise._validate import integer, real

    real(confidence, "confidence", low=0.0, high=1.0, low_open=True, high_open=True)
    integer(resamples, "resamples", low=100)


def exact_optimum(model: Any, beta: float) -> float | None:
    """Return the exact optimal risk of a table that is solved in no time, else None."""
    from tailwise.models import TabularMDP
    from tailwise.planners import backward_induction

    if isinstance(model, TabularMDP) and model.num_outcomes * model.horizon <= 10**8:
        return backward_induction(model, beta).value
    return None
