"""``tailwise frontier``: what each beta would do, side by side."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tailwise.cli import options as given
from tailwise.cli.output import print_json, say, say_notes, show_table

_BETAS = "'auto' or numbers with commas, such as 0,0.1,1"


def command(
    *,
    model: given.Model,
    betas: Annotated[
        str, typer.Option(help="auto, or increasing betas with commas; a table is traced from first to last.")
    ] = "auto",
    exceed: Annotated[
        float | None, typer.Option(metavar="TOTAL", help="Also show the probability that the total is worse than this.")
    ] = None,
    planner: given.Planner = "auto",
    episodes: Annotated[
        int | None,
        given.count(
            "--episodes",
            "-e",
            help="Simulators: episodes of each beta; 200, or fewer where they would take over a minute.",
        ),
    ] = None,
    iterations: given.Iterations = None,
    seed: given.Seed = 0,
    threads: given.Threads = 1,
    output: given.Output,
) -> None:
    """Lay out the plans from risk-neutral to worst case: where each is best, and what its tail costs."""
    from tailwise._validate import real
    from tailwise.cli.models import with_horizon
    from tailwise.evaluation import frontier as lay_out
    from tailwise.evaluation.risk_frontier import checked_betas

    output.check()
    limits: dict[str, Any] = {"kind": planner, "episodes": episodes, "iterations": iterations}
    wanted = betas if betas == "auto" else given.numbers(betas, "--betas", _BETAS, float)
    if not isinstance(wanted, str):
        checked_betas(wanted)
    if exceed is not None:
        real(exceed, "--exceed")
    given.check_work((planner,), threads, episodes=episodes, iterations=iterations)
    problem = with_horizon(model.load(), model)
    found = lay_out(problem, wanted, budget=exceed, **limits, seed=seed, threads=threads, progress=True)
    used: dict[str, Any] = {"betas": betas, "exceed": exceed}
    if not found.exact:
        used |= {"planner": planner, "episodes": found.episodes, "iterations": found.iterations, "seed": seed}
    output.save("frontier", found, model=problem, settings=used)
    if output.json:
        print_json({"model": problem.name, **found.to_dict()})
        return
    say_notes(problem)
    columns = found.columns
    spare = ("std", "CVaR 90 %", "CVaR 99 %", "price", "ERM")
    rows = list(zip(*columns.values(), strict=True))
    show_table(tuple(columns), rows, spare=spare, texts=[name for name in columns if name.startswith("differs")])
    for said in found.in_words:
        say(said)
