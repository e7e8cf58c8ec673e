"""``tailwise frontier``: what each beta would do, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tailwise._text import number
from tailwise.cli import options as given
from tailwise.cli.output import check_report, print_json, save_report, say, show_table


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("frontier")
    def frontier(
        model: given.Model,
        betas: Annotated[
            str,
            typer.Option(help="auto, or increasing betas with commas; a table is traced from first to last."),
        ] = "auto",
        budget: Annotated[
            float | None, typer.Option(help="Show the probability that the total is worse than this.")
        ] = None,
        planner: Annotated[str, typer.Option("--planner", "-p", help="Planner for simulators.")] = "auto",
        episodes: given.Episodes = 200,
        iterations: given.Iterations = None,
        seed: given.Seed = 0,
        threads: given.Threads = 1,
        horizon: given.Horizon = None,
        discount: given.Discount = None,
        plot: Annotated[Path | None, typer.Option(help="Draw mean against 95 % CVaR into this PNG or SVG.")] = None,
        report: given.Report = None,
        json: given.Json = False,
    ) -> None:
        """Lay out the plans from risk-neutral to worst case: where each is best, and what its tail costs."""
        from tailwise.cli.models import load_model, load_solvable
        from tailwise.evaluation import frontier as lay_out
        from tailwise.models import TabularMDP

        check_report(report)
        problem = load_model(model, horizon=horizon, discount=discount)
        if isinstance(problem, TabularMDP):
            problem = load_solvable(model, horizon=horizon, discount=discount)
        found = lay_out(
            problem, betas if betas == "auto" else _numbers(betas), budget=budget, kind=planner, episodes=episodes,
            iterations=1000 if iterations is None else iterations, seed=seed, threads=threads, progress=True,
        )  # fmt: skip
        if plot is not None:
            _draw(found, plot)
        if report is not None:
            from tailwise.report import frontier_report

            used = {"betas": betas, "budget": budget}
            if not found.exact:
                used |= {"planner": planner, "episodes": episodes, "iterations": iterations or 1000, "seed": seed}
            save_report(frontier_report(found, model=problem, settings=used), report)
        if json:
            points = [{key: value for key, value in vars(p).items() if key != "law"} for p in found.points]
            print_json(
                {
                    "model": problem.name, "sense": found.sense, "exact": found.exact, "certified": found.certified,
                    "budget": budget, "switches": found.switches, "points": points,
                }
            )  # fmt: skip
            return
        for note in getattr(problem, "notes", ()):
            say(f"Note: {note}", "dim")
        _show(found)


def _numbers(text: str) -> list[float]:
    """Return the betas of ``--betas``."""
    from tailwise.errors import OptionError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(f"--betas must be 'auto' or numbers with commas, such as 0,0.1,1, not {text!r}") from None


def _show(found: Any) -> None:
    """Print the frontier for people."""
    columns = ["first action", "beta", "mean", "std", "ERM", "CVaR 90 %", "CVaR 95 %", "CVaR 99 %", "worst", "price"]
    if found.budget is not None:
        columns.insert(-1, "worse than budget")
    rows = []
    for point in found.points:
        betas = number(point.beta) if point.low == point.high else f"{point.low:.7g} to {point.high:.7g}"
        cells = [
            point.label + (" (dominated)" if point.dominated else ""), betas,
            *map(number, (point.mean, point.std, point.erm, *point.cvar, point.worst)),
        ]  # fmt: skip
        if found.budget is not None:
            cells.append(number(point.exceedance))
        rows.append([*cells, number(point.price)])
    show_table(columns, rows, spare=("std", "CVaR 90 %", "CVaR 99 %", "price", "ERM"))
    if found.switches:
        say(f"The first action changes at beta = {', '.join(f'{beta:.8g}' for beta in found.switches)}.")
    say("price: mean given up per unit of 95 % CVaR saved, against the line above. ERM is at the interval's lower end.")
    if not found.exact:
        say("Sampled, closed loop, on common random numbers; ERM is uncertain, see --json for 90 % intervals.", "dim")
    elif not found.certified:
        say("More policies may be optimal on short intervals in between: the limit of solves was reached.", "dim")


def _draw(found: Any, path: Path) -> None:
    """Draw mean against 95 % CVaR."""
    from tailwise.errors import require

    figures = require("matplotlib.figure", "report", "the plot of a frontier")
    figure = figures.Figure(figsize=(6.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for dominated, colour in ((False, "#0072B2"), (True, "#D55E00")):
        chosen = [point for point in found.points if point.dominated is dominated]
        label = "dominated" if dominated else "on the frontier"
        if chosen:
            axes.plot([p.mean for p in chosen], [p.cvar[1] for p in chosen], "o", color=colour, label=label)
    for point in found.points:
        axes.annotate(f"{point.label}, beta {point.low:.3g}", (point.mean, point.cvar[1]), fontsize=7)
    axes.set(xlabel=f"mean {found.sense}", ylabel="95 % CVaR")
    axes.legend()
    figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)
