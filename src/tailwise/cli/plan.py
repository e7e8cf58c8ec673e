"""``tailwise plan``: one risk-averse decision, with its risk table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tailwise._progress import followed_plan
from tailwise._results import number, plain
from tailwise.cli import options as given
from tailwise.cli.output import print_json, say, show_plan, show_table

DEFAULT_ITERATIONS = 20_000


def plan(
    *,
    model: given.Model,
    aim: given.Aim,
    planner: given.Planner = "auto",
    iterations: given.Iterations = None,
    seconds: given.Seconds = None,
    until: Annotated[
        str | None, typer.Option(help="Stop earlier: proven, gap:WIDTH or stable:ITERATIONS, as gap:0.05.")
    ] = None,
    state: given.State = None,
    step: given.Step = 0,
    seed: given.Seed = None,
    threads: Annotated[
        int | None,
        typer.Option(
            help="Trees to grow side by side, a thread for each; part of what the result depends on. With --ray: "
            "trees in all, one for each worker if not given."
        ),
    ] = None,
    cluster: given.Cluster,
    bonus: given.Bonus = None,
    max_memory: given.MaxMemory = None,
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
    output: given.Output,
) -> None:
    """Find the action to take now, with the risk of each."""
    from tailwise.cli.models import build_planner, find_state
    from tailwise.errors import OptionError
    from tailwise.planners.make import checkpointed
    from tailwise.planners.protocol import plan_in_threads
    from tailwise.planners.until import from_text
    from tailwise.search import Plan

    output.check()
    cluster.check()
    given.check_memory(max_memory)
    given.check_file(save, "--save")
    given.check_file(checkpoint, "--checkpoint")
    if cluster.ray is not None and checkpoint is not None:
        raise OptionError("--checkpoint is for a search in this process, not on a cluster; leave one of them out")
    if checkpoint is not None and seed is None:
        seed = 0
    if cluster.ray is not None and planner == "auto":
        planner = "tree"
    objective, condition = aim.objective(), None if until is None else from_text(until)
    given.check_work(
        (planner,), threads, seconds=seconds, bonus=bonus, step=step, objective=objective, iterations=iterations
    )
    problem = model.load()
    search: Any = build_planner(problem, objective, planner, bonus=bonus, seed=seed, max_memory=max_memory)
    search.reset(find_state(problem, state), step)
    if iterations is None and seconds is None:
        iterations = DEFAULT_ITERATIONS
    is_exact = hasattr(search, "fixed_policy")  # it tells of one step, whatever the limits
    with followed_plan(True, 1 if is_exact else iterations, None if is_exact else seconds) as watch:
        limits: dict[str, Any] = {
            "iterations": iterations, "seconds": seconds, "until": condition, "progress": watch,
        }  # fmt: skip
        result: Any
        if cluster.ray is not None:
            result = cluster.run("plan", search, **limits, trees=threads)
        else:
            limits |= {"threads": 1 if threads is None else threads, **checkpointed(search, checkpoint, 60.0)}
            if output.report is None:
                result = plan_in_threads(search, **limits)
            else:
                from tailwise.report import recorded_plan

                result = recorded_plan(search, **limits)
    output.save("decision", result)
    if save is not None:
        if not hasattr(result, "save"):
            raise OptionError(f"plans of {planner} cannot be saved; use --json")
        result.save(save)
    if output.json:
        found = plain(result)
        found = found if isinstance(found, dict) else {"action": result.action}
        found["planner"] = found.get("planner") or planner
        print_json({"model": problem.name, "seed": seed, **found})
        return given.end(result)
    if isinstance(result, Plan):
        show_plan(problem, result, planner)
        advice = bonus_advice(search, result)
        if advice:
            say(advice, "yellow")
    else:
        _show_other(result)
    for name, file in (("plan", save), ("checkpoint", checkpoint)):
        if file is not None:
            say(f"{name}: {file}")
    return given.end(result)


def _show_other(result: Any) -> None:
    """Show what a planner found whose plans are of a kind of their own: its words, or its action and rows."""
    if "__str__" in vars(type(result)):
        say(str(result))
        return
    say(f"Take {getattr(result, 'label', result.action)}.", "bold green")
    found: Any = plain(result)
    rows = found.get("rows") if isinstance(found, dict) else None
    if rows:
        columns = [name for name, cell in rows[0].items() if not isinstance(cell, (list, dict))]
        shown = [[number(row[k]) if isinstance(row[k], float) else str(row[k]) for k in columns] for row in rows]
        show_table(columns, shown, spare=columns[:0:-1])


def bonus_advice(search: Any, result: Any) -> str:
    """Say so when a tree search with a constant in its bonus settled on one action after hardly trying another."""
    bonus = getattr(getattr(search, "options", None), "bonus", None)
    if bonus is None or len(result.rows) < 2:
        return ""
    from tailwise.bonuses import LogBonus, PolynomialBonus

    if not isinstance(bonus, (PolynomialBonus, LogBonus)):
        return ""
    constant, rare = bonus.constant, min(result.rows, key=lambda row: row.visits)
    spread = max((row.std for row in result.rows if row.std == row.std), default=0.0)
    is_small = isinstance(constant, (int, float)) and constant < spread
    if rare.visits >= 100 or not is_small or max(row.share for row in result.rows) < 0.9:
        return ""
    times = "once" if rare.visits == 1 else f"{rare.visits} times"
    return (
        f"{rare.label} was tried only {times}: the constant of the bonus ({constant:.3g}) is small beside the spread "
        f"of the {result.sense}s ({spread:.3g}). To be surer: --bonus {spread:.2g}, or --planner auto"
    )
