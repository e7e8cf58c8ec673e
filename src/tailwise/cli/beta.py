"""``tailwise beta``: from a statement about risk to a beta."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tailwise.cli import options as given
from tailwise.cli.output import print_json, say


def command(
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
    from tailwise.cli.models import begun_in, load_solvable
    from tailwise.errors import OptionError
    from tailwise.evaluation import choose_beta
    from tailwise.evaluation.beta_choice import check_statement
    from tailwise.models import tabulate

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
        mdp = tabulate(begun_in(load_solvable(whole), state), progress=True)
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
    from tailwise.errors import OptionError

    expected = "SURE,CHANCE,AMOUNT, such as 30,0.1,100"
    found = given.numbers(text, "--indifference", expected, float)
    if len(found) != 3:
        raise OptionError(f"--indifference must be {expected}, not {text!r}")
    return found[0], found[1], found[2]
