"""``tailwise explore``: a local page to move beta, budget and state, and to play an episode step by step."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tailwise.cli import options as given
from tailwise.cli.output import say


def command(
    *,
    model: given.Model,
    beta: Annotated[float, typer.Option("--beta", "-b", help="Risk level to begin with.")] = 0.0,
    iterations: given.Iterations = None,
    planner: given.Planner = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the planner and of what happens in the episodes.")] = 0,
    port: Annotated[int, typer.Option(help="Port of this machine; a free one if not given.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open nothing.")] = False,
) -> None:
    """Explore decisions on a local page: what each beta does, and an episode step by step. Ctrl-C ends it."""
    from tailwise._validate import integer, real
    from tailwise.cli.models import with_horizon
    from tailwise.explore import explore

    real(beta, "beta")
    integer(seed, "seed", low=0)
    integer(port, "port", low=0, high=65535)
    given.check_work((planner,), iterations=iterations)
    problem = with_horizon(model.load(), model)
    begun: dict[str, Any] = {"beta": beta, "kind": planner, "seed": seed}
    if iterations is not None:
        begun["iterations"] = iterations
    explore(problem, **begun, port=port, open_browser=not no_browser, announce=say)
