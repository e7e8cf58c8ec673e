"""``tailwise evaluate``, ``compare`` and ``run``: play planners in closed loop, and measure what happens."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailwise._progress import after, followed
from tailwise._results import MISSING, amounts, number, span, table_suffix, write_table
from tailwise._validate import integer
from tailwise.cli import options as given
from tailwise.cli.output import check_table, print_json, save_table, say, show_table, sparkline
from tailwise.errors import OptionError

if TYPE_CHECKING:
    from tailwise.evaluation import Comparison, Returns, Summary
    from tailwise.risk.objectives import Objective


def evaluate(
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
    from tailwise.evaluation import evaluate
    from tailwise.evaluation.returns import episode_columns
    from tailwise.planners import Planner
    from tailwise.search.policy_mixin import DEFAULT_ITERATIONS

    output.check()
    check_table(table, "--returns")
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
    unused = "" if searches else given.unused_limits(iterations, seconds)
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
    save_table(lambda: episode_columns([(used, returns.costs)]), table, "returns")
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
        if unused:
            say(unused)
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


DEFAULT_PLANNERS = "auto,erm-mcts,acc-mcts,uct"


@dataclass(frozen=True)
class _Run:
    """One planner at one number of iterations, and what it did."""

    planner: str
    iterations: int | None
    returns: Returns
    closed_loop_erm: float | None


def compare(
    *,
    model: given.Model,
    aim: given.Aim,
    planners: Annotated[
        str, typer.Option("--planners", "-p", help="Names, as of 'tailwise evaluate --planner', with commas.")
    ] = DEFAULT_PLANNERS,
    iterations: Annotated[
        str, typer.Option("--iterations", "-n", help="Iterations of each decision; several with commas, as 100,1e4.")
    ] = "1000",
    episodes: given.Episodes = 100,
    seed: given.Seed = 0,
    threads: given.Threads = 1,
    bonus: given.Bonus = None,
    judging: given.Judging,
    integrate: Annotated[
        bool, typer.Option(help="Tables: also integrate exactly what no decision can change.")
    ] = False,
    table: given.Episodic = None,
    output: given.Output,
) -> None:
    """Play several planners against the same luck and compare their risks."""
    from tailwise.evaluation import compare
    from tailwise.evaluation.closed_loop import environment_of
    from tailwise.evaluation.returns import episode_columns
    from tailwise.planners import Planner
    from tailwise.risk.objectives import ERM

    output.check()
    check_table(table, "--returns")
    objective = aim.objective()
    names = [name.strip() for name in planners.split(",") if name.strip()]
    if not names:
        raise OptionError(f"--planners names no planner: {planners!r}")
    sizes = _sizes(iterations)
    _refuse_twice("--planners", names)
    _refuse_twice("--iterations", sizes)
    given.check_work(tuple(names), threads, bonus=bonus, objective=objective, episodes=episodes)
    judging.check()
    problem = model.load()
    if integrate and not (environment_of(problem).is_table and isinstance(objective, ERM)):
        raise OptionError(f"--integrate works on tables only, and with --beta; not on {model.model} for this")
    players = _players(problem, objective, names, bonus)
    wanted = [(name, n) for name, p in players.items() for n in (sizes if isinstance(p, Planner) else [None])]
    runs: list[_Run] = []
    with followed(True, "playing", episodes * len(wanted)) as tick:
        for index, (name, n) in enumerate(wanted):
            limits: dict[str, Any] = {"episodes": episodes, "seed": seed, "threads": threads}
            limits["progress"] = after(index * episodes, tick)
            beta = getattr(objective, "beta", None) if integrate else None
            try:
                runs.append(_play(problem, players[name], name, n, beta, limits))
            except KeyboardInterrupt:
                if not runs:
                    raise
            if len(runs) <= index or runs[-1].returns.episodes < episodes:
                break
    shared = {"model": model.model, "objective": objective.words, "seed": seed}
    save_table(
        lambda: episode_columns(
            ({**shared, "planner": run.planner, "iterations": run.iterations}, run.returns.costs) for run in runs
        ),
        table,
        "returns",
    )
    first = runs[0].returns
    rows = [
        (
            run,
            run.returns.summary(objective, measures=(), **vars(judging)),
            compare(run.returns, first.head(run.returns.episodes), objective, **vars(judging)),
        )
        for run in runs
    ]
    optimum = exact_optimum(problem, objective)
    used = {"planners": ", ".join(names), "iterations": iterations, "episodes": episodes, "seed": seed}
    parts = [(run.returns, summary, versus) for run, summary, versus in rows]
    output.save("comparison", parts, model=problem, optimum=optimum, settings=used)
    if output.json:
        print_json({
            "model": model.model, "episodes": episodes, "seed": seed, "sense": first.sense, "optimum": optimum,
            "planners": [_as_dict(*row) for row in rows],
        })  # fmt: skip
    else:
        _show(f"{model.model}: {episodes} episodes each, on common random numbers ({amounts(first.sense)})", rows)
        say(
            f"{objective.words}; vs first: its value minus that of the first row, episodes paired; +/=/-: better, "
            "equal and worse episodes"
        )
        say_optimum(optimum, objective)
        say(rows[0][1].caveat, "dim")
        for note in dict.fromkeys(note for _, summary, _ in rows for note in summary.notes):
            say(f"note: {note}", "yellow")
    if len(runs) < len(wanted) or runs[-1].returns.episodes < episodes:
        if not output.json:
            say(f"interrupted: {len(runs)} of {len(wanted)} rows", "yellow")
        raise typer.Exit(130)


def _players(problem: Any, objective: Objective, names: list[str], bonus: float | None) -> dict[str, Any]:
    """Build the planners by name; ``--bonus`` is for those that have one."""
    from tailwise.cli.models import build_planner
    from tailwise.planners import find_planner

    players = {}
    with_bonus = [name for name in names if name != "auto" and find_planner(name).bonus is not None]
    if bonus is not None and not with_bonus:
        raise OptionError(f"--bonus is of tree searches, and none of these is one: {', '.join(names)}")
    for name in names:
        takes_bonus = name in with_bonus
        built: Any = build_planner(problem, objective, name, bonus=bonus if takes_bonus else None)
        if name == "auto" and built.kind in names:
            raise OptionError(f"--planners names {built.kind} twice: auto is {built.kind} here; name each once")
        players[f"auto ({built.kind})" if name == "auto" else name] = getattr(built, "fixed_policy", built)
    return players


def _refuse_twice(option: str, wanted: Sequence[object]) -> None:
    """Refuse what is named more than once: the same games would be played again, with the same result."""
    for k, one in enumerate(wanted):
        if one in wanted[:k]:
            raise OptionError(f"{option} names {one} twice; name each once")


def _sizes(text: str) -> list[int]:
    sizes = given.numbers(text, "--iterations", "whole numbers separated by commas", given.whole)
    return [integer(size, "iterations", low=1) for size in sizes]


def _play(
    problem: Any, player: Any, name: str, iterations: int | None, beta: float | None, options: dict[str, Any]
) -> _Run:
    """Play one planner, and where a beta is given integrate its risk."""
    from tailwise.evaluation import evaluate
    from tailwise.exact import policy_risk

    label = name if iterations is None else f"{name}, n = {iterations}"
    if beta is not None and iterations is not None:
        from tailwise.reproduction import conditional_returns

        found = conditional_returns(problem, player, iterations=iterations, label=label, **options)
        return _Run(name, iterations, found.returns, found.erm(beta))
    returns = evaluate(problem, player, iterations=iterations, label=label, partial=True, **options)
    return _Run(name, iterations, returns, None if beta is None else policy_risk(problem, player, beta))


def _as_dict(run: _Run, summary: Summary, versus: Comparison) -> dict[str, Any]:
    own = {"planner": run.planner, "iterations": run.iterations, "closed_loop_erm": run.closed_loop_erm}
    return {**own, **summary.to_dict(), **versus.to_dict()}


def _show(title: str, rows: list[tuple[_Run, Summary, Comparison]]) -> None:
    percent = f"{100 * rows[0][1].confidence:g} %"
    columns = (
        "planner", "n", "value", f"{percent} interval", "mean", "CVaR95", "vs first",
        f"{percent} of the difference", "+/=/-", "closed loop",
    )  # fmt: skip
    cells = [
        (
            run.planner,
            MISSING if run.iterations is None else f"{run.iterations:,}",
            number(summary.value, 5),
            span(*summary.estimates[0], digits=4, point=False),
            number(summary.mean, 5),
            number(summary.cvar_95, 5),
            f"{versus.difference:+.3g}",
            span(*versus.interval, digits=3, point=False),
            f"{versus.better}/{versus.equal}/{versus.worse}",
            number(run.closed_loop_erm, 5),
        )
        for run, summary, versus in rows
    ]
    spare = ("closed loop", "CVaR95", "mean", "+/=/-", columns[7], columns[3])
    show_table(columns, cells, title=title, spare=spare)


def run(
    *,
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="Models, planners, objectives and seeds.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the results, if not the file's own.")] = None,
    processes: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 1,
    parquet: Annotated[bool, typer.Option("--parquet", help="Write Parquet, not CSV (needs pyarrow).")] = False,
    output: given.Output,
) -> None:
    """Play a study, or go on with one that was interrupted, and compare its planners in pairs."""
    from tailwise.evaluation.study import load_study

    output.check()
    suffix = table_suffix(".parquet" if parquet else ".csv")
    if not study.is_file():
        raise OptionError(f"there is no file {study}")
    wanted, own = load_study(study)
    found = wanted.run(out or own, processes=processes, progress=True)
    tables = {"results": found.to_columns(), "returns": found.episode_columns()}
    written = [write_table(columns, found.folder / f"{name}{suffix}") for name, columns in tables.items()]
    output.save_document(lambda: _report(found))
    if output.json:
        print_json({"folder": str(found.folder), "rows": found.rows})
        return
    columns = ("planner", "value", "90 % interval", "against the first", "90 % of it", "mean", "worst", "seconds")
    for (model, objective), rows in groupby(found.rows, lambda row: (row["model"], row["objective"])):
        cells = [
            (
                row["planner"], number(row["value"]), span(row["low"], row["high"]),
                number(row["difference"], 4), span(row["difference_low"], row["difference_high"], 4),
                number(row["mean"]), number(row["worst"]), number(row["seconds"], 3),
            )
            for row in rows
        ]  # fmt: skip
        show_table(columns, cells, title=f"{model}: {objective}", spare=("seconds", "worst", "mean"))
    where = " and ".join(map(str, written))
    say(f"{found.rows[0]['episodes']:,} episodes a row, on the same luck; in full: {where}")


def _report(found: Any) -> Any:
    """Return one document: a comparison for each model and objective, one after the other."""
    from tailwise.formats import load
    from tailwise.report import Document, Heading, comparison_report, literal

    blocks: list[Any] = []
    for run, objective, parts in found.groups:
        rows = [(returns, returns.summary(objective), versus) for returns, versus in parts]
        used = {"objective": objective.words, "seeds": str(found.study.seeds), "episodes": found.study.episodes}
        part = comparison_report(rows, model=load(run.model, **dict(run.model_options)), settings=used)
        blocks += [Heading(f"{literal(run.model)}: {literal(objective.words)}"), *part.blocks]
    return Document("A study", tuple(blocks))
