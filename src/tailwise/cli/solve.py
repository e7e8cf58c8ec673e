"""``tailwise solve``: the exact optimum of a table, or of a simulator that lists its outcomes, for any objective."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailwise.cli import options as given
from tailwise.cli.output import measures, print_json, say, show_measures, show_plan

if TYPE_CHECKING:
    from tailwise.risk.objectives import Objective


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
    from tailwise._progress import activity
    from tailwise.cli.models import begun_in, find_state, load_solvable
    from tailwise.errors import OptionError
    from tailwise.evaluation import sampled_planning
    from tailwise.exact import solve as solved
    from tailwise.models.simulator import is_partly_observed
    from tailwise.planners import ExactPlanner
    from tailwise.risk.criteria import Average, of_criterion
    from tailwise.risk.objectives import ERM, EVaR, Expectation

    output.check()
    given.check_table(table, "--policy")
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
        policy = solved(begun_in(problem, state), objective, threads=threads, progress=True)
        with activity("laying out the totals"):
            plan, gap = policy.plan(), policy.gap
            if not isinstance(objective, Average):
                neutral = solved(policy.mdp, Expectation())
                totals = {"this policy": policy.distribution(), "risk-neutral": neutral.distribution()}
    given.save_table(lambda: plan.policy.to_columns(), table, "policy")
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
