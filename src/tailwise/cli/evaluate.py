"""``tailwise evaluate``: play a planner in closed loop and measure the risk of what happens."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import typer

from tailwise._results import amounts, number, span
from tailwise.cli import options as given
from tailwise.cli.output import print_json, say, show_table, sparkline

if TYPE_CHECKING:
    from tailwise.risk.objectives import Objective


def command(
    *,
    model: given.Model,
    aim: given.Aim,
    planner: given.Planner = "auto",
    episodes: given.Episodes = 100,
    iterations: given.Iterations = None,
    seconds: given.Seconds = None,
    seed: given.Seed = None,
    threads: given.Threads = 1,
    cluster: given.Cluster,
    bonus: given.Bonus = None,
    judging: given.Judging,
    table: given.Episodic = None,
    output: given.Output,
) -> None:
    """Play episodes, re-planning at every step, and measure the risk of their totals."""
    from tailwise.cli.models import build_planner
    from tailwise.errors import OptionError
    from tailwise.evaluation import evaluate
    from tailwise.evaluation.returns import episode_columns
    from tailwise.planners import Planner
    from tailwise.search.policy_mixin import DEFAULT_ITERATIONS

    output.check()
    given.check_table(table, "--returns")
    seed = secrets.randbits(32) if seed is None else seed  # one that can be named, and given again
    objective = aim.objective()
    given.check_work(
        (planner,), threads, seconds=seconds, bonus=bonus, objective=objective, episodes=episodes, iterations=iterations
    )
    judging.check()
    cluster.check()
    if cluster.ray is not None and threads != 1:
        raise OptionError("--threads are of this machine, and --ray shares the episodes out: give --workers")
    problem = model.load()
    player = build_planner(problem, objective, planner, bonus=bonus)
    kind, reason = getattr(player, "kind", planner), getattr(player, "reason", "")
    searches = not hasattr(player, "fixed_policy") and isinstance(player, Planner)
    if iterations is None and seconds is None and searches:
        iterations = DEFAULT_ITERATIONS
    how: dict[str, Any] = {
        "episodes": episodes, "iterations": iterations, "seconds": seconds, "seed": seed, "label": kind,
        "progress": True, "partial": True,
    }  # fmt: skip
    if cluster.ray is not None:
        returns = cluster.run("evaluate", problem, player, **how)
    else:
        returns = evaluate(problem, player, threads=threads, **how)
    used = {"model": model.model, "objective": objective.words, "planner": kind, "seed": seed}
    used |= {"iterations": iterations if searches else None, "seconds": seconds}
    given.save_table(lambda: episode_columns([(used, returns.costs)]), table, "returns")
    summary = returns.summary(objective, **vars(judging))
    optimum = exact_optimum(problem, objective)
    used = {"planner": kind, "why": reason or None, "iterations": iterations if searches else None}
    used |= {"seconds": seconds, "episodes": returns.episodes, "seed": seed, "threads": threads}
    output.save("evaluation", returns, summary, model=problem, optimum=optimum, settings=used)
    if output.json:
        print_json({
            "model": model.model, "planner": kind, "reason": reason, "seed": seed, "optimum": optimum,
            "iterations": iterations if searches else None, **summary.to_dict(), "totals": returns.costs,
        })  # fmt: skip
    else:
        rows = [(e.measure, number(e.value), span(e.low, e.high, point=False)) for e in summary.estimates]
        count = f"{returns.episodes:,} episode{'s' * (returns.episodes != 1)}"
        title = f"{kind} on {model.model}: {count}, seed {seed} ({amounts(returns.sense)})"
        show_table(("measure", "value", f"{100 * judging.confidence:g} % interval"), rows, title=title)
        say(sparkline(returns.costs))
        say_optimum(optimum, objective)
        if reason:
            say(f"{kind}: {reason}", "dim")
        say(
            f"intervals (BCa bootstrap) are for what {kind} pays in the long run; an outcome of a probability up "
            f"to {summary.unseen:.2g} may be missing from {count}: it would not show here, nor widen them",
            "dim",
        )
        for note in summary.notes:
            say(f"note: {note}", "yellow")
    if returns.episodes < episodes:
        raise typer.Exit(130)


def exact_optimum(model: Any, objective: Objective) -> float | None:
    """Return the exact optimal ERM or mean of a table that is solved in no time, else None."""
    from tailwise.exact import backward_induction, solve
    from tailwise.models import TabularMDP
    from tailwise.models.simulator import lists_outcomes
    from tailwise.risk.objectives import ERM, Expectation

    if model.horizon is None and lists_outcomes(model):
        return solve(model, objective).value if isinstance(objective, (ERM, Expectation)) else None
    is_quick = isinstance(model, TabularMDP) and model.num_outcomes * model.horizon <= 10**8
    if not is_quick or not isinstance(objective, (ERM, Expectation)):
        return None
    return backward_induction(model, getattr(objective, "beta", 0.0)).value


def say_optimum(optimum: float | None, objective: Objective) -> None:
    """Print the exact optimum where it is known."""
    if optimum is not None:
        say(f"exact optimum, {objective.words}: {number(optimum)}")
