"""``tailwise plan``: one risk-averse decision, with its risk table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tailwise._plain import plain
from tailwise._progress import followed_plan
from tailwise._text import number
from tailwise.cli import options as given
from tailwise.cli.output import check_report, print_json, save_decision, say, show_table, sparkline

DEFAULT_ITERATIONS = 20_000
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("plan")
    def plan(
        model: given.Model,
        beta: given.BetaOrLevel = None,
        planner: given.Planner = "auto",
        iterations: given.Iterations = None,
        seconds: given.Seconds = None,
        until: Annotated[
            str | None, typer.Option(help="Stop earlier: proven, gap:WIDTH or stable:ITERATIONS, as gap:0.05.")
        ] = None,
        state: given.State = None,
        step: Annotated[int, typer.Option(help="Decide at this step h; the risk level is beta * discount^h.")] = 0,
        seed: given.Seed = None,
        threads: Annotated[
            int | None,
            typer.Option(
                help="Trees to grow side by side, a thread for each; part of what the result depends on. With --ray: "
                "trees in all, one for each worker if not given."
            ),
        ] = None,
        ray: given.Ray = None,
        workers: given.Workers = None,
        bonus: given.Bonus = None,
        level: given.Level = None,
        horizon: given.Horizon = None,
        discount: given.Discount = None,
        report: given.Report = None,
        save: Annotated[
            Path | None, typer.Option(metavar="FILE", help="Also save the plan, for tailwise.load_plan.")
        ] = None,
        checkpoint: Annotated[
            Path | None,
            typer.Option(
                metavar="FILE",
                help="Save the search every minute and at the end. If it was interrupted, or killed, the same command "
                "goes on from there, to the same result. The seed is then 0 if not given.",
            ),
        ] = None,
        json: given.Json = False,
    ) -> None:
        """Find the action to take now, with the risk of each."""
        from tailwise.cli.models import build_planner, find_state, load_model, settle_aim
        from tailwise.errors import OptionError
        from tailwise.planners.protocol import checkpointed, plan_in_threads
        from tailwise.planners.until import from_text
        from tailwise.search import Plan

        check_report(report)
        if save is not None and (save.is_dir() or not save.parent.is_dir()):
            raise OptionError(f"--save must be a file in a folder that exists, not {save}")
        if checkpoint is not None and seed is None:
            seed = 0
        weight, planner = settle_aim(beta, planner, level)
        condition = None if until is None else from_text(until)
        problem = load_model(model, horizon=horizon, discount=discount)
        given.check_workers(ray, workers)
        if ray is not None and checkpoint is not None:
            raise OptionError("--checkpoint is for a search in this process, not on a cluster; leave one of them out")
        if ray is not None and planner == "auto":
            planner = "tree"
        search = build_planner(problem, weight, planner, bonus=bonus, level=level, seed=seed)
        search.reset(find_state(problem, state), step)
        if iterations is None and seconds is None:
            iterations = DEFAULT_ITERATIONS
        with followed_plan(True, iterations, seconds) as watch:
            limits: dict[str, Any] = {
                "iterations": iterations, "seconds": seconds, "until": condition, "progress": watch,
            }  # fmt: skip
            count = 1 if threads is None else threads
            result: Any
            if ray is not None:
                from tailwise import scale

                trees: Any = search
                with given.ray_speaks_aside():
                    result = scale.plan(trees, **limits, trees=threads, address=ray, workers=workers)
            elif report is None or checkpoint is not None:
                limits |= checkpointed(search, checkpoint, 60.0)
                result = plan_in_threads(search, count, **limits)
            else:
                from tailwise.report import recorded_plan

                result = recorded_plan(search, threads=count, **limits)
        if report is not None:
            save_decision(result, report)
        if save is not None:
            if not hasattr(result, "save"):
                raise OptionError(f"plans of {planner} cannot be saved; use --json")
            result.save(save)
        if json:
            found = plain(result)
            found = found if isinstance(found, dict) else {"action": result.action}
            print_json({"model": problem.name, "seed": seed, **found, "planner": getattr(search, "kind", planner)})
        elif isinstance(result, Plan):
            _show(problem, result, search)
        else:
            _show_other(result)
        for name, file in (("plan", save), ("checkpoint", checkpoint)):
            if file is not None and not json:
                say(f"{name}: {file}")
        if getattr(result, "stopped", "") == "interrupted":
            raise typer.Exit(130)


def _show(problem: Any, result: Any, search: Any) -> None:
    from tailwise.bonuses import LogBonus, PolynomialBonus

    for note in getattr(problem, "notes", ()):
        say(f"note: {note}", "dim")
    say(
        f"{problem.name}, horizon {problem.horizon}, discount {problem.discount:g}: in {result.state_name}, "
        f"step {result.step}:"
    )
    say(f"{result.headline}.", "bold green")
    columns = result.columns
    best = [row.action for row in result.rows].index(result.action)
    show_table(tuple(columns), list(zip(*columns.values(), strict=True)), best=best, spare=_spare(columns))
    samples = result.samples(result.action)
    if samples.size > 1:
        quantiles = np.quantile(samples, _LEVELS)
        marks = "  ".join(f"{100 * level:g} % {number(q, 4)}" for level, q in zip(_LEVELS, quantiles, strict=True))
        say(f"Total {result.sense} after {result.label}:  {marks}")
        say(sparkline(samples))
    say(result.work, "dim")
    for note in result.notes:
        say(f"note: {note}", "yellow")
    if result.reason:
        say(f"{result.planner}: {result.reason}", "dim")
    for said in result.how_sure:
        say(said, "yellow" if result.is_bounded and not result.proven else "dim")
    bonus = getattr(getattr(search, "options", None), "bonus", None)
    if isinstance(bonus, (PolynomialBonus, LogBonus)):
        advice = bonus_advice(result, bonus.constant)
        if advice:
            say(advice, "yellow")


def _spare(columns: Iterable[str]) -> tuple[str, ...]:
    """Columns that a narrow screen can do without, the first of them first; never the action and its value."""
    order = ("std", "min", "max", "share", "visits", "trials", "episodes", "mean", "P(best)")
    names = list(columns)[1:]
    return (*(name for name in order if name in names), *(name for name in names[::-1] if name not in order))


def _show_other(result: Any) -> None:
    """Show what a planner found whose plans are of a kind of their own: its words, or its action and rows."""
    if "__str__" in vars(type(result)):
        say(str(result))
        return
    say(f"Take {getattr(result, 'label', result.action)}.", "bold green")
    found = plain(result)
    rows = found.get("rows") if isinstance(found, dict) else None
    if rows:
        columns = [name for name, cell in rows[0].items() if not isinstance(cell, (list, dict))]
        shown = [[number(row[k]) if isinstance(row[k], float) else str(row[k]) for k in columns] for row in rows]
        show_table(columns, shown, spare=columns[:0:-1])


def bonus_advice(result: Any, constant: Any) -> str:
    """Say so when a tree search settled on one action after hardly trying another."""
    if len(result.rows) < 2 or not isinstance(constant, (int, float)):
        return ""
    rare = min(result.rows, key=lambda row: row.visits)
    spread = max((row.std for row in result.rows if row.std == row.std), default=0.0)
    if rare.visits >= 100 or constant >= spread or max(row.share for row in result.rows) < 0.9:
        return ""
    times = "once" if rare.visits == 1 else f"{rare.visits} times"
    return (
        f"{rare.label} was tried only {times}: the constant of the bonus ({constant:.3g}) is small beside the spread "
        f"of the {result.sense}s ({spread:.3g}). To be surer: --bonus {spread:.2g}, or --planner auto"
    )
