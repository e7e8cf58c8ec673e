"""``tailwise plan``: one risk-averse decision, with its risk table."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from tailwise.cli.options import (
    BetaOption,
    DiscountOption,
    ExplorationOption,
    HorizonOption,
    IterationsOption,
    JsonOption,
    ModelArgument,
    SecondsOption,
    SeedOption,
    StateOption,
)
from tailwise.cli.output import console, number, print_json, progress_bar, sparkline, table

DEFAULT_ITERATIONS = 20_000
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("plan")
    def plan(
        model: ModelArgument,
        beta: BetaOption,
        iterations: IterationsOption = None,
        seconds: SecondsOption = None,
        state: StateOption = None,
        step: Annotated[int, typer.Option(help="Decide at this step h; the risk level is beta * discount^h.")] = 0,
        seed: SeedOption = None,
        exploration: ExplorationOption = None,
        horizon: HorizonOption = None,
        discount: DiscountOption = None,
        json: JsonOption = False,
    ) -> None:
        """Search for the action to take now (the paper's ERM-MCTS)."""
        from tailwise.cli.models import find_state, load_model
        from tailwise.planners import ErmMcts
        from tailwise.search import PolynomialBonus

        problem = load_model(model, horizon=horizon, discount=discount)
        bonus = None if exploration is None else PolynomialBonus(constant=exploration)
        search = ErmMcts(problem, beta, seed=seed, bonus=bonus)
        search.reset(find_state(problem, state), step)
        if iterations is None and seconds is None:
            iterations = DEFAULT_ITERATIONS
        with progress_bar("searching", iterations if iterations is not None else seconds) as tick:
            watch = None
            if tick is not None:
                watch = lambda done, used: tick(done if iterations is not None else used)  # noqa: E731
            result = search.plan(iterations=iterations, seconds=seconds, progress=watch)
        if json:
            print_json(_as_json(problem, result, seed))
        else:
            _show(problem, result, search.options.bonus.constant)


def _as_json(problem: Any, result: Any, seed: int | None) -> dict[str, Any]:
    rows = [
        {
            "action": row.action, "label": row.label, "visits": row.visits, "share": row.share, "erm": row.erm,
            "interval": row.interval, "mean": row.mean, "std": row.std, "min": row.minimum, "max": row.maximum,
        }
        for row in result.rows
    ]  # fmt: skip
    return {
        "model": problem.name, "beta": result.beta, "sense": result.sense, "state": result.state, "step": result.step,
        "root_beta": result.root_beta, "action": result.action, "label": result.label, "value": result.value,
        "rows": rows, "iterations": result.iterations, "simulator_steps": result.simulator_steps, "nodes": result.nodes,
        "bytes": result.bytes, "seconds": result.seconds, "stopped": result.stopped, "seed": seed,
    }  # fmt: skip


def _show(problem: Any, result: Any, constant: Any) -> None:
    out = console()
    better = "lower" if result.sense == "cost" else "higher"
    out.print(
        f"[bold]{problem.name}[/bold]  horizon {problem.horizon}, discount {problem.discount:g}, step {result.step}; "
        f"beta {result.root_beta:g}; numbers are {result.sense}s, {better} is better"
    )
    for note in getattr(problem, "notes", ()):
        out.print(f"[dim]note: {note}[/dim]")
    out.print(f"Take [bold green]{result.label}[/bold green] in state {_state_text(problem, result.state)}.")
    rows = [
        (
            row.label, f"{row.visits:,}", f"{100 * row.share:.1f} %", number(row.erm), _interval(row.interval),
            number(row.mean), number(row.std), number(row.minimum), number(row.maximum),
        )
        for row in result.rows
    ]  # fmt: skip
    best = [row.action for row in result.rows].index(result.action)
    columns = ("action", "visits", "share", "ERM", "90 % interval", "mean", "std", "min", "max")
    out.print(table(columns, rows, best=best))
    samples = result.samples(result.action)
    if samples.size > 1:
        quantiles = np.quantile(samples, _LEVELS)
        marks = "  ".join(f"{100 * level:g} % {number(q, 4)}" for level, q in zip(_LEVELS, quantiles, strict=True))
        out.print(f"Sampled total {result.sense} after {result.label}:  {marks}")
        out.print(f"  {number(samples.min(), 4)} |{sparkline(samples)}| {number(samples.max(), 4)}")
    out.print(
        f"[dim]{result.iterations:,} iterations, {result.simulator_steps:,} simulated steps, {result.nodes:,} nodes, "
        f"{result.bytes / 1e6:.1f} MB, {result.seconds:.2f} s; {result.stopped.message}[/dim]"
    )
    advice = exploration_advice(result, constant)
    if advice:
        out.print(f"[yellow]{advice}[/yellow]")


def exploration_advice(result: Any, constant: Any) -> str:
    """Say so when the search settled on one action after hardly trying another."""
    if len(result.rows) < 2 or isinstance(constant, tuple):
        return ""
    rare = min(result.rows, key=lambda row: row.visits)
    spread = max((row.std for row in result.rows if row.std == row.std), default=0.0)
    if rare.visits >= 100 or constant >= spread or max(row.share for row in result.rows) < 0.9:
        return ""
    times = "once" if rare.visits == 1 else f"{rare.visits} times"
    return (
        f"{rare.label} was tried only {times}: the exploration constant ({constant:.3g}) is small beside the spread "
        f"of the {result.sense}s ({spread:.3g}). To be surer, raise it: --exploration {spread:.2g}"
    )


def _interval(interval: Any) -> str:
    if not np.isfinite(interval).all():
        return "-"
    return f"{interval.low:.5g} .. {interval.high:.5g}"


def _state_text(problem: Any, state: Any) -> str:
    name = getattr(problem, "state_name", None)
    return str(name(state)) if name is not None else repr(state)
