"""``tailwise frontier``, ``beta`` and ``whatif``: what other aversions to risk, and other numbers, do to a decision."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any

import typer

from tailwise._validate import real
from tailwise.cli import options as given
from tailwise.cli.output import print_json, say, say_notes, show_table
from tailwise.errors import FormatError, OptionError

_BETAS = "'auto' or numbers with commas, such as 0,0.1,1"


def frontier(
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
    show_table(
        tuple(columns),
        [rows[k] for k in found.shown],
        spare=spare,
        texts=[name for name in columns if name.startswith("differs")],
    )
    for said in found.in_words:
        say(said)
    unused = given.unused_limits(iterations, None) if found.exact else ""
    if unused:
        say(unused)


def beta(
    *,
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A domain or model file; --level and --budget need it.")
    ] = None,
    level: Annotated[float | None, typer.Option(help="0.95: the worst 5 % are what counts.")] = None,
    budget: Annotated[
        float | None, typer.Option(help="The total should be worse than this with at most --probability.")
    ] = None,
    probability: Annotated[float | None, typer.Option(help="Goes with --budget, and may go with --disaster.")] = None,
    indifference: Annotated[
        str | None,
        typer.Option(
            metavar="SURE,CHANCE,AMOUNT", help="SURE for certain is as good as AMOUNT with probability CHANCE."
        ),
    ] = None,
    disaster: Annotated[
        float | None, typer.Option(help="A cost, beyond the ordinary, that would be a disaster.")
    ] = None,
    state: given.State = None,
    log: given.Log = False,
    horizon: given.Horizon = None,
    discount: given.Discount = None,
    json: given.Json = False,
) -> None:
    """Choose beta from what you can say about risk; with a model, see what it does to the decision."""
    from tailwise.cli.models import find_state, load_solvable
    from tailwise.evaluation import choose_beta
    from tailwise.evaluation.beta_choice import check_statement
    from tailwise.models import tabulate
    from tailwise.models.simulator import begun_in

    said: dict[str, Any] = {
        "level": level, "budget": budget, "probability": probability, "disaster": disaster,
        "indifference": None if indifference is None else _triple(indifference),
    }  # fmt: skip
    check_statement(**said)  # before a large model is loaded
    mdp = None
    if model is None and not (state is horizon is discount is None and not log):
        raise OptionError("--state, --horizon, --discount and --log are of a MODEL, and none is given")
    if model is not None:
        whole = given.Model(model, log=log, horizon=horizon, discount=discount)
        loaded = load_solvable(whole)
        begun = loaded if state is None else begun_in(loaded, find_state(loaded, state))
        mdp = tabulate(begun, progress=True)
    choice = choose_beta(mdp, **said, progress=True)
    if json:
        print_json(choice)
        return
    say(f"beta = {choice.beta:.6g}", "bold")
    say(f"from {choice.formula}")
    for text in (choice.sentence, choice.effect):
        if text:
            say(text)


def _triple(text: str) -> tuple[float, float, float]:
    """Return the three numbers of ``--indifference``."""
    expected = "SURE,CHANCE,AMOUNT, such as 30,0.1,100"
    found = given.numbers(text, "--indifference", expected, float)
    if len(found) != 3:
        raise OptionError(f"--indifference must be {expected}, not {text!r}")
    return found[0], found[1], found[2]


def whatif(
    *,
    model: given.Model,
    aim: given.Aim,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="CHANGE",
            help='A scenario, as "cost[run,failed]=60000" or "p[run,good,failed]*=1.5"; again for more.',
        ),
    ] = None,
    scenarios: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Scenarios in a file: columns scenario and change, a line per change."),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NUMBER",
            help='Find where the decision turns if this changes, as "cost[run,failed]"; again for more.',
        ),
    ] = None,
    spread: Annotated[
        float | None, typer.Option(help="With --vary: also show each by this share less and more; 0.2 if not given.")
    ] = None,
    output: given.Output,
) -> None:
    """Change numbers of a model, and see what it does to the decision. Each table is solved exactly."""
    from tailwise.cli.models import load_solvable
    from tailwise.evaluation import sensitivity, what_if
    from tailwise.models import tabulate

    output.check()
    objective = aim.objective()
    asked = {**_from_file(scenarios), **{one: [one] for one in change or ()}}
    if not asked and not vary:
        raise OptionError('nothing is changed: give --set "cost[state,action]*=1.2", --scenarios or --vary')
    if spread is not None and not vary:
        raise OptionError("--spread goes with --vary: nothing is spread without it")
    spread = real(0.2 if spread is None else spread, "spread", low=0.0, high=1.0, ends="()")
    table = tabulate(load_solvable(model, aim.beta), progress=True)
    found: list[Any] = []
    if asked:
        found.append(what_if(table, objective, asked, progress=True))
    if vary:
        found.append(sensitivity(table, objective, vary, spread=spread, progress=True))
    used = {"objective": objective.words, "spread": spread if vary else None}
    output.save("what_if", found, model=table, settings=used)
    if output.json:
        print_json({"model": table.name, **{key: one for result in found for key, one in result.to_dict().items()}})
        return
    for result in found:
        columns = result.columns
        show_table(tuple(columns), list(zip(*columns.values(), strict=True)), title=result.headline)
    if vary:
        say("A decision that turns and turns back between two of the factors that were tried is not seen.")


def _from_file(path: Path | None) -> dict[str, list[str]]:
    """Return the changes of each scenario of a CSV file."""
    if path is None:
        return {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise FormatError(f"--scenarios: {path} cannot be read ({error.strerror})") from None
    if not rows or not {"scenario", "change"} <= set(rows[0]):
        raise FormatError(f"--scenarios: {path} needs the columns scenario and change, and a line per change")
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(str(row["scenario"]), []).append(str(row["change"]))
    return found
