"""``tailwise plan``: one decision, searched, with its risk table; and ``tailwise solve``: the exact optimum."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailwise._progress import activity, followed_plan
from tailwise._results import number, plain
from tailwise.cli import options as given
from tailwise.cli.output import (
    check_file,
    check_table,
    measures,
    print_json,
    save_table,
    say,
    show_measures,
    show_plan,
    show_table,
)
from tailwise.errors import OptionError

if TYPE_CHECKING:
    from tailwise.risk.objectives import Objective


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
    from tailwise.planners.make import checkpointed
    from tailwise.planners.protocol import plan_in_threads
    from tailwise.planners.until import from_text
    from tailwise.search import Plan

    output.check()
    cluster.check()
    given.check_memory(max_memory)
    check_file(save, "--save")
    check_file(checkpoint, "--checkpoint")
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
    unused = given.unused_limits(iterations, seconds)
    if not unused:
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
        if is_exact and unused:
            say(unused)
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


def solve(
    *,
    model: given.Model,
    aim: given.Aim,
    state: given.State = None,
    step: given.Step = 0,
    criterion: Annotated[
        str,
        typer.Option(
            help="Of what --beta's ERM is taken: the total; recursive: each step and what follows, anew; average: "
            "the rate for ever. The last two go without a horizon (--horizon none)."
        ),
    ] = "total",
    iterations: Annotated[
        int | None,
        given.count(
            "--iterations", "-n",
            help="Do not solve: learn from so many episodes, as 1e4, and judge the plan on fresh ones. For models "
            "that cannot list their outcomes.",
        ),
    ] = None,
    episodes: Annotated[
        int | None, given.count("--episodes", "-e", help="Fresh episodes, with -n; 2000 if not given.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of all randomness, with -n; 0 if not given.")] = None,
    threads: given.Threads = 1,
    table: given.Table = None,
    output: given.Output,
) -> None:  # fmt: skip
    """Solve a table, or a simulator with outcomes, exactly: for ERM (the paper's ERM-BI) or other objectives."""
    from tailwise.cli.models import find_state, load_solvable
    from tailwise.evaluation import sampled_planning
    from tailwise.exact import solve as solved
    from tailwise.models.simulator import begun_in, is_partly_observed
    from tailwise.planners import ExactPlanner
    from tailwise.risk.criteria import Average, of_criterion
    from tailwise.risk.objectives import ERM, EVaR, Expectation

    output.check()
    check_table(table, "--policy")
    objective = of_criterion(aim.objective(), criterion)
    level = getattr(getattr(objective, "risk", objective), "level", 0.95)
    if iterations is not None and (step or state is not None):
        raise OptionError("--iterations samples whole episodes: leave out --step and --state")
    if iterations is None and (episodes is not None or seed is not None):
        raise OptionError("--episodes and --seed go with --iterations: without it nothing is drawn")
    episodes, seed = 2000 if episodes is None else episodes, seed or 0
    if step and not isinstance(objective, ERM):
        raise OptionError(f"the {objective.words} is of the whole total: it is planned from step 0, not {step}")
    given.check_work((), threads, step=step, iterations=iterations, episodes=episodes)
    problem: Any = model.load()
    is_hidden = is_partly_observed(problem)
    if table is not None and (iterations is not None or is_hidden):
        raise OptionError("--policy is the table of an exact policy over states that are seen")
    if iterations is not None:
        limits: dict[str, Any] = {"iterations": iterations, "episodes": episodes, "seed": seed, "progress": True}
        found = sampled_planning(problem, objective, **limits)
        output.save_document(lambda: _sampled_report(found, problem, objective, limits))
        if output.json:
            content = {name: value for name, value in found.to_dict().items() if name != "returns"}
            print_json({"model": getattr(problem, "name", ""), "sense": problem.sense, "seed": seed, **content})
            return
        say(str(found))
        show_measures({"this policy": found.returns}, level)
        say("An estimate: of outcomes too rare to be drawn it knows nothing.")
        return
    is_erm = isinstance(objective, ERM)
    if is_hidden:
        if step or state is not None:
            raise OptionError("the state is not seen: solve plans from the start; leave out --step and --state")
        plan = solved(problem, objective, progress=True).plan()
        output.save("decision", plan)
        if output.json:
            frame = {"horizon": problem.horizon, "discount": problem.discount}
            print_json({"model": problem.name, **frame, **plan.to_dict()})
            return
        show_plan(problem, plan)
        return
    problem, gap = load_solvable(model, aim.beta if is_erm else None, problem), 0.0
    totals: dict[str, Any] = {}
    if is_erm:
        planner = ExactPlanner(problem, objective, threads=threads)
        planner.reset(find_state(problem, state), step)
        plan = planner.decision(progress=True)
    else:  # of the whole total, from the first decision on
        begun = problem if state is None else begun_in(problem, find_state(problem, state))
        policy = solved(begun, objective, threads=threads, progress=True)
        with activity("laying out the totals"):
            plan, gap = policy.plan(), policy.gap
            if not isinstance(objective, Average):
                neutral = solved(policy.mdp, Expectation())
                totals = {"this policy": policy.distribution(), "risk-neutral": neutral.distribution()}
    save_table(lambda: plan.policy.to_columns(), table, "policy")
    output.save("decision", plan)
    if output.json:
        content = {"gap": gap, "measures": {k: measures(law, level) for k, law in totals.items()}}
        print_json({
            "model": problem.name, "horizon": problem.horizon, "discount": problem.discount, **plan.to_dict(),
            **content,
        })  # fmt: skip
        return
    show_plan(problem, plan)
    if gap:
        say(f"No policy is better by more than {gap:.2g}.")
    if totals:
        show_measures(totals, level)
    if objective.needs_accrued:
        say("Its actions depend on what was paid so far; planning again for the rest is another objective.")
    elif isinstance(objective, EVaR):
        say(f"It is the policy of least ERM at beta {plan.beta:.6g}; keep to that beta at every step.")


def _sampled_report(found: Any, model: Any, objective: Objective, limits: dict[str, Any]) -> Any:
    from tailwise.report import literal, plans_report

    said = (
        f"{literal(str(found))} Of outcomes too rare to be drawn it knows nothing. Its actions depend on what was paid "
        "so far."
    )
    used = {"objective": objective.words, **{name: limits[name] for name in ("iterations", "seed")}}
    return plans_report(
        f"Take {literal(found.label)}", said, [("this policy", found.returns)], model=model, settings=used
    )
