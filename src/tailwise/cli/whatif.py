"""``tailwise whatif``: decisions under changed numbers, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tailwise.cli import options as given
from tailwise.cli.output import print_json, say, show_table


def command(
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
    from tailwise._validate import real
    from tailwise.cli.models import load_solvable
    from tailwise.errors import OptionError
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
    import csv

    from tailwise.errors import FormatError

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
